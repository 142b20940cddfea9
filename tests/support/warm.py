"""Commands in processes forked from one where the libraries are loaded; they are disturbed at a counted event.

A command costs a second of processor time less than in a new interpreter. Events are those that Python audits, so that
a number repeats a disturbance. JAX and onnxruntime start threads, so the process that is forked never uses them.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

PATIENCE = 300.0  # seconds until a command counts as hung
LOOKS, BETWEEN = 600, 0.05  # at processes that should end with theirs, and seconds between two looks
PIPE = 2**20  # bytes of output that a command can leave
FILE_EVENTS = ("open", "os.", "shutil.", "tempfile.", "fcntl.")


@dataclass(frozen=True)
class Order:
    """A command, and what happens to it."""

    words: tuple[str, ...]
    place: str
    temporary: str
    act: str = "nothing"
    """At the event: the name of a signal (KILL, TERM, INT, STOP), to all processes of the command with 'all' behind it;
    'disk' leaves `room`, 'fault' lets this one call fail."""
    at: int = 0
    """Which event; 0 for none."""
    files: bool = True
    """Only events in the command's own folders count."""
    room: int = 0
    """Bytes that a file can still have once the disk is full; for 'memory', bytes that the command can get."""
    compile: bool = False
    """Compiled programs are kept for later commands."""


@dataclass(frozen=True)
class Ended:
    """How a command ended, or that it has stopped."""

    status: int | None
    """As `Popen.returncode`; None: it has stopped and can go on."""
    out: str = ""
    err: str = ""
    events: tuple[int, int] = (0, 0)
    """How many happened: in the command's own folders, and all."""
    fired: bool = False
    orphans: tuple[str, ...] = ()


