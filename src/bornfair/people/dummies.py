"""Blocks of 0/1 columns that are one feature, as `pandas.get_dummies` and one-hot encoders write it.

A block has a common prefix and exactly one 1 in every row (or at most one, where a category was dropped), or is a pair
of columns that are complementary in every row. Chance makes such columns too; a block is reported only where chance is
an unlikely reason. Columns of a block change together between twins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, shown
from bornfair.people.inference import observed_combinations
from bornfair.people.levels import as_listed
from bornfair.people.sensitive import ENUMERATION_LIMIT

if TYPE_CHECKING:
    from bornfair.people.domain import Domain

Combinations = Literal["all", "observed"]
SEPARATORS = "_=.:-/ "
CHANCE = {"prefix": 0.01, "dropped": 1e-4, "complement": 1e-6}
"""How likely independent columns may look like a block that is still reported, by kind of block."""


@dataclass(frozen=True)
class Block:
    """Columns of one feature."""

    names: tuple[str, ...]
    rows: int
    empty: int = 0
    """In how many rows no column is 1."""

    @property
    def text(self) -> str:
        names = _listed(self.names)
        if not self.empty:
            return f"{names} are columns of one feature: exactly one of them is 1 in each of the {self.rows:,} rows."
        return (
            f"{names} are columns of one feature: at most one of them is 1 in each of the {self.rows:,} rows, and none "
            f"in {self.empty:,}. The table does not show whether these {self.empty:,} rows have a category that was "
            "dropped (drop_first) or no value."
        )


def dummy_blocks(table: pd.DataFrame, names: Sequence[str]) -> tuple[Block, ...]:
    """The blocks among these columns of a table.

    >>> people = pd.get_dummies(pd.DataFrame({"sex": ["f", "m", "m"] * 9, "age": range(27)}))
    >>> dummy_blocks(people, list(people.columns))[0].names
    ('sex_f', 'sex_m')
    """
    columns = {name: ones for name in names if name in table.columns and (ones := _ones(table[name])) is not None}
    found, used = list[Block](), set[str]()
    for empty_allowed, kind in ((False, "prefix"), (True, "dropped")):
        for members in _with_prefix(list(columns)):
            if used & set(members) or not _apart([columns[name] for name in members]):
                continue
            counts = [int(columns[name].sum()) for name in members]
            empty = len(table) - sum(counts)
            if (empty_allowed or not empty) and _chance(len(table), counts) <= CHANCE[kind]:
                found.append(Block(members, len(table), empty))
                used |= set(members)
        if not empty_allowed:
            for members in _complementary({name: one for name, one in columns.items() if name not in used}):
                found.append(Block(members, len(table)))
                used |= set(members)
    order = {name: place for place, name in enumerate(names)}
    return tuple(sorted(found, key=lambda block: order[block.names[0]]))


def with_sensitive(
    domain: Domain, names: Sequence[str], table: pd.DataFrame | None, combinations: Any, *, detect: bool = True
) -> Domain:
    """The domain with these sensitive features, and with the combinations of their values that exist.

    Naming one column of a block names all of them. combinations: 'observed' for those of the table, 'all' for the
    product, blocks included; None for the product in which blocks have the observed combinations. detect: whether None
    looks for blocks; without it, it changes nothing.
    """
    check_combinations(combinations)
    if combinations == "observed" and table is None:
        raise InputError("combinations='observed' reads them from a table; give one (--data), or leave it out.")
    looks = table is not None and (combinations == "observed" or (combinations is None and detect))
    table = as_listed(domain, table) if looks and table is not None else None
    blocks = () if table is None else dummy_blocks(table, domain.names)
    block_of = {name: block for block in blocks for name in block.names}
    several = tuple(dict.fromkeys(one for name in names for one in _together(name, block_of)))
    if combinations is None and not any(name in block_of for name in several):
        return domain if several == domain.sensitive else domain.with_sensitive(several)
    about = domain.with_sensitive(several)
    if combinations == "all" or table is None:
        return about
    if combinations == "observed":
        return about.with_sensitive(several, observed_combinations(about, table))
    return about.with_sensitive(several, _product(about, block_of, table))


def check_combinations(combinations: Any) -> None:
    if combinations not in (None, "all", "observed"):
        raise InputError(f"combinations must be 'all' or 'observed', found {combinations!r}.")


def sentences(domain: Domain, table: pd.DataFrame | None) -> tuple[str, ...]:
    """What is to be said about the blocks of a table, where a model is asked about the people of a domain."""
    if table is None:
        return ()
    told = []
    for block in dummy_blocks(table, domain.names):
        sensitive = [name for name in block.names if name in domain.sensitive]
        if len(sensitive) == len(block.names) and domain.combinations is not None:
            places = [domain.sensitive.index(name) for name in block.names]
            kept = {tuple(row[place] for place in places) for row in domain.combinations}
            told.append(f"{block.text} They change together, in the {len(kept):,} combinations of the domain.")
        elif sensitive:
            others = [name for name in block.names if name not in sensitive]
            stay = "stays" if len(others) == 1 else "stay"
            what = f"while {_listed(others)} {stay} the same" if others else "in any combination"
            told.append(
                f"{block.text} In this domain {_listed(sensitive)} {'changes' if len(sensitive) == 1 else 'change'} "
                f"{what}, so twins may be impossible people; combinations='observed' (--combinations observed) keeps "
                "those of the table."
            )
        else:
            told.append(
                f"{block.text} The domain also has people with another number of ones, so twins that are shown may be "
                "impossible people."
            )
    return tuple(told)


def _listed(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    quoted = quoted if len(quoted) <= 6 else [*quoted[:5], f"{len(quoted) - 5} more"]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _together(name: str, block_of: dict[str, Block]) -> tuple[str, ...]:
    return block_of[name].names if name in block_of else (name,)


def _product(about: Domain, block_of: dict[str, Block], table: pd.DataFrame) -> list[list[Any]]:
    """The combinations of a block that occur, with every value of the other sensitive features."""
    parts: list[tuple[tuple[str, ...], list[list[Any]]]] = []
    for names in dict.fromkeys(_together(name, block_of) for name in about.sensitive):
        if names[0] in block_of:
            parts.append((names, observed_combinations(about.with_sensitive(names), table)))
        else:
            feature = about.feature(names[0])
            if feature.kind == "real":
                raise InputError(
                    f"{_listed([n for n in about.sensitive if n in block_of])} are columns of one feature, but "
                    f"'{names[0]}' takes every real value, so that no list of combinations exists; make '{names[0]}' a "
                    "whole number or bands, or ask with combinations='all' (--combinations all)."
                )
            parts.append((names, [[level] for level in feature.levels()]))
    if (size := math.prod(len(rows) for _, rows in parts)) > ENUMERATION_LIMIT:
        raise InputError(
            f"the sensitive features {shown(about.sensitive)} have {size:,} combinations, more than the "
            f"{ENUMERATION_LIMIT:,} that can be listed; ask with combinations='observed' (--combinations observed)."
        )
    order = [name for names, _ in parts for name in names]
    places = [order.index(name) for name in about.sensitive]
    found = [list(itertools.chain(*rows)) for rows in itertools.product(*(rows for _, rows in parts))]
    return [[row[place] for place in places] for row in found]


# --- what a block is ---


def _ones(column: pd.Series) -> np.ndarray | None:
    """Which rows of a 0/1 column are 1; None of any other column, also of one with gaps or a single value."""
    values = column.unique()
    if len(values) != 2 or not all(type(plain(v)) in (bool, int, float) and plain(v) in (0, 1) for v in values):
        return None
    return column.to_numpy(dtype=bool)


def _with_prefix(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Columns with a common beginning up to a separator, the largest groups first."""
    groups: dict[str, list[str]] = {}
    for name in names:
        for place, sign in enumerate(name):
            if sign in SEPARATORS and 0 < place < len(name) - 1:
                groups.setdefault(name[:place], []).append(name)
    found = dict.fromkeys(tuple(members) for members in groups.values() if len(members) > 1)
    return sorted(found, key=len, reverse=True)


