"""Repair of anything: the mean of the original over all versions of a person, with its graph inside of ours.

Nothing is trained, and nothing of the original is interpreted: whatever it computes, the mean is the same for all
twins, which the wires of the new graph show. People whose versions the original decides alike keep their decision; the
mean of others decides at the original's own operating point, or at the threshold that is asked for.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_value
from bornfair.importers.onnx_core import onnx_core
from bornfair.importers.onnx_file import read_onnx
from bornfair.models.columns import Wanted, Who, columns_for, with_classes
from bornfair.models.graph.around import WIRED, Core, around
from bornfair.models.graph.model import WiredModel
from bornfair.models.network.network import decisions
from bornfair.models.operating import Operating
from bornfair.models.protocol import Exportable
from bornfair.models.reading import Reading
from bornfair.people.domain import Domain
from bornfair.people.levels import as_listed, class_positions
from bornfair.people.policies import decidable
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Folding
from bornfair.proof.bundle import FairGraph
from bornfair.proof.certificate import certified
from bornfair.questions import Question
from bornfair.questions.repairing.changes import RepairedModel, compare, quality_of, recorded
from bornfair.questions.repairing.exporting import FittedEstimator, graph_of
from bornfair.training.provenance import operating_facts

MEASURED_ON = "rows of the table"
COMPARED_ROWS = 2_048  # on which a converted estimator is compared with itself


@dataclass(frozen=True, eq=False, kw_only=True)
class RepairedGraph(RepairedModel):
    """The mean over all versions of a person, certified by its wires; the original is the graph as it came in ours."""

    model: FairGraph
    versions: int
    """Over how many versions of each person the mean goes."""

    def _of_its_kind(self) -> dict[str, Any]:
        return {"versions": self.versions, "thresholds": self.model.thresholds}


def repair_by_average(model: Any, who: Who, asked: Reading, *, test: Any, seed: int) -> RepairedGraph:
    """The mean of a model of any kind over all versions of each person; measured on the rows of a table, which it does
    not learn from.
    """
    began = time.perf_counter()
    core, domain, at = _core(model, who, asked)
    original = WiredModel(around(core, domain, "as it is", at=at), domain)
    done = certified(FairGraph(around(core, domain, "average", at=at), domain), timeout=60.0, seed=seed)
    rows, answers, left_out = _measured(domain, who, test)
    after = decisions(done.scores(rows))
    assert done.certificate is not None
    quality = quality_of(done, after, answers)
    told = dataclasses.replace(done.certificate, training={"repair": {"method": "average"}} | operating_facts(done))
    done = dataclasses.replace(done, certificate=recorded(told, quality, MEASURED_ON, len(rows)))
    notes = [f"{left_out:,} rows with gaps were left out." if left_out else ""]
    if original.ignores_sensitive:
        notes.append(f"The original reads none of {', '.join(domain.sensitive)}.")
    return RepairedGraph(
        model=done,
        original=original,
        versions=Folding(domain).size,
        quality_before=quality_of(original, decisions(original.scores(rows)), answers),
        quality_after=quality,
        fairness_before=original.empirical_fairness(rows),
        changes=compare(original, done, rows),
        note=" ".join(filter(None, notes)),
        seconds=time.perf_counter() - began,
        seed=seed,
    )


def _measured(domain: Domain, who: Who, test: Any) -> tuple[pd.DataFrame, np.ndarray | None, int]:
    table = as_pandas(who.table if test is None else test)
    rows, gaps = decidable(domain, as_listed(domain, table), {}, target=who.target)
    if not len(rows):
        raise InputError("there are 0 rows to measure on; give a table of people the model decides about.")
    answers = None
    if who.target is not None:
        assert domain.label is not None
        answers = class_positions(rows[who.target], list(domain.label.classes), gaps=True)
    return rows, answers, gaps.left_out


# --- whatever it is, as a graph ---


def _core(model: Any, who: Who, asked: Reading) -> tuple[Core, Domain, Operating | None]:
    if isinstance(model, (str, Path)) and Path(model).suffix.lower() == ".onnx":
        file = read_onnx(model)
        if not any(key.startswith("bornfair.") for key in file.metadata):
            return onnx_core(file, who, asked)
    asking: dict[str, Any] = {
        "domain": who.domain, "table": who.table, "target": who.target, "twins": who.twins,
        "sensitive_features": list(who.sensitive or ()) or None, "decision": asked.decision,
        "threshold": asked.threshold, "normalise": asked.normalise, "combinations": who.combinations,
        "decision_output": asked.decision_output,
    }  # fmt: skip
    try:
        read = Question.of(model, **{name: value for name, value in asking.items() if value is not None}).model
    except InputError as unread:
        if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
            raise
        return _of_estimator(model, who, asked, str(unread))
    if not isinstance(read, Exportable):
        if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
            raise InputError(read.unread)
        return _of_estimator(model, who, asked, read.unread)
    if read.kind == "graph":
        raise InputError(f"the model is one of bornfair's own graphs already ({WIRED}); repair what is inside of it.")
    return Core.of_own(read.graph_bytes(), read.domain), read.domain, read.rule_on_shares()


def _of_estimator(model: Any, who: Who, asked: Reading, unread: str) -> tuple[Core, Domain, Operating | None]:
    names = getattr(model, "feature_names_in_", None)
    origin = type(model).__name__
    if asked.decision in ("logit", "label"):
        raise InputError(f"{origin} is averaged by its predict_proba; leave decision (--decision) out.")
    wanted = Wanted(origin, None if names is None else tuple(map(str, names)), int(model.n_features_in_), numbers=False)
    columns = columns_for(wanted, who)
    classes = tuple(plain_value(value) for value in model.classes_)
    domain = with_classes(columns.domain, classes, len(classes), who.target, origin)
    at = None if asked.threshold is None else Operating.of(asked.point(classes), classes)
    fitted = FittedEstimator(model, domain, columns.names, _rows_of(domain, who), named=names is not None)
    core, at = graph_of(fitted, unread, at=at)
    return core, domain, at


def _rows_of(domain: Domain, who: Who) -> pd.DataFrame | None:
    """People of the table whose values are all known and in the domain."""
    table = None if who.table is None else as_pandas(who.table)
    if table is None or not set(domain.names) <= set(map(str, table.columns)):
        return None
    rows = table[list(domain.names)].dropna()
    rows = rows[~domain.outside(rows)]
    return rows.sample(min(COMPARED_ROWS, len(rows)), random_state=0)
