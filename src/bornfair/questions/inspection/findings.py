"""What should somebody know about a table before training on it? One sentence for each finding, with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from bornfair.core.errors import plain
from bornfair.people.column_kinds import SHOWN_FROM, Column
from bornfair.people.inference import MOST_CATEGORIES
from bornfair.people.numbers import SEVERAL, is_constant, sentinels
from bornfair.report.formatting import percent

Weight = Literal["refused", "important", "note"]
"""Training refuses it unless told otherwise; it changes what a model is worth; or it is good to know."""

RARE = 0.05  # share of a class below which 0.5 is seldom the threshold people decide at
MOST_CLASSES = 20
LARGEST = float(np.finfo(np.float32).max)  # what a served model can be given
FEW_CODES = 12  # different whole numbers that may be codes


@dataclass(frozen=True)
class Finding:
    """Something to know about some columns."""

    kind: str
    columns: tuple[str, ...]
    text: str
    weight: Weight = "note"
    options: tuple[str, ...] = ()
    """What to add to the command that trains."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def named(names: Sequence[str], most: int = 6) -> str:
    """
    >>> named(["a", "b", "c"]), named(list("abcd"), most=2)
    ("'a', 'b' and 'c'", "'a', 'b' and 2 more")
    """
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > most:
        quoted = [*quoted[:most], f"{len(names) - most} more"]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def repeated(option: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for name in names for word in (option, name))


def plural(names: Sequence[object], one: str, several: str) -> str:
    return one if len(names) == 1 else several


# --- the features ---


def about_features(table: pd.DataFrame, features: Sequence[Column], sensitive: Sequence[str]) -> Iterator[Finding]:
    """What each feature is by itself; what is much alike is said once for all of them."""
    free = [column for column in features if column.name not in sensitive]
    yield from _useless(table, free)
    yield from _of_people(free)
    yield from _written_numbers(features)
    yield from _unusable_numbers(table, features)
    for column in features:
        if (
            column.is_number
            and not column.written
            and column.most >= SEVERAL
            and (codes := sentinels(table[column.name]))
        ):
            yield _sentinels(table[column.name], codes)
    yield from _rare_categories(table, features, sensitive)
    if gappy := [column for column in free if column.gaps and column.kind != "empty" and not column.refused]:
        worst = max(gappy, key=lambda column: column.gaps)
        names = [column.name for column in gappy]
        yield Finding(
            "gaps", tuple(names),
            f"{named(names)} {plural(names, 'has', 'have')} gaps (up to {_share(worst.gaps, len(table))} of the rows); "
            "training takes a gap for a value of its own; if it means nothing, have gaps filled with the median or the "
            "most frequent value: --missing impute.",
        )  # fmt: skip
    coded = [c.name for c in free if c.kind == "whole number" and 2 < c.values <= FEW_CODES and not c.written]
    if coded:
        yield Finding(
            "codes", tuple(coded),
            f"{named(coded)} {plural(coded, 'holds', 'hold')} few whole numbers; where they are codes without an "
            f"order, say so: --categorical {coded[0]}.",
        )  # fmt: skip
    unclear = [c.name for c in free if _all_differ(c, len(table))]
    if unclear:
        yield Finding(
            "distinct", tuple(unclear),
            f"{named(unclear)} {plural(unclear, 'holds', 'hold')} another whole number in nearly every row; if that is "
            f"an identifier and no measurement, leave it out: --drop {unclear[0]}.",
        )  # fmt: skip


def _rare_categories(table: pd.DataFrame, features: Sequence[Column], sensitive: Sequence[str]) -> Iterator[Finding]:
    """How many categories of each column have few rows. Their names are not part of it: they may identify people."""
    rare = {
        column.name: int((counts.between(1, SHOWN_FROM - 1)).sum())
        for column in features if column.kind == "category" and not column.refused
        for counts in [table[column.name].value_counts()]
    }  # fmt: skip
    if not (names := [name for name, count in rare.items() if count]):
        return
    listed = ", ".join(f"{rare[name]:,} in '{name}'" for name in names)
    stay = [name for name in names if name in sensitive]
    but = f" Those of {named(stay)} stay, because {plural(stay, 'it is', 'they are')} sensitive." if stay else ""
    yield Finding(
        "rare categories", tuple(names),
        f"categories of fewer than {SHOWN_FROM} rows: {listed}. A model stores their names, which may identify people; "
        f"to leave them out, train with --least-count {SHOWN_FROM}.{but}",
    )  # fmt: skip


