"""Nasty models of other people: odd heads, saturating layers, ties, tiny and huge weights; onnxruntime counts them out.

Each graph is built twice, node by node: as ONNX, and as a function in float64 that shares no code with the reader.
Every person of a small domain is decided by both. `run(count, seed)` says what was found; nothing may be in `wrong`.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto

from bornfair import quantify, verify
from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import IntegerFeature
from bornfair.verification.decide import Engine
from fuzzing import Summary
from interop_models import GraphMaker

SURE = 1e-6  # relative: margins below it are left to rounding
Numbers = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Value:
    """A value of the graph: its name there, and what it is for rows of the input."""

    name: str
    of: Numbers


@dataclass(frozen=True)
class End:
    """How a model decides: from what onnxruntime gives, and by margins in float64 [rows, classes], the largest wins."""

    output: str
    kind: int
    decided: Callable[[np.ndarray], np.ndarray]
    margins: Numbers
    asked: dict[str, Any] = field(default_factory=dict)


class Maker:
    def __init__(self, random: np.random.Generator, person: np.ndarray) -> None:
        self.random, self.graph = random, GraphMaker()
        self.person = person  # whom some models nearly tie for, [1, 3]

    def dense(self, given: Value, outputs: int, style: str, *, last: bool = False) -> Value:
        inputs = given.of(self.person).shape[1]
        weight, bias = self.random.normal(size=(inputs, outputs)), self.random.normal(size=outputs)
        if style == "halves":
            weight, bias = np.round(2 * weight) / 2, np.round(2 * bias) / 2
        elif style == "saturating":
            weight, bias = 20 * weight, 20 * bias
        elif style == "tiny":
            weight, bias = weight * 2.0**-20, bias * 2.0**-20
        elif style == "faint" and given.name == "x":
            weight[2] *= 2.0**-22  # the sensitive value is felt in the last digits only
        weight, bias = weight.astype(np.float32), bias.astype(np.float32)
        if last and self.random.random() < 0.4:
            bias -= (given.of(self.person) @ weight.astype(float) + bias.astype(float))[0].astype(np.float32)
        make = self.graph.gemm if self.random.random() < 0.5 else self.graph.dense
        return Value(make(given.name, weight, bias), lambda x: given.of(x) @ weight.astype(float) + bias.astype(float))

    def apply(self, operator: str, given: Value, function: Numbers, *more: Any, **attributes: Any) -> Value:
        return Value(self.graph.node(operator, given.name, *more, **attributes), lambda x: function(given.of(x)))

    def affine(self, given: Value, factor: float, plus: float) -> Value:
        times, shift = np.float32(factor), np.float32(plus)
        name = self.graph.node("Add", self.graph.node("Mul", given.name, times), shift)
        return Value(name, lambda x: given.of(x) * float(times) + float(shift))


def sigmoid(z: np.ndarray) -> np.ndarray:
    return np.where(z >= 0, 1 / (1 + np.exp(-np.abs(z))), np.exp(-np.abs(z)) / (1 + np.exp(-np.abs(z))))


def activated(make: Maker, given: Value, kind: str) -> Value:
    functions: dict[str, tuple[Numbers, tuple[Any, ...], dict[str, Any]]] = {
        "Relu": (lambda z: np.maximum(z, 0), (), {}),
        "LeakyRelu": (lambda z: np.where(z > 0, z, 0.25 * z), (), {"alpha": 0.25}),
        "Clip": (lambda z: np.clip(z, -1, 2), (np.float32(-1), np.float32(2)), {}),
        "HardSigmoid": (lambda z: np.clip(0.25 * z + 0.5, 0, 1), (), {"alpha": 0.25}),
        "Tanh": (np.tanh, (), {}),
        "Sigmoid": (sigmoid, (), {}),
    }
    function, more, attributes = functions[kind]
    return make.apply(kind, given, function, *more, **attributes)


# --- heads ---


def single(value: Value, threshold: float, asked: dict[str, Any] | None = None) -> End:
    def margins(x: np.ndarray) -> np.ndarray:
        score = value.of(x)[:, :1] - threshold
        return np.concatenate([-score, score], axis=1)

    decided = lambda shown: (shown[:, 0].astype(np.float64) > threshold).astype(int)  # noqa: E731
    return End(value.name, TensorProto.FLOAT, decided, margins, asked or {})


def probability(make: Maker, z: Value) -> Value:
    kind = make.random.choice(["sigmoid", "hard", "clip", "clipped sigmoid", "tanh", "smoothed", "falling", "mean"])
    if kind == "hard":
        return make.apply("HardSigmoid", z, lambda v: np.clip(0.25 * v + 0.5, 0, 1), alpha=0.25)
    if kind == "clip":
        return make.apply("Clip", z, lambda v: np.clip(v, 0, 1), np.float32(0), np.float32(1))
    if kind == "tanh":
        return make.affine(make.apply("Tanh", z, np.tanh), 0.5, 0.5)
    p = make.apply("Sigmoid", z, sigmoid)
    if kind == "clipped sigmoid":
        low, high = np.float32(0.001), np.float32(0.999)
        return make.apply("Clip", p, lambda v: np.clip(v, float(low), float(high)), low, high)
    if kind == "smoothed":
        return make.affine(p, 0.98, 0.01)
    if kind == "falling":
        return make.affine(p, -1.0, 1.0)
    if kind == "mean":
        return make.affine(make.affine(p, 0.5, 0.0), 1.0, 0.25)
    return p


def labelled(make: Maker, value: Value, threshold: float) -> End:
    at = np.float32(threshold)
    operator = str(make.random.choice(["Greater", "GreaterOrEqual", "Less"]))
    condition = make.graph.node(operator, value.name, at)
    sign = -1.0 if operator == "Less" else 1.0
    output = make.graph.node("Cast", condition, to=TensorProto.INT64)

    def margins(x: np.ndarray) -> np.ndarray:
        score = sign * (value.of(x)[:, :1] - float(at))
        return np.concatenate([-score, score], axis=1)

    return End(output, TensorProto.INT64, lambda shown: shown.ravel(), margins)


def several(make: Maker, z: Value, kind: str) -> End:
    names = {"softmax": "Softmax", "log": "LogSoftmax", "sigmoids": "Sigmoid", "logits": "Identity"}
    shown = make.apply(names[kind], z, lambda v: v)  # of monotone functions the first largest is the same
    if make.random.random() < 0.5:
        output = make.graph.node("ArgMax", shown.name, axis=1, keepdims=0)
        return End(output, TensorProto.INT64, lambda found: found.ravel(), z.of)
    return End(shown.name, TensorProto.FLOAT, lambda found: np.argmax(found, axis=1), z.of)


def end_of(make: Maker, body: Value, style: str, bounded: bool) -> End:
    kind = make.random.choice(["logit", "probability", "threshold", "label", "three", "two", "unclear"])
    if kind in ("three", "two"):
        z = make.dense(body, 3 if kind == "three" else 2, style, last=True)
        return several(make, z, str(make.random.choice(["softmax", "log", "sigmoids", "logits"])))
    z = make.dense(body, 1, style, last=True)
    if kind == "logit":  # a sum of bounded values may be a probability: then it must be said that it is none
        return single(z, 0.0, {"decision": "logit"} if bounded else {})
    if kind == "unclear":
        return single(make.apply("Relu", z, lambda v: np.maximum(v, 0)), 0.25, {"threshold": 0.25})
    p = probability(make, z)
    if kind == "probability":
        return single(p, 0.5)
    threshold = float(make.random.choice([0.5, 0.3, 0.75, 0.9375]))
    return labelled(make, p, threshold) if kind == "label" else single(p, threshold, {"threshold": threshold})


def random_model(path: Path, seed: int) -> tuple[Domain, End]:
    random = np.random.default_rng([seed, 1212])
    low = int(random.choice([0, -4, 1000]))
    make = Maker(random, np.array([[low + random.integers(8), random.integers(-3, 4), random.integers(2)]], np.float64))
    features = (
        IntegerFeature(name="a", low=low, high=low + 7),
        IntegerFeature(name="b", low=-3, high=3),
        IntegerFeature(name="s", low=0, high=int(random.integers(1, 3))),
    )
    body = Value("x", lambda x: x)
    style = str(random.choice(["normal", "faint", "halves", "saturating", "tiny"]))
    if random.random() < 0.4:
        shift = np.array([low + 3, 0, 0], np.float32)
        scale = np.array([3, 2, random.choice([1, 1e4, 1e-3])], np.float32)
        name = make.graph.node("Div", make.graph.node("Sub", "x", shift), scale)
        body = Value(name, lambda x: (x - shift.astype(float)) / scale.astype(float))
    family = [["Relu", "LeakyRelu", "Clip", "HardSigmoid"], ["Tanh", "Sigmoid"]][int(random.random() < 0.4)]
    kind = "Relu"
    for _ in range(int(random.integers(0, 3))):
        kind = "Relu" if random.random() < 0.4 and family[0] == "Relu" else str(random.choice(family))
        body = activated(make, make.dense(body, int(random.integers(1, 5)), style), kind)
    end = end_of(make, body, style, kind not in ("Relu", "LeakyRelu"))
    make.graph.save(path, [end.output], inputs=[("x", TensorProto.FLOAT, ["n", 3])], kinds=[end.kind])
    return Domain(features=features, sensitive=("s",)), end


# --- the judge ---


@dataclass(frozen=True)
class Truth:
    """Everybody's decisions [people, versions]: as executed, and in float64 with how sure they are."""

    people: list[tuple[int, int]]
    executed: np.ndarray
    exact: np.ndarray
    sure: np.ndarray

    @property
    def unfair_as_executed(self) -> bool:
        return bool((self.executed != self.executed[:, :1]).any())

    def surely_unfair(self) -> np.ndarray:
        """People two of whose versions are surely decided differently by exact numbers."""
        least = np.where(self.sure, self.exact, 99).min(axis=1)
        most = np.where(self.sure, self.exact, -1).max(axis=1)
        return (least < most) & (most >= 0) & (least < 99)

    def surely_fair(self) -> np.ndarray:
        return self.sure.all(axis=1) & (self.exact == self.exact[:, :1]).all(axis=1)


