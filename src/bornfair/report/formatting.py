"""How does a number, a value or a name read? With sensible digits, and so that a name stays a name.

Everything here is plain text; escaping is the business of whoever writes HTML or Markdown.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, Literal

MISSING = "–"
NO_NAME = "(no name)"
LONGEST_NAME = 80  # letters of a name inside a sentence or a chart; tables show all of it

_ROUNDING = {"near": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}
_PERCENT = "\u00a0%"  # no line break between a number and its sign
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


# --- shares ---


def percent(share: float | None, rounding: Literal["near", "down", "up"] = "near", *, fine: bool = False) -> str:
    """A share as a percentage. What is not 0 never reads 0, what is not all never reads 100.

    Proven shares are rounded down, so that no page claims more than was proven. `fine` gives a digit more.

    >>> text = lambda *given: percent(*given).replace("\\xa0", " ")
    >>> text(0.8551), text(0), text(1), text(4e-6), text(0.999996)
    ('85.5 %', '0 %', '100 %', '0.0004 %', '99.9996 %')
    >>> text(0.85599, "down"), text(3.29e-11, "down"), text(1 - 1e-12), text(None)
    ('85.5 %', '3.2 × 10⁻⁹ %', 'more than 99.9999 %', '–')
    >>> text(1.2e-16, "up")
    'less than 0.00001 %'
    """
    if share is None or not math.isfinite(share):
        return MISSING
    hundredfold = Decimal(repr(float(share))) * 100
    if hundredfold in (0, 100):
        return f"{int(hundredfold)}{_PERCENT}"
    distance = min(hundredfold, 100 - hundredfold)
    if distance < Decimal("0.00001") and hundredfold < 50 and rounding == "up":
        return f"less than 0.00001{_PERCENT}"  # what is open may be no more than what rounding left over
    if distance < Decimal("0.00001"):
        return f"more than 99.9999{_PERCENT}" if hundredfold > 50 else _tiny(hundredfold, _ROUNDING[rounding])
    # One decimal in the middle; towards either end two digits of the distance to it.
    decimals = max(1, 1 - distance.adjusted() if distance < 1 else 1) + fine
    rounded = hundredfold.quantize(Decimal(1).scaleb(-decimals), _ROUNDING[rounding])
    if rounded in (0, 100):
        rounded, decimals = hundredfold.normalize(), 1
    text = f"{rounded:f}"
    while decimals > 1 and text.endswith("0"):
        text, decimals = text[:-1], decimals - 1
    return f"{text}{_PERCENT}"


def _tiny(hundredfold: Decimal, rounding: str) -> str:
    exponent = hundredfold.adjusted()
    digits = hundredfold.scaleb(-exponent).quantize(Decimal("0.1"), rounding)
    return f"{digits} × 10{_superscript(exponent)}{_PERCENT}"


def round_percent(share: float) -> str:
    """A share that is a round number anyway: a mark on an axis, a confidence."""
    return f"{100 * share:.6g}{_PERCENT}"


def interval(low: float, high: float, *, fine: bool = False) -> str:
    """
    >>> interval(0.022, 0.04349).replace("\\xa0", " ")
    '2.2 % to 4.4 %'
    """
    return f"{percent(low, 'down', fine=fine)} to {percent(high, 'up', fine=fine)}"


def narrow(low: float, high: float) -> str:
    """A narrow interval, with as many digits as tell its ends apart; rounded outwards.

    >>> narrow(0.015312, 0.01568).replace("\\xa0", " "), narrow(0.088231, 0.089271).replace("\\xa0", " ")
    ('between 1.53 % and 1.57 %', 'between 8.82 % and 8.93 %')
    >>> narrow(0.0, 0.0).replace("\\xa0", " "), narrow(0.2, 1.0).replace("\\xa0", " ")
    ('0 %', 'between 20 % and 100 %')
    """
    width = max(100 * (high - low), 1e-6)
    decimals = min(max(math.ceil(-math.log10(width / 3)), 0), 6)
    unit = Decimal(1).scaleb(-decimals)
    ends = (Decimal(repr(float(end))) * 100 for end in (low, high))
    if high - low < 1e-8:
        return percent((low + high) / 2, fine=True)
    rounded = [end.quantize(unit, how) for end, how in zip(ends, (ROUND_FLOOR, ROUND_CEILING), strict=True)]
    return f"between {rounded[0]:f}{_PERCENT} and {rounded[1]:f}{_PERCENT}"


def points(before: float, after: float) -> str:
    """A difference of two shares in percentage points.

    >>> points(0.856, 0.852), points(0.5, 0.5)
    ('−0.40 points', 'no change')
    """
    change = 100 * (after - before)
    if change == 0:
        return "no change"
    return f"{'+' if change > 0 else '−'}{abs(change):.2f} points" if abs(change) >= 0.005 else "less than 0.01 points"


def measure_text(measure: str, value: float | None) -> str:
    """A measure as it is usually written: an AUC or a Brier score with three decimals, other shares as percentages.

    >>> measure_text("AUC", 0.90681), measure_text("Brier score", 0.0984), measure_text("accuracy", None)
    ('0.907', '0.098', '–')
    """
    return f"{value:.3f}" if measure in ("AUC", "Brier score") and value is not None else percent(value)


# --- numbers ---


def number(value: float | None) -> str:
    """A measured number with four digits.

    >>> number(0.123456), number(1234567.0), number(3), number(None)
    ('0.1235', '1,234,567', '3', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def count(amount: int, noun: str, plural: str = "") -> str:
    """
    >>> count(1, "part"), count(1200, "part"), count(2, "person", "people")
    ('1 part', '1,200 parts', '2 people')
    """
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def about(amount: int) -> str:
    """A number too large to be read digit by digit.

    >>> about(25_300_000), about(7_200_000_000), about(10**40)
    ('25 million', '7.2 billion', '10⁴⁰')
    """
    for size, name in ((10**6, "million"), (10**9, "billion"), (10**12, "trillion")):
        if amount < 1000 * size:
            return f"{amount / size:.2g} {name}" if amount < 100 * size else f"{amount // size} {name}"
    return "10" + _superscript(round(math.log10(amount)))


def _superscript(exponent: int) -> str:
    return str(exponent).translate(_SUPERSCRIPT)


def effort(parts: int | None, took: float | None) -> str:
    """How much of the domain was looked at, and how long it took, as far as it is known.

    >>> effort(1200, None), effort(None, None)
    ('1,200 parts of the domain looked at', '')
    """
    known = [] if parts is None else [f"{count(parts, 'part')} of the domain looked at"]
    return ", ".join(known + ([] if took is None else [_seconds(took)]))


def _seconds(value: float) -> str:
    text = "less than 0.01" if 0 < value < 0.01 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    return f"{text}\u00a0s"


# --- values and names ---

_JOINERS = "\u00a0\u200c\u200d"  # a space that does not break and what joins letters: parts of written words
_ISOLATE, _END = "\u2068", "\u2069"


def value_text(value: object) -> str:
    """A raw value as it stands in a table.

    >>> value_text(True), value_text(2.0), value_text(""), value_text(None)
    ('true', '2.0', '(empty text)', '(missing)')
    """
    if value is None:
        return "(missing)"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) or "(empty text)"


