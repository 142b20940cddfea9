"""How are rules for twins written? "sex: Male<->Female, relationship: Husband<->Wife", several separated by ";".

A part is `column: what happens`; a part without a column goes on about the one before. Values change places by `a<->b`
or, more than two, by `a->b->c->a`; a number is mirrored by `-x+10`. Whatever reads ambiguously is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bornfair.core.errors import InputError
from bornfair.people.features import (
    NOT_CARRIED,
    NUMERIC,
    Cycles,
    Feature,
    Mirror,
    Move,
    Population,
    Rule,
    Value,
    known_levels,
    unknown_column,
    unknown_value,
)

ARROW = re.compile(r"<->|->")
SPECIAL = re.compile(r"[,;:\"']|->|^\s|\s$|^$")
NUMBER = r"(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)"


def parse_rules(twins: str | Sequence[str], people: Population) -> tuple[Rule, ...]:
    """The rules in a text, or in several, as records whose values are those of the domain."""
    texts = [twins] if isinstance(twins, str) else list(twins)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"twins must be texts such as 'sex: Male<->Female', found {text!r}.")
    split = [rule for text in texts for rule in pieces(text, ";") if rule.strip()]
    if not split:
        raise InputError("twins: there is no rule in it; write one such as 'sex: Male<->Female, title: Mr<->Ms'.")
    return tuple(_rule(text, people) for text in split)


def rule_text(rule: Rule) -> str:
    """A rule as a person would write it; `parse_rules` reads it back."""
    return ", ".join(f"{_quoted(move.feature)}: {_move_text(move)}" for move in rule)


def _move_text(move: Move) -> str:
    if isinstance(move, Mirror):
        return f"-x{move.total:+}" if move.total else "-x"
    return ", ".join(
        "<->".join(map(_quoted, cycle)) if len(cycle) == 2 else "->".join(map(_quoted, (*cycle, cycle[0])))
        for cycle in move.cycles
    )


def _quoted(value: Value) -> str:
    text = str(value)
    if not SPECIAL.search(text):
        return text
    return f"'{text}'" if "'" not in text else f'"{text}"'


# --- one rule ---


def _rule(text: str, people: Population) -> Rule:
    cycles: dict[str, list[tuple[Value, ...]]] = {}
    mirrors: dict[str, Mirror] = {}
    name: str | None = None
    for part in pieces(text, ","):
        column, action = _column_and_action(part)
        name = column if column is not None else name
        if name is None:
            raise InputError(f"twins: {part.strip()!r} names no column; write it as 'column: {part.strip()}'.")
        if people.label is not None and name == people.label.name:
            raise InputError(f"twins: '{name}' is the label, which is decided and not part of a person; leave it out.")
        if name not in people.names:
            raise InputError(f"twins: {unknown_column(name, people.names)}")
        feature = people.feature(name)
        if name in mirrors:
            raise InputError(f"twins: '{name}' is moved twice in one rule, in {text.strip()!r}; separate rules by ';'.")
        if isinstance(feature, NUMERIC) and re.fullmatch(r".*->.*\bby\b.*", action):
            raise InputError(f"twins: '{name}: {action}': {NOT_CARRIED}.")
        if ARROW.search(action) or not isinstance(feature, NUMERIC):
            cycles.setdefault(name, []).append(_cycle(feature, action))
        else:
            mirrors[name] = _mirror(feature, action)
    return (*(Cycles(feature=n, cycles=tuple(found)) for n, found in cycles.items()), *mirrors.values())


def _column_and_action(part: str) -> tuple[str | None, str]:
    split = list(pieces(part, ":"))
    if len(split) == 1:
        return None, part.strip()
    return unquoted(split[0]), ":".join(split[1:]).strip()


def _cycle(feature: Feature, action: str) -> tuple[Value, ...]:
    """The values of one swap or cycle, the first not repeated at the end."""
    texts = [unquoted(text) for text in pieces(action, ARROW)]
    swaps = action.count("<->")
    arrows = len(texts) - 1 - swaps
    if arrows + swaps == 0:
        raise InputError(
            f"twins: '{feature.name}: {action}' says nothing that happens; swap two values as a<->b, or write a cycle "
            "as a->b->c->a."
        )
    if swaps > 1 or (swaps and arrows):
        raise InputError(
            f"twins: '{feature.name}: {action}' swaps more than two values; write a cycle as a->b->c->a, or two swaps."
        )
    if isinstance(feature, NUMERIC) and not all(re.fullmatch(r"[+-]?\d+", text) for text in texts):
        raise InputError(
            f"twins: '{feature.name}' is a number, and '{action}' speaks of categories; mirror its range with "
            f"'{feature.name}: -x+{feature.low + feature.high:g}', or name the column those belong to."
        )
    values = tuple(_value(feature, text) for text in texts)
    if arrows and values[-1] != values[0]:
        raise InputError(
            f"twins: '{feature.name}: {action}' is not a permutation: nothing is mapped back to {texts[0]!r}; end the "
            f"cycle where it began, as {'->'.join([*texts, texts[0]])!r}, or swap two values by <->."
        )
    return values[:-1] if arrows else values


def _value(feature: Feature, text: str) -> Value:
    if isinstance(feature, NUMERIC):
        return int(text)
    levels = known_levels(feature)
    found = [level for level in levels if str(level) == text]
    if not found and all(isinstance(level, bool) for level in levels):
        found = [level for level in levels if str(level).lower() == text.lower()]
    if not found:
        raise InputError(f"{unknown_value(feature, text)}.")
    if len(found) > 1:
        raise InputError(
            f"twins: '{feature.name}' has two values that read {text!r}; say which in the domain file, field 'twins'."
        )
    return found[0]


def _mirror(feature: Feature, action: str) -> Mirror:
    """−x + total, in any of the ways people write it."""
    bare = re.sub(r"\s+", "", action).replace("−", "-")
    own_name = re.escape(re.sub(r"\s+", "", feature.name))
    if own_name and own_name != "e":  # which a number may hold
        bare = re.sub(rf"(?<![\w.]){own_name}(?![\w.])", "x", bare)
    sign = r"[+-]"
    if found := re.fullmatch(rf"-x({sign}{NUMBER})?", bare) or re.fullmatch(rf"({sign}?{NUMBER})-x", bare):
        return Mirror(feature=feature.name, total=_number(found[1] or "0", whole=feature.kind == "integer"))
    if re.fullmatch(rf"(?:{sign}?{NUMBER}\*)?x(?:[*/]{NUMBER})?(?:{sign}{NUMBER})?", bare):
        raise InputError(
            f"twins: '{feature.name}: {action}' has infinite order: done again and again it moves a person for ever, "
            f"so nobody has finitely many versions; mirror the range with '-x+{_middle(feature)}'."
        )
    raise InputError(
        f"twins: '{feature.name}' is a number, and {action!r} is not understood; mirror its range with "
        f"'{feature.name}: -x+{_middle(feature)}'."
    )


def _middle(feature: Feature) -> str:
    return f"{feature.low + feature.high:g}" if isinstance(feature, NUMERIC) else "c"


def _number(text: str, *, whole: bool) -> int | float:
    number = float(text)
    return int(number) if whole and number.is_integer() else number


# --- quotes ---


def pieces(text: str, separator: str | re.Pattern[str]) -> Iterator[str]:
    """The text between separators that are not inside quotes; a quote opens where a name or value begins.

    >>> list(pieces("a: 'x, y'<->z, b", ","))
    ["a: 'x, y'<->z", ' b']
    """
    pattern = separator if isinstance(separator, re.Pattern) else re.compile(re.escape(separator))
    start = at = 0
    while at < len(text):
        if text[at] in "\"'" and re.search(r"(^|[,;:>])\s*$", text[:at]):
            closing = re.search(rf"{text[at]}\s*(?=$|[,;:<]|->)", text[at + 1 :])
            if closing:
                at += 1 + closing.end()
                continue
        found = pattern.match(text, at)
        if found:
            yield text[start:at]
            start = at = found.end()
        else:
            at += 1
    yield text[start:]


def unquoted(text: str) -> str:
    bare = text.strip()
    return bare[1:-1] if len(bare) > 1 and bare[0] in "\"'" and bare[-1] == bare[0] else bare
