"""What is a column? By what its values look like, and by how many rows share one."""

import numpy as np
import pandas as pd
import pytest

from bornfair.core.errors import InputError
from bornfair.estimator import FairClassifier
from bornfair.people.column_kinds import look, refused
from bornfair.people.domain import Domain

RANDOM = np.random.default_rng(0)
WORDS = ["amber", "brick", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty"]


def texts(count: int, words: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, words)) for _ in range(count)]


@pytest.mark.parametrize(
    ("name", "values", "kind", "what"),
    [
        ("n", range(500, 700), "identifier", "running numbers"),
        ("row", RANDOM.permutation(200), "identifier", "running numbers"),
        ("SK_ID_CURR", RANDOM.choice(10**6, 200, replace=False), "identifier", "numbers of people or accounts"),
        ("x", RANDOM.choice(10**9, 200, replace=False) + 10**9, "identifier", "long numbers"),
        ("x", [f"{i:08x}-0000-4000-8000-{i:012x}" for i in range(40)], "identifier", "UUIDs"),
        ("x", [f"{i * 0x9E3779B97F4A7C15 % 2**64:016x}" for i in range(1, 41)], "identifier", "hashes"),
        ("x", [f"p{i}@mail.example" for i in range(40)], "identifier", "e-mail"),
        ("x", [f"+41 79 {i:03d} 12 {i % 100:02d}" for i in range(40)], "identifier", "telephone"),
        ("x", [f"(555) {i:03d}-1234" for i in range(40)], "identifier", "telephone"),
        ("x", [f"DE{i:02d} 3704 0044 0532 0130 {i:02d}" for i in range(40)], "identifier", "account"),
        ("x", [f"{i:03d}-{i % 100:02d}-{7 * i:04d}" for i in range(40)], "identifier", "social security"),
        ("x", [f"C-{i:06d}" for i in range(100)], "identifier", "hardly two rows"),
        ("x", texts(300, 3), "text", "names, addresses"),
        ("x", texts(300, 9), "text", "free text"),
        ("first_name", [WORDS[i % 10] + "abcdefg"[i % 7] for i in range(300)], "text", "names"),
        ("x", [f"2020-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(100)], "date", "dates"),
        ("x", [f"{1 + i % 28}.{1 + i % 12}.20{10 + i % 9}" for i in range(100)], "date", "dates"),
        ("x", [f"{1 + i % 28} Mar 20{10 + i % 9}" for i in range(100)], "date", "dates"),
        ("x", [20200101 + i % 28 + 100 * (i % 12) for i in range(100)], "date", "20240131"),
        ("x", pd.date_range("2020-01-01", periods=50), "date", "dates"),
    ],
)
def test_what_is_about_single_people_is_recognised_and_refused(name, values, kind, what):
    column = look(pd.Series(values, name=name))
    assert (column.kind, column.refused) == (kind, True) and what in column.what
    assert kind == "date" or (column.low is None and column.common == ())  # no value of it is told


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.exp(RANDOM.normal(10, 1, 500)).round(2), "decimal"),  # all differ, and it is a measurement
        (RANDOM.integers(10_000, 90_000, 300), "whole number"),
        (RANDOM.integers(18, 80, 300), "whole number"),
        ([1.0, 2.0, None] * 20, "whole number"),
        ([True, False] * 20, "true/false"),
        (["yes", "no"] * 20, "category"),
        ([f"value {i % 30}" for i in range(40)], "category"),  # thirty values in forty rows
        ([f"v{i % 30}" for i in range(40)], "category"),
        ([f"Village of {WORDS[i % 10]} {i % 11}" for i in range(2000)], "category"),
        ([f"{i:02d}000" if i else "x" for i in range(30)] * 30, "category"),
        (["2020-01-01", "2021-01-01", "2022-01-01"] * 30, "date"),
        (["a b c d e f g h", "i j k l m n o p"] * 40, "category"),
        ([f"{100 + i % 20}" for i in range(100)], "category"),  # codes that somebody has made texts
        (["a@" + "." * 200_000 + " b"] * 5 + ["c"] * 40, "category"),
        ([f"name {i}" for i in range(12)], "category"),  # twelve rows tell nothing
    ],
)
def test_what_can_be_learnt_from_is_not_refused(values, kind):
    column = look(pd.Series(values, name="x"))
    assert (column.kind, column.refused) == (kind, False)


