"""What decides about people, when it is a forest: raw tables in, decisions out, as of a network's `Model`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.models.forest.columns import columns_of
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.links import moved_to, score_of
from bornfair.models.network.activations import sigmoid
from bornfair.models.network.network import decisions
from bornfair.models.operating import USUAL, Asked, Operating, Threshold, Top
from bornfair.models.protocol import Bounded, Decided, Replay, as_versions
from bornfair.people.features import Value
from bornfair.people.policies import complete
from bornfair.people.tables import as_pandas

if TYPE_CHECKING:
    from bornfair.importers.source import Original
    from bornfair.models.forest.influence import Influence
    from bornfair.models.forest.rows import ForestRows
    from bornfair.models.verdict import Arithmetic, Verdict
    from bornfair.people.domain import Domain
    from bornfair.people.twins.versions import Versions
    from bornfair.proof.certificate import Certificate


SAME = 1e-9  # thresholds closer than this to the usual one are it


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

    >>> import pandas as pd
    >>> from bornfair import Domain
    >>> from bornfair.models.forest.forest import Cut, Summation
    >>> from bornfair.models.forest.columns import SplitColumn
    >>> from bornfair.people.features import IntegerFeature, Label
    >>> stump = Forest(("age",), (SplitColumn(0),), roots=[0], column=[0, -1, -1], threshold=[30.0, 0.0, 0.0],
    ...     members=[-1, -1, -1], left=[1, -1, -1], right=[2, -1, -1], missing_left=[True, False, False],
    ...     values=[[-1.0], [2.0]], summation=Summation("float32", (0.5,)), cut=Cut())
    >>> who = Domain(features=(IntegerFeature(name="age", low=18, high=99),), sensitive=("age",),
    ...     label=Label(name="loan", classes=("no", "yes")))
    >>> model = ForestModel(stump, who, ("age",))
    >>> people = pd.DataFrame({"age": [20, 50]})
    >>> model.predict(people).tolist(), model.empirical_fairness(people)
    (['no', 'yes'], 0.0)
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
        """What the model takes where a value is missing, by feature; a forest sends it a way of its own."""
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

    # --- deciding ---

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
        from bornfair.models.forest.bounds.cells import Cells

        return Cells.of(self).twins.versions

    def replay(self, people: Sequence[Mapping[str, Value]], versions: Sequence[int] = ()) -> Replay:
        """Decide people by the original where there is one, else by our own evaluation, which adds up as the original
        does; and in real arithmetic, where that agrees.
        """
        from bornfair.models.forest.bounds.judge import exact_class

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
        from bornfair.models.forest.influence import influences

        return influences(self)

    def row_method(self) -> ForestRows:
        from bornfair.models.forest.rows import ForestRows

        return ForestRows(self)

    def structure(self) -> Verdict:
        """By the splits that people of the domain meet."""
        from bornfair.models.forest.bounds.judge import Judge

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
        from bornfair.models.forest.onnx_graph import forest_bytes

        return forest_bytes(self, sensitive=sensitive)

    # --- where it decides ---

    def at(self, threshold: Threshold | Asked | None, table: Any = None) -> Self:
        """The same model, deciding elsewhere: 0.05, "top 12%" of the people of a table, "approve=0.3"; None for as it
        is. What was proven of decisions is left behind; what was proven of scores, by structure, holds everywhere.
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
            share = float(self.forest.probabilities(_as_scores(at, self.forest))[0, 1])
            return self._cut_at(at, names[1], share)
        if asked.logit:
            at = amount if place else -amount
            share = float(self.forest.probabilities(_as_scores(at, self.forest))[0, 1])
            return self._cut_at(at, names[1], share)
        share = amount if place else 1 - amount
        moved = moved_to(self.forest, share)
        return self._moved(moved, {str(names[1]): float(f"{share:.6g}")})

    def _top(self, amount: Top, place: int, asked: Asked, table: Any) -> float:
        if table is None:
            raise InputError(f"'{asked.text}' is a share of a table's people; give a table, or a number.")
        frame = as_pandas(table)
        never = [name for name in self.reads if name in frame and not self.domain.feature(name).missing]
        scores = score_of(self.forest, self.raw_scores(complete(frame, never, {})))
        return amount.above(scores) if place else math.nextafter(-amount.above(-scores), -math.inf)

    def _moved(self, forest: Forest, operating: Mapping[str, float]) -> Self:
        kept = self.certificate
        if kept is not None and kept.verdict.covers != "score":
            kept = None
        return dataclasses.replace(self, forest=forest, operating=operating, certificate=kept)

    def _cut_at(self, at: float, positive: object, share: float) -> Self:
        """At a score, which is compared as it is."""
        forest = self.forest
        if forest.outputs == 2:
            forest = dataclasses.replace(
                forest, values=forest.values[:, 1:],
                summation=dataclasses.replace(forest.summation, base=forest.summation.base[1:]),
            )  # fmt: skip
        cut = dataclasses.replace(forest.cut, at=at, slack=0.0)
        moved = dataclasses.replace(forest, cut=cut)
        return self._moved(moved, {str(positive): float(f"{share:.6g}")})

    # --- who is asked about ---

    def about(self, domain: Domain) -> Self:
        """The same forest asked about other people: another domain with the features it reads."""
        unknown = [name for name in self.reads if name not in domain.names]
        if unknown:
            raise InputError(f"the domain lacks {shown(unknown)}, which the model reads; name the same features.")
        return dataclasses.replace(self, domain=domain, certificate=None)


def _as_scores(at: float, forest: Forest) -> np.ndarray:
    return np.array([[at]]) if forest.outputs == 1 else np.array([[1 - at, at]])
