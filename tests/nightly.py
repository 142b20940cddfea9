"""20,000 random small models, each engine's word against counting out. Run by `make nightly`; prints its progress."""

import sys
import time

from bornfair import verify
from brute_force import attack_mistake, mistake, random_model, truth


def main(cases: int) -> int:
    began, wrong, undecided, unfair = time.perf_counter(), 0, {}, 0
    for seed in range(cases):
        model = random_model(seed)
        known = truth(model)
        unfair += known.real
        engines = ["bounds"] + (["smt"] if seed % 10 == 0 else []) + (["milp"] if seed % 10 == 5 else [])
        for engine in engines:
            verdict = verify(model, engine=engine, timeout=30, seed=seed)
            problem = mistake(model, verdict, known)
            undecided[engine] = undecided.get(engine, 0) + (verdict.verdict == "undecided")
            if problem:
                wrong += 1
                print(f"case {seed}: {problem}", flush=True)
        if seed % 5 == 0 and (problem := attack_mistake(model, known)):
            wrong += 1
            print(f"case {seed}: {problem}", flush=True)
        if (seed + 1) % 500 == 0:
            rate = (seed + 1) / (time.perf_counter() - began)
            print(f"{seed + 1:,} of {cases:,}: {wrong} wrong, undecided {undecided}, {rate:.1f} a second", flush=True)
    print(f"{cases:,} models, {unfair:,} of them unfair: {wrong} wrong answers; undecided: {undecided}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
