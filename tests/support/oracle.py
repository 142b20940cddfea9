"""Brute force on small domains: the judge of every engine.

Lists all people and all their views, evaluates ReLU networks in exact fractions or in float32 on a machine of our
choosing (order of summation, fused multiply-add, flushing of subnormals), and looks for twins who disagree.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bornfair.models.network.bounds import intervals
from bornfair.models.network.bounds.backward import not_finite, require_fit
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.models.verdict import Arithmetic
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, Feature, IntegerFeature, RealFeature
from bornfair.people.twins.relation import FreeSpace, Relation, View, flip_relation

People = tuple[Fraction, ...]
SMALLEST = np.float32(2.0**-126)
WholeNumbers = tuple[list[tuple[list[tuple[int, int]], int]], int]
WHOLE: deque[tuple[Layer, WholeNumbers]] = deque(maxlen=8)  # layers that were asked about last


# --- everybody ---


def everybody(free: FreeSpace, reals: int = 3) -> Iterator[People]:
    """All free vectors: every lattice point, every one-hot choice, and a few levels (ends included) of reals."""
    choices: list[list[People]] = []
    column = 0
    starts = {group.start: group for group in free.groups}
    while column < free.width:
        group = starts.get(column, slice(column, column + 1))
        if column in starts:
            size = group.stop - group.start
            choices.append([tuple(Fraction(i == k) for i in range(size)) for k in range(size)])
        else:
            choices.append([(level,) for level in _levels(free, column, reals)])
        column = group.stop
    for parts in itertools.product(*choices):
        yield tuple(value for part in parts for value in part)


def _levels(free: FreeSpace, column: int, reals: int) -> list[Fraction]:
    low, high, step = (Fraction(float(part[column])) for part in (free.low, free.high, free.step))
    if step:
        return [low + step * i for i in range(int((high - low) / step) + 1)]
    return [low + (high - low) * i / (reals - 1) for i in range(reals)]


# --- exact evaluation ---


def exact_inputs(view: View, person: People) -> list[Fraction]:
    rows = zip(view.matrix.tolist(), view.offset.tolist(), strict=True)
    return [sum((Fraction(a) * u for a, u in zip(row, person, strict=True) if a), Fraction(c)) for row, c in rows]


def exact_scores(network: Network, inputs: Sequence[Fraction]) -> list[Fraction]:
    """In whole numbers over one denominator, which a float's power of two multiplies at every layer: fractions that
    are reduced at every addition take three times as long."""
    assert network.activation == "relu" or len(network.layers) == 1
    over = math.lcm(*(value.denominator for value in inputs))
    values = [value.numerator * (over // value.denominator) for value in inputs]
    for i, layer in enumerate(network.layers):
        if i:
            values = [max(value, 0) for value in values]
        rows, unit = _in_whole_numbers(layer)
        values = [sum([w * values[j] for j, w in row], bias * over) for row, bias in rows]
        over *= unit
    return [Fraction(value, over) for value in values]


def _in_whole_numbers(layer: Layer) -> WholeNumbers:
    """Per output the weights that are not 0, with their column, and the bias: all over one power of two."""
    for known, found in WHOLE:
        if known is layer:
            return found
    floats = [row.tolist() for row in np.column_stack([layer.weight, layer.bias])]
    unit = max(value.as_integer_ratio()[1] for row in floats for value in row)
    whole = [[int(Fraction(value) * unit) for value in row] for row in floats]
    found = [([(j, w) for j, w in enumerate(row[:-1]) if w], row[-1]) for row in whole], unit
    WHOLE.appendleft((layer, found))
    return found


def exact_decision(scores: Sequence[Fraction]) -> int:
    if len(scores) == 1:
        return int(scores[0] > 0)
    return max(range(len(scores)), key=lambda k: (scores[k], -k))


# --- float32 evaluation ---


@dataclass(frozen=True)
class Machine:
    """One way to execute float32: in which order sums are taken, whether products are fused into them, …"""

    order: int | None = None
    fused: bool = False
    flush: bool = False

    def scores(self, network: Network, inputs: np.ndarray) -> np.ndarray:
        rng = None if self.order is None else np.random.default_rng(self.order)
        values = np.asarray(inputs, np.float32)
        with np.errstate(all="ignore"):
            for i, layer in enumerate(network.layers):
                if i:
                    values = np.maximum(values, np.float32(0))
                values = self._affine(layer, values, rng)
        return values

    def _affine(self, layer: Layer, values: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        weight, values, bias = self._cut(layer.weight), self._cut(values), self._cut(layer.bias)
        terms = np.arange(len(values) + 1)  # the bias is the last
        if rng is not None:
            rng.shuffle(terms)
        total = np.zeros(len(bias), np.float32)
        for j in terms:
            if j == len(values):
                total = total + bias
            elif self.fused:
                total = (total + weight[:, j].astype(np.float64) * np.float64(values[j])).astype(np.float32)
            else:
                total = total + self._cut(weight[:, j] * values[j])
            total = self._cut(total)
        return total

    def _cut(self, values: np.ndarray) -> np.ndarray:
        return np.where(np.abs(values) < SMALLEST, np.float32(0), values) if self.flush else values


def machines(seed: int) -> list[Machine]:
    return [Machine(), Machine(seed), Machine(seed + 1, fused=True), Machine(seed + 2, flush=True)]


def float32_inputs(view: View, person: People) -> np.ndarray:
    with np.errstate(over="ignore"):
        return view(np.array([float(u) for u in person])[None])[0].astype(np.float32)


# --- judging ---


def disagreeing_twins(
    network: Network, relation: Relation, machine: Machine | None = None, reals: int = 3
) -> tuple[People, int, int] | None:
    """A person and two views of them that are decided differently, in exact arithmetic or on a machine."""
    for person in everybody(relation.free, reals):
        decided = [_decision(network, view, person, machine) for view in relation.views]
        for i, decision in enumerate(decided):
            if decision != decided[0]:
                return person, 0, i
    return None


def _decision(network: Network, view: View, person: People, machine: Machine | None) -> int:
    if machine is None:
        return exact_decision(exact_scores(network, exact_inputs(view, person)))
    return int(decisions(machine.scores(network, float32_inputs(view, person))[None])[0])


def refutes(network: Network, relation: Relation, arithmetic: Sequence[str], seed: int) -> str | None:
    """What is wrong with the claim that the network is fair in these arithmetics, if brute force finds anything."""
    if "real" in arithmetic and (twins := disagreeing_twins(network, relation)):
        return f"real: {twins}"
    for machine in machines(seed) if "float32" in arithmetic else ():
        if twins := disagreeing_twins(network, relation, machine):
            return f"{machine}: {twins}"
    return None


# --- small cases ---

STYLES = ("tame", "nearly constant", "fair", "wild", "on the edge")


def small_relation(rng: np.random.Generator) -> Relation:
    """The flip relation of a domain of at most a few hundred people."""
    pool: list[Feature] = [
        RealFeature(name="r", low=float(rng.uniform(-3, 0)), high=float(rng.uniform(0, 3))),
        IntegerFeature(name="n", low=-1, high=int(rng.integers(0, 4))),
        BooleanFeature(name="b"),
        CategoricalFeature(name="c", categories=("x", "y", "z")),
    ]
    kept = [feature for feature in pool if rng.random() < 0.6] or pool[:1]
    sensitive: Feature = (
        CategoricalFeature(name="s", categories=("p", "q", "o")[: int(rng.integers(2, 4))])
        if rng.random() < 0.7
        else IntegerFeature(name="s", low=0, high=3)
    )
    domain = Domain(features=(*kept, sensitive), sensitive=("s",))
    scales = {
        f.name: Scale(centre=float(np.float32(rng.normal())), exponent=int(rng.integers(-2, 3)))
        for f in domain.features
        if f.kind == "real"
    } | {f.name: Scale(centre=1.0, exponent=1) for f in domain.features if f.kind == "integer"}
    return flip_relation(Encoding(domain, scales))


def small_network(rng: np.random.Generator, relation: Relation, style: str, outputs: int = 1) -> Network:
    """A ReLU network with at most one hidden layer of four, in one of the STYLES."""
    inputs, free = len(relation.views[0].offset), relation.free.width
    hidden = int(rng.integers(0, 5))
    widths = (inputs, hidden, outputs) if hidden else (inputs, outputs)
    arrays = [[_numbers(rng, (b, a), style), _numbers(rng, (b,), style)] for a, b in itertools.pairwise(widths)]
    if style == "nearly constant":
        arrays[0][0] = arrays[0][0] * np.float32(10.0 ** rng.uniform(-8, -1))
    if style == "fair":
        arrays[0][0][:, free:] = 0
    network = Network(tuple(Layer(w, b) for w, b in arrays))
    return _at_the_edge(rng, network, relation) if style == "on the edge" and outputs == 1 else network


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], style: str) -> np.ndarray:
    if style == "tame":
        return (rng.integers(-8, 9, shape) / 4).astype(np.float32)
    if style == "wild":
        exponents = rng.choice([-149, -140, -126, -60, -24, -1, 0, 1, 24, 60, 100, 126], shape)
        return np.ldexp(rng.choice([-1.0, 1.0, 1.5, -1.75, 0.0], shape), exponents).astype(np.float32)
    return rng.normal(size=shape).astype(np.float32)


def _at_the_edge(rng: np.random.Generator, network: Network, relation: Relation) -> Network:
    """Move the last bias so that the largest logit of anybody is within a few units in the last place of 0."""
    largest = max(
        exact_scores(network, exact_inputs(view, person))[0]
        for person in everybody(relation.free)
        for view in relation.views
    )
    last = network.layers[-1]
    bias = np.float32(Fraction(float(last.bias[0])) - largest)
    for _ in range(int(rng.integers(0, 3))):
        bias = np.nextafter(bias, np.float32(np.inf if rng.random() < 0.5 else -np.inf))
    return Network((*network.layers[:-1], Layer(last.weight, np.array([bias]))))


# --- interval bounds ---


def output_bounds(
    network: Network, relation: Relation, arithmetic: Arithmetic = "real"
) -> tuple[np.ndarray, np.ndarray]:
    """Arrays low, high [views, outputs] by the passes that `prove_by_intervals` makes."""
    require_fit(network, relation)
    if not_finite(network, relation) is not None:
        unknown = np.full((len(relation.views), network.outputs), np.inf)
        return -unknown, unknown
    ends = [traced.ends(np) for traced in intervals._passes(network, relation, arithmetic)]
    order = np.argsort(np.concatenate(intervals._by_matrix(relation)))
    low, high = (np.concatenate(parts, axis=1)[0, order] for parts in zip(*ends, strict=True))
    return low, high
