"""How much can changing the sensitive value change the probability? The largest change δ* over everybody, certified.

The program of `verification.milp_encoding` has two copies of the network that meet twins. As in Benussi et al. the
sigmoid is bounded from above on the first copy and from below on the second by piecewise linear functions, and the
difference is maximised. What counts as proven are safe bounds (`milp_bounds.branch`), never the solver's own word.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.models.network.activations import sigmoid
from bornfair.models.network.bounds.exact import exact_scores
from bornfair.models.network.bounds.probability import SIGMOID_ERROR, probability_ends
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network
from bornfair.people.features import Value
from bornfair.verification.milp import largest_change, pairs_of_values
from bornfair.verification.milp_bounds import Judge, ask_highs, branch
from bornfair.verification.milp_encoding import NoProgram, Program, reach_of, sums_of, write_program
from bornfair.verification.replay import exact_input, replay
from bornfair.verification.twin_question import TwinQuestion

NEAR = 1e-3  # a difference of found and proven that is not worth more time
PIECES = 32  # of each copy's sigmoid, as in the paper (M = 16 on either side of 1/2)
SATURATED = 40.0  # logits beyond need no pieces: the sigmoid is 0 or 1 there for float64
TURN = math.log(2 + math.sqrt(3))  # where the sigmoid bends most: downward here, upward at −TURN


@dataclass(frozen=True)
class ProbabilityChange:
    """The largest |p(u, i) − p(u, j)| between twins, in real arithmetic.

    low:         attained by `twins`; rounded down.
    high:        proven: nobody's twins differ by more. This is δ*.
    solver_high: what HiGHS claims in place of `high`: a floating-point answer, not a proof.
    score_high:  proven likewise of the logit.
    """

    low: float
    high: float
    solver_high: float
    score_high: float
    twins: list[dict[str, Value]] | None
    reason: str
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def largest_probability_change(
    model: Model, *, timeout: Timeout = 60.0, seed: int = 0, enough: float | None = None, say: Say | None = None
) -> ProbabilityChange:
    """δ*, over everybody of the model's domain. Ends early once found and proven are within a thousandth, or on one
    side of what is `enough`.
    """
    clock = Clock.of(timeout, say)
    model = model.shifted(())  # logits, wherever it decides
    score = largest_change(model, timeout=clock.part(0.4), seed=seed)
    hunt = _Hunt(model)
    if score.twins is not None:
        hunt.measure({name: score.twins[0][name] for name in model.domain.free_names})
    if score.high == 0:
        return ProbabilityChange(0.0, 0.0, 0.0, 0.0, None, score.reason, clock.spent)
    high = claimed = change_of_probability(score.high)
    why = "the logit's largest change says enough"
    if enough is None or hunt.low <= enough < high:
        try:
            high, claimed = _by_programs(model, hunt, score.high, clock, seed, enough or 0.0)
            why = "found and proven meet" if high <= hunt.low + 2 * NEAR else "time ran out"
        except NoProgram as error:
            why = f"from the logit's largest change alone: {error}"
    twins = None if hunt.best is None else [dict(twin) for twin in replay(model, *hunt.best).people]
    high, claimed = max(high, hunt.low), max(claimed, hunt.low)
    return ProbabilityChange(hunt.low, high, claimed, score.high, twins, why, clock.spent)


def change_of_probability(gap: float, low: float = -math.inf, high: float = math.inf) -> float:
    """The most the sigmoid can change between two logits in [low, high] that are at most `gap` apart; rounded up.

    It changes fastest around 0, so the two lie as symmetrically around it as the interval allows.

    >>> change_of_probability(4.0) <= 4.0 / 4, change_of_probability(1.0, low=3.0) < 0.04
    (True, True)
    """
    if high - low <= gap:
        first, second = low, high
    else:
        middle = min(max(0.0, low + gap / 2), high - gap / 2)
        first, second = middle - gap / 2, middle + gap / 2
    least, most = sigmoid(np.array(first)), sigmoid(np.array(second))
    # Rounding of the middle moves it by less than 2^-50 of its size, where the slope is at most 1/4.
    return float(min(1.0, most - least + 4 * SIGMOID_ERROR * (1 + abs(gap))))


def _by_programs(model: Model, hunt: _Hunt, gap: float, clock: Clock, seed: int, enough: float) -> tuple[float, float]:
    """Upper bounds of the change over all pairs of sensitive values: proven, and as HiGHS claims."""
    question = TwinQuestion.of(model)
    pairs, sums = pairs_of_values(question), sums_of(question)
    proven = claimed = 0.0
    for left, pair in zip(range(len(pairs), 0, -1), pairs, strict=True):
        reach = reach_of(question, sums, pair)
        ends = float(reach[-1].low.min()), float(reach[-1].high.max())
        most = change_of_probability(min(gap, max(float(reach[-1].gap_high[0]), 0.0)), *ends)
        plain = write_program(question, pair, reach, layers=len(model.network.layers), margin=False)
        program, at = of_probabilities(plain, gap, most)
        cost = np.zeros(len(program.lower))
        cost[at] = -1.0
        judge = hunt.judge(program)
        part = clock.part(1 / left)

        def near_enough() -> float:
            return -max(hunt.low + NEAR, enough)

        claim = ask_highs(program, cost, 0.5 * part.timeout, seed, judge, near_enough)
        bound = branch(program, cost, part.left, judge, near_enough, all_or_nothing=False).bound
        proven = max(proven, min(most, -bound))
        claimed = max(claimed, min(most, -claim.bound))
    return proven, claimed


class _Hunt:
    """The twins furthest apart so far, measured from exact scores."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.low = 0.0
        self.best: tuple[dict[str, Value], tuple[int, int]] | None = None

    def judge(self, program: Program) -> Judge:
        return lambda solution: self.measure(program.twins(solution)[0])

    def measure(self, person: dict[str, Value]) -> bool:
        """Keeps a person whose twins are further apart than any found before. Never says that it is enough."""
        versions = range(len(self.model.encoding.codes))
        inputs = np.stack([exact_input(self.model.encoding, person, value) for value in versions])
        rough = sigmoid(_rough_scores(self.model.network, inputs.astype(np.float64)))
        if not rough.max() - rough.min() > self.low:  # exact numbers take a while
            return False
        scores = [_nearest(score) for score in exact_scores(self.model.network, inputs)[:, 0]]
        most, least = int(np.argmax(scores)), int(np.argmin(scores))
        low, high = probability_ends(np.array(scores[most]), np.array(scores[least]))
        # An exact score was rounded once, by 2^-53 of its size; where that is felt the sigmoid is saturated.
        found = float(low - high) - 8 * SIGMOID_ERROR
        if found > self.low:
            self.low, self.best = found, (dict(person), (most, least))
        return False


