"""People of whom something is missing: every engine and every share beside all of them, counted one by one."""

import itertools

import numpy as np
import pandas as pd
import pytest

from bornfair import verify
from bornfair.models.network.bounds.exact import exact_decisions
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.onnx_graph import shipped
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.boxes import Boxes, Places
from bornfair.people.twins.relation import twin_relation
from bornfair.proof.bundle import FairModel, bundle_files
from bornfair.proof.checker import check_files
from bornfair.quantification import measure
from bornfair.quantification.measure import shares_of
from bornfair.quantification.population import shares_of_rows
from bornfair.verification.replay import exact_input
from brute_force import attack_mistake, gappy_model, mistake, truth
from piecewise import all_values

REAL = ("real",)
CREDITED = (*range(6), 35, 49)  # of the last two, a box that holds gaps and numbers would be credited too much


def everybody(model) -> tuple[list[dict], np.ndarray]:
    """All people, and who of them has a twin who is decided otherwise, in real arithmetic."""
    features = model.domain.free_features
    people = [
        dict(zip((f.name for f in features), row, strict=True)) for row in itertools.product(*map(all_values, features))
    ]
    versions = range(model.domain.sensitive_space.size)
    inputs = np.stack([exact_input(model.encoding, person, version) for person in people for version in versions])
    decided = exact_decisions(model.network, inputs).reshape(len(people), -1)
    return people, (decided != decided[:, :1]).any(axis=1)


def test_no_verdict_contradicts_counting_out():
    seen = set()
    for seed in range(24):
        model = gappy_model(seed)
        known, verdict = truth(model), verify(model, engine="bounds", timeout=20, seed=seed)
        assert mistake(model, verdict, known) is None, (seed, mistake(model, verdict, known))
        assert attack_mistake(model, known) is None, seed
        seen.add(verdict.answer)
        twins = verdict.twins or []
        seen |= {"a gap" for twin in twins for name in model.domain.free_names if twin[name] is None}
    assert seen == {"verified", "falsified", "a gap"}


def test_shares_are_those_of_everybody_who_could_exist():
    unfair_somewhere = 0
    for seed in (*range(8), 46, 76):  # 46 and 76 hold a number at one value
        model = gappy_model(seed)
        people, unfair = everybody(model)
        unfair_somewhere += bool(unfair.any())
        found = shares_of(model, timeout=20, arithmetic=REAL, samples=64)
        assert found.counts == {"certified": (~unfair).sum(), "falsified": unfair.sum(), "undecided": 0}, seed
        rng = np.random.default_rng(seed)
        marginals = {f.name: {v: int(rng.integers(1, 5)) for v in all_values(f)} for f in model.domain.free_features}
        weights = np.array([np.prod([marginals[name][v] for name, v in who.items()]) for who in people], np.float64)
        share = weights[unfair].sum() / weights.sum()
        found = shares_of(model, timeout=20, arithmetic=REAL, samples=64, marginals=marginals)
        assert found.falsified == pytest.approx(share) and found.certified == pytest.approx(1 - share), seed
        stopped = shares_of(model, timeout=20, arithmetic=REAL, samples=2000, marginals=marginals, most_boxes=5)
        assert stopped.falsified <= share + 1e-9 and stopped.certified <= 1 - share + 1e-9, seed
        assert stopped.estimate.low - 0.01 <= share <= stopped.estimate.high + 0.01, seed
        rows = shares_of_rows(model, pd.DataFrame(people), arithmetic=REAL)
        assert (rows.counts["falsified"], rows.counts["undecided"]) == (unfair.sum(), 0), seed
    assert unfair_somewhere > 3


def test_parts_of_boxes_are_credited_for_people_who_exist(monkeypatch):
    monkeypatch.setattr(measure, "FEW", 0)  # nobody is looked at one by one
    proven = 0.0
    for seed in CREDITED:
        model = gappy_model(seed)
        share = everybody(model)[1].mean()
        for boxes in (1, 4):
            found = shares_of(model, timeout=20, arithmetic=REAL, samples=64, most_boxes=boxes)
            assert found.falsified <= share + 1e-9 and found.certified <= 1 - share + 1e-9, (seed, boxes, found, share)
            proven += found.certified + found.falsified
    assert proven > 1


def a_model(first: list[list[float]], features, **encoding) -> FairModel:
    label = Label(name="y", classes=("no", "yes"))
    domain = Domain(features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=label)
    layers = (Layer(np.array(first), np.zeros(len(first))), Layer(np.ones((1, len(first))), np.array([-0.5])))
    return FairModel(Network(layers), Encoding(domain, **encoding))


