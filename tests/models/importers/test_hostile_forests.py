"""Files of forests that are cut, cyclic, contradictory or huge: one sentence each, at once, whoever wrote them."""

from __future__ import annotations

import copy
import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.importers.boosting import forest_file
from bornfair.importers.document import read_ubjson
from bornfair.importers.lightgbm_file import lightgbm_model
from bornfair.models.forest.forest import MOST_DEPTH

TREE = {
    "left_children": [1, -1, 3, -1, -1], "right_children": [2, -1, 4, -1, -1], "split_indices": [0, 0, 1, 0, 0],
    "split_conditions": [0.5, -1.0, 2.0, 0.25, 1.0], "default_left": [0, 0, 1, 0, 0], "split_type": [0, 0, 1, 0, 0],
    "categories": [1, 3], "categories_nodes": [2], "categories_segments": [0], "categories_sizes": [2],
    "tree_param": {"num_nodes": "5", "num_feature": "2", "size_leaf_vector": "1", "num_deleted": "0"},
}  # fmt: skip
XGBOOST: dict[str, Any] = {
    "version": [3, 0, 0],
    "learner": {
        "attributes": {}, "feature_names": ["a", "b"], "feature_types": ["float", "c"],
        "objective": {"name": "binary:logistic"},
        "learner_model_param": {"base_score": "5E-1", "num_class": "0", "num_feature": "2", "num_target": "1"},
        "gradient_booster": {
            "name": "gbtree",
            "model": {
                "gbtree_model_param": {"num_trees": "2", "num_parallel_tree": "1"}, "tree_info": [0, 0],
                "trees": [TREE, TREE],
            },
        },
    },
}  # fmt: skip
CATBOOST: dict[str, Any] = {
    "features_info": {
        "float_features": [
            {"feature_index": i, "flat_feature_index": i, "feature_id": name, "nan_value_treatment": "AsIs"}
            for i, name in enumerate("ab")
        ],
    },
    "model_info": {"params": {"loss_function": {"type": "Logloss"}}, "class_params": {"class_names": [0, 1]}},
    "oblivious_trees": [
        {
            "splits": [
                {"split_type": "FloatFeature", "float_feature_index": i, "border": 0.5} for i in (0, 1)
            ],
            "leaf_values": [0.1, 0.2, -0.3, 0.4],
        }
    ],
    "scale_and_bias": [1, [0.5]],
}  # fmt: skip
LIGHTGBM = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=binary sigmoid:1
feature_names=a b
feature_infos=[0:1] 0:1:3
tree_sizes=400

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
threshold=0.5 0
decision_type=10 1
left_child=-1 -2
right_child=1 -3
cat_boundaries=0 1
cat_threshold=10
leaf_value=0.5 -0.25 1
is_linear=0
shrinkage=1

end of trees

