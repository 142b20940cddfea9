"""How is a survey kept, and sent from one process to another? As bytes of safetensors and JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

from bornfair.core.errors import plain
from bornfair.people.survey import Seen, Survey

FACTS = "facts"


def to_bytes(survey: Survey) -> bytes:
    """
    >>> from bornfair.people.survey import Seen
    >>> people = pd.DataFrame({"age": [20, 30], "sex": ["f", None]})
    >>> one = Survey(2, {"age": Seen("age", 2)}, people, np.arange(2, dtype=np.uint64), seed=0, size=9)
    >>> from_bytes(to_bytes(one)).sample["sex"].tolist()
    ['f', None]
    """
    tensors = {"addresses": survey.addresses.view(np.int64)}
    texts: dict[str, Any] = {}
    for number, name in enumerate(survey.sample.columns):
        column = survey.sample[name]
        if column.dtype == bool or (isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf"):
            tensors[f"column.{number}"] = np.ascontiguousarray(column.to_numpy())
            continue
        declared = isinstance(column.dtype, pd.CategoricalDtype)
        codes, levels = (
            (column.cat.codes.to_numpy(), column.cat.categories) if declared
            else pd.factorize(column.astype(object))
        )  # fmt: skip
        tensors[f"column.{number}"] = np.ascontiguousarray(codes, np.int32)
        texts[str(number)] = {"levels": [plain(level) for level in levels], "declared": declared}
    facts = {
        "rows": survey.rows, "seed": survey.seed, "size": survey.size, "texts": texts,
        "names": [str(name) for name in survey.sample.columns],
        "together": None if survey.together is None else [list(row) for row in survey.together],
        "columns": [_seen_json(seen) for seen in survey.columns.values()],
    }  # fmt: skip
    return tensor_bytes(tensors | {FACTS: np.frombuffer(json.dumps(facts).encode(), np.uint8)})


def from_bytes(content: bytes) -> Survey:
    tensors = read_tensors(content)
    facts = json.loads(tensors[FACTS].tobytes())
    columns: dict[str, Any] = {}
    for number, name in enumerate(facts["names"]):
        stored = tensors[f"column.{number}"]
        if str(number) not in facts["texts"]:
            columns[name] = stored
            continue
        levels, declared = facts["texts"][str(number)]["levels"], facts["texts"][str(number)]["declared"]
        if declared:
            columns[name] = pd.Categorical.from_codes(stored, categories=levels)
        else:
            columns[name] = pd.Series(np.array([*levels, None], object)[stored], dtype=object)
    together = None if facts["together"] is None else tuple(tuple(row) for row in facts["together"])
    seen = {one["name"]: _seen(one) for one in facts["columns"]}
    addresses = tensors["addresses"].view(np.uint64)
    return Survey(facts["rows"], seen, pd.DataFrame(columns), addresses, facts["seed"], facts["size"], together)


def _seen_json(seen: Seen) -> dict[str, Any]:
    return vars(seen) | {"values": None if seen.values is None else [list(pair) for pair in seen.values.items()]}


def _seen(facts: dict[str, Any]) -> Seen:
    values = facts["values"]
    return Seen(**facts | {"values": None if values is None else dict(map(tuple, values))})
