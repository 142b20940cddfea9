"""Files are written whole or not at all: killed at any step, by several at once, on a full disk."""

import errno
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import bornfair
from bornfair import load
from bornfair.cli import run
from bornfair.core import files
from bornfair.core.errors import InputError
from samples import make_people

pytestmark = pytest.mark.slow

QUICK = ["--target", "grant", "--sensitive", "sex", "--epochs", "2", "--hidden", "4"]
CONTENT = {"domain.json": b"{}", "model.onnx": b"m"}


def test_killed_at_any_step_and_written_by_several_at_once_it_is_whole():
    environment = os.environ | {"PYTHONPATH": str(Path(bornfair.__file__).parents[1])}
    command = [sys.executable, str(Path(__file__).parent / "support" / "kill_points.py"), "10"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("always whole") == 8, done.stdout


def test_links_are_followed_not_replaced(tmp_path):
    files.write_folder(tmp_path / "real", CONTENT, marker="domain.json")
    (tmp_path / "link").symlink_to("real")
    files.write_folder(tmp_path / "link", {**CONTENT, "model.onnx": b"new"}, marker="domain.json")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real/model.onnx").read_bytes() == b"new"
    (tmp_path / "note").symlink_to("text")
    files.write_atomically(tmp_path / "note", "hello")
    assert (tmp_path / "note").is_symlink() and (tmp_path / "text").read_text() == "hello"


def test_devices_are_written_to_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_atomically(tmp_path / "pipe", "hello")
    assert os.read(reader, 100) == b"hello" and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    os.close(reader)
    with pytest.raises(InputError, match=r"cannot write '/dev/full': No space left on device"):
        files.write_atomically("/dev/full", "hello" * 100_000)


def test_modes_are_those_the_user_wants(tmp_path):
    before = os.umask(0o027)
    try:
        files.write_folder(tmp_path / "folder", CONTENT, marker="domain.json")
        files.write_atomically(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("folder", "folder/model.onnx", "file")]
    assert modes == [0o750, 0o640, 0o640]


def test_a_name_as_long_as_can_be_is_written(tmp_path):
    files.write_atomically(tmp_path / ("n" * 255), b"x")
    files.write_folder(tmp_path / ("m" * 255), CONTENT, marker="domain.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m" * 255, "n" * 255]


def test_others_hidden_files_are_left_alone(tmp_path):
    files.write_folder(tmp_path / "bundle", CONTENT, marker="domain.json")
    mine = [tmp_path / ".bundle.backup", tmp_path / ".bornfair-notes"]
    for file in mine:
        file.write_text("mine")
    other = files._beside(tmp_path / "another", "old")
    other.mkdir()
    files.write_folder(tmp_path / "bundle", CONTENT, marker="domain.json")
    assert all(file.read_text() == "mine" for file in mine) and other.is_dir()


def test_a_writer_that_does_not_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.0)
    with (
        files._turn(tmp_path),
        pytest.raises(InputError, match=r"another process has been writing to '.*' for 0 seconds; try again"),
    ):
        files.write_atomically(tmp_path / "x", b"x")
    files.write_atomically(tmp_path / "x", b"x")


# --- as the commands meet it ---


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    make_people(120, seed=7).to_csv(folder / "people.csv", index=False)
    assert run(["train", str(folder / "people.csv"), *QUICK, "--out", str(folder / "bundle")]) == 0
    return folder


WRITING = [
    ["train", "people.csv", *QUICK, "--out", "out"],
    ["train", "people.csv", *QUICK, "--out", "out.zip"],
    ["train", "people.csv", *QUICK, "--out", "out", "--checkpoint", "mark"],
    ["predict", "bundle", "people.csv", "--out", "out.csv"],
    ["certify", "bundle"],
    ["certify", "bundle", "--out", "out"],
    ["export", "bundle", "out.onnx"],
    ["export", "bundle", "out", "--query"],
    ["check", "--checker", "out.py"],
    ["audit", "bundle", "--report", "out.html", "--timeout", "1"],
    ["repair", "bundle", "--data", "people.csv", "--out", "out", "--epochs", "1"],
]


@pytest.mark.parametrize("command", WRITING, ids=lambda words: f"{words[0]}-{words[-1]}")
def test_a_full_disk_is_one_sentence_and_nothing_is_left(place, monkeypatch, capsys, command):
    monkeypatch.chdir(place)
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    write = files._write

    def fill(path, data):
        write(path, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "_write", fill)
    assert run(command) == 2
    *progress, said = capsys.readouterr().err.splitlines()
    assert said.startswith("bornfair: cannot write '") and "No space left on device" in said
    assert not [line for line in progress if "rror" in line]
    assert {p: p.read_bytes() for p in place.rglob("*") if p.is_file()} == before


