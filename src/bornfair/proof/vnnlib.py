"""Queries for other verifiers: one network and one property, in the formats of VNN-COMP.

The network (ONNX) runs two copies at once, [u, c, c'] → [f(u, c), f(u, c')]; the property (VNN-LIB 1.0) says that u is
somebody of the domain, that c and c' are the codes of two sensitive values, and that the decisions differ. Every number
in it is a float32 written out in full, so that readers in float32, float64 and exact arithmetic read the same one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bornfair.core.checks import number
from bornfair.core.errors import InputError, shown
from bornfair.core.files import write_folder
from bornfair.models.network.activations import ACTIVATIONS
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC
from bornfair.people.twins.relation import free_space
from bornfair.people.twins.versions import require_flip_only

NETWORK, PROPERTY = "query.onnx", "query.vnnlib"
MOST_CASES = 20_000
"""Most members of the disjunction: readers copy the whole input box for each."""
OPSET, IR_VERSION = 17, 8  # old enough for verifiers that follow ONNX slowly


class Query(NamedTuple):
    """The files that were written."""

    network: Path
    property: Path


def export_query(model: Model, folder: str | Path, *, margin: float = 0.0) -> Query:
    """Write `query.onnx` and `query.vnnlib` into a folder of their own: unsat means that no unfair twins exist.

    margin: how far above 0 the positive twin's score must be. At 0, the default, no twins are left out, but somebody
    whose score is exactly 0 in both copies counts as a candidate too, and almost every network has such a point; a
    small margin lets verifiers pass over it, and over twins closer to 0 than that.
    """
    encoding, network = model.encoding, model.network
    require_flip_only(encoding, "a query for other verifiers", "ask with bornfair verify")
    number("margin", margin, 0.0, 1e30)
    margin = _float32_below(Fraction(float(margin)))  # never more than asked: more would leave more twins out
    _check_exportable(model, margin)
    exact = encoding.sensitive.listed_codes
    codes = exact.astype(np.float32)
    if not np.array_equal(codes, exact):
        raise InputError("a view of the relation has a code that is not a float32 number; round the offsets.")
    cases = _cases(codes, network.outputs, encoding.free_width, margin)
    lines = [*_header(model, margin), *_statements(*_bounds(encoding), codes, network.outputs, cases)]
    text = "\n".join(lines) + "\n"
    content = product_network(network, encoding.free_width).SerializeToString(deterministic=True)
    write_folder(folder, {NETWORK: content, PROPERTY: text.encode()}, marker=PROPERTY)
    return Query(Path(folder) / NETWORK, Path(folder) / PROPERTY)


def product_network(network: Network, free_width: int) -> onnx.ModelProto:
    """Two copies of a network side by side: [u, c, c'] → [f(u, c), f(u, c')], as one plain stack of layers."""
    first, *later = network.layers
    W, V = first.weight[:, :free_width], first.weight[:, free_width:]
    nothing = np.zeros_like(V)
    weights = [np.block([[W, V, nothing], [W, nothing, V]])]
    for layer in later:
        apart = np.zeros_like(layer.weight)
        weights.append(np.block([[layer.weight, apart], [apart, layer.weight]]))

    nodes, tensors, value = [], [], "X"
    for i, (weight, layer) in enumerate(zip(weights, network.layers, strict=True)):
        if i:
            given, value = f"sum{i - 1}", f"hidden{i - 1}"
            nodes.append(helper.make_node(network.function.operator, [given], [value], f"activation{i - 1}"))
        parameters = {f"weight{i}": weight, f"bias{i}": np.tile(layer.bias, 2)}
        tensors += [numpy_helper.from_array(numbers, name) for name, numbers in parameters.items()]
        total = "Y" if i == len(weights) - 1 else f"sum{i}"
        nodes.append(helper.make_node("Gemm", [value, *parameters], [total], f"layer{i}", transB=1))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])
        for name, width in (("X", weights[0].shape[1]), ("Y", len(weights[-1])))
    ]
    graph = helper.make_graph(nodes, "twins", ends[:1], ends[1:], tensors)
    opset = [helper.make_opsetid("", OPSET)]
    product = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="bornfair")
    onnx.checker.check_model(product, full_check=True)
    return product


def _check_exportable(model: Model, margin: float) -> None:
    """Refuse what cannot be asked, before anything as large as the question is made."""
    encoding, network = model.encoding, model.network
    if network.function.opset > OPSET:
        known = [name for name, function in ACTIVATIONS.items() if function.opset <= OPSET]
        raise InputError(
            f"a network with {network.activation} cannot be asked about: ONNX {OPSET}, which verifiers read, has no "
            f"such operator; train with one of {shown(known)}."
        )
    if margin > 0 and network.outputs > 1:
        raise InputError(
            f"margin={margin:g} needs a network with one score, found {network.outputs}: VNN-LIB readers compare two "
            "scores without a distance; leave margin out."
        )
    encoding.domain.require_sensitive()
    if encoding.sensitive.spans:
        raise InputError(
            f"{shown(encoding.domain.real_sensitive)} is a real number, of which every value counts, and a query lists "
            "sensitive values one by one; ask about whole numbers or bands instead."
        )
    values = encoding.domain.sensitive_space.size
    pairs = math.comb(values, 2)
    cases = pairs * max(network.outputs * (network.outputs - 1), 2)
    if cases > MOST_CASES:
        raise InputError(
            f"{values:,} sensitive values make {pairs:,} pairs and {cases:,} cases, more than the {MOST_CASES:,} that "
            "verifiers read; keep only the combinations that exist, use fewer levels or bands, or name fewer features "
            "sensitive."
        )


# --- the property ---


def _bounds(encoding: Encoding) -> tuple[list[float], list[float]]:
    """Float32 bounds of each free column that hold everybody, before and after `encode` rounds.

    The free space has the ends as `encode` computes them in float64; the ends as the raw values say may lie a rounding
    further out.
    """
    free = free_space(encoding)
    names = encoding.column_names()
    for i, ends in enumerate(zip(free.low, free.high, strict=True)):
        if not np.abs(ends).max() < np.finfo(np.float32).max:
            raise InputError(
                f"column '{names[i]}' reaches {ends[0]:g} to {ends[1]:g} as network input, more than float32 holds; "
                "narrow its range in the domain."
            )
    low, high = ([Fraction(float(end)) for end in ends] for ends in (free.low, free.high))
    for feature in encoding.domain.free_features:
        if isinstance(feature, NUMERIC):
            place, column = encoding.free_columns()[feature.name].start, encoding.number(feature.name)
            low[place] = min(low[place], *column.exact(feature.low))
            high[place] = max(high[place], *column.exact(feature.high))
    return [_float32_below(end) for end in low], [-_float32_below(-end) for end in high]


def _float32_below(exact: Fraction) -> float:
    """The largest float32 that is not above a number.

    >>> _float32_below(Fraction(-3, 2)), _float32_below(Fraction(1, 10)) < 0.1
    (-1.5, True)
    """
    near = np.float32(float(exact))
    if Fraction(float(near)) > exact:
        near = np.nextafter(near, np.float32(-np.inf))
    return float(near)


def _cases(codes: np.ndarray, outputs: int, free: int, margin: float) -> Iterator[str]:
    """Members of the disjunction. The two copies are alike, so each pair of values stands in one order only, with all
    ways of deciding differently; readers that merge cases of one input box then have one box for each pair.
    """
    differ = _differing(outputs, margin)
    for one, other in itertools.combinations(codes, 2):
        both = map(_number, (*one, *other))
        fixed = [f"(>= X_{free + i} {code}) (<= X_{free + i} {code})" for i, code in enumerate(both)]
        for decided in differ:
            yield f"(and {' '.join([*fixed, decided])})"


def _differing(outputs: int, margin: float) -> list[str]:
    """Every way in which the two copies decide differently; `>` and first-of-equals are widened to `>=`."""
    if outputs == 1:
        least = _number(margin)
        return [f"(>= Y_0 {least}) (<= Y_1 0.0)", f"(>= Y_1 {least}) (<= Y_0 0.0)"]
    ways = []
    for a, b in itertools.permutations(range(outputs), 2):
        picks = [f"(>= Y_{a} Y_{k})" for k in range(outputs) if k != a]
        picks += [f"(>= Y_{outputs + b} Y_{outputs + k})" for k in range(outputs) if k != b]
        ways.append(" ".join(picks))
    return ways


def _statements(
    low: Sequence[float], high: Sequence[float], codes: np.ndarray, outputs: int, cases: Iterable[str]
) -> Iterator[str]:
    # Some readers ask for a box around all inputs, so the codes get one too; the cases then say which they are.
    lows = [*low, *codes.min(axis=0), *codes.min(axis=0)]
    highs = [*high, *codes.max(axis=0), *codes.max(axis=0)]
    yield from (f"(declare-const X_{i} Real)" for i in range(len(lows)))
    yield from (f"(declare-const Y_{j} Real)" for j in range(2 * outputs))
    for i, (least, most) in enumerate(zip(lows, highs, strict=True)):
        yield f"(assert (>= X_{i} {_number(least)}))"
        yield f"(assert (<= X_{i} {_number(most)}))"
    yield "(assert (or"
    yield from cases
    yield "))"


def _number(value: float | np.floating[Any]) -> str:
    """A number with all its digits and no exponent, which some readers do not know.

    >>> _number(-1.5), _number(np.float32(0.1)), _number(-0.0)
    ('-1.5', '0.100000001490116119384765625', '0.0')
    """
    text = format(Decimal(float(value) + 0.0), "f")
    return text if "." in text else f"{text}.0"


# --- the words ---


def _header(model: Model, margin: float) -> list[str]:
    """What is asked, in plain words. Names are escaped to ASCII: a line break in one must not become a statement."""
    encoding, outputs = model.encoding, model.network.outputs
    sensitive = ", ".join(ascii(name) for name in model.domain.sensitive)
    text = [
        f"Do unfair twins exist: two people who differ only in {sensitive} and get different decisions?",
        f"Asked of {NETWORK}, which runs one network twice: X = [u, c, c'], Y = [f(u, c), f(u, c')].",
        "u is what the twins share; c and c' are the codes of their sensitive values.",
        "",
        "unsat: no such twins exist. That answer is final.",
        "sat: a candidate only. Decode it, round it to a person and decide that person twice, because",
        "  - whole numbers and one-hot groups (exactly one 1) are widened to intervals here;",
        "  - bounds are rounded outwards to float32, so that nobody is cut off;",
        *_strictness(outputs, margin),
        "What holds in real numbers may fail in float32 in the last bit; ask the verifier which it speaks of.",
        "",
        *_input_lines(encoding),
        *_output_lines(model),
        "",
        "Cases: each pair of sensitive values stands once, because the copies are alike, with every way of deciding",
        f"differently ({max(outputs * (outputs - 1), 2)} cases), in this order (first copy / second copy):",
    ]
    sensitive_names = model.domain.sensitive
    values = [
        ", ".join(f"{name!a} = {item!a}" for name, item in zip(sensitive_names, value, strict=True))
        for value in model.domain.sensitive_space.values
    ]
    pairs = itertools.combinations(values, 2)
    text += [f"  {i}: {one} / {other}" for i, (one, other) in enumerate(pairs, start=1)]
    return [f"; {line}".rstrip() for line in text]


def _strictness(outputs: int, margin: float) -> list[str]:
    if outputs > 1:
        return [
            "  - the decision is the largest score, the first of equal ones; here every one of equal scores counts as",
            "    the largest, so a tie in both copies is a candidate although the decisions are the same.",
        ]
    if margin == 0:
        return [
            "  - the positive decision is score > 0; here it is score >= 0, because readers know no strict comparison,",
            "    so a score of exactly 0 in both copies is a candidate although the decisions are the same.",
        ]
    return [
        f"  - the positive decision is score > 0; here it is score >= {_number(margin)} (margin).",
        "Because of the margin, unsat does not speak of twins one of whom has a score above 0 and below it.",
    ]


def _input_lines(encoding: Encoding) -> list[str]:
    lines, columns = ["Inputs:"], encoding.free_columns()
    for feature in encoding.domain.free_features:
        place, name = columns[feature.name], ascii(feature.name)
        if isinstance(feature, NUMERIC):
            scale = encoding.scales[feature.name]
            kind = "whole" if feature.kind == "integer" else "real"
            lines.append(
                f"  X_{place.start}: ({name} - {scale.centre!r}) / 2^{scale.exponent}, "
                f"{kind} numbers from {feature.low!r} to {feature.high!r}"
                + "".join(f", {'at most' if step == 'Min' else 'at least'} {end!r}" for step, end in scale.holding)
            )
            if (gap := encoding.gap(feature.name)) is not None:
                lines.append(
                    f"  X_{place.start + 1}: 1 if {name} is missing, else 0; missing, it is shown as {gap.fill!r}, and "
                    "with other numbers beside it, which are allowed here, nobody exists"
                )
        elif feature.kind == "boolean":
            lines.append(f"  X_{place.start}: {name}, 0 for False and 1 for True")
        else:
            lines += [f"  X_{place.start + i}: 1 if {name} is {level!a}" for i, level in enumerate(feature.levels())]
    free, width = encoding.free_width, encoding.sensitive_width
    for i, name in enumerate(encoding.column_names()[free:]):
        lines.append(f"  X_{free + i} and X_{free + width + i}: code of {name!a}, first and second copy")
    return lines


def _output_lines(model: Model) -> list[str]:
    outputs, label = model.network.outputs, model.domain.label
    classes = tuple(range(max(outputs, 2))) if label is None else label.classes
    each = [f"  Y_{k} and Y_{outputs + k}: score of {c!a}, first and second copy" for k, c in enumerate(classes)]
    if outputs == 1:
        no, yes = classes[:2]
        each = [f"  Y_0 and Y_1: score of the first and second copy, {yes!a} if above 0, else {no!a}"]
    return ["Outputs:", *each]
