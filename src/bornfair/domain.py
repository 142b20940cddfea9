"""Who exists, what is sensitive, and what is decided about them.

A domain lists every individual who could exist: one range or list of categories per feature. Claims such as
"verified" are about all of them, not about the rows of a table. It is a JSON file a person can read and edit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from bornfair.errors import InputError, shown
from bornfair.files import write_atomically

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from bornfair.sensitive import SensitiveSpace
    from bornfair.twins import TwinGroup
    from bornfair.versions import Versions

Value = bool | int | float | str
"""A raw value as it stands in a table."""

FORMAT: Literal["bornfair-domain/1"] = "bornfair-domain/1"
LARGEST_WHOLE = 2**53  # up to here float64 holds every whole number
MOST_LEVELS = 2**23  # of one sensitive feature: their centred codes are exact in float32
DEFAULT_GRID = 17  # levels of a real-valued sensitive feature: odd, so that the middle of the range is one of them


MOST_GRID = 100_000


def _as_tuple(value: Any) -> Any:
    """JSON knows lists only; records hold tuples, all the way down."""
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Number(_Record):
    name: str
    low: float
    high: float

    @model_validator(mode="after")
    def _range_is_usable(self) -> _Number:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError(f"feature '{self.name}': low and high must be finite, found {self.low} and {self.high}")
        if self.low > self.high:
            raise ValueError(f"feature '{self.name}': low {self.low} is above high {self.high}; swap them")
        return self


class RealFeature(_Number):
    """Any real number in [low, high]. `grid` says how many levels training and empirical measures look at; proofs are
    about every value.
    """

    kind: Literal["real"] = "real"
    grid: int = Field(default=DEFAULT_GRID, ge=2, le=MOST_GRID)

    @field_validator("low", "high", mode="before")
    @classmethod
    def _whole_numbers_are_numbers(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def levels(self) -> tuple[float, ...]:
        step = (self.high - self.low) / (self.grid - 1)
        return (*(self.low + step * i for i in range(self.grid - 1)), self.high)


class IntegerFeature(_Number):
    """Every whole number from low to high."""

    kind: Literal["integer"] = "integer"
    low: int
    high: int

    @model_validator(mode="after")
    def _is_exact(self) -> IntegerFeature:
        for end in (self.low, self.high):
            if abs(end) > LARGEST_WHOLE:
                raise ValueError(
                    f"feature '{self.name}': {end} is beyond ±2^53, where floating point skips whole numbers; count "
                    "from a nearer origin, make it a category, or call it real"
                )
        return self

    def levels(self) -> range:
        return range(self.low, self.high + 1)


class CategoricalFeature(_Record):
    """Exactly one of the listed categories."""

    kind: Literal["categorical"] = "categorical"
    name: str
    categories: tuple[Value, ...]

    _lists_are_tuples = field_validator("categories", mode="before")(_as_tuple)

    @model_validator(mode="after")
    def _categories_are_distinct(self) -> CategoricalFeature:
        if not self.categories:
            raise ValueError(f"feature '{self.name}': needs at least one category")
        if len(set(self.categories)) != len(self.categories):
            twice = sorted({str(c) for c in self.categories if self.categories.count(c) > 1})
            raise ValueError(f"feature '{self.name}': category listed twice: {shown(twice)}")
        return self

    def levels(self) -> tuple[Value, ...]:
        return self.categories


class BooleanFeature(_Record):
    """False or true."""

    kind: Literal["boolean"] = "boolean"
    name: str

    def levels(self) -> tuple[bool, bool]:
        return (False, True)


Feature = Annotated[RealFeature | IntegerFeature | CategoricalFeature | BooleanFeature, Field(discriminator="kind")]
NumericFeature = RealFeature | IntegerFeature
NUMERIC = (RealFeature, IntegerFeature)


class Cycles(_Record):
    """Part of a rule: values of one feature change places, each cycle's into the next and its last into the first."""

    kind: Literal["cycles"] = "cycles"
    feature: str
    cycles: tuple[tuple[Value, ...], ...]

    _lists_are_tuples = field_validator("cycles", mode="before")(_as_tuple)


class Mirror(_Record):
    """Part of a rule: a number x becomes total − x."""

    kind: Literal["mirror"] = "mirror"
    feature: str
    total: int | float


NOT_CARRIED = (
    "numbers carried along by a sensitive value are not supported; declare a swap of categories, mirror the number "
    "(-x+total), or make bands of it a category"
)


def _not_carried(move: Any) -> Any:
    if isinstance(move, dict) and move.get("kind") == "carried":
        raise ValueError(NOT_CARRIED)
    return move


Move = Annotated[Cycles | Mirror, Field(discriminator="kind"), BeforeValidator(_not_carried)]
Rule = tuple[Move, ...]
"""Who else counts as a twin: all of these moves made together."""


class Label(_Record):
    """What is decided: the column and its classes; with two classes the last one is the positive one."""

    name: str
    classes: tuple[Value, ...]

    _lists_are_tuples = field_validator("classes", mode="before")(_as_tuple)

    @model_validator(mode="after")
    def _classes_differ(self) -> Label:
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise ValueError(f"label '{self.name}': needs two or more distinct classes, found {shown(self.classes)}")
        return self


