"""The examples run, and show what they say."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from bornfair.importers import registry
from bornfair.verification import decide
from counted_time import count_time

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count_time(monkeypatch, tick=0.25)  # the seconds of an example are so many readings of its clock
    return lambda name: runpy.run_path(str(EXAMPLES / name))


def test_training_and_certifying(run, tmp_path):
    shown = run("train_and_certify.py")
    assert shown["clf"].certificate_.verdict.answer == "verified" and shown["checked"]["valid"]
    assert shown["verdict"].answer == "falsified" and len(set(shown["verdict"].decisions)) == 2
    assert (shown["blind"] == shown["clf"].predict(shown["people"])).all()
    assert (tmp_path / "credit-bundle" / "report.html").is_file()


def test_auditing_a_scikit_learn_pipeline(run, tmp_path):
    shown = run("audit_scikit_learn.py")
    (document,) = shown["report"].documents
    twins = shown["pd"].DataFrame(document.verdict.twins)
    assert document.verdict.answer == "falsified"
    assert shown["pipeline"].predict(twins).tolist() == document.verdict.decisions, "as the pipeline itself decides"
    assert document.people.unfair == sum(
        shown["pipeline"].predict(shown["test"].assign(sex="Male"))
        != shown["pipeline"].predict(shown["test"].assign(sex="Female"))
    )
    assert json.loads((tmp_path / "audit.json").read_text())["format"] == "bornfair-report/1"
    page = (tmp_path / "audit.html").read_text()
    assert "Not fair: " in page and f"({document.people.unfair:,} of {document.people.rows:,})" in page
    assert (tmp_path / "audit.md").read_text().startswith("# ")


def test_auditing_what_can_only_be_run(run, tmp_path):
    shown = run("audit_anything.py")
    document = shown["document"]
    assert document.verdict.answer == "falsified" and "(SVC) is not supported" in document.making["Asked from outside"]
    assert "asked from outside, not read" in (tmp_path / "audit.html").read_text()
    for verdict, model in ((shown["verdict"], shown["with_rule"]), (document.verdict, shown["pipeline"].predict)):
        assert model(shown["pd"].DataFrame(verdict.twins)).tolist() == verdict.decisions
    assert shown["by_program"].answer == "falsified"


def test_handing_over(run):
    shown = run("hand_over.py")
    assert shown["accepted"].returncode == 0 and shown["accepted"].stdout.startswith("VALID")
    assert shown["rejected"].returncode == 1 and shown["rejected"].stdout.startswith("REJECTED")
    assert sys.modules["bornfair"].__version__  # the developer has it, the validator did without


def test_repairing_boosted_trees(run, tmp_path):
    shown = run("repair_forests.py")
    assert {verdict.answer for verdict in shown["verdicts"].values()} == {"falsified"}
    for found in shown["repaired"].values():
        assert found.verdict == "verified" and 0 < found.replaced < found.sizes["before"]["trees"]
    assert all(answer["valid"] and "reads them either" in answer["reason"] for answer in shown["checked"].values())
    assert all(shown["alike"])
    names = {"model.onnx", "domain.json", "certificate.json", "report.html"}
    for folder, native in (("credit-json", "model.json"), ("credit-txt", "model.txt")):
        assert {file.name for file in (tmp_path / folder).iterdir()} == names | {native}


def test_adding_a_kind_of_model(run, monkeypatch):
    monkeypatch.setattr(registry, "READERS", [*registry.READERS])
    monkeypatch.setattr(decide, "ENGINES", {**decide.ENGINES})
    shown = run("rule_list.py")
    unfair, fair = shown["verdicts"].values()
    assert unfair.answer == "falsified" and len(set(unfair.decisions)) == 2
    assert [twin["duration_months"] >= 30 for twin in unfair.twins] == [True, True]
    assert {twin["sex"] for twin in unfair.twins} == {"male", "female"}
    assert (fair.answer, fair.proof) == ("verified", "bounds"), "a rule reads sex, and no decision depends on it"
    people = shown["people"]
    by_hand = (people["duration_months"] >= 30) & ~((people["amount"] <= 900) & (people["savings"] == "below 100"))
    assert shown["shares"].counts == {"certified": (~by_hand).sum(), "falsified": by_hand.sum(), "undecided": 0}
    (document,) = shown["report"].documents
    assert document.verdict.answer == "falsified" and document.people.unfair == by_hand.sum()
    assert len((EXAMPLES / "rule_list.py").read_text().splitlines()) < 150
