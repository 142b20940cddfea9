"""Whoever is given a clock stops when it is up, with what was found out until then, and says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bornfair import Domain, FairModel, audit, quantify, verify
from bornfair.core.clock import Clock, TimeIsUp
from bornfair.models.network import rows as rows_module
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.shares.forms import largest_rounding
from bornfair.people.columns import Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import CategoricalFeature, IntegerFeature, Label
from bornfair.people.space.boxes import Boxes
from bornfair.quantification.groups import affected_groups
from bornfair.quantification.people import treatment
from bornfair.questions.proxies import proxy_report
from bornfair.verification.frontier import Frontier
from clocks import ticking

ROWS = 1_000


@pytest.fixture(scope="module")
def model() -> FairModel:
    random = np.random.default_rng(3)
    features = (
        *(IntegerFeature(name=f"x{i}", low=0, high=99) for i in range(4)),
        CategoricalFeature(name="race", categories=("a", "b", "c")),
        CategoricalFeature(name="sex", categories=("f", "m")),
    )
    domain = Domain(features=features, sensitive=("race", "sex"), label=Label(name="grant", classes=("no", "yes")))
    encoding = Encoding(domain, {f"x{i}": Scale(centre=50.0, exponent=5) for i in range(4)})
    layers = (
        Layer(random.normal(size=(8, encoding.width)), random.normal(size=8)),
        Layer(random.normal(size=(1, 8)), np.zeros(1)),
    )
    return FairModel(Network(layers), encoding)


@pytest.fixture
def slowly(monkeypatch):
    """Looks at the clock come as often as on huge models and tables."""
    monkeypatch.setattr(rows_module, "TIMED_WORK", 1)


@pytest.fixture(scope="module")
def table(model) -> pd.DataFrame:
    return model.domain.sample(ROWS, seed=5)


def test_a_part_never_outlasts_the_whole():
    whole = ticking(10.0, each=1.0)
    assert 0 < whole.part(0.5).timeout <= 5 and whole.part(most=2.0).timeout == 2.0
    late = ticking(0.5, each=1.0)
    assert late.part().timeout == 0.0 and late.part().is_up
    with pytest.raises(TimeIsUp):
        late.check()
    assert Clock.of(late) is late and Clock.of(3.0).timeout == 3.0


def test_rows_for_which_there_is_no_time_are_left_out_at_random_and_the_others_are_judged_as_ever(model, table, slowly):
    whole, some = treatment(model, table), treatment(model, table, timeout=ticking(0.3), seed=1)
    assert len(whole.rows) == ROWS and 0 < len(some.rows) < ROWS
    assert (np.diff(some.rows) > 0).all() and some.rows[-1] > len(some.rows)  # not simply the first ones
    for field in ("fair", "own", "twin", "decided", "scores", "gap"):
        assert np.array_equal(getattr(some, field), getattr(whole, field)[some.rows]), field
    enough = treatment(model, table, timeout=1e9)
    assert np.array_equal(enough.fair, whole.fair) and np.array_equal(enough.scores, whole.scores)


def test_people_are_what_is_read_first_so_a_table_of_some_thousand_is_judged_whole_however_short_the_time(model, table):
    assert len(treatment(model, table, timeout=ticking(0.01)).rows) == ROWS  # compiling alone takes longer


def test_parts_of_a_table_are_judged_as_the_whole_is(model, table, monkeypatch):
    unknown = table.drop(columns=["race", "sex"])  # whose own version nobody knows
    whole = treatment(model, unknown)
    monkeypatch.setattr(rows_module, "MOST_ROWS", 128)
    parts = treatment(model, unknown)
    for field in ("fair", "own", "twin", "decided", "scores", "gap", "rows"):
        assert np.array_equal(getattr(parts, field), getattr(whole, field)), field


def test_no_score_is_further_off_than_the_largest_rounding(model, table):
    inputs = model.inputs(table)
    exact = model.network.estimated(inputs.astype(np.float64))
    error = largest_rounding(model.network, np.abs(inputs).max(axis=0))
    assert 0 < error < 0.01 and np.abs(model.network.scores(inputs) - exact).max() <= error
    assert largest_rounding(model.network, np.full(inputs.shape[1], 1e38)) == np.inf


def test_quantify_counts_all_it_does_and_says_what_it_did_not_get_to(model, table, slowly):
    found = quantify(model, table=table, timeout=ticking(2.0, each=0.2))
    assert found.people.drawn_from == ROWS and found.people.rows < ROWS
    assert found.people.note == f"time allowed to judge {found.people.rows} of the 1,000 rows, drawn at random"
    assert found.people.to_json()["drawn_from"] == ROWS
    assert 2.0 <= found.seconds < 2.0 + 30 * 0.2  # a few more looks at the clock, whatever they took
    assert not quantify(model, table=table, timeout=ticking(2.0, each=0.02), precision=1.0).people.note


def test_groups_are_left_out_where_there_is_no_time(model):
    assert affected_groups(model, timeout=ticking(0.1)) == []
    few = affected_groups(model, timeout=ticking(3.0, each=0.5), samples=400_000)
    assert all(group.inside.samples < 400_000 for group in few)


def test_an_audit_stops_in_time_and_leaves_out_what_there_was_no_time_for(model, table, slowly):
    said = []
    clock = ticking(2.0, each=0.3)
    clock.listener = said.append
    (document,) = audit(model, table, timeout=clock).documents
    assert document.people.rows < ROWS and not document.proxies and clock.spent < 2.0 + 80 * 0.3
    assert any("no time left to look at what gives the sensitive values away" in text for text in said)
    (late,) = audit(model, table, timeout=ticking(0.01)).documents  # no time for a search; its people were judged
    assert late.people.unfair > 0 and late.verdict.answer == "falsified" and len(set(late.verdict.decisions)) == 2
    with pytest.raises(TimeIsUp):
        proxy_report(table, model.domain, timeout=ticking(0.01))


def test_a_verdict_counts_the_seconds_of_the_whole_question(model):
    clock = ticking(4.0)
    for _ in range(20):
        clock.now()  # something was read before
    assert verify(model, timeout=clock).seconds > 1.0


def test_batches_become_smaller_when_a_whole_one_would_take_too_long():
    now, sizes = [0.0], []
    places = np.arange(100, dtype=float)[:, None]
    open_ = Frontier(Boxes(places, places, {}), 0, Clock(10.0, now=lambda: now[0]))

    def decide(tally, boxes):
        sizes.append(len(boxes))
        now[0] += 0.5 * len(boxes)  # seconds for each
        return tally + len(boxes), boxes[np.arange(0)]

    open_.replace(np.arange(100), 8, decide)
    assert sizes == [8, 8, 4] and now[0] == 10.0  # not 8 again, which would have taken until 12
    assert (open_.tally, len(open_.open)) == (20, 80)
