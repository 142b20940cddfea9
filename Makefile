# Two commands: `make demo` shows what bornfair does, `make test` checks all of it. `make demo` installs the library
# only, `make test` bornfair-bench (the folder bench) too.
# Both set up a local .venv first; nothing else is needed but Python 3.11+, pip and make.

PYTHON ?= python3
VENV ?= .venv
# Which versions are installed: constraints.txt, the newest admitted, or floors.txt, the lowest.
PINS ?= constraints.txt
BIN := $(VENV)/bin
# One stamp per set of packages: a second run finds it and starts at once.
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
TORCH := $(VENV)/.installed-torch
CLUSTER := $(VENV)/.installed-cluster

.PHONY: demo test check golden torch cluster floors proofs lint format bench nightly pins clean

demo: $(RUN)
	@$(BIN)/bornfair demo

# A file's tests run in one process, so that what takes long to set up is set up once.
test: lint
	@$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# Lint, types and the tests not marked slow, in some three minutes: while working.
check: lint
	@$(BIN)/pytest -n 2 --dist loadfile -m 'not slow'

# Records the answers to fixed queries in tests/golden/expected, or (CHECK=1) compares them: status 1 if one has changed.
golden: $(DEV)
	@$(BIN)/python tests/golden/record.py $(if $(CHECK),--check) $(if $(ONLY),--only $(ONLY))

# The tests that need PyTorch, which `make test` skips where it is not installed.
torch: $(TORCH)
	@BORNFAIR_NEED_TORCH=1 $(BIN)/pytest tests/models/importers/test_torch.py bench/tests/experiments/test_speed.py

# The tests that start a Ray and a Dask cluster on this machine, which `make test` skips where these are not installed.
cluster: $(CLUSTER)
	@BORNFAIR_NEED_CLUSTER=1 $(BIN)/pytest tests/parallel

# All of `make test` at the lowest versions that pyproject.toml admits.
floors:
	@$(MAKE) test VENV=.venv-floors PINS=floors.txt

# The theorems of docs/theory.md, checked by Coq in seconds. Needs Coq and no package of ours.
proofs:
	@$(PYTHON) proofs/check.py

lint: $(DEV)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: $(DEV)
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# All fuzzers. Another seed each time, which is printed: make nightly HOURS=8, or ONLY=bundles COUNT=20000 SEED=7.
nightly: $(DEV)
	@$(BIN)/python tests/support/nightly.py $(if $(HOURS),--hours $(HOURS)) $(if $(COUNT),--count $(COUNT)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only '$(ONLY)')

# Installs PyTorch for the comparison; bornfair itself never needs it.
bench: $(TORCH)
	@$(BIN)/bornfair bench speed
	@$(BIN)/bornfair bench scaling

# Resolves constraints.txt and floors.txt anew; to be run after a change of a pyproject.toml.
pins:
	@$(PYTHON) .ci/pins.py $(foreach version,3.11 3.12 3.13,$$(.ci/python $(version)))

clean:
	rm -rf $(VENV) .venv-* demo-output bench-output .pytest_cache .mypy_cache .ruff_cache .hypothesis .jax-cache .golden

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bornfair needs Python 3.11 or newer, found " + sys.version.split()[0] + "; run: make PYTHON=python3.11 " + "$(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check --constraint $(PINS)

# The build backend is installed first: in a build of its own pip would take any version of it.
$(RUN): pyproject.toml $(PINS) | $(VENV)
	$(INSTALL) hatchling
	$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(DEV): $(RUN) bench/pyproject.toml
	$(INSTALL) --no-build-isolation --editable '.[dev]' --editable ./bench
	@touch $@

$(CLUSTER): $(DEV)
	$(INSTALL) --no-build-isolation --editable '.[ray,dask]'
	@touch $@

$(TORCH): $(DEV)
	$(INSTALL) --no-build-isolation --editable './bench[torch]'
	@touch $@