def _useless(table: pd.DataFrame, free: Sequence[Column]) -> Iterator[Finding]:
    empty = [column.name for column in free if column.kind == "empty"]
    if empty:
        yield Finding(
            "empty", tuple(empty),
            f"{named(empty)} {plural(empty, 'has', 'have')} no values at all; leave {plural(empty, 'it', 'them')} out: "
            f"--drop {empty[0]}.",
            "important", repeated("--drop", empty),
        )  # fmt: skip
    rows = len(table)
    constant = [c.name for c in free if c.kind != "empty" and _is_constant(table, c)]
    nearly = [
        c.name for c in free
        if c.kind != "empty" and c.name not in constant and rows - c.gaps - c.most <= max(2, 0.005 * rows) and rows > 50
        and not c.gaps > rows / 2
    ]  # fmt: skip
    if constant:
        yield Finding(
            "constant", tuple(constant),
            f"{named(constant)} {plural(constant, 'has', 'have')} the same value in all rows and "
            f"{plural(constant, 'tells', 'tell')} nothing; leave {plural(constant, 'it', 'them')} out: "
            f"--drop {constant[0]}.",
            "important", repeated("--drop", constant),
        )  # fmt: skip
    if nearly:
        yield Finding(
            "nearly constant", tuple(nearly),
            f"{named(nearly)} {plural(nearly, 'has', 'have')} the same value in nearly all rows; what the few others "
            f"tell is luck, so consider --drop {nearly[0]}.",
        )  # fmt: skip


def _is_constant(table: pd.DataFrame, column: Column) -> bool:
    """Numbers may differ by rounding; of everything else the number of values says it."""
    return column.values == 1 or (column.kind == "decimal" and not column.written and is_constant(table[column.name]))


def _of_people(free: Sequence[Column]) -> Iterator[Finding]:
    """Texts, identifiers and dates: each kind in one sentence, without any of their values."""
    sayings = {
        "identifier": ("identifies", "identify", "single people or rows ({what}), from whom nothing general is learnt"),
        "text": ("holds", "hold", "names, addresses or free text, which are about single people"),
        "date": ("holds", "hold", "dates, which a network cannot read; make a number of each (a year, an age, days)"),
    }
    for kind, (one, several, saying) in sayings.items():
        found = [column for column in free if column.kind == kind and column.refused]
        if not found:
            continue
        names = [column.name for column in found]
        what = saying.format(what=", ".join(dict.fromkeys(column.what for column in found)))
        link = ", or leave" if kind == "date" else "; leave"
        yield Finding(
            kind, tuple(names),
            f"{named(names)} {plural(names, one, several)} {what}{link} {plural(names, 'it', 'them')} out: "
            f"--drop {names[0]}.",
            "refused", repeated("--drop", names),
        )  # fmt: skip


def _written_numbers(features: Sequence[Column]) -> Iterator[Finding]:
    """Numbers that came as texts, by how they are written."""
    points = any(column.kind == "decimal" and not column.written for column in features)
    for written in dict.fromkeys(column.written for column in features if column.written):
        found = [column for column in features if column.written == written]
        names = [column.name for column in found]
        if written == "numbers with decimal commas" and not points:
            options: tuple[str, ...] = ("--decimal", ",")
            advice = "read the file with --decimal ','"
        else:
            options = repeated("--numeric", names)
            advice = f"read {plural(names, 'it', 'them')} as numbers: --numeric {names[0]}"
            if written.startswith("numbers beside"):
                advice += " (these count as gaps then)"
        weight: Weight = "refused" if any(column.refused for column in found) else "important"
        text = f"{named(names)} {plural(names, 'holds', 'hold')} {written}, taken for texts; {advice}."
        yield Finding("numbers as text", tuple(names), text, weight, options)


