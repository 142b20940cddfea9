"""The rules of `bornfair.models.deciding`, one by one: on small graphs, and on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

from bornfair.core.errors import InputError
from bornfair.models.deciding import (
    Graph,
    Meaning,
    Output,
    Rule,
    are_probabilities,
    compared_part,
    deciding,
    feeding,
    served,
    usual_threshold,
)  # fmt: skip
from bornfair.models.reading import Reading

PLAIN = Reading()
MOVED = Reading(threshold=0.3)
CONSTANTS = (
    "float half = {0.5}, float[3] mine = {1, 2, 3}, float[3, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}, int64[1] one = {1},"
    ' int64[1] flat = {-1}, float[2] two = {0, 1}, string[3] names = {"a", "b", "c"}'
)


def graph(outputs: str, body: str, functions: str = "") -> Graph:
    """A graph of an input x [N, 3] with these outputs."""
    body = body.replace("BEST", "ArgMax<axis = 1, keepdims = 0>")
    text = f"""<ir_version: 9, opset_import: ["" : 13, "ai.onnx.ml" : 3, "own" : 1]>
    g (float[N, 3] x) => ({outputs}) <{CONSTANTS}> {{ {body} }} {functions}"""
    return Graph(parser.parse_model(text), {"x"}, "the model")


def outputs(found: Graph) -> dict[str, Output]:
    return {output.name: output for output in found.candidates}


FUNCTION = '<domain: "own", opset_import: ["" : 13]> Greater (a) => (b) { b = Neg(a) }'
TREE = """l, s = ai.onnx.ml.TreeEnsembleClassifier<nodes_treeids = [0], nodes_nodeids = [0], nodes_modes = ["LEAF"],
    class_ids = [0], class_weights = [1.0], classlabels_int64s = [0, 1]>(x)"""


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("float[N, 3]", "y = Sigmoid(x)", "scores"),
        ("float16[N, 3]", "y = Cast<to = 10>(x)", "scores"),
        ("double[N, 3]", "y = Cast<to = 11>(x)", "scores"),
        ("bfloat16[N, 3]", "y = Cast<to = 16>(x)", "scores"),
        ("int64[N]", "y = BEST(x)", "label"),
        ("bool[N, 3]", "y = Greater(x, half)", "label"),
        ("string[N]", "k = BEST(x)  y = Gather(names, k)", "label"),
        ("float[N, 3]", "g = Greater(x, half)  y = Cast<to = 1>(g)", "label"),
        ("float[N, 3]", "k = Cast<to = 7>(x)  y = Cast<to = 1>(k)", "label"),
        ("float[N, 3]", "k = Cast<to = 9>(x)  y = Cast<to = 1>(k)", "label"),
        ("float[N, 3]", "g = Greater(x, half)  k = Cast<to = 1>(g)  y = Reshape(k, flat)", "label"),
        ("float[N, 3]", "g = Greater(x, half)  y = Where(g, half, mine)", "label"),
        ("float[N, 3]", "g = Greater(x, half)  y = Where(g, x, mine)", "scores"),
        ("float[N, 3]", "g = Greater(x, half)  k = Cast<to = 1>(g)  y = Mul(k, x)", "scores"),
        ("float[N]", "k = BEST(x)  y = Gather(two, k)", "label"),
        ("float[N]", "k = BEST(x)  y = ai.onnx.ml.ArrayFeatureExtractor(mine, k)", "label"),
        ("float[N, 1]", "y = Gather<axis = 1>(x, one)", "scores"),
        ("float[N]", "k = BEST(x)  y = Gather(x, k)", "scores"),
        ("float[N, 3]", "y = own.Greater(x)", "scores"),
        ("int64[N]", f"{TREE}  y = Identity(l)", "label"),
        ("float[N]", f"{TREE}  y = Cast<to = 1>(l)", "label"),
        ("float[N, 2]", f"{TREE}  y = Identity(s)", "scores"),
        ("seq(map(int64, float))", f"{TREE}  y = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>(s)", "scores"),
    ],
)  # fmt: skip
def test_a_label_is_told_from_scores_by_type_and_operators(kind: str, body: str, expected: str) -> None:
    found = graph(f"{kind} y", body, FUNCTION if "own." in body else "")
    assert found.kind("y") == expected
    assert [(output.name, output.kind) for output in found.candidates] == [("y", expected)]


def test_an_output_of_an_unknown_type_that_the_input_gives_is_scores() -> None:
    assert graph("float[N, 3] x", "").kind("x") == "scores"
    assert graph("float[N, 3] y", "y = Neg(x)").kind("elsewhere") == "scores"


@pytest.mark.parametrize(
    ("body", "links", "same", "moved"),
    [
        ("a = Neg(x)  b = Sigmoid(a)", (0, 1), True, False),
        ("a = Neg(x)  c = Softmax(a)  d = Identity(c)  b = LogSoftmax(d)", (0, 2), True, False),
        ("a = Neg(x)  b = Identity(a)", (0, 0), True, True),
        ("c = Sigmoid(x)  a = Identity(c)  b = Flatten(c)", (1, 1), True, True),
        ("a = Neg(x)  b = Abs(x)", (0, 0), False, False),
        ("a = Sigmoid(x)  c = Neg(x)  b = Sigmoid(c)", (1, 1), False, False),
        ("a = Neg(x)  b = Exp(a)", (0, 0), False, False),
    ],
)
def test_scores_decide_alike_where_one_is_a_link_of_the_other(body: str, links: Any, same: bool, moved: bool) -> None:
    found = graph("float[N, 3] a, float[N, 3] b", body)
    a, b = (outputs(found)[name] for name in "ab")
    assert (found.unlinked("a")[1], found.unlinked("b")[1]) == links
    assert found.same(a, b, PLAIN) == found.same(b, a, PLAIN) == same
    assert found.same(a, b, MOVED) == found.same(b, a, MOVED) == moved


@pytest.mark.parametrize(
    ("kinds", "body", "same"),
    [
        ("bool[N, 3] a, int64[N, 3] b", "a = Greater(x, half)  b = Cast<to = 7>(a)", True),
        ("float[N, 3] a, int64[N, 3] b", "g = Greater(x, half)  a = Cast<to = 1>(g)  b = Cast<to = 7>(g)", True),
        ("bool[N, 3] a, bool[N, 3] b", "a = Greater(x, half)  b = Less(x, half)", False),
        ("bool[N, 3] a, bool[N, 3] b", "a = Greater(x, half)  b = Not(a)", False),
        # a cast to bool makes another label of a number; one that no step made may mean anything
        ("int64[N, 3] a, bool[N, 3] b", "a = Cast<to = 7>(x)  b = Cast<to = 9>(a)", False),
        ("int64[N, 3] a, int32[N, 3] b", "a = Cast<to = 7>(x)  b = Cast<to = 6>(x)", False),
    ],
)
def test_labels_decide_alike_where_they_show_one_step(kinds: str, body: str, same: bool) -> None:
    found = graph(kinds, body)
    a, b = (outputs(found)[name] for name in "ab")
    assert a.kind == b.kind == "label" and found.same(a, b, PLAIN) == found.same(b, a, PLAIN) == same


SVM = """l, {} = ai.onnx.ml.SVMClassifier<classlabels_ints = [0, 1, 2]>(x)"""


@pytest.mark.parametrize(
    ("scores", "body", "beside"),
    [
        ("float[N, 3] s", "z = MatMul(x, w)  s = Softmax(z)  l = BEST(z)", True),
        ("float[N, 3] s", "z = MatMul(x, w)  y = Neg(z)  s = Add(y, mine)  l = BEST(z)", True),
        ("float[N, 3] s", "z = MatMul(x, w)  y = Neg(x)  s = Add(y, z)  l = BEST(z)", False),
        ("float[N, 3] s", "z = MatMul(x, w)  s = Abs(x)  l = BEST(z)", False),
        ("float[N, 3] s", "z = MatMul(x, w)  s = Identity(z)  y = Add(z, x)  l = BEST(y)", False),
        # normed by their sum, or divided by something else
        ("float[N, 3] s", "z = MatMul(x, w)  t = ReduceSum<keepdims = 1>(z, one)  s = Div(z, t)"
         "  l = BEST(z)", True),
        ("float[N, 3] s", "z = MatMul(x, w)  t = ReduceSum<keepdims = 1>(x, one)  s = Div(z, t)"
         "  l = BEST(z)", False),
        ("float[N, 3] s", "z = MatMul(x, w)  t = ReduceMin<axes = [1]>(z)  s = Div(z, t)"
         "  l = BEST(z)", False),
        ("float[N, 3] s", "z = MatMul(x, w)  t = ReduceMax<axes = [1]>(z)  s = Pow(z, t)"
         "  l = BEST(z)", False),
        # one column is shown beside a label of all, and not beside a label of another column
        ("float[N, 1] s", "z = MatMul(x, w)  s = Gather<axis = 1>(z, one)  l = BEST(z)", True),
        ("float[N, 1] s", "z = MatMul(x, w)  s = Gather<axis = 1>(z, one)  k = BEST(x)"
         "  l = Identity(k)", False),
        ("float[N, 1] s", "z = MatMul(x, w)  k = ArgMax<axis = 1>(x)  s = Gather<axis = 1>(z, k)"
         "  l = BEST(z)", False),
        ("float[N, 1] s", "z = MatMul(x, w)  s = Gather<axis = 1>(z, one)  c = Gather<axis = 1>(z, flat)"
         "  k = Greater(c, half)  l = Cast<to = 7>(k)", False),
        ("float[N, 1] s", "z = MatMul(x, w)  s = Gather<axis = 1>(z, one)  k = Greater(s, half)  l = Cast<to = 7>(k)",
         True),
        ("float[N, 3] s", "z = MatMul(x, w)  k = Cast<to = 7>(z)  y = Cast<to = 1>(k)  s = Add(y, mine)"
         "  l = BEST(z)", False),
        ("float[N, 6] s", "z = MatMul(x, w)  k = Greater(z, half)  c = Cast<to = 1>(k)  s = Concat<axis = 1>(z, c)"
         "  l = BEST(z)", False),
        ("float[N, 6] s", "z = MatMul(x, w)  c = Neg(z)  s = Concat<axis = 1>(z, c)  l = BEST(z)", True),
        ("float[N, 3] s", "z = MatMul(x, w)  s = own.Greater(z)  l = BEST(z)", False),
        ("float[N, 3] s", "z = MatMul(x, w)  s = Neg(z)  k = own.Greater(z)  l = BEST(k)",
         True),
        ("float[N, 2] s", f"{TREE}", True),
        # votes of pairs of classes: known for more than two columns, and where nothing else reaches the scores
        ("float[N, 3] s", SVM.format("v") + "  s = Cos(v)", True),
        ("float[N, 2] s", SVM.format("v") + "  s = Cos(v)", False),
        ("float[N, 3] s", SVM.format("v") + "  c = Cos(v)  s = Add(c, x)", False),
    ],
)  # fmt: skip
def test_scores_belong_to_a_label_where_both_are_made_of_the_same(scores: str, body: str, beside: bool) -> None:
    found = graph(f"{scores}, int64[N] l", body, FUNCTION if "own." in body else "")
    assert found.beside(outputs(found)["l"], outputs(found)["s"]) == beside


def test_columns_are_counted_in_arrays_and_maps() -> None:
    zipped = f"{TREE}  y = ai.onnx.ml.ZipMap<classlabels_int64s = [4, 5, 6]>(s)"
    found = graph(
        "float[N, 3] a, seq(map(int64, float)) y, float[N] b, seq(map(string, float)) c", f"a = Neg(x) {zipped}"
    )
    assert [found._columns(name) for name in "aybc"] == [3, 3, 0, 0]


# --- the choice ---


def output(name: str, kind: Any = "scores", why: str = "") -> Output:
    return Output(name, kind, None, InputError(why) if why else None)


ONE = graph("float[N, 3] a, bool[N, 3] b, float[N, 3] c", "a = Neg(x)  b = Greater(x, half)  c = Abs(x)")


def always(one: Output, other: Output) -> bool:
    return True


def never(one: Output, other: Output) -> bool:
    return False


def test_a_label_decides_and_with_a_threshold_the_scores() -> None:
    a, b = output("a"), output("b", "label")
    for order in ([a, b], [b, a]):
        assert deciding(order, ONE, PLAIN, beside=always) is b
        assert deciding(order, ONE, MOVED, beside=never) is a
        with pytest.raises(InputError, match="the outputs 'b' and 'a' may decide differently"):
            deciding(order, ONE, PLAIN, beside=never)
    assert deciding([a], ONE, PLAIN) is deciding([a], ONE, MOVED) is a and deciding([b], ONE, MOVED) is b
    with pytest.raises(InputError, match=r"no output \('a', 'b', 'c'\) depends on the input"):
        deciding([], ONE, PLAIN)


def test_an_output_that_is_understood_is_preferred_among_equal_ones() -> None:
    a, c = output("a", why="It is strange."), output("c")
    assert deciding([a, c], ONE, PLAIN, same=always) is deciding([c, a], ONE, PLAIN, same=always) is c
    for order in ([a, c], [c, a]):
        with pytest.raises(
            InputError, match=r"decision_output='a' or 'c' \(--decision-output\)\. 'a' is not read: It is "
        ):
            deciding(order, ONE, PLAIN, same=never)
    with pytest.raises(InputError, match=r"^It is strange\.$"):
        deciding([a], ONE, PLAIN)
    with pytest.raises(InputError, match=r"^It is strange\.$"):
        deciding([a, c], ONE, Reading(decision_output="a"))
    assert deciding([a, c], ONE, Reading(decision_output="c")) is c
    with pytest.raises(InputError) as found:
        deciding([c, output("a")], ONE, PLAIN, same=never)
    assert "not read" not in str(found.value)


def test_a_named_label_takes_no_threshold() -> None:
    b = output("b", "label")
    assert deciding([b], ONE, Reading(decision_output="b")) is b
    with pytest.raises(InputError, match="output 'b' is a label, which decides itself"):
        deciding([b], ONE, Reading(decision_output="b", threshold=0.3))


def test_a_black_box_shows_the_probabilities_or_the_output_with_most_links() -> None:
    two = graph("float[N, 3] b, float[N, 3] a", "a = Neg(x)  b = Softmax(a)")
    assert served(two, PLAIN) == (None, "b")
    assert served(two, Reading(decision_output="a")) == (None, "a")
    names = graph("float[N, 3] probs, float[N, 3] b, int64[N] l",
                  "b = Softmax(x)  probs = Neg(x)  l = BEST(x)")  # fmt: skip
    label = graph("int64[N] l, float[N, 3] s", "s = Abs(x)  z = Neg(s)  l = BEST(z)")
    assert served(label, PLAIN) == ("l", "s") and served(label, MOVED) == (None, "s")
    with pytest.raises(InputError, match="may decide differently"):
        served(names, PLAIN)
    assert served(label, Reading(decision_output="l")) == ("l", "s")
    apart = graph("int64[N] l, float[N, 3] s", "z = Neg(x)  s = Abs(x)  y = MatMul(z, w)  l = BEST(y)")
    assert served(apart, Reading(decision_output="l")) == ("l", None)
    alone = graph("int64[N] l", "l = BEST(x)")
    assert served(alone, PLAIN) == ("l", None)
    shown = graph("float[N, 3] probs, float[N, 3] b", "z = Neg(x)  probs = Sigmoid(z)  c = Sigmoid(z)  b = Sigmoid(c)")
    assert served(shown, PLAIN) == (None, "probs")


# --- numbers ---


@pytest.mark.parametrize("meaning", ["probability", "logit", None])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("place", [0, 1])
def test_a_threshold_is_compared_with_the_number_of_its_class(meaning: Meaning, columns: int, place: int) -> None:
    """Of a probability, the class's own; of other scores, the difference from the other class."""
    random = np.random.default_rng([columns, place])
    last = random.random(200)
    first = 1 - last if meaning == "probability" else random.random(200)
    numbers = np.stack([first, last], axis=1)[:, -columns:]
    rule = Rule.of(2, columns, meaning, threshold=True, place=place)
    assert rule.above == 0.0 and rule.meaning == meaning
    if meaning == "probability":
        own = [1 - last if columns == 1 else first, last][place]
    else:
        own = (last if columns == 1 else last - first) * (1 if place else -1)
    amount = 0.3
    moved = Rule(rule.part, meaning, rule.limit(amount, place, columns))
    scores = moved.scores(numbers)
    assert scores.shape == (200, 1)
    assert ((scores[:, 0] > 0) == (own > amount if place else own < amount)).all()
    if meaning == "probability":
        assert moved.threshold == pytest.approx(amount if place else 1 - amount)
        assert np.allclose(moved.probability(scores)[:, 0], last)


