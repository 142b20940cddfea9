"""What fairness costs other estimators: one small split of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bornfair.core.errors import InputError
from bornfair_bench.experiments.wrapping import METHODS, run, table


def test_plain_is_measured_and_the_others_are_proven(tmp_path: Path) -> None:
    chosen = [name for name in METHODS if name.startswith("lightgbm")]
    found = run(tmp_path, names=["credit"], methods=chosen, seeds=1)
    plain, merged, averaged = found
    assert plain["flips"] > 0 and plain["verdict"] == "not claimed"
    for one in (merged, averaged):
        assert one["flips"] == 0 and one["verdict"] == "verified" and one["bundle_accepted"]
    headers, *rows = table(found)
    assert headers[-1] == "proven" and [row[-1] for row in rows] == ["0 of 1", "1 of 1", "1 of 1"]
    assert (tmp_path / "wrapping.svg").is_file()
    with pytest.raises(InputError, match="'svm, plain' is not known"):
        run(tmp_path, names=["credit"], methods=["svm, plain"], seeds=1)
