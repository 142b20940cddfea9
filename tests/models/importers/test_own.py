"""A model of ours answers about other features than it was made fair to, as counting everybody out does."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from bornfair import Domain, FairModel, audit, quantify, verify
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.onnx_graph import shipped
from bornfair.people.columns import Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.policies import Policies
from bornfair.people.twins.versions import Versions
from bornfair.questions.loading import load_model

FEATURES = (
    IntegerFeature(name="age", low=0, high=4),
    CategoricalFeature(name="sex", categories=("f", "m")),
    CategoricalFeature(name="race", categories=("a", "b", "c")),
    BooleanFeature(name="owner"),
)
DOMAIN = Domain(features=FEATURES, sensitive=("sex",), label=Label(name="grant", classes=("no", "yes")))


def model_of(
    first: np.ndarray, bias: np.ndarray, last: np.ndarray, cut: float = 0.3, *, held: bool = False
) -> FairModel:
    """Columns of the first layer: age (perhaps held between 1 and 3), race a/b/c, owner, then the code of sex."""
    ends = {"low": 1.0, "high": 3.0} if held else {}
    encoding = Encoding(DOMAIN, {"age": Scale(centre=2.0, exponent=1, **ends)})
    return FairModel(Network((Layer(first, bias), Layer(last, np.array([cut])))), encoding)


def chance(seed: int, *, ignores: bool) -> FairModel:
    random = np.random.default_rng(seed)
    first = random.normal(size=(4, 6)).astype(np.float32)
    first[:, 5] *= 0 if ignores else 1
    return model_of(first, random.normal(size=4), random.normal(size=(1, 4)), 0.1, held=seed % 2 == 1)


def everybody() -> pd.DataFrame:
    rows = itertools.product(*(feature.levels() for feature in FEATURES))
    return pd.DataFrame([dict(zip(DOMAIN.names, row, strict=True)) for row in rows])


def counted_out(model: FairModel, names: list[str]) -> bool:
    """Whether all who differ in these features alone are decided alike, as onnxruntime decides."""
    table = everybody()
    table["decided"] = shipped(model).decided(table)
    rest = [name for name in DOMAIN.names if name not in names]
    return bool((table.groupby(rest)["decided"].nunique() == 1).all())


@pytest.mark.parametrize("names", [["race"], ["owner"], ["age"], ["race", "sex"], ["sex", "owner", "age"]])
def test_any_feature_of_a_model_of_ours_may_be_asked_about(names):
    answers = set()
    for seed, ignores in itertools.product(range(6), (True, False)):
        model = chance(seed, ignores=ignores)
        found = verify(model, sensitive_features=names, timeout=20)
        assert found.answer == ("verified" if counted_out(model, names) else "falsified"), (seed, ignores)
        answers.add(found.answer)
        if found.twins:
            assert {name for name in DOMAIN.names if len({twin[name] for twin in found.twins}) > 1} <= set(names)
            assert len(set(shipped(model).decide(found.twins))) > 1
    assert "falsified" in answers


def test_what_has_no_weight_is_proven_by_structure_and_the_sensitive_features_it_ignores_stay_unread():
    first = np.array([[1.0, 0, 0, 0, 2.0, 0], [0.5, 0, 0, 0, -1.0, 0]])  # reads age and owner alone
    model = model_of(first, np.zeros(2), np.array([[1.0, -1.0]]))
    assert (found := verify(model, sensitive_features="race")).proof == "structural", found.reason
    assert verify(model, sensitive_features=["race", "sex"]).answer == "verified"
    assert verify(model, sensitive_features=["sex"]).arithmetic == ("real", "float32")  # its own question, as ever
    assert "sex" not in load_model(model, sensitive=["race"]).original.reads


def test_a_sentinel_far_beyond_an_end_does_not_keep_other_questions_from_being_asked():
    income = RealFeature(name="income", low=1_000.0, high=1e9)  # in float32, incomes of such a range are 32 apart
    who = Domain(features=(income, *FEATURES[1:]), sensitive=("sex",), label=DOMAIN.label)
    random = np.random.default_rng(7)
    encoding = Encoding(who, {"income": Scale(centre=20_000.0, exponent=12, high=60_000.0)})
    layers = (
        Layer(random.normal(size=(8, 6)) * [[3, 1, 1, 1, 1, 1]], random.normal(size=8)),
        Layer(random.normal(size=(1, 8)), np.zeros(1)),
    )
    model = FairModel(Network(layers), encoding)
    asked = load_model(model, sensitive=["race"])
    assert asked.encoding.scales["income"] == encoding.scales["income"] and len(asked.network.layers) == 2
    assert asked.original.largest_difference < 1e-4
    table = pd.DataFrame({"income": [9e8, 7e4, 3e4], "sex": "f", "race": "a", "owner": True})
    assert asked.scores(table) == pytest.approx(model.scores(table), rel=1e-4)


def test_a_number_of_few_values_in_the_table_is_asked_about_as_the_list_of_them():
    sex = RealFeature(name="sex_std", low=-1.1, high=0.9)
    who = Domain(features=(FEATURES[0], sex, FEATURES[2]), sensitive=("race",), label=DOMAIN.label)
    encoding = Encoding(who, {"age": Scale(centre=2.0, exponent=1), "sex_std": Scale(centre=0.0, exponent=0, high=0.5)})
    # relu(1 - 4|s|)-like: only somebody between the two values, whom nobody knows, is decided otherwise
    first = np.array([[0.0, 1.0, 0, 0, 0], [0, -1.0, 0, 0, 0]])
    layers = (Layer(first, np.zeros(2)), Layer(np.array([[-1.0, -1.0]]), np.array([0.25])))
    model = FairModel(Network(layers), encoding)
    table = pd.DataFrame({"age": [0, 1, 2, 3] * 5, "sex_std": [-1.1, 0.9] * 10, "race": "a"})
    assert verify(model, sensitive_features=["sex_std"], timeout=10).answer == "falsified"
    asked = load_model(model, sensitive=["sex_std"], table=table)
    assert asked.domain.feature("sex_std").levels() == (-1.1, 0.9)
    assert verify(model, table, sensitive_features=["sex_std"], timeout=10).answer == "verified"
    assert verify(model, table, sensitive_features=["sex_std", "race"], timeout=10).answer == "verified"


def test_gaps_are_filled_in_whatever_is_asked_about():
    kind = chance(1, ignores=False)
    filling = dataclasses.replace(kind.encoding, fill={"age": 2, "race": "a", "owner": True, "sex": "f"},
                                  policies=Policies(missing="impute"))  # fmt: skip
    table = everybody().astype({"age": float})
    table.loc[:3, "age"] = None
    (document,) = audit(
        FairModel(kind.network, filling), table, sensitive_features=["race"], timeout=2, over="data"
    ).documents
    assert document.people.rows == len(table) and document.gaps.left_out == 0


def test_the_answersays_that_the_certificate_is_about_something_else(tmp_path):
    model = chance(1, ignores=True).certified(timeout=5)
    bundle = model.save(tmp_path / "bundle")
    assert model.certificate.verdict.answer == "verified"
    found = verify(bundle, sensitive_features=["race"], timeout=10)
    assert "asked about 'race'; the model's own certificate is about 'sex' and says nothing of this" in found.reason
    assert found.answer == "falsified" and load_model(bundle, sensitive=["race"]).certificate is None
    (document,) = audit(bundle, everybody(), sensitive_features=["race"], timeout=4).documents
    assert document.verdict.answer == "falsified" and document.people.unfair > 0


def test_shares_of_another_question_are_those_of_counting():
    model = chance(2, ignores=True)
    asked = load_model(model, sensitive=["race", "owner"])
    table = everybody().drop_duplicates(["age", "sex"])
    versions = Versions(asked.domain)
    decided = np.stack([shipped(model).decided(versions.table(table, i)) for i in range(versions.size)])
    unfair = int((decided != decided[0]).any(axis=0).sum())
    found = quantify(model, sensitive_features=["race", "owner"], timeout=20)
    assert found.counts == {"certified": len(table) - unfair, "falsified": unfair, "undecided": 0}
    assert found.arithmetic == ("real",)


def test_other_twins_of_other_features_are_asked_about():
    first = np.array([[1.0, 0, 0, 0, 3.0, 0]])
    model = model_of(first, np.zeros(1), np.array([[1.0]]), -1.2)
    assert verify(model, sensitive_features=["race"], timeout=10).answer == "verified"
    rule = "race: a<->b, owner: true<->false"
    assert verify(model, sensitive_features=["race"], twins=rule, timeout=10).answer == "falsified"


def test_another_question_at_another_threshold_is_that_of_the_model_as_it_then_decides():
    model = chance(4, ignores=True)
    for threshold in (0.2, 0.5, 0.9):
        found = verify(model, sensitive_features=["race"], threshold=threshold, timeout=20)
        assert bool(found) == counted_out(model.at(threshold), ["race"]), threshold


def test_the_node_that_refuses_gaps_lists_no_category(tmp_path):
    """Asked from outside, a graph of ours was shown people without a job, whom it refuses."""
    from bornfair.importers.onnx_file import read_onnx
    from bornfair.people.policies import Policies
    from bundle_cases import JOB, reading

    file = read_onnx(reading(0.0, Policies(missing="error", unseen="ignore")).export_onnx(tmp_path / "model.onnx"))
    assert file.wanted.categories["job"] == JOB.categories
