"""A look at a table before training: what is in it, what to watch out for, and which options to train with.

Counts are of all rows. What has to be learnt (does a column alone give the answer or the sensitive value away?) is
learnt from a sample and measured on rows that were not learnt from.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain
from bornfair.people.column_kinds import SHOWN_FROM, Column, look
from bornfair.people.dummies import Block, dummy_blocks
from bornfair.people.features import unknown_column
from bornfair.people.reading import AS_SHOWN, TableReading
from bornfair.people.tables import as_pandas, read_table
from bornfair.questions.findings import (
    MOST_CLASSES,
    Finding,
    about_features,
    about_sensitive,
    about_target,
    named,
    repeated,
    told,
)
from bornfair.questions.proxies import alone, binned, spread_folds

SAMPLE = 20_000  # rows that are learnt from …
FIRST = 4_000  # … where so many leave it open
LEAST = 8  # rows of each value, below which nothing is said of what tells it
LEAST_SHARE = 0.01  # of the rows; a rarer value is left out where two or more others are frequent
NEARLY = 0.95  # share recognised (of each value), or …
AREA = 0.98  # … area under the curve, from which on a column tells almost everything
ORDER = {"refused": 0, "important": 1, "note": 2}


@dataclass(frozen=True)
class Inspection:
    """What a look at a table found: its columns, and findings with the most pressing first."""

    rows: int
    columns: tuple[Column, ...]
    target: str | None
    sensitive: tuple[str, ...]
    findings: tuple[Finding, ...]
    seed: int

    def options(self) -> list[str]:
        """What the findings suggest to train with, each option once."""
        found: dict[tuple[str, str], None] = {}
        for finding in self.findings:
            words = finding.options
            found |= dict.fromkeys(zip(words[::2], words[1::2], strict=True))
        dropped = {name for option, name in found if option == "--drop"}
        pairs = [(o, name) for o, name in found if not (o in ("--numeric", "--categorical") and name in dropped)]
        return [word for pair in pairs for word in pair]

    def command(self, table: str = "people.csv", said: Sequence[str] = ()) -> str | None:
        """The command that trains with these options; None where target or sensitive columns are not named, or the
        table has to be changed first.

        said: options that were given already, as how the file is to be read.
        """
        if self.target is None or not self.sensitive or self.beyond_options:
            return None
        given = list(zip(said[::2], said[1::2], strict=True))
        more = zip(self.options()[::2], self.options()[1::2], strict=True)
        asked = [("--target", self.target), *(("--sensitive", name) for name in self.sensitive), *given]
        words = [word for pair in [*asked, *(pair for pair in more if pair not in given)] for word in pair]
        return shlex.join(["bornfair", "train", table, *words])

    @property
    def beyond_options(self) -> bool:
        """Whether something keeps the table from being trained on that no option helps with."""
        return any(finding.weight == "refused" and not finding.options for finding in self.findings)

    def brief(self) -> str:
        """The findings that matter to what is trained, in a sentence; empty if there are none."""
        sayings = {
            "leak": "{} alone {}tell{} the answer almost perfectly (known only afterwards?)",
            "proxy": "{} {}give{} the sensitive value away almost perfectly",
            "sentinel": "{} {}hold{} numbers far from the rest (codes for 'unknown'?)",
            "constant": "{} {}ha{} the same value in all rows, which counts for nothing",
            "numbers as text": "{} {}hold{} numbers that are taken for texts (--numeric, --decimal)",
            "rare class": "one class of {} is rare{}{}",
        }
        parts = []
        for kind, saying in sayings.items():
            names = [name for finding in self.findings if finding.kind == kind for name in finding.columns]
            if names:
                ending = "s" if len(names) == 1 else "ve" if kind == "constant" else ""
                parts.append(saying.format(named(names), "", "" if kind == "rare class" else ending))
        return f"{'; '.join(parts)}. bornfair inspect says more." if parts else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "target": self.target,
            "sensitive": list(self.sensitive),
            "columns": [_column_json(column) for column in self.columns],
            "findings": [finding.to_json() for finding in self.findings],
            "options": self.options(),
            "seed": self.seed,
        }


def inspect(
    table: Any,
    *,
    target: str | None = None,
    sensitive_features: str | Sequence[str] = (),
    keep: Sequence[str] = (),
    categorical: Sequence[str] = (),
    reading: TableReading = AS_SHOWN,
    seed: int = 0,
) -> Inspection:
    """Look at a table before training on it.

    Args:
        table: a pandas or polars table, or the path of a CSV or Parquet file.
        target: the column to predict; without it nothing is said about leaks.
        sensitive_features: names of columns; without them nothing is said about proxies.
        keep: columns that are to be used whatever they look like.
        categorical: columns of codes that are categories.
        reading: how a file is written.
        seed: the same seed looks at the same sample.

    Returns:
        What each column is, and what to know about the table, with the options to train with. Values of names, free
        text and identifiers are not part of it.

    Raises:
        InputError: if the table cannot be read, or a column is not in it.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [20, 30, 40, 50, 60] * 16, "rate": 0.19, "sex": ["f", "m"] * 40})
    >>> people["y"] = [0, 1, 1, 0, 1, 0, 0, 1] * 10
    >>> found = inspect(people, target="y", sensitive_features=["sex"])
    >>> [column.kind for column in found.columns]
    ['whole number', 'decimal', 'category', 'whole number']
    >>> found.command()
    'bornfair train people.csv --target y --sensitive sex --drop rate'
    """
    rows = read_table(table, reading) if isinstance(table, (str, Path)) else as_pandas(table)
    sensitive = [sensitive_features] if isinstance(sensitive_features, str) else list(sensitive_features)
    known = [str(name) for name in rows.columns]
    roles = [(target, "target"), *((name, "sensitive feature") for name in sensitive)]
    for name, role in [*roles, *((name, "column") for name in (*keep, *categorical))]:
        if name is not None and name not in known:
            raise InputError(unknown_column(name, known, role))
    if target is not None and target in sensitive:
        raise InputError(f"'{target}' cannot be both the target and a sensitive feature.")
    if not len(rows):
        raise InputError("the table has no rows; give one with people.")
    declared = {name: rows[name].astype("category") for name in categorical}
    rows = rows.set_axis(known, axis=1).assign(**declared)
    columns = tuple(look(rows[name]) for name in known)
    findings = _findings(rows, columns, target, sensitive, set(keep), seed)
    return Inspection(
        rows=len(rows), columns=columns, target=target, sensitive=tuple(sensitive),
        findings=tuple(sorted(findings, key=lambda finding: ORDER[finding.weight])), seed=seed,
    )  # fmt: skip


def _findings(
    rows: pd.DataFrame,
    columns: tuple[Column, ...],
    target: str | None,
    sensitive: list[str],
    keep: set[str],
    seed: int,
) -> list[Finding]:
    by_name = {column.name: column for column in columns}
    features = [column for column in columns if column.name != target and column.name not in keep]
    found = [] if target is None else [*about_target(by_name[target], rows[target])]
    found += about_sensitive(rows, [by_name[name] for name in sensitive])
    found += about_features(rows, features, sensitive)
    gone = {name for finding in found for name in finding.columns if "--drop" in finding.options}
    asked = [column for column in columns if column.name not in gone | {target} and _can_tell(column)]
    classes = {
        name: _classes(by_name[name], rows[name]) for name in [*([] if target is None else [target]), *sensitive]
    }
    found += [one for name, some in classes.items() if some.left_out for one in _left_out(name, some)]
    leaks = [] if target is None else [c.name for c in _telling(rows, by_name[target], classes[target], asked, seed)]
    found += told(
        "leak", leaks,
        "{names} alone {predicts|predict} the target almost perfectly; if {it is|they are} not known before the "
        "decision, leave {it|them} out: --drop {first}.",
        "important", repeated("--drop", [name for name in leaks if name not in sensitive]),
    )  # fmt: skip
    blocks = dummy_blocks(rows, [column.name for column in features])
    found += [_one_feature(block, sensitive) for block in blocks]
    for name in sensitive:
        together = next((block.names for block in blocks if name in block.names), ())
        apart = {*sensitive, *leaks, *together}
        others = [column for column in asked if column.name not in apart]
        proxies = [column.name for column in _telling(rows, by_name[name], classes[name], others, seed)]
        found += told(
            "proxy", proxies,
            "{names} alone {gives|give} '{name}' away almost perfectly, so that a model that ignores '{name}' still "
            "knows it; leave {it|them} out (--drop {first}), or call {it|them} sensitive too.",
            "important", repeated("--drop", proxies), name=name,
        )  # fmt: skip
    gone = {name for finding in found for name in finding.columns if "--drop" in finding.options}
    left = [column for column in asked if column.name not in gone and column.values > 1]
    return [*found, *_alike(rows, left, sensitive), *_twice(rows, columns, target)]


# --- what has to be learnt ---


def _can_tell(column: Column) -> bool:
    return column.values > 1 and not (column.refused and not column.written)


@dataclass(frozen=True, eq=False)
class _Classes:
    """What is to be told of each row: the position of its value, −1 where it has none or a rare one."""

    values: np.ndarray
    left_out: dict[Any, int]
    """The rare values, each with its number of rows."""

    @property
    def several(self) -> bool:
        return bool(self.values.max(initial=-1) > 0)


def _telling(
    rows: pd.DataFrame, about: Column, classes: _Classes, columns: Sequence[Column], seed: int
) -> list[Column]:
    """The columns that tell almost everything about one, each alone, on rows not learnt from."""
    if not classes.several:
        return []
    positions = np.flatnonzero(classes.values >= 0)
    asked, values = [column for column in columns if column.name != about.name], classes.values[positions]
    for most, slack in ((FIRST, 0.05), (SAMPLE, 0.0)):
        chosen = _sample(values, most, seed)
        cells, folds = rows.iloc[positions[chosen]], spread_folds(values[chosen], seed)
        tells = [alone(c.name, _codes(c, cells[c.name]), values[chosen], folds) for c in asked]
        near = [tell.balanced_accuracy >= NEARLY - slack or tell.auc >= AREA - slack for tell in tells]
        asked = [c for c, tell, good in zip(asked, tells, near, strict=True) if tell.tells and good]
    return asked


def _classes(about: Column, column: pd.Series) -> _Classes:
    """The frequent values of a column; of a quantity, whether it is above the middle."""
    none = np.full(len(column), -1)
    known = column.notna().to_numpy()
    if about.values < 2 or (about.values > MOST_CLASSES and (not about.is_number or about.written)):
        return _Classes(none, {})
    if about.values > MOST_CLASSES:
        numbers = column[known].to_numpy(np.float64)
        values, names = (numbers > np.median(numbers)).astype(np.int64), [False, True]
    else:
        values, index = pd.factorize(column[known], sort=False)
        names = [plain(name) for name in index]
    counts = np.bincount(values, minlength=len(names))
    frequent = np.flatnonzero(counts >= LEAST)
    common = frequent[counts[frequent] >= LEAST_SHARE * len(values)]
    frequent = common if len(common) > 1 else frequent
    positions = np.full(len(names), -1)
    positions[frequent] = np.arange(len(frequent))
    none[known] = positions[values]
    rare = np.flatnonzero(positions < 0) if about.values <= MOST_CLASSES else np.zeros(0, np.int64)
    return _Classes(none, {names[place]: int(counts[place]) for place in rare})


def _one_feature(block: Block, sensitive: Sequence[str]) -> Finding:
    first = next((name for name in block.names if name in sensitive), None)
    more = "" if first is None else (
        f" '{first}' is sensitive, so that all of them change between twins; --combinations all keeps the others as "
        "they are."
    )  # fmt: skip
    return Finding("one feature", block.names, block.text + more)


def _left_out(name: str, classes: _Classes) -> list[Finding]:
    values = [
        f"{value!r} ({count:,} {'row' if count == 1 else 'rows'})"
        for value, count in classes.left_out.items() if count >= SHOWN_FROM or isinstance(value, bool)
    ]  # fmt: skip
    unnamed = len(classes.left_out) - len(values)  # names of few people may identify them
    if unnamed:
        values.append(f"{unnamed:,} {'value' if unnamed == 1 else 'values'} of fewer than {SHOWN_FROM} rows")
    rare = ", ".join(values) if len(values) < 2 else f"{', '.join(values[:-1])} and {values[-1]}"
    are, them = ("is", "it") if len(values) == 1 else ("are", "them")
    text = (
        "{names} has fewer than two frequent values: {rare} {are} rare. No search for columns that reveal {names} is "
    )
    text += "possible."
    if classes.several:
        text = "{rare} {are} rare in {names}; the search for columns that reveal {names} leaves {them} out."
    return told("rare values", [name], text, rare=rare, are=are, them=them)


def _sample(values: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Rows to learn from, of each value about as many: a rare one is not lost."""
    generator = np.random.default_rng([seed, 5])
    most = size // (int(values.max()) + 1)
    parts = [generator.permutation(np.flatnonzero(values == value))[:most] for value in range(int(values.max()) + 1)]
    return np.sort(np.concatenate(parts))


