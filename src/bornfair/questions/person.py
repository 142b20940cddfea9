"""Who is asked about? One person of the domain: an object of raw values, or a row of a table."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bornfair.core import limits
from bornfair.core.errors import InputError, plain, shown
from bornfair.core.files import read_regular
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value, unknown_column
from bornfair.people.levels import level_positions

MOST_LISTED = 12  # values named in a message


@dataclass(frozen=True)
class Person:
    """Raw values of somebody of a domain.

    shared: of the free features, gaps filled in as the model fills them. sensitive: of the sensitive ones, those that
    are known. filled: the features that had gaps.
    """

    shared: dict[str, Any]
    sensitive: dict[str, Any]
    filled: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        return self.shared | self.sensitive


def read_person(path: str | Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        content = read_regular(path, limits.PERSON_BYTES)
    except OSError as error:
        raise InputError(f"cannot read the person file '{path}': {error.strerror or error}.") from error
    try:
        found = json.loads(content)
        json.dumps(found, ensure_ascii=False).encode()  # half of a character, which JSON may hold and UTF-8 may not
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{path}' is not JSON ({error}); write one object, as {{\"age\": 42, …}}.") from error
    if not isinstance(found, dict):
        raise InputError(f"'{path}' must hold one JSON object with a value for each feature, found a {_kind(found)}.")
    return found


def row_of(table: pd.DataFrame, row: int) -> dict[str, Any]:
    """A row of a table, counted from 0."""
    if not 0 <= row < len(table):
        raise InputError(f"row {row} is not in the table, whose {len(table):,} rows are counted from 0.")
    return {str(name): plain(table[name].iloc[row]) for name in table.columns}


def person_of_domain(
    domain: Domain, given: Mapping[str, Any], fills: Mapping[str, Value], *, strict: bool = True
) -> Person:
    """The person whom these values describe, if they are of the domain.

    strict: refuse names that are neither a feature nor the label; a row of a table may have other columns.

    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> who = Domain(features=(IntegerFeature(name="age", low=18, high=99), BooleanFeature(name="s")), sensitive=("s",))
    >>> person_of_domain(who, {"age": 30.0, "s": "true"}, {})
    Person(shared={'age': 30}, sensitive={'s': True}, filled=())
    """
    label = () if domain.label is None else (domain.label.name,)
    strange = [name for name in given if name not in (*domain.names, *label)]
    if strict and strange:
        close = difflib.get_close_matches(str(strange[0]), domain.names, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise InputError(
            f"the person has {shown(strange)}, which the model does not read; {hint}the features are "
            f"{shown(domain.names, most=30)}."
        )
    shared: dict[str, Any] = {}
    sensitive: dict[str, Any] = {}
    filled, lacking = list[str](), list[str]()
    for feature in domain.features:
        name = feature.name
        value = given.get(name)
        if name in domain.sensitive:
            if not _is_gap(value):
                sensitive[name] = _checked(feature, value)
            elif feature.missing and name in given:
                sensitive[name] = None
        elif not _is_gap(value):
            shared[name] = _checked(feature, value)
        elif feature.missing:
            shared[name] = None
        elif name in fills and _is_of(feature, fills[name]):
            shared[name] = _checked(feature, fills[name])
            filled.append(name)
        else:
            lacking.append(name)
    if lacking:
        raise InputError(
            f"the person has no value for {shown(lacking, most=30)}, and the model fills in none of the domain; give "
            "every feature that is not sensitive."
        )
    return Person(shared, sensitive, tuple(filled))


def limits_around(
    domain: Domain, person: Mapping[str, Any], within: Mapping[str, float | None]
) -> dict[str, tuple[Any, ...]]:
    """Everybody near a person: numbers may differ by so much, what is named with None by anything, the rest not at all.

    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> features = (IntegerFeature(name="age", low=18, high=99), BooleanFeature(name="owner"), BooleanFeature(name="s"))
    >>> who = Domain(features=features, sensitive=("s",))
    >>> limits_around(who, {"age": 19, "owner": True}, {"age": 2})
    {'age': (18, 21), 'owner': (True,)}
    """
    for name in within:
        if name not in domain.names:
            raise InputError(unknown_column(name, domain.names, "within: feature"))
        if name in domain.sensitive:
            raise InputError(
                f"within names '{name}', which is sensitive: everybody is looked at as each of its values anyway; name "
                f"other features, such as {shown(domain.free_names, most=5)}."
            )
    found: dict[str, tuple[Any, ...]] = {}
    for feature in domain.free_features:
        name, own = feature.name, person[feature.name]
        free = name in within and within[name] is None
        if not isinstance(feature, NUMERIC):
            if name in within and not free:
                raise InputError(
                    f"within {name}={within[name]}: '{name}' is no number; name it alone to let it be any of "
                    f"{shown(feature.levels(), most=MOST_LISTED)}."
                )
            found[name] = tuple(feature.levels()) if free else (own,)
            continue
        if free:
            continue  # missing, too, if it may be
        if own is None:
            if name in within:
                raise InputError(f"within {name}={within[name]}: '{name}' is missing; name it alone for any value.")
            found[name] = (None,)
            continue
        reach = within.get(name, 0.0)
        if isinstance(reach, bool) or not isinstance(reach, (int, float)) or not 0 <= reach < math.inf:
            raise InputError(f"within {name}={reach!r}: give by how much '{name}' may differ, a number from 0 on.")
        low, high = max(own - reach, feature.low), min(own + reach, feature.high)
        found[name] = (math.ceil(low), math.floor(high)) if feature.kind == "integer" else (float(low), float(high))
    return found


def _is_gap(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def _checked(feature: Feature, value: Any) -> Value:
    """A value as the domain writes it, if it has it."""
    name, scalar = feature.name, plain(value)
    if isinstance(feature, NUMERIC):
        if isinstance(scalar, bool) or not isinstance(scalar, (int, float)):
            raise InputError(f"'{name}' is {scalar!r}; a number is needed, from {feature.low:g} to {feature.high:g}.")
        if not feature.low <= scalar <= feature.high:
            raise InputError(
                f"'{name}' is {scalar!r}, outside the domain's range from {feature.low:g} to {feature.high:g}; correct "
                "it, or give a domain with a wider range."
            )
        if feature.kind == "integer":
            if scalar != round(scalar):
                raise InputError(f"'{name}' is {scalar!r}; a whole number is needed.")
            return int(scalar)
        return float(scalar)
    if not isinstance(scalar, (bool, int, float, str)):
        raise InputError(f"'{name}' is a {_kind(scalar)}; values are numbers, texts or true/false.")
    levels = feature.levels()
    position = int(level_positions(feature, pd.Series([scalar]))[0])
    if position < 0:
        close = difflib.get_close_matches(str(scalar), [str(level) for level in levels], n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"'{name}' has no value {scalar!r}; {hint}it has {shown(levels, most=MOST_LISTED)}.")
    return levels[position]


def _is_of(feature: Feature, value: Any) -> bool:
    """Whether what a model fills in is a value of the feature: the median of whole numbers need not be one."""
    try:
        _checked(feature, value)
    except InputError:
        return False
    return True


def _kind(value: Any) -> str:
    return {list: "list", dict: "object", str: "text", type(None): "null"}.get(type(value), type(value).__name__)
