"""Who in a table is treated unfairly, what would undo it, and where in the domain they are."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from bornfair import audit
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.subpopulation import marginals_of
from bornfair.proof.bundle import FairModel
from bornfair.quantification.groups import affected_groups
from bornfair.quantification.measure import shares_of
from bornfair.quantification.people import most_affected, treatment
from bornfair.questions import quantify
from bornfair.verification.replay import replay

pytestmark = pytest.mark.slow


def model_of(features, layers, *, sensitive=None, classes=("no", "yes")):
    sensitive = sensitive or (CategoricalFeature(name="sex", categories=("female", "male")),)
    domain = Domain(
        features=(*features, *sensitive),
        sensitive=tuple(f.name for f in sensitive),
        label=Label(name="grant", classes=classes),
    )
    scales = {f.name: Scale(centre=0.0, exponent=0) for f in domain.features if f.kind in ("integer", "real")}
    return FairModel(Network(tuple(Layer(*layer) for layer in layers)), Encoding(domain, scales))


def lender():
    """income + job's worth − 10, and ±1 for sex, but only where gain ≥ 7: relu(gain − 6) caps what sex may do.

    gain ≤ 6: hidden 1 is relu(0 ± small) = 0. The columns are income, gain, job = clerk, nurse, then the code of sex.
    """
    features = (
        IntegerFeature(name="income", low=0, high=20),
        IntegerFeature(name="gain", low=0, high=9),
        CategoricalFeature(name="job", categories=("clerk", "nurse")),
    )
    first = np.array([[1.0, 0, 0, 2, 0], [0, 1.0, 0, 0, 0.5], [0, 1.0, 0, 0, -0.5]])
    return model_of(features, [(first, np.array([0.0, -6.4, -6.4])), (np.array([[1.0, 1.5, -1.5]]), np.array([-10.2]))])


def people(model):
    rows = itertools.product(*(f.levels() for f in model.domain.features))
    return pd.DataFrame([dict(zip(model.domain.names, row, strict=True)) for row in rows])


def decided(model, table):
    return model.predict(table)


def test_treatment_agrees_with_deciding_every_version():
    model = lender()
    table = people(model)
    found = treatment(model, table)
    as_woman, as_man = (decided(model, table.assign(sex=sex)) for sex in ("female", "male"))
    assert 0 < (~found.fair).sum() < len(table)
    assert (found.fair == (as_woman == as_man)).all()
    assert (found.gap[found.fair] == 0).all()
    assert (found.gap[~found.fair] > 0).all()


def test_the_twin_of_a_row_has_another_sex_and_another_decision():
    model = lender()
    table = people(model).sample(200, random_state=1)
    found, rows = treatment(model, table), np.arange(len(table))
    own, twin = found.decided[rows, found.own], found.decided[rows, found.twin]
    values = np.array([sex for (sex,) in model.domain.sensitive_space.values])
    assert (model.classes[own] == decided(model, table)).all()
    assert ((own == twin) == found.fair).all() and not found.fair.all()
    assert ((values[found.twin] == table["sex"]) == found.fair).all()


def test_people_without_sensitive_columns_get_the_most_telling_pair():
    model = lender()
    table = people(model).drop(columns="sex")
    found = treatment(model, table)
    rows = np.flatnonzero(~found.fair)
    assert len(rows)
    assert (found.decided[rows, found.own[rows]] != found.decided[rows, found.twin[rows]]).all()


def test_a_tie_that_rounding_decides_is_looked_at_exactly():
    """(x + 1e7) − 1e7 − s/100: the sign depends on s exactly, but float32 cannot see it."""
    first = np.array([[1.0, 0.0], [0.0, 0.01]]), np.array([1e7, 1e7])
    model = model_of((IntegerFeature(name="x", low=0, high=1),), [first, (np.array([[1.0, -1.0]]), np.array([0.0]))])
    found = treatment(model, pd.DataFrame({"x": [0, 1], "sex": ["male", "male"]}))
    exact = [len(set(replay(model, {"x": x}, [0, 1]).decisions["real"])) == 1 for x in (0, 1)]
    assert exact == [False, True]
    assert found.fair.tolist() == exact


def test_the_most_affected_come_first_and_their_undoing_was_replayed():
    model = lender()
    table = people(model)
    records = most_affected(model, table, most=6)
    gaps = [record.gap for record in records]
    assert len(records) == 6
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] == pytest.approx(treatment(model, table).gap.max())
    for record in records:
        differing = {name for name in record.person if record.person[name] != record.twin[name]}
        assert differing == {"sex"}
        assert list(record.decisions) == list(decided(model, pd.DataFrame([record.person, record.twin])))
        assert record.decisions[0] != record.decisions[1]
        changes = record.undo["changes"]
        assert all(record.person[name] == before for name, (before, _) in changes.items())
        mended = record.person | {name: after for name, (_, after) in changes.items()}
        versions = decided(model, pd.DataFrame([mended | {"sex": sex} for sex in ("female", "male")]))
        assert set(versions) == {record.undo["decision"]}


def test_the_undoing_is_the_smallest_change():
    """Of all people who differ in one feature and are treated fairly, none is nearer."""
    model = lender()
    table = people(model)
    fair = set(map(tuple, table[treatment(model, table).fair][["income", "gain", "job"]].to_numpy().tolist()))
    for record in most_affected(model, table, most=8):
        person = tuple(record.person[name] for name in ("income", "gain", "job"))
        distances = []
        for other in fair:
            if sum(a != b for a, b in zip(person, other, strict=True)) == 1:
                distances.append(
                    abs(person[0] - other[0]) / 20 + abs(person[1] - other[1]) / 9 + (person[2] != other[2])
                )
        ((name, (before, after)),) = record.undo["changes"].items()
        cost = 1 if name == "job" else abs(before - after) / {"income": 20, "gain": 9}[name]
        assert cost == pytest.approx(min(distances))


def test_two_features_are_changed_where_one_is_not_enough():
    """Fair only where both a and b are set: f = s·(1 − min(a, b)) needs both."""
    # min(a, b) = a − relu(a − b); f = s·2 − 4·min(a, b) + 1 for codes s = ±1: same sign if min = 1.
    first = np.array([[1.0, 0, 0], [1.0, -1, 0], [0, 0, 1.0], [0, 0, -1.0]]), np.zeros(4)
    last = np.array([[-8.0, 8.0, 2.0, -2.0]]), np.array([1.0])
    model = model_of((BooleanFeature(name="a"), BooleanFeature(name="b")), [first, last])
    records = most_affected(model, pd.DataFrame({"a": [False], "b": [False], "sex": ["male"]}))
    assert records[0].undo["changes"] == {"a": [False, True], "b": [False, True]}


def test_where_nothing_undoes_it_none_is_said():
    model = model_of((BooleanFeature(name="a"),), [(np.array([[0.1, 1.0]]), np.zeros(1))])
    records = most_affected(model, pd.DataFrame({"a": [False, True], "sex": ["male", "female"]}))
    assert [record.undo for record in records] == [None, None]


def test_several_sensitive_features_change_as_few_as_possible():
    sensitive = (CategoricalFeature(name="sex", categories=("f", "m")), BooleanFeature(name="old"))
    model = model_of(
        (RealFeature(name="x", low=-3.0, high=3.0),), [(np.array([[1.0, 1.0, 0.5]]), np.zeros(1))], sensitive=sensitive
    )
    table = pd.DataFrame({"x": [0.0, 1.2, 2.5], "sex": ["m", "m", "f"], "old": [True, True, False]})
    found = treatment(model, table)
    assert found.fair.tolist() == [False, False, True]
    twins = [model.domain.sensitive_space.values[version] for version in found.twin]
    assert twins[0] == ("f", True)  # sex alone suffices
    assert twins[1] == ("f", False)


def test_many_classes_have_twins_too():
    model = model_of(
        (IntegerFeature(name="x", low=0, high=5),),
        [(np.array([[1.0, 1.0], [0.5, 0.0], [0.0, 0.0]]), np.array([0.0, 1.0, 1.6]))],
        classes=("a", "b", "c"),
    )
    table = people(model)
    found = treatment(model, table)
    versions = [model.predict(table.assign(sex=sex)) for sex in ("female", "male")]
    assert (found.fair == (versions[0] == versions[1])).all()
    assert 0 < found.fair.sum() < len(table)


def test_rows_outside_the_domain_are_told_but_not_replayed():
    model = lender()
    table = people(model).head(3).assign(income=[100, 200, 10.4])
    assert treatment(model, table).fair.tolist() == [True, True, True]


def test_an_empty_table_has_nobody():
    empty = people(lender()).head(0)
    assert most_affected(lender(), empty) == []
    assert not len(treatment(lender(), empty).fair)


def test_wrong_questions_about_people_are_refused():
    with pytest.raises(InputError, match="most"):
        most_affected(lender(), people(lender()), most=-1)
    with pytest.raises(InputError, match="most"):
        affected_groups(lender(), most=0)
    plain = model_of((IntegerFeature(name="x", low=0, high=5),), [(np.array([[1.0, 1.0]]), np.zeros(1))])
    nobody = FairModel(plain.network, Encoding(plain.domain.with_sensitive(()), plain.encoding.scales))
    with pytest.raises(InputError, match="twin"):
        treatment(nobody, people(plain))


def too_many_to_list():
    """Six sensitive features with 12^6 combinations, none of which the network reads."""
    sensitive = tuple(CategoricalFeature(name=f"s{i}", categories=tuple(f"c{j}" for j in range(12))) for i in range(6))
    domain = Domain(
        features=(IntegerFeature(name="income", low=0, high=20), *sensitive),
        sensitive=tuple(f.name for f in sensitive),
        label=Label(name="grant", classes=("no", "yes")),
    )
    encoding = Encoding(domain, {"income": Scale(centre=0.0, exponent=0)})
    weight = np.zeros((1, encoding.width))
    weight[0, 0] = 1.0
    return FairModel(Network((Layer(weight, np.array([-10.5])),)), encoding)


def test_a_model_proven_fair_is_measured_though_its_twins_cannot_be_listed():
    model = too_many_to_list()
    table = model.domain.sample(50, seed=0)
    found = quantify(model, table=table, timeout=2)
    assert (found.certified, found.falsified, found.groups) == (1.0, 0.0, ())
    assert found.counts == {"certified": 21, "falsified": 0, "undecided": 0}
    assert (found.people.rows, found.people.unfair, found.people.most_affected) == (50, 0, ())
    assert audit(model, table, timeout=2).document.people.unfair == 0
    reading = np.array(model.network.layers[0].weight)
    reading[0, 1] = 1.0
    unfair = FairModel(Network((Layer(reading, np.array([-10.5])),)), model.encoding)
    with pytest.raises(InputError, match="more than the 100,000 that can be listed"):
        quantify(unfair, timeout=2)


def test_the_function_does_all_that_the_command_does():
    model = lender()
    table = people(model).sample(200, random_state=0).assign(grant="no")
    found = quantify(model, table=table, target="grant", over="data", timeout=5, most=2)
    weights = marginals_of(model.domain, table.drop(columns="grant"))
    again = shares_of(model, marginals=weights, timeout=5)
    assert (found.over, found.certified, found.falsified) == ("data", again.certified, again.falsified)
    assert 1 <= len(found.groups) <= 2 and len(found.people.most_affected) == 2
    assert found.people.unfair == int((~treatment(model, table.drop(columns="grant")).fair).sum())
    assert {"over", "groups", "people"} <= set(found.to_json())
    with pytest.raises(InputError, match="over='data' takes the weights from a table"):
        quantify(model, over="data")
    with pytest.raises(InputError, match="target 'grnt' is not in the table; did you mean 'grant'"):
        quantify(model, table=table, target="grnt")


# --- groups ---


def test_groups_name_where_the_unfairness_sits():
    model = lender()
    groups = affected_groups(model, samples=4000, seed=2)
    everybody = people(model)
    unfair = ~treatment(model, everybody).fair
    assert groups
    assert any("gain ≥ 7" in group.text for group in groups)
    for group in groups:
        inside = group.holds(everybody)
        assert group.share == pytest.approx(inside.mean(), abs=0.03)
        assert group.inside.low <= unfair[inside].mean() <= group.inside.high
        assert group.contains == pytest.approx(unfair[inside].sum() / unfair.sum(), abs=0.1)
        assert group.inside.low > unfair.mean() - 0.02
        assert 1 <= len(group.conditions) <= 3
        assert group.to_json()["kind"] == "estimate"
    assert affected_groups(model, samples=4000, seed=2) == groups


def test_groups_speak_of_categories_and_real_numbers():
    features = (
        CategoricalFeature(name="relationship", categories=("Husband", "Wife", "Own-child", "Other")),
        RealFeature(name="hours", low=0.0, high=100.0),
    )
    # Sex counts only for husbands and wives: relu(±1 − 2 + 2·spouse) on both sides of the boundary at hours = 50.
    first = np.array([[0.0, 0, 0, 0, 1.0, 0], [2.0, 2, 0, 0, 0, 1.0]]), np.array([0.0, -2.0])
    model = model_of(features, [first, (np.array([[1.0, 10.0]]), np.array([-50.0]))])
    groups = affected_groups(model, samples=4000, most=3)
    assert any("relationship in {Husband, Wife}" in group.text for group in groups)
    assert any("hours" in group.text for group in groups)


def test_where_nobody_is_treated_unfairly_there_are_no_groups():
    model = model_of((IntegerFeature(name="x", low=0, high=5),), [(np.array([[1.0, 0.0]]), np.zeros(1))])
    assert affected_groups(model, samples=200) == []


def test_groups_follow_the_marginals():
    marginals = {"gain": dict.fromkeys(range(7), 1)}
    assert affected_groups(lender(), samples=500, marginals=marginals) == []


# --- declared twins ---


def married():
    """Sex counts a little, being a husband or a wife a lot; the two are declared each other's twins."""
    features = (
        CategoricalFeature(name="is", categories=("Husband", "Wife", "Other")),
        IntegerFeature(name="hours", low=0, high=40),
    )
    first = np.array([[6.0, 2.0, 0.0, 1.0, 0.5], [0.0, 3.0, 1.0, -1.0, 0.0]]), np.array([-10.25, 12.0])
    plain = model_of(features, [first, (np.array([[1.0, -1.0]]), np.array([0.125]))])
    domain = plain.domain.with_twins("sex: female<->male, is: Husband<->Wife")
    return FairModel(plain.network, Encoding(domain, plain.encoding.scales))


