"""Bundles of forests: what is accepted is true, and what is not understood is rejected, whoever forged it."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import json
import random
import re
from collections import Counter

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import numpy_helper

from bornfair import load
from bornfair.core.errors import InputError, plain_level
from bornfair.models.forest.model import Native
from bornfair.models.forest.onnx_graph import forest_bytes
from bornfair.people.features import IntegerFeature, RealFeature
from bornfair.proof import checker
from bornfair.proof.bundle import FairForest, bundle_files
from bornfair.proof.certificate import as_checked
from bornfair.proof.tree import find_tree
from bundle_cases import AGE, FORESTS, HOURS, OWNER, Forgery, answer, bundle, grown, sealed
from forest_fuzz import run
from forgeries import TREE_MUTATIONS, ensemble_added, forge, split_hidden
from graph_oracle import contradiction, served, session_of
from random_forests import everybody, random_forest_model

EXPECTED = {"forest, falsified": "falsified", "forest, undecided": "undecided"}
ROUNDED = "added up in the same order"


@pytest.mark.parametrize("kind", FORESTS)
def test_what_bornfair_writes_is_accepted_and_true(kind):
    found = answer(bundle(kind))
    assert found["valid"] and found["verdict"] == EXPECTED.get(kind, "verified")
    assert found["arithmetic"] == ([] if kind == "forest, undecided" else ["real", "float64"])
    assert contradiction(bundle(kind), found) is None


def test_each_verdict_has_a_claim_of_its_own():
    said = {kind: answer(bundle(kind)) for kind in ("forest", "forest, falsified", "forest, undecided")}
    assert said["forest"]["claim"].startswith("Two individuals who differ only in owner always get the same score")
    assert said["forest, falsified"]["claim"] == (
        "The model is not fair: two individuals who differ only in owner get different decisions."
    )
    undecided = said["forest, undecided"]
    assert undecided["claim"] == f"Nothing about fairness is certified: {undecided['reason']}"
    forgery = Forgery.of(bundle("forest, undecided"))
    forgery.certificate["claim"] = said["forest, falsified"]["claim"]
    assert "the claim says something else" in answer(forgery.sealed())["reason"]


def test_a_claim_names_its_conditions_where_sums_round():
    """Leaves of 0.1 do not add up to the same in every order, multiples of ⅛ do."""
    assert answer(bundle("forest"))["proof"] == answer(bundle("forest of shares"))["proof"] == "structural"
    assert ROUNDED not in answer(bundle("forest"))["claim"] and ROUNDED in answer(bundle("forest of shares"))["claim"]
    forgery = Forgery.of(bundle("forest of shares"))
    forgery.certificate["claim"] = answer(bundle("forest"))["claim"]
    assert "the claim says something else" in answer(forgery.sealed())["reason"]


def test_sums_are_exact_only_if_no_partial_sum_can_round():
    features = (HOURS, OWNER)
    for leaves, exact in (([1.0, 2.0**-52], True), ([2.0, 2.0**-52], False), ([0.1] * 2, True), ([0.1] * 3, False)):
        model = grown(features, ("owner",), [("hours", 3, leaf, 0.0) for leaf in leaves])
        assert as_checked(model)[0].adds_exactly == exact


# --- one thing changed ---


def trees_of(forgery):
    (node,) = (node for node in forgery.model.graph.node if node.op_type == "TreeEnsemble")
    return node, {attribute.name: attribute for attribute in node.attribute}


def put(attribute, values):
    attribute.t.CopyFrom(numpy_helper.from_array(np.asarray(values)))


def changed(attribute, at, value):
    values = numpy_helper.to_array(attribute.t).copy()
    values[at] = value
    put(attribute, values)


def at(name, place, value):
    """The change of one entry of a list."""
    return lambda node, trees: trees[name].ints.__setitem__(place, value)


def more(name, value):
    """An attribute that was not there."""
    return lambda node, trees: node.attribute.append(onnx.helper.make_attribute(name, value))


def setting(name, value):
    return lambda node, trees: setattr(trees[name], "i", value)


def numbers(name, values):
    return lambda node, trees: put(trees[name], values)


def number(name, place, value):
    return lambda node, trees: changed(trees[name], place, value)


def other_kind(name, value):
    return lambda node, trees: trees[name].CopyFrom(onnx.helper.make_attribute(name, value))


def leaf_shared(node, trees):
    """The last leaf is gone, and who came there comes to the first."""
    last = len(trees["leaf_targetids"].ints) - 1
    for side in ("true", "false"):
        ids, leaves = trees[f"nodes_{side}nodeids"].ints, trees[f"nodes_{side}leafs"].ints
        for i in range(len(ids)):
            if leaves[i] and ids[i] == last:
                ids[i] = 0
    trees["leaf_targetids"].ints.pop()
    put(trees["leaf_weights"], numpy_helper.to_array(trees["leaf_weights"].t)[:-1])


def one_number(node, trees):
    """The leaf on one side of a split has the number of the split on the other, which is right, and misread by some."""
    for i in range(len(trees["nodes_featureids"].ints)):
        if trees["nodes_trueleafs"].ints[i] != trees["nodes_falseleafs"].ints[i]:
            split, leaf = ("true", "false") if trees["nodes_falseleafs"].ints[i] else ("false", "true")
            wanted, had = trees[f"nodes_{split}nodeids"].ints[i], trees[f"nodes_{leaf}nodeids"].ints[i]
            swap = {wanted: had, had: wanted}
            for side in ("true", "false"):
                ids, leaves = trees[f"nodes_{side}nodeids"].ints, trees[f"nodes_{side}leafs"].ints
                for k in range(len(ids)):
                    ids[k] = swap.get(ids[k], ids[k]) if leaves[k] else ids[k]
            return


def splits_only(node, trees):
    """Every side is another split: nobody ever comes to a leaf."""
    count = len(trees["nodes_featureids"].ints)
    for step, side in enumerate(("true", "false"), 1):
        for i in range(count):
            trees[f"nodes_{side}leafs"].ints[i], trees[f"nodes_{side}nodeids"].ints[i] = 0, (i + step) % count


NAN = float("nan")
YES, NO, COLUMNS = "nodes_truenodeids", "nodes_falsenodeids", "nodes_featureids"
CHANGES = {
    "a split leads to itself": (at(YES, 0, 0), "two ways|not there"),
    "a cycle": (lambda n, t: (at(YES, 1, 0)(n, t), at("nodes_trueleafs", 1, 0)(n, t)), "two ways"),
    "a child twice": (at(YES, 0, 2), "two ways|no tree reaches|same number"),
    "a leaf for two": (leaf_shared, "a leaf is reached in two ways"),
    "nothing but splits": (splits_only, "a split is reached in two ways"),
    "a leaf twice": (at(NO, 1, 0), "leaf is reached in two ways|no tree reaches|same number"),
    "a child that is not there": (at(YES, 0, 99), "not there"),
    "a leaf that is not there": (at(NO, 1, 10**9), "not there"),
    "a child before the first": (at(YES, 0, -5), "not there"),
    "one child more": (lambda n, t: t[YES].ints.append(0), "other splits than sides"),
    "one column less": (lambda n, t: t[COLUMNS].ints.pop(), "other splits than"),
    "a column that is not there": (at(COLUMNS, 0, 99), "column that is not there"),
    "a column before the first": (at(COLUMNS, 0, -1), "column that is not there"),
    "a NaN threshold": (number("nodes_splits", 0, NAN), "threshold is not a number"),
    "an infinite leaf": (number("leaf_weights", 0, np.inf), "not a finite number"),
    "leaves that overflow": (number("leaf_weights", 0, 1e308), "may overflow"),
    "members of a set": (more("membership_values", [1]), "other attributes"),
    "sides of one number": (one_number, "have the same number"),
    "another kind of split": (number("nodes_modes", 0, 1), "kind that is not understood"),
    "leaves in float32": (numbers("leaf_weights", np.zeros(9, np.float32)), "another type"),
    "a leaf more": (numbers("leaf_weights", np.zeros(99)), "other leaves than outputs"),
    "an output that is not there": (at("leaf_targetids", 0, 1), "output that is not there"),
    "too many outputs": (setting("n_targets", 2**40), "outputs"),
    "no outputs": (setting("n_targets", 0), "outputs"),
    "another number of outputs": (setting("n_targets", 3), "do not fit the classes|odd shape"),
    "the largest leaf counts": (setting("aggregate_function", 3), "not added up"),
    "the mean counts": (setting("aggregate_function", 0), "not added up"),
    "a softmax inside": (setting("post_transform", 1), "done to the sums"),
    "base values": (more("base_values", [1]), "other attributes"),
    "hit rates": (more("nodes_hitrates", [1]), "other attributes"),
    "no roots": (lambda n, t: n.attribute.remove(t["tree_roots"]), "other attributes"),
    "an empty list of roots": (lambda n, t: t["tree_roots"].ClearField("ints"), "begins where there is no split"),
    "a root twice": (at("tree_roots", 1, 0), "two ways"),
    "a root inside of a tree": (at("tree_roots", 0, 1), "two ways|no tree reaches"),
    "one root less": (lambda n, t: t["tree_roots"].ints.pop(), "no tree reaches"),
    "a root that is not there": (at("tree_roots", 0, 10**6), "begins where there is no"),
    "a flag that is neither": (at("nodes_trueleafs", 0, 2), "leaf is odd"),
    "missing that goes nowhere": (at("nodes_missing_value_tracks_true", 0, 5), "is odd"),
    "a list in place of a number": (other_kind("n_targets", [1]), "malformed|odd|Type"),
    "a number in place of a list": (other_kind("tree_roots", 0), "malformed|odd|Type|there is no split"),
    "a tensor that lies about its length": (lambda n, t: t["leaf_weights"].t.dims.__setitem__(0, 10**9), "length"),
    "a tensor of tensors": (lambda n, t: t["leaf_weights"].t.dims.append(1), "length than it"),
    "numbers beside the bytes": (lambda n, t: t["leaf_weights"].t.double_data.append(1.0), "not understood"),
    "another domain of operators": (lambda n, t: setattr(n, "domain", ""), "is not the TreeEnsemble"),
    "an older operator": (lambda n, t: setattr(n, "op_type", "TreeEnsembleRegressor"), "is not the TreeEnsemble"),
    "two outputs of the trees": (lambda n, t: n.output.append("more"), "is not the TreeEnsemble"),
    "an attribute twice": (lambda n, t: n.attribute.append(copy.deepcopy(t["n_targets"])), "is not the TreeEnsemble"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_trees_that_are_not_what_they_should_be_are_rejected(what, tmp_path):
    change, reason = CHANGES[what]
    forgery = Forgery.of(bundle("forest"))
    change(*trees_of(forgery))
    files = forgery.sealed()
    found = answer(files)
    assert not found["valid"]
    assert re.search(reason, found["reason"]), found["reason"]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError):
        load(tmp_path)


def test_a_hidden_split_on_a_sensitive_column_is_found():
    """In place of another split, in a tree of its own, where nobody comes, in a second set of trees."""
    seen = Counter()
    for seed in range(12):
        forgery = Forgery.of(bundle("forest"))
        what = split_hidden(forgery, random.Random(seed))
        found = answer(forgery.restated().sealed())
        assert not found["valid"]
        seen[what] += 1
        unreached = "no tree reaches" in found["reason"]
        assert unreached if "nobody comes" in what else "a split reads 'owner'" in found["reason"]
    assert len(seen) == 3
    for seed in range(4):
        forgery = Forgery.of(bundle("forest"))
        ensemble_added(forgery, random.Random(seed))
        assert "not the" in answer(forgery.restated().sealed())["reason"]


def test_the_sensitive_column_may_lie_beside_the_others_if_no_split_reads_it():
    """What trees are given says nothing of what they read."""
    forgery = Forgery.of(bundle("forest"))
    graph = forgery.model.graph
    concat = next(node for node in graph.node if node.op_type == "Concat")
    cast = onnx.helper.make_node("Cast", ["owner"], ["hidden"], to=onnx.TensorProto.DOUBLE)
    graph.node.insert(list(graph.node).index(concat), cast)
    concat.input.append("hidden")
    found = answer(forgery.restated().sealed())
    assert found["valid"] and found["verdict"] == "verified"
    assert contradiction(forgery.sealed(), found) is None


@pytest.mark.parametrize("what", ["again", "other", "text", "gone", "int"])
def test_columns_are_read_once_and_as_they_are(what):
    forgery = Forgery.of(bundle("forest"))
    graph = forgery.model.graph
    concat = next(node for node in graph.node if node.op_type == "Concat")
    if what == "again":
        concat.input[0] = concat.input[1]
    elif what == "other":
        concat.input[0] = "trees"
    elif what == "text":
        concat.input[0] = "job"
    elif what == "gone":
        del concat.input[:]
    else:
        next(i for i in graph.input if i.name == "age").type.tensor_type.elem_type = onnx.TensorProto.INT64
    assert not answer(forgery.sealed())["valid"]


@pytest.mark.parametrize(
    ("operator", "values", "reason"),
    [
        ("Div", [[0.0]], "nothing above 0"),
        ("Div", [[-3.0]], "nothing above 0"),
        ("Div", [[1e-300]], "overflow"),
        ("Div", [[3.0, 3.0]], "odd shape"),
        ("Greater", [[1e200]], "too large"),
        ("Greater", [0.5], "something odd"),
    ],
)
def test_what_is_done_to_sums_is_understood_or_rejected(operator, values, reason):
    forgery = Forgery.of(bundle("forest of shares"))
    (node,) = (node for node in forgery.model.graph.node if node.op_type == operator)
    forgery.put(node.input[1], np.array(values))
    assert reason in answer(forgery.sealed())["reason"]


@pytest.mark.parametrize("rows", [-1, 1])
def test_a_table_of_categories_has_a_row_for_each_one_for_gaps_and_one_for_unknown_ones(rows):
    """With one more, what a gap gets would be read from another row than the graph takes it from."""
    forgery = Forgery.of(bundle("forest"))
    graph = forgery.model.graph
    (node, *_) = (node for node in graph.node if node.op_type == "Gather")
    table = numpy_helper.to_array(next(tensor for tensor in graph.initializer if tensor.name == node.input[0]))
    forgery.put(node.input[0], np.concatenate([table, table[:1]]) if rows > 0 else table[:-1])
    assert "is odd, or too large" in answer(forgery.sealed())["reason"]


def test_a_split_that_tells_twins_by_a_rule_apart_is_found():
    """Clerks and nurses are twins; nurses are read as smiths, whom a split sends elsewhere."""
    forgery = Forgery.of(bundle("forest of twins"))
    levels = next(feature["categories"] for feature in forgery.domain["features"] if feature["name"] == "job")
    (node, *_) = (node for node in forgery.model.graph.node if node.op_type == "Gather")
    table = forgery.constant(node.input[0])
    table[levels.index("nurse")] = table[levels.index("smith")]
    forgery.put(node.input[0], table)
    assert "a split tells job" in answer(forgery.sealed())["reason"]


def test_every_byte_of_the_model_counts():
    files = bundle("forest")
    content = files["model.onnx"]
    for at in range(0, len(content), 11):
        other = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        assert "another model.onnx" in answer(files | {"model.onnx": other})["reason"]
        resealed = sealed(other, files["domain.json"], json.loads(files["certificate.json"]))
        found = answer(resealed)
        assert contradiction(resealed, found, count=6) is None or not found["valid"]


def test_a_model_cut_anywhere_is_refused():
    files = bundle("forest of classes")
    for at in range(0, len(files["model.onnx"]), 13):
        cut = sealed(files["model.onnx"][:at], files["domain.json"], json.loads(files["certificate.json"]))
        assert not answer(cut)["valid"]


def test_lists_of_too_many_numbers_are_refused(monkeypatch):
    """Counted over the whole file, in one list or in many."""
    monkeypatch.setattr(checker, "MOST_NUMBERS", 5000)
    part = b"\x40\x01" * 1000 + b"\x40\xff\x01" * 20  # entries of `ints`
    attribute = b"\x2a" + _varint(len(part)) + part
    people = checker.Individuals(checker.parse_json(bundle("forest")["domain.json"], "domain.json"))
    for count, match in ((4, "other versions of operators"), (6, "more than 5,000 numbers in lists")):
        node = attribute * count
        graph = b"\x0a" + _varint(len(node)) + node
        with pytest.raises(checker.Rejected, match=match):
            checker.read_model(b"\x3a" + _varint(len(graph)) + graph, people)


def _varint(number):
    made = b""
    while number > 127:
        made, number = made + bytes([number & 127 | 128]), number >> 7
    return made + bytes([number])


# --- proofs by bounds, and twins ---


def test_proof_trees_are_checked_leaf_by_leaf():
    whole = Forgery.of(bundle("forest, by bounds"))
    tree = whole.certificate["tree"]
    assert len(tree) > 5
    for at, entry in enumerate(tree):
        forgery = Forgery.of(bundle("forest, by bounds"))
        entries = forgery.certificate["tree"]
        if isinstance(entry, list):
            del entries[at]
        else:
            entries[at] = 1 - entry if isinstance(entry, int) else 0
        files = forgery.restated().sealed()
        found = answer(files)
        assert not found["valid"] or contradiction(files, found) is None
        assert isinstance(entry, (list, dict)) or entry == "same" or not found["valid"]


def test_a_real_number_belongs_to_the_lower_part_of_a_cut():
    """Who has just the number of the cut goes with the lower part: the upper one need not be shown for them."""
    real = RealFeature(name="x", low=0.0, high=1.0)
    trees = [("x", 0.5, ("owner", 0.5, -1.0, -2.0), ("owner", 0.5, 1.0, 2.0))]
    network, people = as_checked(grown((real, OWNER), ("owner",), trees))
    grove = checker.Grove(network, people, True)
    box = people.everybody()
    assert grove.is_fair(0, box | {"x": (0.0, 0.5)}) and grove.is_fair(1, box | {"x": (0.5, 1.0)})
    assert not grove.is_fair(1, box | {"x": (0.0, 1.0)}) and not grove.is_fair(1, box | {"x": (0.0, 0.5)})
    assert checker.check_tree([["x", 0.5], 0, 1], grove) == 2
    with pytest.raises(checker.Rejected, match="not proven"):
        checker.check_tree([["x", 0.4], 0, 1], grove)


def test_a_whole_number_belongs_to_one_part_of_a_cut_only():
    trees = [("hours", 4, ("owner", 0.5, -1.0, -2.0), ("owner", 0.5, 1.0, 2.0))]
    network, people = as_checked(grown((HOURS, OWNER), ("owner",), trees))
    grove = checker.Grove(network, people, True)
    assert checker.check_tree([["hours", 4], 0, 1], grove) == 2
    for cut in (3, 5):
        with pytest.raises(checker.Rejected, match="not proven"):
            checker.check_tree([["hours", cut], 0, 1], grove)


def test_a_whole_number_between_two_halves_is_not_lost():
    """Splits at 2.5 and 3.5: only who has 3 hours, with the house or without, is decided by the house."""
    trees = [("hours", 2.5, -0.5, ("hours", 3.5, ("owner", 0.5, -1.0, 1.0), -0.5))]
    model = grown((HOURS, OWNER), ("owner",), trees)
    truth = everybody(model)
    assert truth.people["hours"][truth.unfair].tolist() == [3]
    network, people = as_checked(model)
    for float64 in (False, True):
        grove = checker.Grove(network, people, float64)
        assert not grove.is_fair(0, people.everybody())
        with pytest.raises(checker.Rejected, match="not proven"):
            checker.check_tree([0], grove)
    forgery = Forgery.of(bundle_files(model)).claim("verified", "bounds", ["real", "float64"], [0])
    assert "not proven" in answer(forgery.restated().sealed())["reason"]


def nested_splits(rng, name, splits):
    """A tree of splits of one number; each leaf is another one."""
    if not splits:
        return float(rng.normal())
    at = int(rng.integers(len(splits)))
    return (name, splits[at], nested_splits(rng, name, splits[:at]), nested_splits(rng, name, splits[at + 1 :]))


@pytest.mark.parametrize("kind", ["whole", "real"])
def test_a_box_reaches_the_leaves_of_its_people_and_no_others(kind):
    """Splits at whole and at half numbers, at the ends of the range and beyond, in every box of a small range."""
    rng, low, high = np.random.default_rng(6), -2, 4
    feature = (IntegerFeature if kind == "whole" else RealFeature)(name="n", low=low, high=high)
    steps = 1 if kind == "whole" else 4
    everyone = [n / steps for n in range(low * steps, high * steps + 1)]
    for _ in range(40):
        splits = sorted(rng.choice(np.arange(-2.5, 5, 0.5), 4, replace=False).tolist())
        network, people = as_checked(grown((feature, OWNER), ("owner",), [nested_splits(rng, "n", splits)]))
        grove = checker.Grove(network, people, False)
        ends = range(low, high + 1) if kind == "whole" else [n / 2 for n in range(2 * low, 2 * high + 1)]
        for begin, end in itertools.combinations_with_replacement(ends, 2):
            if kind == "real" and begin == end:
                continue
            box = people.everybody() | {"n": (begin, end)}
            without = kind == "real" and begin > low  # the lower end of a part belongs to the part below
            there = [n for n in everyone if (begin < n if without else begin <= n) and n <= end]
            truly = {network.leaves({"n": n, "owner": True})[0] for n in there}
            assert set(grove.reached(network.roots[0], box)) == truly, (splits, begin, end)


def test_a_mirrored_number_has_both_ends_in_every_part():
    real = RealFeature(name="x", low=-1.0, high=1.0)
    model = grown((real, OWNER), ("owner",), [("x", 0.5, 1.0, -1.0), ("x", -0.5, -2.0, 0.0)])
    model = model.about(model.domain.with_twins("x: -x+0"))
    network, people = as_checked(model)
    grove = checker.Grove(network, people, False)
    box = people.everybody()
    # −0.5 goes with those below it, and its mirror image 0.5 with those below that: they are decided differently.
    assert model.predict(pd.DataFrame({"x": [-0.5, 0.5], "owner": True})).tolist() == ["no", "yes"]
    assert not grove.is_fair(0, box | {"x": (-1.0, -0.5)})
    with pytest.raises(checker.Rejected, match="a rule mirrors"):
        checker.prove_trees(network, people)


def test_decisions_of_one_person_are_claimed_only_beyond_rounding():
    """0.1 three times is more than 0.3 in float64 and less than 0.30000000000000004 in real numbers."""
    leaves = [("hours", 3, 0.1, 0.0)] * 3
    person = {"hours": 2, "owner": True}
    for at, real, machine in ((0.3, 1, None), (0.30000000000000004, 0, None), (0.25, 1, 1), (0.35, 0, 0)):
        network, people = as_checked(grown((HOURS, OWNER), ("owner",), leaves, at=at))
        assert checker.decide(network, people, person, "real") == real
        assert checker.decide(network, people, person, "float64") == machine


def test_boxes_are_decided_only_beyond_rounding():
    """0.1 ten times is 1, or hardly less, by the order in which float64 adds; in real numbers it is more than 1."""
    trees = [("hours", 20, 0.1, 0.0)] * 10
    network, people = as_checked(grown((HOURS, OWNER), ("owner",), trees, at=1 - 2.0**-52))
    proven = [checker.Grove(network, people, float64).is_fair(1, people.everybody()) for float64 in (False, True)]
    assert proven == [True, False]


def test_the_same_leaves_are_the_same_sum_in_float64_only_if_no_sum_rounds():
    for kind, valid in (("forest", True), ("forest of shares", False)):
        forgery = Forgery.of(bundle(kind)).claim("verified", "bounds", ["real", "float64"], ["same"])
        assert answer(forgery.restated().sealed())["valid"] == valid
        forgery = Forgery.of(bundle(kind)).claim("verified", "bounds", ["real"], ["same"])
        assert answer(forgery.restated().sealed())["valid"]


def test_random_forests_are_checked_beside_everybody():
    """Searched proofs hold for everybody who could exist; what is decided is what onnxruntime decides."""
    rng, seen = np.random.default_rng(5), Counter()
    for _ in range(60):
        model = random_forest_model(rng, most=3)
        try:
            network, people = as_checked(model)
        except InputError:
            seen["refused"] += 1
            continue
        tree = find_tree(network, people, executed=False, timeout=2.0, most_leaves=200)
        fair = not everybody(model).unfair.any()
        seen["fair" if fair else "unfair", tree is not None] += 1
        assert fair or tree is None
        if tree is not None:
            assert checker.check_tree(tree, checker.Grove(network, people, False)) > 0
        somebody = model.domain.sample(12, seed=1).to_dict("records")
        somebody = [{name: plain_level(value) for name, value in person.items()} for person in somebody]
        labels = served(session_of(forest_bytes(model)), somebody)
        for person, label in zip(somebody, labels, strict=True):
            decided = checker.decide(network, people, person, "float64")
            assert decided is None or str(network.classes[decided]) == label
    assert seen["fair", True] > 5 and seen["unfair", False] > 10 and not seen["unfair", True]


# --- the file of its own library beside it ---

DOCUMENT = {
    "learner": {
        "attributes": {}, "feature_names": ["age", "hours", "owner"], "feature_types": [],
        "gradient_booster": {
            "name": "gbtree",
            "model": {
                "gbtree_model_param": {"num_trees": "1"}, "tree_info": [0],
                "trees": [{"left_children": [1, -1, -1], "split_indices": [0, 2, 2]}],
            },
        },
        "learner_model_param": {}, "objective": {"name": "binary:logistic"},
    },
    "version": [3, 0, 0],
}  # fmt: skip
TEXT = "tree\nfeature_names=age hours owner\n\nTree=0\nsplit_feature=0 1\nis_linear=0\n\n\nend of trees\n"


def with_native(suffix, content):
    trees = [("age", 30, -1.0, ("hours", 5, 1.0, 0.5))]
    model = grown((AGE, HOURS, OWNER), ("owner",), trees).certified()
    kept = dataclasses.replace(model, native=Native(suffix, content.encode()))
    return bundle_files(kept)


def edited(path, value):
    document = copy.deepcopy(DOCUMENT)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return json.dumps(document)


BOOSTER = ("learner", "gradient_booster")
TREE = (*BOOSTER, "model", "trees", 0)


@pytest.mark.parametrize(
    ("suffix", "content", "reason"),
    [
        (".json", edited((*TREE, "split_indices"), [2, 0, 0]), "model.json reads 'owner'"),
        (".json", edited((*TREE, "left_children"), [1, 3, -1]), "model.json reads 'owner'"),
        (".json", edited((*TREE, "split_indices"), [0]), "other splits than columns"),
        (".json", edited((*TREE, "split_indices"), [7, 0, 0]), "not there"),
        (".json", edited((*TREE, "split_indices"), [1.0, 0, 0]), "not there"),
        (".json", edited((*TREE, "left_children"), ["1", "-1", "-1"]), "no number"),
        (".json", edited((*BOOSTER, "name"), "dart"), "not one of the models"),
        (".json", edited((*BOOSTER, "other"), {}), "not one of the models"),
        (".json", edited(("learner", "second"), {}), "not one of the models"),
        (".json", edited(("learner", "feature_names"), ["age", "hours", "hours"]), "not those of the domain"),
        (".json", edited(("learner", "feature_names"), ["age", "hours", "height"]), "not those of the domain"),
        (".json", json.dumps(DOCUMENT)[:-1] + ',"learner":{}}', "names a field twice"),
        (".txt", TEXT.replace("0 1", "0 2"), "model.txt reads 'owner'"),
        (".txt", TEXT.replace("0 1", "0 9"), "not there"),
        (".txt", TEXT.replace("split_feature=0 1", " split_feature=0 1"), "odd line"),
        (".txt", TEXT.replace("split_feature=0 1\n", ""), "nothing is said"),
        (".txt", TEXT.replace("is_linear=0", "is_linear=1"), "linear"),
        (".txt", TEXT.replace("is_linear=0", "leaf_features=2"), "not one of the models"),
        (".txt", TEXT.replace("\n", "\r\n"), "not one of the models"),
        (".txt", TEXT + "feature_names=owner hours age\n", "does not name its features once"),
    ],
)
def test_a_native_file_that_reads_what_is_sensitive_is_rejected(suffix, content, reason):
    """bornfair leaves it out of the bundle; a forger who puts it there is found out."""
    assert f"model{suffix}" not in with_native(suffix, content)
    good = with_native(suffix, json.dumps(DOCUMENT) if suffix == ".json" else TEXT)
    name = f"model{suffix}"
    assert answer(reseal(good))["valid"] and f"no split of {name} reads them either" in answer(reseal(good))["reason"]
    found = answer(reseal(good | {name: content.encode()}))
    assert not found["valid"] and reason in found["reason"]


def reseal(files):
    facts = json.loads(files["certificate.json"])
    kept = {name: content for name, content in files.items() if name not in ("certificate.json", "report.html")}
    facts["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in kept.items()}
    facts["sha256"] = checker.digest_of(facts)
    return kept | {"certificate.json": json.dumps(facts).encode()}


def test_a_native_file_must_be_the_one_that_the_certificate_names(tmp_path):
    files = with_native(".json", json.dumps(DOCUMENT))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert checker.check(tmp_path)["valid"]
    (tmp_path / "model.json").write_text(edited(("version",), [3, 0, 1]))
    assert "another model.json" in checker.check(tmp_path)["reason"]
    with pytest.raises(InputError, match=r"about another model\.json"):
        load(tmp_path)
    (tmp_path / "model.json").unlink()
    assert "names other files" in checker.check(tmp_path)["reason"]
    (tmp_path / "model.json").write_bytes(files["model.json"])
    (tmp_path / "model.txt").write_text(TEXT)
    assert "another model.txt" in checker.check(tmp_path)["reason"]


def test_a_native_file_beside_a_network_or_a_proof_by_bounds_is_rejected():
    for kind, reason in (("ignoring", "another kind"), ("forest, by bounds", "nothing of this kind")):
        files = reseal(bundle(kind) | {"model.json": json.dumps(DOCUMENT).encode()})
        assert reason in answer(files)["reason"]


def test_a_bundle_with_its_native_file_survives_zip_and_load(tmp_path):
    trees = [("age", 30, -1.0, ("hours", 5, 1.0, 0.5))]
    model = grown((AGE, HOURS, OWNER), ("owner",), trees).certified()
    kept = dataclasses.replace(model, native=Native(".json", json.dumps(DOCUMENT).encode()))
    for place in (tmp_path / "bundle", tmp_path / "bundle.zip"):
        kept.save(place)
        assert checker.check(place)["valid"]
        again = load(place)
        assert isinstance(again, FairForest) and again.native.content == kept.native.content
        people = model.domain.sample(200, seed=3)
        assert np.array_equal(again.raw_scores(people), model.raw_scores(people))
        assert (again.predict(people) == model.predict(people)).all()


# --- forged at random ---


@pytest.mark.parametrize("family", TREE_MUTATIONS)
def test_what_a_forger_gets_accepted_is_true(family):
    chance, seen = random.Random(family), Counter()
    for i in range(80):
        what, forgery = forge(bundle(FORESTS[i % len(FORESTS)]), [family], chance, known=TREE_MUTATIONS)
        files = forgery.sealed()
        found = answer(files)
        wrong = contradiction(files, found, seed=i, count=24)
        assert wrong is None, f"{what}: {found['claim']} But {wrong}"
        seen["accepted" if found["valid"] else "rejected"] += 1
    assert seen["rejected"] > 20 and seen["accepted"] > 2


def test_what_is_accepted_of_many_forgeries_is_true():
    found = run(500, seed=12)
    assert not found.wrong
    assert all(found.outcomes[kind] >= 5 for kind in ("verified by structural", "verified by bounds", "rejected"))


def test_the_judge_notices_a_false_claim():
    unfair = bundle("forest, falsified")
    said = {"valid": True, "verdict": "verified", "proof": "bounds"}
    for arithmetic in (["real"], ["float64"], ["real", "float64"]):
        assert "is decided differently" in contradiction(unfair, said | {"arithmetic": arithmetic})
