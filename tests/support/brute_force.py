"""Random small models whose fairness can be counted out, person by person, and what the engines say of them.

Few shapes, many weights: compiled bounds are reused, so that tens of thousands of cases are affordable.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bornfair import verify
from bornfair.models.network.bounds.exact import exact_decisions
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label
from bornfair.people.twins.versions import Versions
from bornfair.proof.bundle import FairModel
from bornfair.verification.attack import find_twins
from bornfair.verification.replay import exact_input
from fuzzing import Summary
from piecewise import all_values
from twin_cases import served

SHAPES = (
    # free features, sensitive features, hidden widths, outputs
    ((IntegerFeature(name="a", low=-2, high=4),), (IntegerFeature(name="s", low=0, high=1),), (3,), 1),
    (
        (IntegerFeature(name="a", low=0, high=5), CategoricalFeature(name="c", categories=("u", "v", "w"))),
        (CategoricalFeature(name="s", categories=("p", "q", "r")),),
        (4, 3),
        1,
    ),
    ((BooleanFeature(name="b"), IntegerFeature(name="a", low=0, high=8)), (BooleanFeature(name="s"),), (4,), 3),
    (
        (IntegerFeature(name="a", low=0, high=3), IntegerFeature(name="d", low=-3, high=3)),
        (BooleanFeature(name="s"), IntegerFeature(name="t", low=0, high=2)),
        (3, 3, 2),
        1,
    ),
)
GAPPY = (
    (  # gaps in two numbers and a category
        (
            IntegerFeature(name="a", low=0, high=3, missing=True),
            IntegerFeature(name="d", low=-1, high=2, missing=True),
            CategoricalFeature(name="c", categories=("u", "v"), missing=True),
        ),
        (BooleanFeature(name="s"),),
        (4, 3),
        1,
    ),
    (  # a gap in what is sensitive
        (IntegerFeature(name="a", low=-2, high=4, missing=True), BooleanFeature(name="b")),
        (CategoricalFeature(name="s", categories=("p", "q"), missing=True),),
        (4,),
        3,
    ),
)


@dataclass(frozen=True)
class Truth:
    """What counting out says: is anybody unfair in this arithmetic? In float32 onnxruntime decides, on the graph."""

    real: bool
    float32: bool


def gappy_model(seed: int) -> FairModel:
    """A model of people of whom something may be missing."""
    return random_model(seed, GAPPY)


def random_model(seed: int, shapes=SHAPES) -> FairModel:
    """A model of one of the shapes; some are fair by luck, some by design, some have extreme weights."""
    random = np.random.default_rng([seed, 77])
    free, sensitive, hidden, outputs = shapes[seed % len(shapes)]
    label = Label(name="y", classes=tuple(range(max(outputs, 2))))
    domain = Domain(features=(*free, *sensitive), sensitive=tuple(f.name for f in sensitive), label=label)
    numbers = {f.name: Scale(centre=1.0, exponent=1) for f in domain.features if f.kind == "integer"}
    if seed % 3 == 1:  # the first number is held between two ends
        (name, low, high) = next((f.name, f.low, f.high) for f in free if isinstance(f, IntegerFeature))
        ends = np.sort(random.integers(low, high + 1, 2)).tolist()
        numbers[name] = Scale(centre=1.0, exponent=1, low=float(ends[0]), high=float(ends[1]))
    gappy = [f for f in free if f.missing and isinstance(f, IntegerFeature)]
    fill = {f.name: float(random.choice([f.low, f.high, (f.low + f.high) / 2])) for f in gappy}
    encoding = Encoding(domain, numbers, fill)
    style = random.integers(5)
    scale = float(2.0 ** random.integers(-30, 30)) if style == 3 else 1.0
    layers = []
    widths = (encoding.width, *hidden, outputs)
    for i, (inputs, after) in enumerate(itertools.pairwise(widths)):
        weight = random.normal(size=(after, inputs)) * scale
        if style in (1, 4):
            weight = np.round(weight * 2) / 2  # ties and exact zeros
        bias = random.normal(size=after) * (3.0 if style == 2 else 1.0)
        if i == 0 and style == 4:
            weight[:, encoding.free_width :] *= 2.0 ** -random.integers(10, 40)
        layers.append(Layer(weight, np.round(bias * 2) / 2 if style in (1, 4) else bias))
    return FairModel(Network(tuple(layers)), encoding)


def truth(model: FairModel) -> Truth:
    """Decide everybody as every value of S."""
    features = model.domain.free_features
    people = [
        dict(zip((f.name for f in features), row, strict=True)) for row in itertools.product(*map(all_values, features))
    ]
    values = range(model.domain.sensitive_space.size)
    inputs = np.stack([exact_input(model.encoding, person, value) for person in people for value in values])
    exact = exact_decisions(model.network, inputs).reshape(len(people), -1)
    everyone = pd.DataFrame([Versions(model.domain).of(person, value) for person in people for value in values])
    answers = served(model, everyone)[0].reshape(len(people), -1)
    return Truth(bool((exact != exact[:, :1]).any()), bool((answers != answers[:, :1]).any()))


def mistake(model: FairModel, verdict, known: Truth) -> str | None:
    """What is wrong with a verdict, or None."""
    unfair = {"real": known.real, "float32": known.float32}
    if verdict.answer == "verified" and any(unfair[arithmetic] for arithmetic in verdict.arithmetic):
        return f"{verdict.engine} says verified in {verdict.arithmetic}, but {known}"
    if verdict.answer == "falsified" and not all(unfair[arithmetic] for arithmetic in verdict.arithmetic):
        return f"{verdict.engine} says falsified in {verdict.arithmetic}, but {known}"
    if verdict.answer == "falsified":
        first, second = verdict.twins
        differing = {name for name in first if first[name] != second[name]}
        if not differing <= set(model.domain.sensitive) or len(set(verdict.decisions)) < 2:
            return f"{verdict.engine} shows people who are not twins: {verdict.twins}"
    return None


def attack_mistake(model: FairModel, known: Truth, seconds: float = 0.05) -> str | None:
    found = find_twins(model, seconds=seconds, seed=0).found
    if found is not None and not all({"real": known.real, "float32": known.float32}[a] for a in found.unfair_in):
        return f"the attack found {found}, but {known}"
    return None


def run(count: int, seed: int) -> Summary:
    """Every model is put to the bounds, every tenth to each of the other engines, every fifth to the attack alone."""
    summary = Summary(count)
    for i, case in enumerate(np.random.default_rng(seed).integers(2**32, size=count).tolist()):
        make = gappy_model if i % 4 == 1 else random_model
        model = make(case)
        known = truth(model)
        problems = [attack_mistake(model, known)] if i % 5 == 0 else []
        for engine in ["bounds", *{0: ["smt"], 5: ["milp"]}.get(i % 10, [])]:
            verdict = verify(model, engine=engine, timeout=30, seed=seed)
            summary.outcomes[f"{engine} {verdict.answer}"] += 1
            problems.append(mistake(model, verdict, known))
        summary.wrong += [f"{make.__name__}({case}): {problem}" for problem in problems if problem]
    return summary
