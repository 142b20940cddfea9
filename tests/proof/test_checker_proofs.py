"""Is the checker right? Its bounds, trees, structural proofs and twins against counting people out, one by one."""

import contextlib
import dataclasses
import functools
import itertools
import json
import subprocess
import sys
from array import array
from collections import Counter
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair import FairClassifier, datasets, verify
from bornfair.models.network.network import Layer
from bornfair.models.network.network import Network as Weights
from bornfair.models.network.onnx_graph import onnx_bytes
from bornfair.models.verdict import Verdict
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.proof import checker
from bornfair.proof.bundle import FairModel, bundle_files
from bornfair.proof.certificate import as_checked, certificate_of, certified
from bornfair.proof.checker import Individuals, InputColumn, NetworkGraph, Prover, Rejected
from bornfair.proof.tree import find_tree
from brute_force import mistake, random_model, truth

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32)
SMALLEST = np.float32(2.0**-126)


# --- small domains and networks, as the checker reads them from files ---


def people_of(features, sensitive, *, combinations=None, classes=("no", "yes")):
    return Individuals({
        "format": "bornfair-domain/1", "features": features, "sensitive": sensitive, "combinations": combinations,
        "label": {"name": "y", "classes": list(classes)},
    })  # fmt: skip


def whole(name, low, high):
    return {"name": name, "kind": "integer", "low": low, "high": high}


def real(name, low, high, grid=5):
    return {"name": name, "kind": "real", "low": low, "high": high, "grid": grid}


def boolean(name):
    return {"name": name, "kind": "boolean"}


def category(name, *categories):
    return {"name": name, "kind": "categorical", "categories": list(categories)}


def network_of(columns, layers, *, activation="relu", classes=("no", "yes")):
    made = [
        ([array("f", row) for row in np.asarray(w).tolist()], array("f", np.asarray(b).tolist())) for w, b in layers
    ]
    return NetworkGraph(tuple(columns), tuple(made), activation, list(classes), {})


def one_hot(feature):
    return [InputColumn(feature["name"], {mine: 1.0}) for mine in feature["categories"]]  # 0 for all others


def random_columns(rng, feature, sensitive):
    """What a network may see of a feature; numbers are also scaled by factors that round."""
    name, kind = feature["name"], feature["kind"]
    if kind in ("integer", "real"):
        steps = (("Sub", float(rng.choice([0.0, 1.0, -2.0, 0.1]))), ("Mul", float(rng.choice([0.5, 1.0, 4.0, 0.3]))))
        if sensitive:
            code = (
                ("Div", float(rng.choice([0.7, 1.0]))),
                ("Mul", 2.0),
                ("Add", float(rng.choice([-1.5, 0.0]))),
                ("Mul", 0.25),
            )
            steps = (steps[0], *code)
        return [InputColumn(name, None, steps)]
    if kind == "boolean":
        codes = rng.choice([-1.0, 0.5, 1.0], 2).tolist() if sensitive else [0.0, 1.0]
        return [InputColumn(name, dict(zip((False, True), codes, strict=True)))]
    if not sensitive or rng.random() < 0.3:
        return one_hot(feature)
    tables = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], (2, len(feature["categories"]))).tolist()
    return [InputColumn(name, dict(zip(feature["categories"], table, strict=True))) for table in tables]


STYLES = ("tame", "normal", "wild", "sparse", "faint", "edge")


def random_weights(rng, shape, style):
    if style == "tame":
        return (rng.integers(-8, 9, shape) / 4).astype(np.float32)
    if style == "wild":
        exponents = rng.choice([-149, -140, -126, -60, -24, -1, 0, 1, 24, 40], shape)
        return np.ldexp(rng.choice([-1.0, 1.0, 1.5, -1.75, 0.0], shape), exponents).astype(np.float32)
    dense = rng.normal(size=shape)
    return (dense * (rng.random(shape) < 0.5) if style == "sparse" else dense).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Case:
    """A network, who exists, and one box of them."""

    people: Individuals
    network: NetworkGraph
    box: dict

    @property
    def everybody(self):
        return inside(self.people.everybody(), self.people)


def random_case(seed, *, activation="relu", lattice=False, style=None):
    """A few dozen people and a network of at most three hidden layers; one logit or three outputs."""
    rng = np.random.default_rng(seed)
    style = style or STYLES[rng.integers(len(STYLES))]
    free = [whole("n", -2, int(rng.integers(-1, 4))), boolean("b"), category("c", "x", "y", "z")]
    hidden_traits = [boolean("s"), category("s", "p", "q"), category("s", "p", "q", "o"), whole("s", 0, 2)]
    if not lattice:
        free.append(real("r", -float(rng.uniform(0.1, 3)), float(rng.uniform(0.1, 3))))
        hidden_traits.append(real("s", -1.3, float(rng.uniform(0, 3))))
    kept = [free[i] for i in sorted(rng.choice(len(free), 2, replace=False))]
    hidden = [hidden_traits[rng.integers(len(hidden_traits))]]
    combinations = None
    if rng.random() < 0.3:
        hidden.append(boolean("t"))
        if rng.random() < 0.5 and hidden[0]["kind"] != "real":
            levels = people_of(hidden, []).levels("s")
            every = [list(row) for row in itertools.product(levels, (False, True))]
            combinations = [every[i] for i in sorted(rng.choice(len(every), 3, replace=False))]
    classes = ("no", "yes") if rng.random() < 0.6 else (10, 20, 30)
    people = people_of(kept + hidden, [f["name"] for f in hidden], combinations=combinations, classes=classes)
    ordered = sorted(kept, key=lambda f: f["kind"] not in ("integer", "real"))
    columns = [c for f in ordered for c in random_columns(rng, f, False)]
    read = len(columns)
    columns += [c for f in hidden for c in random_columns(rng, f, True)]
    outputs = 1 if len(classes) == 2 else 3
    widths = [len(columns), *rng.integers(1, 5, rng.integers(0, 4)).tolist(), outputs]
    layers = [
        [random_weights(rng, (b, a), style), random_weights(rng, (b,), style)] for a, b in itertools.pairwise(widths)
    ]
    if style == "faint":
        layers[0][0][:, read:] *= np.float32(2.0 ** -rng.integers(1, 30))
    network = network_of(columns, layers, activation=activation, classes=classes)
    box = {name: part_of(rng, people, name) for name in people.features}
    case = Case(people, network, box)
    return at_the_edge(rng, case, layers) if style == "edge" and activation == "relu" else case


def part_of(rng, people, name):
    """Some of the values of a feature, as a box holds them."""
    if people.is_number(name):
        low, high = people.everybody()[name]
        if people.features[name]["kind"] == "integer":
            ends = sorted(rng.integers(low, high, 2, endpoint=True).tolist())
        else:
            ends = sorted(rng.uniform(low, high, 2).tolist()) if rng.random() < 0.7 else [low, high]
        return tuple(ends)
    levels = people.levels(name)
    return tuple(v for v in levels if rng.random() < 0.6) or (levels[0],)


def at_the_edge(rng, case, layers):
    """The last bias moved so that somebody in the box is decided within a few units in the last place."""
    found = [exact_layers(case.network, person)[-1] for person in inside(case.box, case.people)]
    gaps = [outputs[0] - max(outputs[1:], default=0) for outputs in found]
    bias = layers[-1][1].astype(np.float64)
    bias[0] = float(Fraction(float(bias[0])) - (max(gaps) if rng.random() < 0.5 else min(gaps)))
    near = bias.astype(np.float32)
    for _ in range(int(rng.integers(0, 3))):
        near[0] = np.nextafter(near[0], np.float32(np.inf if rng.random() < 0.5 else -np.inf))
    network = case.network
    return Case(
        case.people,
        network_of(network.columns, [*layers[:-1], (layers[-1][0], near)], activation="relu", classes=network.classes),
        case.box,
    )


