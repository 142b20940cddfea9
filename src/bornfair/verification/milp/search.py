"""Branch and bound over programs, and the search for twins that goes with it, for all kinds of model.

A kind writes the programs (`ProgramTree`), says how a box of columns is cut, and examines the people a solver proposes
(`Hunt`): exactly, because HiGHS' own word proves nothing.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from bornfair.core.clock import Clock
from bornfair.verification.milp.program import Claim, Cutoff, NoProgram, Program, Relaxation, ask_highs
from bornfair.verification.replay import Replay

CLOSE = 1e-7  # what counts as whole, or as zero, when a column to branch on is chosen
FIRST, CLAIMING = 0.15, 0.6  # shares of the time that is left: for safe bounds at first, then for HiGHS' own search

Box = tuple[np.ndarray, np.ndarray]
"""The lower and upper bounds of all columns."""


class Hunt:
    """The twins found so far. Each candidate that a solver proposes is examined once, in exact arithmetic."""

    def __init__(self) -> None:
        self.by = ""  # the search that proposes candidates, for the report
        self.twins: Replay | None = None
        self.seen: dict[Hashable, bool] = {}

    def once(self, candidate: Hashable, examine: Callable[[], bool]) -> bool:
        """What the examination of a candidate gave, now or before."""
        if candidate not in self.seen:
            self.seen[candidate] = examine()
        return self.seen[candidate]


class ProgramTree:
    """Is the cost of a program ever at most the cutoff? Open boxes of columns wait in a heap, lowest bound first."""

    near = 0.0
    """Relative distance to the cutoff at which a box is given up; its bound still counts. Where it is 0, a bound above
    the cutoff is all that matters: a box that can be neither cut nor decided ends the search.
    """
    thorough = True
    """Whether the solutions of boxes that are given up are examined too."""
    name = "margin"

    def __init__(self, hunt: Hunt, program: Program, cost: np.ndarray, unit: float) -> None:
        """`unit`: what 1 in the cost stands for."""
        self.hunt, self.program, self.cost, self.unit = hunt, program, cost, unit
        self.nodes = self.stuck = 0
        self.settled, self.hopeless, self._order = math.inf, False, itertools.count()
        self.open: list[tuple[float, int, np.ndarray, np.ndarray]] = []
        self._push(-math.inf, (program.lower, program.upper))

    def examine(self, solution: np.ndarray) -> bool:
        """Examine the people that a solution stands for. True means that no more solutions are needed."""
        raise NotImplementedError

    def halves(self, lower: np.ndarray, upper: np.ndarray, solution: np.ndarray | None) -> Sequence[Box]:
        """Two boxes that together hold all people of this one; none if it cannot be cut."""
        raise NotImplementedError

    def decided(self, lower: np.ndarray, upper: np.ndarray) -> bool | None:
        """Of a box with one person: whether their twins are surely decided alike. None of all other boxes."""
        return None

    def cutoff(self) -> float:
        return 0.0

    def claim(self, seconds: float, seed: int, cutoff: Cutoff = lambda: math.inf) -> Claim:
        """HiGHS' own search."""
        return ask_highs(self.program, self.cost, seconds, seed, self.examine, cutoff)

    @property
    def bound(self) -> float:
        """Proven: the cost is never lower."""
        return min(self.settled, self.open[0][0]) if self.open else self.settled

    def grow(self, seconds: float) -> None:
        """Bound and cut boxes until none is open, twins are found, or time is up."""
        clock = Clock(seconds)
        while self.open and not self.hopeless and self.hunt.twins is None and not clock.is_up:
            known, _, lower, upper = heapq.heappop(self.open)
            alike = self.decided(lower, upper)
            if alike is not None:
                self.stuck += not alike
                continue
            bound, solution = self._relaxation.minimum(self.cost, lower, upper, clock.left)
            bound, self.nodes = max(bound, known), self.nodes + 1
            if bound == math.inf and self.must_hold_people:
                raise NoProgram("the program that was written allows nobody")
            if solution is not None and (self.thorough or not self._gives_up(bound)):
                self.examine(solution)
            done = self._gives_up(bound)
            halves = () if done else self.halves(lower, upper, solution)
            if not halves and not done and not self.near:
                self.hopeless, halves = True, [(lower, upper)]
            if not halves:
                self.settled = min(self.settled, bound)
            for half in halves:
                self._push(bound, half)

    @property
    def must_hold_people(self) -> bool:
        """Whether the box that was bounded last holds people if the program is right: the first one does."""
        return self.nodes == 1

    def _gives_up(self, bound: float) -> bool:
        limit = self.cutoff()
        return bound > limit - self.near * abs(limit)

    def _push(self, bound: float, box: Box) -> None:
        heapq.heappush(self.open, (bound, next(self._order), *box))

    @cached_property
    def _relaxation(self) -> Relaxation:
        return Relaxation(self.program)


