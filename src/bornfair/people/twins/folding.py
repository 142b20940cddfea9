"""What do twins have in common, feature by feature, and who are all versions of it, in one fixed order?

Declared twins are folded onto one of them: a category onto the first of its orbit, a mirrored number onto the smaller
one of x and total − x. From there all versions are unfolded in an order that is the same for every twin, so that
whatever is computed from them, a mean for example, is the same bits. Rules that move several features at once are
folded each feature by itself: the versions are then those of every combination, and among them all twins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Value
from bornfair.people.levels import level_positions

MOST_VERSIONS = 4_096
Turns = Mapping[str, int]


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

    def total(self, name: str) -> Any:
        """Of a mirrored number: x and total − x are twins'."""
        feature = self.domain.feature(name)
        assert isinstance(feature, NUMERIC)
        return feature.low + feature.high

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

    def _folded(self, people: pd.DataFrame, turns: Turns) -> pd.DataFrame:
        changed = {}
        for name, turn in turns.items():
            feature, column = self.domain.feature(name), people[name]
            if isinstance(feature, NUMERIC):
                other = self.total(name) - column
                again = self.total(name) - other  # the number itself, but never −0.0, which a twin would have as 0.0
                changed[name] = np.maximum(again, other) if turn else np.minimum(again, other)
                continue
            levels, place = np.array(feature.levels(), object), level_positions(feature, column)
            values, known = column.astype(object).to_numpy(copy=True), place >= 0
            values[known] = levels[np.array(self.places(name, turn))[place[known]]]
            changed[name] = pd.Series(values, index=people.index, dtype=object).infer_objects()
        return people.assign(**changed)
