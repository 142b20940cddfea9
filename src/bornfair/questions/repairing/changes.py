"""What all repairs share: the domain and rows they are asked about, and the account of what changed for whom."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain
from bornfair.models.columns import sensitive_name
from bornfair.models.forest.model import ForestModel
from bornfair.models.graph.model import WiredModel
from bornfair.models.metrics import quality, quality_warning
from bornfair.models.network.model import Model
from bornfair.models.network.network import decisions
from bornfair.people.domain import Domain
from bornfair.people.dummies import with_sensitive
from bornfair.people.features import listed_names
from bornfair.people.levels import grouped
from bornfair.proof.bundle import AnyBundle
from bornfair.proof.certificate import Certificate
from bornfair.questions import Asking, Question
from bornfair.training.provenance import with_measured

EXAMPLES = 5


@dataclass(frozen=True)
class ChangedGroup:
    """The people of one sensitive value: how many are decided differently, by the decision they get now."""

    name: str
    rows: int
    changed: float
    now: dict[str, int]


@dataclass(frozen=True)
class Example:
    """One person whose decision changed; `score` is the probability of the class they get now."""

    person: dict[str, Any]
    before: Any
    after: Any
    score_before: float
    score_after: float


@dataclass(frozen=True)
class Changes:
    """Two models compared on the rows of a table."""

    rows: int
    changed: float
    distance: float
    """Root of the mean squared difference of the models' outputs."""
    now: dict[str, int]
    """Of those decided differently, how many get which decision now."""
    groups: tuple[ChangedGroup, ...]
    examples: tuple[Example, ...]


AnyModel = Model | ForestModel | WiredModel


