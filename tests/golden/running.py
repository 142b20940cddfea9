"""Run reference queries by the command line and the public names of bornfair, and keep what they answer.

Nothing below `bornfair` is imported, so that modules may move. Times, dates and the version are removed; other numbers
are kept as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import bornfair
from bornfair.cli import main
from inputs import write_inputs

Function = Callable[[], Any]
TIMES = {"seconds", "history", "version", "bornfair", "here"}
"""Fields of JSON documents that differ from run to run, from version to version, or from machine to machine."""
LONG = 40  # numbers or texts in a list that is kept whole
PLAIN = {
    "boxes", "certified", "counts", "decisions", "error", "falsified", "otherwise", "rows", "share", "status",
    "undecided", "unfair", "valid", "verdict", "versions",
}  # fmt: skip
"""Fields that are the same on every machine, for models whose numbers are the same there."""


@dataclasses.dataclass(frozen=True)
class Query:
    """A command, or a function that calls the Python interface in the folder of its group."""

    name: str
    ask: str | Function
    keeps: tuple[str, ...] = ()
    """Files and folders it writes, whose SHA-256 is kept."""
    everywhere: bool = False
    """Whether the plain fields of its answer are the same on every machine."""


def answers(queries: Iterable[Query], place: Path) -> dict[str, Any]:
    """What the queries answer, in order, in a folder with nothing but the inputs."""
    found = {}
    with contextlib.chdir(place), mock.patch.dict(os.environ, {"COLUMNS": "120"}):
        write_inputs(Path())
        for query in queries:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                said = _of_command(query.ask) if isinstance(query.ask, str) else _of_function(query.ask)
            kept = {name: _hashes(Path(name)) for name in query.keeps}
            found[query.name] = said | ({"files": kept} if kept else {})
    return found


def _of_command(command: str) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    status: Any = None
    with (
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["bornfair", *shlex.split(command.replace("PYTHON", sys.executable))]),
    ):  # fmt: skip
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    found: dict[str, Any] = {"command": command, "status": status}
    try:
        found["found"] = jsonable(json.loads(out.getvalue()))
    except json.JSONDecodeError:
        found["printed"] = lines(out.getvalue())
    # Progress is told every so many seconds; warnings, notes and errors begin with the name of the program.
    found["said"] = [line for line in lines(err.getvalue()) if line.startswith("bornfair: ")]
    return {name: value for name, value in found.items() if value != []}


def _of_function(ask: Function) -> dict[str, Any]:
    try:
        return {"found": jsonable(ask())}
    except Exception as error:  # noqa: BLE001 - an error is an answer like any other, and shows in the comparison
        return {"raised": f"{type(error).__name__}: {timeless(str(error))}"}


def jsonable(value: Any) -> Any:
    """As JSON holds it, without times; floats are written by `repr`, so that nothing of them is lost."""
    if isinstance(value, dict):
        return {str(name): jsonable(one) for name, one in value.items() if name not in TIMES}
    if isinstance(value, (list, tuple)):
        found = [jsonable(one) for one in value]
        if len(found) <= LONG or any(isinstance(one, dict) for one in found):
            return found
        text = json.dumps(found)
        return {"length": len(found), "first": found[:5], "sha256": hashlib.sha256(text.encode()).hexdigest()}
    if hasattr(value, "to_json"):
        return jsonable(value.to_json())
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, str):
        return timeless(value)
    return value


def timeless(text: str) -> str:
    """Text without times, the version, and the names of folders of this machine."""
    here = f"{Path.cwd()}/"
    text = text.replace(here, "").replace(str(Path.cwd()), ".").replace(sys.executable, "PYTHON")
    text = re.sub(r"(less than\s+)?\b\d+(\.\d+)?(e-\d+)?[\s\u00a0]s\b", "# s", text)
    text = re.sub(r"\b\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC", "#", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)?", "#", text)
    text = re.sub(r'\btime="[\d.]+"', "", text)
    text = re.sub(r"(seconds\W+)\d[\d.,]*", r"\1#", text)
    text = re.sub(r"\b(onnxruntime|scikit-learn|xgboost|lightgbm|catboost|Python) \d[\w.+]*", r"\1 #", text)
    return text.replace(f"bornfair {bornfair.__version__}", "bornfair #")


def lines(text: str) -> list[str]:
    """Lines without what only fills the width of a table, which times may change."""
    return [
        re.sub(r"─+", "─", re.sub(r" {2,}", "  ", line.strip())) for line in timeless(text).splitlines() if line.strip()
    ]


def _hashes(path: Path) -> Any:
    if path.is_dir():
        return {str(one.relative_to(path)): _hash(one) for one in sorted(path.rglob("*")) if one.is_file()}
    return _hash(path) if path.is_file() else "not written"


def _hash(path: Path) -> str:
    data = path.read_bytes()
    with contextlib.suppress(UnicodeDecodeError):
        data = timeless(data.decode()).encode()
    return hashlib.sha256(data).hexdigest()


def plain(found: Any) -> Any:
    """The fields that are the same on every machine, numbers to six digits."""
    if isinstance(found, dict):
        named = {name: plain(one) for name, one in found.items()}
        return {name: one for name, one in named.items() if name in PLAIN or (isinstance(one, (dict, list)) and one)}
    if isinstance(found, list):
        return [plain(one) for one in found]
    return round(found, 6) if isinstance(found, float) else found
