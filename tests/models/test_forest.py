"""The record of a forest: routing without error, sums as bounded, and nothing broken gets in."""

from fractions import Fraction

import numpy as np
import pytest

from bornfair.core.errors import InputError
from bornfair.models.forest.columns import ZERO, SplitColumn
from bornfair.models.forest.forest import MOST_DEPTH, Cut, Forest, Summation
from bornfair.models.forest.links import cut_of, sigmoid_in_float32, sigmoid_in_float64

STUMP = {
    "names": ("age",), "columns": (SplitColumn(0),), "roots": [0], "column": [0, -1, -1],
    "threshold": [30.0, 0.0, 0.0], "members": [-1, -1, -1], "left": [1, -1, -1], "right": [2, -1, -1],
    "missing_left": [True, False, False], "values": [[-1.0], [2.0]], "summation": Summation("float32", (0.5,)),
    "cut": Cut(),
}  # fmt: skip


def forest(**changes) -> Forest:
    return Forest(**(STUMP | changes))


def test_a_comparison_a_set_and_a_missing_value_are_routed():
    numbers = [29.999999, 30.0, 30.000001, np.nan]  # in float32 the third is 30.000002, not 30
    assert forest().scores([numbers]).ravel().tolist() == [-0.5, -0.5, 2.5, -0.5]
    chosen = forest(members=[0, -1, -1], sets=([4.0, 2.0],), missing_left=[False] * 3)
    assert chosen.scores([[2, 3, 4, None]]).ravel().tolist() == [-0.5, 2.5, -0.5, 2.5]
    nobody = forest(members=[0, -1, -1], sets=([],))
    assert nobody.scores([[0, 3, None]]).ravel().tolist() == [2.5, 2.5, -0.5]


def test_an_empty_set_sends_nobody_left():
    empty = forest(members=[0, -1, -1], sets=([],), missing_left=[True, False, False])
    assert empty.scores([[2, None]]).ravel().tolist() == [2.5, -0.5]


