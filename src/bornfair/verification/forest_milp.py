"""Is a forest fair? A second opinion by HiGHS: which mixed-integer program says "two twins meet the same trees"?

A column y_c of a free feature is 1 if the person's cell is c or one before it, so that y only rises. A split sends
left whoever is in a set of cells, which is a sum of these columns, P. A leaf's column z is at most P, or 1 − P, of each
split above it, and those of a tree add up to 1: with y whole, z is 1 for the leaf that is reached (Kantchelian et al.,
ICML 2016). Trees that tell no versions apart are written once, the others for both copies of a person, who share y.
The margin m is what the first copy decides one class by, and the second another; no twins differ if m < 0 for all.

HiGHS' own word is floating point and proves nothing. Boxes of cells are cut until a bound that holds whatever the
errors of its multipliers (`safe_minimum`) leaves no margin larger than minus what rounding may do to a sum, or until
they are single cells, which are decided exactly. Whoever a solution stands for is decided exactly, too, and replayed.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bornfair.core.clock import Clock
from bornfair.models.forest.bounds.judge import Judge, told_apart
from bornfair.models.verdict import Verdict, undecided
from bornfair.verification.forest_attack import shown_twins
from bornfair.verification.frontier import TOO_CLOSE
from bornfair.verification.milp_bounds import CLOSE, Relaxation, ask_highs
from bornfair.verification.milp_encoding import Draft, NoProgram, exponent_of, scaled
from bornfair.verification.replay import Replay, falsified

ENGINE = "milp"
PAIRS = 6  # ordered pairs of versions that get a program each; above, 0/1 columns choose the sensitive values
MOST_VALUES = 2_000  # of the sensitive features that one program can choose from
MOST_PROGRAMS = 64
MOST_LEAVES = 200_000  # of both copies
FIRST, CLAIMING = 0.2, 0.6  # shares of the time that is left: for safe bounds at first, then for HiGHS' own search


@dataclass(frozen=True, eq=False)
class ForestProgram:
    """Columns and rows, as `milp_bounds.Written`; where the cells of free features are, and the margin."""

    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray
    matrix: Any
    row_lower: np.ndarray
    row_upper: np.ndarray
    size: Any
    cells: tuple[tuple[int, int], ...]
    """For each free feature the first of its columns, and how many cells it has: one more than columns."""
    margin: int
    unit: float
    """What 1 in the column of the margin stands for."""

    def point(self, solution: np.ndarray) -> np.ndarray:
        """The cells of the nearest person."""
        return np.array([int((solution[at : at + count - 1] < 0.5).sum()) for at, count in self.cells], np.int64)

    def within(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of columns for a box of cells, ends included."""
        lower, upper = self.lower.copy(), self.upper.copy()
        for (at, count), first, last in zip(self.cells, low.tolist(), high.tolist(), strict=True):
            upper[at : at + first] = 0.0
            lower[at + last : at + count - 1] = 1.0
        return lower, upper


Versions = tuple[int, tuple[int, ...]]
"""An element of the declared group, and the sensitive values (rows of `Twins.values`) that a copy may take."""


def write_forest_program(judge: Judge, copies: tuple[Versions, Versions], classes: tuple[int, int]) -> ForestProgram:
    """The program in which the first copy decides the first class, and the second the other, by at least a margin."""
    return _Writer(judge).program(copies, classes)


class _Writer:
    def __init__(self, judge: Judge) -> None:
        self.judge, self.cells, self.draft = judge, judge.cells, Draft()
        self.forest, self.margins = judge.model.forest, judge.bits.margins
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

    def program(self, copies: tuple[Versions, Versions], classes: tuple[int, int]) -> ForestProgram:
        draft, columns = self.draft, list[tuple[int, int]]()
        for position in self.cells.free:
            count = self.cells.features[position].count
            at = [draft.column(0, 1, integer=True) for _ in range(count - 1)]
            for one, other in itertools.pairwise(at):
                draft.row([one, other], [1.0, -1.0], -math.inf, 0.0)
            columns.append((at[0] if at else len(draft.lower), count))
        self.columns = columns
        sums, shared = list[np.ndarray](), dict[int, list[int]]()
        for h, values in copies:
            chosen = [draft.column(0, 1, integer=True) for _ in values] if len(values) > 1 else []
            if chosen:
                draft.row(chosen, [1.0] * len(chosen), 1.0, 1.0)
            leaves = list[int]()
            for tree in range(self.forest.trees):
                if not self._parts(tree):
                    if tree not in shared:
                        shared[tree] = self._tree(tree, h, values, chosen)
                    leaves += shared[tree]
                else:
                    leaves += self._tree(tree, h, values, chosen)
            sums.append(self._sums(leaves))
        margin = self._margin(sums, classes)
        matrix = draft.matrix()
        return ForestProgram(
            np.array(draft.lower), np.array(draft.upper), np.array(draft.integer), matrix,
            np.array([row[2] for row in draft.rows]), np.array([row[3] for row in draft.rows]), abs(matrix),
            tuple(columns), margin, math.ldexp(1.0, self.exponent),
        )  # fmt: skip

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
    hunt = _Hunt(judge)
    try:
        questions = [_Question(hunt, write_forest_program(judge, *asked)) for asked in _asked(judge)]
        open_ = _cut(questions, clock.part(FIRST))
        claim = "" if hunt.twins or not open_ else _claim(hunt, open_, clock.part(CLAIMING), seed)
        open_ = [] if hunt.twins else _cut(open_, clock)
    except NoProgram as error:
        return undecided(ENGINE, f"no program could be written: {error}")
    facts: dict[str, Any] = {"boxes": sum(question.nodes for question in questions), "seconds": clock.spent}
    if hunt.twins is not None:
        reason = f"{hunt.by} led to these twins; they were replayed"
        return falsified(judge.model, hunt.twins, engine=ENGINE, reason=reason, **facts)
    if not open_ and not any(question.stuck for question in questions):
        reason = f"safe bounds of {facts['boxes']:,} linear programs leave no margin for twins"
        return Verdict("verified", "bounds", ENGINE, judge.arithmetic, reason, **facts)
    why = f"the time of {clock.timeout:g} s is up" if open_ else TOO_CLOSE
    return replace(undecided(ENGINE, "; ".join(part for part in (why, claim) if part)), **facts)


