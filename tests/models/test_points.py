"""Where models decide: the rules of `bornfair.models.operating`, one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bornfair.core.errors import InputError
from bornfair.models.operating import (
    LEAST,
    ROUNDING,
    Asked,
    Operating,
    Top,
    agreeing,
    logit,
    point_of_means,
    positive_place,
)

LAST = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 0.9, 1.0])
PAIRS = np.stack([1 - LAST, LAST], axis=1)
THREE = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.1, 0.8, 0.1], [1 / 3, 1 / 3, 1 / 3]])


# --- the largest so many ---


@pytest.mark.parametrize(
    ("scores", "percent", "above"),
    [
        ([1, 2, 3, 4], 25, 3.5), ([4, 1, 3, 2], 50, 2.5), ([1, 2, 3, 4], 74.9, 2.5), ([1, 2, 3, 3], 67, 2.5),
        ([1, 1, 1, 3], 50, 2.0), ([1, 3, 3, 3], 75, 2.0), (list(range(100)), 29, 70.5), (list(range(10)), 30, 6.5),
        ([0.0, 5e-324], 50, 0.0), ([1.0, 1.0 + 2**-52], 50, 1.0), ([-1.0, -(1.0 + 2**-52)], 50, -(1.0 + 2**-52)),
    ],
)  # fmt: skip
def test_the_number_above_which_at_most_so_many_are(scores: list[float], percent: float, above: float) -> None:
    found = Top(percent).above(np.array(scores))
    assert found == above and isinstance(found, float)


@pytest.mark.parametrize(
    ("scores", "percent", "message"),
    [
        ([1, 2, 3, 4], 24, "'top 24%' of 4 rows is nobody"), ([1, 2], 49, "'top 49%' of 2 rows is nobody"),
        ([1, 2, 3], 100, "'top 100%' of 3 rows is everybody"), ([], 50, "needs a table of people with finite scores"),
        ([1, math.inf], 50, "needs a table of people with finite scores"),
        ([1, math.nan], 50, "needs a table of people with finite scores"),
        ([1, 3, 3], 40, "the 2 rows with the highest score have the same one, so 'top 40%'"),
    ],
)  # fmt: skip
def test_a_share_that_cannot_be_taken_is_refused(scores: list[float], percent: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Top(percent).above(np.array(scores, float))


# --- what is asked ---


def test_a_threshold_is_a_number_a_share_or_several_by_class() -> None:
    assert Asked.of(0.3).number == 0.3 and Asked.of(np.float32(0.5)).number == 0.5 and Asked.of([0.25]).number == 0.25
    assert Asked.of("a=0.3").number is None and Asked.of("top 5%").number is None
    assert Asked.of(["a=0.3", "b=0.2"]).number is None and Asked.of([0.3, 0.2]).number is None
    assert Asked.of({1: 0.3}).parts == ((1, 0.3),) and Asked.of({"a": Top(5.0)}).parts == (("a", Top(5.0)),)
    assert Asked.of("a = b = top 7.5 %").parts == (("a = b", Top(7.5)),)
    assert Asked.of("a=top 5%").needs_people and not Asked.of(["a=0.3", "b=0.5"]).needs_people
    assert Asked.of(["a=0.3", "b=top 5%"]).needs_people
    assert Asked.of(["a=0.3", "top 12.5%", 0.25]).text == "a=0.3, top 12.5%, 0.25"
    asked = Asked.of(0.3)
    assert Asked.of(asked) is asked
    for stray in ([], "", "lots", "top", "top 0%", "top 100%", "a=", math.nan, "inf", True, "-", [None]):
        with pytest.raises(InputError):
            Asked.of(stray)
    assert Asked.of("top 99.9%").parts[0][1] == Top(99.9) and Asked.of("top .5%").parts[0][1] == Top(0.5)


@pytest.mark.parametrize(
    ("answers", "rare"),
    [
        (["ok"] * 9 + ["fraud"], "fraud"), (["ok"] * 81 + ["fraud"] * 19, "fraud"), (["ok"] * 4 + ["fraud"], None),
        (["ok"] * 10, None), (["a"] * 20 + ["b", "c"], None), ([0] * 9 + [1], 1),
        (["ok"] * 9 + ["fraud", None], "fraud"),
    ],
)  # fmt: skip
def test_a_class_below_a_fifth_of_the_rows_is_rare(answers: list[Any], rare: Any) -> None:
    assert Asked.of(0.3).among(answers).rare == rare


def test_the_class_that_is_meant() -> None:
    fraud = ["fraud", "ok"]
    assert Asked((), rare="ok").for_classes(fraud).parts == ()
    assert Asked(((None, 0.3),), rare="ok").by_class(fraud) == {1: 0.3}
    assert Asked(((None, 0.3),), rare="fraud").by_class(fraud) == {0: 0.3}
    assert Asked(((None, 0.3),), rare="0").by_class([0, 1]) == {1: 0.3}  # a known pair comes first
    assert Asked(((None, 0.3),), rare="7").by_class([7, 8]) == {0: 0.3}
    with pytest.raises(InputError, match=r"write 'fraud=0\.3' or 'ok=0\.3'"):
        Asked.of(0.3).for_classes(fraud)
    with pytest.raises(InputError, match="names no class"):
        Asked(((None, 0.3),), rare="other").for_classes(fraud)
    assert Asked.of("ok=0.3").by_class(fraud) == {1: 0.3} and Asked.of({0: 0.3}).by_class([0, 1]) == {0: 0.3}
    assert Asked.of("1=0.3").by_class([0, 1]) == {1: 0.3}
    assert Asked.of({"True": 0.3}).by_class([False, True]) == {1: 0.3}
    assert Asked.of({1: 0.3}).by_class(["1", 1]) == {1: 0.3}  # the value itself before its text
    for asked, classes, message in (
        ("other=0.3", fraud, "the class 'other', which is not one of 'fraud', 'ok'"),
        (["ok=0.3", "ok=0.2"], fraud, "the class 'ok' is given two thresholds"),
        (["ok=0.3", "fraud=0.2"], fraud, "of two classes, one threshold says it all"),
        (0.3, ["a", "b", "c"], "there are 3 classes, so a threshold must name one, as c=0.3"),
        ("a=top 5%", ["a", "b", "c"], "'top 5%' is for two classes"),
    ):
        with pytest.raises(InputError, match=message):
            Asked.of(asked).by_class(classes)
    assert Asked.of(["a=0.3", "c=0.2"]).by_class(["a", "b", "c"]) == {0: 0.3, 2: 0.2}


@pytest.mark.parametrize(
    ("classes", "place"),
    [
        ([0, 1], 1), ([1, 0], 0), ([-1, 1], 1), ([0.0, 1.0], 1), (["No ", "YES"], 1), (["t", "f"], 0), ([1, 2], None),
        ([1], None), ([0, 1, 2], None), (["yes", "neg"], None), (["pos", "neg"], 0), (["positive", "negative"], 0),
        (["n", "y"], 1), ([False, True], 1), (["true", 0], None),
    ],
)  # fmt: skip
def test_pairs_have_a_positive_class(classes: list[Any], place: int | None) -> None:
    assert positive_place(classes) == place


def test_offsets_are_what_scores_are_shifted_by() -> None:
    scores = np.array([[-2.0], [-1.0], [1.0], [2.0]], np.float32)
    two = ["no", "yes"]
    assert Asked.of("yes=0.3").offsets(two, None) == (logit(0.3),)
    assert Asked.of("no=0.3").offsets(two, None) == (-logit(0.3),)
    assert Asked(((None, 2.0),), logit=True).offsets(two, None) == (2.0,)
    assert Asked((("no", 2.0),), logit=True).offsets(two, None) == (-2.0,)
    assert Asked.of("yes=top 25%").offsets(two, scores) == (1.5,)
    (at,) = Asked.of("no=top 25%").offsets(two, scores)
    assert (scores[:, 0] > at).tolist() == [False, True, True, True] and at < -1.5
    tied = np.array([[-1.0], [-1.0 + 2**-20], [1.0], [2.0]])
    (at,) = Asked.of("no=top 25%").offsets(two, tied)
    assert (tied[:, 0] > at).tolist() == [False, True, True, True]
    with pytest.raises(InputError, match="give a table, or a number"):
        Asked.of("yes=top 25%").offsets(two, None)
    found = Asked.of(["b=0.25", "c=0.8"]).offsets(["a", "b", "c"], None)
    assert found == pytest.approx((0.0, math.log(0.5), math.log(1.6)))
    for amount in (0.0, 1.0, LEAST / 2, 1 - LEAST / 2):
        with pytest.raises(InputError, match="must lie between 0 and 1"):
            Asked.of(f"yes={amount!r}").offsets(two, None)
    assert Asked.of(f"yes={LEAST!r}").offsets(two, None) == (logit(LEAST),)
    assert Asked.of(f"yes={1 - LEAST!r}").offsets(two, None) == (logit(1 - LEAST),)
    assert (
        logit(0.5) == 0.0 and logit(0.75) == pytest.approx(math.log(3)) and logit(0.25) == pytest.approx(-math.log(3))
    )


# --- the rule of a graph ---


@pytest.mark.parametrize("above", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("ties", [False, True])
def test_a_class_is_decided_above_its_share_and_with_ties_at_it(above: float, place: int, ties: bool) -> None:
    rule = Operating((above,), place, ties)
    share = PAIRS[:, place]
    reached = share >= above if ties else share > above
    decided = np.where(reached, place, 1 - place)
    assert rule.decide(PAIRS).tolist() == decided.tolist()
    clear = share != above
    assert (rule.leads(PAIRS).argmax(axis=1) == decided)[clear].all()
    assert np.allclose(np.diff(rule.leads(PAIRS)[~clear]), 0)
    assert Operating.from_json(rule.to_json()) == rule == Operating.from_json({**rule.to_json(), "more": 1})
    assert rule.thresholds(["a", "b"]) == {"ab"[place]: above}
    moved = rule.of_means()
    assert moved.above == (above - ROUNDING if ties else above + ROUNDING,)
    assert (moved.place, moved.ties) == (
        place,
        ties,
    )
    for aside in (-ROUNDING / 2, ROUNDING / 2):  # of a mean that is at the threshold but for rounding
        near = np.array([[above + aside, 1 - above - aside]])
        assert moved.decide(near if place == 0 else near[:, ::-1]).tolist() == [place if ties else 1 - place]


def test_of_more_classes_the_largest_multiple_is_decided() -> None:
    rule = Operating((0.2, 0.5, 0.5))
    decided = [
        1 if row[1] / 0.5 > max(row[0] / 0.2, row[2] / 0.5) else 0 if row[0] / 0.2 >= row[2] / 0.5 else 2
        for row in THREE
    ]
    assert rule.decide(THREE).tolist() == rule.leads(THREE).argmax(axis=1).tolist() == decided
    assert np.allclose(rule.leads(THREE)[:, 1:], THREE[:, 1:])
    assert np.allclose(rule.leads(THREE)[:, 0], THREE[:, 0] * 2.5)
    assert rule.of_means() is rule and rule.to_json() == {"above": [0.2, 0.5, 0.5]}
    assert Operating.from_json(rule.to_json()) == rule and rule.thresholds(["a", "b", "c"]) == {"a": 0.2}
    assert rule.in_float32().above == (float(np.float32(0.2)), 0.5, 0.5)


@pytest.mark.parametrize(
    "told", [{}, {"above": None}, {"above": []}, {"above": 0.0}, {"above": -0.5}, {"above": 1}, {"above": [0.5, 0.0]},
             {"above": [0.5, None]}, {"above": "0.5"}, {"above": math.nan}]
)  # fmt: skip
def test_metadata_that_states_no_rule_is_none(told: dict[str, Any]) -> None:
    assert Operating.from_json(told) is None


def test_metadata_has_usual_answers() -> None:
    assert Operating.from_json({"above": 0.3}) == Operating((0.3,), 1, False)
    assert Operating.from_json({"above": 0.3, "class": 0}) == Operating((0.3,), 0, False)
    assert Operating.from_json({"above": 0.3, "class": 1, "from": True}) == Operating((0.3,), 1, True)


def test_the_rule_that_is_asked_for() -> None:
    assert Operating.of(Asked.of("b=0.3"), ["a", "b"]) == Operating((0.3,), 1, ties=False)
    assert Operating.of(Asked.of("a=0.3"), ["a", "b"]) == Operating((0.3,), 0, ties=True)
    assert Operating.of(Asked.of("b=0.3"), ["a", "b", "c"]) == Operating((0.5, 0.3, 0.5))
    (above,) = Operating.of(Asked.of("b=2"), ["a", "b"], logits=True).above
    assert above == pytest.approx(1 / (1 + math.exp(-2)))
    for asked, classes in (("b=top 5%", ["a", "b"]), ("b=1.5", ["a", "b"]), ("b=0", ["a", "b", "c"])):
        with pytest.raises(InputError):
            Operating.of(Asked.of(asked), classes)


def test_means_decide_beside_a_half_or_at_the_models_own_point() -> None:
    assert point_of_means(None, 2) == Operating((0.5 + ROUNDING,)) and point_of_means(None, 3) is None
    own = Operating((0.3,), 0, True)
    assert point_of_means(own, 2) == own.of_means() != own


def test_scores_agree_with_what_was_decided() -> None:
    decided = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0])
    for at in (None, Operating((0.3,)), Operating((0.75,), 0, True)):
        found = agreeing(PAIRS, decided, at)
        assert found.dtype == np.float64 and found.argmax(axis=1).tolist() == decided.tolist()
        led = PAIRS if at is None else at.leads(PAIRS)
        same = led.argmax(axis=1) == decided
        assert (found[same] == led[same]).all() and 0 < same.sum() < 9
        apart = np.flatnonzero(~same)
        assert (found[apart, 1 - decided[apart]] == led[apart, 1 - decided[apart]]).all()
        assert (found[apart].max(axis=1) == np.nextafter(led[apart].max(axis=1), np.inf)).all()
    assert agreeing(THREE, np.array([2, 0, 1, 1, 2]), None).argmax(axis=1).tolist() == [2, 0, 1, 1, 2]
    shares = PAIRS.astype(np.float32)
    agreeing(shares, decided, None)
    assert (shares == PAIRS.astype(np.float32)).all()
