"""How does a report say it? Numbers with sensible digits, names that stay names, the verdict in one sentence.

Everything here is plain text; escaping is the business of whoever writes HTML or Markdown.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Literal

from bornfair.report.document import Document, Estimate

BADGES = {"verified": "✓ Verified", "falsified": "✗ Falsified", "undecided": "? Undecided"}
LONGEST_NAME = 80  # letters of a name inside a sentence or a chart; tables show all of it

_ROUNDING = {"near": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}
_PERCENT = "\u00a0%"  # no line break between a number and its sign
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


# --- numbers ---


def percent(share: float | None, rounding: Literal["near", "down", "up"] = "near", *, fine: bool = False) -> str:
    """A share as a percentage. What is not 0 never reads 0, what is not all never reads 100.

    Proven shares are rounded down, so that no page claims more than was proven. `fine` gives a digit more.

    >>> shown = lambda *given: percent(*given).replace("\\xa0", " ")
    >>> shown(0.8551), shown(0), shown(1), shown(4e-6), shown(0.999996)
    ('85.5 %', '0 %', '100 %', '0.0004 %', '99.9996 %')
    >>> shown(0.85599, "down"), shown(3.29e-11, "down"), shown(1 - 1e-12), shown(None)
    ('85.5 %', '3.2 × 10⁻⁹ %', 'more than 99.9999 %', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    hundredfold = Decimal(repr(float(share))) * 100
    if hundredfold in (0, 100):
        return f"{int(hundredfold)}{_PERCENT}"
    distance = min(hundredfold, 100 - hundredfold)
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
    return f"{digits} × 10{superscript(exponent)}{_PERCENT}"


def superscript(exponent: int) -> str:
    return str(exponent).translate(_SUPERSCRIPT)


def interval(estimate: Estimate) -> str:
    """
    >>> interval(Estimate(0.031, 0.022, 0.043, 0.95, 10_000)).replace("\\xa0", " ")
    '3.1 % (2.2 % to 4.3 % with 95 % confidence)'
    """
    low, high = percent(estimate.low, "down", fine=True), percent(estimate.high, "up", fine=True)
    return f"{percent(estimate.unfair, fine=True)} ({low} to {high} with {confidence(estimate)} confidence)"


def confidence(estimate: Estimate) -> str:
    return f"{100 * estimate.confidence:.4g}{_PERCENT}"


def points(before: float, after: float) -> str:
    """A difference of two shares in percentage points.

    >>> points(0.856, 0.852), points(0.5, 0.5)
    ('−0.40 points', 'no change')
    """
    change = 100 * (after - before)
    if change == 0:
        return "no change"
    return f"{'+' if change > 0 else '−'}{abs(change):.2f} points" if abs(change) >= 0.005 else "less than 0.01 points"


def number(value: float | None) -> str:
    """A measured number with four digits.

    >>> number(0.123456), number(1234567.0), number(3), number(None)
    ('0.1235', '1,234,567', '3', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def count(amount: int, noun: str, plural: str = "") -> str:
    """
    >>> count(1, "part"), count(1200, "part"), count(2, "person", "people")
    ('1 part', '1,200 parts', '2 people')
    """
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def seconds(value: float) -> str:
    text = "less than 0.01" if 0 < value < 0.01 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    return f"{text}\u00a0s"


# --- names ---

_JOINERS = "\u00a0\u200c\u200d"  # a space that does not break and what joins letters: parts of written words
_ISOLATE, _END = "\u2068", "\u2069"


def told(text: object) -> str:
    """Any text from outside. What cannot be seen is written out, and what runs from right to left is kept apart.

    >>> told("a\\u202eb"), told("é\\n"), told("שלום") == "\\u2068שלום\\u2069"
    ('a\\\\u202eb', 'é\\\\n', True)
    """
    seen = "".join(c if c.isprintable() or c in _JOINERS else _written_out(c) for c in str(text))
    backwards = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in seen)
    return f"{_ISOLATE}{seen}{_END}" if backwards else seen


def named(name: object) -> str:
    """The name of a feature; even an empty one can be pointed at."""
    return told(name) or "(no name)"


def visible(text: str) -> str:
    """The last gate before a file: only what `told` lets through, whoever composed the text."""
    allowed = _JOINERS + _ISOLATE + _END
    return "".join(c if c.isprintable() or c in allowed else _written_out(c) for c in text)


def _written_out(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def clipped(text: object, most: int = LONGEST_NAME) -> str:
    """
    >>> clipped("abcdef", 4)
    'abc…'
    """
    whole = str(text)
    return told(whole if len(whole) <= most else whole[: most - 1] + "…")


def listed(names: Sequence[object], most: int = 6, word: str = "and") -> str:
    """
    >>> listed(["sex"]), listed(["sex", "age", "race"]), listed("abcdefgh")
    ('sex', 'sex, age and race', 'a, b, c, d, e, f and 2 more')
    """
    told_names = [clipped(name) or "(no name)" for name in names]
    if len(told_names) > most:
        return f"{', '.join(told_names[:most])} and {len(told_names) - most} more"
    return f" {word} ".join(filter(None, [", ".join(told_names[:-1]), *told_names[-1:]]))


# --- the verdict ---


def verdict_sentence(document: Document) -> str:
    """The one sentence on top."""
    names = listed(document.sensitive) or "the sensitive value"
    several, found = len(document.sensitive) > 1, document.verdict.verdict
    changes = "change" if several else "changes"
    rules = document.domain is not None and bool(document.domain.twins)
    if found == "verified":
        along = ", with all that the declared rules change along," if rules else ""
        fair = "Fair, in real arithmetic, of the network as read" if document.verdict.as_read else "Fair"
        return f"{fair}: {names}{along} never {changes} the decision, for anyone who could exist."
    if found == "falsified":
        shows = " Here are two who show it." if document.pairs else ""
        along = ", with what the declared rules change along," if rules else " alone"
        return f"Not fair: {names}{along} {changes} the decision for some people.{shows}"
    if document.people is not None and document.people.unfair:
        return (
            f"Undecided for everyone who could exist, but {names} alone {changes} the decision "
            f"for {count(document.people.unfair, 'row')} of the data."
        )
    return f"Undecided: whether {names} can change a decision is neither proven nor disproven."


def disagreements(document: Document) -> list[str]:
    """What in this document cannot all be true, or needs a word of explanation."""
    notes = []
    shares, people, found = document.shares, document.people, document.verdict
    if found.verdict == "verified":
        if shares is not None and shares.falsified > 0:
            notes.append(
                "The verdict says fair, yet a share of the domain is reported as proven unfair. Both cannot be true of "
                "the same model and domain: find out which files were examined before relying on either."
            )
        if people is not None and people.unfair:
            notes.append(
                "The verdict says fair, yet rows of the data have twins who are decided otherwise. Are these rows "
                "outside the domain, or decided in another arithmetic than the proof speaks of?"
            )
    certificate = document.certificate
    if certificate is not None and {certificate.verdict, found.verdict} == {"verified", "falsified"}:
        notes.append(
            f"The certificate says {certificate.verdict}, this examination {found.verdict}. Run the checker: it tells "
            "whether the certificate holds for these files."
        )
    if shares is not None and shares.estimate is not None:
        estimate = shares.estimate
        if estimate.high < shares.falsified or estimate.low > 1 - shares.certified:
            notes.append(
                "The estimate lies outside what is proven. A sample is wrong now and then; where the two disagree, "
                "the proof counts."
            )
    if found.verdict == "undecided" and shares is not None and shares.falsified > 0:
        notes.append(
            "A share of the domain is proven unfair, so the model is not fair, although the search for a pair of twins "
            "ended without one."
        )
    return notes


def limits(document: Document) -> list[tuple[str, str]]:
    """What the report does not say, in the light of what it does."""
    items = []
    found = document.verdict
    if found.verdict == "undecided":
        items.append(("Unfair.", "Undecided does not mean unfair: neither proof nor counterexample was found."))
    if found.verdict == "falsified" and document.shares is None and document.people is None:
        shown_pairs = len(document.pairs)
        pairs = "One pair of twins is shown" if shown_pairs == 1 else f"{count(shown_pairs, 'pair')} of twins are shown"
        items.append(("How many.", f"{pairs}; how many more there are is not counted."))
    if document.shares is not None and document.shares.estimate is not None:
        items.append(
            ("Estimates.", "What is marked as an estimate comes from a sample. It can be wrong; it is never a proof.")
        )
    proxies = (
        "Other features, such as a place or an occupation, can go together with the sensitive ones. Twins share them, "
        "so the verdict does not speak of decisions that rest on them."
    )
    if document.proxies:
        proxies = (
            "The features listed above carry the sensitive value. Twins share them unless a rule says otherwise, so "
            "the verdict does not speak of decisions that rest on them. The list is of this data only."
        )
    items.append(("Proxies.", proxies))
    groups = "Whether groups of people get the positive decision equally often is another question."
    if document.group_metrics:
        groups += " The rates by group above are of these rows alone; nothing is proven about them."
    items.append(("Groups.", groups))
    items.append(
        (
            "People outside the domain.",
            "Values that the domain does not list are not covered, nor is what happens to the data before or to the "
            "decision after the model.",
        )
    )
    right = "A fair decision can still be a wrong one"
    right += (
        "; accuracy was measured on a sample of rows." if document.metrics else "; accuracy is not part of the verdict."
    )
    items.append(("Being right.", right))
    items.append(("Arithmetic.", _arithmetic_limit(found.arithmetic)))
    return items


def _arithmetic_limit(kinds: Sequence[str]) -> str:
    if not kinds:
        return "Nothing is claimed in any arithmetic."
    if "float32" in kinds and "real" in kinds:
        return (
            "The verdict holds in exact and in float32 arithmetic. Other number formats, such as float16 or whole "
            "numbers after quantisation, make another model."
        )
    if "float32" in kinds:
        return "The verdict is about float32, as computers run the model; other number formats make another model."
    return (
        "The verdict is about exact numbers. A computer rounds: close to the border between two decisions, the running "
        "model can differ from it."
    )
