"""One person is explained, in Python and on the command line: networks and forests, declared twins, mistakes."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from bornfair import Domain, FairModel, explain
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import CategoricalFeature, IntegerFeature, Label
from bornfair.people.policies import Policies
from samples import bornfair

HOURS = IntegerFeature(name="hours", low=0, high=60)
AGE = IntegerFeature(name="age", low=18, high=90)
IS = CategoricalFeature(name="is", categories=("husband", "wife", "single"))
SEX = CategoricalFeature(name="sex", categories=("f", "m"))
LABEL = Label(name="loan", classes=("no", "yes"))


def network(*rules: str, **policies: str) -> FairModel:
    """Decided by hours, but men and wives need 2 and 4 hours less than 30."""
    domain = Domain(features=(HOURS, AGE, IS, SEX), sensitive=("sex",), label=LABEL)
    domain = domain.with_twins(rules) if rules else domain
    scales = {name: Scale(centre=0.0, exponent=0) for name in ("hours", "age")}
    encoding = Encoding(domain, scales, {"hours": 0, "age": 40, "is": "single", "sex": "f"}, Policies(**policies))
    weight = np.zeros((1, encoding.width))
    weight[0, :5] = [1.0, 0.0, 0.0, 4.0, 0.0]
    weight[0, encoding.free_width :] = np.linalg.lstsq(encoding.codes, np.array([0.0, 2.0]) - 1.0, rcond=None)[0]
    return FairModel(Network((Layer(weight, [-29.0]),)), encoding)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A bundle and a table."""
    folder = tmp_path_factory.mktemp("explain")
    network().save(folder / "bundle")
    rows = {"hours": [10, 29, 31], "age": [30, None, 50], "is": ["single"] * 3, "sex": ["f", "f", "m"], "id": [7, 8, 9]}
    pd.DataFrame(rows).to_csv(folder / "people.csv", index=False)
    return folder


def asked(place, *arguments, status):
    run = bornfair("explain", "bundle", *arguments, "--json", cwd=place)
    assert run.returncode == status, run.stderr
    return json.loads(run.stdout)


def test_a_person_is_explained():
    woman = {"hours": 29, "age": 40, "is": "single", "sex": "f"}
    found = explain(network(), woman)
    assert not found and found.verdict.arithmetic == ("float32", "real") and found.decision == "no"
    assert found.verdict.twins == [woman, woman | {"sex": "m"}] and found.verdict.decisions == ["no", "yes"]
    (other,) = found.differing
    assert other.changes == {"sex": ("f", "m")} and other.decision == "yes" and found.versions == 2
    assert found.probabilities["yes"] < 0.5 < other.probabilities["yes"] and other.scores[0] > 0
    assert found.undo == {"changes": {"hours": [29, 28]}, "decision": "no", "proven": True}
    assert "hours 28 instead of 29" in found.undo_text
    fair = explain(network(), woman | {"hours": 20}, within={"hours": 8, "age": None})
    assert fair and fair.around.answer == "verified" and fair.undo is None and not fair.undo_text
    assert fair.neighbourhood == {"hours": (12, 28), "age": (18, 90)}
    near = explain(network(), woman | {"hours": 20}, within={"hours": 9})
    assert near.verdict and not near and near.around.twins[0]["hours"] == 29


def test_who_does_not_say_their_sex_is_explained_too():
    found = explain(network(), {"hours": 29, "age": 40, "is": "single"})
    assert found.decision is None and found.otherwise == 1 and found.verdict.answer == "falsified"
    assert explain(network(), {"hours": 9, "age": 40, "is": "single", "sex": None, "loan": "no"})


def test_declared_twins_count():
    wife = {"hours": 25, "age": 40, "is": "wife", "sex": "m"}
    assert explain(network(), wife | {"hours": 20})
    plain, ruled = network(), network("sex: f<->m, is: husband<->wife")
    assert not explain(ruled, wife | {"hours": 26})
    found = explain(ruled, wife)
    assert found.versions == 4 and found.decision == "yes"
    assert {tuple(version.changes) for version in found.differing[:2]} == {("is",), ("sex",)}  # few changes first
    assert tuple(found.differing[2].changes) == ("is", "sex")
    assert explain(plain, wife | {"hours": 25, "sex": "f"}).versions == 2
    assert not explain(ruled, wife | {"hours": 23}, within={"hours": 4}) and explain(
        ruled, wife | {"hours": 20, "is": "single"}
    )