def visible(text: str, allowed: str = _JOINERS + _ISOLATE + _END) -> str:
    """The last gate before a file: what cannot be seen is written out, whoever composed the text."""
    return "".join(c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text)


def readable(text: object) -> str:
    """Any text from outside. What cannot be seen is written out, and what runs from right to left is kept apart.

    >>> readable("a\\u202eb"), readable("é\\n"), readable("שלום") == "\\u2068שלום\\u2069"
    ('a\\\\u202eb', 'é\\\\n', True)
    """
    seen = visible(str(text), _JOINERS)
    backwards = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in seen)
    return f"{_ISOLATE}{seen}{_END}" if backwards else seen


def feature_name(name: object) -> str:
    """Even a feature without a name can be pointed at."""
    return readable(name) or NO_NAME


def clipped(text: object, most: int = LONGEST_NAME) -> str:
    """
    >>> clipped("abcdef", 4)
    'abc…'
    """
    whole = str(text)
    return readable(whole if len(whole) <= most else whole[: most - 1] + "…")


def listed(names: Sequence[object], most: int = 6, word: str = "and") -> str:
    """
    >>> listed(["sex"]), listed(["sex", "age", "race"]), listed("abcdefgh")
    ('sex', 'sex, age and race', 'a, b, c, d, e, f and 2 more')
    """
    texts = [clipped(name) or NO_NAME for name in names]
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    return f" {word} ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def twins_text(
    twins: Sequence[Mapping[str, Any]], decisions: Sequence[Any] | None = None, *, decided: str = "decision"
) -> str:
    """People side by side, what differs first and marked.

    >>> print(twins_text([{"age": 30, "sex": "female"}, {"age": 30, "sex": "male"}], ["no", "yes"]))
    > sex       female  male
      age       30      30
    > decision  no      yes
    """
    names = list(dict.fromkeys(name for person in twins for name in person))
    rows = [(name, *(value_text(person[name]) if name in person else MISSING for person in twins)) for name in names]
    unlike = [row for row in rows if len(set(row[1:])) > 1]
    marked = [(">", row) for row in unlike] + [(" ", row) for row in rows if row not in unlike]
    if decisions:
        marked.append((">", (decided, *map(value_text, decisions))))
    cells = [[f"{mark} {clipped(row[0])}", *map(clipped, row[1:])] for mark, row in marked]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )
