"""What do solvers say about a program, and what of it is proven? HiGHS' claims, and branch and bound with safe bounds.

HiGHS solves linear programs fast but in floating point. From each we take only its multipliers; `safe_minimum` makes a
bound of them that holds whatever their errors (Neumaier and Shcherbina, 2004), so that a finished tree is a proof.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bornfair.core.checks import installed
from bornfair.core.clock import Clock
from bornfair.models.rounding import OWN_FLOOR, OWN_UNIT
from bornfair.verification.milp_encoding import NoProgram, Pair, Program, Reach, Sums, later_gap, write_program
from bornfair.verification.twin_question import TwinQuestion

Judge = Callable[[np.ndarray], bool]
"""Is told every solution found; True means that no more are needed."""

Cutoff = Callable[[], float]
"""The cost that is known to be reached, or that is of no interest any more; it may fall with time."""

TOLERANCE = 1e-9  # of HiGHS, on sums scaled to about ±16
CLOSE = 1e-7  # what counts as whole, or as zero, when a column to branch on is chosen
NEAR_ENOUGH = 1e-9  # relative distance to the best known at which a branch is given up; its bound still counts
OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "small_matrix_value": 1e-12,
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
}


class Written(Protocol):
    """What solvers are given: columns lower ≤ x ≤ upper, some of them whole numbers, and rows row_lower ≤ matrix x ≤
    row_upper; `size` is |matrix|.
    """

    @property
    def lower(self) -> np.ndarray: ...
    @property
    def upper(self) -> np.ndarray: ...
    @property
    def integer(self) -> np.ndarray: ...
    @property
    def matrix(self) -> Any: ...
    @property
    def row_lower(self) -> np.ndarray: ...
    @property
    def row_upper(self) -> np.ndarray: ...
    @property
    def size(self) -> Any: ...


@dataclass(frozen=True)
class Claim:
    """HiGHS' word: the smallest cost found, and a number it says no cost is below."""

    best: float
    bound: float
    ended: bool


@dataclass(frozen=True)
class Tree:
    """A proven lower bound of the cost, and how many linear programs it took."""

    bound: float
    nodes: int

    def of_everybody(self) -> Tree:
        """The same, of a program about all people there are: one that allows nobody proves nothing about them."""
        if self.nodes == 1 and self.bound == math.inf:
            raise NoProgram("the program that was written allows nobody")
        return self


