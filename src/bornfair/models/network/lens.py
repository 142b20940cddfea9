"""People as points, and fast scores of them: for searches, which they guide and never decide.

A person is a point: one float64 per free feature, the raw number or the position of the category, and one more for
each number that may be missing, 1 where it is; the number itself is then not looked at. Points of the box with whole
coordinates where features are whole are just the people of the domain.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.people.features import NUMERIC, Value, unknown_column
from bornfair.people.inference import gap_share
from bornfair.people.levels import level_positions
from bornfair.people.twins.relation import element_view
from bornfair.people.twins.versions import Versions

if TYPE_CHECKING:
    from bornfair.models.network.model import Model

WORK = 2e8  # multiplications of one look: some tenths of a second
FIRST_LAYERS = 256  # kept, one for each element of the declared group
SOME_GAPS = 0.1  # of the people drawn, at least, have a gap where one is possible: there are few of each kind
NEAR = 1e-5  # of a typical score: closer to the boundary than this, float32 may decide by its rounding


@dataclass(frozen=True, eq=False)
class LeadRange:
    """People under several sensitive values: for each class (one, if there is one output) the highest and the lowest
    lead over the best other class, and the position among the values where it is reached. All [people, classes].
    """

    top: np.ndarray
    bottom: np.ndarray
    high_at: np.ndarray
    low_at: np.ndarray

    @property
    def middle(self) -> np.ndarray:
        """Halfway between the highest and the lowest lead: where it is 0 and they differ, twins disagree."""
        return (self.top + self.bottom) / 2

    @property
    def klass(self) -> np.ndarray:
        """The class that separates the twins best."""
        return np.minimum(self.top, -self.bottom).argmax(axis=1)

    @property
    def gap(self) -> np.ndarray:
        """Positive if some two of the values lead to different decisions, and by how much [people]."""
        return np.minimum(self.top, -self.bottom).max(axis=1)

    def rows(self, which: np.ndarray) -> LeadRange:
        return LeadRange(*(getattr(self, field.name)[which] for field in fields(self)))

    def replaced(self, where: np.ndarray, other: LeadRange) -> LeadRange:
        """These ranges, but the other ones for the people `where`."""
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return LeadRange(*(np.where(where[:, None], new, old) for old, new in pairs))


class Lens:
    """People as points: one float64 per free feature, the raw number or the position of the category.

    They are looked at as versions of themselves, by number (`bornfair.people.twins.versions`).
    Scores are computed in float64, fast but not exact: they guide, they never judge.
    """

    def __init__(self, model: Model, values: Sequence[tuple[Value, ...]] | None = None) -> None:
        """`values`: the sensitive values to look at, if not those of S."""
        self.model, encoding = model, model.encoding
        self.features = encoding.domain.free_features
        gappy = [i for i, f in enumerate(self.features) if encoding.gap(f.name) is not None]
        self.gaps = {i: len(self.features) + k for k, i in enumerate(gappy)}
        """Of numbers that may be missing, where a point says that they are."""
        self.width = len(self.features) + len(gappy)
        columns, more = encoding.free_columns(), len(gappy)
        places = [columns[f.name].start for f in self.features]
        self.place = np.array([*places, *(places[i] + 1 for i in gappy)], dtype=np.int64)
        parts = [encoding.gap(self.features[i].name) for i in gappy]
        self.fills = np.array([gap.fill for gap in parts if gap is not None])
        self.shown = np.array([gap.shown for gap in parts if gap is not None])
        self.gap_chance = np.array([max(gap_share(self.features[i]), SOME_GAPS) for i in gappy])
        numeric = np.array([isinstance(f, NUMERIC) for f in self.features], dtype=bool)
        self.numbers = np.flatnonzero(numeric)
        self.reals = np.array([i for i, f in enumerate(self.features) if f.kind == "real"], dtype=np.int64)
        self.whole = np.array([*(f.kind != "real" for f in self.features), *[True] * more], dtype=bool)
        self.one_hot = np.array([*(f.kind == "categorical" for f in self.features), *[False] * more], dtype=bool)
        # Beyond what is seen nobody is decided otherwise than at its end.
        ends = [
            encoding.number(f.name).seen if isinstance(f, NUMERIC) else (0, len(f.levels()) - 1) for f in self.features
        ]
        self.low, self.high = np.array(ends + [(0, 1)] * more, dtype=np.float64).reshape(-1, 2).T
        scales = [encoding.scales[f.name] if isinstance(f, NUMERIC) else None for f in self.features] + [None] * more
        self.centre = np.array([0.0 if s is None else s.centre for s in scales])
        self.exponent = np.array([0 if s is None else s.exponent for s in scales], dtype=int)
        self.least = np.array([-np.inf if s is None or s.low is None else s.low for s in scales])
        self.most = np.array([np.inf if s is None or s.high is None else s.high for s in scales])
        self.weights = model.network.wide
        self.codes = encoding.codes if values is None else encoding.codes_of(values)
        self.versions = Versions(encoding.domain) if values is None else Versions(encoding.domain).at(values)
        self.size = self.versions.size
        self.offsets = self.codes.astype(np.float64) @ self.weights[0][0][:, encoding.free_width :].T
        self.first_weight = self.weights[0][0][:, : encoding.free_width]
        self.view = functools.lru_cache(maxsize=FIRST_LAYERS)(functools.partial(element_view, encoding, exact=False))
        self.first = functools.lru_cache(maxsize=FIRST_LAYERS)(self._first_layer)
        self.most_rows = int(np.clip(WORK / model.network.parameters, 256, 200_000))
        few = self.sample(64, np.random.default_rng(0))
        self.typical = float(np.mean(np.abs(self.scores(few, np.arange(1)))))
        self.near = NEAR * self.typical

    def _first_layer(self, h: int) -> tuple[np.ndarray, np.ndarray]:
        """Weights and biases of the first layer on u, for people moved by an element of the declared group."""
        if self._is_plain(h):
            return self.first_weight, self.weights[0][1]
        matrix, offset = self.view(h)
        return self.first_weight @ matrix, self.first_weight @ offset + self.weights[0][1]

    def _is_plain(self, h: int) -> bool:
        """Whether the network is shown u itself: then there is no need for a matrix of so many columns and rows."""
        return h == 0 and not self.model.encoding.merged

    def _apart(self, versions: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The elements among some versions: each with the places where it stands and their positions in S."""
        elements, positions = np.divmod(versions, len(self.codes))
        for h in np.unique(elements):
            at = np.flatnonzero(elements == h)
            yield int(h), at, positions[at]

    def room(self, most: int, rows: int) -> int:
        """How many people to look at together, `most` if that is quick, when each of them costs some rows."""
        return max(4, min(most, 2 * self.most_rows // max(rows, 1)))

    # --- people ---

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """People drawn uniformly, as `Domain.sample` draws them, but no fewer than some of them with gaps."""
        span = self.high - self.low
        drawn = self.low + rng.random((count, self.width)) * np.where(self.whole, span + 1, span)
        if self.gaps:
            drawn[:, len(self.features) :] = rng.random((count, len(self.gaps))) < self.gap_chance
        return self.inside(np.where(self.whole, np.floor(drawn), drawn))

    def inside(self, people: np.ndarray) -> np.ndarray:
        """The nearest people who exist."""
        return np.clip(np.where(self.whole, np.round(people), people), self.low, self.high)

    def from_table(self, table: pd.DataFrame) -> np.ndarray:
        """The rows that are people of the domain, as far as they are seen; sensitive columns are not needed."""
        needed = [f.name for f in self.features]
        for name in needed:
            if name not in table.columns:
                raise InputError(unknown_column(name, [str(column) for column in table.columns]))
        table = table[needed]
        people = self.points(table[~self.model.domain.outside(table)])
        return np.unique(np.clip(people, self.low, self.high), axis=0)

    def points(self, table: pd.DataFrame) -> np.ndarray:
        """Each row as a point."""
        columns = [
            table[f.name].to_numpy(dtype=np.float64, na_value=np.nan)
            if isinstance(f, NUMERIC)
            else level_positions(f, table[f.name]).astype(np.float64)
            for f in self.features
        ]
        for i, fill in zip(self.gaps, self.fills, strict=True):
            gap = np.isnan(columns[i])
            columns[i] = np.where(gap, self._hidden(i, fill), columns[i])
            columns.append(gap.astype(np.float64))
        return np.stack(columns, axis=1) if columns else np.zeros((len(table), 0))

    def _hidden(self, feature: int, fill: float) -> float:
        """The number that a point has where it is missing: it is not looked at."""
        return float(np.round(fill) if self.whole[feature] else fill)

    def person(self, point: np.ndarray) -> dict[str, Value]:
        """Raw values, as a table would hold them."""
        raw: dict[str, Any] = {}
        for i, (feature, number) in enumerate(zip(self.features, point.tolist(), strict=False)):
            if i in self.gaps and point[self.gaps[i]] > 0:
                raw[feature.name] = None
            elif feature.kind == "real":
                raw[feature.name] = number
            elif feature.kind == "integer":  # a bound beyond 2^53 may have been rounded on its way here
                raw[feature.name] = min(max(int(number), feature.low), feature.high)
            else:
                raw[feature.name] = feature.levels()[int(number)]
        return raw

    def point(self, person: Mapping[str, Value]) -> np.ndarray:
        """Raw values of a person as a point."""
        places = [person[f.name] if isinstance(f, NUMERIC) else f.levels().index(person[f.name]) for f in self.features]
        for i, fill in zip(self.gaps, self.fills, strict=True):
            places.append(float(places[i] is None))
            places[i] = self._hidden(i, fill) if places[i] is None else places[i]
        return np.array(places, np.float64)

    def changed(self, people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One feature of each person changed by chance: a little, anywhere, or to an end of its range."""
        count = len(people)
        if not self.width:
            return people
        who, which = np.arange(count), rng.integers(self.width, size=count)
        low, high, old = self.low[which], self.high[which], people[who, which]
        little = rng.choice([-5.0, -2.0, -1.0, 1.0, 2.0, 5.0], count)
        little *= np.where(self.whole[which], 1.0, (high - low) * 10.0 ** rng.uniform(-6, -1, count))
        anywhere = low + rng.random(count) * (high - low)
        kind = rng.random(count)
        new = np.where(kind < 0.5, old + little, np.where(kind < 0.8, anywhere, np.where(kind < 0.9, low, high)))
        values = np.clip(high - low + 1, 1, 2.0**62).astype(np.int64)  # of a category; a number may have any
        new = np.where(self.one_hot[which], rng.integers(0, values), new)
        result = people.copy()
        result[who, which] = np.clip(np.where(self.whole[which], np.round(new), new), low, high)
        return result

    # --- scores ---

    def encode(self, people: np.ndarray) -> np.ndarray:
        """The free vectors u: scaled numbers and one-hot blocks, before anything is merged or rounded to float32."""
        free = np.zeros((len(people), self.model.encoding.free_width))
        plain = ~self.one_hot
        held = np.clip(people[:, plain], self.least[plain], self.most[plain])
        free[:, self.place[plain]] = np.ldexp(held - self.centre[plain], -self.exponent[plain])
        for feature in np.flatnonzero(self.one_hot):
            free[np.arange(len(people)), self.place[feature] + people[:, feature].astype(np.int64)] = 1.0
        for (number, gap), shown in zip(self.gaps.items(), self.shown, strict=True):
            free[people[:, gap] > 0, self.place[number]] = shown
        return free

    def scores(self, people: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Outputs in float64, [people, values, outputs]. The code's part is added last: where it is 0, twins get the
        same bits.
        """
        size = max(1, self.most_rows // max(len(values), 1))
        parts = [np.zeros((0, len(values), self.model.network.outputs))]
        for part in (people[i : i + size] for i in range(0, len(people), size)):
            free, sums = self.encode(part), np.zeros((len(part), len(values), self.offsets.shape[1]))
            for h, at, positions in self._apart(values):
                weight, bias = self.first(h)
                sums[:, at] = (free @ weight.T + bias)[:, None, :] + self.offsets[positions]
            outputs = self.model.network.estimated_from_first(sums.reshape(-1, sums.shape[2]))
            parts.append(outputs.reshape(len(part), len(values), -1))
        return np.concatenate(parts)

    def look(self, people: np.ndarray, values: np.ndarray) -> LeadRange:
        return lead_ranges(self.scores(people, values))

    def worth(self, look: LeadRange) -> np.ndarray:
        """The gap, less where the sensitive value changes nothing at all: flat ground on the boundary leads nowhere."""
        return look.gap - np.where((look.top == look.bottom).all(axis=1), self.typical + 1e-300, 0.0)

    def shipped(self, people: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Outputs as the shipped network gives them in float32, [people, values, outputs]."""
        free = self.encode(people)
        inputs = np.zeros((len(people), len(values), self.model.encoding.width), np.float32)
        for h, at, positions in self._apart(values):
            seen = free
            if not self._is_plain(h):
                matrix, offset = self.view(h)
                seen = free @ matrix.T + offset
            inputs[:, at, : free.shape[1]] = seen[:, None, :]
            inputs[:, at, free.shape[1] :] = self.codes[positions]
        rows = inputs.reshape(-1, inputs.shape[2])
        return self.model.network.scores(rows).reshape(len(people), len(values), -1)

    def gradient(self, people: np.ndarray, values: np.ndarray, look: LeadRange) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of the middle of each person's best class by their encoded features, and that middle."""
        who, klass, free = np.arange(len(people)), look.klass, self.encode(people)
        total = np.zeros_like(free)
        for ends in (look.high_at, look.low_at):
            apart = list(self._apart(values[ends[who, klass]]))
            numbers, slopes = np.zeros((len(people), self.offsets.shape[1])), list[np.ndarray]()
            for h, at, positions in apart:
                weight, bias = self.first(h)
                numbers[at] = free[at] @ weight.T + bias + self.offsets[positions]
            numbers = self.model.network.estimated_from_first(numbers, slopes)
            back = np.zeros_like(numbers)
            back[who, klass] = 0.5
            if numbers.shape[1] > 1:
                numbers[who, klass] = -np.inf
                back[who, numbers.argmax(axis=1)] -= 0.5
            for (weight, _), slope in zip(reversed(self.weights[1:]), reversed(slopes), strict=True):
                back = (back @ weight) * slope
            for h, at, _ in apart:
                total[at] += back[at] @ self.first(h)[0]
        for number, gap in self.gaps.items():  # what is missing can be moved as you like
            total[people[:, gap] > 0, self.place[number]] = 0.0
        return total, look.middle[who, klass]

    def slopes(self, gradient: np.ndarray) -> np.ndarray:
        """The derivative by raw numbers; 0 for categories."""
        return np.where(self.one_hot, 0.0, np.ldexp(gradient[:, self.place], -self.exponent))

    def foreseen(self, before: np.ndarray, after: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """By how much the middle moves, to first order, when people change."""
        moved = np.ldexp(after - before, -self.exponent) * gradient[:, self.place]
        who = np.arange(len(before))
        for feature in np.flatnonzero(self.one_hot):
            new, old = ((self.place[feature] + p[:, feature].astype(np.int64)) for p in (after, before))
            moved[:, feature] = gradient[who, new] - gradient[who, old]
        return moved.sum(axis=1)


def lead_ranges(scores: np.ndarray) -> LeadRange:
    """From outputs [people, values, outputs]."""
    leads = scores
    if scores.shape[2] > 1:
        order = np.sort(scores, axis=2)
        best, second = order[:, :, -1:], order[:, :, -2:-1]
        leads = scores - np.where(scores == best, second, best)
    return LeadRange(leads.max(axis=1), leads.min(axis=1), leads.argmax(axis=1), leads.argmin(axis=1))
