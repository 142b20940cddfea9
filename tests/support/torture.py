"""Random commands are killed, raced, and starved of disk, memory and time; what do they leave behind?

After each round every file is complete or absent, nobody else can read what is temporary, no process is left, and the
same command, repeated undisturbed, gives the bytes of a run that nothing disturbed. A disturbance happens at a counted
event, so that the seed repeats it; only how processes that run side by side interleave is left to the machine.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzzing import Summary
from samples import ROOT, make_people
from warm import Ended, Order, Warm

Content = dict[str, bytes]
"""What is in a folder: files by their paths."""
TIME = re.compile(rb'(?<="seconds": )[\d.e-]+|(?<= time=")[\d.]+|(?:less than )?[\d.e-]+(?=(?: |\xc2\xa0)s\b)')
TIMED = {".html", ".md", ".xml", ".json", ".sarif"}


@dataclass(frozen=True)
class Command:
    """A command in two variants that write to the same place."""

    words: str
    variants: tuple[str, str] = ("--seed 0", "--seed 1")
    outputs: tuple[str, ...] = ("out",)
    """Files and folders that are complete or absent."""
    beside: tuple[str, ...] = ()
    """What else stays after an undisturbed run."""
    weight: int = 1
    timed: bool = False
    """Whether it has a --timeout."""
    states: tuple[str, ...] = ()
    """Files that bind the next run to the same variant."""
    exact: bool = True
    """Whether what it prints is the same after an interruption."""

    def rivals(self, other: Command) -> bool:
        """Whether both write the same files in the same form, and the other's inputs suffice."""
        same = (self.words.split()[0], self.outputs) == (other.words.split()[0], other.outputs)
        pairs = ((self.beside, other.beside), (self.states, other.states), (self.inputs, other.inputs))
        return same and all(set(one) <= set(all_of) for one, all_of in pairs)

    @property
    def inputs(self) -> list[str]:
        return [name for name in INPUTS if name in self.words.split()]

    def line(self, variant: int) -> tuple[str, ...]:
        return (*self.words.split(), *self.variants[variant].split(), "--json")


KEPT = "kept"  # a folder that collects what several runs find
QUICK = "--target grant --sensitive sex --hidden 8 --batch-size 64"
THRESHOLDS = ("--threshold yes=0.5", "--threshold yes=0.4")
COMMANDS = {
    "predict": Command("predict fair people.csv --id age --out out", THRESHOLDS, weight=4),
    "predict in batches": Command("predict fair people.csv --id age --stream --out out", THRESHOLDS, weight=10),
    "train": Command(f"train people.csv {QUICK} --epochs 2 --out out", weight=3),
    "train with a checkpoint": Command(
        f"train people.csv {QUICK} --epochs 3 --out out --checkpoint saved", weight=5, states=("saved",)
    ),
    "train to an archive": Command(f"train people.csv {QUICK} --epochs 1 --out out.zip", outputs=("out.zip",)),
    "train an estimator": Command(
        "train people.csv --target grant --sensitive sex --estimator logistic --out out", weight=3
    ),
    "train in batches": Command(f"train people.csv {QUICK} --epochs 2 --stream --out out", weight=4),
    "train in batches with a checkpoint": Command(
        f"train people.csv {QUICK} --epochs 3 --stream --out out --checkpoint saved", weight=5, states=("saved",)
    ),
    "train in batches with a cache": Command(
        f"train people.csv {QUICK} --epochs 2 --stream --out out --cache rows", weight=5, beside=("rows",)
    ),
    "export": Command("export fair out.onnx", ("", "--without-sensitive"), outputs=("out.onnx",), weight=3),
    "export an archive": Command("export fair out.zip", outputs=("out.zip",), weight=2),
    "export the question": Command("export unfair out --query", ("", "--margin 0.1"), weight=2),
    "certify": Command("certify fair --out out", weight=3, timed=True),
    "certify an unfair one": Command("certify unfair --out out", weight=2, timed=True),
    "verify": Command(
        "verify unfair --most-boxes 50 --sarif out.sarif --junit out.xml", outputs=("out.sarif", "out.xml"), weight=4,
        timed=True,
    ),
    "verify with a resume file": Command(
        "verify unfair --engine bounds --most-boxes 3 --resume cuts", outputs=(), beside=("cuts",), weight=2,
        timed=True, exact=False, states=("cuts",),
    ),
    "quantify": Command("quantify unfair --most-boxes 100", outputs=(), timed=True),
    "quantify with workers": Command("quantify unfair --most-boxes 100 --jobs 2", outputs=(), timed=True),
    "audit": Command(
        "audit fair --data people.csv --target grant --report out.html --card out.md --sarif out.sarif --folder kept",
        outputs=("out.html", "out.md", "out.sarif", KEPT), weight=2, timed=True,
    ),
    "repair": Command("repair unfair --data people.csv --target grant --epochs 2 --out out", weight=2),
}  # fmt: skip
CHEAP = ("predict", "predict in batches", "export", "certify", "train with a checkpoint", "train in batches")
INPUTS = ("people.csv", "fair", "unfair")
RESULT = (0, 1, 3)  # statuses that come with a result
SIGNALS = {"KILL": {-9}, "TERM": {143, -15}, "INT": {130, -2}}
KINDS = ("killed", "killed", "raced", "raced", "replaced", "disk", "fault", "memory", "time")


