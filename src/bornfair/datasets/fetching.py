"""Getting a file that is not in the package: copied or downloaded, checked, and only then kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bornfair.core.errors import InputError
from bornfair.core.files import write_atomically
from bornfair.datasets import catalogue
from bornfair.datasets.external import Place, cache_folder, content_at
from bornfair.datasets.rawfile import RawFile, checked, embedded

DOWNLOAD_CHUNK = 1 << 16


def fetch(name: str, *, url: str | None = None, file: str | Path | None = None) -> Place:
    """Make a dataset loadable: from `file`, from `url`, or from its own home if it has one.

    A file with another checksum is an error and is not kept. Nothing is fetched that is here already, unless
    `url` or `file` says so.
    """
    entry = catalogue.entry(name)
    if url is not None and file is not None:
        raise InputError("give either a URL or a file to fetch from, not both.")
    if entry.embedded and (url is not None or file is not None):
        raise InputError(f"dataset {name!r} is in the package and is never fetched; leave the URL or file out.")
    if url is None and file is None:
        place = catalogue.where(name)
        if place is not None and _is_sound(place, entry.raw):
            return place
        if entry.raw.url is None:
            raise InputError(f"dataset {name!r} has no address to fetch it from by itself; {entry.raw.advice}.")
    content = _copied(Path(file), entry.raw) if file is not None else _downloaded(url or str(entry.raw.url), entry.raw)
    return Place("cache", write_atomically(cache_folder() / entry.raw.name, content))


def _is_sound(place: Place, raw: RawFile) -> bool:
    """Whether the file that is here is the right one. A bad one in the cache can be fetched again; others are yours."""
    try:
        _ = embedded(raw) if place.kind == "package" else content_at(place.path, raw)
    except InputError:
        if place.kind == "cache" and raw.url is not None:
            return False
        raise
    return True


def _copied(path: Path, raw: RawFile) -> bytes:
    if not path.is_file():
        raise InputError(f"there is no file '{path}'; give the path of {raw.name}, plain, .gz or .zip.")
    return content_at(path, raw)


def _downloaded(url: str, raw: RawFile) -> bytes:
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
        return checked(path.read_bytes(), raw, f"what {url} sent")
