"""What was measured on which rows is recorded once, and told the same everywhere."""

import json

import pytest

from bornfair import FairClassifier, audit, load
from bornfair.models.metrics import quality
from bornfair.proof.checker import check
from bornfair.report import certificate_document, to_markdown
from samples import bornfair, make_people


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    make_people(150, seed=3).to_csv(folder / "people.csv", index=False)
    return folder


def trained(place, *more):
    asked = ["--target", "grant", "--sensitive", "sex", "--hidden", "4", "--epochs", "3", "--out", "bundle"]
    found = bornfair("train", "people.csv", *asked, *more, cwd=place)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_rows_kept_aside_are_in_output_certificate_and_report(place):
    result = json.loads(trained(place, "--json"))
    named = {one["on"]: one for one in result["measured"]}
    assert set(named) == {"training rows", "validation rows, which said when to stop", "rows kept aside"}
    assert named["rows kept aside"]["accuracy"] == result["accuracy"] and result["measured_on"] == "rows kept aside"
    assert sum(one["rows"] for one in named.values()) == 150
    facts = json.loads((place / "bundle" / "certificate.json").read_text())
    assert facts["training"]["measured"] == result["measured"]
    page = (place / "bundle" / "report.html").read_text()
    for name in named:
        assert name in page
    assert "held-out" not in page and check(place / "bundle")["valid"]
    told = audit(place / "bundle", timeout=0.5).documents[0]
    assert {one.on: one.rows for one in told.measured} == {name: one["rows"] for name, one in named.items()}


def test_without_rows_kept_aside_nothing_says_so(place):
    told = trained(place, "--test-fraction", "0")
    assert "Measured on the 150 training rows" in told and "kept aside" not in told
    assert "kept aside" not in (place / "bundle" / "report.html").read_text()


def test_figures_of_training_are_those_of_the_rows_it_was_trained_on():
    people = make_people(100, seed=4)
    X, y = people.drop(columns="grant"), people["grant"]
    for response in ("expected", "none"):
        model = FairClassifier(["sex"], response=response, hidden=[4], epochs=3, validation_fraction=0.0).fit(X, y)
        (only,) = model.certificate_.training["measured"]
        assert only == {"on": "training rows", "rows": 100, **quality(y, model.predict(X))}


def test_figures_survive_saving_and_certifying(tmp_path):
    people = make_people(100, seed=4)
    X, y = people.drop(columns="grant"), people["grant"]
    model = FairClassifier(["sex"], hidden=[4], epochs=2, random_state=0).fit(X[:80], y[:80])
    figures = model.record(X[80:], y[80:])
    assert figures["accuracy"] == pytest.approx((model.predict(X[80:]) == y[80:]).mean())
    model.certify(timeout=1).save(tmp_path / "one")
    again = load(tmp_path / "one").certificate
    assert again.training["measured"][-1] == figures
    model.record(X[80:], y[80:])
    model.save(tmp_path / "two")
    assert (tmp_path / "one" / "report.html").read_bytes() == (tmp_path / "two" / "report.html").read_bytes()


def test_nonsense_in_the_record_is_left_out(tmp_path):
    people = make_people(60, seed=4)
    model = FairClassifier(["sex"], hidden=[4], epochs=1, random_state=0)
    model.fit(people.drop(columns="grant"), people["grant"])
    facts = model.certificate_.to_json()
    facts["training"]["measured"] = [{"on": "rows", "rows": 3, "accuracy": 7.0}, 3, {"on": 5, "accuracy": 0.5}]
    document = certificate_document(facts, model.domain_)
    assert [one.accuracy for one in document.measured] == [0.5] and to_markdown(document)