def ask_highs(
    program: Written, cost: np.ndarray, seconds: float, seed: int, judge: Judge, cutoff: Cutoff = lambda: math.inf
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


def _solver(program: Written, cost: np.ndarray, *, whole: bool, **options: Any) -> Any:
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
    program: Written, cost: np.ndarray, multipliers: np.ndarray, lower: np.ndarray, upper: np.ndarray
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

    def __init__(self, program: Written) -> None:
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


def branch(
    program: Program,
    cost: np.ndarray,
    seconds: float,
    judge: Judge,
    cutoff: Cutoff,
    *,
    all_or_nothing: bool,
) -> Tree:
    """A proven lower bound of the cost over the program: the best branch first, until all are at the cutoff or above.

    With `all_or_nothing` a branch that can be neither split nor settled ends the search: the cutoff is out of reach.
    """
    clock = Clock(seconds)
    relaxation, order = Relaxation(program), itertools.count()
    settled, nodes = math.inf, 0
    open_branches = [(-math.inf, next(order), program.lower, program.upper)]
    while open_branches:
        known, _, lower, upper = heapq.heappop(open_branches)
        if clock.left <= 0:
            return Tree(min(settled, known), nodes)
        bound, solution = relaxation.minimum(cost, lower, upper, clock.left)
        bound, nodes = max(bound, known), nodes + 1
        if solution is not None and judge(solution):
            return Tree(min(settled, bound), nodes)
        limit = cutoff()
        if bound > limit or bound >= limit - NEAR_ENOUGH * abs(limit):
            settled = min(settled, bound)
            continue
        halves = _halves(program, lower, upper, solution)
        if not halves:
            settled = min(settled, bound)
            if all_or_nothing:
                return Tree(settled, nodes)
        for low, high in halves:
            heapq.heappush(open_branches, (bound, next(order), low, high))
    return Tree(settled, nodes)


def _halves(
    program: Program, lower: np.ndarray, upper: np.ndarray, solution: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two parts that together hold every solution with whole numbers; none if there is nothing to split."""
    free = [phase for phase in program.phases if lower[phase[0]] < upper[phase[0]]]
    if solution is None:
        wrong = [upper[z] - lower[z] for _, z, _ in free]
    else:
        wrong = [solution[a] - max(solution[z], 0.0) for _, z, a in free]
    if wrong and max(wrong) > CLOSE:
        on, z, a = free[int(np.argmax(wrong))]
        off_low, off_high, on_low = lower.copy(), upper.copy(), lower.copy()
        off_high[[on, a]], off_high[z] = 0.0, min(upper[z], 0.0)
        on_low[on], on_low[z] = 1.0, max(lower[z], 0.0)
        return [(off_low, off_high), (on_low, upper)]
    whole = program.integer & (lower < upper)
    whole[[on for on, _, _ in program.phases]] = False
    if not whole.any():
        return []
    point = 0.5 * (lower + upper) if solution is None else solution
    apart = np.where(whole, np.abs(point - np.round(point)), 0.0)
    at = int(np.argmax(apart if solution is not None else np.where(whole, upper - lower, 0.0)))
    if solution is not None and apart[at] <= CLOSE:
        return []
    cut = math.floor(min(max(point[at], lower[at]), upper[at] - 0.5))
    low, high = lower.copy(), upper.copy()
    high[at], low[at] = cut, cut + 1.0
    return [(lower, high), (low, upper)]


def tightened(question: TwinQuestion, pair: Pair, reach: Reach, seconds: float) -> Reach:
    """The bounds of each sum made tighter by linear programs over all layers before it, as far as time allows."""
    clock, network = Clock(seconds), question.model.network
    for layer in range(1, len(network.layers)):
        gap_low, gap_high = later_gap(network, layer, reach[layer - 1])
        low, high, known_low, known_high = (ends.copy() for ends in reach[layer])
        gap_low, gap_high = np.maximum(gap_low, known_low), np.minimum(gap_high, known_high)
        program = write_program(question, pair, reach, layers=layer + 1, margin=False)
        relaxation = Relaxation(program)

        def least(entries: list[tuple[int, float]], exponent: int, relaxation: Relaxation = relaxation) -> float:
            if clock.left <= 0:
                return -math.inf
            cost = np.zeros(len(relaxation.columns))
            for column, value in entries:
                cost[column] = value
            bound, _ = relaxation.minimum(cost, relaxation.program.lower, relaxation.program.upper, clock.left)
            value = math.ldexp(bound, exponent) if math.isfinite(bound) else -math.inf
            return value if abs(value) > OWN_FLOOR else -math.inf  # so small that scaling may have rounded it

        for neuron, exponent in enumerate(program.exponents[layer].tolist()):
            first, second = (int(column) for column in program.sums[layer][:, neuron])
            for copy, z in enumerate((first, second)):
                low[copy, neuron] = max(low[copy, neuron], least([(z, 1.0)], exponent))
                high[copy, neuron] = min(high[copy, neuron], -least([(z, -1.0)], exponent))
            gap_low[neuron] = max(gap_low[neuron], least([(first, 1.0), (second, -1.0)], exponent))
            gap_high[neuron] = min(gap_high[neuron], -least([(first, -1.0), (second, 1.0)], exponent))
        # The bounds of later layers stay as they are: they remain true.
        reach = [*reach[:layer], Sums(low, high, gap_low, gap_high), *reach[layer + 1 :]]
        if clock.left <= 0:
            break
    return reach
