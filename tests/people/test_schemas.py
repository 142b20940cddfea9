"""The published JSON Schemas are those of the code, and they judge files as the code does."""

import json

import jsonschema
import pytest

from bornfair import Domain, FairClassifier, FairModel
from bornfair.proof.bundle import bundle_files
from bundle_cases import FORESTS, bundle
from samples import CERTIFICATE_SCHEMA as CERTIFICATE
from samples import DOMAIN_SCHEMA as PUBLISHED
from samples import make_people

pytestmark = pytest.mark.slow


def test_the_published_schema_is_current():
    assert json.loads(PUBLISHED.read_text()) == Domain.json_schema()


def test_saved_domains_follow_the_schema(people):
    domain = Domain.infer(people, target="grant", sensitive=["sex", "race"], combinations="observed")
    jsonschema.validate(json.loads(domain.model_dump_json()), json.loads(PUBLISHED.read_text()))


def test_the_schema_refuses_what_the_code_refuses():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"features": [{"kind": "image", "name": "x"}]}, json.loads(PUBLISHED.read_text()))


@pytest.fixture(scope="module")
def certificates():
    """One of each kind, as written to bundles: structural, by bounds, falsified, undecided."""
    table = make_people(200, seed=1)
    X, y = table.drop(columns="grant"), table["grant"]
    quick = {"epochs": 3, "hidden": (8, 4)}
    fair = FairClassifier(["sex"], **quick).fit(X, y)
    models = {
        "structural": fair.model_,
        "bounds": FairClassifier(["income"], response="none", **quick).fit(X, y).certify(timeout=20).model_,
        "falsified": FairClassifier(["sex"], response="none", **quick).fit(X, y).certify(timeout=20).model_,
        "undecided": FairModel(fair.model_.network, fair.model_.encoding),
    }
    return {name: json.loads(bundle_files(model)["certificate.json"]) for name, model in models.items()}


@pytest.mark.parametrize("kind", ["structural", "bounds", "falsified", "undecided"])
def test_certificates_follow_the_schema(certificates, kind):
    found = certificates[kind]
    assert kind in (found["proof"], found["verdict"])
    jsonschema.validate(found, json.loads(CERTIFICATE.read_text()))


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "fair"}, {"arithmetic": ["float16"]}, {"tree": [["age"]]}, {"twins": []}, {"surprise": 1},
        {"files": {"model.onnx": "short"}}, {"property": {}}, {"sha256": None},
    ],
)  # fmt: skip
def test_the_certificate_schema_refuses_other_things(certificates, change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(certificates["structural"] | change, json.loads(CERTIFICATE.read_text()))


@pytest.mark.parametrize("kind", FORESTS)
def test_certificates_of_forests_follow_the_schema(kind):
    jsonschema.validate(json.loads(bundle(kind)["certificate.json"]), json.loads(CERTIFICATE.read_text()))


def test_the_documentation_names_every_field():
    text = (PUBLISHED.parent.parent / "certificate.md").read_text()
    for field in json.loads(CERTIFICATE.read_text())["required"]:
        assert f"`{field}`" in text, field
