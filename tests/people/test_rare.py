"""Categories of few rows are unseen to a model if asked for; others, sensitive ones and classes stay."""

import pandas as pd
import pytest

from bornfair import Domain, FairClassifier
from bornfair.core.errors import InputError
from bornfair.people.inference import without_rare

PEOPLE = pd.DataFrame(
    {
        "job": ["clerk"] * 6 + ["nurse"] * 4 + ["pope", None],
        "sex": ["f", "m"] * 5 + ["x", "f"],
        "age": range(12),
        "paid": ["no", "yes"] * 6,
    }
)
X, Y = PEOPLE.drop(columns="paid"), PEOPLE["paid"]


@pytest.mark.parametrize(("least", "left"), [(1, 3), (2, 2), (4, 2), (5, 1), (6, 1)])
def test_categories_of_fewer_rows_are_left_out(least, left):
    domain = Domain.infer(PEOPLE, target="paid", sensitive=["sex"])
    counts = {name: PEOPLE[name].value_counts().to_dict() for name in PEOPLE}
    for known in (PEOPLE, counts):
        found = without_rare(domain, known, least, unseen="ignore")
        assert found.feature("job").categories == ("clerk", "nurse", "pope")[:left] and found.feature("job").missing
        assert found.feature("sex").categories == ("f", "m", "x") and found.feature("age") == domain.feature("age")
        assert found.label == domain.label


def test_a_model_takes_a_rare_category_for_an_unseen_one():
    clf = FairClassifier(["sex"], least_count=2, epochs=1, hidden=[4]).fit(X, Y)
    assert clf.certificate_.verdict.answer == "verified"
    rare, unseen = (clf.predict_proba(X.assign(job=job)) for job in ("pope", "king"))
    assert (rare == unseen).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"least_count": 7}, "'job' has no category of 7 rows or more"),
        ({"least_count": 0}, "least_count"),
        ({"least_count": 2, "unseen": "error"}, "unseen is 'error'"),
        ({"least_count": 2, "domain": Domain.infer(X)}, "domain lists them"),
    ],
)
def test_what_cannot_be_left_out_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        FairClassifier(["sex"], epochs=1, hidden=[4], **options).fit(X, Y)
