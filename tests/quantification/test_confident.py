"""The interval that is true almost certainly: covered as often as it says, whenever it is stopped, and never narrower
than what is too close to call.
"""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bornfair.quantification.confident as confidence
import bornfair.quantification.crowds as crowds
import bornfair.quantification.measure as engine
from bornfair.core.clock import Clock
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.exact import exact_decisions, inputs_of_views
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.shares.forms import Bounder, sure_people
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import variables
from bornfair.people.twins.relation import band_relation, twin_relation
from bornfair.proof.bundle import FairModel
from bornfair.quantification.confident import FirstSample, Looks, Parts, needed_samples, take_looks
from bornfair.quantification.crowds import Crowd
from bornfair.quantification.measure import shares_of
from bornfair.quantification.records import Confident, Shares

SEEDS = st.integers(0, 2**32 - 1)


# --- looks ---


def share_covered(runs=2000):
    """How often the truth lies in an interval of confidence 0.9, over all looks that somebody may stop at."""
    rng, covered = np.random.default_rng(1), 0
    for run in range(runs):
        chance, unsure, drawn = rng.random() ** 3, 0.05 * rng.random(), rng.random()
        parts = Parts(0.5 * (1 - drawn), 0.5 * (1 - drawn), drawn)

        def draw(count, own, chance=chance, unsure=unsure):
            unfair = int(own.binomial(count, chance))
            return unfair - (close := int(own.binomial(unfair, unsure))), close

        looks = Looks(0.9)
        stop = int(rng.integers(300, 20_000))
        take_looks(looks, draw, parts, 3000.0, Clock(), run, narrow=0.0, most=stop, together=stop)
        covered += looks.low <= parts.unfair + drawn * chance <= looks.high
    return covered / runs


def test_intervals_hold_the_truth_as_often_as_they_say(monkeypatch):
    assert share_covered() >= 0.9
    # Were every look allowed to err as if it were the only one, too many would be wrong.
    monkeypatch.setattr(Looks, "begin", lambda self, goals, planned=None: self.__dict__.update(
        _allowed=dict.fromkeys(goals, 1 - self.confidence), series=self.series + 1, _seen=0
    ))  # fmt: skip
    assert share_covered() < 0.9


def share_missed_by_samples_that_end_when_they_mislead(looked, runs=1500, size=2000):
    """How often a sample of a fair coin misses the truth if it ends, as if time were up, as soon as it misleads."""
    rng, missed = np.random.default_rng(2), 0
    for _ in range(runs):
        found, looks = rng.random(size) < 0.5, Looks(0.2)
        counts = np.arange(1, size + 1)
        far = np.abs(2 * np.cumsum(found) - counts) > 2.3 * np.sqrt(counts)
        far[:100] = False
        looked(looks, found[: int(far.argmax()) + 1 if far.any() else size])
        missed += not looks.low <= 0.5 <= looks.high
    return missed / runs


def test_a_first_sample_that_ends_when_it_misleads_errs_no_more_than_its_share():
    def as_fixed(looks, found):
        looks.look_first(FirstSample.of(2000).after(found, np.zeros_like(found)))

    def wherever_it_ended(looks, found):
        looks.begin([len(found)])
        looks.look(int(found.sum()), 0, len(found), Parts())

    share = Looks(0.2).share
    assert share == pytest.approx(0.1)
    assert share_missed_by_samples_that_end_when_they_mislead(as_fixed) <= share
    assert share_missed_by_samples_that_end_when_they_mislead(wherever_it_ended) > 1.5 * share


def test_a_sample_is_looked_at_where_it_was_fixed_before(monkeypatch):
    """Of a measurement whose time for it is up after some people of the sample."""
    monkeypatch.setattr("bornfair.quantification.crowds.CHUNK", 2**12)  # some 500 at a time
    ticks = itertools.count()
    clock = Clock(2.0, now=lambda: next(ticks) / 100)
    found = shares_of(half_known(), timeout=clock, samples=100_000, most_samples=0)
    assert 1000 < found.estimate.samples < 100_000  # it was cut short
    assert found.confident.samples in FirstSample.of(100_000).goals
    assert found.estimate.samples / 1.5 - 1 <= found.confident.samples < found.estimate.samples


