"""Which versions does a person have, and who is each of them? The one place that turns people into their twins.

Version number h·|S| + s is the person moved by element h of the declared group and given the sensitive value s; with
no rules it is just the position in S. A person is given by what all versions share: the free features, numbers that are
carried along with a sensitive value by their canonical value (`bornfair.carrying`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bornfair.carrying import Affine, apply, canonical_range, maps_of, undo
from bornfair.domain import NUMERIC, Carried, Value
from bornfair.errors import InputError, shown
from bornfair.twins import Permutation, permutation

if TYPE_CHECKING:
    from bornfair.domain import Domain
    from bornfair.model import FairModel


class Versions:
    """All versions of the people of a domain.

    >>> from bornfair.domain import CategoricalFeature, Domain
    >>> ways = CategoricalFeature(name="is", categories=("Husband", "Wife", "Other"))
    >>> sex = CategoricalFeature(name="sex", categories=("Female", "Male"))
    >>> people = Domain(features=(ways, sex), sensitive=("sex",)).with_twins("is: Husband<->Wife")
    >>> people.versions.of({"is": "Wife"}, 3)
    {'is': 'Husband', 'sex': 'Male'}
    """

    def __init__(self, domain: Domain) -> None:
        self.domain, self.group = domain, domain.twin_group

    @property
    def sensitive_size(self) -> int:
        return self.domain.sensitive_space.size

    @property
    def size(self) -> int:
        """|H|·|S|."""
        return self.group.size * self.sensitive_size

    def parts(self, version: int) -> tuple[int, int]:
        """The element h and the position s of a version."""
        h, s = divmod(int(version), self.sensitive_size)
        return h, s

    def of(self, person: Mapping[str, Value], version: int) -> dict[str, Value]:
        """One version's raw values; of the person, sensitive values need not be given."""
        h, s = self.parts(version)
        shared = {name: person[name] for name in self.domain.free_names}
        for name, goes in self._moves(h):
            shared[name] = self._moved(name, goes, shared[name])
        for name in self.carried:
            exact, feature = self.exactly(person, name, s), self.domain.feature(name)
            shared[name] = round(exact) if feature.kind == "integer" else float(exact)
        shared |= dict(zip(self.domain.sensitive, self.domain.sensitive_space.values[s], strict=True))
        return {name: shared[name] for name in self.domain.names}

    def shared(self, row: Mapping[str, Value]) -> dict[str, Value]:
        """The person behind raw values, sensitive ones included: carried numbers become canonical."""
        held = {name: row[name] for name in self.domain.free_names}
        for name, (by, maps) in self.carried.items():
            exact = apply(maps[list(self.domain.feature(by).levels()).index(row[by])], Fraction(held[name]))
            held[name] = int(exact) if self.domain.feature(name).kind == "integer" else float(exact)
        return held

    def by_rules(self, row: Mapping[str, Value]) -> list[dict[str, Value]]:
        """Whom each rule, just as it is written, turns somebody (raw values) into; sensitive columns as it says."""
        found = []
        for rule in self.domain.twins:
            person, position = self.shared(row), {name: row[name] for name in self.domain.sensitive}
            for move in rule:
                feature = self.domain.feature(move.feature)
                if isinstance(move, Carried) or (move.feature in position and isinstance(feature, NUMERIC)):
                    continue
                held = position if move.feature in position else person
                held[move.feature] = self._moved(move.feature, permutation(feature, move), held[move.feature])
            value = tuple(position[name] for name in self.domain.sensitive)
            if value in self.domain.sensitive_space.values:
                found.append(self.of(person, self.domain.sensitive_space.values.index(value)))
        return found

    def exactly(self, person: Mapping[str, Value], name: str, s: int) -> Fraction:
        """A carried number of the version with sensitive value s, without any rounding."""
        by, maps = self.carried[name]
        level = self.domain.sensitive_space.level_indices[s, self.domain.sensitive.index(by)]
        return undo(maps[level], Fraction(person[name]))

    @cached_property
    def carried(self) -> dict[str, tuple[str, list[Affine]]]:
        """For each carried number the sensitive feature it goes along with, and T for each of its levels."""
        declared = self.domain.carried.items()
        return {n: (move.by, maps_of(move, list(self.domain.feature(move.by).levels()))) for n, move in declared}

    def range(self, name: str) -> tuple[Fraction, Fraction]:
        """Between which (canonical) values of a number people have twins."""
        feature = self.domain.feature(name)
        assert isinstance(feature, NUMERIC)
        return canonical_range(self.domain, feature)

    def table(self, people: pd.DataFrame, version: int) -> pd.DataFrame:
        """Everybody in a table as one of their versions. Values that the domain does not know stay as they are."""
        h, s = self.parts(version)
        columns = self._columns(people, h)
        for name, (by, maps) in self.carried.items():
            level = self.domain.sensitive_space.level_indices[s, self.domain.sensitive.index(by)]
            times, plus = (float(part) for part in maps[level])
            numbers = (self.canonical(people, name) - plus) / times
            whole = self.domain.feature(name).kind == "integer" and bool((numbers == np.round(numbers)).all())
            columns[name] = pd.Series(numbers.astype(np.int64) if whole else numbers, index=people.index)
        for name, value in zip(self.domain.sensitive, self.domain.sensitive_space.values[s], strict=True):
            columns[name] = pd.Series([value] * len(people), index=people.index)
        return people.assign(**columns)

    def moved(self, people: pd.DataFrame, h: int) -> pd.DataFrame:
        """Everybody moved by an element of the group, with the sensitive values they have, if any."""
        return people.assign(**self._columns(people, h))

    def canonical(self, people: pd.DataFrame, name: str) -> np.ndarray:
        """The canonical values of a carried number, by each row's own sensitive value."""
        by, maps = self.carried[name]
        if by not in people.columns:
            raise InputError(f"'{name}' is carried along with '{by}', so the column '{by}' is needed here too.")
        place = pd.Index(list(self.domain.feature(by).levels())).get_indexer_for(pd.Index(people[by].astype(object)))
        if (place < 0).any():
            odd = people[by].iloc[int(np.argmax(place < 0))]
            raise InputError(
                f"'{name}' is carried along with '{by}', which is {odd!r} in a row; the domain has no such."
            )
        times, plus = np.array([[float(part) for part in to] for to in maps]).T
        return people[name].to_numpy(np.float64) * times[place] + plus[place]

    def inside(self, people: pd.DataFrame, version: int) -> np.ndarray:
        """For which rows that version is somebody: a number that is carried out of its range is nobody's."""
        there = np.ones(len(people), dtype=bool)
        if self.carried:
            moved = self.table(people, version)
            for name in self.carried:
                feature = self.domain.feature(name)
                assert isinstance(feature, NUMERIC)
                there &= moved[name].between(feature.low, feature.high).to_numpy()
        return there

    def exists(self, person: Mapping[str, Value], version: int) -> bool:
        """Whether that version is somebody who can be written down: moved numbers are in range, and floats exactly."""
        numbers = self._numbers(person, version)
        return self.within(person, version) and all(_is_float(number) for number in numbers.values())

    def within(self, person: Mapping[str, Value], version: int) -> bool:
        """Whether that version is somebody of the domain, if numbers need not be floats."""
        for name, number in self._numbers(person, version).items():
            feature = self.domain.feature(name)
            assert isinstance(feature, NUMERIC)
            if not feature.low <= number <= feature.high or (feature.kind == "integer" and number.denominator != 1):
                return False
        return True

    def _numbers(self, person: Mapping[str, Value], version: int) -> dict[str, Fraction]:
        """The numbers that differ between versions, without any rounding."""
        h, s = self.parts(version)
        mirrored = [name for name, _ in self._moves(h) if isinstance(self.domain.feature(name), NUMERIC)]
        found = {name: Fraction(self._total(name)) - Fraction(person[name]) for name in mirrored}
        return found | {name: self.exactly(person, name, s) for name in self.carried}

    def settled(self, person: Mapping[str, Value]) -> dict[str, Value]:
        """The person, with real numbers that rules move shifted by a rounding or two to where twins' are floats too.

        One of x and total − x loses digits where the other is small; mirroring twice leaves the digits both have.
        """
        held = dict(person)
        for name, (_, maps) in self.carried.items():
            if self.domain.feature(name).kind == "real":
                number = float(held[name])
                for times, plus in [(float(times), float(plus)) for times, plus in maps] * 2:
                    raw = (number - plus) / times
                    # A product by more than a power of two needs room for its digits.
                    number = (raw if math.frexp(times)[0] == 0.5 else float(np.float32(raw))) * times + plus
                held[name] = number
        for name in self.group.moved:
            feature = self.domain.feature(name)
            if feature.kind == "real":
                total = self._total(name)
                held[name] = min(max(total - (total - held[name]), feature.low), feature.high)
        return held

    @cached_property
    def levels(self) -> np.ndarray:
        """What tells versions apart, a row for each: the element, then the level of each sensitive feature."""
        inner = self.domain.sensitive_space.level_indices
        elements = np.repeat(np.arange(self.group.size), len(inner))
        return np.concatenate([elements[:, None], np.tile(inner, (self.group.size, 1))], axis=1)

    def told(self) -> str:
        """How many versions there are, as a sentence.

        >>> from bornfair.domain import BooleanFeature, Domain
        >>> Domain(features=(BooleanFeature(name="sex"),), sensitive=("sex",)).versions.told()
        'each person has 2 versions: 2 values of sex'
        """
        names = " and ".join(self.domain.sensitive)
        text = f"each person has {self.size:,} versions: {self.sensitive_size:,} values of {names}"
        if self.carried:
            along = " and ".join(self.carried)
            text += f" (with which {along} {'is' if len(self.carried) == 1 else 'are'} carried along)"
        if self.group.size > 1:
            text += f" × {self.group.size:,} ways that the declared rules give {' and '.join(self.group.moved)}"
        return text

    # --- one element ---

    def _moves(self, h: int) -> list[tuple[str, Permutation]]:
        """What an element changes."""
        pairs = zip(self.group.moved, self.group.elements[h], strict=True) if h else ()
        return [(name, goes) for name, goes in pairs if goes != tuple(range(len(goes)))]

    def _total(self, name: str) -> Any:
        feature = self.domain.feature(name)
        assert isinstance(feature, NUMERIC)
        return feature.low + feature.high

    def _moved(self, name: str, goes: Permutation, value: Value) -> Value:
        feature = self.domain.feature(name)
        if isinstance(feature, NUMERIC):
            return self._total(name) - value
        levels = list(feature.levels())
        return levels[goes[levels.index(value)]]

    def _columns(self, people: pd.DataFrame, h: int) -> dict[str, pd.Series]:
        columns = {}
        for name, goes in self._moves(h):
            feature, column = self.domain.feature(name), people[name]
            if isinstance(feature, NUMERIC):
                columns[name] = self._total(name) - column
                continue
            levels = pd.Index(list(feature.levels()))
            place = levels.get_indexer_for(pd.Index(column.astype(object)))
            changed = column.astype(object).to_numpy(copy=True)
            known = place >= 0
            changed[known] = np.array(levels, dtype=object)[np.array(goes)[place[known]]]
            columns[name] = pd.Series(changed, index=people.index, dtype=object).infer_objects()
        return columns


def _is_float(number: Fraction) -> bool:
    return Fraction(float(number)) == number


def require_flip_only(model: FairModel, what: str, instead: str) -> None:
    """Refuse questions that only twins who differ in nothing but their sensitive values can be asked about."""
    domain, encoding = model.domain, model.encoding
    named = dict.fromkeys([*domain.twin_group.moved, *encoding.merged, *domain.carried, *encoding.carried])
    if named:
        raise InputError(f"{what} does not know declared twins ({shown(named)}); {instead}.")
