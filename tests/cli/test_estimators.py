"""bornfair train --estimator: another estimator from the shell, with bundle and certificate."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import pytest

from bornfair.cli.train_estimator import ESTIMATORS, named_estimator
from bornfair.core.errors import InputError
from samples import bornfair, make_people

ASKED = ("train", "people.csv", "--target", "grant", "--sensitive", "sex")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    make_people(150, seed=4).to_csv(folder / "people.csv", index=False)
    return folder


@pytest.mark.parametrize(("name", "method"), [("random-forest", "merge"), ("lightgbm", "average")])
def test_an_estimator_is_trained_checked_and_asked(name: str, method: str, place: Path) -> None:
    out = f"{name}-bundle"
    done = bornfair(*ASKED, "--estimator", name, "--method", method, "--out", out, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    contract = {"bundle", "accuracy", "empirical_fairness", "verdict", "proof", "gamma", "epochs", "seconds"}
    assert contract <= set(found) and found["verdict"] == "verified" and found["empirical_fairness"] == 1.0
    for words in (("check", out), ("verify", out), ("predict", out, "people.csv")):
        assert bornfair(*words, cwd=place).returncode == 0
    told = json.loads((place / out / "certificate.json").read_text())["training"]
    assert told["method"] == method and told["measured"][0]["rows"] == found["rows_measured"] == 30


def test_the_same_seed_gives_the_same_bytes(place: Path) -> None:
    files = []
    for out in ("one", "two"):
        done = bornfair(*ASKED, "--estimator", "xgboost", "--method", "average", "--out", out, cwd=place)
        assert done.returncode == 0 and "xgboost, averaged" in done.stdout
        files.append([(place / out / name).read_bytes() for name in ("model.onnx", "domain.json", "certificate.json")])
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--estimator", "svm"), "'network', 'xgboost'"),
        (("--estimator", "logistic", "--epochs", "3"), "--epochs is for the network"),
        (("--estimator", "logistic", "--threshold", "0.3"), "--threshold is for the network"),
        (("--method", "average"), "--method is for other estimators"),
        (("--estimator", "logistic", "--method", "mean"), "'merge'"),
    ],
)
def test_what_does_not_fit_is_one_sentence(words: tuple[str, ...], said: str, place: Path) -> None:
    done = bornfair(*ASKED, *words, "--out", "none", cwd=place)
    assert done.returncode == 2 and said in done.stderr and not (place / "none").exists()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith(("xgboost", "lightgbm")):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in ("xgboost", "lightgbm"):
        with pytest.raises(InputError, match=f"needs {name}, which is not installed: pip install {name}"):
            named_estimator(name)
    assert len(ESTIMATORS) == 5