class Domain(_Record):
    """All individuals who could exist.

    >>> people = Domain(
    ...     features=(IntegerFeature(name="age", low=18, high=99),
    ...               CategoricalFeature(name="sex", categories=("F", "M"))),
    ...     sensitive=("sex",))
    >>> people.free_names
    ('age',)
    >>> people.sensitive_space.size
    2
    """

    format: Literal["bornfair-domain/1"] = FORMAT
    features: tuple[Feature, ...]
    sensitive: tuple[str, ...] = ()
    combinations: tuple[tuple[Value, ...], ...] | None = None
    """The sensitive combinations that exist, in the order of `sensitive`; None means all of them."""
    twins: tuple[Rule, ...] = ()
    """Rules for twins beyond the change of a sensitive value; see `bornfair.twins`."""
    label: Label | None = None

    _lists_are_tuples = field_validator("features", "sensitive", "combinations", "twins", mode="before")(_as_tuple)

    @model_validator(mode="after")
    def _is_consistent(self) -> Domain:
        names = self.names
        if len(set(names)) != len(names):
            raise ValueError(f"feature named twice: {shown(sorted({n for n in names if names.count(n) > 1}))}")
        if len(set(self.sensitive)) != len(self.sensitive):
            raise ValueError(f"sensitive feature named twice in {list(self.sensitive)}")
        for name in self.sensitive:
            if name not in names:
                raise ValueError(unknown_column(name, names, "sensitive feature"))
            _check_sensitive(self.feature(name))
        if self.label is not None and self.label.name in names:
            raise ValueError(f"'{self.label.name}' is both the label and a feature; remove one")
        if self.combinations is not None:
            self._check_combinations(self.combinations)
        if self.twins:
            from bornfair.twins import check_rules

            check_rules(self)
        return self

    @property
    def real_sensitive(self) -> tuple[str, ...]:
        """The sensitive features of which every real value counts."""
        return tuple(name for name in self.sensitive if self.feature(name).kind == "real")

    def _check_combinations(self, combinations: tuple[tuple[Value, ...], ...]) -> None:
        if not self.sensitive:
            raise ValueError("combinations are given but no feature is sensitive")
        if len(combinations) < 2 or len(set(combinations)) != len(combinations):
            raise ValueError(f"combinations must be two or more distinct rows, found {len(combinations)}")
        if self.real_sensitive:
            raise ValueError(
                f"combinations are given, but {shown(self.real_sensitive)} is a real number, of which every value "
                "counts; leave them out, or make it a whole number or a category"
            )
        for row in combinations:
            if len(row) != len(self.sensitive):
                raise ValueError(f"combination {list(row)} must have one value for each of {list(self.sensitive)}")
            for name, value in zip(self.sensitive, row, strict=True):
                if value not in self.feature(name).levels():
                    raise ValueError(f"combination {list(row)}: {value!r} is not a value of '{name}'")

    def __eq__(self, other: object) -> bool:
        """The same people; what either has worked out about itself (and cached) does not count."""
        return isinstance(other, Domain) and self.model_dump() == other.model_dump()

    # --- looking things up ---

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def free_names(self) -> tuple[str, ...]:
        """The features twins share."""
        return tuple(name for name in self.names if name not in self.sensitive)

    @property
    def free_features(self) -> tuple[Feature, ...]:
        return tuple(feature for feature in self.features if feature.name not in self.sensitive)

    @property
    def sensitive_features(self) -> tuple[Feature, ...]:
        return tuple(self.feature(name) for name in self.sensitive)

    def feature(self, name: str) -> Feature:
        for feature in self.features:
            if feature.name == name:
                return feature
        raise InputError(unknown_column(name, self.names, "feature"))

    @property
    def outputs(self) -> int:
        """How many outputs a network for this label has: one logit for two classes, else one for each class."""
        return 1 if self.label is None or len(self.label.classes) == 2 else len(self.label.classes)

    @cached_property
    def sensitive_space(self) -> SensitiveSpace:
        from bornfair.sensitive import SensitiveSpace

        return SensitiveSpace.of(self)

    @cached_property
    def twin_group(self) -> TwinGroup:
        """What the declared rules do to the free features, all their combinations included."""
        from bornfair.twins import TwinGroup

        return TwinGroup.of(self)

    @cached_property
    def versions(self) -> Versions:
        """Every version of a person: all sensitive values, times all that the declared rules relate."""
        from bornfair.versions import Versions

        return Versions(self)

    # --- making and changing one ---

    @staticmethod
    def infer(
        table: Any,
        *,
        target: str | None = None,
        sensitive: Sequence[str] = (),
        combinations: Literal["all", "observed"] = "all",
    ) -> Domain:
        """The smallest domain that holds every row of a pandas or polars table. See `bornfair.inference`."""
        from bornfair.inference import infer_domain

        return infer_domain(table, target=target, sensitive=tuple(sensitive), combinations=combinations)

    def edit(self, name: str, **changes: Any) -> Domain:
        """A copy with one feature changed.

        >>> people = Domain(features=(IntegerFeature(name="age", low=19, high=75),))
        >>> people.edit("age", low=18, high=100).feature("age").levels()
        range(18, 101)
        """
        changed = self.feature(name).model_dump() | changes
        features = [changed if f.name == name else f.model_dump() for f in self.features]
        return self.replaced(features=features)

    def replaced(self, **changes: Any) -> Domain:
        """A copy with some parts replaced, checked anew.

        Not `model_copy`, which neither checks nor forgets: the copy would keep the old one's sensitive space.
        """
        return _validated(self.model_dump() | changes)

    def with_sensitive(self, sensitive: Sequence[str], combinations: Sequence[Sequence[Value]] | None = None) -> Domain:
        rows = None if combinations is None else [list(row) for row in combinations]
        return self.replaced(sensitive=list(sensitive), combinations=rows)

    def with_twins(self, twins: str | Sequence[str]) -> Domain:
        """A copy with rules for twins, as "sex: Male<->Female, relationship: Husband<->Wife"; see `bornfair.twins`."""
        from bornfair.twins import parse_rules

        bare = self.replaced(twins=())
        rules = [[move.model_dump() for move in rule] for rule in parse_rules(twins, bare)]
        try:
            return bare.replaced(twins=rules)
        except InputError as error:
            raise InputError(f"{str(error).removeprefix('domain: the whole: ').rstrip('.')}.") from None

    def twin_texts(self) -> tuple[str, ...]:
        """The rules for twins as a person would write them."""
        from bornfair.twins import rule_text

        return tuple(rule_text(rule) for rule in self.twins)

    def sample(self, count: int, *, seed: int) -> pd.DataFrame:
        """People drawn uniformly from the domain, sensitive values included."""
        from bornfair.inference import sample_people

        return sample_people(self, count, seed=seed)

    def outside(self, table: pd.DataFrame) -> np.ndarray:
        """Which rows of a table are not individuals of this domain (a boolean array)."""
        from bornfair.inference import rows_outside

        return rows_outside(self, table)

    # --- as a file ---

    def save(self, path: str | Path) -> Path:
        return write_atomically(path, self.text())

    def text(self) -> str:
        """The domain as the content of a file; a certificate speaks of just these bytes."""
        facts = self.model_dump(mode="json")
        if not facts["twins"]:  # nothing was declared: the file reads as it did before there were rules
            del facts["twins"]
        return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"

    @staticmethod
    def load(path: str | Path) -> Domain:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the domain file '{path}': {error}") from error
        return Domain.from_json(text, origin=str(path))

    @staticmethod
    def from_json(text: str, *, origin: str = "domain") -> Domain:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
            raise InputError(f"'{origin}' is not JSON ({error}); is it truncated?") from error
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:  # half of a character, which JSON may hold and UTF-8 may not
            raise InputError(f"{origin}: a name or a value is not valid text ({error}); correct it.") from error
        if not isinstance(data, dict):
            raise InputError(f"'{origin}' must hold one JSON object with 'features', found {type(data).__name__}.")
        return _validated(data, origin)

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """The JSON Schema of domain files, for other programs."""
        return Domain.model_json_schema()


