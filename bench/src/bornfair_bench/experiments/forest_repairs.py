"""What does the repair of public ensembles of trees cost? Accuracy, decisions, and size and speed of what is written.

Seconds and milliseconds are the processor's, with one thread, the least of some rounds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd

from bornfair.core.clock import Say
from bornfair.core.errors import InputError
from bornfair.questions.repairing import repair
from bornfair.questions.repairing.forests import RepairedForest
from bornfair_bench.experiments.forest_anchors import ASKED, ensembles
from bornfair_bench.experiments.printout import Columns, Outcome, Printout, lines, of_rows
from bornfair_bench.experiments.timing import pin_to_one_core

ROUNDS = 5
ALONE = 200  # people asked about one by one

COLUMNS: Columns = (
    ("ensemble", lambda row: row["model"]),
    ("sensitive", lambda row: row["sensitive"]),
    ("accuracy before", lambda row: f"{100 * row['accuracy_before']:.2f}"),
    ("after", lambda row: f"{100 * row['accuracy_after']:.2f}"),
    ("changed", lambda row: f"{100 * row['changed']:.2f}"),
    ("bytes before", lambda row: f"{row['bytes'][0]:,}"),
    ("after", lambda row: f"{row['bytes'][1]:,}"),
    ("ONNX", lambda row: f"{row['bytes'][2]:,}"),
    ("ms before", lambda row: f"{row['ms'][0]:.1f}"),
    ("after", lambda row: f"{row['ms'][1]:.1f}"),
    ("ONNX", lambda row: f"{row['ms'][2]:.1f}"),
    ("one person", lambda row: f"{row['alone']:.3f}"),
    ("s", lambda row: f"{row['seconds']:.1f}"),
)


def report(*, models: Path, only: Sequence[str] | None = None, seed: int = 0, say: Say, **_: Any) -> Printout:
    """Every ensemble of a folder whose held-out rows are there (NAME.test.csv.gz, the label last)."""
    pin_to_one_core()
    rows = list[Outcome]()
    for path, family in ensembles(models, only):
        table = models / f"{family}.test.csv.gz"
        for sensitive in ASKED[family] if table.exists() else ():
            rows.append(_row(path, pd.read_csv(table), sensitive, seed))
            say("  ".join(lines(COLUMNS, rows[-1:])[1]))
    if not rows:
        raise InputError(f"'{models}' holds no held-out rows (NAME.test.csv.gz) of its ensembles; name another folder.")
    return of_rows("Repaired ensembles", COLUMNS, rows, numbers_from=2)


def _row(path: Path, table: pd.DataFrame, sensitive: str, seed: int) -> Outcome:
    target, began = str(table.columns[-1]), time.process_time()
    halves = [table.iloc[i::2].reset_index(drop=True) for i in (0, 1)]
    found = repair(path, halves[0], target=target, sensitive_features=[sensitive], test=halves[1], seed=seed)
    assert isinstance(found, RepairedForest)
    seconds, people = time.process_time() - began, table.drop(columns=target)
    with tempfile.TemporaryDirectory() as folder:
        bundle = found.model.save(Path(folder) / "bundle")
        files = (path, bundle / "model.json", bundle / "model.onnx")
        whole, alone = _served(files[2], people)
        speeds = [*(_by_xgboost(file, people) for file in files[:2]), whole]
        return {
            "model": path.stem, "sensitive": sensitive, "accuracy_before": found.accuracy_before,
            "accuracy_after": found.accuracy_after, "changed": found.changed, "sizes": found.sizes,
            "bytes": [file.stat().st_size for file in files], "ms": speeds, "alone": alone, "seconds": seconds,
        }  # fmt: skip


def _by_xgboost(file: Path, people: pd.DataFrame) -> float:
    import xgboost

    booster, numbers = xgboost.Booster({"nthread": 1}, model_file=file), people.to_numpy(np.float32)
    return _least(lambda: booster.inplace_predict(numbers, validate_features=False))


def _served(file: Path, people: pd.DataFrame) -> tuple[float, float]:
    """Milliseconds for all people together, and for each of some who are asked about alone."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options)
    kinds = {"tensor(double)": np.float64, "tensor(int64)": np.int64}
    fed = {one.name: people[one.name].to_numpy(kinds.get(one.type, object))[:, None] for one in session.get_inputs()}
    single = [{name: values[i : i + 1] for name, values in fed.items()} for i in range(min(ALONE, len(people)))]
    each = _least(lambda: [session.run(None, one) for one in single]) / len(single)
    return _least(lambda: session.run(None, fed)), each


def _least(work: Callable[[], object]) -> float:
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        found.append(1000 * (time.process_time() - began))
    return min(found)
