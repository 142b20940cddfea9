"""Where do boxes wait for which memory has no room? In files, in a folder that goes when nobody needs it any more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bornfair.core.growing import OwnFolder
from bornfair.people.space.boxes import Boxes


@dataclass(frozen=True, eq=False)
class Shelved:
    """Boxes in a file: how many, the most of the fact by which they are taken, the sums of all facts, and what else
    somebody wants to know of them without reading it.
    """

    file: Path
    count: int
    top: float
    sums: dict[str, float]
    note: Any = None

    def read(self) -> Boxes:
        from safetensors.numpy import load_file

        found = load_file(self.file)
        return Boxes(found.pop("/low"), found.pop("/high"), found)


class Shelf:
    """A folder of boxes, which only their owner may read. TMPDIR says where it is."""

    def __init__(self) -> None:
        self._own = OwnFolder.temporary()
        self.folder = self._own.path
        self._written = 0

    def put(self, boxes: Boxes, by: str, note: Any = None) -> Shelved:
        """Write them down. Raises OSError where there is no room either."""
        import numpy as np
        from safetensors.numpy import save_file

        self._written += 1
        file = self.folder / f"{self._written}.safetensors"
        arrays = {"/low": boxes.low, "/high": boxes.high, **boxes.facts}
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, file)
        sums = {name: float(np.nansum(fact)) for name, fact in boxes.facts.items() if fact.ndim == 1}
        return Shelved(file, len(boxes), float(boxes.facts[by].max()), sums, note)
