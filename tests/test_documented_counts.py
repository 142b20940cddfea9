"""Numbers that README and docs repeat are those of the tables they come from."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from bornfair_bench.experiments.table2 import PAPER, PAPER_EDITIONS, PAPER_METHODS

ROOT = Path(__file__).parent.parent
README = " ".join((ROOT / "README.md").read_text("utf-8").split())


def text(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


def rows(page: str, pattern: str) -> list[list[str]]:
    """The cells of a page's table lines that begin as the pattern says."""
    return [re.split(r"\s*\|\s*|\s{2,}", line.strip("| \n")) for line in re.findall(pattern, text(page), flags=re.M)]


PUBLIC = r"(?:AC|BM|GC|compas)-\d+"


def test_the_networks_and_questions_that_were_verified():
    asked = rows("verifying.md", rf"^ {PUBLIC} .*$")
    networks, questions = len({row[0] for row in asked}), len(asked)
    assert {row[3] for row in asked} == {"falsified"} and max(float(row[-1]) for row in asked) < 1
    assert all("real" in row[5] for row in asked)
    assert f"On {networks} public networks of Fairify and FairQuant all {questions} questions are answered" in README
    assert f"{networks} public networks of Fairify and FairQuant, {questions} questions" in text("verifying.md")


def test_the_networks_that_were_compared_with_fairquant():
    measured = rows("auditing.md", rf"^\| {PUBLIC} .*$")
    networks, third = len({row[0] for row in measured}), sum(float(row[4]) <= 1 / 3 for row in measured)
    assert all(float(row[3]) < float(row[2]) for row in measured)
    assert f"compared with FairQuant on the {networks} adult and german networks" in README
    assert (
        f"{len(measured)} questions, 60 s each" in README
        and f"on all {len(measured)}, and at most a third on {third}" in README
    )


def test_the_accuracy_of_repaired_networks():
    repaired = rows("repair.md", rf"^\| {PUBLIC} .*$")
    assert f"With it all {len(repaired)} public questions above are verified afterwards" in README
    change = {(row[0], row[1]): float(row[4].strip(" %")) - float(row[2].strip(" %")) for row in repaired}
    others = [gain for (name, _), gain in change.items() if not name.startswith("compas")]
    age, rest = (
        -statistics.mean(
            gain for (name, by), gain in change.items() if name.startswith("compas") and (by == "age") == aged
        )
        for aged in (True, False)
    )
    assert f"+{statistics.mean(others):.2f} points on the mean" in README and f"−{-min(others):.2f} at worst" in README
    assert f"it falls by {rest:.2f} points" in README and f"by {age:.2f} where age is" in README


def test_errata_of_the_paper_follow_from_its_table():
    theory = " ".join(text("theory.md").split())
    place = {method: PAPER_METHODS.index(method) for method in PAPER_METHODS}
    table = {row: published.accuracy for row, published in PAPER.items() if row not in PAPER_EDITIONS}
    mean = {method: statistics.mean(accuracy[at] for accuracy in table.values()) for method, at in place.items()}
    for other in ("milp", "udif"):
        assert f"{mean['ours'] - mean[other]:.2f}" in theory
        assert f"{100 * (mean['ours'] / mean[other] - 1):.1f} %" in theory
    for by in ("age", "sex"):
        accuracy = table["credit", by]
        assert f"{max(accuracy):.2f} to {min(accuracy):.2f} for {by}" in theory
        assert 4.9 < max(accuracy) - min(accuracy) < 5.1
        certain = [accuracy[at] for method, at in place.items() if method != "udif"]
        assert max(certain) - min(certain) == (1.0 if by == "age" else 0.5)