# --- counting out: everybody, in exact numbers or in float32 on a machine of our choosing ---


def inside(box, people):
    """All people of a box (of real numbers: both ends and a few between)."""
    choices = []
    for name, possible in box.items():
        if not people.is_number(name):
            choices.append(possible)
        elif people.features[name]["kind"] == "integer":
            choices.append(range(possible[0], possible[1] + 1))
        else:
            low, high = possible
            choices.append(sorted({low, low + (high - low) / 3, low / 2 + high / 2, high}))
    return [dict(zip(box, values, strict=True)) for values in itertools.product(*choices)]


def exists(people, person):
    return people.combinations is None or [person[name] for name in people.sensitive] in people.combinations


def families(people, persons):
    """People who differ only in sensitive features, together."""
    found = {}
    for person in persons:
        if exists(people, person):
            shared = tuple(value for name, value in person.items() if name not in people.sensitive)
            found.setdefault(shared, []).append(person)
    return list(found.values())


def encoded(column, raw, number):
    """One input of the network, in fractions or in float64."""
    if column.table is not None:
        return number(column.table.get(raw, 0))
    value = number(raw)
    for operator, constant in column.steps:
        other = number(constant)
        if operator == "Sub":
            value -= other
        elif operator == "Add":
            value += other
        elif operator == "Mul":
            value *= other
        else:
            value /= other
    return value


def exact_layers(network, person):
    """The sums of every layer in exact numbers."""
    values, found = [encoded(column, person[column.feature], Fraction) for column in network.columns], []
    for rows, bias in network.layers:
        values = [max(v, Fraction(0)) for v in values] if found else values
        values = [
            sum((Fraction(w) * v for w, v in zip(row, values, strict=True)), Fraction(b))
            for row, b in zip(rows, bias, strict=True)
        ]
        found.append(values)
    return found


@dataclasses.dataclass(frozen=True)
class Machine:
    """One way to execute float32: the order of sums, products fused into them, subnormals flushed."""

    order: int | None = None
    fused: bool = False
    flush: bool = False
    pairwise: bool = False

    def layers(self, network, persons):
        """The sums of every layer: [people, neurons] each."""
        rng = np.random.default_rng(self.order)
        inputs = [[encoded(column, p[column.feature], np.float64) for column in network.columns] for p in persons]
        values, found = np.array(inputs).astype(np.float32), []
        with np.errstate(all="ignore"):
            for rows, bias in network.layers:
                if found:
                    values = activated(network.activation, values)
                weight, bias, values = (
                    self._cut(np.array(rows, np.float32)),
                    self._cut(np.array(bias)),
                    self._cut(values),
                )
                values = self._sums(weight.reshape(len(bias), -1), np.float32(bias), values, rng)
                found.append(values)
        return found

    def _sums(self, weight, bias, values, rng):
        terms = np.arange(len(weight[0]) + 1)  # the last is the bias
        if self.order is not None:
            rng.shuffle(terms)
        total = np.zeros((len(values), len(bias)), np.float32)
        parts = []
        for j in terms:
            if j == len(weight[0]):
                part = np.broadcast_to(bias, total.shape)
            elif self.fused:
                product = weight[:, j].astype(np.float64) * values[:, j : j + 1].astype(np.float64)
                total = self._cut((total + product).astype(np.float32))
                continue
            else:
                part = self._cut(weight[:, j] * values[:, j : j + 1])
            parts.append(part)
            if not self.pairwise:
                total = self._cut(total + part)
        while self.pairwise and len(parts) > 1:
            parts = [self._cut(sum(parts[i : i + 2], np.float32(0))) for i in range(0, len(parts), 2)]
        return parts[0] if self.pairwise else total

    def _cut(self, values):
        return np.where(np.abs(values) < SMALLEST, np.float32(0), values) if self.flush else values


def activated(activation, values):
    one, half = values.dtype.type(1), values.dtype.type(0.5)
    if activation == "relu":
        return np.maximum(values, 0)
    return np.tanh(values) if activation == "tanh" else half * (one + np.tanh(half * values))


def machines(seed):
    return [
        Machine(), Machine(seed), Machine(seed + 1), Machine(seed + 2, fused=True), Machine(seed + 3, flush=True),
        Machine(pairwise=True),
    ]  # fmt: skip


def wide_layers(network, persons):
    """The sums of every layer in the widest floating point there is; tanh and sigmoid leave the fractions."""
    inputs = [[float(encoded(c, p[c.feature], Fraction)) for c in network.columns] for p in persons]
    values, found = np.array(inputs).astype(np.longdouble), []
    for rows, bias in network.layers:
        if found:
            values = activated(network.activation, values)
        values = values @ np.array(rows, np.longdouble).reshape(len(bias), -1).T + np.array(bias, np.longdouble)
        found.append(values)
    return found


def class_of(outputs):
    outputs = list(outputs)
    return int(outputs[0] > 0) if len(outputs) == 1 else outputs.index(max(outputs))


def evaluations(case, persons, float32, seed=0):
    """Every way in which these people may be computed: name, and the sums of every layer, person by person."""
    if case.network.activation == "relu":
        found = [exact_layers(case.network, person) for person in persons]
        yield "exact", [list(map(list, zip(*layer, strict=True))) for layer in zip(*found, strict=True)]
    else:
        yield "wide", [layer.T for layer in wide_layers(case.network, persons)]
    for machine in machines(seed) if float32 else ():
        yield str(machine), [layer.T.tolist() for layer in machine.layers(case.network, persons)]


def decided(case, persons, float32, seed=0):
    """The classes of these people, for every way to compute them."""
    for name, layers in evaluations(case, persons, float32, seed):
        yield name, [class_of(outputs) for outputs in zip(*layers[-1], strict=True)]


def are_fair(case, persons, float32, seed=0):
    """Whether no twins among them are told apart, however they are computed."""
    groups = families(case.people, persons)
    flat = [person for group in groups for person in group]
    for _, classes in decided(case, flat, float32, seed):
        found = iter(classes)
        if any(len({next(found) for _ in group}) > 1 for group in groups):
            return False
    return True


# --- bounds ---


def bounds_of(case, float32):
    """The prover and its bounds of the box; None where it declines, which is no claim at all."""
    prover = Prover(case.network, case.people, float32)
    try:
        return prover, prover.forward(case.box)
    except Rejected:
        return None


def assert_bounds_hold(case, float32, seed):
    proven = bounds_of(case, float32)
    if proven is None:
        return
    prover, sums = proven
    for way, layers in evaluations(case, inside(case.box, case.people), float32, seed):
        for depth, layer in enumerate(layers):
            for low, high, values in zip(sums[depth].low, sums[depth].high, layer, strict=True):
                assert low <= min(values) and max(values) <= high, (way, depth)
        if case.network.activation == "relu":
            assert_backward_bounds_hold(case, prover, sums, layers[-1], way, seed)


def assert_backward_bounds_hold(case, prover, sums, outputs, way, seed):
    rng, count = np.random.default_rng(seed), len(outputs)
    rows = [*np.eye(count), *-np.eye(count), rng.normal(size=count)]
    rows += [np.eye(count)[i] - np.eye(count)[j] for i, j in itertools.permutations(range(count), 2)]
    for row in np.array(rows).tolist():
        least, slopes = prover.backward(case.box, sums, row)
        exact = [
            sum(Fraction(w) * Fraction(z) for w, z in zip(row, person, strict=True))
            for person in zip(*outputs, strict=True)
        ]
        assert least <= min(exact), (way, row)
        assert len(slopes) == len(case.network.columns)


