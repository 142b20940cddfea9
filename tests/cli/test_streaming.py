"""train and predict of tables that are read in batches, as another program sees them."""

import json

import numpy as np
import pytest

from bornfair.cli import predict_stream
from bornfair.people import sources
from bornfair.proof.bundle import load_bundle
from samples import bornfair, make_people

TRAIN = ["--target", "grant", "--sensitive", "sex", "--epochs", "2", "--hidden", "8", "--batch-size", "64"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table in three files and in one, and a bundle trained on the files."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "people").mkdir()
    table = make_people(600, seed=7).assign(**{"number": [f"=r{i}" for i in range(600)]})
    for number in range(3):
        part = table.iloc[200 * number : 200 * number + 200]
        part.drop(columns="number").to_csv(folder / "people" / f"{number}.csv", index=False)
    table.to_csv(folder / "people.csv", index=False)
    done = bornfair("train", "people", *TRAIN, "--out", "bundle", "--checkpoint", "saved", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "train.json").write_text(done.stdout)
    return folder


def test_a_folder_is_trained_on_proven_and_tidied_up_after(place):
    result = json.loads((place / "train.json").read_text())
    assert (result["verdict"], result["proof"], result["rows"], result["epochs"]) == ("verified", "structural", 600, 2)
    assert result["empirical_fairness"] == 1.0 and 80 < result["rows_measured"] < 160
    assert {path.name for path in place.iterdir()} == {"people", "people.csv", "bundle", "train.json"}
    assert bornfair("check", "bundle", cwd=place).returncode == 0


def test_a_file_is_read_in_batches_when_asked_for_and_rows_are_kept_where_said(place, tmp_path):
    words = ["train", place / "people.csv", *TRAIN, "--drop", "number", "--stream", "--cache", "rows", "--out", "b"]
    assert bornfair(*words, cwd=tmp_path).returncode == 0
    kept = {path.name for path in (tmp_path / "rows").iterdir()}
    assert {"cache.json", "training.rows", "validation.rows", "kept-aside.rows"} <= kept
    first = {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    assert bornfair(*words, cwd=tmp_path).returncode == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()} == first
    assert bornfair(*words, "--calibrate", cwd=tmp_path).returncode == 0
    assert (tmp_path / "b" / "model.onnx").read_bytes() != first["model.onnx"]
    assert "calibrated" in json.loads((tmp_path / "b" / "certificate.json").read_text())["training"]
    assert bornfair("check", "b", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["people", "--target", "grant", "--sensitive", "sexe"], "'sexe'"),
        (["people", "--sensitive", "sex"], "--target"),
        (["people", *TRAIN, "--estimator", "xgboost"], "--estimator xgboost needs the whole table"),
        (["people", *TRAIN, "--response", "sampled"], "without its sensitive values"),
        (["people.csv", *TRAIN, "--stream"], "'number'"),
        (
            ["people.csv", *TRAIN, "--drop", "number", "--cache", "rows"],
            "--cache is for tables that are read in batches",
        ),
        (["people", *TRAIN, "--hosts", "nowhere"], "--hosts must be auto, or ADDRESS:PORT,PROCESSES,PROCESS"),
        (["people", *TRAIN, "--hosts", "here:1,2,2"], "counted from 0 to 1"),
        (["none/*.parquet", *TRAIN], "no CSV or Parquet file"),
    ],
)
def test_what_cannot_be_trained_on_in_batches_is_said_in_a_sentence(words, said, place):
    done = bornfair("train", *words, "--out", "other", cwd=place)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") <= 2
    assert not (place / "other").exists()


def test_running_numbers_and_rows_without_an_answer_are_seen_in_the_whole_table(place, tmp_path):
    table = make_people(400, seed=2)
    table.insert(0, "zeitpunkt", np.arange(70_000, 70_400))
    table.loc[[5, 300], "grant"] = None
    table.to_parquet(tmp_path / "people.parquet")
    words = ["train", "people.parquet", "--stream", *TRAIN, "--out", "b"]
    assert "missing in 2 of 400 rows" in bornfair(*words, cwd=tmp_path).stderr
    done = bornfair(*words, "--unlabelled", "drop", cwd=tmp_path)
    assert done.returncode == 2 and "'zeitpunkt' (running numbers)" in done.stderr
    done = bornfair(*words, "--unlabelled", "drop", "--drop", "zeitpunkt", "--json", cwd=tmp_path)
    assert done.returncode == 0 and "2 of 400 rows have no 'grant'" in done.stderr


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(sources, "CELLS", 7 * 100)
    monkeypatch.setattr(sources, "LEAST_ROWS", 1)


