"""Bundles: whole or not at all, and refused when they do not hold together."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bornfair import FairClassifier, load
from bornfair.core.errors import InputError
from samples import make_people


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

    monkeypatch.setattr("bornfair.proof.bundle.render", fail)
    with pytest.raises(RuntimeError, match=r"disk on fire"):
        classifier.save(tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(classifier, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write '.*file/bundle'"):
        classifier.save(tmp_path / "file" / "bundle")


def reweighted(change):
    def edit(folder):
        model = onnx.load(folder / "model.onnx")
        tensor = next(t for t in model.graph.initializer if t.name == "weight 0")
        tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)), tensor.name))
        onnx.save(model, folder / "model.onnx")

    return edit


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
        (reweighted(lambda w: w + np.float32(1e-3)), "the certificate is about another model.onnx"),
        (reweighted(lambda w: w[:, 1:].copy()), "cannot read '.*bundle': two layers do not fit together"),
        (reweighted(lambda w: w * np.float32("nan")), "'weight 0' holds NaN or infinity"),
        (truncated("model.onnx"), "cannot read '.*bundle': .*cut off"),
        (truncated("domain.json"), "is not JSON .* is it truncated"),
        (truncated("certificate.json"), "certificate.json is not JSON"),
        (
            edited("domain.json", lambda d: d["features"].pop()),
            "the model has an input 'race' that is not in the domain",
        ),
        (edited("certificate.json", lambda d: d.update(claim="All is well.")), "or it was edited"),
        (edited("certificate.json", lambda d: d.update(surprise=1)), "or it was edited"),
        (lambda folder: (folder / "model.onnx").unlink(), "there is no 'model.onnx'"),
    ],
)
def test_damaged_bundles_are_refused(bundle, damage, message):
    damage(bundle)
    with pytest.raises(InputError, match=message):
        load(bundle)


def test_a_bundle_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        InputError, match=r"there is no bundle '.*nowhere'; give the folder or .zip that training wrote"
    ):
        load(tmp_path / "nowhere")


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    table = make_people(120, seed=2)
    for name in ("one", "two"):
        clf = FairClassifier(["sex"], epochs=2, hidden=(8,)).fit(table.drop(columns="grant"), table["grant"])
        clf.save(tmp_path / name)
        clf.save(tmp_path / f"{name}.zip")
    for file in ("model.onnx", "domain.json", "certificate.json", "report.html"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_model_nobody_examined_says_so(classifier, tmp_path):
    from bornfair import FairModel
    from bornfair.proof import checker

    FairModel(classifier.model_.network, classifier.model_.encoding).save(tmp_path / "bare")
    found = checker.check(tmp_path / "bare")
    assert (found["valid"], found["verdict"]) == (True, "undecided")
    assert found["claim"] == "Nothing about fairness is certified: this model was not examined."
