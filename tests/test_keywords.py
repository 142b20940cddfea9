"""Tables and keyword arguments that the public functions do not know are refused in a sentence, or understood."""

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from bornfair import FairClassifier, audit, explain, quantify, repair, verify
from bornfair.core.errors import InputError
from bornfair.people.tables import as_pandas
from bornfair.testing import assert_fair

TABLE = pd.DataFrame({"a": [1, 2, 3, 4, 5, 6, 7, 8], "s": [0, 1, 0, 1, 0, 1, 0, 1]})
MODEL = LogisticRegression(C=100).fit(TABLE, TABLE["s"])


@pytest.mark.parametrize("function", [verify, quantify, audit, repair, assert_fair, explain], ids=lambda f: f.__name__)
def test_an_unknown_keyword_is_named_with_the_closest_known_one(function):
    first = (MODEL, {"a": 1, "s": 1}, TABLE) if function is explain else (MODEL, TABLE)
    for name, closest in (("sensitive", "sensitive_features"), ("treshold", "threshold"), ("people_", "people")):
        match = rf"^{function.__name__} has no option '{name}'; did you mean '{closest}'\? it knows 'model', "
        with pytest.raises(InputError, match=match):
            function(*first, **{name: ["s"]})
    with pytest.raises(InputError, match=r"has no option 'xyzzy'; it knows .*'timeout'|has no option 'xyzzy'; it kno"):
        function(*first, xyzzy=1)


def test_a_lazy_table_is_collected():
    polars = pytest.importorskip("polars")
    lazy = polars.from_pandas(TABLE).lazy()
    pd.testing.assert_frame_equal(as_pandas(lazy), TABLE)
    trained = FairClassifier(["s"], hidden=[2], epochs=1).fit(lazy, TABLE["s"])
    assert trained.predict(lazy).tolist() == trained.predict(TABLE).tolist()
    assert verify(MODEL, lazy, sensitive_features=["s"], timeout=5).answer == "falsified"


def test_columns_named_by_texts_and_numbers_are_refused_in_a_sentence():
    mixed = TABLE.rename(columns={"a": 0})
    for model in (MODEL, lambda people: people["s"]):
        with pytest.raises(InputError, match=r"columns named by a text \('s'\) and by a int \(0\); give every column"):
            verify(model, mixed, sensitive_features=["s"], timeout=5)


def test_numbered_columns_are_known_by_their_numbers():
    numbered = TABLE.rename(columns={"a": 0, "s": 1})
    plain = LogisticRegression(C=100).fit(numbered.to_numpy(), TABLE["s"])
    for model in (plain, lambda people: people.iloc[:, 1]):
        for name in (1, "1"):
            found = verify(model, numbered, sensitive_features=[name], timeout=5)
            assert found.answer == "falsified" and set(found.twins[0]) == {"0", "1"}
    assert list(numbered.columns) == [0, 1]