@dataclass(frozen=True, eq=False)
class RepairRows:
    """Which people serve what. Labels and answers are class indices, None where no target is named."""

    people: pd.DataFrame
    labels: np.ndarray | None
    training: np.ndarray
    """Positions of the people to learn from, …"""
    validation: np.ndarray
    """… and of those to choose by."""
    measured: pd.DataFrame
    answers: np.ndarray | None
    """Of the measured."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RepairedModel:
    """A fair model, certified, and what it cost: the same facts for every kind of model."""

    model: AnyBundle
    original: AnyModel
    """The model that was repaired, asked about the same twins."""
    quality_before: dict[str, Any] | None
    quality_after: dict[str, Any] | None
    """On the measured rows, if their answers are known; see `bornfair.models.metrics.quality`."""
    fairness_before: float | None
    """Share of the measured rows whose decision was the same for every version of the person."""
    changes: Changes
    note: str
    seconds: float = 0.0
    seed: int = 0

    @property
    def sensitive(self) -> tuple[str, ...]:
        return self.model.domain.sensitive

    @property
    def accuracy_before(self) -> float | None:
        return None if self.quality_before is None else self.quality_before["accuracy"]

    @property
    def accuracy_after(self) -> float | None:
        return None if self.quality_after is None else self.quality_after["accuracy"]

    @property
    def warnings(self) -> list[str]:
        """What is wrong with a repaired model that never decides some class."""
        return [text] if self.quality_after and (text := quality_warning(self.quality_after)) else []

    @property
    def changed(self) -> float:
        """Share of the measured rows that are decided differently."""
        return self.changes.changed

    @property
    def certificate(self) -> Certificate:
        assert self.model.certificate is not None
        return self.model.certificate

    @property
    def verdict(self) -> str:
        return self.certificate.verdict.answer

    def to_json(self) -> dict[str, Any]:
        facts = {
            "verdict": self.verdict,
            "proof": self.certificate.verdict.proof,
            "arithmetic": self.certificate.verdict.arithmetic,
            "claim": self.certificate.claim,
            "sensitive": self.sensitive,
            "accuracy_before": self.accuracy_before,
            "accuracy_after": self.accuracy_after,
            "fairness_before": self.fairness_before,
            "changed": self.changed,
            "changes": asdict(self.changes),
            **self._of_its_kind(),
            "quality_before": self.quality_before,
            "quality_after": self.quality_after,
            "warnings": self.warnings,
            "note": self.note,
            "reading": self.original.note,
            "rows_measured": self.changes.rows,
            "seconds": round(self.seconds, 3),
            "seed": self.seed,
        }
        return json.loads(json.dumps(facts))

    def _of_its_kind(self) -> dict[str, Any]:
        """What is known of repairs of this kind only."""
        return {}


def domain_asked(question: Question, domain: Domain, asking: Asking) -> Domain:
    """The domain with the sensitive features and the combinations that are asked about."""
    combinations = asking.get("combinations")
    names = tuple(sensitive_name(item, domain) for item in listed_names(asking.get("sensitive_features")))
    if question.target in names:
        raise InputError(f"'{question.target}' cannot be both the target and a sensitive feature.")
    if not names and combinations is None:
        return domain
    found = with_sensitive(domain, names or domain.sensitive, question.table, combinations, detect=question.inferred)
    same = set(found.sensitive) == set(domain.sensitive)
    return domain if same and (combinations is None or found.combinations == domain.combinations) else found


def account(
    original: AnyModel, fair: AnyBundle, rows: pd.DataFrame, answers: np.ndarray | None, on: str
) -> dict[str, Any]:
    """What every repair records: how good both models are on these rows, in the certificate too, and what changed."""
    assert fair.certificate is not None
    before, after = (quality_of(model, rows, answers) for model in (original, fair))
    if answers is not None and after is not None:
        told = with_measured(fair.certificate, {"on": on, "rows": int((answers >= 0).sum()), **after})
        fair = dataclasses.replace(fair, certificate=told)
    return {
        "model": fair, "original": original, "quality_before": before, "quality_after": after,
        "changes": compare(original, fair, rows),
    }  # fmt: skip


def quality_of(model: AnyModel, rows: pd.DataFrame, answers: np.ndarray | None) -> dict[str, Any] | None:
    """How good decisions are on the rows whose answer is known (not −1)."""
    if answers is None or not (known := answers >= 0).any():
        return None
    return quality(model.classes[answers[known]], model.classes[decisions(model.scores(rows))[known]])


def compare(before: AnyModel, after: AnyModel, table: pd.DataFrame, *, examples: int = EXAMPLES) -> Changes:
    """What changes for the rows of a table when one model takes the place of the other."""
    old, new = before.scores(table), after.scores(table)
    was, now = decisions(old), decisions(new)
    moved = was != now
    classes = after.classes
    # The clearest changes first: people for whom the probability of their new decision grew most.
    rows = np.flatnonzero(moved)
    was_likely, is_likely = (_likely(model, table.iloc[rows], now[rows]) for model in (before, after))
    columns = [name for name in after.domain.names if name in table.columns]
    clearest = (
        Example(
            {name: plain(table[name].iloc[rows[i]]) for name in columns},
            plain(classes[was[rows[i]]]),
            plain(classes[now[rows[i]]]),
            round(float(was_likely[i]), 4),
            round(float(is_likely[i]), 4),
        )
        for i in np.argsort(was_likely - is_likely, kind="stable")[:examples]
    )
    return Changes(
        rows=len(table),
        changed=float(np.mean(moved)),
        distance=float(np.sqrt(np.mean((old.astype(np.float64) - new) ** 2))),
        now=_counts(now[moved], classes),
        groups=tuple(
            ChangedGroup(name, int(who.sum()), float(np.mean(moved[who])), _counts(now[moved & who], classes))
            for name, who in sensitive_groups(after.domain, table)
        ),
        examples=tuple(clearest),
    )


def _likely(model: AnyModel, people: pd.DataFrame, classes: np.ndarray) -> np.ndarray:
    """The probability of a class for each person."""
    if not len(people):
        return np.zeros(0)
    return model.predict_proba(people)[np.arange(len(people)), classes]


def sensitive_groups(domain: Domain, table: pd.DataFrame) -> list[tuple[str, np.ndarray]]:
    """The rows of each group of sensitive values, in their order; those of whom a value is not known come last."""
    if not domain.sensitive or any(name not in table.columns for name in domain.sensitive):
        return []
    parts = [grouped(feature, table[feature.name]) for feature in domain.sensitive_features]
    keys = np.stack([np.where(at < 0, len(words), at) for at, words in parts], axis=1)
    words = [[f"{name} {word}" for word in [*parts[i][1], "not known"]] for i, name in enumerate(domain.sensitive)]
    return [
        (", ".join(names[i] for names, i in zip(words, key, strict=True)), (keys == key).all(axis=1))
        for key in np.unique(keys, axis=0).tolist()
    ]


def _counts(decided: np.ndarray, classes: np.ndarray) -> dict[str, int]:
    return {str(plain(name)): int(np.sum(decided == i)) for i, name in enumerate(classes)}