@pytest.mark.parametrize(
    ("columns", "meaning", "numbers", "scores", "threshold"),
    [
        (1, "probability", [[0.75], [0.5]], [0.25, 0.0], 0.5), (1, "logit", [[0.75], [-0.5]], [0.75, -0.5], 0.0),
        (1, "label", [[0.75], [-0.5]], [0.75, -0.5], 0.0),
        (2, "probability", [[0.25, 0.75], [0.5, 0.5]], [0.25, 0.0], 0.5),
        (2, "logit", [[2.0, 3.0], [1.0, -1.0]], [1.0, -2.0], 0.0),
    ],
)  # fmt: skip
def test_two_classes_usually_decide_at_a_half_or_at_zero(
    columns: int, meaning: Meaning, numbers: Any, scores: Any, threshold: float
) -> None:
    rule = Rule.of(2, columns, meaning)
    assert rule.scores(np.array(numbers))[:, 0].tolist() == scores and rule.threshold == threshold
    assert usual_threshold(meaning) == (0.5 if meaning == "probability" else 0.0)


def test_the_largest_of_more_numbers_decides() -> None:
    numbers = np.array([[1.0, 3.0, 2.0]])
    rule = Rule.of(3, 3, "probability", threshold=True, place=0)
    assert rule.part == "all" and rule.above == 0.0 and (rule.scores(numbers) == numbers).all()


