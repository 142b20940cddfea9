"""What needs the distribution bornfair-bench works with it, and says how to install it without it."""

from __future__ import annotations

import sys

import pytest

from bornfair import cli
from bornfair.core.checks import installed
from bornfair.core.errors import InputError
from interop_models import NNET
from samples import bornfair

INSTALL = "needs bornfair-bench, which is not installed; pip install bornfair-bench.\n"


class NoBench:
    """An import finder for which bornfair-bench is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "bornfair_bench":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def library_alone(monkeypatch):
    """bornfair_bench cannot be imported, and the commands are read anew, before and after."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "bornfair_bench"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoBench(), *sys.meta_path])
    cli._commands.cache_clear()
    yield
    cli._commands.cache_clear()


@pytest.mark.parametrize("words", [[], ["speed"], ["table1", "--dataset", "census", "--json"], ["--help"]])
def test_without_the_package_every_measurement_says_how_to_install_it(words, library_alone, tmp_path):
    done = bornfair("bench", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr == f"bornfair: bornfair bench {INSTALL}"


def test_without_the_package_other_commands_work_and_help_names_it(library_alone, tmp_path):
    assert bornfair("gamma", "--codes", "-1,1", cwd=tmp_path).returncode == 0
    assert "(needs bornfair-bench)" in " ".join(bornfair("--help", cwd=tmp_path).stdout.split())


@pytest.mark.parametrize(
    ("words", "what"),
    [(["--engine", "smt"], "engine='smt'"), (["--where", "x0=0..3"], "where or relax for a network")],
)
def test_without_the_package_a_question_for_smt_is_refused(words, what, library_alone, tmp_path):
    (tmp_path / "hand.nnet").write_text(NNET)
    done = bornfair("verify", "hand.nnet", "--sensitive", "x1", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert (
        done.stderr == f"bornfair: {what} needs bornfair-bench, which is not installed; pip install bornfair-bench.\n"
    )


def test_with_the_package_its_commands_are_there(tmp_path):
    done = bornfair("bench", "--help", cwd=tmp_path)
    assert done.returncode == 0 and "table1" in done.stdout and "preservation" in done.stdout


def test_an_installed_package_that_fails_for_another_reason_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "halfway.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
        installed("halfway", "this")
    with pytest.raises(InputError, match=r"^this needs not-there, which is not installed; pip install not-there\.$"):
        installed("not_there.engine", "this")
