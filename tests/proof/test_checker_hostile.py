"""Files written to harm the reader: refused with a reason, in bounded time and memory; nothing is run or written."""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import os
import random
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from bornfair import load
from bornfair.core.errors import InputError
from bornfair.people.features import BooleanFeature, RealFeature
from bornfair.proof import checker
from bornfair.proof.bundle import bundle_files
from bundle_cases import KINDS, NAMES, Forgery, answer, bundle, hand_made, sealed
from forgeries import damaged, json_places

pytestmark = pytest.mark.slow

MEMORY = 3 * 2**29  # bytes a hostile file may make the checker use
SECONDS = 8  # of computing, which is far more than any refusal here needs; more is a hang

LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


# --- the checker by itself, in a small cell ---


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """An empty folder with a copy of the checker, and nothing else."""
    place = tmp_path_factory.mktemp("alone") / "checker.py"
    shutil.copyfile(checker.__file__, place)
    return place


def examine(alone, path, *options):
    """Run the copy with Python alone: status, printed text, errors. A hang ends with a signal, not with a status."""
    command = [sys.executable, "-I", "-S", "-c", LIMITED, str(MEMORY), str(SECONDS), str(alone), *options, str(path)]
    environment = {name: value for name, value in os.environ.items() if name.startswith(("LANG", "LC_"))}
    done = subprocess.run(command, capture_output=True, timeout=120, cwd=alone.parent, env=environment, check=False)
    assert sorted(entry.name for entry in alone.parent.iterdir()) == ["checker.py"]
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def refused(alone, path):
    """The reason why the checker, in its cell, rejects a bundle."""
    status, text, errors = examine(alone, path, "--json")
    assert status == 1 and text, f"status {status}: {errors[-300:]}"
    found = json.loads(text)
    assert found["valid"] is False and found["verdict"] == "undecided"
    return found["reason"]


def folder(place, files):
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place


