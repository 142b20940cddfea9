# Two commands: `make demo` shows what bornfair does, `make test` checks all of it.
# Both set up a local .venv first; nothing else is needed but Python 3.11+, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One stamp per set of packages: a second run finds it and starts at once.
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench

.PHONY: demo test lint format bench nightly clean

demo: $(RUN)
	@$(BIN)/bornfair demo

# A file's tests run in one process, so that what takes long to set up is set up once.
test: lint
	@$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(DEV)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: $(DEV)
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# 20,000 random small models, each engine's word against counting out. Some twenty minutes.
nightly: $(DEV)
	@cd tests && ../$(BIN)/python nightly.py 20000

# Installs PyTorch for the comparison; bornfair itself never needs it.
bench: $(BENCH)
	@$(BIN)/bornfair bench speed
	@$(BIN)/bornfair bench scaling

clean:
	rm -rf $(VENV) demo-output bench-output .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bornfair needs Python 3.11 or newer, found " + sys.version.split()[0] + "; run: make PYTHON=python3.11 " + "$(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV): pyproject.toml | $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(RUN)

$(BENCH): $(DEV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@
