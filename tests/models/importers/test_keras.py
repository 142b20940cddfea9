"""Keras files, written here by their published layout: .h5 of Keras 2 and 3, and .keras archives."""

from __future__ import annotations

import json
import math
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.importers import keras_file
from bornfair.importers.dense_stack import Step
from bornfair.questions.loading import load_model
from interop_models import WIDTH, disagreements, people, random_layer
from keras_files import Weights, config_of, dense, layer, outputs_of, stack, write_h5, write_keras

pytestmark = pytest.mark.slow


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


FIRST, LAST = random_layer(np.random.default_rng(0), WIDTH, 5), random_layer(np.random.default_rng(1), 5, 1)


def hidden_of(rows: Any) -> np.ndarray:
    return (rows.to_numpy(float) * [0.02, 0.03, 0.5, 0.3] - 0.5) @ FIRST[0] + FIRST[1]


LAST = (LAST[0], -np.median(np.maximum(hidden_of(people().sample(500, seed=0)), 0) @ LAST[0], axis=0))
SMALL: Weights = {
    "dense": list(zip(["kernel", "bias"], FIRST, strict=True)),
    "dense_1": list(zip(["kernel", "bias"], LAST, strict=True)),
}
FUNCTION = {"module": "builtins", "class_name": "function", "config": "relu", "registered_name": "function"}


