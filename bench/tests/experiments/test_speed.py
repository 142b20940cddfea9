"""Speed is reported, never asserted: these tests check the accounting on tiny settings, not the seconds."""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys

import numpy as np
import pytest

from bornfair.core.errors import BornfairError, InputError
from bornfair.people.encoding import aligned_zeros
from bornfair_bench.experiments import scaling, speed, timing
from bornfair_bench.experiments.scaling import LargeReport, ScalingReport, Size, peak_memory
from bornfair_bench.experiments.speed import MISSING, TARGETS, Contender, SpeedReport, Target
from bornfair_bench.experiments.timing import Stopwatch

pytestmark = pytest.mark.slow

TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def report(said: list[str]) -> SpeedReport:
    return speed.run_epochs(repeats=2, rows=300, say=said.append)


# --- epochs side by side ---


def test_every_contender_is_in_the_report(report: SpeedReport, said: list[str]) -> None:
    assert [contender.name for contender in report.contenders] == [name for name in speed.LABELS if name != "bare"]
    assert (report.rows, report.repeats, report.hidden) == (300, 2, (64, 32, 16, 8, 4))
    assert "round 2 of 2" in said
    for name in ("plain", "fair", "sklearn"):
        turns = 2 * (speed.OUR_TURNS if name in speed.OURS else 1)
        assert len(report[name].seconds) == len(report[name].processor) == turns
        assert min(report[name].seconds) > 0 and report[name].problem is None


@pytest.mark.skipif(TORCH, reason="PyTorch is installed here")
def test_a_missing_package_is_reported_with_what_to_install(report: SpeedReport) -> None:
    lines = ["  ".join(line) for line in report.table()]
    for name in ("dataloader", "sliced"):
        assert report[name].problem == MISSING == "not installed: pip install 'bornfair-bench[torch]'"
        assert report[name].seconds == () and report[name].median is None
        assert any(speed.LABELS[name] in line and MISSING in line for line in lines)
    assert "torch" not in report.versions


def test_the_measuring_process_ran_on_one_core(report: SpeedReport) -> None:
    assert (report.core is not None) == hasattr(timing.os, "sched_setaffinity")


def test_ratios_follow_from_the_medians(report: SpeedReport) -> None:
    for target in TARGETS["paper"]:
        over, under = report[target.over].seconds, report[target.under].seconds
        wanted = statistics.median(over) / statistics.median(under) if over and under else None
        assert report.ratio(target) == wanted
    ratios = {entry["ratio"]: entry for entry in report.to_json()["ratios"]}
    assert set(ratios) == {"fair / plain", "dataloader / fair", "sliced / fair", "sklearn / fair"}
    assert ratios["fair / plain"]["median"] == report["fair"].median / report["plain"].median  # type: ignore[operator]


def test_reports_survive_json(report: SpeedReport) -> None:
    assert SpeedReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_tables_are_rectangular_text(report: SpeedReport) -> None:
    for lines in (report.table(), report.ratio_table()):
        assert len({len(line) for line in lines}) == 1
        assert all(isinstance(cell, str) for line in lines for cell in line)


def test_targets_are_judged_by_wall_clock_medians_and_only_where_both_were_measured() -> None:
    made = SpeedReport(
        10, 3, (4,), 2, 0.1, 3, 0, {},
        (
            Contender("plain", (2.0, 1.0, 9.0), (2.0, 2.0, 2.0), 3.0),
            Contender("fair", (1.0, 1.0, 1.0), (8.0, 8.0, 8.0), 3.0),
            Contender("dataloader", problem=MISSING),
            Contender("sliced", problem=MISSING),
            Contender("sklearn", (3.0, 3.0, 3.0), (3.0, 3.0, 3.0), 3.0),
        ),
    )  # fmt: skip
    met = {line[0]: line[-1] for line in made.ratio_table()}
    assert made.ratio(TARGETS["paper"][0]) == 0.5 and made.ratio(TARGETS["paper"][0], "processor_median") == 4.0
    assert met["fair / plain"] == "yes" and met["sklearn / fair"] == "NO" and met["dataloader / fair"] == "–"
    assert made["plain"].compilation == 1.0


@pytest.mark.parametrize(("ratio", "met"), [(9.9, False), (10.0, True), (None, None)])
def test_a_target_is_met_from_its_bound_on(ratio: float | None, met: bool | None) -> None:
    assert Target("sliced", "fair", least=10).met(ratio) is met


def test_the_stopwatch_times_epochs_from_the_second_on() -> None:
    watch = Stopwatch()
    assert watch.laps() == []
    for _ in range(3):
        watch(object())
    assert len(watch.laps()) == 2 and all(wall >= 0 and processor >= 0 for wall, processor in watch.laps())


