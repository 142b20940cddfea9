"""Which column feeds an input of a model."""

from __future__ import annotations

import itertools
import unicodedata

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from bornfair.core.errors import InputError
from bornfair.models.columns import Wanted, Who, columns_for
from bornfair.models.deciding import feeding
from bornfair.questions.loading import load_model


def test_letters_of_all_scripts_tell_columns_apart() -> None:
    names = ["性別", "年齢", "возраст", "доходы", "العمر", "लिंग", "ลำดับ", "größe"]
    for columns in (names, names[::-1], [name.upper() for name in names]):
        fed = feeding(names, columns, "the model")
        assert [name.upper() for name in fed] == [name.upper() for name in names]
        assert set(fed) == set(columns)
    for one, other in itertools.permutations(names, 2):
        with pytest.raises(InputError, match="is not among the columns given"):
            feeding([one], [other], "the model")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("hours_per_week", "Hours-per-week"), ("hours.per.week", "hours_per_week"), ("size m", "size_m"),
        (unicodedata.normalize("NFD", "größe"), unicodedata.normalize("NFC", "größe")), ("ａｇｅ", "age"),
        ("STRASSE", "straße"), ("x1", "x¹"),
    ],
)  # fmt: skip
def test_a_rewritten_name_finds_its_column(name: str, column: str) -> None:
    assert feeding(["other", name], ["other", column], "the model") == ("other", column)
    assert feeding([name], [column, "unrelated"], "the model") == (column,)


def test_an_exact_name_takes_precedence() -> None:
    columns = ["Age", "age", "AGE", "a_b", "a b"]
    assert feeding(columns[::-1], columns, "the model") == tuple(columns[::-1])
    composed, apart = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    assert feeding([apart], [composed, composed.upper()], "the model") == (composed,)


@pytest.mark.parametrize(
    ("inputs", "columns"),
    [
        (["age_"], ["age-", "age+"]), (["Age", "AGE"], ["age"]), (["a.b", "a-b"], ["a_b", "c"]),
        (["age"], ["Age", "aGe"]),
    ],
)  # fmt: skip
def test_a_name_that_fits_several_is_refused(inputs: list[str], columns: list[str]) -> None:
    with pytest.raises(InputError, match="has no column of exactly this name, and its name fits"):
        feeding(inputs, columns, "the model")


@pytest.mark.parametrize(
    ("name", "column"), [("age <50", "age >50"), ("%", "$"), ("__", "性別"), ("a", "b"), ("Age", "age2")]
)
def test_a_name_that_fits_nothing_is_refused(name: str, column: str) -> None:
    with pytest.raises(InputError, match="is not among the columns given"):
        feeding([name], [column], "the model")


def test_an_exactly_named_column_feeds_no_second_input() -> None:
    with pytest.raises(InputError, match="'Age' is not among the columns given"):
        feeding(["age", "Age"], ["age", "income"], "the model")


def test_a_column_whose_name_has_no_latin_letters_feeds_its_own_input() -> None:
    """Both names have two letters, and the tables have them in two orders."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"年齢": random.integers(18, 80, 300), "性別": random.integers(0, 2, 300)})
    estimator = LogisticRegression().fit(table, table["性別"] == 1)
    for given in (table, table[["性別", "年齢"]]):
        model = load_model(estimator, table=given, sensitive=["性別"])
        assert (model.predict(given) == estimator.predict(table)).all()
    with pytest.raises(InputError, match="'性別' is not among the columns given"):
        load_model(estimator, table=table.rename(columns={"性別": "収入"}), sensitive=["年齢"])


def test_categories_of_a_positional_input_belong_to_its_place_and_not_to_a_name() -> None:
    wanted = Wanted("the model", None, 2, {0: ("no", "yes")}, numbers=False)
    table = pd.DataFrame({"x1": ["yes"] * 4, "x0": [1, 2, 3, 4]})
    domain = columns_for(wanted, Who(table=table, sensitive=["x1"])).domain
    assert domain.feature("x1").levels() == ("no", "yes")
    assert list(domain.feature("x0").levels()) == [1, 2, 3, 4]
