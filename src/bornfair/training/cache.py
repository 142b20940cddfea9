"""Where is a table that no memory holds while a network is trained on it? In files of encoded rows, read in windows.

A value of a list takes one byte (two, of a longer list): categories, true/false, and whole numbers of few values. Other
numbers are kept as the network's float32. On the way to the network a byte is looked up in a table of what the encoding
and the embedding make of its value, so that what is learnt from is, bit for bit, what `Encoding.encode` gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.core.files import open_regular, read_regular, write_atomically
from bornfair.core.growing import Busy, Lock, private_file, private_folder
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Feature, known_levels
from bornfair.people.levels import class_positions, level_positions
from bornfair.people.sources import Batch, draws
from bornfair.people.survey import SeenColumn, Survey
from bornfair.training.embedding import Embedding

MOST_BYTE_VALUES = 254  # of a whole number: one more code is a gap
FOR_PARTS = 2  # use of the draws: who is kept aside
KEPT_ASIDE, VALIDATION, TRAINING = "kept-aside", "validation", "training"
PARTS = (KEPT_ASIDE, VALIDATION, TRAINING)
MOST_ASIDE = 2_000_000  # rows of each that are kept aside: more would tell no more
DONE, LOCK = "cache.json", "cache.lock"


@dataclass(frozen=True)
class RowShares:
    """Which share of the rows is kept aside to measure on, and which one says when to stop."""

    kept_aside: float
    validation: float

    @staticmethod
    def of(rows: int, kept_aside: float, validation: float) -> RowShares:
        """As asked for, but never more rows than MOST_ASIDE each."""
        most = MOST_ASIDE / max(rows, 1)
        aside = min(kept_aside, most)
        return RowShares(aside, min(validation * (1 - aside), most))

    def parts(self, addresses: np.ndarray, seed: int) -> np.ndarray:
        """Of each row the position in PARTS, by its address and the seed alone."""
        drawn = draws(addresses, seed, FOR_PARTS).astype(np.float64) / 2.0**64
        return np.searchsorted([self.kept_aside, self.kept_aside + self.validation], drawn, side="right")


@dataclass(frozen=True, eq=False)
class Coded:
    """A feature as codes of listed values: what is looked up for each code, float32 [codes, columns]."""

    feature: Feature
    free: np.ndarray
    lowest: int | None
    """Of whole numbers the value whose code is 0; None: codes are positions in the feature's levels."""

    @property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        return np.uint8 if len(self.free) <= 256 else np.uint16

    def codes(self, column: pd.Series, encoding: Encoding) -> np.ndarray:
        if self.lowest is None:
            position, name = level_positions(self.feature, column).copy(), self.feature.name
            if not self.feature.missing and (gap := column.isna().to_numpy()).any():
                encoding.feature_columns(name, column[gap][:1])  # refused in a sentence, unless gaps are filled
                position[gap] = level_positions(self.feature, pd.Series([encoding.fill[name]], dtype=object))[0]
            if (strange := position < 0).any():
                encoding.feature_columns(name, column[strange])  # refused, unless what is unseen is ignored
                position[strange] = len(self.free) - 1
            return position.astype(self.dtype)
        gap = column.isna().to_numpy()
        numbers = column.to_numpy(np.float64, na_value=np.nan) - self.lowest
        if gap.any():
            if not self.feature.missing:
                encoding.feature_columns(self.feature.name, column[gap][:1])  # refused, unless gaps are filled
                numbers[gap] = float(encoding.fill[self.feature.name]) - self.lowest
            else:
                numbers[gap] = len(self.free) - 1
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(self.free)):
            raise InputError(
                f"column '{self.feature.name}' holds numbers now that it did not hold when the table was looked at; "
                "start again when nobody writes to it."
            )
        return numbers.astype(self.dtype)


