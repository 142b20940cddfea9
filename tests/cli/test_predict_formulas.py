"""Classes come from files of others; a spreadsheet that opens the predictions must not run them."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bornfair import Domain, FairModel
from bornfair.cli import predictions, run
from bornfair.cli.predictions import no_formula
from bornfair.models.network.network import Layer, Network
from bornfair.people.encoding import Encoding
from bornfair.people.features import IntegerFeature, Label


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """A function that saves a model which says the first class to 0 and the second to 1."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": [0, 1, 1]}).to_csv("people.csv", index=False)

    def save(*classes):
        features = (IntegerFeature(name="x", low=0, high=1), IntegerFeature(name="s", low=0, high=1))
        domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=classes))
        layer = Layer(np.array([[1.0, 0.0]]), np.array([-0.5]))
        FairModel(Network((layer,)), Encoding.of_raw_numbers(domain)).save("bundle")

    return save


def cells(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def rows_of(file):
    return cells(Path(file).read_bytes().decode())


@pytest.mark.parametrize(
    "cell", ["=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", " =1", "-a\r=1", "＝1"]
)
def test_a_class_that_begins_a_formula_is_disarmed_and_this_is_said(bundle, capsys, cell):
    bundle("no", cell)
    assert run(["predict", "bundle", "people.csv", "--out", "out.csv"]) == 0
    said = capsys.readouterr()
    assert [row[0] for row in rows_of("out.csv")] == ["prediction", "no", f"'{cell}", f"'{cell}"]
    assert "in 2 rows the class looks like a formula" in said.err and "--raw" in said.err
    assert run(["predict", "bundle", "people.csv"]) == 0
    assert cells(capsys.readouterr().out)[2][0].startswith("'")


def test_raw_writes_classes_as_they_are_and_json_always_does(bundle, capsys):
    bundle("no", "=1+1")
    assert run(["predict", "bundle", "people.csv", "--out", "out.csv", "--raw"]) == 0
    assert capsys.readouterr().err == ""
    assert [row[0] for row in rows_of("out.csv")] == ["prediction", "no", "=1+1", "=1+1"]
    assert run(["predict", "bundle", "people.csv", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["predictions"] == ["no", "=1+1", "=1+1"] and said.err == ""


@pytest.mark.parametrize("classes", [(-1, 1), ("-1", "+1"), ("-1.5e3", ".5"), ("no", "a=b")])
def test_numbers_and_plain_texts_stay_what_they_are(bundle, capsys, classes):
    bundle(*classes)
    assert run(["predict", "bundle", "people.csv"]) == 0
    said = capsys.readouterr()
    assert [row[0] for row in cells(said.out)] == ["prediction", *map(str, (classes[0], classes[1], classes[1]))]
    assert said.err == ""


def test_what_a_spreadsheet_would_read_as_text_is_left_alone():
    assert no_formula("'=1") == "'=1" and no_formula("") == "" and no_formula("a-b") == "a-b"


def test_a_terminal_gets_no_escapes_even_when_raw(bundle, capsys, monkeypatch):
    bundle("no", "\x1b[2J")
    assert run(["predict", "bundle", "people.csv", "--raw"]) == 0
    assert "\x1b" in capsys.readouterr().out, "a program that reads the output asked for the bytes"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["predict", "bundle", "people.csv", "--raw"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_identifiers_come_first_and_are_disarmed_too(bundle, capsys):
    bundle("no", "yes")
    pd.DataFrame({"name": ["Ann", "=1+1", None], "x": [0, 1, 1], "no": [7, 8, 9]}).to_csv("known.csv", index=False)
    assert run(["predict", "bundle", "known.csv", "--id", "no", "--id", "name", "--out", "out.csv"]) == 0
    assert "1 identifiers look like formulas" in capsys.readouterr().err
    assert [row[:3] for row in rows_of("out.csv")] == [
        ["no", "name", "prediction"], ["7", "Ann", "no"], ["8", "'=1+1", "yes"], ["9", "", "yes"],
    ]  # fmt: skip
    assert run(["predict", "bundle", "known.csv", "--id", "name", "--raw"]) == 0
    assert [row[0] for row in cells(capsys.readouterr().out)] == ["name", "Ann", "=1+1", ""]
    assert run(["predict", "bundle", "known.csv", "--id", "name", "--id", "no", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == {"name": ["Ann", "=1+1", None], "no": [7, 8, 9]}
    assert run(["predict", "bundle", "known.csv", "--id", "nome"]) == 2
    assert "column 'nome' is not in the table" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_the_same_bytes_with_and_without_pyarrow(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    cells = ["a", "=1", 'q"x', "c,d", "e\nf", "", None, 1, 2.5, True, -3, 1e22, "-1.5", "'", "é", " lead"]
    cells += ["g\rh"] if seed % 4 == 0 else []
    known = {"=id": [cells[i] for i in rng.integers(0, len(cells), 50)]} if seed % 2 else {}
    shares = rng.random((50, 2)) ** rng.choice([1, 9, 90], 50)[:, None]
    shares[:4] = [[0, 1], [1e-4, 9e-5], [1 - 2**-53, 5e-324], [0.5, 1e-7]]
    classes = ["yes", "a,b"]
    positions = rng.integers(0, 2, 50)
    found = []
    for rows in (0, 51):
        monkeypatch.setattr(predictions, "FOR_ARROW", rows)
        found.append(predictions.csv_text(known, positions, shares, classes, predictions.no_formula, header=seed > 5))
    assert found[0] == found[1]
    if not known:
        read = list(csv.reader(io.StringIO(found[0])))[-50:]
        assert [[float(text) for text in row[1:]] for row in read] == shares.tolist()
