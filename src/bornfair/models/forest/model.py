"""Forests as models of people: raw tables in, decisions out, and how rows of a table are judged."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.core.errors import InputError, plain_level, shown
from bornfair.models.forest.bounds.cells import Cells
from bornfair.models.forest.bounds.judge import Judge, exact_class, told_alike
from bornfair.models.forest.columns import columns_of
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.influence import Influence, influences
from bornfair.models.forest.links import last_of_two, moved_to
from bornfair.models.forest.onnx_graph import forest_bytes
from bornfair.models.network.activations import sigmoid
from bornfair.models.network.network import decisions
from bornfair.models.operating import USUAL, Asked, Operating, Threshold, Top
from bornfair.models.protocol import Bounded, Decided, Person, Replay, RowMethod, as_versions, nearest_changes
from bornfair.people.features import NUMERIC, Value
from bornfair.people.policies import complete
from bornfair.people.tables import as_pandas

if TYPE_CHECKING:
    from bornfair.importers.source import Original
    from bornfair.models.verdict import Arithmetic, Verdict
    from bornfair.people.domain import Domain
    from bornfair.people.twins.versions import Versions
    from bornfair.proof.certificate import Certificate


SAME = 1e-9  # thresholds closer than this to the usual one are it
TOGETHER = 1 << 22  # scores of versions that are held at once
FEWEST_ROWS, MOST_ROWS = 64, 8192  # judged together
MOST_TRIED = 20_000  # changes of two features


@dataclass(frozen=True, eq=False)
class Native:
    """The file of a forest in the format of the library that wrote it; what is changed is written so again."""

    suffix: Literal[".json", ".ubj", ".txt"]
    content: bytes = dataclasses.field(repr=False)

    @property
    def library(self) -> str:
        return "LightGBM" if self.suffix == ".txt" else "XGBoost"


@dataclass(frozen=True, eq=False)
class ForestModel(Bounded):
    """A forest with the domain it is asked about, and the model it was read from.

    Scores are margins: of two classes the last is decided above 0, of more the first largest, wherever the threshold
    lies (`Forest.margins`); their signs are those of the original's arithmetic.
    """

    kind: ClassVar[str] = "forest"
    forest: Forest
    domain: Domain
    reads: tuple[str, ...]
    """The feature of the domain behind each of the forest's inputs."""
    original: Original | None = None
    note: str = ""
    """How it was read, where its file does not say so itself; said with every answer about it."""
    operating: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """The thresholds that were asked for, by class; none where it decides as it came."""
    certificate: Certificate | None = None
    native: Native | None = None
    """Its file as its library reads it, where there is one."""

    @property
    def class_names(self) -> list[Value]:
        label = self.domain.label
        return list(range(self.forest.classes) if label is None else label.classes)

    @property
    def thresholds(self) -> dict[str, float]:
        """The probability above which a class is decided, by its name, where that is not the model's own."""
        return dict(self.operating)

    @property
    def fills(self) -> Mapping[str, Value]:
        """Values that replace missing ones, by feature; splits have a direction of their own for a missing value."""
        return {} if self.original is None else self.original.fills

    @property
    def some_values_only(self) -> bool:
        """Its cells stand for every value."""
        return False

    @property
    def covers_execution(self) -> bool:
        """Whether what is proven of the forest as it adds up is proven of what decides: comparisons are exact, and the
        bounds on sums hold for every order in which the original may add; but some originals are not known to do just
        that. Where no split reads what differs between twins, any original gives them the same sum.
        """
        apart = {*self.domain.sensitive, *self.domain.twin_group.moved}
        return self.forest.summation.plain or not apart & self.features_read

    @property
    def ignores_sensitive(self) -> bool:
        """Whether no split reads a sensitive feature."""
        return not set(self.domain.sensitive) & self.features_read

    @property
    def features_read(self) -> frozenset[str]:
        """The features that some split reads."""
        used = self.forest.reads
        return frozenset(own for name, own in zip(self.forest.names, self.reads, strict=True) if name in used)

    def raw_scores(self, table: Any) -> np.ndarray:
        """The forest's scores [rows, outputs] as its original adds them up, for raw rows with or without gaps."""
        frame = as_pandas(table)
        used, raw = self.features_read, list[np.ndarray]()
        for name in self.reads:
            if name not in frame.columns:
                if name in used:
                    raise InputError(f"the table has no column '{name}', which the model reads; give it.")
                raw.append(np.full(len(frame), np.nan))
                continue
            raw.append(frame[name].to_numpy())
        return self.forest.scores(raw)

    def scores(self, table: Any) -> np.ndarray:
        """The margins that decide, for raw rows."""
        return self.forest.margins(self.raw_scores(table))

    def share_of_last(self, values: np.ndarray) -> np.ndarray:
        """The probability that the forest shows; of two outputs, from their difference."""
        if self.forest.outputs == 1:
            return np.clip(self.forest.probabilities((values + self.forest.cut.at)[:, None])[:, 1], 0.0, 1.0)
        return np.clip((1 + values) / 2, 0.0, 1.0) if self.forest.cut.link == "probability" else sigmoid(values)

    def predict_proba(self, table: Any) -> np.ndarray:
        return self.forest.probabilities(self.raw_scores(table))

    def evaluate(
        self, table: Any, versions: Versions | None = None, which: Sequence[int] | None = None, *, scores: bool = True
    ) -> Decided:
        """Class indices and margins, with the sums of the original's arithmetic."""
        found = [self.scores(one) for one in as_versions(as_pandas(table), versions, which)]
        classes = np.stack([decisions(one) for one in found], axis=1)
        return Decided(classes, np.stack(found, axis=1) if scores else None)

    def described(self, table: Any) -> Decided:
        scores = self.raw_scores(table)
        return Decided(self.executed(table), self.forest.margins(scores), self.forest.probabilities(scores))

    def listed_versions(self) -> Versions:
        """Those that the forest can tell apart."""
        return Cells.of(self).twins.versions

    def replay(self, people: Sequence[Mapping[str, Value]], versions: Sequence[int] = ()) -> Replay:
        """Decide people by the original where there is one, else by our own evaluation, which adds up as the original
        does; and in real arithmetic, where that agrees.
        """
        if not people:
            return Replay((), {})
        table, forest = pd.DataFrame(list(people), columns=list(self.domain.names)), self.forest
        columns = columns_of([table[name].to_numpy() for name in self.reads], forest.columns, len(table))
        if self.original is None:
            decided = forest.decide(forest.scores_of_columns(columns))
        else:
            decided = self.original.decide(table)
        executed = tuple(int(d) for d in decided)
        leaves, rows = forest.leaves(columns), np.arange(forest.trees)
        real = tuple(exact_class(forest, forest.values[leaves[rows, i]]) for i in range(len(people)))
        found: dict[Arithmetic, tuple[int, ...]] = {forest.summation.precision: executed}
        if real == executed:
            found["real"] = real
        return Replay(tuple(map(dict, people)), found, tuple(versions))

    def digest(self) -> str:
        forest = self.forest
        found = hashlib.sha256(json.dumps([self.domain.text(), repr(forest.columns), repr(forest.summation)]).encode())
        for part in (forest.roots, forest.column, forest.threshold, forest.members, forest.left, forest.right):
            found.update(part.tobytes())
        for part in (forest.missing_left, forest.values, *forest.sets):
            found.update(part.tobytes())
        return f"{found.hexdigest()} of the forest as read"

    def influences(self) -> tuple[Influence, ...]:
        return influences(self)

    def row_method(self) -> ForestRows:
        return ForestRows(self)

    def structure(self) -> Verdict:
        """By the splits that people of the domain meet."""
        return Judge.of(self).structure()

    def rule_on_shares(self) -> Operating | None:
        forest = self.forest
        if forest.cut.offsets:
            return Operating(tuple(USUAL * math.exp(offset) for offset in forest.cut.offsets))
        if forest.outputs > 1:
            return None
        share = float(forest.probabilities(np.array([[forest.cut.at]]))[0, 1])
        return None if abs(share - USUAL) < SAME else Operating((share,))

    def without_original(self) -> Self:
        return dataclasses.replace(self, original=None)

    def with_certificate(self, certificate: Certificate) -> Self:
        return dataclasses.replace(self, certificate=certificate)

    def graph_bytes(self, *, sensitive: bool = True) -> bytes:
        return forest_bytes(self, sensitive=sensitive)

    def at(self, threshold: Threshold | Asked | None, table: Any = None) -> Self:
        """The same model, deciding elsewhere: 0.05, "top 12%" of the people of a table, "approve=0.3"; None for as it
        is. Proofs about decisions are dropped; proofs about scores, by structure, hold everywhere.
        """
        if threshold is None:
            return self
        asked, names = Asked.of(threshold), self.classes.tolist()
        by_class = asked.by_class(names)
        if len(names) > 2:
            given = {place: amount for place, amount in by_class.items() if not isinstance(amount, Top)}
            moved = moved_to(self.forest, [given.get(place, USUAL) for place in range(len(names))])
            operating = {str(names[place]): share for place, share in given.items()}
            return self._moved(moved, operating)
        ((place, amount),) = by_class.items()
        if isinstance(amount, Top):
            at = self._top(amount, place, asked, table)
        elif asked.logit:
            at = amount if place else -amount
        else:
            share = amount if place else 1 - amount
            return self._moved(moved_to(self.forest, share), {str(names[1]): float(f"{share:.6g}")})
        score = [at] if self.forest.outputs == 1 else [1 - at, at]
        share = float(self.forest.probabilities(np.array([score]))[0, 1])
        moved = last_of_two(self.forest)
        moved = dataclasses.replace(moved, cut=dataclasses.replace(moved.cut, at=at, slack=0.0))
        return self._moved(moved, {str(names[1]): float(f"{share:.6g}")})

    def _top(self, amount: Top, place: int, asked: Asked, table: Any) -> float:
        if table is None:
            raise InputError(f"'{asked.text}' is a share of a table's people; give a table, or a number.")
        frame = as_pandas(table)
        never = [name for name in self.reads if name in frame and not self.domain.feature(name).missing]
        scores = self.raw_scores(complete(frame, never, {}))
        # A threshold is compared with the score, or with the share of the last of two classes.
        of_last = scores[:, -1] if self.forest.outputs <= 2 else scores[:, 1] - scores[:, 0]
        return amount.above(of_last) if place else math.nextafter(-amount.above(-of_last), -math.inf)

    def _moved(self, forest: Forest, operating: Mapping[str, float]) -> Self:
        kept = self.certificate
        if kept is not None and kept.verdict.covers != "score":
            kept = None
        return dataclasses.replace(self, forest=forest, operating=operating, certificate=kept)

    def about(self, domain: Domain) -> Self:
        """The same forest asked about other people: another domain with the features it reads."""
        unknown = [name for name in self.reads if name not in domain.names]
        if unknown:
            raise InputError(f"the domain lacks {shown(unknown)}, which the model reads; name the same features.")
        return dataclasses.replace(self, domain=domain, certificate=None)


