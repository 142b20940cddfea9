"""Evaluation of ReLU networks in real arithmetic, without any rounding.

Inputs are fractions and weights floats: over one common denominator they are whole numbers of any length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.network.network import Network

if TYPE_CHECKING:
    from bornfair.people.twins.relation import View


def exact_scores(network: Network, inputs: np.ndarray) -> np.ndarray:
    """Outputs [rows, outputs] as Fractions, for inputs [rows, inputs] that are Fractions.

    >>> from bornfair.models.network.network import Layer
    >>> tiny = Network((Layer(np.array([[1.0, 2.0**-100]]), np.zeros(1)), Layer(np.ones((1, 1)), -np.ones(1))))
    >>> people = fractions(np.array([[1.0, 0.0], [1.0, 1.0]]))
    >>> [score > 0 for score in exact_scores(tiny, people)[:, 0]]
    [False, True]
    """
    if not network.function.exact:
        raise InputError(f"exact evaluation needs a relu network, found {network.activation}.")
    unit = math.lcm(*(entry.denominator for entry in inputs.flat))
    numbers = [entry.numerator * (unit // entry.denominator) for entry in inputs.flat]
    values = np.array(numbers, dtype=object).reshape(inputs.shape)
    for i, layer in enumerate(network.layers):
        if i:
            values = np.maximum(values, 0)
        whole, more = whole_numbers(np.concatenate([layer.weight, layer.bias[:, None]], axis=1))
        one = np.full((len(values), 1), unit, dtype=object)
        values, unit = np.concatenate([values, one], axis=1) @ whole.T, unit * more
    scores = [Fraction(value, unit) for value in values.flat]
    return np.array(scores, dtype=object).reshape(values.shape)


def exact_decisions(network: Network, inputs: np.ndarray) -> np.ndarray:
    """Class indices in real arithmetic: logit > 0 for one output, the first largest of many. Equal rows are decided
    once: of a person's versions many may be the same to the network.
    """
    rows: dict[tuple[Fraction, ...], int] = {}
    which = [rows.setdefault(tuple(row), len(rows)) for row in inputs]
    scores = exact_scores(network, np.array(list(rows), dtype=object).reshape(len(rows), inputs.shape[1]))
    if network.outputs == 1:
        decided = [int(score > 0) for score in scores[:, 0]]
    else:
        decided = [max(range(len(row)), key=lambda k: (row[k], -k)) for row in scores]
    return np.array([decided[place] for place in which], dtype=np.int64)


def agree(network: Network, inputs: np.ndarray) -> bool:
    """Whether all rows get one decision in real arithmetic."""
    return len(set(exact_decisions(network, inputs).tolist())) == 1


def executes_exactly(network: Network, inputs: np.ndarray) -> bool:
    """Whether float32 makes no error on these inputs (Fractions), in any order of summation.

    Inputs that are no multiples of a power of two are no floats, so there it does.

    If all terms of a sum are multiples of one unit 2^-k and their sizes add up to at most 2^24 units, every partial sum
    is a float32. No exponent comes near underflow or overflow.
    """
    for row in inputs:
        values = list(row)
        for i, layer in enumerate(network.layers):
            if i:
                values = [max(value, Fraction(0)) for value in values]
            sums = []
            for weights, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True):
                terms = [Fraction(w) * v for w, v in zip(weights, values, strict=True)] + [Fraction(bias)]
                # The operands must be float32 numbers themselves; weights are.
                units = math.lcm(*(term.denominator for term in (*terms, *values)))
                largest = max(sum(map(abs, terms)), *map(abs, values))
                if units & (units - 1) or units > 2**100 or units * largest > 2**24:
                    return False
                sums.append(sum(terms, Fraction(0)))
            values = sums
    return True


def fractions(numbers: np.ndarray) -> np.ndarray:
    """Floats as the exact numbers they are."""
    return np.array([Fraction(number) for number in numbers.ravel().tolist()], dtype=object).reshape(numbers.shape)


def inputs_of_views(views: Sequence[View], free: np.ndarray) -> np.ndarray:
    """What each view shows of one vector u, [views, inputs] as Fractions."""
    u = fractions(free)
    return np.stack([fractions(view.matrix) @ u + fractions(view.offset) for view in views])


def whole_numbers(floats: np.ndarray) -> tuple[np.ndarray, int]:
    """Floats as whole numbers, of any length, over one common denominator, a power of two."""
    if not np.isfinite(floats).all():
        raise ValueError("NaN and infinity are no fractions")
    bits = np.finfo(floats.dtype).nmant + 1  # shifted by so many, nothing of a float is cut off
    mantissa, exponent = np.frexp(floats)
    whole = np.ldexp(mantissa, bits).astype(np.int64)
    least = int(exponent.min(initial=0, where=whole != 0))
    shift = np.where(whole != 0, exponent - least, 0)
    return whole.astype(object) << shift.astype(object), 2 ** (bits - least)
