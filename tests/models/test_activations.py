"""Each activation's record is true: its slope, its image, its lines and its name stand for the same function."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.models.network.activations import ACTIVATIONS, Activation
from bornfair.models.rounding import EXECUTIONS, OWN_FLOOR

NAMES = list(ACTIVATIONS)


def test_every_name_has_a_record():
    assert set(NAMES) == set(get_args(Activation))


@pytest.mark.parametrize("name", NAMES)
def test_numpy_and_jax_compute_the_same_function(name):
    record, z = ACTIVATIONS[name], np.linspace(-8, 8, 1001)
    np.testing.assert_allclose(record.value(np, z), np.asarray(record.jax(z.astype(np.float32))), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_slope_is_the_derivative_and_never_steeper_than_told(name):
    record, z = ACTIVATIONS[name], np.linspace(-6, 6, 1000)  # 0, where relu bends, is not among them
    step = 1e-6
    slope = record.slope(z, record.value(np, z))
    numeric = (record.value(np, z + step) - record.value(np, z - step)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, atol=1e-7)
    assert np.abs(slope).max() <= record.steepest


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(NAMES), st.floats(-9, 9), st.floats(0, 6), st.sampled_from(["real", "float32"]))
def test_image_and_lines_hold_all_values_between(name, low, width, arithmetic):
    record, execution = ACTIVATIONS[name], EXECUTIONS[arithmetic]
    ends, error = (np.array([low]), np.array([low + width])), record.error(execution)
    image = record.image(np, *ends, error, execution.floor + OWN_FLOOR)
    lines = record.lines(np, *ends, image, error)
    lower_shift = 0.0 if lines.lower_shift is None else lines.lower_shift
    for z in np.linspace(low, low + width, 33):
        value = record.value(np, z)
        assert image[0] <= value <= image[1]
        assert lines.lower_slope * z + lower_shift <= value + 1e-15
        assert value - 1e-15 <= lines.upper_slope * z + lines.upper_shift
    if lines.lower_shift is None:
        assert lines.upper_shift >= 0


@pytest.mark.parametrize("name", NAMES)
def test_what_dies_gives_nothing_and_what_is_exact_is_max(name):
    record, z = ACTIVATIONS[name], np.linspace(-5, 5, 101)
    value = record.value(np, z)
    assert record.exact == (not value[z <= 0].any())
    assert record.exact == np.array_equal(value, np.maximum(z, 0.0))
