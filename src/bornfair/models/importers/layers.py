"""From affine forms over activations to layers: what does each hidden layer compute, and what must it carry along?

A value that is read again further up (a skip connection) passes through the ReLU layers between: relu(a) = a for what
is never negative, relu(v) − relu(−v) = v for the rest. σ(z) = (1 + tanh(z/2))/2 joins sigmoid and tanh in one network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, get_args

import numpy as np

from bornfair.models.importers.affine import Block, CannotRead, Forms, concatenated
from bornfair.models.network import Activation


@dataclass(frozen=True, eq=False)
class Affine:
    """One layer in float64; the first one reads the columns of the input block."""

    weight: np.ndarray
    bias: np.ndarray


def layers_of(logits: Forms, inputs: Block) -> tuple[list[Affine], Activation]:
    """The network that computes these logits from the input's columns."""
    blocks = _behind(logits)
    kind = _activation(blocks)
    rows, made = logits, []
    for level in range(max((block.level for block in rows.parts), default=0), 0, -1):
        direct = [block for block in rows.parts if block.level == level]
        early = {block: matrix for block, matrix in rows.parts.items() if block.level < level}
        weights, befores, bias = [], [], rows.constant
        for block in direct:
            matrix, before = rows.parts[block], cast(Forms, block.before)
            if kind == "tanh" and block.kind == "sigmoid":
                bias, matrix = bias + 0.5 * matrix.sum(axis=1), 0.5 * matrix
                before = before.scaled(np.full(before.size, 0.5))
            weights.append(matrix)
            befores.append(Forms((before.size,), before.parts, before.constant))
        if early:
            if kind != "relu":
                raise CannotRead(
                    f"has a skip connection past '{direct[0].name}' ({kind}), which only a ReLU layer can carry; use "
                    "ReLU there, or leave the skip connection out"
                )
            for matrix, before in _carried(early, len(rows.constant), inputs):
                weights.append(matrix)
                befores.append(before)
        made.append(Affine(np.concatenate(weights, axis=1), bias))
        rows = concatenated(befores, 0)
    first = rows.parts.get(inputs, np.zeros((rows.size, inputs.width)))
    made.append(Affine(first, rows.constant))
    return made[::-1], kind


def _behind(forms: Forms) -> list[Block]:
    """Every activation the forms depend on, the last first."""
    seen: dict[Block, None] = {}
    waiting = [forms]
    while waiting:
        for block in waiting.pop().parts:
            if block.before is not None and block not in seen:
                seen[block] = None
                waiting.append(block.before)
    return sorted(seen, key=lambda block: -block.level)


def _activation(blocks: list[Block]) -> Activation:
    by_kind = {block.kind: block for block in blocks}
    for kind, block in by_kind.items():
        if kind not in get_args(Activation):
            raise CannotRead(
                f"computes on after '{block.name}' ({kind}), which is read at the end of a model only; leave it out"
            )
    if len(by_kind) > 1 and set(by_kind) != {"tanh", "sigmoid"}:
        (one, first), (other, second) = list(by_kind.items())[:2]
        raise CannotRead(
            f"mixes {one} ('{first.name}') with {other} ('{second.name}') in its hidden layers; a network with one "
            "kind of activation (tanh and sigmoid count as one) can be read"
        )
    if len(by_kind) == 2:
        return "tanh"
    return cast(Activation, next(iter(by_kind), "relu"))


def _carried(early: dict[Block, np.ndarray], rows: int, inputs: Block) -> list[tuple[np.ndarray, Forms]]:
    """Neurons that hand earlier values on: (weights that read them, what they are). The cheaper of two ways:
    each earlier value by itself, or what each row needs of them in sum.
    """
    needed = {block: np.flatnonzero(matrix.any(axis=0)) for block, matrix in early.items()}
    sums = np.concatenate(list(early.values()), axis=1)
    asking = np.flatnonzero(sums.any(axis=1))
    one_by_one = sum(len(columns) * (1 if block.kind == "relu" else 2) for block, columns in needed.items())
    if 2 * len(asking) < one_by_one:
        parts = {block: matrix[asking] for block, matrix in early.items()}
        total = Forms((len(asking),), parts, np.zeros(len(asking)))
        back = np.zeros((rows, len(asking)))
        back[asking, np.arange(len(asking))] = 1.0
        return [(back, total), (-back, total.scaled(np.full(len(asking), -1.0)))]
    carried = []
    for block, columns in needed.items():
        alone = Forms((len(columns),), {block: np.eye(block.width)[columns]}, np.zeros(len(columns)))
        carried.append((early[block][:, columns], alone))
        if block.kind != "relu":
            carried.append((-early[block][:, columns], alone.scaled(np.full(len(columns), -1.0))))
    return carried
