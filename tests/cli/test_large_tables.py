"""Commands that read a table whole look at a sample of a large one; who could exist is read from all its rows."""

import json
import sys

import pandas as pd
import pytest

from bornfair.core import limits
from bornfair.people import survey
from bornfair.people.sources import is_streamed
from bornfair.questions import Question
from samples import bornfair

PROGRAM = (
    "import csv, sys\nfor row in csv.DictReader(sys.stdin):\n    print('yes' if int(row['age']) >= 90 else 'no')\n"
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A table of 3,000 rows, one of which is 99 years old, and limits that call it large."""
    ages = [20 + row % 40 for row in range(2_999)]
    ages.insert(1_702, 99)
    people = pd.DataFrame({"age": ages, "sex": ["f", "m"] * 1_500})
    people.to_csv(tmp_path / "people.csv", index=False)
    people.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "model.py").write_text(PROGRAM)
    monkeypatch.setattr(limits, "STREAMED_ROWS", 1_000)
    monkeypatch.setattr(survey, "SAMPLE_ROWS", (500, 500))
    monkeypatch.setattr(limits, "WHOLE_CELLS", 5_000)
    assert is_streamed(tmp_path / "people.csv") and is_streamed(tmp_path / "people.parquet")
    return tmp_path


@pytest.mark.parametrize("table", ["people.csv", "people.parquet"])
def test_inspect_looks_at_a_sample(place, table):
    done = bornfair("inspect", table, "--json", cwd=place)
    assert done.returncode == 0 and json.loads(done.stdout)["rows"] == 500
    assert "500 random rows of the 3,000 that there are" in done.stderr


@pytest.mark.parametrize("command", ["verify", "quantify"])
def test_the_domain_is_that_of_all_rows(place, command, monkeypatch):
    program = f"{sys.executable} -S model.py"
    asked = ["--model-command", program, "--data", "people.parquet", "--sensitive", "sex", "--timeout", "5"]
    asked_with = []
    within = Question.within
    monkeypatch.setattr(Question, "within", lambda *given, **named: asked_with.append(named) or within(*given, **named))
    done = bornfair(command, *asked, "--json", cwd=place)
    assert done.returncode in (0, 3), done.stderr
    (named,) = asked_with
    assert len(named["table"]) == 500 and named["table"]["age"].max() < 99
    assert named["domain"].feature("age").high == 99
    assert "500 random rows" in done.stderr


@pytest.mark.parametrize(
    "words", [["gamma", "people.csv"], ["explain", "x.onnx", "--data", "people.csv", "--row", "1"]]
)
def test_what_needs_all_rows_at_once_refuses_a_table_that_is_too_large(place, words):
    done = bornfair(*words, "--sensitive", "sex", cwd=place)
    assert done.returncode == 2
    assert "3,000 rows and 2 columns" in done.stderr and "at most 5,000 cells" in done.stderr
