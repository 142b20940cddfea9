"""The mixed-integer engine against brute force, and the parts its proofs rest on."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.core.errors import InputError
from bornfair.models.network.bounds.exact import exact_decisions, exact_scores, fractions
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.twins.relation import flip_relation
from bornfair.proof.bundle import FairModel
from bornfair.verification.milp import network, program
from bornfair.verification.milp.encoding import (
    Copies,
    reach_of,
    relu_gap,
    sums_of,
    tightened,
    write_copies,
    write_margin,
)
from bornfair.verification.milp.network import Change, decide_by_milp, largest_change
from bornfair.verification.milp.program import Claim, Draft, Judge, Program, ProgramTree, ask_highs, safe_minimum
from bornfair.verification.replay import exact_input
from bornfair.verification.twin_question import TwinQuestion
from oracle import everybody

pytestmark = pytest.mark.slow

SEX = CategoricalFeature(name="sex", categories=("f", "m"))
RACE = CategoricalFeature(name="race", categories=("a", "b", "c"))
BAND = IntegerFeature(name="band", low=0, high=3)
AGE = IntegerFeature(name="age", low=17, high=21)
JOB = CategoricalFeature(name="job", categories=("x", "y", "z"))
ONLY = CategoricalFeature(name="land", categories=("here",))
OWNS = BooleanFeature(name="owns")
PAY = RealFeature(name="pay", low=-1.3, high=2.1)

DOMAINS = {
    "two values": Domain(features=(AGE, SEX, OWNS), sensitive=("sex",)),
    "three values": Domain(features=(RACE, AGE, JOB), sensitive=("race",)),
    "four values, chosen by columns": Domain(features=(BAND, JOB, OWNS), sensitive=("band",)),
    "composite": Domain(features=(AGE, SEX, RACE), sensitive=("sex", "race")),
    "a category without others": Domain(features=(AGE, ONLY, SEX), sensitive=("sex",)),
}
STYLES = ("normal", "quarters", "tiny differences", "1e8 and 1e-8")


def encoding_of(domain: Domain, outputs: int, rng: np.random.Generator) -> Encoding:
    labelled = domain.model_copy(update={"label": Label(name="y", classes=tuple(range(max(outputs, 2))))})
    scales = {}
    for feature in domain.features:
        if feature.kind in ("integer", "real"):
            # Centres off the whole numbers are rounded once; the program has to allow for it.
            centre = float(rng.choice([0.0, 19.0, 18.7]))
            scales[feature.name] = Scale(centre=centre, exponent=int(rng.integers(0, 3)))
    return Encoding(labelled, scales)


def weights(rng: np.random.Generator, shape: tuple[int, ...], style: str) -> np.ndarray:
    if style == "quarters":  # scores that are exactly 0 are common
        return rng.integers(-4, 5, shape) / 4
    drawn = rng.normal(size=shape)
    return drawn * rng.choice([1e8, 1.0, 1e-8], shape) if style == "1e8 and 1e-8" else drawn


def random_model(
    seed: int, domain: Domain, style: str, outputs: int = 1, hidden: tuple[int, ...] = (4, 3)
) -> FairModel:
    """A network whose decision boundary runs through the domain, or just past its edge."""
    rng = np.random.default_rng(seed)
    encoding = encoding_of(domain, outputs, rng)
    widths = (encoding.width, *hidden, outputs)
    layers = [Layer(weights(rng, (b, a), style), weights(rng, (b,), style)) for a, b in itertools.pairwise(widths)]
    if style == "tiny differences":
        first = layers[0].weight.copy()
        first[:, encoding.free_width :] *= np.float32(1e-4)
        layers[0] = Layer(first, layers[0].bias)
    model = FairModel(Network(tuple(layers)), encoding)
    scores = np.array(sorted(float(score) for row in all_scores(model) for score in row[:, 0]))
    shift = np.zeros(outputs)
    shift[0] = scores[int(rng.choice([0, len(scores) // 2, len(scores) - 1]))]
    last = layers[-1]
    return FairModel(Network((*layers[:-1], Layer(last.weight, last.bias - shift))), encoding)


def all_scores(model: FairModel) -> list[np.ndarray]:
    """Exact scores [|S|, outputs] of everybody on the lattice (reals: five levels)."""
    return [exact_scores(model.network, inputs) for inputs in all_inputs(model)]


def all_inputs(model: FairModel) -> list[np.ndarray]:
    codes = fractions(model.encoding.codes.astype(np.float64))
    people = [np.array(person, dtype=object) for person in exact_people(model)]
    return [np.stack([np.concatenate([person, code]) for code in codes]) for person in people]


def exact_people(model: FairModel) -> list[list[Fraction]]:
    """`oracle.everybody`, with the numbers as raw values say: `FreeSpace` rounds them where a centre is not whole."""
    if any(feature.kind == "real" for feature in model.domain.free_features):
        return [list(person) for person in everybody(flip_relation(model.encoding).free, reals=5)]
    names = model.domain.free_names
    levels = [feature.levels() for feature in model.domain.free_features]
    width = model.encoding.free_width
    people = (dict(zip(names, values, strict=True)) for values in itertools.product(*levels))
    return [exact_input(model.encoding, person, 0)[:width].tolist() for person in people]


def somebody_is_unfair(model: FairModel) -> bool:
    return any(len(set(exact_decisions(model.network, inputs).tolist())) > 1 for inputs in all_inputs(model))


def true_change(model: FairModel) -> Fraction:
    return max(max(column) - min(column) for scores in all_scores(model) for column in scores.T)


def twins_of(model: FairModel, people: list[dict]) -> np.ndarray:
    """Exact inputs of reported twins, checked to be two people of the domain who share all free features."""
    first, second = people
    assert {name for name in first if first[name] != second[name]} <= set(model.domain.sensitive)
    assert first != second
    values = model.domain.sensitive_space.values
    at = [values.index(tuple(person[name] for name in model.domain.sensitive)) for person in people]
    for feature in model.domain.free_features:
        value = first[feature.name]
        assert feature.low <= value <= feature.high if feature.kind == "real" else value in feature.levels()
    return np.stack([exact_input(model.encoding, first, value) for value in at])


# --- decisions ---


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", DOMAINS)
def test_decides_as_brute_force_does(name: str, style: str) -> None:
    for seed in range(4):
        model = random_model(seed, DOMAINS[name], style, outputs=3 if seed == 3 else 1)
        verdict = decide_by_milp(model, timeout=20, seed=seed)
        assert verdict.answer == ("falsified" if somebody_is_unfair(model) else "verified"), (seed, verdict)
        if verdict.answer == "falsified":
            assert len(set(exact_decisions(model.network, twins_of(model, verdict.twins)).tolist())) == 2


@pytest.mark.parametrize("style", STYLES)
def test_without_listing_everybody_it_is_never_wrong(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "EXHAUSTIVE_WORK", 0)
    answers = []
    for seed, name in itertools.product(range(3), DOMAINS):
        model = random_model(seed, DOMAINS[name], style)
        verdict = decide_by_milp(model, timeout=10, seed=seed)
        answers.append(verdict.answer)
        if verdict.answer != "undecided":
            assert (verdict.answer == "falsified") == somebody_is_unfair(model), (seed, name, verdict)
        else:
            assert "a floating-point answer" in verdict.reason
    if style == "normal":  # no scores of exactly 0, no rounding that matters: complete
        assert "undecided" not in answers
        assert {"falsified", "verified"} <= set(answers)


def test_safe_bounds_prove_a_margin_that_intervals_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "EXHAUSTIVE_WORK", 0)
    # 1 + max(x + s/4, 0) − max(x − s/4, 0) is at least 1/2; intervals forget that both neurons see the same x.
    domain = Domain(features=(AGE, SEX), sensitive=("sex",), label=Label(name="y", classes=(0, 1)))
    encoding = Encoding(domain, {"age": Scale(centre=19.0, exponent=0)})
    hidden = Layer(np.array([[1.0, 0.25], [1.0, -0.25]]), np.zeros(2))
    model = FairModel(Network((hidden, Layer(np.array([[1.0, -1.0]]), np.ones(1)))), encoding)
    verdict = decide_by_milp(model, timeout=10)
    assert verdict.answer == "verified" and not somebody_is_unfair(model)
    assert verdict.arithmetic == ("real",) and "safe bounds" in verdict.reason


def test_a_program_that_allows_nobody_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Draft.program

    def nobody(draft: Draft) -> Program:
        program = written(draft)
        lowered = np.minimum(program.row_upper, 0.0), np.minimum(program.row_lower, 0.0)
        return dataclasses.replace(program, row_upper=lowered[0], row_lower=lowered[1])

    monkeypatch.setattr(network, "EXHAUSTIVE_WORK", 0)
    models = (random_model(seed, DOMAINS["three values"], "normal") for seed in itertools.count())
    model = next(model for model in models if decide_by_milp(model, timeout=5).engine == "milp")
    monkeypatch.setattr(Draft, "program", nobody)
    verdict = decide_by_milp(model, timeout=5)
    assert verdict.answer == "undecided" and "allows nobody" in verdict.reason
    assert largest_change(model, timeout=5).high == math.inf


def test_the_word_of_highs_verifies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "EXHAUSTIVE_WORK", 0)
    monkeypatch.setattr(ProgramTree, "grow", lambda *_: None)
    monkeypatch.setattr(program, "ask_highs", lambda *_: Claim(5.0, 5.0, ended=True))
    for seed in range(6):
        verdict = decide_by_milp(random_model(seed, DOMAINS["two values"], "normal"), timeout=5)
        assert verdict.engine != "milp" or verdict.answer == "undecided"
        assert verdict.engine != "milp" or "a floating-point answer); not confirmed rigorously" in verdict.reason


def test_a_solver_that_lies_about_people_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "EXHAUSTIVE_WORK", 0)
    monkeypatch.setattr(ProgramTree, "grow", lambda *_: None)

    def lie(program: Program, cost: np.ndarray, seconds: float, seed: int, judge: Judge, *_: object) -> Claim:
        judge(program.upper)  # not even one category each
        return Claim(-1.0, -1.0, ended=True)

    monkeypatch.setattr(program, "ask_highs", lie)
    for seed in range(6):
        model = random_model(seed, DOMAINS["three values"], "normal")
        verdict = decide_by_milp(model, timeout=5)
        if verdict.answer == "falsified":  # the nearest person who exists happens to have such twins
            assert len(set(exact_decisions(model.network, twins_of(model, verdict.twins)).tolist())) == 2
        elif verdict.engine == "milp":
            assert "but replayed they are decided alike" in verdict.reason


def test_real_features_are_searched_off_the_grid() -> None:
    domain = Domain(features=(PAY, OWNS, SEX), sensitive=("sex",))
    answers = []
    for seed in range(8):
        model = random_model(seed, domain, "tiny differences")
        verdict = decide_by_milp(model, timeout=10)
        answers.append(verdict.answer)
        if verdict.answer == "falsified":
            assert len(set(exact_decisions(model.network, twins_of(model, verdict.twins)).tolist())) == 2
        if verdict.answer == "verified":
            assert not somebody_is_unfair(model)
    assert "falsified" in answers


# --- the largest change ---


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("exhaustive", [True, False])
def test_the_largest_change_lies_between_its_bounds(
    style: str, exhaustive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exhaustive:
        monkeypatch.setattr(network, "EXHAUSTIVE_WORK", 0)
    for seed, name in enumerate(DOMAINS):
        model = random_model(seed, DOMAINS[name], style, outputs=3 if seed == 1 else 1)
        change, truth = largest_change(model, timeout=10, seed=seed), true_change(model)
        assert Fraction(change.low) <= truth <= Fraction(change.high), (name, change, float(truth))
        if change.twins is not None:
            first, second = exact_scores(model.network, twins_of(model, change.twins))
            exact = abs(first[change.output] - second[change.output])
            assert change.low <= exact <= Fraction(math.nextafter(change.low, math.inf))
        if exhaustive or style in ("normal", "quarters"):
            assert change.low >= float(truth) * (1 - 1e-6)
            assert change.high <= float(truth) * (1 + 1e-6)


def test_the_largest_change_over_reals_is_at_least_that_of_a_grid() -> None:
    domain = Domain(features=(PAY, OWNS, SEX), sensitive=("sex",))
    for seed in range(4):
        model = random_model(seed, domain, "normal")
        change = largest_change(model, timeout=10)
        assert float(true_change(model)) <= change.high * (1 + 1e-12)
        assert change.low <= change.high <= change.low * (1 + 1e-5)
        twins_of(model, change.twins)


def test_a_model_that_ignores_the_sensitive_values_changes_by_nothing() -> None:
    model = random_model(0, DOMAINS["two values"], "normal")
    first = model.network.layers[0].weight.copy()
    first[:, model.encoding.free_width :] = 0
    fair = Network((Layer(first, model.network.layers[0].bias), *model.network.layers[1:]))
    change = largest_change(FairModel(fair, model.encoding))
    assert (change.low, change.high, change.twins) == (0.0, 0.0, None)
    assert decide_by_milp(FairModel(fair, model.encoding)).proof == "structural"


# --- limits ---


def wide_model(hidden: tuple[int, ...] = (40, 40)) -> FairModel:
    numbers = tuple(IntegerFeature(name=f"n{i}", low=0, high=1000) for i in range(12))
    domain = Domain(features=(*numbers, SEX), sensitive=("sex",), label=Label(name="y", classes=(0, 1)))
    encoding = Encoding(domain, {f.name: Scale(centre=500.0, exponent=8) for f in numbers})
    rng = np.random.default_rng(1)
    widths = (encoding.width, *hidden, 1)
    arrays = [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in itertools.pairwise(widths)]
    arrays[0][0][:, -1] *= 1e-3
    layers = [Layer(weight, bias) for weight, bias in arrays]
    return FairModel(Network(tuple(layers)), encoding)


def test_time_that_runs_out_is_undecided_with_a_reason() -> None:
    verdict = decide_by_milp(wide_model(), timeout=1e-4)
    assert verdict.answer == "undecided" and "when time ran out" in verdict.reason


def test_the_largest_change_has_bounds_at_any_time() -> None:
    said: list[str] = []
    change = largest_change(wide_model(), timeout=2.0, say=said.append)
    assert 0 < change.low <= change.high < math.inf and change.reason == "time ran out"
    assert change.twins is not None and change.seconds < 8
    assert any("HiGHS' bound" in line for line in said)
    assert Change(**change.to_json()) == change


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu"])
def test_other_activations_are_refused(activation: str) -> None:
    model = random_model(2, DOMAINS["two values"], "normal")
    other = FairModel(dataclasses.replace(model.network, activation=activation), model.encoding)
    verdict = decide_by_milp(other)
    assert verdict.answer == "undecided" and f"needs a relu network, found {activation}" in verdict.reason
    with pytest.raises(InputError, match=f"found {activation}"):
        largest_change(other)


def test_a_timeout_must_be_above_zero() -> None:
    with pytest.raises(InputError, match="timeout is 0"):
        decide_by_milp(random_model(0, DOMAINS["two values"], "normal"), timeout=0)


# --- what the proofs rest on ---


def copies_of(model: FairModel, pair: tuple[tuple[int, ...], tuple[int, ...]], *, tight: bool) -> Copies:
    question = TwinQuestion.of(model)
    reach = reach_of(question, sums_of(question), pair)
    return write_copies(question, pair, tightened(question, pair, reach, 5.0) if tight else reach)


def program_of(copies: Copies) -> Program:
    write_margin(copies.draft, copies.sums[-1])
    return copies.draft.program()


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("tight", [False, True])
def test_the_program_holds_every_person_with_their_scores(name: str, tight: bool) -> None:
    model = random_model(7, DOMAINS[name], "normal", outputs=2 if name == "composite" else 1)
    everyone = tuple(range(len(model.encoding.codes)))
    copies = copies_of(model, (everyone, everyone), tight=tight)
    program = program_of(copies)
    levels = [feature.levels() for feature in model.domain.free_features]
    for values in list(itertools.product(*levels))[::4]:
        person = dict(zip(model.domain.free_names, values, strict=True))
        pair = (0, len(everyone) - 1)
        lower, upper = program.lower.copy(), program.upper.copy()
        for feature in model.domain.free_features:
            placed = copies.inputs[0][model.encoding.free_columns()[feature.name]]
            level = list(feature.levels()).index(person[feature.name])
            shown = np.eye(len(placed))[level] if feature.kind == "categorical" else [person[feature.name]]
            for at, number in zip(placed, shown, strict=True):
                lower[at.column] = upper[at.column] = math.ldexp(number - at.base, -at.shift)
        for columns, value in zip(copies.selectors, pair, strict=True):
            lower[columns] = upper[columns] = np.eye(len(columns))[value]
        found: list[np.ndarray] = []
        fixed_program = dataclasses.replace(program, lower=lower, upper=upper)
        claim = ask_highs(fixed_program, np.zeros(len(lower)), 10.0, 0, lambda s, found=found: bool(found.append(s)))
        assert claim.ended
        listed = model.encoding.sensitive.listed
        assert copies.twins(found[-1]) == (person, [listed[value] for value in pair])
        scores = np.ldexp(found[-1][copies.sums[-1]], copies.exponents[-1])
        exact = exact_scores(model.network, np.stack([exact_input(model.encoding, person, value) for value in pair]))
        assert scores == pytest.approx(exact.astype(float), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_safe_bounds_hold_for_any_multipliers(scale: float) -> None:
    rng = np.random.default_rng(3)
    program = program_of(copies_of(random_model(7, DOMAINS["two values"], "normal"), ((0,), (1,)), tight=False))
    points: list[np.ndarray] = []
    for _ in range(10):
        cost = rng.normal(size=len(program.lower))
        least = ask_highs(program, cost, 5.0, 0, lambda s: bool(points.append(s))).best
        for _ in range(20):
            y = rng.normal(size=len(program.row_lower)) * scale
            assert safe_minimum(program, cost, y, program.lower, program.upper) <= least + 1e-6
    nothing = np.zeros_like(program.lower)
    rays = (rng.normal(size=len(program.row_lower)) * scale for _ in range(200))
    assert all(safe_minimum(program, nothing, ray, program.lower, program.upper) <= 0 for ray in rays)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(-6, 6), min_size=6, max_size=6))
def test_the_gap_after_a_relu_is_inside_its_bounds(ends: list[int]) -> None:
    (la, ha), (lb, hb) = sorted(ends[:2]), sorted(ends[2:4])
    pairs = [(a, b) for a in range(la, ha + 1) for b in range(lb, hb + 1)]
    gap_low, gap_high = sorted(ends[4:])
    inside = [max(a, 0) - max(b, 0) for a, b in pairs if gap_low <= a - b <= gap_high]
    low, high = np.array([[la], [lb]], float), np.array([[ha], [hb]], float)
    least, most = relu_gap(low, high, np.array([float(gap_low)]), np.array([float(gap_high)]))
    if inside:
        assert least[0] <= min(inside) and max(inside) <= most[0]
