"""What the answers of a black-box model mean: rules on answers alone, without a model that runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bornfair.core.errors import InputError
from bornfair.models.deciding import Rule
from bornfair.models.opaque.said import (
    Meant,
    Said,
    at_threshold,
    finite,
    from_mapping,
    in_numbers,
    labels_of,
    meaning_of,
    said,
    said_together,
)  # fmt: skip
from bornfair.models.operating import Asked
from bornfair.models.reading import Reading
from bornfair.people.features import Label


@dataclasses.dataclass
class Source:
    """What is known of a model before it answers."""

    classes: tuple[Any, ...] | None = None
    point: float | None = None
    name: str = "it"


LOAN = Label(name="loan", classes=("no", "yes"))
SHARES = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])


def meant(trial: Said, label: Label | None = None, *, source: Source | None = None, **options: Any) -> Meant:
    return meaning_of(trial, source or Source(), label, Reading(**options))  # type: ignore[arg-type]


def labels(*values: Any) -> Said:
    return Said(labels=np.array(values, dtype=object))


def numbers(*rows: Any) -> Said:
    return Said(numbers=np.array(rows, dtype=float).reshape(len(rows), -1))


# --- the shape of an answer ---


def test_an_array_is_labels_or_numbers() -> None:
    assert said([1, 0, 1], 3, "it").labels.tolist() == [1, 0, 1]  # type: ignore[union-attr]
    assert said([True, False], 2, "it").numbers is None
    assert said([1.0, 0.0], 2, "it").numbers.tolist() == [[1.0], [0.0]]  # type: ignore[union-attr]
    assert said([[1, 0], [0, 1]], 2, "it").numbers.shape == (2, 2)  # type: ignore[union-attr]
    assert said(pd.Series(["a", "b"]), 2, "it").labels.tolist() == ["a", "b"]  # type: ignore[union-attr]
    found = said(pd.DataFrame({"b": [0.5, 0.25], "a": [0.5, 0.75]}), 2, "it")
    assert found.classes == ("b", "a") and found.numbers.tolist() == [[0.5, 0.5], [0.25, 0.75]]  # type: ignore[union-attr]
    assert said(pd.DataFrame([[0.5, 0.5]]), 1, "it").classes is None
    assert said(pd.DataFrame([[0.5, 0.5]], columns=[1, 2]), 1, "it").classes == (1, 2)
    assert said(np.zeros((2, 3)), 2, "it").classes is None
    for rows in (1, 3):
        with pytest.raises(InputError, match=f"answered 2 decisions for {rows} people"):
            said([1, 0], rows, "it")
    with pytest.raises(InputError, match="rows of unequal length"):
        said([[1.0, 2.0], [3.0]], 2, "it")


def test_the_person_of_a_bad_answer_is_named() -> None:
    with pytest.raises(InputError, match=r"it answered \[2\.0, inf\] for person 1; numbers must be finite"):
        finite(np.array([[1.0, 2.0], [2.0, np.inf], [np.nan, 0.0]]), "it")
    finite(np.zeros((0, 2)), "it")
    for stray in (None, float("nan"), (1, 2), pd.NaT):
        with pytest.raises(InputError, match="for person 1 of 3; it must give a label"):
            labels_of(np.array(["a", None, "b"], dtype=object), "it") if stray is None else labels_of(
                _objects("a", stray, "b"), "it"
            )
    assert [type(value) for value in labels_of(np.array([1, 0]), "it")] == [int, int]
    assert labels_of(_objects("a", 1.5, True), "it").tolist() == ["a", 1.5, True]


def _objects(*values: Any) -> np.ndarray:
    made = np.empty(len(values), dtype=object)
    made[:] = list(values)
    return made


def test_whole_numbers_become_a_batch_of_probabilities_and_texts_stay() -> None:
    assert in_numbers(labels(1, 0)).numbers.tolist() == [[1.0], [0.0]]  # type: ignore[union-attr]
    for part in (labels("a", 1), numbers(0.5), Said(np.array([1], object), np.array([[0.5]]))):
        assert in_numbers(part) is part


def test_batches_keep_labels_numbers_and_classes() -> None:
    both = [Said(np.array([i], object), np.array([[i / 4, 1 - i / 4]]), ("b", "a")) for i in (0, 1)]
    found = said_together(both, "it")
    assert found.labels.tolist() == [0, 1] and found.numbers.tolist() == [[0, 1], [0.25, 0.75]]  # type: ignore[union-attr]
    assert found.classes == ("b", "a")
    found = said_together([labels(1, 0), numbers(0.5)], "it")
    assert found.labels is None and found.numbers.tolist() == [[1.0], [0.0], [0.5]]  # type: ignore[union-attr]
    only = said_together([labels(1), labels(0)], "it")
    assert only.labels.tolist() == [1, 0] and only.numbers is None  # type: ignore[union-attr]
    for parts in ([labels("a"), numbers(0.5)], [numbers(0.5), numbers([0.5, 0.5])], [both[0], labels(1)]):
        with pytest.raises(InputError, match="some people by labels and others by numbers"):
            said_together(parts, "it")


def test_an_object_is_read_by_the_first_known_name() -> None:
    given = {"labels": ["a"], "predictions": ["b"], "scores": [0.5], "probabilities": [0.25]}
    found = from_mapping(given, 1, "it")
    assert found.labels.tolist() == ["a"] and found.numbers.tolist() == [[0.25]]  # type: ignore[union-attr]
    assert from_mapping({"predictions": ["b"]}, 1, "it").labels.tolist() == ["b"]  # type: ignore[union-attr]
    with pytest.raises(InputError, match="an object with 'answer'; it must have one of 'decisions', 'probabilities'"):
        from_mapping({"answer": [1]}, 1, "it")
    whole = from_mapping({"probabilities": [1, 0]}, 2, "it")  # numbers by name, although they are whole
    assert whole.labels is None and whole.numbers.tolist() == [[1.0], [0.0]]  # type: ignore[union-attr]


# --- what it means ---


def test_labels_decide_and_numbers_beside_them_are_shown() -> None:
    found = meant(Said(np.array(["no", "yes", "no"], object), SHARES), LOAN)
    assert found.by_label and found.numbers == "probability" and found.columns == 2 and not found.assumed
    again = found.answers(Said(np.array(["yes", "no"], object), SHARES[:2]))
    assert again.classes.tolist() == [1, 0] and again.scores.tolist() == [[-0.25], [0.25]]  # type: ignore[union-attr]
    assert found.answers(labels("no")).scores is None
    with pytest.raises(InputError, match="answered 1 numbers for each person, and 2 before"):
        found.answers(Said(np.array(["yes"], object), np.array([[0.5]])))
    with pytest.raises(InputError, match="answered 'maybe', which is not one of its classes 'no', 'yes'"):
        found.answers(labels("no", "maybe", "other"))
    with pytest.raises(InputError, match="answered numbers, and labels before"):
        found.answers(numbers([0.5, 0.5]))


@pytest.mark.parametrize(
    ("trial", "kept"),
    [
        (np.array([[0.2, 0.3, 0.5]] * 2), None),  # three numbers for two classes belong to something else
        (np.array([[3.0], [-1.0]]), "logit"), (np.array([[0.5], [0.25]]), "probability"),
        (np.array([[3.0, 1.0], [-1.0, 0.0]]), "logit"),
    ],
)  # fmt: skip
def test_numbers_beside_labels_are_kept_if_they_fit_the_classes(trial: Any, kept: Any) -> None:
    found = meant(Said(np.array(["no", "yes"], object), trial), LOAN)
    assert (found.numbers, found.by_label) == (kept, True)
    scores = found.answers(Said(np.array(["no", "yes"], object), trial)).scores
    assert (scores is None) == (kept is None)


def test_a_column_of_whole_numbers_is_labels_unless_it_is_said_to_be_numbers() -> None:
    whole = numbers(1, 0, 1)
    assert meant(whole).by_label and meant(whole).classes == (0, 1) and meant(whole).numbers is None
    assert meant(whole).answers(numbers(0, 1)).classes.tolist() == [0, 1]
    scored = meant(whole, decision="logit")
    assert not scored.by_label and not scored.assumed and scored.numbers == "logit"
    assert scored.answers(numbers(-1, 0, 2)).classes.tolist() == [0, 0, 1]
    assert meant(numbers(7, 9), decision="label").classes == (7, 9)
    assert not meant(numbers([1, 0], [0, 1])).by_label  # one number for each class
    assert meant(numbers(0.5, 1), decision="label").classes == (0.5, 1)
    with pytest.raises(InputError, match="decision='label' does not fit"):
        meant(numbers([1, 0], [0, 1]), decision="label")
    for options in ({"threshold": 0.5}, {"decision": "logit"}):
        with pytest.raises(InputError, match="answers labels only"):
            meant(labels("a", "b"), **options)


def test_a_kind_that_was_found_out_in_the_trial_is_held_on_to() -> None:
    found = meant(numbers(0.5, 0.25))
    assert found.assumed and found.numbers == "probability" and found.rule.above == 0.5
    assert found.answers(labels(1, 0)).classes.tolist() == [1, 0]  # whole numbers where numbers decide
    with pytest.raises(InputError, match=r"it answered 1\.5, which is no probability"):
        found.answers(numbers(0.25, 1.5, 3))
    with pytest.raises(InputError, match="answered without numbers"):
        found.answers(labels("a"))
    wide = meant(numbers([2.0, 1.0], [0.0, 5.0]))
    assert wide.assumed and wide.answers(numbers([9.0, 11.0])).scores.tolist() == [[2.0]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("trial", "options", "kind"),
    [
        (SHARES, {}, "probability"), (SHARES * 2, {}, "logit"), (SHARES * 2 - 3, {}, "logit"),
        (SHARES * 0.5, {}, "logit"), (SHARES * 4, {"threshold": 0.5}, "logit"),
        (SHARES - 0.5, {"threshold": 0.5}, "logit"),
        (SHARES * 0.5, {"threshold": 0.5, "decision": "probability"}, "probability"),
        (np.array([[0.5, 0.9, 0.1], [1.0, 0.0, 1.0]]), {}, "logit"), (np.array([[0.0], [0.5]]), {}, "probability"),
        (np.array([[0.25, 0.25, 0.5]]), {}, "probability"), (np.array([[1.0, 0.0]]), {}, "probability"),
        (np.array([[2.0, 0.0], [1.0, 1.0]]), {}, "logit"),
    ],
)  # fmt: skip
def test_what_numbers_are(trial: Any, options: Any, kind: str) -> None:
    assert meant(Said(numbers=trial), **options).numbers == kind


@pytest.mark.parametrize(
    ("trial", "options", "message"),
    [
        (np.array([[0.5], [1.25]]), {}, "numbers from 0.5 to 1.25, which may be scores or labels"),
        (np.array([[-0.5], [0.25]]), {"threshold": 0.1}, "numbers from -0.5 to 0.25, which may be scores or labels"),
        (SHARES * 0.5, {"threshold": 0.5}, "2 numbers between 0 and 1 that do not sum to 1"),
        (np.array([[0.0, 1.0], [1.0, 1.0]]), {"threshold": 0.5}, "2 numbers that are 0 or 1 and do not sum to 1"),
        (np.array([[0.0, 0.0], [1.0, 0.0]]), {}, "2 numbers that are 0 or 1 and do not sum to 1"),
    ],
)
def test_numbers_that_may_mean_several_things_are_refused(trial: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        meant(Said(numbers=trial), **options)


@pytest.mark.parametrize(
    ("trial", "label", "source", "classes"),
    [
        (labels("b", "a"), None, Source(("b", "a")), ("b", "a")), (labels("b", "a"), None, Source(), ("a", "b")),
        (labels(2, 10, 1), None, Source(), (1, 2, 10)), (labels("yes"), LOAN, Source(), ("no", "yes")),
        (labels(True), None, Source(), (False, True)), (labels(0), None, Source(), (0, 1)),
        (numbers(0.5, 0.25), None, Source(), (0, 1)), (numbers([0.2, 0.3, 0.5]), None, Source(), (0, 1, 2)),
        (numbers([0.5, 0.5]), LOAN, Source(), ("no", "yes")),
        (Said(np.array([1, 1], object), np.array([[0.2, 0.3, 0.5]] * 2)), None, Source(), (0, 1, 2)),
        (Said(np.array([3, 1], object), np.array([[0.5, 0.5]] * 2)), None, Source(), (1, 3)),
        (Said(np.array([2, 0], object), np.array([[0.5, 0.5]] * 2)), None, Source(), (0, 2)),
        (Said(np.array([-1, 1], object), np.array([[0.5, 0.5]] * 2)), None, Source(), (-1, 1)),
        (Said(numbers=SHARES, classes=("yes", "no")), LOAN, Source(), ("yes", "no")),
        (Said(numbers=SHARES, classes=(5, 3)), LOAN, Source(), (5, 3)),
        (Said(numbers=SHARES, classes=("1", "0")), Label(name="y", classes=(0, 1)), Source(), (1, 0)),
    ],
)  # fmt: skip
def test_the_classes_and_their_order(trial: Said, label: Any, source: Source, classes: Any) -> None:
    found = meant(trial, label, source=source).classes
    assert found == classes and [type(one) for one in found] == [type(one) for one in classes]


def test_a_single_label_tells_no_classes() -> None:
    for only in ("1", 2, "no"):
        with pytest.raises(InputError, match=f"it decides {only!r} about all 2 people of a trial"):
            meant(labels(only, only))


def test_a_point_of_its_own_is_where_its_scores_are_0() -> None:
    trial = Said(np.array(["no", "yes", "yes"], object), SHARES)
    own = meant(trial, LOAN, source=Source(point=0.3))
    assert own.rule.above == 0.3 and own.by_label
    found = own.answers(trial)
    assert found.classes.tolist() == [0, 1, 1]
    assert found.scores is not None and np.allclose(found.scores, [[-0.05], [0.45], [0.2]])
    assert meant(trial, LOAN, source=Source(point=0.2), decision="probability").rule.threshold == 0.5
    three = Said(numbers=np.array([[0.2, 0.3, 0.5]]))
    assert meant(three, source=Source(point=0.2)).rule == Rule("all", "probability")
    odd = meant(Said(np.array(["no", "yes"], object), np.array([[0.2, 0.3, 0.5]] * 2)), LOAN, source=Source(point=0.2))
    assert odd.numbers is None and odd.by_label


def test_probabilities_behind_scores() -> None:
    both = meant(Said(numbers=SHARES))
    assert both.probabilities(both.answers(Said(numbers=SHARES)).scores).tolist() == SHARES.tolist()  # type: ignore[arg-type, union-attr]
    three = meant(Said(numbers=np.array([[0.25, 0.25, 0.5]])))
    assert three.probabilities(np.array([[0.25, 0.25, 0.5]])).tolist() == [[0.25, 0.25, 0.5]]  # type: ignore[union-attr]
    assert meant(labels(0, 1)).probabilities(np.zeros((1, 1))) is None
    logit = dataclasses.replace(both, numbers="logit", rule=Rule("last", "logit", 2.0))
    found = logit.probabilities(np.array([[-2.0], [0.0]]))
    assert found is not None and np.allclose(found[:, 1], [0.5, 1 / (1 + np.exp(-2.0))])


# --- a threshold ---


@pytest.mark.parametrize(
    ("trial", "threshold", "options", "above", "text"),
    [
        (SHARES, "1=0.3", {}, 0.3, ("1", 0.3)), (SHARES, "0=0.3", {}, -0.3, ("1", 0.7)),
        (SHARES[:, 1:], "1=0.3", {}, 0.3, ("1", 0.3)), (SHARES[:, 1:], "0=0.3", {}, 0.7, ("1", 0.7)),
        (SHARES, 0.3, {}, 0.3, ("1", 0.3)), (SHARES, "1=0.25", {"decision": "logit"}, 0.25, ("1", 0.25)),
        (SHARES, "0=0.25", {"decision": "logit"}, -0.25, ("1", -0.25)), (SHARES * 4, "1=-3", {}, -3.0, ("1", -3.0)),
    ],
)  # fmt: skip
def test_where_a_threshold_decides(trial: Any, threshold: Any, options: Any, above: float, text: Any) -> None:
    asked = Reading(threshold=Asked.of(threshold), **options)
    moved = at_threshold(meaning_of(Said(numbers=trial), Source(), None, asked), asked, lambda _: None)  # type: ignore[arg-type]
    assert moved.rule.above == pytest.approx(above) and moved.operating == (text,) and not moved.by_label


@pytest.mark.parametrize(("place", "decided"), [(1, [0, 0, 0, 1]), (0, [0, 1, 1, 1])])
def test_the_top_share_of_the_people_is_decided_for_the_class(place: int, decided: list[int]) -> None:
    last = np.array([0.1, 0.2, 0.3, 0.4])
    given = Said(numbers=np.stack([1 - last, last], axis=1))
    asked = Reading(threshold=Asked.of(f"{place}=top 25%"))
    trial = meaning_of(given, Source(), None, asked)  # type: ignore[arg-type]
    moved = at_threshold(trial, asked, lambda found: found.answers(given).scores)
    assert moved.answers(given).classes.tolist() == decided
    with pytest.raises(InputError, match=f"'{place}=top 25%' is a share of a table's people; give a table"):
        at_threshold(trial, asked, lambda _: None)
    for stray in (0.0, 1.0, 3.0):
        with pytest.raises(InputError, match="must lie between 0 and 1, found"):
            at_threshold(trial, Reading(threshold=Asked.of(f"{place}={stray}")), lambda _: None)
