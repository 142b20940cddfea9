"""The command line, as another program sees it: stdout, stderr and status."""

import json
import signal
import subprocess
import sys

import onnx
import pandas as pd
import pytest

from samples import bornfair, make_people

pytestmark = pytest.mark.slow

FIELDS = {"bundle", "accuracy", "empirical_fairness", "verdict", "proof", "gamma", "epochs", "seconds"}
QUICK = ["--epochs", "5", "--hidden", "16"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table and a bundle trained on it."""
    folder = tmp_path_factory.mktemp("place")
    table = make_people(240, seed=7)
    table.to_csv(folder / "people.csv", index=False)
    table.drop(columns=["sex", "grant"]).to_csv(folder / "bare.csv", index=False)
    words = ("train", "people.csv", "--target", "grant", "--sensitive", "sex", "--out", "bundle", "--json")
    done = bornfair(*words, *QUICK, cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "train.json").write_text(done.stdout)
    return folder


def test_train_prints_one_json_document_with_the_promised_fields(place):
    result = json.loads((place / "train.json").read_text())
    assert set(result) >= FIELDS
    assert result["verdict"] == "verified" and result["proof"] == "structural" and result["gamma"] == 0.0
    assert result["empirical_fairness"] == 1.0 and 0.4 < result["accuracy"] <= 1.0 and result["epochs"] == 5
    assert (place / result["bundle"] / "certificate.json").is_file()


def test_predict_needs_no_sensitive_column_and_agrees_with_one(place):
    with_sex = bornfair("predict", "bundle", "people.csv", "--json", cwd=place)
    without = bornfair("predict", "bundle", "bare.csv", "--json", cwd=place)
    first, second = json.loads(with_sex.stdout), json.loads(without.stdout)
    assert first["predictions"] == second["predictions"] and first["probabilities"] == second["probabilities"]
    assert first["rows"] == 240 and first["classes"] == ["no", "yes"]
    printed = bornfair("predict", "bundle", "bare.csv", cwd=place).stdout.splitlines()
    assert printed[0] == "prediction,probability_no,probability_yes" and len(printed) == 241
    saved = bornfair("predict", "bundle", "bare.csv", "--out", "out.csv", cwd=place)
    assert saved.returncode == 0 and (place / "out.csv").read_text().splitlines() == printed


def test_train_without_json_shows_a_table_and_the_claim(place):
    done = bornfair(
        "train", "people.csv", "--target", "grant", "--sensitive", "sex", "--out", "other", *QUICK, cwd=place
    )
    assert done.returncode == 0
    assert (
        "verified" in done.stdout and "Two individuals who differ only in sex always get the same score" in done.stdout
    )


def test_training_that_proves_nothing_shows_the_twins_instead(place):
    done = bornfair(
        "train", "people.csv", "--target", "grant", "--sensitive", "sex", "--response", "sampled", "--out", "sampled",
        "--json", *QUICK, cwd=place,
    )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stdout)["verdict"] == "falsified"
    assert "bornfair: warning: Nothing about fairness is certified: sampled response" in done.stderr
    checked = bornfair("check", "sampled", "--json", cwd=place)
    assert checked.returncode == 1 and json.loads(checked.stdout)["valid"] is True


def test_training_that_cannot_be_judged_in_time_is_status_3(place):
    done = bornfair(
        "train", "people.csv", "--target", "grant", "--sensitive", "sex", "--response", "sampled", "--out", "hasty",
        "--verify-seconds", "1e-9", "--json", *QUICK, cwd=place,
    )  # fmt: skip
    assert done.returncode == 3 and json.loads(done.stdout)["verdict"] == "undecided"
    assert bornfair("check", "hasty", cwd=place).returncode == 3


def test_a_bundle_is_checked_certified_and_exported(place):
    train = ("train", "people.csv", "--target", "grant", "--sensitive", "sex", *QUICK)
    assert bornfair(*train, "--out", "handed.zip", cwd=place).returncode == 0
    checked = bornfair("check", "handed.zip", "--json", cwd=place)
    assert checked.returncode == 0
    assert {k: json.loads(checked.stdout)[k] for k in ("valid", "verdict", "proof")} == {
        "valid": True, "verdict": "verified", "proof": "structural",
    }  # fmt: skip
    again = bornfair("certify", "handed.zip", "--out", "again", "--json", cwd=place)
    assert again.returncode == 0 and json.loads(again.stdout)["verdict"] == "verified"
    for extra in ([], ["--without-sensitive"]):
        written = bornfair("export", "again", "served.onnx", *extra, "--json", cwd=place)
        assert written.returncode == 0 and (place / "served.onnx").stat().st_size > 1000
    for out in ("bare", "bare.zip"):  # as docs/certificate.md says: a bundle that is checked like any other
        assert bornfair("export", "again", out, "--without-sensitive", cwd=place).returncode == 0
        checked = bornfair("check", out, "--json", cwd=place)
        assert checked.returncode == 0 and json.loads(checked.stdout)["verdict"] == "verified"
    inputs = [given.name for given in onnx.load(place / "bare" / "model.onnx").graph.input]
    assert inputs and "sex" not in inputs
    assert bornfair("export", "again", "question", "--query", cwd=place).returncode == 0
    assert {p.name for p in (place / "question").iterdir()} == {"query.onnx", "query.vnnlib"}


def test_the_checker_travels_alone(place):
    assert bornfair("train", "people.csv", "--target", "grant", "--sensitive", "sex", *QUICK, "--out", "gone",
                    cwd=place).returncode == 0  # fmt: skip
    assert bornfair("check", "--checker", "checker.py", cwd=place).returncode == 0
    alone = subprocess.run(
        [sys.executable, "-I", "-S", "checker.py", "gone", "--json"], cwd=place, capture_output=True, text=True
    )
    assert alone.returncode == 0, alone.stderr
    assert json.loads(alone.stdout)["valid"] is True
    (place / "gone" / "domain.json").write_bytes((place / "gone" / "domain.json").read_bytes() + b" ")
    tampered = bornfair("check", "gone", cwd=place)
    assert tampered.returncode == 1 and "the certificate is about another domain.json" in tampered.stdout


GRANT = ["people.csv", "--target", "grant", "--sensitive", "sex"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "give either a TABLE, or --dataset NAME."),
        (["train", "nowhere.csv", "--target", "y"], "there is no file 'nowhere.csv'"),
        (["train", "people.csv"], "name the column to predict with --target; the columns are age, income"),
        (["train", "people.csv", "--target", "grnt"], "target 'grnt' is not in the table; did you mean 'grant'?"),
        (
            ["train", "people.csv", "--target", "grant", "--sensitive", "sx"],
            "sensitive feature 'sx' is not in the table",
        ),
        (
            ["train", "people.csv", "--target", "grant", "--sensitive", "sex", "--hidden", "0"],
            "hidden widths must be whole numbers above 0",
        ),
        (
            ["train", "people.csv", "--target", "grant", "--sensitive", "sex", "--gamma", "x"],
            "--gamma must be 'solve' or a number, found 'x'",
        ),
        (
            ["train", "people.csv", "--target", "grant", "--sensitive", "sex", "--missing", "guess"],
            "missing='guess' is not known; use one of 'learn', 'impute', 'error'",
        ),
        (
            ["train", "people.csv", "--target", "grant", "--sensitive", "sex", "--test-fraction", "2"],
            "--test-fraction must be at least 0 and below 1",
        ),
        (
            ["train", "--dataset", "credits"],
            "dataset 'credits' is not known; the datasets are 'census', 'bank', 'credit'",
        ),
        (
            ["train", "--dataset", "credit"],
            "name the sensitive columns with --sensitive; for credit usually one of sex, age",
        ),
        (["train", "one.csv", "--target", "y"], "the target 'y' has one class only, 1, in all"),
        (
            ["train", "gap.csv", "--target", "y", "--sensitive", "z", "--missing", "error"],
            "column 'x' has a missing value (NaN) in row",
        ),
        (
            ["train", "people.csv", "--target", "grant", "--out", "people.csv"],
            "'people.csv' exists and is not a bornfair result",
        ),
        (
            ["train", "people.csv", "--target", "grant"],
            "name the columns that must not influence the decision with --sensitive; without one there is nothing to "
            "prove, and the columns are 'age', 'income'",
        ),
        (["predict", "nowhere", "people.csv"], "there is no bundle 'nowhere'"),
        (
            ["predict", "bundle", "strange.csv"],
            "column 'owner' holds 'maybe' in row 0, which is not one of False, True",
        ),
        (
            ["train", "people.csv", "--target", "grant", "--sensitive", "sex", "--domain", "cut.json"],
            "'cut.json' is not JSON",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(place, arguments, message):
    (place / "one.csv").write_text("x,y\n1,1\n2,1\n3,1\n")
    (place / "gap.csv").write_text("x,y,z\n" + "1,0,0\n2,1,1\n,0,1\n,1,0\n" * 5)
    (place / "cut.json").write_text('{"features": [')
    make_people(5, seed=1).assign(owner="maybe").to_csv(place / "strange.csv", index=False)
    before = sorted(p.name for p in place.iterdir())
    options = ["--test-fraction", "0.2", *QUICK] if arguments[0] == "train" and "--hidden" not in arguments else []
    if "--test-fraction" in arguments:
        options = options[2:]
    done = bornfair(*arguments, *options, cwd=place)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and done.stdout == ""
    assert sorted(p.name for p in place.iterdir()) == before, "something was half-written"


def test_bad_input_is_one_sentence_for_other_programs_too(place):
    done = bornfair("predict", "nowhere", "people.csv", cwd=place, own_process=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("bornfair: there is no bundle 'nowhere'") and done.stderr.count("\n") == 1


def test_usage_errors_are_status_2(place):
    assert bornfair("train", "people.csv", "--no-such-option", cwd=place).returncode == 2
    assert bornfair("fly", cwd=place).returncode == 2


def test_help_does_not_wait_for_the_heavy_libraries(place):
    code = (
        "import sys; sys.argv = ['bornfair', '--help']\n"
        "from bornfair.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'numpy', 'pandas', 'sklearn', 'optax', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=place)
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("demo", "train", "predict", "datasets", "bench"))


def test_datasets_are_listed(place):
    listed = json.loads(bornfair("datasets", "list", "--json", cwd=place).stdout)["datasets"]
    rows = {d["name"]: d["rows"] for d in listed}
    embedded = {"census": 32561, "bank": 41188, "credit": 1000, "compas": 6172, "law": 20798}
    assert rows == embedded | {"bank-full": 45211, "law-full": 22407, "health": 171067}


def test_training_on_a_dataset_by_name(place):
    done = bornfair(
        "train", "--dataset", "credit", "--sensitive", "age", "--out", "credit", "--json", *QUICK, cwd=place
    )
    result = json.loads(done.stdout)
    assert result["verdict"] == "verified" and result["sensitive_values"] == 57


def test_demo_tells_the_whole_story(tmp_path):
    done = bornfair("demo", "--json", cwd=tmp_path, own_process=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"] == "verified" and result["empirical_fairness"] == 1.0
    assert result["same_without_sensitive_columns"] is True
    assert result["plain"]["empirical_fairness"] < 1.0 and result["accuracy"] > 0.7
    first, second = result["twins"]["people"]
    assert {name for name in first if first[name] != second[name]} <= {"sex", "age"}
    assert len(set(result["twins"]["decisions"])) == 2
    told = bornfair("demo", cwd=tmp_path).stdout
    assert "proven fair" in told and "sex and age alone change the decision" in told


KILLED = """
import os, signal
from bornfair.core import checkpoint
save, saved = checkpoint.save, []
def save_and_die(*arguments, **options):
    save(*arguments, **options)
    saved.append(1)
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint.save = save_and_die
"""


def test_training_that_is_killed_goes_on_to_the_same_bytes(place):
    words = (
        "train", "people.csv", "--target", "grant", "--sensitive", "sex", "--epochs", "12", "--patience", "12",
        "--hidden", "16", "--json",
    )  # fmt: skip
    assert bornfair(*words, "--out", "whole", cwd=place).returncode == 0
    mark = place / "run.safetensors"
    resumed = (*words, "--out", "resumed", "--checkpoint", mark.name)
    command = [sys.executable, "-c", f"{KILLED}\nfrom bornfair.cli import main; main()", *resumed]
    assert subprocess.run(command, cwd=place, capture_output=True).returncode == -signal.SIGKILL
    assert mark.exists() and not (place / "resumed").exists()
    done = bornfair(*resumed, cwd=place)
    assert done.returncode == 0, done.stderr
    assert (place / "resumed/model.onnx").read_bytes() == (place / "whole/model.onnx").read_bytes()
    assert not mark.exists(), "a finished run leaves no checkpoint"


def test_a_model_that_was_trained_plainly_ends_with_its_verdict(place):
    words = ("train", "people.csv", "--target", "grant", "--sensitive", "sex", *QUICK, "--response", "none")
    plainly = bornfair(*words, "--out", "plain", "--json", cwd=place)
    assert json.loads(plainly.stdout)["verdict"] == "falsified" and plainly.returncode == 1


def test_the_largest_change_is_also_told_of_the_people_of_a_table(place):
    words = ("train", "people.csv", "--target", "grant", "--sensitive", "sex", *QUICK, "--response", "none")
    assert bornfair(*words, "--out", "open", cwd=place).returncode == 1
    ask = ("verify", "open", "--change", "--timeout", "5", "--data", "people.csv", "--target", "grant")
    found = json.loads(bornfair(*ask, "--json", cwd=place).stdout)
    real = found["among_rows"]
    assert 0 < real["low"] <= found["low"] <= found["high"] and real["drawn_from"] == real["rows"]
    row = pd.read_csv(place / "people.csv").loc[real["row"]]
    assert all({name: twin[name] for name in twin if name != "sex"} == {n: row[n] for n in twin if n != "sex"}
               for twin in real["twins"])  # fmt: skip
    assert "differs most from a twin" in bornfair(*ask, cwd=place).stdout
