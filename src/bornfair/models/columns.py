"""Columns of a table matched to the inputs of a foreign model, and the domain of the people it decides about.

A model with one input for each column is matched by name, one that takes a row of numbers by position. Who exists is
said by a domain, or read off a table; only categories may come from the model itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.models.deciding import feeding
from bornfair.people.domain import Domain
from bornfair.people.dummies import Combinations, with_sensitive
from bornfair.people.features import (
    BooleanFeature,
    CategoricalFeature,
    Feature,
    IntegerFeature,
    Label,
    Value,
)
from bornfair.people.inference import infer_label, listed, with_gaps
from bornfair.people.levels import answered
from bornfair.people.tables import as_pandas

MOST_LEVELS = 1_000  # of a whole number whose values are listed because the model looks them up


@dataclass(frozen=True)
class Wanted:
    """What a model takes: named columns, or so many numbers; and the categories it knows."""

    origin: str  # what messages call the model
    names: tuple[str, ...] | None
    count: int | None = None  # None if the model does not say
    categories: Mapping[Any, tuple[Value, ...]] = field(default_factory=dict)
    """By the input's name; by its position where columns are taken by position."""
    numbers: bool = True  # whether columns taken by position must be numbers
    gaps: bool = False  # whether it decides about people of whom something is missing, each gap as it is


@dataclass(frozen=True)
class Columns:
    """Who exists, and the features a model reads, in the model's order."""

    domain: Domain
    names: tuple[str, ...]

    @property
    def features(self) -> tuple[Feature, ...]:
        return tuple(self.domain.feature(name) for name in self.names)


@dataclass(frozen=True)
class Who:
    """Who is asked about: a domain or a table to read it off, the sensitive features and which combinations of their
    values exist, the rules for twins.
    """

    domain: Domain | None = None
    sensitive: Sequence[str | int] | None = None
    table: Any = None
    target: str | None = None
    twins: str | Sequence[str] | None = None
    combinations: Combinations | None = None
    as_trained: bool = False  # whether a model of bornfair keeps the sensitive features and twins it was made for

    @cached_property
    def frame(self) -> pd.DataFrame | None:
        """The table, if there is one."""
        return None if self.table is None else as_pandas(self.table)

    def about(self, domain: Domain) -> Domain:
        """The domain with the sensitive features and combinations that are asked about."""
        names = tuple(sensitive_name(item, domain) for item in self.sensitive or domain.sensitive)
        return with_sensitive(domain, names, self.frame, self.combinations, detect=self.domain is None)


def columns_for(wanted: Wanted, who: Who) -> Columns:
    """The domain with its sensitive features and rules for twins, and which of its features the model reads."""
    domain = who.domain
    if domain is None:
        domain = _observed(wanted, who.frame, who) if who.frame is not None else _of_categories(wanted)
    if who.sensitive or who.combinations is not None:
        domain = who.about(domain)
    if not domain.sensitive:
        raise InputError(
            f"nobody has a twin yet: name the sensitive features of {wanted.origin}, "
            f"among {shown(domain.names, most=30)}."
        )
    if who.twins is not None:
        domain = domain.with_twins(who.twins)
    return Columns(domain, _read(wanted, domain))


def nothing_sensitive(domain: Domain) -> InputError:
    return InputError(
        f"name the sensitive features of the model, by name or position; it reads {shown(domain.names, most=30)}."
    )


def sensitive_name(item: str | int, domain: Domain) -> str:
    """A feature's name from its name or its zero-based position (a number, or a text of digits)."""
    if isinstance(item, str) and item in domain.names:
        return item
    if isinstance(item, int) or item.isdigit():
        if 0 <= int(item) < len(domain.names):
            return domain.names[int(item)]
        raise InputError(f"sensitive feature {item} is out of range; positions go from 0 to {len(domain.names) - 1}.")
    raise InputError(f"sensitive feature '{item}' is not known; the features are {shown(domain.names, most=30)}.")


def with_levels(columns: Columns, name: str, origin: str) -> Columns:
    """The same people, with a whole number's values listed one by one: the model looks them up."""
    feature = columns.domain.feature(name)
    if not isinstance(feature, IntegerFeature) or len(feature.levels()) > MOST_LEVELS:
        raise InputError(
            f"{origin} looks '{name}' up value by value, but in the domain it is {feature.kind}"
            f"{'' if feature.kind == 'real' else f' with more than {MOST_LEVELS:,} values'}; list its values there, if "
            "they are few, or give the model the number itself."
        )
    listed = CategoricalFeature(name=name, categories=tuple(feature.levels()), missing=feature.missing).model_dump()
    features = [listed if f.name == name else f.model_dump() for f in columns.domain.features]
    return Columns(columns.domain.replaced(features=features), columns.names)