def test_series_that_are_broken_off_until_one_misleads_err_no_more_than_all_may(monkeypatch):
    """Somebody interrupts every series whose first draws do not mislead, and begins anew."""

    def share_missed(runs=250):
        missed = 0
        for run in range(runs):
            looks, rng = Looks(0.8), np.random.default_rng(run)

            def draw(count, _, rng=rng, limits=looks):
                found = int(rng.binomial(count, 0.5))
                error = max(limits._allowed.values(), default=1.0)
                low, high = confidence.clopper_pearson(found, count, 1 - error)
                if low <= 0.5 <= high:
                    raise KeyboardInterrupt
                return found, 0

            for _ in range(20):
                with contextlib.suppress(KeyboardInterrupt):
                    take_looks(looks, draw, Parts(), 300.0, Clock(), run, narrow=0.0, most=300, together=300)
            missed += not looks.low <= 0.5 <= looks.high
        return missed / runs

    assert share_missed() <= 0.2 + 0.05  # two standard deviations of 250 runs
    # Were only those looks paid for that are taken, nearly all would be wrong.
    monkeypatch.setattr(Looks, "share", property(lambda self: (1 - self.confidence) / 2))
    assert share_missed() > 0.5


def test_every_series_has_random_numbers_of_its_own():
    """Also if the one before was broken off before anybody looked."""
    drawn, clock = [], iter([*[0.0] * 6, *[9.0] * 50])

    def draw(count, rng):
        drawn.append(rng.random())
        return count // 2, 0

    looks = Looks()
    take_looks(looks, draw, Parts(), 600.0, Clock(1.0, now=lambda: next(clock)), 7, narrow=0.0, most=600, together=50)
    assert drawn and looks.samples == 0
    take_looks(looks, draw, Parts(), 600.0, Clock(), 7, narrow=0.0, most=600, together=50)
    assert looks.samples == 600 and len(set(drawn)) == len(drawn)


def test_all_series_together_may_err_as_often_as_one_interval_may():
    looks, spent = Looks(0.99), 0.0
    for series in range(60):
        planned = None if series % 3 == 0 else 30
        before = looks.share
        looks.begin([10, 20, 30], planned)
        assert sum(looks._allowed.values()) == pytest.approx(before)
        spent += before
    assert 0.0099 < spent <= 0.01 + 1e-15


def test_nobody_looks_twice_or_at_a_number_that_was_not_fixed():
    looks = Looks()
    looks.begin([1000, 2000])
    looks.look(500, 0, 1999, Parts())
    assert (looks.low, looks.high, looks.samples) == (0.0, 1.0, 0)
    looks.look(500, 0, 1000, Parts())
    looks.look(900, 0, 2000, Parts())
    before = looks.low, looks.high, looks.samples
    assert looks.samples == 2000
    looks.look(0, 0, 2000, Parts())
    assert (looks.low, looks.high, looks.samples) == before


def looked_at(*sample, parts=None):
    looks = Looks()
    looks.begin([10_000])
    looks.look(*sample, parts or Parts())
    return looks


def test_what_is_too_close_to_call_counts_against_both_ends():
    known, open_ = looked_at(300, 0, 10_000), looked_at(300, 200, 10_000)
    assert open_.low == known.low
    assert open_.high > known.high + 0.015
    lost = looked_at(300, 0, 10_000, parts=Parts(drawn=0.9))  # a tenth is neither proven nor drawn from
    assert lost.low < known.low and lost.high > known.high + 0.08


def test_an_interval_is_not_wider_than_what_is_proven_and_never_empty():
    looks = looked_at(300, 0, 10_000)
    assert looks.within(0.03, 0.969) == Confident(0.03, 1 - 0.969, looks.confidence, 10_000)
    assert looks.within(0.2, 0.7) == Confident(0.2, 1 - 0.7, looks.confidence, 10_000)  # proofs are right
    with pytest.raises(InputError, match="low ≤ high"):
        Confident(0.2, 0.1)
    with pytest.raises(InputError, match="share from 0 to 1"):
        Confident(0.2, 1.1)
    assert Shares(0.5, 0.25).to_json()["confident"] == {
        "low": 0.25, "high": 0.5, "confidence": 1 - 1e-6, "samples": 0
    }  # fmt: skip


