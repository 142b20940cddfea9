"""Some of the hostile files of `hostile_files.py`; `make nightly` makes many more."""

from hostile_files import run


def test_hostile_files_are_answered_in_a_sentence():
    summary = run(40, seed=0)
    assert summary.cases == 40 and not summary.wrong, "\n".join(summary.wrong)
    assert summary.outcomes["status 2"] > 15, "most are refused"
    assert sum(summary.outcomes[f"status {status}"] for status in (0, 1, 3)) > 2, "some are still good"
