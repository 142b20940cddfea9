"""What the paper's setting must reach on census (the figures of the README come from `bornfair bench accuracy`)."""

import statistics

import pytest

from bornfair.core.errors import InputError
from bornfair_bench.experiments import accuracy

pytestmark = pytest.mark.slow


def test_fair_training_on_census_is_as_accurate_as_training_without_the_column():
    outcomes = accuracy.run(seeds=1, methods=("fair", "unaware"))
    fair, unaware = (
        statistics.mean(o["accuracy"] for o in outcomes if o["method"] == method) for method in ("fair", "unaware")
    )
    assert fair >= 0.852
    assert fair == unaware, "the theorem: the same start learns the same, bit for bit"
    assert all(o["verdict"] == "verified" and o["empirical_fairness"] == 1.0 for o in outcomes if o["method"] == "fair")


def test_the_table_has_a_row_for_each_method():
    outcomes = accuracy.run(dataset="credit", sensitive=("sex", "age"), preset="default", seeds=1)
    rows = accuracy.table(outcomes)[1:]
    assert [row[0] for row in rows] == ["fair", "unaware", "erm"]
    assert rows[0][3:5] == ("100.00 %", "1 of 1") and rows[1][3:5] == ("–", "0 of 1")
    assert rows[2][3] != "100.00 %" and rows[2][4] == "0 of 1"


def test_an_unknown_method_is_named():
    with pytest.raises(InputError, match="method 'magic' is not known; use 'fair', 'unaware', 'erm'"):
        accuracy.run(methods=("magic",), seeds=1)
