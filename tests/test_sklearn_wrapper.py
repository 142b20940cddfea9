"""FairWrapper is a scikit-learn classifier, whatever is inside."""

from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from bornfair import FairWrapper

# In this check's tiny table the first column is needed to tell the classes apart, which a fair model may not do.
NEEDS_THE_SENSITIVE_COLUMN = dict.fromkeys(
    ("check_classifiers_train",), "the classes differ in the sensitive column, which a fair model does not read"
)


@parametrize_with_checks(
    [
        FairWrapper(LogisticRegression()),
        FairWrapper(DecisionTreeClassifier(random_state=0), sensitive_features=[0], method="average"),
    ],
    expected_failed_checks=lambda estimator: NEEDS_THE_SENSITIVE_COLUMN if estimator.sensitive_features else {},
)
def test_follows_the_scikit_learn_rules(estimator, check):
    check(estimator)