# --- rows of a table ---


class ForestRows(RowMethod):
    """Rows judged as every version that the forest can tell apart: of a real-valued sensitive feature, every value."""

    model: ForestModel

    def __init__(self, model: ForestModel) -> None:
        self.judge = Judge.of(model)
        self.cells = self.judge.cells
        super().__init__(model, self.cells.twins.versions)

    def size(self, left: float, each: float) -> int:
        return int(np.clip(TOGETHER // (self.versions.size * self.model.forest.trees), FEWEST_ROWS, MOST_ROWS))

    def own(self, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return self.cells.own(rows)

    def pair(self, person: Mapping[str, Value], versions: Sequence[int], row: Any = None) -> list[Person]:
        if row is None:
            return super().pair(person, versions)
        if not all(self.versions.exists(person, version) for version in versions):
            return []
        return [self._in_the_table(row, versions[0], person), self.versions.of(person, versions[1])]

    def _in_the_table(self, row: Any, version: int, person: Mapping[str, Value]) -> Person:
        """The row as it stands, if it is that version; else the person as that version."""
        cells, found = self.cells, self.versions.of(person, version)
        own: Person = {}
        for i, cell in zip(cells.sensitive, cells.twins.values[version % len(cells.twins.values)], strict=True):
            part, name = cells.features[i], cells.domain.names[i]
            value: Any = plain_level(row[name]) if name in row.index else None
            unknown = value is None and not part.feature.missing
            if version >= len(cells.twins.values) or unknown or int(part.of([value])[0]) != cell:
                return found
            if isinstance(part.feature, NUMERIC):
                own[name] = int(value) if part.feature.kind == "integer" else float(value)
            else:
                own[name] = next(level for level in part.feature.levels() if level == value)
        return found | own

    # --- smallest changes ---

    def changes(self, person: Person, clock: Clock) -> Iterator[Person]:
        cells = self.cells
        point = cells.place(pd.DataFrame([person]))[0]
        if (point < 0).any():
            return
        steps = [self._steps(i, person) for i in range(len(cells.free))]
        nearest = [sorted((cost, cell) for cell, (cost, _) in own.items()) for own in steps]
        for together, most in ((1, None), (2, 9)):
            trials = nearest_changes([own[:most] for own in nearest], together)[:MOST_TRIED]
            if not trials:
                continue
            points = np.repeat(point[None], len(trials), axis=0)
            for row, (_, changes) in enumerate(trials):
                points[row, list(changes)] = list(changes.values())
            decided, _ = self.judge.decided(points)
            for row in np.flatnonzero(told_alike(decided))[: self.replayed]:
                yield person | {cells.domain.free_names[i]: steps[i][cell][1] for i, cell in trials[row][1].items()}

    def _steps(self, i: int, person: Person) -> dict[int, tuple[float, Value]]:
        """For each other cell of a free feature: how far it is, and its value nearest to the person's own."""
        part = self.cells.features[self.cells.free[i]]
        own, feature = person[part.feature.name], part.feature
        here = int(part.of([own])[0])
        if part.ends is None or not isinstance(feature, NUMERIC):
            return {c: (1.0, part.samples[c]) for c in range(part.listed) if c != here}
        if own is None:
            return {cell: (1.0, part.shown(cell)) for cell in range(part.listed)}
        span = float(feature.high - feature.low) or 1.0
        found: dict[int, tuple[float, Value]] = {}
        for cell in range(part.listed):
            if cell < here:
                value = part.samples[cell]
            elif cell > here:
                last = float(part.ends[cell - 1])
                value = int(last) + 1 if feature.kind == "integer" else float(np.nextafter(last, np.inf))
            else:
                continue
            if feature.kind == "real":  # a number that is short to read, if one is as near to a thousandth of the range
                short = float(f"{value:.6g}")
                value = short if int(part.of([short])[0]) == cell else value
            found[cell] = (abs(float(value) - float(own)) / span, value)
        return found
