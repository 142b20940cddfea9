"""Twins are shown in an arithmetic only if the model that was asked about decides them differently in it."""

from dataclasses import replace

import numpy as np

from bornfair.models.importers.original import Original
from bornfair.models.model import Model
from bornfair.models.network import Layer, Network
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature, Label
from bornfair.people.scales import Scale
from bornfair.verification.replay import replay


def test_real_arithmetic_counts_only_where_the_original_of_an_imported_model_agrees():
    features = (IntegerFeature(name="x", low=0, high=9), BooleanFeature(name="s"))
    domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=("no", "yes")))
    encoding = Encoding(domain, {"x": Scale(centre=0.0, exponent=0)})
    by_sex = Model(Network((Layer(np.array([[0.0, 1.0]]), np.zeros(1)),)), encoding)
    own = replay(by_sex, {"x": 3}, [0, 1])
    assert own.decisions["float32"] == own.decisions["real"] and own.unfair_in == ("float32", "real")
    for answers, kinds in (
        (own.decisions["float32"], ("float32", "real")),  # it agrees: exact fractions speak of it, too
        (own.decisions["float32"][::-1], ("float32",)),  # as unfair, but the other way round
        ((1, 1), ()),  # fair: what the network that was read does is nobody's decision
    ):
        original = Original("a stand-in", lambda rows: None, lambda rows, found=answers: np.array(found))
        found = replay(replace(by_sex, original=original), {"x": 3}, [0, 1])
        assert found.decisions["float32"] == answers and found.unfair_in == kinds, answers
        assert ("real" in found.decisions) == (answers == own.decisions["real"])
