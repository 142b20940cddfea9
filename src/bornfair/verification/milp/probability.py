"""The largest change δ* of a probability when the sensitive value changes, over everybody, certified.

Two copies of the network meet twins. As in Benussi et al. the sigmoid is bounded from above on the first copy and from
below on the second by piecewise linear functions, and the difference is maximised.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.models.network.activations import sigmoid
from bornfair.models.network.model import Model
from bornfair.people.twins.versions import Versions
from bornfair.verification.milp.encoding import Copies, pairs_of_values, reach_of, sums_of, write_copies
from bornfair.verification.milp.network import (
    NEAR_ENOUGH,
    Apart,
    Change,
    NetworkHunt,
    NetworkTree,
    largest_change,
)
from bornfair.verification.milp.program import NoProgram, bound_largest
from bornfair.verification.replay import exact_input
from bornfair.verification.twin_question import Person, Sensitive

NEAR = 1e-3  # a difference of found and proven that is not worth more time
PIECES = 32  # of each copy's sigmoid, as in the paper (M = 16 on either side of 1/2)
SATURATED = 40.0  # logits beyond need no pieces: the sigmoid is 0 or 1 there for float64
SIGMOID_ERROR = 2.0**-48  # of our sigmoid in float64, absolutely; libraries stay far below
TURN = math.log(2 + math.sqrt(3))  # where the sigmoid bends most: downward here, upward at −TURN


def largest_probability_change(
    model: Model, *, timeout: Timeout = 60.0, seed: int = 0, enough: float | None = None, say: Say | None = None
) -> Change:
    """δ*, over everybody of the model's domain. Ends early once found and proven are within a thousandth, or on one
    side of what is `enough`.
    """
    clock = Clock.of(timeout, say)
    model = model.shifted(())  # logits, wherever it decides
    score = largest_change(model, timeout=clock.part(0.4), seed=seed)
    hunt = ProbabilityHunt(model, enough)
    if score.twins is not None:
        hunt.measure({name: score.twins[0][name] for name in model.domain.free_names})
    if score.high == 0:
        return Change(0.0, 0.0, 0.0, 0, None, score.reason, clock.spent)
    high = claimed = change_of_probability(score.high)
    why = "the logit's largest change says enough"
    if enough is None or hunt.low <= enough < high:
        try:
            high, claimed = _by_programs(hunt, score.high, clock, seed)
            why = "found and proven meet" if high <= hunt.low + 2 * NEAR else "time ran out"
        except NoProgram as error:
            why = f"from the logit's largest change alone: {error}"
    high, claimed = max(high, hunt.low), max(claimed, hunt.low)
    return Change(hunt.low, high, claimed, 0, hunt.furthest(), why, clock.spent)


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


def _by_programs(hunt: ProbabilityHunt, gap: float, clock: Clock, seed: int) -> tuple[float, float]:
    """Upper bounds of the change over all pairs of sensitive values: proven, and as HiGHS claims."""
    sums, proven, claimed = sums_of(hunt.question), 0.0, 0.0
    for pair, seconds in clock.shared(pairs_of_values(hunt.question)):
        reach = reach_of(hunt.question, sums, pair)
        ends = float(reach[-1].low.min()), float(reach[-1].high.max())
        most = change_of_probability(min(gap, max(float(reach[-1].gap_high[0]), 0.0)), *ends)
        tree = ProbabilityTree(hunt, write_copies(hunt.question, pair, reach), gap, most)
        bounds = bound_largest(tree, clock, seconds, seed)
        proven, claimed = max(proven, min(most, bounds[0])), max(claimed, min(most, bounds[1]))
    return proven, claimed


class ProbabilityTree(NetworkTree):
    """How far apart can the probabilities of two copies be?"""

    hunt: ProbabilityHunt
    near = NEAR_ENOUGH
    must_hold_people = False  # the first copy's score may always be below the second's

    def __init__(self, hunt: ProbabilityHunt, copies: Copies, gap: float, most: float) -> None:
        change = write_probabilities(copies, gap, most)
        program = copies.draft.program()
        super().__init__(hunt, copies, program, program.cost([(change, -1.0)]), 1.0)

    def examine(self, solution: np.ndarray) -> bool:
        return self.hunt.measure(self.copies.twins(solution)[0])

    def cutoff(self) -> float:
        return -max(self.hunt.low + NEAR, self.hunt.enough or 0.0)


class ProbabilityHunt(NetworkHunt):
    """The twins whose probabilities are furthest apart, measured from exact scores."""

    def measure(self, person: Person, values: Sequence[Sensitive] = ()) -> bool:
        """Keep somebody if the probabilities of any of their versions are further apart than all found before."""
        encoding, network = self.model.encoding, self.model.network
        inputs = np.stack([exact_input(encoding, person, value) for value in range(len(encoding.codes))])
        with np.errstate(all="ignore"):  # only a guess: overflow does no harm
            rough = sigmoid(np.nan_to_num(network.estimated(inputs.astype(np.float64))[:, 0]))
        if not rough.max() - rough.min() > self.low:  # exact numbers take a while
            return False
        return super().measure(person, Versions(self.model.domain).values)

    def apart(self, scores: Sequence[Fraction]) -> Apart:
        # Exact numbers as floats; beyond ±1000 the sigmoid is 0 or 1 whatever follows.
        near = [float(min(max(score, Fraction(-1000)), Fraction(1000))) for score in scores]
        most, least = int(np.argmax(near)), int(np.argmin(near))
        low, high = probability_ends(np.array(near[most]), np.array(near[least]))
        # An exact score was rounded once, by 2^-53 of its size; where that is felt the sigmoid is saturated.
        return float(low - high) - 8 * SIGMOID_ERROR, most, least


# --- the sigmoid, in pieces ---
#
# What a program about the scores of twins needs to speak of their probabilities. The added columns and rows hold for
# every pair of twins, without any rounding: what is proven about the larger program is proven about the network.


def write_probabilities(copies: Copies, gap: float, most: float) -> int:
    """A column D ≤ σ(z_a) − σ(z_b), for twins with 0 ≤ z_a − z_b ≤ gap; `most` is known to bound D.

    Each z is written as its lowest value plus parts of its pieces, filled one after the other: w₁ = 1 before w₂ > 0.
    Column values are exact, so that people with D up to their true difference are solutions of the program.
    """
    first, second = (int(column) for column in copies.sums[-1][:, 0])
    draft, exponent = copies.draft, copies.exponent
    change = draft.column(0.0, most)
    terms: list[tuple[int, float]] = [(change, 1.0)]
    constant = 0.0
    for z, above in ((first, True), (second, False)):
        knots, values = pieces(draft.lower[z], draft.upper[z], exponent, above=above)
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
    return change


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


def probability_ends(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the probability from those of the logit, rounded outward."""
    least = np.maximum(sigmoid(low) - SIGMOID_ERROR, 0.0)
    return least, np.minimum(sigmoid(high) + SIGMOID_ERROR, 1.0)
