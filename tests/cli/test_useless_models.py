"""A model that decides everybody alike is called constant wherever its accuracy is shown."""

import json

import numpy as np
import pandas as pd
import pytest

from samples import bornfair

ASKED = ["people.csv", "--target", "fraud", "--sensitive", "sex"]
QUICK = ["--epochs", "3", "--learning-rate", "0.05", "--hidden", "4", "--embedding", "none", "--taught", "0"]
AUDIT = ["audit", "bundle", "--data", "people.csv", "--target", "fraud", "--timeout", "2"]
CONSTANT = "The model is constant: it predicts 'no' for every row. Balanced accuracy 50 %, share of the largest class"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rare")
    random = np.random.default_rng(5)
    table = pd.DataFrame({
        "amount": random.integers(0, 1000, 300), "age": random.integers(18, 80, 300),
        "sex": random.choice(["f", "m"], 300), "fraud": np.where(np.arange(300) % 30 == 7, "yes", "no"),
    })  # fmt: skip
    table.to_csv(folder / "people.csv", index=False)
    done = bornfair("train", *ASKED, *QUICK, "--out", "bundle", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "train.txt").write_text(done.stdout)
    (folder / "train.err").write_text(done.stderr)
    return folder


def plain(text):
    return " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())


def test_training_warns_of_a_constant_model_and_shows_what_its_accuracy_is_worth(place):
    shown, said = plain((place / "train.txt").read_text()), plain((place / "train.err").read_text())
    assert f"warning: {CONSTANT}" in said and "Balanced class weights, or a lower threshold" in said
    assert "balanced accuracy 50.00 %" in shown and "share of the largest class 9" in shown
    asked = [*ASKED, *QUICK, "--out", "other", "--json"]
    found = json.loads(bornfair("train", *asked, cwd=place).stdout)
    assert found["accuracy"] == found["majority_share"] > 0.9 and found["balanced_accuracy"] == 0.5
    assert found["never_predicted"] == ["yes"] and found["always_predicted"] == "no"
    assert len(found["warnings"]) == 1 and found["warnings"][0].startswith(CONSTANT)


def test_the_page_of_the_certificate_warns_before_any_section(place):
    page = plain((place / "bundle" / "report.html").read_text().replace("&#x27;", "'").replace("&#39;", "'"))
    assert CONSTANT in page and page.index(CONSTANT) < page.index("What exactly was proven")
    assert "Share of the largest class" in page


def test_an_audit_warns_on_the_terminal_and_in_every_kind_of_report(place):
    done = bornfair(*AUDIT, "--report", "a.md", cwd=place)
    assert done.returncode == 0, done.stderr
    assert f"warning: {CONSTANT} 96.67 %" in plain(done.stderr) and "largest class" in plain(done.stdout)
    assert CONSTANT in plain((place / "a.md").read_text())
    machine = bornfair(*AUDIT, "--json", cwd=place)
    figures = json.loads(machine.stdout)["metrics"]
    assert figures["accuracy"] == figures["majority_share"] == pytest.approx(290 / 300)
    assert figures["never_predicted"] == ["yes"] and figures["always_predicted"] == "no"


def test_a_repair_and_predictions_of_labelled_rows_warn_too(place):
    asked = ["bundle", "--data", "people.csv", "--sensitive", "age", "--target", "fraud", "--epochs", "1"]
    repaired = bornfair("repair", *asked, "--out", "repaired", cwd=place)
    assert f"warning: {CONSTANT}" in plain(repaired.stderr), repaired.stderr
    assert "balanced accuracy after 50.00 %" in plain(repaired.stdout)
    found = json.loads(bornfair("repair", *asked, "--out", "again", "--json", cwd=place).stdout)
    assert found["quality_after"]["never_predicted"] == ["yes"] and found["warnings"]
    assert found["accuracy_after"] == found["quality_after"]["accuracy"]
    predicted = bornfair("predict", "bundle", "people.csv", "--json", cwd=place)
    assert json.loads(predicted.stdout)["quality"]["always_predicted"] == "no"
    assert f"warning: {CONSTANT} 96.67 %" in plain(predicted.stderr)
    unlabelled = pd.read_csv(place / "people.csv").drop(columns="fraud")
    unlabelled.to_csv(place / "unlabelled.csv", index=False)
    other = bornfair("predict", "bundle", "unlabelled.csv", "--json", cwd=place)
    assert "quality" not in json.loads(other.stdout) and "constant" not in other.stderr


def test_other_estimators_and_batches_are_judged_by_the_same_figures(place):
    done = bornfair("train", *ASKED, "--estimator", "logistic", "--out", "logistic", cwd=place)
    assert done.returncode == 0 and f"warning: {CONSTANT}" in plain(done.stderr)
    assert "share of the largest class" in plain(done.stdout)
    asked = [*ASKED, "--stream", *QUICK]
    found = bornfair("train", *asked, "--out", "streamed", "--json", cwd=place)
    assert found.returncode == 0, found.stderr
    facts = json.loads(found.stdout)
    # By chance no row kept aside has the rare class: the rows used for early stopping show it.
    assert facts["majority_share"] == facts["accuracy"] and facts["warnings"][0].startswith(CONSTANT)
    assert any(one["always_predicted"] == "no" for one in facts["measured"])
