"""Rules for twins beyond the change of a sensitive value, such as "relationship: Husband<->Wife".

A rule moves values of several columns at once. The change of the sensitive values always belongs to it, so a person's
versions are Sym(S) × H, where H is the finite group that the rules generate on the other columns (theory: declared
twins). `bornfair.people.twins.versions` applies it to people.

Rules are separated by ";" and consist of parts `column: what happens`; a part without a column goes on about the one
before. Values change places by `a<->b` or, more than two, by `a->b->c->a`; a number is mirrored by `-x+10`. Whatever
reads ambiguously is quoted.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from bornfair.core.errors import InputError, shown
from bornfair.people.features import (
    NOT_CARRIED,
    NUMERIC,
    Cycles,
    Feature,
    Level,
    Mirror,
    Move,
    Population,
    Rule,
    Value,
    known_levels,
    unknown_column,
    unknown_value,
)

MOST_RULES, MOST_ELEMENTS = 100, 10_000
"""Most rules, and most elements of H, counting the one that changes nothing."""

Permutation = tuple[int, ...]  # where the value at each position goes; of a mirrored number (1, 0), else (0, 1)
Element = tuple[Permutation, ...]  # one permutation for each moved feature


@dataclass(frozen=True)
class TwinGroup:
    """H: what all combinations of the rules do to the free features.

    >>> from bornfair import Domain
    >>> from bornfair.people.features import CategoricalFeature
    >>> ways = CategoricalFeature(name="is", categories=("Husband", "Wife", "Other"))
    >>> sex = CategoricalFeature(name="sex", categories=("Female", "Male"))
    >>> people = Domain(features=(ways, sex), sensitive=("sex",)).with_twins("sex: Male<->Female, is: Husband<->Wife")
    >>> people.twin_group.elements, people.twin_group.orbits
    ((((0, 1, 2),), ((1, 0, 2),)), {'is': ((0, 1),)})
    """

    moved: tuple[str, ...]
    """The free features that some rule moves, in the order of the domain."""
    generators: tuple[Element, ...]
    """One for each rule that moves a free feature."""

    @staticmethod
    def of(people: Population) -> TwinGroup:
        moves = [{move.feature: move for move in rule} for rule in people.twins]
        moved = tuple(name for name in people.free_names if any(name in rule for rule in moves))
        features = [people.feature(name) for name in moved]
        made = (tuple(permutation(feature, rule.get(feature.name)) for feature in features) for rule in moves)
        identity = tuple(permutation(feature, None) for feature in features)
        return TwinGroup(moved, tuple(dict.fromkeys(element for element in made if element != identity)))

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """All of H, the identity first."""
        return _closure(self.generators)

    @property
    def size(self) -> int:
        return len(self.elements)

    @cached_property
    def orbits(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """For each moved feature the positions that become one another; those that stay alone are left out."""
        found = {}
        for place, name in enumerate(self.moved):
            together = {i: {i} for i in range(len(self.generators[0][place]))}
            for generator in self.generators:
                for here, there in enumerate(generator[place]):
                    if together[here] is not together[there]:
                        joined = together[here] | together[there]
                        together |= dict.fromkeys(joined, joined)
            orbits = sorted({tuple(sorted(members)) for members in together.values() if len(members) > 1})
            if orbits:
                found[name] = tuple(orbits)
        return found


@functools.lru_cache(maxsize=64)
def _closure(generators: tuple[Element, ...]) -> tuple[Element, ...]:
    """All products of the generators. Every element has a finite order, so inverses come by themselves."""
    if not generators:
        return ((),)
    identity: Element = tuple(tuple(range(len(part))) for part in generators[0])
    found, fresh = {identity: None}, [identity]
    while fresh:
        made = (
            tuple(tuple(after[i] for i in before) for before, after in zip(element, generator, strict=True))
            for element in fresh for generator in generators
        )  # fmt: skip
        fresh = [element for element in dict.fromkeys(made) if element not in found]
        found |= dict.fromkeys(fresh)
        if len(found) > MOST_ELEMENTS:
            raise InputError(
                f"twins: these {len(generators)} rules together relate more than {MOST_ELEMENTS:,} versions of the "
                "same person; let fewer values change places, or put moves that belong together into one rule."
            )
    return tuple(found)


def permutation(feature: Feature, move: Cycles | Mirror | None) -> Permutation:
    """Where the value at each position of a feature goes."""
    if isinstance(feature, NUMERIC) and not isinstance(move, Cycles):
        return (0, 1) if move is None else (1, 0)
    levels = list(feature.levels())
    goes = list(range(len(levels)))
    for cycle in move.cycles if isinstance(move, Cycles) else ():
        for here, there in itertools.pairwise((*cycle, cycle[0])):
            goes[levels.index(here)] = levels.index(there)
    return tuple(goes)


# --- which rules make sense ---


def check_rules(people: Population) -> None:
    """Refuse rules that are not permutations of the people of this domain, as one sentence (ValueError)."""
    if not people.sensitive:
        raise ValueError("twins: rules are declared but no feature is sensitive; name the sensitive features first")
    if len(people.twins) > MOST_RULES:
        raise ValueError(f"twins: there are {len(people.twins)} rules; at most {MOST_RULES} can be kept apart")
    for rule in people.twins:
        named = [move.feature for move in rule]
        if len(set(named)) < len(named) or not named:
            raise ValueError(f"twins: a rule must move at least one column, and each once, found {shown(named)}")
        for move in rule:
            if people.label is not None and move.feature == people.label.name:
                raise ValueError(f"twins: '{move.feature}' is the label, which is decided and not part of a person")
            if move.feature not in people.names:
                raise ValueError(f"twins: {unknown_column(move.feature, people.names)}")
            _check_move(people.feature(move.feature), move, sensitive=move.feature in people.sensitive)
        if people.combinations is not None:
            _check_combinations(people, rule, people.combinations)
    TwinGroup.of(people).elements  # noqa: B018  # refuses groups that are too large


def _check_move(feature: Feature, move: Cycles | Mirror, *, sensitive: bool) -> None:
    if isinstance(move, Mirror):
        if not isinstance(feature, NUMERIC):
            raise ValueError(
                f"twins: '{feature.name}' is {feature.kind} and has no -x; swap its values as in "
                f"{'<->'.join(str(level) for level in feature.levels()[:2])!r}"
            )
        if move.total != feature.total:
            raise ValueError(
                f"twins: '{feature.name}: -x+{move.total:g}' does not map the range [{feature.low:g}, "
                f"{feature.high:g}] onto itself; write -x+{feature.total:g}, or change the range in the domain"
            )
        return
    values = list(itertools.chain(*move.cycles))
    if isinstance(feature, NUMERIC) and not (sensitive and feature.kind == "integer"):
        raise ValueError(
            f"twins: '{feature.name}' is a number, and {shown(values, most=3)} are single values; mirror its range "
            f"with '{feature.name}: -x+{feature.total:g}', or make it a category"
        )
    seen: set[tuple[type, Value]] = set()
    known = {(type(level), level) for level in known_levels(feature)}  # a gap stays a gap
    for value in values:
        if (type(value), value) not in known:
            raise ValueError(unknown_value(feature, value))
        if (type(value), value) in seen:
            raise ValueError(
                f"twins: '{feature.name}': {value!r} is mapped twice in one rule; every value can go to one place "
                "only, so list it in one swap or cycle, or write two rules"
            )
        seen.add((type(value), value))
    if any(len(cycle) < 2 for cycle in move.cycles) or not move.cycles:
        raise ValueError(f"twins: '{feature.name}': a swap needs two or more values, found {shown(move.cycles)}")


def _check_combinations(people: Population, rule: Rule, rows: Sequence[tuple[Level, ...]]) -> None:
    """A rule must map the sensitive combinations that exist onto combinations that exist."""
    moves = {move.feature: move for move in rule}
    features = people.sensitive_features
    for row in rows:
        new = tuple(_moved(feature, moves.get(feature.name), v) for feature, v in zip(features, row, strict=True))
        if new not in rows:
            raise ValueError(
                f"twins: '{rule_text(rule)}' turns {list(row)} of {shown(people.sensitive)} into {list(new)}, which is "
                "not among the combinations of the domain; add it, or leave the sensitive columns out of the rule "
                "(changing them is always part of it)"
            )


def _moved(feature: Feature, move: Cycles | Mirror | None, value: Level) -> Level:
    """What a rule makes of a sensitive value."""
    if isinstance(move, Mirror):
        return type(value)(move.total - value)  # type: ignore[operator,misc]
    if move is None:
        return value
    levels = list(feature.levels())
    return levels[permutation(feature, move)[levels.index(value)]]


# --- how rules are written ---

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
        first, *others = pieces(part, ":")
        name = unquoted(first) if others else name
        action = (":".join(others) if others else part).strip()
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
            f"'{feature.name}: -x+{feature.total:g}', or name the column those belong to."
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
        total = float(found[1] or "0")
        whole = feature.kind == "integer" and total.is_integer()
        return Mirror(feature=feature.name, total=int(total) if whole else total)
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
    return f"{feature.total:g}" if isinstance(feature, NUMERIC) else "c"


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