def zipped(place, entries):
    """A .zip of (name or ZipInfo, content) pairs, as they come."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return place


def without_traces(place):
    """Everything below a folder, by name and size: to see that nothing was written there."""
    return sorted((str(p.relative_to(place)), p.lstat().st_size) for p in place.rglob("*"))


# --- the checker is one file of plain Python ---


def test_the_checker_imports_the_standard_library_only():
    tree = ast.parse(Path(checker.__file__).read_text())
    names = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    origins = {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level}
    assert not any(n.level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom))
    assert names | origins <= sys.stdlib_module_names
    calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert not calls & {"eval", "exec", "compile", "__import__", "open"}
    assert not (names | origins) & {"pickle", "marshal", "shelve", "subprocess", "importlib", "ctypes", "tempfile"}


@pytest.mark.parametrize("kind", ["structural", "bounds", "falsified", "undecided"])
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_python_alone_gives_the_same_answerand_a_status(alone, tmp_path, kind, form):
    files = bundle(kind)
    place = folder(tmp_path / "b", files) if form == "folder" else zipped(tmp_path / "b.zip", files.items())
    status, text, _ = examine(alone, place, "--json")
    assert json.loads(text) == checker.check(place)
    assert status == {"falsified": 1, "undecided": 3}.get(kind, 0)
    status, text, _ = examine(alone, place)
    assert text.startswith("VALID: ") and checker.check(place)["claim"] in text


@pytest.mark.parametrize(("kind", "status"), [("structural", 0), ("falsified", 1)])
def test_a_reader_who_has_heard_enough_changes_no_status(alone, tmp_path, kind, status):
    place = folder(tmp_path / "b", bundle(kind))
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-I", "-S", str(alone), str(place)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (status, b"")


def test_python_alone_says_when_there_is_nothing_and_when_it_is_wrong(alone, tmp_path):
    status, text, errors = examine(alone, tmp_path / "nowhere", "--json")
    assert (status, text) == (2, "") and "there is no bundle" in errors
    place = folder(tmp_path / "b", bundle("structural") | {"model.onnx": b""})
    status, text, _ = examine(alone, place)
    assert status == 1 and text.startswith("REJECTED: ") and "Do not rely on this bundle" in text


# --- archives ---


def zeros(count):
    """Deflated zeros, at once: one block that is repeated."""
    block, machine = 2**24, zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = machine.compress(bytes(block)) + machine.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(count // block):
        crc = zlib.crc32(bytes(block), crc)
    return piece * (count // block) + b"\3\0", crc


def raw_zip(place, entries, comment=b"", locator=b""):
    """A .zip whose headers say what they are told: entries of (name, stored bytes, method, crc, size, flags)."""
    body, directory = b"", b""
    for name, stored, method, crc, size, flags in entries:
        head = struct.pack("<HHHHHIIIHH", 20, flags, method, 0, 33, crc, len(stored), size, len(name), 0)
        where = len(body)
        body += b"PK\3\4" + head + name + stored
        directory += b"PK\1\2" + struct.pack("<H", 20) + head + struct.pack("<HHHII", 0, 0, 0, 0, where) + name
    end = struct.pack("<HHHHIIH", 0, 0, len(entries) % 2**16, len(entries) % 2**16, len(directory), len(body), 0)
    place.write_bytes(body + directory + locator + b"PK\5\6" + end[:-2] + struct.pack("<H", len(comment)) + comment)
    return place


def plain(files, **others):
    return [(n.encode(), c, 0, zlib.crc32(c), len(c), 0) for n, c in (files | others).items()]


def a_bomb(place):
    stored, crc = zeros(2**30)
    rest = plain({n: c for n, c in bundle("ignoring").items() if n != "model.onnx"})
    return raw_zip(place, [(b"model.onnx", stored, 8, crc, 2**30, 0), *rest])


def a_bomb_that_says_it_is_small(place):
    stored, _ = zeros(2**30)
    rest = plain({n: c for n, c in bundle("ignoring").items() if n != "model.onnx"})
    return raw_zip(place, [(b"model.onnx", stored, 8, zlib.crc32(bytes(99)), 99, 0), *rest])


def a_bomb_with_the_wrong_sum(place):
    stored, _ = zeros(2**30)
    rest = plain({n: c for n, c in bundle("ignoring").items() if n != "model.onnx"})
    return raw_zip(place, [(b"model.onnx", stored, 8, 1, 99, 0), *rest])


def just_within_the_limit(place):
    stored, crc = zeros(2**28)
    rest = plain({n: c for n, c in bundle("ignoring").items() if n != "model.onnx"})
    return raw_zip(place, [(b"model.onnx", stored, 8, crc, 2**28, 0), *rest])


def with_entry(name, content=b"evil"):
    return lambda place: zipped(place, [*bundle("ignoring").items(), (name, content)])


def a_link(place):
    entry = zipfile.ZipInfo("model.onnx")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return zipped(
        place, [*((n, c) for n, c in bundle("ignoring").items() if n != "model.onnx"), (entry, b"/etc/passwd")]
    )


def a_wrong_sum(place):
    """Header and directory agree on it, but the content has another."""
    entries = plain(bundle("ignoring"))
    return raw_zip(place, [(*entries[0][:3], 1, *entries[0][4:]), *entries[1:]])


def twice(place):
    return raw_zip(place, plain(bundle("ignoring")) + plain({"domain.json": b"{}"}))


def encrypted(place):
    entries = plain(bundle("ignoring"))
    return raw_zip(place, [(*entries[0][:5], 1), *entries[1:]])


def packed_oddly(place):
    entries = plain(bundle("ignoring"))
    return raw_zip(place, [(*entries[0][:2], 14, *entries[0][3:]), *entries[1:]])


def thousands(place):
    return raw_zip(place, plain({f"{i}.txt": b"" for i in range(5000)}))


def thousands_behind_a_comment(place):
    """As a zip64 archive, whose own count is in another record, out of reach behind the longest comment."""
    entries = plain(bundle("ignoring")) + plain({f"{i}.txt": b"" for i in range(5000)})
    raw_zip(place, entries)
    content = place.read_bytes()
    size, where = struct.unpack_from("<II", content, len(content) - 10)
    record = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, len(entries), len(entries), size, where)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, len(content) - 22, 1)
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 3, 3, 2**16, 0, 2**16 - 1) + bytes(2**16 - 1)
    place.write_bytes(content[:-22] + record + locator + end)
    return place


def a_directory_before_the_file(place):
    """Its entries lie before the first byte."""
    raw_zip(place, plain(bundle("ignoring")))
    content = bytearray(place.read_bytes())
    struct.pack_into("<I", content, len(content) - 6, len(content) + 1000)
    place.write_bytes(content)
    return place


def truncated(place):
    zipped(place, bundle("ignoring").items())
    place.write_bytes(place.read_bytes()[:-30])
    return place


def cut_in_the_middle(place):
    zipped(place, bundle("ignoring").items())
    content = place.read_bytes()
    place.write_bytes(content[:200] + content[1200:])
    return place


def no_zip(place):
    place.write_bytes(b"PK\3\4" + bytes(range(256)) * 40)
    return place


def empty(place):
    place.write_bytes(b"")
    return place


def only_an_end(place):
    place.write_bytes(b"PK\5\6" + bytes(18))
    return place


def remade(place, *, entries=None, before=b"", between=b"", behind=b"", change=lambda content, at: None):
    """A bundle zipped without packing, with bytes put in, or changed in the directory, which begins `at`."""
    raw_zip(place, plain(bundle("ignoring")) if entries is None else entries)
    content = place.read_bytes()
    size, at = struct.unpack_from("<II", content, len(content) - 10)
    parts = bytearray(before + content[:at] + between + content[at:] + behind)
    at += len(before) + len(between)
    struct.pack_into("<I", parts, at + size + 16, at)
    change(parts, at)
    place.write_bytes(parts)
    return place


def local_file(name, content):
    head = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, zlib.crc32(content), len(content), len(content), len(name), 0)
    return b"PK\3\4" + head + name + content


def another_model_not_in_the_directory(place):
    """Who goes by the directory finds the fair model, who unpacks a stream the unfair one."""
    return remade(place, between=local_file(b"model.onnx", bundle("falsified")["model.onnx"]))


def another_file_not_in_the_directory(place):
    return remade(place, between=local_file(b"report.html", b"<p>all is well</p>"))


def another_model_before(place):
    other = local_file(b"model.onnx", bundle("falsified")["model.onnx"])

    def moved(content, at):
        while content[at : at + 4] == b"PK\1\2":
            length, where = *struct.unpack_from("<H", content, at + 28), *struct.unpack_from("<I", content, at + 42)
            struct.pack_into("<I", content, at + 42, where + len(other))
            at += 46 + length

    return remade(place, before=other, change=moved)


def a_script_before(place):
    return remade(place, before=b"#!/bin/sh\n")


def bytes_between(place):
    return remade(place, between=b"hello")


def bytes_behind(place):
    return remade(place, behind=b"hello")


def a_second_archive_behind(place):
    raw_zip(place, plain(bundle("falsified")))
    return remade(place, behind=place.read_bytes())


def with_comment(place):
    return raw_zip(place, plain(bundle("ignoring")), comment=b"hello")


def in_directory(offset, value):
    """One field of the directory's first entry that says something else than the file's own header."""

    def change(content, at):
        content[at + offset : at + offset + len(value)] = value

    return lambda place: remade(place, change=change)


def both_say(offset, value):
    """Header and directory agree on something that our own archives never have."""

    def change(content, at):
        content[at + offset : at + offset + len(value)] = value
        content[offset - 2 : offset - 2 + len(value)] = value

    return lambda place: remade(place, change=change)


def overlapping(place):
    """Two entries of the directory are one file."""
    entries = plain(bundle("ignoring"))

    def change(content, at):
        second = at + 46 + len(entries[0][0])
        content[second + 42 : second + 46] = content[at + 42 : at + 46]

    return remade(place, entries=entries, change=change)


def hidden_behind_packed_data(place):
    """The packed data end before they should: who unpacks a stream goes on right there, with another model."""
    name, content, *_ = plain(bundle("ignoring"))[0]
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    stored = machine.compress(content) + machine.flush()
    stored += local_file(b"model.onnx", bundle("falsified")["model.onnx"])
    first = (name, stored, 8, zlib.crc32(content), len(content), 0)
    return raw_zip(place, [first, *plain(bundle("ignoring"))[1:]])


def twisted(place):
    """Packed data that never end."""
    name, content, *_ = plain(bundle("ignoring"))[0]
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    stored = machine.compress(content) + machine.flush(zlib.Z_SYNC_FLUSH)
    return raw_zip(place, [(name, stored, 8, zlib.crc32(content), len(content), 0), *plain(bundle("ignoring"))[1:]])


ELSE = "says something else than its files"
ARCHIVES = [
    (another_model_not_in_the_directory, "unexpected file 'model.onnx'"),
    (another_file_not_in_the_directory, ELSE),
    (another_model_before, "unexpected file 'model.onnx'"),
    (a_script_before, "holds more than its files"),
    (bytes_between, ELSE),
    (bytes_behind, "neither a folder nor a complete .zip"),
    (a_second_archive_behind, "holds more than its files"),
    (with_comment, "neither a folder nor a complete .zip"),
    pytest.param(in_directory(0, b"PK\1\1"), ELSE, id="another mark"),
    pytest.param(in_directory(8, b"\1"), ELSE, id="other flags"),
    pytest.param(in_directory(10, b"\10"), ELSE, id="another method"),
    pytest.param(in_directory(12, b"\1"), ELSE, id="another date"),
    pytest.param(in_directory(16, b"\1\1\1\1"), ELSE, id="another sum"),
    pytest.param(in_directory(20, b"\1\0\0\0"), ELSE, id="another packed size"),
    pytest.param(in_directory(24, b"\1\0\0\0"), ELSE, id="another size"),
    pytest.param(in_directory(30, b"\1"), ELSE, id="extra bytes"),
    pytest.param(in_directory(32, b"\1"), ELSE, id="a comment"),
    pytest.param(in_directory(34, b"\1"), ELSE, id="another disk"),
    pytest.param(in_directory(36, b"\1"), ELSE, id="a text file"),
    pytest.param(in_directory(38, b"\x10"), ELSE, id="a folder"),
    pytest.param(in_directory(40, b"\xff\xa1"), ELSE, id="a link by its rights"),
    pytest.param(in_directory(42, b"\1"), ELSE, id="another place"),
    pytest.param(in_directory(46, b"M"), ELSE, id="another name"),
    pytest.param(both_say(8, b"\10"), "not plainly zipped", id="sizes behind the data"),
    pytest.param(both_say(30, b"\1"), "not plainly zipped", id="extra bytes in both"),
    (overlapping, ELSE),
    (hidden_behind_packed_data, "holds more than its files"),
    (twisted, "damaged"),
    (a_bomb, "'model.onnx' is too large"),
    (a_bomb_that_says_it_is_small, "damaged, or holds more"),
    (a_bomb_with_the_wrong_sum, "damaged, or holds more"),
    (just_within_the_limit, "about another model.onnx"),
    (with_entry("../evil"), "unexpected file '../evil'"),
    (with_entry("/tmp/evil"), "unexpected file '/?tmp/evil'"),
    (with_entry("a/../../model.onnx"), "unexpected file"),
    (with_entry("sub/"), "is not in the folder of the other files"),
    (a_wrong_sum, "is damaged in the .zip"),
    (a_link, ELSE),
    (twice, "unexpected file 'domain.json'"),
    (encrypted, "'model.onnx' is not plainly zipped"),
    (packed_oddly, "'model.onnx' is not plainly zipped"),
    (thousands, "unexpected file '0.txt'"),
    (thousands_behind_a_comment, "neither a folder nor a complete .zip"),
    (a_directory_before_the_file, "holds more than its files, or less"),
    (truncated, "neither a folder nor a complete .zip"),
    (cut_in_the_middle, "damaged"),
    (no_zip, "neither a folder nor a complete .zip"),
    (empty, "neither a folder nor a complete .zip"),
    (only_an_end, "lacks certificate.json, domain.json, model.onnx"),
]


@pytest.mark.parametrize(("make", "reason"), ARCHIVES, ids=lambda v: getattr(v, "__name__", None))
def test_a_hostile_archive_is_refused(alone, tmp_path, make, reason):
    place = make(tmp_path / "bundle.zip")
    before = without_traces(tmp_path)
    assert re.search(reason, refused(alone, place))
    with pytest.raises(InputError):
        load(place)
    assert without_traces(tmp_path) == before and not (tmp_path.parent / "evil").exists()


def test_an_archive_with_random_damage_is_refused_or_the_same(tmp_path):
    """A change may hit a date or a comment, which say nothing; all else is noticed."""
    chance, place = random.Random(5), tmp_path / "bundle.zip"
    zipped(place, bundle("ignoring").items())
    whole, expected = place.read_bytes(), checker.check(place)
    accepted = 0
    for _ in range(500):
        place.write_bytes(damaged(whole, chance))
        found = checker.check(place)
        accepted += found["valid"]
        assert not found["valid"] or found == expected
        with contextlib.suppress(InputError):
            load(place)
    assert accepted < 250


# --- folders ---


def missing(name):
    return lambda place: (place / name).unlink()


def replaced_by_a_folder(place):
    (place / "model.onnx").unlink()
    (place / "model.onnx").mkdir()


def replaced_by_a_pipe(place):
    (place / "model.onnx").unlink()
    os.mkfifo(place / "model.onnx")


def linked_to(target):
    def change(place):
        (place / "model.onnx").unlink()
        (place / "model.onnx").symlink_to(target)

    return change


def enormous_and_empty(place):
    """A file of 1 TB, none of which is on the disk."""
    with (place / "model.onnx").open("wb") as stream:
        stream.truncate(2**40)


FOLDERS = [
    *((missing(name), f"there is no '{name}'") for name in NAMES),
    (replaced_by_a_folder, "'model.onnx' is not a regular file"),
    (replaced_by_a_pipe, "'model.onnx' is not a regular file"),
    (linked_to("/dev/zero"), "'model.onnx' is not a regular file"),
    (linked_to("/dev/stdin"), "'model.onnx' is not a regular file|another model.onnx"),
    (linked_to("nowhere"), "there is no 'model.onnx'"),
    pytest.param(linked_to("model.onnx"), "'model.onnx'"),
    pytest.param(linked_to("/proc/self/mem"), "'model.onnx'"),
    (enormous_and_empty, "'model.onnx' is larger than"),
]


@pytest.mark.parametrize(("change", "reason"), FOLDERS)
def test_a_hostile_folder_is_refused(alone, tmp_path, change, reason):
    place = folder(tmp_path / "bundle", bundle("ignoring"))
    change(place)
    before = without_traces(tmp_path)
    assert re.search(reason, refused(alone, place))
    with pytest.raises(InputError):
        load(place)
    assert without_traces(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("file/inside"),
        pytest.param("x" * 5000, id="long"),
        pytest.param("nul\0nul", id="nul"),
    ],
)
def test_a_path_that_cannot_be_is_refused(tmp_path, name):
    (tmp_path / "file").write_text("")
    found = checker.check(tmp_path / name)
    assert not found["valid"] and found["reason"]
    with pytest.raises(InputError):
        load(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    place = folder(tmp_path / "bundle", bundle("ignoring"))
    (place / "model.onnx").chmod(0)
    assert "model.onnx" in checker.check(place)["reason"]
    with pytest.raises(InputError):
        load(place)


# --- JSON ---

JSON = [
    (b"[" * 100_000, "is not JSON|must hold one JSON object"),
    (b'{"format":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "is not JSON"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is not JSON"),
    (b'{"format": "x"' + b" " * 17 * 2**20 + b"}", "is larger than"),
    (b'{"format": 1, "format": 2}', "names a field twice"),
    (b'{"format": {"a": 1, "a": 1}}', "names a field twice"),
    (b'{"format": NaN}', "holds the number NaN"),
    (b'{"format": -Infinity}', "holds the number -Infinity"),
    (b'{"format": 1e999}', "holds the number 1e999"),
    (b'{"format": ' + b"9" * 100_000 + b"}", "is not JSON"),
    (b'{"format": -' + b"9" * 4_000_000 + b"}", "is not JSON"),
    (b'{"format": "\xff"}', "is not JSON"),
    (b'\xef\xbb\xbf{"format": 1}', "is not JSON"),
    (b"\x00", "is not JSON"),
    (b"", "is not JSON"),
    (b"null", "must hold one JSON object"),
    (b'["format"]', "must hold one JSON object"),
    (b"{}", "is not a bornfair-certificate|format"),
    (b'{"format": []}', "is not a bornfair-certificate|format"),
]


@pytest.mark.parametrize("name", ["certificate.json", "domain.json"])
@pytest.mark.parametrize(("content", "reason"), JSON, ids=lambda v: repr(v[:20]) if isinstance(v, bytes) else None)
def test_a_hostile_json_file_is_refused(tmp_path, name, content, reason):
    files = bundle("ignoring") | {name: content}
    if name == "domain.json":  # and the certificate is about just this one
        files = sealed(files["model.onnx"], content, json.loads(files["certificate.json"]))
    place = folder(tmp_path / "bundle", files)
    assert re.search(reason, checker.check(place)["reason"])
    with pytest.raises(InputError):
        load(place)


def test_a_certificate_of_millions_of_small_things_is_refused(alone, tmp_path):
    files, most = bundle("bounds"), checker.LIMITS["certificate.json"] - 5000
    facts = json.loads(files["certificate.json"]) | {"tree": "HERE"}
    content = json.dumps(facts).replace('"HERE"', f"[{','.join(['{}'] * (most // 3))}]").encode()
    place = folder(tmp_path / "bundle", files | {"certificate.json": content})
    assert "changed after it was written" in refused(alone, place)


def test_a_certificate_about_no_files_is_refused(tmp_path):
    for value in ([], None, "model.onnx", {}, {"model.onnx": []}):
        facts = json.loads(bundle("ignoring")["certificate.json"]) | {"files": value}
        facts["sha256"] = checker.digest_of(facts)
        files = bundle("ignoring") | {"certificate.json": json.dumps(facts).encode()}
        assert not answer(files)["valid"]
        with pytest.raises(InputError):
            load_files(files)


SPOILED = st.sampled_from([None, True, 0, -1, 2**62, 10**400, 0.5, 1e300, "", "x", [], {}, [None], {"name": "age"}])


@settings(max_examples=200)
@given(st.sampled_from(KINDS), st.booleans(), st.integers(0, 10**6), SPOILED)
def test_a_json_value_of_the_wrong_type_is_never_more_than_refused(kind, of_domain, where, value):
    forgery = Forgery.of(bundle(kind))
    data = forgery.domain if of_domain else forgery.certificate
    places = list(json_places(data))
    holder, key = places[where % len(places)]
    if holder[key] == value and type(holder[key]) is type(value):
        return
    holder[key] = copy.deepcopy(value)
    files = forgery.sealed()
    answer(files)  # it may still be true; that it is true is shown elsewhere
    with contextlib.suppress(InputError):
        load_files(files)


def load_files(files):
    """Load a bundle that is there for this one moment."""
    with tempfile.TemporaryDirectory() as place:
        load(folder(Path(place) / "bundle", files))


# --- models: bytes ---


def varint(number):
    number %= 2**64
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


GOOD = "ignoring"


def with_model(content):
    files = bundle(GOOD)
    return sealed(content, files["domain.json"], json.loads(files["certificate.json"]))


def edited(change):
    forgery = Forgery.of(bundle(GOOD))
    change(forgery.model)
    return forgery.model.SerializeToString()


def weights_of(model):
    return next(t for t in model.graph.initializer if t.name == "weight 0")


def with_weight(value):
    def change(model):
        values = numpy_helper.to_array(weights_of(model)).copy()
        values[0, 0] = value
        weights_of(model).CopyFrom(numpy_helper.from_array(values, "weight 0"))

    return change


def with_dims(*dims):
    def change(model):
        del weights_of(model).dims[:]
        weights_of(model).dims.extend(dims)

    return change


def outside_data(model):
    tensor = weights_of(model)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "../../etc/passwd"), ("offset", "0"), ("length", "64")):
        tensor.external_data.add(key=key, value=value)


def with_a_location(model):
    weights_of(model).data_location = TensorProto.EXTERNAL


def with_a_subgraph(model):
    inner = helper.make_graph([helper.make_node("Identity", ["layer 0"], ["inner"])], "inner", [], [])
    model.graph.node.append(helper.make_node("If", ["yes"], ["chosen"], then_branch=inner, else_branch=inner))


def with_a_function(model):
    node = helper.make_node("Identity", ["x"], ["y"])
    model.functions.append(helper.make_function("custom", "Gemm", ["x"], ["y"], [node], model.opset_import))


def with_a_cycle(model):
    nodes = {node.output[0]: node for node in model.graph.node}
    nodes["layer 0"].input[0] = "layer 1"


def with_a_loop(model):
    node = next(node for node in model.graph.node if node.output[0] == "layer 1")
    node.input[0] = "layer 1"


def used_before_made(model):
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))


def node_like(**changes):
    def change(model):
        node = next(node for node in model.graph.node if node.output[0] == "layer 1")
        for name, value in changes.items():
            setattr(node, name, value)

    return change


def repeated_constant(name):
    def change(model):
        tensor = copy.deepcopy(weights_of(model))
        tensor.name = name
        model.graph.initializer.append(tensor)

    return change


def with_output(name):
    def change(model):
        node = model.graph.node[-1]
        node.output.append(name)

    return change


def sparse(model):
    item = model.graph.sparse_initializer.add()
    item.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "weight 0"))


def with_training(model):
    model.training_info.add()


def with_versions(*versions):
    def change(model):
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(*version) for version in versions)

    return change


def floats_spelled_out(model):
    tensor = weights_of(model)
    values = numpy_helper.to_array(tensor)
    tensor.ClearField("raw_data")
    tensor.float_data.extend(values.ravel())


def texts_and_bytes(model):
    """Some readers take the texts, others the bytes."""
    next(t for t in model.graph.initializer if t.name == "classes").raw_data = b"\3\0\0\0\0\0\0\0yes"


def unread_constant(model):
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "unused"))


def metadata_twice(model):
    model.metadata_props.append(model.metadata_props[0])


MODELS = [
    (b"", "other versions of operators"),
    (b"\0", "not understood"),
    (b"\x80" * 11, "above 64 bits"),
    (b"\xff" * 9 + b"\x7f", "above 64 bits"),
    (varint(8) + b"\xff" * 9 + b"\x02", "above 64 bits"),
    (b"\x08", "cut off"),
    (b"\x80", "cut off"),
    (field(7, b"")[:-1] + varint(2**40), "cut off"),
    (field(7, b"")[:-1] + varint(2**63), "cut off"),
    (b"\x0b", "wrong kind"),  # a group
    (b"\x0d" + bytes(4), "wrong kind"),  # four bytes
    (b"\x3d" + bytes(4), "wrong kind"),
    (field(1, b"abc"), "wrong kind"),
    (field(7, 1), "wrong kind"),
    (field(2, b"\xff\xfe"), "not UTF-8"),
    (field(1, 9) * 2, "occurs twice"),
    (field(7, b"") * 2, "occurs twice"),
    (field(99, b"x"), "not understood"),
    (outside_data, "not understood"),
    (with_a_location, "not understood"),
    (with_a_subgraph, "not understood"),
    (with_a_function, "not understood"),
    (with_a_cycle, "is not the Gemm expected"),
    (with_a_loop, "is not the Gemm expected"),
    (used_before_made, "is not the"),
    (node_like(op_type="Exec"), "is not the Gemm expected"),
    (node_like(op_type=""), "is not the Gemm expected"),
    (node_like(domain="com.evil"), "is not the Gemm expected"),
    (node_like(domain="ai.onnx"), "is not the Gemm expected"),
    (node_like(doc_string="hello"), "not understood"),
    (repeated_constant("weight 0"), "defines a name twice"),
    (repeated_constant("age"), "defines a name twice"),
    (repeated_constant("layer 0"), "defines a name twice"),
    (repeated_constant(""), "defines a name twice"),
    (with_output("second"), "is not the"),
    (with_output("layer 0"), "defines a name twice"),
    (with_weight(np.nan), "holds NaN or infinity"),
    (with_weight(np.inf), "holds NaN or infinity"),
    (with_weight(-np.inf), "holds NaN or infinity"),
    (with_dims(4), "has 24 values for the shape|not in float32"),
    (with_dims(6, 4), "do not fit together"),
    (with_dims(3, 7), "values for the shape"),
    (with_dims(-4, -6), "odd shape"),
    (with_dims(2**32, 2**32), "odd shape"),
    (with_dims(2**31, 2**31), "values for the shape"),
    (with_dims(2**62, 4), "odd shape"),
    (with_dims(1, 4, 6), "odd shape"),
    (with_dims(), "values for the shape"),
    (sparse, "not understood"),
    (with_training, "not understood"),
    (with_versions(("", 18)), "other versions of operators"),
    (with_versions(("", 18), ("", 18)), "other versions of operators"),
    (with_versions(("", 18), ("ai.onnx.ml", 3), ("com.evil", 1)), "other versions of operators"),
    (with_versions(("", 7), ("ai.onnx.ml", 3)), "other versions of operators"),
    (floats_spelled_out, "not understood"),
    (texts_and_bytes, "holds both texts and bytes"),
    (unread_constant, "a constant that no node reads"),
    (metadata_twice, "names its metadata twice"),
]


def _name(value):
    return getattr(value, "__name__", None) or (repr(value[:12]) if isinstance(value, bytes) else None)


@pytest.mark.parametrize(("model", "reason"), MODELS, ids=_name)
def test_a_hostile_model_is_refused(tmp_path, model, reason):
    files = with_model(model if isinstance(model, bytes) else edited(model))
    place = folder(tmp_path / "bundle", files)
    found = checker.check(place)
    assert not found["valid"] and re.search(reason, found["reason"])
    with pytest.raises(InputError):
        load(place)


@pytest.mark.parametrize("part", [field(1, b""), field(5, field(1, 1) * 99)], ids=["nodes", "dimensions"])
def test_a_model_of_too_many_parts_is_refused(part):
    content = field(7, part * (checker.MOST_FIELDS // (1 if len(part) < 9 else 99) + 5))
    with pytest.raises(checker.Rejected, match=r"the model file has more than [0-9,]* fields"):
        checker.read_model(content, PEOPLE[GOOD])


@pytest.mark.parametrize("kind", ["structural", "bounds", "classes"])
def test_a_model_cut_anywhere_is_refused(kind):
    files = bundle(kind)
    for end in range(0, len(files["model.onnx"]), 97):
        cut = sealed(files["model.onnx"][:end], files["domain.json"], json.loads(files["certificate.json"]))
        assert not answer(cut)["valid"]
        with pytest.raises(InputError):
            load_files(cut)


# --- small files that make much work ---


def test_a_range_of_many_whole_numbers_is_no_burden(alone, tmp_path):
    forgery = Forgery.of(bundle("ignoring"))
    forgery.domain["features"][0].update(low=-(2**53), high=2**53)
    status, text, errors = examine(alone, folder(tmp_path / "bundle", forgery.restated().sealed()), "--json")
    assert status == 0 and json.loads(text)["valid"], errors


def many_fine_grids():
    forgery = Forgery.of(bundle("ignoring"))
    fine = {"kind": "real", "low": 0.0, "high": 1.0, "grid": 100_000}
    forgery.domain["features"] += [{"name": f"x{i}"} | fine for i in range(5000)]
    return forgery.sealed()


def with_features(*more, **changes):
    """A fair model, which reads none of them, and more sensitive features."""
    forgery = Forgery.of(bundle("ignoring"))
    forgery.domain["features"] += more
    forgery.domain.update({"sensitive": [feature["name"] for feature in more]} | changes)
    forgery.model.graph.input.remove(next(item for item in forgery.model.graph.input if item.name == "owner"))
    forgery.domain["features"] = [f for f in forgery.domain["features"] if f["name"] != "owner"]
    return forgery.claim("verified", "structural", ["real", "float32"]).sealed()


def many_fine_sensitive_grids():
    fine = {"kind": "real", "low": 0.0, "high": 1.0, "grid": 100_000}
    return with_features(*({"name": f"x{i}"} | fine for i in range(2500)))


def many_sensitive_features():
    return with_features(*({"name": f"{i}", "kind": "boolean"} for i in range(60_000)))


def rule(name, *cycles):
    return {"kind": "cycles", "feature": name, "cycles": list(cycles)}


def many_moves():
    """Each of 100 rules moves 100 features."""
    names = [f"{i}" for i in range(10_000)]
    features = [{"name": name, "kind": "boolean"} for name in [*names, "s"]]
    rules = [[rule(name, [False, True]) for name in names[i::100]] for i in range(100)]
    return with_features(*features, sensitive=["s"], twins=rules)


def many_values_moved():
    """Each of 100 rules moves one of 100,000 categories."""
    levels = [f"{i}" for i in range(100_000)]
    features = [{"name": "x", "kind": "categorical", "categories": levels}, {"name": "s", "kind": "boolean"}]
    return with_features(*features, sensitive=["s"], twins=[[rule("x", levels[i : i + 2])] for i in range(100)])


def many_combinations_moved():
    levels = [f"{i}" for i in range(90_000)]
    feature = {"name": "s", "kind": "categorical", "categories": levels}
    rules = [[rule("s", levels[i : i + 2])] for i in range(100)]
    return with_features(feature, combinations=[[level] for level in levels], twins=rules)


def many_versions():
    """One leaf, for each of 5,040 ways to move seven letters and each of 90,000 sensitive values."""
    forgery = Forgery.of(bundle("ignoring"))
    grades = {"name": "owner", "kind": "integer", "low": 1, "high": 90_000}
    forgery.domain["features"] = [
        grades if f["name"] == "owner" else f | ({"categories": list("abcdefg")} if f["name"] == "job" else {})
        for f in forgery.domain["features"]
    ]
    forgery.domain["twins"] = [[rule("job", ["a", "b"])], [rule("job", list("abcdefg"))]]
    for node in forgery.model.graph.node:
        for attribute in (a for a in node.attribute if a.name == "cats_strings"):
            attribute.strings[:] = [letter.encode() for letter in "abcdefg"]
    item = next(i for i in forgery.model.graph.input if i.name == "owner")
    item.type.tensor_type.elem_type = TensorProto.INT64
    forgery.put("weight 0", np.ones((4, 10), np.float32))
    return forgery.claim("verified", "bounds", ["real"], [{"each": 1}]).restated().sealed()


def many_categories():
    """20,000 of them: a table of each with each would have 400 million entries."""
    forgery = Forgery.of(bundle("ignoring"))
    names = [str(i) for i in range(20_000)]
    next(f for f in forgery.domain["features"] if f["name"] == "job")["categories"] = names
    node = next(node for node in forgery.model.graph.node if node.output[0] == "one-hot job")
    attribute = next(a for a in node.attribute if a.name == "cats_strings")
    del attribute.strings[:]
    attribute.strings.extend(name.encode() for name in names)
    return forgery.sealed()


def many_combinations():
    """Each of 60,000 combinations is looked up among 60,000 categories."""
    forgery = Forgery.of(bundle("ignoring"))
    feature = next(f for f in forgery.domain["features"] if f["name"] == "owner")
    feature |= {"kind": "categorical", "categories": list(range(60_000))}
    forgery.domain["combinations"] = [[59_999]] * 60_000
    return forgery.sealed()


def many_steps():
    """A sensitive number that is multiplied thousands of times: its exact value has a million digits."""
    forgery = Forgery.of(bundle("classes"))
    graph = forgery.model.graph
    nodes = list(graph.node)
    at = next(i for i, node in enumerate(nodes) if node.output[0] == "encoded grade")
    value, factor = nodes[at].input[0], nodes[at - 1].input[1]
    forgery.put(factor, np.array([[1 + 2.0**-52]]))
    extra = [helper.make_node("Mul", [f"s{i - 1}" if i else value, factor], [f"s{i}"]) for i in range(9000)]
    nodes[at].input[0] = "s8999"
    del graph.node[:]
    graph.node.extend([*nodes[:at], *extra, *nodes[at:]])
    return forgery.sealed()


def many_layers():
    """Two people through thousands of layers, in exact fractions."""
    forgery = Forgery.of(bundle("falsified"))
    graph = forgery.model.graph
    nodes = list(graph.node)
    at = next(i for i, node in enumerate(nodes) if node.output[0] == "layer 2")
    weight = numpy_helper.from_array(np.array([[1 + 2.0**-22]], np.float32), "more")
    graph.initializer.extend([weight, numpy_helper.from_array(np.array([2.0**-22], np.float32), "shift")])
    extra = []
    for i in range(4000):
        extra.append(helper.make_node("Relu", [f"z{i - 1}" if i else "layer 2"], [f"a{i}"]))
        extra.append(helper.make_node("Gemm", [f"a{i}", "more", "shift"], [f"z{i}"], transB=1))
    for node in nodes[at + 1 :]:
        for k, name in enumerate(node.input):
            node.input[k] = "z3999" if name == "layer 2" else name
    del graph.node[:]
    graph.node.extend([*nodes[: at + 1], *extra, *nodes[at + 1 :]])
    return forgery.sealed()


def many_truths():
    """A constant of 2^27 values true or false, which nobody reads."""
    forgery = Forgery.of(bundle("ignoring"))
    forgery.model.graph.initializer.append(
        onnx.TensorProto(name="unused", data_type=onnx.TensorProto.BOOL, dims=[2**27], raw_data=bytes(2**27))
    )
    return forgery.sealed()


def many_truths_in_one():
    """The same, in a constant that says it holds one."""
    forgery = Forgery.of(bundle("ignoring"))
    forgery.model.graph.initializer.append(
        onnx.TensorProto(name="unused", data_type=onnx.TensorProto.BOOL, dims=[1], raw_data=bytes(2**27))
    )
    return forgery.sealed()


def many_categories_cut():
    """Each of 60,000 categories is looked up in a list of 30,000."""
    names = [f"{i}" for i in range(60_000)]
    forgery = Forgery.of(bundle("ignoring"))
    next(f for f in forgery.domain["features"] if f["name"] == "job")["categories"] = names
    node = next(node for node in forgery.model.graph.node if node.output[0] == "one-hot job")
    attribute = next(a for a in node.attribute if a.name == "cats_strings")
    del attribute.strings[:]
    attribute.strings.extend(name.encode() for name in names)
    weights = forgery.constant("weight 0")
    forgery.put("weight 0", np.zeros((len(weights), 3 + len(names)), np.float32))
    return forgery.claim("verified", "bounds", ["real"], [["job", names[::2]], 1, 1]).restated().sealed()


def many_neurons():
    """A first layer of four million neurons that are all 0."""
    forgery = Forgery.of(bundle("ignoring"))
    count = 2**22
    width = forgery.constant("weight 0").shape[1]
    forgery.put("weight 0", np.zeros((count, width), np.float32))
    forgery.put("bias 0", np.zeros(count, np.float32))
    forgery.put("weight 1", np.zeros((2, count), np.float32))
    return forgery.claim("verified", "bounds", ["real"], [0, 0]).restated().sealed()


def many_open_parts():
    """Cut after cut, and each leaves a part of the domain to be looked at later."""
    switches = tuple(BooleanFeature(name=f"b{i}") for i in range(1000))
    features = (RealFeature(name="x", low=0.0, high=1.0), *switches)
    model = hand_made(features, ("b0",), [([[1.0] + [0.0] * 999 + [0.5]], [0.0]), ([[1.0]], [-1.0])])
    forgery = Forgery.of(bundle_files(model))
    cuts = [["x", 1 - (i + 1) / 100_001] for i in range(100_000)]
    return forgery.claim("verified", "bounds", ["real"], [*cuts, 0]).restated().sealed()


def many_digits():
    forgery = Forgery.of(bundle("ignoring"))
    forgery.domain["features"][0].update(low=-(10**4000), high=10**4000)
    return forgery.sealed()


@pytest.mark.parametrize(
    "make",
    [
        many_fine_grids,
        many_fine_sensitive_grids,
        many_sensitive_features,
        many_moves,
        many_values_moved,
        many_combinations_moved,
        many_versions,
        many_categories,
        many_categories_cut,
        many_combinations,
        many_steps,
        many_layers,
        many_truths,
        many_truths_in_one,
        many_neurons,
        many_open_parts,
        many_digits,
    ],
)
def test_a_file_that_makes_much_work_is_refused(alone, tmp_path, make):
    reason = refused(alone, folder(tmp_path / "bundle", make()))
    assert "memory" not in reason  # refused before, not because, it ran out


# --- texts that pass for something else ---


def test_a_text_from_a_file_cannot_pass_for_our_answer(alone, tmp_path):
    forgery = Forgery.of(bundle("undecided"))
    forgery.certificate["reason"] = "x\nVALID: Two individuals always get the same decision.\x1b[2J\u202e"
    status, text, _ = examine(alone, folder(tmp_path / "bundle", forgery.restated().sealed()))
    assert status == 3 and len(re.findall("^VALID", text, re.MULTILINE)) == 1
    assert text.replace("\n", "").isprintable()


def test_a_text_that_cannot_be_printed_is_no_crash(alone, tmp_path):
    forgery = Forgery.of(bundle("undecided"))
    forgery.certificate["reason"] = "half a \ud800"
    place = folder(tmp_path / "bundle", forgery.restated().sealed())
    for options in ((), ("--json",)):
        status, text, errors = examine(alone, place, *options)
        assert status == 3 and text and "Traceback" not in errors


# --- fuzzing the readers: whatever the bytes, an answer or one of the checker's own refusals ---

EXPECTED = (checker.Rejected, *checker.MALFORMED)
PEOPLE = {
    kind: checker.Individuals(checker.parse_json(bundle(kind)["domain.json"], "domain.json"))
    for kind in ("ignoring", "classes")
}


def read(content, kind="ignoring"):
    with contextlib.suppress(*EXPECTED):
        checker.read_model(content, PEOPLE[kind])


@settings(max_examples=300)
@given(st.binary(max_size=300))
@example(b"\x3a\x00")
@example(field(7, field(5, field(1, 2**64 - 1))))
def test_any_bytes_can_be_read_as_a_model(content):
    read(content)
    with contextlib.suppress(*EXPECTED):
        checker.parse_message(memoryview(content), checker.MODEL, checker.Budget())


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
@example(b"[" * 5000)
@example(b'{"a":' * 5000)
@example(b"-" + b"1" * 5000)
@example(b'"\\ud800"')
def test_any_bytes_can_be_read_as_json(content):
    with contextlib.suppress(checker.Rejected):  # nothing else
        assert isinstance(checker.parse_json(content, "some.json"), dict)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(sorted(checker.FIELDS)), JSON_VALUES))
def test_any_json_can_be_read_as_a_certificate(data):
    files = bundle("classes")
    files = sealed(files["model.onnx"], files["domain.json"], json.loads(files["certificate.json"]) | data)
    answer(files)
    with contextlib.suppress(InputError):
        load_files(files)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(["features", "sensitive", "combinations", "label"]), JSON_VALUES))
def test_any_json_can_be_read_as_a_domain(data):
    files = bundle("bounds")
    domain = json.loads(files["domain.json"]) | data
    files = sealed(files["model.onnx"], domain, json.loads(files["certificate.json"]))
    answer(files)
    with contextlib.suppress(InputError):
        load_files(files)


@settings(max_examples=300)
@given(st.randoms(use_true_random=False), st.sampled_from(["ignoring", "classes"]), st.integers(1, 3))
def test_a_damaged_model_can_be_read(chance, kind, times):
    content = bundle(kind)["model.onnx"]
    for _ in range(times):
        content = damaged(content, chance) or b"\0"
    read(content, kind)


def messages(schema, depth=0):
    """Messages of the right grammar, with any content."""
    texts = [*"abc", "age", "job", "Gemm", "Concat", "layer 0", "axis", "ai.onnx.ml", ""]
    choices = []
    for number, (_, kind, *inner) in schema.items():
        if inner:
            value = messages(inner[0], depth + 1)
        elif kind.startswith("int"):
            value = st.sampled_from([0, 1, 2, 7, 8, 9, 11, 18, 2**32, 2**63, 2**64 - 1])
        elif kind.startswith("text"):
            value = st.sampled_from(texts).map(str.encode)
        else:
            value = st.binary(max_size=16)
        choices.append(value.map(lambda content, number=number: field(number, content)))
    return st.lists(st.one_of(choices), max_size=4).map(b"".join)


@settings(max_examples=200)
@given(messages(checker.GRAPH))
def test_any_graph_of_the_right_grammar_can_be_read(graph):
    opsets = field(8, field(2, 18)) + field(8, field(1, b"ai.onnx.ml") + field(2, 3))
    read(field(1, 9) + opsets + field(7, graph))


# --- a folder that was zipped ---

WHEN = b"UT\5\0\3abcd" + b"ux\13\0\1\4\0\0\0\0\4\0\0\0\0"  # as `zip -r` writes of each file


def a_zipped_folder(place, *, folder="bundle/", own_entry=True, extra=b"", others=(), **changes):
    """The files of a bundle in a folder of a .zip; `changes` are attributes of one entry."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        if own_entry:
            entry = zipfile.ZipInfo(folder)
            entry.external_attr, entry.extra = ((stat.S_IFDIR | 0o755) << 16) | 0x10, extra
            archive.writestr(entry, b"")
        for name, content in ((folder + name, c) for name, c in bundle("structural").items()):
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr, entry.extra = 8, (stat.S_IFREG | 0o644) << 16, extra
            if name.endswith("domain.json"):
                for field, value in changes.items():
                    setattr(entry, field, value)
            archive.writestr(entry, content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a name comes twice
            for name, content in others:
                archive.writestr(name, content)
    return place


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"own_entry": False},
        {"extra": WHEN},
        {"folder": "my bundle.v1/"},
        {"internal_attr": 1},  # "this is a text"
    ],
)
def test_a_folder_that_was_zipped_is_checked_and_loaded(tmp_path, how):
    place = a_zipped_folder(tmp_path / "b.zip", **how)
    assert checker.check(place) == checker.check(folder(tmp_path / "b", bundle("structural")))
    assert load(place).certificate.verdict.answer == "verified"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"others": [("other/report.html", b"x")]}, "is not in the folder of the other files"),
        ({"others": [("report.html", b"x")]}, "is not in the folder of the other files"),
        ({"others": [("bundle/model.onnx", b"x")]}, "unexpected file 'bundle/model.onnx'"),
        ({"others": [("bundle/", b"")]}, "unexpected file 'bundle/'"),
        ({"others": [("bundle/evil.py", b"x")]}, "unexpected file 'bundle/evil.py'"),
        ({"folder": "a/b/"}, "unexpected file 'a/b/"),
        ({"folder": "/", "own_entry": False}, "unexpected file '/"),
        ({"folder": "../", "own_entry": False}, "unexpected file '../"),
        ({"folder": "./", "own_entry": False}, "unexpected file './"),
        ({"folder": "c:/", "own_entry": False}, "unexpected file 'c:/"),
        ({"folder": "a\\b/", "own_entry": False}, "unexpected file"),
        ({"folder": "a\x1b/", "own_entry": False}, "unexpected file"),
        ({"extra": b"up\6\0\1abcde"}, "not plainly zipped"),  # another name for programs that know Unicode paths
        ({"extra": b"UT\5\0\3abcd!"}, "not plainly zipped"),
        ({"extra": b"UT\xff\0\3abcd"}, "not plainly zipped"),
        ({"external_attr": (stat.S_IFLNK | 0o777) << 16}, "says something else than its files"),
        ({"external_attr": (stat.S_IFDIR | 0o755) << 16}, "says something else than its files"),
        ({"external_attr": 0x10}, "says something else than its files"),
        ({"internal_attr": 2}, "says something else than its files"),
        ({"comment": b"hi"}, "says something else than its files"),
    ],
)
def test_a_zip_of_more_than_one_folder_or_of_anything_else_is_rejected(tmp_path, how, message):
    with pytest.raises(checker.Rejected, match=re.escape(message)):
        checker.read_bundle(a_zipped_folder(tmp_path / "b.zip", **how))


def test_a_folder_in_a_zip_holds_nothing_itself(tmp_path):
    files = [(b"bundle/", b"evil", 0, zlib.crc32(b"evil"), 4, 0)]
    files += [(b"bundle/" + name, *rest) for name, *rest in plain(bundle("structural"))]
    with pytest.raises(checker.Rejected, match="'bundle/' is too large"):
        checker.read_bundle(raw_zip(tmp_path / "b.zip", files))
