"""The exact and invertible map from rows of a table to the input of a network.

The network's input is x = [u, c]: the free part u (what twins share), then the codes c of the sensitive values.
Numbers are scaled, categories become one-hot (`columns`). What may be missing is one more category, or of a number one
more column, 1 where the number is not there and its median is shown instead.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_value, shown
from bornfair.people.columns import (
    Column,
    GapColumns,
    Groups,
    LevelColumns,
    NumberColumn,
    Scale,
    average,
    covers,
    one_hot,
    read_groups,
    scale_of,
)
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value, unknown_column
from bornfair.people.policies import Policies, numbers_of
from bornfair.people.sensitive import SensitiveColumns


@dataclass(frozen=True)
class Encoded:
    """A table as network input. `sensitive` is None when the table came without those columns."""

    free: np.ndarray  # float32 [rows, free width]
    sensitive: np.ndarray | None  # float32 [rows, sensitive width]
    sensitive_levels: np.ndarray | None  # int [rows, sensitive features]


@dataclass(frozen=True)
class Encoding:
    """The affine map between raw rows and network input for one domain."""

    domain: Domain
    scales: dict[str, Scale]
    fill: dict[str, Value] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    raw: bool = False
    """Whether the network reads numbers as they stand, sensitive ones included: how other people's networks do."""
    merged: dict[str, Groups] = field(default_factory=dict)
    """Free features of which the network sees P·x (theory: declared twins): positions that look alike to it.

    A category is shown as the mean of its group; true/false that are alike as ½, a number that is named here as 0.
    """
    _kept: dict[int, np.ndarray] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, scale in self.scales.items():
            feature = self.domain.feature(name)
            if isinstance(feature, NUMERIC):
                twins = (*self.domain.sensitive, *self.domain.twin_group.orbits) if scale.holding else ()
                scale.check(feature, apart=name in twins)
        for name in self.domain.gappy_numbers:
            self._check_fill(name)

    def _check_fill(self, name: str) -> None:
        """Refuse to show a gap as a number that nobody has: bounds are made between the ends of the range."""
        feature, fill = self.domain.number(name), self.fill.get(name)
        if self.raw:
            raise InputError(
                f"'{name}' may be missing in the domain, but this network reads numbers as they are, without an input "
                'that says so; remove "missing" from the domain.'
            )
        known = isinstance(fill, (int, float)) and not isinstance(fill, bool)
        if not known or not feature.low <= fill <= feature.high:  # type: ignore[operator]
            raise InputError(
                f"'{name}' may be missing, and a gap is shown to the network as {fill!r}, which is not in the domain's "
                f"range [{feature.low:g}, {feature.high:g}]; widen the range."
            )

    # --- making one ---

    @staticmethod
    def of_raw_numbers(domain: Domain, policies: Policies | None = None) -> Encoding:
        """For a network that takes the numbers of the domain unscaled."""
        for feature in domain.features:
            if not isinstance(feature, NUMERIC):
                raise InputError(f"feature '{feature.name}' is {feature.kind}; a network of raw numbers needs numbers.")
        scales = {feature.name: Scale(centre=0.0, exponent=0) for feature in domain.features}
        fill: dict[str, Value] = {f.name: f.low for f in domain.features if isinstance(f, NUMERIC)}
        return Encoding(domain, scales, fill, policies or Policies(), raw=True)

    @staticmethod
    def fit(
        domain: Domain,
        table: pd.DataFrame,
        policies: Policies | None = None,
        *,
        merge_twins: bool = False,
        hold_tails: bool = False,
    ) -> Encoding:
        """Standardise numbers by the table's mean and spread; remember what to impute.

        merge_twins: show the network what declared twins have in common, and nothing else. hold_tails: what lies far
        out is shown as an end that does not, and a column of one value as nothing; numbers that twins differ in aside.
        """
        scales: dict[str, Scale] = {}
        fill: dict[str, Value] = {}
        orbits = domain.twin_group.orbits
        for feature in domain.features:
            present = _column(feature, table).dropna()
            if not isinstance(feature, NUMERIC):
                fill[feature.name] = _most_frequent(feature, present) if len(present) else feature.levels()[0]
                continue
            numbers = numbers_of(feature, present)
            hold = hold_tails and feature.name not in domain.sensitive
            scales[feature.name] = scale_of(feature, numbers, mirrored=feature.name in orbits, hold_tails=hold)
            fill[feature.name] = float(np.median(numbers)) if len(numbers) else feature.low
            if feature.missing:  # shown to the network, and not only in tables that have gaps
                fill[feature.name] = float(np.clip(fill[feature.name], feature.low, feature.high))
        return Encoding(domain, scales, fill, policies or Policies(), merged=orbits if merge_twins else {})

    def over(self, domain: Domain) -> Encoding:
        """The same map for the same features, of which others may be sensitive: one that is held has the values there
        that are seen, because beyond them nobody is decided otherwise. Nothing is merged.
        """
        scales = dict(self.scales)
        for name in (n for n in domain.sensitive if n in scales and scales[n].holding):
            feature = domain.number(name)
            low, high = NumberColumn(feature, scales[name].holding).seen
            domain = domain.edit(name, low=low, high=high)
            scales[name] = Scale(centre=scales[name].centre, exponent=scales[name].exponent)
        return replace(self, domain=domain, scales=scales, merged={})

    # --- what declared twins have in common ---

    @cached_property
    def merges_twins(self) -> bool:
        """Whether declared twins are the same bits to the network, but for the codes of their sensitive values."""
        return covers(self.merged, self.domain.twin_group.orbits)

    def averaged(self, free: np.ndarray) -> np.ndarray:
        """P·x for rows of one-hot blocks and scaled numbers, in place."""
        columns = self.free_columns()
        for name, groups in self.merged.items():
            average(free[:, columns[name]], self.domain.feature(name).kind, groups)
        return free

    # --- where things are ---

    @cached_property
    def free_width(self) -> int:
        return sum(column.width for column in self.free_vector.values())

    @cached_property
    def sensitive(self) -> SensitiveColumns:
        """How the network sees the sensitive features."""
        return SensitiveColumns(self.domain.sensitive_space, self.raw)

    @property
    def sensitive_width(self) -> int:
        return self.sensitive.width

    @property
    def codes(self) -> np.ndarray:
        """What the network sees for each value of S, in the order of S: float32 [|S|, sensitive width]."""
        return self.sensitive.codes

    @cached_property
    def columns(self) -> dict[str, Column]:
        """How the network sees each feature, the free ones first."""
        free: dict[str, Column] = {name: self._merged(column) for name, column in self.free_vector.items()}
        return free | self.sensitive.columns

    @cached_property
    def free_vector(self) -> dict[str, Column]:
        """How each free feature is part of the free vector u, where nothing is merged."""
        return {feature.name: self._free(feature) for feature in self.domain.free_features}

    def number(self, name: str) -> NumberColumn:
        """How a free number is part of u, where it is not missing."""
        column = self.free_vector[name]
        column = column.number if isinstance(column, GapColumns) else column
        assert isinstance(column, NumberColumn)
        return column

    def gap(self, name: str) -> GapColumns | None:
        """How a free number that may be missing is part of u; None of all other features."""
        column = self.free_vector[name]
        return column if isinstance(column, GapColumns) else None

    def _free(self, feature: Feature) -> Column:
        if not isinstance(feature, NUMERIC):
            return one_hot(feature)
        scale = self.scales[feature.name]
        steps = (*scale.holding, ("Sub", scale.centre), ("Mul", math.ldexp(1.0, -scale.exponent)))
        column = NumberColumn(feature, steps)
        return GapColumns(column, float(self.fill[feature.name])) if feature.missing else column

    def _merged(self, column: Column) -> Column:
        groups = self.merged.get(column.feature.name)
        if groups is None:
            return column
        if isinstance(column, GapColumns):  # a gap is nobody's mirror image but its own
            number = self._merged(column.number)
            assert isinstance(number, NumberColumn)
            return GapColumns(number, column.fill)
        if isinstance(column, NumberColumn):  # mirrored around its centre
            return NumberColumn(column.feature, (*column.steps[:-1], ("Mul", 0.0)))
        table = column.table.copy()
        average(table, column.feature.kind, groups)
        return LevelColumns(column.feature, table)

    def exact(self, person: Mapping[str, Value]) -> np.ndarray:
        """A person's network input as Fractions: what the raw values say, before `encode` rounds."""
        free = [code for name in self.domain.free_names for code in self.columns[name].exact(person[name])]
        return np.array([*free, *self.sensitive.exact([person[name] for name in self.domain.sensitive])], dtype=object)

    def codes_of(self, values: Sequence[Sequence[Value]]) -> np.ndarray:
        """What the network sees for some sensitive values: float32 [values, sensitive width]."""
        columns = pd.DataFrame([list(value) for value in values], columns=list(self.domain.sensitive), dtype=object)
        blocks = [self._encode_sensitive(name, columns[name].infer_objects())[0] for name in self.domain.sensitive]
        return np.concatenate([np.zeros((len(values), 0), np.float32), *blocks], axis=1)

    @property
    def width(self) -> int:
        return self.free_width + self.sensitive_width

    def free_columns(self) -> dict[str, slice]:
        """Which columns of u belong to which feature."""
        ends = itertools.accumulate((column.width for column in self.free_vector.values()), initial=0)
        return {name: slice(*pair) for name, pair in zip(self.free_vector, itertools.pairwise(ends), strict=True)}

    def column_names(self) -> list[str]:
        names = []
        for name, column in self.columns.items():
            levels = column.feature.levels()
            if isinstance(column, GapColumns):
                names += [name, f"{name} is missing"]
                continue
            told = ["missing" if level is None else level for level in levels[: column.width]]
            names += [name] if column.width == 1 else [f"{name}={level}" for level in told]
        return names

    # --- raw → numbers ---

    def encode(self, table: pd.DataFrame, *, sensitive: bool = True) -> Encoded:
        """Encode a table. Without its sensitive columns (all of them absent) the free part alone is encoded."""
        absent, free = self._absent(table), self.encode_free(table)
        if absent or not sensitive:
            return Encoded(free, None, None)
        found = [self._encode_sensitive(name, table[name]) for name in self.domain.sensitive]
        codes, levels = np.zeros((len(table), 0), np.float32), np.zeros((len(table), 0), np.int64)
        codes = np.concatenate([codes, *(block for block, _ in found)], axis=1)
        return Encoded(free, codes, np.concatenate([levels, *(level[:, None] for _, level in found)], axis=1))

    def encode_free(self, table: pd.DataFrame, zeros: int = 0) -> np.ndarray:
        """The free part, and so many columns of zeros behind it: float32 [rows, free width + zeros]."""
        self._absent(table)
        kept = self._kept.get(id(table))
        if kept is not None and not zeros:
            return kept
        free = aligned_zeros((len(table), self.free_width + zeros), np.float32)
        if kept is None:
            self._fill_in(table, free)
            return self.averaged(free)
        free[:, : self.free_width] = kept
        return free

    @contextlib.contextmanager
    def keeping(self, table: pd.DataFrame) -> Iterator[None]:
        """Encode the free part of this table once for the whole block, in which nobody may change the table."""
        if id(table) in self._kept:
            yield
            return
        self._kept[id(table)] = self.encode_free(table)
        try:
            yield
        finally:
            del self._kept[id(table)]

    def _absent(self, table: pd.DataFrame) -> list[str]:
        """The sensitive columns that the table lacks: none or all of them."""
        absent = [name for name in self.domain.sensitive if name not in table.columns]
        if absent and len(absent) < len(self.domain.sensitive):
            raise InputError(
                f"sensitive column {shown(absent)} is missing but "
                f"{shown(name for name in self.domain.sensitive if name not in absent)} is there; "
                "give all sensitive columns or none."
            )
        return absent

    def free_vectors(self, table: pd.DataFrame) -> np.ndarray:
        """The free vectors u of the rows in float64: what `encode` gives before it averages and rounds."""
        free = np.zeros((len(table), self.free_width))
        self._fill_in(table, free)
        return free

    def _fill_in(self, table: pd.DataFrame, free: np.ndarray) -> None:
        columns = self.free_columns()
        for feature in self.domain.free_features:
            self._encode_free(feature, _column(feature, table), free[:, columns[feature.name]])

    def feature_columns(self, name: str, values: pd.Series) -> np.ndarray:
        """What `encode` makes of one free feature: float32 [rows, its columns]."""
        feature = self.domain.feature(name)
        out = np.zeros((len(values), self.free_vector[name].width), np.float32)
        self._encode_free(feature, values, out)
        if name in self.merged:
            average(out, feature.kind, self.merged[name])
        return out

    def sensitive_index(self, encoded: Encoded) -> np.ndarray:
        """Each row's position in S (needed only where the true value matters: γ ≠ 0)."""
        if encoded.sensitive_levels is None:
            raise InputError(f"the sensitive columns {shown(self.domain.sensitive)} are needed here but absent.")
        return self.domain.sensitive_space.index_of(encoded.sensitive_levels)

    def _encode_free(self, feature: Feature, values: pd.Series, out: np.ndarray) -> None:
        values, column = self.policies.filled(feature, values, self.fill), self.free_vector[feature.name]
        if isinstance(column, GapColumns):
            gap = values.isna().to_numpy()
            numbers = np.full(len(values), np.nan)
            numbers[~gap] = self.policies.inside(column.feature, values[~gap])
            out[:] = column.encode(numbers)
        elif isinstance(column, NumberColumn):
            out[:, 0] = column.encode(self.policies.inside(column.feature, values))  # in float64, rounded into place
        else:
            position = self.policies.positions(feature, values)
            seen = np.flatnonzero(position >= 0)
            if column.width == 1:
                out[seen, 0] = column.table[position[seen], 0]
            else:
                out[seen, position[seen]] = 1.0

    def _encode_sensitive(self, name: str, values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        """The codes, and the position of the nearest level."""
        column = self.columns[name]
        feature, values = column.feature, self.policies.filled(column.feature, values, self.fill)
        assert not isinstance(column, GapColumns)
        if not isinstance(column, NumberColumn):
            position = self.policies.positions(feature, values, sensitive=True)
            return column.table[position], position
        numbers = self.policies.inside(column.feature, values)
        step = (column.feature.high - column.feature.low) / (len(feature.levels()) - 1)
        nearest = np.clip(np.round((numbers - column.feature.low) / step), 0, len(feature.levels()) - 1)
        return column.encode(numbers).astype(np.float32)[:, None], nearest.astype(np.int64)

    # --- numbers → raw ---

    def decode(self, free: np.ndarray, sensitive: np.ndarray | None = None) -> pd.DataFrame:
        """The people behind free vectors u (one-hot, not merged): the inverse of `encode`, up to what it merges.

        `sensitive` holds positions in S.
        """
        columns = self.free_columns()
        table: dict[str, Any] = {}
        for feature in self.domain.free_features:
            block = np.asarray(free, dtype=np.float64)[:, columns[feature.name]]
            column = self.free_vector[feature.name]
            if isinstance(column, GapColumns):
                table[feature.name] = column.decode(block)
            elif isinstance(column, NumberColumn):
                table[feature.name] = column.decode(block[:, 0])
            elif feature.kind == "boolean":
                table[feature.name] = block[:, 0] > 0.5
            else:
                levels = np.array(feature.levels(), dtype=object)
                table[feature.name] = levels[np.argmax(block, axis=1)]
        if sensitive is not None:
            values = self.domain.sensitive_space.values
            for j, name in enumerate(self.domain.sensitive):
                table[name] = [values[int(i)][j] for i in sensitive]
        order = [name for name in self.domain.names if name in table]
        return pd.DataFrame(table, columns=order).infer_objects()

    # --- as JSON ---

    def to_json(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "scales": {name: scale.model_dump(exclude_none=True) for name, scale in self.scales.items()},
            "fill": dict(self.fill),
            "policies": self.policies.model_dump(),
            "raw": self.raw,
        }
        merged = {name: [list(group) for group in groups] for name, groups in self.merged.items()}
        return facts | ({"merged": merged} if merged else {})

    @staticmethod
    def from_json(domain: Domain, data: Any, *, origin: str = "encoding") -> Encoding:
        try:
            scales = {str(name): Scale.model_validate(scale) for name, scale in data["scales"].items()}
            policies = Policies.model_validate(data["policies"])
            merged = {
                str(name): read_groups(domain, str(name), groups) for name, groups in data.get("merged", {}).items()
            }
            encoding = Encoding(domain, scales, dict(data["fill"]), policies, data["raw"] is True, merged)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"{origin}: not an encoding of this domain ({reason}); was the file edited or cut?"
            ) from error
        numeric = {feature.name for feature in domain.features if isinstance(feature, NUMERIC)}
        if set(scales) != numeric:
            raise InputError(
                f"{origin}: scales are given for {shown(scales)}, the domain's numbers are {shown(numeric)}."
            )
        return encoding


def aligned_zeros(shape: tuple[int, ...], dtype: type[np.generic]) -> np.ndarray:
    """Zeros that begin at a multiple of 64 bytes, which is where JAX reads an array in place instead of copying it.

    >>> aligned_zeros((3, 2), np.float32).ctypes.data % 64
    0
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _column(feature: Feature, table: pd.DataFrame) -> pd.Series:
    if feature.name not in table.columns:
        raise InputError(unknown_column(feature.name, list(table.columns)))
    return table[feature.name]


def _most_frequent(feature: Feature, present: pd.Series) -> Value:
    """Of several the first in the domain; values of different kinds, as 1 and 'one', need no order of their own."""
    counts = present.value_counts()
    often = [plain_value(value) for value, count in counts.items() if count == counts.max()]
    places = {level: place for place, level in enumerate(feature.levels())}
    return min(often, key=lambda value: places.get(value, len(places)))
