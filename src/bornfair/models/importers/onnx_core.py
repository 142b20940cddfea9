"""What has to be known of somebody's graph to put another around it? What it takes, and which output shows what.

Its operators may be any that onnxruntime runs; none of them is interpreted but those that name classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bornfair.errors import InputError, shown
from bornfair.models.importers.columns import Columns, Who, columns_for, with_classes
from bornfair.models.importers.onnx_file import OnnxFile, as_input
from bornfair.models.importers.onnx_node import UNKNOWN_ROWS
from bornfair.models.importers.onnx_worker import CannotRun, ForeignGraph
from bornfair.models.importers.reading import Reading
from bornfair.models.wired_graph import Core, Form, Taken
from bornfair.people.domain import Domain
from bornfair.people.features import Value

TRIED = 64  # people of the domain, to see what the output looks like
FLOATS = (1, 10, 11, 16)  # float, float16, double, bfloat16
LABELS = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")


def onnx_core(file: OnnxFile, who: Who, asked: Reading) -> tuple[Core, Domain, float | None]:
    """Somebody's graph, who is asked about with its classes, and the share above which it decides, if not ½."""
    if file.rows != UNKNOWN_ROWS:
        raise InputError(
            f"{file.origin} takes {file.rows} people at a time, and the mean over versions needs any number; export it "
            "with a first dimension that is not fixed."
        )
    columns = columns_for(file.wanted, who)
    model, gives, classes = _shown(file)
    found = _tried(file, model, columns, gives)
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
    assert domain.label is not None
    return Core(model, takes, gives, form), domain, _at(asked.for_classes(domain.label.classes), form, file.origin)


def _shown(file: OnnxFile) -> tuple[Any, str, tuple[Value, ...] | None]:
    """The graph without what makes dictionaries of its scores, the output that shows them, and the classes' names."""
    from onnx import ModelProto

    model = ModelProto()
    model.CopyFrom(file.model)
    zipped = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "ZipMap"}
    classes = None
    for node in reversed(model.graph.node):
        for attribute in node.attribute:
            if attribute.name in LABELS and classes is None:
                names = [text.decode(errors="replace") for text in attribute.strings] or list(attribute.ints)
                classes = tuple(names) or None
    kept = [node for node in model.graph.node if node.op_type != "ZipMap"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    candidates = [
        zipped.get(output.name, output.name) for output in file.graph.output
        if output.name in zipped or output.type.tensor_type.elem_type in FLOATS
    ]  # fmt: skip
    if not candidates:
        raise InputError(
            f"{file.origin} shows no scores or probabilities, of which a mean could be taken; its outputs are "
            f"{shown(output.name for output in file.graph.output)}. Export it with its probabilities."
        )
    likely = [name for name in candidates if "prob" in name.lower()]
    return model, (likely or candidates)[-1], classes


def _tried(file: OnnxFile, model: Any, columns: Columns, gives: str) -> np.ndarray:
    """What the output shows for people of the domain: [people, columns]."""
    from onnx import ModelProto, ValueInfoProto

    people = columns.domain.sample(TRIED, seed=0)
    only = file.only_input
    given = file.inputs if only is None else [only] * len(columns.names)
    values = [
        as_input(people[name].to_numpy(object), one, name, file.origin)
        for one, name in zip(given, columns.names, strict=True)
    ]
    if only is not None:
        feed = {only.name: np.stack(values, axis=1)}
    else:
        feed = {one.name: v if one.rank == 1 else v[:, None] for one, v in zip(given, values, strict=True)}
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.output[:]
    made.graph.output.append(ValueInfoProto(name=gives))
    try:
        found = ForeignGraph(made.SerializeToString()).run(feed)[gives]
    except CannotRun as error:
        raise InputError(f"{file.origin} cannot be run by onnxruntime: {error}.") from error
    if len(found) != len(people) or found.ndim not in (1, 2):
        raise InputError(
            f"{file.origin}: output '{gives}' has the shape {list(found.shape)} for {len(people)} people; one row of "
            "scores for each is needed."
        )
    return np.asarray(found, np.float64).reshape(len(people), -1)


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


def _at(asked: Reading, form: Form, origin: str) -> float | None:
    if asked.threshold is None:
        return None
    if not isinstance(asked.threshold, float) or form in ("logits",):
        raise InputError(f"{origin} is averaged: its threshold must be one number for the last class.")
    return 1 / (1 + math.exp(-asked.threshold)) if form == "logit" else asked.threshold
