"""What is decided of boxes, and what is open? The work on boxes that is done side by side, whoever does it.

Records that say all a worker needs: nothing in them depends on how many workers there are, nor on what they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.core.clock import Clock
from bornfair.models.network.bounds.exact import agree, executes_exactly
from bornfair.models.network.model import Model
from bornfair.models.network.shares.few_sums import LOOKS, MOST_SUMS, prove_by_few
from bornfair.models.network.shares.forms import Bounder, judge_boxes, prove, sure_people
from bornfair.models.network.shares.relaxation import MANY
from bornfair.people.space.boxes import Boxes
from bornfair.quantification.measuring import Tally, waiting
from bornfair.verification.frontier import Look, Portion
from bornfair.verification.looking import exact_views

EFFORT = 1.0  # for each of few sums, of looking at them, where cutting is 1: it takes longer and tells more
ROUNDED = 0.01  # share of a box that is left open when a sum's distribution is bounded in bins
LESS = 1.1  # times as much may be left open of halves; else a box is put aside as if it were
LATER = 8.0  # times less worth to look at
CROWD = 2**12  # people in a box for whom a grid is worth its while


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
        tally, open_ = self.cut(portion.boxes, clock)
        for _ in range((portion.note or 1) - 1):
            if not len(open_) or clock.is_up:
                break
            order = np.argsort(-open_.facts["undecided"], kind="stable")
            more, parts = self.cut(open_[order[:batch]], clock)
            tally, open_ = tally + more, Boxes.joined(open_[order[batch:]], parts)
        return tally, open_

    def cut(self, boxes: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        halves = self.owner.variables.halves(boxes, boxes.facts["variable"], self.order, ("alive",))
        return self.bounded(halves, clock)

    def bounded(self, boxes: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """What is decided of some boxes, and what is still open."""
        variables = self.owner.variables
        mass, found = variables.mass(boxes), judge_boxes(self.owner, boxes)
        left = ~(found.certified | found.falsified) & (mass > 0)
        people = variables.places.count(boxes)
        alone = np.flatnonzero(left & (people <= self.few))
        fair, unfair, unknown = judge_people(self.model, self.owner, boxes[alone], self.declared, clock)
        left[alone] = False
        stuck = left & (found.variable < 0)
        tally = Tally(
            certified=float(mass[found.certified].sum()) + fair,
            falsified=float(mass[found.falsified].sum()) + unfair,
            stuck=unknown + float(mass[stuck].sum()),
            boxes=len(boxes),
        )
        undecided = np.clip(found.likely_undecided, 1e-9, 1.0) * mass
        alive = np.packbits(found.alive, axis=1)  # which hidden neurons may be active, eight in a byte
        reducible = (found.few > 0) & (found.few <= MOST_SUMS) & (people > CROWD) & self.reducible
        few = np.where(reducible, found.few, MANY)
        worth, looks = (undecided + ROUNDED * mass) / _effort(few), np.zeros(len(boxes), np.int64)
        facts = {"variable": found.variable, "alive": alive, "few": few, "worth": worth, "looks": looks}
        return tally, waiting(boxes, mass, undecided, **facts)[left & ~stuck]

    def only_person(self, root: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """Where every feature is sensitive, all people are versions of one: there is nothing to cut."""
        fair, unfair, unknown = judge_people(self.model, self.owner, root, self.declared, clock)
        return Tally(fair, unfair, unknown, boxes=1), root[np.arange(0)]


@dataclass(frozen=True, eq=False)
class Reducing(Look):
    """Proves what it can of parts of boxes where few sums tell all; what is left open of them is known then. Boxes that
    come again are looked at on finer grids, and then as halves.
    """

    owner: Bounder
    halving: Halving
    bins: int

    def look(self, portion: Portion) -> tuple[Tally, Boxes]:
        boxes, clock = portion.boxes, Clock(portion.seconds)
        finest = boxes.facts["looks"] >= LOOKS
        tally, found = Tally(boxes=len(boxes)), [self._reduced(boxes[~finest], clock)]
        for i in np.flatnonzero(finest):
            more, parts = self._halves(boxes[np.array([i])], clock)
            tally, found = tally + more, [*found, parts]
        return tally, Boxes.joined(*found)

    def _reduced(self, boxes: Boxes, clock: Clock) -> Boxes:
        if not len(boxes):
            return boxes
        facts, mass = boxes.facts, boxes.facts["mass"]
        certified, falsified, by_sums = prove_by_few(self.owner, boxes, self.bins, clock)
        undecided = np.maximum(1 - certified - falsified, 1e-9) * mass
        before = facts["undecided"] + ROUNDED * mass * np.isnan(facts["certified"])
        better = undecided < before  # what else is known, or promised by other bounds
        few = np.where(by_sums & (better | (facts["looks"] > 0)), facts["few"], MANY)
        looks = facts["looks"] + 1
        new = {"certified": certified, "falsified": falsified, "undecided": undecided}
        new = {name: np.where(better, part, facts[name]) for name, part in new.items()}
        worth = np.where(better, undecided, before) / _effort(few, looks)
        return boxes.knowing(**new, few=few, looks=looks, worth=worth)

    def _halves(self, box: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """The halves of a box; if much more is known of the whole, it comes once again later."""
        tally, parts = self.halving.cut(box, clock)
        few = parts.facts["few"] < MANY
        parts = parts.knowing(looks=np.where(few, LOOKS - 1, 0))
        parts = Boxes.joined(parts[~few], self._reduced(parts[few], clock))
        left = parts.facts["undecided"].sum() + ROUNDED * parts.facts["mass"][np.isnan(parts.facts["certified"])].sum()
        if left + tally.stuck <= LESS * box.facts["undecided"][0] or box.facts["looks"][0] > LOOKS:
            return tally, parts
        return Tally(), box.knowing(worth=box.facts["worth"] / LATER, looks=box.facts["looks"] + 1)


def _effort(few: np.ndarray, looks: np.ndarray | int = 0) -> np.ndarray:
    """How long it takes to look at boxes, of which some were looked at for few sums before."""
    return np.where(few < MANY, EFFORT * few * 4.0**looks, 1.0)


@dataclass(frozen=True, eq=False)
class Crediting(Look):
    """Proves what it can of parts of boxes: lower bounds of the shares that are certified and falsified."""

    owner: Bounder
    bins: int

    def look(self, portion: Portion) -> tuple[np.ndarray, np.ndarray]:
        return prove(self.owner, portion.boxes, self.bins)


# --- people of small boxes, one by one ---


def judge_people(
    model: Model, owner: Bounder, boxes: Boxes, declared: bool, clock: Clock
) -> tuple[float, float, float]:
    """Masses of people who are certainly treated as their twins are, certainly not, and of whom neither is known."""
    variables = owner.variables
    if not len(boxes):
        return 0.0, 0.0, 0.0
    people, _ = variables.places.everybody(boxes)
    mass = variables.mass(Boxes(people, people))
    people, mass = people[mass > 0], mass[mass > 0]
    fair, unfair = sure_people(owner, variables.places.values(people))
    for row in np.flatnonzero(~(fair | unfair)):
        if clock.is_up:
            break
        fair[row], unfair[row] = _exactly(model, owner, people[row], declared)
    return float(mass[fair].sum()), float(mass[unfair].sum()), float(mass[~(fair | unfair)].sum())


def _exactly(model: Model, owner: Bounder, places: np.ndarray, declared: bool) -> tuple[bool, bool]:
    """Fair, unfair or neither: in real arithmetic, and in float32 too if it makes no error here or is not asked for."""
    if not owner.network.function.exact:
        return False, False
    inputs = exact_views(model, owner.relation, owner.variables.places.values(places[None])[0], declared)
    if owner.arithmetic == "float32" and not executes_exactly(owner.network, inputs):
        return False, False
    same = agree(owner.network, inputs)
    # That the levels of a grid agree proves nothing about the values between.
    return same and not owner.has_bands, not same
