"""Broken and hostile files of every kind that is read, given to the real commands: what comes back?

`run(count, seed)` makes files from good ones by cutting, flipping and splicing bytes and by putting nasty values where
their format has values, and runs a command on each in a child process that is watched. A finding is a status other
than 0 to 3, a traceback, control characters, an error that is not one sentence, something left half-written, a crash of
the interpreter, or a command that does not end in time.

    python hostile_files.py 20000 7          20,000 files, seed 7
    python hostile_files.py case 7 123       file 123 of seed 7 alone, with its traceback
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing import Summary
from hostile_making import (
    Chance,
    bad_bundle,
    bad_bytes,
    bad_csv,
    bad_graph,
    bad_h5,
    bad_json_text,
    bad_lines,
    bad_numbers,
    bad_parquet,
    bad_rule,
    bad_tensors,
)

LIMIT = 120.0  # seconds for one file, on a busy machine


# --- good files ---


def prepare(folder: Path) -> None:
    """A good file of every kind."""
    import numpy as np
    import pandas as pd

    import checker_fuzz
    import hostile_forests
    from bornfair.cli import run as command
    from bornfair.proof.bundle import load_bundle
    from bornfair.verification.search import search
    from interop_models import GraphMaker, people, random_layer
    from keras_files import config_of, stack, write_h5, write_keras
    from samples import make_people

    table = make_people(40, seed=7)
    table.to_csv(folder / "people.csv", index=False)
    table.to_parquet(folder / "people.parquet")
    (folder / "people.csv.gz").write_bytes(gzip.compress(table.to_csv(index=False).encode(), mtime=0))
    for kind in ("structural", "bounds", "falsified", "classes", "tanh"):
        (folder / kind).mkdir()
        for name, content in checker_fuzz.bundle(kind).items():
            (folder / kind / name).write_bytes(content)
    shutil.make_archive(str(folder / "zipped"), "zip", folder / "bounds")
    asked = load_bundle(folder / "classes")
    asked.domain.sample(20, seed=0).assign(lane="left").to_csv(folder / "lanes.csv", index=False)
    search(asked, timeout=0.0, resume=folder / "saved.cuts")
    (folder / "four.json").write_text(people().text())
    people().sample(40, seed=0).assign(y=[0, 1] * 20).to_csv(folder / "four.csv", index=False)
    graph, chance = GraphMaker(), np.random.default_rng(0)
    value = graph.node("Relu", graph.gemm("x", *random_layer(chance, 4, 5)))
    graph.save(folder / "four.onnx", [graph.node("Sigmoid", graph.dense(value, *random_layer(chance, 5, 1)))])
    graph = GraphMaker()
    value = graph.node("Tanh", graph.gemm("x", *random_layer(chance, 4, 4)))
    scores = graph.node("Softmax", graph.gemm(value, *random_layer(chance, 4, 3)))
    graph.save(folder / "three.onnx", [graph.node("ArgMax", scores, axis=1, keepdims=0), scores], kinds=[7, 1])
    layers, weights = stack("relu")
    write_h5(folder / "four.h5", config_of(layers, 2), weights, 2)
    write_h5(folder / "three.h5", config_of(layers, 3, "Functional"), weights, 3)
    write_keras(folder / "four.keras", config_of(layers, 3), weights)
    numbers = "\n".join(["// four", "2,4,1,3,", "4,3,1,", "0,", "17,0,0,-5,", "90,60,3,5,", "0,0,0,0,0,", "1,1,1,1,1,"])
    rows = [*random_layer(chance, 4, 3)[0].T.tolist(), [0.5], [-1.0], [2.0], [1.0, -2.0, 0.5], [0.25]]
    (folder / "four.nnet").write_text(numbers + "\n" + "\n".join(",".join(map(str, row)) + "," for row in rows) + "\n")
    for name, content in hostile_forests.good_files().items():
        (folder / name).write_bytes(content)
    with _interrupted_after(2):
        command(_train("people.csv", "saved.run", folder))
    assert (folder / "saved.run").is_file() and (folder / "saved.cuts").is_file()
    pd.DataFrame({"a": [1, 2]}).to_parquet(folder / "tiny.parquet")


def _train(table: str, checkpoint: str, folder: Path) -> list[str]:
    words = ["train", str(folder / table), "--target", "grant", "--sensitive", "sex", "--epochs", "4", "--hidden", "3"]
    return [*words, "--out", str(folder / "made"), "--checkpoint", str(folder / checkpoint)]


@contextlib.contextmanager
def _interrupted_after(epochs: int) -> Any:
    from bornfair import checkpoint

    save, left = checkpoint.save, epochs

    def keep(*arguments: Any, **options: Any) -> None:
        nonlocal left
        save(*arguments, **options)
        left -= 1
        if not left:
            raise KeyboardInterrupt

    checkpoint.save = keep
    try:
        yield
    finally:
        checkpoint.save = save


# --- a case: one bad file, one command ---

QUICK = ["--timeout", "0.3"]


def _of_bundle(place: str, chance: Chance) -> list[str]:
    return chance.choice([
        ["check", place], ["check", place, "--json"], ["predict", place, "lanes.csv"], ["verify", place, *QUICK],
        ["verify", place, *QUICK, "--json"], ["verify", place, "--engine", "smt", *QUICK], ["quantify", place, *QUICK],
        ["verify", place, "--engine", "milp", *QUICK], ["certify", place, "--out", "made", *QUICK],
        ["export", place, "made.onnx"], ["export", place, "made", "--query"], ["predict", place, "people.csv"],
    ])  # fmt: skip


def _of_model(file: str, chance: Chance) -> list[str]:
    who = chance.choice([["--domain", "four.json"], ["--data", "four.csv", "--target", "y"]])
    return [chance.choice([*["verify"] * 7, "quantify"]), file, *who, "--sensitive", "group", *QUICK]


def _of_table(file: str, chance: Chance) -> list[str]:
    labelled, quick = ["--target", "grant"], ["--epochs", "1", "--hidden", "2", "--out", "made"]
    return chance.choice([
        ["train", file, *labelled, "--sensitive", "sex", *quick], ["predict", "structural", file],
        ["predict", "structural", file, "--out", "made.csv"], ["proxies", file, *labelled, "--sensitive", "sex"],
        ["verify", "structural", "--data", file, *labelled, *QUICK],
        ["train", file, *labelled, "--sensitive", "age", *quick],
        ["train", file, *labelled, "--sensitive", "sex", "--missing", "impute", "--unseen", "ignore", *quick],
        ["quantify", "structural", "--data", file, *labelled, *QUICK],
    ])  # fmt: skip


def _of_domain(file: str, chance: Chance) -> list[str]:
    return chance.choice([
        ["verify", "four.onnx", "--domain", file, "--sensitive", "group", *QUICK],
        ["verify", "four.nnet", "--domain", file, "--sensitive", "group", *QUICK],
        ["train", "four.csv", "--target", "y", "--domain", file, "--epochs", "1", "--hidden", "2", "--out", "made"],
        ["quantify", "four.nnet", "--domain", file, "--sensitive", "group", *QUICK],
    ])  # fmt: skip


def _of_rule(rule: str, chance: Chance) -> list[str]:
    asked = [["verify", "structural", *QUICK], ["train", "people.csv", "--target", "grant", "--sensitive", "sex"]]
    words = [*chance.choice(asked), f"--twins={rule}"]
    return [*words, "--epochs", "1", "--hidden", "2", "--out", "made"] if words[0] == "train" else words


def _of_forest(file: str, chance: Chance) -> list[str]:
    who = [*chance.choice([["--domain", "four.json"], ["--data", "four.csv", "--target", "y"]]), "--sensitive", "group"]
    decides = ["--decision", "logit"] if file.endswith(".onnx") else []
    return chance.choice([
        ["verify", file, *who, *decides, *QUICK], ["verify", file, *who, *decides, "--engine", "milp", *QUICK],
        ["quantify", file, *who, *decides, *QUICK], ["certify", file, *who, "--out", "made", *QUICK],
        ["repair", file, "--data", "four.csv", "--target", "y", "--sensitive", "group", "--out", "made"],
    ])  # fmt: skip


Change = Callable[[bytes, Chance], bytes]
KINDS: dict[str, tuple[Change, Callable[[str, Chance], list[str]]]] = {
    "four.onnx": (bad_graph, _of_model),
    "three.onnx": (bad_graph, _of_model),
    "four.nnet": (bad_numbers, _of_model),
    "four.h5": (bad_h5, _of_model),
    "three.h5": (bad_h5, _of_model),
    "four.keras": (lambda content, chance: bad_bytes(content, chance, content), _of_model),
    "four.json": (bad_json_text, _of_domain),
    "trees.json": (bad_json_text, _of_forest),
    "trees.ubj": (lambda content, chance: bad_bytes(content, chance, content), _of_forest),
    "light.txt": (bad_lines, _of_forest),
    "cat.json": (bad_json_text, _of_forest),
    "graph.onnx": (bad_graph, _of_forest),
    "people.csv": (bad_csv, _of_table),
    "people.csv.gz": (lambda content, chance: gzip.compress(bad_csv(gzip.decompress(content), chance)), _of_table),
    "people.parquet": (bad_parquet, _of_table),
    "zipped.zip": (lambda content, chance: bad_bytes(content, chance, content), _of_bundle),
    "saved.run": (bad_tensors, lambda file, _: _train("people.csv", file, Path())),
    "saved.cuts": (bad_tensors, lambda file, _: ["verify", "classes", "--engine", "bounds", "--resume", file, *QUICK]),
}
BUNDLES = ("structural", "bounds", "falsified", "classes", "tanh")
STRUCTURED = 0.65  # share of files that are changed in what they say, not in their bytes


def make(folder: Path, good: Path, seed: int, index: int) -> tuple[str, list[str]]:
    """Put the good files into a folder, spoil one, and say which, and the command to be run there."""
    chance = random.Random(f"{seed} {index}")
    shutil.copytree(good, folder, dirs_exist_ok=True)
    kind = chance.choice([*KINDS, *BUNDLES, *BUNDLES, "rule"])
    if kind == "rule":
        return kind, _of_rule(bad_rule(chance), chance)
    if kind in BUNDLES:
        bad_bundle(folder / kind, chance)
        return kind, _of_bundle(kind, chance)
    change, command = KINDS[kind]
    content, other = (folder / kind).read_bytes(), (folder / chance.choice([*KINDS])).read_bytes()
    said = change(content, chance) if chance.random() < STRUCTURED else bad_bytes(content, chance, other)
    (folder / kind).write_bytes(said)
    if chance.random() < 0.01:
        (folder / kind).unlink()
        (folder / kind).mkdir()
    return kind, command(kind, chance)


def judge(good: Path, seed: int, index: int) -> dict[str, Any]:
    """Run one case here. What came of it, and what is wrong with that."""
    from bornfair.cli import run as command

    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        kind, words = make(Path(place), good, seed, index)
        before = set(os.listdir())  # noqa: PTH208
        said, trouble = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(trouble):
            status = command(words)
        made = set(os.listdir()) - before  # noqa: PTH208
    wrong = []
    lines = trouble.getvalue().splitlines()
    errors = [line for line in lines if line.startswith("bornfair: ") and not line.startswith("bornfair: warning: ")]
    if status not in (0, 1, 2, 3):
        wrong.append(f"status {status}: {trouble.getvalue()[-700:]}")
    if "Traceback" in trouble.getvalue():
        wrong.append(f"traceback: {trouble.getvalue()[-700:]}")
    if status == 2 and (len(errors) != 1 or lines[-1:] != errors or len(errors[0]) > 2500 or said.getvalue()):
        wrong.append(f"not one sentence: {errors} {lines[-3:]} {said.getvalue()[:200]}")
    if status == 2 and made:
        wrong.append(f"left behind: {sorted(made)}")
    if hidden := [name for name in made if name.startswith(".")]:
        wrong.append(f"left behind: {hidden}")
    if unfit := {c for c in said.getvalue() + trouble.getvalue() if not c.isprintable() and c not in "\n"}:
        wrong.append(f"control characters: {unfit}")
    return {"kind": kind, "status": status, "words": words, "wrong": wrong}


# --- many cases, in a child that is watched ---


def run(count: int, seed: int = 0, *, limit: float = LIMIT, say: Callable[[str], None] | None = None) -> Summary:
    """Run `count` cases; the child that runs them is replaced when it crashes or does not answer."""
    summary, index = Summary(), 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*_self(), "prepare", folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while index < count:
            command = [*_self(), "work", folder, str(seed), str(index), str(count)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
                index = _watched(child, index, count, seed, limit, summary, say)
    return summary


def _watched(
    child: Any, index: int, count: int, seed: int, limit: float, summary: Summary, say: Callable[[str], None] | None
) -> int:
    """Note what the child says of each case; the first case it has not been asked about."""
    while index < count:
        # Waited for twice: if all processes were stopped for a while, the first wait is over when they go on.
        ready = any(select.select([child.stdout], [], [], limit / 2)[0] for _ in range(2))
        line = child.stdout.readline() if ready else b""
        if not line:
            child.kill()
            what = "the interpreter crashed" if ready else f"no answer within {limit:.0f} s"
            found: dict[str, Any] = {"kind": "?", "status": "none", "words": "", "wrong": [what]}
        else:
            found = json.loads(line)
        summary.cases += 1
        summary.outcomes[f"status {found['status']}"] += 1
        for wrong in found["wrong"]:
            summary.wrong.append(f"case {seed} {index} ({found['kind']}, {found['words']}): {wrong}")
            if say is not None:
                say(summary.wrong[-1])
        index += 1
        if say is not None and index % 500 == 0:
            say(f"{summary} of {count:,}")
        if not line:
            break
    return index


def _self() -> list[str]:
    return [sys.executable, str(Path(__file__).resolve())]


def work(good: Path, seed: int, start: int, end: int) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for index in range(start, end):
        print(json.dumps(judge(good, seed, index)), file=answers)


def main(arguments: list[str]) -> int:
    if arguments[0] == "prepare":
        prepare(Path(arguments[1]))
        return 0
    if arguments[0] == "work":
        work(Path(arguments[1]), *map(int, arguments[2:5]))
        return 0
    if arguments[0] == "case":
        os.environ["BORNFAIR_TRACEBACK"] = "1"
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                prepare(Path(folder))
            print(json.dumps(judge(Path(folder), *map(int, arguments[1:3])), indent=1))
        return 0
    count, seed = (int(word) for word in (*arguments, "0")[:2])
    summary = run(count, seed, say=lambda text: print(text, flush=True))
    print(summary)
    return 1 if summary.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["20000"]))
