"""train and predict of tables that are read in batches, as another program sees them."""

import json
import os
import stat

import numpy as np
import pytest

from bornfair.cli import predictions
from bornfair.core.errors import InputError
from bornfair.core.growing import GrowingFile, Lock, OwnFolder, Terminated
from bornfair.people import sources
from bornfair.proof.bundle import load_bundle
from bornfair.training import streamed_fit
from samples import bornfair, make_people

pytestmark = pytest.mark.slow

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
    calls, write = [], predictions.csv_text

    def killed(*arguments, **options):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return write(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(predictions, "csv_text", killed)
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
    write = predictions.csv_text

    def killed(batch, *words, **options):
        calls = []

        def interrupted(*arguments, **named):
            calls.append(1)
            if len(calls) == batch:
                raise KeyboardInterrupt
            return write(*arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(predictions, "csv_text", interrupted)
            done = bornfair(*words, **options)
        assert done.returncode == 130 and len(calls) == batch

    return killed


@pytest.mark.parametrize(("batch", "part", "rows"), [(3, 0, 200), (4, 1, 316), (6, 2, 516)])
def test_predictions_go_on_in_a_later_part_of_the_table_without_repeating_rows(
    batch, part, rows, place, small_batches, killed_at
):
    asked = ["predict", "bundle", "people", "--stream"]
    assert bornfair(*asked, "--out", "all.csv", cwd=place).returncode == 0
    killed_at(batch, *asked, "--out", "later.csv", cwd=place)
    assert json.loads((place / "later.csv.progress").read_text())["state"]["part"] == part
    done = bornfair(*asked, "--out", "later.csv", cwd=place)
    assert f"continuing after the {rows} rows" in done.stderr and "600 rows written to later.csv" in done.stdout
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


def test_a_folder_that_is_missing_is_made_as_it_is_for_a_table_in_memory(place, tmp_path):
    for words in (["people"], ["people.csv", "--no-stream"]):
        done = bornfair("predict", place / "bundle", place / words[0], *words[1:], "--out", "a/b/o.csv", cwd=tmp_path)
        assert done.returncode == 0 and (tmp_path / "a" / "b" / "o.csv").read_text().count("\n") == 601


def test_a_file_that_another_run_is_writing_is_refused(place, tmp_path):
    words = ["predict", place / "bundle", place / "people", "--out", "o.csv"]
    with GrowingFile(tmp_path / "o.csv", "another", predictions.Reached()) as file:
        file.add(b"rows of another model\n", predictions.Reached(rows=1))
        done = bornfair(*words, cwd=tmp_path)
        assert done.returncode == 2 and "another run is writing 'o.csv'" in done.stderr and not done.stdout
        assert done.stderr.count("\n") == 1 and not (tmp_path / "o.csv").exists()
        file.finish()
    assert (tmp_path / "o.csv").read_text() == "rows of another model\n"
    assert bornfair(*words, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("way", ["replaced", "longer", "removed", "added"])
def test_a_table_that_changes_during_the_run_leaves_no_predictions(way, place, small_batches, tmp_path, monkeypatch):
    table, write = tmp_path / "people", predictions.csv_text
    table.mkdir()
    for one in (place / "people").iterdir():
        (table / one.name).write_bytes(one.read_bytes())
    first, content = table / "0.csv", (place / "people" / "0.csv").read_text()

    def replaced():
        (tmp_path / "new").write_text(content.replace("nurse", "smith"))
        stamp = first.stat()
        os.utime(tmp_path / "new", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # as `cp -p` leaves it
        (tmp_path / "new").replace(first)

    changes = {
        "replaced": replaced, "longer": lambda: first.write_text(content + content.splitlines()[-1] + "\n"),
        "removed": first.unlink, "added": lambda: (table / "9.csv").write_text(content),
    }  # fmt: skip
    waiting = [changes[way]]

    def changing(known, positions, *arguments, header=True):
        if not header and waiting:  # the first batch was written
            waiting.pop()()
        return write(known, positions, *arguments, header=header)

    monkeypatch.setattr(predictions, "csv_text", changing)
    done = bornfair("predict", place / "bundle", "people", "--out", "o.csv", cwd=tmp_path)
    assert done.returncode == 2 and "'people' changed while it was read" in done.stderr and not waiting
    assert not list(tmp_path.glob("o.csv*"))
    if way != "removed":
        assert bornfair("predict", place / "bundle", "people", "--out", "o.csv", cwd=tmp_path).returncode == 0


def test_what_was_counted_before_an_interruption_is_counted(place, small_batches, killed_at, tmp_path):
    table = make_people(200, seed=1)
    table.loc[::2, "job"] = "astronaut"
    table.to_csv(tmp_path / "people.csv", index=False)
    words = ["predict", place / "bundle", "people.csv", "--stream", "--out", "o.csv"]
    killed_at(2, *words, cwd=tmp_path)
    done = bornfair(*words, cwd=tmp_path)
    assert "continuing after" in done.stderr and "'job' in 100 of 200 rows" in done.stderr


def test_batches_of_another_size_do_not_continue(place, small_batches, killed_at, monkeypatch, tmp_path):
    words = ["predict", place / "bundle", place / "people", "--out", "o.csv"]
    killed_at(4, *words, cwd=tmp_path)
    monkeypatch.setattr(sources, "CELLS", 11 * 100)
    done = bornfair(*words, cwd=tmp_path)
    assert done.returncode == 0 and "continuing" not in done.stderr
    assert (tmp_path / "o.csv").read_text().count("\n") == 601


@pytest.mark.parametrize("command", ["predict", "train"])
def test_a_table_without_rows_is_refused_in_a_sentence(command, place, tmp_path):
    make_people(5, seed=1).head(0).to_parquet(tmp_path / "none.parquet")
    given = [place / "bundle", "none.parquet"] if command == "predict" else ["none.parquet", *TRAIN]
    done = bornfair(command, *given, "--stream", "--out", "o", cwd=tmp_path)
    assert done.returncode == 2 and "'none.parquet' has no rows" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["none.parquet"]


def test_a_part_of_the_table_without_rows_changes_nothing(place, tmp_path):
    table = make_people(300, seed=3)
    for number, some in enumerate((table.head(0), table.head(150), table.head(0), table.tail(150))):
        some.to_parquet(tmp_path / f"{number}.parquet")
    done = bornfair("train", "*.parquet", *TRAIN, "--out", "b", "--json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["rows"] == 300
    done = bornfair("predict", "b", "*.parquet", "--out", "o.csv", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["rows"] == 300 and (tmp_path / "o.csv").read_text().count("\n") == 301


# --- encoded rows ---


@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize("out", ["/proc/none/b", "people.csv/b"])
def test_a_place_for_the_bundle_that_cannot_be_written_is_named_before_training(out, stream, place, monkeypatch):
    monkeypatch.setattr(sources.Source, "batches", lambda *_: pytest.fail("the table is read"))
    monkeypatch.setattr("bornfair.cli.train._people", lambda *_: pytest.fail("the table is read"))
    done = bornfair("train", "people.csv", *TRAIN, *stream, "--out", out, cwd=place)
    assert done.returncode == 2 and f"cannot write '{out}'" in done.stderr and done.stderr.count("\n") == 1


@pytest.fixture
def seen_in_training(monkeypatch):
    """Calls a function with the files of a training that was just encoded."""

    def install(function):
        trained = streamed_fit.StreamedRun.trained

        def seen(self, *arguments):
            function(self.cache.folder)
            return trained(self, *arguments)

        monkeypatch.setattr(streamed_fit.StreamedRun, "trained", seen)

    return install


@pytest.mark.parametrize("ends", [KeyboardInterrupt, Terminated(143), InputError("refused")])
@pytest.mark.parametrize("more", [[], ["--checkpoint", "saved"], ["--cache", "rows"]])
def test_encoded_rows_are_private_and_go_when_training_is_interrupted(ends, more, place, seen_in_training, tmp_path):
    modes = []

    def interrupted(folder):
        modes.extend(stat.S_IMODE(one.stat().st_mode) for one in (folder, *folder.iterdir()))
        raise ends

    seen_in_training(interrupted)
    done = bornfair("train", place / "people", *TRAIN, *more, "--out", "b", cwd=tmp_path)
    assert done.returncode == {KeyboardInterrupt: 130}.get(ends, getattr(ends, "code", 2))
    assert modes[0] == 0o700 and len(modes) > 5 and set(modes[1:]) == {0o600}
    left = {one.name for one in tmp_path.iterdir()}
    assert left == {None: set(), "--checkpoint": {".b-rows"}, "--cache": {"rows"}}[more[0] if more else None]


def test_rows_of_a_training_that_was_killed_go_with_the_next_one(place, tmp_path):
    killed = OwnFolder(tmp_path / ".killed-rows", kept=False)
    killed._end.detach()
    killed.lock.close()
    owned = OwnFolder(tmp_path / ".owned-rows", kept=False)
    assert bornfair("train", place / "people", *TRAIN, "--out", "b", cwd=tmp_path).returncode == 0
    assert {one.name for one in tmp_path.iterdir()} == {"b", ".owned-rows"}
    done = bornfair("train", place / "people", *TRAIN, "--out", "owned", cwd=tmp_path)
    assert done.returncode == 2 and "another run is training 'owned'" in done.stderr
    owned.close()


def test_a_cache_is_shared_by_runs_with_the_same_seed_only(place, seen_in_training, tmp_path):
    words, others = ["train", place / "people", *TRAIN, "--cache", tmp_path / "rows"], []

    def other(folder):
        if not others:
            for seed in ("1", "0"):
                others.append(None)
                others.append(bornfair(*words, "--seed", seed, "--out", f"b{seed}", cwd=tmp_path))

    seen_in_training(other)
    assert bornfair(*words, "--out", "b", cwd=tmp_path).returncode == 0
    _, one, _, same = others
    assert one.returncode == 2 and "another run is using the encoded rows" in one.stderr and "--cache" in one.stderr
    assert same.returncode == 0
    assert (tmp_path / "b" / "model.onnx").read_bytes() == (tmp_path / "b0" / "model.onnx").read_bytes()
    assert bornfair(*words, "--seed", "1", "--out", "b1", cwd=tmp_path).returncode == 0, "nobody uses it any more"


@pytest.mark.parametrize("name", ["cache.json", "training.rows", "survey"])
def test_a_pipe_in_a_cache_is_not_waited_for(name, place, tmp_path):
    words = ["train", place / "people", *TRAIN, "--cache", tmp_path / "rows"]
    bornfair(*words, "--out", "b", cwd=tmp_path)
    (file,) = (tmp_path / "rows").glob(f"{name}*")
    file.unlink()
    os.mkfifo(file)
    assert bornfair(*words, "--out", "c", cwd=tmp_path).returncode == 0
    assert file.is_file()


@pytest.mark.parametrize("name", ["cache.json", "training.rows", "validation.rows", "survey"])
def test_damaged_rows_are_made_anew(name, place, tmp_path):
    words = ["train", place / "people", *TRAIN, "--cache", tmp_path / "rows"]
    assert bornfair(*words, "--out", "b", cwd=tmp_path).returncode == 0
    (file,) = (tmp_path / "rows").glob(f"{name}*")
    content = file.read_bytes()
    for damaged in (content[:-1], content[:-9] + bytes(byte ^ 1 for byte in content[-9:]), b"", b"null"):
        file.write_bytes(damaged)
        assert bornfair(*words, "--out", "again", cwd=tmp_path).returncode == 0
        assert file.read_bytes() == content
    assert (tmp_path / "again" / "model.onnx").read_bytes() == (tmp_path / "b" / "model.onnx").read_bytes()


def test_a_table_that_changes_while_it_is_encoded_is_not_trained_on(place, tmp_path, monkeypatch):
    (tmp_path / "people.csv").write_text((place / "people" / "0.csv").read_text())
    made = streamed_fit.made

    def changed(*arguments, **options):
        with (tmp_path / "people.csv").open("a") as stream:
            stream.write((place / "people" / "1.csv").read_text().partition("\n")[2])
        return made(*arguments, **options)

    monkeypatch.setattr(streamed_fit, "made", changed)
    done = bornfair("train", "people.csv", "--stream", *TRAIN, "--out", "b", cwd=tmp_path)
    assert done.returncode == 2 and "changed while it was read" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["people.csv"]


def test_predictions_in_batches_say_what_they_cannot(place):
    assert "needs --out" in bornfair("predict", "bundle", "people", "--json", cwd=place).stderr
    top = bornfair("predict", "bundle", "people", "--threshold", "top 10%", "--out", "o.csv", cwd=place)
    assert top.returncode == 2 and "needs all rows at once" in top.stderr
    done = bornfair("predict", "bundle", "people", "--threshold", "0.3", "--out", "o.csv", "--json", cwd=place)
    assert json.loads(done.stdout)["rows"] == 600 and (place / "o.csv").exists()


def test_a_run_refused_for_a_checkpoint_in_use_leaves_no_rows(place, tmp_path):
    other = Lock(tmp_path / "saved.lock")
    done = bornfair("train", place / "people", *TRAIN, "--out", "b", "--checkpoint", "saved", cwd=tmp_path)
    other.close()
    assert done.returncode == 2 and "another run is using the checkpoint" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["saved.lock"]
