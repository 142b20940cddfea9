"""Linear bounds of outputs, L(u) ≤ f(A_i u + a_i) ≤ U(u), on many boxes and views at once.

`backward` holds the mathematics and why it is safe in floating point. It runs with NumPy or, when there is enough to
do, compiled by JAX in float64.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.models.network.bounds import backward
from bornfair.models.network.bounds.backward import Arrays, Findings, Lines, Shape, arrays_of, not_finite, require_fit
from bornfair.models.network.network import Network, decisions
from bornfair.models.verdict import Arithmetic
from bornfair.parallel.task import jax_hangs
from bornfair.people.twins.relation import Relation

NUMBERS = {True: 2**22, False: 2**17}  # per array, compiled or not: what fits the caches, where NumPy passes many times

LEAST_COMPILED = 64  # boxes


@dataclass(frozen=True, eq=False)
class LinearBounds:
    """A network and the views of a relation, ready to be bounded on sub-boxes of the free space.

    A box is a pair of rows low, high of the free vector; in one-hot groups `high` is 1 for the categories that are
    still allowed. Bounds for "float32" hold in real arithmetic too: it is the execution that makes no error.
    Compiling takes seconds; `compiled` is for searches of minutes.
    """

    network: Network
    relation: Relation
    compiled: bool = False

    def __post_init__(self) -> None:
        require_fit(self.network, self.relation)

    @functools.cached_property
    def flaw(self) -> str | None:
        """Why nothing can be said about this network, if so."""
        return not_finite(self.network, self.relation)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Classes (b, a), a < b, in the order in which differences f_b − f_a are bounded."""
        outputs = self.network.outputs
        return tuple((b, a) for b in range(outputs) for a in range(b)) if outputs > 1 else ((1, 0),)

    def lines(self, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic = "float32") -> Lines:
        """Lower and upper lines of every view on every box, and their extremes."""
        return Lines(*self._run("lines", low, high, arithmetic))

    def judge(self, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic = "float32") -> Findings:
        """Which boxes are fair, and where to cut the others."""
        return Findings(*self._run("judge", low, high, arithmetic))

    def points(self, free: np.ndarray, arithmetic: Arithmetic = "float32") -> tuple[np.ndarray, np.ndarray]:
        """For single vectors u: arrays `fair` [rows] (proven) and `classes` [rows, views], the likely decisions."""
        fair, classes = self._run("points", free, free, arithmetic)
        return fair, classes

    def scores(self, free: np.ndarray) -> np.ndarray:
        """Outputs [rows, views, outputs] in plain float64: to find suspects and to estimate, never to prove."""
        with np.errstate(all="ignore"):
            return np.stack([self.network.estimated(view(free)) for view in self.relation.views], axis=1)

    def guess(self, free: np.ndarray) -> np.ndarray:
        """The likely decisions [rows, views]."""
        return decisions(self.scores(free))

    def _run(self, kind: str, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic) -> list[np.ndarray]:
        groups = tuple((group.start, group.stop) for group in self.relation.free.groups)
        # Few boxes, and points, come in all numbers: compiling for each would take longer than it saves.
        compiled = self.compiled and kind != "points" and len(low) >= LEAST_COMPILED and not jax_hangs()
        xp: Any = np
        if compiled:  # others need not wait for JAX
            import jax
            import jax.numpy as xp
        shape = Shape(xp, self.network.widths, self.network.activation, groups, self.pairs)
        arrays = self.arrays(arithmetic)
        found = []
        for start, stop in self._parts(kind, len(low), compiled):
            part = [np.asarray(end[start:stop], np.float64) for end in (low, high)]
            if compiled:
                # Padded to a power of two, so that few shapes are compiled.
                padded = max(1 << (stop - start - 1).bit_length(), 4 * LEAST_COMPILED)
                rows = np.minimum(np.arange(padded), stop - start - 1)
                with jax.enable_x64(True):
                    result = _compiled(shape, kind)(arrays, *(end[rows] for end in part))
                    found.append([np.asarray(array)[: stop - start] for array in result])
            else:
                with np.errstate(all="ignore"):
                    found.append(list(getattr(backward, kind)(shape, arrays, *part)))
        return [np.concatenate(group) for group in zip(*found, strict=True)]

    def _parts(self, kind: str, count: int, compiled: bool) -> list[tuple[int, int]]:
        """Groups of boxes that keep memory small."""
        widths = self.network.widths
        per_row = max(widths) if kind == "points" else 2 * max(widths[1:]) * max(self.relation.free.width, *widths) // 2
        most = max(NUMBERS[compiled] // (per_row * len(self.relation.views)), 1)
        most = 1 << most.bit_length() - 1
        return [(start, min(start + most, count)) for start in range(0, max(count, 1), most)]

    @functools.cached_property
    def _arrays(self) -> dict[Arithmetic, Arrays]:
        return {}

    def arrays(self, arithmetic: Arithmetic) -> Arrays:
        """What a pass in this arithmetic reads."""
        if arithmetic not in self._arrays:
            sound = self.flaw is None
            self._arrays[arithmetic] = arrays_of(self.network, self.relation, arithmetic, self.pairs, sound=sound)
        return self._arrays[arithmetic]


@functools.lru_cache(maxsize=64)
def _compiled(shape: Shape, kind: str) -> Any:
    import jax

    return jax.jit(functools.partial(getattr(backward, kind), shape))
