"""Random small networks in which structure matters: whoever proves them fair by it, verifier or checker, must be right.

A structural proof says that twins have the same scores, not only the same decision; so that is what is counted out, in
fractions and in float32, by the interpreter of `graph_oracle` on the exported graph. Networks have dead ends, relus
that are never on, neurons that are one function and cancel, sums that overflow, and all of these missed by a little.

make nightly ONLY=structures COUNT=20000        prints what is wrong, with the number that makes it again
"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np

from bornfair.models.network.bounds.backward import input_sizes
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.onnx_graph import onnx_bytes
from bornfair.models.network.structural import prove_structurally, prove_zero_weights
from bornfair.models.verdict import Verdict
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label
from bornfair.people.policies import Policies
from bornfair.people.twins.relation import twin_relation
from bornfair.proof import checker
from bornfair.proof.bundle import FairModel
from bornfair.proof.certificate import as_checked
from fuzzing import Summary
from graph_oracle import Judge

FREE = (
    IntegerFeature(name="n", low=-1, high=2),
    BooleanFeature(name="b"),
    CategoricalFeature(name="c", categories=("x", "y", "z")),
)
SENSITIVE = (
    BooleanFeature(name="s"),
    CategoricalFeature(name="s", categories=("p", "q")),
    CategoricalFeature(name="s", categories=("p", "q", "o")),
    IntegerFeature(name="s", low=0, high=2),
)
PEOPLE = 16  # all of them, or so many
RULES = ("c: x<->y", "b: True<->False", "n: -x+1", "c: x->y->z->x")


# --- networks ---


def random_structure(case: int) -> FairModel:
    """A network some of whose neurons may depend on the sensitive values, and do not pass it on; or nearly so."""
    rng = np.random.default_rng([case, 11])
    outputs = 1 if rng.random() < 0.7 else 3
    encoding = _encoding(rng, Label(name="y", classes=tuple(range(max(outputs, 2)))))
    widths = [encoding.width, *rng.integers(2, 6, rng.integers(1, 4)).tolist(), outputs]
    activation = "relu" if rng.random() < 0.85 else str(rng.choice(["tanh", "sigmoid"]))
    layers = [_numbers(rng, b, a) for a, b in itertools.pairwise(widths)]
    _hide(rng, layers, encoding, activation == "relu")
    for _ in range(int(rng.choice([0, 1, 3]))):
        _miss(rng, layers)
    if rng.random() < 0.15:  # sums that overflow in float32, perhaps
        layers[int(rng.integers(len(layers) - 1))][:] *= np.float32(2.0 ** rng.integers(60, 126))
    with np.errstate(over="ignore"):
        made = tuple(Layer(*_split(numbers)) for numbers in layers)
    return FairModel(Network(made, activation), encoding)  # type: ignore[arg-type]


def _encoding(rng: np.random.Generator, label: Label) -> Encoding:
    kept = [feature for feature in FREE if rng.random() < 0.6] or [FREE[0]]
    sensitive = [SENSITIVE[rng.integers(len(SENSITIVE))]]
    if rng.random() < 0.2:
        sensitive.append(BooleanFeature(name="t"))
    domain = Domain(features=(*kept, *sensitive), sensitive=tuple(f.name for f in sensitive), label=label)
    if rng.random() < 0.25:
        rules = [rule for rule in RULES if rule[0] in {f.name for f in kept} and rng.random() < 0.6]
        domain = domain.with_twins(rules) if rules else domain
    numbers = {f.name: Scale(centre=1.0, exponent=1) for f in domain.features if f.kind == "integer"}
    policies = Policies(
        unseen=str(rng.choice(["error", "ignore"])),  # type: ignore[arg-type]
        outside=str(rng.choice(["allow", "clip", "error"])),  # type: ignore[arg-type]
    )
    return Encoding(domain, numbers, {}, policies)


def _numbers(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Weights and, as the last column, biases; halves tie and cancel, others do not."""
    numbers = rng.normal(size=(rows, columns + 1))
    numbers = np.round(2 * numbers) / 2 if rng.random() < 0.6 else numbers
    return (numbers * (rng.random(numbers.shape) < rng.choice([0.6, 1.0]))).astype(np.float32)