def test_a_real_number_with_gaps_is_measured_as_one_more_level_of_its_grid():
    x = RealFeature(name="x", low=0.0, high=1.0, grid=9, missing=True)
    # Nobody is decided by s = ±1 where 0.3·s + 0.1·gap stays below ½; with 0.4·gap it does where x is missing.
    model = a_model([[0.0, 0.1, 0.3]], [x], scales={"x": Scale(centre=0.0, exponent=0)}, fill={"x": 0.75})
    assert model.encoding.exact({"x": None, "s": True}).tolist()[:2] == [0.75, 1]
    assert verify(model, engine="bounds", timeout=5).answer == "verified"
    assert check_files(bundle_files(model.certified(timeout=5)))["verdict"] == "verified"
    model = a_model([[0.0, 0.4, 0.3]], [x], scales={"x": Scale(centre=0.0, exponent=0)}, fill={"x": 0.75})
    for engine in ("bounds", "auto"):
        verdict = verify(model, engine=engine, timeout=5)
        assert verdict.answer == "falsified" and [twin["x"] for twin in verdict.twins] == [None, None], engine
    for engine in ("smt", "milp"):
        verdict = verify(model, engine=engine, timeout=5)
        assert verdict.answer == "undecided" and "'x'" in verdict.reason, engine
    assert check_files(bundle_files(model.certified(timeout=5)))["verdict"] == "falsified"
    found = shares_of(model, timeout=5, samples=4000)
    assert found.falsified == pytest.approx(0.1) and found.certified == pytest.approx(0.9)
    assert found.estimate.unfair == pytest.approx(0.1, abs=0.03)
    assert model.domain.sample(4000, seed=0)["x"].isna().mean() == pytest.approx(0.1, abs=0.02)
    weighed = shares_of(model, timeout=5, samples=64, marginals={"x": {(0.0, 1.0): 3, None: 1}})
    assert weighed.falsified == pytest.approx(0.25) and weighed.certified == pytest.approx(0.75)
    known = shares_of(model, timeout=5, samples=64, where={"x": (0.25, 0.5)})  # who is in a range has the number
    assert (known.falsified, known.certified) == (0.0, pytest.approx(1.0))


def test_boxes_hold_just_the_people_who_exist():
    n = IntegerFeature(name="n", low=0, high=4, missing=True)
    model = a_model([[1.0, 1.0, 1.0]], [n], scales={"n": Scale(centre=1.0, exponent=1)}, fill={"n": 2.5})
    places = Places(twin_relation(model.encoding).free)
    people, _ = places.everybody(places.root)
    vectors = {tuple(row) for row in places.values(people).tolist()}
    assert vectors == {(-0.5, 0.0), (0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (1.5, 0.0), (0.75, 1.0)}
    assert places.count(places.root) == [6] and len(people) == 6
    gone = Boxes(np.array([[0.0, 1.0]]), np.array([[4.0, 1.0]]))
    assert [end.tolist() for end in places.bounds(gone)] == [[[0.75, 1.0]], [[0.75, 1.0]]]
    assert places.count(gone) == [1] and places.share(gone) == pytest.approx(1 / 6)
    assert not places.cuttable(gone).any() and places.cuttable(places.root).tolist() == [[False, True]]
    few = Boxes(np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([[1.0, 1.0], [4.0, 1.0]]))  # a gap is shown beyond them
    assert [end.tolist() for end in places.bounds(few)] == [[[-0.5, 0.0], [0.75, 0.0]], [[0.75, 1.0], [1.5, 1.0]]]


def test_a_mirrored_number_leaves_gaps_as_they_are():
    for merged in (False, True):
        n = IntegerFeature(name="n", low=0, high=5, missing=True)
        domain = Domain(
            features=(n, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
        ).with_twins("n: -x+5")
        table = pd.DataFrame({"n": [0, 1, 2, 3, None], "s": [True, False] * 2 + [True]})
        encoding = Encoding.fit(domain, table, merge_twins=merged)
        assert encoding.free_columns()["n"] == slice(0, 2) and encoding.fill["n"] == 1.5
        for view in twin_relation(encoding).views:  # somebody without the number is their own mirror image
            shown = view(encoding.free_vectors(table))[-1]
            assert shown[:2].tolist() == [0.0 if merged else encoding.gap("n").shown, 1.0]
        weight = np.array([[1.0, 0.25, 0.0]])
        model = FairModel(Network((Layer(weight, np.array([0.1])),)), encoding)
        unfair = verify(model, engine="bounds", timeout=5)
        assert unfair.answer == ("verified" if merged else "falsified")
        assert merged or unfair.twins[0]["n"] is not None
        assert check_files(bundle_files(model.certified(timeout=5)))["verdict"] == unfair.answer
        decided = shipped(model).decided(table)
        assert decided.tolist() == (model.scores(table)[:, 0] > 0).astype(int).tolist()


def test_a_gap_is_shown_as_a_number_of_the_range():
    from bornfair.core.errors import InputError

    n = IntegerFeature(name="n", low=0, high=4, missing=True)
    with pytest.raises(InputError, match=r"'n' may be missing, and a gap is shown to the network as 9.0, which is not"):
        a_model([[1.0, 1.0, 1.0]], [n], scales={"n": Scale(centre=1.0, exponent=1)}, fill={"n": 9.0})