def _unusable_numbers(table: pd.DataFrame, features: Sequence[Column]) -> Iterator[Finding]:
    """Numbers that no model can be served."""
    for column in features:
        if not column.is_number or column.written:
            continue
        numbers = table[column.name].dropna().to_numpy(np.float64)
        if len(odd := numbers[~(np.abs(numbers) <= LARGEST)]):
            yield Finding(
                "too large", (column.name,),
                f"'{column.name}' holds {odd[0]:g}; numbers must be finite and at most 3.4e38 in size: correct it, or "
                "leave the row out.",
                "refused",
            )  # fmt: skip


def _sentinels(column: pd.Series, codes: Sequence[float]) -> Finding:
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    rest = numbers[~np.isin(numbers, codes) & np.isfinite(numbers)]
    values = " and ".join(f"{code:.15g} ({int((numbers == code).sum()):,} rows)" for code in codes)
    return Finding(
        "sentinel", (str(column.name),),
        f"'{column.name}' holds {values}, far from the others ({rest.min():.15g} to {rest.max():.15g}); if that means "
        "'unknown', empty those cells: a gap is learnt as a value of its own.",
        "important",
    )  # fmt: skip


def _all_differ(column: Column, rows: int) -> bool:
    """Whole numbers that are suspiciously different, where nothing else tells that they identify the rows."""
    if column.kind != "whole number" or column.written or rows < 200:
        return False
    return column.values >= 0.999 * (rows - column.gaps) and column.high - column.low > 10 * rows


# --- target and sensitive features ---


def about_target(target: Column, answers: pd.Series) -> Iterator[Finding]:
    """Whether the answers are classes, and how often each occurs."""
    name, rows = target.name, len(answers)
    if target.gaps:
        yield Finding(
            "target", (name,),
            f"the target '{name}' has gaps in {_share(target.gaps, rows)} of the rows; leave those rows out with "
            "--unlabelled drop.",
            "refused", ("--unlabelled", "drop"),
        )  # fmt: skip
    if target.values < 2:
        class_ = [repr(plain(value)) for value in answers.dropna().unique()]
        only = f"one class only, {class_[0]}, in all {rows - target.gaps:,} rows" if class_ else "no values at all"
        yield Finding(
            "target", (name,),
            f"the target '{name}' has {only}; a classifier needs at least two.",
            "refused",
        )  # fmt: skip
    elif target.values > MOST_CLASSES:
        numbers = target.is_number or target.kind in ("date", "identifier")
        what = "values; it looks like a quantity" if numbers else "different values"
        do = "make classes of it (above a limit or not)" if numbers else "group them into a few classes"
        refused = numbers or target.values > MOST_CATEGORIES
        other = "name another column with --target"
        if numbers and target.kind != "decimal" and target.values <= MOST_CATEGORIES:
            other += f", or confirm with --categorical {name} that each value is a class"
        text = f"the target '{name}' has {target.values:,} {what}; {do}, or {other}."
        yield Finding("target", (name,), text, "refused" if refused else "important")
    else:
        counts = answers.value_counts()
        rarest, share = counts.index[-1], counts.iloc[-1] / counts.sum()
        if share < RARE:
            about = repr(plain(rarest)) if counts.iloc[-1] >= SHOWN_FROM else "one value"  # it may identify people
            yield Finding(
                "rare class", (name,),
                f"{about} is the answer in {_share(int(counts.iloc[-1]), int(counts.sum()))} of the rows, "
                "so that at a probability of 0.5 hardly anybody is decided so; name your own cut-off (--threshold).",
                "important",
            )  # fmt: skip


def about_sensitive(table: pd.DataFrame, columns: Sequence[Column]) -> Iterator[Finding]:
    for column in columns:
        if column.values < 2:
            yield Finding(
                "sensitive", (column.name,),
                f"the sensitive column '{column.name}' has {column.values or 'no'} value, so nobody has a twin; name "
                "another one with --sensitive.",
                "refused",
            )  # fmt: skip
        elif column.gaps:
            yield Finding(
                "sensitive", (column.name,),
                f"the sensitive column '{column.name}' has gaps in {_share(column.gaps, len(table))} of the rows; a "
                "fair model is trained without knowing them, but whom a model treats worse cannot be told of these "
                "people, so fill them if you can.",
                "important",
            )  # fmt: skip


def _share(count: int, rows: int) -> str:
    return percent(count / rows).replace("\xa0", " ")
