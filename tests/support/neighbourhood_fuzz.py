"""Parts of random domains: what is said of everybody near a person, against looking at everybody there."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd

import random_forests
from bornfair import Domain, FairModel
from bornfair.models.network.bounds.exact import exact_decisions
from bornfair.models.network.network import Layer, Network
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC
from bornfair.people.twins.versions import Versions
from bornfair.questions.person import limits_around
from bornfair.verification.decide import decide
from bornfair.verification.replay import exact_input
from brute_force import random_model
from fuzzing import Summary
from twin_cases import everybody, random_domain, served

Limits = dict[str, Any]


def with_rules(seed: int) -> FairModel:
    """A random network over a random domain with declared twins, which it is shown as they are."""
    domain, random = random_domain(seed), np.random.default_rng([seed, 3])
    encoding = Encoding.fit(domain, everybody(domain))
    first = random.normal(size=(3, encoding.width))
    first[:, encoding.free_width :] *= 0.3
    return FairModel(Network((Layer(first, random.normal(size=3)), Layer(random.normal(size=(1, 3)), [0.1]))), encoding)


def near(domain: Domain, person: dict[str, Any], random: np.random.Generator) -> tuple[Limits, dict[str, float | None]]:
    """Limits around a person: some numbers may differ a little, some features are anything."""
    within: dict[str, float | None] = {}
    for feature in domain.free_features:
        kind = random.integers(3)
        if kind == 1:
            within[feature.name] = None
        elif kind == 2 and isinstance(feature, NUMERIC) and person[feature.name] is not None:
            within[feature.name] = float(random.integers(0, 3))
    return limits_around(domain, person, within), within


def inside(domain: Domain, limits: Limits, person: dict[str, Any]) -> bool:
    def holds(name: str, limit: Any) -> bool:
        listed = person[name] is None or None in limit or not isinstance(domain.feature(name), NUMERIC)
        return person[name] in limit if listed else limit[0] <= person[name] <= limit[1]

    return all(holds(name, limit) for name, limit in limits.items())


def network_mistake(seed: int, summary: Summary) -> str | None:
    """What is wrong with the verdict on some people of a random network, if anything is."""
    random = np.random.default_rng([seed, 1])
    model = random_model(seed) if seed % 2 else with_rules(seed)
    domain, versions = model.domain, Versions(model.domain)
    own = {f.name: f.levels()[random.integers(len(f.levels()))] for f in domain.free_features}
    limits, _ = near(domain, own, random)
    rows = itertools.product(*(feature.levels() for feature in domain.free_features))
    people = [dict(zip(domain.free_names, row, strict=True)) for row in rows]
    people = [person for person in people if inside(domain, limits, person)]
    verdict = decide(model, among=limits, timeout=20)
    summary.outcomes[f"network {verdict.answer}"] += 1
    numbers = range(versions.size)
    inputs = np.stack([exact_input(model.encoding, person, v, versions) for person in people for v in numbers])
    exact = exact_decisions(model.network, inputs).reshape(len(people), -1)
    answers = served(model, pd.DataFrame([versions.of(p, v) for p in people for v in numbers]))[0]
    answers = answers.reshape(len(people), -1)
    unfair = {"real": bool((exact != exact[:, :1]).any()), "float32": bool((answers != answers[:, :1]).any())}
    if verdict.answer == "verified" and any(unfair[name] for name in verdict.arithmetic):
        return f"verified in {verdict.arithmetic} within {limits}, but {unfair}"
    if verdict.answer != "falsified":
        return None
    if not all(unfair[name] for name in verdict.arithmetic):
        return f"falsified in {verdict.arithmetic} within {limits}, but {unfair}"
    related = any(
        all(any(versions.of(person, v) == twin for v in numbers) for twin in verdict.twins) for person in people
    )
    return None if related else f"{verdict.twins} are no versions of one person within {limits}"


def forest_mistake(seed: int, summary: Summary) -> str | None:
    """The same of a random forest."""
    random = np.random.default_rng([seed, 8])
    model = random_forests.random_forest_model(random)
    truth, domain = random_forests.everybody(model), model.domain
    at = int(random.integers(len(truth.people)))
    given = truth.people.astype(object)
    people = given.where(given.notna(), None).to_dict("records") if domain.free_names else [{}] * len(truth.people)
    limits, within = near(domain, people[at], random)
    unfair = any(bad and inside(domain, limits, person) for bad, person in zip(truth.unfair, people, strict=True))
    verdict = decide(model, among=limits, timeout=20)
    summary.outcomes[f"forest {verdict.answer}"] += 1
    if verdict.answer == "verified":
        return f"verified within {limits}, but somebody there is not" if unfair else None
    if verdict.answer != "falsified":
        return None
    cut = [f for f in domain.free_features if f.kind == "real" and within.get(f.name) is not None]
    if not unfair and not cut:  # of a range that ends between two thresholds, the list has not every value
        return f"falsified within {limits}, but nobody there is unfair"
    if not domain.twins and not inside(domain, limits, verdict.twins[0]):
        return f"{verdict.twins} are not within {limits}"
    return None


def run(count: int, seed: int) -> Summary:
    """One network and one forest for each case."""
    summary = Summary(count)
    for case in np.random.default_rng([seed, 4]).integers(2**32, size=count).tolist():
        for mistake in (network_mistake, forest_mistake):
            problem = mistake(case, summary)
            if problem:
                summary.wrong.append(f"{mistake.__name__}({case}): {problem}")
    return summary