@settings(max_examples=250)
@given(SEEDS, st.booleans())
def test_nobody_is_outside_the_bounds_of_their_box(seed, float32):
    assert_bounds_hold(random_case(seed), float32, seed)


@settings(max_examples=60)
@given(SEEDS, st.booleans(), st.sampled_from(["tanh", "sigmoid"]))
def test_nobody_is_outside_the_bounds_of_smooth_networks(seed, float32, activation):
    assert_bounds_hold(random_case(seed, activation=activation), float32, seed)


def test_no_bounds_are_claimed_for_gelu_nor_where_a_sum_may_overflow():
    case = random_case(3, activation="gelu", style="normal")
    deep = dataclasses.replace(case, network=case.network._replace(layers=case.network.layers * 1))
    assert len(case.network.layers) > 1 and bounds_of(deep, True) is None
    huge = network_of(one_hot(category("s", "p", "q")), [([[2.0**126, -(2.0**126)]], [2.0**126])])
    people = people_of([category("s", "p", "q")], ["s"])
    assert bounds_of(Case(people, huge, people.everybody()), False) is None


def test_the_bounds_are_of_use():
    """Bounds that are never wrong may still be worthless: most tame boxes of single people are decided."""
    settled = Counter()
    for seed in range(150):
        case = random_case(seed, style="normal")
        person = inside(case.box, case.people)[0]
        box = {n: (v, v) if case.people.is_number(n) else (v,) for n, v in person.items()}
        for float32 in (False, True):
            prover = Prover(case.network, case.people, float32)
            settled[float32] += any(prover.is_decided(box, k) for k in range(len(case.network.classes)))
    assert settled[False] >= 148 and settled[True] >= 145


# --- conclusions ---


def leaves_for(case):
    classes = range(-1, len(case.network.classes) + 1)
    return [*classes, *({"each": k} for k in classes), "same", "exact", "fair", None, True, {"each": True}]


def assert_conclusions_hold(case, float32, seed):
    """Whatever the prover concludes of a box is so; returns what it concluded."""
    concluded = Counter()
    everybody = case.people.everybody()
    box = case.box | {name: everybody[name] for name in case.people.sensitive}
    single = {name: possible[:1] * 2 if case.people.is_number(name) else possible[:1] for name, possible in box.items()}
    for part in (case.box, box, single | {name: everybody[name] for name in case.people.sensitive}):
        prover = Prover(case.network, case.people, float32)
        try:
            prover.forward(part)
        except Rejected:
            continue
        persons = inside(part, case.people)
        known = [set(classes) for _, classes in decided(case, persons, float32, seed)]
        for best in range(len(case.network.classes)):
            if prover.is_decided(part, best):
                concluded["decided"] += 1
                assert known == [{best}] * len(known)
        if part is case.box:
            continue  # not all versions of a person are in it
        existing = [person for person in persons if exists(case.people, person)]
        fair = are_fair(case, persons, float32, seed)
        listed = [set(classes) for _, classes in decided(case, existing, float32, seed)]
        for best in range(len(case.network.classes)):
            if prover.is_decided_each(part, best):
                concluded["each"] += 1
                assert listed == [{best}] * len(listed)
        if prover.is_same(part):
            concluded["same"] += 1
            assert fair
        for leaf in leaves_for(case):
            if prover.is_fair(leaf, part):
                concluded[str(leaf)] += 1
                assert fair, leaf
    return concluded


@settings(max_examples=250)
@given(SEEDS, st.booleans())
def test_no_box_is_accepted_in_which_twins_differ_or_the_class_is_another(seed, float32):
    assert_conclusions_hold(random_case(seed), float32, seed)


@settings(max_examples=60)
@given(SEEDS, st.booleans(), st.sampled_from(["tanh", "sigmoid"]))
def test_no_box_of_a_smooth_network_is_accepted_wrongly(seed, float32, activation):
    assert_conclusions_hold(random_case(seed, activation=activation), float32, seed)


@settings(max_examples=150)
@given(SEEDS, st.booleans())
def test_no_box_at_the_very_edge_of_a_decision_is_accepted_wrongly(seed, float32):
    assert_conclusions_hold(random_case(seed, style="edge"), float32, seed)


def test_every_kind_of_reason_is_accepted_somewhere():
    concluded = sum((assert_conclusions_hold(random_case(seed), False, seed) for seed in range(120)), Counter())
    reasons = "decided", "each", "same", "0", "1", "2", "{'each': 0}", "{'each': 1}", "exact"
    assert all(concluded[reason] >= 3 for reason in reasons), concluded
    assert not set(concluded) & {"-1", "3", "fair", "None", "True", "{'each': True}", "{'each': -1}"}


def test_a_code_that_is_rounded_away_is_bounded_as_it_is_executed():
    people = people_of([real("s", 7.0, 9.5)], ["s"])
    column = InputColumn("s", None, (("Sub", 1e17), ("Add", 1e17)))  # a double near 1e17 is a multiple of 16
    network = network_of([column], [([[-1.0]], [12.0])])
    assert [column.value(raw, False) for raw in (7.0, 9.5)] == [0.0, 16.0]
    assert Prover(network, people, False).is_decided(people.everybody(), 1)
    assert not Prover(network, people, True).is_decided(people.everybody(), 1)
    assert find_tree(network, people, executed=False, timeout=5) == [1]
    assert find_tree(network, people, executed=True, timeout=5) is None


def test_people_between_the_grid_points_of_a_real_trait_count_too():
    """Both grid points get class 0; the middle of the range gets class 1."""
    people = people_of([boolean("b"), real("s", 0.0, 1.0, grid=2)], ["s"])
    columns = InputColumn("b", {False: 0.0, True: 1.0}), InputColumn("s", None, ())
    network = network_of(columns, [([[0.0, 1.0], [0.0, 1.0]], [0.0, -0.5]), ([[1.0, -2.0]], [-0.25])])
    prover, person = Prover(network, people, False), {"b": (True,), "s": (0.0, 1.0)}
    assert all(prover.is_decided(person | {"s": (end, end)}, 0) for end in (0.0, 1.0))
    assert not any(prover.is_fair(leaf, person) for leaf in (0, 1, {"each": 0}, {"each": 1}, "exact", "same"))
    assert find_tree(network, people, executed=False, timeout=5) is None
    twins = [{"b": True, "s": 0.0}, {"b": True, "s": 0.5}]
    checker.check_twins(network, people, twins, ["no", "yes"], ["real", "float32"])


# --- what onnxruntime computes ---


