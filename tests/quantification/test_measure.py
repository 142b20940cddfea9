"""Shares of small domains never exceed what counting everybody gives, and equal it when nothing is left open."""

from __future__ import annotations

import itertools
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bornfair.models.network.bounds.alive as alive
import bornfair.models.network.shares.forms as forms
import bornfair.quantification.crowds as sampling
import bornfair.quantification.measure as engine
from bornfair.core.clock import Clock
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.shares.forms import Bounder
from bornfair.models.network.shares.relaxation import Sums
from bornfair.models.network.shares.shares import surely_above
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import variables
from bornfair.people.twins.relation import flip_relation
from bornfair.proof.bundle import FairModel
from bornfair.quantification.confident import Sample, clopper_pearson
from bornfair.quantification.measure import shares_of
from bornfair.quantification.records import Estimate, Shares
from bornfair.verification.frontier import Frontier
from clocks import fast_clock, slow_clock
from share_fuzz import FOREVER, case, mistakes, random_marginals, small_model, true_shares, unfair_people

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=70)
@given(SEEDS)
def test_shares_never_claim_more_than_counting_everybody_gives(seed):
    assert case(seed, "relu") is None


@settings(max_examples=15)
@given(SEEDS)
def test_the_same_holds_for_networks_that_do_not_bend_one_way(seed):
    assert case(seed, "tanh") is None


def single(features, layers, *, sensitive=None, activation="relu"):
    sensitive = sensitive or CategoricalFeature(name="s", categories=("p", "q"))
    label = Label(name="y", classes=(0, 1))
    domain = Domain(features=(*features, sensitive), sensitive=("s",), label=label)
    scales = {f.name: Scale(centre=0.0, exponent=0) for f in domain.features if f.kind in ("integer", "real")}
    return FairModel(Network(tuple(Layer(*layer) for layer in layers), activation), Encoding(domain, scales))


# --- the parts ---


def interpolated(nodes, sums, boxes, people):
    """constant + Σ table at people of boxes (places), one person per box, by the definition of the nodes."""
    numbers = nodes.variables.numbers
    low, high = boxes.low[:, numbers], boxes.high[:, numbers]
    width = np.where(high > low, high - low, 1.0)
    at = np.where(high > low, 2 * (people[:, numbers] - low) / width - 1, -1.0).T
    hats = np.stack([np.maximum(-at, 0), 1 - np.abs(at), np.maximum(at, 0)])  # [3, numbers, boxes]
    weights = [np.zeros((0, len(boxes)))]
    if len(nodes.pairs):
        weights.append((hats[:, None, nodes.pairs[:, 0]] * hats[None, :, nodes.pairs[:, 1]]).reshape(-1, len(boxes)))
    weights.append(hats[:, nodes.singles].reshape(-1, len(boxes)))
    weights += [people[:, group].T for group in nodes.variables.groups]
    return sums.constant + (sums.table * np.concatenate(weights)).sum(axis=-2)


def random_boxes(rng, places, count):
    boxes = Boxes(*(np.repeat(end, count, axis=0) for end in (places.root.low, places.root.high)))
    for _ in range(6):
        noise = rng.normal(size=(2, len(boxes), places.free.width)) + 5
        first, second, can = places.cut(boxes, np.abs(noise[0]), noise[1])
        pick = rng.random(len(first)) < 0.5
        halves = Boxes(
            *(np.where(pick[:, None], a, b) for a, b in ((first.low, second.low), (first.high, second.high)))
        )
        boxes = Boxes.joined(halves, boxes[~can])
    return boxes


