"""Keras files, written here by their published layout: .h5 of Keras 2 and 3, and .keras archives."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bornfair.errors import InputError
from bornfair.question.loading import load_model
from interop_models import WIDTH, disagreements, people, random_layer
from keras_files import Weights, config_of, dense, layer, outputs_of, stack, write_h5, write_keras


@pytest.mark.parametrize(("activation", "version"), [("relu", 2), ("relu", 3), ("tanh", 2), ("sigmoid", 3)])
def test_a_stack_in_h5_decides_as_its_layers_say(activation: str, version: int, tmp_path: Path) -> None:
    layers, weights = stack(activation)
    kind = "Sequential" if activation == "relu" else "Functional"
    path = write_h5(tmp_path / "m.h5", config_of(layers, version, kind), weights, version)
    model = load_model(path, domain=people())
    assert disagreements(model) == 0
    rows = model.domain.sample(1_000, seed=5)
    logits = outputs_of(layers, weights, rows.to_numpy(float))
    assert np.allclose(model.scores(rows), logits, atol=1e-4 * (1 + np.abs(logits).max()))
    assert model.network.widths == (WIDTH, 6, 5, 1)


def test_a_keras_archive_decides_as_its_layers_say(tmp_path: Path) -> None:
    layers, weights = stack("relu", "softmax", 3)
    model = load_model(write_keras(tmp_path / "m.keras", config_of(layers, 3), weights), domain=people())
    assert disagreements(model) == 0
    assert model.network.outputs == len(model.classes) == 3
    rows = model.domain.sample(1_000, seed=5)
    logits = outputs_of(layers, weights, rows.to_numpy(float))
    ranked = np.sort(logits, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 1e-3
    assert (model.predict(rows)[clear] == np.argmax(logits, axis=1)[clear]).all()


@pytest.mark.parametrize(
    ("extra", "function"),
    [
        (layer("ReLU", "re_lu", max_value=0.8), lambda z: np.clip(z, 0, 0.8)),
        (layer("ReLU", "re_lu", negative_slope=0.1), lambda z: np.where(z > 0, z, 0.1 * z)),
        (layer("LeakyReLU", "leaky_re_lu", alpha=0.3), lambda z: np.where(z > 0, z, 0.3 * z)),
        (layer("Rescaling", "rescaling", scale=0.5, offset=0.1), lambda z: 0.5 * z + 0.1),
        (layer("Activation", "activation", activation="gelu"), None),
    ],
    ids=["ReLU with a maximum", "ReLU with a slope", "LeakyReLU", "Rescaling", "gelu"],
)
def test_activations_as_layers_of_their_own_are_read(extra: dict[str, Any], function: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    first, last = random_layer(random, WIDTH, 5), random_layer(random, 5, 1)
    shrink = layer("Rescaling", "rescaling_0", scale=[0.02, 0.03, 0.5, 0.3], offset=-0.5)
    layers = [shrink, dense("dense", 5, "linear"), extra, dense("dense_1", 1, "linear")]
    weights: Weights = {
        "dense": list(zip(["kernel", "bias"], first, strict=True)),
        "dense_1": list(zip(["kernel", "bias"], last, strict=True)),
    }
    model = load_model(write_h5(tmp_path / "m.h5", config_of(layers, 3), weights, 3), domain=people())
    rows = model.domain.sample(500, seed=5)
    hidden = (rows.to_numpy(float) * [0.02, 0.03, 0.5, 0.3] - 0.5) @ first[0] + first[1]
    if function is None:
        erf = np.vectorize(math.erf)
        reached = hidden * 0.5 * (1 + erf(hidden / math.sqrt(2)))
    else:
        reached = function(hidden)
    assert np.allclose(model.scores(rows), reached @ last[0] + last[1], atol=1e-4)


def test_what_cannot_be_read_of_a_keras_file_is_named(tmp_path: Path) -> None:
    layers, weights = stack()
    config = config_of(layers, 3)

    def refused(changed: dict[str, Any], message: str, arrays: Weights = weights) -> None:
        with pytest.raises(InputError, match=message):
            load_model(write_h5(tmp_path / "m.h5", changed, arrays, 3), domain=people())

    swish, recurrent = json.loads(json.dumps(config)), json.loads(json.dumps(config))
    swish["config"]["layers"][2]["config"]["activation"] = "swish"
    refused(swish, r"layer 'dense' \(Dense\) has the activation 'swish'")
    recurrent["config"]["layers"][2]["class_name"] = "LSTM"
    refused(recurrent, r"layer 'dense' \(LSTM\) is not supported")
    branching = config_of(json.loads(json.dumps(layers)), 3, "Functional")
    branching["config"]["layers"][4]["inbound_nodes"] = branching["config"]["layers"][2]["inbound_nodes"]
    refused(branching, "only a chain of layers")
    refused(config, r"weights of the shapes \[\]", {k: v for k, v in weights.items() if k != "dense"})
    broken = {**weights, "dense": [("kernel", np.full((WIDTH, 6), np.nan)), weights["dense"][1]]}
    refused(config, "something else than finite numbers", broken)


def test_broken_and_linked_keras_files_are_refused(tmp_path: Path) -> None:
    layers, weights = stack()
    path = write_h5(tmp_path / "m.h5", config_of(layers, 3), weights, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a Keras model that can be read"):
        load_model(path, domain=people())
    path.write_bytes(whole)
    with h5py.File(path, "a") as file:
        del file["model_weights"]["dense"]
        file["model_weights"]["dense"] = h5py.ExternalLink("/etc/hosts", "/")
    with pytest.raises(InputError, match="missing or a link to elsewhere"):
        load_model(path, domain=people())
    with h5py.File(path, "w") as file:
        file["x"] = 1
    with pytest.raises(InputError, match="no model_config"):
        load_model(path, domain=people())
    (tmp_path / "m.keras").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(InputError, match="Keras"):
        load_model(tmp_path / "m.keras", domain=people())


def test_a_file_that_crashes_the_hdf5_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read by a process of its own, so that a crash there is an answer here."""
    (tmp_path / "m.h5").write_bytes(b"whatever")
    crashed = subprocess.CompletedProcess([], -11, b"", b"")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: crashed)
    with pytest.raises(InputError, match="breaks the HDF5 library"):
        load_model(tmp_path / "m.h5", domain=people())
