"""Inputs and outputs of a foreign graph, as far as another graph needs them that is put around it.

Its operators may be any that onnxruntime runs; none of them is interpreted but those that name classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_value, shown
from bornfair.importers.onnx_file import OnnxFile
from bornfair.importers.onnx_node import UNKNOWN_ROWS
from bornfair.importers.source import rows_within
from bornfair.models.columns import Columns, Who, columns_for, with_classes
from bornfair.models.deciding import served
from bornfair.models.graph.around import Core, Form, LabelOutput, Taken
from bornfair.models.graph.wiring import reads_of
from bornfair.models.onnx_worker import CannotRun, ForeignGraph
from bornfair.models.operating import Operating
from bornfair.models.reading import Reading
from bornfair.people.domain import Domain
from bornfair.people.features import Value
from bornfair.people.tables import as_pandas

TRIED = 256  # people of the domain, to see what the outputs look like
ROWS = 1_024  # of a table
STEPS = 4_096  # shares that are tried at once, to find where a label turns
TIE = 1e-6  # shares as close as this may be decided either way
LABELS = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")


def onnx_core(file: OnnxFile, who: Who, asked: Reading) -> tuple[Core, Domain, Operating | None]:
    """Somebody's graph, who is asked about with its classes, and where its shares decide, if not by the largest."""
    if file.rows != UNKNOWN_ROWS:
        raise InputError(
            f"{file.origin} takes {file.rows} people at a time, and the mean over versions needs any number; export it "
            "with a first dimension that is not fixed."
        )
    columns = columns_for(file.wanted, who)
    model, gives, label, classes = _shown(file, asked)
    tried = _tried(file, model, columns, [gives] if label is None else [gives, label], who.table)
    found = np.asarray(tried[gives], np.float64).reshape(len(tried[gives]), -1)
    form = _form(model, gives, found, asked, file.origin)
    count = max(found.shape[1], 2)
    if classes is not None and len(classes) != count:
        raise InputError(f"{file.origin} names {len(classes)} classes, but shows {found.shape[1]} scores.")
    domain = with_classes(columns.domain, classes, count, who.target, file.origin)
    elements = {value.name: value.type.tensor_type.elem_type for value in file.graph.input}
    only = file.only_input
    if only is not None:
        takes: tuple[Taken, ...] = (Taken(only.name, elements[only.name], only.rank, columns.names),)
    else:
        pairs = zip(file.inputs, columns.names, strict=True)
        takes = tuple(Taken(one.name, elements[one.name], one.rank, (name,)) for one, name in pairs)
    core = Core(model, takes, gives, form)
    if label is None:
        return core, domain, _asked_point(asked, form, domain, file.origin)
    own = LabelOutput(label, _written(tried[label], domain, file.origin, label))
    point = _own_point(model, gives, form, tried, own, file.origin)
    return dataclasses.replace(core, label=own), domain, point


def _shown(file: OnnxFile, asked: Reading) -> tuple[Any, str, str | None, tuple[Value, ...] | None]:
    """The part of the graph that is needed, the output that shows the scores, the label if one decides, and the names
    of the classes.
    """
    from onnx import ModelProto

    label, scores = served(file.outputs, asked)
    if scores is None:
        raise InputError(
            f"{file.origin} shows no scores or probabilities, of which a mean could be taken; its outputs are "
            f"{shown(file.outputs.outputs)}. Export it with its probabilities."
        )
    model = ModelProto()
    model.CopyFrom(file.model)
    classes = None
    for node in reversed(model.graph.node):
        for attribute in node.attribute:
            if attribute.name in LABELS and classes is None:
                names = [text.decode(errors="replace") for text in attribute.strings] or list(attribute.ints)
                classes = tuple(names) or None
    gives = file.outputs.tensor(scores)
    needed = file.behind([gives] if label is None else [gives, label])  # others may read what these do not
    kept = [node for node in model.graph.node if needed.intersection(node.output)]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model, gives, label, classes


def _tried(file: OnnxFile, model: Any, columns: Columns, wanted: Sequence[str], table: Any) -> dict[str, np.ndarray]:
    """Outputs for people of the domain and of the table: [people, …]."""
    from onnx import ModelProto, ValueInfoProto

    people = columns.domain.sample(TRIED, seed=0)
    rows = rows_within(columns.domain, None if table is None else as_pandas(table), ROWS)
    if rows is not None:
        people = pd.concat([people, rows], ignore_index=True)
    feed = file.fed([(name, people[name]) for name in columns.names])
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.output[:]
    made.graph.output.extend(ValueInfoProto(name=name) for name in wanted)
    try:
        found = ForeignGraph(made.SerializeToString()).run(feed)
    except CannotRun as error:
        raise InputError(f"{file.origin} cannot be run by onnxruntime: {error}.") from error
    for name, answer in found.items():
        if len(answer) != len(people) or answer.ndim not in (1, 2):
            raise InputError(
                f"{file.origin}: output '{name}' has the shape {list(answer.shape)} for {len(people)} people; one row "
                "of scores for each is needed."
            )
    return found


def _form(model: Any, gives: str, found: np.ndarray, asked: Reading, origin: str) -> Form:
    single = found.shape[1] == 1
    if asked.decision == "label":
        raise InputError(f"{origin} is to be averaged by its scores; leave decision label out.")
    if asked.decision is not None:
        plain = asked.decision == "probability"
        return ("share" if plain else "logit") if single else ("shares" if plain else "logits")
    if not single:
        sums = bool((found >= 0).all() and np.allclose(found.sum(axis=1), 1.0, atol=1e-3))
        return "shares" if sums else "logits"
    if any(gives in node.output and node.op_type == "Sigmoid" for node in model.graph.node):
        return "share"
    raise InputError(
        f"{origin} shows one number for each person, and nothing says what it is; say so with decision (--decision) "
        "probability or logit."
    )


