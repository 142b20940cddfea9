"""Files that grow have one owner, are private, and are continued only where nothing is damaged."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import bornfair
from bornfair.core import files, growing
from bornfair.core.errors import InputError
from bornfair.core.growing import Busy, GrowingFile, Lock, OwnFolder, remove_leftovers

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(bornfair.__file__).parents[1])}
PIECES = [f"{number} line\n".encode() * 50 for number in range(6)]


@dataclass(frozen=True)
class Reached:
    pieces: int = 0


def written(place, *, until=6, mark="m"):
    """Write the pieces that are missing, up to one where the run is interrupted."""
    with GrowingFile(place, mark, Reached()) as file:
        for number in range(file.state.pieces, until):
            file.add(PIECES[number], Reached(number + 1))
        if until == len(PIECES):
            file.finish()
        return file.resumed


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def python(code, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("until", [1, 5])
def test_an_interrupted_file_is_private_and_continued_to_the_same_bytes(until, tmp_path):
    place = tmp_path / "new" / "out.csv"
    before = os.umask(0o022)
    try:
        assert not written(place, until=until)
        assert not place.exists() and {mode(one) for one in place.parent.iterdir()} == {0o600}
        assert written(place)
    finally:
        os.umask(before)
    assert place.read_bytes() == b"".join(PIECES) and mode(place) == 0o644
    assert list(place.parent.iterdir()) == [place]


def test_a_run_that_writes_nothing_leaves_nothing(tmp_path):
    written(tmp_path / "out.csv", until=0)
    assert list(tmp_path.iterdir()) == []


def test_another_mark_starts_anew(tmp_path):
    written(tmp_path / "out.csv", until=3)
    assert not written(tmp_path / "out.csv", mark="other")
    assert (tmp_path / "out.csv").read_bytes() == b"".join(PIECES)


def changed(facts):
    """A damage: the note says something else."""

    def damage(note, part):
        note.write_text(json.dumps(json.loads(note.read_text()) | facts))

    return damage


DAMAGES = {
    "empty": lambda note, part: note.write_bytes(b""),
    "cut": lambda note, part: note.write_bytes(note.read_bytes()[:40]),
    "no JSON": lambda note, part: note.write_bytes(b"\xff\x00"),
    "deep": lambda note, part: note.write_bytes(b"[" * 100_000),
    "null": lambda note, part: note.write_text("null"),
    "list": lambda note, part: note.write_text("[1]"),
    "folder": lambda note, part: (note.unlink(), note.mkdir()),
    "negative": changed({"size": -5}),
    "size as text": changed({"size": "300"}),
    "size as float": changed({"size": 300.5}),
    "no size": changed({"size": None}),
    "huge": changed({"size": 10**30}),
    "shorter": changed({"size": 100}),
    "state ahead": changed({"state": {"pieces": 4}}),
    "state behind": changed({"state": {"pieces": 1}}),
    "state as text": changed({"state": {"pieces": "2"}}),
    "state is a list": changed({"state": [2]}),
    "no digest": changed({"digest": ""}),
    "digest as number": changed({"digest": 5}),
    "part is empty": lambda note, part: part.write_bytes(b""),
    "part is cut": lambda note, part: part.write_bytes(part.read_bytes()[:-1]),
    "part is changed": lambda note, part: part.write_bytes(b"x" + part.read_bytes()[1:]),
    "part is longer": lambda note, part: part.write_bytes(part.read_bytes() + b"not noted\n"),
    "part is gone": lambda note, part: part.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_note_or_file_never_leads_to_a_wrong_file(damage, tmp_path):
    place = tmp_path / "out.csv"
    written(place, until=3)
    DAMAGES[damage](tmp_path / "out.csv.progress", tmp_path / "out.csv.part")
    try:
        resumed = written(place)
    except InputError:
        assert damage == "folder" and not place.exists()
        return
    assert place.read_bytes() == b"".join(PIECES) and list(tmp_path.iterdir()) == [place]
    assert resumed == (damage == "part is longer"), "only what nobody noted may be dropped"


def test_every_changed_byte_of_a_note_is_noticed(tmp_path):
    place, note = tmp_path / "out.csv", tmp_path / "out.csv.progress"
    written(place, until=3)
    whole, part = note.read_bytes(), (tmp_path / "out.csv.part").read_bytes()
    for at in range(len(whole)):
        note.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        (tmp_path / "out.csv.part").write_bytes(part)
        with GrowingFile(place, "m", Reached()) as file:
            assert (file.resumed, file.state) in ((False, Reached(0)), (True, Reached(3))), whole[at - 5 : at + 5]


def test_a_second_writer_is_refused_and_the_first_one_is_not_disturbed(tmp_path):
    place = tmp_path / "out.csv"
    with GrowingFile(place, "m", Reached()) as file:
        file.add(PIECES[0], Reached(1))
        (tmp_path / "link.csv").symlink_to(place)
        for other in (place, tmp_path / "link.csv"):
            with pytest.raises(
                InputError, match=r"another run is writing .*; wait until it ends, or name another file"
            ):
                GrowingFile(other, "other", Reached())
        file.finish()
    assert place.read_bytes() == PIECES[0]


WRITER = """
import sys, time
from pathlib import Path
from dataclasses import dataclass
from bornfair.core.errors import InputError
from bornfair.core.growing import GrowingFile

