"""Tables and models that the reference queries read, the same on every machine: seeded NumPy numbers, written by hand.

Forests of other libraries are fitted by the queries that need the library itself.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnx
import pandas as pd
from onnx import TensorProto, helper, numpy_helper

NUMBERS = ("age", "hours", "level", "woman")
CENTRE, SPREAD = np.array([35.0, 5.0, 1.0, 0.5]), np.array([9.0, 3.0, 0.8, 0.5])
PROGRAM = """
import csv, sys
for row in csv.DictReader(sys.stdin):
    print(int(float(row["age"]) + 2 * float(row["level"]) - 3 * float(row["woman"]) >= 35))
"""


def people(count: int = 300, seed: int = 7) -> pd.DataFrame:
    """People with every kind of column; sex and job matter."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": random.integers(18, 60, count),
            "income": random.integers(40, 240, count) / 4,
            "job": random.choice(["clerk", "nurse", "smith"], count),
            "owner": random.random(count) < 0.4,
            "sex": random.choice(["female", "male"], count),
            "race": random.choice(["a", "b", "c"], count),
        }
    )
    signal = (
        table["income"] / 15 + 2 * (table["sex"] == "male") + (table["job"] == "nurse") + random.normal(0, 1, count)
    )
    return table.assign(grant=np.where(signal > signal.median(), "yes", "no"))


def numbers(count: int = 300, seed: int = 3) -> pd.DataFrame:
    """Whole numbers alone, few enough to look at everybody: 1,800 people."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": random.integers(20, 50, count),
            "hours": random.integers(0, 10, count),
            "level": random.integers(0, 3, count),
            "woman": random.integers(0, 2, count),
        }
    )
    table.iloc[:2] = [[20, 0, 0, 0], [49, 9, 2, 1]]
    signal = table["age"] / 10 + table["level"] - table["woman"] + random.normal(0, 0.7, count)
    return table.assign(loan=(signal > signal.median()).astype(int))


def wide(count: int = 600, seed: int = 4) -> pd.DataFrame:
    """Whole numbers of wide ranges: too many people to look at one by one."""
    random = np.random.default_rng(seed)
    ends = {"age": (18, 90), "income": (0, 2000), "hours": (0, 100), "debt": (-500, 500), "woman": (0, 2)}
    table = pd.DataFrame({name: random.integers(*limits, count) for name, limits in ends.items()})
    signal = (
        table["income"] / 500 - table["debt"] / 400 + (table["age"] > 40) - 0.5 * table["woman"] * (table["hours"] > 60)
    )
    signal += random.normal(0, 0.5, count)
    return table.assign(loan=(signal > signal.median()).astype(int))


def write_inputs(place: Path) -> None:
    """All files that queries name, into an empty folder."""
    table = people()
    table.to_csv(place / "people.csv", index=False)
    table.drop(columns=["sex", "grant"]).to_csv(place / "bare.csv", index=False)
    _with_gaps(table).to_csv(place / "gaps.csv", index=False)
    newer = people(60, seed=8)
    newer.loc[:4, "age"], newer.loc[3:9, "job"] = 70, "pilot"
    newer.to_csv(place / "newer.csv", index=False)
    odd = table.assign(number=range(1000, 1000 + len(table)), paid=table["grant"].map({"yes": 1, "no": 0}), land="XX")
    odd["age"] = odd["age"].where(odd["age"] < 55, 999)
    odd.to_csv(place / "odd.csv", index=False, sep=";", decimal=",")
    wide().to_csv(place / "wide.csv", index=False)
    numbers().to_csv(place / "numbers.csv", index=False)
    numbers().drop(columns="loan").set_axis(["x0", "x1", "x2", "x3"], axis=1).to_csv(place / "renamed.csv", index=False)
    (place / "person.json").write_text(json.dumps({"x0": 30, "x1": 5, "x2": 2}))
    layers = layers_of(0.6)
    (place / "small.nnet").write_text(nnet(layers))
    (place / "mlp.onnx").write_bytes(mlp(layers))
    (place / "same.onnx").write_bytes(mlp(layers_of(0.0)))
    (place / "nearly.onnx").write_bytes(mlp(layers_of(0.04)))
    (place / "still.onnx").write_bytes(mlp(layers_of(0.01, shift=212 / 1024)))  # reads woman, and never enough
    (place / "unknown.onnx").write_bytes(wavy(reads_woman=True))
    (place / "wired.onnx").write_bytes(wavy(reads_woman=False))
    write_keras(place, layers)
    (place / "program.py").write_text(PROGRAM)
    (place / "broken.json").write_text("{")
    (place / "text.onnx").write_text("no graph")


def _with_gaps(table: pd.DataFrame) -> pd.DataFrame:
    random = np.random.default_rng(5)
    holes = pd.DataFrame(random.random((len(table), 2)) < 0.15, columns=["age", "job"])
    return table.assign(**{name: table[name].astype(object).mask(holes[name]) for name in holes})


# --- networks ---

Layers = list[tuple[np.ndarray, np.ndarray]]


def layers_of(woman: float, *, shift: float = 0.0) -> Layers:
    """Weights (outputs × inputs) and biases of a network that reads its last input with about that weight."""
    random = np.random.default_rng(11)
    first = random.normal(0, 1, (8, 4))
    first[:, 3] *= woman
    # Multiples of 1/1024: the same numbers in text, float32 and float64.
    exact = lambda values: np.round(np.asarray(values) * 1024) / 1024  # noqa: E731
    first = exact(first / SPREAD)
    second = exact(random.normal(0, 0.6, (6, 8)))
    third = exact(random.normal(0, 0.8, (1, 6)))
    return [
        (first, exact(-first @ CENTRE + random.normal(0, 0.3, 8))),
        (second, exact(random.normal(0, 0.3, 6))),
        (third, exact([shift - 0.3])),
    ]


def nnet(layers: Layers) -> str:
    """A .nnet file of people with the ranges of `numbers`."""
    sizes = [4, *(len(bias) for _, bias in layers)]
    lines = [
        f"{len(layers)},4,1,{max(sizes)},",
        ",".join(map(str, sizes)) + ",",
        "0,",
        "20,0,0,0,",
        "49,9,2,1,",
        "0,0,0,0,0,",
        "1,1,1,1,1,",
    ]
    for weight, bias in layers:
        lines += [",".join(repr(float(x)) for x in row) + "," for row in weight]
        lines += [f"{float(x)!r}," for x in bias]
    return "\n".join(["// a small network", *lines]) + "\n"


def mlp(layers: Layers) -> bytes:
    nodes, constants, value = [], [], "x"
    for i, (weight, bias) in enumerate(layers):
        for name, array in ((f"w{i}", weight), (f"b{i}", bias)):
            constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"z{i}"], transB=1))
        last = i == len(layers) - 1
        nodes.append(helper.make_node("Sigmoid" if last else "Relu", [f"z{i}"], ["y" if last else f"h{i}"]))
        value = f"h{i}"
    return _graph(nodes, constants, {"x": 4})


def wavy(*, reads_woman: bool) -> bytes:
    """A graph with an operator that has no bounds and an input for each column. It can only be run if it reads `woman`;
    else its wires are a proof.
    """
    shares = {"age": 0.0625, "hours": -0.125, "level": 0.5, "woman": 0.75 if reads_woman else None}
    nodes, constants, terms = [], [numpy_helper.from_array(np.array([[-2.0]], np.float32), "b")], ["b"]
    for name, share in shares.items():
        if share is not None:
            constants.append(numpy_helper.from_array(np.array([[share]], np.float32), f"w_{name}"))
            nodes.append(helper.make_node("Mul", [name, f"w_{name}"], [f"term_{name}"]))
            terms.append(f"term_{name}")
    nodes += [
        helper.make_node("Sum", terms, ["sum"]),
        helper.make_node("Sin", ["sum"], ["wave"]),
        helper.make_node("Sigmoid", ["wave"], ["y"]),
    ]
    return _graph(nodes, constants, dict.fromkeys(shares, 1))


def _graph(nodes: list[Any], constants: list[Any], given: dict[str, int]) -> bytes:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name, width in given.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])]
    graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return made.SerializeToString(deterministic=True)


def layer_name(i: int) -> str:
    return f"dense_{i}" if i else "dense"


def write_keras(place: Path, layers: Layers) -> None:
    """The same network as mlp.h5 and mlp.keras, in the layouts of Keras 3."""
    chain: list[dict[str, Any]] = [
        {"class_name": "InputLayer", "config": {"name": "input", "batch_shape": [None, 4]}},
    ]
    for i, (_, bias) in enumerate(layers):
        activation = "sigmoid" if i == len(layers) - 1 else "relu"
        settings = {"name": layer_name(i), "units": len(bias), "activation": activation, "use_bias": True}
        chain.append({"class_name": "Dense", "config": settings})
    config = json.dumps({"class_name": "Sequential", "config": {"name": "model", "layers": chain}})
    content = io.BytesIO()
    with h5py.File(content, "w") as archive, h5py.File(place / "mlp.h5", "w") as file:
        file.attrs["model_config"], file.attrs["keras_version"] = config, "3.4.0"
        root = file.create_group("model_weights")
        root.attrs["layer_names"] = [one["config"]["name"].encode() for one in chain]
        root.create_group("input").attrs["weight_names"] = []
        for i, (weight, bias) in enumerate(layers):
            group = root.create_group(layer_name(i))
            names = [f"sequential/{layer_name(i)}/{kind}" for kind in ("kernel", "bias")]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for at, (name, array) in enumerate(zip(names, (weight.T, bias), strict=True)):
                group.create_dataset(name, data=array.astype(np.float32))
                archive.create_dataset(f"layers/{layer_name(i)}/vars/{at}", data=array.astype(np.float32))
    with zipfile.ZipFile(place / "mlp.keras", "w") as whole:
        for name, data in (("config.json", config.encode()), ("model.weights.h5", content.getvalue())):
            whole.writestr(zipfile.ZipInfo(name), data)
