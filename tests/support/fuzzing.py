"""What a fuzzer reports: each has `run(count, seed) -> Summary`, and `make nightly` runs them all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Summary:
    """How many cases were tried, what came of them, and every false answer in words that let it be repeated.

    >>> first = Summary(1, Counter(verified=1))
    >>> print(first + Summary(1, Counter(falsified=1), ["model 7: bounds says verified"]))
    2 cases, 1 wrong; falsified 1, verified 1
    """

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __add__(self, other: Summary) -> Summary:
        return Summary(self.cases + other.cases, self.outcomes + other.outcomes, self.wrong + other.wrong)

    def __str__(self) -> str:
        counted = ", ".join(f"{name} {number:,}" for name, number in sorted(self.outcomes.items()))
        return f"{self.cases:,} cases, {len(self.wrong):,} wrong; {counted}"
