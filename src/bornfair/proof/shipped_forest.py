"""The forest inside a model.onnx, as the checker read it: trees over raw columns, summed in float64."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import Cut, Forest, Summation
from bornfair.models.forest.onnx_graph import METADATA
from bornfair.models.forest.planting import Planting
from bornfair.proof import checker


def shipped_forest(found: checker.ForestGraph, origin: str) -> tuple[Forest, tuple[str, ...], dict[str, float]]:
    """The forest, the features that its inputs are, and the thresholds it was asked to decide at."""
    planting = Planting(origin, found.outputs)
    for root in found.roots:
        planting.add(**_tree(found, root))
    names = tuple(dict.fromkeys(place.feature for place in found.places))
    columns = [_column(names.index(place.feature), place) for place in found.places]
    at = tuple(float(number) for number in found.at)
    alone = found.outputs == 1
    offsets = () if alone or not any(at) else at
    cut = Cut(at=at[0] if alone else 0.0, link=found.link, slope=found.slope, offsets=offsets)  # type: ignore[arg-type]
    forest = planting.forest(names, columns, _summation(found, origin), cut)
    return forest, names, _operating(found.metadata, origin)


def _tree(found: checker.ForestGraph, root: int) -> dict[str, Any]:
    rows: list[list[Any]] = []
    values: list[np.ndarray] = []
    waiting = [(found.yes[root] if found.is_idle(root) else root, -1, 0)]
    while waiting:
        at, parent, side = waiting.pop()
        here, value = len(rows), np.zeros(found.outputs)
        if parent >= 0:
            rows[parent][3 + side] = here
        if at < 0:
            value[found.targets[~at]] = found.weights[~at]
            rows.append([-1, 0.0, -1, -1, -1, False])
        else:
            rows.append([found.reads[at], float(found.splits[at]), -1, -1, -1, bool(found.missing[at])])
            waiting += [(found.no[at], here, 1), (found.yes[at], here, 0)]
        values.append(value)
    column, threshold, members, left, right, missing_left = map(list, zip(*rows, strict=True))
    return {
        "column": column, "threshold": threshold, "members": members, "left": left, "right": right,
        "missing_left": missing_left, "values": np.array(values),
    }  # fmt: skip


def _column(source: int, place: checker.TreeColumn) -> SplitColumn:
    if place.table is None or not place.others:  # a number, or true/false, which is one
        return SplitColumn(source, ())
    missing, other = map(float, place.others)
    return SplitColumn(
        source,
        (),
        tuple((level, float(number)) for level, number in place.table.items() if level is not None),
        other,
        missing,
    )


def _summation(found: checker.ForestGraph, origin: str) -> Summation:
    steps = [(operator, tuple(map(float, numbers))) for operator, numbers in found.steps]
    operators = [operator for operator, _ in steps]
    if operators.count("Add") > 1:
        raise InputError(f"'{origin}' adds two base scores, which no model of bornfair does; was the file edited?")
    given = dict(steps)
    base = given.get("Add", (0.0,) * found.outputs)
    first = "Add" not in operators or operators.index("Add") == 0
    divisor, scale = given.get("Div", (1.0,))[0], given.get("Mul", (1.0,))[0]
    return Summation("float64", base, first, divisor, scale, in_order=False)


def _operating(metadata: dict[str, str], origin: str) -> dict[str, float]:
    try:
        told = json.loads(metadata[METADATA])["operating"]
        found = {str(name): float(share) for name, share in told.items()}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"'{origin}' was not written by bornfair: its metadata do not say where it decides."
        ) from error
    if not all(map(math.isfinite, found.values())):
        raise InputError(f"'{origin}': its metadata say that it decides at no number; was the file edited?")
    return found
