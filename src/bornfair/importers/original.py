"""The original of a model, run by its own software, and its comparison with the network that was read.

Every model that is read is compared with its original on people of the domain before it is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.importers.head import Head
from bornfair.models.network.network import Network, decisions
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Feature, Value

PEOPLE = 2_048
TOGETHER = 16_384  # rows of one question
HUGE = 1e8  # weights above are nobody's intention
ROUNDING = 50.0  # how many times the rounding we see in our own arithmetic the other's may be


@dataclass(eq=False)
class Original:
    """A model as it came, run by its own software."""

    runtime: str  # which software that is
    scores: Callable[[pd.DataFrame], np.ndarray | None]
    """What it shows for raw rows: probabilities or scores [rows, columns]; None if it gives decisions only."""
    decide: Callable[[pd.DataFrame], np.ndarray]
    """Its class index for each raw row."""
    largest_difference: float | None = None
    """Between its scores and ours on the people compared, in the terms it shows them (mostly probabilities); None if
    it shows decisions only.
    """
    people_compared: int = 0
    reads: tuple[str, ...] = ()  # the features it is given
    likely_wrong: pd.DataFrame | None = None  # people of the domain about whom it and the network are likely to differ
    fills: Mapping[str, Value] = field(default_factory=dict)  # what it takes where a value is missing, by feature
    plain_sums: bool = False
    """Whether it executes just the network that was read: float32 sums and ReLUs, compared as they are. Bounds on every
    order of summation then speak of it, too.
    """

    def decide_versions(self, tables: Iterable[pd.DataFrame]) -> np.ndarray:
        """Class indices [people, versions] of the same people, in one table for each version: asked for many at once,
        because each question costs what hundreds of people do.
        """
        found: list[np.ndarray] = []
        waiting: list[pd.DataFrame] = []
        for table in itertools.chain(tables, [None]):
            if waiting and (table is None or (len(waiting) + 1) * len(table) > TOGETHER):
                people = len(waiting[0])
                decided = self.decide(pd.concat(waiting, ignore_index=True)) if people else np.zeros(0, np.int64)
                found.append(decided.reshape(len(waiting), people).T)
                waiting = []
            if table is not None:
                waiting.append(table)
        return np.concatenate(found, axis=1)


def check(
    original: Original,
    head: Head,
    network: Network,
    encoding: Encoding,
    *,
    table: pd.DataFrame | None = None,
    seed: int = 0,
) -> None:
    """Compare on random people, and on those an import is likely to be wrong about; refuse to go on if decisions differ
    by more than rounding can explain.
    """

    def score(people: pd.DataFrame) -> np.ndarray:
        return forward(network, _encoded(encoding, people))

    def decide(people: pd.DataFrame) -> np.ndarray:
        return decisions(score(people))

    likely = telling_people(encoding.domain, score, (decide, original.decide), table=table, seed=seed)
    original.likely_wrong = likely
    differences = []
    for people in (encoding.domain.sample(PEOPLE, seed=seed), likely):
        differences.append(_compared(original, head, network, encoding, people))
        original.people_compared += len(people)
    shown = [difference for difference in differences if difference is not None]
    original.largest_difference = max(shown, default=None)


def _compared(
    original: Original, head: Head, network: Network, encoding: Encoding, people: pd.DataFrame
) -> float | None:
    """By how much scores differ at most; None if only decisions can be compared."""
    ours, allowed = _ours(network, encoding, people)
    clear = np.abs(ours[:, 0]) > allowed + head.slack
    if ours.shape[1] > 1:
        ranked = np.sort(ours, axis=1)
        clear = ranked[:, -1] - ranked[:, -2] > 2 * allowed
    decided, theirs = decisions(ours), original.decide(people)
    outputs = original.scores(people)
    compared = None if outputs is None else head.difference(ours, np.asarray(outputs, np.float64))
    difference = np.zeros(len(people)) if compared is None else compared
    wrong = clear & (decided != theirs)
    far = ~(difference <= allowed)
    if wrong.any() or far.any():
        row = int(np.argmax(wrong if wrong.any() else np.where(far, difference, -1.0)))
        what = "decides otherwise" if wrong.any() else f"differs by {float(difference[row]):.3g}"
        person = ", ".join(f"{name}={value!r}" for name, value in people.iloc[row].to_dict().items())
        raise InputError(
            f"what was read of this model is not the model: it {what} for {int(max(wrong.sum(), far.sum()))} of "
            f"{len(people)} people, such as {person} ({original.runtime} is the judge). "
            f"{_advice(network, head, None if outputs is None else outputs[row])}"
        )
    return None if compared is None else float(difference.max())


def _advice(network: Network, head: Head, shown: np.ndarray | None) -> str:
    largest = max(float(np.abs(layer.weight).max(initial=0.0)) for layer in network.layers)
    tie = head.probabilities if shown is None else len(shown) > 1 and np.sort(shown)[-1] == np.sort(shown)[-2]
    if tie:
        return "Its scores are rounded until they are equal there; export it without its last sigmoid or softmax."
    if largest > HUGE:
        return (
            f"Its weights, up to {largest:.1g}, are so large that rounding decides; scale the inputs and train again."
        )
    return "Please report this; until then, this model cannot be examined."


def _ours(network: Network, encoding: Encoding, people: pd.DataFrame) -> tuple[np.ndarray, float]:
    """Our scores in float64, and how far from them rounding may lead: estimated from our own float32 arithmetic, and
    from what it does to give the original its numbers as float32.
    """
    inputs = _encoded(encoding, people)
    exact = forward(network, inputs)
    rough = forward(network, inputs, np.float32).astype(np.float64)
    numbers = [feature.name for feature in encoding.domain.features if isinstance(feature, NUMERIC)]
    nearby = people.assign(**{name: people[name].astype(np.float32).astype(np.float64) for name in numbers})
    moved = forward(network, _encoded(encoding, nearby))
    seen = float(np.abs(exact - rough).max()), float(np.abs(exact - moved).max())
    largest = float(np.abs(exact).max(initial=0.0))
    if not np.isfinite(largest):
        raise InputError("the model's scores are infinite for people of the domain; narrow its ranges.")
    return exact, ROUNDING * sum(seen) + 1e-5 * (1.0 + largest)


def forward(network: Network, inputs: np.ndarray, precision: type[np.floating] = np.float64) -> np.ndarray:
    """The network in this precision, by NumPy."""
    values = np.asarray(inputs, precision)
    for i, layer in enumerate(network.layers):
        reached = network.function.value(np, values).astype(precision) if i else values
        with np.errstate(invalid="ignore"):  # BLAS may look at what lies beside an array, and flag that
            values = reached @ layer.weight.astype(precision).T + layer.bias.astype(precision)
    return values


def _encoded(encoding: Encoding, people: pd.DataFrame) -> np.ndarray:
    encoded = encoding.encode(people)
    assert encoded.sensitive is not None
    return np.concatenate([encoded.free, encoded.sensitive], axis=1)


# --- people whom an import is likely to be wrong about ---

CORNERS = 512  # people whose numbers all are at an end of their range
ROWS = 2_048  # of a table
PAIRS = 192  # of people decided differently, between whom the boundary is looked for
HALVINGS = 24
MOST_FEATURES = 200  # tried one by one on the way to extreme scores
MOST_LEVELS = 20

Score = Callable[[pd.DataFrame], np.ndarray]


def telling_people(
    domain: Domain, score: Score, deciders: Sequence[Score], *, table: pd.DataFrame | None = None, seed: int = 0
) -> pd.DataFrame:
    """People of the domain worth looking at. `score` gives [people, outputs], each of `deciders` a class for each."""
    random = np.random.default_rng([seed, 5])
    corners = domain.sample(CORNERS, seed=seed + 1)
    for feature in domain.free_features:
        if isinstance(feature, NUMERIC):
            ends = np.where(random.random(len(corners)) < 0.5, feature.low, feature.high)
            corners[feature.name] = pd.Series(ends).astype(corners[feature.name].dtype)
    found = [corners, _extremes(domain, score, corners, random)]
    if table is not None and set(domain.names) <= set(map(str, table.columns)):
        rows = table[list(domain.names)].dropna()
        rows = rows[~domain.outside(rows)].astype(corners.dtypes)
        found.append(rows.sample(min(ROWS, len(rows)), random_state=seed))
    pool = pd.concat([domain.sample(CORNERS, seed=seed + 2), *found], ignore_index=True)
    found += [_boundary(domain, decide, pool, random) for decide in deciders]
    return pd.concat(found, ignore_index=True)


def _extremes(domain: Domain, score: Score, people: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """From the most extreme of these people on to more extreme ones, feature by feature: all who were on the way."""
    goals = _goals(score(people))
    climbing = people.iloc[goals.argmax(axis=0)].reset_index(drop=True)  # one person for each goal
    seen = [climbing]
    free = domain.free_features
    features = [free[i] for i in random.permutation(len(free))[:MOST_FEATURES]]
    each = np.arange(len(climbing))
    for feature in features:
        tried = [climbing.assign(**{feature.name: _filled(value, climbing[feature.name])}) for value in _ends(feature)]
        values = np.stack([_goals(score(one))[each, each] for one in tried])
        best = values.argmax(axis=0)
        climbing = pd.concat([tried[best[i]].iloc[[i]] for i in each], ignore_index=True)
        seen.append(climbing)
    return pd.concat(seen, ignore_index=True)


def _goals(scores: np.ndarray) -> np.ndarray:
    """What is made as large as can be: each output, its negative; of several, the second largest and all being low."""
    goals = [scores, -scores]
    if scores.shape[1] > 1:
        ranked = np.sort(scores, axis=1)
        goals += [ranked[:, -2:-1], -ranked[:, -1:]]
    return np.concatenate(goals, axis=1)


def _ends(feature: Feature) -> list[Any]:
    return [feature.low, feature.high] if isinstance(feature, NUMERIC) else list(feature.levels())[:MOST_LEVELS]


def _filled(value: Any, like: pd.Series) -> pd.Series:
    return pd.Series([value] * len(like), index=like.index, dtype=like.dtype)


def _boundary(domain: Domain, decide: Score, pool: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """People on both sides of a decision boundary, as close to it as halving their numbers' difference brings them."""
    numbers = [feature.name for feature in domain.free_features if isinstance(feature, NUMERIC)]
    whole = np.array([domain.feature(name).kind == "integer" for name in numbers], bool)
    first, second = (pool.iloc[random.permutation(len(pool))].reset_index(drop=True) for _ in range(2))
    here, there = (side[numbers].to_numpy(np.float64) for side in (first, second))
    decided = [decide(_with_numbers(first, numbers, values)) for values in (here, there)]
    apart = np.flatnonzero(decided[0] != decided[1])[:PAIRS]
    first, here, there, target = first.iloc[apart], here[apart], there[apart], decided[0][apart]
    for _ in range(HALVINGS if len(apart) and numbers else 0):
        middle = here + (there - here) / 2
        middle = np.where(whole, np.floor(middle), middle)
        if ((middle == here) | (middle == there)).all():
            break
        same = (decide(_with_numbers(first, numbers, middle)) == target)[:, None]
        here, there = np.where(same, middle, here), np.where(same, there, middle)
    return pd.concat([_with_numbers(first, numbers, values) for values in (here, there)], ignore_index=True)


def _with_numbers(people: pd.DataFrame, names: Sequence[str], values: np.ndarray) -> pd.DataFrame:
    columns = {name: pd.Series(values[:, i], index=people.index) for i, name in enumerate(names)}
    return people.assign(**{name: column.astype(people[name].dtype) for name, column in columns.items()})
