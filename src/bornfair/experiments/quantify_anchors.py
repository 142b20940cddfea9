"""Our shares beside those of FairQuant: every row of a table of its results, on the same networks."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bornfair.errors import InputError
from bornfair.quantification.measure import Shares, shares_of
from bornfair.question import load_model

NEEDED = ("model", "pa_index", "protected", "cer_rate_pct", "fal_rate_pct", "und_rate_pct", "unfair_reference_pct")


@dataclass(frozen=True)
class Row:
    """One network and sensitive input; shares are in percent."""

    model: str
    sensitive: str
    theirs_undecided: float
    undecided: float
    certified: float
    falsified: float
    estimate: float
    reference: float
    boxes: int
    seconds: float
    reason: str

    @property
    def ratio(self) -> float:
        """Our undecided share by theirs."""
        return self.undecided / self.theirs_undecided if self.theirs_undecided else float("inf")

    def cells(self) -> tuple[str, ...]:
        shares = f"{self.theirs_undecided:.2f}", f"{self.undecided:.3f}", f"{self.ratio:.2f}", f"{self.certified:.3f}"
        return (
            self.model, self.sensitive, *shares, f"{self.falsified:.3g}", f"{self.estimate:.3f}", f"{self.boxes:,}",
            f"{self.seconds:.1f}",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": self.ratio}


HEADERS = (
    "network", "sensitive", "undecided: FairQuant", "ours", "ratio", "certified", "falsified", "unfair, estimated",
    "boxes", "s",
)  # fmt: skip


def compare(
    models_dir: str | Path,
    anchors_csv: str | Path,
    seconds: float = 60.0,
    only: Sequence[str] | None = None,
    *,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> list[Row]:
    """Measure every row of the table (or the models named), to be read beside what FairQuant reached."""
    try:
        text = Path(anchors_csv).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the table '{anchors_csv}': {error}") from error
    lines = list(csv.DictReader(text.splitlines()))
    missing = [name for name in NEEDED if not lines or name not in lines[0]]
    if missing:
        raise InputError(f"'{anchors_csv}' lacks the columns {missing}; it needs {list(NEEDED)}.")
    rows = []
    for line in lines:
        if only and line["model"] not in only:
            continue
        path, sensitive = Path(models_dir) / f"{line['model']}.nnet", [int(line["pa_index"])]
        model = load_model(path, sensitive=sensitive, normalise="no")  # they take raw numbers
        rows.append(_row(line, shares_of(model, timeout=seconds, seed=seed)))
        if say:
            say("  ".join(rows[-1].cells()))
    return rows


def summary(rows: Sequence[Row]) -> str:
    below, third = sum(row.ratio < 1 for row in rows), sum(row.ratio <= 1 / 3 for row in rows)
    return f"Of {len(rows)} questions, {below} leave less undecided than FairQuant, {third} at most a third of it."


def _row(line: dict[str, str], found: Shares) -> Row:
    return Row(
        line["model"], line["protected"], float(line["und_rate_pct"]), 100 * found.undecided, 100 * found.certified,
        100 * found.falsified, 100 * float(found.estimate["unfair"]), float(line["unfair_reference_pct"]),
        found.boxes, found.seconds, found.reason,
    )  # fmt: skip