def _refusal(judge: Judge) -> str | None:
    values, leaves = len(judge.cells.twins.values), 2 * len(judge.model.forest.values) * judge.bits.outputs
    if values > MOST_VALUES:
        return f"there are {values:,} sensitive values, and a program chooses from {MOST_VALUES:,} at most"
    if leaves > MOST_LEAVES:
        return f"both copies have {leaves:,} leaves, and a program holds {MOST_LEAVES:,} at most"
    if len(_asked(judge)) > MOST_PROGRAMS:
        return f"{len(_asked(judge)):,} programs would be needed, and {MOST_PROGRAMS} are asked at most"
    return None


def _asked(judge: Judge) -> list[tuple[tuple[Versions, Versions], tuple[int, int]]]:
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


class _Hunt:
    """Everybody a solver proposes is decided here, exactly and as all versions."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.by = judge, "branch and bound"
        self.twins: Replay | None = None
        self.seen: dict[tuple[int, ...], bool] = {}
        margins = judge.bits.margins
        doubt = float(margins.doubt.max())
        self.away = (doubt if judge.bits.outputs == 1 else 2 * doubt) + margins.slack
        """Margins of twins below −away are surely below 0, in every arithmetic named."""

    def fair(self, point: np.ndarray) -> bool:
        """Whether all versions of somebody surely get one decision; twins who do not are kept."""
        key = tuple(point.tolist())
        if key not in self.seen:
            decided, _ = self.judge.decided(point[None])
            if self.twins is None and told_apart(decided)[0]:
                self.twins = shown_twins(self.judge, point, decided[0])
            self.seen[key] = bool((decided[0] >= 0).all() and (decided[0] == decided[0, 0]).all())
        return self.seen[key]

    def consider(self, program: ForestProgram, solution: np.ndarray) -> bool:
        self.fair(program.point(solution))
        return self.twins is not None


@dataclass(eq=False)
class _Question:
    """One program, and the boxes of cells in which it may still have a margin, the likeliest first."""

    hunt: _Hunt
    program: ForestProgram
    nodes: int = 0
    stuck: int = 0
    open: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cost = np.zeros(len(self.program.lower))
        self.cost[self.program.margin] = -1.0
        # Unit and away are rounded once each; a box counts as done a little further away.
        self.enough = self.hunt.away / self.program.unit * (1 + 2.0**-40)
        self.order, self.relaxation = itertools.count(), Relaxation(self.program)
        counts = np.array([count for _, count in self.program.cells], np.int64)
        self.open.append((-math.inf, next(self.order), np.zeros(len(counts), np.int64), counts - 1))

    def cut(self, clock: Clock) -> None:
        """Bound and cut boxes until none is open, twins are found, or time is up."""
        while self.open and not clock.is_up and self.hunt.twins is None:
            known, _, low, high = heapq.heappop(self.open)
            if (low == high).all():
                self.stuck += not self.hunt.fair(low)
                continue
            bound, solution = self.relaxation.minimum(self.cost, *self.program.within(low, high), clock.left)
            bound, self.nodes = max(bound, known), self.nodes + 1
            if bound == math.inf:
                raise NoProgram("the program that was written allows nobody")
            if bound > self.enough:
                continue
            if solution is not None and self.hunt.consider(self.program, solution):
                return
            feature, at = self._where(low, high, solution)
            below, above = high.copy(), low.copy()
            below[feature], above[feature] = at, at + 1
            heapq.heappush(self.open, (bound, next(self.order), low, below))
            heapq.heappush(self.open, (bound, next(self.order), above, high))

    def _where(self, low: np.ndarray, high: np.ndarray, solution: np.ndarray | None) -> tuple[int, int]:
        """The feature, and the last cell of the lower part: where the solution is least whole, else next to it."""
        best, where = CLOSE, (-1, -1)
        point = (low + high) // 2 if solution is None else np.clip(self.program.point(solution), low, high)
        for i, (at, _) in enumerate(self.program.cells):
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


def _cut(questions: list[_Question], clock: Clock) -> list[_Question]:
    """The questions that are still open after this time, shared by them."""
    for question, seconds in clock.shared(questions):
        question.cut(clock.part(most=seconds))
        if question.hunt.twins is not None:
            return []
    return [question for question in questions if question.open]


def _claim(hunt: _Hunt, questions: list[_Question], clock: Clock, seed: int) -> str:
    """HiGHS' own search, and its word where it found no twins."""
    hunt.by, best, bound, ended = "HiGHS", -math.inf, -math.inf, True
    for question, seconds in clock.shared(questions):
        program = question.program
        claim = ask_highs(program, question.cost, seconds, seed, partial(hunt.consider, program))
        if hunt.twins is not None:
            return ""
        best, bound = max(best, -claim.best * program.unit), max(bound, -claim.bound * program.unit)
        ended = ended and claim.ended
    hunt.by = "branch and bound"
    word = f"best margin {best:.3g}" if ended else f"best margin {best:.3g} when time ran out, at most {bound:.3g}"
    return f"HiGHS found no twins ({word}, a floating-point answer)"