def test_predictions_are_written_as_they_come_and_gone_on_with_after_a_kill(place, small_batches, monkeypatch):
    asked = ["predict", "bundle", "people.csv", "--id", "number"]
    whole = bornfair(*asked, "--no-stream", "--out", "whole.csv", cwd=place)
    assert whole.returncode == 0
    calls, write = [], predict_stream.csv_text

    def killed(*arguments, **options):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return write(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(predict_stream, "csv_text", killed)
        assert bornfair(*asked, "--stream", "--out", "parts.csv", cwd=place).returncode == 130
    assert not (place / "parts.csv").exists() and (place / "parts.csv.part").exists()
    with (place / "parts.csv.part").open("a") as stream:
        stream.write("rows that were not noted\n" * 10_000)
    done = bornfair(*asked, "--stream", "--out", "parts.csv", cwd=place)
    assert "continuing after the 300 rows" in done.stderr and "600 rows written to parts.csv" in done.stdout
    assert (place / "parts.csv").read_bytes() == (place / "whole.csv").read_bytes()
    printed = bornfair(*asked, "--stream", cwd=place)
    assert printed.stdout == (place / "whole.csv").read_text()
    assert not list(place.glob("parts.csv.*"))


@pytest.fixture
def killed_at(monkeypatch):
    """Interrupts predictions when they write their n-th batch."""
    write = predict_stream.csv_text

    def killed(batch, *words, **options):
        calls = []

        def interrupted(*arguments, **named):
            calls.append(1)
            if len(calls) == batch:
                raise KeyboardInterrupt
            return write(*arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(predict_stream, "csv_text", interrupted)
            done = bornfair(*words, **options)
        assert done.returncode == 130 and len(calls) == batch

    return killed


def test_predictions_go_on_in_a_later_part_of_the_table_without_repeating_rows(place, small_batches, killed_at):
    asked = ["predict", "bundle", "people", "--stream"]
    assert bornfair(*asked, "--out", "all.csv", cwd=place).returncode == 0
    killed_at(6, *asked, "--out", "later.csv", cwd=place)  # in the third of three files
    assert json.loads((place / "later.csv.progress").read_text())["state"]["part"] == 2
    done = bornfair(*asked, "--out", "later.csv", cwd=place)
    assert "continuing after the 516 rows" in done.stderr and "600 rows written to later.csv" in done.stdout
    assert (place / "later.csv").read_bytes() == (place / "all.csv").read_bytes()


def test_predictions_of_another_model_do_not_go_on_after_those_of_the_first(place, small_batches, killed_at):
    load_bundle(place / "bundle").at(["0.9"]).certified(timeout=10).save(place / "other.zip")
    words = ["people", "--stream", "--out", "again.csv"]
    killed_at(4, "predict", "bundle", *words, cwd=place)
    done = bornfair("predict", "other.zip", *words, cwd=place)
    assert done.returncode == 0 and "continuing" not in done.stderr
    bornfair("predict", "other.zip", "people", "--stream", "--out", "only.csv", cwd=place)
    assert (place / "again.csv").read_bytes() == (place / "only.csv").read_bytes()


@pytest.mark.parametrize("out", ["/proc/none/o.csv", "people.csv/o.csv", "people"])
def test_a_place_that_cannot_be_written_is_named_before_anything_is_read(out, place, monkeypatch):
    monkeypatch.setattr(sources.Source, "batches", lambda *_: pytest.fail("the table is read"))
    done = bornfair("predict", "bundle", "people", "--stream", "--out", out, cwd=place)
    assert done.returncode == 2 and f"cannot write '{out}'" in done.stderr
    assert "; name a " in done.stderr and done.stderr.count("\n") == 1


def test_predictions_in_batches_say_what_they_cannot(place):
    assert "needs --out" in bornfair("predict", "bundle", "people", "--json", cwd=place).stderr
    top = bornfair("predict", "bundle", "people", "--threshold", "top 10%", "--out", "o.csv", cwd=place)
    assert top.returncode == 2 and "needs all rows at once" in top.stderr
    done = bornfair("predict", "bundle", "people", "--threshold", "0.3", "--out", "o.csv", "--json", cwd=place)
    assert json.loads(done.stdout)["rows"] == 600 and (place / "o.csv").exists()
