"""The comparison with FairQuant, on a network that can be counted out."""

import pytest

from bornfair.core.errors import InputError
from bornfair.questions.loading import load_model
from bornfair_bench.experiments.printout import lines
from bornfair_bench.experiments.quantify_anchors import COLUMNS, compare, summary
from share_fuzz import FOREVER, true_shares

TINY = """// a network of two inputs
2,2,1,2,
2,2,1,
0,
0,0,
9,1,
0,0,0,
1,1,1,
1.0,0.5,
-1.0,0.0,
-4.25,
2.0,
1.0,-1.0,
0.0,
"""


def test_a_table_of_results_is_measured_row_by_row(tmp_path):
    (tmp_path / "T-1.nnet").write_text(TINY)
    columns = "model,pa_index,protected,cer_rate_pct,fal_rate_pct,und_rate_pct,unfair_reference_pct"
    table = tmp_path / "theirs.csv"
    table.write_text(f"{columns}\nT-1,1,sex,50,0,50,0\nT-2,1,sex,50,0,50,0\n")
    said: list[str] = []
    (row,) = compare(tmp_path, table, timeout=FOREVER, only=["T-1"], folder=tmp_path / "drawn", say=said.append)
    picture = (tmp_path / "drawn" / "T-1-sex.svg").read_text()
    assert "<svg" in picture and "undecided, % of the domain" in picture and "FairQuant, at its end" in picture
    assert len(said) == 1 and said[0].startswith("T-1  sex  50.00")
    model = load_model(tmp_path / "T-1.nnet", sensitive=[1])
    fair, unfair = true_shares(model)
    assert row["certified"] == pytest.approx(100 * float(fair))
    assert row["falsified"] == pytest.approx(100 * float(unfair))
    assert row["ratio"] == pytest.approx(0.0, abs=1e-9)
    assert row["model"] == "T-1"
    assert row["low"] <= 100 * float(unfair) <= row["high"]
    assert row["history"][-1]["undecided"] == pytest.approx(0.0, abs=1e-9) and row["theirs_pace"] is None
    assert summary([row]) == (
        "Of 1 questions, 1 leave less undecided than FairQuant, 1 at most a third of it; no interval of the unfair "
        "share is wider than 0.0000 points."
    )
    assert lines(COLUMNS, [row])[1][:2] == ("T-1", "sex")


def test_a_table_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv"):
        compare(tmp_path, tmp_path / "none.csv")
    (tmp_path / "odd.csv").write_text("model\nT-1\n")
    with pytest.raises(InputError, match="pa_index"):
        compare(tmp_path, tmp_path / "odd.csv")
