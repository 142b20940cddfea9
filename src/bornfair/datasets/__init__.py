"""Other people's data, as tables with readable values. Embedded ones need no download."""

from __future__ import annotations

from bornfair.datasets.catalogue import NAMES, Dataset, load, split, split_rows

__all__ = ["NAMES", "Dataset", "load", "split", "split_rows"]