def confident(draw, parts, *, seed=0):
    """The interval from proofs and from draws until it is narrow, or until an interrupt."""
    looks = Looks()
    planned = needed_samples(parts.drawn / 2, parts.drawn, looks, 0.01)
    with contextlib.suppress(KeyboardInterrupt):
        take_looks(looks, draw, parts, planned, Clock(), seed, narrow=0.01, most=2**27)
    return looks.within(parts.unfair, parts.fair)


def test_an_interrupt_keeps_the_looks_that_were_taken():
    calls = itertools.count()

    def draw(count, rng):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return int(rng.binomial(count, 0.1)), 0

    found = confident(draw, Parts())
    assert found.samples > 0
    assert 0.05 < found.low <= 0.1 <= found.high < 0.2


def test_the_same_seed_gives_the_same_interval():
    def draw(count, rng):
        return int(rng.binomial(count, 0.1)), 0

    one, same, other = (confident(draw, Parts(0.1, 0.4, 0.5), seed=s) for s in (3, 3, 4))
    assert one == same != other


# --- people by the thousand ---


def random_model(rng, activation="relu", twins=False):
    features = (
        IntegerFeature(name="n", low=-3, high=4),
        RealFeature(name="r", low=-1.0, high=1.0),
        CategoricalFeature(name="c", categories=("x", "y", "z")),
        BooleanFeature(name="s"),
    )
    outputs = int(rng.choice([1, 1, 3]))
    domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=tuple(range(max(outputs, 2)))))
    domain = domain.with_twins("c: x<->y, n: -x+1") if twins else domain
    encoding = Encoding(domain, {"n": Scale(centre=0.5, exponent=0), "r": Scale(centre=0.0, exponent=0)})
    widths = [encoding.width, *rng.integers(1, 7, int(rng.integers(0, 4))).tolist(), outputs]
    layers, tame = [], rng.random() < 0.5
    for a, b in itertools.pairwise(widths):
        weight, bias = rng.normal(size=(b, a)), rng.normal(size=b)
        layers.append(Layer(*(np.round(2 * part) / 2 if tame else part for part in (weight, bias))))
    return FairModel(Network(tuple(layers), activation), encoding)


@settings(max_examples=60)
@given(SEEDS)
def test_whoever_is_judged_quickly_is_judged_rightly(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, twins=bool(rng.random() < 0.5))
    relation = twin_relation(model.encoding)
    owner = Bounder(model.network, relation, variables(model.encoding, relation.free), "float32")
    crowd = Crowd(owner)
    assert crowd.quick
    places = owner.variables.draw(24, rng)
    places[:, ~owner.variables.places.grouped] = np.round(4 * places[:, ~owner.variables.places.grouped]) / 4
    free = owner.variables.places.values(places)
    fair, unfair = crowd.judge(free)
    assert not (fair & unfair).any()
    for row, (is_fair, is_unfair) in enumerate(zip(fair, unfair, strict=True)):
        decided = exact_decisions(model.network, inputs_of_views(relation.views, free[row]))
        alike = len(set(decided.tolist())) == 1
        assert alike if is_fair else not alike if is_unfair else True
    surely = sure_people(owner, free)
    assert (fair | unfair).sum() >= (surely[0] | surely[1]).sum()


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu"])
def test_other_activations_are_judged_as_intervals_judge_them(activation):
    rng = np.random.default_rng(3)
    for _ in range(10):
        model = random_model(rng, activation)
        relation = twin_relation(model.encoding)
        owner = Bounder(model.network, relation, variables(model.encoding, relation.free))
        free = owner.variables.places.values(owner.variables.draw(500, rng))
        quick, slow = Crowd(owner).judge(free), sure_people(owner, free)
        assert not (quick[0] & slow[1]).any() and not (quick[1] & slow[0]).any()
        assert (quick[0] | quick[1]).mean() > 0.99


