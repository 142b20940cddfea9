"""An attacker's kit: small bundles of every kind of claim, taken apart to be changed and sealed anew.

A forger can do everything but break SHA-256, so a `Forgery` seals itself anew: the digests always fit.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from bornfair import FairClassifier
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import Cut, Summation
from bornfair.models.forest.planting import Planting
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.policies import Policies
from bornfair.proof import checker
from bornfair.proof.bundle import FairForest, FairModel, bundle_files
from samples import make_people

Files = dict[str, bytes]


NAMES = ("model.onnx", "domain.json", "certificate.json")


# --- bundles ---

AGE = IntegerFeature(name="age", low=18, high=60)
HOURS = IntegerFeature(name="hours", low=1, high=12)
INCOME = RealFeature(name="income", low=1.0, high=63.5)
JOB = CategoricalFeature(name="job", categories=("clerk", "nurse", "smith"))
OWNER = BooleanFeature(name="owner")
RACE = CategoricalFeature(name="race", categories=("a", "b", "c"))
GRADE = IntegerFeature(name="grade", low=1, high=5)
GRANT = Label(name="grant", classes=("no", "yes"))


def hand_made(
    features: tuple[Any, ...],
    sensitive: tuple[str, ...],
    layers: list[tuple[Any, Any]],
    *,
    label: Label = GRANT,
    activation: str = "relu",
    policies: Policies | None = None,
    scales: dict[str, tuple[float, int]] | None = None,
    ends: dict[str, dict[str, float]] | None = None,
) -> FairModel:
    """A model from plain numbers; inputs are (v - 1)·2^-0 unless `scales` says otherwise, v held between `ends`."""
    domain = Domain(features=features, sensitive=sensitive, label=label)
    known = {f.name: (1.0, 0) for f in features if isinstance(f, NUMERIC)} | (scales or {})
    fill = {f.name: f.low if isinstance(f, NUMERIC) else f.levels()[0] for f in features}
    encoding = Encoding(
        domain,
        {n: Scale(centre=c, exponent=e, **(ends or {}).get(n, {})) for n, (c, e) in known.items()},
        fill,
        policies or Policies(),
    )
    made = tuple(Layer(np.array(weight, np.float32), np.array(bias, np.float32)) for weight, bias in layers)
    return FairModel(Network(made, activation), encoding)  # type: ignore[arg-type]


def reading(shift: float, policies: Policies | None = None) -> FairModel:
    """A model that grants above 7.5 points, where a point is a year or an hour; an owner gets up to `shift` more."""
    # columns in the order of the domain: age - 30, hours - 1, income, three jobs; then the code of owner, ±1
    first = [
        [1, 0, 0, 0, 0, 0, 0],
        [-1, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 2, 0, 0, 0],
        [0, 0, 2**-9, 0, 0, 0, shift],
    ]
    layers = [(first, [0, -4, 0, 0]), ([[0.5, -1, 1, 1], [0, 0, 1, 0]], [-2, 0.25]), ([[1, 0.5]], [-4.375])]
    return hand_made((AGE, HOURS, INCOME, JOB, OWNER), ("owner",), layers, policies=policies, scales={"age": (30.0, 0)})


@cache
def bundle(kind: str) -> Files:
    """A valid bundle of each kind of claim."""
    return {name: content for name, content in bundle_files(_MODELS[kind]()).items() if name in NAMES}


def _structural() -> FairModel:
    table = make_people(120, seed=2)
    classifier = FairClassifier(["sex"], epochs=2, hidden=(4,), missing="impute", outside="clip")
    return classifier.fit(table.drop(columns="grant"), table["grant"]).model_


def _ignoring() -> FairModel:
    return dataclasses.replace(reading(0.0), certificate=None).certified(timeout=10)


def _bounds() -> FairModel:
    return reading(0.0625, Policies(missing="impute", outside="clip")).certified(timeout=10)


def _elsewhere() -> FairModel:
    """It decides where the odds are e^½ to 1, and says so."""
    return reading(0.0625).shifted((0.5,)).certified(timeout=10)


def _falsified() -> FairModel:
    return reading(3.0).certified(timeout=10)


def _undecided() -> FairModel:
    return reading(3.0)


def _cancelling() -> FairModel:
    """The weights of the three races are alike, and the codes of a race add up to 0: fair in exact numbers only."""
    first = [[1, 0.1, 0.1, 0.1], [-1, 3.0, 3.0, 3.0]]
    return hand_made((HOURS, RACE), ("race",), [(first, [-3, 5]), ([[1, -1]], [0.25])]).certified(timeout=10)


def _dead_end() -> FairModel:
    """A neuron of the first layer reads owner, one of the second reads that, and no output reads it."""
    first = [[1, 0, 0], [-1, 0.5, 2], [0.5, 1, 0]]
    layers = [(first, [-3, 1, 0]), ([[1, 0, -1], [0.5, 1, 0], [-1, 0, 2]], [0.5, 0, 1]), ([[1, 0, -1]], [0.25])]
    days = IntegerFeature(name="days", low=1, high=8)
    return hand_made((HOURS, days, OWNER), ("owner",), layers).certified(timeout=10)


def _cancelling_neurons() -> FairModel:
    """Two neurons read owner, the one as three times the other, and the next layer takes their difference."""
    first = [[1, 0, 2], [3, 0, 6], [0.5, 1, 0]]
    layers = [(first, [-3, -9, 0]), ([[3, -1, 1], [-1.5, 0.5, -1]], [-2, 1]), ([[1, -1]], [0.25])]
    days = IntegerFeature(name="days", low=1, high=8)
    return hand_made((HOURS, days, OWNER), ("owner",), layers).certified(timeout=10)


def _classes() -> FairModel:
    """Three classes; twins differ in race and grade, which count a little."""
    first = [[1, 0, 0.01, 0.02, 0.03, 0.02], [0, 1, 0.02, 0.01, 0.03, 0.01], [-1, -1, 0, 0, 0, 0]]
    last = [[1, 0, 0], [0, 1, 0.03125], [0, 0, 1]]
    label = Label(name="lane", classes=("left", "middle", "right"))
    layers = [(first, [0, 0.5, 6.25]), (last, [0, 0.25, 0])]
    seven = IntegerFeature(name="days", low=1, high=8)
    return hand_made((HOURS, seven, RACE, GRADE), ("race", "grade"), layers, label=label).certified(timeout=10)


def _exact() -> FairModel:
    """Decided at exactly 0 for many people: only exact numbers can tell."""
    first = [[1, 1, 0], [0, 0, 0.125]]
    few = IntegerFeature(name="days", low=1, high=5), IntegerFeature(name="rooms", low=1, high=4)
    layers = [(first, [-4, 0]), ([[1, -1]], [0])]
    return hand_made((*few, OWNER), ("owner",), layers).certified(timeout=10)


def _tanh() -> FairModel:
    first = [[1, 0, 0.01, 0.02, 0.01], [-1, 0.5, 0, 0, 0.01]]
    layers = [(first, [-4.5, 0]), ([[2, 0.25]], [0.5])]
    return hand_made((HOURS, OWNER, RACE), ("race",), layers, activation="tanh").certified(timeout=10)


def _held() -> FairModel:
    """Age counts up to 40 only, and debt not at all; an owner gets a little more."""
    first = [[1, 0.5, 0.0625], [-0.5, 1, 0.125]]
    features = IntegerFeature(name="age", low=18, high=200), RealFeature(name="debt", low=0.0, high=1e6), OWNER
    ends = {"age": {"high": 24.0}, "debt": {"low": 5.0, "high": 5.0}}
    layers = [(first, [-20.1875, 3]), ([[1, -0.5]], [-1.3125])]
    return hand_made(features, ("owner",), layers, ends=ends).certified(timeout=10)


# --- forests ---


def grown(
    features: tuple[Any, ...], sensitive: tuple[str, ...], trees: list[Any], *, label: Label = GRANT, **how: Any
) -> FairForest:
    """A forest from plain numbers. A tree is the number of a leaf, (number, output), or (feature, where, left, right):
    left goes who is at most `where`, or among it if it is a set.
    """
    domain = Domain(features=features, sensitive=sensitive, label=label)
    names = [feature.name for feature in features]
    columns = tuple(
        SplitColumn(i, (), None if isinstance(f, (*NUMERIC, BooleanFeature)) else _codes(f.levels()), math.nan)
        for i, f in enumerate(features)
    )
    outputs = 1 if len(label.classes) == 2 else len(label.classes)
    planting = Planting("a forest", outputs)
    for tree in trees:
        rows: list[list[Any]] = []
        values: list[np.ndarray] = []
        waiting: list[tuple[Any, int, int]] = [(tree, -1, 0)]
        while waiting:
            node, parent, side = waiting.pop()
            here, value = len(rows), np.zeros(outputs)
            if parent >= 0:
                rows[parent][3 + side] = here
            if isinstance(node, tuple) and len(node) == 4:
                name, where, left, right = node
                place, chosen = names.index(name), -1
                if isinstance(where, (set, frozenset)):
                    chosen = len(planting.sets)
                    known = dict(columns[place].table or ())
                    planting.sets.append(np.array(sorted(known.get(v, v) for v in where), float))
                rows.append([place, 0.0 if chosen >= 0 else float(where), chosen, -1, -1, False])
                waiting += [(right, here, 1), (left, here, 0)]
            else:
                number, output = node if isinstance(node, tuple) else (node, 0)
                value[output] = number
                rows.append([-1, 0.0, -1, -1, -1, False])
            values.append(value)
        column, threshold, members, lefts, rights, missing = map(list, zip(*rows, strict=True))
        planting.add(column, threshold, lefts, rights, missing, np.array(values), members)
    summation = Summation("float64", tuple(how.pop("base", (0.0,) * outputs)), **how.pop("sums", {}))
    cut = Cut(**({"link": "softmax"} if outputs > 1 else {}) | how)
    forest = planting.forest(names, columns, summation, cut)
    return FairForest(forest, domain, tuple(names))


def _codes(levels: Any) -> tuple[tuple[Any, float], ...]:
    return tuple((level, float(i)) for i, level in enumerate(levels))


def _forest(owner: float) -> FairForest:
    """Points for age, hours, income and job; an owner gets some more, if they are young."""
    trees = [
        ("age", 30.5, ("job", {"clerk", "smith"}, -1.0, 0.5), ("income", 20.25, 0.25, 2.0)),
        ("hours", 6, -0.5, ("age", 50, 1.5, -0.25)),
        ("job", {"nurse"}, 0.5, ("hours", 3, -1.0, 0.0)),
        -0.125,
    ]
    if owner:
        trees.append(("age", 40, ("owner", 0.5, 0.0, owner), 0.0))
    return grown((AGE, HOURS, INCOME, JOB, OWNER), ("owner",), trees, base=(0.0625,), at=0.25)


def _forest_of_shares() -> FairForest:
    """Leaves are shares that round when they are added up, and divided by their number."""
    trees = [("hours", k + 0.5, 0.1 * (k + 1), ("age", 20 + 10 * k, 0.7, 0.3)) for k in range(3)]
    sums = {"divisor": 3.0}
    return grown((AGE, HOURS, OWNER), ("owner",), trees, sums=sums, at=0.5, link="probability")


def _forest_of_classes() -> FairForest:
    """Three classes, one of them harder to get; race and grade count a little for one of them."""
    label = Label(name="lane", classes=("left", "middle", "right"))
    trees = [
        ("hours", 4, (2.0, 0), (0.5, 0)), ("hours", 8, (0.75, 1), (2.5, 1)), ("hours", 6, (1.0, 2), (0.0, 2)),
        ("race", {"a", "c"}, (0.0625, 1), ("grade", 3, (0.0, 1), (0.03125, 1))),
    ]  # fmt: skip
    return grown((HOURS, RACE, GRADE), ("race", "grade"), trees, label=label, offsets=(0.0, 0.0, 0.125))


def _forest_of_twins() -> FairForest:
    """Clerks and nurses are twins, and every split that reads the job sends both the same way."""
    model = _forest_without_job()
    return FairForest.of(model.about(model.domain.with_twins("job: clerk<->nurse")))


def _forest_without_job() -> FairForest:
    trees = [("job", {"smith"}, ("income", 20.25, -1.0, 1.0), ("hours", 6, 0.5, -0.25)), ("hours", 3, 0.125, -0.5)]
    return grown((HOURS, INCOME, JOB, OWNER), ("owner",), trees)


_FORESTS: dict[str, Callable[[], FairForest]] = {
    "forest": lambda: _forest(0.0).certified(timeout=10),
    "forest, by bounds": lambda: _forest(0.03125).certified(timeout=10),
    "forest, falsified": lambda: _forest(3.0).certified(timeout=10),
    "forest, undecided": lambda: _forest(3.0),
    "forest of shares": lambda: _forest_of_shares().certified(timeout=10),
    "forest of classes": lambda: _forest_of_classes().certified(timeout=10),
    "forest of twins": lambda: _forest_of_twins().certified(timeout=10),
}
FORESTS = tuple(_FORESTS)

_MODELS: dict[str, Callable[[], FairModel | FairForest]] = {
    "structural": _structural,
    "ignoring": _ignoring,
    "bounds": _bounds,
    "elsewhere": _elsewhere,
    "falsified": _falsified,
    "undecided": _undecided,
    "cancelling": _cancelling,
    "dead end": _dead_end,
    "cancelling neurons": _cancelling_neurons,
    "classes": _classes,
    "exact": _exact,
    "tanh": _tanh,
    "held": _held,
}
KINDS = tuple(_MODELS)
_MODELS |= _FORESTS


# --- forging ---


@dataclasses.dataclass
class Forgery:
    """A bundle taken apart: change what you like, then seal it."""

    model: onnx.ModelProto
    domain: dict[str, Any]
    certificate: dict[str, Any]

    @staticmethod
    def of(files: Files) -> Forgery:
        return Forgery(
            onnx.load_from_string(files["model.onnx"]),
            json.loads(files["domain.json"]),
            json.loads(files["certificate.json"]),
        )

    def constant(self, name: str) -> np.ndarray:
        return numpy_helper.to_array({t.name: t for t in self.model.graph.initializer}[name]).copy()

    def put(self, name: str, values: Any) -> None:
        tensor = {t.name: t for t in self.model.graph.initializer}[name]
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(values), name))

    def claim(
        self, verdict: str, proof: str = "none", arithmetic: Any = (), tree: Any = None, **others: Any
    ) -> Forgery:
        self.certificate.update(
            {"verdict": verdict, "proof": proof, "arithmetic": list(arithmetic), "tree": tree}
            | {"twins": None, "decisions": None}
            | others
        )
        return self

    def restated(self) -> Forgery:
        """Property and claim as they should read, so that only what was shown can be wrong."""
        facts = self.certificate
        try:
            facts["property"] = checker.property_of(checker.Individuals(copy.deepcopy(self.domain)))
            stated = facts["verdict"], facts["proof"], facts["arithmetic"], self.domain["sensitive"], facts["reason"]
            facts["claim"] = checker.claim_of(*stated, self.domain.get("twins", []), rounds=self.rounds())
        except (checker.Rejected, *checker.MALFORMED, ArithmeticError):
            pass
        return self

    @property
    def executed(self) -> str:
        """The arithmetic in which the graph is executed."""
        return "float64" if any(node.op_type == "TreeEnsemble" for node in self.model.graph.node) else "float32"

    def rounds(self) -> bool:
        """Whether sums of trees may round, as the checker finds; a claim about them must say so."""
        try:
            people = checker.Individuals(copy.deepcopy(self.domain))
            found = checker.read_model(self.model.SerializeToString(), people)
        except (checker.Rejected, *checker.MALFORMED):
            return False
        return isinstance(found, checker.ForestGraph) and not found.adds_exactly

    def sealed(self) -> Files:
        """The three files, with every digest as it should be."""
        return sealed(self.model.SerializeToString(deterministic=True), self.domain, self.certificate)


def sealed(model: bytes, domain: Any, certificate: dict[str, Any]) -> Files:
    people = domain if isinstance(domain, bytes) else json.dumps(domain).encode()
    facts = copy.deepcopy(certificate)
    facts["files"] = {
        "model.onnx": hashlib.sha256(model).hexdigest(),
        "domain.json": hashlib.sha256(people).hexdigest(),
    }
    facts["sha256"] = checker.digest_of(facts)
    return {"model.onnx": model, "domain.json": people, "certificate.json": json.dumps(facts).encode()}


def answer(files: Files) -> dict[str, Any]:
    """What the checker says of files. Any other exception than its own is a crash, and is let through."""
    try:
        return checker.check_files(files)
    except (checker.Rejected, *checker.MALFORMED) as error:
        return {"valid": False, "reason": f"{type(error).__name__}: {error}"}