def with_classes(
    domain: Domain, classes: tuple[Value, ...] | None, count: int, target: str | None, origin: str
) -> Domain:
    """The label's classes as the model knows them, in its order; otherwise the domain's, or numbers."""
    own = domain.label
    name = own.name if own is not None else target if target is not None and target not in domain.names else "decision"
    if own is None and target is None and name in domain.names:
        name = "decision of the model"
    if classes is None and own is not None:
        if len(own.classes) != count:
            raise InputError(
                f"{origin} tells {count} classes apart, but the label '{own.name}' has {shown(own.classes)}; "
                "correct the label's classes in the domain, in the order of the model's outputs."
            )
        return domain
    return domain.replaced(label=Label(name=name, classes=classes or tuple(range(count))).model_dump())


def _read(wanted: Wanted, domain: Domain) -> tuple[str, ...]:
    if wanted.names is not None:
        return feeding(wanted.names, domain.names, wanted.origin)
    if wanted.count is not None and wanted.count != len(domain.features):
        raise InputError(
            f"{wanted.origin} takes {wanted.count} numbers, but the domain has {len(domain.features)} features "
            f"({shown(domain.names)}); list one feature for each number, in order. If the model takes encoded columns "
            "(one-hot), make the encoding part of the model (a pipeline), or give the table of encoded numbers."
        )
    for feature in domain.features if wanted.numbers else ():
        if isinstance(feature, CategoricalFeature) and any(isinstance(c, str) for c in feature.categories):
            raise InputError(
                f"{wanted.origin} takes numbers, but '{feature.name}' has the categories {shown(feature.categories)}; "
                "make the encoding part of the model (a pipeline), or give the table of encoded numbers."
            )
    return domain.names


def _observed(wanted: Wanted, table: pd.DataFrame, who: Who) -> Domain:
    """As the table shows; of what the model does not read only the sensitive columns are kept.

    Decimals of few values, and sensitive numbers of few, are the lists of these: the model still reads the number.
    """
    frame, names, target = table, [str(column) for column in table.columns], who.target
    inputs = [name for name in names if name != target]
    read = tuple(inputs)
    if wanted.names is not None:
        read = feeding(wanted.names, inputs, wanted.origin)
        asked = [item for item in who.sensitive or () if isinstance(item, str) and item in inputs]
        frame = table[[name for name in names if name in {*read, *asked, target}]]
    domain = Domain.infer(frame if target is None else frame.drop(columns=target), gaps=False)
    if target is not None:  # rows without an answer are people all the same
        domain = domain.replaced(label=infer_label(target, answered(frame[target])).model_dump())
    sensitive = {sensitive_name(item, domain) for item in who.sensitive or ()}
    keys: Sequence[str | int] = range(len(read)) if wanted.names is None else wanted.names
    categories = {column: wanted.categories.get(key, ()) for key, column in zip(keys, read, strict=True)}
    features = []
    for feature in domain.features:
        known = categories.get(feature.name, ())
        if known and not isinstance(feature, BooleanFeature):
            there = set(frame[feature.name].dropna())
            few = isinstance(feature, CategoricalFeature) or (
                isinstance(feature, IntegerFeature) and len(feature.levels()) <= MOST_LEVELS
            )
            seen = tuple(v for v in feature.levels() if v in there and v not in known) if few else ()
            features.append(CategoricalFeature(name=feature.name, categories=known + seen).model_dump())
        else:
            few = feature.kind == "real" or feature.name in sensitive
            features.append((listed(feature, frame[feature.name]) if few else feature).model_dump())
    domain = domain.replaced(features=features)
    if not wanted.gaps:
        return domain
    gappy = {name for name in domain.names if name not in sensitive and frame[name].isna().any()}
    return domain.replaced(features=[(with_gaps(f) if f.name in gappy else f).model_dump() for f in domain.features])


def _of_categories(wanted: Wanted) -> Domain:
    names = wanted.names or ()
    open_ended = [name for name in names if not wanted.categories.get(name)]
    if not names or open_ended:
        what = f"the ranges of {shown(open_ended)}" if names else f"its {wanted.count or ''} inputs".replace("  ", " ")
        raise InputError(
            f"{wanted.origin} does not say who exists: give a domain with {what}, or a table to read them off."
        )
    return Domain(features=tuple(CategoricalFeature(name=name, categories=wanted.categories[name]) for name in names))
