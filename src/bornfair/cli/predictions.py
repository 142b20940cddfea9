"""What predictions look like as rows of a CSV file, and what is said beside them."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bornfair.cli.output import quality_rows, say
from bornfair.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from bornfair.people.domain import Domain

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
FOR_ARROW = 1_000  # rows for which pyarrow is worth loading
PLAIN_FROM = 1e-4  # below, Python writes an exponent
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def unseen_counts(domain: Domain, people: pd.DataFrame) -> dict[str, int]:
    """In which columns, and how often, there are categories that the model does not know."""
    from bornfair.people.features import NUMERIC
    from bornfair.people.levels import unseen_count

    return {
        feature.name: unseen_count(feature, people[feature.name])
        for feature in domain.free_features
        if not isinstance(feature, NUMERIC)
    }


def say_unseen(counts: dict[str, int], rows: int) -> None:
    found = [f"'{name}' in {count:,} of {rows:,} rows" for name, count in counts.items() if count]
    if found:
        say(f"bornfair: note: categories that training has not seen count as none of those it has: {', '.join(found)}.")


def quality_of(model: Any, people: pd.DataFrame, decided: list[Any]) -> dict[str, Any] | None:
    """How good the decisions are on the rows whose label the table holds; None if it holds none that are classes."""
    from bornfair.models.metrics import quality
    from bornfair.people.levels import places_among

    label = model.domain.label
    if label is None or label.name not in people.columns:
        return None
    places = places_among(people[label.name].astype(object).to_numpy(), list(label.classes))
    known = [place for place, at in enumerate(places) if at >= 0]
    if not known:
        return None
    truth = [label.classes[places[place]] for place in known]
    return {"rows": len(known), **quality(truth, [decided[place] for place in known])}


def say_quality(figures: dict[str, Any] | None) -> None:
    if figures is None:
        return
    from bornfair.models.metrics import quality_warning

    told = ", ".join(f"{name} {value}" for name, value in quality_rows(figures))
    say(f"bornfair: note: on the {figures['rows']:,} rows with a label: {told}.")
    if text := quality_warning(figures):
        say(f"bornfair: warning: {text}")


def known_by(people: pd.DataFrame, names: list[str]) -> dict[str, list[Any]]:
    """The columns that rows are known by."""
    from bornfair.core.errors import plain
    from bornfair.people.features import unknown_column

    found: dict[str, list[Any]] = {}
    for name in names:
        if name not in people.columns:
            raise InputError(unknown_column(name, [str(column) for column in people.columns]))
        column = people[name]
        missing = column.isna().to_numpy()
        found[name] = [None if gone else _cell(plain(value)) for value, gone in zip(column, missing, strict=True)]
    return found


def _cell(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def no_formula(text: str) -> str:
    """A text that no spreadsheet runs.

    >>> no_formula("=1+1"), no_formula("@sum"), no_formula("-1.5"), no_formula("a=b")
    ("'=1+1", "'@sum", '-1.5', 'a=b')
    """
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def csv_text(
    known: dict[str, list[Any]],
    positions: np.ndarray,
    shares: np.ndarray,
    classes: list[Any],
    written: Callable[[str], str],
    *,
    header: bool = True,
) -> str:
    """The predictions as a CSV file, or as more rows of one; `positions` are those of the decided classes."""

    texts = itertools.chain(classes, known, *known.values())
    broken = any("\r" in str(text) for text in texts)  # the csv module would leave it bare, and begin a new row
    quoting: Any = csv.QUOTE_NONNUMERIC if broken else csv.QUOTE_MINIMAL
    text = io.StringIO()
    writer = csv.writer(text, quoting=quoting, lineterminator="\n")
    if header:
        names = [*known, "prediction", *(f"probability_{name}" for name in classes)]
        writer.writerow([written(name) for name in names])
    if not broken and (rows := _rows_by_arrow(known, positions, shares, classes, written)) is not None:
        return text.getvalue() + rows
    columns = [*known.values(), [classes[position] for position in positions]]
    writer.writerows(zip(*(_cells(column, written, str) for column in columns), *_numbers(shares), strict=True))
    return text.getvalue()


def _cells(column: list[Any], written: Callable[[str], str], quoted: Callable[[str], str]) -> list[Any]:
    texts = {cell: quoted(written(cell)) for cell in set(column) if isinstance(cell, str)}
    return [texts.get(cell, cell) for cell in column] if texts else column


def _numbers(shares: np.ndarray) -> list[list[float]]:
    """The columns, each number in as few digits as tell it apart in its own precision."""
    if shares.dtype == "float64":
        return shares.T.tolist()
    return [[float(text) for text in column.astype(str)] for column in shares.T]


def _rows_by_arrow(
    known: dict[str, list[Any]],
    positions: np.ndarray,
    shares: np.ndarray,
    classes: list[Any],
    written: Callable[[str], str],
) -> str | None:
    """The rows as the csv module writes them, several times as fast; None without pyarrow, or of few rows."""
    if len(shares) < FOR_ARROW or shares.dtype != "float64":
        return None
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
    except ImportError:
        return None

    def texts(column: list[Any]) -> Any:
        cells = _cells(column, written, _quoted)
        if set(map(type, cells)) != {str}:
            cells = ["" if cell is None else str(cell) for cell in cells]
        return pa.array(cells, pa.string())

    columns = [*map(texts, known.values()), texts(classes).take(pa.array(positions))]
    for share in shares.T:
        text = pc.cast(pa.array(share), pa.string())
        other = ~((share >= PLAIN_FROM) & (share < 1))  # written otherwise by Python
        if other.any():
            text = pc.replace_with_mask(text, pa.array(other), pa.array(list(map(repr, share[other].tolist()))))
        columns.append(text)
    parts = itertools.chain.from_iterable((column, ",") for column in columns)
    lines = pc.binary_join_element_wise(*list(parts)[:-1], "\n", "")
    _, ends, content = lines.buffers()
    size = int(memoryview(ends).cast("i")[len(lines)])
    return str(memoryview(content)[:size], "utf-8")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\n') else text
