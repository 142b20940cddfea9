"""Reading .nnet files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bornfair import Domain, verify
from bornfair.core.errors import InputError
from bornfair.importers.nnet import load_nnet, read_nnet
from bornfair.questions.loading import load_model
from interop_models import NNET as TEXT

# Two inputs (0..9 and 0..1), one hidden layer of two neurons, one output.


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hand.nnet"
    path.write_text(TEXT)
    return path


def by_hand(a, s):
    """The same network written out."""
    h = np.maximum([1.0 * a - 2.0 * s + 0.25, -1.0 * a + 0.5 * s - 0.5], 0)
    return h[0] + 3.0 * h[1] - 4.0


def test_it_computes_what_the_file_says(file):
    found = read_nnet(file)
    network = found.network
    assert network.widths == (2, 2, 1) and found.low.tolist() == [0, 0] and found.high.tolist() == [9, 1]
    people = np.array([[a, s] for a in range(10) for s in range(2)], np.float32)
    np.testing.assert_allclose(network.scores(people)[:, 0], [by_hand(a, s) for a, s in people])


@pytest.mark.parametrize("sensitive", ["0", "1", "x0", "x1", 0, 1])
def test_the_sensitive_input_may_stand_anywhere(file, sensitive):
    model = load_nnet(file, sensitive=[sensitive])
    name = model.domain.sensitive[0]
    assert name == f"x{str(sensitive)[-1]}"
    people = model.domain.sample(30, seed=0)
    scores = [by_hand(row["x0"], row["x1"]) for _, row in people.iterrows()]
    np.testing.assert_allclose(model.decision_function(people), scores, rtol=1e-6)
    versions = model.scores_of_versions(people)[..., 0]
    for i, (value,) in enumerate(model.domain.sensitive_space.values):
        expected = [by_hand(row["x0"], row["x1"]) for _, row in people.assign(**{name: value}).iterrows()]
        np.testing.assert_allclose(versions[i], expected, rtol=1e-6)


def test_features_are_the_whole_numbers_of_the_header_or_those_of_a_given_domain(file):
    assert load_nnet(file).domain.names == ("x0", "x1")
    assert load_nnet(file).domain.feature("x0").levels() == range(10)
    named = Domain.from_json(
        '{"features": [{"kind": "integer", "name": "age", "low": 2, "high": 5},'
        ' {"kind": "integer", "name": "sex", "low": 0, "high": 1}]}'
    )
    model = load_nnet(file, sensitive=["sex"], domain=named)
    assert model.domain.free_names == ("age",) and model.domain.feature("age").levels() == range(2, 6)
    with pytest.raises(InputError, match=r"takes 2 inputs, but the domain has 1 features; list one feature for each"):
        load_nnet(file, domain=Domain(features=named.features[:1]))


def test_ranges_beyond_the_whole_numbers_of_floating_point_are_of_all_numbers(tmp_path):
    path = tmp_path / "wide.nnet"
    path.write_text(TEXT.replace("\n0,0,\n", "\n-9223372036854775808,0,\n"))
    wide = read_nnet(path)
    assert wide.low[0] == -(2.0**63)
    assert [feature.kind for feature in wide.domain.features] == ["real", "integer"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("sex", r"sensitive feature 'sex' is not known; the features are 'x0', 'x1'"),
        ("7", r"sensitive feature 7 is out of range; positions go from 0 to 1"),
    ],
)
def test_unknown_sensitive_inputs_are_explained(file, item, message):
    with pytest.raises(InputError, match=message):
        load_nnet(file, sensitive=[item])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[: len(t) // 2], r"line \d+: "),
        (lambda t: t.replace("-2.0", "minus two"), r"line 9: expected 2 numbers, found '1.0,minus two,'"),
        (lambda t: t.replace("-2.0", "nan"), r"line 9: expected 2 finite numbers"),
        (lambda t: t.replace("-2.0", "1e300"), r"line 9: expected 2 finite numbers"),
        (lambda t: t + "1,2,3,\n", r"1 more lines than the layer sizes say"),
        (
            lambda t: t.replace("2,2,1,2,", "2,3,1,2,"),
            r"the header says 3 inputs and 1 outputs, the layer sizes \[2, 2, 1\]",
        ),
        (lambda t: t.replace("2,2,1,\n", "2,40000000,1,\n"), r"make more than 50,000,000 weights"),
        (lambda t: t.replace("2,2,1,2,", "-2,2,1,2,"), r"expected whole numbers above 0"),
        (lambda t: t.replace("9,1,\n", "-9,1,\n", 1), r"input 0 has its minimum above its maximum"),
        (lambda t: "", r"the file ends too early; is it truncated"),
    ],
)
def test_damaged_files_are_explained(file, change, message):
    file.write_text(change(TEXT))
    with pytest.raises(InputError, match=message):
        read_nnet(file)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("nnet") / "any.nnet"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_nnet(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read '.*nowhere.nnet' as a .nnet file"):
        read_nnet(tmp_path / "nowhere.nnet")


# --- means and ranges ---

SCALED = TEXT.replace("0,0,0,\n1,1,1,\n", "4,0.5,-1,\n2.5,0.5,3,\n")


def normalised_by_hand(a, s):
    return by_hand((a - 4) / 2.5, (s - 0.5) / 0.5) * 3 - 1


@pytest.fixture
def scaled(tmp_path):
    path = tmp_path / "scaled.nnet"
    path.write_text(SCALED)
    return path


def test_means_and_ranges_that_say_something_are_asked_about(scaled, file):
    with pytest.raises(InputError, match=r"holds means and ranges, .*say normalise='yes' or 'no' \(--normalise\)"):
        load_model(scaled, sensitive=[1])
    with pytest.raises(InputError, match="holds means and ranges"):
        load_nnet(scaled)
    people = load_model(file, sensitive=[1]).domain.sample(100, seed=0)  # means 0, ranges 1: nothing to ask
    for answer, by in (("no", by_hand), ("yes", normalised_by_hand)):
        model = load_model(scaled, sensitive=[1], normalise=answer)
        wanted = [by(row["x0"], row["x1"]) for _, row in people.iterrows()]
        np.testing.assert_allclose(model.decision_function(people), wanted, rtol=1e-5, atol=1e-5)
        assert verify(scaled, sensitive_features=[1], normalise=answer, timeout=20).reason.endswith(
            f"read as asked: normalise {answer}"
        )


def test_a_normalised_network_is_asked_about_as_it_decides(scaled):
    everybody = [(a, s) for a in range(10) for s in range(2)]
    for answer, by in (("no", by_hand), ("yes", normalised_by_hand)):
        unfair = any((by(a, 0) > 0) != (by(a, 1) > 0) for a, _ in everybody)
        verdict = verify(scaled, sensitive_features=["x1"], normalise=answer, timeout=20)
        assert verdict.answer == ("falsified" if unfair else "verified")


def test_thresholds_are_logits(file):
    model = load_model(file, sensitive=[1], threshold=2.0)
    people = model.domain.sample(100, seed=0)
    wanted = [int(by_hand(row["x0"], row["x1"]) > 2) for _, row in people.iterrows()]
    assert model.predict(people).tolist() == wanted and len(set(wanted)) == 2


def test_a_range_of_nothing_cannot_be_normalised_by(scaled):
    scaled.write_text(SCALED.replace("2.5,0.5,3,", "0,0.5,3,"))
    with pytest.raises(InputError, match="one of its ranges is 0"):
        load_model(scaled, sensitive=[1], normalise="yes")
    with pytest.raises(InputError, match="normalise='maybe' is not known; use one of 'yes', 'no'"):
        load_model(scaled, sensitive=[1], normalise="maybe")
