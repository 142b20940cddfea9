"""Forged bundles: whatever is changed, nothing is accepted that is not true of the files as they are."""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import numpy as np
import onnx
import pytest

from bornfair.people.features import IntegerFeature, RealFeature
from bornfair.proof.bundle import bundle_files
from bundle_cases import (
    HOURS,
    KINDS,
    NAMES,
    RACE,
    Forgery,
    answer,
    bundle,
    hand_made,
    sealed,
)
from checker_fuzz import run
from forgeries import MUTATIONS, damaged, forge
from graph_oracle import contradiction

pytestmark = pytest.mark.slow

BOTH = ("real", "float32")


@pytest.mark.parametrize("kind", KINDS)
def test_what_bornfair_writes_is_accepted_and_true(kind):
    found = answer(bundle(kind))
    expected = {"falsified": "falsified", "undecided": "undecided"}.get(kind, "verified")
    assert found["valid"] and found["verdict"] == expected
    assert contradiction(bundle(kind), found) is None


def test_the_judge_notices_a_false_claim():
    """Otherwise all that follows would show nothing."""
    unfair = bundle("falsified")
    said = {"valid": True, "verdict": "verified", "proof": "bounds", "arithmetic": list(BOTH)}
    assert "is decided differently" in contradiction(unfair, said)
    assert "is decided differently" in contradiction(unfair, said | {"arithmetic": ["real"]})
    forgery = Forgery.of(unfair)
    forgery.certificate["twins"][1] = forgery.certificate["twins"][0]
    assert "the twins get" in contradiction(forgery.sealed(), answer(unfair))


# --- one byte, one file ---


