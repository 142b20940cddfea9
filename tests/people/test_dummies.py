"""0/1 columns that are one feature are found, and change together between twins, whatever decides."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

import bornfair
from bornfair import Domain, FairClassifier, FairWrapper, audit, explain, inspect, quantify, repair, verify
from bornfair.core.errors import InputError
from bornfair.people.dummies import dummy_blocks
from samples import bornfair as command

ROWS = 400
BLOCK = ("sex_Female", "sex_Male")


def people(**options) -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": random.integers(18, 80, ROWS),
            "income": random.normal(30, 10, ROWS).round(1),
            "sex": random.choice(["Female", "Male"], ROWS),
            "job": random.choice(["a", "b", "c"], ROWS),
        }
    )
    return pd.get_dummies(table, **options)


X = people(dtype=float)
Y = (X["income"] + 4 * X["job_a"] + np.random.default_rng(1).normal(0, 4, ROWS) > 30).astype(int).rename("y")
FREE = X.assign(sex_Female=X["sex_Male"], sex_Male=X["sex_Female"])  # everybody as the other sex


def logistic(female: float, male: float) -> LogisticRegression:
    model = LogisticRegression(max_iter=2_000).fit(X, Y)
    model.coef_[0, [X.columns.get_loc(name) for name in BLOCK]] = female, male
    return model


def network() -> MLPClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        model = MLPClassifier((6,), max_iter=40, random_state=0).fit(X, Y)
    first, last = (X.columns.get_loc(name) for name in BLOCK)
    model.coefs_[0][last] = model.coefs_[0][first]
    return model


def function(rows: pd.DataFrame) -> np.ndarray:
    return (rows["income"] + 9 * (rows["sex_Female"] + rows["sex_Male"]) > 35).to_numpy().astype(int)


# --- what is found ---


@pytest.mark.parametrize("options", [{}, {"dtype": int}, {"dtype": float}, {"prefix_sep": "="}, {"prefix_sep": "."}])
def test_one_hot_columns_with_a_common_prefix_are_one_feature(options):
    table = people(**options)
    found = [block.names for block in dummy_blocks(table, list(table))]
    assert found == [tuple(table)[2:4], tuple(table)[4:7]]


def test_complementary_columns_are_one_feature_whatever_they_are_called():
    table = X[["age"]].assign(woman=X["sex_Female"], man=X["sex_Male"].astype(bool))
    (block,) = dummy_blocks(table, list(table))
    assert block.names == ("woman", "man") and "exactly one of them is 1 in each of the 400 rows" in block.text
    assert dummy_blocks(table.assign(man=table["man"] & (table["age"] > 18)), list(table)) == ()


def test_a_dropped_category_is_said_to_be_unknown():
    table = people(drop_first=True)
    (block,) = dummy_blocks(table, list(table))
    assert block.names == ("job_b", "job_c") and block.empty == int(X["job_a"].sum())
    assert "does not show whether these" in block.text and "dropped (drop_first) or no value" in block.text
    gaps = pd.get_dummies(pd.Series(["x", "y", None] * 50, name="s").to_frame())
    (block,) = dummy_blocks(gaps, list(gaps))
    assert block.names == ("s_x", "s_y") and block.empty == 50


def test_columns_that_chance_may_have_made_are_no_feature():
    random = np.random.default_rng(4)
    flags = pd.DataFrame({f"has_{name}": random.random(300) < 0.03 for name in "abcdef"})
    assert dummy_blocks(flags, list(flags)) == ()
    few = pd.DataFrame({"has_car": [0, 1, 0, 1], "has_house": [1, 0, 1, 0], "woman": [0, 1, 1, 0], "old": [1, 0, 0, 1]})
    assert dummy_blocks(few, list(few)) == ()
    copies = X.assign(other=X["sex_Male"], same=X["sex_Male"])
    assert [block.names for block in dummy_blocks(copies, list(copies))] == [BLOCK, ("job_a", "job_b", "job_c")]
    assert dummy_blocks(X.assign(sex_Male=X["sex_Male"].where(X.index > 0)), BLOCK) == ()  # a gap


def test_a_prefix_of_several_words_is_told_from_a_category_of_several():
    table = pd.get_dummies(
        pd.DataFrame({"marital_status": ["never_married", "never_asked", "wed"] * 40, "marital_kids": [0, 1] * 60})
    )
    (block,) = dummy_blocks(table, list(table))
    assert block.names == tuple(name for name in table if name.startswith("marital_status"))


# --- who is whose twin ---


@pytest.mark.parametrize("named", [["sex_Male"], ["sex_Female"], list(BLOCK)])
@pytest.mark.parametrize("model", [logistic(1.7, 1.7), network()])
def test_a_model_that_is_fair_to_both_is_verified(model, named):
    found = verify(model, X, sensitive_features=named, timeout=20)
    assert found.answer == "verified"
    assert any("'sex_Female' and 'sex_Male'" in note and "change together" in note for note in found.notes)
    assert any("'job_a', 'job_b' and 'job_c'" in note and "impossible people" in note for note in found.notes)


def test_twins_have_observed_combinations_unless_all_are_asked_about():
    assert verify(logistic(1.7, 1.7), X, sensitive_features=["sex_Male"], combinations="observed").answer == "verified"
    found = verify(logistic(1.7, 1.7), X, sensitive_features=["sex_Male"], combinations="all")
    assert found.answer == "falsified" and len({twin["sex_Female"] for twin in found.twins}) == 1
    assert any("twins may be impossible people" in note for note in found.notes)
    for model in (
        logistic(1.0, -1.0), RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, Y),
        lambda rows: (rows["income"] + 9 * rows["sex_Male"] > 35).to_numpy().astype(int), GaussianNB().fit(X, Y),
    ):  # fmt: skip
        found = verify(model, X, sensitive_features=["sex_Male"], timeout=20)
        assert found.answer == "falsified"
        assert {(twin["sex_Female"], twin["sex_Male"]) for twin in found.twins} == {(0, 1), (1, 0)}


def test_people_of_the_table_are_counted_by_the_whole_block():
    unfair = logistic(1.0, -1.0)
    truth = int((unfair.predict(X) != unfair.predict(FREE)).sum())
    for named in ("sex_Male", "sex_Female"):
        assert quantify(unfair, X, sensitive_features=named, timeout=5, most_boxes=50).people.unfair == truth > 20
    found = quantify(function, X, sensitive_features="sex_Male", timeout=1)
    assert found.people.unfair == 0 and json.loads(json.dumps(found.to_json()))["notes"] == list(found.notes) != []
    report = audit(unfair, X.assign(y=Y), target="y", sensitive_features="sex_Male", timeout=4).documents[0]
    assert report.people.unfair == truth and "change together" in report.making["Columns of one feature"]
    who = explain(unfair, 0, X, sensitive_features="sex_Male", timeout=5)
    assert who.versions == 2 and any("change together" in note for note in who.notes)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (logistic(1.0, -1.0), "plain"),
        (logistic(1.0, -1.0), "average"),
        (RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, Y), "plain"),
        (GaussianNB().fit(X, Y), "average"),
    ],
)
def test_a_repair_is_fair_to_the_observed_combinations(model, method):
    found = repair(model, X.assign(y=Y), target="y", sensitive_features="sex_Male", method=method, epochs=1)
    domain = found.model.domain
    assert found.verdict == "verified" and set(domain.sensitive) == set(BLOCK)
    assert set(domain.combinations) == {(0, 1), (1, 0)} and "change together" in found.note
    assert (found.model.predict(X) == found.model.predict(FREE)).all()
    observed = repair(
        model,
        X.assign(y=Y),
        target="y",
        sensitive_features="sex_Male",
        method=method,
        epochs=1,
        combinations="observed",
    )
    assert observed.model.domain == domain


def test_training_makes_the_whole_block_sensitive():
    for made in (
        FairClassifier(["sex_Male"], hidden=[4], epochs=1),
        FairWrapper(GaussianNB(), ["sex_Male"], method="average"),
    ):
        made.fit(X, Y)
        assert made.domain_.sensitive == BLOCK and made.domain_.combinations == ((0, 1), (1, 0))
        assert (made.predict(X) == made.predict(FREE)).all()
    made = FairClassifier(["sex_Male"], hidden=[4], epochs=1, combinations="all").fit(X, Y)
    assert made.domain_.sensitive == ("sex_Male",) and made.domain_.combinations is None


def test_other_sensitive_features_keep_all_their_values():
    table = X.assign(old=X["age"] > 60)
    domain = Domain.infer(table, sensitive=["old", "sex_Male"], combinations=None)
    assert domain.sensitive == ("old", *BLOCK)
    assert domain.combinations == ((False, 0, 1), (False, 1, 0), (True, 0, 1), (True, 1, 0))
    with pytest.raises(InputError, match=r"'income' takes every real value.*combinations='all'"):
        Domain.infer(table, sensitive=["income", "sex_Male"], combinations=None)


def test_a_domain_that_was_given_says_who_exists_itself():
    domain = Domain.infer(X, sensitive=["sex_Male"])
    found = verify(logistic(1.7, 1.7), domain, table=X)
    assert found.answer == "falsified" and any("'sex_Male' changes while 'sex_Female' stays" in n for n in found.notes)
    assert verify(logistic(1.7, 1.7), domain, table=X, combinations="observed").answer == "verified"


def test_a_bundle_may_be_asked_about_the_combinations_of_a_table(tmp_path):
    trained = FairClassifier(["age"], hidden=[4], epochs=1, random_state=0).fit(X, Y)
    trained.save(tmp_path / "bundle")
    verdict = verify(tmp_path / "bundle", table=X, sensitive_features=["sex_Male"], timeout=20)
    assert verdict.answer in ("verified", "falsified")
    assert {(t["sex_Female"], t["sex_Male"]) for t in verdict.twins or []} <= {(0, 1), (1, 0)}
    several = FairClassifier(["age", "job_a"], hidden=[4], epochs=1, combinations="all").fit(X, Y)
    asked = bornfair.questions.Question.of(several, table=X, combinations="observed").model.domain
    assert asked.sensitive == ("age", "job_a", "job_b", "job_c") and len(asked.combinations) < 62 * 3
    assert {sum(row[1:]) for row in asked.combinations} == {1}


def test_combinations_that_cannot_be_are_refused_in_a_sentence():
    for ask in (verify, quantify, audit):
        with pytest.raises(InputError, match="combinations must be 'all' or 'observed', found 'some'"):
            ask(logistic(1, 1), X, sensitive_features=["sex_Male"], combinations="some")
    with pytest.raises(InputError, match="reads them from a table"):
        verify(logistic(1, 1), Domain.infer(X, sensitive=["sex_Male"]), combinations="observed")
    with pytest.raises(InputError, match="so nobody has a twin"):
        rows = X[X["sex_Male"] == 1]
        verify(logistic(1, 1), Domain.infer(X, sensitive=["sex_Male"]), table=rows, combinations="observed")


# --- what is told ---


def test_inspect_names_the_block_and_no_proxy_in_it():
    found = inspect(X.assign(y=Y), target="y", sensitive_features=["sex_Male"])
    told = {finding.columns: finding for finding in found.findings if finding.kind == "one feature"}
    assert set(told) == {BLOCK, ("job_a", "job_b", "job_c")} and "all of them change" in told[BLOCK].text
    assert not any(finding.kind == "proxy" for finding in found.findings) and "--drop" not in found.options()


def test_no_column_of_a_block_is_a_proxy_of_another():
    found = bornfair.proxy_report(X.assign(y=Y), sensitive_features=["sex_Male"], target="y")
    assert tuple(part.sensitive for part in found.about) == BLOCK
    assert not {tell.name for part in found.about for tell in part.features} & set(BLOCK)


def test_the_commands_take_and_tell_combinations(tmp_path):
    X.assign(y=Y).to_csv(tmp_path / "people.csv", index=False)
    words = ["people.csv", "--target", "y", "--sensitive", "sex_Male", "--epochs", "1", "--hidden", "4"]
    done = command("train", *words, "--out", "b", cwd=tmp_path)
    assert done.returncode == 0 and "They change together" in done.stderr
    domain = json.loads((tmp_path / "b" / "domain.json").read_text())
    assert domain["sensitive"] == list(BLOCK) and domain["combinations"] == [[0, 1], [1, 0]]
    asked = ["b", "--data", "people.csv", "--target", "y", "--json"]
    for name in ("verify", "quantify", "audit", "explain", "repair"):
        more = {"explain": ["--row", "0"], "audit": ["--timeout", "2"], "quantify": ["--most-boxes", "9"]}.get(name, [])
        for combinations in ("all", "observed"):
            done = command(name, *asked, *more, "--combinations", combinations, cwd=tmp_path)
            assert done.returncode == 0 and "'sex_Female' and 'sex_Male'" in done.stdout, (name, done.stderr)
        assert command(name, *asked, *more, "--combinations", "some", cwd=tmp_path).returncode == 2
    assert "They change together" in command("verify", *asked[:-1], cwd=tmp_path).stdout
    assert "They change together" in (tmp_path / "audit.html").read_text()
