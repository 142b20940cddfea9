"""No structural proof, of the verifier or of the checker, is ever wrong; `make nightly` asks about thousands."""

import dataclasses

import pytest

import structure_fuzz
from bornfair.models.network.structural import prove_structurally
from bornfair.models.verdict import Verdict
from bornfair.people.twins.relation import twin_relation
from bornfair.proof import checker
from bornfair.proof.bundle import bundle_files
from bornfair.proof.certificate import certificate_of
from structure_fuzz import random_structure, run

pytestmark = pytest.mark.slow


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


def test_the_checker_accepts_what_a_certificate_claims_of_them_and_no_more():
    kinds = set()
    for case in range(40):
        model = random_structure(case)
        verdict = prove_structurally(model.network, twin_relation(model.encoding))
        if not verdict:
            continue
        certificate = certificate_of(model, verdict, seconds=1)
        claimed = dataclasses.replace(model, certificate=certificate)
        found = checker.check_files(bundle_files(claimed))
        assert found["valid"] and found["verdict"] == certificate.verdict.answer
        if certificate.verdict.proof == "structural":
            assert set(found["arithmetic"]) <= set(verdict.arithmetic)
            kinds.add((tuple(found["arithmetic"]), "from layer" in verdict.reason))
            if found["arithmetic"] == ["real"]:  # and a forger who claims float32 too is refused
                wider = dataclasses.replace(certificate.verdict, arithmetic=("real", "float32"))
                words = certificate.claim.replace("in exact arithmetic", "in exact and float32 arithmetic")
                words += f" {checker.CONDITIONS}"
                forged = dataclasses.replace(certificate, verdict=wider, claim=words)
                with pytest.raises(checker.Rejected, match="real arithmetic only"):
                    checker.check_files(bundle_files(dataclasses.replace(model, certificate=forged)))
    assert {(("real", "float32"), True), (("real",), True)} <= kinds
