"""What is decided of boxes, and what is open? The work on boxes that is done side by side, whoever does it.

Records that say all a worker needs: nothing in them depends on how many workers there are, nor on what they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.models.model import Model
from bornfair.quantification.few_sums import MOST_SUMS, prove_by_few
from bornfair.quantification.forms import Bounder
from bornfair.quantification.leads import judge_boxes, prove
from bornfair.quantification.points import judge_people
from bornfair.quantification.relaxation import MANY
from bornfair.quantification.tally import Tally, waiting
from bornfair.verification.boxes import Boxes
from bornfair.verification.clock import Clock
from bornfair.verification.frontier import Look, Portion

EFFORT = 1.0  # for each of few sums, of looking at them, where cutting is 1: it takes longer and tells more
ROUNDED = 0.01  # share of a box that is left open when a sum's distribution is bounded in bins


@dataclass(frozen=True, eq=False)
class Halving(Look):
    """Cuts boxes in two, and bounds the halves."""

    model: Model
    owner: Bounder
    declared: bool  # twins are those the domain declares
    order: np.ndarray
    """What each column is likely to add to the first lead: like categories stay together when a group is cut."""
    few: int
    """People in a box who are looked at one by one rather than cut apart."""
    reducible: bool
    """Whether boxes where few sums tell all can be looked at for these."""

    def look(self, portion: Portion) -> tuple[Tally, Boxes]:
        """Cut all of these boxes, and of what comes of them those with most undecided mass, as often as it is said."""
        clock, batch = Clock(portion.seconds), len(portion.boxes)
        tally, open_ = self._cut(portion.boxes, clock)
        for _ in range((portion.note or 1) - 1):
            if not len(open_) or clock.is_up:
                break
            order = np.argsort(-open_.facts["undecided"], kind="stable")
            more, parts = self._cut(open_[order[:batch]], clock)
            tally, open_ = tally + more, Boxes.joined(open_[order[batch:]], parts)
        return tally, open_

    def _cut(self, boxes: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        halves = self.owner.variables.halves(boxes, boxes.facts["variable"], self.order, ("alive",))
        return self.bounded(halves, clock)

    def bounded(self, boxes: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """What is decided of some boxes, and what is still open."""
        variables = self.owner.variables
        mass, found = variables.mass(boxes), judge_boxes(self.owner, boxes)
        left = ~(found.certified | found.falsified) & (mass > 0)
        few = np.flatnonzero(left & (variables.places.count(boxes) <= self.few))
        fair, unfair, unknown = judge_people(self.model, self.owner, boxes[few], self.declared, clock)
        left[few] = False
        stuck = left & (found.variable < 0)
        tally = Tally(
            certified=float(mass[found.certified].sum()) + fair,
            falsified=float(mass[found.falsified].sum()) + unfair,
            stuck=unknown + float(mass[stuck].sum()),
            boxes=len(boxes),
        )
        undecided = np.clip(found.likely_undecided, 1e-9, 1.0) * mass
        alive = np.packbits(found.alive, axis=1)  # which hidden neurons may be active, eight in a byte
        few = np.where((found.few > 0) & (found.few <= MOST_SUMS) & self.reducible, found.few, MANY)
        worth = (undecided + ROUNDED * mass) / np.where(few < MANY, EFFORT * few, 1.0)
        facts = {"variable": found.variable, "alive": alive, "few": few, "worth": worth}
        return tally, waiting(boxes, mass, undecided, **facts)[left & ~stuck]

    def only_person(self, root: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """Where every feature is sensitive, all people are versions of one: there is nothing to cut."""
        fair, unfair, unknown = judge_people(self.model, self.owner, root, self.declared, clock)
        return Tally(fair, unfair, unknown, boxes=1), root[np.arange(0)]


@dataclass(frozen=True, eq=False)
class Reducing(Look):
    """Proves what it can of parts of boxes where few sums tell all; what is left open of them is known then."""

    owner: Bounder
    bins: int

    def look(self, portion: Portion) -> tuple[Tally, Boxes]:
        boxes = portion.boxes
        certified, falsified = prove_by_few(self.owner, boxes, self.bins)
        mass, guess = boxes.facts["mass"], boxes.facts["undecided"]
        undecided = np.maximum(1 - certified - falsified, 1e-9) * mass
        better = undecided < guess + ROUNDED * mass  # other bounds may promise more
        certified, falsified = (np.where(better, part, np.nan) for part in (certified, falsified))
        undecided, worth = np.where(better, undecided, guess), np.where(better, undecided, guess + ROUNDED * mass)
        # Once is enough: next time they are cut.
        facts = {"certified": certified, "falsified": falsified, "undecided": undecided, "worth": worth}
        return Tally(), boxes.knowing(**facts, few=np.full(len(boxes), MANY))


@dataclass(frozen=True, eq=False)
class Crediting(Look):
    """Proves what it can of parts of boxes: lower bounds of the shares that are certified and falsified."""

    owner: Bounder
    bins: int

    def look(self, portion: Portion) -> tuple[np.ndarray, np.ndarray]:
        return prove(self.owner, portion.boxes, self.bins)
