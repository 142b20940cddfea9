"""What does fairness cost other people's estimators? Each plain, merged and averaged, beside our network.

Plain, it is shown every column; merged, what twins have in common; averaged, every column, and the mean over all
versions of a person decides. Flips are people kept aside for whom another sensitive value alone changes the decision.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.cli.train_estimator import named_estimator
from bornfair.models import metrics
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker
from bornfair_bench.experiments import plots
from bornfair_bench.experiments.methods import Split
from bornfair_bench.experiments.printout import Columns, Lines, Outcome, groups, how_many_proven, lines, percent
from bornfair_bench.experiments.runs import Experiment, Run

ESTIMATORS = ("network", "xgboost", "lightgbm", "hist-gradient-boosting", "logistic")
TREATMENTS = ("plain", "merged", "averaged")
METHODS = tuple(f"{estimator}, {treatment}" for estimator in ESTIMATORS for treatment in TREATMENTS)
SENSITIVE = {"census": "sex", "credit": "sex", "bank": "marital", "compas": "race", "law": "race"}
MARKS = {"plain": ("x", "plain"), "merged": ("o", "merged"), "averaged": ("s", "averaged")}
COLUMNS: Columns = (
    ("dataset", lambda own: f"{own[0]['dataset']} ({own[0]['sensitive']})"),
    ("estimator", lambda own: own[0]["method"].partition(", ")[0]),
    ("treatment", lambda own: own[0]["method"].partition(", ")[2]),
    ("accuracy", lambda own: f"{percent(own, 'accuracy')} %"),
    ("flips", lambda own: f"{percent(own, 'flips')} %"),
    ("proven", how_many_proven),
)


def measure(run: Run) -> Outcome:
    """One estimator, one treatment, one split: fitted, measured on the rows kept aside, and its bundle checked."""
    from threadpoolctl import threadpool_limits

    split = Split.of(run.dataset, [run.sensitive], run.seed)
    estimator, _, treatment = run.method.partition(", ")
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        made = _fitted(estimator, treatment, run, split)
        seconds = time.perf_counter() - began
        decided = made.decide(split.people)
        versions = Versions(split.domain)
        tables = (versions.table(split.people, i) for i in range(versions.size))
        same = metrics.same_for_all([made.decide(table) for table in tables])
        verdict, accepted = made.checked()
    return {
        "accuracy": metrics.accuracy(split.truth.to_numpy(), decided),
        "flips": 1.0 - float(np.mean(same)),
        "test_people": len(split.people),
        "verdict": verdict,
        "bundle_accepted": accepted,
        "seconds": seconds,
    }


class _Made:
    """A fitted classifier: how it decides about a table, and what can be saved of it."""

    def __init__(self, decide: Any, saved: Any, names: Sequence[str]) -> None:
        self._decide, self.saved, self.names = decide, saved, list(names)

    def decide(self, people: pd.DataFrame) -> np.ndarray:
        return np.asarray(self._decide(people[self.names]))

    def checked(self) -> tuple[str, bool]:
        """The checker's word on the bundle; nothing is claimed of a plain one."""
        if self.saved is None:
            return "not claimed", True
        with tempfile.TemporaryDirectory() as place:
            found = checker.check(self.saved.save(Path(place) / "bundle"))
        return str(found["verdict"]), bool(found["valid"])


def _fitted(estimator: str, treatment: str, run: Run, split: Split) -> _Made:
    names = split.domain.names
    if estimator == "network":
        return _network(treatment, run, split)
    from bornfair.wrapper import FairWrapper

    wrapper = FairWrapper(
        named_estimator(estimator, run.seed), [run.sensitive], domain=split.domain, encoding="one-hot",
        method="merge" if treatment == "merged" else "average", unseen="ignore",
    )  # fmt: skip
    wrapper.fit(split.X, split.y)
    if treatment != "plain":
        return _Made(wrapper.predict, wrapper, names)
    inner = wrapper.estimator_
    return _Made(lambda people: wrapper.classes_[inner.predict_proba(people).argmax(axis=1)], None, names)


def _network(treatment: str, run: Run, split: Split) -> _Made:
    from bornfair.estimator import FairClassifier
    from bornfair.models.graph.around import Core, around
    from bornfair.proof.bundle import FairGraph

    response: Any = "expected" if treatment == "merged" else "none"
    options: dict[str, Any] = {name: value for name, value in run.options if value is not None}
    clf = FairClassifier(
        [run.sensitive], domain=split.domain, random_state=run.seed, response=response, **options
    ).fit(split.X, split.y)  # fmt: skip
    if treatment != "averaged":
        return _Made(clf.predict, clf if treatment == "merged" else None, split.domain.names)
    domain = clf.domain_
    mean = FairGraph(around(Core.of_own(clf.model_.graph_bytes(), domain), domain, "average"), domain).certified()
    return _Made(mean.predict, mean, split.domain.names)


def table(outcomes: Sequence[Outcome]) -> Lines:
    """Means over the splits."""
    return lines(COLUMNS, groups(outcomes, dataset=SENSITIVE, method=METHODS))


def draw(outcomes: Sequence[Outcome]) -> Any:
    """Accuracy and flips: a line for each estimator, a mark for each split."""
    found = [name for name in SENSITIVE if any(o["dataset"] == name for o in outcomes)]
    drawn, axes = plots.figure(len(found), 2, size=(9.5, 2.0 * len(found) + 0.4), sharey=True)
    for (left, right), name in zip(axes, found, strict=True):
        for treatment, (mark, word) in MARKS.items():
            own = [o for o in outcomes if o["dataset"] == name and o["method"].endswith(treatment)]
            heights = [-ESTIMATORS.index(o["method"].partition(", ")[0]) for o in own]
            for axis, what in ((left, "accuracy"), (right, "flips")):
                axis.plot([100 * o[what] for o in own], heights, mark, color="black", fillstyle="none", label=word)
        left.set_yticks([-i for i in range(len(ESTIMATORS))], ESTIMATORS)
        plots.plain_axes(left, x="accuracy %", y="", title=f"{name}, sensitive: {SENSITIVE[name]}")
        plots.plain_axes(right, x="people decided otherwise %", y="", title="flips")
        right.legend(fontsize="small", loc="best")
    return drawn


WRAPPING = Experiment(
    "wrapping", list(SENSITIVE.items()), METHODS, measure, draw, {"Mean of {seeds} splits": table}, numbers_from=3,
    options={"epochs": None},
)  # fmt: skip
run, report = WRAPPING.run, WRAPPING.report
