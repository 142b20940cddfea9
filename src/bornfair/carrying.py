"""How is a number carried along with a sensitive value? Twins have the same canonical value T_s(x) = times·x + plus.

Changing the value and carrying the number are one thing: were the plain change a twin too, doing one and undoing the
other would move the number for ever, and everybody would be everybody's twin.

At run time twins must give the same bits. T_s is computed in float64 as fl(fl(times·x) + plus), and `check_carried`
admits only constants for which that is one correctly rounded operation: times is a power of two, so that the product is
exact, or plus is 0. Two twins have the same canonical value as real numbers, so rounding it once gives the same float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from bornfair.domain import NUMERIC, Carried, NumericFeature, Value
from bornfair.errors import InputError, shown

if TYPE_CHECKING:
    from bornfair.domain import Domain

Affine = tuple[Fraction, Fraction]  # times, plus
IDENTITY: Affine = (Fraction(1), Fraction(0))


def maps_of(move: Carried | None, levels: Sequence[Value]) -> list[Affine]:
    """T for each level of the sensitive feature; a number that is not carried stays what it is."""
    if move is None:
        return [IDENTITY] * len(levels)
    known = {(type(value), value): (Fraction(times), Fraction(plus)) for value, times, plus in move.maps}
    return [known[type(level), level] for level in levels]


def apply(to: Affine, value: Fraction) -> Fraction:
    return to[0] * value + to[1]


def undo(to: Affine, value: Fraction) -> Fraction:
    return (value - to[1]) / to[0]


def canonical_range(domain: Domain, feature: NumericFeature) -> tuple[Fraction, Fraction]:
    """Between which canonical values somebody may have a twin. Who has which, is asked person by person.

    Where twins can differ in nothing but what carries the number, that is where two ranges overlap: beyond it people
    exist, but their twin would have left the domain. Where they can differ otherwise too (another sensitive feature, a
    swap), everybody may have one.
    """
    move = domain.carried.get(feature.name)
    if move is None:
        return Fraction(feature.low), Fraction(feature.high)
    lows, highs = _ends(domain, feature, move)
    otherwise = len(domain.sensitive) > 1 or bool(domain.twin_group.moved)
    return (lows[0], highs[-1]) if otherwise else (lows[1], highs[-2])


def _ends(domain: Domain, feature: NumericFeature, move: Carried) -> tuple[list[Fraction], list[Fraction]]:
    """Where the canonical range of each sensitive value begins and ends, both in order."""
    maps = maps_of(move, list(domain.feature(move.by).levels()))
    lows = sorted(apply(to, Fraction(feature.low)) for to in maps)
    highs = sorted(apply(to, Fraction(feature.high)) for to in maps)
    return lows, highs


# --- which are allowed ---


def check_carried(domain: Domain, move: Carried) -> None:
    """Refuse what is not a way to carry a number, as one sentence (ValueError)."""
    feature = domain.feature(move.feature)
    if not isinstance(feature, NUMERIC) or move.feature in domain.sensitive:
        raise ValueError(f"twins: '{move.feature}' cannot be carried along: only numbers that are not sensitive can")
    if move.by not in domain.sensitive:
        raise ValueError(
            f"twins: '{move.feature}' is carried along with '{move.by}', which is not sensitive; name it so"
        )
    by = domain.feature(move.by)
    if isinstance(by, NUMERIC):
        raise ValueError(f"twins: '{move.feature}' is carried along with the number '{move.by}'; make that a category")
    listed, known = [(type(v), v) for v, _, _ in move.maps], [(type(level), level) for level in by.levels()]
    if set(listed) != set(known) or len(listed) != len(known):
        raise ValueError(
            f"twins: '{move.feature}' must be carried for each value of '{move.by}' once ({shown(by.levels())}), found "
            f"{shown(v for _, v in listed)}"
        )
    for value, times, plus in move.maps:
        if not (math.isfinite(times) and math.isfinite(plus) and times > 0 and not isinstance(times, bool)):
            raise ValueError(f"twins: '{move.feature}' for {value!r}: times must be a number above 0, found {times}")
        problem = _problem(feature, (Fraction(times), Fraction(plus)))
        if problem:
            raise ValueError(f"twins: '{move.feature}' is carried by {times:g}·x{plus:+g} for {value!r}, and {problem}")
    lows, highs = _ends(domain, feature, move)
    if lows[1] > highs[-2]:
        raise ValueError(
            f"twins: carrying '{move.feature}' leaves its range [{feature.low:g}, {feature.high:g}] for everybody, so "
            "nobody has a twin; widen the range in the domain, or carry it less far"
        )


def _problem(feature: NumericFeature, to: Affine) -> str | None:
    """Why a map would not give twins the same bits."""
    times, plus = to
    if feature.kind == "integer" and (times != 1 or plus.denominator != 1 or abs(plus) > 2**52):
        return f"'{feature.name}' is a whole number: only whole numbers can be added to it"
    if Fraction(float(times)) != times or Fraction(float(plus)) != plus:
        return "its constants are no floating-point numbers"
    power_of_two = times.numerator & (times.numerator - 1) == 0 and times.denominator & (times.denominator - 1) == 0
    if not power_of_two and plus != 0:
        return "twins would not be the same bits: multiply by a power of two, or do not add anything"
    least = Fraction(1, 2**100)
    if not least < times < 1 / least or not (plus == 0 or least < abs(plus) < 1 / least):
        return "its constants are beyond any use"  # and so small that underflow would round once more
    return None


# --- from pairs of values to canonical values ---


def canonical(
    feature: NumericFeature, by: str, levels: Sequence[Value], pairs: Sequence[tuple[Value, Value, Affine]]
) -> Carried:
    """The record for rules "from one value to another by times·x + plus": every value is led to a common one."""
    best: str | None = None
    for base in levels:
        maps = _towards(base, pairs)
        missing = [level for level in levels if level not in maps]
        if missing:
            raise InputError(
                f"twins: '{feature.name}' is carried between some values of '{by}' but not to {shown(missing)}; say by "
                "how much for each of them (0 is an answer: by x+0)."
            )
        for here, there, step in pairs:
            if maps[here] != _after(maps[there], step):
                raise InputError(
                    f"twins: '{feature.name}' is carried from {here!r} to {there!r} in two ways that do not agree; "
                    "leave one of them out."
                )
        problem = next(filter(None, (_problem(feature, to) for to in maps.values())), None)
        if problem is None:
            return Carried(feature=feature.name, by=by, maps=tuple((v, *_plain(feature, maps[v])) for v in levels))
        best = best or problem
    raise InputError(f"twins: '{feature.name}' cannot be carried along with '{by}' like this: {best}.")


def _towards(base: Value, pairs: Sequence[tuple[Value, Value, Affine]]) -> dict[Value, Affine]:
    """From each value that can be reached the map to the base."""
    found, waiting = {base: IDENTITY}, [base]
    while waiting:
        at = waiting.pop()
        for here, there, step in pairs:
            inverse = 1 / step[0], -step[1] / step[0]
            for one, other, go in ((here, there, step), (there, here, inverse)):
                if other == at and one not in found:
                    found[one] = _after(found[at], go)
                    waiting.append(one)
    return found


def _after(second: Affine, first: Affine) -> Affine:
    return second[0] * first[0], second[0] * first[1] + second[1]


def _plain(feature: NumericFeature, to: Affine) -> tuple[int | float, int | float]:
    return (int(to[0]), int(to[1])) if feature.kind == "integer" else (float(to[0]), float(to[1]))