def truth(path: Path, domain: Domain, end: End) -> Truth:
    a, b, s = (list(feature.levels()) for feature in domain.features)
    people = list(itertools.product(a, b))
    rows = np.array([(*person, value) for person in people for value in s], np.float64)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    executed = end.decided(np.asarray(session.run(None, {"x": rows.astype(np.float32)})[0]))
    margins = end.margins(rows)
    ranked = np.sort(margins, axis=1)
    sure = ranked[:, -1] - ranked[:, -2] > SURE * (np.abs(margins).max() + 1e-30)
    shape = (len(people), len(s))
    return Truth(people, executed.reshape(shape), margins.argmax(axis=1).reshape(shape), sure.reshape(shape))


def mistake(
    path: Path, domain: Domain, end: End, known: Truth, found: Counter[str], engine: Engine = "bounds"
) -> str | None:
    """What is wrong with what we say of a model, or None."""
    try:
        verdict = verify(path, domain, engine=engine, timeout=10, **end.asked)
    except InputError as error:
        found["refused, is not the model" if "is not the model" in str(error) else "refused, cannot be read"] += 1
        return None
    found[verdict.answer + (" as read" if verdict.as_read else "")] += 1
    if verdict.answer == "verified" and "float32" in verdict.arithmetic and known.unfair_as_executed:
        return f"verified in {verdict.arithmetic} ({verdict.reason}), but onnxruntime tells twins apart"
    if verdict.answer == "verified" and known.surely_unfair().any():
        person = known.people[int(np.argmax(known.surely_unfair()))]
        return f"verified in {verdict.arithmetic} ({verdict.reason}), but exact numbers tell {person} apart"
    if verdict.answer == "falsified":
        assert verdict.twins is not None
        versions = [known.people.index((twin["a"], twin["b"])) for twin in verdict.twins]
        decided = [known.executed[row, twin["s"]] for row, twin in zip(versions, verdict.twins, strict=True)]
        if len(set(versions)) != 1 or decided[0] == decided[1]:
            return f"falsified in {verdict.arithmetic} by {verdict.twins}, whom onnxruntime decides {decided}"
    if verdict.answer == "verified" and known.unfair_as_executed:
        found["of these, told apart by rounding alone"] += 1
    return None


def share_mistake(path: Path, domain: Domain, end: End, known: Truth) -> str | None:
    try:
        shares = quantify(path, domain, timeout=2, **end.asked)
    except InputError:
        return None
    not_unfair, not_fair = 1 - known.surely_unfair().mean(), 1 - known.surely_fair().mean()
    if shares.certified > not_unfair + 1e-9 or shares.falsified > not_fair + 1e-9:
        return f"shares {shares.certified}, {shares.falsified}, where at most {not_unfair}, {not_fair} can be"
    return None


def run(count: int, seed: int) -> Summary:
    """What came of so many models: how often each answer was given, and everything that was wrong."""
    summary = Summary(count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        for case in range(seed * 1_000_003, seed * 1_000_003 + count):
            domain, end = random_model(path, case)
            known = truth(path, domain, end)
            problem = mistake(path, domain, end, known, summary.outcomes, "auto" if case % 10 == 3 else "bounds")
            if problem is None and case % 10 == 0:
                problem = share_mistake(path, domain, end, known)
            if problem is not None:
                summary.wrong.append(f"model {case}: {problem}")
    return summary
