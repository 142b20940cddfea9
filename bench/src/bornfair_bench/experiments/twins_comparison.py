"""What does it take to treat husband and wife alike? Four trainings and a repair, compared on twins beyond the flip.

Dropping sex leaves "Husband" in the table. ERM, training without sex (unaware), flip-fair and swap-fair training and a
repaired ERM are measured on the same held-out rows: how many decisions survive the change of sex alone, how many that
of sex together with the columns a rule moves, and what it costs.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bornfair.models import metrics
from bornfair.models.network.structural import confirm_encoded
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.proof.bundle import FairModel
from bornfair_bench.experiments import plots
from bornfair_bench.experiments.methods import Split, fitted
from bornfair_bench.experiments.printout import Columns, Lines, Outcome, groups, how_many_proven, lines, percent
from bornfair_bench.experiments.runs import Experiment, Run

METHODS = ("erm", "unaware", "flip", "swap", "repaired")
NAMES = {
    "erm": "ERM", "unaware": "unaware (sex dropped)", "flip": "fair for the flip", "swap": "fair for the swap",
    "repaired": "ERM, repaired for the swap",
}  # fmt: skip
RULES = {
    "census": "sex: Male<->Female, relationship: Husband<->Wife",
    # The file knows no single woman: whether a person is single tells half of the men. No pair of categories mirrors
    # each other, so the rule exchanges the two values, which leaves nothing of the column to be used.
    "credit": "sex: male<->female, single: False<->True",
}
COLUMNS: Columns = (
    ("dataset", lambda own: own[0]["dataset"]),
    ("method", lambda own: NAMES[own[0]["method"]]),
    ("accuracy", lambda own: f"{percent(own, 'accuracy')} %"),
    ("flip-stable", lambda own: f"{percent(own, 'flip_stable')} %"),
    ("swap-stable", lambda own: f"{percent(own, 'swap_stable')} %"),
    ("among those moved", lambda own: f"{percent(own, 'moved_stable')} %"),
    ("selection difference", lambda own: f"{percent(own, 'selection_difference')} %"),
    ("odds difference", lambda own: f"{percent(own, 'odds_difference')} %"),
    ("proven for the swap", how_many_proven),
)


def measure(run: Run) -> Outcome:
    """Train one method on one split; everything is measured on the rows kept aside."""
    split = Split.of(run.dataset, [run.sensitive], run.seed)
    began = time.perf_counter()
    model = _trained(run, split)
    seconds = time.perf_counter() - began
    domain = model.domain if model.domain.twins else model.domain.with_twins(RULES[run.dataset])
    asked = dataclasses.replace(model, encoding=dataclasses.replace(model.encoding, domain=domain))
    people, truth = split.people, split.truth.to_numpy()
    decided, positive = asked.predict(people), asked.classes[-1]
    same = metrics.survives_every_change(asked.predict, people, domain)
    return {
        "accuracy": metrics.accuracy(truth, decided),
        "flip_stable": float(metrics.survives_every_change(asked.predict, people, domain, declared=False).mean()),
        "swap_stable": float(np.mean(same)),
        "moved_stable": float(np.mean(same[moved_rows(domain, people)])),
        "moved_people": int(moved_rows(domain, people).sum()),
        "test_people": len(people),
        **group_differences(truth == positive, decided == positive, people[run.sensitive]),
        "verdict": confirm_encoded(asked.network, asked.encoding).answer,
        "seconds": seconds,
    }


def _trained(run: Run, split: Split) -> FairModel:
    from bornfair.questions.repairing import repair

    rule = RULES[run.dataset]
    kind, extra = {
        "erm": ("erm", {}),
        "repaired": ("erm", {}),
        "unaware": ("unaware", {}),
        "flip": ("ours", {}),
        "swap": ("ours", {"twins": rule}),
    }[run.method]
    options: dict[str, Any] = dict(run.options)
    classifier, _ = fitted(kind, [run.sensitive], split, run.seed, preset="default", **options, **extra)
    model: FairModel = classifier.model_
    if run.method == "repaired":
        target = str(split.y.name)
        epochs = {} if options["epochs"] is None else {"epochs": options["epochs"]}
        made = repair(
            model,
            split.X.assign(**{target: split.y}),
            target=target,
            twins=rule,
            method="auto",
            seed=run.seed,
            **epochs,
        ).model
        assert isinstance(made, FairModel)
        return made
    return model


def moved_rows(domain: Domain, people: pd.DataFrame) -> np.ndarray:
    """The people whose free values some rule changes: spouses, on census."""
    found = np.zeros(len(people), dtype=bool)
    for name, orbits in domain.twin_group.orbits.items():
        feature = domain.feature(name)
        if isinstance(feature, NUMERIC):
            return np.ones(len(people), dtype=bool)
        levels = list(feature.levels())
        found |= people[name].isin([levels[i] for orbit in orbits for i in orbit]).to_numpy()
    return found


def group_differences(truth: np.ndarray, chosen: np.ndarray, groups: pd.Series) -> dict[str, float]:
    """Between groups, the largest difference of the selection rate, and of the true or false positive rate."""

    def difference(rows: np.ndarray) -> float:
        return float(np.ptp(pd.Series(chosen)[rows].groupby(groups.to_numpy()[rows]).mean()))

    everybody = np.ones(len(chosen), dtype=bool)
    odds = max(difference(truth), difference(~truth))
    return {"selection_difference": difference(everybody), "odds_difference": odds}


def table(outcomes: Sequence[Outcome]) -> Lines:
    """Means over the seeds."""
    return lines(COLUMNS, groups(outcomes, dataset=RULES, method=METHODS))


def draw(outcomes: Sequence[Outcome]) -> Any:
    """Accuracy, and the share of decisions that survive: a line for each method, a mark for each seed."""
    found = [name for name in RULES if any(o["dataset"] == name for o in outcomes)]
    methods = [m for m in METHODS if any(o["method"] == m for o in outcomes)]
    drawn, axes = plots.figure(len(found), 2, size=(9.5, 2.6 * len(found) + 0.4), sharey=True)
    marks = {
        "flip_stable": ("o", "change of sex"),
        "swap_stable": ("s", "declared swap"),
        "moved_stable": ("x", "moved"),
    }
    for (left, right), name in zip(axes, found, strict=True):
        own = [o for o in outcomes if o["dataset"] == name]
        heights = [len(methods) - methods.index(o["method"]) for o in own]
        left.plot([100 * o["accuracy"] for o in own], heights, "D", color="black", markersize=4)
        for share, (mark, word) in marks.items():
            right.plot([100 * o[share] for o in own], heights, mark, color="black", fillstyle="none", label=word)
        left.set_yticks(range(len(methods), 0, -1), [NAMES[m] for m in methods])
        plots.plain_axes(left, x="accuracy %", y="", title=name)
        plots.plain_axes(right, x="decisions that survive %", y="", title=f"{name}: {RULES[name]}")
        right.title.set_fontsize("small")
        right.legend(fontsize="small", loc="best")
    return drawn


TWINS = Experiment(
    "twins", [(name, "sex") for name in RULES], METHODS, measure, draw,
    {"Mean of {seeds} splits": table}, numbers_from=2, options={"epochs": None}, facts={"rules": RULES},
)  # fmt: skip
run, report = TWINS.run, TWINS.report
