"""Findings about a table before training: one sentence each, with what to do."""

from __future__ import annotations

import re
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
_AGREEING = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")  # "{holds|hold}" in a text about columns


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


def told(
    kind: str, names: Sequence[str], text: str, weight: Weight = "note", options: Sequence[str] = (), **facts: object
) -> list[Finding]:
    """A finding about these columns, if there are any. Its text is a template over `names`, the `first` of them, and
    further facts; words such as {holds|hold} agree with the number of columns.

    >>> told("empty", ["a"], "{names} {has|have} no values; leave {it|them} out: --drop {first}.")[0].text
    "'a' has no values; leave it out: --drop a."
    """
    if not names:
        return []
    agreed = _AGREEING.sub(lambda words: words[1 if len(names) == 1 else 2], text)
    filled = agreed.format(names=named(names), first=names[0], **facts)
    return [Finding(kind, tuple(names), filled, weight, tuple(options))]


# --- the features ---


def about_features(table: pd.DataFrame, features: Sequence[Column], sensitive: Sequence[str]) -> Iterator[Finding]:
    """What each feature is by itself; what is much alike is said once for all of them."""
    free = [column for column in features if column.name not in sensitive]
    yield from _useless(table, free)
    yield from _of_people(free)
    yield from _written_numbers(features)
    numbers = [column for column in features if column.is_number and not column.written]
    for column in numbers:
        values = table[column.name].dropna().to_numpy(np.float64)
        if len(odd := values[~(np.abs(values) <= LARGEST)]):
            yield from told(
                "too large", [column.name],
                "{names} holds {odd:g}; numbers must be finite and at most 3.4e38 in size: correct it, or leave the "
                "row out.", "refused", odd=odd[0],
            )  # fmt: skip
    for column in numbers:
        if column.most >= SEVERAL and (codes := sentinels(table[column.name])):
            yield from _sentinels(table[column.name], codes)
    yield from _rare_categories(table, features, sensitive)
    gappy = [column for column in free if column.gaps and column.kind != "empty" and not column.refused]
    yield from told(
        "gaps", [column.name for column in gappy],
        "{names} {has|have} gaps (up to {most} of the rows); training takes a gap for a value of its own; if it means "
        "nothing, have gaps filled with the median or the most frequent value: --missing impute.",
        most=_share(max((column.gaps for column in gappy), default=0), len(table)),
    )  # fmt: skip
    whole = [column for column in free if column.kind == "whole number" and not column.written]
    yield from told(
        "codes", [column.name for column in whole if 2 < column.values <= FEW_CODES],
        "{names} {holds|hold} few whole numbers; where they are codes without an order, say so: --categorical {first}.",
    )  # fmt: skip
    yield from told(
        "distinct", [column.name for column in whole if _all_differ(column, len(table))],
        "{names} {holds|hold} another whole number in nearly every row; if that is an identifier and no measurement, "
        "leave it out: --drop {first}.",
    )  # fmt: skip


def _rare_categories(table: pd.DataFrame, features: Sequence[Column], sensitive: Sequence[str]) -> list[Finding]:
    """How many categories of each column have few rows. Their names are not part of it: they may identify people."""
    columns = [column.name for column in features if column.kind == "category" and not column.refused]
    counts = {name: int(table[name].value_counts().between(1, SHOWN_FROM - 1).sum()) for name in columns}
    rare = {name: count for name, count in counts.items() if count}
    stay = [name for name in rare if name in sensitive]
    its = "it is" if len(stay) == 1 else "they are"
    return told(
        "rare categories", list(rare),
        "categories of fewer than {least} rows: {listed}. A model stores their names, which may identify people; "
        "to leave them out, train with --least-count {least}.{but}",
        least=SHOWN_FROM, listed=", ".join(f"{count:,} in '{name}'" for name, count in rare.items()),
        but=f" Those of {named(stay)} stay, because {its} sensitive." if stay else "",
    )  # fmt: skip


def _useless(table: pd.DataFrame, free: Sequence[Column]) -> Iterator[Finding]:
    rows = len(table)
    empty = [column.name for column in free if column.kind == "empty"]
    filled = [column for column in free if column.kind != "empty"]
    constant = [c.name for c in filled if _is_constant(table, c)]
    nearly = [
        c.name for c in filled
        if c.name not in constant and rows - c.gaps - c.most <= max(2, 0.005 * rows) and rows > 50
        and not c.gaps > rows / 2
    ]  # fmt: skip
    yield from told(
        "empty", empty, "{names} {has|have} no values at all; leave {it|them} out: --drop {first}.",
        "important", repeated("--drop", empty),
    )  # fmt: skip
    yield from told(
        "constant", constant,
        "{names} {has|have} the same value in all rows and {tells|tell} nothing; leave {it|them} out: --drop {first}.",
        "important", repeated("--drop", constant),
    )  # fmt: skip
    yield from told(
        "nearly constant", nearly,
        "{names} {has|have} the same value in nearly all rows; what the few others tell is luck, so consider "
        "--drop {first}.",
    )  # fmt: skip


