"""No structural proof, of the verifier or of the checker, is ever wrong; `make nightly` asks about thousands."""

import pytest

import structure_fuzz
from bornfair.proof import checker
from bornfair.verification.verdict import Verdict
from structure_fuzz import run


@pytest.mark.parametrize("block", range(4))
def test_what_is_proven_by_structure_is_true_of_random_networks(block):
    found = run(75, seed=block)
    assert found.wrong == []
    proven = {name: number for name, number in found.outcomes.items() if name.startswith("verifier: real")}
    assert sum(number for name, number in proven.items() if not name.endswith("layer 1")) >= 20
    assert found.outcomes["not proven: scores differ"] >= 4  # so that there is something to be wrong about


@pytest.mark.parametrize("who", ["the verifier", "the checker"])
def test_a_prover_that_says_too_much_is_noticed(monkeypatch, who):
    said = Verdict("verified", "structural", "structural", ("real", "float32"), "so it says")
    if who == "the verifier":
        monkeypatch.setattr(structure_fuzz, "prove_structurally", lambda *_: said)
    else:
        monkeypatch.setattr(checker, "prove_structurally", lambda *_: {"real"})
    wrong = run(30, seed=1).wrong
    assert any(f"{who} claims" in problem and "has other scores than" in problem for problem in wrong)
