"""What gives the sensitive value away: on made-up tables the answer is known."""

import json

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from bornfair import Domain, datasets
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.encoding import Encoding
from bornfair.people.twins.versions import Versions
from bornfair.proof.bundle import FairModel
from bornfair.questions.proxies import area_under_curve, proxy_report
from bornfair.questions.repairing import project

pytestmark = pytest.mark.slow


def made_up(count=1500, seed=0):
    """`title` mirrors sex, `height` goes with it, `town` does not; `y` is what is predicted."""
    random = np.random.default_rng(seed)
    male = random.random(count) < 0.6
    married = random.random(count) < 0.5
    table = pd.DataFrame(
        {
            "sex": np.where(male, "male", "female"),
            "title": np.select([married & male, married & ~male], ["husband", "wife"], "single"),
            "height": np.where(male, 176.0, 164.0) + random.normal(0, 7, count),
            "town": random.choice(["a", "b", "c"], count),
            "children": random.integers(0, 3, count) * married,
            "age": random.integers(18, 80, count),
        }
    )
    return table.assign(y=random.choice([0, 1], count))


def report(table, sensitive=("sex",), **options):
    return proxy_report(table, Domain.infer(table, target="y", sensitive=list(sensitive)), **options)


@pytest.fixture(scope="module")
def found():
    return report(made_up())


def test_features_that_go_with_the_sensitive_value_are_told_from_those_that_do_not(found):
    part = found.about[0]
    tells = {tell.name: tell for tell in part.features}
    assert tells["height"].tells and tells["title"].tells
    assert not tells["town"].tells and not tells["age"].tells
    assert tells["town"].auc == pytest.approx(0.5, abs=0.05)
    # Two normal distributions 12 apart with deviation 7: Φ(12/(7√2)) = 0.887 of pairs stand in the right order.
    assert tells["height"].auc == pytest.approx(0.887, abs=0.03)
    assert part.together.auc > max(tells["height"].auc, tells["title"].auc) and part.together.chance == 0.5
    assert [tell.auc for tell in part.features] == sorted((tell.auc for tell in part.features), reverse=True)


def test_categories_that_occur_with_one_value_only_are_named_with_their_counts(found):
    table = made_up()
    husbands = int((table["title"] == "husband").sum())
    texts = [fact.text for fact in found.about[0].facts]
    assert f"title husband occurs with sex male only ({husbands:,} of {husbands:,} rows)" in texts
    assert len(texts) == 2


def test_mirror_categories_are_suggested_as_a_rule_that_can_be_declared(found):
    (suggestion,) = found.suggestions
    assert suggestion.rule_text == "sex: female<->male, title: wife<->husband"
    assert suggestion.question.endswith("?") and 0.8 < suggestion.strength <= 1
    domain = Domain.infer(made_up(), target="y", sensitive=["sex"]).with_twins(suggestion.rule_text)
    assert Versions(domain).size == 4


def test_nothing_is_found_where_nothing_goes_with_the_sensitive_value():
    table = made_up()
    table["sex"] = np.random.default_rng(9).choice(["male", "female"], len(table))
    part = report(table).about[0]
    assert not any(tell.tells for tell in (*part.features, part.together))
    assert part.facts == () and part.suggestions == ()
    assert part.together.auc == pytest.approx(0.5, abs=0.06)


def test_categories_whose_people_differ_otherwise_are_facts_but_no_suggestion():
    table = made_up()
    wife = table["title"] == "wife"
    table.loc[wife, "town"], table.loc[wife, "children"], table.loc[wife, "age"] = "c", 2, 30
    table.loc[table["title"] == "husband", ["town", "children", "age"]] = ["a", 0, 60]
    part = report(table).about[0]
    assert len(part.facts) >= 2 and all("title" not in s.rule_text for s in part.suggestions)


def test_partners_are_found_among_several_by_their_people_and_names():
    random = np.random.default_rng(4)
    male, old = random.random(2000) < 0.5, random.random(2000) < 0.5
    kinds = np.where(old, "elder ", "younger ") + np.where(male, "brother", "sister").astype(object)
    table = pd.DataFrame({"sex": np.where(male, "m", "f"), "kin": kinds, "age": np.where(old, 60, 20), "y": 0})
    rules = {suggestion.rule_text for suggestion in proxy_report(table, Domain.infer(
        table.drop(columns="y"), sensitive=["sex"])).suggestions}  # fmt: skip
    assert rules == {
        "sex: f<->m, kin: elder sister<->elder brother",
        "sex: f<->m, kin: younger sister<->younger brother",
    }


def test_numbers_are_split_in_the_middle_and_several_features_get_a_part_each():
    table = made_up()
    table["height"] = 150 + table["age"] / 2
    both = report(table, ("age", "sex"))
    assert [part.sensitive for part in both.about] == ["age", "sex"]
    assert both.about[0].values[1].startswith("above") and both.about[0].suggestions == ()
    assert both.about[0].features[0].name == "height" and both.about[0].features[0].auc > 0.99


