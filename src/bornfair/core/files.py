"""Files and folders that are written whole or not at all, also by several writers at once.

New content is written beside its place under a hidden name and put there in one step. Writers of one folder take turns
(a lock on the folder, which ends with its process). Where the system cannot swap two folders in one step the old one is
put aside for a moment; a writer killed in that moment leaves it there, and the next reader or writer puts it back.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import io
import itertools
import os
import secrets
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from bornfair.core.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows: there two writers at once are not told apart
    fcntl = None  # type: ignore[assignment]

Read = TypeVar("Read")
PATIENCE = 60.0  # seconds to wait for another writer
NO_SUCH_STEP = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM)
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)


def open_regular(path: str | Path) -> io.BufferedReader:
    """Open a regular file for reading, and nothing else: a pipe makes its reader wait, and a device may be endless."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "it is no regular file", str(path))


def read_regular(path: str | Path, most: int) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: if it is no regular file, or cannot be read.
        InputError: if it has more bytes than `most`.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > most else file.read(most + 1)
    if max(size, len(content)) > most:
        raise InputError(f"'{path}' has more than {most:,} bytes, the most that is read.")
    return content


def write_atomically(path: str | Path, content: bytes | str, *, private: bool = False) -> Path:
    """Write a file; a reader never sees half of it. A private one is readable by its owner alone."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    with _alone(target):
        if target.exists() and not (target.is_file() or target.is_dir()):
            target.write_bytes(data)  # a device or a pipe is written to, not replaced
        else:
            temporary = _beside(target, secrets.token_hex(4))
            _write(temporary, data)
            temporary.chmod(0o600 if private else fresh_mode(0o666))
            temporary.replace(target)
    return Path(path)


def write_folder(path: str | Path, files: Mapping[str, bytes], *, marker: str) -> Path:
    """Write a folder of files; a reader finds the old folder or the new one.

    An existing folder is replaced only when it holds `marker` (an earlier result of ours) or is empty:
    a mistyped --out must not remove other files.
    """
    target = Path(os.path.realpath(path))
    with _alone(target):
        check_replaceable(target, marker=marker)
        temporary = _beside(target, secrets.token_hex(4))
        temporary.mkdir(mode=0o700)  # others may read it once it is whole
        for name, content in files.items():
            _write(temporary / name, content)
            (temporary / name).chmod(fresh_mode(0o666))
        temporary.chmod(fresh_mode(0o777))
        flush_folder(temporary)
        if not (target.exists() and _swap(temporary, target)):
            if target.exists():
                target.rename(_beside(target, "old"))
            temporary.rename(target)
        flush_folder(target.parent)
    return Path(path)


def check_replaceable(path: str | Path, *, marker: str) -> None:
    """Refuse a place that cannot be written, and a folder or .zip that holds something else than an earlier result. Ask
    before long work, not after it.
    """
    target = Path(path)
    check_writable(target)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if target.is_dir():
        ours = (target / marker).is_file() and target.suffix.lower() != ".zip"
    else:
        ours = target.suffix.lower() == ".zip" and marker in _names(target)
    if not ours:
        raise InputError(
            f"'{target}' exists and is not a bornfair result (no {marker} in it), so it is left alone; "
            "name a new folder."
        )


def check_writable(path: str | Path) -> None:
    """Refuse a place where no file can be made."""
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.is_file() or target.is_dir()):
        return  # a device
    with writing(Path(path)):
        there = next(one for one in target.parents if one.exists())
        tempfile.TemporaryFile(dir=there).close()


def check_file(path: str | Path) -> None:
    """Refuse a place where a file cannot be made, or a folder is. Ask before long work, not after it."""
    check_writable(path)
    if Path(path).is_dir():
        raise InputError(f"cannot write '{path}': it is a folder; name a file.")


@contextlib.contextmanager
def earlier_kept(path: str | Path, say: Callable[[str], None]) -> Iterator[None]:
    """Inside, `path` is free to be written; what stood there is kept beside it under the next free name, and said.

    An earlier result with the same content is not kept twice, and one that is not replaced is put back.
    """
    target, aside = Path(path), None
    if recover(target):
        with _alone(Path(os.path.realpath(target))):
            names = (target.with_name(f"{target.stem}-{number}{target.suffix}") for number in itertools.count(1))
            aside = next(name for name in names if not name.exists())
            target.rename(aside)
    try:
        yield
    finally:
        if aside is not None and not target.exists():
            aside.rename(target)
        elif aside is not None and _content(aside) == _content(target):
            shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
        elif aside is not None:
            say(f"the earlier '{target}' is kept as '{aside}'.")


def _content(path: Path) -> dict[str, bytes]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(file.relative_to(path)): file.read_bytes() for file in files if file.is_file()}


def check_report_replaceable(path: str | Path) -> None:
    """Refuse a place that cannot be written, and to replace a file that is no report of ours. Ask before long work, not
    after it.
    """
    target = Path(path)
    check_writable(target)
    if not target.is_file() or not target.stat().st_size:
        return
    content = target.read_bytes()
    if b"Made with bornfair." not in content and b"bornfair-report/" not in content:
        raise InputError(f"'{target}' exists and is not a report of bornfair, so it is left alone; name a new file.")


def read_whole(path: str | Path, read: Callable[[Path], Read]) -> Read:
    """The result of `read` for a folder of ours. It is read again if it was replaced meanwhile."""
    target = Path(path)
    while recover(target):
        before = _identity(target)
        try:
            found = read(target)
        except Exception:
            if before is not None and _identity(target) == before:
                raise
            continue
        if _identity(target) == before:
            return found
    return read(target)  # which says that nothing is there


def recover(path: str | Path) -> bool:
    """Whether something is at `path`. A folder that a killed writer had put aside is put back first; a writer that is
    still at work is waited for.
    """
    target = Path(os.path.realpath(path))
    if target.exists():
        return True
    if not target.parent.is_dir():
        return False
    with contextlib.suppress(OSError), _turn(target.parent):  # where it cannot be put back, nothing is there
        _put_back(target)
        return target.exists()
    return False


# --- taking turns ---


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """A turn to write beside `target`; it begins and ends by clearing away what was left unfinished."""
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _turn(target.parent):
            _clear(target)
            try:
                yield
            finally:
                _clear(target)


@contextlib.contextmanager
def writing(target: str | Path) -> Iterator[None]:
    """Name the place in errors of the system, as an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write '{target}': {error.strerror or error}; name a place that can be written."
        ) from error


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    deadline = time.monotonic() + PATIENCE
    try:
        while locked(handle) is False:
            if time.monotonic() > deadline:
                raise InputError(
                    f"another process has been writing to '{folder}' for {PATIENCE:.0f} seconds; try again later."
                )
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)  # which ends the lock


