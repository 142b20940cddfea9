"""Shares of random small domains against counting everybody out: stopped at random and run to the end, in both
arithmetics, people counted alike or by marginals, twins declared or not.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import bornfair.models.network.bounds.alive as alive
import bornfair.models.network.shares.few_sums as few_sums
import bornfair.models.network.shares.shares as shares
import bornfair.quantification.measure as engine
from bornfair.models.network.bounds.exact import exact_decisions, fractions
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label
from bornfair.people.space.variables import variables
from bornfair.people.twins.relation import twin_relation
from bornfair.proof.bundle import FairModel
from bornfair.quantification.measure import shares_of
from bornfair.quantification.records import Shares
from fuzzing import Summary

FOREVER = 1e9


def small_model(rng, *, activation="relu", depth=None, twins=False):
    pool = [
        IntegerFeature(name="n", low=-2, high=int(rng.integers(-1, 9))),
        IntegerFeature(name="m", low=0, high=int(rng.integers(1, 12))),
        BooleanFeature(name="b"),
        CategoricalFeature(name="c", categories=("x", "y", "z", "w")[: int(rng.integers(1, 5))]),
    ]
    kept = [f for f in pool if rng.random() < 0.75] or pool[:1]
    sensitive = CategoricalFeature(name="s", categories=("p", "q", "o")[: int(rng.integers(2, 4))])
    outputs = int(rng.choice([1, 1, 3]))
    label = Label(name="y", classes=tuple(range(max(outputs, 2))))
    domain = Domain(features=(*kept, sensitive), sensitive=("s",), label=label)
    if twins:
        rules = {"c": "x<->y", "m": f"-x+{pool[1].high}"}
        possible = [f.name for f in kept if f.name == "m" or (f.name == "c" and len(f.categories) > 1)]
        domain = domain.with_twins(", ".join(f"{name}: {rules[name]}" for name in possible)) if possible else domain
    scales = {f.name: Scale(centre=1.0, exponent=int(rng.integers(-1, 3))) for f in kept if f.kind == "integer"}
    encoding = Encoding(domain, scales)
    hidden = rng.integers(1, 7, int(rng.integers(0, 4)) if depth is None else depth)
    widths = [encoding.width, *(int(n) for n in hidden), outputs]
    style, layers = rng.choice(["tame", "normal", "weak", "large"]), []
    for i, (a, b) in enumerate(itertools.pairwise(widths)):
        weight, bias = rng.normal(size=(b, a)), rng.normal(size=b)
        if style == "tame":
            weight, bias = np.round(2 * weight) / 2, np.round(2 * bias) / 2
        if style == "large":
            weight, bias = weight * 100, bias * 100
        if i == 0:
            weight[:, encoding.free_width :] *= 10.0 ** rng.uniform(-4, 0) if style == "weak" else 1.0
        layers.append(Layer(weight, bias))
    return FairModel(Network(tuple(layers), activation), encoding)


def unfair_people(model):
    """Everybody as a table, and whose twins are decided differently: exactly wherever float64 could be wrong."""
    relation = twin_relation(model.encoding)
    places = variables(model.encoding, relation.free).places
    free = places.values(places.everybody(places.root)[0])
    inputs = np.stack([view(free) for view in relation.views], axis=1)
    values = inputs
    for i, layer in enumerate(model.network.layers):
        values = (np.tanh(values) if model.network.activation == "tanh" else np.maximum(values, 0)) if i else values
        values = values @ layer.weight.T.astype(np.float64) + layer.bias
    decided = decisions(values)
    ranked = np.sort(values, axis=-1)
    margin = np.abs(values[..., 0]) if values.shape[-1] == 1 else ranked[..., -1] - ranked[..., -2]
    close = np.argwhere(margin <= 1e-6 * (1 + np.abs(values).max()))
    if len(close) and model.network.activation == "relu":
        at = tuple(close.T)
        decided[at] = exact_decisions(model.network, fractions(inputs[at]))
    return model.encoding.decode(free), (decided != decided[:, :1]).any(axis=1)


def random_marginals(rng, model):
    marginals = {}
    for feature in model.domain.free_features:
        if rng.random() < 0.7:
            weights = {level: int(w) for level, w in zip(feature.levels(), rng.integers(0, 6, 99), strict=False)}
            weights[feature.levels()[0]] = max(weights[feature.levels()[0]], 1)
            marginals[feature.name] = weights
    return marginals


def true_shares(model, marginals=None):
    """The fair and the unfair share, as fractions."""
    people, unfair = unfair_people(model)
    weights = np.full(len(people), Fraction(1), dtype=object)
    for name, marginal in (marginals or {}).items():
        weights *= np.array([Fraction(str(marginal.get(value, 0))) for value in people[name].tolist()], dtype=object)
    total = sum(weights)
    bad = sum((w for w, u in zip(weights, unfair, strict=True) if u), Fraction(0))
    return 1 - bad / total, bad / total


def mistakes(model, found: Shares, fair, unfair, finished):
    """What is wrong with some shares, or nothing."""
    if Fraction(found.certified) > fair or Fraction(found.falsified) > unfair:
        return f"{found} claims more than {float(fair)} and {float(unfair)}"
    if found.certified + found.falsified + found.undecided != 1.0 or found.undecided < 0:
        return f"{found} does not sum to 1"
    sure = found.confident
    if not Fraction(sure.low) <= unfair <= Fraction(sure.high):
        return f"{found} is sure of an interval without {float(unfair)}"
    if found.falsified > sure.low or found.certified > 1 - sure.high:
        return f"{found} is less sure than what it proves"
    if finished and (found.undecided > 1e-9 or abs(Fraction(found.certified) - fair) > Fraction(1, 10**9)):
        return f"{found} is finished, but {float(fair)} and {float(unfair)}"
    return None


def case(seed, activation):
    """One random model measured for a random while, and to the end."""
    rng = np.random.default_rng(seed)
    model = small_model(rng, activation=activation, twins=bool(rng.random() < 0.3))
    marginals = random_marginals(rng, model) if rng.random() < 0.4 else None
    fair, unfair = true_shares(model, marginals)
    arithmetic = (("real",), ("real", "float32"))[int(rng.integers(2))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FEW", int(rng.choice([1, 1, 4, 64])))
        patch.setattr(alive, "NARROW", int(rng.choice([0, alive.NARROW])))  # dead neurons are left out of small layers
        for most in ("GRID_COMBINED", "COMBINED"):  # how much is rounded, and how coarse grids are
            patch.setattr(shares, most, int(rng.choice([1, 8, getattr(shares, most)])))
        patch.setattr(few_sums, "CELLS", {1: int(rng.integers(6, 14)), 2: int(rng.integers(10, 15))})
        patch.setattr(shares, "MOST_CELLS", {1: 14, 2: 15})
        patch.setattr(engine, "CROWD", int(rng.choice([1, 30, engine.CROWD])))
        options = {"timeout": FOREVER, "samples": 50, "marginals": marginals, "arithmetic": arithmetic}
        part = shares_of(model, most_boxes=int(rng.integers(1, 40)), **options)
        wrong = mistakes(model, part, fair, unfair, False)
        whole = shares_of(model, **options)
    exact = arithmetic == ("real",) and activation == "relu"
    return wrong or mistakes(model, whole, fair, unfair, exact)


def run(count: int, seed: int) -> Summary:
    """Random small domains, most of them of networks with exact activations."""
    found = Summary()
    for one in np.random.default_rng(seed).integers(0, 2**32, count).tolist():
        activation = "tanh" if one % 8 == 0 else "relu"
        problem = case(one, activation)
        found += Summary(
            1, Counter({activation: 1}), [] if problem is None else [f"case {one}, {activation}: {problem}"]
        )
    return found