@settings(max_examples=40)
@given(SEEDS)
def test_outputs_lie_between_the_bounds_everywhere_in_a_box(seed):
    rng = np.random.default_rng(seed)
    model = small_model(rng, depth=int(rng.integers(1, 5)))
    relation = flip_relation(model.encoding)
    owner = Bounder(model.network, relation, variables(model.encoding, relation.free))
    places = owner.variables.places
    boxes = random_boxes(rng, places, 8)
    whole = owner.bounds(*places.bounds(boxes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alive, "NARROW", 0)
        patch.setattr(alive, "WORTH", 1.0)
        picked = owner.bounds(*places.bounds(boxes), whole.alive)
    assert not (picked.alive & ~whole.alive).any()
    for _, found in itertools.product(range(3), (whole, picked)):
        people = places.draw(boxes, rng)
        for v, view in enumerate(relation.views):
            values = view(places.values(people))
            for i, layer in enumerate(model.network.layers):
                values = np.maximum(values, 0) if i else values
                values = values @ layer.weight.T.astype(np.float64) + layer.bias
            gaps = (
                values if values.shape[1] == 1 else np.stack([values[:, b] - values[:, a] for b, a in owner.pairs], 1)
            )
            for p in range(len(owner.pairs)):
                row = v * len(owner.pairs) + p
                for below, above in zip(found.lower, found.upper, strict=True):
                    least, most = (
                        interpolated(owner.nodes, Sums(s.constant[row], s.table[row]), boxes, people)
                        for s in (below, above)
                    )
                    assert (least <= gaps[:, p]).all()
                    assert (gaps[:, p] <= most).all()


@settings(max_examples=40)
@given(SEEDS)
def test_the_share_of_a_sum_above_zero_is_bounded_closely(seed):
    rng = np.random.default_rng(seed)
    model = small_model(rng, depth=1)
    relation = flip_relation(model.encoding)
    marginals = random_marginals(rng, model) if rng.random() < 0.5 else None
    owner = Bounder(model.network, relation, variables(model.encoding, relation.free, marginals))
    nodes, places = owner.nodes, owner.variables.places
    box = random_boxes(rng, places, 1) if rng.random() < 0.7 else places.root
    table = rng.normal(size=(nodes.count, 1)) * rng.choice([0.0, 1.0, 5.0], (nodes.count, 1))
    people, _ = places.everybody(box)
    many = Boxes(*(np.repeat(end, len(people), axis=0) for end in (box.low, box.high)))
    for group in relation.free.groups:  # what a category that is not allowed would give is never seen
        allowed = box.high[0, group] > 0
        at = nodes.parts[list(relation.free.groups).index(group) - len(relation.free.groups)][0]
        table[at][~allowed] = table[at][allowed][0]
    sums = Sums(np.zeros(1), table)
    values = interpolated(nodes, Sums(np.zeros(len(people)), np.repeat(table, len(people), axis=1)), many, people)
    weights = owner.variables.mass(Boxes(people, people))
    if not weights.sum():
        return
    shift = float(np.quantile(values, rng.random()))
    truth = float(weights[values - shift > 0].sum() / weights.sum())
    found = float(surely_above(nodes, box, Sums(sums.constant - shift, table), 4096)[0])
    near = 0.01 * (values.max() - values.min()) + 1e-9
    assert found <= truth + 1e-12
    assert found >= float(weights[values - shift > near].sum() / weights.sum()) - 1e-6


def test_confidence_intervals_are_those_of_the_beta_distribution():
    from scipy.stats import beta

    for found, count, confidence in ((0, 10, 0.95), (3, 50, 0.99), (50, 50, 0.9), (700, 200_000, 0.99)):
        rest = (1 - confidence) / 2
        low = 0.0 if found == 0 else beta.ppf(rest, found, count - found + 1)
        high = 1.0 if found == count else beta.ppf(1 - rest, found + 1, count - found)
        assert clopper_pearson(found, count, confidence) == pytest.approx((low, high), rel=1e-9)


def test_an_estimate_stays_in_the_range_that_proofs_narrow():
    nobody_found = Sample(100, 0, 100, np.zeros((0, 1)), np.zeros(1))
    found = nobody_found.estimate(certified=0.4, falsified=0.01)
    assert (found.unfair, found.low, found.high) == (0.01, 0.01, 0.6)
    with pytest.raises(InputError, match=r"found 0\.5 outside 0\.6 to 0\.7"):
        Estimate(0.5, 0.6, 0.7)
    with pytest.raises(InputError, match=r"certified of shares: found 1\.5; give a share from 0 to 1"):
        Shares(1.5, 0.0)
    with pytest.raises(InputError, match="sum to 1 at most"):
        Shares(0.7, 0.7)


def test_the_records_load_without_what_measures_them():
    code = "import sys, bornfair.quantification.records as q; q.Shares; print({'scipy', 'pandas'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


# --- domains that cannot be counted ---


def slab(low=-1.0, high=1.0):
    """x − 0.3 ± 0.1 with a hidden layer in between: unfair where 0.2 < x ≤ 0.4."""
    first = np.array([[1.0, 0.1], [-1.0, -0.1]]), np.array([-0.3, 0.3])
    return single((RealFeature(name="x", low=low, high=high),), [first, (np.array([[1.0, -1.0]]), np.zeros(1))])


def test_shares_of_a_real_range_come_close_to_the_truth():
    found = shares_of(slab(), timeout=FOREVER, most_boxes=300, samples=2000)
    assert 0.0999 < found.falsified <= 0.1 + 1e-7  # the weights 0.1 and 0.3 are rounded to float32
    assert 0.8999 < found.certified <= 0.9 + 1e-7
    assert found.estimate.low <= 0.1 <= found.estimate.high
    assert found.counts is None


def test_marginals_of_a_real_range_move_the_shares():
    marginals = {"x": {(-1.0, 0.0): 1, (0.0, 0.3): 2, (0.3, 1.0): 1}}  # 2/4·1/3 + 1/4·1/7 are unfair
    found = shares_of(slab(), timeout=FOREVER, most_boxes=400, samples=5000, marginals=marginals)
    truth = 0.5 / 3 + 0.25 / 7
    assert truth - 1e-3 < found.falsified <= truth + 1e-6
    assert found.estimate.low <= truth <= found.estimate.high


def test_more_people_than_can_be_counted():
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=9999) for k in range(100))  # 10^400
    weight = np.concatenate([np.full((1, 100), 1e-4), np.array([[0.5]])], axis=1)
    hidden = [(weight, np.array([-50.0])), (np.array([[1.0]]), np.array([-1.0]))]
    found = shares_of(single(features, hidden), timeout=FOREVER, most_boxes=8, samples=500)
    assert 0 <= found.certified <= 1 - found.falsified
    assert found.certified > 0.01
    assert found.certified + found.falsified + found.undecided == 1.0


