"""Can published unfair networks be repaired, and at what cost? The public networks of Fairify, one by one."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bornfair.core.clock import Say
from bornfair.core.errors import InputError
from bornfair_bench.experiments.printout import Columns, Outcome, Printout, lines, of_rows
from bornfair_bench.experiments.public_networks import (
    adult_inputs,
    bank_inputs,
    compas_inputs,
    german_inputs,
    held_out,
    layout_of,
    networks,
    public_network,
)
from bornfair_bench.experiments.runs import silent

COLUMNS: Columns = (
    ("network", lambda o: o["model"]),
    ("sensitive", lambda o: o["sensitive"]),
    ("before", lambda o: _percent(o["accuracy_before"])),
    ("projected", lambda o: _percent(o["accuracy_projected"])),
    ("repaired", lambda o: _percent(o["accuracy_after"])),
    ("changed", lambda o: _percent(o["changed"])),
    ("same for twins before", lambda o: _percent(o["fairness_before"])),
    ("verdict", lambda o: f"{o['verdict_before']} → {o['verdict_after']}"),
    ("s", lambda o: f"{o['seconds']:.1f}"),
)


def questions_of(models: str | Path, kinds: Iterable[str], say: Say = silent) -> list[tuple[str, str]]:
    """Which networks of a folder can be asked about which sensitive feature: those whose rows are here."""
    found = []
    for path in networks(models):
        if any(path.stem.startswith(kind) for kind in kinds):
            found += [(path.stem, sensitive) for sensitive in layout_of(path).sensitive]
        else:
            say(f"{path.stem} is left out: the rows it learnt from are not given")
    return found


def run(
    models: str | Path,
    *,
    adult_test: str | Path | None = None,
    compas: str | Path | None = None,
    questions: Sequence[tuple[str, str]] | None = None,
    timeout: float = 20.0,
    epochs: int = 60,
    seed: int = 0,
    say: Say = silent,
) -> list[Outcome]:
    """Repair each network of a folder of .nnet files for its sensitive features. `timeout` is for verdicts before."""
    from bornfair.questions import verify
    from bornfair.questions.repairing import Repaired, repair

    tables = {
        "AC": functools.cache(lambda: adult_inputs(adult_test)),
        "GC": functools.cache(german_inputs),
        "BM": functools.cache(bank_inputs),
    }
    if compas is not None:
        tables["compas"] = functools.cache(lambda: compas_inputs(compas))
    outcomes = []
    for name, sensitive in questions_of(models, tables, say) if questions is None else questions:
        path = Path(models) / f"{name}.nnet"
        if not path.is_file():
            raise InputError(f"there is no network '{path}'; give the folder with {name}.nnet.")
        layout, table = layout_of(path), next(read for kind, read in tables.items() if name.startswith(kind))()
        target = layout.target
        original = public_network(path, sensitive)
        before = verify(original, timeout=timeout, seed=seed)
        fitted, kept = held_out(len(table), layout)
        began = time.perf_counter()
        # The closest fair network there is: what repair costs at least, not what is dropped with method='plain'.
        found = repair(
            original, table.iloc[fitted], target=target, test=table.iloc[kept], method="auto", epochs=epochs, seed=seed
        )
        assert isinstance(found, Repaired)  # a network
        after = verify(found.model, timeout=timeout, seed=seed)
        outcomes.append({
            "model": name,
            "sensitive": sensitive,
            "rows": len(kept),  # held out: used neither to fit nor to choose the repair
            "majority": float(table[target].iloc[kept].value_counts(normalize=True).max()),
            "accuracy_before": found.accuracy_before,
            "accuracy_projected": found.accuracy_projected,
            "accuracy_after": found.accuracy_after,
            "changed": found.changed,
            "fairness_before": found.fairness_before,
            "verdict_before": before.answer,
            "verdict_after": after.answer,
            "blend": found.blend,
            "epochs": found.epochs_run,
            # For the repair and its proof; the verdict about the original comes on top.
            "seconds": time.perf_counter() - began,
        })  # fmt: skip
        say(" | ".join(lines(COLUMNS, outcomes[-1:])[1]))
    return outcomes


def report(*, models: Path, say: Say, **choices: Any) -> Printout:
    return of_rows("Repaired", COLUMNS, run(models, say=say, **choices), numbers_from=2)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"
