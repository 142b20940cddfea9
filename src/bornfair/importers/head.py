"""The scores by which a model decides: the end of the model, read as a comparison of scores.

One score z decides by z > 0, several by the first largest. A monotone function at the end (sigmoid, tanh, ReLU, clip)
is taken away, and what it is compared with moves to the other side: σ(z) > t is z > log t/(1−t). How the model shows
our scores is remembered, to compare with what the model itself gives.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bornfair.importers.affine import FUNCTIONS, CannotRead, Decision, Forms, ValueBlock, concatenated
from bornfair.models.deciding import STEP, Meaning, Part, compared_part, usual_threshold
from bornfair.models.operating import USUAL, logit
from bornfair.models.reading import Reading

Show = Callable[[np.ndarray], np.ndarray]
SAME = 1e-12  # by which part two numbers may differ that were computed in two ways
INVERTED = ("sigmoid", "tanh", "relu")  # monotone functions of one number that are taken away at the end
ABOUT_A_PROBABILITY = (-1.0, 2.0)  # a sum of bounded values between these may be meant as one, or not
ASK = "say whether it is a probability or a logit: decision='probability' or 'logit' (--decision), or threshold=…"


@dataclass(frozen=True, eq=False)
class Head:
    """The scores that decide, and how the model shows them."""

    logits: Forms
    shown: Show | None = None  # what the model makes of our scores; None: only its decisions can be compared
    part: Part = "all"  # of the columns it shows: the last less the first, …
    threshold: float | tuple[float, ...] | None = None
    """What that part must exceed, or what each class's probability is divided by; None: the first largest column
    decides, or a label.
    """
    probabilities: bool = False  # whether it shows probabilities, or their logarithms
    logarithms: bool = False
    tie_is_positive: bool = False
    slack: float = STEP  # how far our score may be from 0 and yet, as the model rounds what it shows, be a tie

    @property
    def classes(self) -> int:
        return max(self.logits.size, 2)

    def difference(self, ours: np.ndarray, outputs: np.ndarray) -> np.ndarray | None:
        """By how much our scores and the model's outputs [rows, columns] differ, in the terms of the model; None if
        only its decisions can be compared.
        """
        if self.shown is None or outputs.shape[1] not in (self.logits.size, self.classes):
            return None
        theirs = self._part(np.exp(outputs) if self.logarithms else outputs)
        return np.abs(self.shown(ours) - theirs).max(axis=1)

    def decided_by_it(self, outputs: np.ndarray) -> np.ndarray:
        """Class indices from the model's outputs, if it gives scores only."""
        if self.threshold is None or isinstance(self.threshold, tuple):
            return np.argmax(outputs / np.array(self.threshold or 1.0), axis=1)
        return (self._part(outputs.astype(np.float64))[:, -1] > self.threshold).astype(np.int64)

    @property
    def offsets(self) -> tuple[float, ...]:
        """What our scores lack of the model's logits: where it decides."""
        if isinstance(self.threshold, tuple):
            return tuple(math.log(share / USUAL) for share in self.threshold)
        if self.threshold is None or not self.probabilities:
            return (self.threshold,) if self.threshold else ()
        return (logit(self.threshold),) if 0 < self.threshold < 1 and self.threshold != USUAL else ()

    def _part(self, outputs: np.ndarray) -> np.ndarray:
        if self.part == "all" or outputs.shape[1] == 1:
            return outputs
        return outputs[:, -1:] if self.part == "last" else outputs[:, -1:] - outputs[:, :1]