# --- stopping ---


def a_thousand_people():
    rng = np.random.default_rng(5)
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=5) for k in range(4))
    layers = [(rng.normal(size=(6, 5)), rng.normal(size=6)), (rng.normal(size=(4, 6)), rng.normal(size=4))]
    return single(features, [*layers, (rng.normal(size=(1, 4)), np.array([0.3]))])


def test_the_last_box_may_be_decided_when_the_pace_would_be_measured(monkeypatch):
    monkeypatch.setattr(forms, "NUMBERS", 1)  # one box at a time, so that it is measured as soon as there are three
    monkeypatch.setattr(engine, "FEW", 1)
    model = single((IntegerFeature(name="x", low=0, high=1),), [(np.array([[1.0, 0.25]]), np.array([-0.5]))])
    found = shares_of(model, timeout=FOREVER, samples=50)
    assert found.reason == "everybody is decided" and found.undecided == 0.0


def test_a_lattice_run_to_its_end_is_counted_out():
    model = a_thousand_people()
    people, unfair = unfair_people(model)
    found = shares_of(model, timeout=FOREVER, samples=1000, arithmetic=("real",))
    assert 0 < unfair.sum() < len(people)
    assert found.counts == {
        "certified": len(people) - int(unfair.sum()), "falsified": int(unfair.sum()), "undecided": 0
    }  # fmt: skip
    assert found.reason == "everybody is decided"
    assert found.estimate.low <= unfair.mean() <= found.estimate.high


def test_the_same_seed_and_number_of_boxes_give_the_same_shares():
    one, other = (
        shares_of(a_thousand_people(), timeout=FOREVER, most_boxes=60, samples=500, seed=3).to_json() for _ in range(2)
    )
    assert {k: v for k, v in one.items() if k != "seconds"} == {k: v for k, v in other.items() if k != "seconds"}
    assert set(one) >= {"certified", "falsified", "undecided", "estimate", "boxes", "seconds"}