def small(activation: Any, *others: dict[str, Any]) -> list[dict[str, Any]]:
    shrink = layer("Rescaling", "rescaling_0", scale=[0.02, 0.03, 0.5, 0.3], offset=-0.5)
    return [shrink, dense("dense", 5, activation), *others, dense("dense_1", 1, "linear")]


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        (layer("ReLU", "relu", max_value=1.0), lambda z: np.clip(z, 0, 1)),
        (layer("ReLU", "relu", negative_slope=0.2, max_value=None), lambda z: np.where(z > 0, z, 0.2 * z)),
        (layer("ReLU", "tanh"), lambda z: np.maximum(z, 0)),
        (layer("LeakyReLU", "relu", alpha=0.5), lambda z: np.where(z > 0, z, 0.5 * z)),
        (layer("Activation", "relu", activation="tanh"), np.tanh),
        (FUNCTION, lambda z: np.maximum(z, 0)),
    ],
)
@pytest.mark.parametrize("place", ["of Dense", "of Activation"])
def test_a_layer_in_the_place_of_a_function_keeps_its_settings(
    activation: dict[str, Any], function: Any, place: str, tmp_path: Path
) -> None:
    """Its name says nothing about what it computes."""
    layers = (
        small(activation) if place == "of Dense" else small("linear", layer("Activation", "a", activation=activation))
    )
    model = load_model(write_h5(tmp_path / "m.h5", config_of(layers, 3), SMALL, 3), domain=people())
    rows = model.domain.sample(500, seed=5)
    assert np.allclose(model.scores(rows), function(hidden_of(rows)) @ LAST[0] + LAST[1], atol=1e-4)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (layer("ReLU", "r", threshold=0.5), r"layer 'r' \(ReLU\) has a threshold"),
        (
            layer("ReLU", "r", max_value=1.0, negative_slope=0.1),
            r"layer 'r' \(ReLU\) has a threshold, or a slope and a",
        ),
        (layer("ReLU", "r", min_value=0.5), r"layer 'r' \(ReLU\) has min_value = 0.5, which is not supported"),
        (layer("Softmax", "s", axis=0), r"layer 's' \(Softmax\) has axis = 0, which"),
        (layer("Activation", "a", activation="gelu", approximate=True), "has approximate = True, which"),
        (layer("Flatten", "f", dtype="mixed_float16"), "has dtype = 'mixed_float16', which"),
        (layer("Flatten", "f", dtype={"class_name": "DTypePolicy", "config": {"name": "bfloat16"}}), "has dtype = {"),
        (layer("BatchNormalization", "b", renorm=True), "has renorm = True, which"),
        (layer("BatchNormalization", "b", virtual_batch_size=8), "has virtual_batch_size = 8, which"),
        (layer("BatchNormalization", "b", axis=0), "has axis = 0, which"),
        (layer("Normalization", "n", invert=True), "has invert = True, which"),
        (layer("Normalization", "n", mean=[1.0] * 5), r"has mean = \[1.0, 1.0, 1.0, 1.0, 1.0\], which"),
        (layer("LeakyReLU", "l", alpha=[0.1] * 5), r"has alpha = \[0.1, "),
        (
            {**layer("ReLU", "r"), "registered_name": "Custom>ReLU", "module": "mine"},
            r"\(ReLU\) of Custom>ReLU is not supp",
        ),
        ({**layer("ReLU", "r"), "module": "mine.layers"}, r"layer 'r' \(ReLU\) of mine.layers is not supported"),
        (layer("Activation", "a", activation=FUNCTION | {"module": "mine"}), "which is not supported; use relu, tanh"),
        (
            layer("Activation", "a", activation=FUNCTION | {"registered_name": "Custom>relu"}),
            "use relu, tanh or sigmoid",
        ),
        (layer("Activation", "a", activation=layer("ELU", "relu")), "use relu, tanh or sigmoid"),
        (
            layer("Activation", "a", activation=layer("ReLU", "relu", cap=1)),
            r"activation: layer 'relu' \(ReLU\) has cap",
        ),
        (dense("dense", 5, "relu") | {"config": {"name": "d", "lora_rank": 4}}, "has lora_rank = 4, which"),
        (layer("InputLayer", "i", batch_shape=[None, 5, 1]), r"has batch_shape = \[None, 5, 1\], which"),
        (layer("InputLayer", "i", dtype="int32"), "has dtype = 'int32', which"),
    ],
)
def test_a_setting_that_is_not_read_is_refused_by_layer_and_key(
    extra: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write_h5(tmp_path / "m.h5", config_of(small("relu", extra), 3), SMALL, 3)
    with pytest.raises(InputError, match=message):
        load_model(path, domain=people())


def test_settings_of_keras_2_and_3_that_matter_in_training_only_are_allowed(tmp_path: Path) -> None:
    policy = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}, "registered_name": None}
    more = {
        "trainable": True,
        "dtype": policy,
        "quantization_config": None,
        "kernel_initializer": {"class_name": "Zeros"},
    }
    saved = {"module": "keras.layers", "registered_name": None, "build_config": {}}
    added = {"Dense": more}
    newer = [{**one, **saved, "config": one["config"] | added.get(one["class_name"], {})} for one in small("relu")]
    older = [{**one, "config": {**one["config"], "trainable": True, "dtype": "float32"}} for one in small("relu")]
    for version, layers in ((3, newer), (2, older)):
        for kind in ("Sequential", "Functional"):
            config = config_of(json.loads(json.dumps(layers)), version, kind)
            path = write_h5(tmp_path / "m.h5", config, SMALL, version)
            assert disagreements(load_model(path, domain=people())) == 0
    path = write_keras(tmp_path / "m.keras", config_of(newer, 3), SMALL)
    assert disagreements(load_model(path, domain=people())) == 0


def test_a_normalisation_by_given_numbers_is_read(tmp_path: Path) -> None:
    mean, variance = [50.0, 30.0, 1.5, 0.0], [400.0, 300.0, 1.0, 8.0]
    given = layer("Normalization", "n", axis=[-1], mean=mean, variance=variance, invert=False)
    layers = [given, dense("dense", 5, "relu"), dense("dense_1", 1, "linear")]
    model = load_model(write_h5(tmp_path / "m.h5", config_of(layers, 3), SMALL, 3), domain=people())
    rows = model.domain.sample(500, seed=5)
    hidden = (rows.to_numpy(float) - mean) / np.sqrt(variance) @ FIRST[0] + FIRST[1]
    assert np.allclose(model.scores(rows), np.maximum(hidden, 0) @ LAST[0] + LAST[1], atol=1e-4)


