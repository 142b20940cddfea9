"""Endpoints that behave badly: every behaviour of `hostile_answers.py` ends in answers or in one sentence."""

import numpy as np
import pytest

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.models.columns import Columns
from bornfair.models.opaque.endpoint import Endpoint
from hostile_answers import BEHAVIOURS, LONG, NAMES
from hostile_endpoints import run, served
from interop_models import people

pytestmark = pytest.mark.slow

PEOPLE = people().sample(5, seed=0)
SECONDS = 60.0
"""More than any behaviour needs that is not to be ended."""


@pytest.fixture(scope="module")
def server():
    with served() as found:
        yield found


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr("bornfair.models.opaque.endpoint.time.sleep", lambda _: None)
    monkeypatch.setattr(limits, "ANSWER_BYTES", 1 << 20)


def asked(url, seconds):
    """What an endpoint has answered, or the sentence about it."""
    try:
        found = Endpoint(url, seconds=seconds, rate=1e6).ask(PEOPLE, Columns(people(), people().names), numbers=True)
    except InputError as error:
        return str(error)
    return found


@pytest.mark.parametrize("kind", ["answer", "content", "transport", "status", "redirect", "busy"])
def test_every_answer_is_understood_or_refused_in_a_sentence(kind, server):
    outcomes = {}
    for name in NAMES:
        if name.startswith(kind):
            outcomes[name] = found = asked(server.url(name), SECONDS)
            if isinstance(found, str):
                assert found.startswith("the endpoint 127.0.0.1") and found[-1] in ".?)", f"{name}: {found}"
            else:
                assert found.numbers is None or np.isfinite(found.numbers).all(), name
                assert len(found.labels if found.numbers is None else found.numbers) == len(PEOPLE), name
    refused = {name for name, found in outcomes.items() if isinstance(found, str)}
    assert len(refused) >= len(outcomes) / 2, "most are refused"
    if kind in ("answer", "busy"):
        assert len(refused) < len(outcomes), "some are good"


@pytest.mark.parametrize("name", LONG)
def test_an_answer_without_an_end_is_ended(name, server):
    assert "took more than 0.2 s for 5 people" in asked(server.url(name), 0.2)


@pytest.mark.parametrize("name", [one for one in NAMES if one.startswith("delivery") and one not in LONG])
def test_an_answer_without_limits_is_cut_off(name, server):
    found = asked(server.url(name), SECONDS)
    assert isinstance(found, str) or name == "delivery: odd headers"


def test_hundreds_of_behaviours_are_listed():
    assert len(BEHAVIOURS) > 300


def test_commands_answer_in_a_sentence():
    summary = run(6, seed=0)
    assert summary.cases == 6 and not summary.wrong, "\n".join(summary.wrong)