class Layout:
    """How a row is kept: its codes of one byte, its codes of two, its numbers; and how it becomes free columns."""

    def __init__(self, encoding: Encoding, survey: Survey) -> None:
        self.encoding = encoding
        self.fields: dict[str, Coded | None] = {
            feature.name: _coded(feature, encoding, survey.columns[feature.name])
            for feature in encoding.domain.free_features
        }
        self.widths = {name: encoding.free_vector[name].width for name in self.fields}
        self.bytes_ = [name for name, one in self.fields.items() if one is not None and one.dtype is np.uint8]
        self.words = [name for name, one in self.fields.items() if one is not None and one.dtype is np.uint16]
        self.numbers = [name for name, one in self.fields.items() if one is None]
        self.number_width = sum(self.widths[name] for name in self.numbers)
        label = encoding.domain.label
        assert label is not None
        self.class_dtype = np.uint8 if len(label.classes) <= 256 else np.uint16

    @cached_property
    def record(self) -> np.dtype[Any]:
        """One row in a file."""
        parts = [
            ("numbers", np.float32, (self.number_width,)), ("words", np.uint16, (len(self.words),)),
            ("bytes", np.uint8, (len(self.bytes_),)), ("class", self.class_dtype),
        ]  # fmt: skip
        return np.dtype([part for part in parts if len(part) < 3 or part[2] != (0,)])

    def encode(self, table: pd.DataFrame, classes: np.ndarray) -> np.ndarray:
        """Rows as they are kept."""
        rows = np.zeros(len(table), self.record)
        rows["class"] = classes
        for kind, names in (("bytes", self.bytes_), ("words", self.words)):
            for place, name in enumerate(names):
                coded = self.fields[name]
                assert coded is not None
                rows[kind][:, place] = coded.codes(table[name], self.encoding)
        start = 0
        for name in self.numbers:
            columns = self.encoding.feature_columns(name, table[name])
            rows["numbers"][:, start : start + columns.shape[1]] = columns
            start += columns.shape[1]
        return rows

    def free(self, rows: np.ndarray) -> np.ndarray:
        """Kept rows as `Encoding.encode` gives them, float32 [rows, free width]."""
        found, start = [], 0
        for name, coded in self.fields.items():
            if coded is None:
                width = self.widths[name]
                found.append(rows["numbers"][:, start : start + width])
                start += width
            else:
                kind, names = ("bytes", self.bytes_) if coded.dtype is np.uint8 else ("words", self.words)
                found.append(coded.free[rows[kind][:, names.index(name)]])
        return np.concatenate(found, axis=1) if found else np.zeros((len(rows), 0), np.float32)

    def expansion(self, embedding: Embedding | None) -> list[dict[str, np.ndarray]]:
        """For each feature in order what the device makes its columns of: "byte" or "word" a table that codes are
        looked up in; numbers column by column, "plain" as they are, "low" and "high" as shares of bins.
        """
        knots = iter((None,) * self.encoding.free_width if embedding is None else embedding.knots)
        found: list[dict[str, np.ndarray]] = []
        for coded, width in zip(self.fields.values(), self.widths.values(), strict=True):
            own = Embedding(tuple(next(knots) for _ in range(width)))
            if coded is not None:
                found.append({"byte" if coded.dtype is np.uint8 else "word": own.columns(coded.free)})
                continue
            for ends in own.knots:
                if ends is None:
                    found.append({"plain": np.zeros(0, np.float32)})
                else:
                    found.append({"low": ends[:-1], "high": ends[1:]})
        return found

    def digest(self) -> str:
        facts = json.dumps([self.encoding.to_json(), self.encoding.domain.text(), str(self.record)])
        return hashlib.sha256(facts.encode()).hexdigest()


def _coded(feature: Feature, encoding: Encoding, seen: SeenColumn) -> Coded | None:
    """The feature as codes, if it has few enough values; None: kept as float32."""
    name = feature.name
    if not isinstance(feature, NUMERIC):
        levels = list(known_levels(feature))
        listed = encoding.feature_columns(name, pd.Series(levels, dtype=object))
        more = [encoding.feature_columns(name, pd.Series([None], dtype=object))] if feature.missing else []
        nobody = np.zeros((1, listed.shape[1]), np.float32)  # none of the categories is on
        if name in encoding.merged and feature.kind == "boolean":
            nobody = listed[:1]
        return Coded(feature, np.concatenate([listed, *more, nobody]), None)
    if seen.texts or seen.truths or not (seen.whole and seen.numbers and seen.high - seen.low <= MOST_BYTE_VALUES):
        return None
    low, high, fill = int(seen.low), int(seen.high), encoding.fill.get(name)
    if not feature.missing and seen.gaps and not (isinstance(fill, (int, float)) and float(fill).is_integer()):
        return None  # gaps are filled with a number between the listed ones
    listed = encoding.feature_columns(name, pd.Series(np.arange(low, high + 1)))
    more = [encoding.feature_columns(name, pd.Series([np.nan]))] if feature.missing else []
    return Coded(feature, np.concatenate([listed, *more]), low)


@dataclass(frozen=True, eq=False)
class Cache:
    """The encoded rows of a table in a folder, a file for each part."""

    folder: Path
    layout: Layout
    counts: dict[str, int]
    classes: dict[str, list[int]]
    """How many rows of each class each part has."""
    mark: str
    """Of which rows it was made, and how."""
    lock: Lock | None = None
    """While it is held, no other run writes these files."""

    def read(self, part: str, start: int, stop: int) -> np.ndarray:
        """Some rows, copied: the file is mapped only for a moment, so that it never counts as memory that is held."""
        if stop <= start:
            return np.zeros(0, self.layout.record)
        mapped = np.memmap(self.folder / f"{part}.rows", self.layout.record, "r", start * self.layout.record.itemsize,
                           (stop - start,))  # fmt: skip
        return np.array(mapped)

    def blocks(self, part: str, size: int) -> Iterable[np.ndarray]:
        for start in range(0, self.counts[part], size):
            yield self.read(part, start, min(start + size, self.counts[part]))

    def close(self) -> None:
        if self.lock is not None:
            self.lock.close()


