"""ONNX files as PyTorch, Keras and others write them: every operator we read, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from bornfair.core.errors import InputError
from bornfair.importers import source
from bornfair.importers.source import forward
from bornfair.models.network.model import probabilities
from bornfair.models.network.network import Layer, Network
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import IntegerFeature
from bornfair.proof.bundle import FairModel
from bornfair.questions.loading import load_model
from interop_models import WIDTH, GraphMaker, categories, disagreements, people, random_layer
from samples import make_people

pytestmark = pytest.mark.slow

SCALE = np.array([50, 30, 1.5, 1], np.float32)
SPREAD = np.array([20, 17, 1.1, 3], np.float32)


def standardised(g: GraphMaker) -> str:
    return g.node("Div", g.node("Sub", "x", SCALE), SPREAD)


def two_layers(g: GraphMaker, act: Callable[[str], str], *, outputs: int = 1, seed: int = 0, start: str = "") -> str:
    random = np.random.default_rng(seed)
    hidden = act(g.gemm(start or standardised(g), *random_layer(random, WIDTH, 6)))
    hidden = act(g.dense(hidden, *random_layer(random, 6, 5)))
    weight, _ = random_layer(random, 5, outputs)
    return g.dense(hidden, weight, np.zeros(outputs, np.float32))


def activation(operator: str, *more: Any, **attributes: Any) -> Callable[[GraphMaker], str]:
    return lambda g: two_layers(g, lambda value: g.node(operator, value, *more, **attributes))


def batch_norm(g: GraphMaker) -> str:
    random = np.random.default_rng(1)

    def normalised(value: str) -> str:
        width = 6 if not any(n.op_type == "BatchNormalization" for n in g.nodes) else 5
        numbers = [random.uniform(0.5, 1.5, width).astype(np.float32) for _ in range(4)]
        return g.node("BatchNormalization", g.node("Relu", value), *numbers, epsilon=1e-3)

    return two_layers(g, normalised)


def residual(g: GraphMaker) -> str:
    random = np.random.default_rng(2)
    x = standardised(g)
    first = g.node("Relu", g.gemm(x, *random_layer(random, WIDTH, WIDTH)))
    second = g.node("Relu", g.node("Add", g.gemm(first, *random_layer(random, WIDTH, WIDTH)), x))
    third = g.node("Relu", g.node("Add", g.gemm(second, *random_layer(random, WIDTH, WIDTH)), first))
    return g.gemm(third, *random_layer(random, WIDTH, 1))


def wide_and_deep(g: GraphMaker) -> str:
    random = np.random.default_rng(3)
    x = standardised(g)
    return g.node(
        "Add", two_layers(g, lambda v: g.node("Relu", v), start=x), g.gemm(x, *random_layer(random, WIDTH, 1))
    )


def columns_taken_apart(g: GraphMaker) -> str:
    x = g.node("Identity", g.node("Dropout", g.node("Cast", standardised(g), to=TensorProto.FLOAT)))
    first = g.node("Slice", x, np.array([0]), np.array([2]), np.array([1]))
    third = g.node("Gather", x, np.array([2]), axis=1)
    last = g.node("Unsqueeze", g.node("Gather", x, np.array(3), axis=1), np.array([1]))
    joined = g.node("Concat", last, third, first, axis=-1)
    left, right = g.node("Split", joined, np.array([1, 3]), outputs=2, axis=1)
    swapped = g.node("Concat", right, left, axis=1)
    cube = g.node("Reshape", swapped, np.array([-1, 2, 2]))
    turned = g.node("Flatten", g.node("Transpose", cube, perm=[0, 2, 1]))
    return two_layers(g, lambda v: g.node("Relu", v), start=turned)


def shape_arithmetic(g: GraphMaker) -> str:
    """How exporters keep the number of rows open."""
    rows = g.node("Slice", g.node("Shape", "x"), np.array([0]), np.array([1]), np.array([0]))
    target = g.node("Concat", rows, np.array([WIDTH]), axis=0)
    return two_layers(g, lambda v: g.node("Relu", v), start=g.node("Reshape", standardised(g), target))


def sums_and_extremes(g: GraphMaker) -> str:
    x = standardised(g)
    mean = g.node("ReduceMean", x, axes=[1], keepdims=1)
    total = g.node("ReduceSum", x, np.array([1]), keepdims=1)
    high = g.node("Max", g.node("Neg", mean), np.array([0.1], np.float32))
    low = g.node("Min", total, np.array([0.5], np.float32))
    larger = g.node("Max", high, low)
    return two_layers(g, lambda v: g.node("Relu", v), start=g.node("Sum", g.node("Mul", x, np.float32(0.7)), larger))


def as_dynamo_exports(g: GraphMaker) -> str:
    """Scalars as constants in nodes, shapes cut by attributes, weights [outputs, inputs]."""
    rows = g.node("Shape", "x", start=0, end=1)
    everything = g.node("Constant", value_ints=[-1])
    flat = g.node("Reshape", standardised(g), g.node("Concat", rows, everything, axis=0), allowzero=1)
    low, high = g.node("Constant", value_float=0.0), g.node("Constant", value_float=6.0)
    return two_layers(g, lambda v: g.node("Clip", v, low, high), start=flat)


def one_weight_vector(g: GraphMaker) -> str:
    random = np.random.default_rng(4)
    hidden = g.node("Relu", g.dense(standardised(g), *random_layer(random, WIDTH, 5)))
    return g.node("Unsqueeze", g.node("MatMul", hidden, random.normal(0, 1, 5).astype(np.float32)), np.array([1]))


def constants_computed(g: GraphMaker) -> str:
    """Weights transposed and standard deviations computed in the graph, as exporters leave them."""
    random = np.random.default_rng(4)
    weight, bias = random_layer(random, WIDTH, 5)
    spread = g.node("Sqrt", g.node("Add", SPREAD**2, np.float32(1e-5)))
    x = g.node("Div", g.node("Sub", "x", g.node("Identity", SCALE)), spread)
    first = g.node("Add", g.node("MatMul", x, g.node("Transpose", weight.T.copy(), perm=[1, 0])), bias)
    return g.gemm(g.node("Relu", first), *random_layer(random, 5, 1))


HIDDEN = {
    "Relu": activation("Relu"), "LeakyRelu": activation("LeakyRelu", alpha=0.2), "Tanh": activation("Tanh"),
    "Sigmoid": activation("Sigmoid"), "PRelu": activation("PRelu", np.array([0.25], np.float32)),
    "Clip": activation("Clip", np.float32(0), np.float32(1)), "Clip above": activation("Clip", "", np.float32(0.4)),
    "Clip below": activation("Clip", np.float32(-0.2)), "HardSigmoid": activation("HardSigmoid", alpha=0.3, beta=0.4),
    "Abs": activation("Abs"), "batch normalisation": batch_norm, "residual": residual, "wide and deep": wide_and_deep,
    "columns taken apart": columns_taken_apart, "shapes": shape_arithmetic, "sums and extremes": sums_and_extremes,
    "computed constants": constants_computed, "as dynamo exports": as_dynamo_exports, "vector": one_weight_vector,
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
def test_a_graph_decides_as_onnxruntime_does(name: str, tmp_path: Path) -> None:
    g = GraphMaker()
    path = g.save(tmp_path / "m.onnx", [g.node("Sigmoid", g.centred(HIDDEN[name](g)))])
    model = load_model(path, domain=people())
    assert model.network.outputs == 1
    assert disagreements(model) == 0
    assert model.original is not None
    assert model.original.largest_difference is not None
    assert model.original.largest_difference < 1e-4
    assert model.original.people_compared >= 2_000
    assert "onnxruntime" in model.original.runtime


def relu_network(g: GraphMaker, outputs: int) -> str:
    return g.centred(two_layers(g, lambda v: g.node("Relu", v), outputs=outputs, seed=8))


def labelled(g: GraphMaker, condition: str) -> str:
    return g.node("Cast", condition, to=TensorProto.INT64)


ENDS: dict[str, tuple[Callable[[GraphMaker], str], int, int]] = {
    "one logit": (lambda g: relu_network(g, 1), TensorProto.FLOAT, 2),
    "squeezed": (lambda g: g.node("Squeeze", relu_network(g, 1), np.array([1])), TensorProto.FLOAT, 2),
    "two logits": (lambda g: relu_network(g, 2), TensorProto.FLOAT, 2),
    "softmax of two": (lambda g: g.node("Softmax", relu_network(g, 2)), TensorProto.FLOAT, 2),
    "softmax of three": (lambda g: g.node("Softmax", relu_network(g, 3), axis=1), TensorProto.FLOAT, 3),
    "log softmax": (lambda g: g.node("LogSoftmax", relu_network(g, 3)), TensorProto.FLOAT, 3),
    "sigmoids of three": (lambda g: g.node("Sigmoid", relu_network(g, 3)), TensorProto.FLOAT, 3),
    "argmax": (lambda g: g.node("ArgMax", relu_network(g, 3), axis=1, keepdims=0), TensorProto.INT64, 3),
    "argmax of softmax": (
        lambda g: g.node("ArgMax", g.node("Softmax", relu_network(g, 2)), axis=-1), TensorProto.INT64, 2,
    ),
    "probability above 0.3": (
        lambda g: labelled(g, g.node("Greater", g.node("Sigmoid", relu_network(g, 1)), np.float32(0.3))),
        TensorProto.INT64, 2,
    ),
    "probability at least 0.5": (
        lambda g: labelled(g, g.node("GreaterOrEqual", g.node("Sigmoid", relu_network(g, 1)), np.float32(0.5))),
        TensorProto.INT64, 2,
    ),
    "probability below 0.7": (
        lambda g: labelled(g, g.node("Less", g.node("Sigmoid", relu_network(g, 1)), np.float32(0.7))),
        TensorProto.INT64, 2,
    ),
    "logit above 0": (
        lambda g: labelled(g, g.node("Greater", relu_network(g, 1), np.float32(0.0))), TensorProto.INT64, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_every_way_to_end_a_model_is_read_as_its_decision(name: str, tmp_path: Path) -> None:
    end, kind, classes = ENDS[name]
    g = GraphMaker()
    model = load_model(g.save(tmp_path / "m.onnx", [end(g)], kinds=[kind]), domain=people())
    assert len(model.classes) == classes
    assert model.network.outputs == (1 if classes == 2 else classes)
    assert disagreements(model) == 0


def text(*names: str) -> np.ndarray:
    return np.array(names, dtype=object)


NAMED: dict[str, tuple[Callable[[GraphMaker], str], list[Any]]] = {
    "gathered": (
        lambda g: g.node("Gather", text("z", "b", "a"), g.node("ArgMax", relu_network(g, 3), axis=1, keepdims=0)),
        ["z", "b", "a"],
    ),
    "looked up": (
        lambda g: g.node(
            "LabelEncoder", g.node("ArgMax", relu_network(g, 3), axis=1, keepdims=0), domain="ai.onnx.ml",
            keys_int64s=[0, 1, 2], values_strings=["low", "middle", "high"],
        ),
        ["low", "middle", "high"],
    ),
    "chosen": (
        lambda g: g.node("Where", g.node("Greater", relu_network(g, 1), np.float32(0)), text("yes"), text("no")),
        ["no", "yes"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_names_of_classes_are_read_from_the_graph(name: str, tmp_path: Path) -> None:
    end, classes = NAMED[name]
    g = GraphMaker()
    model = load_model(g.save(tmp_path / "m.onnx", [end(g)], kinds=[TensorProto.STRING]), domain=people())
    assert model.classes.tolist() == classes
    assert disagreements(model, 2_000) == 0


def test_a_number_cut_into_bands_is_read_with_its_values_listed(tmp_path: Path) -> None:
    g = GraphMaker()
    random = np.random.default_rng(2)
    young = g.node("Cast", g.node("Less", "age", np.array([[30]])), to=TensorProto.FLOAT)
    old = g.node("Cast", g.node("GreaterOrEqual", "age", np.array([[60]])), to=TensorProto.FLOAT)
    joined = g.node("Concat", young, old, g.node("Div", "income", np.float32(20)), axis=1)
    hidden = g.node("Relu", g.gemm(joined, *random_layer(random, 3, 4)))
    inputs = [("age", TensorProto.INT64, ["n", 1]), ("income", TensorProto.FLOAT, ["n", 1])]
    end = g.node("Sub", g.gemm(hidden, *random_layer(random, 4, 1)), np.float32(0.8))
    model = load_model(g.save(tmp_path / "m.onnx", [end], inputs=inputs), domain=people())
    assert len(model.domain.feature("age").levels()) == 74
    assert model.ignores_sensitive  # it does not even take the group
    assert disagreements(model, 2_000) == 0


def test_classes_keep_the_order_of_the_file_whatever_their_names(tmp_path: Path) -> None:
    """Runtimes hand out maps sorted by name; the classes are in the order of the coefficients."""
    random = np.random.default_rng(0)
    for names, rows in ((["yes", "no"], 2), (["c", "a", "b"], 3), (["yes", "no"], 1)):
        weight = random.normal(0, 1, (rows, WIDTH)).astype(np.float32)
        g = GraphMaker()
        how = {"intercepts": [0.0] * rows, "post_transform": "NONE" if rows == 1 else "SOFTMAX"}
        label, scores = g.node(
            "LinearClassifier", standardised(g), domain="ai.onnx.ml", outputs=2, classlabels_strings=names,
            coefficients=weight.ravel().tolist(), **how,
        )  # fmt: skip
        shown = [] if rows == 1 else [g.node("ZipMap", scores, domain="ai.onnx.ml", classlabels_strings=names)]
        path = g.save(
            tmp_path / "m.onnx", [label, *shown], kinds=[TensorProto.STRING, TensorProto.FLOAT][: 1 + len(shown)]
        )
        model = load_model(path, domain=people())
        assert model.classes.tolist() == names
        assert disagreements(model, 2_000) == 0
        assert model.original is not None
        assert (model.original.largest_difference is None) == (rows == 1)


def test_a_tie_at_a_threshold_is_decided_as_the_graph_decides_it(tmp_path: Path) -> None:
    """All weights 0: everybody stands exactly on the boundary, where ≥ says yes and > says no."""
    for operator, expected in (("GreaterOrEqual", 1), ("Greater", 0)):
        g = GraphMaker()
        hidden = g.node("Relu", g.gemm("x", np.eye(WIDTH, dtype=np.float32), np.zeros(WIDTH, np.float32)))
        weight = np.array([[1.0], [0], [0], [-1]], np.float32)
        logit = g.gemm(hidden, weight, np.zeros(1, np.float32))
        label = labelled(g, g.node(operator, logit, np.float32(0)))
        model = load_model(g.save(tmp_path / "m.onnx", [label], kinds=[TensorProto.INT64]), domain=people())
        tied = model.domain.sample(50, seed=0).assign(age=3, debt=3.0)
        assert model.original is not None
        assert set(model.predict(tied)) == set(model.original.decide(tied)) == {expected}


def test_sigmoid_and_tanh_layers_are_joined_in_one_network(tmp_path: Path) -> None:
    g = GraphMaker()
    kinds = iter(["Sigmoid", "Tanh"])
    path = g.save(tmp_path / "m.onnx", [g.centred(two_layers(g, lambda v: g.node(next(kinds), v)))])
    model = load_model(path, domain=people())
    assert model.network.activation == "tanh"
    assert disagreements(model) == 0


def test_gelu_layers_are_read(tmp_path: Path) -> None:
    g = GraphMaker(opset=20)
    path = g.save(tmp_path / "m.onnx", [g.centred(two_layers(g, lambda v: g.node("Gelu", v)))])
    model = load_model(path, domain=people())
    assert model.network.activation == "gelu"
    assert disagreements(model, 2_000) == 0


def test_a_model_for_one_person_at_a_time_is_run_person_by_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, fewer in (("PEOPLE", 200), ("CORNERS", 60), ("PAIRS", 20)):  # each person is a run of their own
        monkeypatch.setattr(source, name, fewer)
    g = GraphMaker()
    logit = g.node("Reshape", relu_network(g, 1), np.array([1]))
    path = g.save(tmp_path / "m.onnx", [logit], inputs=[("x", TensorProto.FLOAT, [1, WIDTH])])
    assert disagreements(load_model(path, domain=people()), 30) == 0


def test_categories_reach_the_network_as_embeddings_one_hot_vectors_and_comparisons(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    g = GraphMaker()
    table = random.normal(0, 1, (3, 2)).astype(np.float32)
    embedded = g.node("Squeeze", g.node("Gather", table, "job", axis=0), np.array([1]))
    hot = g.node("Squeeze", g.node("OneHot", "city", np.array(4), np.array([0.0, 1.0], np.float32)), np.array([1]))
    is_two = g.node("Cast", g.node("Equal", "city", np.array(2)), to=TensorProto.FLOAT)
    chosen = g.node("Where", "owner", np.array([[0.8]], np.float32), np.array([[-0.3]], np.float32))
    age = g.node("Div", g.node("Cast", "age", to=TensorProto.FLOAT), np.float32(40))
    joined = g.node("Concat", embedded, hot, is_two, chosen, age, axis=1)
    hidden = g.node("Relu", g.gemm(joined, *random_layer(random, 9, 6)))
    inputs = [
        ("age", TensorProto.INT64, ["n", 1]), ("job", TensorProto.INT64, ["n", 1]),
        ("city", TensorProto.INT64, ["n", 1]), ("owner", TensorProto.BOOL, ["n", 1]),
    ]  # fmt: skip
    path = g.save(tmp_path / "m.onnx", [g.gemm(hidden, *random_layer(random, 6, 1))], inputs=inputs)
    age_range = IntegerFeature(name="age", low=17, high=90)
    who = Domain.model_validate(
        {
            "features": (
                age_range,
                IntegerFeature(name="job", low=0, high=2),
                IntegerFeature(name="city", low=0, high=3),
                {"kind": "boolean", "name": "owner"},
            ),
            "sensitive": ("job", "owner"),
        }
    )
    model = load_model(path, domain=who)
    assert model.domain.feature("job").kind == "categorical"  # the same people: its values are listed
    assert model.domain.feature("age") == age_range
    assert disagreements(model) == 0


def test_a_feature_the_model_ignores_gets_weights_that_are_exactly_zero(tmp_path: Path) -> None:
    g = GraphMaker()
    random = np.random.default_rng(5)
    weight, bias = random_layer(random, WIDTH, 6)
    weight[2] = 0.0
    hidden = g.node("Relu", g.gemm(standardised(g), weight, bias))
    path = g.save(tmp_path / "m.onnx", [g.gemm(hidden, *random_layer(random, 6, 1))])
    assert load_model(path, domain=people()).ignores_sensitive
    assert not load_model(path, domain=people(), sensitive=["age"]).ignores_sensitive
    features = [f if f.name != "group" else categories("group", 0, 1, 2) for f in people().features]
    listed = Domain(features=tuple(features), sensitive=("group",))
    assert load_model(path, domain=listed).ignores_sensitive


def test_a_weight_too_small_for_float32_does_not_become_zero(tmp_path: Path) -> None:
    g = GraphMaker()
    weight = np.array([[1.0], [0.5], [1e-60], [0.0]], np.float64)
    name = "double"
    from onnx import numpy_helper

    g.constants.append(numpy_helper.from_array(weight, name))
    path = g.save(
        tmp_path / "m.onnx",
        [g.node("MatMul", "x", name)],
        inputs=[("x", TensorProto.DOUBLE, ["n", WIDTH])],
        kinds=[TensorProto.DOUBLE],
    )
    model = load_model(path, domain=people())
    assert not model.ignores_sensitive
    assert load_model(path, domain=people(), sensitive=["debt"]).ignores_sensitive


def test_raw_numbers_keep_the_weights_of_the_file_bit_by_bit(tmp_path: Path) -> None:
    g = GraphMaker()
    random = np.random.default_rng(6)
    weight, bias = random_layer(random, WIDTH, 6)
    last, end = random_layer(random, 6, 1)
    path = g.save(tmp_path / "m.onnx", [g.gemm(g.node("Relu", g.gemm("x", weight, bias)), last, end)])
    network = load_model(path, domain=people()).network
    order = [0, 1, 3, 2]  # free features first, then the sensitive one
    assert np.array_equal(network.layers[0].weight, weight.T[:, order])
    assert np.array_equal(network.layers[0].bias, bias)
    assert np.array_equal(network.layers[1].weight, last.T)


def test_our_own_model_file_is_read_with_its_domain(tmp_path: Path) -> None:
    table = make_people(120, seed=1)
    who = Domain.infer(table, target="grant", sensitive=["sex"])
    encoding = Encoding.fit(who, table)
    random = np.random.default_rng(0)
    first, last = random.normal(size=(4, encoding.width)), random.normal(size=(1, 4))
    written = FairModel(Network((Layer(first, np.zeros(4)), Layer(last, np.zeros(1)))), encoding)
    written.export_onnx(tmp_path / "model.onnx")
    with pytest.raises(InputError, match=r"domain\.json"):
        load_model(tmp_path / "model.onnx")
    who.save(tmp_path / "domain.json")
    read = load_model(tmp_path / "model.onnx")
    assert np.array_equal(read.predict(table), written.predict(table))
    assert read.domain == who
    other = who.with_sensitive(["race"])
    with pytest.raises(InputError, match="give the domain it was trained with"):
        load_model(tmp_path / "model.onnx", domain=other)


# --- random graphs ---

STEPS = ["Relu", "LeakyRelu", "Clip", "Abs", "HardSigmoid", "Add x", "Add first", "Mul", "Sub", "BatchNormalization",
         "Concat", "Gather", "Max", "Neg", "Gemm", "MatMul"]  # fmt: skip


def random_graph(steps: list[str], seed: int, end: str) -> GraphMaker:
    random = np.random.default_rng(seed)
    g = GraphMaker()
    x = standardised(g)
    value, width, first, first_width = x, WIDTH, x, WIDTH

    def numbers(count: int) -> np.ndarray:
        return random.uniform(0.3, 1.3, count).astype(np.float32)

    for step in steps:
        if step in ("Gemm", "MatMul"):
            after = int(random.integers(2, 6))
            layer = random_layer(random, width, after)
            value, width = (g.gemm if step == "Gemm" else g.dense)(value, *layer), after
            if first is x:
                first, first_width = value, width
        elif step in ("Add x", "Add first"):
            other, size = (x, WIDTH) if step == "Add x" else (first, first_width)
            value = g.node("Add", value, g.gemm(other, *random_layer(random, size, width)))
        elif step == "Concat":
            value, width = g.node("Concat", value, first, axis=1), width + first_width
        elif step == "Gather":
            columns = random.permutation(width)[: max(1, width - 1)]
            value, width = g.node("Gather", value, columns, axis=1), len(columns)
        elif step == "BatchNormalization":
            value = g.node(step, value, *(numbers(width) for _ in range(4)))
        elif step in ("Mul", "Sub"):
            value = g.node(step, value, numbers(width))
        elif step == "Max":
            value = g.node("Max", value, g.gemm(x, *random_layer(random, WIDTH, width)))
        elif step == "Clip":
            value = g.node("Clip", value, np.float32(-0.5), np.float32(0.9))
        else:
            value = g.node(step, value)
    outputs = 3 if end == "Softmax" else 1
    value = g.gemm(value, *random_layer(random, width, outputs))
    g.end = value if end == "logit" else g.node(end, value)  # type: ignore[attr-defined]
    return g


@settings(max_examples=20)
@given(
    steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=7),
    seed=st.integers(0, 2**16),
    end=st.sampled_from(["logit", "Sigmoid", "Softmax"]),
)
def test_random_graphs_decide_as_onnxruntime_does(
    steps: list[str], seed: int, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    g = random_graph(steps, seed, end)
    path = g.save(tmp_path_factory.getbasetemp() / "random.onnx", [g.end])  # type: ignore[attr-defined]
    model = load_model(path, domain=people())  # raises if it differs from onnxruntime
    rows = model.domain.sample(500, seed=seed)
    encoded = model.encoding.encode(rows)
    assert encoded.sensitive is not None
    scores = forward(model.network, np.concatenate([encoded.free, encoded.sensitive], axis=1))
    assert model.original is not None
    shown = model.original.scores(rows)
    assert shown is not None
    if end == "Softmax":
        assert np.allclose(probabilities(scores), shown, atol=1e-4)
    else:
        ours = scores if end == "logit" else 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
        assert np.allclose(ours, shown, atol=1e-3 * (1 + np.abs(shown).max()))