def test_how_many_work_side_by_side_changes_nothing_but_the_time(monkeypatch):
    monkeypatch.setattr(forms, "NUMBERS", 2**11)
    monkeypatch.setattr(engine, "FEW", 1)
    found = [
        shares_of(a_thousand_people(), timeout=FOREVER, most_boxes=200, samples=500, seed=3, jobs=jobs).to_json()
        for jobs in (1, 3)
    ]
    one, three = ({name: value for name, value in each.items() if name != "seconds"} for each in found)
    assert one == three
    assert one["undecided"] > 0 and one["confident"]["samples"] > 500
    for wrong in (0, 1.5, True):
        with pytest.raises(InputError, match="jobs is a whole number from 1 on"):
            shares_of(a_thousand_people(), jobs=wrong)


def test_a_number_of_boxes_gives_the_same_shares_whatever_the_clock_says(monkeypatch):
    monkeypatch.setattr(forms, "NUMBERS", 2**9)
    monkeypatch.setattr(engine, "FEW", 1)
    monkeypatch.setattr(sampling, "CHUNK", 2**10)
    found = [
        shares_of(a_thousand_people(), timeout=clock, most_boxes=200, samples=500, seed=3).to_json()
        for clock in (fast_clock(), slow_clock())
    ]
    fast, slow = ({name: value for name, value in each.items() if name != "seconds"} for each in found)
    assert fast == slow
    assert fast["reason"] == "enough boxes were bounded" and fast["estimate"]["samples"] == 500


def test_it_stops_when_precise_enough():
    found = shares_of(a_thousand_people(), timeout=FOREVER, precision=0.2, samples=500)
    assert found.reason == "precise enough"
    assert found.undecided <= 0.2
    assert found.boxes < shares_of(a_thousand_people(), timeout=FOREVER, precision=0.02, samples=500).boxes


