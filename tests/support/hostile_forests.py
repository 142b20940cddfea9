"""Broken and hostile files of forests by the thousand: each is a forest or one sentence, at once and in little memory.

A good file of every library is cut, flipped and spliced, or gets nasty values where its format has values; whatever can
still be read is then asked whether it is fair. `hostile_files` gives such files to the commands, some in a second; here
they go to the readers themselves, a hundred in a second.

    python hostile_forests.py 20000 7          20,000 files, seed 7
"""

from __future__ import annotations

import functools
import json
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.core.errors import InputError
from bornfair.importers.boosting import forest_file
from bornfair.importers.onnx_file import read_onnx
from bornfair.importers.onnx_forest import onnx_forest
from bornfair.models.forest.bounds.cells import restricted
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.model import ForestModel
from bornfair.models.reading import Reading
from bornfair.people.domain import Domain
from bornfair.people.features import RealFeature
from bornfair.verification.cells import search_forest
from fuzzing import Summary
from hostile_making import Chance, bad_bytes, bad_graph, bad_json_text, bad_lines

SECONDS = 20.0  # of the processor, for one file
MEMORY = 2**29  # bytes by which the process may grow in a batch
NAMES = ("age", "income", "group", "debt")


@functools.cache
def good_files() -> dict[str, bytes]:
    """Small forests of every library that is there, by the names of their files."""
    from onnx import TensorProto, helper

    rng = np.random.default_rng(5)
    rows = rng.uniform(-2, 2, (300, 4)).round(1)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[:, 2] = rng.integers(0, 4, 300)
    answers = (np.nan_to_num(rows[:, :2]).sum(axis=1) + rows[:, 2] / 2 > 0.5).astype(int)
    found = dict[str, bytes]()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = Path(folder)
        import catboost
        import lightgbm
        import xgboost

        kinds = ["q", "q", "c", "q"]
        for name, booster in (("trees", "gbtree"), ("dropped", "dart")):
            data = xgboost.DMatrix(
                rows, answers, feature_names=list(NAMES), feature_types=kinds, enable_categorical=True
            )
            made = xgboost.train({"objective": "binary:logistic", "max_depth": 3, "booster": booster}, data, 4)
            found |= {f"{name}.{kind}": bytes(made.save_raw(kind)) for kind in ("json", "ubj")}
        options = {"objective": "binary", "num_leaves": 6, "min_data_in_leaf": 5, "verbose": -1}
        table = lightgbm.Dataset(
            rows, answers, categorical_feature=[2], feature_name=list(NAMES), params={"verbose": -1}
        )
        found["light.txt"] = lightgbm.train(options, table, 4).model_to_string().encode()
        for name, policy in (("cat", "SymmetricTree"), ("branching", "Lossguide")):
            cat = catboost.CatBoostClassifier(
                iterations=4, depth=3, grow_policy=policy, verbose=False, allow_writing_files=False
            )
            cat.fit(rows, answers).save_model(str(place / "c.json"), format="json")
            found[f"{name}.json"] = (place / "c.json").read_bytes()
    modes = ["BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF"]
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["score"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0] * 5,
        nodes_nodeids=[*range(5)], nodes_featureids=[0, 0, 2, 0, 0], nodes_values=[0.5, 0.0, 1.5, 0.0, 0.0],
        nodes_modes=modes, nodes_truenodeids=[1, 0, 3, 0, 0], nodes_falsenodeids=[2, 0, 4, 0, 0],
        target_treeids=[0] * 3, target_nodeids=[1, 3, 4], target_ids=[0] * 3, target_weights=[0.3, -0.9, 1.7],
    )  # fmt: skip
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None, w]) for n, w in (("x", 4), ("score", 1))]
    graph = helper.make_graph([node], "trees", ends[:1], ends[1:])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    found["graph.onnx"] = helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()
    return found


STRUCTURED: dict[str, Callable[[bytes, Chance], bytes]] = {
    ".json": bad_json_text, ".txt": bad_lines, ".onnx": bad_graph,
}  # fmt: skip


def made(seed: int, index: int) -> tuple[str, bytes]:
    """The name of a file, and what is in it."""
    chance, files = random.Random(f"{seed} {index}"), good_files()
    name = chance.choice(sorted(files))
    kind = Path(name).suffix
    if kind in STRUCTURED and chance.random() < 0.65:
        return name, STRUCTURED[kind](files[name], chance)
    if kind == ".ubj" and chance.random() < 0.3:  # the other format under this name
        return name, bad_bytes(files[name.replace(".ubj", ".json")], chance, files[name])
    return name, bad_bytes(files[name], chance, files[chance.choice(sorted(files))])


def ask(path: Path) -> str:
    """Read a file, run the forest, and ask whether it is fair."""
    if path.suffix == ".onnx":
        source = onnx_forest(read_onnx(path), Reading.of({"decision": "logit"}))
    else:
        source = forest_file(path)
    forest = source.forest
    columns = [np.array([0.3, -1.0, 2.0, np.nan]) for _ in forest.names]
    if any(column.table is not None for column in forest.columns):
        return "read"
    if not np.isfinite(forest.scores(columns)).all():
        raise AssertionError("a score is not finite")
    names = [f"x{i}" for i in range(len(forest.names))]
    features = tuple(RealFeature(name=name, low=-2.0, high=3.0) for name in names[:64])
    if len(names) > 64 or not names:
        return "read"
    model = ForestModel(forest, Domain(features=features, sensitive=(names[-1],)), tuple(names))
    judge = Judge(restricted(model))
    verdict = judge.structure() or search_forest(judge, timeout=5.0, most_boxes=64)
    return verdict.answer


def run(count: int, seed: int) -> Summary:
    """Make and ask about `count` files: how many were read, what was found, and what is no sentence."""
    summary, before = Summary(count), _memory()
    good_files()

    def late(*_: Any) -> None:
        raise TimeoutError(f"no answer within {SECONDS:.0f} s of the processor")

    old = signal.signal(signal.SIGPROF, late)
    try:
        with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for index in range(count):
                name, content = made(seed, index)
                path = Path(folder) / name
                path.write_bytes(content)
                outcome, problem = _outcome(path)
                summary.outcomes[outcome] += 1
                if problem:
                    summary.wrong.append(f"case {seed} {index} ({name}): {problem}")
    finally:
        signal.signal(signal.SIGPROF, old)
    if _memory() - before > MEMORY:
        summary.wrong.append(f"seed {seed}: the process grew by {(_memory() - before) >> 20} MiB")
    return summary


def _outcome(path: Path) -> tuple[str, str | None]:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return ask(path), None
    except InputError as error:
        text = str(error)
        fine = text[-1:] in ".?" and text.isprintable() and len(text) < 2500
        return "refused", None if fine else f"not one sentence: {text[:300]!r}"
    except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
        return "failed", f"{type(error).__name__}: {error} {json.dumps(traceback.format_exc()[-900:])}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _memory() -> int:
    """The most that the process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    total = Summary()
    for start in range(0, int(sys.argv[1]), 1000):
        found = run(min(1000, int(sys.argv[1]) - start), int(sys.argv[2]) + start)
        total = total + found
        print("\n".join([*found.wrong, str(total)]), flush=True)
