"""Which output of a graph decides: one rule for networks, trees, graphs whose wires are followed, and black boxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import decision_fuzz
from bornfair import verify
from bornfair.cli import app
from bornfair.core.errors import InputError
from bornfair.models.forest.model import ForestModel
from bornfair.models.graph.model import WiredModel
from bornfair.models.opaque.model import OpaqueModel
from bornfair.models.verdict import Verdict
from bornfair.people.domain import Domain
from bornfair.people.features import IntegerFeature
from bornfair.proof.bundle import FairModel
from bornfair.questions.loading import any_model, load_model

PEOPLE = Domain(
    features=(IntegerFeature(name="age", low=0, high=9), IntegerFeature(name="sex", low=0, high=1)), sensitive=("sex",)
)
ROWS = pd.DataFrame([(age, sex) for age in range(10) for sex in (0, 1)], columns=["age", "sex"])
FLOAT, INT, BOOL, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
Nodes = list[Any]


class Drawn:
    """A graph in the making, over one input [n, 2] or over the columns age and sex."""

    def __init__(self, *, apart: bool = False) -> None:
        self.apart, self.nodes, self.constants = apart, [], []  # type: ignore[var-annotated]
        self.functions: list[Any] = []

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **settings: Any) -> Any:
        made = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, made, domain=domain or None, **settings))
        return made[0] if outputs == 1 else made

    def column(self, name: str) -> str:
        place = ["age", "sex"].index(name)
        return name if self.apart else self.node("Gather", "x", self.const([place], np.int64), axis=1)

    def score(self, weights: Sequence[float] = (1.0, 0.0), bias: float = -4.5) -> str:
        weight = self.const(np.array(weights)[:, None])
        return self.node("Gemm", "x", weight, self.const([bias]))

    def above(self, value: str, at: float, kind: int = BOOL, operator: str = "Greater") -> str:
        found = self.node(operator, value, self.const(at))
        return found if kind == BOOL else self.node("Cast", found, to=kind)

    def save(self, folder: Path, **outputs: tuple[str, int]) -> Path:
        """The file with these outputs by name, in this order."""
        ends = [helper.make_node("Identity", [value], [name]) for name, (value, _) in outputs.items()]
        inputs = [("age", FLOAT, 1), ("sex", TensorProto.DOUBLE, 1)] if self.apart else [("x", FLOAT, 2)]
        graph = helper.make_graph(
            self.nodes + ends, "g", [helper.make_tensor_value_info(n, kind, ["n", width]) for n, kind, width in inputs],
            [helper.make_tensor_value_info(name, kind, None) for name, (_, kind) in outputs.items()], self.constants,
        )  # fmt: skip
        sets = [helper.make_opsetid(*pair) for pair in (("", 18), ("ai.onnx.ml", 3), ("own", 1))]
        path = folder / "m.onnx"
        model = helper.make_model(graph, opset_imports=sets, ir_version=9, functions=self.functions)
        path.write_bytes(model.SerializeToString())
        return path


def executed(path: Path, output: str) -> np.ndarray:
    """What the graph itself gives for everybody."""
    session = onnxruntime.InferenceSession(path.read_bytes())
    rows = ROWS.to_numpy(np.float32)
    apart = {"age": rows[:, :1], "sex": rows[:, 1:].astype(np.float64)}
    feed = {given.name: rows if given.name == "x" else apart[given.name] for given in session.get_inputs()}
    return session.run([output], feed)[0].ravel()


TREES: dict[str, Any] = {
    "nodes_treeids": [0] * 7, "nodes_nodeids": list(range(7)), "nodes_featureids": [0] * 7,
    "nodes_modes": ["BRANCH_LEQ"] * 3 + ["LEAF"] * 4, "nodes_values": [4.5, 2.5, 6.5, 0, 0, 0, 0],
    "nodes_truenodeids": [1, 3, 5, 0, 0, 0, 0], "nodes_falsenodeids": [2, 4, 6, 0, 0, 0, 0],
}  # fmt: skip


def classifier(g: Drawn, weights: Sequence[float] = (0.1, 0.4, 0.6, 0.9), ids: Sequence[int] = (0,)) -> list[str]:
    """Probabilities 0.1, 0.4, 0.6, 0.9 by age."""
    leaves = {
        "class_treeids": [0] * 4 * len(ids), "class_nodeids": [3, 4, 5, 6] * len(ids),
        "class_ids": np.repeat(ids, 4).tolist(), "class_weights": list(weights),
    }  # fmt: skip
    return g.node(
        "TreeEnsembleClassifier", "x", domain="ai.onnx.ml", outputs=2, classlabels_int64s=[0, 1],
        post_transform="NONE", **TREES, **leaves,
    )  # fmt: skip


def last(g: Drawn, scores: str) -> str:
    return g.node("Gather", scores, g.const([1], np.int64), axis=1)


# --- trees ---


@pytest.mark.parametrize("first", ["label", "decision"])
def test_a_decision_beside_the_probabilities_of_trees_is_not_ignored(first: str, tmp_path: Path) -> None:
    g = Drawn()
    label, scores = classifier(g)
    share = g.node("Add", g.node("Mul", g.column("sex"), g.const(0.4)), g.const(0.3))
    decision = g.node("Cast", g.node("Greater", last(g, scores), share), to=INT)
    outputs = {"label": (label, INT), "probabilities": (scores, FLOAT), "decision": (decision, INT)}
    order = [first, *(name for name in outputs if name != first)]
    path = g.save(tmp_path, **{name: outputs[name] for name in order})
    with pytest.raises(InputError, match="the outputs 'label' and 'decision' may decide differently; name the one"):
        any_model(path, domain=PEOPLE)
    verdict = verify(path, PEOPLE, decision_output="decision")
    assert verdict.answer == "falsified"
    truth = executed(path, "decision").reshape(-1, 2)
    model = any_model(path, domain=PEOPLE, decision_output="decision")
    assert model.predict(ROWS).tolist() == truth.ravel().tolist()
    assert model.empirical_fairness(ROWS) == np.mean(truth[:, 0] == truth[:, 1]) < 1
    assert verify(path, PEOPLE, decision_output="label").answer == "verified"


def test_a_threshold_behind_trees_is_not_ignored(tmp_path: Path) -> None:
    """Twins whom the label tells apart need not be told apart at another threshold."""
    g = Drawn()
    trees = TREES | {"nodes_featureids": [1, 0, 0, 0, 0, 0, 0], "nodes_values": [0.5, 4.5, 4.5, 0, 0, 0, 0]}
    z = g.node(
        "TreeEnsembleRegressor", "x", domain="ai.onnx.ml", n_targets=1, **trees, target_treeids=[0] * 4,
        target_nodeids=[3, 4, 5, 6], target_ids=[0] * 4, target_weights=[-1.0, -1.0, 1.0, 1.0],
    )  # fmt: skip
    p = g.node("Sigmoid", z)
    path = g.save(tmp_path, probability=(p, FLOAT), decision=(g.above(p, 0.2), BOOL))
    assert verify(path, PEOPLE, decision_output="probability").answer == "falsified"
    assert verify(path, PEOPLE, decision_output="decision").answer == "undecided"
    with pytest.raises(InputError, match="'decision' is computed from its trees in a way that is not supported"):
        load_model(path, domain=PEOPLE)


def test_a_second_sigmoid_behind_trees_is_not_taken_for_the_first(tmp_path: Path) -> None:
    g = Drawn()
    z = g.node(
        "TreeEnsembleRegressor", "x", domain="ai.onnx.ml", n_targets=1, **TREES, target_treeids=[0] * 4,
        target_nodeids=[3, 4, 5, 6], target_ids=[0] * 4, target_weights=[-2.0, -1.0, 1.0, 2.0],
        post_transform="LOGISTIC",
    )  # fmt: skip
    path = g.save(tmp_path, y=(g.node("Sigmoid", z), FLOAT))  # above a half for everybody
    with pytest.raises(InputError, match="output 'y' is computed from its trees in a way that is not supported"):
        load_model(path, domain=PEOPLE)


def test_two_scores_for_two_classes_of_trees_are_not_compared(tmp_path: Path) -> None:
    """onnxruntime decides by the sign of the second score."""
    g = Drawn()
    label, _ = classifier(g, [0.9, 0.9, 0.9, 0.9, 0.5, 0.5, -0.5, -0.5], ids=(0, 1))
    path = g.save(tmp_path, label=(label, INT))
    assert executed(path, "label").tolist() == [1] * 10 + [0] * 10
    with pytest.raises(InputError, match="gives two classes a score each, which is not supported"):
        load_model(path, domain=PEOPLE)
    assert any_model(path, domain=PEOPLE).predict(ROWS).tolist() == [1] * 10 + [0] * 10


def test_the_outputs_of_tree_exports_still_belong_together(tmp_path: Path) -> None:
    g = Drawn()
    label, scores = classifier(g)
    again = g.node("Cast", label, to=FLOAT)
    normed = g.node("Normalizer", scores, domain="ai.onnx.ml", norm="L1")
    path = g.save(tmp_path, scores=(scores, FLOAT), label=(label, INT), again=(again, FLOAT), p=(normed, FLOAT))
    model = load_model(path, domain=PEOPLE)
    assert isinstance(model, ForestModel)
    assert model.predict(ROWS).tolist() == executed(path, "label").tolist() == [0] * 10 + [1] * 10


# --- networks ---


def test_a_label_and_another_decision_of_a_network_are_not_chosen_from(tmp_path: Path) -> None:
    g = Drawn()
    p = g.node("Sigmoid", g.score((1.0, 1.0)))
    outputs = {"label": (g.above(p, 0.5, INT), INT), "decision": (g.above(p, 0.2, FLOAT), FLOAT)}
    path = g.save(tmp_path, **outputs)
    with pytest.raises(InputError, match=r"'label' and 'decision' may decide differently.*\(--decision-output\)"):
        load_model(path, domain=PEOPLE)
    for name in outputs:
        model = load_model(path, domain=PEOPLE, decision_output=name)
        assert isinstance(model, FairModel)
        assert model.predict(ROWS).astype(float).tolist() == executed(path, name).astype(float).tolist()
        assert model.note == f"read as asked: decision output {name}"


UNREAD = {
    "from a column": lambda g, p: g.above(g.column("sex"), 1.0, operator="Equal"),
    "by And": lambda g, p: g.node("And", g.above(g.column("sex"), 0.5), g.above(p, 0.5)),
    "by an operator that is not read": lambda g, p: g.above(g.node("Erf", p), 0.3),
    "in a body": lambda g, p: g.above(body(g, g.column("sex")), 0.5),
    "by a function": lambda g, p: g.above(function(g, p, g.column("sex")), 0.5),
    "by rounding": lambda g, p: g.node("Cast", p, to=BOOL),
}

OF_THE_SCORE = ("by an operator that is not read", "by rounding")


def body(g: Drawn, column: str) -> str:
    """A branch that is always taken reads a column from around it."""
    branches = [
        helper.make_graph([helper.make_node(operator, [column], [name])], name, [],
                          [helper.make_tensor_value_info(name, FLOAT, None)])
        for operator, name in (("Identity", "then"), ("Neg", "else"))
    ]  # fmt: skip
    return g.node("If", g.const(True, np.bool_), then_branch=branches[0], else_branch=branches[1])


def function(g: Drawn, one: str, other: str) -> str:
    g.functions = [
        helper.make_function("own", "Mixed", ["p", "q"], ["r"], [helper.make_node("Mul", ["p", "q"], ["r"])],
                             [helper.make_opsetid("", 18)])
    ]  # fmt: skip
    return g.node("Mixed", one, other, domain="own")


@pytest.mark.parametrize("how", UNREAD)
@pytest.mark.parametrize("beside", ["label", "probabilities"])
def test_an_output_that_is_not_read_may_be_the_decision(how: str, beside: str, tmp_path: Path) -> None:
    g = Drawn()
    p = g.node("Sigmoid", g.score())
    shown = (g.above(p, 0.5, INT), INT) if beside == "label" else (p, FLOAT)
    path = g.save(tmp_path, shown=shown, decision=(UNREAD[how](g, p), BOOL))
    if beside == "probabilities" and how in OF_THE_SCORE:
        assert any_model(path, domain=PEOPLE).predict(ROWS).tolist() == executed(path, "decision").tolist()
    else:
        with pytest.raises(InputError, match=r"'shown' and 'decision' may decide|'decision' and 'shown' may decide"):
            any_model(path, domain=PEOPLE)
    model = any_model(path, domain=PEOPLE, decision_output="decision")
    assert model.predict(ROWS).tolist() == executed(path, "decision").tolist()
    unfair = len(set(zip(*executed(path, "decision").reshape(-1, 2).T.tolist(), strict=True)) - {(0, 0), (1, 1)}) > 0
    assert verify(path, PEOPLE, decision_output="decision", timeout=5).answer == (
        "falsified" if unfair else "undecided"
    )
    assert verify(path, PEOPLE, decision_output="shown").answer == "verified"


def test_scores_that_do_not_belong_to_a_label_may_decide(tmp_path: Path) -> None:
    g = Drawn()
    label = g.above(g.score(), 0.0, INT)
    other = g.node("Sigmoid", g.score((0.0, 1.0), -0.5))
    path = g.save(tmp_path, label=(label, INT), other=(other, FLOAT))
    with pytest.raises(InputError, match="'label' and 'other' may decide differently"):
        any_model(path, domain=PEOPLE)
    assert verify(path, PEOPLE, decision_output="other").answer == "falsified"
    assert verify(path, PEOPLE, decision_output="label").answer == "verified"


TOGETHER = {
    "logits and probabilities": lambda g, z: {"z": (z, FLOAT), "p": (g.node("Sigmoid", z), FLOAT)},
    "a label at another threshold": lambda g, z: {
        "p": (g.node("Sigmoid", z), FLOAT), "label": (g.above(g.node("Sigmoid", z), 0.2), BOOL)
    },
    "one label in two types": lambda g, z: {"one": (g.above(z, 0.0, INT), INT), "two": (g.above(z, 0.0, FLOAT), FLOAT)},
    "one label by two operators": lambda g, z: {
        "one": (g.above(z, 0.0), BOOL), "two": (g.above(g.node("Sigmoid", z), 0.5, INT), INT)
    },
    "a temperature": lambda g, z: {
        "label": (g.above(z, 0.0, INT), INT),
        "p": (g.node("Sigmoid", g.node("Div", z, g.const(3.0))), FLOAT),
    },
    "a flat label": lambda g, z: {
        "label": (g.node("Reshape", g.above(z, 0.0, FLOAT), g.const([-1], np.int64)), FLOAT), "z": (z, FLOAT)
    },
    "a constant": lambda g, z: {"version": (g.const([3.0]), FLOAT), "p": (g.node("Sigmoid", z), FLOAT)},
}  # fmt: skip


@pytest.mark.parametrize("how", TOGETHER)
@pytest.mark.parametrize("reverse", [False, True])
def test_outputs_that_make_one_decision_are_read(how: str, reverse: bool, tmp_path: Path) -> None:
    g = Drawn()
    outputs = TOGETHER[how](g, g.score((1.0, 1.0)))
    path = g.save(tmp_path, **dict(reversed(outputs.items()) if reverse else outputs.items()))
    model = load_model(path, domain=PEOPLE)
    assert isinstance(model, FairModel)
    decides = next(name for name in ("label", "one", "p") if name in outputs)
    found = executed(path, decides)
    assert model.predict(ROWS).astype(int).tolist() == (found > 0.5 if decides == "p" else found).astype(int).tolist()
    assert verify(path, PEOPLE).answer == "falsified"


def test_two_names_for_one_class_are_not_chosen_from(tmp_path: Path) -> None:
    g = Drawn()
    approved = g.above(g.score((1.0, 1.0)), 0.0)
    path = g.save(tmp_path, approved=(approved, BOOL), declined=(g.node("Not", approved), BOOL))
    with pytest.raises(InputError, match="'approved' and 'declined' may decide differently"):
        load_model(path, domain=PEOPLE)
    model = load_model(path, domain=PEOPLE, decision_output="declined")
    assert model.predict(ROWS).tolist() == executed(path, "declined").tolist()


def test_a_threshold_applies_to_scores_and_names_classes_as_the_label_does(tmp_path: Path) -> None:
    g = Drawn()
    p = g.node("Sigmoid", g.score((1.0, 1.0)))
    path = g.save(tmp_path, declined=(g.above(p, 0.5, operator="Less"), BOOL), p=(p, FLOAT))
    for threshold in ("False=0.9", "True=0.1"):
        model = load_model(path, domain=PEOPLE, threshold=threshold)
        assert model.predict(ROWS).tolist() == (executed(path, "p") <= 0.9).tolist()
    for threshold in (0.9, "True=0.9"):  # without a name, it is for the positive class
        declined = load_model(path, domain=PEOPLE, threshold=threshold).predict(ROWS).tolist()
        assert declined == (executed(path, "p") < 0.1).tolist()
    top = load_model(path, domain=PEOPLE, table=ROWS, threshold="True=top 15%")
    assert top.predict(ROWS).tolist() == (executed(path, "p") <= np.sort(executed(path, "p"))[2]).tolist()
    with pytest.raises(InputError, match="output 'declined' is a label, which decides itself; leave decision and thre"):
        load_model(path, domain=PEOPLE, threshold=0.9, decision_output="declined")


def test_a_threshold_for_two_scores_needs_the_name_of_one(tmp_path: Path) -> None:
    g = Drawn()
    z = g.score((1.0, 1.0))
    path = g.save(tmp_path, z=(z, FLOAT), p=(g.node("Sigmoid", z), FLOAT))
    with pytest.raises(InputError, match="'z' and 'p' may decide differently"):
        load_model(path, domain=PEOPLE, threshold=0.9)
    for name in ("z", "p"):
        model = load_model(path, domain=PEOPLE, threshold=0.9, decision_output=name)
        assert model.predict(ROWS).tolist() == (executed(path, name) > 0.9).astype(int).tolist()


def test_labels_that_merge_classes_are_refused(tmp_path: Path) -> None:
    g = Drawn()
    place = g.node("Cast", g.above(g.score(), 0.0), to=INT)
    path = g.save(tmp_path, label=(g.node("Gather", g.const(["same", "same"], object), place), TEXT))
    with pytest.raises(InputError, match="calls two of its classes the same, 'same', 'same'"):
        load_model(path, domain=PEOPLE)


def test_probabilities_beside_a_label_at_another_threshold_are_compared(tmp_path: Path) -> None:
    g = Drawn()
    p = g.node("Sigmoid", g.score((1.0, 0.25)))
    path = g.save(tmp_path, label=(g.above(p, 0.2, INT), INT), p=(p, FLOAT))
    model = load_model(path, domain=PEOPLE)
    assert model.original is not None and model.original.scores(ROWS) is not None
    assert model.original.largest_difference is not None and model.original.largest_difference < 1e-6


def test_probabilities_beside_a_label_of_shifted_scores_are_not_compared(tmp_path: Path) -> None:
    g = Drawn()
    z = g.node("Gemm", "x", g.const([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0]]), g.const([-5.0, 0.0, 5.0]))
    shifted = g.node("Sub", z, g.const([0.0, 1.0, 2.0]))
    label = g.node("ArgMax", shifted, axis=1, keepdims=0)
    path = g.save(tmp_path, label=(label, INT), p=(g.node("Softmax", z, axis=1), FLOAT))
    model = load_model(path, domain=PEOPLE)
    assert model.original is not None and model.original.scores(ROWS) is None
    assert model.predict(ROWS).tolist() == executed(path, "label").tolist()


@pytest.mark.parametrize(("at", "arithmetic"), [(0.0, ("real", "float32")), (0.5, ("real",))])
def test_float32_is_claimed_for_sums_that_are_compared_with_zero(at: float, arithmetic: Any, tmp_path: Path) -> None:
    g = Drawn()
    path = g.save(tmp_path, label=(g.above(g.score((1.0, 1e-3), -4.25), at), BOOL))
    verdict = verify(path, PEOPLE)
    assert (verdict.answer, verdict.arithmetic) == ("verified", arithmetic)


# --- wires and black boxes ---


def test_all_outputs_of_a_graph_whose_wires_are_followed_may_decide(tmp_path: Path) -> None:
    g = Drawn(apart=True)
    p = g.node("Softmax", g.node("Concat", g.node("Sin", "age"), g.node("Cos", "age"), axis=1), axis=1)
    condition = g.node("And", g.node("Equal", "sex", g.const([[1]], np.float64)), g.above("age", 4.0))
    path = g.save(tmp_path, decision=(condition, BOOL), probabilities=(p, FLOAT))
    with pytest.raises(InputError, match="'decision' and 'probabilities' may decide differently"):
        any_model(path, domain=PEOPLE)
    assert verify(path, PEOPLE, decision_output="decision").answer == "falsified"
    assert isinstance(any_model(path, domain=PEOPLE, decision_output="probabilities"), WiredModel)
    assert verify(path, PEOPLE, decision_output="probabilities").answer == "verified"


def test_a_graph_whose_wires_are_followed_decides_by_its_label(tmp_path: Path) -> None:
    g = Drawn(apart=True)
    p = g.node("Sigmoid", g.node("Sin", "age"))
    label = g.node("Reshape", g.above(p, 0.625, INT), g.const([-1], np.int64))
    path = g.save(tmp_path, probabilities=(p, FLOAT), label=(label, INT))
    model = any_model(path, domain=PEOPLE)
    assert isinstance(model, WiredModel) and model.unclear() is None
    assert model.predict(ROWS).tolist() == executed(path, "label").tolist()
    assert executed(path, "label").tolist() != (executed(path, "probabilities") > 0.5).tolist()


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("first", ["decision", "probabilities"])
def test_a_float_decision_of_a_black_box_is_not_taken_for_scores(flat: bool, first: str, tmp_path: Path) -> None:
    g = Drawn()
    p = g.node("Sigmoid", g.node("Sin", g.score((1.0, 1.0))))
    decision = g.above(p, 0.3, FLOAT)
    decision = g.node("Reshape", decision, g.const([-1], np.int64)) if flat else decision
    outputs = {"probabilities": (p, FLOAT), "decision": (decision, FLOAT)}
    order = sorted(outputs, key=lambda name: name != first)
    path = g.save(tmp_path, **{name: outputs[name] for name in order})
    model = any_model(path, domain=PEOPLE)
    assert isinstance(model, OpaqueModel) and model.shows_scores
    assert model.predict(ROWS).tolist() == executed(path, "decision").tolist()
    moved = any_model(path, domain=PEOPLE, threshold=0.6)
    assert moved.predict(ROWS).tolist() == (executed(path, "probabilities") > 0.6).astype(int).tolist()


def test_a_black_box_of_several_decisions_asks_for_one(tmp_path: Path) -> None:
    g = Drawn()
    p = g.node("Sigmoid", g.node("Sin", g.score((1.0, 1.0))))
    path = g.save(tmp_path, label=(g.above(p, 0.5, INT), INT), decision=(g.above(p, 0.2, FLOAT), FLOAT))
    with pytest.raises(InputError, match="'label' and 'decision' may decide differently"):
        any_model(path, domain=PEOPLE, opaque=True)
    for name in ("label", "decision"):
        model = any_model(path, domain=PEOPLE, opaque=True, decision_output=name)
        assert model.predict(ROWS).tolist() == executed(path, name).tolist()


# --- the option ---


def test_the_output_is_named_on_the_command_line(tmp_path: Path) -> None:
    g = Drawn()
    p = g.node("Sigmoid", g.score((1.0, 1.0)))
    path = g.save(tmp_path, label=(g.above(p, 0.5, INT), INT), decision=(g.above(g.score(), 0.0, FLOAT), FLOAT))
    domain = tmp_path / "domain.json"
    domain.write_text(PEOPLE.text())
    run = CliRunner().invoke
    refused = run(app, ["verify", str(path), "--domain", str(domain)])
    assert isinstance(refused.exception, InputError) and "--decision-output" in str(refused.exception)
    for name, status in (("label", 1), ("decision", 0)):
        found = run(app, ["verify", str(path), "--domain", str(domain), "--decision-output", name])
        assert found.exit_code == status
    for command in ("audit", "quantify", "explain", "repair"):
        assert "--decision-output" in run(app, [command, "--help"], terminal_width=200).stdout


def test_names_that_fit_no_output_are_refused(tmp_path: Path) -> None:
    g = Drawn()
    path = g.save(tmp_path, constant=(g.const([1.0]), FLOAT), p=(g.node("Sigmoid", g.score()), FLOAT))
    with pytest.raises(InputError, match="has no output 'other'; decision_output must be one of 'constant', 'p'"):
        load_model(path, domain=PEOPLE, decision_output="other")
    with pytest.raises(InputError, match="output 'constant' does not depend on the input; decision_output must be one"):
        load_model(path, domain=PEOPLE, decision_output="constant")

    def rule(people: pd.DataFrame) -> Any:
        return people["age"] > 5

    with pytest.raises(InputError, match="has no outputs to choose from; leave decision_output"):
        any_model(rule, domain=PEOPLE, decision_output="p")
    (tmp_path / "m.nnet").write_text("")
    with pytest.raises(InputError, match="has no outputs to choose from; leave decision_output"):
        load_model(tmp_path / "m.nnet", domain=PEOPLE, decision_output="p")


# --- the fuzzer ---


def test_random_graphs_are_judged_by_their_own_decision() -> None:
    found = decision_fuzz.run(20, seed=15)
    assert found.wrong == []
    said = {what.split()[0]: 0 for what in found.outcomes}
    for what, count in found.outcomes.items():
        said[what.split()[0]] += count
    assert min(said[what] for what in ("verified", "falsified", "undecided", "refused")) >= 3


def test_the_judge_of_random_graphs_notices_false_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Verdict("verified", "bounds", "bounds", ("real",), "so it says")
    monkeypatch.setattr(decision_fuzz, "verify", lambda *_, **__: said)
    assert any("verified, but" in problem for problem in decision_fuzz.run(40, seed=3).wrong)
    person = {"a": 0, "b": 0, "s": 0}
    said = Verdict("falsified", "none", "attack", ("float32",), "so it says", twins=[person, person], decisions=[0, 1])
    monkeypatch.setattr(decision_fuzz, "verify", lambda *_, **__: said)
    assert any("who both get" in problem for problem in decision_fuzz.run(40, seed=3).wrong)
