"""Whom does the sensitive value alone decide about? Two attacks that look where such twins live: at the boundary.

Both try people who could exist: the categories of real people, numbers within the domain. `attack_reals` walks to the
boundary and changes the sensitive value there; exact arithmetic has the last word. `attack_integers` answers for every
whole number of one column, in float32 as shipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain
from bornfair.models.network.bounds.exact import exact_scores
from bornfair.models.network.lens import Lens, lead_ranges
from bornfair.models.network.model import Model, scores_under_every_code
from bornfair.models.network.network import CHUNK, Network, decisions
from bornfair.models.rounding import EXECUTIONS
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import IntegerFeature
from bornfair.verification.replay import exact_input

MOVES = 8  # other places to try for each person before giving up on a crossing
GROUP = 2048  # people or intervals looked at together: bounds memory
FLOOR = 2.0**-100  # far above what a layer can lose when a machine flushes subnormals (each below 2^-126) to zero


@dataclass(frozen=True)
class Twins:
    """One person under two sensitive values, decided differently. `person` and `sensitive` are raw values."""

    arithmetic: Literal["exact", "float32"]
    person: dict[str, Any]
    sensitive: tuple[dict[str, Any], dict[str, Any]]
    decisions: tuple[Any, Any]
    logits: tuple[float, float]

    def __str__(self) -> str:
        shared = ", ".join(f"{name} {value}" for name, value in self.person.items())
        pairs = zip(self.sensitive, self.decisions, strict=True)
        versions = ", ".join(f"{' '.join(map(str, who.values()))}: {decision}" for who, decision in pairs)
        return f"{versions} — both {shared}."

    def table(self, domain: Domain) -> pd.DataFrame:
        """The two as rows of a raw table."""
        return pd.DataFrame([self.person | values for values in self.sensitive])[list(domain.names)]


@dataclass(frozen=True)
class Found:
    """What an attack found: `tried` chances, `suspected` by fast arithmetic, and those confirmed as twins."""

    tried: int
    suspected: int
    twins: tuple[Twins, ...]

    @property
    def unfair(self) -> int:
        return len(self.twins)


# --- numbers anywhere in their ranges ---


def attack_reals(network: Network, encoding: Encoding, table: pd.DataFrame, *, most: int, seed: int) -> Found:
    """Bisect to the decision boundary in float64, change the sensitive value there, judge the two in exact arithmetic.

    A chance is a crossing: a person of the table and the same person with some numbers moved, decided differently
    under the recorded sensitive value. At most one per person, at most `most` in all.
    """
    lens = _lens(network, encoding)
    who, accepted, rejected = _crossings(lens, table, most, np.random.default_rng([seed, 31]))
    suspects = _to_the_boundary(lens, table.iloc[who], accepted, rejected)
    return Found(len(who), int(suspects.differ.sum()), _confirmed(suspects))


def _lens(network: Network, encoding: Encoding) -> Lens:
    if not network.function.exact or network.outputs != 1:
        raise InputError(
            f"the attacks need a relu network with one output, found {network.activation} with {network.outputs}."
        )
    return Lens(Model(network, encoding))


def _logits(lens: Lens, points: np.ndarray) -> np.ndarray:
    """Of everybody under every sensitive value, float64 [people, values]."""
    return lens.scores(points, np.arange(len(lens.codes)))[:, :, 0]


def _own(lens: Lens, people: pd.DataFrame) -> np.ndarray:
    """Each person's position in S."""
    encoding = lens.model.encoding
    return encoding.sensitive_index(encoding.encode(people))


