"""Table 1: the starts are provably fair, and the paper's figures stand beside ours."""

import pytest

from bornfair.core.errors import InputError
from bornfair_bench.experiments import table1
from bornfair_bench.experiments.printout import lines


def test_every_engine_proves_the_starts_on_credit():
    rows = table1.run(names=["credit"], starts=("near_zero", "exact"), engines=("auto", "bounds", "smt"), partitions=12)
    assert [(row.start, row.engine) for row in rows] == [
        (start, engine) for start in ("near_zero", "exact") for engine in ("auto", "bounds", "smt")
    ]
    assert all(row.verdict.answer == "verified" for row in rows)
    assert {row.verdict.proof for row in rows if row.start == "exact" and row.engine != "smt"} == {"structural"}
    smt = [row for row in rows if row.engine == "smt"]
    assert all(row.verdict.arithmetic == ("real",) and 6 <= row.verdict.partitions <= 18 for row in smt)
    assert len(table1.ratios(rows)) == 2
    header, *table = lines(table1.COLUMNS, rows)
    assert len(header) == 10 and all(len(cells) == 10 for cells in table)
    assert table[0][-3:] == ("201", "2.3", "75.55"), "the paper's figures"
    # An untrained start decides the same for everybody, so it is as accurate as one of the two classes is frequent.
    assert all(row.accuracy < 0.3 or 0.6 < row.accuracy < 0.8 for row in rows if row.start == "near_zero")


def test_an_unknown_dataset_is_named():
    with pytest.raises(InputError, match=r"dataset 'houses' is not known here; use 'census', 'bank', 'credit'"):
        table1.run(names=["houses"])
