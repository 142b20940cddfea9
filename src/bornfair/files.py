"""How files get written: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from bornfair.errors import InputError


def write_atomically(path: str | Path, content: bytes | str) -> Path:
    """Write to a temporary name beside `path`, then rename: a reader never sees half a file."""
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _cannot_write(target, error) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot_write(target, error) from error
        raise
    return target


def check_replaceable(path: str | Path, *, marker: str) -> None:
    """Refuse a folder or .zip that holds something else than an earlier result. Ask before long work, not after it."""
    target = Path(path)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if target.is_dir():
        ours = (target / marker).is_file() and target.suffix.lower() != ".zip"
    else:
        ours = target.suffix.lower() == ".zip" and zipfile.is_zipfile(target) and marker in _names(target)
    if not ours:
        raise InputError(
            f"'{target}' exists and is not a bornfair result (no {marker} in it), so it is left alone; "
            "name a new folder."
        )


def _names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


@contextlib.contextmanager
def folder_written_atomically(path: str | Path, *, marker: str) -> Iterator[Path]:
    """Fill a temporary folder, then put it in place of `path` in one rename.

    An existing folder is replaced only when it holds `marker` (an earlier result of ours) or is empty:
    a mistyped --out must not wipe somebody's work.
    """
    target = Path(path)
    check_replaceable(target, marker=marker)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise _cannot_write(target, error) from error
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        if target.exists():
            retired = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
            target.replace(retired / "old")
            temporary.replace(target)
            shutil.rmtree(retired)
        else:
            temporary.replace(target)
    finally:
        if temporary.exists():
            shutil.rmtree(temporary)


def _cannot_write(target: Path, error: OSError) -> InputError:
    return InputError(f"cannot write '{target}': {error.strerror or error}; name a place that can be written.")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