Tree = TypeVar("Tree", bound=ProgramTree)


# --- is anybody treated unfairly? ---


@dataclass(frozen=True)
class Searched:
    """How a search without twins ends: the linear programs that gave safe bounds; whether boxes are open, and how many
    people are too close to call; whether everybody passed one by one; HiGHS' claim, or why no program could be written.
    """

    nodes: int
    open: bool
    stuck: int
    listed: bool
    claim: str
    refused: str

    @property
    def proven(self) -> bool:
        return not self.open and not self.stuck


def search(
    hunt: Hunt,
    write: Callable[[], Sequence[Tree]],
    clock: Clock,
    seed: int,
    decide_all: Callable[[], bool] | None = None,
) -> Searched:
    """Look for twins, or a proof that there are none. They are in the hunt once they are found.

    write:      the trees, which together cover all twins.
    decide_all: decides everybody one by one, where that is possible; whether all passed.
    """
    trees: Sequence[Tree] = ()
    claim = refused = ""
    try:
        trees = write()
        # A short try first: small trees are faster than HiGHS' machinery, and what they end with is proven.
        left = _grown(hunt, trees, clock, FIRST)
        claim = _claim(hunt, left, clock, seed) if left and hunt.twins is None else ""
        if left and hunt.twins is None and decide_all is None:
            left = _grown(hunt, left, clock)
        open_ = bool(left) or not trees  # without a program nothing is proven
    except NoProgram as error:
        open_, trees, refused = True, (), f"no program could be written: {error}"
    listed = False
    if open_ and hunt.twins is None and decide_all is not None:
        hunt.by, listed = "a list of everybody", decide_all()
    nodes, stuck = (sum(getattr(tree, name) for tree in trees) for name in ("nodes", "stuck"))
    return Searched(nodes, open_, stuck, listed, claim, refused)


def _grown(hunt: Hunt, trees: Sequence[Tree], clock: Clock, share: float = 1.0) -> list[Tree]:
    """The trees that safe bounds leave open after that share of the time."""
    hunt.by = "branch and bound"
    for tree, seconds in clock.shared(trees, share):
        tree.grow(seconds)
        clock.say(f"{tree.name} at most {-tree.bound * tree.unit:.4g} by {tree.nodes} safe bounds")
        if hunt.twins is not None:
            break
    return [tree for tree in trees if tree.open]


def _claim(hunt: Hunt, trees: Sequence[ProgramTree], clock: Clock, seed: int) -> str:
    """Let HiGHS search for twins. If it finds none: what it claims, in words."""
    found, allowed, ended, hunt.by = -math.inf, -math.inf, True, "HiGHS"
    for tree, seconds in clock.shared(trees):
        claim = tree.claim(CLAIMING * seconds, seed)
        if hunt.twins is not None:
            return ""
        best, bound = -claim.best * tree.unit, -claim.bound * tree.unit
        clock.say(f"{tree.name}: HiGHS' best {best:.4g}, bound {bound:.4g}")
        found, allowed, ended = max(found, best), max(allowed, bound), ended and claim.ended
    word = f"best margin {found:.3g}" if ended else f"best margin {found:.3g} when time ran out, at most {allowed:.3g}"
    if found > 0:
        return f"HiGHS claims twins ({word}, a floating-point answer), but replayed they are decided alike"
    return f"HiGHS found no twins ({word}, a floating-point answer)"


# --- how far apart can twins be? ---


def bound_largest(tree: ProgramTree, clock: Clock, seconds: float, seed: int) -> tuple[float, float]:
    """Upper bounds of minus the cost: proven, and as HiGHS claims."""
    until = clock.spent + seconds
    claim = tree.claim(0.5 * seconds, seed, tree.cutoff)
    clock.say(f"{tree.name}: HiGHS' bound {-claim.bound * tree.unit:.6g}")
    tree.grow(until - clock.spent)
    clock.say(f"{tree.name}: proven {-tree.bound * tree.unit:.6g} by {tree.nodes} safe bounds")
    return -tree.bound * tree.unit, -claim.bound * tree.unit
