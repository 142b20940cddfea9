"""Mixed-integer programs: their columns and rows, the claims of HiGHS, and bounds that hold whatever its errors.

HiGHS solves linear programs fast but in floating point. `safe_minimum` turns its multipliers into a bound that holds
for any multipliers (Neumaier and Shcherbina, 2004). Branch and bound with such bounds is a proof.

A kind of model writes the programs (`ProgramTree`), says how a box of columns is cut, and examines the people a solver
proposes (`Hunt`): exactly, because HiGHS' own word proves nothing.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array

from bornfair.core.checks import installed
from bornfair.core.clock import Clock
from bornfair.models.rounding import OWN_FLOOR, OWN_UNIT
from bornfair.verification.replay import Replay

Judge = Callable[[np.ndarray], bool]
"""Is told every solution found; True means that no more are needed."""

Box = tuple[np.ndarray, np.ndarray]
"""The lower and upper bounds of all columns."""

Cutoff = Callable[[], float]
"""The cost that is known to be reached, or that is of no interest any more; it may fall with time."""

CLOSE = 1e-7  # what counts as whole, or as zero, when a column to branch on is chosen
FIRST, CLAIMING = 0.15, 0.6  # shares of the time that is left: for safe bounds at first, then for HiGHS' own search
SIZE_EXPONENT = 4  # sums are scaled to about ±2^4: solvers compare with absolute tolerances
TOLERANCE = 1e-9  # of HiGHS, on sums scaled to about ±16
OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "small_matrix_value": 1e-12,
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
}


class NoProgram(Exception):
    """The numbers of the model do not fit a program in float64; the message says why."""


@dataclass(frozen=True, eq=False)
class Program:
    """Columns lower ≤ x ≤ upper, some of them whole numbers, and rows row_lower ≤ matrix x ≤ row_upper."""

    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray
    matrix: csr_array  # [rows, columns]
    row_lower: np.ndarray
    row_upper: np.ndarray
    size: csr_array
    """|matrix|: every safe bound needs it."""

    def cost(self, entries: Iterable[tuple[int, float]]) -> np.ndarray:
        """A cost of these columns; 0 of all others."""
        found = np.zeros(len(self.lower))
        for column, value in entries:
            found[column] = value
        return found


@dataclass(eq=False)
class Draft:
    """Columns and rows while a program is written down."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[tuple[list[int], list[float], float, float]] = field(default_factory=list)

    def column(self, lower: float, upper: float, *, integer: bool = False) -> int:
        self.lower.append(float(lower))
        self.upper.append(float(upper))
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(self, columns: Sequence[int], values: Sequence[float], lower: float, upper: float) -> None:
        kept = [(column, value) for column, value in zip(columns, values, strict=True) if value]
        self.rows.append(([column for column, _ in kept], [float(value) for _, value in kept], lower, upper))

    def choice(self, count: int) -> list[int]:
        """Columns of which one is 1 and the others are 0; none if there is nothing to choose."""
        columns = [self.column(0, 1, integer=True) for _ in range(count)] if count > 1 else []
        if columns:
            self.row(columns, [1.0] * count, 1.0, 1.0)
        return columns

    def program(self) -> Program:
        starts = np.cumsum([0, *(len(columns) for columns, *_ in self.rows)])
        entries = np.array([value for _, values, *_ in self.rows for value in values])
        places = np.array([column for columns, *_ in self.rows for column in columns], dtype=np.int64)
        matrix = csr_array((entries, places, starts), shape=(len(self.rows), len(self.lower)))
        row_lower, row_upper = (np.array([row[end] for row in self.rows]) for end in (2, 3))
        columns = np.array(self.lower), np.array(self.upper), np.array(self.integer, bool)
        return Program(*columns, matrix, row_lower, row_upper, abs(matrix))


def exponent_of(size: float) -> int:
    return math.frexp(size)[1] - SIZE_EXPONENT if size else 0


def scaled(number: float, exponent: int) -> float:
    """number · 2^exponent, which must be a float64 too."""
    try:
        found = math.ldexp(number, exponent)
    except OverflowError:
        found = math.inf
    if math.isinf(found) or math.ldexp(found, -exponent) != number:
        raise NoProgram("the weights differ so much in size that the program leaves float64")
    return found


# --- HiGHS ---


@dataclass(frozen=True)
class Claim:
    """HiGHS' word: the smallest cost found, and a number it says no cost is below."""

    best: float
    bound: float
    ended: bool


