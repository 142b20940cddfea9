"""Who counts as twins beyond the change of a sensitive value? Rules such as "relationship: Husband<->Wife".

A rule moves values of several columns at once. The change of the sensitive values always belongs to it, so a person's
versions are Sym(S) × H, where H is the finite group that the rules generate on the other columns (theory: declared
twins). How rules are written is the business of `bornfair.people.rule_syntax`, what they do to people that of
`bornfair.people.twins.versions`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bornfair.core.errors import InputError, shown
from bornfair.people.features import (
    NUMERIC,
    Cycles,
    Feature,
    Level,
    Mirror,
    Population,
    Rule,
    Value,
    known_levels,
    unknown_column,
    unknown_value,
)
from bornfair.people.rule_syntax import rule_text

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
        made = [_after(generator, element) for element in fresh for generator in generators]
        fresh = [element for element in dict.fromkeys(made) if element not in found]
        found |= dict.fromkeys(fresh)
        if len(found) > MOST_ELEMENTS:
            raise InputError(
                f"twins: these {len(generators)} rules together relate more than {MOST_ELEMENTS:,} versions of the "
                "same person; let fewer values change places, or put moves that belong together into one rule."
            )
    return tuple(found)


def _after(second: Element, first: Element) -> Element:
    return tuple(tuple(b[i] for i in a) for a, b in zip(first, second, strict=True))


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
        _check_mirror(feature, move)
        return
    if isinstance(feature, NUMERIC) and not (sensitive and feature.kind == "integer"):
        raise ValueError(
            f"twins: '{feature.name}' is a number, and {_example(move)} are single values; mirror its range with "
            f"'{feature.name}: -x+{feature.low + feature.high:g}', or make it a category"
        )
    seen: set[tuple[type, Value]] = set()
    known = {(type(level), level) for level in known_levels(feature)}  # a gap stays a gap
    for value in itertools.chain(*move.cycles):
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


def _check_mirror(feature: Feature, move: Mirror) -> None:
    if not isinstance(feature, NUMERIC):
        raise ValueError(
            f"twins: '{feature.name}' is {feature.kind} and has no -x; swap its values as in "
            f"{'<->'.join(str(level) for level in feature.levels()[:2])!r}"
        )
    if move.total != feature.low + feature.high:
        raise ValueError(
            f"twins: '{feature.name}: -x+{move.total:g}' does not map the range [{feature.low:g}, {feature.high:g}] "
            f"onto itself; write -x+{feature.low + feature.high:g}, or change the range in the domain"
        )


def _check_combinations(people: Population, rule: Rule, rows: Sequence[tuple[Level, ...]]) -> None:
    """A rule must map the sensitive combinations that exist onto combinations that exist."""
    moves = {move.feature: move for move in rule}
    for row in rows:
        new = tuple(
            _moved(people.feature(name), moves.get(name), v) for name, v in zip(people.sensitive, row, strict=True)
        )
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


def _example(move: Cycles) -> str:
    return shown(itertools.chain(*move.cycles), most=3)
