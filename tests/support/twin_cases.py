"""Random small domains with random rules for twins, everybody in them, and what onnxruntime answers."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import pandas as pd

from bornfair.models.network.network import Layer, Network
from bornfair.models.network.onnx_graph import onnx_bytes
from bornfair.people.domain import Domain
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label
from bornfair.proof.bundle import FairModel

JOB = CategoricalFeature(name="job", categories=("clerk", "nurse", "smith", "cook"))
TITLE = CategoricalFeature(name="title", categories=("Mr", "Ms", "Dr"))
SHOE = IntegerFeature(name="shoe", low=1, high=4)
CODE = CategoricalFeature(name="code", categories=(10, 20, 30))
OWNER = BooleanFeature(name="owner")
HOURS = IntegerFeature(name="hours", low=0, high=3)
SEX = CategoricalFeature(name="sex", categories=("f", "m"))
RACE = CategoricalFeature(name="race", categories=("a", "b", "c"))
LABEL = Label(name="grant", classes=("no", "yes"))


def random_domain(seed: int) -> Domain:
    """Some of the features, one sensitive, and one to three rules; each rule moves one or more columns together."""
    random = np.random.default_rng([seed, 5])
    pool = [JOB, TITLE, SHOE, CODE, OWNER]
    kept = [pool[i] for i in sorted(random.choice(len(pool), 3, replace=False))]
    sensitive = SEX if random.random() < 0.5 else RACE
    domain = Domain(features=(*kept, HOURS, sensitive), sensitive=(sensitive.name,), label=LABEL)
    rules = []
    for _ in range(int(random.integers(1, 4))):
        moved = [f for f in kept if random.random() < 0.6] or kept[:1]
        rules.append(", ".join(f"{f.name}: {_move(f, random)}" for f in moved))
    return domain.with_twins(rules)


def _move(feature, random: np.random.Generator) -> str:
    if feature.kind == "integer":
        return f"-x+{feature.low + feature.high}"
    levels = [str(level) for level in feature.levels()]
    count = int(random.integers(2, len(levels) + 1))
    chosen = [levels[i] for i in random.choice(len(levels), count, replace=False)]
    return "->".join([*chosen, chosen[0]]) if count > 2 else "<->".join(chosen)


def everybody(domain: Domain) -> pd.DataFrame:
    rows = itertools.product(*(feature.levels() for feature in domain.features))
    return pd.DataFrame(list(rows), columns=list(domain.names)).infer_objects()


def tied(model: FairModel) -> FairModel:
    """The model with V = 0 and equal weights on values that change places: shown raw columns, it is fair all the same,
    but in real arithmetic only.
    """
    encoding, first = model.encoding, model.network.layers[0]
    assert not encoding.merged
    weight, bias = first.weight.astype(np.float64), first.bias
    weight[:, encoding.free_width :] = 0.0
    for name, orbits in encoding.domain.twin_group.orbits.items():
        place = encoding.free_columns()[name]
        for orbit in orbits if encoding.domain.feature(name).kind == "categorical" else ():
            members = place.start + np.array(orbit)
            weight[:, members] = weight[:, members].mean(axis=1, keepdims=True)
        if encoding.domain.feature(name).kind != "categorical":  # mirrored: their mean is the same for everybody
            weight[:, place] = 0.0
    return FairModel(Network((Layer(weight, bias), *model.network.layers[1:]), model.network.activation), encoding)


def biased_labels(table: pd.DataFrame, seed: int) -> np.ndarray:
    """A truth that depends on every value of every column, so that only a fair method ignores what it must."""
    random, score = np.random.default_rng([seed, 9]), np.zeros(len(table))
    for name in table.columns:
        taste = {value: random.normal() for value in sorted(set(table[name]), key=str)}
        score += table[name].map(taste).to_numpy(float)
    score += 0.1 * random.normal(size=len(table))
    return np.where(score > np.median(score), "yes", "no")


def served(model, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities as onnxruntime gives them."""
    return served_bytes(onnx_bytes(model), table)


def served_bytes(content: bytes, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    kinds = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": bool, "tensor(string)": object}
    columns = {  # a missing text is the empty one
        i.name: table[[i.name]].astype(object).where(table[[i.name]].notna(), "")
        if kinds[i.type] is object
        else table[[i.name]]
        for i in session.get_inputs()
    }
    label, shares = session.run(
        None, {i.name: columns[i.name].to_numpy().astype(kinds[i.type]) for i in session.get_inputs()}
    )
    return np.asarray(label), np.asarray(shares)