def small_model(seed, activation):
    """A random model with every kind of feature."""
    rng = np.random.default_rng(seed)
    trait = [
        CategoricalFeature(name="s", categories=("p", "q", "o")), BooleanFeature(name="s"),
        IntegerFeature(name="s", low=1, high=4), RealFeature(name="s", low=-0.7, high=2.1, grid=4),
    ][seed % 4]  # fmt: skip
    domain = Domain(
        features=(
            IntegerFeature(name="n", low=-2, high=3), RealFeature(name="r", low=-1.1, high=0.3),
            CategoricalFeature(name="c", categories=("x", 2, "z")), BooleanFeature(name="b"), trait,
        ),
        sensitive=("s",), label=Label(name="y", classes=(False, True) if seed % 3 else ("u", "v", "w")),
    )  # fmt: skip
    scales = {"n": Scale(centre=1.0, exponent=1), "r": Scale(centre=float(np.float32(0.1)), exponent=-1)}
    encoding = Encoding(domain, scales | ({"s": Scale(centre=1.0, exponent=0)} if seed % 4 > 1 else {}), {})
    widths = (encoding.width, 5, 3, domain.outputs)
    layers = [Layer(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in itertools.pairwise(widths)]
    return FairModel(Weights(tuple(layers), activation), encoding)


def computed(content, persons, names):
    """Some of the values inside a graph, for people given as dictionaries."""
    made = onnx.load_from_string(content)
    made.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    kinds = {"tensor(string)": object, "tensor(bool)": bool, "tensor(int64)": np.int64, "tensor(double)": np.float64}
    feeds = {
        i.name: np.array([str(p[i.name]) if "string" in i.type else p[i.name] for p in persons], kinds[i.type])[:, None]
        for i in session.get_inputs()
    }
    return session.run(["label", *names], feeds)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("seed", range(6))
def test_what_onnxruntime_computes_lies_within_the_bounds(seed, activation):
    model = small_model(seed, activation)
    network, people = as_checked(model)
    rng = np.random.default_rng(seed)
    prover, content = Prover(network, people, True), onnx_bytes(model)
    for _ in range(4):
        box = {name: part_of(rng, people, name) for name in people.features}
        persons = inside(box, people)
        labels, inputs, *layers = computed(content, persons, ["encoded", "layer 0", "layer 1", "layer 2"])
        read = [[column.value(p[column.feature], False) for column in network.columns] for p in persons]
        assert np.array(read, np.float32).tobytes() == inputs.tobytes()
        for sums, layer in zip(prover.forward(box), layers, strict=True):
            assert (np.array(sums.low) <= layer.min(axis=0)).all() and (layer.max(axis=0) <= np.array(sums.high)).all()
        for best, name in enumerate(network.classes):
            if prover.is_decided(box, best):
                assert set(labels.tolist()) == {name}


# --- trees ---


def leaf_boxes(tree, people):
    """Leaves with their boxes, cut here anew and not by the checker."""
    rest = iter(tree)

    def walk(box):
        entry = next(rest)
        if not isinstance(entry, list):
            return [(entry, box)]
        name, where = entry
        if people.is_number(name):
            low, high = box[name]
            parts = (low, where), (where + 1 if people.features[name]["kind"] == "integer" else where, high)
        else:
            parts = tuple(v for v in box[name] if v in where), tuple(v for v in box[name] if v not in where)
        first = walk(box | {name: parts[0]})
        return first + walk(box | {name: parts[1]})

    found = walk(people.everybody())
    assert next(rest, None) is None
    return found


def looked_at(tree, prover):
    """The leaves that the checker looks at, with their boxes."""
    found, is_fair = [], prover.is_fair
    prover.is_fair = lambda leaf, box: found.append((leaf, dict(box))) or is_fair(leaf, box)
    assert checker.check_tree(tree, prover) == len(found)
    return found


def tree_of(case, float32, **options):
    try:
        return find_tree(case.network, case.people, executed=float32, timeout=60, **options)
    except Rejected:  # a sum may overflow
        return None


@settings(max_examples=150)
@given(SEEDS)
def test_a_tree_exists_just_for_those_lattices_that_are_fair(seed):
    case = random_case(seed, lattice=True)
    everybody, fair = case.everybody, are_fair(case, case.everybody, False)
    tree = tree_of(case, False)
    if bounds_of(dataclasses.replace(case, box=case.people.everybody()), False) is not None:
        assert (tree is not None) == fair
    if tree is None:
        return
    boxes = leaf_boxes(tree, case.people)
    assert looked_at(tree, Prover(case.network, case.people, False)) == boxes
    covered = [tuple(person.values()) for _, box in boxes for person in inside(box, case.people)]
    assert len(covered) == len(set(covered)) == len(everybody)


@settings(max_examples=150)
@given(SEEDS)
def test_a_float32_tree_is_found_only_where_no_machine_tells_twins_apart(seed):
    case = random_case(seed, lattice=True)
    tree = tree_of(case, True)
    if tree is not None:
        assert are_fair(case, case.everybody, True, seed)
        assert checker.check_tree(tree, Prover(case.network, case.people, True))
        assert checker.check_tree(tree, Prover(case.network, case.people, False)), "it proves real arithmetic too"


@settings(max_examples=60)
@given(SEEDS, st.booleans(), st.sampled_from(["relu", "tanh", "sigmoid"]))
def test_a_tree_over_real_numbers_is_found_only_where_nobody_is_treated_unfairly(seed, float32, activation):
    case = random_case(seed, activation=activation)
    tree = tree_of(case, float32, most_leaves=30)
    if tree is not None:
        assert are_fair(case, case.everybody, float32, seed)
        assert checker.check_tree(tree, Prover(case.network, case.people, float32)) == len(
            leaf_boxes(tree, case.people)
        )


def fair_lattices(count):
    """Cases with a tree of several leaves."""
    cases = (random_case(seed, lattice=True) for seed in itertools.count())
    trees = ((case, tree_of(case, False)) for case in cases)
    return list(itertools.islice(((case, tree) for case, tree in trees if tree is not None and len(tree) > 2), count))


def test_a_tree_with_anything_missing_added_or_changed_is_rejected():
    for case, tree in fair_lattices(25):
        prover = Prover(case.network, case.people, False)
        leaves = [i for i, entry in enumerate(tree) if not isinstance(entry, list)]
        with pytest.raises(Rejected, match="leaves 1 part"):
            checker.check_tree(tree[:-1], prover)
        with pytest.raises(Rejected, match="goes on after its last leaf"):
            checker.check_tree([*tree, 0], prover)
        with pytest.raises(Rejected, match=r"part\(s\) of the domain open"):
            checker.check_tree([], prover)
        for i in leaves:
            if type(tree[i]) is int:
                for other in {0, 1, 2, -1} - {tree[i]}:
                    with pytest.raises(Rejected, match="is not proven"):
                        checker.check_tree([*tree[:i], other, *tree[i + 1 :]], prover)
        name = case.people.sensitive[0]
        for where in case.people.everybody()[name]:
            with pytest.raises(Rejected, match="a cut along"):
                checker.check_tree([[name, where], *tree, *tree], prover)


@pytest.mark.parametrize("seed", range(8))
def test_the_leaves_of_a_deep_tree_are_looked_at_each_in_its_own_box(seed):
    case = random_case(seed, lattice=True)
    prover = Prover(case.network, case.people, False)
    prover.is_fair = lambda leaf, box: True
    single = len(
        inside({n: v for n, v in case.people.everybody().items() if n not in case.people.sensitive}, case.people)
    )
    tree = deepened([0], case.people, single)  # until every leaf is one person
    boxes = leaf_boxes(tree, case.people)
    assert looked_at(tree, prover) == boxes and len(boxes) == single
    for end in range(len(tree)):
        with pytest.raises(Rejected, match="of the domain open"):
            checker.check_tree(tree[:end], prover)


def cut(box, name, where, people):
    """Both parts of a box."""
    return [box | {name: part} for part in checker.cut(box[name], name, where, people)]


def test_a_cut_must_cut_something_off():
    people = people_of([whole("n", 0, 5), real("r", 0.5, 2.0), category("c", "x", "y"), boolean("s")], ["s"])
    everybody = people.everybody()
    for name, where in [("n", 5), ("n", -1), ("n", 2.0), ("n", True), ("r", 2.0), ("r", 0.4), ("r", "1")]:
        with pytest.raises(Rejected, match="is cut at"):
            checker.cut(everybody[name], name, where, people)
    for where in ([], ["x", "y"], ["z"]):
        with pytest.raises(Rejected, match="cuts nothing"):
            checker.cut(everybody["c"], "c", where, people)
    for name in ("s", "other"):
        with pytest.raises(Rejected, match="a cut along"):
            checker.cut((False, True), name, [True], people)
    assert checker.cut((0, 5), "n", 2, people) == ((0, 2), (3, 5))
    assert checker.cut((0.5, 2.0), "r", 1, people) == ((0.5, 1), (1, 2.0))
    assert checker.cut(("x", "y"), "c", ["y"], people) == (("y",), ("x",))


# --- structural proofs ---


def structural(columns, weights, people, **options):
    """What is proven of a network whose first layer reads the columns with these weights."""
    rows = np.asarray(weights, np.float32)
    network = network_of(columns, [(rows, np.ones(len(rows))), (np.ones((1, len(rows))), [0.5])], **options)
    return checker.prove_structurally(network, people)


TRAITS = [
    (category("s", "p", "q"), [InputColumn("s", {"p": 2.0, "q": -1.0}), InputColumn("s", {"p": 0.5, "q": 1.0})]),
    (boolean("s"), [InputColumn("s", {False: -1.0, True: 1.0})]),
    (whole("s", 1, 9), [InputColumn("s", None, (("Sub", 1.0), ("Div", 0.7), ("Mul", 2.0)))]),
    (real("s", 0.5, 9.25), [InputColumn("s", None, (("Sub", 0.3), ("Mul", 0.7)))]),
]  # fmt: skip


@pytest.mark.parametrize(("trait", "columns"), TRAITS, ids=[t["kind"] for t, _ in TRAITS])
def test_weights_of_zero_prove_both_arithmetics_and_any_other_weight_none(trait, columns):
    people = people_of([whole("n", 0, 3), trait], ["s"])
    columns = [InputColumn("n", None, (("Sub", 1.0),)), *columns]
    weights = np.zeros((3, len(columns)))
    weights[:, 0] = [1.0, 2.0, -3.0]
    assert structural(columns, weights, people) == {"real", "float32"}
    assert structural(columns, -weights, people) == {"real", "float32"}  # minus zero is zero
    assert structural(columns[:1], weights[:, :1], people) == {"real", "float32"}  # not read at all
    for neuron, j in itertools.product(range(3), range(1, len(columns))):
        for weight in (1.0, 2.0**-149, -(2.0**-126), 2.0**100):
            changed = weights.copy()
            changed[neuron, j] = weight
            with pytest.raises(Rejected, match=f"first-layer neuron {neuron} tells s "):
                structural(columns, changed, people)


def test_weights_that_cancel_prove_real_arithmetic_only():
    people = people_of([category("s", "p", "q", "o"), boolean("t")], ["s", "t"])
    codes = np.array([[2.0, -1, -1], [-1, 2, -1], [-1, -1, 2]]) / 2
    columns = [InputColumn("s", dict(zip("pqo", column, strict=True))) for column in codes.T.tolist()]
    columns += [InputColumn("t", {False: -1.0, True: 1.0})]
    for weight in (1.0, 0.1, 2.0**-149, -(2.0**100)):
        row = [weight] * 3 + [0.0]
        assert structural(columns, [row, [0, 0, 0, 0]], people) == {"real"}
        for j, up in itertools.product(range(3), (np.inf, -np.inf)):
            near = np.array([row], np.float32)
            near[0, j] = np.nextafter(near[0, j], np.float32(up))  # one unit in the last place
            with pytest.raises(Rejected, match=r"tells .* which twins may have"):
                structural(columns, near, people)
        with pytest.raises(Rejected, match=r"tells .* which twins may have"):
            structural(columns, [[weight, weight, weight, 2.0**-149]], people)


def test_weights_that_cancel_do_so_for_values_that_are_not_listed_too():
    people = people_of([category("s", "p", "q")], ["s"])
    for code, passes, held in [(1.0, False, {"real"}), (1.0, True, None), (0.0, True, {"real"})]:
        columns = [
            InputColumn("s", {"p": code + 1, "q": code}, unlisted=passes),
            InputColumn("s", {"p": -1.0}, unlisted=passes),
        ]
        if held is None:
            with pytest.raises(Rejected, match="tells s 'p' from a value not listed"):
                structural(columns, [[0.5, 0.5]], people)
        else:
            assert structural(columns, [[0.5, 0.5]], people) == held


def test_weights_of_a_number_cancel_all_over_its_range_or_not_at_all():
    people = people_of([real("s", 0.0, 1.0)], ["s"])
    once, again = InputColumn("s", None, (("Mul", 0.3),)), InputColumn("s", None, (("Add", 1.0), ("Mul", 0.3)))
    assert structural([once, again], [[1.0, -1.0]], people) == {"real"}
    for weights in ([1.0, 0.0], [1.0, -0.5], [1.0, 1.0]):
        with pytest.raises(Rejected, match=r"tells s 0\.0 from 1\.0"):
            structural([once, again], [weights], people)


def test_weights_that_cancel_only_for_the_combinations_that_exist_are_no_structural_proof():
    """The model would tell a man who is fed as another combination from one who is not."""
    columns = [InputColumn("s", {"p": -1.0, "q": 1.0}), InputColumn("t", {False: -1.0, True: 1.0})]
    features = [category("s", "p", "q"), boolean("t")]
    for people in (
        people_of(features, ["s", "t"]),
        people_of(features, ["s", "t"], combinations=[["p", False], ["q", True]]),
        people_of(features, ["s", "t"], combinations=[["p", True], ["q", True]]),
    ):
        with pytest.raises(Rejected, match=r"tells .* which twins may have"):
            structural(columns, [[0.3, -0.3]], people)


# --- structural proofs behind the first layer ---

SOMEBODY = people_of([whole("n", 0, 3), boolean("s")], ["s"])
SEEN = [InputColumn("n", None, (("Sub", 1.0),)), InputColumn("s", {False: -1.0, True: 1.0})]
FIRST = [[1.0, 0], [2, 1], [-1, 0]], [0.5, -1, 1]  # the second neuron reads s


def proven(*layers, activation="relu", people=SOMEBODY, columns=SEEN):
    """The arithmetics in which a network is proven structurally; none if it is not."""
    try:
        return checker.prove_structurally(network_of(columns, layers, activation=activation), people)
    except Rejected as error:
        assert "which twins may have" in str(error)
        return set()


BOTH = {"real", "float32"}
TINY = 2.0**-149


def test_a_neuron_that_no_output_can_hear_may_tell_twins_apart():
    assert proven(FIRST, ([[1, 0, 1]], [0])) == BOTH
    assert proven(FIRST, ([[1, -0.0, 1]], [0])) == BOTH
    assert proven(FIRST, ([[1, TINY, 1]], [0])) == set()
    for way, held in (([0, 1, 1], BOTH), ([TINY, 1, 1], set())):  # the first of the second layer depends on s
        second = [[1, 1, 0], [0, 0, 1], [1, 0, 0]], [0, 1, 0]
        assert proven(FIRST, second, ([way], [-1])) == held
        assert proven(FIRST, second, ([way], [-1]), activation="tanh") == held


def test_the_neuron_that_is_named_is_heard():
    for rows, out, named in (([[1, 5], [2, 1]], [0, 1], 1), ([[1, 5], [2, 1]], [1, 0], 0)):
        network = network_of(SEEN, [(rows, [0, 0]), ([out], [0])])
        with pytest.raises(Rejected, match=f"first-layer neuron {named} tells s False from True"):
            checker.prove_structurally(network, SOMEBODY)


def test_a_hidden_relu_that_is_never_on_passes_nothing_on():
    after = [[5, 1]], [-1]
    assert proven(FIRST, ([[-1, -2, 0], [1, 0, 1]], [0, 0]), after) == BOTH
    assert proven(FIRST, ([[-1, -2, TINY], [1, 0, 1]], [0, 0]), after) == set()
    assert proven(FIRST, ([[-1, -2, 0], [1, 0, 1]], [TINY, 0]), after) == set()
    assert proven(FIRST, ([[-1, -2, 0], [1, 0, 1]], [0, 0]), after, activation="tanh") == set()
    assert proven(FIRST, ([[-1, -2, -1]], [0])) == set()  # an output is no relu
    assert proven(([[1, 0], [0, -1]], [0, 0]), ([[1, 1]], [0])) == set()  # and inputs may be below 0


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu"])
def test_neurons_that_are_one_function_cancel_in_exact_numbers_only(activation):
    def found(rows, bias, out):
        return proven((rows, bias), ([out, [0, 0, 0]], [0, 1]), activation=activation)

    rows, bias = [[2, 1], [1, 0], [2, 1]], [0.3, 0, 0.3]
    assert found(rows, bias, [0.1, 1, -0.1]) == {"real"}
    assert found(rows, bias, [0.1, 1, -0.1 * (1 + 2.0**-22)]) == set()
    assert found([*rows[:2], [2, 1 + 2.0**-23]], bias, [0.1, 1, -0.1]) == set()
    assert found(rows, [0.3, 0, 0.3 * (1 + 2.0**-22)], [0.1, 1, -0.1]) == set()
    relu = {"real"} if activation == "relu" else set()
    assert found([*rows[:2], [6, 3]], [1, 0, 3], [3, 1, -1]) == relu
    assert found([*rows[:2], [6, 3]], [1, 0, 3], [2, 1, -1]) == set()
    assert found([*rows[:2], [-2, -1]], [1, 0, -1], [1, 1, 1]) == set()  # the other side of the kink


def test_both_sides_of_a_kink_do_not_cancel():
    """max(z, 0) + max(−z, 0) is |z|, also where each of the two has a double that makes them look alike."""
    rows, bias = [[2, 1], [2, 1], [-2, -1], [-2, -1]], [1, 1, -1, -1]
    assert proven((rows, bias), ([[1, 0, 1, 0]], [-1])) == set()
    assert proven((rows, bias), ([[1, -1, 3, -3]], [-1])) == {"real"}


def test_a_number_that_overflows_is_not_proven_harmless_by_a_weight_of_zero():
    """0·∞ is NaN, wherever it stands."""
    for big, held in ((1e38, {"real"}), (1e30, BOTH)):
        assert proven(([[1, 0], [big, 3 * big]], [1, 0]), ([[1, 0]], [0])) == held  # a sum of the first layer
    assert proven(([[1, 0], [1e38, -2e38]], [1, 0]), ([[1, 0]], [0])) == {"real"}  # whatever the signs
    for big, held in ((1e20, {"real"}), (1e15, BOTH)):  # of the second
        assert proven(([[1, 0], [big, big]], [1, 0]), ([[1, 0], [0, big]], [0, 0]), ([[1, 0]], [0])) == held
    many = [InputColumn("n", None, (("Sub", 1.0),)), *(InputColumn("s", {False: -1.0, True: 1.0}) for _ in range(3))]
    shared = ([[1, 0, 0, 0], [0, 1e38, 1e38, 1e38]], [1, 0])  # each product is finite
    assert proven(shared, ([[1, 0]], [0]), columns=many) == {"real"}


@pytest.mark.parametrize(("limits", "held"), [((-1e300, 1e300), {"real"}), ((0.0, 1e6), BOTH), (None, BOTH)])
def test_a_dead_end_is_finite_for_whatever_the_graph_lets_through(limits, held):
    people = people_of([whole("n", 0, 3), whole("s", 1, 9)], ["s"])
    columns = [SEEN[0], InputColumn("s", None, (("Sub", 1.0),), limits)]
    assert proven(FIRST, ([[1, 0, 1]], [0]), people=people, columns=columns) == held


def test_no_more_neurons_are_compared_than_can_be_in_time(monkeypatch):
    layers = [([[2, 1], [1, 0], [2, 1]], [0.3, 0, 0.3]), ([[1, 1, -1]], [0])]
    monkeypatch.setattr(checker, "MOST_WEIGHTS", 3)
    with pytest.raises(Rejected, match="so many neurons cancel takes too long"):
        checker.prove_structurally(network_of(SEEN, layers), SOMEBODY)
    alone = [([[2, 1], [1, 0], [2, -1]], [0.3, 0, 0.3]), layers[1]]  # of other signs: nothing is compared
    with pytest.raises(Rejected, match="first-layer neuron 0 tells"):
        checker.prove_structurally(network_of(SEEN, alone), SOMEBODY)


def test_neurons_cancel_whatever_is_fed_to_them():
    """Unlike weights of the first layer, which cancel for some values only."""
    people = people_of([whole("n", 0, 3), category("s", "p", "q")], ["s"])
    columns = [SEEN[0], InputColumn("s", {"p": 2.0, "q": 1.0}, unlisted=True)]
    layers = ([[2, 1], [1, 0], [2, 1]], [0.3, 0, 0.3]), ([[1, 1, -1]], [0])
    assert proven(*layers, people=people, columns=columns) == {"real"}


@settings(max_examples=200)
@given(SEEDS)
def test_a_structural_proof_is_never_wrong(seed):
    case = random_case(seed, lattice=True, style=("tame", "sparse")[seed % 2])
    try:
        held = checker.prove_structurally(case.network, case.people)
    except Rejected:
        return
    assert "real" in held and are_fair(case, case.everybody, "float32" in held, seed)


# --- twins ---


@settings(max_examples=150)
@given(SEEDS)
def test_twins_are_accepted_in_real_arithmetic_just_where_they_differ(seed):
    case = random_case(seed)
    for group in families(case.people, case.everybody)[:6]:
        known = [class_of(exact_layers(case.network, person)[-1]) for person in group]
        for (one, a), (other, b) in itertools.combinations(list(zip(group, known, strict=True))[:4], 2):
            names = [case.network.classes[a], case.network.classes[b]]
            assert accepts(case, [one, other], names, ["real"]) == (a != b)
            assert not accepts(case, [one, other], names[::-1], ["real"])


@settings(max_examples=100)
@given(SEEDS, st.sampled_from(["relu", "tanh", "sigmoid"]))
def test_twins_are_accepted_in_float32_only_where_every_machine_tells_them_apart(seed, activation):
    case = random_case(seed, activation=activation)
    for group in families(case.people, case.everybody)[:4]:
        known = [classes for _, classes in decided(case, group, True, seed)]
        for i, j in itertools.combinations(range(min(len(group), 4)), 2):
            names = [case.network.classes[known[0][i]], case.network.classes[known[0][j]]]
            if accepts(case, [group[i], group[j]], names, ["float32"]):
                assert all([classes[i], classes[j]] == [known[0][i], known[0][j]] for classes in known)
                assert names[0] != names[1]


def accepts(case, twins, decisions, arithmetic):
    try:
        checker.check_twins(case.network, case.people, twins, decisions, arithmetic)
    except Rejected:
        return False
    return True


def test_most_twins_who_differ_are_accepted_in_float32():
    found = Counter()
    for seed in range(60):
        case = random_case(seed, style="normal", lattice=True)
        for group in families(case.people, case.everybody):
            known = [class_of(exact_layers(case.network, person)[-1]) for person in group]
            for (one, a), (other, b) in itertools.combinations(zip(group, known, strict=True), 2):
                if a != b:
                    found[
                        accepts(case, [one, other], [case.network.classes[k] for k in (a, b)], ["real", "float32"])
                    ] += 1
    assert found[True] > 100 and found[False] < 0.02 * found[True], found


def test_people_who_are_not_twins_of_the_domain_are_rejected():
    features = [whole("n", 0, 5), real("r", 0.5, 2.0), category("c", "x", "y"), boolean("s"), category("t", "p", "q")]
    people = people_of(features, ["s", "t"], combinations=[[False, "p"], [True, "p"], [True, "q"]])
    network = network_of([InputColumn("s", {False: -1.0, True: 1.0})], [([[1.0]], [0.0])])
    case = Case(people, network, people.everybody())
    one = {"n": 1, "r": 1.0, "c": "x", "s": False, "t": "p"}
    other = one | {"s": True}
    assert accepts(case, [one, other], ["no", "yes"], ["real", "float32"])
    assert accepts(case, [one, other | {"t": "q"}], ["no", "yes"], ["real"])
    for change in ({"n": 6}, {"n": -1}, {"n": 1.0}, {"n": True}, {"n": "1"}, {"r": 0.4}, {"r": 2.1}, {"r": "1"},
                   {"c": "z"}, {"c": None}, {"u": 1}):  # fmt: skip
        assert not accepts(case, [one | change, other | change], ["no", "yes"], ["real"]), change
    for change in ({"n": 2}, {"r": 1.5}, {"c": "y"}, {"s": 1}, {"s": "True"}, {"t": "o"}):
        assert not accepts(case, [one, other | change], ["no", "yes"], ["real"]), change
    assert not accepts(case, [one | {"t": "q"}, other], ["no", "yes"], ["real"]), "a woman of q does not exist"
    assert not accepts(case, [one, one], ["no", "no"], ["real"])
    assert not accepts(case, [{k: v for k, v in t.items() if k != "n"} for t in (one, other)], ["no", "yes"], ["real"])
    for names in (["yes", "no"], ["no", "no"], ["no"], [0, 1], None):
        assert not accepts(case, [one, other], names, ["real"]), names


# --- whole bundles ---


def checked(model, **options):
    """What the checker says of the bundle of a model."""
    return checker.check_files(bundle_files(model, **options))


def claimed(model, verdict, proof, arithmetic, **facts):
    """The model with a certificate that claims just this, true or not."""
    asked = Verdict("undecided", "none", "bounds", (), "nobody asked.")
    bare = certificate_of(model, asked, seconds=0)
    stated = dataclasses.replace(asked, answer=verdict, proof=proof, arithmetic=arithmetic, **facts.pop("said", {}))
    words = checker.claim_of(verdict, proof, arithmetic, model.domain.sensitive, asked.reason)
    return dataclasses.replace(model, certificate=dataclasses.replace(bare, claim=words, verdict=stated, **facts))


@pytest.mark.parametrize("shape", range(4))
def test_the_checker_agrees_with_the_engines_and_with_counting_out(shape):
    settled = Counter()
    for seed in range(shape, 80, 4):
        model = random_model(seed)
        known, verdict = truth(model), verify(model, engine="bounds", timeout=20, seed=seed)
        bundle = dataclasses.replace(model, certificate=certificate_of(model, verdict, seconds=20))
        found = checked(bundle)
        stated = bundle.certificate.verdict
        assert found["valid"] and found["verdict"] == stated.answer
        assert mistake(model, stated, known) is None, f"case {seed}: {mistake(model, stated, known)}"
        assert stated.answer in (verdict.answer, "undecided")
        assert set(stated.arithmetic) <= {"real", "float32"} and (stated.answer != "verified" or stated.proof != "none")
        settled[stated.answer] += 1
    assert settled["undecided"] <= 2 and min(settled["verified"], settled["falsified"]) >= 3, settled


@pytest.mark.parametrize("seed", [1, 2, 5, 6])
def test_a_model_certified_by_all_engines_is_valid(seed):
    model = random_model(seed)
    found = checked(certified(model, timeout=20))
    assert found["valid"]
    assert found["verdict"] == ("falsified" if truth(model).real else "verified")


@pytest.mark.parametrize("seed", [1, 2, 5, 6, 9, 10, 13, 14])
def test_a_false_claim_is_never_valid(seed):
    model = random_model(seed)
    unfair = truth(model).real
    for proof, tree in (("structural", None), ("bounds", [0]), ("bounds", ["same"]), ("bounds", [{"each": 1}])):
        files = bundle_files(claimed(model, "verified", proof, ("real",), tree=tree))
        with contextlib.suppress(Rejected):
            assert checker.check_files(files)["valid"] and not unfair


def test_weights_that_cancel_are_certified_in_real_arithmetic_only():
    domain = Domain(
        features=(IntegerFeature(name="n", low=0, high=9), CategoricalFeature(name="s", categories=("p", "q", "o"))),
        sensitive=("s",), label=Label(name="y", classes=(0, 1)),
    )  # fmt: skip
    encoding = Encoding(domain, {"n": Scale(centre=4.0, exponent=1)}, {})
    first = np.array([[1.0, 0.1, 0.1, 0.1], [-1.0, 0.0, 0.0, 0.0]])
    model = FairModel(Weights((Layer(first, np.zeros(2)), Layer(np.ones((1, 2)), -np.ones(1)))), encoding)
    assert checked(claimed(model, "verified", "structural", ("real",)))["valid"]
    for arithmetic in (("float32",), ("real", "float32")):
        with pytest.raises(Rejected, match="real arithmetic only"):
            checked(claimed(model, "verified", "structural", arithmetic))
    near = first.astype(np.float32)
    near[0, 1] = np.nextafter(near[0, 1], np.float32(1))
    changed = FairModel(Weights((Layer(near, np.zeros(2)), model.network.layers[1])), encoding)
    with pytest.raises(Rejected, match=r"tells .* which twins may have"):
        checked(claimed(changed, "verified", "structural", ("real",)))


# --- under which conditions float32 holds ---


def test_a_claim_about_float32_names_its_conditions_and_one_about_exact_numbers_has_none():
    words = [
        checker.claim_of("verified", "structural", kinds, ["sex"], "") for kinds in (["real"], ["real", "float32"])
    ]
    assert "onnxruntime" not in words[0] and words[1].endswith(checker.CONDITIONS)
    found = checked(census_model())
    assert checker.CONDITIONS in checker.told(found) and "prepacking" in checker.CONDITIONS


@pytest.mark.parametrize("widths", [(7, 4, 1), (100, 64, 1), (300, 200, 3)])
def test_onnxruntime_adds_up_a_person_alone_and_in_a_batch_in_the_same_order_by_default(widths):
    """What the conditions say of its default options, measured: the same bits however many are asked at once."""
    rng = np.random.default_rng(0)
    domain = Domain(
        features=tuple(RealFeature(name=f"x{i}", low=-4.0, high=4.0) for i in range(widths[0])),
        label=Label(name="y", classes=tuple(range(max(widths[-1], 2)))),
    )
    layers = tuple(Layer(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in itertools.pairwise(widths))
    model = FairModel(Weights(layers), Encoding(domain, {n: Scale(centre=0.0, exponent=0) for n in domain.names}, {}))
    served = onnx.load_from_string(onnx_bytes(model))
    last = next(node.output[0] for node in reversed(served.graph.node) if node.op_type == "Gemm")
    served.graph.output.append(onnx.helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, ["rows", widths[-1]]))
    people = rng.uniform(-4, 4, (40, widths[0]))

    def scores(size, threads=1):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(served.SerializeToString(), options)
        parts = [people[i : i + size] for i in range(0, len(people), size)]
        rows = [session.run(None, {n: part[:, [j]] for j, n in enumerate(domain.names)})[2] for part in parts]
        return np.concatenate(rows)

    for size, threads in itertools.product((2, 3, 8, 40), (1, 2)):
        assert np.array_equal(scores(1), scores(size, threads))


# --- the paper's network on census ---


@functools.cache
def census_model():
    data = datasets.load("census")
    options = {"hidden": "paper", "epochs": 1, "batch_size": 512, "validation_fraction": 0.0}
    classifier = FairClassifier(["sex"], **options).fit(data.table.drop(columns=data.target), data.table[data.target])
    return classifier.model_


def deepened(tree, people, leaves):
    """The same proof with at least so many leaves: every leaf is cut further, feature by feature."""
    boxes, turn = leaf_boxes(tree, people), itertools.cycle(n for n in people.features if n not in people.sensitive)
    nodes = [[entry, box] for entry, box in boxes]  # a node is [leaf, box], or [cut, node, node] once it was cut
    queue, count = list(nodes), len(nodes)
    while count < leaves:
        node = queue.pop(0)
        entry, box = node
        name = next((n for n in itertools.islice(turn, len(box)) if len(set(box[n])) > 1), None)
        if name is None:  # one person
            continue
        low, high = box[name][0], box[name][-1]
        if people.features[name]["kind"] == "integer":
            where = (low + high) // 2
        else:
            where = low / 2 + high / 2 if people.is_number(name) else list(box[name][: len(box[name]) // 2])
        parts = checker.cut(box[name], name, where, people)
        node[:] = [[name, where], *([entry, box | {name: part}] for part in parts)]
        queue += node[1:]
        count += 1

    def listed(node):
        return [node[0]] if len(node) == 2 else [node[0], *listed(node[1]), *listed(node[2])]

    rest = iter(nodes)
    return [part for entry in tree for part in ([entry] if isinstance(entry, list) else listed(next(rest)))]


def census_proof(leaves, *, faint=1e-3, margin=0.5, reason=None):
    """A bundle with a proof by bounds: the paper's network reads sex, faintly, and decides the same for everybody.

    `margin`: how far below 0 the logit of anybody stays. `reason`: what each leaf says instead of its class.
    """
    fair = census_model()
    first, *others, last = fair.network.layers
    weight = np.array(first.weight)
    weight[:, fair.encoding.free_width :] = faint * np.random.default_rng(0).normal(size=(len(weight), 1))
    layers = [Layer(weight, first.bias), *others, last]
    model = FairModel(Weights(tuple(layers)), fair.encoding)
    network, people = as_checked(model)
    prover, everybody = Prover(network, people, True), people.everybody()
    most = -prover.backward(everybody, prover.forward(everybody), [-1.0])[0]
    layers[-1] = Layer(last.weight, last.bias - np.float32(most + margin))
    model = FairModel(Weights(tuple(layers)), fair.encoding)
    tree = deepened([0 if reason is None else reason], people, leaves)
    return claimed(model, "verified", "bounds", ("real", "float32"), tree=tree)


def test_the_papers_network_on_census_is_proven_structurally():
    found = checked(census_model())
    assert found["valid"] and (found["verdict"], found["proof"]) == ("verified", "structural")
    assert found["arithmetic"] == ["real", "float32"]


@pytest.mark.parametrize("reason", [None, {"each": 0}])
def test_the_papers_network_on_census_is_proven_by_bounds(reason):
    model = census_proof(200, reason=reason)
    assert not model.ignores_sensitive
    found = checked(model)
    assert found["valid"] and "(200)" in found["reason"]
    with pytest.raises(Rejected, match=r"tells .* which twins may have"):
        checked(claimed(model, "verified", "structural", ("real",)))


# --- what must not bring the checker down, nor through ---


def test_a_number_centred_at_zero_is_read():
    column = InputColumn("n", None, (("Sub", 0.0), ("Mul", 1.0), ("Add", 0.0)))
    assert [column.value(raw, exact) for raw in (0, 5) for exact in (True, False)] == [0, 0, 5, 5]


def test_a_code_that_is_infinite_is_not_proven_harmless_by_a_weight_of_zero():
    """Zero times infinity is not a number: in float32 whoever has such a code is decided differently."""
    people = people_of([whole("n", 0, 5), real("s", 0.0, 2.0**999)], ["s"])
    columns = [InputColumn("n", None, (("Sub", 1.0),)), InputColumn("s", None, (("Mul", 2.0**1000),))]
    assert structural(columns, [[1.0, 0.0]], people) == {"real"}
    narrow = people_of([whole("n", 0, 5), real("s", 0.0, 1.0)], ["s"])
    for limits, held in [(None, {"real", "float32"}), ((-1.0, 1e30), {"real", "float32"}), ((-1.0, 1e300), {"real"})]:
        assert structural([columns[0], InputColumn("s", None, (), limits)], [[1.0, 0.0]], narrow) == held


@pytest.mark.parametrize("grid", [1, True, 0, -1])
def test_a_domain_that_lists_one_value_of_a_range_proves_nothing(grid):
    with pytest.raises((Rejected, *checker.MALFORMED)):
        people = people_of([whole("n", 0, 5), real("s", 0.0, 1.0, grid=grid)], ["s"])
        structural([InputColumn("n", None, ()), InputColumn("s", None, ())], [[1.0, 1.0]], people)


LARGE = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
checker = runpy.run_path(sys.argv[1])
label = {"name": "y", "classes": [0, 1]}
features = [{"name": "n", "kind": "integer", "low": 0, "high": 2**53}, {"name": "s", "kind": "boolean"}]
data = {"format": "bornfair-domain/1", "features": features, "sensitive": ["s"], "combinations": None, "label": label}
print(checker["Individuals"](data).everybody()["n"])
"""


def test_a_whole_number_may_have_any_range():
    done = subprocess.run([sys.executable, "-c", LARGE, checker.__file__], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"(0, {2**53})", done.stderr[-300:]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_certifying_never_fails_where_the_checker_declines(activation):
    """Gelu, or sums that may overflow: an unfair model is at worst undecided."""
    domain = Domain(features=(IntegerFeature(name="n", low=1, high=5), BooleanFeature(name="s")), sensitive=("s",))
    size = 2.0**70 if activation == "relu" else 1.0
    rng = np.random.default_rng(0)
    layers = Layer(size * rng.normal(size=(3, 2)), np.zeros(3)), Layer(size * rng.normal(size=(1, 3)), np.zeros(1))
    model = FairModel(Weights(layers, activation), Encoding(domain, {"n": Scale(centre=2.0, exponent=0)}, {}))
    assert checked(certified(model, timeout=5))["valid"]


def test_a_bundle_survives_the_way_through_a_file(tmp_path):
    model = census_proof(3)
    model.save(tmp_path / "bundle.zip")
    done = subprocess.run(
        [sys.executable, "-I", checker.__file__, tmp_path / "bundle.zip", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and json.loads(done.stdout)["verdict"] == "verified", done.stderr
