"""Influence of sensitive features on a forest's score: trees, thresholds, and the largest change.

How far one tree tells twins apart is the largest difference of two of its leaves that versions of one person reach; of
trees with very many leaves that tell versions apart, at most that of any two of these. The sum over the trees of one
score bounds their effect together; it need not be attained. Of several scores, the largest sum is reported.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bornfair.models.forest.bounds.judge import Judge
from bornfair.people.features import Value

if TYPE_CHECKING:
    from bornfair.models.forest.model import ForestModel

MOST_SPLITS = 12  # of a feature, named one by one
MOST_TREES = 8
MOST_VALUES = 6  # of a set, named
MOST_PAIRED = 160  # leaves of a tree that are compared two by two


@dataclass(frozen=True)
class SplitUse:
    """One split of a feature: what is asked, and in how many places of how many trees."""

    text: str
    places: int
    trees: int


@dataclass(frozen=True)
class Influence:
    """The effect of one feature in which twins differ on the score.

    trees: how many read it where somebody of the domain gets, of `of_trees`; largest_change: by how much these change
    any one score at most between versions of a person, and `spread` by how much all trees change it at most between any
    people. Both are bounds on one score, that of one class where each class has its own, in the units in which scores
    are compared (log-odds of boosted trees). `splits` come with the most used ones first, and `tree_changes` (tree from
    0, largest change) with the trees that act most.
    """

    feature: str
    trees: int
    of_trees: int
    largest_change: float
    spread: float
    splits: tuple[SplitUse, ...] = ()
    tree_changes: tuple[tuple[int, float], ...] = ()

    @property
    def text(self) -> str:
        return (
            f"{self.trees:,} of {self.of_trees:,} trees read {self.feature}; together they change a score by at most "
            f"{self.largest_change:.3g} between twins, all trees by at most {self.spread:.3g} between any two people"
        )


def influences(model: ForestModel) -> tuple[Influence, ...]:
    """Of each sensitive feature, and each that a declared rule moves, if the forest reads it."""
    judge = Judge.of(model)
    domain, forest, cells = judge.cells.domain, judge.model.forest, judge.cells
    changes, found = _changes(judge), []
    low, high = judge.bits.unit_ends(judge.bits.root[None])
    spread = max(float((high - low)[0, judge.bits.output == k].sum()) for k in range(judge.bits.outputs))
    for name in (*domain.sensitive, *domain.twin_group.moved):
        position = domain.names.index(name)
        if position not in cells.routes:
            continue
        nodes, left = cells.routes[position]
        trees = np.unique(forest.tree_of_node[nodes])
        mine = {int(tree): changes.get(int(tree), np.zeros(judge.bits.outputs)) for tree in trees}
        largest = {tree: float(change.max()) for tree, change in mine.items()}
        most = sorted(largest.items(), key=lambda one: -one[1])[:MOST_TREES]
        found.append(
            Influence(
                name,
                len(trees),
                forest.trees,
                float(np.sum(list(mine.values()), axis=0).max()),  # a tree may change several scores, or one of them
                spread,
                _splits(judge, position, nodes, left),
                tuple((tree, change) for tree, change in most if change > 0),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.largest_change))


def _changes(judge: Judge) -> dict[int, np.ndarray]:
    """For each tree, by how much it may tell versions of one person apart in each score: [outputs]."""
    bits, cells, found = judge.bits, judge.cells, dict[int, np.ndarray]()
    twins = cells.twins
    starts = [*bits.starts.tolist(), bits.words]
    for unit in range(bits.acting):
        words = slice(starts[unit], starts[unit + 1])
        values = bits.values(words)
        alive = _unpacked(bits.root[None, words])[0]
        if not twins.maps:  # leaves that every version allows hold nobody whose twin is in another
            alive &= ~_unpacked(np.bitwise_and.reduce(bits.sensitive[:, words], axis=0)[None])[0]
        values = values[alive]
        if len(values) > MOST_PAIRED:
            largest = float(values.max() - values.min())
        else:
            together = np.ones((len(values), len(values)), bool)
            for position in cells.free:
                if position in bits.tables and position not in twins.maps:  # what is moved may differ
                    allowed = _unpacked(bits.tables[position][0].one[:, words])[:, alive].astype(np.float32)
                    together &= (allowed.T @ allowed) > 0
            own = values[:, None] - values[None]
            largest = float(np.where(together, own, 0.0).max(initial=0.0))
        tree = int(bits.tree[unit])
        found.setdefault(tree, np.zeros(bits.outputs))[bits.output[unit]] += largest
    return found


def _unpacked(words: np.ndarray) -> np.ndarray:
    """Bits [rows, 64 · words] as booleans."""
    rows = np.ascontiguousarray(words)
    return np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little").astype(bool)


def _splits(judge: Judge, position: int, nodes: np.ndarray, left: np.ndarray) -> tuple[SplitUse, ...]:
    forest, part = judge.model.forest, judge.cells.features[position]
    places, trees = Counter[str](), dict[str, set[int]]()
    for node, row in zip(nodes.tolist(), left, strict=True):
        text = _asked(part.feature.name, part.samples[: part.listed], part.ends, row[: part.listed])
        places[text] += 1
        trees.setdefault(text, set()).add(int(forest.tree_of_node[node]))
    return tuple(SplitUse(text, count, len(trees[text])) for text, count in places.most_common(MOST_SPLITS))


def _short(ends: np.ndarray, at: int) -> str:
    """A threshold in as few digits as tell it from its neighbours.

    >>> _short(np.array([0.2, 0.99999994, 1.0]), 1), _short(np.array([0.5, 1.0]), 0)
    ('0.99999994', '0.5')
    """
    number = float(ends[at])
    apart = min(abs(number - float(ends[other])) for other in (at - 1, at + 1) if 0 <= other < len(ends))
    for digits in range(4, 17):
        text = f"{number:.{digits}g}"
        if abs(float(text) - number) <= 0.01 * apart:
            return text
    return repr(number)


def _asked(name: str, samples: np.ndarray, ends: np.ndarray | None, left: np.ndarray) -> str:
    """The question of a split, in values of the feature.

    >>> _asked("job", np.array(["nurse", "smith"], object), None, np.array([False, True]))
    'job is smith'
    """
    if ends is not None and len(left) > 1:
        turns = np.flatnonzero(left[1:] != left[:-1])
        if len(turns) == 1:
            return f"{name} ≤ {_short(ends, int(turns[0]))}"
    chosen: list[Value] = samples[left].tolist()
    others: list[Value] = samples[~left].tolist()
    few = chosen if len(chosen) <= len(others) else others
    shown = ", ".join(map(str, few[:MOST_VALUES])) + (", …" if len(few) > MOST_VALUES else "")
    return f"{name} is {shown}" if len(few) == 1 else f"{name} is one of {shown}"