def read_head(end: Decision | Forms, asked: Reading | None = None) -> Head:
    """The logits behind a decision, or behind scores that a model ends with."""
    asked = Reading() if asked is None else asked
    if isinstance(end, Decision):
        if asked.moves_the_decision:
            raise CannotRead("decides itself; leave decision and threshold (--decision, --threshold) out")
        if end.scores.size > 1:
            return _largest(end.scores.flat)
        peeled = _peeled(end.scores.flat, end.tie_is_positive)
        return Head(peeled.logits, tie_is_positive=end.tie_is_positive, slack=peeled.slack)
    if asked.decision == "label":
        raise CannotRead(f"gives numbers, not labels; {ASK}")
    scores = end.flat
    if scores.size == 0:
        raise CannotRead("gives no scores")
    if scores.size == 1:
        return _above(scores, scores, asked, "last")
    if asked.threshold is None:
        return _largest(scores)
    if isinstance(asked.threshold, tuple):
        return _weighted(_largest(scores), asked.threshold)
    if scores.size > 2:
        raise CannotRead(
            f"tells {scores.size} classes apart; a threshold (--threshold) must name one of them, as CLASS=0.3"
        )
    first, last = (scores.entry(i) for i in (0, 1))
    meaning = asked.decision or ("probability" if _is_probability(last) else "logit")
    part = compared_part(2, meaning, threshold=True)
    return _above(last.minus(first) if part == "difference" else last, last, asked, part)


def opposite_sigmoids(scores: Forms) -> bool:
    """Whether two scores are σ(−z) and σ(z), which sum to 1."""
    atoms = _pure(scores, "sigmoid")
    return atoms is not None and len(atoms) == 2 and _opposite(concatenated([atom.before for atom in atoms], 0))


# --- one score above a threshold ---


def _above(score: Forms, last: Forms, asked: Reading, part: Part) -> Head:
    meaning = asked.decision or (_meaning(score) if asked.threshold is None else None)
    assert asked.threshold is None or isinstance(asked.threshold, float)
    threshold = usual_threshold(meaning) if asked.threshold is None else asked.threshold
    peeled = _peeled(score.plus(-threshold), ties=False)

    def shown(z: np.ndarray) -> np.ndarray:
        return peeled.show(z) + threshold

    return Head(peeled.logits, shown, part, threshold, probabilities=_is_probability(last), slack=peeled.slack)


def _meaning(score: Forms) -> Meaning:
    """What a single number at the end of a model is, if that can be told from how it is computed."""
    low, high = _range(score)
    if _is_probability(score):
        return "probability"
    if low == -high:  # as much below 0 as above: all numbers, or tanh, or a logit that is clipped
        return "logit"
    what = f"gives one number between {low:g} and {high:g}, and it cannot be told where that decides; {ASK}"
    if low >= 0 or high <= 0:
        raise CannotRead(what)
    least, most = ABOUT_A_PROBABILITY
    if math.isfinite(low) and math.isfinite(high) and (_outermost(score) or (low >= least and high <= most)):
        raise CannotRead(what)
    return "logit"


def _is_probability(score: Forms) -> bool:
    low, high = _range(score)
    return low >= -STEP and high <= 1 + STEP


def _range(score: Forms) -> tuple[float, float]:
    """Between which numbers one score lies, whoever is decided about."""
    outer = _outermost(score)
    if outer is not None and outer.kind == "clip":
        ends = outer.constant, outer.constant + outer.weight * outer.height
        return min(ends), max(ends)
    low, high = _bounds(score, {})
    return float(low[0]), float(high[0])


