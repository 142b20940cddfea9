"""Trees in ONNX graphs: all three operators and all their comparisons, decided as onnxruntime decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import convert_sklearn, to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from bornfair import Domain
from bornfair.core.errors import InputError
from bornfair.importers.tree_source import people_at_thresholds
from bornfair.models.forest.model import ForestModel
from bornfair.people.features import BooleanFeature, RealFeature
from bornfair.questions.loading import load_model

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({
    "wage": RNG.normal(size=400).round(1), "age": RNG.integers(0, 9, 400), "job": RNG.choice(list("xyz"), 400),
    "sex": RNG.choice(["f", "m"], 400),
})  # fmt: skip
NUMBERS = TABLE.assign(job=TABLE.job.map(ord), sex=(TABLE.sex == "f").astype(int))
SCORE = TABLE.age / 3 + (TABLE.sex == "m") + RNG.normal(size=400)
TWO, THREE = (SCORE > 2).astype(int), SCORE.clip(0, 2.9).astype(int)
WHO = Domain(
    features=(*(RealFeature(name=f"x{i}", low=-2.0, high=2.0) for i in range(3)), BooleanFeature(name="s")),
    sensitive=("s",),
)


def read(content: bytes, folder: Path, **asking: Any) -> ForestModel:
    path = folder / "m.onnx"
    path.write_bytes(content)
    found = load_model(path, **asking)
    assert isinstance(found, ForestModel) and found.original is not None
    return found


def agrees(model: ForestModel, count: int = 2_000) -> None:
    assert model.original is not None and model.original.largest_difference == 0 and model.covers_execution
    assert model.forest.summation.in_order == (
        model.forest.trees == 1
    )  # who is asked about alone is added up otherwise
    rows = pd.concat([model.domain.sample(count, seed=3), people_at_thresholds(model, count, seed=4)])
    assert np.array_equal(model.raw_scores(rows).astype(np.float32), model.original.scores(rows))
    assert np.array_equal(model.forest.decide(model.raw_scores(rows)), model.original.decide(rows))


def exported(convert: Any, *given: Any, **options: Any) -> bytes:
    try:
        return convert(*given, **options).SerializeToString()
    except ValueError:  # "Expected an int, got a boolean"
        pytest.skip("this skl2onnx cannot export trees with this protobuf")


@pytest.mark.parametrize("answers", [TWO, THREE])
@pytest.mark.parametrize("end", [RandomForestClassifier(9), GradientBoostingClassifier(n_estimators=9)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_exports_of_scikit_learn_decide_alike(end, answers, kind, tmp_path):
    rows = NUMBERS.to_numpy().astype(kind)
    graph = exported(to_onnx, end.fit(rows, answers), rows[:1], options={"zipmap": False})
    agrees(read(graph, tmp_path, table=NUMBERS, sensitive=["sex"]))


def test_a_pipeline_with_encoders_takes_raw_columns(tmp_path):
    parts = make_column_transformer(
        (StandardScaler(), ["wage", "age"]), (OneHotEncoder(), ["job"]), (OrdinalEncoder(), ["sex"])
    )
    fitted = make_pipeline(parts, RandomForestClassifier(9)).fit(TABLE, TWO)
    types = [(name, (FloatTensorType if name in ("wage", "age") else StringTensorType)([None, 1])) for name in TABLE]
    graph = exported(convert_sklearn, fitted, initial_types=types)
    model = read(graph, tmp_path, table=TABLE, sensitive=["sex"])
    agrees(model)
    assert model.features_read == {"wage", "age", "job", "sex"}


def graph_of(operator: str, ends: tuple[str, ...] = (), **attributes: Any) -> bytes:
    nodes = [helper.make_node(operator, ["x"], ["score"], domain="ai.onnx.ml", **attributes)]
    last = "score"
    for i, end in enumerate(ends):
        nodes.append(helper.make_node(end, [last], [f"end{i}"], **({"axis": 1} if end == "ArgMax" else {})))
        last = f"end{i}"
    kind = TensorProto.INT64 if "ArgMax" in ends else TensorProto.FLOAT
    given, shown = (
        helper.make_tensor_value_info(n, k, [None, w]) for n, k, w in (("x", TensorProto.FLOAT, 4), (last, kind, None))
    )
    made = helper.make_graph(nodes, "trees", [given], [shown])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5 if operator == "TreeEnsemble" else 3)]
    return helper.make_model(made, opset_imports=imports, ir_version=9).SerializeToString()


def regressor(mode: str, **changes: Any) -> dict[str, Any]:
    """A tree that compares x0, then x3, and a stump of x1."""
    return {
        "n_targets": 1, "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1], "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 0, 3, 0, 0, 1, 0, 0], "nodes_values": [0.5, 0, 0.5, 0, 0, 0.25, 0, 0],
        "nodes_modes": [mode, "LEAF", mode, "LEAF", "LEAF", mode, "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0], "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0], "target_treeids": [0, 0, 0, 1, 1],
        "target_nodeids": [1, 3, 4, 1, 2], "target_ids": [0] * 5, "target_weights": [0.3, -0.9, 1.7, -0.4, 0.2],
        "base_values": [0.1],
    } | changes  # fmt: skip


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
def test_every_comparison_with_ties_and_gaps(mode, tmp_path):
    model = read(graph_of("TreeEnsembleRegressor", ("Sigmoid",), **regressor(mode)), tmp_path, domain=WHO)
    assert model.original is not None
    grid = np.array([np.nan, -1.0, 0.25, np.nextafter(np.float32(0.25), np.float32(1)), 0.5, 0.50000001, 0.6])
    rows = pd.DataFrame([(a, b, 0.0, s) for a in grid for b in grid for s in (0.0, 1.0)], columns=WHO.names)
    assert np.array_equal(model.raw_scores(rows), model.original.scores(rows))
    assert len(np.unique(model.raw_scores(rows))) > 3


def test_averages_logistic_and_several_targets(tmp_path):
    mean = regressor("BRANCH_LEQ", aggregate_function="AVERAGE", post_transform="LOGISTIC")
    model = read(graph_of("TreeEnsembleRegressor", **mean), tmp_path, domain=WHO)
    assert model.original is not None
    rows = WHO.sample(500, seed=1)
    assert np.array_equal(model.raw_scores(rows), model.original.scores(rows))
    targets = regressor("BRANCH_LEQ", n_targets=3, target_ids=[0, 1, 2, 1, 2], base_values=[0.0, 0.0, 0.0])
    several = read(graph_of("TreeEnsembleRegressor", ("ArgMax",), **targets), tmp_path, domain=WHO)
    assert several.forest.outputs == 3 and several.original is not None
    assert np.array_equal(several.forest.decide(several.raw_scores(rows)), several.original.decide(rows))


def test_a_bare_number_asks_what_it_is(tmp_path):
    content = graph_of("TreeEnsembleRegressor", **regressor("BRANCH_LEQ"))
    with pytest.raises(InputError, match="cannot be told where that decides"):
        read(content, tmp_path, domain=WHO)
    at = {kind: read(content, tmp_path, domain=WHO, decision=kind).forest.cut.at for kind in ("logit", "probability")}
    assert at == {"logit": 0.0, "probability": 0.5}


def ensemble(**changes: Any) -> dict[str, Any]:
    def tensor(values: Any, kind: Any) -> Any:
        return numpy_helper.from_array(np.array(values, kind))

    return {
        "n_targets": 1, "aggregate_function": 1, "post_transform": 0, "tree_roots": [0, 2],
        "nodes_modes": tensor([0, 3, 1], np.uint8), "nodes_featureids": [0, 3, 1],
        "nodes_splits": tensor([0.5, 0.5, 0.25], np.float32), "nodes_truenodeids": [0, 1, 3],
        "nodes_trueleafs": [1, 1, 1], "nodes_falsenodeids": [1, 2, 4], "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0] * 5, "leaf_weights": tensor([0.3, -0.9, 1.7, -0.4, 0.2], np.float32),
    } | changes  # fmt: skip


def test_the_newer_operator_is_read_too(tmp_path):
    try:
        model = read(graph_of("TreeEnsemble", ("Sigmoid",), **ensemble()), tmp_path, domain=WHO)
    except InputError as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        pytest.skip("this onnxruntime does not know TreeEnsemble")
    assert model.original is not None and model.forest.trees == 2
    rows = pd.concat([WHO.sample(500, seed=1), people_at_thresholds(model, 500, seed=2)])
    assert np.array_equal(model.raw_scores(rows), model.original.scores(rows))


@pytest.mark.parametrize(
    ("operator", "changes", "message"),
    [
        ("TreeEnsembleRegressor", {"nodes_truenodeids": [1, 0, 0, 0, 0, 1, 0, 0]}, "so that it has no root"),
        ("TreeEnsembleRegressor", {"nodes_truenodeids": [9, 0, 3, 0, 0, 1, 0, 0]}, "a child that is not there"),
        ("TreeEnsembleRegressor", {"nodes_nodeids": [0, 0, 2, 3, 4, 0, 1, 2]}, "two nodes have one number"),
        ("TreeEnsembleRegressor", {"nodes_featureids": [0, 0, 7, 0, 0, 1, 0, 0]}, "not among the 4"),
        ("TreeEnsembleRegressor", {"nodes_values": [np.nan, 0, 0.5, 0, 0, 0.25, 0, 0]}, "a threshold is not a number"),
        ("TreeEnsembleRegressor", {"nodes_values": [0.5]}, "has 1 entries, not 8"),
        ("TreeEnsembleRegressor", {"target_weights": [0.3, np.inf, 1.7, -0.4, 0.2]}, "not finite"),
        ("TreeEnsembleRegressor", {"target_ids": [0, 0, 0, 0, 4]}, "belongs to no leaf or class"),
        ("TreeEnsembleRegressor", {"n_targets": 10**9}, "outputs, which cannot be read"),
        ("TreeEnsembleRegressor", {"aggregate_function": "MIN"}, "joins its trees by MIN"),
        ("TreeEnsembleRegressor", {"post_transform": "PROBIT"}, "ends in PROBIT"),
        ("TreeEnsemble", {"nodes_falsenodeids": [0, 2, 4]}, "two ways"),
        ("TreeEnsemble", {"nodes_trueleafs": [0, 1, 1]}, "two ways"),
        ("TreeEnsemble", {"tree_roots": [0, 7]}, "begins at a node that is not there"),
        ("TreeEnsemble", {"nodes_truenodeids": [0, 1, 99]}, "a child that is not there"),
    ],
)
def test_broken_trees_are_refused(operator, changes, message, tmp_path):
    whole = ensemble(**changes) if operator == "TreeEnsemble" else regressor("BRANCH_LEQ", **changes)
    with pytest.raises(InputError, match=message):
        read(graph_of(operator, ("Sigmoid",), **whole), tmp_path, domain=WHO)


def test_what_stands_around_the_trees_is_named(tmp_path):
    with pytest.raises(InputError, match="output 'end0' is computed from its trees in a way that is not supported"):
        read(graph_of("TreeEnsembleRegressor", ("Tanh",), **regressor("BRANCH_LEQ")), tmp_path, domain=WHO)
    model = onnx.load_from_string(graph_of("TreeEnsembleRegressor", ("Sigmoid",), **regressor("BRANCH_LEQ")))
    model.graph.node[0].input[0] = "y"
    model.graph.node.insert(0, helper.make_node("Exp", ["x"], ["y"]))
    with pytest.raises(InputError, match=r"\(Exp\) is not supported before trees"):
        read(model.SerializeToString(), tmp_path, domain=WHO)
    del model.graph.node[1].input[:]
    with pytest.raises(InputError, match=r"\(TreeEnsembleRegressor\) reads nothing"):
        read(model.SerializeToString(), tmp_path, domain=WHO)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**40
    model.graph.node[1].input.append("x")
    with pytest.raises(InputError, match="takes 1,099,511,627,776 columns; from 1 to 100,000 can be read"):
        read(model.SerializeToString(), tmp_path, domain=WHO)