def _rough_scores(network: Network, inputs: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):  # only a guess: overflow does no harm
        for i, layer in enumerate(network.layers):
            inputs = (np.maximum(inputs, 0.0) if i else inputs) @ layer.weight.T.astype(np.float64) + layer.bias
    return np.nan_to_num(inputs[:, 0])


def _nearest(score: Any) -> float:
    """An exact number as a float; beyond ±1000 the sigmoid is 0 or 1 whatever follows."""
    return float(min(max(score, -1000), 1000))


# --- the sigmoid, in pieces ---
#
# What a program about the scores of twins needs to speak of their probabilities. The added columns and rows hold for
# every pair of twins, without any rounding: what is proven about the larger program is proven about the network.


def of_probabilities(program: Program, gap: float, most: float) -> tuple[Program, int]:
    """The program with a column D ≤ σ(z_a) − σ(z_b), for twins with 0 ≤ z_a − z_b ≤ gap; `most` is known to bound D.

    Each z is written as its lowest value plus parts of its pieces, filled one after the other: w₁ = 1 before w₂ > 0.
    Column values are exact, so that people with D up to their true difference are solutions of the program.
    """
    first, second = (int(column) for column in program.sums[-1][:, 0])
    exponent = int(program.exponents[-1][0])
    draft = _Draft(len(program.lower))
    change = draft.column(0.0, most)
    terms: list[tuple[int, float]] = [(change, 1.0)]
    constant = 0.0
    for z, above in ((first, True), (second, False)):
        knots, values = pieces(float(program.lower[z]), float(program.upper[z]), exponent, above=above)
        sign = -1.0 if above else 1.0
        parts = [draft.column(0.0, 1.0) for _ in knots[1:]]
        draft.row([z, *parts], [1.0, *(-np.diff(knots)).tolist()], knots[0], knots[0])
        terms += [(part, sign * step) for part, step in zip(parts, np.diff(values).tolist(), strict=True)]
        constant -= sign * values[0]
        for before, after in itertools.pairwise(parts):
            filled = draft.column(0.0, 1.0, integer=True)
            draft.row([before, filled], [1.0, -1.0], 0.0, np.inf)
            draft.row([filled, after], [1.0, -1.0], 0.0, np.inf)
    draft.row([column for column, _ in terms], [value for _, value in terms], -np.inf, constant)
    # True without it, but not when whole numbers are relaxed: the sigmoid's slope is at most 1/4.
    quarter = math.ldexp(1.0, exponent - 2)
    draft.row([change, first, second], [1.0, -quarter, quarter], -np.inf, 0.0)
    draft.row([first, second], [1.0, -1.0], 0.0, math.nextafter(math.ldexp(gap, -exponent), math.inf))
    return draft.joined(program), change


Row = tuple[list[int], list[float], float, float]
"""Columns, their coefficients, and the bounds of the sum."""


class _Draft:
    """Columns and rows to be added to a program."""

    def __init__(self, columns: int) -> None:
        self.before = columns
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.integer: list[bool] = []
        self.rows: list[Row] = []

    def column(self, lower: float, upper: float, *, integer: bool = False) -> int:
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return self.before + len(self.lower) - 1

    def row(self, columns: list[int], values: list[float], lower: float, upper: float) -> None:
        self.rows.append((columns, values, lower, upper))

    def joined(self, program: Program) -> Program:
        old = program.matrix
        entries = np.concatenate([old.data, *(values for _, values, *_ in self.rows)])
        places = np.concatenate([old.indices, *(columns for columns, *_ in self.rows)])
        starts = np.concatenate([old.indptr, old.indptr[-1] + np.cumsum([len(columns) for columns, *_ in self.rows])])
        shape = (old.shape[0] + len(self.rows), self.before + len(self.lower))
        matrix = csr_array((entries, places, starts), shape=shape)
        return replace(
            program,
            lower=np.concatenate([program.lower, self.lower]),
            upper=np.concatenate([program.upper, self.upper]),
            integer=np.concatenate([program.integer, np.array(self.integer, bool)]),
            matrix=matrix,
            row_lower=np.concatenate([program.row_lower, [low for *_, low, _ in self.rows]]),
            row_upper=np.concatenate([program.row_upper, [high for *_, high in self.rows]]),
            size=abs(matrix),
        )


def pieces(lower: float, upper: float, exponent: int, *, above: bool) -> tuple[np.ndarray, np.ndarray]:
    """Knots and values of a piecewise linear function that is never below (above=False: never above) the sigmoid.

    Knots are in units of 2^exponent and enclose [lower, upper]. Both are multiples of one power of two, so that their
    differences are exact.
    """
    if not above:  # σ(z) = 1 − σ(−z)
        knots, values = pieces(-upper, -lower, exponent, above=True)
        return -knots[::-1], 1.0 - values[::-1]
    fine = math.ldexp(1.0, math.frexp(max(abs(lower), abs(upper), 2.0**-20))[1] - 40)
    least = math.floor(lower / fine)
    most = max(math.ceil(upper / fine), least + 1)
    between = np.ldexp(_even_knots(math.ldexp(lower, exponent), math.ldexp(upper, exponent)), -exponent) / fine
    knots = np.unique(np.clip([least, *np.round(between), most], least, most)) * fine
    ends = np.ldexp(knots, exponent)
    error = np.array([_above_chord(a, b) for a, b in itertools.pairwise(ends.tolist())])
    lift = np.maximum(np.append(error, 0.0), np.append(0.0, error))
    values = sigmoid(ends) + lift + 2 * SIGMOID_ERROR
    return knots, np.ceil(values * 2.0**40) * 2.0**-40


def _above_chord(first: float, second: float) -> float:
    """How far the sigmoid can rise above its chord between two points: at most h²/8 times its curvature, and no more
    than it rises at all.
    """
    if second <= 0:
        return 0.0  # convex: the chord is above
    at = min(max(TURN, first), second, 600.0)  # it only bends less after that
    curvature = math.tanh(at / 2) / (4 * math.cosh(at / 2) ** 2)
    rise = float(sigmoid(np.array(second)) - sigmoid(np.array(first)))
    return min((second - first) ** 2 / 8 * curvature * (1 + 2.0**-20), rise + 4 * SIGMOID_ERROR)


def _even_knots(lower: float, upper: float) -> np.ndarray:
    """Knots at which the chords' errors are about equal: dense where the sigmoid bends, plus one at 0."""
    inside = max(lower, -SATURATED), min(upper, SATURATED)
    if not inside[0] < inside[1]:
        return np.zeros(0)
    fine = np.linspace(*inside, 4096)
    value = sigmoid(fine)
    bend = np.sqrt(np.abs(value * (1 - value) * (1 - 2 * value)) + 1e-6)
    share = np.concatenate([[0.0], np.cumsum(0.5 * (bend[1:] + bend[:-1]))])
    knots = np.interp(np.linspace(0, share[-1], PIECES), share, fine)
    return np.append(knots, 0.0) if inside[0] < 0 < inside[1] else knots
