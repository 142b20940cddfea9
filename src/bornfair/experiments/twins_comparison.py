"""What does it take to treat husband and wife alike? Four trainings and a repair, compared on twins beyond the flip.

Dropping sex leaves "Husband" in the table. ERM, training without sex (unaware), flip-fair and swap-fair training and a
repaired ERM are measured on the same held-out rows: how many decisions survive the change of sex alone, how many that
of sex together with the columns a rule moves, and what it costs.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair import datasets
from bornfair.auditing import metrics
from bornfair.experiments import plots
from bornfair.experiments.runs import Folder, Outcome, Run, known, run_all, write_results
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.proof.bundle import FairModel
from bornfair.verification.confirm import confirm_encoded

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
HEADERS = (
    "dataset", "method", "accuracy", "flip-stable", "swap-stable", "among those moved", "selection difference",
    "odds difference", "proven for the swap",
)  # fmt: skip


def run(
    folder: str | Path,
    *,
    names: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    epochs: int | None = None,
    jobs: int = 1,
    say: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Train each method on each split, write CSV and JSON, and draw the figure."""
    runs = [
        Run(name, "sex", method, seed, (("epochs", epochs),))
        for name in known(names, tuple(RULES), "dataset")
        for method in known(methods, METHODS, "method")
        for seed in range(seeds)
    ]
    place = Folder(Path(folder))
    outcomes = run_all(runs, measure, place, jobs=jobs, say=say)
    write_results(place, "twins", outcomes, rules=RULES)
    draw(outcomes, place.path / "twins")
    return outcomes


def measure(run: Run) -> Outcome:
    """Train one method on one split; everything is measured on the rows kept aside."""
    data = datasets.load(run.dataset)
    training, test = datasets.split(data, seed=run.seed)
    flip = Domain.infer(data.table.drop(columns=data.target), sensitive=[run.sensitive])
    began = time.perf_counter()
    model = _trained(run, training, data.target, flip)
    seconds = time.perf_counter() - began
    domain = model.domain if model.domain.twins else model.domain.with_twins(RULES[run.dataset])
    asked = dataclasses.replace(model, encoding=dataclasses.replace(model.encoding, domain=domain))
    people, truth = test.drop(columns=data.target), test[data.target].to_numpy()
    decided, positive = asked.predict(people), asked.classes[-1]
    same = metrics.survives_every_change(asked.predict, people, domain)
    return {
        "accuracy": metrics.accuracy(truth, decided),
        "flip_stable": metrics.empirical_fairness(asked.predict, people, domain, declared=False),
        "swap_stable": float(np.mean(same)),
        "moved_stable": float(np.mean(same[moved_rows(domain, people)])),
        "moved_people": int(moved_rows(domain, people).sum()),
        "test_people": len(people),
        **group_differences(truth == positive, decided == positive, people[run.sensitive]),
        "verdict": confirm_encoded(asked.network, asked.encoding).verdict,
        "seconds": seconds,
    }


def _trained(run: Run, training: pd.DataFrame, target: str, domain: Domain) -> FairModel:
    from bornfair.baselines import ERM, Unaware
    from bornfair.estimator import FairClassifier
    from bornfair.repairing import repair

    options: dict[str, Any] = dict(run.options) | {"domain": domain, "random_state": run.seed}
    X, y = training.drop(columns=target), training[target]
    rule = RULES[run.dataset]
    kinds: dict[str, Callable[[], Any]] = {
        "erm": lambda: ERM([run.sensitive], **options),
        "repaired": lambda: ERM([run.sensitive], **options),
        "unaware": lambda: Unaware([run.sensitive], **options),
        "flip": lambda: FairClassifier([run.sensitive], **options),
        "swap": lambda: FairClassifier([run.sensitive], twins=rule, **options),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ERM is not fair is what is measured here
        model: FairModel = kinds[run.method]().fit(X, y).model_
    if run.method == "repaired":
        epochs = {} if options["epochs"] is None else {"epochs": options["epochs"]}
        return repair(model, training, target=target, twins=rule, seed=run.seed, **epochs).model
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
    rates = []
    for group in groups.unique():
        who = (groups == group).to_numpy()
        rates.append([chosen[who].mean(), chosen[who & truth].mean(), chosen[who & ~truth].mean()])
    spread = np.ptp(np.array(rates), axis=0)
    return {"selection_difference": float(spread[0]), "odds_difference": float(max(spread[1:]))}


def table(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """A row of text for each dataset and method, means over the seeds."""
    lines = []
    for name in RULES:
        for method in METHODS:
            own = [o for o in outcomes if o["dataset"] == name and o["method"] == method]
            if own:
                shares = (
                    "accuracy", "flip_stable", "swap_stable", "moved_stable", "selection_difference", "odds_difference"
                )  # fmt: skip
                means = (f"{100 * statistics.mean(o[share] for o in own):.2f} %" for share in shares)
                proven = sum(o["verdict"] == "verified" for o in own)
                lines.append((name, NAMES[method], *means, f"{proven} of {len(own)}"))
    return lines


def draw(outcomes: Sequence[Outcome], place: Path) -> list[Path]:
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
    return plots.save(drawn, place)
