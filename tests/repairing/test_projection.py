"""Projecting a network onto the fair ones: exact, closest, and told alike in every encoding."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.core.errors import InputError
from bornfair.importers.nnet import load_nnet
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker
from bornfair.proof.bundle import FairModel, bundle_files
from bornfair.questions.repairing import project
from bornfair.training.projection import (
    FairLayer,
    fair_encoding,
    first_layer_error,
    least_squares_projection,
    plain_projection,
    told_in,
)
from brute_force import random_model, truth

pytestmark = pytest.mark.slow


def everybody(domain):
    """Every individual of a small domain."""
    rows = itertools.product(*(feature.levels() for feature in domain.features))
    return pd.DataFrame([dict(zip(domain.names, row, strict=True)) for row in rows])


def small_model(seed, *, twins=None, raw=False):
    """A random network over a category, a truth value, two numbers and two sensitive features."""
    random = np.random.default_rng(seed)
    numbers = (IntegerFeature(name="a", low=0, high=4), IntegerFeature(name="d", low=-1, high=2))
    sensitive = (IntegerFeature(name="s", low=0, high=2),)
    free = (
        numbers
        if raw
        else (*numbers, CategoricalFeature(name="c", categories=("u", "v", "w")), BooleanFeature(name="b"))
    )
    if not raw:
        sensitive = (*sensitive, CategoricalFeature(name="t", categories=("p", "q", "r")))
    domain = Domain(
        features=(*free, *sensitive), sensitive=tuple(f.name for f in sensitive), label=Label(name="y", classes=(0, 1))
    )
    if twins:
        domain = domain.with_twins(twins)
    scales = {f.name: Scale(centre=1.0, exponent=1) for f in domain.features if f.kind == "integer"}
    encoding = Encoding.of_raw_numbers(domain) if raw else Encoding(domain, scales, {})
    widths = (encoding.width, 5, 3, 1)
    layers = [Layer(random.normal(size=(b, a)), random.normal(size=b)) for a, b in itertools.pairwise(widths)]
    return FairModel(Network(tuple(layers)), encoding)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_projecting_any_network_makes_everybodys_versions_equal(seed):
    fair = project(random_model(seed))
    known = truth(fair)
    assert not known.real and not known.float32
    assert fair.certificate.verdict.answer == "verified" and fair.certificate.verdict.proof == "structural"
    assert not fair.network.sensitive_weights(fair.encoding.free_width).any()


@pytest.mark.parametrize("raw", [False, True])
def test_the_projected_model_is_accepted_by_the_checker(raw):
    found = checker.check_files(bundle_files(project(small_model(3, raw=raw))))
    assert found["valid"] and found["verdict"] == "verified", found


@settings(max_examples=12)
@given(st.integers(0, 10_000))
def test_only_the_sensitive_weights_change_where_codes_are_centred(seed):
    model = random_model(seed)
    first, fair = model.network.layers[0], project(model).network.layers[0]
    free = model.encoding.free_width
    assert np.array_equal(fair.weight[:, :free], first.weight[:, :free]) and np.array_equal(fair.bias, first.bias)


@settings(max_examples=12)
@given(st.integers(0, 10_000))
def test_no_other_fair_first_layer_is_closer_to_the_weights(seed):
    model = small_model(seed)
    random, first = np.random.default_rng(seed), model.network.layers[0]
    whole = np.concatenate([first.weight, first.bias[:, None]], axis=1)
    plain = plain_projection(model, model.encoding)
    fair = plain.network(model.network, model.encoding).layers[0]
    distance = np.linalg.norm(whole - np.concatenate([fair.weight, fair.bias[:, None]], axis=1))
    for size in (1e-3, 0.1, 1.0):
        other = FairLayer(
            plain.weight + size * random.normal(size=plain.weight.shape),
            plain.bias + size * random.normal(size=plain.bias.shape),
        )
        layer = other.network(model.network, model.encoding).layers[0]
        assert np.linalg.norm(whole - np.concatenate([layer.weight, layer.bias[:, None]], axis=1)) > distance


def test_raw_codes_leave_everybody_the_mean_of_their_versions():
    model = small_model(5, raw=True)
    people = everybody(model.domain)
    first = lambda m: m.encoding.encode(people).free @ m.network.layers[0].weight[:, :2].T + m.network.layers[0].bias  # noqa: E731
    codes = model.encoding.codes[:, 0]
    mean = first(model) + model.network.layers[0].weight[:, 2] * codes.mean()
    np.testing.assert_allclose(first(project(model)), mean, rtol=1e-5, atol=1e-6)


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.booleans())
def test_a_network_told_in_another_encoding_decides_the_same(seed, raw):
    model = small_model(seed, raw=raw)
    people = everybody(model.domain)
    other = model.domain.with_sensitive(["a"] if raw else ["c", "d"])
    encoding = Encoding.fit(other, people)
    np.testing.assert_allclose(told_in(model, encoding).scores(people), model.scores(people), rtol=1e-4, atol=1e-4)


@settings(max_examples=12)
@given(st.integers(0, 10_000))
def test_least_squares_is_closer_on_the_rows_than_plain_and_than_any_fair_change(seed):
    model, random = small_model(seed), np.random.default_rng(seed)
    people = everybody(model.domain)
    likely = np.where(people["c"] == "u", people["s"] + 1.0, 3.0 - people["s"])  # s goes with c, unlike in the domain
    rows = people.sample(120, weights=likely, replace=True, random_state=seed % 1000)
    plain = plain_projection(model, model.encoding)
    best = least_squares_projection(model, model.encoding, plain, rows)
    error = first_layer_error(model, model.encoding, best, rows)
    assert error <= first_layer_error(model, model.encoding, plain, rows)
    for size in (1e-3, 0.1):
        other = FairLayer(best.weight + size * random.normal(size=best.weight.shape), best.bias)
        assert first_layer_error(model, model.encoding, other, rows) >= error
    fair = best.network(model.network, model.encoding)
    assert not fair.sensitive_weights(model.encoding.free_width).any()


def test_a_projection_by_a_table_is_exact_and_needs_the_columns_the_model_reads():
    model = small_model(21)
    rows = everybody(model.domain).sample(80, random_state=0)
    fair = project(model, rows)
    scores = fair.scores_of_versions(rows)
    assert fair.certificate.verdict.answer == "verified" and (scores == scores[0]).all()
    with pytest.raises(InputError, match="the table has no column 's', 't', which the model reads"):
        project(model, rows.drop(columns=["s", "t"]))


def test_least_squares_is_plain_where_nothing_goes_with_the_sensitive_value():
    model = small_model(8)
    plain = plain_projection(model, model.encoding)
    best = least_squares_projection(model, model.encoding, plain, everybody(model.domain))
    np.testing.assert_allclose(best.weight, plain.weight, atol=1e-6)
    np.testing.assert_allclose(best.bias, plain.bias, atol=1e-6)


@pytest.mark.parametrize("twins", ["c: u<->v", "c: u->v->w->u, b: False<->True", "a: -x+4; c: u<->w"])
def test_declared_twins_become_equal_too(twins):
    model = small_model(11, twins=twins)
    people = everybody(model.domain)
    assert np.ptp(model.scores_of_versions(people), axis=0).max() > 0.1
    fair = project(model)
    scores = fair.scores_of_versions(people)
    assert (scores == scores[0]).all() and fair.certificate.verdict.answer == "verified"
    assert fair.domain.twins == model.domain.twins
    found = checker.check_files(bundle_files(fair))
    assert found["valid"] and found["verdict"] == "verified", found


def test_declared_twins_get_the_mean_of_what_they_contributed():
    model = small_model(12, twins="c: u<->v; a: -x+4")
    people = everybody(model.domain)
    fair, versions = project(model), Versions(model.domain)
    layers = lambda m, rows: m.network.layers[0].weight[:, : m.encoding.free_width] @ m.encoding.encode(rows).free.T  # noqa: E731
    mean = np.mean([layers(model, versions.moved(people, h)) for h in range(versions.group.size)], axis=0)
    bias = fair.network.layers[0].bias - model.network.layers[0].bias
    np.testing.assert_allclose(layers(fair, people) + bias[:, None], mean, atol=1e-5)


def test_an_encoding_that_merges_twins_already_is_left_alone():
    merged = fair_encoding(small_model(1, twins="c: u<->v").encoding)
    assert merged.merges_twins and fair_encoding(merged) is merged


def test_a_fitted_classifier_can_be_projected_and_others_are_refused(tmp_path):
    class Fitted:
        model_ = small_model(4)

    assert project(Fitted()).certificate.verdict.answer == "verified"
    with pytest.raises(InputError, match="a FairModel or a fitted classifier is needed, found str"):
        project("model")
    bare = small_model(4)
    nobody = bare.domain.with_sensitive([])
    with pytest.raises(InputError, match="has no sensitive features"):
        project(told_in(bare, dataclasses.replace(bare.encoding, domain=nobody)))


def test_a_nnet_file_can_be_projected(tmp_path):
    path = tmp_path / "small.nnet"
    path.write_text("2,2,1,2,\n2,2,1,\n0,\n0,0,\n9,1,\n0,0,0,\n1,1,1,\n1,-2,\n-1,0.5,\n0.25,\n-0.5,\n1,3,\n-4,\n")
    model = load_nnet(path, sensitive=[1])
    people = everybody(model.domain)
    assert model.empirical_fairness(people) < 1
    fair = project(model)
    assert fair.empirical_fairness(people) == 1.0 and fair.certificate.verdict.answer == "verified"