@dataclass(frozen=True)
class Reached:
    pieces: int = 0

name, place = sys.argv[1], Path(sys.argv[2])
print("ready", flush=True)
while sys.stdin.readline():
    try:
        with GrowingFile(place, name, Reached()) as file:
            for number in range(20):
                file.add(f"{name} {number}\\n".encode(), Reached(number + 1))
            file.finish()
        print("done", flush=True)
    except InputError as error:
        print(error, flush=True)
"""


def test_of_writers_who_race_each_writes_the_whole_file_or_is_refused(tmp_path):
    place = tmp_path / "out.csv"
    writers = {name: python(WRITER, name, place, stdin=subprocess.PIPE) for name in ("a", "b")}
    assert [one.stdout.readline() for one in writers.values()] == ["ready\n"] * 2
    for _ in range(5):
        for one in writers.values():
            one.stdin.write("\n")
            one.stdin.flush()
        said = {name: one.stdout.readline().strip() for name, one in writers.items()}
        done = [name for name in said if said[name] == "done"]
        assert done and all(text == "done" or "another run is writing" in text for text in said.values()), said
        assert place.read_text() in {"".join(f"{name} {number}\n" for number in range(20)) for name in done}
        assert list(tmp_path.iterdir()) == [place]
        place.unlink()
    for one in writers.values():
        one.communicate()


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_stands_in_place_of_the_part_is_left_alone(kind, tmp_path):
    part, other = tmp_path / "out.csv.part", tmp_path / "other"
    other.write_text("somebody's")
    {"folder": part.mkdir, "link": lambda: part.symlink_to(other), "pipe": lambda: os.mkfifo(part)}[kind]()
    with pytest.raises(InputError, match="cannot write"):
        GrowingFile(tmp_path / "out.csv", "m", Reached())
    assert other.read_text() == "somebody's"


def test_a_device_is_written_to_directly(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    written(tmp_path / "pipe")
    assert os.read(reader, 10_000) == b"".join(PIECES)
    os.close(reader)
    with pytest.raises(InputError, match="cannot write '/dev/full': No space left on device"):
        written(Path("/dev/full"))


def test_a_disk_that_is_full_is_said_in_a_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with GrowingFile(tmp_path / "out.csv", "m", Reached()) as file:
        file.add(PIECES[0], Reached(1))
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"cannot write .*No space left on device; name a place"):
            file.add(PIECES[1], Reached(2))
    monkeypatch.undo()
    assert written(tmp_path / "out.csv") and (tmp_path / "out.csv").read_bytes() == b"".join(PIECES)


# --- folders and signals ---


def test_a_shared_lock_is_shared_and_an_exclusive_one_is_not(tmp_path):
    path = tmp_path / "lock"
    one, two = Lock(path, shared=True), Lock(path, shared=True)
    with pytest.raises(Busy):
        Lock(path)
    one.close()
    two.close()
    one = Lock(path)
    with pytest.raises(Busy):
        Lock(path, shared=True)
    one.share()
    Lock(path, shared=True).close()
    assert mode(path) == 0o600


def test_a_lock_on_a_file_that_its_former_owner_moved_is_taken_anew(tmp_path, monkeypatch):
    path, flock = tmp_path / "lock", files.fcntl.flock

    def moved(*arguments):
        monkeypatch.undo()
        path.rename(tmp_path / "moved")
        return flock(*arguments)

    monkeypatch.setattr(files.fcntl, "flock", moved)
    lock = Lock(path)
    assert os.path.samestat(os.fstat(lock.handle), path.stat())
    with pytest.raises(Busy):
        Lock(path)


def test_a_folder_has_one_owner_and_is_removed_unless_it_is_kept(tmp_path):
    for kept in (False, True):
        folder = OwnFolder(tmp_path / "own", kept=kept)
        (folder.path / "rows").write_text("people")
        with pytest.raises(Busy):
            OwnFolder(folder.path, kept=False)
        assert mode(folder.path) == 0o700 and mode(folder.path / growing.LOCK) == 0o600
        folder.close()
        assert (tmp_path / "own" / "rows").exists() is kept
    folder = OwnFolder(tmp_path / "own", kept=True)
    folder.remove()
    assert not (tmp_path / "own").exists()


DYING = """
import os, signal, sys
from pathlib import Path
from bornfair.core.growing import OwnFolder, one_run
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup, under which tests may run, lets it be ignored
with one_run():
    own = [OwnFolder(Path(sys.argv[1]) / name, kept=name == ".kept-rows") for name in (".gone-rows", ".kept-rows")]
    for one in own:
        (one.path / "rows").write_text("people")
    print("ready", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_no_signal_leaves_a_temporary_folder_for_good(number, tmp_path):
    (tmp_path / ".mine-rows").mkdir()
    (tmp_path / ".mine-rows" / "rows").write_text("made by somebody else")
    dying = python(DYING, tmp_path, stderr=subprocess.DEVNULL)
    dying.stdout.readline()
    remove_leftovers(tmp_path, ".*-rows")
    assert (tmp_path / ".gone-rows" / "rows").exists(), "its owner is alive"
    dying.send_signal(number)
    dying.communicate()
    expected = {signal.SIGTERM: 143, signal.SIGHUP: 129}
    assert dying.returncode == expected.get(number, dying.returncode) != 0
    assert (tmp_path / ".gone-rows").exists() is (number == signal.SIGKILL)
    remove_leftovers(tmp_path, ".*-rows")
    assert {one.name for one in tmp_path.iterdir()} == {".kept-rows", ".mine-rows"}


def test_a_link_in_place_of_a_leftover_is_not_followed(tmp_path):
    other = OwnFolder(tmp_path / "other", kept=False)
    (other.path / "rows").write_text("people")
    other.kept = True
    other._end.detach()
    other.lock.close()
    (tmp_path / ".x-rows").symlink_to(other.path)
    remove_leftovers(tmp_path, ".*-rows")
    assert (tmp_path / "other" / "rows").exists()
    remove_leftovers(tmp_path, "other")
    assert not (tmp_path / "other").exists()


def test_a_forked_child_does_not_remove_the_folder_of_its_parent(tmp_path):
    folder = OwnFolder(tmp_path / "own", kept=False)
    child = os.fork()
    if not child:
        folder.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.exists()
    folder.close()
    assert not folder.path.exists()


WORKING = """
import sys
from bornfair.core.growing import one_run
from bornfair.parallel import Workers, engines
import errands
with one_run(), Workers.of(2) as workers:
    list(workers.ordered(errands.slowly, range(4)))
    print(workers.engine._folder.path, *workers.engine._executor._processes, flush=True)
    list(workers.ordered(errands.slowly, [-10_000] * 2))
"""


def test_workers_end_with_a_killed_parent_and_the_next_run_removes_its_folder(tmp_path):
    support = str(Path(__file__).parent / "support")
    environment = ENVIRONMENT | {"TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] += f"{os.pathsep}{support}"
    command = [sys.executable, "-c", WORKING]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        folder, *workers = parent.stdout.readline().split()
        assert len(workers) == 2 and Path(folder).parent == tmp_path and mode(Path(folder)) == 0o700
        parent.kill()
    waited = 0
    while any(Path(f"/proc/{worker}").exists() and "Z" not in status(worker) for worker in workers):
        time.sleep(0.1)
        waited += 1
        assert waited < 300, "half of the time after which idle workers end"
    assert Path(folder).exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path))
        with growing.one_run():
            assert not Path(folder).exists()


def status(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