def test_more_than_two_sensitive_values_are_told_one_against_the_rest():
    random = np.random.default_rng(3)
    race = random.choice(["a", "b", "c"], 900)
    table = pd.DataFrame({"race": race, "tongue": np.char.upper(race), "luck": random.normal(size=900), "y": 0})
    part = proxy_report(table, Domain.infer(table.drop(columns="y"), sensitive=["race"])).about[0]
    assert part.features[0].name == "tongue" and part.features[0].balanced_accuracy == 1.0
    assert part.features[0].chance == pytest.approx(1 / 3) and not part.features[1].tells
    rules = {suggestion.rule_text for suggestion in part.suggestions}
    assert rules == {"race: a<->b, tongue: A<->B", "race: a<->c, tongue: A<->C", "race: b<->c, tongue: B<->C"}


def test_the_scores_of_two_models_are_asked_too():
    table = made_up(600)
    domain = Domain.infer(table, target="y", sensitive=["sex"])
    encoding = Encoding.fit(domain, table)
    weight = np.zeros((1, encoding.width))
    weight[0, encoding.free_columns()["height"]], weight[0, -1] = 0.2, 5.0
    reads = FairModel(Network((Layer(weight, np.zeros(1)),)), encoding)
    part = proxy_report(table, domain, model=reads, after=project(reads)).about[0]
    height = next(tell for tell in part.features if tell.name == "height")
    assert part.score.auc > 0.99 and part.score.tells
    assert part.score_after.auc == pytest.approx(height.auc, abs=0.02)  # all that is left is what height tells
    assert report(table).about[0].score is None


def test_missing_values_are_a_value_of_their_own():
    table = made_up(800)
    table.loc[table["sex"] == "male", "town"] = None
    table.loc[table["sex"] == "male", "age"] = np.nan
    tells = {tell.name: tell for tell in report(table).about[0].features}
    assert tells["town"].auc > 0.99 and tells["age"].auc > 0.99


def test_husband_and_wife_are_found_on_census():
    people = datasets.load("census").table.sample(5000, random_state=0)
    found = proxy_report(people, Domain.infer(people, target="income", sensitive=["sex"]))
    assert found.suggestions[0].rule_text == "sex: Female<->Male, relationship: Wife<->Husband"
    assert any(fact.text.startswith("relationship Husband occurs with sex Male") for fact in found.about[0].facts)
    assert found.about[0].features[0].name == "relationship"


@pytest.mark.parametrize(
    ("change", "sensitive", "message"),
    [
        (lambda t: t, [], "no feature is sensitive, so there is nothing to give away"),
        (lambda t: t.drop(columns="town"), ["sex"], "column 'town' is not in the table"),
        (lambda t: t.assign(sex="male"), ["sex"], r"needs two or more values of at least 4 rows each, found male"),
        (lambda t: t.assign(sex="other"), ["sex"], r"column 'sex' holds 'other', which is not a value of the domain"),
    ],
)
def test_what_cannot_be_asked_is_explained(change, sensitive, message):
    table = made_up(60)
    domain = Domain.infer(table, target="y", sensitive=sensitive)
    with pytest.raises(InputError, match=message):
        proxy_report(change(table), domain)


def test_rare_sensitive_values_are_left_out_and_named():
    table = made_up(400)
    usual = proxy_report(table, sensitive_features=["sex"], target="y").about[0]
    rare = table.copy()
    rare["sex"] = rare["sex"].astype(object)
    rare.loc[:2, "sex"] = "unknown"
    found = proxy_report(rare, sensitive_features=["sex"], target="y").about[0]
    assert found.values == usual.values and found.rows == 397 and usual.left_out == {}
    assert found.left_out == {"unknown": 3} and "unknown (3 rows)" in found.left_out_text
    without = proxy_report(table.iloc[3:], sensitive_features=["sex"], target="y").about[0]
    assert found.features == without.features and found.together == without.together
    scored = proxy_report(rare, sensitive_features=["sex"], target="y", model=lambda rows: rows["age"] > 40).about[0]
    assert scored.score is not None and scored.score.chance == 0.5


def test_the_command_prints_a_table_or_one_json_document(tmp_path):
    from bornfair.cli.tables import proxies

    app = typer.Typer()
    app.command()(proxies)
    made_up(500).to_csv(tmp_path / "people.csv", index=False)
    words = [str(tmp_path / "people.csv"), "--sensitive", "sex", "--target", "y"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0 and '--twins "sex: female<->male, title: wife<->husband"' in shown.stdout
    facts = json.loads(CliRunner().invoke(app, [*words, "--drop", "town", "--json"]).stdout)
    assert facts["suggestions"][0]["rule_text"] == "sex: female<->male, title: wife<->husband"
    assert "town" not in {tell["name"] for tell in facts["sensitive"][0]["features"]}
    for wrong in ([], [words[0]], [words[0], "--dataset", "credit"], [*words, "--drop", "planet"]):
        assert isinstance(CliRunner().invoke(app, wrong).exception, InputError)


@pytest.mark.parametrize("seed", range(8))
def test_the_area_under_the_curve_is_the_one_of_scikit_learn(seed: int) -> None:
    from sklearn.metrics import roc_auc_score

    random = np.random.default_rng(seed)
    positive, scores = random.random(200) < 0.3, random.integers(0, 2 + 7 * seed, 200) / 7
    assert area_under_curve(positive, scores) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