def _complementary(columns: dict[str, np.ndarray]) -> list[tuple[str, ...]]:
    """Pairs of columns of which in every row exactly one is 1."""
    found, by_content = [], dict[bytes, list[str]]()
    for name, ones in columns.items():
        by_content.setdefault(ones.tobytes(), []).append(name)
    for name, ones in columns.items():
        others = by_content.get((~ones).tobytes(), [])
        alone = len(others) == 1 and len(by_content[ones.tobytes()]) == 1
        if not alone or list(columns).index(name) > list(columns).index(others[0]):
            continue
        if _chance(len(ones), [int(ones.sum()), int((~ones).sum())]) <= CHANCE["complement"]:
            found.append((name, *others))
    return found


def _apart(ones: Sequence[np.ndarray]) -> bool:
    """Whether no row has two ones."""
    seen = np.zeros(len(ones[0]), bool)
    for one in ones:
        if (seen & one).any():
            return False
        seen |= one
    return True


def _chance(rows: int, counts: Sequence[int]) -> float:
    """How likely columns with so many ones have no two in a row, if they are independent."""
    log = math.lgamma
    ways = log(rows + 1) - sum(log(count + 1) for count in counts) - log(rows - sum(counts) + 1)
    free = sum(log(rows + 1) - log(count + 1) - log(rows - count + 1) for count in counts)
    return math.exp(min(ways - free, 0.0))
