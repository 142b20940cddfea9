"""FairClassifier is a scikit-learn classifier."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bornfair import FairClassifier

pytestmark = pytest.mark.slow

# scikit-learn marks its own stochastic learners the same way: a row of weight two and a row seen twice
# fall into different batches, so the networks differ, though not what they aim at.
NOT_EQUIVALENT = {
    "check_sample_weight_equivalence_on_dense_data": "batches are random: a weight of 2 is not the same row twice",
}


# In these checks' tiny tables the first column is needed to tell the classes apart, which a fair model may not do.
NEEDS_THE_SENSITIVE_COLUMN = NOT_EQUIVALENT | dict.fromkeys(
    ("check_classifiers_train",), "the classes differ in the sensitive column, which a fair model does not read"
)
# Who takes gaps is given some in the first column; of a sensitive number they are refused.
NEEDS_THE_SENSITIVE_COLUMN |= {"check_estimators_pickle": "a sensitive number has no code for a gap"}

QUICK = {"epochs": 40, "hidden": (8,), "learning_rate": 0.05}


@parametrize_with_checks(
    [FairClassifier(**QUICK), FairClassifier(sensitive_features=[0], validation_fraction=0.0, **QUICK)],
    expected_failed_checks=lambda estimator: (
        NEEDS_THE_SENSITIVE_COLUMN if estimator.sensitive_features else NOT_EQUIVALENT
    ),
)
def test_follows_the_scikit_learn_rules(estimator, check):
    check(estimator)
