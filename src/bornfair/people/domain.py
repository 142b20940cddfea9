"""Who exists, what is sensitive, and what is decided about them.

A domain lists every individual who could exist: one range or list of categories per feature. Claims such as
"verified" are about all of them, not about the rows of a table. It is a JSON file a person can read and edit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import ValidationError, model_validator

from bornfair.core import limits
from bornfair.core.errors import InputError, plain, shown
from bornfair.core.files import read_regular, write_atomically
from bornfair.people.dummies import with_sensitive
from bornfair.people.features import (
    MOST_LEVELS,
    NUMERIC,
    BooleanFeature,
    Feature,
    IntegerFeature,
    Level,
    Population,
    RealFeature,
    known_levels,
    listed_names,
    unknown_column,
)
from bornfair.people.inference import ForcedKind, gap_share, inferred
from bornfair.people.rules import TwinGroup, check_rules, parse_rules, rule_text
from bornfair.people.sensitive import SensitiveSpace


class Domain(Population):
    """All individuals who could exist.

    >>> from bornfair.people.features import CategoricalFeature, IntegerFeature
    >>> people = Domain(
    ...     features=(IntegerFeature(name="age", low=18, high=99),
    ...               CategoricalFeature(name="sex", categories=("F", "M"))),
    ...     sensitive=("sex",))
    >>> people.free_names
    ('age',)
    >>> people.sensitive_space.size
    2
    """

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
            check_rules(self)
        return self

    def _check_combinations(self, combinations: tuple[tuple[Level, ...], ...]) -> None:
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

    # --- what follows ---

    @property
    def outputs(self) -> int:
        """How many outputs a network for this label has: one logit for two classes, else one for each class."""
        return 1 if self.label is None or len(self.label.classes) == 2 else len(self.label.classes)

    @property
    def classes(self) -> np.ndarray:
        """The names of the classes, in order."""
        if self.label is None:
            raise InputError("this domain has no label, so the model's classes have no names.")
        return np.array(self.label.classes)

    @cached_property
    def sensitive_space(self) -> SensitiveSpace:
        return SensitiveSpace.of(self)

    @cached_property
    def twin_group(self) -> TwinGroup:
        """What the declared rules do to the free features, all their combinations included."""
        return TwinGroup.of(self)

    # --- making and changing one ---

    @staticmethod
    def infer(
        table: Any,
        *,
        target: str | None = None,
        sensitive: str | Sequence[str] = (),
        combinations: Literal["all", "observed"] | None = "all",
        kinds: Mapping[str, ForcedKind] | None = None,
        gaps: bool = True,
    ) -> Domain:
        """The smallest domain that holds every row of a pandas or polars table. See `bornfair.people.inference`.

        combinations: which sensitive combinations exist: 'all', those 'observed' in the table, or None for all, but of
            0/1 columns that are one feature the observed ones (`bornfair.people.dummies`). Except for 'all', naming one
            such column names all of them.
        gaps: whether a column with gaps is declared to be missing for some people; otherwise gaps are passed over.
        """
        sensitive = listed_names(sensitive)
        facts, frame = inferred(table, target=target, sensitive=sensitive, kinds=kinds, gaps=gaps)
        domain = _validated(facts, "table")
        return with_sensitive(domain, sensitive, frame, combinations) if sensitive else domain

    def edit(self, name: str, **changes: Any) -> Domain:
        """A copy with one feature changed.

        >>> from bornfair.people.features import IntegerFeature
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

    def with_sensitive(
        self, sensitive: str | Sequence[str], combinations: Sequence[Sequence[Level]] | None = None
    ) -> Domain:
        rows = None if combinations is None else [list(row) for row in combinations]
        return self.replaced(sensitive=list(listed_names(sensitive)), combinations=rows)

    def with_twins(self, twins: str | Sequence[str]) -> Domain:
        """A copy with rules for twins, as "sex: Male<->Female, relationship: Husband<->Wife"."""
        bare = self.replaced(twins=())
        rules = [[move.model_dump() for move in rule] for rule in parse_rules(twins, bare)]
        try:
            return bare.replaced(twins=rules)
        except InputError as error:
            raise InputError(f"{str(error).removeprefix('domain: the whole: ').rstrip('.')}.") from None

    def twin_texts(self) -> tuple[str, ...]:
        """The rules for twins as a person would write them."""
        return tuple(rule_text(rule) for rule in self.twins)

    def sample(self, count: int, *, seed: int) -> pd.DataFrame:
        """People drawn uniformly from the domain, sensitive values included."""
        generator = np.random.default_rng(seed)
        columns: dict[str, Any] = {}
        for feature in self.features:
            if isinstance(feature, RealFeature):
                columns[feature.name] = generator.uniform(feature.low, feature.high, count)
            elif isinstance(feature, IntegerFeature):
                columns[feature.name] = generator.integers(feature.low, feature.high, count, endpoint=True)
            else:
                levels = np.array(feature.levels(), dtype=object)
                columns[feature.name] = levels[generator.integers(len(levels), size=count)]
            if feature.missing and isinstance(feature, NUMERIC):
                gap = generator.random(count) < gap_share(feature)
                columns[feature.name] = np.where(gap, np.nan, columns[feature.name])
        if self.combinations is not None:
            rows = np.array(self.combinations, dtype=object)[generator.integers(len(self.combinations), size=count)]
            columns |= {name: rows[:, j] for j, name in enumerate(self.sensitive)}
        return pd.DataFrame(columns, columns=list(self.names)).infer_objects()

    def outside(self, table: pd.DataFrame) -> np.ndarray:
        """Which rows of a table are not individuals of this domain (a boolean array)."""
        outside = np.zeros(len(table), dtype=bool)
        for feature in self.features:
            if feature.name not in table.columns:
                continue
            column = table[feature.name]
            if isinstance(feature, (RealFeature, IntegerFeature)):
                numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
                beyond = ~((numbers >= feature.low) & (numbers <= feature.high))
                if isinstance(feature, IntegerFeature):
                    beyond |= numbers != np.round(numbers)
            else:
                beyond = ~column.isin(list(known_levels(feature))).to_numpy()
            outside |= beyond & ~column.isna().to_numpy() if feature.missing else beyond
        if self.combinations is not None and all(name in table.columns for name in self.sensitive):
            known = set(self.combinations)
            rows = table[list(self.sensitive)].to_numpy(object)
            told = (tuple(None if pd.isna(v) else plain(v) for v in row) for row in rows)
            outside |= np.array([row not in known for row in told], dtype=bool)
        return outside

    # --- as a file ---

    def save(self, path: str | Path) -> Path:
        return write_atomically(path, self.text())

    def text(self) -> str:
        """The domain as the content of a file; a certificate speaks of just these bytes."""
        facts = self.model_dump(mode="json")
        if not facts["twins"]:  # nothing was declared: the file reads as it did before there were rules
            del facts["twins"]
        for feature in facts["features"]:  # and as before gaps could be declared
            if not feature.get("missing"):
                feature.pop("missing", None)
        return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"

    @staticmethod
    def load(path: str | Path) -> Domain:
        try:
            text = read_regular(path, limits.DOMAIN_BYTES).decode()
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
    if feature.missing and isinstance(feature, NUMERIC):
        raise ValueError(
            f"sensitive feature '{feature.name}' is a number that is missing for some people, which has no place among "
            "the codes of numbers; make it a category (bands), fill its gaps, or train with missing='impute' "
            "(--missing impute)"
        )
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