@pytest.mark.parametrize("version", [2, 3])
def test_a_functional_model_that_calls_a_layer_otherwise_or_answers_earlier_is_refused(
    version: int, tmp_path: Path
) -> None:
    def refused(config: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_model(write_h5(tmp_path / "m.h5", config, SMALL, version), domain=people())

    layers = small("relu", layer("Dropout", "dropout", rate=0.5))
    earlier = config_of(json.loads(json.dumps(layers)), version, "Functional")
    earlier["config"]["output_layers"] = [["dropout", 0, 0]]
    refused(earlier, "its output_layers are 'dropout'; only a chain")
    training = config_of(json.loads(json.dumps(layers)), version, "Functional")
    (node,) = training["config"]["layers"][3]["inbound_nodes"]
    (node[0][3] if version == 2 else node["kwargs"]).update(training=True)
    refused(training, "layer 'dropout' is called with training = True, which is not supported")


def test_steps_that_were_misread_are_refused_by_the_formulas_of_the_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge computes from the raw configuration, so that it does not share a mistake of the reader."""
    path = write_h5(tmp_path / "m.h5", config_of(small("linear", layer("ReLU", "r", max_value=0.2)), 3), SMALL, 3)
    load_model(path, domain=people())
    monkeypatch.setitem(keras_file.READERS, "ReLU", lambda one: [Step("relu", one.label)])
    with pytest.raises(InputError, match="what was read of this model is not the model"):
        load_model(path, domain=people())


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


def _with_arrays(path: Path, counts: list[int], times: int = 1) -> Path:
    """A small .h5 file whose arrays of float32 are filled with one number, which takes no space."""
    layers, weights = stack()
    write_h5(path, config_of(layers, 3), weights, 3)
    with h5py.File(path, "a") as file:
        group = file["model_weights"].create_group("more")
        for i, count in enumerate(counts):
            group.create_dataset(f"w{i}", shape=(count,), dtype="f4", chunks=(min(count, 1 << 20),), fillvalue=0)
        group.attrs["weight_names"] = np.array([f"w{i}" for i in range(len(counts))] * times, "S2")
    return path


def test_all_arrays_together_are_limited_before_one_is_read(tmp_path: Path) -> None:
    count = limits.KERAS_BYTES // 8
    path = _with_arrays(tmp_path / "m.h5", [count // 2] * 3)
    assert path.stat().st_size < 200_000
    with pytest.raises(InputError, match=r"weights are too many or take more than 268,435,456 bytes"):
        load_model(path, domain=people())
    with pytest.raises(InputError, match=r"weights are too many"):
        load_model(_with_arrays(tmp_path / "m.h5", [1000], limits.KERAS_ARRAYS), domain=people())
    load_model(_with_arrays(tmp_path / "m.h5", [1000] * 3), domain=people())


def test_a_keras_archive_is_not_unpacked_beyond_its_limits(tmp_path: Path) -> None:
    for large, most in (("config.json", limits.KERAS_TEXT), ("model.weights.h5", limits.KERAS_BYTES)):
        with zipfile.ZipFile(tmp_path / "m.keras", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name in ("config.json", "model.weights.h5"):
                with archive.open(name, "w", force_zip64=True) as stream:
                    for _ in range(most // 2**24 + 1 if name == large else 0):
                        stream.write(bytes(2**24))
        with pytest.raises(InputError, match=rf"{large} in it is larger than {most:,} bytes"):
            load_model(tmp_path / "m.keras", domain=people())


def test_the_process_that_reads_arrays_is_limited_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = tmp_path / "strict.py"
    text = Path(limits.__file__).read_text()
    strict.write_text(text.replace("READER_BYTES = 3 << 30", "READER_BYTES = 1 << 28"))
    monkeypatch.setattr(limits, "__file__", str(strict))
    load_model(_with_arrays(tmp_path / "m.h5", []), domain=people())
    with pytest.raises(InputError, match=r"m\.h5"):
        load_model(_with_arrays(tmp_path / "m.h5", [20_000_000]), domain=people())


def test_a_file_that_crashes_the_hdf5_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read by a process of its own, so that a crash there is an answer here."""
    (tmp_path / "m.h5").write_bytes(b"whatever")
    crashed = subprocess.CompletedProcess([], -11, b"", b"")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: crashed)
    with pytest.raises(InputError, match="breaks the HDF5 library"):
        load_model(tmp_path / "m.h5", domain=people())