def _split(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    limited = np.clip(numbers, -3e38, 3e38)
    return limited[:, :-1], limited[:, -1]


def _hide(rng: np.random.Generator, layers: list[np.ndarray], encoding: Encoding, relu: bool) -> None:
    """Let some neurons of each layer depend on what differs, and keep the others from it in one way or another."""
    moved = [encoding.free_columns()[name] for name in encoding.domain.twin_group.moved]
    differs = {j for place in moved for j in range(place.start, place.stop)}
    differs |= set(range(encoding.free_width, encoding.width))
    for depth, numbers in enumerate(layers):
        last = depth == len(layers) - 1
        depends = set() if last else {i for i in range(len(numbers)) if rng.random() < 0.4 - 0.15 * depth}
        groups = _doubled(rng, layers[depth - 1], differs, relu) if depth and rng.random() < 0.6 else []
        for i in set(range(len(numbers))) - depends:
            if relu and depth and not last and rng.random() < 0.15:
                numbers[i] = -np.abs(numbers[i])  # never on
                continue
            numbers[i, list(differs)] = 0.0
            for one, other, factor in groups:
                numbers[i, one], numbers[i, other] = -factor * numbers[i, -1], numbers[i, -1]
        if depth == 0 and rng.random() < 0.2:  # codes of three categories add up to 0
            numbers[:, encoding.free_width : encoding.width] = numbers[:, [encoding.free_width]]
        differs = depends


def _doubled(
    rng: np.random.Generator, before: np.ndarray, differs: set[int], relu: bool
) -> list[tuple[int, int, np.float32]]:
    """Pairs of neurons that are made one function, up to a factor."""
    order = rng.permutation(list(differs)).tolist()
    pairs = []
    for one, other in zip(order[::2], order[1::2], strict=False):
        factor = np.float32(rng.choice([1, 1, 2, 0.25, 3]) if relu else 1)
        before[one] = np.round(before[one] * 4) / 4  # so that three times of it is exact
        before[other] = factor * before[one]
        pairs.append((one, other, factor))
    return pairs


def _miss(rng: np.random.Generator, layers: list[np.ndarray]) -> None:
    """One number of the network is off, most likely a zero: by a unit in the last place, a little, or a lot."""
    numbers = layers[int(rng.integers(len(layers)))]
    zeros = np.argwhere(numbers == 0)
    at = tuple(rng.choice(zeros) if len(zeros) and rng.random() < 0.7 else rng.integers(numbers.shape))
    step = np.nextafter(numbers[at], np.float32(rng.choice([-9, 9])))
    numbers[at] = rng.choice([step, step, -numbers[at], numbers[at] + np.float32(0.5), np.float32(1e-30)])


# --- judging ---


def mistakes(model: FairModel, outcomes: Counter[str]) -> list[str]:
    """What is wrong with the word of either prover. What one proves in the same arithmetic is judged once."""
    files = {"model.onnx": onnx_bytes(model), "domain.json": model.domain.text().encode()}
    relation = twin_relation(model.encoding)
    verdict = prove_structurally(model.network, relation)
    outcomes[_named("verifier", verdict)] += 1
    wrong = []
    if not model.domain.twin_group.moved:
        unlisted = prove_zero_weights(model.network, model.encoding.free_width, input_sizes(relation))
        outcomes[_named("without a list", unlisted)] += 1
        if not set(unlisted.arithmetic) <= set(verdict.arithmetic):
            wrong.append(f"without a list {unlisted} is proven, with one {verdict}")
    try:
        held = checker.prove_structurally(*as_checked(model))
    except checker.Rejected:
        held = set()
    outcomes["checker: " + (" and ".join(sorted(held, reverse=True)) or "nothing")] += 1
    if not held <= set(verdict.arithmetic):
        wrong.append(f"the checker claims {sorted(held)}, the verifier {verdict.arithmetic}")
    if "real" in verdict.arithmetic and not held and model.encoding.policies.unseen == "error":
        wrong.append(f"the checker does not follow {verdict}")  # where it asks nothing of values that are not listed
    claims = {"the checker": (held, True), "the verifier": (set(verdict.arithmetic) - held, False)}
    for who, (arithmetic, anything) in claims.items():
        if arithmetic:
            problem = _untrue(Judge(files, sorted(arithmetic), random.Random(0)), anything)
            wrong += [f"{who} claims {sorted(arithmetic)}, but {problem}"] if problem else []
    if not verdict and model.network.function.exact:  # how much is left on the table
        differ = _untrue(Judge(files, ["real"], random.Random(0)), False)
        outcomes["not proven: scores " + ("differ" if differ else "are the same")] += 1
    return wrong


def _untrue(judge: Judge, anything: bool) -> str | None:
    with np.errstate(all="ignore"):
        problem = judge.about_scores(PEOPLE, anything=anything)
        if problem is None and "float32" in judge.arithmetic:
            judge.arithmetic = ["float32"]  # as onnxruntime decides
            problem = judge.about_everybody(PEOPLE, anything=anything)
    return problem


def _named(who: str, verdict: Verdict) -> str:
    """How far from the inputs it was proven."""
    if not verdict:
        return f"{who}: nothing"
    place = verdict.reason.split(" of ")[0].removeprefix("from ") if verdict.reason.startswith("from") else "layer 1"
    return f"{who}: {' and '.join(verdict.arithmetic)} at {place}"


def run(count: int, seed: int) -> Summary:
    """How many of `count` networks were proven at which layer, and every proof that is not true."""
    summary = Summary(count)
    for case in np.random.default_rng(seed).integers(2**32, size=count).tolist():
        for problem in mistakes(random_structure(case), summary.outcomes):
            summary.wrong.append(f"random_structure({case}): {problem}")
    return summary
