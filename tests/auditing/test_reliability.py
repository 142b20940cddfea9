"""What was said and how often it came true: which rows count, in which bins, with which intervals, words and marks."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta

from bornfair.questions.audit_metrics import reliability_of
from bornfair.report import charts
from bornfair.report.blocks import Table, Text
from bornfair.report.facts import Reliability, ReliabilityBin
from bornfair.report.people import reliability

TWO, THREE = np.array(["no", "yes"]), np.array(["a", "b", "c"])


def pairs(shares):
    return np.stack([1 - np.asarray(shares), shares], axis=1)


def test_rows_without_an_answer_do_not_count():
    shown, answers = pairs(np.linspace(0.05, 0.95, 60)), np.tile([0, 1, 1, 0, 1], 12)
    some = np.arange(60) % 3 > 0
    assert reliability_of(shown, np.where(some, answers, -1), TWO) == reliability_of(shown[some], answers[some], TWO)
    assert reliability_of(shown, np.full(60, -1), TWO) == {}


@pytest.mark.parametrize("row", [(0.3, 0.3), (0.5, 0.6, -0.1), (1.0005, 0.0), (np.nan, 1.0), (-np.inf, np.inf)])
def test_what_are_no_probabilities_is_set_against_nothing(row):
    classes = TWO if len(row) == 2 else THREE
    fine = np.eye(len(row))[[0, 1] * 20]
    assert reliability_of(fine, np.zeros(40, int), classes)["brier"] == 0.5
    assert reliability_of(np.concatenate([fine, [row]]), np.zeros(41, int), classes) == {}


def test_bins_hold_equally_many_people_and_twenty_at_least():
    shown = np.linspace(0.01, 0.99, 59)
    answers = (np.arange(59) % 3 == 0).astype(int)
    found = reliability_of(pairs(shown[:40]), answers[:40], TWO)["reliability"]
    assert [one.rows for one in found.bins] == [20, 20] and found.of == "yes"
    assert len(reliability_of(pairs(shown), answers, TWO)["reliability"].bins) == 2
    first = found.bins[0]
    assert (first.predicted, first.happened) == (pytest.approx(shown[:20].mean()), 7 / 20)
    assert (first.low, first.high) == pytest.approx((beta.ppf(0.025, 7, 14), beta.ppf(0.975, 8, 13)))
    assert len(reliability_of(pairs(np.linspace(0, 1, 999)), np.zeros(999, int), TWO)["reliability"].bins) == 10
    # Whoever is told the same is in the same bin, and the mean difference is that of people, not of bins.
    tied = reliability_of(pairs([0.2] * 30 + [0.9] * 70), np.array([1] * 30 + [1] * 63 + [0] * 7), TWO)["reliability"]
    assert [one.rows for one in tied.bins] == [30, 70] and tied.error == pytest.approx(0.3 * 0.8)


def test_of_three_classes_the_likeliest_counts():
    shares = np.repeat([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]], 60, axis=0)
    found = reliability_of(shares, np.array([0, 2] * 60), THREE)
    assert found["reliability"].of == "" and [one.happened for one in found["reliability"].bins] == [0.5, 0.5]
    assert found["brier"] == pytest.approx((0.26 + 1.26 + 1.34 + 0.14) / 8)


def test_the_report_says_and_draws_what_was_found():
    shares = (0.2, 0.6, 0.5, 0.7, 1_000), (0.75, 0.8, 0.7, 0.9, 2_500), (0.9, 0.95, 0.9, 1.0, 500)
    bins = tuple(ReliabilityBin(*one) for one in shares)
    found = Reliability("yes", bins, 0.1375)
    text, _, numbers = reliability(SimpleNamespace(reliability=found))
    assert isinstance(text, Text) and isinstance(numbers.blocks[0], Table)
    assert "On 4,000 rows, the probability of" in text.text and "13.8 points apart" in text.text
    assert "In 1 of 3 groups" in text.text and "(95\N{NO-BREAK SPACE}% intervals)" in text.text
    assert [row.cells[3] for row in numbers.blocks[0].rows] == ["1,000", "2,500", "500"]
    assert [re.sub(r"[^\d.]", "", cell) for cell in numbers.blocks[0].rows[0].cells[:2]] == ["20.0", "60.0"]
    assert list(reliability(SimpleNamespace(reliability=None))) == []
    drawn = charts.reliability(600, found)
    across, up = (lambda share: 56 + share * (420 - 56)), (lambda share: 300 - 270 * share)
    marks = [dict(re.findall(r'(\w+)="([^"]*)"', mark)) for mark in re.findall(r"<(?:circle|line)[^>]*>", drawn)]
    dots = [(float(mark["cx"]), float(mark["cy"])) for mark in marks if "cx" in mark]
    assert dots == [pytest.approx((across(one.predicted), up(one.happened)), abs=0.06) for one in bins]
    whiskers = [(float(mark["y1"]), float(mark["y2"])) for mark in marks if mark.get("class") == "whisker"]
    assert whiskers == [pytest.approx((up(one.low), up(one.high)), abs=0.06) for one in bins]
