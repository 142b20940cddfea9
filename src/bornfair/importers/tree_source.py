"""Import of foreign forests, for the people and at the threshold that are asked about.

The forest is compared with its original on random people, on rows of a table, and on people exactly at thresholds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.importers.source import PEOPLE, Original
from bornfair.models.columns import Wanted, Who, columns_for, with_classes
from bornfair.models.forest.columns import SplitColumn, Step
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.model import ForestModel, Native
from bornfair.models.reading import Reading
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, CategoricalFeature, Value, known_levels
from bornfair.people.tables import as_pandas

ROWS = 2_048  # of a table
AT_THRESHOLDS = 1_024  # people whose numbers stand at thresholds, or just beside


@dataclass(frozen=True, eq=False)
class Ran:
    """What the original's own software gives: scores [rows, outputs] as the forest has them, before any link; where it
    shows them, also probabilities [rows, classes], and its decisions as class indices.
    """

    scores: np.ndarray
    probabilities: np.ndarray | None = None
    decided: np.ndarray | None = None
    rounded: bool = False  # whether the scores are shown in float32, whatever it added them up in


@dataclass(frozen=True, eq=False)
class ForestJudge:
    """The original's own software, run on raw inputs (one array for each of the forest's names)."""

    runtime: str
    run: Callable[[list[Any]], Ran]


@dataclass(frozen=True, eq=False)
class ForestSource:
    """A forest that was read, and what is known of where it came from."""

    origin: str  # what messages call it
    forest: Forest
    named: bool  # whether the inputs' names are the model's own, or stand for positions
    judge: ForestJudge | None = None
    classes: tuple[Value, ...] | None = None
    notes: tuple[str, ...] = ()
    categories: dict[Any, tuple[Value, ...]] = dataclasses.field(default_factory=dict)
    fills: dict[str, Value] = dataclasses.field(default_factory=dict)
    native: Native | None = None
    over: Callable[[Domain, tuple[str, ...]], Forest] | None = None
    """The forest for people of a domain, whose features behind its inputs are named; None where it is the same."""

    @property
    def wanted(self) -> Wanted:
        names = self.forest.names if self.named else None
        known: dict[Any, tuple[Value, ...]] = dict(self.categories)
        for column in self.forest.columns:
            if column.table is not None:
                key = column.source if names is None else names[column.source]
                known.setdefault(key, tuple(value for value, _ in column.table))
        plain = not known and self.over is None
        return Wanted(self.origin, names, len(self.forest.names), known, numbers=plain, gaps=True)


def composed(
    columns: Sequence[SplitColumn], made: Sequence[SplitColumn | None], origin: str
) -> tuple[SplitColumn, ...]:
    """A forest's columns over the columns that reach it, as columns over raw inputs."""
    found = []
    for column in columns:
        if column.source >= len(made):
            raise InputError(f"{origin} reads {column.source + 1} columns or more, but {len(made)} reach it.")
        before = made[column.source]
        if before is None:
            raise InputError(f"{origin} reads a column that the model was not asked to take.")
        if column.table is not None and not is_raw(before):
            raise InputError(f"{origin} looks up categories that were transformed before, which is not supported.")
        if column.table is not None:
            found.append(dataclasses.replace(column, source=before.source))
        else:
            found.append(
                SplitColumn(before.source, before.steps + column.steps, before.table, before.other, before.missing)
            )
    return tuple(found)


def then(column: SplitColumn, *steps: Step) -> SplitColumn:
    """A column after further steps."""
    return dataclasses.replace(column, steps=(*column.steps, *steps))


def is_raw(column: SplitColumn) -> bool:
    """Whether nothing was done to a raw input."""
    return not column.steps and column.table is None and type(column) is SplitColumn