def made(
    folder: Path,
    layout: Layout,
    batches: Callable[[], Iterable[Batch]],
    target: str,
    shares: RowShares,
    *,
    mark: str,
    seed: int,
    told: Callable[[int], None] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Cache:
    """The cache in a folder: the one that is there, if it was made of the same rows in the same way, or a new one.

    Several runs may read it at once; while one is being written, or read, no run writes another one there.
    check: raises InputError if the table changed meanwhile.
    """
    mark = hashlib.sha256(json.dumps([mark, layout.digest(), target, vars(shares), seed]).encode()).hexdigest()
    label = layout.encoding.domain.label
    assert label is not None
    names = label.classes

    def encoded() -> dict[str, Any]:
        """Write the rows; what is noted of them."""
        digests = [hashlib.sha256() for _ in PARTS]
        counts, classes = dict.fromkeys(PARTS, 0), {part: np.zeros(len(names), np.int64) for part in PARTS}
        with told_of_rows(folder), contextlib.ExitStack() as stack:
            (folder / DONE).unlink(missing_ok=True)
            files = [stack.enter_context(private_file(folder / f"{part}.rows")) for part in PARTS]
            for batch in batches():
                table, where = batch.table, shares.parts(batch.addresses, seed)
                answered = table[target].notna().to_numpy()
                positions = class_positions(table.loc[answered, target], names)
                rows = layout.encode(table[answered] if not answered.all() else table, positions)
                for number, part in enumerate(PARTS):
                    own = rows[where[answered] == number]
                    content = own.tobytes()
                    files[number].write(content)
                    digests[number].update(content)
                    counts[part] += len(own)
                    classes[part] += np.bincount(own["class"], minlength=len(names))
                if told is not None:
                    told(len(table))
        facts = {"mark": mark, "counts": counts, "classes": {part: own.tolist() for part, own in classes.items()}}
        return facts | {"digest": _digest(facts, digests)}

    with told_of_rows(folder):
        private_folder(folder)
        lock = Lock(folder / LOCK, shared=True)
    found = _found(folder, layout, mark, lock)
    if found is not None:
        return found
    lock.close()
    with told_of_rows(folder):
        lock = Lock(folder / LOCK)
    try:
        found = _found(folder, layout, mark, lock)
        if found is None:
            facts = encoded()
            check()
            write_atomically(folder / DONE, json.dumps(facts), private=True)
            found = Cache(folder, layout, facts["counts"], facts["classes"], mark, lock)
        with told_of_rows(folder):
            lock.share()
    except BaseException:
        lock.close()
        raise
    return found


@contextlib.contextmanager
def told_of_rows(folder: Path) -> Iterator[None]:
    try:
        yield
    except Busy:
        raise InputError(
            f"another run is using the encoded rows in '{folder}'; wait until it ends, or name another folder with "
            "--cache."
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot keep the encoded table in '{folder}': {error.strerror or error}; name a place with room for it "
            "(--cache)."
        ) from error


def _digest(facts: dict[str, Any], rows: Sequence[Any]) -> str:
    """Changes with the facts and with every byte of the rows."""
    text = json.dumps(
        [{name: facts[name] for name in ("mark", "counts", "classes")}, [one.hexdigest() for one in rows]]
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _found(folder: Path, layout: Layout, mark: str, lock: Lock) -> Cache | None:
    """What is there, if nothing of it is damaged."""
    try:
        facts = json.loads(read_regular(folder / DONE, limits.DOMAIN_BYTES))
        if facts["mark"] != mark:
            return None
        digests = []
        for part in PARTS:
            with open_regular(folder / f"{part}.rows") as file:
                digests.append(hashlib.file_digest(file, "sha256"))
        if facts["digest"] != _digest(facts, digests):
            return None
        return Cache(folder, layout, facts["counts"], facts["classes"], mark, lock)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def class_weights(counts: Sequence[int]) -> np.ndarray:
    """How much a row of each class counts if all classes count the same: float32, 1 on average over the rows."""
    total, known = sum(counts), sum(count > 0 for count in counts)
    return np.array([total / (known * count) if count else 0.0 for count in counts], np.float32)


def balancing(classes: np.ndarray) -> np.ndarray:
    """The same for each of some rows, by their class indices."""
    return class_weights(np.bincount(classes).tolist())[classes]