def test_the_compared_part() -> None:
    parts = {
        (columns, meaning, threshold, place): compared_part(columns, meaning, threshold=threshold, place=place)
        for columns in (1, 2) for meaning in ("probability", "logit", None) for threshold in (False, True)
        for place in (0, 1)
    }  # fmt: skip
    for (columns, meaning, threshold, place), part in parts.items():
        if columns == 1:
            assert part == "last"
        elif threshold and meaning == "probability":
            assert part == ("last" if place else "first")
        else:
            assert part == "difference"
    assert compared_part(2, "probability", threshold=True) == "last"
    assert Rule.of(2, 2, "probability", threshold=True).part == "last"


def test_probabilities_lie_between_0_and_1_and_sum_to_1() -> None:
    step = 2.0**-22
    one = np.array([[0.0], [1.0], [1 + step], [-step], [1 + 2 * step], [-2 * step], [0.3]])
    assert are_probabilities(one).tolist() == [True, True, True, True, False, False, True]
    two = np.array([[0.5, 0.5], [0.5, 0.5009], [0.5, 0.502], [0.5, 0.498], [1.5, -0.5], [0.2, 0.2]])
    assert are_probabilities(two).tolist() == [True, True, False, False, False, False]
    assert Rule("last", "probability", 0.5).probability(np.array([[0.7], [-0.9]])).tolist() == [[1.0], [0.0]]


# --- names ---


@pytest.mark.parametrize("separator", ["_", ".", " "])
def test_an_exporter_may_write_a_separator_for_another_sign(separator: str) -> None:
    assert feeding([f"a{separator}b"], ["a+b", "c"], "m") == ("a+b",)
    assert feeding(["a+b"], [f"a{separator}b", "c"], "m") == (f"a{separator}b",)
    with pytest.raises(InputError, match="is not among the columns given"):
        feeding([f"{separator}{separator}"], ["++"], "m")


def test_refusals_name_all_that_fit() -> None:
    with pytest.raises(InputError, match=r"m: input 'a_b' has no column .* fits the columns 'a-b', 'a.b'; rename"):
        feeding(["a_b"], ["a-b", "c", "a.b"], "m")
    with pytest.raises(InputError, match=r"m: input 'Age' has no column .* fits the inputs 'Age', 'AGE'; rename"):
        feeding(["Age", "AGE"], ["age", "c"], "m")
    assert feeding(["a", "a"], ["a", "b"], "m") == ("a", "a") and feeding(["A", "A"], ["a", "b"], "m") == ("a", "a")
    assert feeding(["a_b", "A_B"], ["a_b", "a b"], "m") == ("a_b", "a b")