def imported_forest(source: ForestSource, who: Who, asked: Reading) -> ForestModel:
    """The model for the people who are asked about."""
    asked.only_for(source.origin, "decision", "threshold", "decision_output")
    if asked.decision == "label":
        raise InputError(f"{source.origin} gives scores, and says itself where they decide; leave decision out.")
    if who.table is not None:
        who = dataclasses.replace(who, table=as_pandas(who.table))
    columns = columns_for(source.wanted, who)
    domain = with_classes(columns.domain, source.classes, source.forest.classes, who.target, source.origin)
    if source.over is not None:
        source = dataclasses.replace(source, forest=source.over(domain, columns.names))
    _check_kinds(source, domain, columns.names)
    refused = [
        name for name in domain.gappy if name in columns.names and not _takes(source, domain, columns.names, name)
    ]
    if refused and who.domain is not None:
        raise InputError(
            f"{shown(refused)} may be missing in the domain, but {source.origin} refuses missing values there; remove "
            '"missing" from the domain, or put an imputer into the model.'
        )
    domain = _without_gaps(domain, refused) if refused else domain
    model = ForestModel(source.forest, domain, columns.names, native=source.native)
    if asked.threshold is not None:
        asked = asked.for_classes(domain.label.classes)  # type: ignore[union-attr]
        point = asked.point(domain.label.classes)  # type: ignore[union-attr]
        if asked.decision == "logit":
            point = dataclasses.replace(point, logit=True)
        model = model.at(point, who.table)
    if asked.decision == "logit" and asked.threshold is None and model.forest.outputs == 1:
        cut = dataclasses.replace(model.forest.cut, at=0.0, slack=0.0)
        model = dataclasses.replace(model, forest=dataclasses.replace(model.forest, cut=cut))
    notes = [*source.notes, asked.note]
    if source.judge is None:
        notes.append("its library is not installed, so that it was not compared with the original's own predictions")
    else:
        model = compared(model, source, asked, who.table)
    return dataclasses.replace(model, note="; ".join(note for note in notes if note))


def _without_gaps(domain: Domain, names: Sequence[str]) -> Domain:
    never = {"missing": False}
    return domain.replaced(features=[f.model_dump() | (never if f.name in names else {}) for f in domain.features])


def _takes(source: ForestSource, domain: Domain, names: tuple[str, ...], gap: str) -> bool:
    """Whether the original decides about people of whom one feature is missing."""
    if source.judge is None:
        return True
    people = _without_gaps(domain, domain.gappy).sample(4, seed=0)
    people[gap] = np.nan if isinstance(domain.feature(gap), NUMERIC) else pd.Series([None] * 4, dtype=object)
    return _runs(source.judge, [people[name].to_numpy() for name in names])


def _runs(judge: ForestJudge, raw: list[Any]) -> bool:
    try:
        judge.run(raw)
    except Exception:  # noqa: BLE001  # each library refuses in its own way
        return False
    return True


def _check_kinds(source: ForestSource, domain: Domain, names: tuple[str, ...]) -> None:
    for column in source.forest.columns:
        feature = domain.feature(names[column.source])
        texts = isinstance(feature, CategoricalFeature) and any(isinstance(c, str) for c in feature.categories)
        if column.table is None and texts:
            raise InputError(
                f"{source.origin} takes numbers, but '{feature.name}' has the categories {shown(feature.levels())}; "
                "give the table of encoded numbers, or the model as a pipeline with its encoder."
            )
        if column.table is not None and feature.kind == "real":
            raise InputError(
                f"{source.origin} looks '{feature.name}' up among {shown(v for v, _ in column.table)}, but in the "
                "domain it is real; list its values there."
            )


# --- the original as judge ---


