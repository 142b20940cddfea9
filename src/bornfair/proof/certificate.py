"""Certificates: what was proven, of which files, over which domain, in which arithmetic, and how the model was made.

The JSON form is described field by field in docs/certificate.md. What is claimed must be derivable by
`bornfair.proof.checker` from the files alone; how the model was made is recorded, not proven.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import weakref
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, TypeVar

from bornfair import __version__
from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, plain_level
from bornfair.core.limits import ends_in_time
from bornfair.models.protocol import Exportable
from bornfair.models.verdict import Arithmetic, Verdict
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker
from bornfair.proof.tree import find_tree
from bornfair.verification.decide import decide

SomeModel = TypeVar("SomeModel", bound=Exportable)
LEAST_FOR_A_TREE = 1.0  # seconds, where the verdict came late


@dataclass(frozen=True)
class Certificate:
    """The facts of one model. `claim` says in words what may be relied on, and nothing more."""

    claim: str
    verdict: Verdict
    sensitive: tuple[str, ...]
    sensitive_values: int | None
    """How many sensitive values a person may have; None: a number may be any real one of a range."""
    declared: bool = False
    """Whether rules are declared; else twins differ in sensitive features only."""
    person_versions: int | None = None
    """With declared rules: how many versions of each person are twins; None as above."""
    tree: list[Any] | None = None
    start: dict[str, Any] = field(default_factory=dict)
    response: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict, compare=False)
    """SHA-256 of the files it is about; filled in when they are written."""

    def to_json(self) -> dict[str, Any]:
        verdict = self.verdict
        facts: dict[str, Any] = {
            "format": checker.FORMAT,
            "claim": self.claim,
            "verdict": verdict.answer,
            "proof": verdict.proof,
            "arithmetic": list(verdict.arithmetic),
            "reason": verdict.reason,
            "property": self._property(),
            "files": dict(self.files),
            "tree": self.tree,
            "twins": verdict.twins,
            "decisions": verdict.decisions,
            "search": {"engine": verdict.engine, "partitions": verdict.partitions, "boxes": verdict.boxes},
            "start": self.start,
            "response": self.response,
            "training": self.training,
            "versions": self.versions,
        }
        facts = json.loads(json.dumps(facts))  # as it will be read back: tuples are lists
        return facts | {"sha256": checker.digest_of(facts)}

    def _property(self) -> dict[str, Any]:
        stated = {"sensitive": list(self.sensitive), "sensitive_values": self.sensitive_values}
        if not self.declared:
            return {"relation": "flip"} | stated | {"statement": checker.STATEMENT}
        versions = {"versions": self.person_versions, "statement": checker.DECLARED}
        return {"relation": "declared"} | stated | versions

    @staticmethod
    def from_json(data: dict[str, Any]) -> Certificate:
        if data.get("format") != checker.FORMAT or data.get("sha256") != checker.digest_of(data):
            raise InputError(f"it is not a certificate of the format {checker.FORMAT}, or it was edited.")
        verdict = Verdict(
            data["verdict"], data["proof"], data["search"]["engine"], tuple(data["arithmetic"]), data["reason"],
            twins=data["twins"], decisions=data["decisions"],
            partitions=data["search"]["partitions"], boxes=data["search"]["boxes"],
        )  # fmt: skip
        return Certificate(
            claim=data["claim"],
            verdict=verdict,
            sensitive=tuple(data["property"]["sensitive"]),
            sensitive_values=data["property"]["sensitive_values"],
            declared=data["property"]["relation"] == "declared",
            person_versions=data["property"].get("versions"),
            **{name: data[name] for name in ("tree", "start", "response", "training", "versions", "files")},
        )


def certificate_of(model: Exportable, verdict: Verdict, *, seconds: float, say: Say | None = None) -> Certificate:
    """What a verdict is worth to a sceptic: what the checker can derive from the files of the model, no more."""
    tree = None
    try:
        if not model.domain.sensitive:
            verdict = _undecided(verdict, "no feature was named sensitive.")
        elif verdict.answer == "falsified":
            verdict = _confirmed_twins(model, verdict)
        elif verdict.answer == "verified":
            verdict, tree = _confirmed_proof(model, verdict, seconds, say)
    except checker.Rejected as error:
        verdict = _undecided(
            verdict, f"the {verdict.engine} engine says {verdict.answer}, which is beyond the checker: {error}."
        )
    facts = verdict.answer, verdict.proof, verdict.arithmetic, model.domain.sensitive, verdict.reason
    rules = model.domain.model_dump(mode="json")["twins"]
    uncounted = bool(model.domain.real_sensitive)
    network = as_checked(model)[0] if model.kind == "forest" else None
    rounds = isinstance(network, checker.ForestGraph) and not network.adds_exactly
    return Certificate(
        claim=checker.claim_of(*facts, rules, rounds=rounds),
        verdict=dataclasses.replace(verdict, seconds=0.0),  # same model, same bytes
        sensitive=model.domain.sensitive,
        sensitive_values=None if uncounted else model.domain.sensitive_space.size,
        declared=bool(rules),
        person_versions=None if uncounted or not rules else Versions(model.domain).size,
        tree=tree,
        versions={
            "bornfair": __version__,
            "jax": metadata.version("jax"),
            "numpy": metadata.version("numpy"),
            "python": platform.python_version(),
        },
    )


@ends_in_time
def certified(
    model: SomeModel, *, timeout: Timeout, seed: int = 0, say: Say | None = None, table: Any = None
) -> SomeModel:
    """The model with a new certificate: all engines are asked, then the answer is put in a form that can be checked."""
    clock = Clock.of(timeout, say)
    if model.kind == "network":
        # The certificate is about the files of the bundle, whatever the network was read from. A forest's twins are
        # replayed by its original all the same: they are to hold for its own file, too.
        model = model.without_original()
    if not model.domain.sensitive:
        verdict = Verdict("undecided", "none", "structural", (), "no feature was named sensitive.")
    else:
        verdict = _blind(model) or decide(model, timeout=clock, seed=seed, table=table)
    left = max(clock.left, min(LEAST_FOR_A_TREE, clock.timeout / 10))
    fresh = certificate_of(model, verdict, seconds=left, say=clock.listener)
    old = model.certificate
    if old is not None:  # how it was made has not changed
        fresh = dataclasses.replace(fresh, start=old.start, response=old.response, training=old.training)
    return model.without_original().with_certificate(fresh)


Checked = tuple[checker.NetworkGraph | checker.ForestGraph | checker.Wiring, checker.Individuals]
_known: weakref.WeakKeyDictionary[Exportable, Checked] = weakref.WeakKeyDictionary()


def as_checked(model: Exportable) -> Checked:
    """The model and its domain as the checker reads them from the files; of a forest, which may be large, once."""
    if model in _known:
        return _known[model]
    people = checker.Individuals(checker.parse_json(model.domain.text().encode(), "domain.json"))
    found = checker.read_model(model.graph_bytes(), people), people
    if model.kind == "forest":
        _known[model] = found
    return found


def _blind(model: Exportable) -> Verdict | None:
    """The verdict on a forest none of whose splits tells twins apart: there is nothing to search for."""
    if model.kind != "forest":
        return None
    try:
        network, people = as_checked(model)
        assert isinstance(network, checker.ForestGraph)
        held = checker.prove_trees(network, people)
    except checker.Rejected:
        return None
    names = ", ".join([*model.domain.sensitive, *model.domain.twin_group.moved])
    kinds: tuple[Arithmetic, ...] = ("real", "float64")
    assert set(kinds) == held
    return Verdict("verified", "structural", "structural", kinds, f"no split tells values of {names} apart")


def _executed(network: checker.NetworkGraph | checker.ForestGraph | checker.Wiring) -> Arithmetic:
    """The arithmetic in which the graph is executed."""
    if isinstance(network, checker.Wiring):
        return "executed"
    return "float64" if isinstance(network, checker.ForestGraph) else "float32"


def _confirmed_twins(model: Exportable, verdict: Verdict) -> Verdict:
    """The arithmetics in which the checker, too, sees the twins differ: as executed, whatever the order of sums."""
    network, people = as_checked(model)
    twins = [{name: plain_level(value) for name, value in twin.items()} for twin in verdict.twins or []][:2]
    held: dict[Arithmetic, list[Any]] = {}
    for kind in ("real", _executed(network)):
        found = [checker.decide(network, people, twin, kind) for twin in twins]
        if None not in found and found[0] != found[1]:
            held[kind] = [network.classes[k] for k in found if k is not None]
    first = next(iter(held.values()), None)
    if first is None:
        return _undecided(
            verdict,
            "twins were found, but whether they are decided differently hangs on the order in which "
            f"{_executed(network)} adds.",
        )
    kinds = tuple(kind for kind, decided in held.items() if decided == first)
    return dataclasses.replace(verdict, arithmetic=kinds, twins=twins, decisions=first)


def _confirmed_proof(
    model: Exportable, verdict: Verdict, seconds: float, say: Say | None
) -> tuple[Verdict, list[Any] | None]:
    """A proof that the checker can follow: that of the engine if it is structural, else a tree."""
    network, people = as_checked(model)
    executed = _executed(network)
    if isinstance(network, checker.Wiring):
        checker.prove_wiring(network, people)
        return dataclasses.replace(verdict, arithmetic=("executed",)), None
    if verdict.proof == "structural":
        # The checker shows it for whatever is fed to the graph; the engine, for the combinations that exist.
        with contextlib.suppress(checker.Rejected):
            if isinstance(network, checker.ForestGraph):
                checker.prove_trees(network, people)
                return dataclasses.replace(verdict, arithmetic=("real", executed)), None
            held = checker.prove_structurally(network, people)
            return dataclasses.replace(verdict, arithmetic=tuple(k for k in verdict.arithmetic if k in held)), None
    tries: tuple[tuple[Arithmetic, ...], ...] = (("real", executed), ("real",))
    for kinds in tries:
        if isinstance(network, checker.NetworkGraph) and executed in kinds and executed not in verdict.arithmetic:
            continue
        tree = find_tree(network, people, executed=executed in kinds, timeout=seconds / 2, say=say)
        if tree is not None:
            return dataclasses.replace(verdict, proof="bounds", arithmetic=kinds), tree
    reason = (
        f"the {verdict.engine} engine says verified, but in {seconds:.0f} s no proof was found that the checker can "
        "follow; allow more time."
    )
    return _undecided(verdict, reason), None


def _undecided(verdict: Verdict, reason: str) -> Verdict:
    return dataclasses.replace(
        verdict, answer="undecided", proof="none", arithmetic=(), reason=reason, twins=None, decisions=None
    )
