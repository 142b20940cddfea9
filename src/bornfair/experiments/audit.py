"""Are the public networks of Fairify and FairQuant fair? Every .nnet file of a folder, one verdict each."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bornfair.errors import InputError
from bornfair.experiments.printout import Columns, Printout, of_rows
from bornfair.experiments.runs import Say, silent
from bornfair.experiments.timing import pin_to_one_core
from bornfair.models.importers.nnet import load_nnet
from bornfair.question import verify
from bornfair.verification.verdict import Verdict

SENSITIVE = {"AC": ("8",), "GC": ("11", "19")}
"""Positions by the prefix of the file's name: adult networks read sex at 8, german ones age at 11 and sex at 19."""


@dataclass(frozen=True)
class Audited:
    """One network, one sensitive input, one verdict."""

    model: str
    widths: tuple[int, ...]
    sensitive: str
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


COLUMNS: Columns = (
    ("model", lambda row: row.model),
    ("layers", lambda row: "-".join(map(str, row.widths))),
    ("sensitive", lambda row: row.sensitive),
    ("verdict", lambda row: row.verdict.verdict),
    ("engine", lambda row: row.verdict.engine),
    ("replayed in", lambda row: ", ".join(row.verdict.arithmetic) or "–"),
    ("decisions", lambda row: " / ".join(map(str, row.verdict.decisions or [])) or "–"),
    ("seconds", lambda row: f"{row.verdict.seconds:.2f}"),
)


def run(
    folder: str | Path,
    *,
    sensitive: Sequence[str] | None = None,
    timeout: float = 60.0,
    seed: int = 0,
    say: Say = silent,
) -> list[Audited]:
    """A verdict for every .nnet file of a folder, in the order of their numbers."""
    place = Path(folder)
    files = sorted(place.glob("*.nnet"), key=_by_number)
    if not files:
        raise InputError(f"there are no .nnet files in '{place}'.")
    audited = []
    for path in files:
        for position in sensitive or _positions(path):
            say(f"{path.stem}, sensitive {position}")
            model = load_nnet(path, sensitive=[position], normalise="no")
            audited.append(
                Audited(path.stem, model.network.widths, position, verify(model, timeout=timeout, seed=seed))
            )
    return audited


def report(*, models: Path, say: Say, **choices: Any) -> Printout:
    pin_to_one_core()
    audited = run(models, say=say, **choices)
    return of_rows(models.name, COLUMNS, audited, numbers_from=7, sentences=[summary(audited)], key="audited")


def summary(audited: Sequence[Audited]) -> str:
    decided = [row for row in audited if row.verdict.verdict != "undecided"]
    slowest = max((row.verdict.seconds for row in decided), default=0.0)
    return f"{len(decided)} of {len(audited)} decided, the slowest in {slowest:.1f} s."


def _positions(path: Path) -> Sequence[str]:
    for prefix, positions in SENSITIVE.items():
        if path.stem.startswith(prefix):
            return positions
    raise InputError(f"which inputs of '{path.name}' are sensitive? Say so with --sensitive.")


def _by_number(path: Path) -> tuple[str, int]:
    found = re.match(r"(.*?)(\d*)$", path.stem)
    name, digits = found.groups() if found else (path.stem, "")
    return name, int(digits or 0)
