"""The measurement of boxes per second with several workers."""

from bornfair_bench.experiments import sharing


def test_the_bench_counts_what_workers_do():
    alone, shared = sharing.run(boxes=1000, rounds=1)
    assert (alone.workers, shared.workers) == (1, 2)
    assert alone.boxes == shared.boxes >= 900 and alone.undecided == shared.undecided and alone.tasks == shared.tasks
    assert 0 < shared.of_workers / 2 <= shared.longest - shared.own <= shared.of_workers, "of two, who ends last"
    assert shared.processor > shared.of_workers > 0 and alone.processor == alone.own == alone.longest