def test_a_forest_is_explained():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(18, 80, 300), "hours": rng.integers(0, 60, 300)})
    people["paid"] = (people["hours"] + (people["age"] > 40) * 10 > 30).astype(int)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(people[["age", "hours"]], people["paid"])
    question = {"sensitive_features": ["age"], "target": "paid"}
    found = explain(tree, {"hours": 25, "age": 30}, people, **question)
    assert found.verdict.answer == "falsified" and found.verdict.twins[0]["age"] == 30 and found.decision == 0
    assert found.differing[0].decision == 1 and found.undo["proven"] and list(found.undo["changes"]) == ["hours"]
    row = int(np.flatnonzero(people["hours"] < 10)[0])
    assert explain(tree, row, people, within={"hours": 5}, **question).around.answer == "verified"
    assert explain(tree, row, people, within={"hours": 30}, **question).around.answer == "falsified"
    with pytest.raises(InputError, match="row 300 is not in the table, whose 300 rows are counted from 0"):
        explain(tree, 300, people, **question)


def test_the_command_answers_with_its_status(place):
    (place / "her.json").write_text('{"hours": 29, "age": 40, "is": "single", "sex": "f"}')
    found = asked(place, "--person", "her.json", status=1)
    assert found["person"]["hours"] == 29 and found["decision"] == "no" and found["decisions"] == ["no", "yes"]
    assert found["differing"][0]["changes"] == {"sex": ["f", "m"]} and found["neighbourhood"] is None
    fair = asked(place, "--row", 0, "--data", "people.csv", "--within", "hours=14", "--within", "is", status=0)
    assert fair["neighbourhood"]["within"] == {"hours": [0, 24], "is": ["husband", "wife", "single"]}
    assert fair["neighbourhood"]["verdict"] == "verified" and fair["versions"] == 2
    wider = asked(place, "--row", 0, "--data", "people.csv", "--within", "hours=15", "--within", "is", status=1)
    assert wider["verdict"] == "verified" and wider["neighbourhood"]["twins"][0]["is"] == "wife"
    assert asked(place, "--row", 2, "--data", "people.csv", "--most", 0, status=0)["differing"] == []
    told = bornfair("explain", "bundle", "--person", "her.json", "--within", "age=2", cwd=place)
    assert told.returncode == 1 and "NOT FAIR to this person: 1 of 2 versions" in told.stdout
    assert "The smallest change found that undoes it: with hours 28 instead of 29" in told.stdout


@pytest.mark.parametrize(
    ("person", "message"),
    [
        ('{"hours": 29, "age": 40}', "no value for 'is'"),
        ('{"hours": 29, "agee": 40, "is": "single"}', "did you mean 'age'?"),
        ('{"hours": 61, "age": 40, "is": "single"}', "outside the domain's range from 0 to 60"),
        ('{"hours": 2.5, "age": 40, "is": "single"}', "a whole number is needed"),
        ('{"hours": "29", "age": 40, "is": "single"}', "'hours' is '29'; a number is needed"),
        ('{"hours": true, "age": 40, "is": "single"}', "a number is needed"),
        ('{"hours": 29, "age": 40, "is": "singel"}', "did you mean 'single'?"),
        ('{"hours": 29, "age": 40, "is": ["single"]}', "'is' is a list"),
        ('{"hours": 29, "age": 40, "is": "single", "sex": "x"}', "'sex' has no value 'x'"),
        ("[1, 2]", "must hold one JSON object"),
        ('{"hours": 29', "is not JSON"),
        ('{"hours": "\\ud800"}', "surrogates not allowed"),
        (None, "cannot read the person file"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_a_sentence(place, person, message):
    file = place / "who.json"
    file.unlink(missing_ok=True)
    if person is not None:
        file.write_text(person)
    run = bornfair("explain", "bundle", "--person", "who.json", cwd=place)
    assert run.returncode == 2 and message in run.stderr and run.stderr.count("\n") <= 2, run.stderr


def test_options_that_do_not_fit_are_refused(place):
    for arguments, message in (
        ((), "name one person"),
        (("--row", 0), "name it with --data"),
        (("--row", 5, "--data", "people.csv"), "row 5 is not in the table"),
        (("--row", 1, "--data", "people.csv"), "no value for 'age'"),
        (("--row", 0, "--data", "people.csv", "--within", "hours=x"), "should be a number"),
        (("--row", 0, "--data", "people.csv", "--within", "hours="), "write age=2"),
        (("--row", 0, "--data", "people.csv", "--within", "age", "--within", "age"), "names 'age' twice"),
    ):
        run = bornfair("explain", "bundle", *arguments, cwd=place)
        assert run.returncode == 2 and message in run.stderr, run.stderr
    with pytest.raises(InputError, match="give the table whose row it is"):
        explain(network(), 3)
    with pytest.raises(InputError, match="found float"):
        explain(network(), 0.5)


def test_gaps_are_filled_in_as_the_model_fills_them():
    found = explain(network(missing="impute"), {"hours": 3, "is": "single"})
    assert found.person.filled == ("age",) and found.person.shared["age"] == 40 and "age" in found.notes[0]
