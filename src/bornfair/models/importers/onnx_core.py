"""What has to be known of somebody's graph to put another around it? What it takes, and which output shows what.

Its operators may be any that onnxruntime runs; none of them is interpreted but those that name classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bornfair.errors import InputError, plain_value, shown
from bornfair.models.deciding import served
from bornfair.models.importers.columns import Columns, Who, columns_for, with_classes
from bornfair.models.importers.onnx_file import OnnxFile, as_input
from bornfair.models.importers.onnx_node import UNKNOWN_ROWS
from bornfair.models.importers.onnx_worker import CannotRun, ForeignGraph
from bornfair.models.importers.reading import Reading
from bornfair.models.wired_graph import Core, Decides, Form, Taken
from bornfair.people.domain import Domain
from bornfair.people.features import Value

TRIED = 64  # people of the domain, to see what the output looks like
LABELS = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")


def onnx_core(file: OnnxFile, who: Who, asked: Reading) -> tuple[Core, Domain, float | None]:
    """Somebody's graph, who is asked about with its classes, and the share above which it decides, if not ½."""
    if file.rows != UNKNOWN_ROWS:
        raise InputError(
            f"{file.origin} takes {file.rows} people at a time, and the mean over versions needs any number; export it "
            "with a first dimension that is not fixed."
        )
    columns = columns_for(file.wanted, who)
    model, gives, label, classes = _shown(file, asked)
    found, labels = _tried(file, model, columns, gives, label)
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
    decides = None if label is None else Decides(label, _keys(labels, domain, label, file.origin))
    return Core(model, takes, gives, form, decides), domain, _at(asked, form, file.origin)


def _shown(file: OnnxFile, asked: Reading) -> tuple[Any, str, str | None, tuple[Value, ...] | None]:
    """The graph without what makes dictionaries of its scores, the output that shows them, the label that decides if
    there is one, and the names of the classes.
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
    kept = [node for node in model.graph.node if node.op_type != "ZipMap"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model, file.outputs.tensor(scores), label, classes


def _tried(
    file: OnnxFile, model: Any, columns: Columns, gives: str, label: str | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """What the outputs show for people of the domain: scores [people, columns], and labels."""
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
    made.graph.output.extend(ValueInfoProto(name=name) for name in (gives, label) if name is not None)
    try:
        outputs = ForeignGraph(made.SerializeToString()).run(feed)
    except CannotRun as error:
        raise InputError(f"{file.origin} cannot be run by onnxruntime: {error}.") from error
    found = outputs[gives]
    if len(found) != len(people) or found.ndim not in (1, 2):
        raise InputError(
            f"{file.origin}: output '{gives}' has the shape {list(found.shape)} for {len(people)} people; one row of "
            "scores for each is needed."
        )
    labels = None if label is None else outputs[label]
    if labels is not None and labels.shape not in ((len(people),), (len(people), 1)):
        raise InputError(
            f"{file.origin}: output '{label}' has the shape {list(labels.shape)} for {len(people)} people; one label "
            "for each is needed."
        )
    return np.asarray(found, np.float64).reshape(len(people), -1), labels


def _keys(labels: np.ndarray | None, domain: Domain, name: str, origin: str) -> tuple[Value, ...]:
    """The values of a label, in the order of the classes: their names, or their positions."""
    assert labels is not None and domain.label is not None
    seen = {plain_value(value) for value in labels.ravel().tolist()}
    for keys in (domain.label.classes, tuple(range(len(domain.label.classes)))):
        if seen <= set(keys):
            return keys
    raise InputError(f"{origin}: output '{name}' gives {shown(seen)}; the classes are {shown(domain.label.classes)}.")


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
        raise InputError(f"{origin} is averaged: its threshold must be one number, a share or a logit.")
    return 1 / (1 + math.exp(-asked.threshold)) if form == "logit" else asked.threshold
