"""Never a wrong "verified" or "falsified": every engine against counting out, and against each other.

`make nightly` runs the same on 20,000 models.
"""

import pytest

from bornfair import verify
from brute_force import attack_mistake, mistake, random_model, truth

pytestmark = pytest.mark.slow

CASES = 160


@pytest.mark.parametrize("block", range(8))
def test_bounds_and_attack_never_contradict_counting_out(block):
    decided = 0
    for seed in range(block * CASES // 8, (block + 1) * CASES // 8):
        model = random_model(seed)
        known = truth(model)
        verdict = verify(model, engine="bounds", timeout=20, seed=seed)
        assert mistake(model, verdict, known) is None, f"case {seed}: {mistake(model, verdict, known)}"
        assert attack_mistake(model, known) is None, f"case {seed}: {attack_mistake(model, known)}"
        decided += verdict.answer != "undecided"
    assert decided == CASES // 8, "small lattices can always be searched to the end"


@pytest.mark.parametrize("engine", ["auto", "smt", "milp"])
def test_the_other_engines_never_contradict_counting_out(engine):
    decided = 0
    for seed in range(40):
        model = random_model(seed)
        verdict = verify(model, engine=engine, timeout=20, seed=seed)
        problem = mistake(model, verdict, truth(model))
        assert problem is None, f"case {seed}: {problem}"
        decided += verdict.answer != "undecided"
    assert decided >= 38
