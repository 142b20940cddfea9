"""Small ONNX graphs made by hand, and the question every imported model is asked: does it decide as its original?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bornfair.importers.source import forward
from bornfair.models.network.network import decisions
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, IntegerFeature, RealFeature
from bornfair.proof.bundle import FairModel

WIDTH = 4  # how many numbers the graphs take


def people() -> Domain:
    """Four numbers of different sizes, one of them sensitive."""
    features = (
        IntegerFeature(name="age", low=17, high=90),
        RealFeature(name="income", low=0.0, high=60.0),
        IntegerFeature(name="group", low=0, high=3),
        RealFeature(name="debt", low=-5.0, high=5.0),
    )
    return Domain(features=features, sensitive=("group",))


def random_layer(random: np.random.Generator, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    weight = random.normal(0, 1 / np.sqrt(inputs), (inputs, outputs)).astype(np.float32)
    return weight, random.normal(0, 0.5, outputs).astype(np.float32)


class GraphMaker:
    """A graph in the making: each call adds one node and gives the name of its output."""

    def __init__(self, opset: int = 17) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.opset = opset

    def node(self, operator: str, *inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        made = [f"{operator.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        name = f"{operator.lower()} {len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, made, name=name, domain=domain or None, **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def gemm(self, value: str, weight: np.ndarray, bias: np.ndarray) -> str:
        return self.node("Gemm", value, weight.T.copy(), bias, transB=1)

    def dense(self, value: str, weight: np.ndarray, bias: np.ndarray) -> str:
        return self.node("Add", self.node("MatMul", value, weight), bias)

    def centred(self, scores: str) -> str:
        """Scores less their mean over random people, and spread out: then every class occurs."""
        import onnxruntime

        rows = people().sample(500, seed=1).to_numpy(np.float32)
        found = onnxruntime.InferenceSession(self.model([scores]).SerializeToString()).run(None, {"x": rows})[0]
        centre, spread = found.mean(axis=0).astype(np.float32), np.float32(3 / found.std())
        return self.node("Mul", self.node("Sub", scores, centre), spread)

    def model(
        self,
        outputs: Sequence[str],
        inputs: Sequence[tuple[str, int, list[Any]]] = (("x", TensorProto.FLOAT, ["n", WIDTH]),),
        kinds: Sequence[int] | None = None,
    ) -> Any:
        kinds = kinds or [TensorProto.FLOAT] * len(outputs)
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, kinds, strict=True)],
            self.constants,
        )
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, opset_imports=sets, ir_version=9)

    def save(self, path: Path, outputs: Sequence[str], **options: Any) -> Path:
        path.write_bytes(self.model(outputs, **options).SerializeToString())
        return path


def disagreements(model: FairModel, count: int = 10_000) -> int:
    """How many random people are decided otherwise than by the original, leaving out those on the very boundary.

    The network is computed by NumPy in float32: the compiler would take most of the time of these tests.
    """
    rows = model.domain.sample(count, seed=99)
    assert model.original is not None
    encoded = model.encoding.encode(rows)
    assert encoded.sensitive is not None
    scores = forward(model.network, np.concatenate([encoded.free, encoded.sensitive], axis=1), np.float32)
    if scores.shape[1] == 1:
        clear = np.abs(scores[:, 0]) > 1e-5 * (1 + np.abs(scores).max())
    else:
        ranked = np.sort(scores, axis=1)
        clear = ranked[:, -1] - ranked[:, -2] > 1e-5 * (1 + np.abs(scores).max())
    ours = model.classes[decisions(scores)]
    assert clear.mean() > 0.95  # the comparison is about nearly everybody
    assert len(set(ours.tolist())) > 1  # and not all get the same decision
    return int((clear & (ours != model.classes[model.original.decide(rows)])).sum())


def categories(name: str, *values: Any) -> CategoricalFeature:
    return CategoricalFeature(name=name, categories=values)


NNET = """// made by hand
2,2,1,2,
2,2,1,
0,
0,0,
9,1,
0,0,0,
1,1,1,
1.0,-2.0,
-1.0,0.5,
0.25,
-0.5,
1.0,3.0,
-4.0,
"""
