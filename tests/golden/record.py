"""Record what all reference queries answer, or compare it with what was recorded: `make golden`, `make golden CHECK=1`.

Each group of queries runs in a process of its own, in `.golden/GROUP`, which is left there to be looked at. The answers
are those of one machine: hashes of trained bundles may depend on the type of CPU and on the versions of the libraries.
"""

from __future__ import annotations

import argparse
import difflib
import json
import multiprocessing
import os
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected"
WORK = HERE.parents[1] / ".golden"


def ask_group(group: str) -> tuple[str, dict[str, Any], float]:
    """The answers to a group of queries, and the processor time they took."""
    import jax

    from queries import GROUPS
    from running import answers

    jax.config.update("jax_compilation_cache_dir", str(WORK / "jax" / group))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    place = WORK / group
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    began = _processor()
    found = answers(GROUPS[group], place)
    return group, found, _processor() - began


def _processor() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def text_of(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def differences(name: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What changed, query by query, as a diff of lines."""
    told = []
    for query in sorted({*before, *now}):
        one, other = (text_of(found[query]).splitlines() if query in found else [] for found in (before, now))
        if one != other:
            diff = difflib.unified_diff(one, other, "expected", "found", n=1, lineterm="")
            told += [f"--- {name}: {query}", *(line for line in diff if not line.startswith(("---", "+++", "@@"))), ""]
    return told


def main() -> int:
    """Status 0: recorded, or nothing has changed. Status 1: something has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare; write nothing")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", nargs="*", help="groups, instead of all")
    parser.add_argument("--times", action="store_true", help="print the processor time of each group")
    wanted = parser.parse_args()
    from queries import GROUPS

    began, told, total, count = time.monotonic(), [], 0.0, 0
    EXPECTED.mkdir(exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with multiprocessing.get_context("spawn").Pool(wanted.jobs, maxtasksperchild=1) as pool:
        for group, found, seconds in pool.imap_unordered(ask_group, wanted.only or list(GROUPS), chunksize=1):
            file = EXPECTED / f"{group}.json"
            before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
            told += differences(group, before, json.loads(text_of(found)))
            if not wanted.check:
                file.write_text(text_of(found), encoding="utf-8")
            total, count = total + seconds, count + len(found)
            if wanted.times:
                print(f"{group}: {len(found)} queries, {seconds:.0f} s of processor time", file=sys.stderr)
    print("\n".join(told) or "nothing has changed")
    print(f"{count} queries, {total:.0f} s of processor time, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return int(wanted.check and bool(told))


if __name__ == "__main__":
    sys.exit(main())
