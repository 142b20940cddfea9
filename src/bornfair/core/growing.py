"""Files that grow during a long run: one run owns them, other users cannot read them, and damaged notes are ignored.

A lock (flock) on a file is held for the whole run and ends with its process, however that process ends. Temporary
folders hold such a lock too: a folder whose lock is free belongs to a process that died, and the next run removes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import signal
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Generic, Self, TypeVar

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.core.files import (
    check_file,
    flush_folder,
    fresh_mode,
    locked,
    read_regular,
    removed,
    write_atomically,
    writing,
)

LOCK = ".bornfair-lock"  # in a folder that one run owns
TEMPORARY, KEPT = b"temporary", b"kept"  # what the lock file says about its folder
PREFIX = "bornfair-"  # of folders in TMPDIR
BLOCK = 2**20

State = TypeVar("State")


# --- locks ---


class Busy(Exception):
    """Another process holds the lock."""


class Lock:
    """A lock on a file, from here until `close`; the file is made if it is absent, readable by its owner alone.

    Raises:
        Busy: if another process holds the lock.
        OSError: if the file cannot be opened, or belongs to somebody else.
    """

    def __init__(self, path: Path, *, shared: bool = False, sure: bool = False) -> None:
        """shared: others may hold it, too, if they share it.
        sure: raise Busy also where the file system has no locks.
        """
        self.path, self._shared = path, shared
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        while True:
            self.handle = os.open(path, flags, 0o600)
            self._end = weakref.finalize(self, os.close, self.handle)  # which ends the lock
            try:
                found = os.fstat(self.handle)
                if not stat.S_ISREG(found.st_mode) or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
                    raise OSError(errno.EPERM, "it is no regular file of yours; remove it", str(path))
                self._lock(sure)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(path.lstat(), found):
                        path.chmod(0o600)
                        return
            except BaseException:
                self.close()
                raise
            self.close()  # its former owner has just moved or removed it

    def _lock(self, sure: bool) -> None:
        found = locked(self.handle, shared=self._shared)
        if found is False or (sure and found is None):
            raise Busy

    def share(self) -> None:
        """From now on others may hold it, too. Raises Busy if somebody takes it in this moment."""
        self._shared = True
        self._lock(sure=False)

    @property
    def held(self) -> bool:
        return self._end.alive

    def close(self) -> None:
        self._end()


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are absent, for its owner alone."""
    for one in (*reversed(path.parents), path):
        if not one.is_dir():
            one.mkdir(mode=0o700, exist_ok=True)


def private_file(path: Path) -> IO[bytes]:
    """A new file to write to, which its owner alone can read, in place of whatever was there."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


# --- a file that grows ---


@dataclass(frozen=True)
class _Note:
    """How far a growing file reaches, and what for."""

    mark: str
    size: int
    content: str
    """SHA-256 of so many bytes of the file."""
    state: dict[str, Any]
    digest: str = ""
    """SHA-256 of all this."""

    def signed(self) -> _Note:
        text = json.dumps(asdict(replace(self, digest="")), sort_keys=True)
        return replace(self, digest=hashlib.sha256(text.encode()).hexdigest())


class GrowingFile(Generic[State]):
    """A file written piece by piece in FILE.part, which a later run with the same mark continues; `finish` puts it in
    its place. Every piece is on the disk before FILE.progress mentions it.

    A device or a pipe is written to directly.
    """

    def __init__(self, out: Path, mark: str, start: State) -> None:
        """mark: changes with everything that the content depends on; start: the caller's state before the first piece,
        a dataclass of JSON values.

        Raises:
            InputError: if the place cannot be written, or another run is writing it.
        """
        self.out, self.mark, self.state, self.resumed = out, mark, start, False
        self._target = Path(os.path.realpath(out))
        self._part, self._note = (self._target.with_name(f"{self._target.name}.{end}") for end in ("part", "progress"))
        self._digest, self._lock = hashlib.sha256(), None
        check_file(out)
        with writing(self.out):
            if self._target.exists() and not self._target.is_file():
                self._stream: IO[bytes] = self._target.open("wb")
                return
            self._target.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._lock = Lock(self._part)
            except Busy:
                raise InputError(
                    f"another run is writing '{out}'; wait until it ends, or name another file with --out."
                ) from None
            self._stream = os.fdopen(os.dup(self._lock.handle), "r+b")
            try:
                self._resume(type(start))
            except BaseException:
                self.close()
                raise

    def _resume(self, kind: type[State]) -> None:
        """Continue where the note says, if it is whole and the file agrees with it; else start anew."""
        from pydantic import TypeAdapter

        size = 0
        with contextlib.suppress(OSError, ValueError, RecursionError):
            note = TypeAdapter(_Note).validate_json(read_regular(self._note, limits.DOMAIN_BYTES), strict=True)
            if note.signed() == note and note.mark == self.mark and self._matches(note):
                self.state, size = TypeAdapter(kind).validate_json(json.dumps(note.state), strict=True), note.size
        if not size:
            self._digest = hashlib.sha256()
            self._note.unlink(missing_ok=True)
        self._stream.truncate(size)
        self._stream.seek(size)
        self.resumed = size > 0

    def _matches(self, note: _Note) -> bool:
        left = note.size
        while left > 0 and (block := self._stream.read(min(left, BLOCK))):
            self._digest.update(block)
            left -= len(block)
        return not left and self._digest.hexdigest() == note.content

    def add(self, piece: bytes, state: State) -> None:
        """Write a piece; `state` is how far it reaches."""
        with writing(self.out):
            self._stream.write(piece)
            self._stream.flush()
            if self._lock is None:
                return
            os.fsync(self._stream.fileno())
            self._digest.update(piece)
            note = _Note(self.mark, self._stream.tell(), self._digest.hexdigest(), asdict(state)).signed()  # type: ignore[call-overload]
        write_atomically(self._note, json.dumps(asdict(note)), private=True)
        self.state = state

    def finish(self) -> None:
        """Put the file in its place."""
        with writing(self.out):
            if self._lock is not None:
                self._part.chmod(fresh_mode(0o666))
                self._part.replace(self._target)
                self._note.unlink(missing_ok=True)
                flush_folder(self._target.parent)
        self.close()

    def discard(self) -> None:
        """Remove what was written."""
        if self._lock is not None and self._lock.held:
            self._note.unlink(missing_ok=True)
            self._part.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Leave what was written for a later run."""
        with contextlib.suppress(OSError):
            self._stream.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None and self._lock.held and not self._note.exists():
            self.discard()  # nothing was written yet
        self.close()


