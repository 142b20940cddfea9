"""Endpoints that behave badly, given to the real commands: answers, statuses, deliveries and transports of every kind.

A server on the loopback address reads from the path of a request which of the `BEHAVIOURS` is meant. A finding is what
`broken_rules` reports: status 4, an error that is not one sentence, or a wait beyond twice the limit of time.

    python hostile_endpoints.py 400 7          400 cases, seed 7: all behaviours, with random commands
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forked_commands import broken_rules, import_everything, run_command
from fuzzing import Summary
from hostile_answers import BEHAVIOURS, LONG, NAMES

# --- the server ---


class Server:
    """Serves all behaviours on the loopback address; `/NUMBER/ANYTHING` chooses one, and counts its own answers."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.socket.getsockname()[1]
        self.counts = dict[str, int]()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, name: str, case: str = "case") -> str:
        return f"http://127.0.0.1:{self.port}/{NAMES.index(name)}/{case}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError), connection:
            with connection.makefile("rb") as stream:
                path = stream.readline().split()[1].decode()
                size = 0
                while line := stream.readline().strip():
                    name, _, value = line.partition(b":")
                    size = int(value) if name.lower() == b"content-length" else size
                rows = json.loads(stream.read(size) or b"{}").get("rows", [])
            n = self.counts[path] = self.counts.get(path, -1) + 1
            for piece in BEHAVIOURS[NAMES[int(path.split("/")[1])]](rows, n):
                connection.sendall(piece)
            if n % 3 == 2:  # now and then the connection is reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextlib.contextmanager
def served() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.socket.close()


# --- many cases ---

COMMANDS = (
    ["verify"],
    ["verify"],
    ["quantify"],
    ["explain", "--person", "person.json"],
    ["verify", "--data", "four.csv", "--target", "y"],
    ["audit", "--data", "four.csv", "--target", "y", "--report", "made.json"],
    ["proxies", "four.csv", "--target", "y"],
)
URLS = ("https://127.0.0.1:{port}/1/x", "http://127.0.0.1:1/x", "http://localhost:{port}/ü",
"http://127.0.0.1:{port}/a b", "http://" + "a" * 64 + ".invalid/", "http://[::1]:1/", "http://127.0.0.1:99999/",
"http://ü.invalid/", "http://127.0.0.1:{port}/\x7f", "http://xn--a.invalid/",
"http://127.0.0.1:{port}/" + "x" * 100_000, "HTTP://127.0.0.1:{port}/0/x#f", "http://127.0.0.1\\@{port}/",
"http://127.0.0.1:0/", "http://.invalid/", "http://*/")  # fmt: skip


def prepare(folder: Path) -> None:
    from interop_models import people

    (folder / "four.json").write_text(people().text())
    people().sample(40, seed=0).assign(y=[0, 1] * 20).to_csv(folder / "four.csv", index=False)
    people().sample(1, seed=0).iloc[0].to_json(folder / "person.json")


def words_of(url: str, chance: random.Random, *, lasting: bool) -> list[str]:
    """lasting: the command has a limit of time."""
    name, *rest = chance.choice(COMMANDS[:-1] if lasting else COMMANDS)
    who = [] if name == "proxies" else ["--domain", "four.json", "--timeout", "1"]
    words = [name, *rest, "--endpoint", url, *who, "--sensitive", "group", "--rate", "1000"]
    return [*words, "--json"] if chance.random() < 0.4 else words


def judge(folder: Path, port: int, seed: int, index: int) -> dict[str, Any]:
    """Run one case here: each behaviour, and each address that cannot be asked, once before one is repeated."""
    chance, cases = random.Random(f"{seed} {index}"), len(NAMES) + len(URLS)
    place = random.Random(seed).sample(range(cases), cases)[index % cases]
    if place < len(NAMES):
        kind, url = NAMES[place], f"http://127.0.0.1:{port}/{place}/{seed}-{index}"
    else:
        kind, url = "address", URLS[place - len(NAMES)].format(port=port)
    words = words_of(url, chance, lasting=kind in LONG)
    ended = run_command(words, folder)
    wrong = list(broken_rules(ended, words))
    return {
        "kind": kind,
        "words": words,
        "wrong": wrong,
        **asdict(ended),
        "out": ended.out[:200],
        "err": ended.err[-600:],
    }


def run(count: int, seed: int = 0, *, say: Callable[[dict[str, Any]], None] | None = None) -> Summary:
    """Run `count` cases in a child process, against a server in another one."""
    summary, folder = Summary(), tempfile.mkdtemp()
    this = [sys.executable, str(Path(__file__).resolve())]
    prepare(Path(folder))
    try:
        with subprocess.Popen([*this, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            port = server.stdout.readline().decode().strip()
            with subprocess.Popen(
                [*this, "work", folder, port, str(seed), "0", str(count)], stdout=subprocess.PIPE
            ) as child:
                assert child.stdout is not None
                for index, line in enumerate(child.stdout):
                    found = json.loads(line)
                    summary.cases += 1
                    summary.outcomes[f"status {found['status']}"] += 1
                    shown = f"case {seed} {index} ({found['kind']}, {found['words']})"
                    summary.wrong += [f"{shown}: {wrong}" for wrong in found["wrong"]]
                    if say is not None:
                        say({"index": index, **found})
            server.kill()
    finally:
        shutil.rmtree(folder)
    if summary.cases < count:
        summary.wrong.append(f"case {seed} {summary.cases}: the process that runs the commands has crashed")
    return summary


def main(arguments: list[str]) -> int:
    if arguments[0] == "serve":
        with served() as server:
            print(server.port, flush=True)
            sys.stdin.read()
        return 0
    if arguments[0] == "work":
        import_everything()
        port, seed, start, end = map(int, arguments[2:6])
        for index in range(start, end):
            print(json.dumps(judge(Path(arguments[1]), port, seed, index)), flush=True)
        return 0
    count, seed = (int(word) for word in (*arguments, "0")[:2])
    summary = run(count, seed, say=lambda found: print(json.dumps(found), flush=True))
    print(summary)
    return 1 if summary.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
