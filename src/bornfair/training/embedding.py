"""How finely does the network see a number? As the shares of the bins it has passed, which a fixed layer computes.

The share of bin [a, b] is clip((x − a)/(b − a), 0, 1) = (relu(x − a) − relu(x − b))/(b − a): a difference of two
hinges. So training reads columns that are computed once, and what it learns is again a plain network of ReLU layers: a
first one of fixed hinges, and the trained one with these differences multiplied into its weights. Sensitive codes have
no part in it: where the trained weights on them are 0, the hinges read none of them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from bornfair.core.checks import choice, whole
from bornfair.models.network.network import Layer, Network
from bornfair.people.encoding import Encoding, aligned_zeros
from bornfair.people.features import NUMERIC
from bornfair.training.teacher import boosted_cuts

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
    share, last = 1 / len(members), len(members[0].layers) - 1
    layers = []
    for i, alike in enumerate(zip(*(network.layers for network in members), strict=True)):
        weights = [layer.weight.astype(np.float64) * (share if i == last else 1.0) for layer in alike]
        biases = [layer.bias.astype(np.float64) for layer in alike]
        if i == last:
            weight = sum(weights[1:], weights[0]) if last == 0 else np.concatenate(weights, axis=1)
            layers.append(Layer(weight, np.mean(biases, axis=0)))
        else:
            weight = np.concatenate(weights, axis=0) if i == 0 else _block_diagonal(weights)
            layers.append(Layer(weight, np.concatenate(biases)))
    return Network(tuple(layers), members[0].activation)


def _block_diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    whole_matrix = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)))
    row = column = 0
    for block in blocks:
        whole_matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return whole_matrix