def run(count: int, seed: int, names: Sequence[str] = tuple(COMMANDS), prelude: str = "") -> Summary:
    """So many rounds with some of the commands. prelude: code that breaks something first."""
    compiled = ROOT / ".jax-cache" / f"torture-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with tempfile.TemporaryDirectory(prefix="torture-") as folder, Warm(compiled, prelude) as warm:
        world, total = World(Path(folder), warm), Summary()
        for number in range(count):
            total += world.round(number, f"{seed} {number}", names)
        return total


@dataclass(frozen=True)
class Reference:
    """What an undisturbed run gives."""

    status: int
    said: Any
    files: Content
    events: tuple[int, int]


@dataclass
class Round:
    """One command in a folder of its own."""

    place: Path
    temporary: Path
    wrong: list[str] = field(default_factory=list)
    outcome: str = ""

    def order(self, words: Sequence[str], **disturbance: Any) -> Order:
        return Order(tuple(words), str(self.place), str(self.temporary), **disturbance)

    def check(self, fine: object, problem: str) -> None:
        if not fine:
            self.wrong.append(problem)


class World:
    """The inputs of all rounds and the references, each of which is made once."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder, self.warm = folder, warm
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        make_people(150, seed=7).to_csv(self.inputs / "people.csv", index=False)
        make_people(150, seed=8).to_csv(folder / "other.csv", index=False)
        (folder / "tmp").mkdir()
        for name, more in (("fair", ""), ("unfair", "--response none --verify-seconds 0")):
            words = f"train people.csv {QUICK} --epochs 2 --out {name} {more}".split()
            done = warm.run(Order(tuple(words), str(self.inputs), str(folder / "tmp"), compile=True))
            assert done.status in RESULT, done
        self._known: dict[tuple[Command, int, bool], Reference] = {}

    def reference(self, command: Command, variant: int, *, other: bool = False) -> Reference:
        """other: of the other table."""
        key = command, variant, other
        if key not in self._known:
            with self._place("reference", command) as one:
                if other:
                    self._replace_table(one)
                done = self.warm.run(one.order(command.line(variant), compile=True))
                assert done.status in RESULT, f"{command.words}: {done}"
                files = {name: data for name in command.outputs for name, data in content(one.place, name).items()}
                self._known[key] = Reference(done.status, said(done.out), files, done.events)
        return self._known[key]

    @contextmanager
    def _place(self, name: str, command: Command) -> Iterator[Round]:
        """A folder with the inputs."""
        there = self.folder / name
        one = Round(there / "place", there / "tmp")
        one.temporary.mkdir(parents=True)
        one.place.mkdir()
        for source in command.inputs:
            copy = shutil.copytree if (self.inputs / source).is_dir() else shutil.copyfile
            copy(self.inputs / source, one.place / source)
        yield one
        shutil.rmtree(there)

    def _replace_table(self, one: Round) -> None:
        shutil.copyfile(self.folder / "other.csv", one.place / "new.csv")
        (one.place / "new.csv").replace(one.place / "people.csv")

    # --- a round ---

    def round(self, number: int, seed: str, names: Sequence[str]) -> Summary:
        choice = random.Random(seed)
        name = choice.choices(names, [COMMANDS[name].weight for name in names])[0]
        command, variant = COMMANDS[name], choice.randrange(2)
        kinds = [kind for kind in KINDS if kind != "time" or command.timed]
        kinds = [kind for kind in kinds if kind != "replaced" or "people.csv" in command.inputs]
        kind = choice.choice(kinds)
        with self._place(f"round {number}", command) as one:
            before: Content = {}
            if command.outputs and not command.states and choice.random() < 0.3:
                before = self.reference(command, 1 - variant).files
                restore(one.place, before)
            getattr(self, f"_{kind}")(one, choice, command, variant, before)
            again = variant if command.states or kind == "replaced" or choice.random() < 0.7 else 1 - variant
            self._check_afterwards(one, command, again, other=kind == "replaced")
            problems = [
                f"round {number}: {name}, variant {variant}, {kind}, {one.outcome}: {text}" for text in one.wrong
            ]
        return Summary(1, Counter([f"{kind}: {one.outcome}"]), problems)

    def _event(self, choice: random.Random, reference: Reference) -> dict[str, Any]:
        """Where a command is disturbed: mostly while it works with files."""
        files = choice.random() < 0.75
        return {"files": files, "at": choice.randint(1, max(1, reference.events[0 if files else 1]))}

    def _killed(self, one: Round, choice: random.Random, command: Command, variant: int, before: Content) -> None:
        reference = self.reference(command, variant)
        name, everybody = choice.choice(list(SIGNALS)), choice.choice(["", "all"])
        done = self.warm.run(one.order(command.line(variant), act=name + everybody, **self._event(choice, reference)))
        one.outcome = f"{name} {done.status}" if done.fired else "over"
        allowed = SIGNALS[name] if done.fired else set()
        if name == "INT" and command.timed:
            allowed = allowed | {3}  # a search that is interrupted tells how far it came
        self._check(one, command, done, [reference], before, allowed)

    def _disk(self, one: Round, choice: random.Random, command: Command, variant: int, before: Content) -> None:
        reference = self.reference(command, variant)
        room = choice.choice([0, 0, 100, 3_000])
        done = self.warm.run(one.order(command.line(variant), act="disk", room=room, **self._event(choice, reference)))
        one.outcome = str(done.status)
        self._check(one, command, done, [reference], before, {2})

    def _fault(self, one: Round, choice: random.Random, command: Command, variant: int, before: Content) -> None:
        reference = self.reference(command, variant)
        at = choice.randint(1, max(1, reference.events[0]))
        done = self.warm.run(one.order(command.line(variant), act="fault", at=at))
        one.outcome = str(done.status)
        self._check(one, command, done, [reference], before, {2})

    def _memory(self, one: Round, choice: random.Random, command: Command, variant: int, before: Content) -> None:
        reference = self.reference(command, variant)
        room = int(2 ** choice.uniform(20, 29))
        done = self.warm.run(one.order(command.line(variant), act="memory", room=room))
        one.outcome = "a library ends it" if done.status in (127, -6, -11) else str(done.status)
        self._check(one, command, done, [reference], before, {2, 127, -6, -11}, printed=False)

    def _time(self, one: Round, choice: random.Random, command: Command, variant: int, before: Content) -> None:
        seconds = 10 ** choice.uniform(-5, -1)
        done = self.warm.run(one.order((*command.line(variant), "--timeout", f"{seconds:.6f}")))
        one.outcome = str(done.status)
        self._check(one, command, done, None, before, {2, *RESULT})

    def _raced(self, one: Round, choice: random.Random, command: Command, variant: int, before: Content) -> None:
        """The first run stops at an event; others start and stop there, too; then all go on."""
        rivals = [other for other in COMMANDS.values() if other.rivals(command)]
        racing = [(command, variant)]
        for _ in range(choice.choice([1, 1, 2])):
            racing.append((choice.choice([command, choice.choice(rivals)]), choice.randrange(2)))
        references = [self.reference(*each) for each in racing]
        runs = [
            self.warm.start(one.order(each.line(own), act="STOP", **self._event(choice, reference)))
            for (each, own), reference in zip(racing, references, strict=True)
        ]
        ended = {pid: self.warm.wait(pid) for pid in runs}
        choice.shuffle(runs)
        for pid in runs:
            if ended[pid].status is None:
                os.kill(pid, 18)  # SIGCONT
        ended |= {pid: self.warm.wait(pid) for pid in runs if ended[pid].status is None}
        one.outcome = " ".join(sorted(str(done.status) for done in ended.values()))
        one.check(any(done.status in RESULT for done in ended.values()), "nobody has a result")
        for done in ended.values():
            refused = done.status == 2 and "another" in done.err
            self._check(one, command, done, references, before, {2} if refused else set())

    def _replaced(self, one: Round, choice: random.Random, command: Command, variant: int, before: Content) -> None:
        """The table is replaced while the command has stopped."""
        references = [self.reference(command, variant), self.reference(command, variant, other=True)]
        pid = self.warm.start(one.order(command.line(variant), act="STOP", **self._event(choice, references[0])))
        done = self.warm.wait(pid)
        self._replace_table(one)
        if done.status is None:
            os.kill(pid, 18)
            done = self.warm.wait(pid)
        one.outcome = str(done.status)
        self._check(one, command, done, references, before, {2})

    # --- what must hold ---

    def _check(
        self,
        one: Round,
        command: Command,
        done: Ended,
        references: list[Reference] | None,
        before: Content,
        allowed: set[int],
        *,
        printed: bool = True,
    ) -> None:
        """After a disturbed run. references: what it may have written, None for anything.

        allowed: statuses beside that of a reference.
        """
        told = f"{done.err.strip()[-700:]}"
        results = {reference.status for reference in references or ()}
        one.check(done.status in allowed | results, f"status {done.status}: {told}")
        one.check(not done.orphans, f"processes are left: {done.orphans}")
        if printed:
            one.check("Traceback" not in done.err, f"a traceback: {told}")
        try:
            document = said(done.out)
        except ValueError:
            one.check(False, f"stdout is no JSON document: {done.out[-300:]!r}")
        else:
            one.check(done.status not in RESULT or document is not None, f"status {done.status} without a result")
        there = {name: content(one.place, name) for name in command.outputs}
        whole = [before] + [reference.files for reference in references or ()]
        for name, files in there.items() if references is not None else ():
            if files and command.exact:
                differs = unlike(files, part(whole[-1], name))
                one.check(is_whole(files, name, whole), f"'{name}' is not complete: {differs}")
        if references is not None and done.status in results and command.exact:
            found = {path: data for files in there.values() for path, data in files.items()}
            good = [reference.files for reference in references if reference.status == done.status]
            if len(references) == 1:
                same = any(alike(without_earlier(found, files), files) for files in good)
                one.check(same, f"status {done.status}, but {sorted(found)} are not those of an undisturbed run")
        self._check_private(one, command, whole)

    def _check_private(self, one: Round, command: Command, whole: Sequence[Content] = ()) -> None:
        """What is no output is readable by its owner alone, until it is whole and only has to be moved."""
        ready = {data for files in whole for data in files.values()}
        for top in (*one.place.iterdir(), *one.temporary.iterdir()):
            if top.name in (*INPUTS, *command.outputs):
                continue
            for path in (top, *(top.rglob("*") if top.is_dir() and not top.is_symlink() else ())):
                mode = stat.S_IMODE(path.lstat().st_mode)
                inside = any(not stat.S_IMODE(above.stat().st_mode) & 0o077 for above in path.parents)
                private = not mode & 0o077 or (inside and path != top)
                one.check(private or is_ready(path, ready), f"'{path.name}' has mode {mode:o}")

    def _check_afterwards(self, one: Round, command: Command, variant: int, *, other: bool) -> None:
        """The same once more, undisturbed."""
        reference = self.reference(command, variant, other=other)
        done = self.warm.run(one.order(command.line(variant)))
        one.check(done.status == reference.status, f"afterwards status {done.status}: {done.err.strip()[-700:]}")
        one.check(not done.orphans, f"afterwards processes are left: {done.orphans}")
        if done.status != reference.status:
            return
        if command.exact:
            one.check(said(done.out) == reference.said, f"afterwards it says {done.out[-1500:]!r}")
        found = {path: data for name in command.outputs for path, data in content(one.place, name).items()}
        found = without_earlier(found, reference.files)
        one.check(alike(found, reference.files), f"afterwards it is not the result: {unlike(found, reference.files)}")
        left = {path.name for path in one.place.iterdir()} - {*INPUTS, *command.outputs, *command.beside}
        one.check(not left, f"afterwards {sorted(left)} are left")
        temporary = [path.name for path in one.temporary.iterdir() if not is_probe(path)]
        one.check(not temporary, f"afterwards the temporary {temporary} are left")
        self._check_private(one, command)


def without_earlier(found: Content, files: Content) -> Content:
    """Without what earlier runs left in the folder that collects results."""
    return {path: data for path, data in found.items() if path in files or not path.startswith(KEPT)}


def is_ready(path: Path, ready: set[bytes]) -> bool:
    """Whether this is an output that is complete: it gets its mode before it is moved to its place."""
    return path.is_file() and path.read_bytes() in ready


def is_probe(path: Path) -> bool:
    """Whether this is the test file of `tempfile` (standard library), which a fault may keep from being removed."""
    return path.is_file() and path.read_bytes() in (b"", b"blat") and len(path.name) == 8


def said(out: str) -> Any:
    """The JSON document on stdout without what depends on time; None where nothing was printed."""
    return None if not out else without_time(json.loads(out))


def without_time(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_time(one) for name, one in value.items() if name != "seconds"}
    return [without_time(one) for one in value] if isinstance(value, list) else value


def content(place: Path, name: str) -> Content:
    """A file, or all files of a folder, by their paths from `place`."""
    top = place / name
    files = sorted(top.rglob("*")) if top.is_dir() else [top]
    return {str(path.relative_to(place)): path.read_bytes() for path in files if path.is_file()}


def alike(one: Content, other: Content) -> bool:
    """Whether they differ in nothing but times."""
    return one == other or timeless(one) == timeless(other)


def unlike(one: Content, other: Content) -> str:
    """The first difference but for times."""
    one, other = timeless(one), timeless(other)
    for path in sorted(one.keys() | other):
        here, there = one.get(path), other.get(path)
        if here is None or there is None:
            return f"{path} is {'absent' if here is None else 'too many'}"
        if here != there:
            at = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), 0)
            return f"{path} differs at {at}: {here[max(0, at - 60) : at + 60]!r}, {there[max(0, at - 60) : at + 60]!r}"
    return "nothing differs"


def timeless(files: Content) -> Content:
    return {path: TIME.sub(b"", data) if Path(path).suffix in TIMED else data for path, data in files.items()}


def part(files: Content, name: str) -> Content:
    return {path: data for path, data in files.items() if path.split("/")[0] == name}


def is_whole(files: Content, name: str, known: Sequence[Content]) -> bool:
    """Whether an output is one of the known ones; a folder that collects may hold files of several."""
    if name == KEPT:
        return all(
            any(alike({path: data}, {path: one.get(path, b"")}) for one in known) for path, data in files.items()
        )
    return any(alike(files, part(one, name)) for one in known)


def restore(place: Path, files: Content) -> None:
    for path, data in files.items():
        (place / path).parent.mkdir(exist_ok=True)
        (place / path).write_bytes(data)


if __name__ == "__main__":
    print(run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or tuple(COMMANDS)))
