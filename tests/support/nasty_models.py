"""Models made to mislead: extreme weights, ties, tiny leaks, far centres, saturation, values between any grid.

Every answer about them is held against judges that share nothing with the engines: onnxruntime on the shipped graph for
float32, exact fractions for real arithmetic. `run(count, seed)` is for hours, the tests take a few.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from fractions import Fraction

import numpy as np
import onnxruntime
import pandas as pd

import piecewise
from bornfair import quantify, verify
from bornfair.models.graph_draft import input_type
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.onnx_graph import onnx_bytes
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, Feature, IntegerFeature, Label, RealFeature
from bornfair.proof.bundle import FairModel, bundle_files
from bornfair.proof.checker import Rejected, check_files
from fuzzing import Summary
from oracle import exact_decision, exact_scores

ENGINES = ("auto", "bounds", "bounds", "smt", "milp")
MOST_PEOPLE = 3000
STEPS = {"Sub": operator.sub, "Add": operator.add, "Mul": operator.mul, "Div": operator.truediv}


def nasty_model(seed: int) -> FairModel:
    """One of many kinds; every fourth has a real-valued sensitive feature."""
    if seed % 4 == 0:
        return piecewise.random_model(seed // 4)
    random = np.random.default_rng([seed, 79])
    free = [feature for feature in _free(random) if random.random() < 0.7]
    sensitive = [f for f in _sensitive(random) if random.random() < 0.6] or [BooleanFeature(name="s")]
    outputs = int(random.choice([1, 1, 1, 3]))
    label = Label(name="y", classes=tuple(range(max(outputs, 2))))
    domain = Domain(features=(*free, *sensitive), sensitive=tuple(f.name for f in sensitive), label=label)
    while len(domain.free_features) and _count(domain) > MOST_PEOPLE:
        kept = [f for f in domain.features if f.name != domain.free_names[0]]
        domain = Domain(features=tuple(kept), sensitive=domain.sensitive, label=label)
    scales = {f.name: _scale(f, random) for f in domain.features if f.kind == "integer"}
    if seed % 4 == 3:
        domain, scales = _held(domain, scales, np.random.default_rng([seed, 83]))
    fill: dict = {}
    if seed % 7 == 5:
        domain, fill = _with_gaps(domain, np.random.default_rng([seed, 89]))
    encoding = Encoding(domain, scales, fill)
    activation = str(random.choice(["relu"] * 6 + ["tanh", "sigmoid", "gelu"]))
    hidden = [int(random.integers(1, 6)) for _ in range(int(random.integers(0, 4)))]
    layers = _layers(random, encoding, [encoding.width, *hidden, outputs], int(random.integers(8)))
    return FairModel(Network(tuple(layers), activation), encoding)


def _free(random: np.random.Generator) -> list[Feature]:
    far = int(2 ** random.integers(1, 49))
    return [
        IntegerFeature(name="n", low=far, high=far + int(random.integers(0, 12))),
        IntegerFeature(name="k", low=-int(random.integers(0, 4)), high=int(random.integers(0, 4))),
        CategoricalFeature(name="c", categories=("x", "y", "z")[: int(random.integers(1, 4))]),
        BooleanFeature(name="b"),
    ]


def _sensitive(random: np.random.Generator) -> list[Feature]:
    low = int(random.integers(-50, 50))
    return [
        IntegerFeature(name="age", low=low, high=low + int(random.integers(1, 40))),
        CategoricalFeature(name="race", categories=("p", "q", "r", "t")[: int(random.integers(2, 5))]),
        BooleanFeature(name="s"),
    ]


def _scale(feature: Feature, random: np.random.Generator) -> Scale:
    assert isinstance(feature, IntegerFeature)
    centre = random.choice([float(feature.low), 0.0, feature.low + 0.5, float(feature.high) + 0.1])
    return Scale(centre=float(centre), exponent=int(random.integers(-3, 6)))


def _held(domain: Domain, scales: dict[str, Scale], random: np.random.Generator) -> tuple[Domain, dict[str, Scale]]:
    """Free numbers held between two ends, at one, or at one value, which leaves them out; and a category of decimals.

    The ends need not lie in the range, as where a model is asked about another domain.
    """
    held = dict(scales)
    for feature in domain.free_features:
        if isinstance(feature, IntegerFeature):
            low, high = np.sort(random.integers(feature.low - 1, feature.high + 2, 2)).tolist()
            ends = [{"low": low}, {"high": high}, {"low": low, "high": high}, {"low": low, "high": low}, {}]
            chosen = {name: float(end) for name, end in ends[int(random.integers(len(ends)))].items()}
            held[feature.name] = scales[feature.name].model_copy(update=chosen)
    decimals = CategoricalFeature(name="d", categories=(-1.1065, 0.25, 0.9037)[: int(random.integers(2, 4))])
    named = domain.sensitive if random.random() < 0.5 else (*domain.sensitive, "d")
    if _count(domain) * len(decimals.categories) <= MOST_PEOPLE:
        domain = Domain(features=(decimals, *domain.features), sensitive=named, label=domain.label)
    return domain, held


def _with_gaps(domain: Domain, random: np.random.Generator) -> tuple[Domain, dict]:
    """Some features may be missing; what a gap of a number is shown as may be any number of its range."""
    kept = list(domain.features)
    for i, feature in enumerate(kept):
        number = isinstance(feature, IntegerFeature)
        possible = not isinstance(feature, BooleanFeature) and not (number and feature.name in domain.sensitive)
        if random.random() < 0.6 and possible:
            kept[i] = feature.model_copy(update={"missing": True})
    gappy = Domain(features=tuple(kept), sensitive=domain.sensitive, label=domain.label)
    fill = {f.name: float(random.uniform(f.low, f.high)) for f in kept if isinstance(f, IntegerFeature) and f.missing}
    return (gappy, fill) if _count(gappy) <= 2 * MOST_PEOPLE else (domain, {})


def _count(domain: Domain) -> int:
    sizes = [len(f.levels()) + (f.missing and isinstance(f, IntegerFeature)) for f in domain.features]
    return int(np.prod(sizes, dtype=np.float64))


def _layers(random: np.random.Generator, encoding: Encoding, widths: list[int], style: int) -> list[Layer]:
    layers = []
    for i, (inputs, after) in enumerate(itertools.pairwise(widths)):
        weight, bias = random.normal(size=(after, inputs)), random.normal(size=after)
        if style in (1, 2):  # ties and exact zeros
            weight, bias = np.round(weight * 2) / 2, np.round(bias * 2) / 2
        elif style == 3:  # any size that float32 has
            weight = np.ldexp(np.sign(weight), random.integers(-140, 100, weight.shape))
            bias = np.ldexp(np.sign(bias), random.integers(-140, 100, bias.shape))
        elif style == 4:  # saturation
            weight, bias = weight * 50, bias * 50
        if i == 0 and style in (2, 5):  # a leak, however small
            weight[:, encoding.free_width :] *= 2.0 ** -random.integers(5, 60)
        if i == 0 and style == 6:  # a constant over all categories: it cancels in real arithmetic
            weight[:, encoding.free_width :] = random.normal(size=(after, 1))
        if i == 0 and style == 7:
            weight[:, encoding.free_width :] = 0
        layers.append(Layer(weight, bias))
    return layers


# --- the judges ---


class Judge:
    """Everybody of a model, every listed version of theirs, and what each is given; real-valued features apart."""

    def __init__(self, model: FairModel) -> None:
        self.model, self.domain = model, model.domain
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        self.graph = onnx_bytes(model)
        self.session = onnxruntime.InferenceSession(self.graph, options, providers=["CPUExecutionProvider"])
        self.real = bool(self.domain.real_sensitive)
        self.people = piecewise.people(model)
        self.values = list(itertools.product(*(f.levels() for f in self.domain.sensitive_features)))

    def shipped(self, table: pd.DataFrame) -> np.ndarray:
        """Labels by onnxruntime."""
        feed = {}
        for item in self.session.get_inputs():
            feature = self.domain.feature(item.name)
            kind = {1: np.float32, 7: np.int64, 8: object, 9: bool, 11: np.float64}[
                input_type(feature, whole=feature.kind == "integer" and not feature.missing)
            ]
            column = table[item.name].astype(object)
            column = column.where(column.notna(), "" if kind is object else np.nan)
            column = column.map(str) if kind is object else column
            feed[item.name] = column.to_numpy().astype(kind)[:, None]
        return self.session.run(["label"] if self._has_label() else None, feed)[0]

    def _has_label(self) -> bool:
        return any(item.name == "label" for item in self.session.get_outputs())

    def exactly(self, row: dict) -> int:
        """The class of one person in real arithmetic (relu, or no hidden layer)."""
        return exact_decision(exact_scores(self.model.network, self._inputs(row)))

    def _inputs(self, row: dict) -> list[Fraction]:
        found: list[Fraction] = []
        for feature in self.domain.free_features:
            raw = row[feature.name]
            gap = raw is None or raw != raw
            if isinstance(feature, (IntegerFeature, RealFeature)):
                raw = self.model.encoding.fill[feature.name] if gap else raw
                scale = self.model.encoding.scales[feature.name]
                raw = raw if scale.high is None or raw <= scale.high else scale.high
                raw = raw if scale.low is None or raw >= scale.low else scale.low
                found.append((Fraction(raw) - Fraction(scale.centre)) / Fraction(2) ** scale.exponent)
                found += [Fraction(int(gap))] if feature.missing else []
            elif feature.kind == "boolean":
                found.append(Fraction(int(raw)))
            else:
                found += [Fraction(int(level == raw)) for level in feature.levels()]
        for coded in self.domain.sensitive_space.features:
            raw, levels = row[coded.feature.name], list(coded.feature.levels())
            if coded.feature.kind == "real":
                value = Fraction(raw)
                for step, number in coded.column.steps:
                    value = STEPS[step](value, Fraction(number))
                found.append(value)
            else:
                at = levels.index(raw)
                found += [Fraction(int(code), 2**coded.exponent) for code in coded.codes[at]]
        return found

    def unfair(self, arithmetic: str) -> np.ndarray | None:
        """Who of everybody has listed versions that are decided differently; None where that cannot be told."""
        rows = [
            person | dict(zip(self.domain.sensitive, v, strict=True)) for person in self.people for v in self.values
        ]
        if arithmetic == "float32":
            decided = self.shipped(pd.DataFrame(rows, columns=list(self.domain.names)))
        elif not self.exact:
            return None
        elif self.real:
            return np.array([len(piecewise.classes_of(self.model, person)) > 1 for person in self.people])
        else:
            decided = np.array([self.exactly(row) for row in rows])
        decided = decided.reshape(len(self.people), -1)
        return (decided != decided[:, :1]).any(axis=1)

    @property
    def exact(self) -> bool:
        return self.model.network.activation == "relu" or len(self.model.network.layers) == 1

    def differ(self, twins: list[dict], arithmetic: str) -> bool:
        if arithmetic == "real":
            return len({self.exactly(twin) for twin in twins}) == 2
        return len(set(self.shipped(pd.DataFrame(twins)).tolist())) == 2


def mistakes(seed: int) -> tuple[list[str], Counter[str]]:
    """What is false of what is said about one model, and what was said."""
    model = nasty_model(seed)
    judge, found, said = Judge(model), list[str](), Counter[str]()
    unfair = {arithmetic: judge.unfair(arithmetic) for arithmetic in ("real", "float32")}
    engine = ENGINES[seed // 4 % len(ENGINES)]
    verdict = verify(model, engine=engine, timeout=3, seed=seed)
    said[f"{engine} {verdict.answer}"] += 1
    found += [f"{engine}: {problem}" for problem in _judged(judge, verdict, unfair)]
    if seed % 3 == 0:
        shares = quantify(model, timeout=0.3, seed=seed)
        for arithmetic in shares.arithmetic:
            known = unfair[arithmetic]
            if known is None:
                continue
            share = float(known.mean())
            if shares.certified > 1 - share + 1e-9:
                found.append(f"quantify certifies {shares.certified} in {arithmetic}, but {share} are unfair")
            if shares.falsified > share + 1e-9 and not (judge.real and arithmetic == "float32"):
                found.append(f"quantify falsifies {shares.falsified} in {arithmetic}, but {share} are unfair")
        said["quantify"] += 1
    if seed % 5 == 0:
        found += _certified(model, judge, unfair, said)
    return [f"model {seed}: {problem}" for problem in found], said


def _judged(judge: Judge, verdict, unfair: dict) -> list[str]:
    found = []
    for arithmetic in verdict.arithmetic:
        known = unfair[arithmetic]
        if verdict.answer == "verified" and known is not None and known.any():
            found.append(f"verified in {arithmetic}, but {int(known.sum())} are unfair")
        if verdict.answer == "falsified" and not judge.differ(verdict.twins, arithmetic):
            found.append(f"falsified in {arithmetic} by people who are decided alike: {verdict.twins}")
    if verdict.answer == "falsified":
        one, other = verdict.twins
        if any(one[name] != other[name] for name in judge.domain.free_names):
            found.append(f"falsified by people who are no twins: {verdict.twins}")
    return found


def _certified(model: FairModel, judge: Judge, unfair: dict, said: Counter[str]) -> list[str]:
    """The certificate as the checker reads it."""
    try:
        answer = check_files(bundle_files(model.certified(timeout=2)))
    except Rejected as error:
        return [f"the checker rejects our own certificate: {error}"]
    said[f"checker {answer['verdict']}"] += 1
    wrong = [a for a in answer["arithmetic"] if unfair[a] is not None and unfair[a].any()]
    return [f"the checker says VALID, verified in {wrong}"] if answer["verdict"] == "verified" and wrong else []


def run(count: int, seed: int) -> Summary:
    """Many models, every false answer about them, and what was said."""
    summary = Summary(count)
    for i in range(count):
        problems, said = mistakes(seed * 1_000_003 + i)
        summary.wrong += problems
        summary.outcomes += said
    return summary
