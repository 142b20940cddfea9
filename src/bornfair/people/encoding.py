"""How a row becomes numbers, exactly and invertibly.

The network's input is x = [u, c]: the free part u (what twins share), then the codes c of the sensitive values.
Numbers become (v − centre)·2^-exponent with a power of two near the standard deviation: standardised, and without
rounding for whole numbers, so that claims about encoded people are claims about people. Where a tail lies far out, v is
held between two ends first; a column of one value is held there, which leaves it out. Categories become one-hot. What
may be missing is one more category, or of a number one more column, 1 where the number is not there and its median is
shown instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from bornfair.errors import InputError, plain, plain_value, shown
from bornfair.people.columns import Column, GapColumns, LevelColumns, NumberColumn, Step, one_hot
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, NumericFeature, Value, unknown_column
from bornfair.people.levels import level_positions
from bornfair.people.merging import Groups, average, covers, read_groups
from bornfair.people.oddities import NEARLY_CONSTANT, one_value, sentinels
from bornfair.people.sensitive import CodedFeature, Span

MissingPolicy = Literal["error", "impute"]
GapsInTraining = Literal["learn", "impute", "error"]
"""What a training table's gaps are: a value of their own, filled in, or refused."""
UnseenPolicy = Literal["error", "ignore"]
OutsidePolicy = Literal["allow", "clip", "error"]
MOST_STEPS = 2**50  # of a whole number from its centre
TAIL = 0.01  # of the rows, at most, are held at an end, sentinels aside;
FAR_OUT = 3.0  # and only those that are further than so many interquartile ranges from the quartile (Tukey: far out)


