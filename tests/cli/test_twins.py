"""Declared twins on the command line."""

from __future__ import annotations

import json
import sys

import pytest

from bornfair.cli import main
from samples import make_people

QUICK = ["--epochs", "5", "--hidden", "16"]

RULES = "sex: female<->male, job: nurse<->smith"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twins")
    make_people(240, seed=7).to_csv(folder / "people.csv", index=False)
    return folder


@pytest.fixture
def bornfair(place, capsys, monkeypatch):
    """The command, run here: status, stdout, stderr."""
    monkeypatch.chdir(place)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bornfair", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return run


COMMON = ["train", "people.csv", "--target", "grant", "--sensitive", "sex", *QUICK]


def test_train_verify_and_check_speak_of_declared_twins(bornfair):
    rules = ["--twins", RULES, "--twins", "owner: True<->False"]
    status, said, trouble = bornfair(*COMMON, *rules, "--out", "fair", "--json")
    assert status == 0, trouble
    result = json.loads(said)
    assert result["versions"] == 8 and result["twins"] == [RULES, "owner: True<->False"]
    assert result["verdict"] == "verified" and result["empirical_fairness"] == result["flip_stable"] == 1.0
    status, said, _ = bornfair("check", "fair")
    assert status == 0 and "job: nurse<->smith" in said
    assert bornfair(*COMMON, "--out", "plain", "--json")[0] == 0
    status, said, _ = bornfair("verify", "plain", "--twins", RULES, "--timeout", "10", "--json")
    verdict = json.loads(said)
    assert status == 1 and verdict["verdict"] == "falsified"
    assert {twin["job"] for twin in verdict["twins"]} == {"nurse", "smith"}


def test_how_many_versions_there_are_is_said_before_training(bornfair):
    _, said, told = bornfair(*COMMON[:-4], "--epochs", "0", "--twins", RULES, "--out", "said")
    sentence = "By your rules, each person has 4 versions: 2 values of sex × 2 ways that the declared rules give job."
    assert sentence in told and "same decision for every declared twin" in said


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("job: nurse<->smth", "did you mean 'smith'?"),
        ("grant: no<->yes", "'grant' is the label"),
        ("age: x+3", "has infinite order"),
        ("age: male->female by x+3", "numbers carried along by a sensitive value are not supported"),
    ],
)
def test_a_bad_rule_is_one_sentence_and_status_2(bornfair, place, rule, sentence):
    status, _, told = bornfair(*COMMON, "--twins", rule, "--out", "bad")
    assert status == 2 and sentence in told and len(told.strip().splitlines()) == 1
    assert not (place / "bad").exists()