def _bounds(forms: Forms, known: dict[ValueBlock, tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    low, high = forms.constant.copy(), forms.constant.copy()
    for block, matrix in forms.parts.items():
        if block not in known and block.kind == "relu" and block.before is not None:
            below, above = _bounds(block.before, known)
            known[block] = np.maximum(below, 0.0), np.maximum(above, 0.0)
        elif block not in known:
            ends = RANGES.get(block.kind, (-math.inf, math.inf))
            known[block] = np.full(block.width, ends[0]), np.full(block.width, ends[1])
        least, most = known[block]
        with np.errstate(invalid="ignore"):  # 0 · ∞
            one, other = (np.where(matrix == 0, 0.0, matrix * end) for end in (least, most))
        low, high = low + np.minimum(one, other).sum(axis=1), high + np.maximum(one, other).sum(axis=1)
    return low, high


RANGES = {
    "sigmoid": (0.0, 1.0), "softmax": (0.0, 1.0), "tanh": (-1.0, 1.0), "log_softmax": (-math.inf, 0.0),
    "gelu": (-0.17, math.inf),
}  # fmt: skip


# --- functions at the end, taken away ---


@dataclass(frozen=True, eq=False)
class _Outer:
    """A score constant + weight · g(before), with g one monotone function of one number."""

    kind: str  # sigmoid, tanh, relu, or clip: between 0 and `height`
    before: Forms
    weight: float
    constant: float
    height: float = math.inf


@dataclass(frozen=True, eq=False)
class _Peeled:
    logits: Forms
    show: Show
    slack: float


def _peeled(score: Forms, ties: bool) -> _Peeled:
    """What must be above 0 (with `ties`: at least 0) for the score to be so: functions at its end are inverted."""
    shows: list[Show] = []
    slack = STEP
    while (outer := _outermost(score)) is not None:
        place = -outer.constant / outer.weight  # c + w·g > 0 is g > place for w > 0, g < place for w < 0
        sign = math.copysign(1.0, outer.weight)
        at, slope = _inverse(outer, place, reaches=(sign > 0) != ties)
        score = outer.before.plus(-at).scaled(sign)
        slack = min((slack + STEP * abs(outer.constant)) / (abs(outer.weight) * slope) + STEP * abs(at), 1e300)
        shows.append(functools.partial(_shown, outer, sign, at))

    def show(z: np.ndarray) -> np.ndarray:
        for function in reversed(shows):
            z = function(z)
        return z

    return _Peeled(score, show, slack)


def _shown(outer: _Outer, sign: float, at: float, z: np.ndarray) -> np.ndarray:
    function = FUNCTIONS.get(outer.kind, lambda values: np.clip(values, 0.0, outer.height))
    return outer.constant + outer.weight * function(sign * z + at)


def _inverse(outer: _Outer, place: float, *, reaches: bool) -> tuple[float, float]:
    """Where a function takes a value, and its slope there. `reaches`: its lowest value separates too."""
    if outer.kind == "sigmoid" and 0.0 < place < 1.0:
        return (math.log(place) - math.log1p(-place) if place != 0.5 else 0.0), place * (1.0 - place)
    if outer.kind == "tanh" and -1.0 < place < 1.0:
        return math.atanh(place), 1.0 - place**2
    if outer.kind in ("relu", "clip"):
        inside = 0.0 <= place < outer.height if reaches else 0.0 < place <= outer.height
        if inside:
            return place, 1.0
    raise CannotRead(
        f"compares a {outer.kind} with {place:g}, so that everybody gets the same decision; "
        "check the threshold (--threshold)"
    )


@dataclass(frozen=True, eq=False)
class _Atom:
    """One output of one activation (or one column of the input), and its weight in a score."""

    block: ValueBlock
    position: int
    weight: float

    @property
    def before(self) -> Forms:
        assert self.block.before is not None
        return self.block.before.entry(self.position)


def _atoms(score: Forms) -> list[_Atom]:
    parts = score.parts.items()
    return [_Atom(block, int(j), float(row[0, j])) for block, row in parts for j in np.flatnonzero(row[0])]


def _outermost(score: Forms) -> _Outer | None:
    """The one monotone function that a score is made of, if there is one."""
    atoms, constant = _atoms(score), float(score.constant[0])
    if not 1 <= len(atoms) <= 2 or any(atom.block.before is None for atom in atoms):
        return None
    one, other = atoms[0], atoms[-1]
    if len(atoms) == 1:
        if one.block.kind == "softmax" and one.block.width == 2:
            apart = one.before.minus(replace(one, position=1 - one.position).before)
            return _Outer("sigmoid", apart, one.weight, constant)
        return _Outer(one.block.kind, one.before, one.weight, constant) if one.block.kind in INVERTED else None
    apart = one.before.minus(other.before)
    if {one.block.kind, other.block.kind} != {"relu"} or one.weight != -other.weight or apart.parts:
        return None
    # relu(x + h) − relu(x) lies between 0 and h
    height = float(apart.constant[0])
    taller = one if height > 0 else other
    return _Outer("clip", taller.before, taller.weight, constant, abs(height)) if height else None


# --- the first largest of several ---


def _weighted(head: Head, thresholds: tuple[float, ...]) -> Head:
    """The class whose probability is the largest multiple of its threshold: logits less its logarithm."""
    if head.shown is not FUNCTIONS["softmax"] or head.logits.size != len(thresholds):
        raise CannotRead(
            "does not end in a softmax over more than two classes, so that thresholds of several classes (--threshold) "
            "are no shift of its scores; leave them out"
        )
    made = replace(head, threshold=thresholds)
    apart = np.array(made.offsets)
    return replace(made, logits=head.logits.plus(-apart), shown=lambda z: FUNCTIONS["softmax"](z + apart))


def _largest(scores: Forms) -> Head:
    atoms = _pure(scores, "softmax", "log_softmax", "sigmoid")
    if atoms is not None:
        logits, kinds = concatenated([atom.before for atom in atoms], 0), {atom.block.kind for atom in atoms}
        whole = sorted(atom.position for atom in atoms) == list(range(atoms[0].block.width))
        if len({atom.block for atom in atoms}) == 1 and whole and kinds <= {"softmax", "log_softmax"}:
            logarithms = kinds == {"log_softmax"}
            if logits.size > 2:
                return Head(logits, FUNCTIONS["softmax"], probabilities=True, logarithms=logarithms)
            return Head(_difference(logits), FUNCTIONS["sigmoid"], "last", probabilities=True, logarithms=logarithms)
        if kinds == {"sigmoid"} and logits.size > 2:
            return Head(logits, FUNCTIONS["sigmoid"], probabilities=True)
        if kinds == {"sigmoid"}:
            if _opposite(logits):
                return Head(logits.entry(1), FUNCTIONS["sigmoid"], "last", probabilities=True)
            return Head(_difference(logits), probabilities=True)
    if scores.size > 2:
        return Head(scores, lambda z: z)
    last = scores.entry(1)
    if _opposite(scores):
        return Head(last, lambda z: z, "last")
    peeled = _peeled(_difference(scores), ties=False)
    head = Head(peeled.logits, peeled.show, "difference", slack=peeled.slack)
    if not _is_probability(last):
        return head
    try:
        of_last = _peeled(last.plus(-0.5), ties=False)
    except CannotRead:  # the last column is never above ½
        return head
    if not same_parts(of_last.logits, peeled.logits) or (of_last.logits.constant != peeled.logits.constant).any():
        return head
    return replace(head, shown=lambda z: of_last.show(z) + 0.5, part="last", probabilities=True)  # 1 − p and p


def _pure(scores: Forms, *kinds: str) -> list[_Atom] | None:
    """The outputs of activations that these scores are, if they are nothing else."""
    found = [_atoms(scores.entry(i)) for i in range(scores.size)]
    alone = all(len(atoms) == 1 and atoms[0].weight == 1.0 and atoms[0].block.kind in kinds for atoms in found)
    return [atoms[0] for atoms in found] if alone and not scores.constant.any() else None


def same_parts(one: Forms, other: Forms) -> bool:
    """Whether two forms differ in their constants at most."""
    return one.parts.keys() == other.parts.keys() and all(
        np.array_equal(matrix, other.parts[block]) for block, matrix in one.parts.items()
    )


def scale_between(one: Forms, other: Forms) -> float | None:
    """The factor that makes the second form of the first, but for constants; None if there is none."""
    if one.size != other.size or one.parts.keys() != other.parts.keys() or not one.parts:
        return None
    mine, theirs = (np.concatenate([forms.parts[block].ravel() for block in one.parts]) for forms in (one, other))
    place = int(np.argmax(np.abs(mine)))
    factor = float(theirs[place] / mine[place])
    return factor if factor and np.allclose(mine * factor, theirs, rtol=SAME, atol=0.0) else None


def without_functions(score: Forms) -> Forms:
    """What stands before the monotone functions at the end of a score."""
    while (outer := _outermost(score)) is not None:
        score = outer.before
    return score


def _difference(pair: Forms) -> Forms:
    """Of two logits: the second wins if this is above 0, and not if they are equal."""
    return pair.entry(1).minus(pair.entry(0))


def _opposite(pair: Forms) -> bool:
    first, last = pair.entry(0), pair.entry(1)
    total = first.plus(last)
    return not total.parts and not total.constant.any() and bool(first.parts)