class Policies(BaseModel):
    """What to do with rows that do not fit. These defaults never guess; trained models ignore what is unseen.

    missing: a gap in a feature that is never missing in the domain: 'error', or 'impute' the training table's median
             (numbers) or most frequent value.
    unseen:  a category that is not in the domain: 'error', or 'ignore' (none of the categories is on; a structural
             proof covers it too). Of sensitive features, and of what is neither true nor false, always an error.
    outside: a number outside its range: 'allow' it (a structural proof covers it too), 'clip' it, or 'error'.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    missing: MissingPolicy = "error"
    unseen: UnseenPolicy = "error"
    outside: OutsidePolicy = "allow"


class Scale(BaseModel):
    """x = (v − centre) · 2^-exponent, of v held between low and high where these are given."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    centre: float
    exponent: int
    low: float | None = None
    high: float | None = None

    @property
    def holding(self) -> tuple[Step, ...]:
        """The steps that hold a number between the ends."""
        ends = (("Min", self.high), ("Max", self.low))
        return tuple((name, end) for name, end in ends if end is not None)


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

    def __post_init__(self) -> None:
        for name, scale in self.scales.items():
            feature = self.domain.feature(name)
            if isinstance(feature, NUMERIC) and scale.holding:
                self._check_ends(feature, scale)
            if feature.kind == "integer":
                column = NumberColumn(feature, scale.holding)
                _check_lattice(name, (column.held(feature.low), column.held(feature.high)), scale)
        for name in self.domain.gappy_numbers:
            self._check_fill(name)

    def _check_fill(self, name: str) -> None:
        """Refuse to show a gap as a number that nobody has: bounds are made between the ends of the range."""
        feature, fill = self.domain.feature(name), self.fill.get(name)
        assert isinstance(feature, NUMERIC)
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

    def _check_ends(self, feature: NumericFeature, scale: Scale) -> None:
        """Refuse ends where nobody is, or of a number that twins have different values of."""
        name, ends = feature.name, [end for _, end in reversed(scale.holding)]
        if name in self.domain.sensitive or name in self.domain.twin_group.orbits:
            raise InputError(
                f"'{name}' is held between ends by this encoding, which a number in which twins differ cannot be; "
                "train a model that knows of these twins."
            )
        odd = not all(map(math.isfinite, ends)) or ends != sorted(ends)
        if odd or (feature.kind == "integer" and any(end != round(end) for end in ends)):
            raise InputError(f"'{name}' is held between {shown(ends)}; ends are values that it may have, in order.")

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
            _require(feature.name, table)
            present = table[feature.name].dropna()
            if isinstance(feature, NUMERIC):
                numbers = _numbers(feature, present, present.index)
                apart = feature.name in orbits or feature.name in domain.sensitive
                scales[feature.name] = scale = (_held if hold_tails and not apart else _scale)(feature, numbers)
                if feature.name in orbits:  # mirrored around its centre: x becomes −x, and their mean is 0
                    middle = (feature.low + feature.high) / 2
                    scales[feature.name] = Scale(centre=middle, exponent=scale.exponent)
                fill[feature.name] = float(np.median(numbers)) if len(numbers) else feature.low
                if feature.missing:  # shown to the network, and not only in tables that have gaps
                    fill[feature.name] = float(np.clip(fill[feature.name], feature.low, feature.high))
            else:
                fill[feature.name] = plain_value(present.mode().iloc[0]) if len(present) else feature.levels()[0]
        return Encoding(domain, scales, fill, policies or Policies(), merged=orbits if merge_twins else {})

    def over(self, domain: Domain) -> Encoding:
        """The same map for the same features, of which others may be sensitive: one that is held has the values there
        that are seen, because beyond them nobody is decided otherwise. Nothing is merged.
        """
        scales = dict(self.scales)
        for name in (n for n in domain.sensitive if n in scales and scales[n].holding):
            feature = domain.feature(name)
            assert isinstance(feature, NUMERIC)
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
    def sensitive_width(self) -> int:
        return sum(self.columns[name].width for name in self.domain.sensitive)

    @cached_property
    def codes(self) -> np.ndarray:
        """What the network sees for each value of S, in the order of S: float32 [|S|, sensitive width]."""
        space = self.domain.sensitive_space
        return np.array(space.values, dtype=np.float32) if self.raw else space.codes

    @cached_property
    def columns(self) -> dict[str, Column]:
        """How the network sees each feature, the free ones first."""
        return {
            **{name: self._merged(column) for name, column in self.free_vector.items()},
            **{coded.feature.name: self._sensitive(coded) for coded in self.domain.sensitive_space.features},
        }

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

    def _sensitive(self, coded: CodedFeature) -> Column:
        return NumberColumn(coded.feature, ()) if self.raw and isinstance(coded.feature, NUMERIC) else coded.column

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The sensitive features of which every real value counts, as the network sees them."""
        found, start = [], 0
        for name in self.domain.sensitive:
            column = self.columns[name]
            if isinstance(column, NumberColumn) and column.feature.kind == "real":
                found.append(Span.of(column.feature, start, column.line))
            start += column.width
        return tuple(found)

    @cached_property
    def listed(self) -> tuple[tuple[Value | None, ...], ...]:
        """The sensitive values that can be listed: of `spans` None, of everything else all combinations."""
        if not self.spans:
            return self.domain.sensitive_space.values
        self.domain.sensitive_space.check_enumerable()
        real = self.domain.real_sensitive
        levels = ((None,) if f.name in real else f.levels() for f in self.domain.sensitive_features)
        return tuple(itertools.product(*levels))

    @cached_property
    def listed_codes(self) -> np.ndarray:
        """The codes of `listed` in real arithmetic, exactly (0 for None): float64 [values, sensitive width]."""
        if self.spans:
            return np.array([[float(code) for code in self.exact_code(values)] for values in self.listed])
        if self.raw:
            return np.array(self.listed, dtype=np.float64)
        # Not the codes in float32: of many listed combinations they may have more digits than it holds.
        space = self.domain.sensitive_space
        exact = [np.ldexp(coded.codes.astype(np.float64), -coded.exponent) for coded in space.features]
        blocks = [codes[space.level_indices[:, j]] for j, codes in enumerate(exact)]
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((1, 0))

    def exact(self, person: Mapping[str, Value]) -> np.ndarray:
        """A person's network input as Fractions: what the raw values say, before `encode` rounds."""
        free = [code for name in self.domain.free_names for code in self.columns[name].exact(person[name])]
        return np.array([*free, *self.exact_code([person[name] for name in self.domain.sensitive])], dtype=object)

    def exact_code(self, values: Sequence[Value | None]) -> list[Fraction]:
        """The code of a sensitive value in real arithmetic, before anything is rounded to float32; of a number that is
        None 0. Of a category None is a gap.
        """
        codes = list[Fraction]()
        for name, value in zip(self.domain.sensitive, values, strict=True):
            column = self.columns[name]
            open_ = value is None and isinstance(column, NumberColumn)
            codes += [Fraction(0)] if open_ else column.exact(value)
        return codes

    def codes_of(self, values: Sequence[Sequence[Value]]) -> np.ndarray:
        """What the network sees for some sensitive values: float32 [values, sensitive width]."""
        columns = pd.DataFrame([list(value) for value in values], columns=list(self.domain.sensitive), dtype=object)
        blocks = [self._encode_sensitive(name, columns[name].infer_objects())[0] for name in self.domain.sensitive]
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(values), 0), np.float32)

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
        absent = [name for name in self.domain.sensitive if name not in table.columns]
        if absent and len(absent) < len(self.domain.sensitive):
            raise InputError(
                f"sensitive column {shown(absent)} is missing but "
                f"{shown(name for name in self.domain.sensitive if name not in absent)} is there; "
                "give all sensitive columns or none."
            )
        free = aligned_zeros((len(table), self.free_width), np.float32)
        self._fill_in(table, free)
        self.averaged(free)
        if absent or not sensitive or not self.domain.sensitive:
            with_codes = None if (absent or not sensitive) else np.zeros((len(table), 0), np.float32)
            return Encoded(free, with_codes, None if with_codes is None else np.zeros((len(table), 0), np.int64))
        blocks, levels = [], []
        for name in self.domain.sensitive:
            codes, level = self._encode_sensitive(name, table[name])
            blocks.append(codes)
            levels.append(level)
        return Encoded(free, np.concatenate(blocks, axis=1), np.stack(levels, axis=1))

    def free_vectors(self, table: pd.DataFrame) -> np.ndarray:
        """The free vectors u of the rows in float64: what `encode` gives before it averages and rounds."""
        free = np.zeros((len(table), self.free_width))
        self._fill_in(table, free)
        return free

    def _fill_in(self, table: pd.DataFrame, free: np.ndarray) -> None:
        columns = self.free_columns()
        for feature in self.domain.free_features:
            _require(feature.name, table)
            self._encode_free(feature, table[feature.name], free[:, columns[feature.name]])

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
        values, column = self._without_missing(feature, values), self.free_vector[feature.name]
        if isinstance(column, GapColumns):
            gap = values.isna().to_numpy()
            known = _numbers(feature, values[~gap], values.index[~gap])
            numbers = np.full(len(values), np.nan)
            numbers[~gap] = self._inside(column.feature, known)
            out[:] = column.encode(numbers)
            return
        if isinstance(column, NumberColumn):
            numbers = self._inside(column.feature, _numbers(feature, values, values.index))
            out[:, 0] = column.encode(numbers)  # computed in float64, rounded into place
            return
        position = self._category(feature, values)
        seen = np.flatnonzero(position >= 0)
        if column.width == 1:
            out[seen, 0] = column.table[position[seen], 0]
        else:
            out[seen, position[seen]] = 1.0

    def _encode_sensitive(self, name: str, values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        """The codes, and the position of the nearest level."""
        column = self.columns[name]
        feature, values = column.feature, self._without_missing(column.feature, values)
        assert not isinstance(column, GapColumns)
        if not isinstance(column, NumberColumn):
            position = self._category(feature, values)
            if (position < 0).any():
                raise InputError(_unseen_message(feature, values, position))
            return column.table[position], position
        numbers = self._inside(column.feature, _numbers(feature, values, values.index))
        step = (column.feature.high - column.feature.low) / (len(feature.levels()) - 1)
        nearest = np.clip(np.round((numbers - column.feature.low) / step), 0, len(feature.levels()) - 1)
        return column.encode(numbers).astype(np.float32)[:, None], nearest.astype(np.int64)

    def _without_missing(self, feature: Feature, column: pd.Series) -> pd.Series:
        missing = column.isna().to_numpy()
        if feature.missing or not missing.any():
            return column
        if self.policies.missing == "error":
            row = column.index[int(np.argmax(missing))]
            raise InputError(
                f"column '{feature.name}' has a missing value (NaN) in row {plain(row)!r} and {int(missing.sum()) - 1} "
                "other rows; fill or drop them, because it was never missing before, or train on rows with such gaps, "
                "or with missing='impute' (--missing impute)."
            )
        filled = column.astype(object)
        filled[missing] = self.fill[feature.name]
        return filled

    def _category(self, feature: Feature, column: pd.Series) -> np.ndarray:
        position = level_positions(feature, column)
        refused = self.policies.unseen == "error" or feature.kind == "boolean"
        if refused and (position < 0).any():
            raise InputError(_unseen_message(feature, column, position))
        return position

    def _inside(self, feature: NumericFeature, numbers: np.ndarray) -> np.ndarray:
        if self.policies.outside == "allow":
            return numbers
        if self.policies.outside == "clip":
            return np.clip(numbers, feature.low, feature.high)
        bad = (numbers < feature.low) | (numbers > feature.high)
        if bad.any():
            raise InputError(
                f"column '{feature.name}' holds {numbers[int(np.argmax(bad))]:g}, outside the domain's range "
                f"[{feature.low:g}, {feature.high:g}]; widen the domain, or set outside='clip' or 'allow'."
            )
        return numbers

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
        if self.merged:
            facts["merged"] = {name: [list(group) for group in groups] for name, groups in self.merged.items()}
        return facts

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


def _require(name: str, table: pd.DataFrame) -> None:
    if name not in table.columns:
        raise InputError(unknown_column(name, list(table.columns)))


def _numbers(feature: Feature, column: pd.Series, rows: pd.Index) -> np.ndarray:
    try:
        numbers = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        numeric = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
        bad = int(np.argmax(np.isnan(numeric)))
        raise InputError(
            f"column '{feature.name}' holds {plain(column.iloc[bad])!r} in row {plain(rows[bad])!r}; "
            "a number is needed (--decimal and --numeric read numbers that are written otherwise)."
        ) from None
    fit = np.abs(numbers) <= np.finfo(np.float32).max  # what a served model can be given
    if not fit.all():
        bad = int(np.argmin(fit))
        raise InputError(
            f"column '{feature.name}' holds {numbers[bad]} in row {plain(rows[bad])!r}; numbers must be finite and at "
            "most 3.4e38 in size: correct it, or leave the row out."
        )
    return numbers


def _check_lattice(name: str, ends: tuple[int, int], scale: Scale) -> None:
    """Refuse a scale in which whole numbers v are too close together: the rounding of (v − centre)·2^-exponent, which
    bounds allow for, must stay far below the distance of two of them.
    """
    apart = math.isfinite(scale.centre) and -900 <= scale.exponent <= 900
    if not apart or any(abs(end - Fraction(scale.centre)) > MOST_STEPS for end in ends):
        raise InputError(
            f"'{name}' is a whole number from {ends[0]} to {ends[1]}, and with the centre {scale.centre!r} and the "
            f"exponent {scale.exponent} float64 cannot keep its values apart; use a centre within the range."
        )


def _scale(feature: NumericFeature, numbers: np.ndarray) -> Scale:
    if not len(numbers):
        return Scale(centre=0.0, exponent=0)
    mean, spread = float(np.mean(numbers)), float(np.std(numbers))
    centre = float(round(mean)) if feature.kind == "integer" else float(np.float32(mean))
    if feature.kind == "real" and abs(centre - mean) > spread / 4:
        centre = mean  # a short number would lie outside the values
    if not np.isfinite(centre):
        centre = 0.0
    # In floating point the spread of a constant need not be 0; divided by it, rounding would be shown as a number.
    apart = numbers.max() - numbers.min() > NEARLY_CONSTANT * np.abs(numbers).max()
    exponent = round(np.log2(spread)) if apart and spread > 0 and np.isfinite(spread) else 0
    return Scale(centre=centre, exponent=int(np.clip(exponent, -1000, 1000)))


def _held(feature: NumericFeature, numbers: np.ndarray) -> Scale:
    """The scale of what is left when tails are held where they do not lie far out; one value is held at itself."""
    inside = numbers[(numbers >= feature.low) & (numbers <= feature.high)]
    if not len(inside):
        return _scale(feature, numbers)
    if one_value(numbers):
        value = float(inside[0])
        return Scale(centre=value, exponent=0, low=value, high=value)
    low, high = tails(inside)
    if feature.kind == "integer":
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, feature.low), min(high, feature.high)
    scale = _scale(feature, np.clip(numbers, low, high))
    held = {"low": float(low)} if low > inside.min() else {}
    held |= {"high": float(high)} if high < inside.max() else {}
    return scale.model_copy(update=held)


