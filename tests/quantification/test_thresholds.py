"""One look at everybody's versions answers for every threshold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair import FairClassifier, audit
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.models.verdict import Verdict
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, Label
from bornfair.quantification.people import threshold_curve
from bornfair.quantification.records import People, ThresholdCurve
from bornfair.report import Document, DomainFacts
from bornfair.report.verdict_text import verdict_sentence

WHO = Domain(features=(BooleanFeature(name="s"),), sensitive=("s",), label=Label(name="y", classes=("no", "yes")))
MODEL = Model(Network((Layer(np.ones((1, 1)), np.zeros(1)),)), Encoding(WHO, {}))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0]), min_size=3, max_size=3), min_size=1),
    st.sampled_from([0.5, 0.2, 0.9]),
)
def test_everybody_is_counted_at_every_threshold(scores: list[list[float]], threshold: float) -> None:
    model = MODEL.at(threshold)
    curve = threshold_curve(model, np.array(scores, np.float32)[:, :, None])
    logits = model.logits(np.array(scores, np.float32)[:, :, None])[..., 0].astype(np.float64)
    if curve is None:
        assert (logits.max(axis=1) == logits.min(axis=1)).all()
        return

    def affected(at: float) -> int:
        return int(((logits > at).any(axis=1) & ~(logits > at).all(axis=1)).sum())

    own = float(model.offsets[0]) if model.offsets else 0.0
    assert curve.own == pytest.approx(threshold) and curve.own_affected == affected(own)
    assert curve.worst_affected == max(affected(at) for at in np.unique(logits))
    shares = np.array(curve.thresholds)
    for at, count in zip(np.log(shares / (1 - shares)), curve.affected, strict=True):
        if np.abs(logits - at).min() > 1e-9:
            assert count == affected(float(at))
    assert len(curve.thresholds) <= 66 and curve.rows == len(scores)


def test_an_audit_of_rare_positives_shows_them_where_it_decides() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.normal(size=600).round(2), "sex": rng.choice(["F", "M"], 600)})
    score = 1.5 * table["income"] + 1.2 * (table["sex"] == "M") - 4.5 + rng.logistic(size=600)
    table["default"] = np.where(score > 0, "yes", "no")
    model = FairClassifier(["sex"], hidden=[8], epochs=25, learning_rate=0.02, response="none")
    model.fit(table.drop(columns="default"), table["default"])
    usual, bank = (audit(model, table, target="default", timeout=2, threshold=t).documents[0] for t in (None, 0.05))
    assert usual.people is not None and bank.people is not None and bank.people.unfair > usual.people.unfair
    assert bank.thresholds is not None and usual.thresholds is not None
    assert bank.thresholds.own_affected == bank.people.unfair
    assert bank.thresholds.worst_affected == usual.thresholds.worst_affected >= bank.people.unfair
    assert bank.making["Operating point"] == "It decides yes above 0.05, not at ½."
    page = audit(model, table, target="default", timeout=1, threshold=0.05).to_html()
    assert "At other thresholds" in page and "it decides here" in page
    assert page.count("It decides yes above 0.05, not at ½.") == 2  # below the headline, and where it was made


def test_where_nobody_of_the_table_is_affected_the_headline_says_at_which_threshold_some_would_be() -> None:
    curve = ThresholdCurve("yes", 600, (0.05, 0.5), (106, 0), 0.5, 0, 0.05, 106, 0.3)
    about = {"people": People(600, 0), "thresholds": curve, "domain": DomainFacts.of(WHO)}
    for verdict in (
        Verdict("verified", "bounds", "bounds", ("real",), ""),
        Verdict("falsified", "none", "attack", (), ""),
    ):
        headline = verdict_sentence(Document(verdict, **about))
        assert headline.endswith(
            "That holds at its threshold, 50.0\u00a0% for yes: at 5.0\u00a0%, 106 of the 600 people looked at would be "
            "decided otherwise."
        ), headline
    some = Document(verdict, **about | {"people": People(600, 3)})
    assert "threshold" not in verdict_sentence(some)  # at its own, there are some already
    drawn = Document(verdict, **about | {"people": People(60, 3, drawn_from=600)})
    assert "(3 of 60) of the people drawn at random from the 600 in the table would" in verdict_sentence(drawn)
