"""What is decided of boxes, and what is open? The work on boxes that is done side by side, whoever does it.

Records that say all a worker needs: nothing in them depends on how many workers there are, nor on what they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.models.model import Model
from bornfair.quantification.forms import Bounder
from bornfair.quantification.leads import judge_boxes, prove
from bornfair.quantification.points import judge_people
from bornfair.quantification.tally import Tally, waiting
from bornfair.verification.boxes import Boxes
from bornfair.verification.clock import Clock
from bornfair.verification.frontier import Look, Portion


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
        return tally, waiting(boxes, mass, undecided, variable=found.variable, alive=alive)[left & ~stuck]

    def only_person(self, root: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """Where every feature is sensitive, all people are versions of one: there is nothing to cut."""
        fair, unfair, unknown = judge_people(self.model, self.owner, root, self.declared, clock)
        return Tally(fair, unfair, unknown, boxes=1), root[np.arange(0)]


@dataclass(frozen=True, eq=False)
class Crediting(Look):
    """Proves what it can of parts of boxes: lower bounds of the shares that are certified and falsified."""

    owner: Bounder
    bins: int

    def look(self, portion: Portion) -> tuple[np.ndarray, np.ndarray]:
        return prove(self.owner, portion.boxes, self.bins)
