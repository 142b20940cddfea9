"""Are the public networks of Fairify and FairQuant fair? Every .nnet file of a folder, one verdict each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bornfair.core.clock import Say
from bornfair.importers.nnet import load_nnet
from bornfair.models.verdict import Verdict
from bornfair.questions import verify
from bornfair_bench.experiments.printout import Columns, Printout, of_rows
from bornfair_bench.experiments.public_networks import layout_of, networks, public_network
from bornfair_bench.experiments.runs import silent
from bornfair_bench.experiments.timing import pin_to_one_core


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
    ("verdict", lambda row: row.verdict.answer),
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
    audited = []
    for path in networks(folder):
        for name in sensitive or layout_of(path).sensitive:
            say(f"{path.stem}, sensitive {name}")
            model = load_nnet(path, sensitive=[name], normalise="no") if sensitive else public_network(path, name)
            audited.append(Audited(path.stem, model.network.widths, name, verify(model, timeout=timeout, seed=seed)))
    return audited


def report(*, models: Path, say: Say, **choices: Any) -> Printout:
    pin_to_one_core()
    audited = run(models, say=say, **choices)
    return of_rows(models.name, COLUMNS, audited, numbers_from=7, sentences=[summary(audited)], key="audited")


def summary(audited: Sequence[Audited]) -> str:
    decided = [row for row in audited if row.verdict.answer != "undecided"]
    slowest = max((row.verdict.seconds for row in decided), default=0.0)
    return f"{len(decided)} of {len(audited)} decided, the slowest in {slowest:.1f} s."
