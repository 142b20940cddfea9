"""Forged bundles of forests by the thousand: whatever the checker accepts must be true of the files, as `graph_oracle`
finds it.

make nightly ONLY=forests COUNT=10000        prints what is wrong, with the seed and number that make it again
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from bornfair.core.errors import InputError
from bornfair.proof.bundle import FairForest, bundle_files
from bundle_cases import FORESTS, NAMES, Files, answer, bundle
from forgeries import TREE_MUTATIONS, forge
from fuzzing import Summary
from graph_oracle import contradiction
from random_forests import random_forest_model

BASES = 30  # random bundles that are there to be forged, at a time; renewed after RENEWED forgeries
RENEWED = 2000


def random_bundle(rng: np.random.Generator) -> Files | None:
    """A small forest over features of every kind, examined for a moment; None if a bundle cannot hold it."""
    try:
        kept = FairForest.of(random_forest_model(rng))
        files = bundle_files(kept.certified(timeout=0.5) if rng.random() < 0.7 else kept)
    except InputError:
        return None
    return {name: content for name, content in files.items() if name in NAMES}


def run(count: int, seed: int) -> Summary:
    """Forge `count` bundles: how many were accepted, by verdict and proof, and every claim that is not true."""
    summary, bases = Summary(count), list[Files]()
    for i in range(count):
        if i % RENEWED == 0:
            rng = np.random.default_rng([seed, i])
            made = [random_bundle(rng) for _ in range(BASES)]
            bases = [bundle(kind) for kind in FORESTS] * 2 + [files for files in made if files is not None]
        problem = one_case(f"{seed} {i}", bases, summary.outcomes)
        if problem is not None:
            summary.wrong.append(f"case {i}: {problem}")
    return summary


def one_case(seed: str, bases: list[Files], outcomes: Counter[str]) -> str | None:
    chance = random.Random(seed)
    families = chance.choice([[name] for name in TREE_MUTATIONS] + [["trees", "domain", "likely"], ["likely"]] * 3)
    changes = chance.choice([0, 1, 1, 1, 2, 3])
    what, forgery = forge(chance.choice(bases), families, chance, changes=changes, known=TREE_MUTATIONS)
    files = forgery.sealed()
    found = answer(files)
    outcomes[f"{found['verdict']} by {found['proof']}" if found["valid"] else "rejected"] += 1
    problem = contradiction(files, found, seed=chance.randrange(2**32), count=24)
    return problem and f"{what}: {found['claim']} But {problem}"
