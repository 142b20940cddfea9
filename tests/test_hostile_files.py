"""Some of the hostile files of `hostile_files.py`; `make nightly` makes many more."""

from hostile_files import run


def test_hostile_files_are_answered_in_a_sentence():
    summary = run(120, seed=0)
    assert summary.files == 120 and not summary.findings, "\n".join(summary.findings)
    assert summary.statuses["2"] > 40, "most are refused"
    assert summary.statuses["0"] + summary.statuses["1"] + summary.statuses["3"] > 10, "some are still good"
