"""Things that are no files where a file is expected, archives that are no bundles, and what an earlier run has left."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import stat
import zipfile
from pathlib import Path

from hostile_making import Chance, bad_bytes, bad_json_text


def no_file(path: Path, chance: Chance) -> str:
    """Replace a file or a bundle; the name of what stands there now."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    way = chance.choice(
        ["a folder", "a pipe", "a device", "no end", "a socket", "a circle", "a link to nothing", "nothing", "empty"]
    )
    if way == "a folder":
        path.mkdir()
        (path / chance.choice(["x.csv", "x.parquet", "model.onnx", "x"])).write_bytes(b"age\n1\n")
    elif way == "a pipe":
        os.mkfifo(path)
    elif way == "a device":
        path.symlink_to("/dev/null")
    elif way == "no end":
        path.symlink_to(chance.choice(["/dev/zero", "/dev/urandom"]))
    elif way == "a socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    elif way == "a circle":
        path.symlink_to(path.name)
    elif way == "a link to nothing":
        path.symlink_to("gone")
    elif way == "empty":
        path.touch()
    return way


PARTS = ("model.onnx", "domain.json", "certificate.json")


def bad_archive(folder: Path, chance: Chance) -> tuple[str, str]:
    """A bundle as a .zip or a folder that holds too much, too little or something else; its place and what it is."""
    source = folder / chance.choice(["bounds", "structural", "classes", "falsified"])
    way = chance.choice(
        ["a bomb", "names", "links", "doubled", "many parts", "a part that is no file", "a large part", "sealed"]
    )
    if way in ("a part that is no file", "a large part", "sealed"):
        part = source / chance.choice(PARTS)
        if way == "a part that is no file":
            return source.name, f"{part.name} is {no_file(part, chance)}"
        if way == "a large part":
            with part.open("ab") as file:
                file.truncate(chance.choice([10**7, 10**9, 10**11]))
        else:
            _swap(source, folder / "tanh", chance)
        return source.name, way
    parts = {name: (source / name).read_bytes() for name in PARTS}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        if way == "a bomb":
            archive.writestr(
                chance.choice([*PARTS, "report.html"]), b"\0" * chance.choice([10**8, 10**9]), compresslevel=1
            )
        for name, content in parts.items():
            if way == "names":
                name = chance.choice(
                    [name, f"../{name}", f"/tmp/{name}", f"a/{name}", name.upper(), name + "\0", "\x1b[2J" + name, ""]
                )
            info = zipfile.ZipInfo(name)
            if way == "links" and chance.random() < 0.5:
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
                content = b"/etc/passwd"
            archive.writestr(info, content)
        if way == "doubled":
            archive.writestr(chance.choice(PARTS), chance.choice([*parts.values()]))
        if way == "many parts":
            for i in range(chance.choice([10, 40_000])):
                archive.writestr(f"{i}", b"")
    content = made.getvalue()
    if chance.random() < 0.2:
        content = chance.choice([b"x" * 100 + content, content + b"x" * 100, bad_bytes(content, chance, content)])
    (folder / "zipped.zip").write_bytes(content)
    return "zipped.zip", way


def _swap(bundle: Path, other: Path, chance: Chance) -> None:
    """A part of another bundle, with fitting digests."""
    name = chance.choice(PARTS)
    shutil.copy(other / name, bundle / name)
    facts = json.loads((bundle / "certificate.json").read_bytes())
    facts["files"] = {one: hashlib.sha256((bundle / one).read_bytes()).hexdigest() for one in PARTS[:2]}
    (bundle / "certificate.json").write_text(json.dumps(facts))


def spoil_left(folder: Path, name: str, chance: Chance) -> None:
    """Change what an earlier run has left: a cache of encoded rows, or half of a streamed prediction."""
    if name == "cache":
        files = sorted(path for path in (folder / name).rglob("*") if path.is_file())
        for path in chance.sample(files, min(len(files), chance.choice([1, 1, 3]))):
            content = path.read_bytes()
            if path.suffix == ".json" and chance.random() < 0.6:
                path.write_bytes(bad_json_text(content, chance))
            elif chance.random() < 0.2:
                no_file(path, chance)
            else:
                path.write_bytes(bad_bytes(content, chance, content[::-1]))
        return
    for ending in (".part", ".progress"):
        path = folder / f"{name}{ending}"
        path.write_bytes(chance.choice([
            b"", b"{}", b"[]", b"null", b"row,class\n1,yes\n", b"\xff" * 100, b"[" * 10**5,
            b'{"part": 0, "inside": 10, "rows": 10, "bytes": 5}',
            b'{"mark": "x", "size": -1, "content": "", "state": {"part": 0}, "seal": ""}',
        ]))  # fmt: skip
        if chance.random() < 0.2:
            no_file(path, chance)