def test_nobody_is_judged_whose_score_is_within_rounding():
    """x − 1 and x − 1 + 2^-30: float32 cannot tell, and where x = 1 the twins differ in real arithmetic alone."""
    features = (IntegerFeature(name="x", low=0, high=2), BooleanFeature(name="s"))
    domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=(0, 1)))
    encoding = Encoding(domain, {"x": Scale(centre=0.0, exponent=0)})
    network = Network((Layer(np.array([[1.0, 2.0**-30]]), np.array([-1.0])),))
    relation = twin_relation(encoding)
    people, everybody = variables(encoding, relation.free), np.array([[0.0], [1.0], [2.0]])
    fair, unfair = Crowd(Bounder(network, relation, people, "float32")).judge(everybody)
    assert (fair.tolist(), unfair.tolist()) == ([True, False, True], [False] * 3)
    fair, unfair = Crowd(Bounder(network, relation, people, "real")).judge(everybody)
    assert unfair.tolist() == [False, True, False]


def test_people_with_every_value_of_a_sensitive_number_are_fair_only_if_all_are_alike():
    features = (RealFeature(name="x", low=0.0, high=1.0), RealFeature(name="s", low=0.0, high=1.0))
    domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=(0, 1)))
    scales = {name: Scale(centre=0.0, exponent=0) for name in ("x", "s")}
    model = FairModel(Network((Layer(np.array([[1.0, 0.25]]), np.array([-0.5])),)), Encoding(domain, scales))
    assert (model.encoding.sensitive.spans[0].low, model.encoding.sensitive.spans[0].high) == pytest.approx((-1.0, 1.0))
    relation = band_relation(model.encoding)  # unfair where 0.25 < x ≤ 0.75
    crowd = Crowd(Bounder(model.network, relation, variables(model.encoding, relation.free)))
    fair, unfair = crowd.judge(np.array([[0.1], [0.24], [0.3], [0.74], [0.76], [0.9]]))
    assert (fair.tolist(), unfair.tolist()) == (
        [True, True, False, False, True, True], [False, False, True, True, False, False]
    )  # fmt: skip
    found = shares_of(model, timeout=1e9, most_boxes=6, samples=1000)
    assert found.confident.low <= 0.5 <= found.confident.high


# --- drawing ---


def test_people_of_boxes_are_drawn_as_they_are_distributed():
    features = (
        IntegerFeature(name="n", low=0, high=5),
        CategoricalFeature(name="c", categories=("x", "y", "z", "w")),
        BooleanFeature(name="s"),
    )
    encoding = Encoding(Domain(features=features, sensitive=("s",)), {"n": Scale(centre=0.0, exponent=0)})
    weights = {"n": {0: 1, 1: 0, 2: 5, 3: 2, 5: 3}, "c": {"x": 1, "y": 0, "z": 2, "w": 4}}
    for marginals in (None, weights):
        people = variables(encoding, twin_relation(encoding).free, marginals)
        boxes = Boxes(
            np.array([[1.0, 0, 0, 0, 0], [0.0, 0, 0, 0, 0]]), np.array([[3.0, 1, 1, 1, 0], [0.0, 0, 1, 1, 1]])
        )
        rng = np.random.default_rng(0)
        for row in range(2):
            box = boxes[np.array([row])]
            everybody, _ = people.places.everybody(box)
            mass = people.mass(Boxes(everybody, everybody))
            drawn = people.inside(boxes[np.full(20_000, row)], rng)
            seen = np.array([(drawn == person).all(axis=1).mean() for person in everybody])
            assert seen.sum() == pytest.approx(1.0)
            assert np.abs(seen - mass / mass.sum()).max() < 0.02
            assert not seen[mass == 0].any()


def test_real_numbers_of_boxes_are_drawn_as_they_are_distributed():
    features = (RealFeature(name="r", low=-1.0, high=1.0), BooleanFeature(name="s"))
    encoding = Encoding(Domain(features=features, sensitive=("s",)), {"r": Scale(centre=0.0, exponent=0)})
    pieces = {(-1.0, 0.0): 1, (0.0, 0.5): 0, (0.5, 1.0): 3}
    people = variables(encoding, twin_relation(encoding).free, {"r": pieces})
    rng = np.random.default_rng(0)
    low, high = np.full((20_000, 1), -0.5), np.full((20_000, 1), 0.75)
    drawn = people.inside(Boxes(low, high), rng)[:, 0]
    assert ((drawn >= -0.5) & (drawn <= 0.75)).all()
    assert not ((drawn > 0) & (drawn < 0.5)).any()
    assert (drawn < 0).mean() == pytest.approx(0.5 / 2, abs=0.02)  # ½ of a weight of 1, and ½ of 3
    assert drawn[drawn < 0].mean() == pytest.approx(-0.25, abs=0.01)


