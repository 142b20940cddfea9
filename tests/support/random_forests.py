"""Small random forests, and what is true of them by looking at everybody: the oracle of all that is said of forests."""

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bornfair import Domain
from bornfair.models.forest.bounds.judge import exact_class
from bornfair.models.forest.columns import SplitColumn, columns_of
from bornfair.models.forest.forest import Cut, Forest, Summation
from bornfair.models.forest.model import ForestModel
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.twins.versions import Versions

WORDS = ("red", "green", "blue", "grey")


def random_forest_model(
    rng: np.random.Generator, *, twins: bool = True, most: int = 4, gaps: bool = True
) -> ForestModel:
    """Two to `most` features of every kind, one or two of them sensitive; ties at thresholds and between scores."""
    count = int(rng.integers(2, most + 1))
    features, columns = [], []
    for i in range(count):
        feature, column = _feature(rng, i)
        features.append(feature)
        columns.append(column)
        if rng.random() < 0.2:  # a second column of the same input
            columns.append(_column(rng, feature, i))
    sensitive = [f.name for f in features if rng.random() < 0.3][: count - 1] or [features[0].name]
    outputs = int(rng.choice([1, 1, 1, 2, 3]))
    domain = Domain(
        features=tuple(features),
        sensitive=tuple(sensitive),
        label=Label(name="y", classes=tuple(range(max(outputs, 2)))),
    )
    if twins and rng.random() < 0.4:
        domain = _with_rules(rng, domain)
    forest = _forest(rng, features, columns, outputs)
    if gaps and rng.random() < 0.5:
        domain = _with_gaps(rng, domain)
    return ForestModel(forest, domain, domain.names)


def _with_gaps(rng, domain):
    """Some features may be missing; not sensitive numbers, and what is true or false."""
    features = []
    for feature in domain.features:
        possible = feature.kind == "categorical" or (
            feature.kind in ("integer", "real") and feature.name not in domain.sensitive
        )
        gap = possible and rng.random() < 0.7
        features.append(feature.model_copy(update={"missing": True}) if gap else feature)
    return domain.replaced(features=[feature.model_dump() for feature in features])


def _feature(rng, i):
    name = f"x{i}"
    kind = rng.integers(4)
    if kind == 0:
        low = int(rng.integers(-3, 1))
        feature = IntegerFeature(name=name, low=low, high=low + int(rng.integers(1, 6)))
    elif kind == 1:
        feature = RealFeature(name=name, low=-1.0, high=float(rng.choice([0.5, 1.0, 2.25])))
    elif kind == 2:
        feature = BooleanFeature(name=name)
    else:
        words = tuple(rng.permutation(WORDS)[: rng.integers(2, 5)].tolist())
        feature = CategoricalFeature(name=name, categories=words)
    return feature, _column(rng, feature, i)


def _column(rng, feature, i):
    if feature.kind == "categorical":
        numbers = rng.permutation(len(feature.categories)).astype(float).tolist()
        return SplitColumn(i, (), tuple(zip(feature.categories, numbers, strict=True)))
    steps = [(("float32", 0.0),), (), (("times", -2.0), ("plus", 0.5)), (("float32", 0.0), ("at most", 1.0))]
    return SplitColumn(i, steps[rng.integers(len(steps))])


def _with_rules(rng, domain):
    for feature in domain.free_features:
        if feature.kind == "categorical":
            return domain.with_twins(f"{feature.name}: {feature.categories[0]}<->{feature.categories[1]}")
        if feature.kind in ("integer", "real"):
            return domain.with_twins(f"{feature.name}: -x{feature.low + feature.high:+g}")
    return domain


