"""The checker on people of whom something is missing: it covers them, or rejects what does not."""

import numpy as np
import pandas as pd
import pytest

from bornfair import FairClassifier, load
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, RealFeature
from bornfair.proof.bundle import bundle_files
from bundle_cases import Forgery, answer, hand_made
from twin_cases import served_bytes

N = IntegerFeature(name="n", low=0, high=3, missing=True)
X = RealFeature(name="x", low=-1.0, high=2.0)
C = CategoricalFeature(name="c", categories=(1, 2), missing=True)
S = BooleanFeature(name="s")


def model(gap: float, sensitive: float = 0.5):
    """Whether n − 1 (of a gap, −1 + `gap`) with a little of x, c and s beside it is above 3.5."""
    # columns: n, n is missing, x, three of c; then s as ±1
    first = [[1.0, gap, 0.25, 0.0, 0.0, 0.25, sensitive], [-1.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0]]
    return hand_made((N, X, C, S), ("s",), [(first, [0.0, 0.0]), ([[1.0, 0.25]], [-3.5])])


@pytest.mark.parametrize(("gap", "verdict"), [(-8.0, "verified"), (4.0, "falsified")])
def test_people_with_gaps_are_part_of_every_proof(gap, verdict):
    # Nobody who has the number comes near the edge; of whom it is missing, the gap alone says how near they are.
    files = bundle_files(model(gap).certified(timeout=10))
    found = answer(files)
    assert (found["valid"], found["verdict"]) == (True, verdict), found
    forgery = Forgery.of(files)
    if verdict == "falsified":
        assert forgery.certificate["twins"][0]["n"] is None
        for feature in forgery.domain["features"]:
            feature.pop("missing", None)
        assert not answer(forgery.restated().sealed())["valid"]  # these people do not exist any more
        return
    claimed = Forgery.of(bundle_files(model(4.0))).claim("verified", "bounds", ["real"], forgery.certificate["tree"])
    assert "not proven" in answer(claimed.restated().sealed())["reason"]
    named = [entry for entry in forgery.certificate["tree"] if isinstance(entry, list) and entry[0] == "n"]
    assert not named or named[0] == ["n", None]


def forged(change):
    forgery = Forgery.of(bundle_files(model(-8.0, sensitive=0.0).certified(timeout=5)))
    assert answer(forgery.restated().sealed())["proof"] == "structural"
    change(forgery)
    return answer(forgery.restated().sealed())


def of_domain(**changes):
    def change(forgery):
        for feature in forgery.domain["features"]:
            feature.update(changes.get(feature["name"], {}))

    return change


def shown_as(number):
    return lambda forgery: forgery.put("shown for a gap of n", np.array([[number]]))


def indicator_of_another(forgery):
    next(node for node in forgery.model.graph.node if node.op_type == "IsNaN").input[0] = "x"


def proven_by(*tree):
    return lambda forgery: forgery.claim("verified", "bounds", ["real"], list(tree))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (of_domain(n={"missing": False}), "not a graph of bornfair"),
        (of_domain(x={"missing": True}), "not a graph of bornfair"),
        (of_domain(n={"missing": 1}), "'n' is missing in an odd way"),
        (of_domain(s={"missing": True}), "feature 's' is odd"),
        (of_domain(c={"missing": False}), "input 'c' has the wrong element type"),
        (lambda forgery: forgery.domain.update(sensitive=["n"]), "the sensitive number 'n' may be missing"),
        (of_domain(n={"low": 1}), "a gap of 'n' is shown as"),
        (shown_as(9.0), "a gap of 'n' is shown as 9.0"),
        (indicator_of_another, "not a graph of bornfair"),
        (proven_by(["n", 1], 0, 0), "'n' is cut at 1 before its gaps are cut off"),
        (proven_by(["n", None], 0), "leaves 1 part(s) of the domain open"),
        (proven_by(["n", None], ["n", None], 0, 0, 0), "'n' is cut at None"),
        (proven_by(["x", None], 0, 0), "'x' is cut at None"),
    ],
)
def test_what_gaps_are_can_not_be_forged(change, reason):
    found = forged(change)
    assert not found["valid"] and reason in found["reason"], found


def test_trained_on_gaps_served_with_gaps_and_read_back(tmp_path):
    rng = np.random.default_rng(3)
    people = pd.DataFrame({
        "age": rng.integers(18, 60, 200).astype(float), "income": rng.normal(size=200), "code": rng.integers(1, 4, 200),
        "owner": rng.choice([True, False], 200), "sex": rng.choice(["f", "m"], 200),
    }).astype(object)  # fmt: skip
    answers = people["age"].astype(float) + 20 * rng.normal(size=200) > 40
    for name in people:
        people.loc[rng.random(200) < 0.2, name] = None
    people = people.astype({"age": float, "income": float, "code": float})  # as a file with gaps is read
    for options in ({}, {"response": "none", "outside": "clip", "unseen": "error"}):
        fitted = FairClassifier(["sex"], hidden=[4], epochs=2, random_state=0, **options).fit(people, answers)
        assert fitted.domain_.gappy == ("age", "income", "code", "owner", "sex")
        kept = load(fitted.save(tmp_path / f"bundle {len(options)}"))
        assert kept.domain == fitted.domain_ and np.array_equal(kept.scores(people), fitted.model_.scores(people))
        files = bundle_files(kept)
        labels, shares = served_bytes(files["model.onnx"], people)
        assert (labels.astype(bool) == fitted.predict(people)).all()
        assert np.allclose(shares, fitted.predict_proba(people), atol=1e-6)
        assert answer(files)["valid"]