def _asked_point(asked: Reading, form: Form, domain: Domain, origin: str) -> Operating | None:
    """The threshold that is asked for."""
    if asked.threshold is None:
        return None
    classes, logits = domain.classes.tolist(), form == "logit" or asked.decision == "logit"
    if form == "logits" and not (logits and len(classes) == 2):
        raise InputError(
            f"{origin} shows logits of {len(classes)} classes: give the threshold with decision logit "
            "(--decision logit) for two classes, or export the model with its probabilities."
        )
    return Operating.of(asked.point(classes), classes, logits=logits)


# --- where it decides itself ---


def _written(found: np.ndarray, domain: Domain, origin: str, name: str) -> tuple[Value, ...]:
    """How the graph writes the classes, in order."""
    classes, seen = domain.classes.tolist(), {plain_value(value) for value in found.ravel()}
    if found.size != len(found):
        raise InputError(f"{origin}: output '{name}' gives {found.size // len(found)} labels for each person.")
    ways: list[tuple[Value, ...]] = [tuple(range(len(classes)))]
    if any(isinstance(value, str) for value in seen):
        ways = [tuple(map(str, classes))]
    elif all(isinstance(one, (bool, int)) for one in classes):
        ways.insert(0, tuple(int(one) for one in classes))
    for way in ways:
        if seen <= set(way):
            return way
    raise InputError(
        f"{origin}: output '{name}' gives {shown(sorted(seen, key=str))}, but the classes are {shown(classes)}; name "
        "the column of its answers as target, or leave the output out."
    )


def _own_point(
    model: Any, gives: str, form: Form, tried: dict[str, np.ndarray], label: LabelOutput, origin: str
) -> Operating | None:
    """Where the shares decide as the graph's own label does; None: the largest. Refused where that is not known."""
    shares = _shares(tried[gives], form)
    decided = np.array([label.values.index(plain_value(value)) for value in tried[label.name].ravel()])
    ranked = np.sort(shares, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > TIE
    if np.array_equal(shares.argmax(axis=1)[clear], decided[clear]):
        return None
    wrong = int((shares.argmax(axis=1) != decided)[clear].sum())
    what = f"{origin}: its output '{label.name}' is not the class with the largest share for {wrong} of {len(decided)}"
    if shares.shape[1] > 2:
        raise InputError(f"{what} people, so a mean of shares is not its decision; export it with shares that decide.")
    found = _turning_point(model, gives, form, tried[gives], label)
    if found is not None and np.array_equal(found.decide(shares), decided):
        return found
    low, high = shares[decided == 0, 1].max(initial=0.0), shares[decided == 1, 1].min(initial=1.0)
    between = f"the last class begins between {low:.4g} and {high:.4g}" if low <= high else "no threshold explains it"
    raise InputError(f"{what} people, and {between}; name the share above which the last class is decided (threshold).")


def _shares(found: np.ndarray, form: Form) -> np.ndarray:
    """Outputs as shares of the classes, as the graph around makes them."""
    wide = np.asarray(found, np.float64).reshape(len(found), -1)
    if form == "logits":
        grown = np.exp(wide - wide.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True)
    if form == "shares":
        return wide
    last = 1 / (1 + np.exp(-wide)) if form == "logit" else wide
    return np.concatenate([1 - last, last], axis=1)


def _turning_point(model: Any, gives: str, form: Form, like: np.ndarray, label: LabelOutput) -> Operating | None:
    """The largest share for which the first of two classes is decided, if the label depends on shares alone: tried from
    0 to 1, then between neighbours down to the last bit.
    """
    part = None if form in ("logit", "logits") else _between(model, gives, label.name, like)
    if part is None:
        return None
    graph = ForeignGraph(part)

    def decided(last: np.ndarray) -> np.ndarray:
        both = np.stack([1 - last, last], axis=1) if form == "shares" else last[:, None]
        found = graph.run({gives: both.astype(like.dtype).reshape(-1, *like.shape[1:])})[label.name]
        return np.array([label.values.index(plain_value(value)) for value in found.ravel()])

    low, high = 0.0, 1.0
    try:
        while True:
            numbers = np.unique(np.linspace(low, high, STEPS).astype(like.dtype))
            classes = decided(numbers)
            turns = np.flatnonzero(np.diff(classes))
            if len(turns) != 1 or classes[0] != 0:
                return None
            low, high = float(numbers[turns[0]]), float(numbers[turns[0] + 1])
            if np.nextafter(like.dtype.type(low), like.dtype.type(high)) == like.dtype.type(high):
                return Operating((low,))
    except (CannotRun, ValueError):
        return None


def _between(model: Any, start: str, end: str, like: np.ndarray) -> bytes | None:
    """The part of a graph that leads from one value to another; None if anything else reaches it."""
    from onnx import ModelProto, ValueInfoProto, helper

    needed, kept = {end}, []
    for node in reversed(model.graph.node):
        if needed & set(node.output) and start not in node.output:
            kept.append(node)
            needed |= reads_of(node)
    if needed & {value.name for value in model.graph.input} - {start} or start not in needed:
        return None
    made = ModelProto()
    made.CopyFrom(model)
    for field in (made.graph.node, made.graph.input, made.graph.output, made.graph.value_info):
        del field[:]
    made.graph.node.extend(reversed(kept))
    kind = helper.np_dtype_to_tensor_dtype(like.dtype)
    made.graph.input.append(helper.make_tensor_value_info(start, kind, ["rows", *like.shape[1:]]))
    made.graph.output.append(ValueInfoProto(name=end))
    return made.SerializeToString()