def compared(model: ForestModel, source: ForestSource, asked: Reading, table: pd.DataFrame | None) -> ForestModel:
    """The model with its original, if they decide the same; whether scores are equal bit for bit is kept."""
    moved = asked.moves_the_decision
    share = asked.threshold if isinstance(asked.threshold, float) and asked.decision != "logit" else None
    judge, forest = source.judge, model.forest
    assert judge is not None

    def run(people: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, bool]:
        """Scores, decisions, and whether the scores are shown in float32."""
        ran = judge.run([people[name].to_numpy() for name in model.reads])
        found = np.asarray(ran.scores, np.float64).reshape(len(people), -1)
        found = found[:, -forest.outputs :]  # of two shares, a threshold is compared with the last
        if share is not None and ran.probabilities is not None and forest.outputs == 1:
            return found, (ran.probabilities[:, 1].astype(np.float64) > share).astype(np.int64), ran.rounded
        if moved or ran.decided is None:
            return found, forest.decide(found), ran.rounded
        return found, np.asarray(ran.decided, np.int64), ran.rounded

    original = Original(
        judge.runtime, lambda people: run(people)[0], lambda people: run(people)[1], reads=model.reads,
        fills=source.fills,
    )  # fmt: skip
    differences, allowed = [0.0], 2 * forest.sum_error()
    for people in _people(model, table, judge):
        ours, (theirs, decided, rounded) = model.raw_scores(people), run(people)
        difference = np.abs((ours.astype(np.float32) if rounded else ours) - theirs)
        far = ~(difference <= allowed).all(axis=1)
        unclear = _nearness(forest, ours) <= forest.cut.slack + (0.0 if (difference == 0).all() else 2 * allowed.max())
        wrong = (forest.decide(ours) != decided) & ~unclear
        if far.any() or wrong.any():
            row = int(np.argmax(wrong if wrong.any() else far))
            what = "decides otherwise" if wrong.any() else f"differs by {float(difference[row].max()):.3g}"
            person = ", ".join(f"{name}={value!r}" for name, value in people.iloc[row].to_dict().items())
            raise InputError(
                f"what was read of {source.origin} is not the model: it {what} for {int((wrong | far).sum())} of "
                f"{len(people)} people, such as {person} ({judge.runtime} is the judge). Please report this; until "
                "then, this model cannot be examined."
            )
        differences.append(float(difference.max(initial=0.0)))
        original.people_compared += len(people)
    original.largest_difference = max(differences)
    if original.largest_difference > 0 and forest.summation.in_order:
        other = dataclasses.replace(forest.summation, in_order=False, plain=False)  # it does something unknown to us
        forest = dataclasses.replace(forest, summation=other)
    return dataclasses.replace(model, forest=forest, original=original)


def _nearness(forest: Forest, scores: np.ndarray) -> np.ndarray:
    """How far from a tie each person is."""
    margins = forest.margins(scores)
    if margins.shape[1] == 1:
        return np.abs(margins[:, 0])
    ranked = np.sort(margins, axis=1)
    return ranked[:, -1] - ranked[:, -2]


def _people(model: ForestModel, table: pd.DataFrame | None, judge: ForestJudge) -> list[pd.DataFrame]:
    """Random people, rows of the table, and people at thresholds."""
    domain = model.domain
    found = [domain.sample(PEOPLE, seed=0), people_at_thresholds(model, AT_THRESHOLDS, seed=1)]
    if table is not None and set(model.reads) <= set(map(str, table.columns)):
        rows = table[list(model.reads)]
        rows = rows.sample(min(ROWS, len(rows)), random_state=0).reset_index(drop=True)
        known = [f for f in domain.features if f.name in model.reads and not isinstance(f, NUMERIC)]
        fits = np.ones(len(rows), bool)
        for feature in known:
            fits &= (rows[feature.name].isin(list(known_levels(feature))) | rows[feature.name].isna()).to_numpy()
        rows = rows[fits]
        gaps = rows[rows.isna().any(axis=1)]
        if len(gaps) and not _runs(judge, [gaps[name].to_numpy() for name in model.reads]):
            rows = rows.dropna()
        found.append(rows)
    return [people for people in found if len(people)]


def people_at_thresholds(model: ForestModel, count: int, seed: int) -> pd.DataFrame:
    """People of the domain whose numbers are where splits turn, or the next number beyond."""
    people, random, forest = model.domain.sample(count, seed=seed), np.random.default_rng([seed, 7]), model.forest
    for source, name in enumerate(model.reads):
        feature = model.domain.feature(name)
        if not isinstance(feature, NUMERIC):
            continue
        turns = []
        for place, column in enumerate(forest.columns):
            if column.source != source or not column.is_monotone:
                continue
            read = (forest.column == place) & (forest.members < 0)
            cuts = column.last_below(np.unique(forest.threshold[read])) if read.any() else np.zeros(0)
            turns += [*cuts, *column.breaks]
        ends = np.array([turn for turn in turns if feature.low <= turn <= feature.high])
        if not len(ends):
            continue
        chosen = random.choice(ends, size=count)
        if feature.kind == "integer":
            chosen = np.floor(chosen) + random.integers(0, 2, size=count)
        else:
            chosen = np.where(random.random(count) < 0.5, chosen, np.nextafter(chosen, np.inf))
        chosen = np.where(random.random(count) < 0.7, np.clip(chosen, feature.low, feature.high), people[name])
        people[name] = pd.Series(chosen).astype(people[name].dtype)
    return people