def _codes(column: Column, cells: pd.Series) -> np.ndarray:
    if column.is_number and not column.written:
        return binned(cells.to_numpy(np.float64, na_value=np.nan))
    return pd.factorize(cells.astype(object), use_na_sentinel=False)[0]


# --- what is there twice ---


def _alike(rows: pd.DataFrame, columns: Sequence[Column], sensitive: Sequence[str]) -> list[Finding]:
    """Columns that say the same, be it in other words."""
    chosen = np.sort(np.random.default_rng(6).permutation(len(rows))[:SAMPLE])
    groups: dict[tuple[int, int, bytes], list[str]] = {}
    for column in columns:
        codes = pd.factorize(rows[column.name].iloc[chosen], use_na_sentinel=False)[0]
        if codes.max() + 1 < len(codes):  # where all rows differ, any two such columns would be alike
            groups.setdefault((column.values, column.gaps, codes.tobytes()), []).append(column.name)
    found = list[Finding]()
    for names in groups.values():
        if len(names) == 1:
            continue
        first = pd.factorize(rows[names[0]], use_na_sentinel=False)[0]
        same = [n for n in names[1:] if np.array_equal(first, pd.factorize(rows[n], use_na_sentinel=False)[0])]
        if same:
            same = [names[0], *same]
            spare = [name for name in same if name not in sensitive][1 if not set(same) & set(sensitive) else 0 :]
            equal = all(rows[name].equals(rows[same[0]].rename(name)) for name in same)
            found += told(
                "same content", same,
                "{names} say the same in every row{how}; one of them is enough: --drop {spare}.",
                options=repeated("--drop", spare) if equal else (), how="" if equal else ", in other words",
                spare=spare[0] if spare else same[-1],
            )  # fmt: skip
    return found


