"""What does a whole table release? The third reading of Algorithm 1: a row meets everybody's randomised value.

A random person of the table is released as ω with probability r(ω) = (p − q)·share(ω) + q. The codes are centred at
their mean release c̄ = Σ r(ω)·c(ω), so that the mean code is 0 whatever γ is (docs/theory.md §4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.core.errors import InputError
from bornfair.training.response import Response


@dataclass(frozen=True, eq=False)
class Released:
    """How often each value of S is released, and the codes around their mean."""

    shares: np.ndarray  # r(ω), float64 [|S|]
    centre: np.ndarray  # c̄, float64 [sensitive]
    codes: np.ndarray  # c(ω) − c̄, float64 [|S|, sensitive]

    @staticmethod
    def of(response: Response, codes: np.ndarray, true: np.ndarray | None, weights: np.ndarray | None) -> Released:
        """From the true values of the rows trained on (positions in S) and how much each row counts."""
        table = np.asarray(codes, np.float64)
        counted = np.ones(len(table))
        if response.gamma != 0:  # at γ = 0 every value is released equally often, and nobody's needs to be known
            if true is None:
                raise InputError("this response needs each row's true sensitive value, but the table has none.")
            counted = np.bincount(true, weights, minlength=len(table)).astype(np.float64)
        released = response.release(counted / counted.sum())
        centre = released @ table
        return Released(released, centre, table - centre)

    def tables(self) -> dict[str, np.ndarray]:
        """What the compiled loops read."""
        return {"release": self.shares.astype(np.float32), "codes": self.codes.astype(np.float32)}

    def bias_of_centred(self, weight: Any, bias: Any) -> np.ndarray:
        """The bias b + V·c̄, with which V·(c − c̄) is what V·c + b was; `weight` is the whole first layer."""
        return self._moved(weight, bias, +1)

    def bias_of_shipped(self, weight: Any, bias: Any) -> np.ndarray:
        """Back again: the network that is shipped reads the plain codes."""
        return self._moved(weight, bias, -1)

    def _moved(self, weight: Any, bias: Any, sign: int) -> np.ndarray:
        sensitive = np.asarray(weight, np.float64)[:, -len(self.centre) :]
        return (np.asarray(bias, np.float64) + sign * (sensitive @ self.centre)).astype(np.float32)
