"""All fuzzers, for hours or for a number of cases each. Run by `make nightly`; status 1 if any answer was false."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable

import brute_force
import checker_fuzz
import decision_fuzz
import forest_fuzz
import hostile_endpoints
import hostile_files
import hostile_forests
import import_fuzz
import nasty_models
import neighbourhood_fuzz
import share_fuzz
import small_forests
import structure_fuzz
import torture
import wiring_fuzz
from fuzzing import Summary

Run = Callable[[int, int], Summary]

FUZZERS: dict[str, Run] = {
    "small models": brute_force.run,
    "nasty models": nasty_models.run,
    "neighbourhoods": neighbourhood_fuzz.run,
    "structures": structure_fuzz.run,
    "small forests": small_forests.run,
    "shares": share_fuzz.run,
    "forged bundles": checker_fuzz.run,
    "forged forests": forest_fuzz.run,
    "wires": wiring_fuzz.run,
    "imported models": import_fuzz.run,
    "decisions": decision_fuzz.run,
    "hostile files": hostile_files.run,
    "hostile forests": hostile_forests.run,
    "hostile endpoints": hostile_endpoints.run,
    "torture": torture.run,
}
BATCH = 1000  # cases between two looks at the clock


def main(fuzzers: dict[str, Run], arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="for all fuzzers together")
    parser.add_argument("--count", type=int, help="cases for each fuzzer, instead of hours")
    parser.add_argument("--only", default="", help="fuzzers whose name contains this")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="another one each night unless given")
    asked = parser.parse_args(arguments)
    chosen = {name: run for name, run in fuzzers.items() if asked.only in name}
    if not chosen:
        parser.error(f"no fuzzer is named like {asked.only!r}; there are: {', '.join(fuzzers)}")
    seconds = 3600 * asked.hours / len(chosen) if asked.count is None else math.inf
    print(f"seed {asked.seed}", flush=True)
    wrong = 0
    for name, run in chosen.items():
        print(f"{name} …", flush=True)
        wrong += len(repeated(run, asked.seed, seconds, asked.count or math.inf).wrong)
    return 1 if wrong else 0


def repeated(run: Run, seed: int, seconds: float, count: float) -> Summary:
    """Batches with one seed after the other, until the time is over or enough cases were tried."""
    began, total = time.monotonic(), Summary()
    while total.cases < count and time.monotonic() - began < seconds:
        found = run(int(min(BATCH, count - total.cases)), seed)
        for problem in found.wrong:
            print(f"  WRONG, seed {seed}: {problem}", flush=True)
        total, seed = total + found, seed + 1
        print(f"  {time.monotonic() - began:6,.0f} s: {total}", flush=True)
    return total


if __name__ == "__main__":
    sys.exit(main(FUZZERS, sys.argv[1:]))