def test_declared_twins_are_measured_as_the_table_of_all_versions_shows():
    model = married()
    table = people(model).drop(columns="sex").drop_duplicates()
    decided_as = model.scores_of_versions(table)[..., 0] > 0
    unfair = (decided_as != decided_as[0]).any(axis=0)
    found = shares_of(model, timeout=1e9, samples=500, arithmetic=("real",))
    plain = FairModel(model.network, Encoding(model.domain.replaced(twins=()), model.encoding.scales))
    flipped = shares_of(plain, timeout=1e9, samples=500, arithmetic=("real",))
    assert found.counts == {"certified": int((~unfair).sum()), "falsified": int(unfair.sum()), "undecided": 0}
    assert flipped.counts is not None
    assert 0 < flipped.counts["falsified"] < unfair.sum()
    assert (treatment(model, table).fair == ~unfair).all()


def test_a_declared_twin_is_shown_with_all_that_changed():
    model = married()
    records = most_affected(model, people(model), most=40)
    swapped = [r for r in records if r.person["is"] != r.twin["is"]]
    assert swapped
    for record in swapped:
        assert {record.person["is"], record.twin["is"]} == {"Husband", "Wife"}
        assert record.person["hours"] == record.twin["hours"]
        assert list(record.decisions) == list(decided(model, pd.DataFrame([record.person, record.twin])))
