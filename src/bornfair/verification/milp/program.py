"""Mixed-integer programs: their columns and rows, the claims of HiGHS, and bounds that hold whatever its errors.

HiGHS solves linear programs fast but in floating point. `safe_minimum` turns its multipliers into a bound that holds
for any multipliers (Neumaier and Shcherbina, 2004). Branch and bound with such bounds is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bornfair.core.checks import installed
from bornfair.models.rounding import OWN_FLOOR, OWN_UNIT

Judge = Callable[[np.ndarray], bool]
"""Is told every solution found; True means that no more are needed."""

Cutoff = Callable[[], float]
"""The cost that is known to be reached, or that is of no interest any more; it may fall with time."""

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
