"""Import of foreign networks: read, folded over an encoding of the domain, and compared with the original.

Each model is run by its own software on people of the domain, and refused if that decides differently.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.importers.affine import CannotRead, NeedsLevels, Tape
from bornfair.importers.fold import folded, is_exact
from bornfair.importers.head import Head
from bornfair.models.columns import Columns, Wanted, Who, columns_for, with_classes, with_levels
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network, decisions
from bornfair.models.operating import USUAL, Asked, Top
from bornfair.models.reading import Reading
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Value
from bornfair.people.policies import complete
from bornfair.people.tables import as_pandas

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
    if (rows := rows_within(domain, table, ROWS, seed)) is not None:
        found.append(rows.astype(corners.dtypes))
    pool = pd.concat([domain.sample(CORNERS, seed=seed + 2), *found], ignore_index=True)
    found += [_boundary(domain, decide, pool, random) for decide in deciders]
    return pd.concat(found, ignore_index=True)


def rows_within(domain: Domain, table: pd.DataFrame | None, most: int, seed: int = 0) -> pd.DataFrame | None:
    """Rows of a table that lie in the domain, at most so many; None without a table that has all its columns."""
    names = list(domain.names)
    if table is None or not set(names) <= set(map(str, table.columns)):
        return None
    rows = table[names].dropna()
    rows = rows[~domain.outside(rows)] if len(rows) else rows
    return rows.sample(min(most, len(rows)), random_state=seed)


def _extremes(domain: Domain, score: Score, people: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """From the most extreme of these people on to more extreme ones, feature by feature: all who were on the way."""
    goals = _goals(score(people))
    climbing = people.iloc[goals.argmax(axis=0)].reset_index(drop=True)  # one person for each goal
    seen = [climbing]
    free = domain.free_features
    features = [free[i] for i in random.permutation(len(free))[:MOST_FEATURES]]
    each = np.arange(len(climbing))
    for feature in features:
        is_number, like = isinstance(feature, NUMERIC), climbing[feature.name]
        ends = [feature.low, feature.high] if is_number else list(feature.levels())[:MOST_LEVELS]
        columns = (pd.Series([value] * len(like), index=like.index, dtype=like.dtype) for value in ends)
        tried = [climbing.assign(**{feature.name: column}) for column in columns]
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


@dataclass(frozen=True, eq=False)
class Read:
    """What a reader hands over: the scores that decide, over the columns of a tape; the classes' names if the model
    knows them; the model as it came.
    """

    head: Head
    tape: Tape
    classes: tuple[Value, ...] | None
    original: Original
    plain_layers: int = 0  # so many layers of sums, if the original executes nothing else
    scales: Mapping[str, Scale] = field(default_factory=dict)  # how it shows numbers, where that is ours to know


class NetworkSource(Protocol):
    """A model that was opened: what it takes, and what it computes for people of a domain."""

    @property
    def wanted(self) -> Wanted: ...

    def read(self, columns: Columns, asked: Reading) -> Read: ...


def imported(source: NetworkSource, who: Who, asked: Reading) -> Model:
    """The model for the people who are asked about."""
    wanted = source.wanted
    asked.only_for(wanted.origin, "decision", "threshold", "decision_output")
    if who.table is not None:
        who = replace(who, table=as_pandas(who.table))
    columns = columns_for(wanted, who)
    gappy = [name for name in columns.names if columns.domain.feature(name).missing]
    if gappy and not wanted.gaps:
        raise InputError(
            f"{shown(gappy)} may be missing in the domain, but what {wanted.origin} decides then is not read; remove "
            '"missing" from the domain: gaps of a table are filled in as the model fills them in, or left out.'
        )
    if isinstance(asked.threshold, Asked):
        columns, read = _read(source, columns, replace(asked, threshold=None, by_scores=True))
        asked = _at_the_point(read, asked, asked.threshold, columns, who.table, wanted.origin)
    columns, read = _read(source, columns, asked)
    domain = with_classes(columns.domain, read.classes, read.head.classes, who.target, wanted.origin)
    if isinstance(asked.threshold, float) and not asked.resolved:
        asked = asked.for_classes(domain.label.classes)  # type: ignore[union-attr]
        if isinstance(asked.threshold, Asked):  # it is for the first class
            asked = _at_the_point(read, asked, asked.threshold, columns, who.table, wanted.origin)
            columns, read = _read(source, columns, asked)
    try:
        network, encoding = folded(read.head, read.tape, domain, who.table, read.scales)
    except CannotRead as error:
        raise InputError(f"{wanted.origin} {error}.") from error
    original = read.original
    original.reads = columns.names
    plain = encoding.raw and read.plain_layers == len(network.layers)
    original.plain_sums = plain and is_exact(read.head, read.tape, network)
    check(original, read.head, network, encoding, table=who.table)
    return Model(network, encoding, original=original, note=asked.note, offsets=read.head.offsets)


def _read(source: NetworkSource, columns: Columns, asked: Reading) -> tuple[Columns, Read]:
    while True:
        try:
            return columns, source.read(columns, asked)
        except NeedsLevels as need:
            columns = with_levels(columns, need.feature, source.wanted.origin)


def _at_the_point(
    read: Read, asked: Reading, point: Asked, columns: Columns, table: pd.DataFrame | None, origin: str
) -> Reading:
    """What is asked with a number in place of the names of classes and shares of people."""
    classes = with_classes(columns.domain, read.classes, read.head.classes, None, origin).label.classes  # type: ignore[union-attr]
    point = point.for_classes(classes)
    by_class = point.by_class(classes)
    if len(classes) > 2:
        several = tuple(by_class.get(place, USUAL) for place in range(len(classes)))
        return replace(asked, threshold=several, resolved=point.text)  # type: ignore[arg-type]
    ((place, amount),) = by_class.items()
    meaning = asked.decision or ("probability" if read.head.probabilities else "logit")
    if isinstance(amount, Top):
        shown = None
        if table is not None:  # whom it cannot decide about has no score
            shown = read.original.scores(complete(table, columns.names, read.original.fills))
        if shown is None:
            what = "there is no table" if table is None else f"{origin} shows labels only"
            raise InputError(f"'{point.text}' is a share of a table's people by their scores, but {what}.")
        scores = shown[:, -1] - shown[:, 0] if meaning == "logit" and shown.shape[1] == 2 else shown[:, -1]
        scores = np.exp(scores) if read.head.logarithms else scores
        number = amount.above(scores) if place else math.nextafter(-amount.above(-scores), -math.inf)
        count = int(np.sum(scores > number) if place else np.sum(scores <= number))
        how = f"{point.text}: {count:,} of {len(scores):,} rows"
        return replace(asked, decision=meaning, threshold=number, resolved=how)
    number = amount if place else 1 - amount if meaning == "probability" else -amount
    return replace(asked, decision=meaning, threshold=number, resolved=point.text)
