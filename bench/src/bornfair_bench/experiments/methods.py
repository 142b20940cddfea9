"""The methods that are compared, each with the settings of the paper's experiments, and what is measured of one.

All are given the same rows of the same splits and the same domain. Ours, ERM and unaware run plain SGD as the paper
does; LCIFR, MILP and U-DIF keep the optimisers of their authors. What the paper leaves open (how long to train, how
much a penalty weighs) is chosen anew in every split, on fifths of its training rows; test rows are measured on once.
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair import datasets
from bornfair.datasets import Dataset
from bornfair.models import metrics
from bornfair.models.network.model import scores_under_every_code
from bornfair.models.network.network import decisions
from bornfair.models.network.structural import confirm_encoded
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.proof import checker
from bornfair_bench.experiments.printout import Outcome
from bornfair_bench.experiments.runs import Run

METHODS = ("erm", "lcifr", "milp", "udif", "unaware", "ours")
NAMES = {"erm": "ERM", "lcifr": "LCIFR", "milp": "MILP", "udif": "U-DIF", "unaware": "unaware", "ours": "ours"}

LEAST_STEPS = (1, 13_000)
"""The paper does not say how long it trained; 100 epochs of 1,000 people are 1,300 steps, which teach nothing. So these
are the lengths to choose from."""
WEIGHTS: dict[str, tuple[str, tuple[float, ...]]] = {
    "lcifr": ("weight", (0.1, 1.0, 10.0)),  # those its authors used, each for other datasets
    "milp": ("balance", (0.25, 0.5, 0.75)),
    "udif": ("alpha", (0.0003, 0.001, 0.003)),
}
"""How much fairness counts in a method's loss, where it has such a weight: its name, and the values to choose from."""
CHOSEN_ON = 1_000  # validation people, or as many as there are: by fewer, chance chooses
STABLE = 0.99  # settings that keep so many decisions of validation people are preferred to those that do not
CERTIFY_ROWS = 1000  # test people the methods' own certificates are asked about, as LCIFR's authors do


