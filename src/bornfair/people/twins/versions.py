"""The versions of a person: the one place that turns people into their twins.

Version number h·|S| + s is the person moved by element h of the declared group and given the sensitive value s; with
no rules it is just the position in S. A person is given by what all versions share: the free features.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_level, shown
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Value, known_levels
from bornfair.people.levels import level_positions, with_levels
from bornfair.people.rules import Permutation, permutation


class Versions:
    """All versions of the people of a domain.

    >>> from bornfair.people.features import CategoricalFeature
    >>> ways = CategoricalFeature(name="is", categories=("Husband", "Wife", "Other"))
    >>> sex = CategoricalFeature(name="sex", categories=("Female", "Male"))
    >>> people = Domain(features=(ways, sex), sensitive=("sex",)).with_twins("is: Husband<->Wife")
    >>> Versions(people).of({"is": "Wife"}, 3)
    {'is': 'Husband', 'sex': 'Male'}
    """

    def __init__(self, domain: Domain, values: Sequence[tuple[Value, ...]] | None = None) -> None:
        self.domain, self.group, self._values = domain, domain.twin_group, values

    def at(self, values: Sequence[tuple[Value, ...]]) -> Versions:
        """The versions with just these sensitive values: any others of a real-valued feature than its grid has."""
        return Versions(self.domain, values)

    @property
    def values(self) -> Sequence[tuple[Value, ...]]:
        """The sensitive values, in the order in which versions count them; unless told otherwise those of S."""
        return self.domain.sensitive_space.values if self._values is None else self._values

    @property
    def is_usual(self) -> bool:
        """Whether the sensitive values are those of S."""
        return self._values is None

    @property
    def sensitive_size(self) -> int:
        return self.domain.sensitive_space.size if self._values is None else len(self._values)

    @property
    def size(self) -> int:
        """|H|·|S|."""
        return self.group.size * self.sensitive_size

    def parts(self, version: int) -> tuple[int, int]:
        """The element h and the position s of a version."""
        return divmod(int(version), self.sensitive_size)

    def of(self, person: Mapping[str, Value], version: int) -> dict[str, Value]:
        """One version's raw values; of the person, sensitive values need not be given."""
        h, s = self.parts(version)
        shared = {name: person[name] for name in self.domain.free_names}
        for name, goes in self._moves(h):
            shared[name] = self._moved(name, goes, shared[name])
        shared |= dict(zip(self.domain.sensitive, self.values[s], strict=True))
        return {name: shared[name] for name in self.domain.names}

    def by_rules(self, row: Mapping[str, Value]) -> list[dict[str, Value]]:
        """Whom each rule, just as it is written, turns somebody (raw values) into; sensitive columns as it says."""
        found = []
        for rule in self.domain.twins:
            held = dict(row)
            for move in rule:
                feature = self.domain.feature(move.feature)
                if move.feature in self.domain.sensitive and isinstance(feature, NUMERIC):
                    continue
                held[move.feature] = self._moved(move.feature, permutation(feature, move), held[move.feature])
            value = tuple(held[name] for name in self.domain.sensitive)
            if value in self.values:
                found.append(self.of(held, self.values.index(value)))
        return found

    def table(self, people: pd.DataFrame, version: int) -> pd.DataFrame:
        """Everybody in a table as one of their versions. Values that the domain does not know stay as they are."""
        h, s = self.parts(version)
        columns = self._columns(people, h)
        for name, value in zip(self.domain.sensitive, self.values[s], strict=True):
            columns[name] = pd.Series([value] * len(people), index=people.index)
        return people.assign(**columns)

    def moved(self, people: pd.DataFrame, h: int) -> pd.DataFrame:
        """Everybody moved by an element of the group, with the sensitive values they have, if any."""
        return people.assign(**self._columns(people, h)) if h else people

    def exists(self, person: Mapping[str, Value], version: int) -> bool:
        """Whether that version is somebody who can be written down: mirrored numbers are in range, and exact floats."""
        return self.within(person, version) and all(map(_is_float, self._mirrored(person, version).values()))

    def within(self, person: Mapping[str, Value], version: int) -> bool:
        """Whether that version is somebody of the domain, if numbers need not be floats."""
        for name, number in self._mirrored(person, version).items():
            feature = self.domain.number(name)
            if not feature.low <= number <= feature.high or (feature.kind == "integer" and number.denominator != 1):
                return False
        return True

    def _mirrored(self, person: Mapping[str, Value], version: int) -> dict[str, Fraction]:
        """The numbers that a version has mirrored, without any rounding."""
        moved = [name for name, _ in self._moves(self.parts(version)[0])]
        mirrored = [name for name in moved if isinstance(self.domain.feature(name), NUMERIC)]
        there = {name: value for name in mirrored if (value := person[name]) is not None}
        return {name: Fraction(self.domain.number(name).total) - Fraction(value) for name, value in there.items()}

    def settled(self, person: Mapping[str, Value]) -> dict[str, Value]:
        """The person, with mirrored real numbers shifted by a rounding or two to where twins' are floats too.

        One of x and total − x loses digits where the other is small; mirroring twice leaves the digits both have.
        """
        held = dict(person)
        for name in self.group.moved:
            feature = self.domain.feature(name)
            if feature.kind == "real" and held[name] is not None:
                again = feature.total - (feature.total - held[name])
                held[name] = min(max(again, feature.low), feature.high)
        return held

    @cached_property
    def levels(self) -> np.ndarray:
        """What tells versions apart, a row for each: the element, then the level of each sensitive feature."""
        if self._values is None:
            inner = self.domain.sensitive_space.level_indices
        else:
            columns = []
            for column in zip(*self.values, strict=True):
                first = {value: place for place, value in reversed(list(enumerate(column)))}
                columns.append([first[value] for value in column])
            inner = np.array(columns).T
        elements = np.repeat(np.arange(self.group.size), len(inner))
        return np.concatenate([elements[:, None], np.tile(inner, (self.group.size, 1))], axis=1)

    def told(self) -> str:
        """How many versions there are, as a sentence.

        >>> from bornfair.people.features import BooleanFeature
        >>> Versions(Domain(features=(BooleanFeature(name="sex"),), sensitive=("sex",))).told()
        'each person has 2 versions: 2 values of sex'
        """
        names = " and ".join(self.domain.sensitive)
        if self.domain.real_sensitive:
            return f"each person has as many versions as there are values of {names}"
        text = f"each person has {self.size:,} versions: {self.sensitive_size:,} values of {names}"
        if self.group.size > 1:
            text += f" × {self.group.size:,} ways that the declared rules give {' and '.join(self.group.moved)}"
        return text

    # --- one element ---

    def _moves(self, h: int) -> list[tuple[str, Permutation]]:
        """What an element changes."""
        pairs = zip(self.group.moved, self.group.elements[h], strict=True) if h else ()
        return [(name, goes) for name, goes in pairs if goes != tuple(range(len(goes)))]

    def _moved(self, name: str, goes: Permutation, value: Value) -> Value:
        feature = self.domain.feature(name)
        if isinstance(feature, NUMERIC):
            return None if value is None else feature.total - value
        levels = list(feature.levels())
        return levels[goes[levels.index(value)]]

    def _columns(self, people: pd.DataFrame, h: int) -> dict[str, pd.Series]:
        columns = {}
        for name, goes in self._moves(h):
            feature, column = self.domain.feature(name), people[name]
            if isinstance(feature, NUMERIC):
                columns[name] = feature.total - column
            else:  # what is missing stays so
                levels = np.array(known_levels(feature), dtype=object)
                place = pd.Index(list(levels)).get_indexer_for(pd.Index(column.astype(object)))
                columns[name] = with_levels(column, levels[list(goes[: len(levels)])], place)
        return columns


