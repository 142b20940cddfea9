"""Broken and hostile files of every kind that is read, given to the real commands: what comes back?

`run(count, seed)` makes files from good ones by cutting, flipping and splicing bytes and by putting nasty values where
their format has values. A third of the files are hostile by design (`hostile_tables.py`, `hostile_models.py`), or no
files at all (`hostile_places.py`). A command reads each of them in a fork that is measured. A finding is what
`broken_rules` reports, something left half-written, or a fork that does not end in time.

    python hostile_files.py 20000 7          20,000 files, seed 7
    python hostile_files.py case 7 123       file 123 of seed 7 alone, with its traceback
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hostile_commands as commands
from forked_commands import broken_rules, import_everything, run_command
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
from hostile_models import MODELS
from hostile_places import bad_archive, no_file, spoil_left
from hostile_tables import TABLES

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
    for name, domain in (("person.json", people()), ("folk.json", load_bundle(folder / "structural").domain)):
        domain.sample(1, seed=0).iloc[0].to_json(folder / name)
    with contextlib.chdir(folder):
        command(commands.of_cache("cache", random.Random(0)))
    shutil.rmtree(folder / "made")
    with _interrupted_after(2):
        command(commands.train("people.csv", "saved.run", folder))
    assert (folder / "saved.run").is_file() and (folder / "saved.cuts").is_file() and any((folder / "cache").iterdir())
    pd.DataFrame({"a": [1, 2]}).to_parquet(folder / "tiny.parquet")


@contextlib.contextmanager
def _interrupted_after(epochs: int) -> Any:
    from bornfair.core import checkpoint

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

Change = Callable[[bytes, Chance], bytes]
Command = Callable[[str, Chance], list[str]]


def _spliced(content: bytes, chance: Chance) -> bytes:
    return bad_bytes(content, chance, content)


def _packed_csv(content: bytes, chance: Chance) -> bytes:
    return gzip.compress(bad_csv(gzip.decompress(content), chance))


KINDS: dict[str, tuple[Change, Command]] = {
    "four.onnx": (bad_graph, commands.of_model),
    "three.onnx": (bad_graph, commands.of_model),
    "four.nnet": (bad_numbers, commands.of_model),
    "four.h5": (bad_h5, commands.of_model),
    "three.h5": (bad_h5, commands.of_model),
    "four.keras": (_spliced, commands.of_model),
    "four.json": (bad_json_text, commands.of_domain),
    "person.json": (bad_json_text, commands.of_person),
    "folk.json": (bad_json_text, commands.of_person),
    "trees.json": (bad_json_text, commands.of_forest),
    "trees.ubj": (_spliced, commands.of_forest),
    "light.txt": (bad_lines, commands.of_forest),
    "cat.json": (bad_json_text, commands.of_forest),
    "graph.onnx": (bad_graph, commands.of_forest),
    "people.csv": (bad_csv, commands.of_table),
    "people.csv.gz": (_packed_csv, commands.of_table),
    "people.parquet": (bad_parquet, commands.of_table),
    "zipped.zip": (_spliced, commands.of_bundle),
    "saved.run": (bad_tensors, commands.of_checkpoint),
    "saved.cuts": (bad_tensors, commands.of_cuts),
}
BUNDLES = ("structural", "bounds", "falsified", "classes", "tanh")
ATTACKS = [(file, name) for table in (TABLES, MODELS) for file, makers in table.items() for name in makers]
STRUCTURED = 0.65  # share of files that are changed in what they say, not in their bytes
ATTACKING = 0.35  # share of files that are made to attack
AS_JSON = 0.4  # share of commands that are to print JSON


def make(folder: Path, good: Path, seed: int, index: int) -> tuple[str, list[str]]:
    """Put the good files into a folder, spoil one, and say which, and the command to be run there."""
    chance = random.Random(f"{seed} {index}")
    shutil.copytree(good, folder, dirs_exist_ok=True)
    kind, words = _attacked(folder, chance) if chance.random() < ATTACKING else _spoiled(folder, chance)
    return kind, [*words, "--json"] if chance.random() < AS_JSON else words


def _attacked(folder: Path, chance: Chance) -> tuple[str, list[str]]:
    """A file that is hostile by design, or something that is no file."""
    way = chance.randrange(len(ATTACKS) + 12)
    if way < len(ATTACKS):
        file, name = ATTACKS[way]
        makers = TABLES if file in TABLES else MODELS
        (folder / file).write_bytes(makers[file][name](chance))
        return f"{file}: {name}", KINDS[file][1](file, chance)
    if way < len(ATTACKS) + 4:
        place = chance.choice([*KINDS, *BUNDLES])
        name = no_file(folder / place, chance)
        return f"{place}: {name}", (KINDS[place][1] if place in KINDS else commands.of_bundle)(place, chance)
    if way < len(ATTACKS) + 8:
        place, name = bad_archive(folder, chance)
        return f"{place}: {name}", commands.of_bundle(place, chance)
    left, command = chance.choice([("cache", commands.of_cache), ("decided.csv", commands.of_part)])
    spoil_left(folder, left, chance)
    return f"left by an earlier run: {left}", command(left, chance)


def _spoiled(folder: Path, chance: Chance) -> tuple[str, list[str]]:
    """A good file with some changes."""
    kind = chance.choice([*KINDS, *BUNDLES, *BUNDLES, "rule"])
    if kind == "rule":
        return kind, commands.of_rule(bad_rule(chance), chance)
    if kind in BUNDLES:
        bad_bundle(folder / kind, chance)
        return kind, commands.of_bundle(kind, chance)
    change, command = KINDS[kind]
    content, other = (folder / kind).read_bytes(), (folder / chance.choice([*KINDS])).read_bytes()
    said = change(content, chance) if chance.random() < STRUCTURED else bad_bytes(content, chance, other)
    (folder / kind).write_bytes(said)
    return kind, command(kind, chance)


def judge(good: Path, seed: int, index: int) -> dict[str, Any]:
    """Run one case here. What came of it, and what is wrong with that."""
    place = tempfile.mkdtemp()  # no TemporaryDirectory: the end of a fork would remove it
    try:
        kind, words = make(Path(place), good, seed, index)
        before = _names(place)
        ended = run_command(words, Path(place))
        made = _names(place) - before
    finally:
        shutil.rmtree(place)
    wrong = list(broken_rules(ended, words))
    if ended.status == 2 and made - {"made.cache"}:
        wrong.append(f"left behind: {sorted(made)}")
    if hidden := [name for name in made if name.startswith(".")]:
        wrong.append(f"left behind: {hidden}")
    return {
        "kind": kind,
        "words": words,
        "wrong": wrong,
        **asdict(ended),
        "out": ended.out[:200],
        "err": ended.err[-900:],
    }


def _names(folder: str) -> set[str]:
    return set(os.listdir(folder))  # noqa: PTH208


# --- many cases, in a child that has imported everything ---


def run(count: int, seed: int = 0, *, say: Callable[[dict[str, Any]], None] | None = None) -> Summary:
    """Run `count` cases. A child process does it: this one may have started threads, which are lost in forks."""
    summary, index = Summary(), 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*_self(), "prepare", folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        command = [*_self(), "work", folder, str(seed), "0", str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            assert child.stdout is not None
            for index, line in enumerate(child.stdout):
                found = json.loads(line)
                summary.cases += 1
                summary.outcomes[f"status {found['status']}"] += 1
                summary.wrong += [
                    f"case {seed} {index} ({found['kind']}, {found['words']}): {w}" for w in found["wrong"]
                ]
                if say is not None:
                    say({"index": index, **found})
    if summary.cases < count:
        summary.wrong.append(f"case {seed} {summary.cases}: the process that runs the commands has crashed")
    return summary


def _self() -> list[str]:
    return [sys.executable, str(Path(__file__).resolve())]


def work(good: Path, seed: int, start: int, end: int) -> None:
    import_everything()
    for index in range(start, end):
        print(json.dumps(judge(good, seed, index)), flush=True)


def main(arguments: list[str]) -> int:
    if arguments[0] == "prepare":
        prepare(Path(arguments[1]))
        return 0
    if arguments[0] == "work":
        work(Path(arguments[1]), *map(int, arguments[2:5]))
        return 0
    if arguments[0] == "case":
        os.environ["BORNFAIR_TRACEBACK"] = "1"
        import_everything()
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([*_self(), "prepare", folder], check=True, capture_output=True)
            print(json.dumps(judge(Path(folder), *map(int, arguments[1:3])), indent=1))
        return 0
    count, seed = (int(word) for word in (*arguments, "0")[:2])
    summary = run(count, seed, say=lambda found: print(json.dumps(found), flush=True))
    print(summary)
    return 1 if summary.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
