"""Forged bundles by the thousand: whatever the checker accepts must be true of the files, as `graph_oracle` finds it.

make nightly ONLY=bundles COUNT=10000        prints what is wrong, with the seed and number that make it again
"""

from __future__ import annotations

import io
import itertools
import random
import struct
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.policies import Policies
from bornfair.proof import checker
from bornfair.proof.bundle import bundle_files
from bundle_cases import KINDS, NAMES, Files, answer, bundle, hand_made
from forgeries import MUTATIONS, damaged, forge
from fuzzing import Summary
from graph_oracle import contradiction

BASES = 40  # random bundles that are there to be forged, at a time; renewed after RENEWED forgeries
RENEWED = 2000


# --- small models of every kind of feature ---


def random_bundle(chance: random.Random) -> Files:
    """A model of two or three features, weights that tie, cancel or vanish, and a certificate that claims nothing."""
    pool = [
        IntegerFeature(name="n", low=0, high=chance.choice([1, 3, 6])),
        RealFeature(name="x", low=-1.0, high=chance.choice([0.5, 2.0])),
        BooleanFeature(name="b"),
        CategoricalFeature(name="c", categories=chance.choice([("u", "v"), ("u", "v", "w")])),
        CategoricalFeature(name="k", categories=(10, 20, 30)),
        CategoricalFeature(name="m", categories=("u", 2, 0.5)),
        CategoricalFeature(name="z", categories=(-1.5, 0.25, 4.0)),
    ]
    features = tuple(chance.sample(pool, chance.choice([1, 2, 2, 3, 3])))
    named = tuple(f.name for f in chance.sample(features, chance.choice([1, 1, 2]) if len(features) > 1 else 1))
    if chance.random() < 0.5:  # some of them may be missing
        features = tuple(
            f.model_copy(update={"missing": True})
            if f.kind == "categorical" or (f.kind in ("integer", "real") and f.name not in named)
            else f
            for f in features
        )
    classes = chance.choice([("no", "yes"), (0, 1), ("a", "b", "c"), (False, True)])
    policies = Policies(
        missing=chance.choice(["error", "impute"]),
        unseen=chance.choice(["error", "ignore"]),
        outside=chance.choice(["allow", "clip", "error"]),
    )
    width = sum(_width(f, f.name in named) for f in features)
    sizes = [width, *chance.choice([(2,), (3,), (2, 2), (3, 3)]), 1 if len(classes) == 2 else len(classes)]
    style = chance.choice(["halves", "halves", "normal", "sparse"])
    layers = [
        ([[_weight(style, chance) for _ in range(a)] for _ in range(b)], [_weight(style, chance) for _ in range(b)])
        for a, b in itertools.pairwise(sizes)
    ]
    if chance.random() < 0.4:  # the sensitive codes come last
        free = sum(_width(f, False) for f in features if f.name not in named)
        for row in layers[0][0]:
            row[free:] = [0.0] * (width - free) if chance.random() < 0.7 else [row[-1]] * (width - free)
    options: dict[str, Any] = {"policies": policies, "activation": chance.choice(["relu"] * 6 + ["tanh", "sigmoid"])}
    options["ends"] = {f.name: _ends(f, chance) for f in features if f.name in ("n", "x") and f.name not in named}
    model = hand_made(features, named, layers, label=Label(name="y", classes=classes), **options)
    if chance.random() < 0.3:
        model = model.shifted([chance.choice([-2.0, -0.5, 0.25, 3.0]) for _ in range(sizes[-1])])
    return {name: content for name, content in bundle_files(model).items() if name in NAMES}


def _ends(feature: Any, chance: random.Random) -> dict[str, float]:
    """Where a number is held: nowhere, at one end, between two, at one value."""
    made = chance.randint if feature.kind == "integer" else chance.uniform
    low, high = sorted(float(made(feature.low, feature.high)) for _ in range(2))
    return chance.choice([{}, {"low": low}, {"high": high}, {"low": low, "high": high}, {"low": high, "high": high}])


