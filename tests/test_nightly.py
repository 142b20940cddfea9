"""`make nightly` runs every fuzzer, tells the seed, and ends with status 1 when an answer was false."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import bornfair.proof.checker
import brute_force
import hostile_endpoints
import hostile_files
import torture
from bornfair import verify
from checker_mutants import MUTANTS
from fuzzing import Summary
from nightly import BATCH, FUZZERS, main

pytestmark = pytest.mark.slow


COSTLY = {
    "hostile files": hostile_files.run,
    "hostile endpoints": hostile_endpoints.run,
    "torture": torture.run,
}
"""They start processes and train models first; `test_hostile_files.py` and the like run them on some cases."""


def test_every_fuzzer_finds_nothing_on_a_few_cases() -> None:
    for name, run in FUZZERS.items():
        if run != COSTLY.get(name):
            summary = run(3, 1)
            assert summary.wrong == [] and summary.cases == 3 and summary.outcomes.total() >= 3, name


def test_one_fuzzer_can_be_chosen_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    fuzzers = {"small models": lambda count, seed: Summary(count), "nasty models": lambda count, seed: Summary(0)}
    assert main(fuzzers, ["--only", "small", "--count", "1"]) == 0
    assert "nasty" not in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(fuzzers, ["--only", "other"])
    assert "there are: small models, nasty models" in capsys.readouterr().err


def test_a_false_answeris_found_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    told = next(
        verdict for seed in range(40)
        if (verdict := verify(brute_force.random_model(seed), engine="bounds")).answer == "verified"
    )  # fmt: skip
    monkeypatch.setattr(brute_force, "verify", lambda model, **settings: told)
    wrong = brute_force.run(10, 3).wrong
    assert wrong and wrong == brute_force.run(10, 3).wrong and "says verified" in wrong[0]


def test_batches_go_on_until_the_count_is_reached(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def run(count: int, seed: int) -> Summary:
        asked.append((count, seed))
        return Summary(count, Counter(tried=count))

    assert main({"a": run, "b": run}, ["--count", str(BATCH + 1), "--seed", "5"]) == 0
    assert asked == [(BATCH, 5), (1, 6)] * 2
    said = capsys.readouterr().out
    assert said.startswith("seed 5\n") and said.count(f"{BATCH + 1:,} cases, 0 wrong") == 2


def test_one_false_answeris_told_with_its_seed_and_makes_the_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    def run(count: int, seed: int) -> Summary:
        return Summary(count, wrong=["case 3: said verified"] if seed == 8 else [])

    assert main({"a": run}, ["--count", str(3 * BATCH), "--seed", "7"]) == 1
    assert "WRONG, seed 8: case 3: said verified" in capsys.readouterr().out
    assert main({"a": run}, ["--count", "1", "--seed", "7"]) == 0


def test_hours_end_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main({"a": lambda count, seed: Summary(count)}, ["--hours", "0.000001"]) == 0
    assert "0 wrong" in capsys.readouterr().out


def test_every_line_that_is_to_be_broken_is_in_the_checker_once() -> None:
    checker = Path(bornfair.proof.checker.__file__).read_text(encoding="utf-8")
    gone = [line for pairs in MUTANTS.values() for line, _ in pairs if checker.count(line) != 1]
    assert gone == []