def _forest(rng, features, columns, outputs):
    column, threshold, members, left, right, missing, values, roots, sets = [], [], [], [], [], [], [], [], []

    def grow(depth):
        here = len(column)
        for part, blank in ((column, -1), (threshold, 0.0), (members, -1), (left, -1), (right, -1), (missing, False)):
            part.append(blank)
        if depth == 0 or rng.random() < 0.2:
            row = rng.integers(-8, 9, size=outputs) / 8
            if outputs == 3 and rng.random() < 0.5:
                row = np.eye(3)[rng.integers(3)] * row
            values.append(row)
            return here
        column[here] = int(rng.integers(len(columns)))
        chosen = columns[column[here]]
        feature = features[chosen.source]
        if chosen.table is not None and rng.random() < 0.5:
            sets.append(np.flatnonzero(rng.random(len(chosen.table)) < 0.5).astype(float))
            members[here] = len(sets) - 1
        elif chosen.table is not None:
            threshold[here] = float(rng.integers(len(chosen.table))) - 0.5 * (rng.random() < 0.5)
        else:
            ends = [(False, True)] if feature.kind == "boolean" else [(feature.low, feature.high)]
            raw = rng.uniform(*map(float, ends[0]))
            raw = round(raw * 4) / 4 if rng.random() < 0.7 else raw
            threshold[here] = float(SplitColumn(0, chosen.steps).values(np.array([raw]))[0])
        missing[here] = bool(rng.random() < 0.5)
        left[here] = grow(depth - 1)
        right[here] = grow(depth - 1)
        return here

    for _ in range(rng.integers(1, 6)):
        roots.append(len(column))
        grow(int(rng.integers(1, 4)))
    precision = str(rng.choice(["float32", "float64"]))
    first = bool(rng.random() < 0.7)
    how = Summation(
        precision, tuple((rng.integers(-4, 5, size=outputs) / 8).tolist()), first,
        divisor=float(rng.choice([1.0, 1.0, 4.0])),
    )  # fmt: skip
    cut = Cut(at=float(rng.choice([0.0, 0.125, 0.3]))) if outputs == 1 else Cut(link="softmax")
    names = tuple(feature.name for feature in features)
    return Forest(
        names, tuple(columns), roots, column, threshold, members, left, right, missing, np.array(values), how, cut,
        tuple(sets),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Everybody:
    """All free people (up to what the forest can tell apart), their weights, and whether their versions differ."""

    people: pd.DataFrame
    weights: np.ndarray  # sum to 1
    unfair: np.ndarray

    @property
    def share(self) -> float:
        return float(self.weights[self.unfair].sum())


def everybody(model: ForestModel) -> Everybody:
    """By looking at each of them, between all the points where any split or mirrored split may turn."""
    domain = model.domain
    free = [_values(model, feature) for feature in domain.free_features]
    sensitive = [[value for value, _ in _values(model, feature)] for feature in domain.sensitive_features]
    rows = list(itertools.product(*free))
    people = pd.DataFrame(
        [[value for value, _ in row] for row in rows], columns=list(domain.free_names), index=range(len(rows))
    )
    weights = np.array([np.prod([weight for _, weight in row]) for row in rows]) if free else np.ones(1)
    versions = Versions(domain, list(itertools.product(*sensitive)))
    decided = np.stack([_decided(model, versions.table(people, v)) for v in range(versions.size)])
    return Everybody(people, weights, (decided != decided[0]).any(axis=0))


def some_limits(rng: np.random.Generator, model: ForestModel) -> dict:
    """A sub-population by some of its free features: lists of values, and ranges that end where splits may turn."""
    found = {}
    for feature in model.domain.free_features:
        if rng.random() < 0.4:
            continue
        values = [value for value, weight in _values(model, feature) if feature.kind != "real" or not weight]
        if feature.kind in ("categorical", "boolean"):
            found[feature.name] = [v for v in values if rng.random() < 0.6] or values[:1]
        else:
            there = [value for value in values if value is not None]
            ends = sorted({there[i] for i in rng.integers(len(there), size=2)})
            found[feature.name] = (ends[0], ends[-1])
    return found


def within(model: ForestModel, people: pd.DataFrame, limits: dict) -> np.ndarray:
    """Which people belong to it, by looking at each of them."""
    found = np.ones(len(people), bool)
    for name, limit in limits.items():
        number = model.domain.feature(name).kind in ("integer", "real")
        gone = people[name].isna()
        found &= [
            not number and None in limit if gap else limit[0] <= v <= limit[1] if number else v in limit
            for v, gap in zip(people[name], gone, strict=True)
        ]
    return found


def _decided(model, table):
    forest = model.forest
    columns = columns_of([table[name].to_numpy() for name in model.reads], forest.columns, len(table))
    executed, leaves = forest.decide(forest.scores_of_columns(columns)), forest.leaves(columns)
    some = range(min(len(table), 4))
    exact = [exact_class(forest, forest.values[leaves[:, i]]) for i in some]
    assert exact == executed[: len(exact)].tolist()  # values are eighths: nothing rounds
    return executed


def _values(model, feature):
    """Values of a feature, at least one between any two points where something turns, with their weights."""
    if feature.kind in ("categorical", "boolean", "integer"):
        levels = [*feature.levels(), *([None] if feature.missing and feature.kind == "integer" else [])]
        return [(level, 1 / len(levels)) for level in levels]
    forest, turns = model.forest, {feature.low, feature.high}
    for place, column in enumerate(forest.columns):
        if model.reads[column.source] != feature.name:
            continue
        for threshold in forest.threshold[(forest.column == place) & (forest.members < 0)]:
            turn = float(column.last_below([threshold])[0])
            if np.isfinite(turn):
                mirrored = feature.low + feature.high - turn
                turns |= {turn, mirrored} if feature.low <= turn <= feature.high else {turn}
    points = sorted(t for t in turns if feature.low <= t <= feature.high)
    found = [(point, 0.0) for point in points]
    found += [((a + b) / 2, (b - a) / (feature.high - feature.low)) for a, b in itertools.pairwise(points)]
    found += [(float(np.nextafter(p, q)), 0.0) for p in points for q in (-9.0, 9.0)]
    found = [(v, w) for v, w in found if feature.low <= v <= feature.high]
    if not feature.missing:
        return found
    gap = 1 / (feature.grid + 1)  # as one more level of the grid
    return [*((v, w * (1 - gap)) for v, w in found), (None, gap)]
