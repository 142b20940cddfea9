"""What every baseline promises, and the two plain ones: ERM and Unaware."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from bornfair import FairClassifier
from bornfair.core.errors import Diverged, InputError
from bornfair.models.network.bounds.exact import exact_scores, fractions
from bornfair.models.network.bounds.intervals import box_bounds
from bornfair.models.network.network import Layer, Network
from bornfair_bench.baselines import ERM, Baseline, Certified, Unaware
from brute_force import random_model

pytestmark = pytest.mark.slow

QUICK = {"hidden": (6,), "epochs": 3, "batch_size": 64, "validation_fraction": 0.0, "random_state": 5}


class Constant(Baseline):
    """The smallest baseline: it learns nothing and keeps what it was given."""

    def __init__(self, sensitive_features=(), *, bias=1.0, hidden="paper", epochs=100):
        super().__init__(sensitive_features, hidden=hidden, epochs=epochs)
        self.bias = bias

    def _train(self, data):
        self.data_ = data
        return Network((Layer(np.zeros((1, data.inputs.shape[1])), np.full(1, self.bias)),))

    def certify(self, X):
        free, codes = self._encoded(X)
        return Certified(np.arange(len(free)) % 4 == 0, float(codes.max()), "every fourth row")


def columns(people):
    return people.drop(columns="grant"), people["grant"]


# --- the contract ---


def test_training_sees_every_column_and_every_sensitive_value(people):
    X, y = columns(people)
    fitted = Constant(["sex", "race"]).fit(X, y)
    data = fitted.data_
    assert data.free.shape == (240, 2 + 3 + 1) and data.codes.shape == (240, 1 + 3)
    assert data.inputs.dtype == data.all_codes.dtype == np.float32 and data.outputs == 1
    assert np.array_equal(data.all_codes[data.positions], data.codes)
    assert np.array_equal(fitted.classes_[data.labels], y) and fitted.domain_.sensitive == ("sex", "race")
    assert np.array_equal(data.inputs, np.concatenate([data.free, data.codes], axis=1))


def test_it_answers_like_a_fair_classifier(people):
    X, y = columns(people)
    fitted = Constant(["sex"]).fit(X, y)
    assert set(fitted.predict(X)) == {"yes"} and fitted.score(X, y) == pytest.approx(0.5)
    assert fitted.predict_proba(X).shape == (240, 2) and (fitted.decision_function(X) == 1).all()
    assert fitted.empirical_fairness(X) == 1.0 and fitted.verify(timeout=5)
    certified = fitted.certify(X)
    assert certified.share == 0.25 and certified.number == 1.0 and certified.numbers is None


def test_arrays_and_positions_serve_as_well_as_names():
    X = np.random.default_rng(0).integers(0, 5, (40, 3)).astype(float)
    fitted = Constant([2]).fit(X, X[:, 0] > 2)
    assert fitted.domain_.sensitive == ("x2",) and fitted.predict(X[:3]).tolist() == [True] * 3


def test_what_cannot_be_used_is_named(people):
    X, y = columns(people)
    three = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
    with pytest.raises(InputError, match=r"Constant: Only binary classification.*'a', 'b', 'c'; keep two of them"):
        Constant(["sex"]).fit(X, three)
    with pytest.raises(InputError, match=r"epochs must be a whole number of at least 0, found 1\.5"):
        Constant(["sex"], epochs=1.5).fit(X, y)
    with pytest.raises(InputError, match="hidden='huge' is not a preset"):
        Constant(["sex"], hidden="huge").fit(X, y)
    with pytest.raises(InputError, match="Constant requires y to be passed"):
        Constant(["sex"]).fit(X, None)
    with pytest.raises(InputError, match="sex"):
        Constant(["sexx"]).fit(X, y)
    with pytest.raises(InputError, match="one class only"):
        Constant(["sex"]).fit(X, ["yes"] * len(X))
    with pytest.raises(Diverged, match="Constant diverged: layer 0 holds NaN or infinity; lower the learning rate"):
        Constant(["sex"], bias=np.inf).fit(X, y)
    with pytest.raises(InputError, match="no feature is sensitive, so nobody has a twin"):
        Constant().fit(X, y).certify(X)
    with pytest.raises(InputError, match="no sensitive column 'sex', but a certificate starts from"):
        Constant(["sex"]).fit(X, y).certify(X.drop(columns="sex"))


def test_bounds_over_boxes_hold_in_exact_arithmetic():
    random = np.random.default_rng(3)
    for seed in range(40):
        network = random_model(seed).network
        centre, reach = random.normal(size=(2, 8, network.widths[0]))
        low, high = centre - np.abs(reach), centre + np.abs(reach)
        ends = np.where(random.random(low.shape) < 0.5, low, high)
        for lowest, highest, inside in ((low, high, ends), (ends, ends, ends)):
            bounds = box_bounds(network, lowest, highest)
            exact = exact_scores(network, fractions(inside))
            assert (fractions(bounds[0]) < exact).all() and (exact < fractions(bounds[1])).all()
        wide = box_bounds(network, ends, ends, "float32")
        executed = network.scores(ends)  # rounds its input to float32 first, which the bounds allow for
        assert (wide[0] <= bounds[0]).all() and (wide[0] < executed).all() and (executed < wide[1]).all()


def test_bounds_that_may_overflow_are_infinite():
    network = Network((Layer(np.full((1, 1), 3e38), np.zeros(1)), Layer(np.full((1, 1), 3e38), np.zeros(1))))
    low, high = box_bounds(network, np.ones((2, 1)), np.ones((2, 1)), "float32")
    assert np.isneginf(low).all() and np.isposinf(high).all() and low.shape == (2, 1)


# --- ERM and Unaware ---


def tensors(classifier):
    return b"".join(array.tobytes() for array in classifier.model_.network.tensors().values())


def test_erm_is_plain_training_bit_for_bit(people):
    X, y = columns(people)
    ours = FairClassifier(["sex", "race"], response="none", **QUICK).fit(X, y)
    assert tensors(ERM(["sex", "race"], **QUICK).fit(X, y)) == tensors(ours)


def test_unaware_is_fair_training_bit_for_bit_and_never_reads_the_columns(people):
    X, y = columns(people)
    unaware = Unaware(["sex", "race"], **QUICK).fit(X, y)
    assert tensors(unaware) == tensors(FairClassifier(["sex", "race"], **QUICK).fit(X, y))
    without = FairClassifier(**QUICK).fit(X.drop(columns=["sex", "race"]), y)
    for own, other in zip(unaware.model_.network.layers, without.model_.network.layers, strict=True):
        assert np.array_equal(own.weight[:, : other.weight.shape[1]], other.weight)
        assert not own.weight[:, other.weight.shape[1] :].any() and np.array_equal(own.bias, other.bias)
    scores = unaware.decision_function(X)
    # Wider sums may be added up in another order, with zeros among them.
    assert scores == pytest.approx(without.decision_function(X.drop(columns=["sex", "race"])), rel=1e-5, abs=1e-6)
    assert np.array_equal(scores, unaware.decision_function(X.assign(sex="male", race="a")))
    assert np.array_equal(scores, unaware.decision_function(X.drop(columns=["sex", "race"])))
    certified = unaware.certify(X)
    assert certified.share == 1.0 and certified.number == 0.0 and len(certified.certified) == len(X)
    assert unaware.verify(timeout=5)


def test_erm_says_of_each_row_whether_the_sensitive_value_decides(people):
    X, y = columns(people)
    erm = ERM(["sex"], **QUICK | {"epochs": 60, "learning_rate": 0.01}).fit(X, y)
    certified = erm.certify(X)
    flipped = X.assign(sex=X["sex"].map({"female": "male", "male": "female"}))
    assert np.array_equal(certified.certified, erm.predict(X) == erm.predict(flipped))
    assert certified.share == certified.number == erm.empirical_fairness(X) < 1.0


@pytest.mark.parametrize("method", [ERM, Unaware])
def test_plain_training_tells_many_classes_apart(people, method):
    X, _ = columns(people)
    bands = pd.qcut(people["income"], 3, labels=["low", "middle", "high"]).astype(str)
    fitted = method(["sex"], **QUICK | {"epochs": 60, "learning_rate": 0.01}).fit(X, bands)
    assert fitted.predict_proba(X).shape == (240, 3) and fitted.score(X, bands) > 0.7


@pytest.mark.parametrize("method", [ERM, Unaware])
def test_plain_training_is_a_scikit_learn_classifier(people, method):
    X, y = columns(people)
    classifier = method(["sex"], **QUICK)
    assert clone(classifier).get_params() == classifier.get_params()
    assert len(cross_val_score(classifier, X, y, cv=2)) == 2
    assert tensors(clone(classifier).fit(X, y)) == tensors(classifier.fit(X, y))
    assert len(classifier.history_) == 3
    with pytest.raises(InputError, match="preset='best' is not known"):
        method(["sex"], preset="best").fit(X, y)
    with pytest.raises(InputError, match="epochs must be a whole number of at least 0, found -1"):
        method(["sex"], epochs=-1).fit(X, y)
