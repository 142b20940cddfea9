"""One run owns a checkpoint: another one that names it is refused in a sentence."""

import os

import pytest

from bornfair.core import checkpoint
from bornfair.core.errors import InputError
from bornfair.core.growing import Busy, Lock
from samples import bornfair, make_people

TRAIN = ["train", "people.csv", "--target", "grant", "--sensitive", "sex", "--epochs", "2", "--hidden", "4"]


@pytest.fixture
def place(tmp_path):
    make_people(120, seed=7).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def test_a_second_owner_is_refused_until_the_first_one_ends(tmp_path):
    with checkpoint.owned(tmp_path / "saved"):
        with pytest.raises(Busy):
            Lock(tmp_path / "saved.lock")
        (tmp_path / "link").symlink_to("saved")
        with checkpoint.owned(tmp_path / "link"):
            pass
        assert (tmp_path / "saved.lock").exists(), "a nested call releases nothing"
    assert not (tmp_path / "saved.lock").exists()
    Lock(tmp_path / "saved.lock").close()


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    (tmp_path / "saved.lock").touch()
    with checkpoint.owned(tmp_path / "saved"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_train_with_the_checkpoint_of_another_run_ends_with_status_2(more, place):
    other = Lock(place / "saved.lock")
    done = bornfair(*TRAIN, *more, "--out", "b", "--checkpoint", "saved", cwd=place)
    assert done.returncode == 2 and "another run is using the checkpoint 'saved'; wait" in done.stderr
    assert {path.name for path in place.iterdir()} <= {"people.csv", "saved.lock", ".b-rows"}
    other.close()
    assert bornfair(*TRAIN, *more, "--out", "b", "--checkpoint", "saved", cwd=place).returncode == 0
    assert {path.name for path in place.iterdir()} == {"people.csv", "b"}


def test_verify_with_the_resume_file_of_another_run_ends_with_status_2(place):
    words = [*TRAIN, "--response", "none", "--verify-seconds", "0", "--out", "b"]
    assert bornfair(*words, cwd=place).returncode in (0, 1, 3)
    other = Lock(place / "cuts.lock")
    words = ["verify", "b", "--engine", "bounds", "--most-boxes", "1", "--resume", "cuts"]
    done = bornfair(*words, cwd=place)
    assert done.returncode == 2 and "another run is using the checkpoint 'cuts'; wait" in done.stderr
    other.close()
    assert bornfair(*words, cwd=place).returncode in (1, 3)
    assert not (place / "cuts.lock").exists()


def test_a_place_for_a_checkpoint_that_cannot_be_written_is_refused_before_training(place):
    done = bornfair(*TRAIN, "--out", "b", "--checkpoint", place, cwd=place)
    assert done.returncode == 2 and "it is a folder" in done.stderr
    with pytest.raises(InputError, match="cannot"), checkpoint.owned(place / "people.csv" / "saved"):
        pass
    assert sorted(os.listdir(place)) == ["people.csv"]  # noqa: PTH208


@pytest.mark.parametrize(
    "wrong", [["--sensitive", "nobody"], ["--estimator", "xgboost"], ["--stream", "--drop", "none"]]
)
def test_a_refused_training_leaves_no_folder_for_its_checkpoint(wrong, place):
    done = bornfair(*TRAIN, *wrong, "--checkpoint", "new/folder/saved", "--out", "b", cwd=place)
    assert done.returncode == 2 and [one.name for one in place.iterdir()] == ["people.csv"]


def test_a_folder_that_holds_a_checkpoint_or_was_there_before_stays(tmp_path):
    (tmp_path / "old").mkdir()
    with checkpoint.owned(tmp_path / "old" / "saved"), checkpoint.owned(tmp_path / "new" / "saved"):
        (tmp_path / "new" / "saved").write_bytes(b"state")
    assert (tmp_path / "old").is_dir() and (tmp_path / "new" / "saved").read_bytes() == b"state"
