"""No false word about other people's models, whatever they end with; `make nightly` asks about thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

import import_fuzz
from bornfair.models.verdict import Verdict
from import_fuzz import random_model, run, truth

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("block", range(2))
def test_nothing_false_is_said_of_imported_models(block: int) -> None:
    found = run(30, seed=block)
    assert found.wrong == []
    assert found.outcomes["falsified"] >= 5 and found.outcomes["verified as read"] >= 5


def test_the_judge_notices_false_verdicts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A verifier that always says verified is caught, in either arithmetic; so is one that shows equal twins."""
    path = tmp_path / "m.onnx"
    unfair = [case for case in range(40) if truth(path, *random_model(path, case)).surely_unfair().any()]
    assert len(unfair) >= 5
    person = {"a": 0, "b": 0, "s": 0}
    for said in (
        Verdict("verified", "bounds", "bounds", ("real", "float32"), "so it says"),
        Verdict("verified", "bounds", "bounds", ("real",), "so it says", as_read=True),
    ):
        monkeypatch.setattr(import_fuzz, "verify", lambda *_, said=said, **__: said)
        assert len(run(40, seed=0).wrong) >= len(unfair)
    same = Verdict("falsified", "none", "attack", ("float32",), "so it says", twins=[person, person], decisions=[0, 1])
    monkeypatch.setattr(import_fuzz, "verify", lambda *_, **__: same)
    domain, end = next(found for case in range(40) if (found := random_model(path, case))[0].features[0].low <= 0)
    known = truth(path, domain, end)
    assert import_fuzz.mistake(path, domain, end, known, import_fuzz.Counter())
