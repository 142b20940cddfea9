"""Bundles: whole or not at all, and refused when they do not hold together."""

import json

import numpy as np
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

from bornfair import FairClassifier, load
from bornfair.errors import InputError
from conftest import make_people


@pytest.fixture(scope="module")
def classifier():
    table = make_people(120, seed=2)
    return FairClassifier(["sex"], epochs=2, hidden=(8,)).fit(table.drop(columns="grant"), table["grant"])


@pytest.fixture
def bundle(classifier, tmp_path):
    return classifier.save(tmp_path / "bundle")


def test_a_folder_of_other_things_is_left_alone(classifier, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "thesis.txt").write_text("ten years")
    with pytest.raises(
        InputError, match=r"exists and is not a bornfair result .* so it is left alone; name a new folder"
    ):
        classifier.save(work)
    assert [p.name for p in work.iterdir()] == ["thesis.txt"] and [p.name for p in tmp_path.iterdir()] == ["work"]


def test_nothing_is_left_behind_when_writing_fails(classifier, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("disk on fire")

    monkeypatch.setattr("bornfair.bundle.tensor_bytes", fail)
    with pytest.raises(RuntimeError, match=r"disk on fire"):
        classifier.save(tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(classifier, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write '.*file/bundle'"):
        classifier.save(tmp_path / "file" / "bundle")


def changed_weight(folder):
    tensors = read_tensors((folder / "model.safetensors").read_bytes())
    tensors["layer0.weight"] = tensors["layer0.weight"] + np.float32(1e-3)
    (folder / "model.safetensors").write_bytes(tensor_bytes(tensors))


def other_shape(folder):
    tensors = read_tensors((folder / "model.safetensors").read_bytes())
    tensors["layer0.weight"] = tensors["layer0.weight"][:, 1:].copy()
    (folder / "model.safetensors").write_bytes(tensor_bytes(tensors))


def edited(name, change):
    def edit(folder):
        data = json.loads((folder / name).read_text())
        change(data)
        (folder / name).write_text(json.dumps(data))

    return edit


def truncated(name):
    def cut(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return cut


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (changed_weight, "the certificate is about another network"),
        (other_shape, "the network has 9 inputs and 1 outputs, but its domain needs 10 and 1"),
        (truncated("model.safetensors"), "cannot read '.*model.safetensors'"),
        (truncated("domain.json"), "is not JSON .* is it truncated"),
        (truncated("encoding.json"), "cannot read '.*encoding.json'"),
        (truncated("certificate.json"), "cannot read '.*certificate.json'"),
        (
            edited("encoding.json", lambda d: d["scales"].pop("age")),
            "scales are given for 'income', the domain's numbers are",
        ),
        (edited("encoding.json", lambda d: d.pop("fill")), "not an encoding of this domain"),
        (edited("encoding.json", lambda d: d.update(activation="exec")), "activation 'exec' is not known"),
        (edited("certificate.json", lambda d: d.update(surprise=1)), "is not a bornfair certificate"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot read '.*model.safetensors'"),
    ],
)
def test_damaged_bundles_are_refused(bundle, damage, message):
    damage(bundle)
    with pytest.raises(InputError, match=message):
        load(bundle)


def test_a_bundle_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no bundle '.*nowhere'; give the folder that training wrote"):
        load(tmp_path / "nowhere")
