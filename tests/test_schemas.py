"""The published JSON Schemas are those of the code, and they judge files as the code does."""

import json
from pathlib import Path

import jsonschema
import pytest

from bornfair import Domain

PUBLISHED = Path(__file__).parent.parent / "docs" / "schemas" / "domain.schema.json"


def test_the_published_schema_is_current():
    assert json.loads(PUBLISHED.read_text()) == Domain.json_schema()


def test_saved_domains_follow_the_schema(people):
    domain = Domain.infer(people, target="grant", sensitive=["sex", "race"], combinations="observed")
    jsonschema.validate(json.loads(domain.model_dump_json()), json.loads(PUBLISHED.read_text()))


def test_the_schema_refuses_what_the_code_refuses():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"features": [{"kind": "image", "name": "x"}]}, json.loads(PUBLISHED.read_text()))