def _twice(rows: pd.DataFrame, columns: Sequence[Column], target: str | None) -> list[Finding]:
    """Rows that are there more than once, where chance does not make them so."""
    possible = sum(math.log(max(column.values, 1) + bool(column.gaps)) for column in columns if column.name != target)
    if any(column.kind == "identifier" and column.values == len(rows) for column in columns):
        return []
    by_chance = math.exp(min(2 * math.log(len(rows)) - possible, 50.0)) / 2  # pairs, if all combinations were as likely
    with np.errstate(over="ignore"):
        keys = np.zeros(len(rows), np.uint64)
        for name in rows.columns:
            keys = keys * np.uint64(0x9E3779B97F4A7C15) + pd.util.hash_array(_hashable(rows[name]))
    count = len(keys) - len(np.unique(keys))
    if count < max(1, 0.001 * len(rows), by_chance):
        return []
    return [Finding(
        "duplicates", (),
        f"{count:,} {'row is' if count == 1 else 'rows are'} there more than once; if these are the same people, "
        "remove them: what is measured on rows kept aside would count rows that were trained on.",
    )]  # fmt: skip


def _hashable(cells: pd.Series) -> np.ndarray:
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return cells.to_numpy(np.float64, na_value=np.nan)
    return pd.factorize(cells, use_na_sentinel=False)[0]


def _column_json(column: Column) -> dict[str, Any]:
    facts = asdict(column)
    for name in ("decimal", "refused"):
        del facts[name]
    return facts | {"common": list(column.common)}