def locked(handle: int, *, shared: bool = False) -> bool | None:
    """Take the lock (flock) on an open file or folder without waiting; False if another process holds it, None where
    the system has no locks.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:  # some network folders have none
            raise
        return None
    return True


# --- what is beside the place while it is being written ---


def _beside(target: Path, end: str) -> Path:
    """A hidden name that no other target has, however long its own name."""
    return target.parent / f".bornfair-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-{end}"


def _put_back(target: Path) -> None:
    old = _beside(target, "old")
    if old.exists() and not target.exists():
        old.rename(target)


def _clear(target: Path) -> None:
    """Put the old folder back if the new one did not come, and remove the rest, which nobody is writing any more."""
    _put_back(target)
    old = _beside(target, "old")
    if old.exists():
        old.rename(_beside(target, secrets.token_hex(4)))  # what is half removed is never put back
    start = _beside(target, "").name
    for name in [name for name in os.listdir(target.parent) if name.startswith(start)]:  # noqa: PTH208 - names suffice
        removed(target.parent / name)


def removed(path: Path) -> None:
    """Remove a file, a link or a folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def fresh_mode(mode: int) -> int:
    """The mode of a new file that the user asks for with umask."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mode & ~mask


def flush_folder(folder: Path) -> None:
    """Names in a folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system knows no such step."""
    try:
        step = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, TypeError, OSError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if step(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in NO_SUCH_STEP:
        return False
    raise OSError(code, os.strerror(code))


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _names(archive: Path) -> list[str]:
    try:
        with zipfile.ZipFile(archive) as opened:
            return opened.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return []