def tails(numbers: np.ndarray) -> tuple[float, float]:
    """Between which ends numbers do not lie far out.

    At most one in a hundred lies beyond an end, or one if they are fewer, and nobody who is nearer than three
    interquartile ranges to the quartile. Sentinels do not count, and are held a little further out than all others.

    >>> tails(np.array([*range(1, 100), 10_000.0]))
    (-122.75, 223.75)
    """
    odd = sentinels(pd.Series(numbers))
    rest = np.sort(numbers[~np.isin(numbers, odd)] if odd else numbers)
    middle, varied = float(np.median(rest)), rest
    while True:  # of a column that is mostly 0, the spread is that of the others
        first, third = np.quantile(varied, (0.25, 0.75))
        if third > first:
            break
        varied = varied[varied != first]
        if not len(varied):
            return float(numbers.min()), float(numbers.max())
    reach = FAR_OUT * float(third - first)
    low = min(float(np.quantile(rest, TAIL, method="higher")), float(first) - reach)
    high = max(float(np.quantile(rest, 1 - TAIL, method="lower")), float(third) + reach)
    if odd and min(odd) < rest[0]:
        low -= (middle - low) / 2
    if odd and max(odd) > rest[-1]:
        high += (high - middle) / 2
    return low, high


def _unseen_message(feature: Feature, column: pd.Series, position: np.ndarray) -> str:
    bad = int(np.argmax(position < 0))
    return (
        f"column '{feature.name}' holds {plain(column.iloc[bad])!r} in row {plain(column.index[bad])!r}, which is not "
        f"one of {shown(feature.levels())}; correct it"
        + (
            "."
            if feature.kind == "boolean"
            else ", or add it to the domain and train again, or (for a feature that is not sensitive) set "
            "unseen='ignore'."
        )
    )
