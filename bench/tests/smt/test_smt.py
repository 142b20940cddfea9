"""The smt engine against brute force: parts, pruning, verdicts, sub-populations, relaxed twins."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.exact import exact_scores
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, Feature, IntegerFeature, Label, RealFeature
from bornfair.people.space.subpopulation import ends_of, inputs_of, whole_domain
from bornfair.people.twins.relation import flip_relation
from bornfair.proof.bundle import FairModel
from bornfair.training.start import Exact, NearZero, draw
from bornfair.verification.replay import exact_input
from bornfair.verification.twin_question import NeuronBounds
from bornfair_bench.smt.engine import Tally, decide_by_smt, tally_by_smt
from bornfair_bench.smt.parts import partition_domain
from bornfair_bench.smt.terms import Pruning
from clocks import ticking

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)

# --- small models ---


def small_model(seed: int, *, reals: bool = True, outputs: int = 1, style: str | None = None) -> FairModel:
    rng = np.random.default_rng(seed)
    pool: list[Feature] = [
        IntegerFeature(name="n", low=-1, high=int(rng.integers(0, 4))),
        IntegerFeature(name="m", low=3, high=6),
        BooleanFeature(name="b"),
        CategoricalFeature(name="c", categories=("x", "y", "z")),
    ]
    if reals:
        pool.append(RealFeature(name="r", low=float(rng.uniform(-3, 0)), high=float(rng.uniform(0, 3))))
    kept = [feature for feature in pool if rng.random() < 0.6] or pool[:1]
    sensitive: list[Feature] = [CategoricalFeature(name="s", categories=("p", "q", "o")[: int(rng.integers(2, 4))])]
    if rng.random() < 0.3:
        sensitive.append(BooleanFeature(name="t"))
    label = Label(name="out", classes=("no", "yes") if outputs == 1 else tuple(range(outputs)))
    names = tuple(feature.name for feature in sensitive)
    domain = Domain(features=(*kept, *sensitive), sensitive=names, label=label)
    scales = {
        f.name: Scale(centre=float(np.float32(rng.normal())), exponent=int(rng.integers(-2, 3)))
        for f in domain.features
        if f.kind == "real"
    } | {f.name: Scale(centre=1.0, exponent=1) for f in domain.features if f.kind == "integer"}
    encoding = Encoding(domain, scales)
    if style is None and rng.random() < 0.4:
        return FairModel(deep_network(rng, encoding, outputs), encoding)
    chosen = style or str(rng.choice(oracle.STYLES))
    return FairModel(oracle.small_network(rng, flip_relation(encoding), chosen, outputs), encoding)


def deep_network(rng: np.random.Generator, encoding: Encoding, outputs: int) -> Network:
    """Two hidden layers; sensitive weights so large that neurons are often settled for one twin and not the other."""
    widths = (encoding.width, int(rng.integers(1, 4)), int(rng.integers(1, 4)), outputs)
    layers = [[rng.integers(-4, 5, (b, a)) / 2, rng.integers(-4, 5, b) / 2] for a, b in itertools.pairwise(widths)]
    layers[0][0][:, encoding.free_width :] *= rng.choice([0.0, 1.0, 20.0], (widths[1], 1))
    return Network(tuple(Layer(weight, bias) for weight, bias in layers))


def levels(feature: Feature) -> list[Any]:
    if feature.kind == "real":
        return [feature.low, (feature.low + feature.high) / 2, feature.high]
    return list(feature.levels())


def everybody(domain: Domain) -> list[dict[str, Any]]:
    features = domain.free_features
    return [
        dict(zip((f.name for f in features), row, strict=True)) for row in itertools.product(*map(levels, features))
    ]


def exact_decision(model: FairModel, person: dict[str, Any], value: int) -> int:
    return oracle.exact_decision(oracle.exact_scores(model.network, list(exact_input(model.encoding, person, value))))


def brute_force(model: FairModel, where: dict[str, Any] | None = None, relax: dict[str, float] | None = None) -> bool:
    """Whether there are twins who disagree, in real arithmetic, among the people that can be listed."""
    part = whole_domain(model.domain, {n: v for n, v in (where or {}).items() if n in model.domain.free_names})
    people = [person for person in everybody(model.domain) if part.holds(person, model.domain)]
    values = [
        i
        for i, row in enumerate(model.domain.sensitive_space.values)
        if all(v in (where or {}).get(n, [v]) for n, v in zip(model.domain.sensitive, row, strict=True))
    ]
    decided = {(i, s): exact_decision(model, person, s) for i, person in enumerate(people) for s in values}

    def twins(one: dict[str, Any], other: dict[str, Any]) -> bool:
        return all(
            abs(Fraction(one[n]) - Fraction(other[n])) <= Fraction((relax or {})[n])
            if n in (relax or {})
            else one[n] == other[n]
            for n in one
        )

    pairs = [(i, i) for i in range(len(people))]
    if relax:
        pairs = [(i, j) for i, one in enumerate(people) for j, other in enumerate(people) if twins(one, other)]
    return any(decided[i, s] != decided[j, t] for i, j in pairs for s in values for t in values if s != t)


def check_twins(model: FairModel, verdict: Any, relax: dict[str, float] | None = None) -> None:
    one, other = verdict.twins
    assert any(one[name] != other[name] for name in model.domain.sensitive)
    for name in model.domain.free_names:
        assert (
            abs(Fraction(one[name]) - Fraction(other[name])) <= Fraction(relax[name])
            if relax and name in relax
            else one[name] == other[name]
        )
    assert verdict.decisions[0] != verdict.decisions[1]
    if "real" in verdict.arithmetic:
        space = model.domain.sensitive_space.values
        found = [
            exact_decision(model, p, space.index(tuple(p[n] for n in model.domain.sensitive))) for p in (one, other)
        ]
        assert found[0] != found[1]


# --- parts ---


def census_like() -> Domain:
    sizes = {
        "workclass": 9,
        "education": 16,
        "marital": 7,
        "occupation": 15,
        "relationship": 6,
        "race": 5,
        "country": 42,
    }
    ranges = {"age": (17, 90), "education-num": (1, 16), "gain": (0, 99999), "loss": (0, 4356), "hours": (1, 99)}
    features: list[Feature] = [IntegerFeature(name=n, low=a, high=b) for n, (a, b) in ranges.items()]
    features += [CategoricalFeature(name=n, categories=tuple(range(k))) for n, k in sizes.items()]
    sex = CategoricalFeature(name="sex", categories=("Female", "Male"))
    return Domain(features=(*features, sex), sensitive=("sex",), label=Label(name="income", classes=(0, 1)))


@given(SEEDS, st.integers(1, 400))
def test_parts_hold_every_person_exactly_once(seed: int, count: int) -> None:
    domain = small_model(seed, reals=False).domain
    parts = partition_domain(domain, count=count, seed=seed)
    held = list(parts)
    assert len(held) == len(parts)
    for person in everybody(domain):
        assert sum(part.holds(person, domain) for part in held) == 1


def test_a_hundred_features_are_cut_too() -> None:
    """NumPy counts in 64 dimensions at most: health has 122 columns."""
    domain = Domain(features=tuple(BooleanFeature(name=f"b{i}") for i in range(100)))
    parts = list(partition_domain(domain, count=8, seed=1))
    assert len({str(part.limits) for part in parts}) == len(parts) == 8
    assert all(list(part.limits) == list(domain.names) for part in parts)


@given(SEEDS, st.integers(1, 60))
def test_parts_of_real_numbers_leave_no_gap(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    domain = Domain(features=(RealFeature(name="r", low=float(rng.normal() - 3), high=float(rng.normal() + 3)),))
    limits = sorted(part.limits["r"] for part in partition_domain(domain, count=count, seed=seed))
    assert len(limits) == count
    assert (limits[0][0], limits[-1][1]) == (domain.features[0].low, domain.features[0].high)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(limits))


@pytest.mark.parametrize("wish", [1, 2, 201, 510, 6_400, 13_394, 14_000, 16_000])
def test_the_number_of_parts_is_close_to_the_wish(wish: int) -> None:
    domain = census_like()
    assert abs(len(partition_domain(domain, count=wish)) / wish - 1) < 0.05
    skewed = {name: 10.0**-i for i, name in enumerate(domain.free_names)}
    assert abs(len(partition_domain(domain, count=wish, importance=skewed)) / wish - 1) < 0.25


def test_the_order_of_parts_is_shuffled_by_the_seed() -> None:
    domain = census_like()
    orders = [[part.limits for part in partition_domain(domain, count=50, seed=seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@given(SEEDS)
def test_the_inputs_of_a_part_are_those_of_its_people_and_of_nobody_else(seed: int) -> None:
    model = small_model(seed, reals=False)
    part = next(iter(partition_domain(model.domain, count=5, seed=seed)))
    inputs = [one for several in inputs_of(model.encoding).values() for one in several]
    limits = [ends for name, limit in part.limits.items() for ends in ends_of(model.domain.feature(name), limit)]
    for person in everybody(model.domain):
        vector = exact_input(model.encoding, person, 0)[: model.encoding.free_width]
        columns = zip(vector, inputs, limits, strict=True)
        inside = all(one.shown(low) <= v <= one.shown(high) for v, one, (low, high) in columns)
        assert inside == part.holds(person, model.domain)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"agee": (1, 2)}, "agee"),
        ({"age": (200, 300)}, "leaves nobody"),
        ({"age": [1, 2, 3]}, "lowest, highest"),
        ({"race": [7]}, "may name any of"),
        ({"race": "white"}, "list of values"),
        ({"sex": ["Male"]}, "two or more"),
    ],
)
def test_a_sub_population_that_does_not_exist_is_refused(where: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        decide_by_smt(exact_start(census_like()), where=where)


# --- pruning ---


def without_dead_neurons(network: Network, pruning: Pruning) -> Network:
    """The network that is left when neurons that are never active are removed.

    A layer keeps one neuron of weight 0 rather than none.
    """
    layers = list(network.layers)
    for i in range(len(network.layers) - 1):
        kept = np.flatnonzero(~pruning.never(i))
        this, following = layers[i], layers[i + 1]
        if len(kept):
            layers[i] = Layer(this.weight[kept], this.bias[kept])
            layers[i + 1] = Layer(following.weight[:, kept], following.bias)
        else:
            layers[i] = Layer(np.zeros((1, this.weight.shape[1])), np.zeros(1))
            layers[i + 1] = Layer(np.zeros((len(following.bias), 1)), following.bias)
    return Network(tuple(layers), network.activation)


@settings(max_examples=30)
@given(SEEDS)
def test_pruning_changes_nothing_for_anybody_of_the_part(seed: int) -> None:
    model = small_model(seed)
    rng = np.random.default_rng(seed)
    width = model.network.widths[0]
    widths = (width, 5, 4, 1)
    layers = [Layer(rng.normal(size=(b, a)) * 0.7, rng.normal(size=b)) for a, b in itertools.pairwise(widths)]
    model = FairModel(Network(tuple(layers)), model.encoding)
    views = range(model.domain.sensitive_space.size)
    parts = list(partition_domain(model.domain, count=6, seed=seed))
    everyone = everybody(model.domain)
    people = [everyone[i] for i in rng.permutation(len(everyone))[:20]]
    for part, bounds in zip(parts, NeuronBounds(model, list(views)).of(parts), strict=True):
        smaller = without_dead_neurons(model.network, Pruning(bounds))
        for person, view in itertools.product(people, views):
            if not part.holds(person, model.domain):
                continue
            row = exact_input(model.encoding, person, view)[None]
            assert exact_scores(smaller, row)[0, 0] == exact_scores(model.network, row)[0, 0]
            for i in range(len(layers)):
                received = exact_scores(Network(model.network.layers[: i + 1]), row)[0]
                assert (received >= bounds.low[i][view]).all()
                assert (received <= bounds.high[i][view]).all()


@settings(max_examples=40)
@given(SEEDS)
def test_bounds_hold_for_wild_numbers(seed: int) -> None:
    model = small_model(seed, style="wild", outputs=1 + 2 * (seed % 2))
    views = list(range(model.domain.sensitive_space.size))
    (pruning,) = NeuronBounds(model, views).of([whole_domain(model.domain)])
    people = everybody(model.domain)
    for person, view in itertools.product(people[:: 1 + len(people) // 40], views):
        scores = exact_scores(model.network, exact_input(model.encoding, person, view)[None])[0]
        assert all(a <= s <= b for a, s, b in zip(pruning.low[-1][view], scores, pruning.high[-1][view], strict=True))


# --- verdicts ---


@settings(max_examples=100)
@given(SEEDS, st.sampled_from([1, 1, 1, 3]), st.sampled_from([1, 4, 40]))
def test_verdicts_agree_with_brute_force(seed: int, outputs: int, partitions: int) -> None:
    model = small_model(seed, outputs=outputs)
    verdict = decide_by_smt(model, partitions=partitions, soft_timeout=10)
    unfair = brute_force(model)
    if verdict.answer == "verified":
        assert not unfair
        assert verdict.arithmetic == ("real",)
    elif verdict.answer == "falsified":
        check_twins(model, verdict)
        if not any(f.kind == "real" for f in model.domain.free_features):
            assert unfair or "real" not in verdict.arithmetic
    else:
        assert "not confirmed by replay" in verdict.reason
        assert any(f.kind == "real" for f in model.domain.free_features)


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([1, 6]))
def test_relaxed_twins_agree_with_brute_force(seed: int, partitions: int) -> None:
    model = small_model(seed, reals=False)
    relax = {f.name: 1.5 for f in model.domain.free_features if f.kind == "integer"}
    if not relax:
        return
    verdict = decide_by_smt(model, partitions=partitions, relax=relax, soft_timeout=10)
    assert verdict.answer == ("falsified" if brute_force(model, relax=relax) else "verified"), verdict
    assert "twins may differ by up to 1.5" in verdict.reason
    if verdict.twins:
        check_twins(model, verdict, relax)


@settings(max_examples=40)
@given(SEEDS)
def test_sub_populations_agree_with_brute_force(seed: int) -> None:
    model = small_model(seed, reals=False)
    wishes: dict[str, Any] = {"n": (-1, 0), "m": (4, 5), "b": [True], "c": ["z", "x"], "s": ["q", "p"]}
    where = {name: wish for name, wish in wishes.items() if name in model.domain.names}
    relax = {"m": 1} if "m" in model.domain.names and seed % 2 else None
    verdict = decide_by_smt(model, partitions=5, where=where, relax=relax, soft_timeout=10)
    assert verdict.answer == ("falsified" if brute_force(model, where, relax) else "verified"), verdict
    assert "only people with" in verdict.reason
    if verdict.twins:
        check_twins(model, verdict, relax)
        for twin in verdict.twins:
            assert all(whole_domain(model.domain, where).holds(twin, model.domain) for twin in verdict.twins)
            assert twin["s"] in where["s"]


@settings(max_examples=20)
@given(SEEDS)
def test_every_partition_is_counted(seed: int) -> None:
    model = small_model(seed, reals=False, style="tame")
    tally = tally_by_smt(model, partitions=10_000, soft_timeout=10)
    assert isinstance(tally, Tally)
    people = everybody(model.domain)
    values = range(model.domain.sensitive_space.size)
    unfair = sum(len({exact_decision(model, person, s) for s in values}) > 1 for person in people)
    assert tally.total == tally.attempted == len(people)  # each person is a partition
    assert (tally.sat, tally.unsat + tally.bounds) == (unfair, len(people) - unfair)


def exact_start(domain: Domain, start: Any = None, hidden: Any = (16, 8, 4), **changes: Any) -> FairModel:
    scales = {
        f.name: Scale(centre=float((f.low + f.high) // 2), exponent=int(math.log2(f.high - f.low)))
        for f in domain.features
        if f.kind == "integer"
    }
    encoding = Encoding(domain, scales)
    network = draw(
        start or Exact(), free_width=encoding.free_width, sensitive_width=encoding.sensitive_width, hidden=hidden,
        outputs=1, seed=3, **changes,
    )  # fmt: skip
    return FairModel(network, encoding)


def test_equal_first_layers_are_seen_at_once() -> None:
    model = exact_start(census_like(), hidden="paper")
    verdict = decide_by_smt(model, partitions=50)
    assert (verdict.answer, verdict.proof, verdict.engine, verdict.arithmetic) == (
        "verified",
        "none",
        "smt",
        ("real",),
    )
    assert "its word, no checkable proof" in verdict.reason
    assert verdict.partitions == len(partition_domain(model.domain, count=50))


def test_a_near_zero_start_is_settled_by_bounds_alone() -> None:
    verdict = decide_by_smt(exact_start(census_like(), NearZero()), partitions=100)
    assert (verdict.answer, verdict.proof, verdict.arithmetic) == ("verified", "bounds", ("real",))


def test_a_neuron_removed_for_one_twin_only_is_not_shared() -> None:
    features = (IntegerFeature(name="n", low=0, high=9), CategoricalFeature(name="s", categories=("p", "q")))
    domain = Domain(features=features, sensitive=("s",), label=Label(name="out", classes=(0, 1)))
    encoding = Encoding(domain, {"n": Scale(centre=0.0, exponent=0)})
    # Always active for p, never for q: the second twin then owns no neuron of the layer.
    network = Network((Layer(np.array([[1.0, -50.0]]), np.zeros(1)), Layer(np.ones((1, 1)), np.array([-0.5]))))
    assert decide_by_smt(FairModel(network, encoding)).answer == "falsified"
    network = Network((Layer(np.array([[1.0, 50.0]]), np.zeros(1)), Layer(np.ones((1, 1)), np.array([-0.5]))))
    assert decide_by_smt(FairModel(network, encoding)).answer == "falsified"


def test_composite_sensitive_values_and_their_combinations() -> None:
    features = (
        IntegerFeature(name="n", low=0, high=9),
        CategoricalFeature(name="s", categories=("p", "q")),
        BooleanFeature(name="t"),
    )
    label = Label(name="out", classes=(0, 1))
    every = Domain(features=features, sensitive=("s", "t"), label=label)
    some = every.with_sensitive(["s", "t"], [["p", False], ["q", False]])
    for domain, expected in ((every, "falsified"), (some, "verified")):
        encoding = Encoding(domain, {"n": Scale(centre=0.0, exponent=0)})
        # Only t is read, which is the same for all combinations of the second domain.
        network = Network((Layer(np.array([[1.0, 0.0, 3.0]]), np.array([-5.0])),))
        verdict = decide_by_smt(FairModel(network, encoding))
        assert verdict.answer == expected, verdict


def test_timeouts_leave_it_undecided_and_say_how_much_is_open() -> None:
    rng = np.random.default_rng(0)
    base = exact_start(census_like(), hidden=(32, 32, 16))
    layers = [
        Layer(rng.normal(size=layer.weight.shape), rng.normal(size=layer.bias.shape)) for layer in base.network.layers
    ]
    model = FairModel(Network(tuple(layers)), base.encoding)
    soft = decide_by_smt(model, partitions=2, soft_timeout=0.05)
    assert soft.answer == "undecided"
    assert "2 of 2 partitions are open (2 z3 gave up within the soft timeout of 0.05 s)" in soft.reason
    hard = decide_by_smt(model, partitions=1000, soft_timeout=0.05, hard_timeout=0.3)
    assert hard.answer == "undecided"
    assert "not reached within the hard timeout of 0.3 s" in hard.reason
    assert hard.seconds < 5


def test_networks_that_are_not_linear_are_left_undecided() -> None:
    verdict = decide_by_smt(exact_start(census_like(), activation="tanh"))
    assert verdict.answer == "undecided"
    assert "tanh" in verdict.reason


def test_progress_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bornfair_bench.smt.engine.SPOKEN_EVERY", 0.0)
    lines: list[str] = []
    decide_by_smt(exact_start(census_like(), NearZero()), partitions=4, say=lines.append)
    assert len(lines) == 4
    assert "of 4 partitions 1 were attempted" in lines[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partitions": 0}, "partitions=0"),
        ({"soft_timeout": 0.0}, "soft_timeout"),
        ({"relax": {"race": 1}}, "no free number"),
        ({"relax": {"age": -1}}, "from 0 on"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        decide_by_smt(exact_start(census_like()), **options)


def test_a_relaxed_question_says_that_twins_outside_the_named_people_are_not_looked_at() -> None:
    """Who is above 40 is decided otherwise, whatever the sensitive value: only twins of other ages differ."""
    features = (IntegerFeature(name="age", low=18, high=60), CategoricalFeature(name="s", categories=("p", "q")))
    domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=("no", "yes")))
    encoding = Encoding(domain, {"age": Scale(centre=0.0, exponent=0)})
    hidden = Layer(np.array([[1.0, 0.0]]), np.array([-40.0]))
    model = FairModel(Network((hidden, Layer(np.array([[1.0]]), np.array([-0.5])))), encoding)
    inside = decide_by_smt(model, where={"age": (30, 40)}, relax={"age": 2})
    assert inside.answer == "verified"
    assert "both twins among them" in inside.reason and "a twin outside these people is not looked at" in inside.reason
    across = decide_by_smt(model, where={"age": (30, 42)}, relax={"age": 2})
    assert across.answer == "falsified" and {twin["age"] <= 40 for twin in across.twins or ()} == {True, False}
    everywhere = decide_by_smt(model, where=None, relax={"age": 2})
    assert everywhere.answer == "falsified" and "a twin outside the domain is not looked at" in everywhere.reason


def test_z3_is_not_asked_what_there_was_no_time_to_write_down() -> None:
    verdict = decide_by_smt(exact_start(census_like()), hard_timeout=ticking(1.0), partitions=4)
    assert verdict.answer == "undecided" and "partitions are open" in verdict.reason