def _width(feature: Any, sensitive: bool) -> int:
    if feature.kind != "categorical":
        return 1 + feature.missing
    return 1 if sensitive and len(feature.levels()) == 2 else len(feature.levels())


def _weight(style: str, chance: random.Random) -> float:
    if style == "halves":
        return chance.randint(-4, 4) / 2
    return 0.0 if style == "sparse" and chance.random() < 0.6 else float(np.float32(chance.gauss(0, 1)))


# --- archives ---


def forged_zip(files: Files, chance: random.Random) -> bytes:
    """A .zip whose bytes were tampered with, or with a file that only some readers see."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    whole = content.getvalue()
    what = chance.randrange(5)
    if what == 0:
        return damaged(whole, chance)
    size, start = struct.unpack_from("<II", whole, len(whole) - 10)
    if what == 1:  # one byte of the directory or of the end
        at = chance.randrange(start, len(whole))
        return whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
    at = chance.choice([0, start, start + size, len(whole), whole.index(b"PK\3\4", 4)])
    extra = chance.choice([whole[: whole.index(b"PK\3\4", 4)], b"x", whole, bytes(22)])
    moved = bytearray(whole[:at] + extra + whole[at:])
    if what > 2 and at <= start:  # and the end knows where the directory is now
        end = moved.rfind(b"PK\5\6")
        struct.pack_into("<I", moved, end + 16, start + len(extra))
    return bytes(moved)


def zip_contradiction(content: bytes) -> str | None:
    """How an archive that the checker accepts looks different to others; None if it does not, or is not accepted."""
    try:
        seen = checker._read_zip(Path("forged.zip"), content)
    except checker.Rejected:
        return None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        listed = {name: archive.read(name) for name in archive.namelist()}
    streamed, at = {}, 0
    while content[at : at + 4] == b"PK\3\4":
        packed, _, length = struct.unpack_from("<IIH", content, at + 18)
        name = content[at + 30 : at + 30 + length].decode()
        streamed[name], at = listed.get(name), at + 30 + length + packed
    if listed != seen or streamed != seen or content.count(b"PK\1\2") < len(seen):
        return f"it holds {list(listed)} by its directory, {list(streamed)} by its headers"
    return None


# --- the loop ---


def run(count: int, seed: int) -> Summary:
    """Forge `count` bundles: how many were accepted, by verdict and proof, and every claim that is not true."""
    summary, bases = Summary(count), list[Files]()
    for i in range(count):
        if i % RENEWED == 0:
            chance = random.Random(f"{seed} bases {i}")
            bases = [bundle(kind) for kind in KINDS] * 2 + [random_bundle(chance) for _ in range(BASES)]
        problem = one_case(f"{seed} {i}", bases, summary.outcomes)
        if problem is not None:
            summary.wrong.append(f"case {i}: {problem}")
    return summary


def one_case(seed: str, bases: list[Files], outcomes: Counter[str]) -> str | None:
    chance = random.Random(seed)
    if chance.random() < 0.1:
        problem = zip_contradiction(forged_zip(bundle("ignoring"), chance))
        outcomes["archive"] += 1
        return problem and f"archive: {problem}"
    families = chance.choice(
        [[name] for name in MUTATIONS]
        + [["weights", "graph", "domain", "likely"], ["likely"], ["structure", "likely"]] * 3
    )
    what, forgery = forge(chance.choice(bases), families, chance, changes=chance.choice([0, 1, 1, 1, 2, 3]))
    files = forgery.sealed()
    found = answer(files)
    outcomes[f"{found['verdict']} by {found['proof']}" if found["valid"] else "rejected"] += 1
    problem = contradiction(files, found, seed=chance.randrange(2**32))
    return problem and f"{what}: {found['claim']} But {problem}"
