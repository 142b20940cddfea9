"""Forests as ONNX graphs: onnxruntime decides as the forest does, and what is read back is the same forest."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import onnxruntime
import pandas as pd
import pytest

from bornfair.core.errors import InputError
from bornfair.models.forest.columns import ZERO, SplitColumn
from bornfair.models.forest.onnx_graph import forest_bytes
from bornfair.people.features import CategoricalFeature, RealFeature
from bornfair.proof.bundle import FairForest, own_model
from bundle_cases import AGE, HOURS, INCOME, JOB, OWNER, grown
from random_forests import random_forest_model

KINDS = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": np.bool_}


def served(model, table):
    session = onnxruntime.InferenceSession(forest_bytes(model), providers=["CPUExecutionProvider"])
    feed = {}
    for given in session.get_inputs():
        column = table[given.name]
        texts = given.type == "tensor(string)"
        values = column.where(column.notna(), "").to_numpy(object) if texts else column.to_numpy(KINDS[given.type])
        feed[given.name] = values[:, None]
    return session.run(None, feed)


def in_float64(model):
    """The same forest, added up in float64 as the graph adds."""
    summation = dataclasses.replace(model.forest.summation, precision="float64")
    return dataclasses.replace(model, forest=dataclasses.replace(model.forest, summation=summation))


def test_onnxruntime_decides_as_the_forest_and_as_what_is_read_back(tmp_path):
    """Leaves are multiples of ⅛: no sum rounds but where it is divided, so that all must agree to the last."""
    rng, seen = np.random.default_rng(3), Counter()
    for _ in range(80):
        model = in_float64(random_forest_model(rng, twins=False))
        people = model.domain.sample(64, seed=4)
        labels, shares = served(model, people)
        assert (labels == model.predict(people)).all()
        assert np.allclose(shares, model.predict_proba(people), atol=1e-6)
        path = tmp_path / "model.onnx"
        path.write_bytes(forest_bytes(model))
        again = own_model(path, path.read_bytes(), model.domain)
        assert isinstance(again, FairForest)
        assert np.array_equal(again.raw_scores(people), model.raw_scores(people))
        assert (again.predict(people) == labels).all() and np.allclose(again.predict_proba(people), shares, atol=1e-6)
        assert forest_bytes(again) == forest_bytes(own_model(path, forest_bytes(again), model.domain))
        seen[model.forest.outputs] += 1
        seen["sets"] += any(m >= 0 for m in model.forest.members)
    assert min(seen.values()) > 5


def test_thresholds_are_found_in_raw_numbers_without_error():
    """A float32 threshold, a scaled and a falling column: turned at just the same raw numbers, and the next beyond."""
    steps = ((("float32", 0.0),), (("minus", 3.3), ("over", 7.7)), (("times", -1.5),), (("tiny to zero", ZERO),))
    for i, step in enumerate(steps):
        feature = RealFeature(name="x", low=-40.0, high=40.0)
        model = grown((feature, OWNER), ("owner",), [("x", 0.1 * (i - 1), 1.0, -1.0), ("x", 0.0, 0.5, 0.25)])
        columns = (SplitColumn(0, step), model.forest.columns[1])
        model = dataclasses.replace(model, forest=dataclasses.replace(model.forest, columns=columns))
        turns = columns[0].last_below(model.forest.threshold[model.forest.column == 0])
        near = np.unique(np.concatenate([turns, np.nextafter(turns, -50), np.nextafter(turns, 50), [1e-36, -1e-36]]))
        people = pd.DataFrame({"x": near, "owner": True})
        assert (served(model, people)[0] == model.predict(people)).all()


def test_what_is_missing_goes_its_own_way():
    trees = [("age", 30, 1.0, -1.0), ("job", {"nurse"}, 0.25, 0.5), ("income", 20.25, 0.125, -2.0)]
    model = grown((AGE, INCOME, JOB, OWNER), ("owner",), trees)
    people = pd.DataFrame({"age": [20, np.nan, 40, np.nan], "income": [9.0, 30.0, np.nan, np.nan],
        "job": ["nurse", "clerk", None, "smith"], "owner": True})  # fmt: skip
    for missing_left in (False, True):
        ways = np.full(model.forest.nodes, missing_left) & (model.forest.column >= 0)
        here = dataclasses.replace(model, forest=dataclasses.replace(model.forest, missing_left=ways))
        assert (served(here, people)[0] == here.predict(people)).all()
    assert len(set(served(model, people)[0])) == 2


def test_categories_of_every_kind_are_positions_and_others_are_none_of_them():
    kinds = (("u", "v", "w"), (10, 20, 30), ("u", 2, 0.5), (-1.5, 0.25, 4.0), ("", "v", "w"))
    for categories in kinds:
        feature = CategoricalFeature(name="c", categories=categories)
        model = grown((feature, OWNER), ("owner",), [("c", {categories[1]}, 1.0, -1.0)])
        people = pd.DataFrame({"c": pd.Series(list(categories), dtype=object), "owner": True})
        shown = people.assign(c=people["c"].map(str) if any(type(c) is not int for c in categories) else people["c"])
        assert served(model, shown)[0].tolist() == model.predict(people).tolist() == ["no", "yes", "no"]
        other = shown.assign(c="never" if any(type(c) is not int for c in categories) else 99)
        assert set(served(model, other)[0].tolist()) == {"no"}


def test_what_a_graph_cannot_hold_is_refused_in_one_sentence():
    feature = RealFeature(name="x", low=-1.0, high=1.0)
    model = grown((feature, OWNER), ("owner",), [("x", 0.5, 1.0, -1.0)])
    broken = (SplitColumn(0, (("zero is missing", ZERO),)), model.forest.columns[1])
    with pytest.raises(InputError, match="takes zero for missing"):
        forest_bytes(dataclasses.replace(model, forest=dataclasses.replace(model.forest, columns=broken)))
    reading = grown((HOURS, OWNER), ("owner",), [("owner", 0.5, 1.0, -1.0)])
    with pytest.raises(InputError, match="cannot be exported without"):
        forest_bytes(reading, sensitive=False)
    blind = grown((HOURS, OWNER), ("owner",), [("hours", 3, 1.0, -1.0)])
    session = onnxruntime.InferenceSession(forest_bytes(blind, sensitive=False), providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == ["hours"]