def test_a_limit_on_file_sizes_is_met_like_a_full_disk(place):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))  # noqa: E731
    code = "from bornfair.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "export", "bundle", "limited.onnx"],
        cwd=place, capture_output=True, text=True, preexec_fn=limit, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr and "File too large" in done.stderr
    assert not [p.name for p in place.iterdir() if "limited" in p.name or p.name.startswith(".")]


def test_output_that_cannot_be_printed_is_no_answer(place):
    command = [sys.executable, "-c", "from bornfair.cli import main; main()", "verify", "bundle", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=place, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 2 and done.stderr == "bornfair: cannot read or write: No space left on device.\n"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, cwd=place, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(writer)
    assert done.returncode == 141 and done.stderr == ""


def test_a_bundle_put_aside_by_a_killed_writer_is_found_by_every_reader(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    for read in (["check", "bundle"], ["predict", "bundle", "people.csv"], ["verify", "bundle"]):
        Path("bundle").rename(files._beside(place / "bundle", "old"))
        assert run(read) == 0, capsys.readouterr().err
    assert load("bundle").certificate is not None


# --- what goes wrong inside ---


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (
            ZeroDivisionError("division by zero"),
            4,
            "internal error (ZeroDivisionError: division by zero; ",
        ),
        (RecursionError(), 4, "internal error (RecursionError"),
        (MemoryError(), 2, "there is not enough memory"),
        (PermissionError(13, "Permission denied", "x.csv"), 2, "cannot read or write 'x.csv': Permission denied."),
        (KeyboardInterrupt(), 130, "interrupted; train --checkpoint FILE"),
    ],
)
def test_every_end_is_one_sentence_and_its_own_status(monkeypatch, capsys, error, status, sentence):
    def fail(*_):
        raise error

    monkeypatch.setattr("bornfair.people.tables.read_table", fail)
    assert run(["proxies", "x.csv", "--sensitive", "a"]) == status
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1 and said.out == ""
    assert (status == 4) == ("please report it" in said.err)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["verify", "bundle", "--seed", "-1"], "Invalid value for '--seed'"),
        (["train", "people.csv", *QUICK, "--seed", "99999999999999999999"], "Invalid value for '--seed'"),
        (["train", "people.csv", *QUICK, "--drop", "grant"], "--drop grant: this column is the target or sensitive"),
        (["train", "people.csv", *QUICK, "--class-weight", "x"], "--class-weight must be balanced, or left out"),
        (["train", "people.csv", *QUICK, "--response", "sampled", "--draws", "1000000000"], "not enough memory"),
        (["verify", "n" * 300], "File name too long"),
        (["train", "people.csv", *QUICK, "--out", "/proc/x/y"], "cannot write '/proc/x/y'"),
    ],
)
def test_options_that_cannot_be_followed_are_one_sentence(place, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(place)
    assert run(arguments) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bornfair: ")]
    assert len(errors) == 1 and sentence in errors[0]


def test_only_regular_files_are_read_and_only_so_many_bytes(tmp_path):
    (tmp_path / "text").write_bytes(b"hello")
    (tmp_path / "link").symlink_to("text")
    assert files.read_regular(tmp_path / "text", 5) == files.read_regular(tmp_path / "link", 5) == b"hello"
    with pytest.raises(InputError, match=r"text' has more than 4 bytes, the most that is read"):
        files.read_regular(tmp_path / "text", 4)
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it
    for other in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="it is no regular file"):
            files.read_regular(other, 100)
    with pytest.raises(IsADirectoryError):
        files.read_regular(tmp_path, 100)


@pytest.mark.parametrize(
    "words",
    [
        ["gamma", "endless.json"],
        ["explain", "m.onnx", "--person", "endless.json"],
        ["verify", "endless.onnx"],
        ["verify", "endless.nnet"],
        ["verify", "endless.ubj"],
    ],
    ids=lambda words: " ".join(words),
)
def test_a_file_without_an_end_is_refused(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("endless.json", "endless.onnx", "endless.nnet", "endless.ubj"):
        Path(name).symlink_to("/dev/zero")
    assert run(words) == 2
    assert "it is no regular file" in capsys.readouterr().err
