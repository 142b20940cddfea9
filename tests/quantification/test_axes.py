"""The pieces of a number that proven shares are added up from: each has the chance that the number's mass gives it."""

from __future__ import annotations

import numpy as np
import pytest

from bornfair.models.network.shares.shares import Axis
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import variables
from bornfair.people.twins.relation import twin_relation


@pytest.mark.parametrize(("kind", "weighted"), [("integer", False), ("real", False), ("real", True)])
def test_mass_beyond_the_ends_of_a_number_keeps_its_share_of_a_box(kind, weighted):
    """The network is shown numbers between 10 and 30 of a range from 0 to 50: the others sit on the two ends."""
    number = {"integer": IntegerFeature, "real": RealFeature}[kind](name="x", low=0, high=50)
    domain = Domain(
        features=(number, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
    )
    encoding = Encoding(domain, {"x": Scale(centre=0.0, exponent=0, low=10.0, high=30.0)})
    marginals = {"x": {(0.0, 20.0): 3, (20.0, 50.0): 1}} if weighted else None
    people = variables(encoding, twin_relation(encoding).free, marginals)
    root = people.root
    middle = np.floor((root.low[0, 0] + root.high[0, 0]) / 2)
    low, high = root.low.copy(), root.high.copy()
    low[0, 0], high[0, 0] = root.low[0, 0], middle
    boxes = Boxes.joined(root, Boxes(low, high))
    low[0, 0], high[0, 0] = middle + (kind == "integer"), root.high[0, 0]
    boxes = Boxes.joined(boxes, Boxes(low, high))
    mass = people.mass(boxes)
    below, above = people.on_ends(0, boxes.low[:, 0], boxes.high[:, 0])
    assert 0 in people.beyond and below[0] > 0 and above[0] > 0 and below[2] == 0 == above[1]
    axis = Axis.of(people, 0, boxes, 8)
    assert axis.chances.sum(axis=1) == pytest.approx(np.ones(3))
    whole = people.totals[0]
    assert axis.chances[:, -2] == pytest.approx(below / whole / (mass / people.total), rel=1e-6)
    assert axis.chances[:, -1] == pytest.approx(above / whole / (mass / people.total), rel=1e-6)
