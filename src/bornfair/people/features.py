"""The records of domain.json: features, rules for twins, the label and the population. `Domain` adds what follows."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from bornfair.core.errors import InputError, shown

Value = bool | int | float | str
"""A raw value as it stands in a table."""
Level = Value | None
"""A raw value, or None where it is missing."""

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
    missing: bool = False
    """Whether some people have no value: a gap is then one more value, of which nothing but that is known."""

    @model_validator(mode="after")
    def _range_is_usable(self) -> _Number:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError(f"feature '{self.name}': low and high must be finite, found {self.low} and {self.high}")
        if self.low > self.high:
            raise ValueError(f"feature '{self.name}': low {self.low} is above high {self.high}; swap them")
        return self

    @property
    def total(self) -> Any:
        """x and total − x are each other's mirror image."""
        return self.low + self.high


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
    """Exactly one of the listed categories, or none of them where it may be missing: that is one more category."""

    kind: Literal["categorical"] = "categorical"
    name: str
    categories: tuple[Value, ...]
    missing: bool = False

    _lists_are_tuples = field_validator("categories", mode="before")(_as_tuple)

    @model_validator(mode="after")
    def _categories_are_distinct(self) -> CategoricalFeature:
        if not self.categories:
            raise ValueError(f"feature '{self.name}': needs at least one category")
        if len(set(self.categories)) != len(self.categories):
            twice = sorted({str(c) for c in self.categories if self.categories.count(c) > 1})
            raise ValueError(f"feature '{self.name}': category listed twice: {shown(twice)}")
        return self

    def levels(self) -> tuple[Any, ...]:
        """The categories, then None where the feature may be missing."""
        return (*self.categories, None) if self.missing else self.categories


class BooleanFeature(_Record):
    """False or true. Where it may be missing there are three values: a category of false and true."""

    kind: Literal["boolean"] = "boolean"
    name: str

    @model_validator(mode="before")
    @classmethod
    def _is_never_missing(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("missing") is True:
            raise ValueError(
                f"feature '{data.get('name')}' is true or false and may be missing, which are three values; write kind "
                "'categorical', categories [false, true] and missing true"
            )
        return data

    @property
    def missing(self) -> bool:
        return False

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


class Population(_Record):
    """The facts of a domain file, and how to look them up."""

    format: Literal["bornfair-domain/1"] = FORMAT
    features: tuple[Feature, ...]
    sensitive: tuple[str, ...] = ()
    combinations: tuple[tuple[Level, ...], ...] | None = None
    """The sensitive combinations that exist, in the order of `sensitive`; None means all of them."""
    twins: tuple[Rule, ...] = ()
    """Rules for twins beyond the change of a sensitive value; see `bornfair.people.rules`."""
    label: Label | None = None

    _lists_are_tuples = field_validator("features", "sensitive", "combinations", "twins", mode="before")(_as_tuple)

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

    def number(self, name: str) -> NumericFeature:
        """A feature that is known to be a number."""
        feature = self.feature(name)
        assert isinstance(feature, NUMERIC)
        return feature

    @property
    def gappy(self) -> tuple[str, ...]:
        """The features that are missing for some people."""
        return tuple(feature.name for feature in self.features if feature.missing)

    @property
    def gappy_numbers(self) -> tuple[str, ...]:
        """The free numbers among them: each is shown to a network as two columns."""
        return tuple(f.name for f in self.free_features if f.missing and isinstance(f, NUMERIC))

    def require_sensitive(self) -> None:
        if not self.sensitive:
            raise InputError("no feature is sensitive, so nobody has a twin; name sensitive features.")

    @property
    def real_sensitive(self) -> tuple[str, ...]:
        """The sensitive features of which every real value counts."""
        return tuple(name for name in self.sensitive if self.feature(name).kind == "real")


def known_levels(feature: Feature) -> Sequence[Any]:
    """The levels of a feature without the gap, if it may be missing.

    >>> known_levels(CategoricalFeature(name="job", categories=("smith", "nurse"), missing=True))
    ('smith', 'nurse')
    """
    return feature.categories if isinstance(feature, CategoricalFeature) else feature.levels()


def listed_names(names: str | int | Sequence[str | int] | None) -> tuple[Any, ...]:
    """Features as they were named: one, several, or none. A single name is no list of letters.

    >>> listed_names("race"), listed_names(["race", 2]), listed_names(None)
    (('race',), ('race', 2), ())
    """
    if names is None:
        return ()
    return (names,) if isinstance(names, (str, int)) else tuple(names)


def unknown_column(name: object, known: Sequence[str], role: str = "column") -> str:
    """One sentence for a name that is not there, with the nearest one that is."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{role} '{name}' is not in the table; {hint}the columns are {shown(known, most=30)}."


def unknown_value(feature: Feature, value: object) -> str:
    """One sentence for a value that a feature does not have, with the nearest one that it has."""
    known = known_levels(feature)
    close = difflib.get_close_matches(str(value), [str(level) for level in known], n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"twins: '{feature.name}' has no value {value!r}; {hint}it has {shown(known, most=20)}"
