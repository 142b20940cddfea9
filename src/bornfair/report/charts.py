"""The charts of a report, as SVG written by hand: same numbers, same bytes; colours come from the page's theme.

Every chart is drawn for a width in pixels, once for a screen and once for a phone, so that letters keep their size.
Nothing is told by colour alone: parts are labelled, hatched or dashed as well.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from bornfair.quantification.records import Estimate, Shares, ThresholdCurve
from bornfair.report.facts import Histogram, HistoryPoint, Reliability
from bornfair.report.formatting import clipped, number, percent, round_percent, visible

LETTER = 13.0  # pixels
SMALLEST = 3.0  # a share that is not 0 is never narrower than this


# --- one whole, divided ---


def shares_bar(width: int, shares: Shares) -> str:
    """Proven fair, proven unfair and open as one bar; what is not 0 can be seen."""
    across, top, height = PixelScale(0.0, 1.0, 1.0, width - 1.0), 2.0, 30.0
    parts = {"fair": shares.certified, "unfair": shares.falsified, "open": shares.undecided}
    drawn, left = [], 1.0
    for kind, span in zip(parts, visible_spans(list(parts.values()), width - 2.0), strict=True):
        if span:
            drawn += _filled(left, top, span, height, kind)
            left += span
    drawn.append(_rect(1, top, width - 2.0, height, "edge"))
    drawn += _marks_below(width, across, top + height, [(0.0, "0"), (0.5, "50"), (1.0, round_percent(1))])
    return _svg(width, top + height + 24, drawn)


def visible_spans(shares: Sequence[float], width: float) -> list[float]:
    """Widths in proportion to shares, each at least `SMALLEST` unless its share is 0; the widest pays for it.

    >>> visible_spans([0.999999, 0.000001, 0.0], 100)
    [97.0, 3.0, 0.0]
    """
    total = sum(shares) or 1.0
    spans = [share / total * width for share in shares]
    wanted = [max(span, SMALLEST) if share > 0 else 0.0 for span, share in zip(spans, shares, strict=True)]
    widest = wanted.index(max(wanted))
    wanted[widest] = width - sum(wanted[:widest]) - sum(wanted[widest + 1 :])
    return wanted


def estimate_line(width: int, estimate: Estimate) -> str:
    """The estimate on a scale of its own: a dot, and a whisker over the interval."""
    top, y = min(1.0, nice_above(max(estimate.high, 1e-12) * 1.15)), 24.0
    across = PixelScale(0.0, top, 6.0, width - 30.0)
    low, middle, high = (across(min(share, top)) for share in (estimate.low, estimate.unfair, estimate.high))
    drawn = [
        _line(across.start, y + 18, across.end, y + 18, "axis"),
        _line(low, y, high, y, "whisker"),
        _line(low, y - 7, low, y + 7, "whisker"),
        _line(high, y - 7, high, y + 7, "whisker"),
        _circle(middle, y, 5, "dot"),
        *_marks_below(width, across, y + 18, [(0.0, "0"), (top / 2, percent(top / 2)), (top, percent(top))]),
    ]
    return _svg(width, y + 44, drawn)


# --- how many, by size ---


def histogram(width: int, found: Histogram, label: str) -> str:
    """One bar between each two edges."""
    ceiling = nice_above(max(*found.counts, 1))
    across = PixelScale(found.edges[0], found.edges[-1], 46.0, width - 14.0)
    up = PixelScale(0.0, ceiling, 190.0, 12.0)
    bars = []
    for (start, end), amount in zip(pairwise(found.edges), found.counts, strict=True):
        if amount:
            left, right, tall = across(start), across(end), max(up.start - up(amount), 2.0)
            gap = min(1.0, (right - left) / 4)
            bars.append(_rect(left + gap, up.start - tall, right - left - 2 * gap, tall, "bar"))
    y_marks = [(ceiling * i / 2, number(ceiling * i / 2)) for i in range(3)]
    x_marks = [(v, number(v)) for v in _ticks(across.low, across.high, int((across.end - across.start) / 60))]
    title = _text((across.start + across.end) / 2, up.start + 39, label, "middle", "soft")
    drawn = [*_shelves(across, up, y_marks), *bars, *_foot(width, across, up, x_marks), title]
    return _svg(width, up.start + 46, drawn)


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two ends.

    >>> _ticks(-0.4, 0.4, 5), _ticks(0.0, 2.71, 8)
    ([-0.4, -0.2, 0.0, 0.2, 0.4], [0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
    """
    size = 10.0 ** math.floor(math.log10((high - low) / max(most, 2)))
    step = next(size * k for k in (1, 2, 5, 10, 20) if (high - low) / (size * k) <= max(most, 2) - 1 + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{step * i:.12g}") for i in range(first, last + 1)]


def nice_above(value: float) -> float:
    """The next round number.

    >>> nice_above(0.034), nice_above(7), nice_above(120)
    (0.04, 8.0, 200.0)
    """
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(round(size * step, 15) for step in (1, 2, 4, 6, 8, 10) if size * step >= value * (1 - 1e-12))


# --- over time ---


def history_lines(width: int, history: Sequence[HistoryPoint]) -> str:
    """Accuracy (solid) and fairness (dashed) after each epoch, labelled at their ends."""
    measured = {
        name: [(point.epoch, value) for point in history if (value := getattr(point, name)) is not None]
        for name in ("accuracy", "fairness")
    }
    lines = {name: line for name, line in measured.items() if line}
    marks = _share_marks([value for line in lines.values() for _, value in line])
    first, last = history[0].epoch, history[-1].epoch
    across = PixelScale(first, max(last, first + 1), 56.0, width - 78.0)
    up = PixelScale(marks[0], marks[-1], 210.0, 14.0)
    drawn = _shelves(across, up, [(mark, round_percent(mark)) for mark in marks])
    ends = _apart([up(line[-1][1]) for line in lines.values()], 16.0)
    for (name, line), end in zip(lines.items(), ends, strict=True):
        path = " ".join(f"{_n(across(epoch))},{_n(up(value))}" for epoch, value in line)
        if len(line) > 1:
            drawn.append(f'<polyline class="line {name}" points="{path}"/>')
        if len(line) <= 30:
            drawn += [_circle(across(epoch), up(value), 2.6, f"dot {name}") for epoch, value in line]
        drawn.append(_text(across.end + 10, end + 4, name, "start", f"{name}-text"))
    epochs = [(epoch, f"{epoch:,}") for epoch in sorted({first, (first + last) // 2, last})]
    drawn += _foot(width, across, up, epochs, tick=0)
    drawn.append(_text((across.start + across.end) / 2, up.start + 38, "epoch", "middle", "soft"))
    return _svg(width, up.start + 46, drawn)


# --- over thresholds ---

ROUND_THRESHOLDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


def threshold_line(width: int, curve: ThresholdCurve) -> str:
    """How many are affected (up) at each threshold (across, as odds are spaced); where the model decides is dashed."""
    places = [_odds(threshold) for threshold in curve.thresholds]
    ceiling = nice_above(max(*curve.affected, 1) / curve.rows)
    across = PixelScale(places[0], max(places[-1], places[0] + 1e-6), 56.0, width - 20.0)
    up = PixelScale(0.0, ceiling, 200.0, 26.0)
    drawn = _shelves(across, up, [(ceiling * i / 2, percent(ceiling * i / 2)) for i in range(3)])
    steps = []
    for (left, right), amount in zip(pairwise(places), curve.affected, strict=False):
        steps += [(left, amount), (right, amount)]
    path = " ".join(f"{_n(across(place))},{_n(up(amount / curve.rows))}" for place, amount in steps)
    drawn.append(f'<polyline class="line accuracy" points="{path}"/>')
    own = across(min(max(_odds(curve.own), across.low), across.high))
    down = f"{_n(own)},{_n(up.end - 8)} {_n(own)},{_n(up.start)}"
    drawn.append(f'<polyline class="line fairness" points="{down}"/>')
    anchor = "start" if own < width / 2 else "end"
    drawn.append(_text(own + (5 if anchor == "start" else -5), up.end - 12, "it decides here", anchor, "fairness-text"))
    marks: list[tuple[float, str]] = []
    for threshold in ROUND_THRESHOLDS:
        place = _odds(threshold)
        inside = across.low <= place <= across.high
        if inside and (not marks or across(place) - across(marks[-1][0]) >= 52):
            marks.append((place, round_percent(threshold) if threshold >= 0.01 else percent(threshold)))
    drawn += _foot(width, across, up, marks)
    title = f"threshold of the probability of {clipped(curve.decided, 24)}"
    drawn.append(_text((across.start + across.end) / 2, up.start + 39, title, "middle", "soft"))
    return _svg(width, up.start + 46, drawn)


def _odds(threshold: float) -> float:
    """The logarithm of the odds: thresholds near 0 and 1 lie as far apart as they are worth."""
    inside = min(max(threshold, 1e-12), 1 - 1e-12)
    return math.log(inside / (1 - inside))


def _share_marks(values: Sequence[float], most: int = 5) -> list[float]:
    """Round marks around shares, the lowest at or below and the highest at or above all of them.

    >>> _share_marks([0.779, 0.993]), _share_marks([1.0, 1.0]), _share_marks([0.0, 0.5])
    ([0.75, 0.8, 0.85, 0.9, 0.95, 1.0], [0.99, 0.995, 1.0], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    """
    low, high = min(values), max(values)
    for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.25):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < 2:  # never a scale so fine that noise looks like news
            first, last = (first - 1, last) if last * step >= 1 else (first, first + 2)
            first = min(first, last - 2)
        if last - first <= most:
            return [round(step * i, 6) for i in range(max(first, 0), last + 1) if step * i < 1 + 1e-9]
    return [0.0, 0.25, 0.5, 0.75, 1.0]


def _apart(places: Sequence[float], least: float) -> list[float]:
    """Heights of labels, moved apart so that they do not overlap."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for lower, upper in pairwise(order):
        if moved[upper] - moved[lower] < least:
            middle = (moved[upper] + moved[lower]) / 2
            moved[lower], moved[upper] = middle - least / 2, middle + least / 2
    return moved


# --- one against the other ---


def reliability(width: int, found: Reliability) -> str:
    """What was said (across) and how often it came true (up), a dot and a whisker each; dashed where they agree."""
    marks = [(i / 4, round_percent(i / 4)) for i in range(5)]
    across, up = PixelScale(0.0, 1.0, 56.0, min(width - 22.0, 420.0)), PixelScale(0.0, 1.0, 300.0, 30.0)
    agree = f"{_n(across.start)},{_n(up.start)} {_n(across.end)},{_n(up.end)}"
    drawn = [*_shelves(across, up, marks), *_foot(width, across, up, marks)]
    drawn.append(f'<polyline class="line fairness" points="{agree}"/>')
    for one in found.bins:
        x = across(one.predicted)
        drawn += [_line(x, up(one.low), x, up(one.high), "whisker"), _circle(x, up(one.happened), 5.5, "dot")]
    drawn.append(_text(across.end, up.start + 40, "what it says →", "end", "soft"))
    drawn.append(_text(2, up.end - 16, "↑ came true", "start", "soft"))
    return _svg(width, up.start + 48, drawn)


def scatter(
    width: int, points: Sequence[tuple[str, float, float]], numbers: Sequence[int], x_label: str, y_label: str
) -> str:
    """Points (name, x, y), both shares, each with its name where there is room for all, else with its number."""
    x_marks = _share_marks([x for _, x, _ in points], 5 if width > 500 else 3)
    y_marks = _share_marks([y for _, _, y in points])
    across = PixelScale(x_marks[0], x_marks[-1], 56.0, width - 22.0)
    up = PixelScale(y_marks[0], y_marks[-1], 300.0, 30.0)
    places = [(across(x), up(y)) for _, x, y in points]
    drawn = [
        *_shelves(across, up, [(mark, round_percent(mark)) for mark in y_marks]),
        *_foot(width, across, up, [(mark, round_percent(mark)) for mark in x_marks]),
        _text(across.end, up.start + 40, f"{x_label} →", "end", "soft"),
        _text(2, up.end - 16, f"↑ {y_label}", "start", "soft"),
        *(_circle(x, y, 5.5, "dot") for x, y in places),
    ]
    frame = (across.start + 3, up.end - 12, width - 2.0, up.start - 2)
    names = [clipped(name, 28) for name, _, _ in points]
    labels = place_labels(places, names, frame) or place_labels(places, [str(n) for n in numbers], frame)
    for (x, y), (text, box) in zip(places, labels or [], strict=False):
        near_x, near_y = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
        if math.hypot(near_x - x, near_y - y) > 14:
            drawn.append(_line(x, y, near_x, near_y, "leader"))
        anchor = "start" if box[0] > x else "end" if box[2] < x else "middle"
        start = {"start": box[0], "end": box[2], "middle": (box[0] + box[2]) / 2}[anchor]
        drawn.append(_text(start, box[3] - 4, text, anchor, ""))
    return _svg(width, up.start + 48, drawn)


Box = tuple[float, float, float, float]


def place_labels(
    places: Sequence[tuple[float, float]], texts: Sequence[str], frame: Box
) -> list[tuple[str, Box]] | None:
    """A box for each label in which it covers no point and no other label, or None if that cannot be had.

    >>> near = [(50.0, 50.0), (52.0, 51.0)]
    >>> [text for text, _ in place_labels(near, ["a", "b"], (0, 0, 200, 100))]
    ['a', 'b']
    """
    radius, height = 7.5, LETTER + 4
    taken = [(x - radius, y - radius, x + radius, y + radius) for x, y in places]
    found: list[tuple[str, Box]] = []
    for (x, y), text in zip(places, texts, strict=True):
        for box in _around(x, y, text_width(text), height, radius):
            inside = frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found.append((text, box))
                break
        else:
            return None
    return found


def _around(x: float, y: float, wide: float, tall: float, radius: float) -> Iterator[Box]:
    for away in (0.0, 12.0, 24.0, 40.0, 60.0):
        reach = radius + 2 + away
        corners = [
            (x + reach, y - tall / 2), (x - reach - wide, y - tall / 2), (x - wide / 2, y - reach - tall),
            (x - wide / 2, y + reach), (x + reach, y - reach - tall), (x + reach, y + reach),
            (x - reach - wide, y - reach - tall), (x - reach - wide, y + reach),
        ]  # fmt: skip
        for left, top in corners:
            yield (left, top, left + wide, top + tall)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def text_width(text: str, size: float = LETTER) -> float:
    """A cautious guess: wide letters are as wide as high, others less."""
    return sum(1.05 if unicodedata.east_asian_width(c) in "WF" else 0.62 for c in text) * size


# --- in a line of a table or a key ---


def meter(value: float, low: float | None, high: float | None) -> str:
    """A small bar of a share, with a whisker where there is an interval; the number stands beside it."""
    wide = 88.0
    drawn = [_rect(0, 5, wide, 6, "track")]
    if low is not None and high is not None:
        drawn.append(_line(low * wide, 8, max(high * wide, low * wide + 1), 8, "whisker"))
        drawn.append(_circle(min(max(value * wide, 4), wide - 4), 8, 4, "dot"))
    elif value > 0:
        drawn.append(_rect(0, 5, max(value * wide, 2.0), 6, "bar"))
    return _svg(wide, 16, drawn, "meter")


def swatch(kind: str) -> str:
    """The small square that a key explains."""
    return _svg(14, 14, [*_filled(1, 1, 12, 12, kind), _rect(1, 1, 12, 12, "edge")])


# --- scales and axes ---


class PixelScale(NamedTuple):
    """Where values from `low` to `high` lie on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


Marks = Iterable[tuple[float, str]]  # values and how they are written


def _shelves(across: PixelScale, up: PixelScale, marks: Marks) -> list[str]:
    """Horizontal lines with their values at the left."""
    drawn = []
    for value, text in marks:
        drawn.append(_line(across.start, up(value), across.end, up(value), "shelf"))
        drawn.append(_text(across.start - 7, up(value) + 4, text, "end", "soft"))
    return drawn


def _foot(width: int, across: PixelScale, up: PixelScale, marks: Marks, tick: float = 5) -> list[str]:
    """The horizontal axis."""
    axis = _line(across.start, up.start, across.end, up.start, "axis")
    return [axis, *_marks_below(width, across, up.start, marks, tick)]


def _marks_below(width: int, across: PixelScale, y: float, marks: Marks, tick: float = 5) -> list[str]:
    """Ticks below a line, with their values; at the edge of the picture these are moved inside."""
    drawn = []
    for value, text in marks:
        x = across(value)
        if tick:
            drawn.append(_line(x, y, x, y + tick, "axis"))
        anchor = "start" if x < LETTER / 2 else "end" if x > width - LETTER / 2 else "middle"
        drawn.append(_text(x, y + 19, text, anchor, "soft"))
    return drawn


# --- drawing ---


def _filled(left: float, top: float, wide: float, tall: float, kind: str) -> list[str]:
    """A rectangle; what is open is hatched, with slanted lines cut off at its sides."""
    drawn = [_rect(left, top, wide, tall, kind)]
    start = left - tall + 4
    while kind == "open" and start < left + wide:
        x_low, x_high = max(start, left), min(start + tall, left + wide)
        if x_high > x_low:
            drawn.append(_line(x_low, top + tall - (x_low - start), x_high, top + tall - (x_high - start), "hatch"))
        start += 8
    return drawn


def _n(value: float) -> str:
    """A coordinate with at most two decimals, always written the same way."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _svg(width: float, height: float, drawn: Iterable[str], kind: str = "") -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<svg{marked} viewBox="0 0 {_n(width)} {_n(height)}" aria-hidden="true">{"".join(drawn)}</svg>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"/>'


def _circle(x: float, y: float, radius: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<text{marked} x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{html.escape(visible(text))}</text>'
