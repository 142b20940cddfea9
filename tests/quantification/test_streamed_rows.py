"""Rows of a table that is read in batches: counted as in memory, and what was not read is not claimed."""

import numpy as np
import pandas as pd
import pytest

from bornfair import audit, quantify
from bornfair.core.clock import Clock
from bornfair.core.errors import InputError
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.people import sources, survey
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature, Label
from bornfair.people.sources import Source
from bornfair.people.survey import domain_of, looked_at
from bornfair.proof.bundle import FairModel
from samples import bornfair, make_people


@pytest.fixture(scope="module")
def model():
    features = (IntegerFeature(name="x", low=0, high=9), BooleanFeature(name="s"))
    who = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=("no", "yes")))
    network = Network((Layer(np.array([[1.0, 0.5]]), np.array([-4.25])),))  # s decides where x = 4
    return FairModel.of(Model(network, Encoding(who, {"x": Scale(centre=0.0, exponent=0)})))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "CELLS", 60)
    monkeypatch.setattr(sources, "LEAST_ROWS", 1)
    (tmp_path / "rows").mkdir()
    for number in range(4):
        pd.DataFrame({"x": np.arange(50) % (5 + number), "s": np.arange(50) % 2 == 0}).to_parquet(
            tmp_path / "rows" / f"{number}.parquet"
        )
    return tmp_path / "rows"


def test_counts_of_batches_are_the_counts_of_the_table(model, folder):
    table = pd.read_parquet(folder)
    for where in (None, {"x": (3, 4)}):
        ours = quantify(model, over=str(folder), where=where)
        whole = quantify(model, over=table, where=where)
        assert ours.counts == whole.counts and ours.counts["falsified"] == 31 and ours.over == "rows"
        assert (ours.certified, ours.falsified, ours.arithmetic) == (whole.certified, whole.falsified, whole.arithmetic)
    with pytest.raises(InputError, match="nobody is left to be counted"):
        quantify(model, over=str(folder), where={"x": (9, 9)})
    with pytest.raises(InputError, match="a model that is only asked"):
        quantify(
            lambda rows: np.where(rows["x"] > 4, "yes", "no"),
            over=str(folder),
            domain=model.domain,
            sensitive_features=["s"],
        )


def test_rows_that_there_was_no_time_for_are_undecided(model, folder):
    seconds = iter([0.0] * 12 + [100.0] * 1000)
    found = quantify(model, over=str(folder), timeout=Clock(10.0, now=lambda: next(seconds)))
    read = found.counts["certified"] + found.counts["falsified"]
    assert 0 < read < 200 and sum(found.counts.values()) == 200
    assert found.undecided == pytest.approx(1 - read / 200) and f"{read} of 200 rows were read" in found.reason


def test_a_sample_says_of_how_many_rows_it_is(folder, monkeypatch):
    monkeypatch.setattr(survey, "SAMPLE_ROWS", (40, 40))
    everyone = looked_at(Source.at(folder), seed=1)
    assert everyone.read == everyone.total == 200 and 20 < len(everyone.sample) <= 40
    assert everyone.told.endswith("random rows of the 200 that there are")
    calls = []
    some = looked_at(Source.at(folder), seed=1, is_up=lambda: calls.append(1) or len(calls) > 1)
    assert some.told == f"{len(some.sample)} random rows of {some.read} that were read in the time, of 200 in all"
    assert some.read < 200 and "4 files" in some.told_at_length
    domain = domain_of(Source.at(folder), target=None, sensitive=["s"])
    assert domain == Domain.infer(pd.read_parquet(folder), sensitive=["s"])


def test_audit_and_proxies_look_at_a_sample_and_say_so(model, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "SAMPLE_ROWS", (60, 60))
    model.save(tmp_path / "bundle")
    done = bornfair("audit", "bundle", "--data", "rows", "--timeout", "30", "--report", "a.md", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    sample = looked_at(Source.at(folder), is_up=lambda: False)
    written = (tmp_path / "a.md").read_text()
    assert f"said of {sample.told}." in done.stderr and f"rows (4 files), {sample.told}; SHA-256" in written
    assert "of the people drawn at random from the 200" in written
    unfair = int((sample.sample["x"] == 4).sum())
    assert f"{unfair} of {len(sample.sample)}" in done.stdout
    (tmp_path / "people").mkdir()
    make_people(200, seed=1).to_csv(tmp_path / "people" / "a.csv", index=False)
    done = bornfair("proxies", "people", "--sensitive", "sex", "--target", "grant", "--seed", "3", cwd=tmp_path)
    assert done.returncode == 0 and "random rows of the 200 that there are" in done.stderr


def test_who_could_exist_is_read_off_all_rows_where_the_model_does_not_say(folder, tmp_path, monkeypatch):
    from sklearn.linear_model import LogisticRegression

    monkeypatch.setattr(survey, "SAMPLE_ROWS", (20, 20))
    rows = pd.read_parquet(folder)
    bank = LogisticRegression().fit(rows, rows["x"] > 3)
    exact = domain_of(Source.at(folder), target=None, sensitive=["s"])
    sample = looked_at(Source.at(folder)).sample
    found = audit(bank, sample, domain=exact, sensitive_features=["s"], timeout=5)
    assert found.documents[0].domain is not None and exact.feature("x").high == 7
