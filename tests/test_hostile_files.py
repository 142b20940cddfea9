"""Some of the hostile files of `hostile_files.py`; `make nightly` makes many more."""

from dataclasses import replace

import pytest

from bornfair.core import limits
from forked_commands import MOST_MEMORY, Ended, broken_rules, most_seconds
from hostile_files import run

pytestmark = pytest.mark.slow

GOOD = Ended(0, '{"a": 1}', "", 1.0, 1.0, 1 << 28, 1 << 28, orphans=False)
REFUSED = replace(GOOD, status=2, out="", err="bornfair: no.\n")
WORDS = ["verify", "x", "--timeout", "20", "--json"]


def test_hostile_files_are_answered_in_a_sentence():
    summary = run(30, seed=0)
    assert summary.cases == 30 and not summary.wrong, "\n".join(summary.wrong)
    assert summary.outcomes["status 2"] > 15, "most are refused"
    assert sum(summary.outcomes[f"status {status}"] for status in (0, 1, 3)) > 2, "some are still good"


def test_runs_that_keep_the_contract_are_no_findings():
    progress = "bornfair: looking at the table: 34 of 100 rows, 3,429 rows/s, 19 s left\n"
    noted = replace(REFUSED, err=f"bornfair: warning: odd.\nbornfair: note: old.\n{progress}bornfair: no.\n")
    for ended in (GOOD, REFUSED, noted, replace(GOOD, status=3)):
        assert not [*broken_rules(ended, WORDS)]


@pytest.mark.parametrize(
    ("ended", "finding"),
    [
        (replace(GOOD, status=None), "no answer"),
        (replace(GOOD, status=4), "status 4"),
        (replace(GOOD, status=-9), "status -9"),
        (replace(GOOD, err="Traceback (most recent call last):"), "traceback"),
        (replace(REFUSED, err=""), "not one sentence"),
        (replace(REFUSED, err="bornfair: no.\nbornfair: no.\n"), "not one sentence"),
        (replace(REFUSED, err="bornfair: no.\nmore\n"), "not one sentence"),
        (replace(REFUSED, out="{}"), "not one sentence"),
        (replace(GOOD, out=""), "not one JSON document"),
        (replace(GOOD, out='{"a": NaN}'), "NaN is no JSON"),
        (replace(GOOD, err="\x1b[2J"), "control characters"),
        (replace(GOOD, processor=most_seconds(WORDS) + 1), "s of the processor"),
        (replace(GOOD, memory=MOST_MEMORY + 1), "GiB"),
        (replace(GOOD, children=limits.CHILD_BYTES + 1), "GiB of a child process"),
        (replace(GOOD, orphans=True), "left running"),
    ],
)
def test_what_breaks_the_contract_is_found(ended, finding):
    assert any(finding in found for found in broken_rules(ended, WORDS))
