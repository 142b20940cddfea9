"""Forests at the shell: repaired, certified, checked, served, and refused in one sentence."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from bornfair.cli import run
from bornfair.core import limits
from bornfair.core.errors import InputError
from samples import bornfair

xgboost = pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("forests"), np.random.default_rng(2)
    table = pd.DataFrame(
        {"age": rng.integers(18, 70, 300), "hours": rng.integers(1, 60, 300), "sex": rng.integers(0, 2, 300)}
    )
    table["hired"] = (table["age"] / 10 + table["hours"] / 12 + table["sex"] + rng.normal(0, 1, 300) > 7).astype(int)
    table.to_csv(place / "people.csv", index=False)
    data = xgboost.DMatrix(table.drop(columns="hired"), table["hired"])
    xgboost.train({"objective": "binary:logistic", "max_depth": 3}, data, 10).save_model(place / "model.json")
    return place


ABOUT = ("--data", "people.csv", "--target", "hired", "--sensitive", "sex")


def asked(folder, *words, status):
    done = bornfair(*words, cwd=folder)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    return done.stdout if status != 2 else done.stderr


def test_repair_check_and_serve(folder):
    found = json.loads(asked(folder, "repair", "model.json", *ABOUT, "--out", "fair", "--json", status=0))
    assert found["verdict"] == "verified" and found["trees_replaced"] > 0 and found["rows_measured"] == 60
    assert "no split of model.json reads them either" in asked(folder, "check", "fair", status=0)
    predicted = json.loads(asked(folder, "predict", "fair", "people.csv", "--json", status=0))
    stock = xgboost.Booster(model_file=folder / "fair" / "model.json")
    table = pd.read_csv(folder / "people.csv").drop(columns="hired")
    shown = stock.predict(xgboost.DMatrix(table))
    assert np.allclose(shown, np.array(predicted["probabilities"])[:, 1], atol=1e-6)
    assert asked(folder, "export", "fair", "blind", "--without-sensitive", status=0).strip() == "blind"
    assert "forest" in asked(folder, "export", "fair", "query", "--query", status=2)
    again = json.loads(asked(folder, "certify", "fair", "--out", "again", "--json", status=0))
    assert (again["verdict"], again["proof"], again["arithmetic"]) == ("verified", "structural", ["real", "float64"])


def test_certify_writes_the_twins_of_an_unfair_forest(folder):
    found = json.loads(asked(folder, "certify", "model.json", *ABOUT, "--out", "unfair", "--json", status=1))
    assert found["verdict"] == "falsified" and found["arithmetic"] == ["real", "float64"]
    stock = xgboost.Booster(model_file=folder / "model.json")
    twins = xgboost.DMatrix(pd.DataFrame(found["twins"])[["age", "hours", "sex"]])
    assert (stock.predict(twins) > 0.5).astype(int).tolist() == found["decisions"]
    asked(folder, "check", "unfair", status=1)
    fixed = json.loads(asked(folder, "repair", "unfair", *ABOUT, "--out", "fixed.zip", "--json", status=0))
    assert fixed["verdict"] == "verified" and "bytes" in fixed["sizes"]["after"]


def test_what_cannot_be_done_is_said(folder):
    assert "--out" in asked(folder, "certify", "model.json", *ABOUT, status=2)
    assert "method 'plain'" in asked(folder, "repair", "model.json", *ABOUT, "--method", "auto", status=2)


def test_second_opinions_sub_populations_and_the_rows_of_a_table(folder):
    found = json.loads(asked(folder, "verify", "model.json", *ABOUT, "--engine", "milp", "--json", status=1))
    assert (found["verdict"], found["engine"]) == ("falsified", "milp") and found["twins"][0]["sex"] != found["twins"][
        1
    ]["sex"]
    assert "the smt engine and relax are for networks" in asked(
        folder, "verify", "model.json", *ABOUT, "--engine", "smt", status=2
    )
    rows = asked(
        folder, "quantify", "model.json", *ABOUT, "--over", "people.csv", "--where", "age=30..40", "--json", status=0
    )
    found, table = json.loads(rows), pd.read_csv(folder / "people.csv")
    assert sum(found["counts"].values()) == table["age"].between(30, 40).sum() and not found["counts"]["undecided"]


@pytest.mark.parametrize("step", ["bornfair.questions.Question.of", "bornfair.proof.certificate.decide"])
def test_reading_and_deciding_for_a_certificate_end_with_its_time(step, folder, monkeypatch):
    left = []

    def ended(*_, **__):
        left.append(limits.time_left())
        raise InputError("enough.")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(step, ended)
    assert run(["certify", "model.json", *ABOUT, "--out", "bundle", "--timeout", "1000"]) == 2
    assert left[0] <= 2 * 1000
