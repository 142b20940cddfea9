"""Trainings from starts near zero on a finite domain."""

from bornfair_bench.experiments.tolerance import TRAININGS, measured


def test_starts_near_zero_are_fair_on_a_finite_domain_although_v_is_not_zero():
    """What docs/theory.md says of them; `bornfair bench tolerance --seed 1` prints it."""
    for start in list(TRAININGS)[:2]:
        row = measured(start, seed=1)
        assert 1e-6 < row["largest"] < 1e-4 and 0.2 < row["granted"] < 0.8
        assert row["holds"] and row["verdict"] == "verified"
    plain = measured("plain, no response", seed=1)
    assert not plain["holds"] and plain["verdict"] == "falsified"
