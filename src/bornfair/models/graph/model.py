"""Graphs of any operators as models of people: raw tables in, decisions out.

onnxruntime runs them in a process of its own. Of the graph only the wires are interpreted.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.models.graph.around import WIRED
from bornfair.models.graph.wiring import Unclear, follow
from bornfair.models.graph_draft import BOOL, DOUBLE, INT64, STRING, input_type, served_classes
from bornfair.models.onnx_worker import CannotRun, ForeignGraph
from bornfair.models.operating import Operating, agreeing
from bornfair.models.protocol import Decided, Exportable, as_versions
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.features import NUMERIC, Value
from bornfair.people.levels import level_positions
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Folding

if TYPE_CHECKING:
    from bornfair.models.operating import Asked, Threshold
    from bornfair.people.domain import Domain
    from bornfair.people.twins.versions import Versions
    from bornfair.proof.certificate import Certificate

TOGETHER = 65_536  # rows of all versions in one run
DTYPES: dict[int, Any] = {BOOL: np.bool_, INT64: np.int64, DOUBLE: np.float64}


@dataclass(frozen=True, eq=False)
class WiredModel(Exportable):
    """A graph as `wired_graph.around` writes it, over a domain.

    Scores are shares of the classes; the first largest decides, of two classes wherever the threshold lies.
    """

    kind: ClassVar[str] = "graph"
    original: ClassVar[None] = None
    content: bytes
    domain: Domain
    certificate: Certificate | None = None
    note: str = ""

    @cached_property
    def graph(self) -> Any:
        """As `onnx.ModelProto`."""
        from onnx import load_from_string

        return load_from_string(self.content)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """How it came about: its method, the number of versions, where it decides."""
        found = json.loads({entry.key: entry.value for entry in self.graph.metadata_props}.get(WIRED, "{}"))
        return found if isinstance(found, dict) else {}

    @property
    def thresholds(self) -> dict[str, float]:
        """The share above which a class is decided, by its name, where that is not ½."""
        return {} if self.operating is None else self.operating.thresholds(self.classes.tolist())

    @cached_property
    def operating(self) -> Operating | None:
        """The operating point on shares; None where the largest decides."""
        return Operating.from_json(self.facts)

    @property
    def fills(self) -> Mapping[str, Value]:
        return {}

    @property
    def ignores_sensitive(self) -> bool:
        """Whether no path leads from a sensitive column to the decision."""
        try:
            follow(self.graph, {name: name for name in self.domain.sensitive if name in self.inputs})
        except Unclear:
            return False
        return True

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        return tuple(value.name for value in self.graph.graph.input)

    def unclear(self) -> str | None:
        """Why twins may be told apart by the wires; None if they cannot."""
        moved = self.domain.twin_group.orbits if self.domain.twins else {}
        sources = {name: name for name in self.inputs if name in self.domain.sensitive or name in moved}
        try:
            follow(self.graph, sources, _Merges(self.graph, self.domain))
        except Unclear as reason:
            return str(reason)
        return None

    def at(self, threshold: Threshold | Asked | None, table: Any = None) -> Self:
        """It decides in its graph, where it was told to when that was written: None, for as it is, is all there is."""
        if threshold is not None:
            raise InputError("this model decides in its graph; name the threshold when it is wrapped or repaired.")
        return self

    def graph_bytes(self, *, sensitive: bool = True) -> bytes:
        if sensitive:
            return self.content
        from onnx import ModelProto

        read = {name for node in self.graph.graph.node for name in node.input} & set(self.domain.sensitive)
        if read or not self.ignores_sensitive:
            raise InputError(
                f"this model reads {shown(self.domain.sensitive)}, so it cannot be exported without; average it, or "
                "export it with its sensitive columns."
            )
        made = ModelProto()
        made.CopyFrom(self.graph)
        kept = [value for value in made.graph.input if value.name not in self.domain.sensitive]
        del made.graph.input[:]
        made.graph.input.extend(kept)
        return made.SerializeToString(deterministic=True)

    # --- deciding ---

    def predict_proba(self, table: Any) -> np.ndarray:
        return self._ran(as_pandas(table))[1].astype(np.float64)

    def scores(self, table: Any) -> np.ndarray:
        """Shares [rows, K], moved so that the first largest is what is decided."""
        decided, shares = self._ran(as_pandas(table))
        return agreeing(shares, decided, self.operating)

    def decision_function(self, table: Any) -> np.ndarray:
        scores = self.scores(table)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def evaluate(
        self, table: Any, versions: Versions | None = None, which: Sequence[int] | None = None, *, scores: bool = True
    ) -> Decided:
        """Class indices and scores; once for all versions, if no path leads from what differs between them."""
        frame = as_pandas(table)
        count = 1 if versions is None else versions.size if which is None else len(which)
        if versions is not None and count > 1 and self.unclear() is None:
            one = self.evaluate(frame, versions, [0 if which is None else which[0]], scores=scores)
            shown = None if one.scores is None else np.repeat(one.scores, count, axis=1)
            return Decided(np.repeat(one.classes, count, axis=1), shown)
        found = [self._ran(some) for some in as_versions(frame, versions, which)]
        seen = [agreeing(shares, decided, self.operating) for decided, shares in found] if scores else []
        classes = np.stack([decided for decided, _ in found], axis=1)
        return Decided(classes, np.stack(seen, axis=1) if scores else None)

    def described(self, table: Any) -> Decided:
        decided, shares = self._ran(as_pandas(table))
        return Decided(decided, agreeing(shares, decided, self.operating), shares.astype(np.float64))

    def structure(self) -> Verdict:
        """Verified, or undecided with the path; falsified is not what wires can tell.

        Proven of the graph as executed, at every threshold, with operators, bodies and functions of any kind. It relies
        on each node's outputs depending on nothing but what it reads (docs/theory.md, data flow).
        """
        if not self.domain.sensitive:
            return undecided("data flow", "no feature was named sensitive.")
        reason = self.unclear()
        if reason is not None:
            return undecided("data flow", f"{reason}; wires alone do not tell whether that makes a difference.")
        names = ", ".join([*self.domain.sensitive, *self.domain.twin_group.moved])
        reason = f"no path leads from {names} to the decision"
        return Verdict("verified", "structural", "data flow", ("executed",), reason)

    def rule_on_shares(self) -> Operating | None:
        return self.operating

    def without_original(self) -> Self:
        return self

    def with_certificate(self, certificate: Certificate) -> Self:
        return dataclasses.replace(self, certificate=certificate)

    @cached_property
    def _runner(self) -> ForeignGraph:
        return ForeignGraph(self.content)

    def _ran(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Class indices and shares, as onnxruntime gives them."""
        order = {label: i for i, label in enumerate(served_classes(self.domain).tolist())}
        label, shown = (output.name for output in self.graph.graph.output)
        feed = {name: self._column(frame, name) for name in self.inputs}
        labels, shares = [np.zeros(0, np.int64)], [np.zeros((0, len(order)), np.float32)]
        together = max(1, TOGETHER // int(self.facts.get("versions", 1)))
        for start in range(0, len(frame), together):
            some = {name: values[start : start + together] for name, values in feed.items()}
            try:
                found = self._runner.run(some)
            except CannotRun as error:
                raise InputError(f"onnxruntime cannot run the model on these rows: {error}.") from error
            labels.append(np.array([order[name] for name in found[label].ravel().tolist()], np.int64))
            shares.append(found[shown])
        return np.concatenate(labels), np.concatenate(shares)

    def _column(self, frame: pd.DataFrame, name: str) -> np.ndarray:
        feature = self.domain.feature(name)
        kind = input_type(feature)
        if name not in frame.columns:
            if name not in self.domain.sensitive or not self.ignores_sensitive:
                raise InputError(f"the table has no column '{name}', which the model reads; give it.")
            filler: Any = "" if kind == STRING else 0  # which nothing reads
            return np.full((len(frame), 1), filler, object if kind == STRING else DTYPES[kind])
        column = frame[name]
        if isinstance(feature, NUMERIC):
            try:
                return column.to_numpy(np.float64, na_value=np.nan)[:, None]
            except (TypeError, ValueError):
                raise InputError(f"column '{name}' must hold numbers; it holds {column.iloc[0]!r}.") from None
        place = level_positions(feature, column)
        if kind == STRING:
            levels = np.array([*map(str, feature.levels()), ""], object)
            gone = column.isna().to_numpy()
            texts = np.where(place >= 0, levels[place], np.where(gone, "", column.astype(object).map(str).to_numpy()))
            return texts.astype(object)[:, None]
        if (place < 0).any():
            row = int(np.argmax(place < 0))
            raise InputError(f"column '{name}' holds {column.iloc[row]!r}, which is not in the domain.")
        return np.array(feature.levels(), DTYPES[kind])[place][:, None]


class _Merges:
    """Whether a node makes the same of all that rules exchange: a table by orbits, or the end of x and total − x."""

    def __init__(self, model: Any, domain: Domain) -> None:
        self.folding, self.mirrored = Folding(domain), dict[str, str]()
        self.constants = {tensor.name: tensor for tensor in model.graph.initializer}

    def __call__(self, node: Any) -> bool:
        if (node.op_type, node.domain, len(node.input)) == ("LabelEncoder", "ai.onnx.ml", 1):
            return self._table(node)
        if node.domain or len(node.input) != 2:
            return False
        if node.op_type == "Sub" and self._is_mirror(*node.input):
            self.mirrored[node.output[0]] = node.input[1]
            return False
        one, other = node.input
        again = {one: other, other: one}  # both are results of a Sub: neither is −0.0
        ends = node.op_type in ("Min", "Max")
        return ends and any(self.mirrored.get(a) == b and b in self.mirrored for a, b in again.items())

    def _is_mirror(self, constant: str, value: str) -> bool:
        from onnx import numpy_helper

        name = self.mirrored.get(value, value)
        if name not in self.folding.turns or constant not in self.constants:
            return False
        if not isinstance(self.folding.domain.feature(name), NUMERIC):
            return False
        held = numpy_helper.to_array(self.constants[constant]).ravel()
        return held.tolist() == [self.folding.domain.number(name).total] and not np.signbit(
            held[0] if held[0] == 0 else 0.0
        )

    def _table(self, node: Any) -> bool:
        from onnx import helper

        (name,) = node.input
        if name not in self.folding.turns or isinstance(self.folding.domain.feature(name), NUMERIC):
            return False
        told = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        text = input_type(self.folding.domain.feature(name)) == STRING
        keys = "keys_strings" if text else "keys_int64s"
        if set(told) != {keys, "values_int64s", "default_int64"}:
            return False
        named = [key.decode() if text else key for key in told[keys]]
        entries = dict(zip(named, told["values_int64s"], strict=False))
        if len(entries) != len(told["values_int64s"]) or len(entries) != len(named):
            return False
        shown = [str(level) if text else level for level in self.folding.domain.feature(name).levels()]
        orbits = ({entries.get(shown[i], told["default_int64"]) for i in orbit} for orbit in self.folding.orbits[name])
        return all(len(orbit) == 1 for orbit in orbits)