class _Suspects:
    """For each crossing the clearest point seen at which two sensitive values lead to different decisions, if any.

    The clearest, not the last of a bisection: where a logit is as small as float64's own rounding, exact arithmetic
    may see another sign.
    """

    def __init__(self, lens: Lens, people: pd.DataFrame) -> None:
        self.lens, self.people = lens, people
        self.clarity = np.full(len(people), -np.inf)
        self.points = np.zeros((len(people), lens.width))
        self.values = np.zeros((len(people), 2), np.int64)  # positions in S of the rejected and the accepted twin

    @property
    def differ(self) -> np.ndarray:
        return self.clarity >= 0

    def look(self, points: np.ndarray) -> np.ndarray:
        """The logits [crossings, values] of everybody at these points, taking note of those that disagree."""
        logits = _logits(self.lens, points)
        seen = lead_ranges(logits[:, :, None])
        clarity = np.where((seen.bottom <= 0) & (seen.top > 0), seen.gap[:, None], -np.inf)[:, 0]
        clearer = clarity > self.clarity
        self.clarity[clearer], self.points[clearer] = clarity[clearer], points[clearer]
        self.values[clearer] = np.concatenate([seen.low_at, seen.high_at], axis=1)[clearer]
        return logits


def _crossings(
    lens: Lens, table: pd.DataFrame, most: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """People (positions in the table), and for each the points of an accepted and of a rejected version."""
    numbers = lens.numbers
    parts = [(np.zeros(0, np.int64), np.zeros((0, lens.width)), np.zeros((0, lens.width)))]
    order = rng.permutation(len(table))
    for start in range(0, len(order), GROUP):
        who = order[start : start + GROUP]
        here, own = lens.points(table.iloc[who]), (np.arange(len(who)), _own(lens, table.iloc[who]))
        decided = _logits(lens, here)[own] > 0
        there, found, shape = here.copy(), np.zeros(len(who), bool), (len(who), len(numbers))
        for _ in range(MOVES):
            moved, moves = here.copy(), rng.random(shape) < 0.5
            moved[:, numbers] = np.where(
                moves, rng.uniform(lens.low[numbers], lens.high[numbers], shape), here[:, numbers]
            )
            new = ~found & ((_logits(lens, moved)[own] > 0) != decided)
            there[new], found = moved[new], found | new
        swap = decided[:, None]
        parts.append((who[found], np.where(swap, here, there)[found], np.where(swap, there, here)[found]))
        if sum(len(part[0]) for part in parts) >= most:
            break
    who, accepted, rejected = (np.concatenate(part)[:most] for part in zip(*parts, strict=True))
    return who, accepted, rejected


def _to_the_boundary(lens: Lens, people: pd.DataFrame, accepted: np.ndarray, rejected: np.ndarray) -> _Suspects:
    """Halve the way between the two until no float64 lies between. Midpoints stay in the box, so they could exist."""
    suspects, own = _Suspects(lens, people), (np.arange(len(people)), _own(lens, people))
    suspects.look(accepted)
    suspects.look(rejected)
    while True:
        middle = accepted + (rejected - accepted) / 2
        over = (middle == accepted).all(axis=1) | (middle == rejected).all(axis=1)
        if over.all():
            return suspects
        yes = suspects.look(middle)[own] > 0
        accepted = np.where((yes & ~over)[:, None], middle, accepted)
        rejected = np.where((~yes & ~over)[:, None], middle, rejected)


def _confirmed(suspects: _Suspects) -> tuple[Twins, ...]:
    """Those suspects whose two decisions differ in exact arithmetic, starting from their raw values."""
    lens, twins = suspects.lens, []
    network, encoding = lens.model.network, lens.model.encoding
    for i in np.flatnonzero(suspects.differ):
        moved = {lens.features[j].name: float(suspects.points[i, j]) for j in lens.numbers}
        person = _shared(encoding.domain, suspects.people.iloc[i]) | moved
        pair = suspects.values[i].tolist()
        inputs = np.stack([exact_input(encoding, person, value) for value in pair])
        logits = exact_scores(network, inputs)[:, 0].tolist()
        if (logits[0] > 0) != (logits[1] > 0):
            twins.append(_twins(encoding.domain, "exact", person, pair, logits))
    return tuple(twins)


# --- every whole number of one column ---


def attack_integers(network: Network, encoding: Encoding, table: pd.DataFrame, *, column: str) -> Found:
    """For each person: is there a whole number in the column's range at which the sensitive value decides, in float32?

    Exact for float32 as shipped, without evaluating every number: whole intervals of the column are decided by bounds
    that hold for any order of summation, and what bounds leave open is evaluated one by one.
    """
    sweep = _Sweep(_lens(network, encoding), table, column)
    low, high = int(sweep.feature.low), int(sweep.feature.high)
    hits: dict[int, int] = {}  # person → a number at which the sensitive value decides
    open_ends: list[np.ndarray] = []
    pending = np.array([[person, low, high] for person in range(len(table))], np.int64).reshape(-1, 3)
    while len(pending):
        groups = [pending[i : i + GROUP] for i in range(0, len(pending), GROUP)]
        signs = np.concatenate([sweep.signs(*group.T) for group in groups], axis=1)
        for person, number, _ in pending[(signs.max(axis=0) > 0) & (signs.min(axis=0) < 0)].tolist():
            hits.setdefault(person, number)
        pending = pending[(signs == 0).any(axis=0) & ~np.isin(pending[:, 0], list(hits))]
        single = pending[:, 1] == pending[:, 2]
        open_ends.append(pending[single])
        person, first, last = pending[~single].T
        half = (first + last) // 2
        pending = np.concatenate([np.stack([person, first, half], 1), np.stack([person, half + 1, last], 1)])
    rest = np.concatenate(open_ends)[:, :2] if open_ends else np.zeros((0, 2), np.int64)
    for person, number in sweep.decided_differently(rest[~np.isin(rest[:, 0], list(hits))]):
        hits.setdefault(person, number)
    twins = tuple(sweep.confirmed(person, hits[person]) for person in sorted(hits))
    return Found(len(table), len(hits), twins)


class _Sweep:
    """A table of people, one whole-number column of which runs through its range."""

    def __init__(self, lens: Lens, table: pd.DataFrame, column: str) -> None:
        self.lens, self.table, self.column = lens, table, column
        self.network, self.encoding = lens.model.network, lens.model.encoding
        pairs = zip(lens.features, lens.place, strict=True)
        found = [(f, place) for f, place in pairs if f.name == column and isinstance(f, IntegerFeature)]
        if not found:
            raise InputError(
                f"'{column}' is not a whole-number feature outside the sensitive ones; choose one that is."
            )
        self.feature, self.place = found[0]
        self.free = self.encoding.encode(table, sensitive=False).free
        others = self.free.astype(np.float64)
        others[:, self.place] = 0.0
        weight, bias = lens.first_weight, lens.weights[0][1]
        self.slope = weight[:, self.place]
        self.base, self.size = others @ weight.T + bias, np.abs(others) @ np.abs(weight).T + np.abs(bias)
        sensitive = lens.weights[0][0][:, self.encoding.free_width :]
        self.offset_sizes = np.abs(lens.codes.astype(np.float64)) @ np.abs(sensitive).T

    def signs(self, person: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """int [values, intervals]: +1 accepted throughout the interval, −1 rejected throughout, 0 not known."""
        column = self.encoding.number(self.column)
        middle, radius = column.encode((first + last) / 2)[:, None], column.slope * ((last - first) / 2)[:, None]
        # Absent categories add exact zeros, so a sum rounds once for each feature at most.
        rounding = _gamma(len(self.encoding.domain.features) + self.lens.codes.shape[1])
        slopes = radius * self.slope
        size = self.size[person] + (np.abs(middle) + radius) * np.abs(self.slope)
        signs = []
        for offset, offset_size in zip(self.lens.offsets, self.offset_sizes, strict=True):
            centre = self.base[person] + middle * self.slope + offset
            low, high = self._logit_bounds(centre, slopes, rounding * (size + offset_size) + FLOOR)
            signs.append(np.where(low > 0, 1, np.where(high <= 0, -1, 0)))
        return np.stack(signs)

    def _logit_bounds(self, centre: np.ndarray, slope: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the float32 logit lies between when the first layer gives centre + slope·t ± spread, |t| ≤ 1.

        Carrying t along keeps what moves together together: on an interval where no neuron switches, only rounding
        remains as spread. A neuron that switches lies within ±lift of a line. Our own float64 rounding is millions
        of times smaller than what `_gamma` has to spare.
        """
        for weight, bias in self.lens.weights[1:]:
            reach = np.abs(slope) + spread
            low, high = centre - reach, centre + reach
            switches = (low < 0) & (high > 0)
            pass_on = np.where(switches, high / np.where(switches, high - low, 1.0), low >= 0)
            lift = np.where(switches, -pass_on * low / 2, 0.0)
            centre, slope, spread = pass_on * centre + lift, pass_on * slope, pass_on * spread + lift
            rounding, size = _gamma(weight.shape[1]), np.abs(weight).T
            spread = (
                spread @ size + rounding * ((np.abs(centre) + np.abs(slope) + spread) @ size + np.abs(bias)) + FLOOR
            )
            centre, slope = centre @ weight.T + bias, slope @ weight.T
        reach = np.abs(slope) + spread
        return (centre - reach)[:, 0], (centre + reach)[:, 0]

    def decided_differently(self, pairs: np.ndarray) -> list[tuple[int, int]]:
        """Which (person, number) pairs the network, run as shipped, decides by the sensitive value."""
        column, found = self.encoding.number(self.column), []
        for part in (pairs[i : i + CHUNK] for i in range(0, len(pairs), CHUNK)):
            free = self.free[part[:, 0]]
            free[:, self.place] = column.encode(part[:, 1])
            decided = decisions(scores_under_every_code(self.network, free, self.encoding.codes))
            found += [(int(person), int(number)) for person, number in part[(decided != decided[0]).any(axis=0)]]
        return found

    def confirmed(self, person: int, number: int) -> Twins:
        """The twins as raw rows, encoded and decided the way anybody's table is."""
        domain, space = self.encoding.domain, self.encoding.domain.sensitive_space
        shared = _shared(domain, self.table.iloc[person]) | {self.column: number}
        rows = pd.DataFrame([shared | dict(zip(domain.sensitive, value, strict=True)) for value in space.values])
        encoded = self.encoding.encode(rows)
        logits = self.network.scores(np.concatenate([encoded.free, encoded.sensitive], axis=1))[:, 0]
        accepted = logits > 0
        if accepted.all() or not accepted.any():
            raise ArithmeticError(
                f"bounds say that the sensitive value decides about row {person} at {self.column} = {number}, but the "
                f"network gives the logits {logits.tolist()}: the bounds do not cover this machine's float32."
            )
        pair = (0, int(np.argmax(accepted != accepted[0])))
        return _twins(domain, "float32", shared, pair, (logits[pair[0]], logits[pair[1]]))


def _gamma(terms: int) -> float:
    """Relative rounding error of a float32 sum: products, sums, the bias, the cast of an input, and two to spare."""
    return EXECUTIONS["float32"].gamma(terms + 4)


# --- showing people ---


def _shared(domain: Domain, row: pd.Series) -> dict[str, Any]:
    return {name: plain(row[name]) for name in domain.free_names}


def _twins(
    domain: Domain, arithmetic: Literal["exact", "float32"], person: dict[str, Any], values: Any, logits: Any
) -> Twins:
    names = (0, 1) if domain.label is None else domain.label.classes
    first, second = (
        dict(zip(domain.sensitive, domain.sensitive_space.values[int(value)], strict=True)) for value in values
    )
    decided = tuple(names[int(logit > 0)] for logit in logits)
    return Twins(arithmetic, person, (first, second), (decided[0], decided[1]), (float(logits[0]), float(logits[1])))
