"""An audit says what the engines found, and what can be counted by hand, for one model or several."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from bornfair import FairClassifier, audit, quantify, verify
from bornfair.cli import app
from bornfair.core.errors import InputError
from bornfair.people.space.subpopulation import marginals_of
from bornfair.questions.loading import load_model
from bornfair.report import Report, certificate_document
from report_examples import Page
from samples import bornfair, make_people

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained():
    people = make_people(300, seed=3)
    X, y = people.drop(columns="grant"), people["grant"]
    settings = {"hidden": [6], "epochs": 40, "random_state": 0}
    return people, {
        "fair": FairClassifier(["sex"], **settings).fit(X, y),
        "plain": FairClassifier(["sex"], response="none", **settings).fit(X, y),
    }


@pytest.fixture(scope="module")
def compared(trained):
    people, models = trained
    return audit(models, people, target="grant", timeout=2, seed=0)


def test_the_verdicts_are_those_of_the_models(compared, trained):
    fair, plain = compared.documents
    assert (fair.model, fair.verdict.answer, plain.model, plain.verdict.answer) == (
        "fair", "verified", "plain", "falsified",
    )  # fmt: skip
    twins = pd.DataFrame(plain.verdict.twins)
    assert trained[1]["plain"].predict(twins).tolist() == plain.verdict.decisions
    assert twins.drop(columns="sex").nunique().eq(1).all() and twins["sex"].nunique() == 2


def test_the_people_of_the_table_are_counted_one_by_one(compared, trained):
    people, models = trained
    X = people.drop(columns="grant")
    decided = [models["plain"].predict(X.assign(sex=sex)) for sex in ("female", "male")]
    assert compared.documents[1].people.unfair == int((decided[0] != decided[1]).sum()) > 0
    assert compared.documents[0].people.unfair == 0
    assert compared.documents[1].metrics.accuracy == pytest.approx(
        np.mean(models["plain"].predict(X) == people["grant"])
    )
    for one in compared.documents[1].people.most_affected:
        answers = models["plain"].predict(pd.DataFrame([one.person, one.twin]))
        assert answers.tolist() == list(one.decisions) and answers[0] != answers[1]


def test_group_metrics_are_those_of_the_groups(compared, trained):
    people, models = trained
    chosen = models["plain"].predict(people.drop(columns="grant")) == "yes"
    for line in compared.documents[1].group_metrics:
        group = (people["sex"] == line.value).to_numpy()
        assert line.count == group.sum() and line.selection_rate == pytest.approx(chosen[group].mean())


def test_shares_of_the_fair_model_are_certain_and_those_of_the_plain_one_are_consistent(compared):
    fair, plain = (document.shares for document in compared.documents)
    assert (fair.certified, fair.falsified, fair.undecided) == (1.0, 0.0, 0.0)
    assert plain.falsified <= plain.estimate.high and plain.certified <= 1 - plain.estimate.low


def test_without_a_table_it_still_says_what_it_can(trained):
    (document,) = audit(trained[1]["plain"], timeout=1).documents
    assert document.verdict.answer == "falsified" and document.shares is not None
    assert document.people is None and document.metrics is None


def test_the_command_writes_reports_and_says_the_verdict_in_its_status(trained, tmp_path):
    people, models = trained
    people.to_csv(tmp_path / "people.csv", index=False)
    for name, model in models.items():
        model.save(tmp_path / name)
    arguments = ["--data", f"{tmp_path}/people.csv", "--target", "grant", "--timeout", "2"]
    both = [f"{tmp_path}/fair", f"{tmp_path}/plain"]
    run = CliRunner().invoke(
        app,
        ["audit", *both, *arguments, "--report", f"{tmp_path}/a.html", "--card", f"{tmp_path}/a.md", "--json"],
    )
    assert run.exit_code == 1, run.output
    document = json.loads(run.stdout)
    assert [one["verdict"]["verdict"] for one in document["models"]] == ["verified", "falsified"]
    assert all(Path(path).is_file() for path in document["reports"])
    alone = CliRunner().invoke(app, ["audit", both[0], *arguments, "--report", f"{tmp_path}/b.html"])
    assert alone.exit_code == 0 and "Fair: sex never changes the decision" in " ".join(alone.output.split())
    assert "<html" in (tmp_path / "b.html").read_text()


def test_the_command_quantifies(trained, tmp_path):
    people, models = trained
    people.drop(columns="grant").to_csv(tmp_path / "people.csv", index=False)
    models["plain"].save(tmp_path / "plain")
    asked = ["quantify", f"{tmp_path}/plain", "--data", f"{tmp_path}/people.csv", "--timeout", "2"]
    run = CliRunner().invoke(app, [*asked, "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found["certified"] + found["falsified"] + found["undecided"] == pytest.approx(1.0)
    assert set(found["estimate"]) >= {"unfair", "low", "high", "confidence"} and found["boxes"] >= 1
    assert found["people"]["rows"] == 300 and found["people"]["unfair"] > 0
    weighted = CliRunner().invoke(app, [*asked, "--over", "data"])
    assert weighted.exit_code == 0 and "features as often as in the table" in " ".join(weighted.output.split())


def test_weights_of_a_table_change_what_is_measured():
    people = make_people(200, seed=1)
    model = FairClassifier(["sex"], response="none", hidden=[4], epochs=20, random_state=0)
    model.fit(people.drop(columns="grant"), people["grant"])
    weights = marginals_of(model.domain_, people)
    assert weights["job"] == people["job"].value_counts()[list(model.domain_.feature("job").levels())].to_dict()
    assert sum(weights["income"].values()) == len(people)
    plain, weighted = (quantify(model, timeout=1, marginals=m) for m in (None, weights))
    assert plain.estimate.unfair != weighted.estimate.unfair


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--target", "granted"], "target 'granted' is not in the table; did you mean 'grant'?"),
        (["--report", "x.pdf"], "'x.pdf' ends in '.pdf'"),
        (["--drop", "shoe"], "column 'shoe' is not in the table"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(trained, tmp_path, monkeypatch, capsys, arguments, sentence):
    from bornfair.cli import main

    people, models = trained
    people.to_csv(tmp_path / "people.csv", index=False)
    models["fair"].save(tmp_path / "fair")
    monkeypatch.setattr(
        "sys.argv", ["bornfair", "audit", f"{tmp_path}/fair", "--data", f"{tmp_path}/people.csv", *arguments]
    )
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2 and sentence in capsys.readouterr().err


def test_answers_the_model_does_not_know_are_named(trained):
    people, models = trained
    strange = people.assign(grant=people["grant"].replace("yes", "perhaps"))
    with pytest.raises(InputError, match="target 'grant' holds 'perhaps', which is not one of the model's classes"):
        audit(models["fair"], strange, target="grant", timeout=1)


def test_declared_twins_are_audited_and_not_suggested_again():
    random = np.random.default_rng(0)
    sex = random.choice(["Female", "Male"], 400)
    spouse = np.where(sex == "Male", "Husband", "Wife")
    people = pd.DataFrame(
        {
            "relationship": np.where(random.random(400) < 0.5, spouse, "Single"),
            "age": random.integers(20, 60, 400),
            "sex": sex,
        }
    )
    people["grant"] = np.where((people["relationship"] == "Husband") | (people["age"] > 45), "yes", "no")
    rule = "sex: Male<->Female, relationship: Husband<->Wife"
    settings = {"hidden": [6], "epochs": 60, "random_state": 0}
    X, y = people.drop(columns="grant"), people["grant"]
    models = {
        "dropped": FairClassifier(["sex"], **settings).fit(X, y),
        "declared": FairClassifier(["sex"], twins=rule, **settings).fit(X, y),
    }
    (alone,) = audit(models["dropped"], people, target="grant", timeout=30).documents
    assert alone.verdict.answer == "verified" and any("Husband" in text for text in alone.suggestions)
    dropped, declared = audit(models, people, target="grant", twins=rule, timeout=4).documents
    assert (dropped.verdict.answer, declared.verdict.answer) == ("falsified", "verified")
    assert {twin["relationship"] for twin in dropped.verdict.twins} == {"Husband", "Wife"}
    assert dropped.people.unfair > 0 and declared.people.unfair == 0 and not declared.suggestions


def test_a_table_without_the_sensitive_column_has_no_groups_but_all_the_rest(trained):
    people, models = trained
    (document,) = audit(models["fair"], people.drop(columns="sex"), target="grant", timeout=1).documents
    assert document.group_metrics == () and document.metrics.accuracy is not None and document.people.unfair == 0


def test_a_table_without_people_is_refused(trained):
    people, models = trained
    with pytest.raises(InputError, match="the table has no rows"):
        audit(models["fair"], people[:0], target="grant", timeout=1)


def test_an_imported_model_is_falsified_only_if_its_own_software_tells_the_twins_apart():
    people = pd.DataFrame({"age": [20, 30, 40, 50] * 10, "sex": [0, 1] * 20})
    original = LogisticRegression().fit(people, people["sex"])
    asked = load_model(original, table=people, sensitive=["sex"])
    assert verify(asked, timeout=2).answer == "falsified"
    asked.original.decide = lambda table: np.zeros(len(table), np.int64)
    assert verify(asked, timeout=2).answer != "falsified"


def test_fairness_during_training_is_told_only_where_it_was_proven_for_every_epoch(trained):
    for name, expected in (("fair", 1.0), ("plain", None)):
        model = trained[1][name]
        said = certificate_document(model.certificate_.to_json(), model.domain_)
        assert len(said.history) == len(model.history_) > 0
        assert {point.fairness for point in said.history} == {expected}


def test_the_report_says_when_and_of_what_it_was_made(trained, tmp_path, monkeypatch):
    people, models = trained
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    people.to_csv(tmp_path / "people.csv", index=False)
    models["fair"].save(tmp_path / "fair")
    asked = ["audit", "fair", "--data", "people.csv", "--target", "grant", "--timeout", "0.5", "--over", "data"]
    run = bornfair(*asked, "--json", cwd=tmp_path)
    facts = json.loads(run.stdout)["examination"]
    assert facts["Date"] == "1 January 1970, 00:00 UTC" and facts["Command"].startswith("bornfair audit fair --data")
    for name, path in (("Model", tmp_path / "fair" / "model.onnx"), ("Data", tmp_path / "people.csv")):
        assert hashlib.sha256(path.read_bytes()).hexdigest() in facts[name]
    page = (tmp_path / "audit.html").read_text()
    assert "1 January 1970" in page and facts["Command"] in page and "bornfair 0." in page


def test_the_command_says_whose_decision_is_taken_as_favourable(trained, tmp_path):
    people, models = trained
    people.to_csv(tmp_path / "people.csv", index=False)
    models["plain"].save(tmp_path / "plain")
    asked = ["audit", "plain", "--data", "people.csv", "--timeout", "0.5", "--over", "data"]
    said = bornfair(*asked, cwd=tmp_path).stdout
    assert "'yes' is taken as the favourable decision; --favourable names another." in said
    assert said.splitlines()[0].startswith("plain: Not fair: ") and "\\xa0" not in said
    assert "of the people in the table would be decided otherwise with another value of sex." in said.splitlines()[0]
    other = bornfair(*asked, "--favourable", "no", cwd=tmp_path).stdout
    assert "'no' is taken as the favourable decision, as was asked." in other
    wrong = bornfair(*asked, "--favourable", "perhaps", cwd=tmp_path)
    assert wrong.returncode == 2 and "'perhaps' is not one of the model's classes 'no', 'yes'" in wrong.stderr


def test_people_as_in_the_data_come_before_combinations_counted_alike(compared):
    plain = compared.documents[1]
    assert (plain.shares.over, plain.uniform.over) == ("data", "uniform")
    headings = Page(Report(plain).to_html()).headings
    order = [
        headings.index(name) for name in ("People in the table", "People as in the data", "Every combination of values")
    ]
    assert order == sorted(order)


def test_without_a_table_nobody_is_weighted_by_it(trained):
    with pytest.raises(InputError, match="over='data' takes the weights from a table"):
        audit(trained[1]["plain"], over="data", timeout=1)


def test_a_column_may_have_any_number_of_values():
    random = np.random.default_rng(0)
    people = pd.DataFrame({"balance": random.integers(0, 10**9, 200), "sex": random.choice(["f", "m"], 200)})
    people["grant"] = np.where(people["balance"] + 3e8 * (people["sex"] == "m") > 6e8, "yes", "no")
    model = FairClassifier(["sex"], response="none", hidden=[4], epochs=40, random_state=0)
    model.fit(people.drop(columns="grant"), people["grant"])
    found = quantify(model, people.drop(columns="grant"), over="data", timeout=60)
    assert found.over == "data" and found.counts is None  # people are weighted, not counted
    share = found.people.unfair / 200
    assert found.falsified <= share <= 1 - found.certified and found.undecided < 0.01 and share > 0
