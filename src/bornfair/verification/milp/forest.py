"""Forests: two copies of a person meet the same trees, as columns and rows of a mixed-integer program.

A column y_c of a free feature is 1 if the person's cell is c or one before it, so that y only rises. A split sends
left whoever is in a set of cells, which is a sum of these columns, P. A leaf's column z is at most P, or 1 − P, of each
split above it, and those of a tree add up to 1: with y whole, z is 1 for the leaf that is reached (Kantchelian et al.,
ICML 2016). Trees that tell no versions apart are written once, the others for both copies of a person, who share y.
The margin m is what the first copy decides one class by, and the second another; no twins differ if m < 0 for all.

Boxes of cells are cut until a safe bound leaves no margin larger than minus what rounding may do to a sum, or until
they are single cells, which are decided exactly. Whoever a solution stands for is decided exactly, too, and replayed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bornfair.core.clock import Clock
from bornfair.models.forest.bounds.judge import Judge, told_apart
from bornfair.models.verdict import Verdict, undecided
from bornfair.verification.cells import shown_twins
from bornfair.verification.frontier import TOO_CLOSE
from bornfair.verification.milp.encoding import MOST_VALUES, PAIRS
from bornfair.verification.milp.program import CLOSE, Box, Draft, Hunt, ProgramTree, exponent_of, scaled, search
from bornfair.verification.replay import falsified

ENGINE = "milp"
MOST_PROGRAMS = 64
MOST_LEAVES = 200_000  # of both copies

Versions = tuple[int, tuple[int, ...]]
"""An element of the declared group, and the sensitive values (rows of `Twins.values`) that a copy may take."""
Asked = tuple[tuple[Versions, Versions], tuple[int, int]]
"""What the two copies may be, and the class that each decides."""


# --- programs ---


class _Writer:
    def __init__(self, judge: Judge) -> None:
        self.judge, self.cells, self.draft = judge, judge.cells, Draft()
        self.forest, self.margins = judge.model.forest, judge.bits.margins
        self.columns: list[tuple[int, int]] = []
        """For each free feature the first of its columns, and how many cells it has: one more than columns."""
        self.place = {position: i for i, position in enumerate(self.cells.free)}
        self.goes: dict[int, tuple[int, np.ndarray]] = {}
        for position, (nodes, left) in self.cells.routes.items():
            self.goes.update(zip(nodes.tolist(), ((position, row) for row in left), strict=True))
        largest = np.zeros((self.forest.trees, self.margins.leaves.shape[1]))
        np.maximum.at(largest, self.forest.tree_of_leaf, np.abs(self.margins.leaves))
        size = float((largest.sum(axis=0) + np.abs(self.margins.constant)).max()) * (1 + 2.0**-20)
        self.exponent = exponent_of(size or 1.0)
        self.most = math.ldexp(size or 1.0, -self.exponent)  # no sum, in units, is larger
        self.ends = np.append(self.forest.roots[1:], self.forest.nodes)

    def margin(self, copies: tuple[Versions, Versions], classes: tuple[int, int]) -> int:
        """The column of a margin by which the first copy decides the first class at least, and the second the other."""
        draft, columns = self.draft, self.columns
        for position in self.cells.free:
            count = self.cells.features[position].count
            at = [draft.column(0, 1, integer=True) for _ in range(count - 1)]
            for one, other in itertools.pairwise(at):
                draft.row([one, other], [1.0, -1.0], -math.inf, 0.0)
            columns.append((at[0] if at else len(draft.lower), count))
        sums, shared = list[np.ndarray](), dict[int, list[int]]()
        for h, values in copies:
            chosen = draft.choice(len(values))
            leaves = list[int]()
            for tree in range(self.forest.trees):
                if not self._parts(tree):
                    if tree not in shared:
                        shared[tree] = self._tree(tree, h, values, chosen)
                    leaves += shared[tree]
                else:
                    leaves += self._tree(tree, h, values, chosen)
            sums.append(self._sums(leaves))
        return self._margin(sums, classes)

    def _parts(self, tree: int) -> bool:
        """Whether a tree reads what twins need not share."""
        nodes = range(int(self.forest.roots[tree]), int(self.ends[tree]))
        apart = {self.goes[node][0] for node in nodes if node in self.goes}
        return any(position not in self.place or position in self.cells.twins.maps for position in apart)

    def _tree(self, tree: int, h: int, values: Sequence[int], chosen: Sequence[int]) -> list[int]:
        """The columns of the leaves of a tree for one copy, in order."""
        forest, draft = self.forest, self.draft
        below: dict[int, list[int]] = {}
        first, last = int(forest.roots[tree]), int(self.ends[tree])
        leaves = [draft.column(0, 1) for _ in range(int((forest.column[first:last] < 0).sum()))]
        draft.row(leaves, [1.0] * len(leaves), 1.0, 1.0)
        waiting = iter(reversed(leaves))
        for node in range(last - 1, first - 1, -1):  # children stand behind their parents
            if forest.leaf[node] >= 0:
                below[node] = [next(waiting)]
                continue
            one, other = below[int(forest.left[node])], below[int(forest.right[node])]
            below[node] = one + other
            at, coefficients, constant = self._left(node, h, values, chosen)
            if not at:  # everybody goes one way
                for column in other if constant else one:
                    draft.upper[column] = 0.0
                continue
            negative = [-number for number in coefficients]
            draft.row([*one, *at], [1.0] * len(one) + negative, -math.inf, constant)
            draft.row([*other, *at], [1.0] * len(other) + coefficients, -math.inf, 1.0 - constant)
        return leaves

    def _left(
        self, node: int, h: int, values: Sequence[int], chosen: Sequence[int]
    ) -> tuple[list[int], list[float], float]:
        """Whether a copy goes left, as a sum of columns and a constant."""
        twins, (position, row) = self.cells.twins, self.goes[node]
        if position not in self.place:
            goes = row[twins.values[list(values), self.cells.sensitive.index(position)]]
            if goes.all() or not goes.any():
                return [], [], float(goes[0])
            return list(chosen), goes.astype(float).tolist(), 0.0
        if position in twins.maps:
            row = row[twins.maps[position][twins.ways[h, position]]]
        rises = row[:-1].astype(float) - row[1:]
        at, _ = self.columns[self.place[position]]
        places = np.flatnonzero(rises)
        return (places + at).tolist(), rises[places].tolist(), float(row[-1])

    def _sums(self, leaves: list[int]) -> np.ndarray:
        """A column for each output of a copy: a constant and what the leaves add, divided by the unit."""
        draft, found = self.draft, list[int]()
        for k, constant in enumerate(self.margins.constant.tolist()):
            values = self.margins.leaves[:, k].tolist()
            at = draft.column(-self.most, self.most)
            amount = scaled(constant, -self.exponent)
            draft.row([at, *leaves], [1.0, *(-scaled(value, -self.exponent) for value in values)], amount, amount)
            found.append(at)
        return np.array(found)

    def _margin(self, sums: Sequence[np.ndarray], classes: tuple[int, int]) -> int:
        draft = self.draft
        margin = draft.column(-4 * self.most, 4 * self.most)
        for own, wins, sign in zip(sums, classes, (1.0, -1.0), strict=True):
            if len(own) == 1:  # the last of two classes is decided above 0
                draft.row([int(own[0]), margin], [sign, -1.0], 0.0, math.inf)
                continue
            for other in range(len(own)):
                if other != wins:
                    draft.row([int(own[wins]), int(own[other]), margin], [1.0, -1.0, -1.0], 0.0, math.inf)
        return margin


# --- deciding ---


def decide_forest_by_milp(judge: Judge, clock: Clock, seed: int = 0) -> Verdict:
    """Twins with different decisions (replayed), a proof that there are none, or why neither was found in time."""
    refused = _refusal(judge)
    if refused is not None:
        return undecided(ENGINE, refused)
    hunt = ForestHunt(judge)
    found = search(hunt, lambda: [CellTree(hunt, *asked) for asked in _asked(judge)], clock, seed)
    if found.refused:
        return undecided(ENGINE, found.refused)
    facts: dict[str, Any] = {"boxes": found.nodes, "seconds": clock.spent}
    if hunt.twins is not None:
        reason = f"{hunt.by} led to these twins; they were replayed"
        return falsified(judge.model, hunt.twins, engine=ENGINE, reason=reason, **facts)
    if found.proven:
        reason = f"safe bounds of {found.nodes:,} linear programs leave no margin for twins"
        return Verdict("verified", "bounds", ENGINE, judge.arithmetic, reason, **facts)
    why = f"the time of {clock.timeout:g} s is up" if found.open else TOO_CLOSE
    return replace(undecided(ENGINE, "; ".join(part for part in (why, found.claim) if part)), **facts)


def _refusal(judge: Judge) -> str | None:
    values, leaves = len(judge.cells.twins.values), 2 * len(judge.model.forest.values) * judge.bits.outputs
    if values > MOST_VALUES:
        return f"there are {values:,} sensitive values, and a program chooses from {MOST_VALUES:,} at most"
    if leaves > MOST_LEAVES:
        return f"both copies have {leaves:,} leaves, and a program holds {MOST_LEAVES:,} at most"
    if len(_asked(judge)) > MOST_PROGRAMS:
        return f"{len(_asked(judge)):,} programs would be needed, and {MOST_PROGRAMS} are asked at most"
    return None


def _asked(judge: Judge) -> list[Asked]:
    """Together they cover all twins: pairs of versions, or of elements with all sensitive values to choose from."""
    elements, values = len(judge.cells.twins.ways), range(len(judge.cells.twins.values))
    outputs = judge.bits.outputs
    classes = [(1, 0)] if outputs == 1 else list(itertools.combinations(range(outputs), 2))
    versions: list[Versions] = [(h, (value,)) for h in range(elements) for value in values]
    if len(versions) * (len(versions) - 1) > PAIRS:
        versions = [(h, tuple(values)) for h in range(elements)]
        pairs: Iterable[Any] = itertools.product(versions, versions)
    else:
        pairs = itertools.permutations(versions, 2)
    return list(itertools.product(pairs, classes))


class ForestHunt(Hunt):
    """Everybody a solver proposes is decided as all versions."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge

    def fair(self, point: np.ndarray) -> bool:
        """Whether all versions of somebody surely get one decision; twins who do not are kept."""
        return self.once(tuple(point.tolist()), lambda: self._fair(point))

    def _fair(self, point: np.ndarray) -> bool:
        (decided,), _ = self.judge.decided(point[None])
        if self.twins is None and told_apart(decided[None])[0]:
            self.twins = shown_twins(self.judge, point, decided)
        return bool((decided >= 0).all() and (decided == decided[0]).all())