def epochs_for(rows: int, least_steps: int, batch_size: int = 64) -> int:
    """100 epochs, or more where an epoch has few steps.

    >>> epochs_for(26_000, 13_000), epochs_for(800, 13_000)
    (100, 1000)
    """
    return max(100, -(-least_steps // -(-rows // batch_size)))


def settings_to_compare(method: str, rows: int, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What may be chosen for a method, and what is fixed.

    >>> settings_to_compare("ours", 26_000, {}), settings_to_compare("udif", 800, {"alpha": 0.01})
    ([{'epochs': 100}], [{'alpha': 0.01}])
    """
    # MILP and U-DIF have a length of their own, about 2,000 steps.
    lengths = sorted({epochs_for(rows, least) for least in LEAST_STEPS}) if method not in ("milp", "udif") else [None]
    name, values = WEIGHTS.get(method, ("", (None,)))
    found = []
    for epochs, value in itertools.product(lengths, values):
        chosen = {"epochs": epochs, name: value}
        found.append({key: setting for key, setting in chosen.items() if setting is not None} | dict(fixed))
    return [settings for i, settings in enumerate(found) if settings not in found[:i]]


@dataclass(frozen=True, eq=False)
class Split:
    """A dataset cut in two: rows to learn from (X, y), and people kept aside to measure on, with the truth."""

    X: pd.DataFrame
    y: pd.Series
    people: pd.DataFrame
    truth: pd.Series
    domain: Domain

    @staticmethod
    def of(dataset: str, sensitive: Sequence[str], seed: int) -> Split:
        data = datasets.load(dataset)
        (X, y), (people, truth) = (
            (rows.drop(columns=data.target), rows[data.target]) for rows in datasets.split(data, seed=seed)
        )
        return Split(X, y, people, truth, domain_of(data, *sensitive))

    def within(self, seed: int) -> list[Split]:
        """The rows to learn from, cut again: the people to choose settings on are none of those to measure on.

        One fifth is set aside, and where that is fewer than CHOSEN_ON people, further fifths in turn.
        """
        fifths = np.array_split(np.random.default_rng([seed, 21]).permutation(len(self.X)), 5)
        found = []
        for i in range(min(5, -(-CHOSEN_ON // len(fifths[0])))):
            learnt = np.concatenate([rows for j, rows in enumerate(fifths) if j != i])
            kept = self.X.iloc[fifths[i]], self.y.iloc[fifths[i]]
            found.append(Split(self.X.iloc[learnt], self.y.iloc[learnt], *kept, self.domain))
        return found


def domain_of(data: Dataset, *sensitive: str) -> Domain:
    """Everybody in the table, those kept aside to measure on included."""
    return Domain.infer(data.table, target=data.target, sensitive=sensitive)


def make(method: str, sensitive: Sequence[str], domain: Domain, seed: int, **options: Any) -> Any:
    """A classifier that is not fitted yet."""
    from bornfair.estimator import FairClassifier
    from bornfair_bench import baselines

    plain = {"preset": "paper"}
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "ours": (FairClassifier, plain | {"init": "exact"}),  # the paper's own start teaches the network nothing
        "erm": (baselines.ERM, plain),
        "unaware": (baselines.Unaware, plain),
        "lcifr": (baselines.LCIFR, {}),  # as long as ours in each of its two phases
        "milp": (baselines.MILP, {}),
        "udif": (baselines.UDIF, {}),
    }
    kind, settings = kinds[method]
    return kind(list(sensitive), **({"domain": domain, "random_state": seed} | settings | options))


def fitted(method: str, sensitive: Sequence[str], split: Split, seed: int, **options: Any) -> tuple[Any, float]:
    """A classifier that has learnt the split's rows, and the seconds it took."""
    classifier = make(method, sensitive, split.domain, seed, **options)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ERM is not fair is what is measured here
        classifier.fit(split.X, split.y)
    return classifier, time.perf_counter() - began


def chosen_settings(run: Run, split: Split) -> tuple[dict[str, Any], list[Outcome]]:
    """The settings that decide best about people set aside from the training rows, and how all of them did.

    The most accurate of those that keep 99 % of these people's decisions, or of all where none does. ERM promises
    nothing of the kind: the most accurate.
    """
    candidates = settings_to_compare(run.method, len(split.X), dict(run.options))
    if len(candidates) == 1:
        return candidates[0], []
    parts, found = split.within(run.seed), list[Outcome]()
    for settings in candidates:
        measured = []
        for part in parts:
            classifier, _ = fitted(run.method, [run.sensitive], part, run.seed, **settings)
            right = metrics.accuracy(part.truth.to_numpy(), classifier.predict(part.people))
            measured.append((right, classifier.empirical_fairness(part.people)))
        right, stable = (float(np.mean(shares)) for shares in zip(*measured, strict=True))
        found.append({"settings": settings, "accuracy": right, "empirical_fairness": stable})
    asked = 0.0 if run.method == "erm" else STABLE
    fair = [outcome for outcome in found if outcome["empirical_fairness"] >= asked] or found
    return max(fair, key=lambda outcome: outcome["accuracy"])["settings"], found


def measure(run: Run) -> Outcome:
    """Train one method on one split and measure it on the rows kept aside."""
    split, began = Split.of(run.dataset, [run.sensitive], run.seed), time.perf_counter()
    settings, compared = chosen_settings(run, split)
    choosing = time.perf_counter() - began
    classifier, seconds = fitted(run.method, [run.sensitive], split, run.seed, **settings)
    people, truth = split.people, split.truth.to_numpy()
    fairness = classifier.empirical_fairness(people)
    decided, shares = classifier.predict(people), classifier.predict_proba(people)
    return {
        "accuracy": metrics.accuracy(truth, decided),
        "empirical_fairness": fairness,
        "unfair_people": round((1 - fairness) * len(people)),
        "negation_fairness": _negation_fairness(classifier, people),
        "test_people": len(people),
        "balanced_accuracy": metrics.balanced_accuracy(truth, decided),
        "auc": metrics.auc(truth, shares, classifier.classes_),
        "majority": float(np.max(np.unique(truth.astype(str), return_counts=True)[1]) / len(truth)),
        "seconds": seconds,
        "choosing_seconds": choosing,
        "settings": settings,
        "compared": compared,
        **_proof(classifier),
        **_own_certificate(classifier, run.method, people),
    }


def _negation_fairness(classifier: Any, people: pd.DataFrame) -> float | None:
    """The share whose decision survives negating one code, as the paper's authors do in their scripts; of a category
    with several values nothing is negated.

    Our own measure asks for one decision at every age: negating asks for two ages, mirrored in the range, only.
    """
    model = classifier.model_
    (feature,) = model.domain.sensitive_features
    if not isinstance(feature, NUMERIC):
        return None
    encoded = model.encoding.encode(people)
    decided = decisions(scores_under_every_code(model.network, encoded.free, model.encoding.codes))
    own, rows = model.encoding.sensitive_index(encoded), np.arange(len(people))
    return float(np.mean(decided[own, rows] == decided[::-1][own, rows]))  # codes go from −c to c in equal steps


def _proof(classifier: Any) -> Outcome:
    """What is proven of the trained network for everybody, and whether the checker accepts its bundle."""
    from bornfair.proof.certificate import certificate_of

    model = classifier.model_
    verdict = confirm_encoded(model.network, model.encoding)
    if not verdict:
        return {"verdict": verdict.answer, "bundle_accepted": False}
    certified = dataclasses.replace(model, certificate=certificate_of(model, verdict, seconds=10))
    with tempfile.TemporaryDirectory() as place:
        found = checker.check(certified.save(Path(place) / "bundle.zip"))
    return {"verdict": verdict.answer, "bundle_accepted": found["valid"] and found["verdict"] == "verified"}


def _own_certificate(classifier: Any, method: str, people: Any) -> Outcome:
    """The share of people the method itself certifies, where it has a certificate of its own."""
    if method not in ("lcifr", "milp", "udif"):
        return {"certified_share": None}
    return {"certified_share": classifier.certify(people.head(CERTIFY_ROWS)).share}