def _is_constant(table: pd.DataFrame, column: Column) -> bool:
    """Numbers may differ by rounding; of everything else the number of values says it."""
    return column.values == 1 or (column.kind == "decimal" and not column.written and is_constant(table[column.name]))


def _of_people(free: Sequence[Column]) -> Iterator[Finding]:
    """Texts, identifiers and dates: each kind in one sentence, without any of their values."""
    sayings = {
        "identifier": "{identifies|identify} single people or rows ({what}), from whom nothing general is learnt;",
        "text": "{holds|hold} names, addresses or free text, which are about single people;",
        "date": "{holds|hold} dates, which a network cannot read; make a number of each (a year, an age, days), or",
    }
    for kind, saying in sayings.items():
        found = [column for column in free if column.kind == kind and column.refused]
        names = [column.name for column in found]
        yield from told(
            kind, names, f"{{names}} {saying} leave {{it|them}} out: --drop {{first}}.", "refused",
            repeated("--drop", names), what=", ".join(dict.fromkeys(column.what for column in found)),
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
            advice = "read {it|them} as numbers: --numeric {first}"
            if written.startswith("numbers beside"):
                advice += " (these count as gaps then)"
        weight: Weight = "refused" if any(column.refused for column in found) else "important"
        text = "{names} {holds|hold} {written}, taken for texts; "
        yield from told("numbers as text", names, f"{text}{advice}.", weight, options, written=written)


def _sentinels(column: pd.Series, codes: Sequence[float]) -> list[Finding]:
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    rest = numbers[~np.isin(numbers, codes) & np.isfinite(numbers)]
    return told(
        "sentinel", [str(column.name)],
        "{names} holds {values}, far from the others ({low:.15g} to {high:.15g}); if that means 'unknown', empty those "
        "cells: a gap is learnt as a value of its own.", "important",
        values=" and ".join(f"{code:.15g} ({int((numbers == code).sum()):,} rows)" for code in codes),
        low=rest.min(), high=rest.max(),
    )  # fmt: skip


def _all_differ(column: Column, rows: int) -> bool:
    """Whole numbers that are suspiciously different, where nothing else tells that they identify the rows."""
    return rows >= 200 and column.values >= 0.999 * (rows - column.gaps) and column.high - column.low > 10 * rows


# --- target and sensitive features ---


def about_target(target: Column, answers: pd.Series) -> Iterator[Finding]:
    """Whether the answers are classes, and how often each occurs."""
    name, rows = [target.name], len(answers)
    if target.gaps:
        yield from told(
            "target", name,
            "the target {names} has gaps in {share} of the rows; leave those rows out with --unlabelled drop.",
            "refused", ("--unlabelled", "drop"), share=_share(target.gaps, rows),
        )  # fmt: skip
    if target.values < 2:
        class_ = [repr(plain(value)) for value in answers.dropna().unique()]
        only = f"one class only, {class_[0]}, in all {rows - target.gaps:,} rows" if class_ else "no values at all"
        text = "the target {names} has {only}; a classifier needs at least two."
        yield from told("target", name, text, "refused", only=only)
    elif target.values > MOST_CLASSES:
        numbers = target.is_number or target.kind in ("date", "identifier")
        what = "values; it looks like a quantity" if numbers else "different values"
        do = "make classes of it (above a limit or not)" if numbers else "group them into a few classes"
        refused = numbers or target.values > MOST_CATEGORIES
        other = "name another column with --target"
        if numbers and target.kind != "decimal" and target.values <= MOST_CATEGORIES:
            other += ", or confirm with --categorical {first} that each value is a class"
        text = f"the target {{names}} has {target.values:,} {what}; {do}, or {other}."
        yield from told("target", name, text, "refused" if refused else "important")
    else:
        counts = answers.value_counts()
        rarest, most, total = counts.index[-1], int(counts.iloc[-1]), int(counts.sum())
        if most / total < RARE:
            yield from told(
                "rare class", name,
                "{about} is the answer in {share} of the rows, so that at a probability of 0.5 hardly anybody is "
                "decided so; name your own cut-off (--threshold).", "important", share=_share(most, total),
                about=repr(plain(rarest)) if most >= SHOWN_FROM else "one value",  # it may identify people
            )  # fmt: skip


def about_sensitive(table: pd.DataFrame, columns: Sequence[Column]) -> Iterator[Finding]:
    for column in columns:
        if column.values < 2:
            yield from told(
                "sensitive", [column.name],
                "the sensitive column {names} has {values} value, so nobody has a twin; name another one with "
                "--sensitive.", "refused", values=column.values or "no",
            )  # fmt: skip
        elif column.gaps:
            yield from told(
                "sensitive", [column.name],
                "the sensitive column {names} has gaps in {share} of the rows; a fair model is trained without knowing "
                "them, but whom a model treats worse cannot be told of these people, so fill them if you can.",
                "important", share=_share(column.gaps, len(table)),
            )  # fmt: skip


def _share(count: int, rows: int) -> str:
    return percent(count / rows).replace("\xa0", " ")
