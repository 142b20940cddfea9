"""Targeted questions: a sub-population, and numbers in which twins may differ too."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.network.model import Model
from bornfair.people.features import NUMERIC
from bornfair.people.space.subpopulation import Part, Relax, Where
from bornfair.verification.twin_question import TwinQuestion


def targeted_question(model: Model, where: Where | None, relax: Relax | None) -> TwinQuestion:
    """The question about the people of a sub-population and about twins who may differ in relaxed numbers too."""
    question = TwinQuestion.of(model, where, _allowed_differences(model, relax))
    if len(question.views) < 2 and not question.spans:
        found = f"{len(question.views)} sensitive value"
        raise InputError(f"where={dict(where or {})} leaves {found}; twins need two or more.")
    return question


def with_twins(question: TwinQuestion, part: Part) -> Part:
    """The part and all twins of its people."""
    limits = dict(part.limits)
    for name, most in question.own.items():
        low, high = (Fraction(end) for end in part.limits[name])
        least, largest = question.everybody.limits[name]
        # Rounding to float must not cut anybody off; the ends of the sub-population are floats themselves.
        below, above = np.nextafter(float(low - most), -np.inf), np.nextafter(float(high + most), np.inf)
        limits[name] = (max(float(below), least), min(float(above), largest))
    return Part(limits)


def _allowed_differences(model: Model, relax: Relax | None) -> dict[str, Fraction]:
    allowed = [f.name for f in model.domain.free_features if isinstance(f, NUMERIC)]
    for name, most in (relax or {}).items():
        if name not in allowed:
            raise InputError(f"relax names '{name}', which is no free number; those are {shown(allowed, most=30)}.")
        if not (math.isfinite(most) and most >= 0):
            raise InputError(f"relax['{name}'] = {most} must be a number from 0 on: the most twins may differ by.")
    return {name: Fraction(most) for name, most in (relax or {}).items() if most > 0}