def test_the_history_tells_how_the_undecided_share_falls():
    moments = itertools.count()
    clock = Clock(2000.0, now=lambda: float(next(moments)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FEW", 1)
        patch.setattr(forms, "NUMBERS", 2**9)
        found = shares_of(a_thousand_people(), timeout=clock, most_boxes=200, samples=100)
    told = found.history
    assert 3 < len(told) <= engine.MOMENTS + 1 and "history" not in found.to_json()
    assert all(a.seconds < b.seconds and a.boxes <= b.boxes for a, b in itertools.pairwise(told))
    assert told[0].undecided > told[-2].undecided and told[-1].undecided == found.undecided


def test_no_time_at_all_still_gives_an_answer():
    found = shares_of(a_thousand_people(), timeout=0.0)
    assert found.certified + found.falsified + found.undecided == 1.0
    assert found.reason == "time is up"


@pytest.mark.parametrize("after", [0, 1, 5, 9])
def test_an_interrupt_returns_what_is_known(after):
    model = a_thousand_people()
    fair, unfair = true_shares(model)
    calls, judge = itertools.count(), engine.judge_boxes

    def interrupt(*arguments):
        if next(calls) == after:
            raise KeyboardInterrupt
        return judge(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "judge_boxes", interrupt)
        patch.setattr(engine, "AFTER_INTERRUPT", FOREVER)
        patch.setattr(engine, "FEW", 4)
        patch.setattr(forms, "NUMBERS", 2**11)
        found = shares_of(model, timeout=FOREVER, samples=200)
    assert found.interrupted
    assert found.reason == "interrupted"
    assert mistakes(model, found, fair, unfair, False) is None


@pytest.mark.parametrize("after", [0, 2])
def test_an_interrupt_while_crediting_keeps_what_was_credited(after):
    model = a_thousand_people()
    fair, unfair = true_shares(model)
    calls, prove = itertools.count(), engine.prove

    def interrupt(*arguments):
        if next(calls) == after:
            raise KeyboardInterrupt
        return prove(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "prove", interrupt)
        patch.setattr(engine, "FEW", 1)
        patch.setattr(forms, "NUMBERS", 2**9)
        found = shares_of(model, timeout=FOREVER, samples=200, most_boxes=16)
    assert found.interrupted
    assert mistakes(model, found, fair, unfair, False) is None


def test_an_interrupt_while_sampling_keeps_those_who_were_drawn(monkeypatch):
    calls, original = [], sampling.disagree

    def interrupt(values):
        calls.append(len(values))
        if len(calls) > 2:
            raise KeyboardInterrupt
        return original(values)

    monkeypatch.setattr(sampling, "CHUNK", 2000)
    monkeypatch.setattr(sampling, "disagree", interrupt)
    found = shares_of(slab(), timeout=FOREVER, samples=100_000)
    assert found.interrupted and found.reason == "interrupted"
    assert found.estimate.samples == calls[0] + calls[1]
    assert found.confident.low <= 0.1 <= found.confident.high < 1


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_an_interrupt_where_every_feature_is_sensitive_returns_an_answer(monkeypatch, activation):
    def interrupt(*_):
        raise KeyboardInterrupt

    hidden = np.array([[1.0], [-1.0]]), np.zeros(2)
    model = single((), [hidden, (np.array([[1.0, -0.5]]), np.zeros(1))], activation=activation)
    assert shares_of(model, timeout=FOREVER, samples=20).undecided == 0
    monkeypatch.setattr(engine, "judge_people", interrupt)
    found = shares_of(model, timeout=FOREVER, samples=20)
    assert (found.undecided, found.interrupted) == (1.0, True)


def test_an_interrupt_while_drawing_returns_nothing_but_an_answer(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "draw", interrupt)
    found = shares_of(a_thousand_people(), timeout=FOREVER)
    assert (found.undecided, found.interrupted) == (1.0, True)


def test_boxes_forgotten_for_want_of_memory_are_credited_first():
    model = a_thousand_people()
    fair, unfair = true_shares(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "MEMORY", 3000)
        patch.setattr(engine, "FEW", 1)
        found = shares_of(model, timeout=FOREVER, most_boxes=600, samples=200)
    assert found.certified > 0.3
    assert mistakes(model, found, fair, unfair, False) is None


def test_progress_is_told():
    said, moments = [], itertools.count(0, 2)
    clock = Clock(FOREVER, said.append, now=lambda: float(next(moments)))
    shares_of(a_thousand_people(), timeout=clock, most_boxes=40, samples=100)
    assert any("undecided" in text and "boxes bounded" in text for text in said)


# --- what needs no search, and what cannot be asked ---


def test_a_network_that_cannot_tell_twins_apart_is_certified_at_once():
    model = single((RealFeature(name="x", low=0.0, high=1.0),), [(np.array([[1.0, 0.0]]), np.array([-0.5]))])
    found = shares_of(model, timeout=5, samples=100)
    assert (found.certified, found.falsified, found.undecided) == (1.0, 0.0, 0.0)


def test_what_reaches_dead_neurons_only_is_certified_on_the_boundary_too():
    first = np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([0.0, -2.0])
    model = single((RealFeature(name="x", low=-1.0, high=1.0),), [first, (np.array([[1.0, 5.0]]), np.array([-0.3]))])
    assert shares_of(model, timeout=FOREVER, most_boxes=10, samples=100).certified > 1 - 1e-9


def test_nothing_is_claimed_about_a_network_with_infinite_weights():
    model = single((RealFeature(name="x", low=0.0, high=1.0),), [(np.array([[np.inf, 1.0]]), np.array([0.0]))])
    found = shares_of(model, timeout=5)
    assert (found.certified, found.falsified, found.undecided) == (0.0, 0.0, 1.0)
    assert "infinity" in found.reason


def test_overflow_claims_nothing():
    layers = [(np.full((3, 2), 1e30), np.zeros(3)), (np.full((1, 3), 1e30), np.zeros(1))]
    model = single((RealFeature(name="x", low=1.0, high=2.0),), layers)
    found = shares_of(model, timeout=FOREVER, most_boxes=20, samples=100)
    assert (found.certified, found.falsified) == (0.0, 0.0)


def test_nobody_has_a_twin_where_nothing_is_sensitive():
    domain = Domain(features=(IntegerFeature(name="x", low=0, high=9),))
    network = Network((Layer(np.array([[1.0]]), np.array([-4.5])),))
    model = FairModel(network, Encoding(domain, {"x": Scale(centre=0.0, exponent=0)}))
    assert shares_of(model, timeout=5, samples=100).certified == 1.0


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_many_views_are_bounded_together(activation, depth):
    rng = np.random.default_rng(depth)
    sensitive = IntegerFeature(name="s", low=0, high=30)
    features = (IntegerFeature(name="n", low=0, high=9), CategoricalFeature(name="c", categories=("u", "v", "w")))
    widths, layers = [5, *[4] * depth, 1], []
    for i, (a, b) in enumerate(itertools.pairwise(widths)):
        weight = rng.normal(size=(b, a))
        weight[:, 4:] *= 0.02 if i == 0 else 1.0
        layers.append((weight, rng.normal(size=b)))
    model = single(features, layers, sensitive=sensitive, activation=activation)
    fair, unfair = true_shares(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FEW", 1)
        part = shares_of(model, timeout=FOREVER, samples=100, most_boxes=5)
        whole = shares_of(model, timeout=FOREVER, samples=100, arithmetic=("real",))
    assert mistakes(model, part, fair, unfair, False) is None
    assert mistakes(model, whole, fair, unfair, activation == "relu") is None
    assert part.certified > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"arithmetic": ("float64",)},
        {"timeout": -1.0},
        {"precision": 2.0},
        {"samples": 0},
        {"most_boxes": 0},
        {"marginals": {"nobody": {1: 1}}},
        {"marginals": {"x0": {77: 1}}},
        {"marginals": {"x0": {}}},
        {"marginals": {"x0": {1: -1, 2: 3}}},
        {"marginals": {"x0": {1: float("nan")}}},
    ],
)
def test_wrong_questions_are_refused(wrong):
    with pytest.raises(InputError):
        shares_of(a_thousand_people(), **({"timeout": 1.0} | wrong))