class Warm:
    """A process with the libraries loaded, which starts commands."""

    def __init__(self, compiled: Path, prelude: str = "") -> None:
        """compiled: a folder for the programs that JAX compiles. prelude: code that is run first."""
        quiet = {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "JAX_PLATFORMS": "cpu",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        quiet |= {
            "SOURCE_DATE_EPOCH": "0",
            "JAX_COMPILATION_CACHE_DIR": str(compiled),
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, prelude], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | quiet
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def start(self, order: Order) -> int:
        return int(self._asked({"start": asdict(order)}, PATIENCE)["pid"])

    def wait(self, pid: int) -> Ended:
        """How it ended, or that it stopped. What takes too long is killed."""
        answer = self._asked({"wait": pid}, PATIENCE)
        if answer is None:
            os.kill(pid, signal.SIGKILL)
            ended = self._ended(pid, self._read(PATIENCE))
            return replace(ended, err=f"{ended.err}\nhung", orphans=(*ended.orphans, "hung"))
        return self._ended(pid, answer)

    def run(self, order: Order) -> Ended:
        return self.wait(self.start(order))

    def _ended(self, pid: int, answer: dict[str, Any]) -> Ended:
        if answer["status"] is None:
            return Ended(None)
        found = Ended(answer["status"], answer["out"], answer["err"], tuple(answer["events"]), answer["fired"])
        for _ in range(LOOKS):
            if not (left := _session(pid)):
                return found
            time.sleep(BETWEEN)
        for number in left:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return replace(found, orphans=tuple(left.values()))

    def _asked(self, question: dict[str, Any], seconds: float) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        return self._read(seconds)

    def _read(self, seconds: float) -> Any:
        stream = self.process.stdout
        assert stream is not None
        if not select.select([stream], [], [], seconds)[0]:
            return None
        return json.loads(stream.readline())


def _session(leader: int) -> dict[int, str]:
    """The living processes that a command started, and what they run."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                _, facts = (entry / "stat").read_text().rsplit(")", 1)
                state, _, _, session = facts.split()[:4]
                if int(session) == leader and state not in "ZX":
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")[:200]
    return found


# --- in the process that is forked ---


@dataclass
class Child:
    pid: int
    out: int
    err: int
    told: int


def serve() -> None:
    """Start commands and tell how they ended; in a child, be the command."""
    answers = os.dup(1)
    os.dup2(2, 1)
    _load()
    exec(sys.argv[1], {})
    children: dict[int, Child] = {}
    for line in sys.stdin:
        question = json.loads(line)
        if "start" in question:
            order = Order(**question["start"])
            pipes = [os.pipe() for _ in range(3)]
            child = os.fork()
            if not child:
                os.close(answers)
                for reader, _ in pipes:
                    os.close(reader)
                for old in children.values():
                    for end in (old.out, old.err, old.told):
                        os.close(end)
                _be(order, *(writer for _, writer in pipes))
                return
            for _, writer in pipes:
                os.close(writer)
            children[child] = Child(child, *(reader for reader, _ in pipes))
            answer: dict[str, Any] = {"pid": child}
        else:
            answer = _waited(question["wait"], children)
        os.write(answers, json.dumps(answer).encode() + b"\n")


def _load() -> None:
    import bornfair.cli

    for name in ("jax", "optax", "sklearn.linear_model", "rich.progress", "safetensors.numpy"):
        importlib.import_module(name)
    for module in pkgutil.walk_packages(bornfair.__path__, "bornfair."):
        if not any(part in module.name for part in ("experiments", "baselines", "cluster", "checker", "testing")):
            importlib.import_module(module.name)
    bornfair.cli._commands()
    assert "onnxruntime" not in sys.modules, "its threads would be missed in a forked process"
    gc.collect()
    gc.freeze()


def _waited(pid: int, children: dict[int, Child]) -> dict[str, Any]:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return {"status": None}
    child = children.pop(pid)
    out, err, told = (_drained(end) for end in (child.out, child.err, child.told))
    counts = [json.loads(line) for line in told.splitlines()]
    return {
        "status": os.waitstatus_to_exitcode(status), "out": out, "err": err,
        "fired": "fired" in counts, "events": next((one for one in counts if one != "fired"), (0, 0)),
    }  # fmt: skip


def _drained(end: int) -> str:
    """What is in a pipe now; another process may hold its other end."""
    os.set_blocking(end, False)
    found = b""
    with suppress(BlockingIOError):
        while block := os.read(end, PIPE):
            found += block
    os.close(end)
    return found.decode(errors="replace")


def _be(order: Order, out: int, err: int, told: int) -> None:
    """Run the command in this process."""
    import jax

    from bornfair import cli
    from bornfair.people import sources

    os.setsid()
    for number, end in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
        with suppress(OSError):
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE)
        os.dup2(end, number)
        os.close(end)
    os.chdir(order.place)
    os.environ["TMPDIR"] = order.temporary
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    sys.argv = ["bornfair", *order.words]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0 if order.compile else 1e9)
    sources.CELLS, sources.LEAST_ROWS = 400, 1  # many batches
    if order.act == "memory":
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + order.room, now + order.room))
    counter = Counter(order, told)
    sys.addaudithook(counter)
    try:
        cli.main()
    finally:
        counter.tell([counter.in_files, counter.all])


class Counter:
    """Counts events, and disturbs the command at one."""

    def __init__(self, order: Order, told: int) -> None:
        self.order, self.told, self.in_files, self.all, self.full = order, told, 0, 0, False
        self.owner = os.getpid()

    def tell(self, what: object) -> None:
        os.write(self.told, json.dumps(what).encode() + b"\n")

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if os.getpid() != self.owner:
            return
        own = event.startswith(FILE_EVENTS) and (event == "fcntl.flock" or any(map(self._is_own, arguments)))
        self.all += 1
        self.in_files += own
        if self.full and own and _makes(event, arguments):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if (own or not self.order.files) and (self.in_files if self.order.files else self.all) == self.order.at:
            self._act()

    def _is_own(self, argument: Any) -> bool:
        if not isinstance(argument, (str, bytes, os.PathLike)):
            return False
        path = os.fsdecode(argument)
        return not path.startswith("/") or path.startswith((self.order.place, self.order.temporary))

    def _act(self) -> None:
        act = self.order.act
        self.tell("fired")
        if act == "disk":
            self.full = True
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.order.room, resource.RLIM_INFINITY))
        elif act == "fault":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        elif act.endswith("all"):
            os.killpg(0, signal.Signals[f"SIG{act.removesuffix('all')}"])
        else:
            os.kill(os.getpid(), signal.Signals[f"SIG{act}"])


def _makes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether something new is made on the disk."""
    if event == "open":
        return isinstance(arguments[2], int) and bool(arguments[2] & os.O_CREAT)
    return event in ("os.mkdir", "os.link", "os.symlink")


if __name__ == "__main__":
    serve()