# --- folders of one run ---


class OwnFolder:
    """A folder that one run owns until `close`; what is made in it is for its owner alone.

    Folders that are not kept are removed: by `close`, at the end of `one_run`, or, where their process was killed, by
    `remove_leftovers`.
    """

    def __init__(self, path: Path, *, kept: bool) -> None:
        """kept: a later run needs it.

        Raises:
            Busy: if another process owns it.
        """
        self.path, self.kept = path, kept
        while True:
            private_folder(path)
            with contextlib.suppress(FileNotFoundError):  # its former owner has just removed it
                self.lock = Lock(path / LOCK)
                break
        os.ftruncate(self.lock.handle, 0)
        os.write(self.lock.handle, KEPT if kept else TEMPORARY)
        self._end = weakref.finalize(self, _ended, self.path, self.lock, self.kept, os.getpid())
        if _of_this_run is not None:
            _of_this_run.add(self)

    @staticmethod
    def temporary() -> OwnFolder:
        """A new one in TMPDIR."""
        return OwnFolder(Path(tempfile.mkdtemp(prefix=PREFIX)), kept=False)

    def close(self) -> None:
        self._end()

    def remove(self) -> None:
        """Remove it, also where it was to be kept."""
        if self.lock.held:
            _remove(self.path)
        self.close()


def _ended(path: Path, lock: Lock, kept: bool, owner: int) -> None:
    if not kept and os.getpid() == owner:  # a forked child leaves it alone
        _remove(path)
    lock.close()


def _remove(folder: Path) -> None:
    """Remove a folder whose lock we hold; the lock last, so that nobody else owns what is half removed."""
    for entry in os.scandir(folder) if folder.is_dir() else ():
        if entry.name != LOCK:
            removed(Path(entry))
    (folder / LOCK).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody else owns it by now
        folder.rmdir()


def remove_leftovers(parent: Path, pattern: str) -> None:
    """Remove the temporary folders of dead processes: ours, named like this, with a lock that nobody holds."""
    with contextlib.suppress(OSError):
        for folder in parent.glob(pattern):
            with contextlib.suppress(OSError, Busy):
                own = folder.is_dir() and not folder.is_symlink()
                if own and (not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()):
                    for lock in (folder / LOCK, *folder.glob(f"*/{LOCK}")):
                        _remove_left(lock)
                    if not any(folder.iterdir()) and pattern != f"{PREFIX}*":
                        folder.rmdir()


def _remove_left(path: Path) -> None:
    if not path.is_file():
        return
    lock = Lock(path, sure=True)
    try:
        if os.read(lock.handle, len(TEMPORARY) + 1) == TEMPORARY:
            _remove(path.parent)
    finally:
        lock.close()


# --- the end of a run ---


class Terminated(SystemExit):
    """SIGTERM or SIGHUP: temporary files are removed on the way out."""

    @property
    def status(self) -> int:
        return int(self.code or 0)


_of_this_run: weakref.WeakSet[OwnFolder] | None = None


@contextlib.contextmanager
def one_run() -> Iterator[None]:
    """A run of the command line: whatever way it ends, its temporary folders are removed; SIGTERM and SIGHUP end it
    like an exception. A second signal ends the process at once.
    """
    global _of_this_run
    outer, _of_this_run = _of_this_run, weakref.WeakSet()
    remove_leftovers(Path(tempfile.gettempdir()), f"{PREFIX}*")
    restored = _signals_raise()
    try:
        yield
    finally:
        for folder in list(_of_this_run):
            folder.close()
        _of_this_run = outer
        restored()


def _signals_raise() -> Callable[[], None]:
    if threading.current_thread() is not threading.main_thread():
        return lambda: None

    def raised(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Terminated(128 + number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    usual = [one for one in map(signal.Signals.__getitem__, names) if signal.getsignal(one) == signal.SIG_DFL]
    for one in usual:  # nohup has SIGHUP ignored, and it stays so
        signal.signal(one, raised)

    def restored() -> None:
        for one in usual:
            signal.signal(one, signal.SIG_DFL)

    return restored