def ask_highs(
    program: Program, cost: np.ndarray, seconds: float, seed: int, judge: Judge, cutoff: Cutoff = lambda: math.inf
) -> Claim:
    """Minimise the cost over the program; whoever is found on the way is judged at once.

    The search ends early once the judge has enough, or nothing below the cutoff is left.
    """
    if seconds <= 0:
        return Claim(math.inf, -math.inf, ended=False)
    solver = _solver(
        program, cost, whole=True, time_limit=seconds, random_seed=seed % 2**31,
        mip_feasibility_tolerance=TOLERANCE, mip_rel_gap=1e-9, mip_abs_gap=1e-9,
    )  # fmt: skip
    enough = False

    def improved(event: Any) -> None:
        nonlocal enough
        enough = enough or judge(np.array(event.data_out.mip_solution))

    def interrupt(event: Any) -> None:
        if enough or event.data_out.mip_dual_bound > cutoff():
            event.interrupt()

    if program.integer.any():
        solver.cbMipImprovingSolution.subscribe(improved)
        solver.cbMipInterrupt.subscribe(interrupt)
    solver.run()
    ended = solver.getModelStatus().name == "kOptimal"
    info, solution = solver.getInfo(), solver.getSolution()
    best = math.inf
    if solution.value_valid:
        best = float(info.objective_function_value)
        judge(np.array(solution.col_value))
    if not program.integer.any():
        return Claim(best, best if ended else -math.inf, ended)
    return Claim(best, float(info.mip_dual_bound), ended)


def _solver(program: Program, cost: np.ndarray, *, whole: bool, **options: Any) -> Any:
    highspy = installed("highspy", "the milp engine")
    solver = highspy.Highs()
    for name, value in (OPTIONS | options).items():
        solver.setOptionValue(name, value)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = program.matrix.shape
    model.col_cost_, model.col_lower_, model.col_upper_ = cost, program.lower, program.upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = program.matrix.indptr.astype(np.int32)
    model.a_matrix_.index_ = program.matrix.indices.astype(np.int32)
    model.a_matrix_.value_ = program.matrix.data
    if whole:
        kinds = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        model.integrality_ = [kinds[int(integer)] for integer in program.integer]
    solver.passModel(model)
    return solver


def safe_minimum(
    program: Program, cost: np.ndarray, multipliers: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> float:
    """A number that cost·x is never below, for all x of the program between these bounds; rounding is accounted for.

    For any y: cost·x = y·(A x) + (cost − Aᵀy)·x, and both parts are at least what the bounds of rows and columns allow.
    """
    y = np.where(np.isfinite(multipliers), multipliers, 0.0)
    y[(y > 0) & np.isneginf(program.row_lower) | (y < 0) & np.isposinf(program.row_upper)] = 0.0
    ends = np.where(y > 0, program.row_lower, program.row_upper)
    slack = 4 * (len(y) + 8) * OWN_UNIT
    with np.errstate(over="ignore", invalid="ignore"):  # seen by the result
        rows = y * np.where(y != 0, ends, 0.0)
        rest = cost - program.matrix.T @ y
        doubt = slack * (np.abs(cost) + program.size.T @ np.abs(y)) + OWN_FLOOR * (len(y) + 8)
        columns = np.where(rest > 0, rest * lower, rest * upper)
        # The extra slack also covers what rounding does to a product that this doubt nearly cancels.
        columns -= doubt * np.maximum(np.abs(lower), np.abs(upper)) * (1 + slack)
        terms = np.concatenate([rows, columns])
        if not np.abs(terms).sum() < 2.0**1000:
            return -math.inf
    total = math.fsum(terms) - 8 * OWN_UNIT * math.fsum(np.abs(terms)) - OWN_FLOOR * (len(terms) + 8)
    return math.nextafter(total, -math.inf)


class Relaxation:
    """The program without "whole numbers only", solved again and again with other costs and bounds."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.columns = np.arange(len(program.lower), dtype=np.int32)
        self.solver = _solver(program, np.zeros(len(program.lower)), whole=False, presolve="off")

    def minimum(
        self, cost: np.ndarray, lower: np.ndarray, upper: np.ndarray, seconds: float = math.inf
    ) -> tuple[float, np.ndarray | None]:
        """A proven lower bound of the cost (∞: there is no solution), and the solution HiGHS found, if any."""
        program, solver, count = self.program, self.solver, len(self.columns)
        solver.changeColsCost(count, self.columns, cost)
        solver.changeColsBounds(count, self.columns, lower, upper)
        solver.setOptionValue("time_limit", solver.getRunTime() + max(seconds, 0.01))
        solver.run()
        bound = safe_minimum(program, cost, np.zeros(len(program.row_lower)), lower, upper)
        if solver.getModelStatus().name == "kInfeasible":
            _, exists, ray = solver.getDualRay()
            nothing = np.zeros_like(cost)
            for sign in (1.0, -1.0) if exists else ():
                if safe_minimum(program, nothing, sign * np.array(ray), lower, upper) > 0:
                    return math.inf, None  # 0 ≥ a number above 0: nobody is here
            return bound, None
        solution = solver.getSolution()
        if solution.dual_valid:
            bound = max(bound, safe_minimum(program, cost, np.array(solution.row_dual), lower, upper))
        return bound, np.array(solution.col_value) if solution.value_valid else None


# --- branch and bound ---


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
