"""The datasets are what they should be: right labels, no leaks, nobody's name."""

import pytest

from bornfair import Domain, datasets
from bornfair.core.errors import InputError
from bornfair.datasets import readable
from bornfair.datasets.files import RawFile

PAPER = {
    "census": {"race", "sex", "age"},
    "bank": {"age"},
    "credit": {"age", "sex"},
    "compas": {"race"},
    "law": {"sex"},
    "bank-full": {"age"},
    "law-full": {"sex"},
    "health": {"sex"},
}


@pytest.mark.parametrize("name", datasets.NAMES)
def test_the_catalogue_tells_the_truth_about_what_is_in_the_package(name):
    known, data = datasets.entry(name), datasets.load(name)
    assert data.table.shape == (known.rows, known.columns)
    assert data.target in data.table.columns and set(data.sensitive) <= set(data.table.columns)
    assert not data.table.isna().any().any(), "a gap, or a code without words"
    assert data.source and data.licence and data.description
    domain = Domain.infer(data.table, target=data.target, sensitive=data.sensitive)
    assert domain.label is not None and len(domain.label.classes) == 2


def test_sensitive_columns_are_those_of_the_paper_and_more():
    assert {name: set(datasets.entry(name).paper_sensitive) for name in datasets.ALL_NAMES} == PAPER
    for name in datasets.ALL_NAMES:
        assert PAPER[name] <= set(datasets.entry(name).sensitive)


def test_credit_is_readable_and_sex_is_a_column_of_its_own():
    data = datasets.load("credit")
    table = data.table
    assert len(table) == 1000 and data.target == "risk" and data.sensitive == ("sex", "age")
    assert table["risk"].value_counts().to_dict() == {"good": 700, "bad": 300}
    assert table["sex"].value_counts().to_dict() == {"male": 690, "female": 310}
    assert "personal_status" not in table.columns
    # Single or not does not give sex away: each value that occurs for women occurs for men.
    assert set(table.loc[table["sex"] == "female", "single"]) <= set(table.loc[table["sex"] == "male", "single"])


def test_census_is_the_training_part_without_the_survey_weight():
    data = datasets.load("census")
    assert data.table.shape == (32561, 14) and "fnlwgt" not in data.table.columns
    assert data.table["income"].value_counts().to_dict() == {"<=50K": 24720, ">50K": 7841}
    assert set(data.table["sex"]) == {"Male", "Female"} and data.table["race"].nunique() == 5


def test_bank_does_not_know_how_long_the_call_lasted():
    table = datasets.load("bank").table
    assert "duration" not in table.columns
    assert table["y"].value_counts().to_dict() == {"no": 36548, "yes": 4640}
    # 999 days stood for "not known": it is a column of its own, and no longer a number of days.
    assert int(table["pdays_known"].sum()) == 1515 and table["pdays"].max() == 27
    assert set(table.loc[~table["pdays_known"], "pdays"]) == {0}


def test_compas_has_the_answer_once_and_nobodys_name():
    table = datasets.load("compas").table
    assert tuple(table.columns) == readable.COMPAS_COLUMNS
    assert int(table["two_year_recid"].sum()) == 2809 and table["race"].nunique() == 6
    assert set(table["c_charge_degree"]) == {"felony", "misdemeanor"}


def test_deriving_compas_keeps_propublicas_rows_and_drops_who_they_are():
    header = (
        "id,name,dob,c_case_number,days_b_screening_arrest,is_recid,score_text,decile_score,sex,age,race,"
        "juv_fel_count,juv_misd_count,juv_other_count,priors_count,c_charge_degree,two_year_recid"
    )
    rows = [
        "1,zoe doe,1980-01-01,13CV1,-1,0,Low,1,Female,30,Other,0,0,0,2,F,1",
        "2,adam roe,1990-01-01,13CV2,,0,Low,1,Male,25,Asian,0,0,0,0,F,0",
        "3,bob poe,1990-01-01,13CV3,31,0,Low,1,Male,25,Asian,0,0,0,0,F,0",
        "4,cy low,1990-01-01,13CV4,0,-1,Low,1,Male,25,Asian,0,0,0,0,F,0",
        "5,di moe,1990-01-01,13CV5,0,0,Low,1,Male,25,Asian,0,0,0,0,O,0",
        "6,ed foe,1990-01-01,13CV6,0,0,N/A,1,Male,25,Asian,0,0,0,0,M,0",
        "7,flo woe,1970-01-01,13CV7,30,1,High,9,Female,20,Asian,0,1,0,0,M,0",
    ]
    derived = readable.without_identity("\r\n".join([header, *rows, ""]).encode()).decode()
    assert derived.splitlines() == [
        ",".join(readable.COMPAS_COLUMNS),
        "Female,20,Asian,0,1,0,0,M,0",
        "Female,30,Other,0,0,0,2,F,1",
    ]


def test_law_counts_the_first_attempt_and_holds_no_leak():
    table = datasets.load("law").table
    assert int(table["pass_bar"].sum()) == 18505
    assert table["sex"].value_counts().to_dict() == {"male": 11675, "female": 9123}
    assert not [name for name in table.columns if name.startswith(("bar", "dnn"))]
    assert set(table["fulltime"]) == {"yes", "no"} and "male" not in table.columns


def test_splits_are_disjoint_complete_and_repeatable():
    data = datasets.load("credit")
    (train, test), again = datasets.split(data, seed=4), datasets.split(data, seed=4)
    assert len(test) == 200 and len(train) == 800
    assert test.equals(again[1]) and not test.equals(datasets.split(data, seed=5)[1])
    both = sorted(map(tuple, train.astype(str).to_numpy().tolist() + test.astype(str).to_numpy().tolist()))
    assert both == sorted(map(tuple, data.table.astype(str).to_numpy().tolist()))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("adlut", ""), ("gender", ""), ("adult", "'census'"), ("Census", "'census'"), ("law_full", "'law-full'"), (3, "")],
)
def test_an_unknown_dataset_is_named_and_the_nearest_one_offered(name, hint):
    with pytest.raises(InputError) as caught:
        datasets.load(name)
    message = str(caught.value)
    assert message.startswith(f"dataset {name!r} is not known; the datasets are 'census', 'bank', 'credit', 'compas'")
    assert message.endswith(f"did you mean {hint}?" if hint else "'health'.")


def test_a_damaged_embedded_file_is_refused():
    with pytest.raises(InputError, match=r"the embedded file german.data.gz is damaged: SHA-256 b21f.*, expected 0000"):
        RawFile(("german.data",), "0000").embedded()
