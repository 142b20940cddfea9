"""A report as people hold it: show it in a notebook, save it as HTML, Markdown or JSON."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from bornfair.core.errors import InputError, plain, shown
from bornfair.core.files import write_atomically
from bornfair.models.verdict import Verdict
from bornfair.quantification.records import Affected, Confident, Estimate, Group, People, Shares
from bornfair.report.blocks import Contents
from bornfair.report.facts import Comparison, Document
from bornfair.report.html_page import html_page
from bornfair.report.markdown import markdown_card
from bornfair.report.sections import contents_of, contents_of_comparison

FORMAT = "bornfair-report/1"


def to_html(document: Document | Comparison) -> str:
    """One self-contained HTML file; the same document gives the same bytes."""
    return html_page(_contents(document))


def to_markdown(document: Document | Comparison) -> str:
    """A model card in GitHub's Markdown."""
    return markdown_card(_contents(document))


def to_json(document: Document | Comparison) -> dict[str, Any]:
    """The document as JSON holds it; `from_json` reads it back."""
    return {"format": FORMAT, **_plain(document, "document")}


def from_json(data: Mapping[str, Any]) -> Document | Comparison:
    """The document that `to_json` wrote."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, Mapping) else type(data).__name__
        raise InputError(f"format: found {found!r}; a report's JSON form says '{FORMAT}'.")
    facts = {name: value for name, value in data.items() if name != "format"}
    return _record(Comparison if "models" in facts else Document, facts, "report")


@dataclass(frozen=True)
class Report:
    """A document, ready to be looked at.

    >>> from bornfair.models.verdict import Verdict
    >>> report = Report(Document(Verdict("undecided", "none", "bounds", (), "the time is up")))
    >>> report
    Report('Undecided: whether the sensitive value can change a decision is neither proven nor disproven.')
    """

    document: Document | Comparison

    @property
    def documents(self) -> tuple[Document, ...]:
        """One for each model."""
        return self.document.models if isinstance(self.document, Comparison) else (self.document,)

    def to_html(self) -> str:
        return to_html(self.document)

    def to_markdown(self) -> str:
        return to_markdown(self.document)

    def to_json(self) -> dict[str, Any]:
        return to_json(self.document)

    def save(self, path: str | Path) -> Path:
        """Write it; the name's ending says how: .html, .md or .json."""
        target = Path(path)
        ways = {
            ".html": self.to_html,
            ".htm": self.to_html,
            ".md": self.to_markdown,
            ".json": lambda: json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n",
        }
        ending = target.suffix.lower()
        if ending not in ways:
            raise InputError(f"'{target}' ends in '{ending}'; a report is saved as .html, .md or .json.")
        # Half of a surrogate pair, which no file can hold, is possible in names that came through JSON.
        return write_atomically(target, ways[ending]().encode("utf-8", "backslashreplace"))

    def _repr_html_(self) -> str:
        """For notebooks: a page of its own inside a frame, so that no style leaks out of it or into it."""
        page = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" title="Fairness report" sandbox="" loading="lazy" '
            'style="width: 100%; height: 46rem; border: 1px solid #8886; border-radius: 6px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Report({_contents(self.document).headline!r})"


def _contents(document: Document | Comparison) -> Contents:
    return contents_of_comparison(document) if isinstance(document, Comparison) else contents_of(document)


# --- records as JSON and back ---


def _same(*names: str) -> dict[str, str]:
    return dict(zip(names, names, strict=True))


NAMES = {
    Estimate: _same("unfair", "low", "high", "confidence", "samples"),
    Confident: _same("low", "high", "confidence", "samples"),
    Shares: _same("certified", "falsified", "undecided", "estimate", "confident", "boxes", "seconds", "over", "asked"),
    Group: {"text": "text", "covers": "share", "unfair_inside": "inside", "holds": "contains"},
    Affected: {**_same("row", "person", "twin", "decisions", "gap"), "undo": "undo_text"},
    People: _same("rows", "unfair", "most_affected", "source", "values", "left_out"),
    Verdict: {"verdict": "answer"} | _same(*(one.name for one in dataclasses.fields(Verdict) if one.name != "answer")),
}
"""What JSON says of quantification's records: its name for each of their attributes. It holds other records whole."""

OVER = {"uniform": "uniform domain", "data": "marginals"}  # how people are weighted, in the words of JSON


def _shares(
    certified: float, falsified: float, undecided: float, boxes: int | None = None, seconds: float | None = None,
    over: str = OVER["uniform"], **others: Any,
) -> Shares:  # fmt: skip
    weighted: Any = {words: name for name, words in OVER.items()}.get(over, over)
    found = Shares(certified, falsified, boxes=boxes, seconds=seconds, over=weighted, **others)
    if not abs(found.undecided - undecided) <= 1e-9:
        total = certified + falsified + undecided
        raise InputError(f"certified, falsified and undecided shares sum to 1, found {total!r}; give all three.")
    return found


def _affected(undo: str | None = None, **others: Any) -> Affected:
    return Affected(undo=str(undo or ""), **others)


READERS: dict[type, Any] = {Estimate: partial(Estimate, confidence=0.95), Shares: _shares, Affected: _affected}
"""How records are made from JSON that leaves fields out, where a default of theirs would say more than it does."""


def _plain(value: Any, where: str) -> Any:
    """Records become objects, tuples lists, NumPy's numbers plain ones; what JSON cannot hold is refused by name."""
    value = plain(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = NAMES.get(type(value)) or _same(*(declared.name for declared in dataclasses.fields(value)))
        found = {name: _plain(getattr(value, own), f"{where}.{name}") for name, own in names.items()}
        return found | {"over": OVER.get(value.over, value.over)} if isinstance(value, Shares) else found
    if isinstance(value, Mapping):
        return {str(name): _plain(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or (isinstance(value, (int, float, str)) and value not in (math.inf, -math.inf)):
        return value
    raise InputError(
        f"{where}: {value!r} is a {type(value).__name__}, which JSON cannot hold; give a number or a text."
    )


def _record(kind: Any, data: Any, where: str) -> Any:
    """A value of the declared type from what JSON holds."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is types.UnionType:  # a record or nothing; other kinds are held by JSON as they are
        inner = [argument for argument in arguments if argument is not types.NoneType]
        return data if data is None or len(inner) > 1 else _record(inner[0], data, where)
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise InputError(f"{where}: found {data!r}; give a list.")
        return tuple(_record(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return data
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: found {data!r}; give an object with the fields of {kind.__name__}.")
    hints = get_type_hints(kind)
    names = NAMES.get(kind) or _same(*hints)
    if unknown := [name for name in data if name not in names]:
        raise InputError(f"{where}: {shown(unknown)} is not a field of it; the fields are {shown(names, most=30)}.")
    given = {}
    for name, item in data.items():
        own = names[name] if names[name] in hints else name  # a record works out some attributes itself
        given[own] = _record(hints.get(own), item, f"{where}.{name}")
    try:
        return READERS.get(kind, kind)(**given)
    except TypeError as error:
        raise InputError(f"{where}: {error}; give every field that has no default.") from error
