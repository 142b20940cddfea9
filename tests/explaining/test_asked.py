"""A model that can only be run is asked about one person, and about whoever is near: told apart, never proven."""

import pandas as pd

from bornfair import explain

PEOPLE = pd.DataFrame({"hours": [10, 29, 40, 50], "woman": [0, 1, 0, 1], "paid": [False, False, True, True]})


def by_hours(people: pd.DataFrame):
    return people["hours"] + 5 * people["woman"] > 30


def test_a_function_is_explained():
    question = {"sensitive_features": ["woman"], "target": "paid", "timeout": 10}
    found = explain(by_hours, 1, PEOPLE, **question)
    assert found.verdict.answer == "falsified" and found.verdict.arithmetic == ("executed",) and found.otherwise == 1
    assert found.verdict.twins == [{"hours": 29, "woman": 1}, {"hours": 29, "woman": 0}] and found.decision is True
    assert found.undo["changes"]["hours"][0] == 29 and found.undo["proven"] is False
    fair = explain(by_hours, 0, PEOPLE, within={"hours": 10}, **question)
    assert not fair and fair.verdict.answer == fair.around.answer == "undecided" and fair.otherwise == 0
    assert "asked about 11 of these people" in fair.around.reason and fair.differing == ()
    near = explain(by_hours, 0, PEOPLE, within={"hours": 20}, **question)
    assert near.around.answer == "falsified" and near.around.twins[0]["hours"] > 25
