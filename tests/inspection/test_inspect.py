"""A look at a table: what is found in it, and what is not."""

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import bornfair
from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading

ROWS = 400


def people(seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": random.normal(30, 10, ROWS).round(2),
            "job": random.choice(["clerk", "nurse", "smith", "cook"], ROWS),
            "sex": random.choice(["f", "m"], ROWS),
            "y": random.choice([0, 1], ROWS),
        }
    )


def found(table: pd.DataFrame, **options) -> dict[str, tuple[str, ...]]:
    told = bornfair.inspect(table, **({"target": "y", "sensitive_features": ["sex"]} | options))
    return {finding.kind: finding.columns for finding in told.findings}


def test_nothing_is_found_where_nothing_is():
    for seed in range(5):
        assert found(people(seed)) == {}


@pytest.mark.parametrize(
    "leak",
    [
        lambda y, random: np.where(y == 1, random.uniform(0, 1, ROWS), random.uniform(1.01, 2, ROWS)),
        lambda y, random: np.where(y == 1, random.uniform(0, 1, ROWS), np.nan),  # known only of some
        lambda y, random: np.where(y == 1, random.choice(["a", "b"], ROWS), random.choice(["c", "d"], ROWS)),
        lambda y, random: np.where(random.random(ROWS) < 0.02, 1 - y, y),  # with a few mistakes
        lambda y, random: np.where(y == 1, random.choice([1.0, 3.0], ROWS), 2.0),  # not monotone
    ],
)
def test_a_column_that_tells_the_answer_is_a_leak(leak):
    table = people()
    table["z"] = leak(table["y"].to_numpy(), np.random.default_rng(1))
    assert found(table)["leak"] == ("z",)


def test_a_good_feature_is_no_leak_and_a_partial_proxy_no_proxy():
    table, random = people(), np.random.default_rng(1)
    table["good"] = table["y"] + random.normal(0, 0.5, ROWS)
    table["relationship"] = np.where(
        random.random(ROWS) < 0.5, "single", np.where(table["sex"] == "f", "wife", "husband")
    )
    assert found(table) == {}


def test_values_that_hardly_anybody_shares_tell_nothing_however_well_they_fit():
    table = people()
    table["z"] = [f"v{i % 150}" for i in range(ROWS)]
    assert "leak" not in found(table, keep=["z"])


def test_rare_positives_do_not_hide_a_leak():
    table, random = people(), np.random.default_rng(2)
    table["y"] = (np.arange(ROWS) % 40 == 0).astype(int)
    table["z"] = table["y"] * random.uniform(1, 2, ROWS)
    told = found(table)
    assert told["leak"] == ("z",) and told["rare class"] == ("y",)


def test_proxies_are_told_from_leaks_and_of_each_sensitive_column():
    table, random = people(), np.random.default_rng(3)
    table["age"] = random.integers(18, 80, ROWS)
    table["born"] = 2024 - table["age"]
    table["woman"] = table["sex"] == "f"
    told = bornfair.inspect(table, target="y", sensitive_features=["sex", "age"])
    assert [f.columns for f in told.findings if f.kind == "proxy"] == [("woman",), ("born",)]
    assert told.command("t.csv").endswith("--sensitive sex --sensitive age --drop woman --drop born")


def test_what_is_there_twice_is_found():
    table = people()
    table["job_again"], table["job_code"] = (
        table["job"],
        table["job"].map({"clerk": 3, "nurse": 1, "smith": 2, "cook": 0}),
    )
    told = bornfair.inspect(table, target="y")
    assert [f.columns for f in told.findings if f.kind == "same content"] == [("job", "job_again", "job_code")]
    more = people().assign(rate=np.random.default_rng(1).random(ROWS))
    assert found(pd.concat([more, more.head(20)]))["duplicates"] == ()
    few = pd.DataFrame({"a": [0, 1] * 200, "sex": ["f", "m"] * 200, "y": [0, 1, 1, 0] * 100})
    assert "duplicates" not in found(few)  # as many as there must be


def test_constants_by_rounding_and_nearly_constants_are_found():
    table = people()
    table["rate"] = np.where(np.arange(ROWS) % 2, 0.1 + 0.2, 0.3)
    table["flag"] = (np.arange(ROWS) == 5).astype(int)
    table["empty"] = np.nan
    told = found(table)
    assert told["constant"] == ("rate",) and told["nearly constant"] == ("flag",) and told["empty"] == ("empty",)


def test_mixed_decimal_signs_are_read_column_by_column():
    table = people()
    table["commas"] = [f"{value:.2f}".replace(".", ",") for value in table["income"]]
    told = bornfair.inspect(table, target="y", sensitive_features="sex")
    assert told.options() == ["--numeric", "commas"]
    only = bornfair.inspect(table.drop(columns="income"), target="y", sensitive_features="sex")
    assert only.options() == ["--decimal", ","]


