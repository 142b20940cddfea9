"""The set L of Theorem 3.4 is not empty for near-zero starts, and no γ solves for it (docs/theory.md §4)."""

import pytest

from bornfair.core.errors import InputError
from bornfair_bench.experiments import fair_neurons
from bornfair_bench.experiments.printout import lines


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], fair_neurons.Members]:
    return {(row.dataset, row.start): row for row in fair_neurons.run(names=["credit", "compas"], seeds=1)}


@pytest.mark.parametrize("dataset", ["credit", "compas"])
@pytest.mark.parametrize("start", ["near_zero", "near_zero:layers=all", "bernoulli", "bernoulli:layers=all"])
def test_near_zero_starts_have_fair_neurons_with_unfair_inputs_and_no_gamma(found, dataset, start):
    row = found[dataset, start]
    assert (2 <= row.size <= 10) if ":" not in start else (25 <= row.size <= 50)
    assert row.gamma is None and "depends on s, and its mean over s is" in row.reason
    if dataset == "credit":
        assert row.proven == 0


def test_exact_zeros_make_the_whole_first_layer_fair_and_gamma_zero_solves(found):
    for dataset in ("credit", "compas"):
        row = found[dataset, "exact"]
        assert (row.layers, row.proven, row.gamma) == ({1: 64}, 64, 0.0)


def test_one_number_on_several_categories_is_exactly_fair(found):
    """The codes of a category with three or more values sum to 0 within each value too, so equal weights cancel."""
    assert found["compas", "shared_scalar"].layers == {1: 64} and found["compas", "shared_scalar"].proven == 64
    assert found["credit", "shared_scalar"].gamma is None  # two values have one column


def test_the_table_has_a_line_for_each_start(found):
    header, *rows = lines(fair_neurons.COLUMNS, found.values())
    assert header[3] == "neurons of L" and len(rows) == 12
    assert found["credit", "exact"].to_json()["size"] == 64
    with pytest.raises(InputError, match="dataset 'law' is not known here"):
        fair_neurons.run(names=["law"])
