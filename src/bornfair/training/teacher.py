"""What do boosted trees see in this table that a network finds hard to see? Where numbers are to be cut, and how
likely each class is.

The trees read the free columns only, as the network does: never a sensitive value. What they say of a row comes from
trees that have not learnt from it; and they are thrown away, so that what is shipped and proven is the network alone.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.models.network.network import CHUNK
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC

FOLDS = 5
MOST_ROWS = 50_000  # that trees are grown from: more hardly change them, and a long table is not held up
FEWEST = 20  # rows of a class that trees are taught
MOST_CATEGORIES = 250  # that scikit-learn's trees take as such

Told = Callable[[int, int], None]
"""Hears how often trees have been grown, and how often they will be."""
_told: ContextVar[Told] = ContextVar("told", default=lambda done, total: None)


@contextmanager
def trees_told(told: Told) -> Iterator[None]:
    """Whoever fits in here is told how far the trees are, which come before the first epoch."""
    before = _told.set(told)
    try:
        yield
    finally:
        _told.reset(before)


@dataclass(frozen=True)
class TreeInputs:
    """What trees read of the free columns: a category as one column of numbers, all others as they are."""

    categories: tuple[slice, ...]
    others: tuple[int, ...]

    @staticmethod
    def of(encoding: Encoding) -> TreeInputs:
        places = encoding.free_columns()
        numeric = {feature.name for feature in encoding.domain.free_features if isinstance(feature, NUMERIC)}
        several = [
            place
            for name, place in places.items()
            if name not in numeric and 1 < place.stop - place.start <= MOST_CATEGORIES
        ]
        within = {column for place in several for column in range(place.start, place.stop)}
        return TreeInputs(
            tuple(several), tuple(column for column in range(encoding.free_width) if column not in within)
        )

    def columns(self, free: np.ndarray) -> np.ndarray:
        """The categories first, because the trees of scikit-learn put them there."""
        seen = np.empty((len(free), len(self.categories) + len(self.others)), np.float32)
        for i, place in enumerate(self.categories):
            block = free[:, place]
            seen[:, i] = np.where(block.any(axis=1), block.argmax(axis=1) + 1, 0)
        seen[:, len(self.categories) :] = free[:, self.others]
        return seen


def boosted_cuts(
    encoding: Encoding, free: np.ndarray, classes: np.ndarray, weights: np.ndarray | None, *, most: int, seed: int
) -> dict[int, np.ndarray] | None:
    """For each free column that boosted trees cut, where they do so, at most so many times: the cuts that gain them
    most. None where there are too few rows to grow any.
    """
    reading = TreeInputs.of(encoding)
    grown = _grown(reading, reading.columns(free), classes, weights, seed)
    if grown is None:
        return None
    gains: dict[tuple[int, float], float] = defaultdict(float)
    for iteration in grown._predictors:
        for tree in iteration:
            inner = tree.nodes[(tree.nodes["is_leaf"] == 0) & (tree.nodes["is_categorical"] == 0)]
            places = zip(inner["feature_idx"].tolist(), inner["num_threshold"].tolist(), strict=True)
            for place, gain in zip(places, inner["gain"].tolist(), strict=True):
                gains[place] += gain
    found: dict[int, list[float]] = defaultdict(list)
    for read, cut in sorted(gains, key=lambda place: (-gains[place], place)):
        column = reading.others[read - len(reading.categories)]
        if len(found[column]) < most:
            found[column].append(cut)
    return {column: np.array(cuts) for column, cuts in found.items()}


class Teacher:
    """What the network is to learn of rows of the free columns, float32 [rows, outputs]: its class and, for a share of
    it, how likely trees find each class that have learnt from other rows.
    """

    def __init__(
        self,
        encoding: Encoding,
        free: np.ndarray,
        classes: np.ndarray,
        weights: np.ndarray | None,
        share: float,
        seed: int,
    ) -> None:
        self.reading, outputs = TreeInputs.of(encoding), encoding.domain.outputs
        self.seen, self.classes, self.weights = self.reading.columns(free), classes, weights
        self.share, self.seed = share, seed
        self.positions = np.arange(outputs) if outputs > 1 else np.array([1])
        self.own = (classes[:, None] == self.positions).astype(np.float32)

    def _trees(self, rows: np.ndarray) -> Any:
        counted = None if self.weights is None else np.asarray(self.weights)[rows]
        return _grown(self.reading, self.seen[rows], self.classes[rows], counted, self.seed)

    def _of(self, rows: np.ndarray, trees: Any) -> np.ndarray:
        targets = self.own[rows]
        if trees is None:
            return targets
        (known,) = np.nonzero(np.isin(self.classes[rows], trees.classes_))  # of others the trees know nothing
        for start in range(0, len(known), CHUNK):
            some = known[start : start + CHUNK]
            likely = np.zeros((len(some), max(len(self.positions), 2)), np.float32)
            with _one_thread():
                likely[:, trees.classes_] = trees.predict_proba(self.seen[rows[some]])
            targets[some] = (1 - self.share) * targets[some] + self.share * likely[:, self.positions]
        return targets

    def taught(self, rows: np.ndarray) -> np.ndarray:
        """What is learnt of all rows where only these are learnt from."""
        part = np.zeros(len(rows), np.int64)
        order = np.random.default_rng([self.seed, 3]).permutation(len(rows))
        part[order[np.argsort(self.classes[rows][order], kind="stable")]] = np.arange(len(rows)) % FOLDS  # each class
        targets = self.own.copy()
        for fold in range(FOLDS):
            own = rows[part == fold]
            targets[own] = self._of(own, self._trees(rows[part != fold]))
            _told.get()(fold + 1, FOLDS)
        return targets

    def taught_apart(self, aside: Sequence[np.ndarray]) -> np.ndarray:
        """The same for members each of which keeps other rows aside, float32 [parts, rows, outputs]. Its trees have
        learnt nothing from that part either: these rows tell when to stop.
        """
        part = np.full(len(self.classes), -1)
        for number, rows in enumerate(aside):
            part[rows] = number
        targets = np.tile(self.own, (len(aside), 1, 1))
        pairs = list(itertools.combinations(range(len(aside)), 2))
        for done, (one, other) in enumerate(pairs, 1):
            trees = self._trees(np.flatnonzero((part != one) & (part != other)))
            targets[one, aside[other]] = self._of(aside[other], trees)
            targets[other, aside[one]] = self._of(aside[one], trees)
            _told.get()(done, len(pairs))
        return targets


def _grown(reading: TreeInputs, seen: np.ndarray, classes: np.ndarray, weights: np.ndarray | None, seed: int) -> Any:
    """Boosted trees, stopped when they no longer improve on rows they keep aside; None where too little is there."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = np.arange(len(classes)) if weights is None else np.flatnonzero(np.asarray(weights) > 0)
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng([seed, 4]).choice(rows, MOST_ROWS, replace=False))
    found, counts = np.unique(classes[rows], return_counts=True)
    rows = rows[np.isin(classes[rows], found[counts >= FEWEST])]
    if np.sum(counts >= FEWEST) < 2 or not seen.shape[1]:
        return None
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=500, early_stopping=True, n_iter_no_change=15, random_state=seed,
        categorical_features=np.arange(seen.shape[1]) < len(reading.categories),
    )  # fmt: skip
    counted = None if weights is None else np.asarray(weights, np.float64)[rows]
    with _one_thread():
        return trees.fit(seen[rows], classes[rows], sample_weight=counted)


def _one_thread() -> Any:
    """Several threads add up in an order of their own: other last digits, other trees, other bytes."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="openmp")
