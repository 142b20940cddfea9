"""The embedded datasets are what they should be."""

import pytest

from bornfair import datasets
from bornfair.datasets import catalogue
from bornfair.errors import InputError


def test_credit_is_readable_and_sex_is_a_column_of_its_own():
    data = datasets.load("credit")
    table = data.table
    assert len(table) == 1000 and data.target == "risk" and data.sensitive == ("sex", "age")
    assert table["risk"].value_counts().to_dict() == {"good": 700, "bad": 300}
    assert table["sex"].value_counts().to_dict() == {"male": 690, "female": 310}
    assert "personal_status" not in table.columns
    assert not table.isna().any().any(), "a code without words"
    # Single or not does not give sex away: each value that occurs for women occurs for men.
    assert set(table.loc[table["sex"] == "female", "single"]) <= set(table.loc[table["sex"] == "male", "single"])


def test_census_is_the_training_part_without_the_survey_weight():
    data = datasets.load("census")
    assert data.table.shape == (32561, 14) and "fnlwgt" not in data.table.columns
    assert data.table["income"].value_counts().to_dict() == {"<=50K": 24720, ">50K": 7841}
    assert set(data.table["sex"]) == {"Male", "Female"} and data.table["race"].nunique() == 5


def test_splits_are_disjoint_complete_and_repeatable():
    data = datasets.load("credit")
    (train, test), again = datasets.split(data, seed=4), datasets.split(data, seed=4)
    assert len(test) == 200 and len(train) == 800
    assert test.equals(again[1]) and not test.equals(datasets.split(data, seed=5)[1])
    both = sorted(map(tuple, train.astype(str).to_numpy().tolist() + test.astype(str).to_numpy().tolist()))
    assert both == sorted(map(tuple, data.table.astype(str).to_numpy().tolist()))


def test_an_unknown_dataset_is_named():
    with pytest.raises(InputError, match=r"dataset 'adlut' is not known; the datasets are 'census', 'credit'"):
        datasets.load("adlut")


def test_a_damaged_file_is_refused():
    with pytest.raises(InputError, match=r"the embedded file german.data.gz is damaged: SHA-256 b21f.*, expected 0000"):
        catalogue._embedded("german.data.gz", "0000")