class CellTree(ProgramTree):
    """Do two copies of somebody reach leaves of different decisions? Boxes are those of cells."""

    hunt: ForestHunt
    must_hold_people, thorough = True, False

    def __init__(self, hunt: ForestHunt, copies: tuple[Versions, Versions], classes: tuple[int, int]) -> None:
        writer = _Writer(hunt.judge)
        margin = writer.margin(copies, classes)
        program, unit = writer.draft.program(), math.ldexp(1.0, writer.exponent)
        super().__init__(hunt, program, program.cost([(margin, -1.0)]), unit)
        self.cells, margins = writer.columns, hunt.judge.bits.margins
        doubt = float(margins.doubt.max())
        away = (doubt if hunt.judge.bits.outputs == 1 else 2 * doubt) + margins.slack
        # Margins of twins below −away are surely below 0, in every arithmetic named. Unit and away are rounded once
        # each; a box counts as done a little further away.
        self.enough = away / unit * (1 + 2.0**-40)

    def cutoff(self) -> float:
        return self.enough

    def examine(self, solution: np.ndarray) -> bool:
        self.hunt.fair(self._point(solution))
        return self.hunt.twins is not None

    def decided(self, lower: np.ndarray, upper: np.ndarray) -> bool | None:
        low, high = self._ends(lower, upper)
        return self.hunt.fair(low) if (low == high).all() else None

    def halves(self, lower: np.ndarray, upper: np.ndarray, solution: np.ndarray | None) -> Sequence[Box]:
        low, high = self._ends(lower, upper)
        feature, cell = self._cut(low, high, solution)
        at, count = self.cells[feature]
        below, above = lower.copy(), upper.copy()
        below[at + cell : at + count - 1], above[at : at + cell + 1] = 1.0, 0.0
        return [(below, upper), (lower, above)]

    def _point(self, solution: np.ndarray) -> np.ndarray:
        """The cells of the nearest person."""
        return np.array([int((solution[at : at + count - 1] < 0.5).sum()) for at, count in self.cells], np.int64)

    def _ends(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last cell of each free feature in a box of columns."""
        return self._point(upper), self._point(lower)

    def _cut(self, low: np.ndarray, high: np.ndarray, solution: np.ndarray | None) -> tuple[int, int]:
        """The feature, and the last cell of the lower part: where the solution is least whole, else next to it."""
        best, where = CLOSE, (-1, -1)
        point = (low + high) // 2 if solution is None else np.clip(self._point(solution), low, high)
        for i, (at, _) in enumerate(self.cells):
            if solution is None or low[i] == high[i]:
                continue
            part = solution[at + int(low[i]) : at + int(high[i])]
            apart = np.abs(part - np.round(part))
            if apart.max() > best:
                best, where = float(apart.max()), (i, int(low[i]) + int(apart.argmax()))
        if where[0] >= 0:
            return where
        widest = int(np.argmax(high - low))
        return widest, int(min(point[widest], high[widest] - 1))