def test_several_outputs_decide_by_the_first_largest():
    two = forest(values=[[1.0, 1.0], [0.0, 1.0]], summation=Summation("float64", (0.0, 0.0)))
    assert two.decide(two.scores([[0, 99]])).tolist() == [0, 1]
    assert two.margins(two.scores([[0, 99]])).ravel().tolist() == [0.0, 1.0]
    three = forest(values=[[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], summation=Summation("float64", (0.0,) * 3))
    assert three.decide(three.scores([[0, 99]])).tolist() == [0, 1]
    moved = forest(
        values=three.values, summation=three.summation, cut=Cut(link="softmax", offsets=(0.5, 0.0, -0.5))
    )  # fmt: skip
    assert moved.decide(moved.scores([[0, 99]])).tolist() == [1, 2]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("base_first", [True, False])
def test_no_order_of_summation_leaves_the_bound(precision, base_first):
    rng = np.random.default_rng(1)
    trees = 400
    values = (rng.normal(size=(trees, 1)) * 10.0 ** rng.integers(-6, 6, size=(trees, 1))).astype(precision)
    how = Summation(precision, (float(np.dtype(precision).type(0.3)),), base_first, divisor=7.0, scale=3.0)
    leaves = Forest(
        ("x",), (), range(trees), [-1] * trees, np.zeros(trees), [-1] * trees, [-1] * trees, [-1] * trees,
        [False] * trees, values, how, Cut(),
    )  # fmt: skip
    first, last = (Fraction(how.base[0]), 0) if base_first else (0, Fraction(how.base[0]))
    exact = (first + sum(Fraction(float(value)) for value in values[:, 0])) * 3 / 7 + last
    error = Fraction(leaves.sum_error()[0])
    kind = np.dtype(precision).type
    for _ in range(20):
        total = kind(how.base[0] if base_first else 0)
        for value in rng.permutation(values[:, 0]):
            total = kind(total + value)
        total = kind(kind(total / kind(7)) * kind(3))
        total = total if base_first else kind(total + kind(how.base[0]))
        assert abs(Fraction(float(total)) - exact) <= error
    assert abs(Fraction(float(leaves.scores([[0.0]])[0, 0])) - exact) <= error
    assert error < abs(Fraction(float(leaves.magnitudes[0]))) * trees * Fraction(2) ** (
        -22 if kind == np.float32 else -51
    )


@pytest.mark.parametrize(
    "column",
    [
        SplitColumn(0),
        SplitColumn(0, (("minus", 3.3), ("over", 1.7), ("float32", 0))),
        SplitColumn(0, (("float32", 0), ("minus", 3.3), ("times", -0.3))),
        SplitColumn(0, (("times", 0.1), ("plus", 0.2), ("at least", 0.0), ("at most", 1.0))),
        SplitColumn(0, (("tiny to zero", ZERO), ("towards zero", 0.0))),
    ],
)
def test_a_split_of_a_column_is_a_split_of_the_raw_number(column):
    rng = np.random.default_rng(2)
    thresholds = np.concatenate([column.values(rng.normal(size=50) * 9), [0.0, 1.0, 0.5, np.inf, -np.inf, 1e300]])
    found = column.last_below(thresholds)
    near = np.concatenate([np.nextafter(found, side) for side in (-np.inf, found, np.inf)])
    raw = np.concatenate([near[np.isfinite(near)], rng.normal(size=200) * 9])
    value = column.values(raw)
    for threshold, last in zip(thresholds, found, strict=True):
        below = raw > last if column.falls else raw <= last
        assert ((value <= threshold) == below).all()


def test_zero_as_missing_breaks_the_line_twice():
    column = SplitColumn(0, (("zero is missing", ZERO),))
    low, high = column.breaks
    raw = np.array([low, np.nextafter(low, 1), 0.0, high, np.nextafter(high, 1)])
    assert np.isnan(column.values(raw)).tolist() == [False, True, True, True, False]


def test_categories_are_looked_up_and_strangers_refused():
    column = SplitColumn(0, (), (("a", 0.0), ("b", 1.0)))
    assert column.values(np.array(["b", None, "a"], object)).tolist()[::2] == [1.0, 0.0]
    with pytest.raises(InputError, match="does not know 'c' among 'a', 'b'"):
        column.values(np.array(["c"], object))
    other = SplitColumn(0, (), (("a", 1.0),), other=0.0, missing=5.0)
    assert other.values(np.array(["a", "zebra", None], object)).tolist() == [1.0, 0.0, 5.0]
    with pytest.raises(InputError, match="compares numbers, but is given 'x'"):
        SplitColumn(0).values(np.array(["x"], object))


@pytest.mark.parametrize(("precision", "show"), [("float32", sigmoid_in_float32), ("float64", sigmoid_in_float64(1.7))])
def test_a_threshold_is_found_in_the_arithmetic_of_the_original(precision, show):
    kind = np.dtype(precision).type
    for score in (-3.3, -0.2, 0.0, 1.9):
        here = kind(score)
        share = float(show(np.array([here]))[0])  # this very score shows it
        above, slack = cut_of(show, share, precision)
        least, _ = cut_of(show, share, precision, ties=True)
        assert least < here <= above and above - least < 2 * slack < 1e-4
        for at, decides in ((above, lambda p, t: p > t), (least, lambda p, t: p >= t)):
            for near in (np.nextafter(kind(at), kind(-9)), kind(at), np.nextafter(kind(at), kind(9))):
                assert (near > at) == decides(show(np.array([near]))[0], share)
    with pytest.raises(InputError, match="between 0 and 1"):
        cut_of(show, 1.0, precision)


CHAIN = MOST_DEPTH + 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": [0, -1, -1]}, "node 0 of the forest has the child 0"),
        ({"right": [7, -1, -1]}, "node 0 of the forest has the child 7"),
        ({"left": [2, -1, -1]}, "has no parent, or two"),
        ({"threshold": [np.nan, 0.0, 0.0]}, "threshold of node 0 is not a number"),
        ({"values": [[np.inf], [0.0]]}, "leaf 0 of the forest has a value that is not finite"),
        ({"values": [[0.0]]}, "2 leaves, but 1 rows"),
        ({"values": [[0.1], [0.0]]}, "no float32"),
        ({"values": [[3e38], [0.0]]}, "more than float32 can hold"),
        ({"column": [3, -1, -1]}, "reads column 3, but there are 1"),
        ({"members": [0, -1, -1]}, "reads category set 0, but there are 0"),
        ({"columns": (SplitColumn(1),)}, "an input that is not there"),
        ({"roots": [1]}, "one after the other"),
        ({"roots": []}, "no trees"),
        ({"threshold": [1.0]}, "different lengths"),
        ({"summation": Summation("float32", ())}, "0 base scores"),
        ({"summation": Summation("float32", (np.nan,))}, "not a finite number"),
        (
            {
                "column": ([0, -1] * CHAIN) + [-1], "threshold": [0.0] * (2 * CHAIN + 1),
                "members": [-1] * (2 * CHAIN + 1), "missing_left": [False] * (2 * CHAIN + 1),
                "left": [*(x for i in range(CHAIN) for x in (2 * i + 1, -1)), -1],
                "right": [*(x for i in range(CHAIN) for x in (2 * i + 2, -1)), -1],
                "values": [[0.0]] * (CHAIN + 1),
            },
            "deeper than",
        ),
    ],
)  # fmt: skip
def test_broken_forests_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        forest(**changes)
