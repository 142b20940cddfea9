"""Writers that die at every step, one after another, and writers who meet: does a reader always find one whole result?

Run by test_files.py in a process of its own, which forks a child for each step to die at. A step is a line of files.py,
or anything Python does to the file system (its audit events), whichever comes next.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from bornfair.core import files

MARKER, NAMES = "domain.json", ("domain.json", "model.onnx", "certificate.json")
DIED = 17


def content(version: int) -> dict[str, bytes]:
    return {name: f"{version} {name}".encode() * 50 for name in NAMES}


def write(place: Path, version: int) -> None:
    if place.suffix == ".txt":
        files.write_atomically(place, content(version)["model.onnx"])
    else:
        files.write_folder(place, content(version), marker=MARKER)


def found(place: Path) -> int | None:
    """Which version a reader finds whole; None where there is none. Fails where it is not whole."""
    if not files.recover(place):
        return None
    if place.suffix == ".txt":
        parts = {"model.onnx": place.read_bytes()}
    else:
        parts = files.read_whole(place, lambda there: {p.name: p.read_bytes() for p in there.iterdir()})
        assert set(parts) == set(NAMES), f"only {sorted(parts)}"
    version = int(parts["model.onnx"].split()[0])
    assert parts.items() <= content(version).items(), "of two versions"
    return version


def dying_at(step: int, place: Path, version: int) -> bool:
    """Write in a child that dies at this step. Whether it did."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, DIED), status
        return status == DIED
    left = step

    def count(*_):
        nonlocal left
        left -= 1
        if left < 0:
            os._exit(DIED)

    def line(frame, event, _):
        if frame.f_code.co_filename != files.__file__:
            return None
        count()
        return line

    def audit(event, _):
        if event.startswith(("os.", "open", "shutil.")):
            count()

    sys.addaudithook(audit)
    sys.settrace(line)
    write(place, version)
    os._exit(0)


def die_everywhere(place: Path, before: int | None) -> int:
    """The number of steps tried."""
    step = 0
    while True:
        if before is not None:
            write(place, before)
        died = dying_at(step, place, 1)
        now = found(place)
        assert now in ((before, 1) if died else (1,)), f"step {step}: {now}"
        write(place, 2)
        assert found(place) == 2
        assert os.listdir(place.parent) == [place.name], f"step {step}: {os.listdir(place.parent)}"  # noqa: PTH208
        if before is None:
            remove(place)
        if not died:
            return step
        step += 1


def remove(place: Path) -> None:
    for file in [place] if place.is_file() else [*place.iterdir()]:
        file.unlink()
    if place.is_dir():
        place.rmdir()


def meet(place: Path, writers: int, rounds: int) -> int:
    """Writers at once, and a reader meanwhile; how often it read."""
    write(place, 0)
    children = []
    for writer in range(1, writers + 1):
        children.append(os.fork())
        if not children[-1]:
            status = 1
            try:
                for turn in range(rounds):
                    write(place, writer * 10_000 + turn)
                status = 0
            finally:
                os._exit(status)
    reads = 0
    while any(os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for child in children):
        assert found(place) is not None, "it was gone for a moment"
        reads += 1
    for child in children:
        assert os.waitpid(child, 0)[1] == 0, "a writer failed"
    assert os.listdir(place.parent) == [place.name]  # noqa: PTH208
    return reads


def main(rounds: int) -> None:
    began = time.perf_counter()
    swap = files._swap
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where waiting for disks is short
    kept = [("note.txt", 0), ("note.txt", None)]
    for way, step in (("in one step", swap), ("in two steps", lambda *_: False)):
        files._swap = step
        for name, before in [("bundle", 0), ("bundle", None), *(kept if step is swap else [])]:
            with tempfile.TemporaryDirectory(dir=memory) as folder:
                steps = die_everywhere(Path(folder) / name, before)
                print(f"{name}, {way}, {'new' if before is None else 'over an old one'}: {steps} deaths, always whole")
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            reads = meet(Path(folder) / "bundle", 4, rounds)
            print(f"4 writers of one bundle {way}, {4 * rounds} writes, {reads} reads: always whole")
    print(f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
