"""Affine forms over raw people become layers over our encoding: the same function, and zeros stay zeros."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.importers.affine import CannotRead, Forms, Tape, activation, clipped, leaky_relu
from bornfair.importers.fold import folded, rounded
from bornfair.importers.head import Head
from bornfair.importers.source import forward
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, BooleanFeature, CategoricalFeature, IntegerFeature, RealFeature

KINDS = st.sampled_from(["real", "integer", "categorical", "boolean"])


def domain_of(kinds: list[str], sensitive: list[bool], sizes: list[int], some: bool, seed: int) -> Domain:
    random = np.random.default_rng(seed)
    features = []
    for i, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        low = int(random.integers(-20, 20))
        made = {
            "real": RealFeature(name=f"f{i}", low=float(low), high=low + float(random.uniform(0.5, 30)), grid=size + 1),
            "integer": IntegerFeature(name=f"f{i}", low=low, high=low + size),
            "categorical": CategoricalFeature(name=f"f{i}", categories=tuple(f"c{j}" for j in range(size + 1))),
            "boolean": BooleanFeature(name=f"f{i}"),
        }[kind]
        features.append(made)
    names = [f.name for f, chosen in zip(features, sensitive, strict=True) if chosen]
    domain = Domain(features=tuple(features), sensitive=tuple(names))
    if not some or not names or any(domain.feature(name).kind == "real" for name in names):
        return domain
    every = list(itertools.product(*(domain.feature(name).levels() for name in names)))
    kept = random.permutation(len(every))[: max(2, len(every) // 2)]
    return domain.with_sensitive(names, [every[i] for i in kept])


def raw_columns(domain: Domain, tape: Tape, rows: pd.DataFrame) -> np.ndarray:
    """People as the columns of a tape: numbers as they stand, one column for each category."""
    parts = []
    for feature in domain.features:
        column = rows[feature.name]
        if isinstance(feature, NUMERIC):
            parts.append(column.to_numpy(np.float64)[:, None])
        else:
            parts.append(np.array([[value == level for level in feature.levels()] for value in column], np.float64))
    return np.concatenate(parts, axis=1)


@settings(max_examples=80)
@given(data=st.data())
def test_a_folded_layer_computes_what_the_raw_one_does(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    kinds, sensitive, sizes = (
        data.draw(st.lists(values, min_size=count, max_size=count))
        for values in (KINDS, st.booleans(), st.integers(1, 4))
    )
    seed = data.draw(st.integers(0, 999))
    domain = domain_of(kinds, sensitive, sizes, data.draw(st.booleans()), seed)
    tape = Tape(domain.features)
    random = np.random.default_rng(seed)
    weight, bias = random.normal(size=(3, tape.input.width)), random.normal(size=3)
    ignored = data.draw(st.sampled_from(domain.names))
    weight[:, tape.columns[ignored]] = 0.0 if data.draw(st.booleans()) else 0.3
    if isinstance(domain.feature(ignored), NUMERIC):
        weight[:, tape.columns[ignored]] = 0.0
    scores = Forms((3,), {tape.input: weight}, bias)
    network, encoding = folded(Head(scores, "identity"), tape, domain, None)
    rows = domain.sample(60, seed=seed)
    encoded = encoding.encode(rows)
    assert encoded.sensitive is not None
    ours = forward(network, np.concatenate([encoded.free, encoded.sensitive], axis=1))
    assert np.allclose(ours, raw_columns(domain, tape, rows) @ weight.T + bias, atol=2e-4)
    if ignored in domain.sensitive and len(domain.sensitive) == 1:
        assert network.ignores_sensitive(encoding.free_width)


@settings(max_examples=60)
@given(seed=st.integers(0, 9_999), skips=st.lists(st.booleans(), min_size=4, max_size=4), wide=st.booleans())
def test_values_carried_past_relu_layers_arrive_unchanged(seed: int, skips: list[bool], wide: bool) -> None:
    """A chain of layers in which each may read the input and all layers before it."""
    domain = Domain(features=tuple(RealFeature(name=f"f{i}", low=-2.0, high=2.0) for i in range(3)), sensitive=("f0",))
    tape = Tape(domain.features)
    random = np.random.default_rng(seed)
    raw = random.uniform(-2, 2, (40, 3))
    values = [(Forms((3,), {tape.input: np.eye(3)}, np.zeros(3)), raw)]
    kinds = ["relu", "leaky", "clip", "relu"]
    for kind, skip in zip(kinds, [False, *skips[1:]], strict=True):
        width = 5 if wide else 2
        read = values if skip else values[-1:]
        total, numbers = None, np.zeros((40, width))
        for forms, known in read:
            matrix = random.normal(size=(forms.size, width))
            part = Forms((width,), {b: (m.T @ matrix).T for b, m in forms.parts.items()}, forms.constant @ matrix)
            total = part if total is None else total.plus(part)
            numbers = numbers + known @ matrix
        assert total is not None
        if kind == "relu":
            values.append((activation("relu", total, "r"), np.maximum(numbers, 0)))
        elif kind == "leaky":
            values.append((leaky_relu(total, 0.1, "l"), np.where(numbers > 0, numbers, 0.1 * numbers)))
        else:
            values.append((clipped(total, -0.5, 0.5, "c"), np.clip(numbers, -0.5, 0.5)))
    last, expected = values[-1]
    end = last.picked(np.array([0]))
    if skips[0]:
        end, expected = end.plus(values[0][0].picked(np.array([1]))), expected[:, :1] + raw[:, 1:2]
    network, encoding = folded(Head(end), tape, domain, None)
    rows = pd.DataFrame(raw, columns=["f0", "f1", "f2"])
    encoded = encoding.encode(rows)
    assert encoded.sensitive is not None
    ours = forward(network, np.concatenate([encoded.free, encoded.sensitive], axis=1))
    assert np.allclose(ours, expected[:, :1], atol=1e-3)


def test_rounding_never_makes_or_hides_a_zero() -> None:
    numbers = np.array([0.0, 1e-300, -1e-44, 1.0])
    found = rounded(numbers)
    assert found.dtype == np.float32
    assert (np.sign(found) == np.sign(numbers)).all()
    with pytest.raises(CannotRead, match="too large"):
        rounded(np.array([1e39]))