@pytest.mark.parametrize(
    ("values", "written", "decimal", "low"),
    [
        (["1,5", "2,25", "100"], "numbers with decimal commas", ",", 1.5),
        (["1.234,5", "2,25", "100"], "numbers with decimal commas and thousands separators", ",", 2.25),
        (["1,234", "2,250", "100"], "numbers with thousands separators", ".", 100),
        (["12 %", "5 %"], "numbers with percent signs", ".", 5),
        (["$12.50", "$ 5"], "numbers with a currency or unit", ".", 5.0),
        (["12.5", "NA", "7"], "numbers beside 'NA'", ".", 7.0),
    ],
)
def test_numbers_that_came_as_texts_are_recognised(values, written, decimal, low):
    column = look(pd.Series(values * 20, name="x"))
    assert (column.written, column.decimal, column.low) == (written, decimal, low) and column.is_number
    assert column.gaps == sum(value == "NA" for value in values) * 20


def test_only_frequent_categories_are_told():
    column = look(pd.Series(["often"] * 30 + ["Ada"] * 2, name="x"))
    assert column.common == ("often",) and column.values == 2


def test_a_category_that_was_declared_is_one():
    column = look(pd.Series(texts(300, 3), name="x", dtype="category"))
    assert column.kind == "category" and not refused(pd.DataFrame({"x": pd.Series(texts(300, 3), dtype="category")}))


# --- in Python ---


def table(count: int = 60) -> tuple[pd.DataFrame, list[int]]:
    random = np.random.default_rng(3)
    people = pd.DataFrame({"age": random.integers(18, 80, count), "sex": random.choice(["f", "m"], count)})
    return people, random.integers(0, 2, count).tolist()


def test_the_classifier_refuses_names_unless_they_are_declared_categories():
    people, answers = table()
    people["who"] = [f"Ada {i}" for i in range(len(people))]
    model = FairClassifier(["sex"], epochs=1, hidden=(4,))
    with pytest.raises(
        InputError, match=r"learnt from 'who' \(names, .*\) as it is; leave it out, or keep it with astype"
    ):
        model.fit(people, answers)
    model.fit(people.assign(who=people["who"].astype("category")), answers)
    model.set_params(domain=Domain.infer(people, sensitive=["sex"])).fit(people, answers)  # said who exists


def test_running_numbers_and_many_valued_categories_are_left_to_who_writes_python():
    people, answers = table(40)
    people["id"], people["village"] = range(40), [f"v {i % 30}" for i in range(40)]
    assert FairClassifier(["sex"], epochs=1, hidden=(4,)).fit(people, answers).domain_.names[-1] == "village"


def test_kinds_can_be_forced_in_a_domain():
    people = pd.DataFrame({"code": [1.0, 2.0, None, 7.0], "level": pd.Categorical([1, 2, 2, 3]), "x": [1, 2, 3, 4]})
    domain = Domain.infer(people, kinds={"code": "categorical", "level": "numeric"})
    assert domain.feature("code").levels() == (1, 2, 7, None) and domain.feature("level").kind == "integer"
    with pytest.raises(InputError, match="column 'cod' is not in the table; did you mean 'code'"):
        Domain.infer(people, kinds={"cod": "categorical"})
    with pytest.raises(InputError, match="'x' is to be numeric, but 1 of its rows hold no number"):
        Domain.infer(people.assign(x=["1", "2", "3", "four"]), kinds={"x": "numeric"})