pandas_categorical:null
"""


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def changed(document: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    *way, last = place.split("/")
    at: Any = made
    for part in way:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if value is DROPPED:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return made


DROPPED = object()
MODEL = "learner/gradient_booster/model/"
FIRST = MODEL + "trees/0/"


def test_the_files_are_fine_as_they_are(tmp_path):
    one = forest_file(written(tmp_path, "m.json", json.dumps(XGBOOST))).forest
    assert one.scores([[0.0, 1.0, 1.0, None], [0, 1, 2, 3]]).ravel().tolist() == [-2.0, 2.0, 0.5, 2.0]
    two = forest_file(written(tmp_path, "m.txt", LIGHTGBM)).forest
    assert two.scores([[0.0, 1.0, 1.0, None], [0, 1, 2, 3]]).ravel().tolist() == [0.5, -0.25, 1.0, 0.5]
    three = forest_file(written(tmp_path, "c.json", json.dumps(CATBOOST))).forest
    assert three.scores([[0.0, 1.0, 0.0, None], [0, 0, 1, 1]]).ravel().tolist() == [0.6, 0.7, 0.2, 0.2]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (FIRST + "left_children", [1, -1, 0, -1, -1], "has the child 0"),
        (FIRST + "left_children", [2, -1, 3, -1, -1], "reached in two ways"),
        (FIRST + "left_children", [1, -1, 99, -1, -1], "has the child 99"),
        (FIRST + "right_children", [2, -1, -7, -1, -1], "has the child -7"),
        (FIRST + "split_conditions", [float("nan"), -1.0, 2.0, 0.25, 1.0], "a threshold is not a number"),
        (FIRST + "split_conditions", [0.5, float("inf"), 2.0, 0.25, 1.0], "a value that is not finite"),
        (FIRST + "split_conditions", [0.5, 1e300, 2.0, 0.25, 1.0], "a value that is not finite"),
        (FIRST + "split_conditions", [0.5, 1.0], "'split_conditions' has 2 entries, not 5"),
        (FIRST + "split_conditions", ["a"] * 5, "'split_conditions' is not what the format says"),
        (FIRST + "split_conditions", [[0.5]] * 5, "'split_conditions' is not what the format says"),
        (FIRST + "split_indices", [7, 0, 1, 0, 0], "a feature that is not among the 2"),
        (FIRST + "categories_sizes", [10**12], "point outside"),
        (FIRST + "categories_nodes", [4], "disagree about which splits"),
        (FIRST + "tree_param", {"num_nodes": "1000000000000"}, "it says 1000000000000 nodes, but has 5"),
        (FIRST + "tree_param", DROPPED, "'tree_param' is missing"),
        (MODEL + "trees", [], "has 0 trees|'tree_info' has 2 entries"),
        (MODEL + "trees/1", 3, "an object is missing"),
        (MODEL + "tree_info", [0], "'tree_info' has 1 entries, not 2"),
        (MODEL + "tree_info", [0, 5], "belongs to class 5 of 1"),
        (MODEL + "gbtree_model_param", {"num_trees": "7"}, "says it has another number"),
        ("learner/learner_model_param/base_score", "[nan]", "no finite number"),
        ("learner/learner_model_param/base_score", "2", "no probability"),
        ("learner/learner_model_param/base_score", "half", "is not a number"),
        ("learner/learner_model_param/num_feature", "99999999999", "features, which cannot be read"),
        ("learner/learner_model_param/num_class", "4", "does not fit the objective"),
        ("learner/feature_names", ["a"], "has 1 names"),
        ("learner/attributes", {"best_iteration": "99"}, "the best iteration 99 is not among its 2"),
        ("learner/objective", {"name": "rank:ndcg"}, "which decides nothing"),
    ],
)
def test_broken_xgboost_files(place, value, message, tmp_path):
    path = written(tmp_path, "m.json", json.dumps(changed(XGBOOST, place, value)))
    with pytest.raises(InputError, match=message):
        forest_file(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("left_child=-1 -2", "left_child=0 -2", "has the child 0"),
        ("left_child=-1 -2", "left_child=-1 -9", "a child that is not there"),
        ("right_child=1 -3", "right_child=1 -1", "reached in two ways"),
        ("threshold=0.5 0", "threshold=nan 0", "a threshold is not a number"),
        ("threshold=0.5 0", "threshold=0.5 8", "a set of categories that is not there"),
        ("threshold=0.5 0", "threshold=0.5", "'threshold' has 1 entries, not 2"),
        ("leaf_value=0.5 -0.25 1", "leaf_value=0.5 inf 1", "a value that is not finite"),
        ("leaf_value=0.5 -0.25 1", "leaf_value=0.5 x 1", "holds what is no number"),
        ("num_leaves=3", "num_leaves=999999999999", "leaves"),
        ("num_leaves=3", "num_leaves=-3", "it says it has -3 leaves"),
        ("split_feature=0 1", "split_feature=0 7", "not among the 2"),
        ("cat_boundaries=0 1", "cat_boundaries=0 99999", "a set of categories that is not there"),
        ("cat_threshold=10", "cat_threshold=99999999999", "not words of 32 bits"),
        ("decision_type=10 1", "decision_type=10 77", "an unknown kind"),
        ("is_linear=0", "is_linear=1", "linear models in its leaves"),
        ("tree_sizes=400", "tree_sizes=400 400", "has 1 trees, but says 2"),
        ("end of trees", "", "ends before its trees do"),
        ("max_feature_idx=1", "max_feature_idx=99999999", "names 2 different ones"),
        ("objective=binary sigmoid:1", "objective=regression", "trained for 'regression'"),
        ("objective=binary sigmoid:1", "objective=binary sigmoid:nan", "no number above 0"),
        ("pandas_categorical:null", "pandas_categorical:" + "[" * 100_000, "cannot be read"),
    ],
)
def test_broken_lightgbm_files(old, new, message, tmp_path):
    assert old in LIGHTGBM
    with pytest.raises(InputError, match=message):
        forest_file(written(tmp_path, "m.txt", LIGHTGBM.replace(old, new)))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("oblivious_trees/0/leaf_values", [0.1], "has 1 entries, not 4"),
        ("oblivious_trees/0/leaf_values", [0.1, 0.2, 0.3, float("nan")], "not finite"),
        ("oblivious_trees/0/splits/0/border", float("nan"), "'border' is not what the format says"),
        ("oblivious_trees/0/splits/0/border", 10**400, "'border' is not what the format says"),
        ("oblivious_trees/0/splits/0/split_type", "\x1b[2J" * 999, "statistics of categories"),
        ("oblivious_trees/0/splits/0/float_feature_index", 9, "'float_feature_index' is not what"),
        ("oblivious_trees/0/splits/0/split_type", "OnlineCtr", "statistics of categories"),
        ("oblivious_trees/0/splits", [{}] * 40, "it has 40 levels, and at most 16"),
        ("oblivious_trees", [], "has no trees"),
        ("features_info/float_features/0/flat_feature_index", 5, "not numbered one after the other"),
        ("scale_and_bias", [float("inf"), [0.0]], "'scale_and_bias' is not what"),
        ("scale_and_bias", [1, [0.0, 0.0]], "do not fit its loss"),
        ("model_info/params/loss_function/type", "RMSE", "trained for 'RMSE'"),
    ],
)
def test_broken_catboost_files(place, value, message, tmp_path):
    with pytest.raises(InputError, match=message):
        forest_file(written(tmp_path, "m.json", json.dumps(changed(CATBOOST, place, value))))


def test_nesting_has_an_end(tmp_path):
    for name, content in (
        ("m.json", "[" * 200_000), ("n.json", '{"learner":' * 200_000),
        ("m.ubj", b"[" * 200_000), ("n.ubj", b"{i\x01a" * 100_000),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"nested too deep|levels deep|not a JSON file"):
            forest_file(written(tmp_path, name, content))
    deep: dict[str, Any] = {"value": 1.0}
    split = CATBOOST["oblivious_trees"][0]["splits"][0]
    for _ in range(300):
        deep = {"split": split, "left": deep, "right": {"value": 0.0}}
    branching = {k: v for k, v in CATBOOST.items() if k != "oblivious_trees"} | {"trees": [deep]}
    assert forest_file(written(tmp_path, "d.json", json.dumps(branching))).forest.depth == 300


def test_a_chain_is_refused_before_it_takes_long():
    count = MOST_DEPTH + 5
    lines = {
        "num_leaves": count + 1, "split_feature": "0 " * count, "threshold": "0 " * count,
        "decision_type": "2 " * count,
        "left_child": " ".join(str(-1 - i) for i in range(count)),
        "right_child": " ".join([*(str(i + 1) for i in range(count - 1)), str(-1 - count)]),
        "leaf_value": "0 " * (count + 1),
    }  # fmt: skip
    tree = "\n".join(f"{name}={value}" for name, value in lines.items())
    head, _, tail = LIGHTGBM.partition("Tree=0")
    with pytest.raises(InputError, match="deeper than"):
        lightgbm_model(f"{head}Tree=0\n{tree}\n\nend of trees{tail.partition('end of trees')[2]}", "it")


def ubjson(value: Any) -> bytes:
    """As XGBoost writes it."""
    if isinstance(value, dict):
        return b"{" + b"".join(_text(k)[1:] + ubjson(v) for k, v in value.items()) + b"}"
    if isinstance(value, list) and value and all(isinstance(v, float) for v in value):
        return b"[$d#L" + struct.pack(">q", len(value)) + np.array(value, ">f4").tobytes()
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(ubjson, value))
    return _text(value) if isinstance(value, str) else b"L" + struct.pack(">q", value)


def _text(value: str) -> bytes:
    return b"SL" + struct.pack(">q", len(value.encode())) + value.encode()


def test_ubjson_says_the_same_as_json(tmp_path):
    one = forest_file(written(tmp_path, "m.ubj", ubjson(XGBOOST))).forest
    two = forest_file(written(tmp_path, "m.json", json.dumps(XGBOOST))).forest
    for name in ("threshold", "values", "left", "right", "members"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize(
    "content",
    [
        b"[$d#L" + struct.pack(">q", 2**60), b"[$Z#L" + struct.pack(">q", 2**40), b"[#L" + struct.pack(">q", 2**40),
        b"{#L" + struct.pack(">q", 2**40), b"SL" + struct.pack(">q", 2**62), b"SL" + struct.pack(">q", -5),
        b"[$d", b"Q", b"", b"[i", b"{i\x01", b"SL" + struct.pack(">q", 2) + b"\xff\xfe", b"i\x01i\x01",
    ],
)  # fmt: skip
def test_lengths_in_ubjson_are_not_believed(content):
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="not a UBJSON file we can read: byte"):
            read_ubjson(content, "m.ubj")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


FILES: dict[str, Callable[[], bytes]] = {
    "m.json": lambda: json.dumps(XGBOOST).encode(),
    "m.ubj": lambda: ubjson(XGBOOST),
    "m.txt": lambda: LIGHTGBM.encode(),
    "c.json": lambda: json.dumps(CATBOOST).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_any_damage_is_read_or_refused(name, tmp_path):
    """Cut anywhere, or with bytes and numbers changed: a forest or a sentence, nothing else."""
    whole, random, refused = FILES[name](), np.random.default_rng(7), 0
    texts = [b"-1", b"nan", b"1e999", b"99999999999999999999", b"null", b"[]", b"{}", b'"x"', b"\xff", b"]", b"true"]
    cases = [whole[:end] for end in range(0, len(whole), max(1, len(whole) // 60))]
    for _ in range(250):
        start = int(random.integers(len(whole)))
        width, put = int(random.integers(0, 6)), texts[int(random.integers(len(texts)))]
        cases.append(whole[:start] + put + whole[start + width :])
        flipped = bytearray(whole)
        flipped[start] ^= 1 << int(random.integers(8))
        cases.append(bytes(flipped))
    for case in cases:
        try:
            found = forest_file(written(tmp_path, name, case)).forest
            assert np.isfinite(found.scores([[0.3, None], [1, 0]])).all()
        except InputError as error:
            refused += 1
            assert str(error)[-1] in ".?" and "\n" not in str(error)
    assert refused > len(cases) // 4


def test_too_large_a_file_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "DOCUMENT_BYTES", 100)
    with pytest.raises(InputError, match="the most that is read"):
        forest_file(written(tmp_path, "m.json", json.dumps(XGBOOST)))
