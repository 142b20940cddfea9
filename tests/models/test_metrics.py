"""How good and how fair on the rows of a table."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair import Domain
from bornfair.core.errors import InputError
from bornfair.models import metrics
from bornfair.models.metrics import quality, quality_warning


def test_empirical_fairness_is_the_share_of_rows_that_survive_every_change():
    table = pd.DataFrame({"x": [0, 1, 2, 3], "sex": ["f", "m", "f", "m"], "race": ["a", "b", "c", "a"]})
    domain = Domain.infer(table, sensitive=["sex", "race"])

    def decide(rows):  # only at x = 2 does it matter who you are, and only for one of the six combinations
        return ((rows["x"] == 2) & (rows["sex"] == "m") & (rows["race"] == "b")).to_numpy()

    assert metrics.survives_every_change(decide, table, domain).tolist() == [True, True, False, True]
    assert metrics.survives_every_change(decide, table, domain).mean() == 0.75


def test_empirical_fairness_needs_a_sensitive_feature():
    table = pd.DataFrame({"x": [0, 1]})
    with pytest.raises(InputError, match="no feature is sensitive, so nobody has a twin"):
        metrics.survives_every_change(lambda rows: rows["x"], table, Domain.infer(table)).mean()


def test_scores_against_hand_computed_values():
    truth, decided = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    assert metrics.accuracy(truth, decided) == 0.75
    assert metrics.balanced_accuracy(truth, decided) == pytest.approx((2 / 3 + 1) / 2)
    shares = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
    assert metrics.auc(truth, shares, np.array([0, 1])) == pytest.approx(2 / 3)
    assert metrics.auc(np.zeros(4), shares, np.array([0, 1])) is None


def test_auc_of_many_classes_is_one_against_the_rest():
    truth = np.array(["a", "b", "c", "a"])
    shares = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
    assert metrics.auc(truth, shares, np.array(["a", "b", "c"])) == 1.0


def test_quality_says_what_an_accuracy_is_worth():
    truth, constant = ["no"] * 992 + ["yes"] * 8, ["no"] * 1000
    found = quality(truth, constant)
    assert (found["accuracy"], found["balanced_accuracy"], found["majority_share"]) == (0.992, 0.5, 0.992)
    assert found["never_predicted"] == ["yes"] and found["always_predicted"] == "no"
    assert quality_warning(found) == (
        "The model is constant: it predicts 'no' for every row. Balanced accuracy 50 %, share of the largest class "
        "99.2 %."
    )


def test_a_class_that_is_never_predicted_is_named_and_one_that_no_row_has_is_not():
    some = quality([0, 1, 2, 2], [0, 1, 1, 0])
    assert some["never_predicted"] == [2] and some["always_predicted"] is None
    assert quality_warning(some).startswith("The model never predicts 2, although rows have it.")
    assert quality_warning(quality([0, 1, 0], [0, 1, 2])) == ""  # class 2 is predicted, and no row has it
    assert quality_warning(quality(["no", "no"], ["no", "no"])) == ""  # these rows cannot tell
    assert quality(["no", "yes"], ["maybe", "maybe"])["always_predicted"] == "maybe"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=30))
def test_quality_is_counted_as_by_hand(pairs):
    truth, decided = [one for one, _ in pairs], [other for _, other in pairs]
    found = quality(truth, decided)
    assert found["accuracy"] == pytest.approx(sum(one == other for one, other in pairs) / len(pairs))
    assert found["majority_share"] == pytest.approx(max(truth.count(one) for one in truth) / len(truth))
    assert found["never_predicted"] == sorted(set(truth) - set(decided))
    assert (found["always_predicted"] is not None) == (len(set(decided)) == 1 and len(set(truth)) > 1)
    assert bool(quality_warning(found)) == bool(set(truth) - set(decided))