def own_versions(
    frame: pd.DataFrame,
    names: Sequence[str],
    values: Iterable[Sequence[Any]],
    read: Callable[[str, pd.Series], Iterable[Any]] = lambda _, column: map(plain_level, column.tolist()),
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's position among the sensitive values, and whether it is known.

    It is not known (and 0) where a column is absent, or where the row's values are none of these. A gap is the value
    None. `read` turns a column into what `values` consist of.

    >>> people = pd.DataFrame({"sex": ["f", None, "x"]})
    >>> [found.tolist() for found in own_versions(people, ["sex"], [("m",), ("f",), (None,)])]
    [[1, 2, 0], [True, True, False]]
    """
    if any(name not in frame.columns for name in names):
        return np.zeros(len(frame), np.int64), np.zeros(len(frame), bool)
    place = {tuple(value): i for i, value in enumerate(values)}
    rows = zip(*(read(name, frame[name]) for name in names), strict=True)
    found = np.array([place.get(row, -1) for row in rows], np.int64)
    return np.maximum(found, 0), found >= 0


def person_of_row(domain: Domain, frame: pd.DataFrame, row: int) -> dict[str, Value] | None:
    """Raw free values of a row; None if one is missing or not of the domain's kind, so that nothing can be replayed."""
    person: dict[str, Any] = {}
    for feature in domain.free_features:
        value = plain_level(frame[feature.name].iloc[row])
        if value is None:
            if not feature.missing:
                return None
            person[feature.name] = None
        elif isinstance(feature, NUMERIC):
            if isinstance(value, str) or not np.isfinite(float(value)):
                return None
            person[feature.name] = int(value) if float(value).is_integer() else float(value)
        elif value in feature.levels():
            person[feature.name] = value
        else:
            return None
    return person


def _is_float(number: Fraction) -> bool:
    return Fraction(float(number)) == number


def require_flip_only(encoding: Encoding, what: str, instead: str) -> None:
    """Refuse questions that only twins who differ in nothing but their sensitive values can be asked about."""
    named = dict.fromkeys([*encoding.domain.twin_group.moved, *encoding.merged])
    if named:
        raise InputError(f"{what} does not know declared twins ({shown(named)}); {instead}.")


# --- what twins have in common ---

MOST_VERSIONS = 4_096


class Folding:
    """The versions of the people of a domain, from what they have in common.

    >>> from bornfair.people.features import CategoricalFeature
    >>> ways = CategoricalFeature(name="is", categories=("Husband", "Wife", "Other"))
    >>> sex = CategoricalFeature(name="sex", categories=("Female", "Male"))
    >>> people = Domain(features=(ways, sex), sensitive=("sex",)).with_twins("is: Husband<->Wife")
    >>> folding, wife = Folding(people), pd.DataFrame({"is": ["Wife"], "sex": ["Female"]})
    >>> folding.merged(wife).to_dict("records"), folding.size
    ([{'is': 'Husband'}], 4)
    >>> [tuple(table.iloc[0]) for table in folding.tables(wife)]
    [('Husband', 'Female'), ('Wife', 'Female'), ('Husband', 'Male'), ('Wife', 'Male')]
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.orbits = domain.twin_group.orbits if domain.twins else {}
        self.turns = {name: math.lcm(*map(len, orbits)) for name, orbits in self.orbits.items()}

    @property
    def size(self) -> int:
        return self.domain.sensitive_space.size * math.prod(self.turns.values())

    def check(self) -> None:
        """Refuse more versions than can be run one by one."""
        if self.size > MOST_VERSIONS:
            raise InputError(
                f"each person has {self.size:,} versions, more than the {MOST_VERSIONS:,} over which a mean is taken; "
                "name fewer sensitive features or rules, list fewer values in the domain, or use method 'merge'."
            )

    def versions(self) -> Iterator[tuple[tuple[Value, ...], dict[str, int]]]:
        """Sensitive values, and the turn of each folded feature."""
        names = list(self.turns)
        for values in self.domain.sensitive_space.values if self.domain.sensitive else ((),):
            for turn in itertools.product(*(range(self.turns[name]) for name in names)):
                yield values, dict(zip(names, turn, strict=True))

    def places(self, name: str, turn: int) -> list[int]:
        """Which level each level of a folded category stands for at a turn: the same one for all of an orbit."""
        goes = list(range(len(self.domain.feature(name).levels())))
        for orbit in self.orbits[name]:
            for place in orbit:
                goes[place] = orbit[turn % len(orbit)]
        return goes

    def merged(self, people: pd.DataFrame) -> pd.DataFrame:
        """What twins have in common: no sensitive columns, folded ones as of the first version."""
        there = [name for name in self.domain.sensitive if name in people.columns]
        return self._folded(people.drop(columns=there), dict.fromkeys(self.turns, 0))

    def tables(self, people: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Everybody as each version, in order; sensitive columns need not be there."""
        for values, turns in self.versions():
            given = {
                name: pd.Series([value] * len(people), index=people.index)
                for name, value in zip(self.domain.sensitive, values, strict=True)
            }
            yield self._folded(people.assign(**given), turns)[list(self.domain.names)]

    def _folded(self, people: pd.DataFrame, turns: Mapping[str, int]) -> pd.DataFrame:
        changed = {}
        for name, turn in turns.items():
            feature, column = self.domain.feature(name), people[name]
            if isinstance(feature, NUMERIC):
                other = feature.total - column
                again = feature.total - other  # the number itself, but never −0.0, which a twin would have as 0.0
                changed[name] = np.maximum(again, other) if turn else np.minimum(again, other)
            else:
                levels = np.array(feature.levels(), object)[self.places(name, turn)]
                changed[name] = with_levels(column, levels, level_positions(feature, column))
        return people.assign(**changed)