def test_columns_somebody_keeps_are_not_found_fault_with():
    table = people().assign(id=range(ROWS), note=[f"said {i} and more" for i in range(ROWS)])
    assert set(found(table)) == {"identifier", "text"}
    assert found(table, keep=["id", "note"]) == {}
    assert "codes" not in found(people().assign(c=np.arange(ROWS) % 5), categorical=["c"])


def test_the_same_seed_finds_the_same_and_a_file_the_same_as_its_table(tmp_path):
    table = people().assign(id=range(ROWS))
    table.to_csv(tmp_path / "t.csv", index=False, sep=";")
    first = bornfair.inspect(table, target="y", sensitive_features=["sex"], seed=4).to_json()
    again = bornfair.inspect(
        tmp_path / "t.csv", target="y", sensitive_features=["sex"], seed=4, reading=TableReading(delimiter=";")
    )
    assert again.to_json() == first


def test_other_tables_and_wrong_names(tmp_path):
    import polars

    assert bornfair.inspect(polars.from_pandas(people()), target="y").rows == ROWS
    for options, message in [
        ({"target": "z"}, "target 'z' is not in the table"),
        ({"sensitive_features": ["sx"]}, "did you mean 'sex'"),
        ({"target": "sex", "sensitive_features": ["sex"]}, "cannot be both"),
    ]:
        with pytest.raises(InputError, match=message):
            bornfair.inspect(people(), **options)
    with pytest.raises(InputError, match="has no rows"):
        bornfair.inspect(people().head(0))


def test_odd_columns_do_not_stop_it():
    table = people()
    table["infinite"] = np.where(np.arange(ROWS) == 3, np.inf, table["income"])
    table["huge"] = np.where(np.arange(ROWS) == 3, 1e300, table["income"])
    table["mixed"] = [1, "a", 2.5, True] * (ROWS // 4)
    table["nullable"] = pd.array([1, None] * (ROWS // 2), dtype="Int64")
    table["flag"] = pd.array([True, None] * (ROWS // 2), dtype="boolean")
    told = bornfair.inspect(table, target="y", sensitive_features=["sex"])
    kinds = {column.name: column.kind for column in told.columns}
    assert kinds["nullable"] == "whole number" and kinds["flag"] == "true/false" and kinds["huge"] == "decimal"


@pytest.mark.parametrize("column", ["y", "sex"])
def test_one_unusual_row_does_not_hide_leaks_and_proxies(column):
    table, random = people(), np.random.default_rng(2)
    kind = {"y": "leak", "sex": "proxy"}[column]
    table["copy"] = table[column].map({0: "no", 1: "yes", "f": "F", "m": "M"})
    table["wrong"] = random.choice(["F", "M"], ROWS)
    table.loc[17, column] = {"y": 7, "sex": "unknown"}[column]
    told = {one.kind: one for one in bornfair.inspect(table, target="y", sensitive_features=["sex"]).findings}
    assert told[kind].columns == ("copy",)
    assert told["rare values"].columns == (column,)
    assert told["rare values"].text.startswith(f"1 value of fewer than 5 rows is rare in '{column}'")
    assert "'unknown'" not in told["rare values"].text  # it may identify the one person who has it


def test_a_class_of_few_rows_does_not_hide_a_leak_of_the_others():
    table, random = people(), np.random.default_rng(3)
    table = pd.concat([table] * 4, ignore_index=True)
    table["y"] = random.choice(["no", "yes"], len(table))
    table["leak"] = (table["y"] == "yes") + random.uniform(0, 0.9, len(table))
    table.loc[:11, "y"] = "pending"  # 12 rows in 1,600, of which the leak tells nothing
    told = {one.kind: one for one in bornfair.inspect(table, target="y").findings}
    assert told["leak"].columns == ("leak",) and "'pending' (12 rows)" in told["rare values"].text


def test_a_column_with_one_frequent_value_cannot_be_searched_for_which_is_said():
    table = people()
    table["y"] = np.arange(ROWS) < 3
    table["copy"] = np.where(table["y"], "a", "b")
    told = {one.kind: one for one in bornfair.inspect(table, target="y").findings}
    assert "leak" not in told and "True (3 rows) is rare" in told["rare values"].text
    assert "No search for columns that reveal 'y' is possible." in told["rare values"].text


def test_a_rare_class_of_two_is_not_left_out():
    table = pd.concat([people(seed) for seed in range(5)], ignore_index=True)
    table["y"] = np.arange(len(table)) < 10  # 0.5 %
    table["copy"] = np.where(table["y"], "a", "b")
    assert found(table)["leak"] == ("copy",) and "rare values" not in found(table)


@pytest.mark.parametrize("value", [b"\xff\0", Decimal("1.5"), np.datetime64("2026-01-01"), ("a", 1)], ids=repr)
def test_values_of_other_types_can_be_written_as_json(value):
    table = people().assign(job=pd.Series([value] * ROWS, dtype=object))
    assert json.loads(json.dumps(bornfair.inspect(table).to_json()))["rows"] == ROWS