def _check_sensitive(feature: Feature) -> None:
    """Refuse a sensitive feature that gives nobody a twin, or more values than there are codes."""
    if isinstance(feature, RealFeature):
        step = (feature.high - feature.low) / (feature.grid - 1)
        if feature.low < feature.high and not (0 < step < math.inf):
            raise ValueError(
                f"sensitive feature '{feature.name}': from {feature.low} to {feature.high} is too narrow or too wide "
                "for floating point; change its unit"
            )
        single = feature.low == feature.high
    else:
        single = len(feature.levels()) < 2
    if single:
        raise ValueError(
            f"sensitive feature '{feature.name}' has the single value {shown(feature.levels()[:1])}: twins "
            "need at least two; list the values that exist in the domain, or do not call it sensitive"
        )
    if not isinstance(feature, BooleanFeature) and len(feature.levels()) > MOST_LEVELS:
        raise ValueError(
            f"sensitive feature '{feature.name}' has {len(feature.levels()):,} values, more than the {MOST_LEVELS:,} "
            "that can be told apart in float32; use bands, or call it real"
        )


def _validated(data: dict[str, Any], origin: str = "domain") -> Domain:
    try:
        return Domain.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise InputError(f"{origin}: {where}: {first['msg'].removeprefix('Value error, ')}") from error
    except (OverflowError, RecursionError) as error:
        raise InputError(f"{origin}: a number is too large, or lists are too deep ({error}).") from error


def unknown_column(name: object, known: Sequence[str], role: str = "column") -> str:
    """One sentence for a name that is not there, with the nearest one that is."""
    import difflib

    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{role} '{name}' is not in the table; {hint}the columns are {shown(known, most=30)}."
