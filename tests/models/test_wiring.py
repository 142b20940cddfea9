"""No path from what differs between twins to an output: the product and the checker tell it from the wires alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from bornfair.models.graph.model import WiredModel
from bornfair.models.graph.wiring import Unclear, follow
from bornfair.people.domain import Domain
from bornfair.people.features import Label, RealFeature
from bornfair.proof import checker
from wiring_fuzz import Plan, judged, run, written

DOMAIN = Domain(
    features=tuple(RealFeature(name=name, low=0.0, high=1.0) for name in ("a", "s")),
    sensitive=("s",),
    label=Label(name="y", classes=(0, 1)),
)
HEAD = '<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3, "own" : 1, "com.microsoft" : 1, "strange" : 1]>'
INPUTS = "double[rows, 1] a, double[rows, 1] s"


def graph(nodes: str, *, outputs: str = "double[rows, 1] y", more: str = "") -> onnx.ModelProto:
    model = parser.parse_model(f"{HEAD}\ng ({INPUTS}) => ({outputs}) {{ {nodes} }}\n{more}")
    helper.set_model_props(model, {checker.WIRED: "{}"})
    return model


def both(model: onnx.ModelProto) -> tuple[str, str]:
    """What the product and the checker have against it; empty where nothing."""
    content = model.SerializeToString()
    people = checker.Individuals(checker.parse_json(DOMAIN.text().encode(), "domain.json"))
    try:
        assert checker.prove_wiring(checker.read_wiring(content, people), people) == {"executed"}
        rejected = ""
    except checker.Rejected as error:
        rejected = str(error)
    return WiredModel(content, DOMAIN).unclear() or "", rejected


FUNCTION = '<domain: "own", opset_import: ["" : 18]> F (x) => (z) { z = %s }'
ACCEPTED = {
    "an operator": "y = Relu(a)",
    "read for nothing": "t = Tanh(s) u = Add(t, a) y = Relu(a)",
    "a body": "c = Constant<value: tensor = bool {1}>() y = If(c)<then_branch = g1 () => (double[rows,1] q) "
    "{ q = Neg(a) }, else_branch = g2 () => (double[rows,1] q) { q = Abs(a) }>",
    "an operator of onnxruntime": "y = com.microsoft.Gelu(a)",
    "an idle dropout": "y = Dropout(a)",
}
REFUSED = {
    "a path": ("t = Tanh(s) y = Add(t, a)", "depends on 's'"),
    "a path through a body": (
        "c = Constant<value: tensor = bool {1}>() y = If(c)<then_branch = g1 () => (double[rows,1] q) { q = Neg(a) }, "
        "else_branch = g2 () => (double[rows,1] q) { q = Abs(s) }>",
        "'s'",
    ),
    "a body that returns what is around it": (
        "c = Constant<value: tensor = bool {1}>() y = If(c)<then_branch = g1 () => (double[rows,1] q) { q = Neg(a) }, "
        "else_branch = g2 () => (double[rows,1] s) { q = Abs(a) }>",
        "'s'",
    ),
    "a stop": ("t = ai.onnx.ml.OneHotEncoder<cats_int64s = [1], zeros = 0>(s) y = Relu(a)", "stop"),
    "chance": ("t = RandomNormalLike(a) y = Add(t, a)", "random"),
    "chance in a body": (
        "c = Constant<value: tensor = bool {1}>() y = If(c)<then_branch = g1 () => (double[rows,1] q) { q = Neg(a) }, "
        "else_branch = g2 () => (double[rows,1] q) { q = Bernoulli(a) }>",
        "random",
    ),
    "a dropout that may train": ("c = Constant<value: tensor = bool {1}>() y = Dropout(a, , c)", "random"),
    "an unknown domain": ("y = strange.Oracle(a)", "not known"),
    "an unknown operator of onnxruntime": ("y = com.microsoft.BitmaskDropout(a)", "not known"),
    "a name twice": ("t = Tanh(s) t = Tanh(a) y = Relu(t)", "twice"),
    "a cycle": ("t = Add(u, a) u = Relu(t) y = Relu(u)", "before it"),
    "an order that hides": ("y = Relu(t) t = Tanh(s)", "before it"),
    "a body that hides a name": (
        "t = Tanh(a) c = Constant<value: tensor = bool {1}>() y = If(c)"
        "<then_branch = g1 () => (double[rows,1] t) { t = Neg(a) }, else_branch = g2 () => (double[rows,1] q) "
        "{ q = Abs(a) }>",
        "hides",
    ),
    "a body that hides a later name": (
        "c = Constant<value: tensor = bool {1}>() y = If(c)"
        "<then_branch = g1 () => (double[rows,1] t) { t = Neg(a) }, else_branch = g2 () => (double[rows,1] q) "
        "{ q = Abs(a) }> t = Tanh(a)",
        "hides",
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_no_path_is_no_path(case: str) -> None:
    assert both(graph(ACCEPTED[case])) == ("", "")


@pytest.mark.parametrize("case", REFUSED)
def test_paths_and_what_could_hide_one_are_refused(case: str) -> None:
    nodes, word = REFUSED[case]
    for said in both(graph(nodes)):
        assert word in said, said


def test_functions_hand_on_what_they_are_given_and_see_nothing_else() -> None:
    assert both(graph("y = own.F(a)", more=FUNCTION % "Tanh(x)")) == ("", "")
    for nodes, body, word in (
        ("y = own.F(s)", "Tanh(x)", "'s'"),
        ("y = own.F(a)", "RandomNormalLike(x)", "random"),
        ("y = own.F(a)", "Add(x, s)", "before it"),
    ):
        for said in both(graph(nodes, more=FUNCTION % body)):
            assert word in said, said
    stolen = (FUNCTION % "Tanh(x)").replace('"own"', '"ai.onnx.ml"').replace(" F ", " LabelEncoder ")
    for said in both(graph("y = Relu(a)", more=stolen)):
        assert "takes the place" in said


def edited(change: Callable[[onnx.ModelProto], None]) -> onnx.ModelProto:
    model = graph("t = Tanh(a) y = Relu(t)")
    change(model)
    return model


def _constant(model: onnx.ModelProto, name: str) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 1)), name))


HOSTILE: dict[str, Callable[[onnx.ModelProto], None]] = {
    "a constant that a caller may replace": lambda model: _constant(model, "a"),
    "a constant with the name of an output": lambda model: _constant(model, "y"),
    "an output that is an input": lambda model: setattr(model.graph.output[0], "name", "s"),
    "an output twice": lambda model: model.graph.output.append(model.graph.output[0]),
    "an output that nothing makes": lambda model: setattr(model.graph.output[0], "name", "nothing"),
    "an input twice": lambda model: model.graph.input.append(model.graph.input[1]),
    "operators of tomorrow": lambda model: setattr(model.opset_import[0], "version", 99),
    "versions twice": lambda model: model.opset_import.append(helper.make_opsetid("ai.onnx", 18)),
    "a referred attribute": lambda model: model.graph.node[0].attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="beta", type=1)
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_graphs_are_refused(case: str) -> None:
    assert both(edited(lambda model: None)) == ("", "")
    product, rejected = both(edited(HOSTILE[case]))
    assert product and rejected


def test_the_checker_refuses_what_it_does_not_know_of_a_file() -> None:
    people = checker.Individuals(checker.parse_json(DOMAIN.text().encode(), "domain.json"))
    outside = edited(lambda model: _constant(model, "far"))
    outside.graph.initializer[0].external_data.append(onnx.StringStringEntryProto(key="location", value="w.bin"))
    training = edited(lambda model: model.training_info.add())
    for model in (outside, training):
        with pytest.raises(checker.Rejected, match="not understood"):
            checker.read_wiring(model.SerializeToString(), people)
    content = edited(lambda model: None).SerializeToString()
    for wrong in (content[:-3], content + b"\x3a\x00"):  # cut off; a second graph, which others would merge
        with pytest.raises(checker.Rejected):
            checker.read_wiring(wrong, people)


def test_lists_of_numbers_are_passed_over() -> None:
    model = edited(lambda model: None)
    node = model.graph.node[0]
    node.attribute.append(helper.make_attribute("floats", np.arange(3000.0).tolist()))
    node.attribute.append(helper.make_attribute("ints", list(range(-5, 3000))))
    node.attribute.append(helper.make_attribute("strings", ["text"] * 300))
    model.graph.value_info.append(helper.make_tensor_value_info("t", TensorProto.DOUBLE, [None, 1]))
    model.graph.doc_string = "long"
    assert both(model) == ("", "")


def test_sparse_constants_are_names_like_others() -> None:
    model = edited(lambda model: None)
    sparse = model.graph.sparse_initializer.add()
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1), "a"))
    product, rejected = both(model)
    assert "twice" in product and "twice" in rejected


def test_random_rewirings_are_told_as_planned() -> None:
    found = run(26, 4)
    assert found.wrong == []
    assert found.outcomes["rejected with bodies"] > 5 and found.outcomes["accepted with bodies"] > 15


def test_what_is_relied_on_is_said_where_it_is_unclear() -> None:
    with pytest.raises(Unclear, match="output 'y' depends on 'the sex'"):
        follow(graph("y = Add(a, s)"), {"s": "the sex"})


MERGED = [Plan("orbit", ["c"], "orbit of c"), Plan("Cast", ["orbit of c"], "number of c")]
MIRRORED = [Plan("mirror", ["m"], "less m"), Plan("mirror", ["less m"], "m again")]


@pytest.mark.parametrize(
    ("nodes", "clean"),
    [
        ([*MERGED, Plan("Neg", ["number of c"], "v")], True),
        ([Plan("table", ["c"], "each"), Plan("Cast", ["each"], "v")], False),
        ([*MIRRORED, Plan("Min", ["m again", "less m"], "v")], True),
        ([*MIRRORED, Plan("Max", ["less m", "m again"], "v")], True),
        ([*MIRRORED, Plan("Max", ["m", "less m"], "v")], False),  # −0.0 would differ from its twin's 0.0
        ([*MIRRORED, Plan("Max", ["m again", "s"], "v")], False),
        ([*MIRRORED, Plan("Min", ["a", "less m"], "v")], False),
        ([*MIRRORED, Plan("Add", ["less m", "m again"], "v")], False),
        ([Plan("mirror", ["s"], "p"), Plan("mirror", ["p"], "q"), Plan("Min", ["p", "q"], "v")], False),
    ],
)  # fmt: skip
def test_what_rules_exchange_passes_only_where_twins_are_one(nodes: list[Plan], clean: bool) -> None:
    assert judged(written(nodes, ["v"])) == (clean, clean)


def test_a_mirror_with_another_total_is_none() -> None:
    content = written([*MIRRORED, Plan("Min", ["m again", "less m"], "v")], ["v"])
    for value in (1.0, -0.0):
        model = onnx.load_from_string(content)
        total = next(tensor for tensor in model.graph.initializer if tensor.name == "total")
        total.CopyFrom(numpy_helper.from_array(np.array([[value]]), "total"))
        assert judged(model.SerializeToString()) == (False, False)
