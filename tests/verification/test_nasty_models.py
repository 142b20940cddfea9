"""No false word about models made to mislead; `make nightly` asks about thousands."""

import numpy as np
import pytest

from nasty_models import Judge, mistakes, nasty_model, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("block", [0, 1, 2, 4, 8])  # all engines, and no model that takes long
def test_nothing_false_is_said_of_nasty_models(block):
    found = run(7, seed=block)
    assert found.wrong == []
    assert found.outcomes.total() >= 7


def test_the_judge_notices_a_false_verdict(monkeypatch):
    """A verifier that always says verified is caught: the check can fail."""
    import nasty_models
    from bornfair.models.verdict import Verdict

    said = Verdict("verified", "bounds", "bounds", ("real", "float32"), "so it says")
    monkeypatch.setattr(nasty_models, "verify", lambda *_, **__: said)
    seeds = [
        seed for seed in range(1, 40) if seed % 3 and seed % 5 and np.any(Judge(nasty_model(seed)).unfair("float32"))
    ]
    assert len(seeds) > 3
    assert all(mistakes(seed)[0] for seed in seeds[:4])