def test_a_failing_measurement_says_how_to_look_at_it() -> None:
    with pytest.raises(BornfairError, match=r"ended with status 1: .*nonsense.*-m bornfair_bench\.experiments\.speed"):
        timing.in_own_process("bornfair_bench.experiments.speed", {"nonsense": 1})


def test_settings_are_checked_before_a_process_is_started() -> None:
    with pytest.raises(InputError, match="repeats"):
        speed.run_epochs(repeats=0)
    with pytest.raises(InputError, match="rows"):
        scaling.run_scaling((1,))


def test_the_default_preset_is_measured_with_all_it_adds_and_beside_it_without() -> None:
    work = speed.Work.of("default", 300)
    assert work.embedding is not None and work.hidden == (128, 64)
    assert (work.plan.dropout, work.plan.averaging, work.plan.optimiser) == (0.15, 0.998, "adamw")
    assert work.plan.validation_fraction == 0, "every contender has the same rows"
    assert work.inputs.shape == (300, work.embedding.width + 1)
    bare = work.bare
    assert bare.embedding is None and not bare.plan.dropout and not bare.plan.averaging and bare.hidden == work.hidden
    assert bare.inputs.shape[1] == work.data.free.shape[1] + 1
    with pytest.raises(InputError, match="preset='fast' is not known"):
        speed.run_epochs(preset="fast")


# --- scaling and memory ---


def test_scaling_measures_a_table_in_its_own_process() -> None:
    said: list[str] = []
    scaled = scaling.run_scaling((2000,), columns=3, epochs=2, say=said.append)
    (size,) = scaled.sizes
    assert said[0] == "2,000 rows, 2 epochs"
    assert (size.rows, size.encoded_bytes, size.raw_bytes) == (2000, 4 * 3 * 2000, 4 * 2000)
    assert len(size.seconds) == len(size.processor) == 2 and size.memory >= 0
    assert size.rows_per_second == size.rows / statistics.median(size.seconds)
    assert ScalingReport.from_json(json.loads(json.dumps(scaled.to_json()))) == scaled
    assert len({len(line) for line in scaled.table()}) == len({len(line) for line in scaled.claim_table()}) == 1


def test_spread_is_between_the_fastest_and_the_slowest_size() -> None:
    sizes = tuple(Size(100, 1, 1, 1, 0.0, 9.0, (t, t, 9.0), (1.0,), 1) for t in (1.0, 3.0, 2.0))
    made = ScalingReport((4,), 512, 0, sizes)
    assert (made.spread, made.processor_spread) == (3.0, 1.0)
    assert [line[-1] for line in made.claim_table()][1] == "NO"


def test_memory_is_judged_only_for_tables_that_outweigh_the_compiler() -> None:
    small = Size(10, 1, 10, 8 * 10**6, 0.0, 1.0, (1.0,), (1.0,), 80 * 10**6)
    large = Size(10, 1, 10, 800 * 10**6, 0.0, 1.0, (1.0,), (1.0,), 1200 * 10**6)
    assert ScalingReport((4,), 512, 0, (small,)).memory_ratio is None
    assert ScalingReport((4,), 512, 0, (small, large)).memory_ratio == 1.5
    assert small.memory_ratio == 10.0  # measured and shown all the same


def test_large_network_report() -> None:
    found = scaling.run_large(hidden=(8, 4), steps=3)
    assert (found.hidden, found.rows, found.steps) == ((8, 4), 192, 3)
    assert found.seconds_per_step == found.seconds / 3 > 0
    assert 10**7 < found.memory < scaling.LARGE_LIMIT
    assert LargeReport.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert len({len(line) for line in found.table()}) == 1


def test_peak_memory_remembers_what_was_given_back() -> None:
    program = (
        "import numpy as np; from bornfair_bench.experiments.scaling import peak_memory as peak\n"
        "before = peak(); held = np.ones(50 * 10**6, np.uint8); during = peak(); del held\n"
        "print(before, during, peak())"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    before, during, after = map(int, out.split())
    assert 45e6 < during - before < 70e6
    assert after > during - 10**6  # the kernel counts pages per core and adds them up now and then


def test_peak_memory_without_proc_falls_back_on_the_resource_module() -> None:
    assert peak_memory("/nonexistent") > 10**7


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 5), (1000, 20)])
def test_aligned_zeros_are_read_in_place_by_jax(shape: tuple[int, int]) -> None:
    import jax

    array = aligned_zeros(shape, np.float32)
    assert array.shape == shape and array.dtype == np.float32 and not array.any() and array.flags.c_contiguous
    if array.size:
        array[:] = 1.0
        assert jax.device_put(array).unsafe_buffer_pointer() == array.ctypes.data
