"""How did a report come about? Its date, the digests of model and data, the software: enough to repeat it."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from bornfair import __version__
from bornfair.questions import Question


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
