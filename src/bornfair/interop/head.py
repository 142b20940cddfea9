"""Where does a model decide, and by which scores? Its last sigmoid, softmax or threshold is read as a comparison.

One logit z decides by z > 0, several by the first largest: what a sigmoid, softmax or threshold at the end of a model
says in other words. What is taken away here is remembered as `link`, to compare with what the model itself gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bornfair.interop.affine import Block, CannotRead, Decision, Forms, concatenated

Link = Literal["identity", "sigmoid", "softmax", "log_softmax", "sigmoids", "tanh", "unknown"]


@dataclass(frozen=True, eq=False)
class Head:
    """The scores that decide, and how the model shows them."""

    logits: Forms
    link: Link
    shift: float = 0.0  # the model's own logit is ours plus this: it decides at another threshold than ½
    last_alone: bool = False  # of two scores that are each other's negative, the last is the logit
    tie_is_positive: bool = False

    @property
    def classes(self) -> int:
        return max(self.logits.size, 2)

    def shown_by_us(self, scores: np.ndarray) -> np.ndarray:
        """Our network's outputs in the terms of the model: what `shown_by_it` makes of the model's own outputs."""
        own = scores + self.shift
        if self.link == "sigmoid" or (self.link in ("softmax", "log_softmax") and own.shape[1] == 1):
            return _sigmoid(own)
        if self.link in ("softmax", "log_softmax"):
            grown = np.exp(own - own.max(axis=1, keepdims=True))
            return grown / grown.sum(axis=1, keepdims=True)
        if self.link == "tanh":
            return np.tanh(own)
        return _sigmoid(own) if self.link == "sigmoids" else own

    def shown_by_it(self, outputs: np.ndarray) -> np.ndarray | None:
        """The model's outputs [rows, columns] made comparable; None if only its decisions can be compared."""
        columns = outputs.shape[1]
        if self.link == "unknown" or columns not in (self.logits.size, self.classes):
            return None
        if self.link == "log_softmax":
            outputs = np.exp(outputs)
        if self.logits.size > 1 or columns == 1:
            return outputs
        if self.link in ("sigmoid", "softmax", "log_softmax") or self.last_alone:
            return outputs[:, 1:]
        return None if self.link == "sigmoids" else outputs[:, 1:] - outputs[:, :1]

    def decided_by_it(self, outputs: np.ndarray) -> np.ndarray:
        """Class indices from the model's outputs, if it gives scores only."""
        if outputs.shape[1] > 1:
            return np.argmax(outputs, axis=1)
        return (outputs[:, 0] > (0.5 if self.link == "sigmoid" else 0.0)).astype(np.int64)


def read_head(end: Decision | Forms) -> Head:
    """The logits behind a decision, or behind scores that a model ends with."""
    if isinstance(end, Decision):
        if end.scores.size > 1:
            return _of_scores(end.scores)
        head = _above_zero(end.scores)
        return Head(head.logits, head.link, head.shift, tie_is_positive=end.tie_is_positive)
    if end.size == 0:
        raise CannotRead("gives no scores")
    if end.size > 1:
        return _of_scores(end)
    atom = _single_atom(end)
    if atom is not None and (atom.weight, atom.constant) == (1.0, 0.0):
        if atom.block.kind == "sigmoid":
            return Head(atom.before, "sigmoid")
        if atom.block.kind == "tanh":
            return Head(atom.before, "tanh")
    return Head(_flat(end), "identity")


@dataclass(frozen=True, eq=False)
class _Atom:
    """A form constant + weight · a, with a one output of one activation."""

    block: Block
    position: int
    weight: float
    constant: float

    @property
    def before(self) -> Forms:
        assert self.block.before is not None
        return self.block.before.picked(np.array([self.position]))


def _of_scores(scores: Forms) -> Head:
    """Several scores, of which the first largest wins."""
    flat = _flat(scores)
    atoms = [_single_atom(flat.picked(np.array([i]))) for i in range(flat.size)]
    alone = [a for a in atoms if a is not None and (a.weight, a.constant) == (1.0, 0.0)]
    if len(alone) == flat.size:
        blocks = {atom.block for atom in alone}
        positions = [atom.position for atom in alone]
        kind = alone[0].block.kind
        whole = len(blocks) == 1 and sorted(positions) == list(range(alone[0].block.width))
        if whole and kind in ("softmax", "log_softmax"):
            return _compared(_stacked([a.before for a in alone]), "softmax" if kind == "softmax" else "log_softmax")
        if all(block.kind == "sigmoid" for block in blocks):
            logits = _stacked([atom.before for atom in alone])
            if flat.size == 2 and _opposite(logits):
                return Head(logits.picked(np.array([1])), "sigmoid")
            return _compared(logits, "sigmoids")
    if flat.size == 2:
        if _opposite(flat):
            return Head(flat.picked(np.array([1])), "identity", last_alone=True)
        difference = flat.picked(np.array([1])).minus(flat.picked(np.array([0])))
        head = _above_zero(difference)
        if head.link == "sigmoid":
            last = atoms[1]
            shows_probability = last is not None and (last.weight, last.constant) == (1.0, 0.0)
            return head if shows_probability and head.shift == 0.0 else Head(head.logits, "unknown", head.shift)
        return head
    return Head(flat, "identity")


def _compared(logits: Forms, link: Link) -> Head:
    """Two logits decide by their difference: the second wins if it is above 0, and not if they are equal."""
    if logits.size == 2:
        return Head(logits.picked(np.array([1])).minus(logits.picked(np.array([0]))), link)
    return Head(logits, link)


def _above_zero(score: Forms) -> Head:
    """A score compared with 0. If it is a sigmoid compared with a threshold t: its logit compared with log t/(1−t)."""
    atom = _single_atom(score)
    if atom is None or atom.block.kind != "sigmoid":
        return Head(_flat(score), "identity")
    threshold = -atom.constant / atom.weight  # c + w·p > 0 is p > t for w > 0, p < t for w < 0
    if not 0.0 < threshold < 1.0:
        raise CannotRead(f"compares a probability with {threshold:g}, so that everybody gets the same decision")
    shift = math.log(threshold) - math.log1p(-threshold) if threshold != 0.5 else 0.0
    if atom.weight < 0:
        return Head(atom.before.scaled(np.array([-1.0])).plus(np.array([shift])), "unknown")
    return Head(atom.before.plus(np.array([-shift])), "sigmoid", shift)


def _single_atom(score: Forms) -> _Atom | None:
    if len(score.parts) != 1:
        return None
    ((block, matrix),) = score.parts.items()
    found = np.flatnonzero(matrix[0])
    if block.before is None or len(found) != 1:
        return None
    return _Atom(block, int(found[0]), float(matrix[0, found[0]]), float(score.constant[0]))


def _stacked(rows: list[Forms]) -> Forms:
    return concatenated(rows, 0)


def _opposite(pair: Forms) -> bool:
    first, last = pair.picked(np.array([0])), pair.picked(np.array([1]))
    total = first.plus(last)
    return not total.parts and not total.constant.any() and bool(first.parts)


def _flat(forms: Forms) -> Forms:
    return Forms((forms.size,), forms.parts, forms.constant)


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -z))
