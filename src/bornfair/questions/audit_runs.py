"""Audits of several models side by side, which go on where they stopped, and the facts that let one be repeated.

What was found of each model is kept in a folder, in a file named by all that determines it: the model's bytes, the
table, the question and the software. An audit with the same name is not repeated; any change gives another name.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from bornfair import __version__
from bornfair.core.clock import Clock
from bornfair.core.errors import InputError
from bornfair.core.files import write_atomically
from bornfair.parallel import ALONE, Workers
from bornfair.people.domain import Domain
from bornfair.questions import Question
from bornfair.report.facts import Comparison, Document
from bornfair.report.report import from_json, to_json


def all_of(
    sources: Mapping[Any, Any],
    ask: Callable[[tuple[str, Any]], Document | InputError],
    workers: Workers,
    kept: Kept,
    clock: Clock,
) -> list[Document]:
    """What is found of each model, in their order; each is kept as it comes, and said. The first that cannot be asked
    is raised at the end, so that the others are not lost by it. One after the other, each has the time of the first.
    """
    names, models, say = [str(name) for name in sources], list(sources.values()), clock.listener or (lambda text: None)
    known = {i: kept.document(name, model) for i, (name, model) in enumerate(zip(names, models, strict=True))}
    found: dict[int, Document | InputError] = {i: one for i, one in known.items() if one is not None}
    if found:
        say(f"{len(found)} of {len(names)} models were audited before, in {kept.folder}")
    left, began = [i for i in range(len(names)) if i not in found], clock.now()

    def asked() -> Iterator[tuple[str, Any]]:
        for turn, i in enumerate(left):
            if workers is ALONE and len(names) > 1:
                say(f"--- {names[i]}")
            if workers is ALONE and turn:
                clock.restart()
            yield names[i], located(models[i])

    for done, (turn, document) in enumerate(workers.finished(ask, asked()), 1):
        i = left[turn]
        found[i] = document
        if isinstance(document, InputError):
            said = str(document)
        else:
            kept.keep(names[i], models[i], document)
            said = document.verdict.answer
        if len(names) > 1:
            rest = (clock.now() - began) / done * (len(left) - done)
            say(f"[{done} of {len(left)}, about {rest / 60:.1f} min left] {names[i]}: {said}")
    documents = []
    for _, one in sorted(found.items()):
        if isinstance(one, InputError):
            raise one
        documents.append(one)
    return documents


def located(source: Any) -> Any:
    """A file by its whole path, for whoever works in another folder; anything else as it is."""
    return Path(source).absolute() if isinstance(source, (str, Path)) and Path(source).exists() else source


class Kept:
    """Documents in a folder; with no folder nothing is kept."""

    def __init__(self, folder: str | Path | None, question: Mapping[str, Any]) -> None:
        self.folder = None if folder is None else Path(folder)
        self._question = json.dumps([__version__, question], sort_keys=True, default=str)

    @staticmethod
    def of(folder: str | Path | None, table: Any, question: Mapping[str, Any]) -> Kept:
        """For these people and whatever else is asked."""
        if folder is None:
            return Kept(None, {})
        asked = {name: _known_by(value) for name, value in question.items() if name != "table"}
        return Kept(folder, {**asked, "table": _known_by(table, table=True)})

    def document(self, name: str, source: Any) -> Document | None:
        """What was found of this model, if it was asked the same before."""
        file = self._file(name, source)
        if file is None or not file.is_file():
            return None
        try:
            found = from_json(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, InputError) as error:
            raise InputError(f"'{file}' is not what an audit keeps ({error}); delete it to ask again.") from error
        if isinstance(found, Comparison):
            raise InputError(f"'{file}' is a report on several models; delete it to ask again.")
        return found

    def keep(self, name: str, source: Any, document: Document) -> None:
        file = self._file(name, source)
        if file is not None:
            write_atomically(file, json.dumps(to_json(document)) + "\n")

    def _file(self, name: str, source: Any) -> Path | None:
        """Where a model's document is; None for what has no bytes to know it by again."""
        if self.folder is None or not isinstance(source, (str, Path)):
            return None
        place = Path(source)
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        found = hashlib.sha256(self._question.encode())
        for file in files:
            if file.is_file():
                found.update(file.relative_to(place.parent).as_posix().encode() + b"\0" + file.read_bytes())
        return self.folder / f"{Path(name).name}-{found.hexdigest()[:16]}.json"


def _known_by(value: Any, *, table: bool = False) -> Any:
    """What tells one domain or table from another."""
    if isinstance(value, Domain):
        return value.text()
    is_file = isinstance(value, (str, Path)) and Path(value).is_file()
    return data_digest(value) if is_file or (table and value is not None) else value


def examined(source: Any, asked: Question, people: Any) -> dict[str, str]:
    """What a sceptic needs to know of one model's examination, by name.

    source, people: the model and the table as they were given, files or objects.
    """
    digest = _model_digest(source, asked)
    facts = {"Model": f"{name_of(source)}, {f'SHA-256 {digest}' if digest else 'of which there is no digest'}"}
    if asked.table is not None:
        named = f"{Path(people).name}, " if isinstance(people, (str, Path)) else ""
        facts["Data"] = f"{named}{asked.gaps.rows:,} rows, SHA-256 {data_digest(people)}"
    return facts | {"Software": f"bornfair {__version__}, {_versions()}"}


def name_of(source: Any) -> str:
    if isinstance(source, (str, Path)):
        return Path(source).name or str(source)
    named = getattr(source, "name", None) or getattr(source, "__name__", None)
    return str(named) if isinstance(named, str) and named != "<lambda>" else type(source).__name__


def data_digest(people: Any) -> str:
    """Of a file its bytes; of a table in memory its columns, kinds and values."""
    if isinstance(people, (str, Path)):
        return _file_digest(Path(people))
    from bornfair.people.tables import as_pandas

    frame = as_pandas(people)
    found = hashlib.sha256(repr([(str(name), str(kind)) for name, kind in frame.dtypes.items()]).encode())
    found.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return f"{found.hexdigest()} of its values"


def _model_digest(source: Any, asked: Question) -> str:
    place = Path(source) if isinstance(source, (str, Path)) else None
    if place is not None and place.is_file():
        return _file_digest(place)
    if place is not None and (place / "model.onnx").is_file():
        return f"{_file_digest(place / 'model.onnx')} of its model.onnx"
    return asked.countable_model.digest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def today() -> str:
    """Day and minute; those of SOURCE_DATE_EPOCH where it is set, for whoever wants the same bytes again."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = float(given) if given.isdigit() else time.time()
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%-d %B %Y, %H:%M UTC")


def _versions() -> str:
    return f"numpy {metadata.version('numpy')}, jax {metadata.version('jax')}, Python {platform.python_version()}"