@pytest.mark.parametrize("kind", ["structural", "bounds", "falsified", "undecided"])
@pytest.mark.parametrize(("name", "reason"), [("model.onnx", "another model.onnx"), ("domain.json", "another domain")])
def test_every_single_byte_of_model_and_domain_counts(kind, name, reason):
    files = bundle(kind)
    step = 7 if name == "model.onnx" else 3
    for at in range(kind == "bounds", len(files[name]), step):
        content = bytearray(files[name])
        content[at] ^= 1 << (at % 8)
        found = answer(files | {name: bytes(content)})
        assert not found["valid"] and reason in found["reason"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_another_bundle_is_rejected(name):
    for kind, other in [("structural", "bounds"), ("bounds", "tanh"), ("undecided", "classes")]:
        found = answer(bundle(kind) | {name: bundle(other)[name]})
        assert not found["valid"] and "is about another" in found["reason"]


def test_a_certificate_moved_to_another_model_is_rejected():
    """The forger rewrites the digests, but the proof is of the fair model."""
    proof, unfair = Forgery.of(bundle("ignoring")), bundle("falsified")
    moved = sealed(unfair["model.onnx"], unfair["domain.json"], proof.certificate)
    found = answer(moved)
    assert not found["valid"] and "which twins may have" in found["reason"]


def test_a_model_without_its_sensitive_weights_is_another_model():
    forgery = Forgery.of(bundle("falsified"))
    weights = forgery.constant("weight 0")
    weights[:, -1] = 0
    forgery.put("weight 0", weights)
    assert "twins are not shown to differ" in answer(forgery.sealed())["reason"]


# --- named forgeries, all of them sealed anew ---


def _leaf(forgery, which=0):
    tree = forgery.certificate["tree"]
    return tree, [i for i, entry in enumerate(tree) if not isinstance(entry, list)][which]


def leaf_left_out(forgery):
    tree, at = _leaf(forgery, 3)
    del tree[at]


def last_leaf_left_out(forgery):
    forgery.certificate["tree"].pop()


def leaf_added(forgery):
    forgery.certificate["tree"].append(0)


def leaf_of_another_class(forgery):
    tree, at = _leaf(forgery)
    tree[at] = 1 - tree[at]


def no_tree(forgery):
    forgery.certificate["tree"] = None


def cut_beyond_the_box(forgery):
    next(entry for entry in forgery.certificate["tree"] if entry[0] == "age")[1] = 60


def cut_between_twins(forgery):
    forgery.certificate["tree"] = [["owner", [True]], 0, 0]


def cut_nothing(forgery):
    forgery.certificate["tree"] = [["job", []], 0, 0]


def exact_leaf_in_float32(forgery):
    forgery.certificate["tree"] = ["exact"]


def age_widened(forgery):
    forgery.domain["features"][0]["high"] = 90


def sensitive_value_added(forgery):
    forgery.domain["features"][1]["categories"].append("d")
    forgery.restated()


def another_sensitive_feature(forgery):
    forgery.domain["sensitive"] = ["job"]
    forgery.restated()


def one_more_sensitive_feature(forgery):
    forgery.domain["sensitive"].append("job")
    forgery.restated()


def no_sensitive_feature(forgery):
    forgery.domain["sensitive"] = []
    forgery.restated()


def combination_that_cannot_be(forgery):
    forgery.domain["combinations"] = [["nobody"]]


def operator(name, new):
    def change(forgery):
        next(node for node in forgery.model.graph.node if node.op_type == name).op_type = new

    return change


def gemm(attribute, value):
    def change(forgery):
        node = next(node for node in forgery.model.graph.node if node.op_type == "Gemm")
        node.attribute.append(onnx.helper.make_attribute(attribute, value))

    return change


def threshold_moved(forgery):
    forgery.put("zero", np.array([0.25], np.float32))


def classes_swapped(forgery):
    forgery.put("classes", np.array(["yes", "no"], object))


def reads_the_other_layer(forgery):
    nodes = {node.output[0]: node for node in forgery.model.graph.node}
    nodes["layer 2"].input[0] = "layer 1"


def sensitive_column_read_twice(forgery):
    """The same weights, but the job is read where the owner was."""
    node = next(node for node in forgery.model.graph.node if node.output[0] == "encoded")
    node.input[2] = node.input[1]


def verdict_flipped(forgery):
    forgery.claim("verified", "structural", BOTH).restated()


def arithmetic_widened(forgery):
    forgery.certificate["arithmetic"] = list(BOTH)
    forgery.restated()


def claim_without_its_limits(forgery):
    forgery.certificate["claim"] = "The model is fair."


def other_property(forgery):
    forgery.certificate["property"]["relation"] = "everything"


def twins_who_are_one(forgery):
    forgery.certificate["twins"][1] = forgery.certificate["twins"][0]


def twins_of_different_age(forgery):
    forgery.certificate["twins"][1]["age"] -= 1


def twins_from_elsewhere(forgery):
    for twin in forgery.certificate["twins"]:
        twin["income"] = 1e6


def decisions_swapped(forgery):
    forgery.certificate["decisions"].reverse()


def doubt_with_twins(forgery):
    twins = forgery.certificate["twins"]
    forgery.claim("undecided").restated().certificate["twins"] = twins


@pytest.mark.parametrize(
    ("kind", "forged", "reason"),
    [
        ("bounds", leaf_left_out, "is not proven|is cut at|leaves 1 part"),
        ("bounds", last_leaf_left_out, "leaves 1 part\\(s\\) of the domain open"),
        ("bounds", leaf_added, "goes on after its last leaf"),
        ("bounds", leaf_of_another_class, "leaf 1 \\(1\\) is not proven"),
        ("bounds", no_tree, "TypeError|tree"),
        ("bounds", cut_beyond_the_box, "'age' is cut at 60"),
        ("bounds", cut_between_twins, "a cut along 'owner'"),
        ("bounds", cut_nothing, "a cut of 'job' cuts nothing"),
        ("bounds", exact_leaf_in_float32, "leaf 1 \\(exact\\) is not proven"),
        ("bounds", age_widened, "the model cuts off values of 'age'"),
        ("cancelling", sensitive_value_added, "'one-hot race' is not the OneHotEncoder expected"),
        ("structural", another_sensitive_feature, "is not the|wrong|reads"),
        ("bounds", one_more_sensitive_feature, "is not the|some sensitive inputs but not others"),
        ("structural", no_sensitive_feature, "not the|nothing to verify"),
        ("cancelling", combination_that_cannot_be, "combination \\['nobody'\\] is odd"),
        ("bounds", operator("Relu", "Tanh"), "two kinds of activation"),
        ("tanh", operator("Tanh", "Sigmoid"), "is not proven"),
        ("tanh", operator("Tanh", "Elu"), "is not the|do not fit"),
        ("bounds", operator("Sub", "Add"), "is not the Sub expected"),
        ("bounds", operator("Greater", "Less"), "is not the Greater expected"),
        ("bounds", gemm("alpha", 2.0), "a field that is not understood"),
        ("bounds", gemm("transA", 1), "is not the Gemm expected"),
        ("bounds", threshold_moved, "the decision is not made at 0"),
        ("structural", threshold_moved, "the decision is not made at 0"),
        ("bounds", classes_swapped, "the classes are not those of the domain"),
        ("bounds", reads_the_other_layer, "is not the"),
        ("falsified", sensitive_column_read_twice, "is not the Concat expected"),
        ("falsified", verdict_flipped, "which twins may have"),
        ("undecided", verdict_flipped, "which twins may have"),
        ("cancelling", arithmetic_widened, "holds in real arithmetic only"),
        ("exact", arithmetic_widened, "is not proven"),
        ("structural", claim_without_its_limits, "the claim says something else"),
        ("structural", other_property, "about another property"),
        ("falsified", twins_who_are_one, "the twins are one person"),
        ("falsified", twins_of_different_age, "differ in more than the sensitive features"),
        ("falsified", twins_from_elsewhere, "which is not in the domain"),
        ("falsified", decisions_swapped, "other decisions in real arithmetic"),
        ("falsified", doubt_with_twins, "there are twins, but no falsification"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_forged_bundle_is_rejected_with_the_reason(kind, forged, reason):
    forgery = Forgery.of(bundle(kind))
    forged(forgery)
    found = answer(forgery.sealed())
    assert not found["valid"] and re.search(reason, found["reason"])


# --- attacks on the reasoning itself: each is sealed, and each claims something untrue ---


def reading_codes(feature, steps=None):
    """A model of two neurons that reads one sensitive feature, ready to be forged."""
    layers = [([[1.0] + [1.0] * (3 if feature is RACE else 1)], [0.0]), ([[1.0]], [-1.0])]
    forgery = Forgery.of(bundle_files(hand_made((HOURS, feature), (feature.name,), layers)))
    nodes = [node for node in forgery.model.graph.node if node.output[0].startswith(f"code {feature.name}")]
    for node, (operator, number) in zip(nodes, steps or (), strict=False):
        node.op_type = operator
        forgery.put(node.input[1], np.array([[number]]))
    return forgery


def a_code_with_one_column_twice():
    """Level 'a' switches on two inputs of weight 1, so it counts 2, not 1."""
    forgery = reading_codes(RACE)
    forgery.put("codes of race", np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], np.float32))
    forgery.put("weight 0", np.array([[0, 1, 0, 0, 1]], np.float32))
    forgery.put("bias 1", np.array([-1.5], np.float32))
    return forgery.claim("verified", "bounds", BOTH, [0])


def test_a_number_that_is_turned_round_is_rejected():
    """Its ends would change places, and bounds between them hold for nobody."""
    forgery = Forgery.of(bundle("bounds"))
    (node, *_) = (node for node in forgery.model.graph.node if node.op_type == "Mul")
    forgery.put(node.input[1], -forgery.constant(node.input[1]))
    assert "scaled by a factor below 0" in answer(forgery.sealed())["reason"]


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_number_that_is_scaled_by_zero_counts_as_a_constant(zero):
    """Everybody has the same number then: what holds for both ends holds for all."""
    forgery = Forgery.of(bundle("bounds"))
    (node, *_) = (node for node in forgery.model.graph.node if node.op_type == "Mul")
    forgery.put(node.input[1], np.full_like(forgery.constant(node.input[1]), zero))
    files = forgery.claim("verified", "bounds", ["real"], [0]).restated().sealed()
    found = answer(files)
    assert found["valid"] and contradiction(files, found) is None


def a_code_that_becomes_infinite():
    """0 times infinity is not a number, and the decision then is no."""
    steps = [("Sub", 1.0), ("Mul", 1e300), ("Mul", 1e300), ("Add", 0.0), ("Mul", 1.0)]
    forgery = reading_codes(IntegerFeature(name="grade", low=1, high=5), steps)
    forgery.put("weight 0", np.array([[1, 0]], np.float32))
    return forgery.claim("verified", "structural", BOTH)


def a_range_with_fewer_values_than_two(grid):
    """All real numbers from 0 to 100 exist, but only one of them is looked at."""
    forgery = reading_codes(RealFeature(name="wealth", low=0.0, high=100.0))
    forgery.domain["features"][1]["grid"] = grid
    return forgery.claim("verified", "structural", ["real"])


def a_range_too_small_for_its_grid():
    """The steps between the listed values underflow to 0, and all of them are one; the code is large all the same."""
    steps = [("Sub", 0.0), ("Mul", 1e300), ("Mul", 1e20), ("Add", 0.0), ("Mul", 1e5)]
    forgery = reading_codes(RealFeature(name="wealth", low=0.0, high=1.0), steps)
    forgery.domain["features"][1].update(high=1e-320, grid=100_000)
    return forgery.claim("verified", "structural", ["real"])


def decisions_of_one_name():
    """Twins with different classes, which are both called yes."""
    forgery = Forgery.of(bundle("falsified"))
    forgery.put("classes", np.array(["yes", "yes"], object))
    forgery.domain["label"]["classes"] = forgery.certificate["decisions"] = ["yes", "yes"]
    return forgery


def decisions_that_read_the_same():
    forgery = Forgery.of(bundle("falsified"))
    forgery.put("classes", np.array(["1", "1"], object))
    forgery.domain["label"]["classes"] = ["1", 1]
    forgery.certificate["decisions"] = ["1", 1] if forgery.certificate["decisions"] == ["no", "yes"] else [1, "1"]
    return forgery


def decisions_that_are_both_true():
    """Classes false and true, but the false one is stored as the byte 2, which a runtime takes for true."""
    forgery = Forgery.of(bundle("falsified"))
    forgery.put("classes", np.array([False, True]))
    next(t for t in forgery.model.graph.initializer if t.name == "classes").raw_data = b"\2\1"
    forgery.model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    forgery.domain["label"]["classes"] = [False, True]
    forgery.certificate["decisions"] = [name == "yes" for name in forgery.certificate["decisions"]]
    return forgery


@pytest.mark.parametrize(
    "attack",
    [
        a_code_with_one_column_twice,
        a_code_that_becomes_infinite,
        pytest.param(lambda: a_range_with_fewer_values_than_two(0), id="grid_0"),
        pytest.param(lambda: a_range_with_fewer_values_than_two(-7), id="grid_-7"),
        pytest.param(lambda: a_range_with_fewer_values_than_two(1), id="grid_1"),
        a_range_too_small_for_its_grid,
        decisions_of_one_name,
        decisions_that_read_the_same,
        decisions_that_are_both_true,
    ],
)
def test_an_attack_on_the_reasoning_is_rejected(attack):
    files = attack().restated().sealed()
    found = answer(files)
    assert not found["valid"], contradiction(files, found)


# --- graphs that no runtime would run: then there is no decision to speak of ---


def gelu_before_its_time(forgery):
    for node in forgery.model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Gelu"


def constant(name, change):
    def forged(forgery):
        forgery.put(name, change(forgery.constant(name)))

    forged.__name__ = f"{name}_{change(np.ones((1, 2))).shape}"
    return forged


def other_output_type(forgery):
    forgery.model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT


def version_of_the_future(forgery):
    forgery.model.ir_version = 99


def no_class(forgery):
    forgery.put("classes", np.array([], object))
    forgery.domain["label"]["classes"] = []
    weights = forgery.constant("weight 1")
    forgery.put("weight 1", weights[:0])
    forgery.put("bias 1", np.zeros(0, np.float32))
    nodes = list(forgery.model.graph.node)
    at = next(i for i, node in enumerate(nodes) if node.op_type == "Greater")
    kept = [node for node in nodes[at:] if node.op_type == "Gather"]
    best = onnx.helper.make_node("ArgMax", ["layer 1"], [kept[0].input[1]], axis=1, keepdims=0)
    share = onnx.helper.make_node("Softmax", ["layer 1"], ["probabilities"], axis=1)
    del forgery.model.graph.node[:]
    forgery.model.graph.node.extend([*nodes[:at], best, *kept, share])
    forgery.model.graph.output[1].type.tensor_type.shape.dim[1].dim_value = 0


def single_class(forgery):
    forgery.put("classes", np.array(["no"], object))
    forgery.domain["label"]["classes"] = ["no"]


@pytest.mark.parametrize(
    "forged",
    [
        gelu_before_its_time,
        constant("axis", lambda old: np.array(1)),
        constant("axis", lambda old: np.array([1.0])),
        constant("axis 2", lambda old: np.array(1)),
        constant("classes", lambda old: old.reshape(-1, 1)),
        constant("classes", lambda old: old.reshape(1, -1)),
        constant("fill", lambda old: np.zeros((3, 2))),
        constant("fill", lambda old: np.zeros((0, 2))),
        constant("fill", lambda old: old.astype(np.float32)),
        other_output_type,
        version_of_the_future,
        single_class,
        no_class,
    ],
)
def test_a_graph_that_cannot_run_is_rejected(forged):
    forgery = Forgery.of(bundle("structural"))
    forged(forgery)
    assert not answer(forgery.restated().sealed())["valid"]


@pytest.mark.parametrize("factor", [-1.0, 0.0, -0.0])
def test_a_code_that_does_not_grow_with_its_number_is_rejected(factor):
    forgery = Forgery.of(bundle("classes"))
    node = next(n for n in forgery.model.graph.node if n.op_type == "Div" and "grade" in n.output[0])
    forgery.put(node.input[1], np.array([[factor]]))
    assert "does not grow" in answer(forgery.restated().sealed())["reason"]


# --- mutations at random ---

DAMAGES, FORGERIES = 125, 300  # for each file of each of four bundles; for each family


@pytest.mark.parametrize("name", NAMES)
def test_random_damage_is_always_noticed(name):
    """1,500 of them. In certificate.json a space more or less changes nothing; then it must still read the same."""
    for kind in ("structural", "bounds", "falsified", "undecided"):
        files, chance = bundle(kind), random.Random(f"{kind} {name}")
        whole = answer(files)
        for _ in range(DAMAGES):
            content = damaged(files[name], chance)
            if content == files[name]:
                continue
            found = answer(files | {name: content})
            if found["valid"]:
                assert name == "certificate.json" and found == whole
                assert json.dumps(json.loads(content)) == json.dumps(json.loads(files[name]))


@pytest.mark.parametrize("family", MUTATIONS)
def test_what_a_forger_gets_accepted_is_true(family):
    """Every digest fits; what is accepted is put to onnxruntime, person by person."""
    chance, seen = random.Random(family), Counter()
    for i in range(FORGERIES):
        what, forgery = forge(bundle(KINDS[i % len(KINDS)]), [family], chance)
        files = forgery.sealed()
        found = answer(files)
        wrong = contradiction(files, found, seed=i)
        assert wrong is None, f"{what}: {found['claim']} But {wrong}"
        by_digest = re.search("is about another (model|domain)|changed after it was written", found["reason"])
        seen["accepted" if found["valid"] else "by digest" if by_digest else "by content"] += 1
    assert seen["by digest"] == 0  # the forger got past what a hash would notice, to what must be understood
    assert seen["by content"] > FORGERIES / 3 and seen["accepted"] > FORGERIES / 20


def test_what_is_accepted_of_many_forgeries_is_true():
    """Random models of every kind of feature, several changes at once, archives; more by `make nightly`."""
    found = run(1200, seed=12)
    assert not found.wrong
    assert all(found.outcomes[kind] >= 5 for kind in ("verified by structural", "verified by bounds", "archive"))


def held_ends(forgery: Forgery) -> tuple[str, str]:
    """The constants that hold numbers from above and from below."""
    names = {node.op_type: node.input[1] for node in forgery.model.graph.node if node.op_type in ("Min", "Max")}
    return names["Min"], names["Max"]


def test_numbers_that_are_held_are_read_with_their_ends():
    forgery = Forgery.of(bundle("held"))
    most, least = (forgery.constant(name) for name in held_ends(forgery))
    assert most.tolist() == [[24.0, 5.0]] and least[0, 1] == 5.0
    assert answer(bundle("held"))["proof"] == "bounds"


@pytest.mark.parametrize("change", ["crossed", "infinite", "gone", "twice", "sensitive"])
def test_odd_ends_are_rejected(change):
    forgery = Forgery.of(bundle("held"))
    most, least = held_ends(forgery)
    nodes = forgery.model.graph.node
    holding = [i for i, node in enumerate(nodes) if node.op_type in ("Min", "Max")]
    if change == "crossed":
        forgery.put(least, [[18.0, 5.5]])
    elif change == "infinite":
        forgery.put(most, [[np.inf, 5.0]])
    elif change == "gone":
        nodes[holding[1] + 1].input[0] = nodes[holding[0]].output[0]
        del nodes[holding[1]]
    elif change == "twice":
        again = onnx.NodeProto()
        again.CopyFrom(nodes[holding[1]])
        again.input[0], again.output[0] = nodes[holding[1]].output[0], "again"
        nodes[holding[1] + 1].input[0] = "again"
        nodes.insert(holding[1] + 1, again)
    else:  # a number in which twins differ must not be held
        forgery.domain["sensitive"] = ["age"]
        forgery.claim("verified", "structural", BOTH)
    assert not answer(forgery.restated().sealed())["valid"]


def test_a_leaf_that_held_numbers_decide_is_not_accepted_where_they_are_not_held():
    forgery = Forgery.of(bundle("held"))
    most, _ = held_ends(forgery)
    forgery.put(most, [[200.0, 5.0]])
    found = answer(forgery.sealed())
    assert not found["valid"] or contradiction(forgery.sealed(), found) is None