@pytest.mark.parametrize("ranges", [{0.5: 1}, {(-1.0, 0.0): 1}, {(-1.0, 0.5): 1, (0.4, 1.0): 1}])
def test_marginals_of_real_numbers_must_cover_them(ranges):
    with pytest.raises(InputError, match="x"):
        shares_of(slab(), marginals={"x": ranges}, timeout=1.0)


def test_weights_that_are_not_whole_are_taken_as_written():
    model = a_thousand_people()
    marginals = {"x0": {0: 0.1, 1: 0.7, 5: 0.2}}
    fair, unfair = true_shares(model, marginals)
    found = shares_of(model, marginals=marginals, timeout=FOREVER, samples=100, arithmetic=("real",))
    assert found.counts is not None
    assert Fraction(found.counts["falsified"], sum(found.counts.values())) == unfair
    assert mistakes(model, found, fair, unfair, True) is None


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", [(), (3,), (3, 2), (3, 2, 4)])
def test_where_every_feature_is_sensitive_there_is_one_person(hidden, activation):
    random, features = np.random.default_rng(4), (BooleanFeature(name="s"), BooleanFeature(name="t"))
    domain = Domain(features=features, sensitive=("s", "t"), label=Label(name="y", classes=(0, 1)))
    widths = (2, *hidden, 1)
    layers = [Layer(random.normal(size=(b, a)), random.normal(size=b)) for a, b in itertools.pairwise(widths)]
    model = FairModel(Network(tuple(layers), activation), Encoding(domain, {}, {}))
    shares, fair = shares_of(model, timeout=5), model.verify(timeout=5).answer == "verified"
    assert (shares.certified, shares.falsified) == ((1.0, 0.0) if fair else (0.0, 1.0))


def test_boxes_that_wait_in_files_are_counted_and_come_back(monkeypatch):
    """As many people, certified and falsified, as where there is room for all; none twice, whenever it stops."""
    model = a_thousand_people()
    fair, unfair = true_shares(model)
    monkeypatch.setattr(engine, "FEW", 1)
    monkeypatch.setattr(forms, "NUMBERS", 2**11)
    plenty = shares_of(model, timeout=FOREVER, samples=200, arithmetic=("real",))
    monkeypatch.setattr(engine, "MEMORY", 2000)
    shelved = []
    monkeypatch.setattr(Frontier, "shelve_half", _told(shelved, Frontier.shelve_half))
    scarce = shares_of(model, timeout=FOREVER, samples=200, arithmetic=("real",))
    assert scarce.counts == plenty.counts and scarce.reason == "everybody is decided" and len(shelved) > 1
    for most in (40, 90, 200):
        part = shares_of(model, timeout=FOREVER, samples=200, most_boxes=most)
        assert mistakes(model, part, fair, unfair, False) is None


def _told(calls, method):
    def told(*asked):
        calls.append(asked)
        return method(*asked)

    return told
