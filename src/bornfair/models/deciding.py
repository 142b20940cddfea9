"""How a model decides: which output holds the decision, how numbers become a class, and which column feeds which input.

Every importer, every black-box model and every wrapper uses the rules in this module, so that all kinds of model are
judged by the decision that the original model makes. Thresholds are in `bornfair.models.operating`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence

from bornfair.errors import InputError, shown
from bornfair.people.features import unknown_column

# --- which output of a graph decides ---


# --- how numbers decide ---


# --- which column feeds an input ---

SEPARATORS = "_. "  # exporters replace other characters by one of these


def feeding(inputs: Sequence[str], columns: Sequence[str], origin: str) -> tuple[str, ...]:
    """The column that feeds each named input of a model.

    An exact name wins, then the same text in another Unicode form, then a name that an exporter may have rewritten: in
    another case, or with a separator in place of a character that is no letter or digit. Letters of all scripts count.
    A rewritten name must be the only one that fits the column, and the column the only one that fits the name.

    Raises:
        InputError: an input has no column, or several columns or inputs fit.

    >>> feeding(["hours_per_week", "性別"], ["年齢", "性別", "Hours-per-week"], "the model")
    ('Hours-per-week', '性別')
    """
    fed: dict[str, str] = {name: name for name in set(inputs) & set(columns)}
    fits: dict[str, list[str]] = {}
    for form in (_composed, _rewritten):
        left = [name for name in dict.fromkeys(inputs) if name not in fed]
        by_form = _by_form([column for column in columns if column not in set(fed.values())], form)
        fits = {name: [c for c in by_form.get(form(name), ()) if _may_be(name, c)] for name in left}
        wanted_by = {column: [name for name in left if column in fits[name]] for name in left for column in fits[name]}
        for name, found in fits.items():
            if len(found) == 1 and len(wanted_by[found[0]]) == 1:
                fed[name] = found[0]
            elif found:
                names = found if len(found) > 1 else wanted_by[found[0]]
                what = "columns" if len(found) > 1 else "inputs"
                raise InputError(
                    f"{origin}: input '{name}' has no column of exactly this name, and its name fits the {what} "
                    f"{shown(names)}; rename the columns as the model names its inputs."
                )
    for name in inputs:
        if name not in fed:
            reason = unknown_column(name, columns, "input").replace(
                "is not in the table", "is not among the columns given"
            )
            raise InputError(f"{origin}: {reason}")
    return tuple(fed[name] for name in inputs)


def _by_form(names: Iterable[str], form: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(form(name), []).append(name)
    return found


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _rewritten(name: str) -> str:
    """What is left of a name when all characters but letters, marks and digits are replaced."""
    return "".join(c if unicodedata.category(c)[0] in "LMN" else "_" for c in _folded(name))


def _may_be(one: str, other: str) -> bool:
    """Whether one of two names of one form may be the other, rewritten: "<50" is not ">50"."""
    pairs = list(zip(_folded(one), _folded(other), strict=True))
    return all(a == b or a in SEPARATORS or b in SEPARATORS for a, b in pairs) and any(
        unicodedata.category(a)[0] in "LMN" for a, _ in pairs
    )
