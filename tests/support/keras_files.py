"""Keras files, written by their published layout: .h5 of Keras 2 and 3, and .keras archives."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from interop_models import WIDTH, people, random_layer

Weights = dict[str, list[tuple[str, np.ndarray]]]


def dense(name: str, units: int, activation: Any, *, use_bias: bool = True) -> dict[str, Any]:
    settings = {"name": name, "units": units, "activation": activation, "use_bias": use_bias}
    return {"class_name": "Dense", "config": settings}


def layer(kind: str, name: str, **settings: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": name, **settings}}


def stack(activation: Any = "relu", last: str = "sigmoid", outputs: int = 1) -> tuple[list[dict[str, Any]], Weights]:
    """Every layer that is read, in one stack."""
    random = np.random.default_rng(4)
    numbers = [random.uniform(0.5, 1.5, 6) for _ in range(4)]
    layers = [
        layer("Normalization", "normalization", axis=[-1]),
        dense("dense", 6, activation),
        layer("BatchNormalization", "batch_normalization", epsilon=0.001, scale=True, center=True),
        layer("Dropout", "dropout", rate=0.5),
        layer("Flatten", "flatten"),
        dense("dense_1", 5, "linear", use_bias=False),
        layer("Activation", "activation", activation=activation),
        dense("dense_2", outputs, last),
    ]
    second, third = random_layer(random, 6, 5), random_layer(random, 5, outputs)
    weights: Weights = {
        "normalization": [
            ("mean", np.array([[50.0, 30, 1.5, 0]])),
            ("variance", np.array([[400.0, 300, 1, 8]])),
            ("count", np.array(200)),
        ],
        "dense": list(zip(["kernel", "bias"], random_layer(random, WIDTH, 6), strict=True)),
        "batch_normalization": list(zip(["gamma", "beta", "moving_mean", "moving_variance"], numbers, strict=True)),
        "dense_1": [("kernel", second[0])],
        "dense_2": [("kernel", 3 * third[0]), ("bias", np.zeros(outputs))],
    }
    bias = -np.median(outputs_of(layers, weights, people().sample(500, seed=0).to_numpy(float)), axis=0)
    weights["dense_2"][1] = ("bias", bias + 0.05)
    return layers, weights


def outputs_of(layers: list[dict[str, Any]], weights: Weights, rows: np.ndarray) -> np.ndarray:
    """The last layer before its activation, written out once more: the oracle of these tests."""
    act = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh, "sigmoid": lambda z: 1 / (1 + np.exp(-z))}
    get = {name: [value for _, value in arrays] for name, arrays in weights.items()}
    x = (rows - get["normalization"][0]) / np.sqrt(get["normalization"][1])
    name = layers[1]["config"]["activation"]
    x = act[name](x @ get["dense"][0] + get["dense"][1])
    gamma, beta, mean, variance = get["batch_normalization"]
    x = gamma * (x - mean) / np.sqrt(variance + 0.001) + beta
    x = act[name](x @ get["dense_1"][0])
    return x @ get["dense_2"][0] + get["dense_2"][1]


def config_of(layers: list[dict[str, Any]], version: int, kind: str = "Sequential") -> dict[str, Any]:
    key = "batch_input_shape" if version == 2 else "batch_shape"
    chain = [layer("InputLayer", "input", **{key: [None, WIDTH]}), *layers]
    if kind == "Functional":
        names = [one["config"]["name"] for one in chain]
        for i, one in enumerate(chain):
            before = names[i - 1] if i else None
            history = {"class_name": "__keras_tensor__", "config": {"keras_history": [before, 0, 0]}}
            inbound: Any = [[[before, 0, 0, {}]]] if version == 2 else [{"args": [history], "kwargs": {}}]
            one |= {"name": names[i], "inbound_nodes": inbound if i else []}
    ends = {key: [[chain[at]["config"]["name"], 0, 0]] for key, at in (("input_layers", 0), ("output_layers", -1))}
    return {"class_name": kind, "config": {"name": "model", "layers": chain, **(ends if kind == "Functional" else {})}}


def write_h5(path: Path, config: dict[str, Any], weights: Weights, version: int) -> Path:
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = f"{version}.4.0"
        root = file.create_group("model_weights")
        root.attrs["layer_names"] = [one["config"]["name"].encode() for one in config["config"]["layers"]]
        for one in config["config"]["layers"]:
            name = one["config"]["name"]
            group = root.create_group(name)
            ending, prefix = (":0", name) if version == 2 else ("", f"sequential/{name}")
            names = [f"{prefix}/{key}{ending}" for key, _ in weights.get(name, [])]
            group.attrs["weight_names"] = [n.encode() for n in names]
            for full, (_, value) in zip(names, weights.get(name, []), strict=True):
                group.create_dataset(full, data=np.asarray(value, np.float32))
    return path


def write_keras(path: Path, config: dict[str, Any], weights: Weights) -> Path:
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, arrays in weights.items():
            for i, (_, value) in enumerate(arrays):
                file.create_dataset(f"layers/{name}/vars/{i}", data=np.asarray(value, np.float32))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", content.getvalue())
    return path