# --- in a measurement ---


def half_known(width=3):
    """Unfair where the digits of three numbers sum to 12: no box is decided for long."""
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=9) for k in range(width))
    domain = Domain(
        features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
    )
    weight = np.concatenate([np.ones((2, width)), [[0.5], [0.25]]], axis=1)
    layers = (Layer(weight, np.array([-12.25, -14.0])), Layer(np.array([[1.0, -0.5]]), np.zeros(1)))
    return FairModel(Network(layers), Encoding(domain, {f.name: Scale(centre=0.0, exponent=0) for f in features}))


def test_the_interval_is_narrower_than_what_is_proven_and_narrows_with_samples(monkeypatch):
    monkeypatch.setattr(engine, "MOST_SUMS", 0)  # two sums tell all: it would hardly leave anything to be drawn
    model = half_known(7)
    proven = shares_of(model, timeout=1e9, most_boxes=40, samples=500, most_samples=0)
    some, more = (
        shares_of(model, timeout=1e9, most_boxes=40, samples=500, most_samples=n).confident for n in (20_000, 500_000)
    )
    assert proven.confident.samples == 500
    assert more.high - more.low < some.high - some.low < proven.undecided
    assert max(some.low, proven.falsified) <= more.high and more.low <= some.high
    assert more.samples > some.samples > 500


def test_an_interrupt_while_drawing_from_boxes_keeps_the_looks(monkeypatch):
    calls, drawn_from = itertools.count(), crowds.Crowd.drawn_from

    def interrupting(self, boxes):
        def draw(*arguments):
            if next(calls) == 4:
                raise KeyboardInterrupt
            return drawn_from(self, boxes)(*arguments)

        return draw

    monkeypatch.setattr(engine, "MOST_SUMS", 0)  # two sums tell all: it would hardly leave anything to be drawn
    model = half_known(7)
    whole = shares_of(model, timeout=1e9, most_boxes=40, samples=500, most_samples=500_000).confident
    monkeypatch.setattr(crowds.Crowd, "drawn_from", interrupting)
    monkeypatch.setattr(engine, "AFTER_INTERRUPT", 0.0)
    found = shares_of(model, timeout=1e9, most_boxes=40, samples=500, most_samples=500_000)
    assert found.interrupted
    assert found.confident.samples > 500
    assert whole.high - whole.low < found.confident.high - found.confident.low < 0.2


def test_what_cannot_be_asked_is_said():
    for wrong in ({"confidence": 1.0}, {"confidence": 0.0}, {"most_samples": -1}):
        with pytest.raises(InputError, match="confidence between 0 and 1"):
            shares_of(half_known(), timeout=1.0, **wrong)


def test_wide_networks_over_many_features_do_not_exhaust_memory():
    rng = np.random.default_rng(0)
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=99) for k in range(100))
    domain = Domain(
        features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
    )
    widths, layers = (101, 200, 200, 200, 1), []
    for i, (a, b) in enumerate(itertools.pairwise(widths)):
        weight = rng.normal(size=(b, a)) / np.sqrt(a)
        weight[:, :100] /= 50 if i == 0 else 1
        layers.append(Layer(weight, rng.normal(size=b) / 4))
    people = np.concatenate([rng.integers(0, 100, (500, 100)), np.ones((500, 1))], axis=1)
    middle = float(np.median(Network(tuple(layers)).estimated(people)))  # half of the people are on either side
    layers[-1] = Layer(layers[-1].weight, layers[-1].bias - middle)
    model = FairModel(
        Network(tuple(layers)), Encoding(domain, {f.name: Scale(centre=0.0, exponent=0) for f in features})
    )
    tracemalloc.start()
    try:
        found = shares_of(model, timeout=1e9, most_boxes=9, samples=20_000, most_samples=20_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.boxes >= 9 and found.confident.samples > 20_000
    assert 0 < found.confident.low <= found.estimate.unfair <= found.confident.high
    assert peak < 2**28
