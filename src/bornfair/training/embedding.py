"""How a network sees numbers (as shares of bins, which a fixed layer computes), and what boosted trees teach it.

The share of bin [a, b] is clip((x − a)/(b − a), 0, 1) = (relu(x − a) − relu(x − b))/(b − a): a difference of two
hinges. So training reads columns that are computed once, and what it learns is again a plain network of ReLU layers: a
first one of fixed hinges, and the trained one with these differences multiplied into its weights. Sensitive codes have
no part in it: where the trained weights on them are 0, the hinges read none of them.

Boosted trees say where numbers are cut, and how likely each class is. They read the free columns only, as the network
does: never a sensitive value. What they say of a row comes from trees that have not learnt from it. They are thrown
away, so that what is shipped and proven is the network alone.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from bornfair.core.checks import choice, whole
from bornfair.models.network.network import CHUNK, Layer, Network
from bornfair.people.encoding import Encoding, aligned_zeros
from bornfair.people.features import NUMERIC

Bins = Literal["boosted", "tree", "quantiles"]
ROWS_FOR_KNOTS = 50_000  # knots hardly move beyond, and a long table is not held up
NARROWEST = 2.0**-12  # of the range: narrower bins would lose digits where the hinges above them cancel in float32
LEAST_LEAF = 10  # people in a bin of the tree, and at least this share of them:
LEAF_SHARE = 0.005


@dataclass(frozen=True, eq=False)
class Embedding:
    """The columns that the trained network reads in place of the free ones, and how they become one network."""

    knots: tuple[np.ndarray | None, ...]
    """For each free column its knots (float32, ascending; none or one leave the column out), or None: handed on as it
    is, which is for columns that are never below 0."""

    @property
    def width(self) -> int:
        """How many columns the trained network reads."""
        return sum(1 if knots is None else max(len(knots) - 1, 0) for knots in self.knots)

    @property
    def bins(self) -> int:
        return sum(max(len(knots) - 1, 0) for knots in self.knots if knots is not None)

    def columns(self, free: np.ndarray) -> np.ndarray:
        """The free part of encoded rows as the trained network reads it, float32 [rows, width].

        >>> import numpy as np
        >>> seen = Embedding((np.float32([0, 1, 3]), None))
        >>> seen.columns(np.float32([[-1, 1], [0.5, 0], [2, 0]])).tolist()
        [[0.0, 0.0, 1.0], [0.5, 0.0, 0.0], [1.0, 0.5, 0.0]]
        """
        seen = aligned_zeros((len(free), self.width), np.float32)
        for column, knots, place in self._places():
            if knots is None:
                seen[:, place.start] = free[:, column]
                continue
            for i, (low, high) in enumerate(itertools.pairwise(knots)):
                np.clip((free[:, column] - low) / (high - low), 0, 1, out=seen[:, place.start + i])
        return seen

    def folded(self, trained: Network) -> Network:
        """One network over the encoding's own columns: the fixed hinges, then the trained layers.

        Sensitive codes that some trained weight reads are handed on as relu(c) − relu(−c); others are not read at all.
        """
        free_width = len(self.knots)
        codes = trained.widths[0] - self.width
        weight = trained.layers[0].weight.astype(np.float64)
        hinges: list[tuple[int, float, float]] = []  # (input, its sign, minus the knot)
        read: list[np.ndarray] = []  # what the trained layer gives each hinge
        for column, knots, place in self._places():
            if knots is None:
                hinges.append((column, 1.0, 0.0))
                read.append(weight[:, place.start])
            elif len(knots) > 1:
                wide = knots.astype(np.float64)
                slopes = weight[:, place] / np.diff(wide)
                zero = np.zeros((len(weight), 1))
                bends = np.diff(np.concatenate([zero, slopes, zero], axis=1), axis=1)
                hinges += [(column, 1.0, -knot) for knot in wide.tolist()]
                read += list(bends.T)
        for code in range(codes):
            own = weight[:, self.width + code]
            if own.any():
                hinges += [(free_width + code, 1.0, 0.0), (free_width + code, -1.0, 0.0)]
                read += [own, -own]
        fixed = np.zeros((len(hinges), free_width + codes), np.float32)
        for unit, (column, sign, _) in enumerate(hinges):
            fixed[unit, column] = sign
        bias = np.array([shift for _, _, shift in hinges], np.float32)
        first = np.stack(read, axis=1) if read else np.zeros((len(weight), 0))
        layers = (Layer(fixed, bias), Layer(first, trained.layers[0].bias), *trained.layers[1:])
        return Network(layers, trained.activation)

    def tensors(self) -> Iterator[np.ndarray]:
        """Everything that tells this embedding from others."""
        for knots in self.knots:
            yield np.zeros(0, np.float32) if knots is None else knots

    def _places(self) -> Iterator[tuple[int, np.ndarray | None, slice]]:
        """Each free column, its knots, and its columns in what the network reads."""
        start = 0
        for column, knots in enumerate(self.knots):
            end = start + (1 if knots is None else max(len(knots) - 1, 0))
            yield column, knots, slice(start, end)
            start = end


def piecewise(
    encoding: Encoding,
    free: np.ndarray,
    classes: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    bins: int = 32,
    kind: Bins = "tree",
    seed: int = 0,
) -> Embedding:
    """Knots for every free number, from rows to train on; columns that are not numbers are handed on.

    kind 'boosted': where boosted trees on all free columns cut (if there are too few rows for them, as 'tree'); 'tree':
    where a small decision tree on this number alone cuts, which is where the labels change; 'quantiles': equally many
    people in each bin. A number of few values has a knot at each.
    """
    whole("bins", bins, 2)
    choice("kind of bins", kind, get_args(Bins))
    if len(free) > ROWS_FOR_KNOTS:
        rows = np.sort(np.random.default_rng([seed, 2]).choice(len(free), ROWS_FOR_KNOTS, replace=False))
        free, classes = free[rows], classes[rows]
        weights = None if weights is None else weights[rows]
    if weights is not None:
        counted = np.asarray(weights) > 0
        free, classes, weights = free[counted], classes[counted], np.asarray(weights, np.float64)[counted]
    boosted = boosted_cuts(encoding, free, classes, weights, most=bins - 1, seed=seed) if kind == "boosted" else None

    def cuts(column: int) -> np.ndarray:
        if boosted is not None:
            return boosted.get(column, np.zeros(0))
        if kind == "quantiles":
            return _quantiles(free[:, column], bins, weights)
        return _tree_cuts(free[:, column], bins, classes, weights)

    found: list[np.ndarray | None] = [None] * encoding.free_width
    for column in number_columns(encoding):
        found[column] = _knots(free[:, column], functools.partial(cuts, column), bins)
    return Embedding(tuple(found))


def number_columns(encoding: Encoding) -> list[int]:
    """Which free columns are numbers that the network sees: not those in which declared twins are mirrored."""
    places = encoding.free_columns()
    numeric = (feature.name for feature in encoding.domain.free_features if isinstance(feature, NUMERIC))
    return [places[name].start for name in numeric if name not in encoding.merged]


def _knots(own: np.ndarray, cuts: Callable[[], np.ndarray], bins: int) -> np.ndarray:
    values = np.unique(own)
    if len(values) > bins + 1:
        inside = np.asarray(cuts(), np.float32)
        values = np.unique(np.concatenate([values[:1], inside.clip(values[0], values[-1]), values[-1:]]))
    kept: list[float] = []
    gap = (values[-1] - values[0]) * NARROWEST if len(values) else 0.0
    for value in values.tolist():
        if not kept or value - kept[-1] > gap:
            kept.append(value)
    return np.array(kept, np.float32)


def _tree_cuts(own: np.ndarray, bins: int, classes: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    from sklearn.tree import DecisionTreeClassifier

    leaf = max(LEAST_LEAF, round(LEAF_SHARE * len(own)))
    grown = DecisionTreeClassifier(max_leaf_nodes=bins, min_samples_leaf=leaf, random_state=0)
    tree = grown.fit(own[:, None], classes, sample_weight=weights).tree_
    return tree.threshold[tree.children_left >= 0]


def _quantiles(own: np.ndarray, bins: int, weights: np.ndarray | None) -> np.ndarray:
    shares = np.linspace(0, 1, bins + 1)[1:-1]
    if weights is None:
        return np.quantile(own, shares)
    order = np.argsort(own, kind="stable")
    reached = np.cumsum(weights[order])
    return own[order][np.searchsorted(reached, shares * reached[-1]).clip(max=len(own) - 1)]


def mean_of(members: Sequence[Network]) -> Network:
    """The network whose outputs are the mean of those of several of the same shape: their layers side by side.

    >>> import numpy as np
    >>> one, other = (Network((Layer(np.eye(1), np.zeros(1)), Layer([[w]], [1.0])), "relu") for w in (1.0, 3.0))
    >>> mean_of([one, other]).scores(np.float32([[5]])).tolist()
    [[11.0]]
    """
    if len(members) == 1:
        return members[0]
    from scipy.linalg import block_diag

    share, last = 1 / len(members), len(members[0].layers) - 1
    layers = []
    for i, alike in enumerate(zip(*(network.layers for network in members), strict=True)):
        weights = [layer.weight.astype(np.float64) * (share if i == last else 1.0) for layer in alike]
        biases = [layer.bias.astype(np.float64) for layer in alike]
        if i == last:
            weight = sum(weights[1:], weights[0]) if last == 0 else np.concatenate(weights, axis=1)
            layers.append(Layer(weight, np.mean(biases, axis=0)))
        else:
            weight = np.concatenate(weights, axis=0) if i == 0 else block_diag(*weights)
            layers.append(Layer(weight, np.concatenate(biases)))
    return Network(tuple(layers), members[0].activation)


# --- boosted trees ---

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
