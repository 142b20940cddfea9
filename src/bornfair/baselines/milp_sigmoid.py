"""What a program about the scores of twins needs to speak of their probabilities: the sigmoid, in pieces.

The added columns and rows hold for every pair of twins, without any rounding: what is proven about the larger program
is proven about the network.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from bornfair.baselines.probability_bounds import SIGMOID_ERROR
from bornfair.models.activations import sigmoid
from bornfair.verification.milp_encoding import Program

PIECES = 32  # of each copy's sigmoid, as in the paper (M = 16 on either side of 1/2)
SATURATED = 40.0  # logits beyond need no pieces: the sigmoid is 0 or 1 there for float64
TURN = math.log(2 + math.sqrt(3))  # where the sigmoid bends most: downward here, upward at −TURN


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
