"""Networks as models: a network with the encoding of its domain, raw tables in, decisions out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.models.network.activations import sigmoid
from bornfair.models.network.bounds.exact import exact_decisions
from bornfair.models.network.network import CHUNK, Layer, Network, decisions
from bornfair.models.network.onnx_graph import onnx_bytes, shipped
from bornfair.models.network.structural import confirm_encoded
from bornfair.models.operating import USUAL, Asked, Operating, Threshold
from bornfair.models.protocol import Bounded, Decided, Replay
from bornfair.people.encoding import Encoding
from bornfair.people.features import NumericFeature, Value
from bornfair.people.policies import complete
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions

if TYPE_CHECKING:
    from bornfair.importers.source import Original
    from bornfair.models.network.rows import NetworkRows
    from bornfair.models.verdict import Arithmetic, Verdict
    from bornfair.people.domain import Domain
    from bornfair.people.policies import Policies
    from bornfair.proof.certificate import Certificate

_written: weakref.WeakKeyDictionary[Network, tuple[Encoding, tuple[float, ...], bytes]] = weakref.WeakKeyDictionary()
"""The graph of each network: its certificate and its bundle are about the same bytes."""


@dataclass(frozen=True, eq=False)
class Model(Bounded):
    """A network with the encoding of its domain, the certificate that came with it, and the model it was read from."""

    kind: ClassVar[str] = "network"
    network: Network
    encoding: Encoding
    certificate: Certificate | None = None
    original: Original | None = None
    note: str = ""
    """How it was read, where its file does not say so itself; said with every answer about it."""
    offsets: tuple[float, ...] = ()
    """What its scores lack of logits, one for each output: where it decides (`models.operating`); () at ½."""

    @property
    def domain(self) -> Domain:
        return self.encoding.domain

    @property
    def class_names(self) -> list[Value]:
        label = self.domain.label
        return list(range(max(self.network.outputs, 2)) if label is None else label.classes)

    @property
    def thresholds(self) -> dict[str, float]:
        """The probability above which a class is decided, by its name, where that is not ½; of more than two classes,
        what a class's probability is divided by before they are compared.
        """
        rule = self.rule_on_shares()
        return {} if rule is None else rule.thresholds(self.classes.tolist())

    def at(self, threshold: Threshold | Asked | None, table: Any = None) -> Self:
        """The same model, deciding elsewhere: 0.05, "top 12%" of the people of a table, "approve=0.3"; None for ½.

        What was proven of decisions is left behind; what was proven of scores, by structure, holds everywhere.
        """
        offsets: tuple[float, ...] = ()
        if threshold is not None:
            asked, scores = Asked.of(threshold), None
            if asked.needs_people and table is not None:
                read = self.domain.free_names if self.ignores_sensitive else self.domain.names
                never = [name for name in read if not self.domain.feature(name).missing]
                scores = self.logits(self.scores(complete(as_pandas(table), never, self.fills)))
            offsets = asked.offsets(self.classes.tolist(), scores)
        return self.shifted(offsets)

    def shifted(self, offsets: Sequence[float]) -> Self:
        """The same model with these offsets: by so much its scores are less than its logits."""
        new = np.zeros(self.network.outputs) + np.asarray(offsets or 0.0, np.float32)
        old = np.zeros(self.network.outputs) + np.asarray(self.offsets or 0.0)
        if np.array_equal(new, old):
            return self
        last = self.network.layers[-1]
        bias = (last.bias.astype(np.float64) + old - new).astype(np.float32)
        network = dataclasses.replace(self.network, layers=(*self.network.layers[:-1], Layer(last.weight, bias)))
        certificate = self.certificate
        if certificate is not None and certificate.verdict.covers != "score":
            certificate = None
        kept = tuple(new.tolist()) if new.any() else ()
        return dataclasses.replace(self, network=network, offsets=kept, certificate=certificate)

    def logits(self, scores: np.ndarray) -> np.ndarray:
        """The logarithms of odds behind scores, wherever the model decides."""
        return scores + np.asarray(self.offsets, np.float32) if self.offsets else scores

    @property
    def fills(self) -> Mapping[str, Value]:
        """What the model takes where a value is missing, by feature; none of those for which it has no rule."""
        if self.original is not None:
            return self.original.fills
        return self.encoding.fill if self.encoding.policies.missing == "impute" else {}

    @property
    def covers_execution(self) -> bool:
        """Whether what is proven of the network in float32 is proven of what decides: the model itself, or an original
        that executes the same sums, or is not even given what differs between twins.
        """
        if self.original is None or self.original.plain_sums:
            return True
        return not self.domain.twins and not set(self.domain.sensitive) & set(self.original.reads)

    @property
    def ignores_sensitive(self) -> bool:
        """Whether every weight that reads a sensitive code is exactly 0."""
        return self.network.ignores_sensitive(self.encoding.free_width)

    # --- deciding ---

    def scores(self, table: Any) -> np.ndarray:
        """The network's outputs for raw rows."""
        return self.network.scores(self.inputs(table))

    def evaluate(
        self, table: Any, versions: Versions | None = None, which: Sequence[int] | None = None, *, scores: bool = True
    ) -> Decided:
        """Class indices and outputs, in float32 as shipped; codes are fed to the network even if it ignores them."""
        if versions is None:
            found = self.scores(table)[:, None]
            return Decided(decisions(found), found)
        frame, encoding = as_pandas(table), self.encoding
        codes = encoding.codes if versions.is_usual else encoding.codes_of(versions.values)
        elements, positions = np.divmod(np.arange(versions.size) if which is None else np.array(which), len(codes))
        parts, seen = np.zeros((len(elements), len(frame), self.network.outputs), np.float32), dict[int, np.ndarray]()
        for h in np.unique(elements):
            shown = 0 if encoding.merges_twins else int(h)  # declared twins look alike to it
            if shown not in seen:
                needed = np.arange(len(codes)) if len(np.unique(positions)) == len(codes) else np.unique(positions)
                free = encoding.encode(versions.moved(frame, shown), sensitive=False).free
                under = scores_under_every_code(self.network, free, codes[needed])
                seen[shown] = np.zeros((len(codes), *under.shape[1:]), np.float32)
                seen[shown][needed] = under
            at = elements == h
            parts[at] = seen[shown][positions[at]]
        found = parts.swapaxes(0, 1)
        return Decided(decisions(found), found)

    def inputs(self, table: Any) -> np.ndarray:
        """What the network reads of raw rows, float32 [rows, inputs].

        A model that ignores the sensitive values is given the mean code for everybody: it needs no such column, and
        twins get the same bits.
        """
        frame = as_pandas(table)
        if self.ignores_sensitive:
            return self.encoding.encode_free(frame, self.encoding.sensitive_width)
        encoded = self.encoding.encode(frame)
        if encoded.sensitive is None:
            raise InputError(
                f"the table has no sensitive column {shown(self.domain.sensitive)}, but this model reads it; "
                "give the column, or train with the expected response, which needs none."
            )
        return np.concatenate([encoded.free, encoded.sensitive], axis=1)

    def threshold_axis(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        own = float(self.offsets[0]) if self.offsets else 0.0
        return self.logits(scores[..., None])[..., 0].astype(np.float64), own

    def share_of_last(self, values: np.ndarray) -> np.ndarray:
        return sigmoid(values)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Class probabilities [rows, K] from this model's outputs."""
        return probabilities(self.logits(scores))

    def executed(self, table: Any) -> np.ndarray:
        """The class indices that onnxruntime gives with the model's own graph, or its original if it was imported."""
        return shipped(self).decided(as_pandas(table)) if self.original is None else super().executed(table)

    def described(self, table: Any) -> Decided:
        scores = self.scores(table)
        return Decided(self.executed(table), scores, self.probabilities(scores))

    def replay(self, people: Sequence[Mapping[str, Value]], versions: Sequence[int] = ()) -> Replay:
        """Decide people by what is executed, and in real arithmetic; of an imported model, where the two agree."""
        if not people:
            return Replay((), {})
        found: dict[Arithmetic, tuple[int, ...]] = {}
        if self.original is None:
            found["float32"] = shipped(self).decide(people)
        else:
            table = pd.DataFrame(list(people), columns=list(self.domain.names))
            found["float32"] = tuple(int(d) for d in self.original.decide(table))
        if self.network.function.exact:
            exact = np.stack([self.encoding.exact(person) for person in people])
            decided = tuple(int(d) for d in exact_decisions(self.network, exact))
            if self.original is None or decided == found["float32"]:
                found["real"] = decided
        return Replay(tuple(map(dict, people)), found, tuple(versions))

    def digest(self) -> str:
        found = hashlib.sha256(json.dumps([self.domain.text(), self.encoding.to_json()], sort_keys=True).encode())
        for layer in self.network.layers:
            found.update(layer.weight.tobytes() + layer.bias.tobytes())
        return f"{found.hexdigest()} of the network as read"

    def row_method(self) -> NetworkRows:
        from bornfair.models.network.rows import NetworkRows

        return NetworkRows(self)

    def structure(self) -> Verdict:
        """By weights, wires and intervals."""
        return confirm_encoded(self.network, self.encoding)

    @property
    def policies(self) -> Policies:
        return self.encoding.policies

    def held(self, feature: NumericFeature, numbers: np.ndarray) -> np.ndarray:
        """Which numbers outside the range the network is shown as one inside."""
        if feature.name in self.domain.sensitive or self.policies.outside == "clip":
            return np.full(len(numbers), feature.name not in self.domain.sensitive)
        column = self.encoding.number(feature.name)
        low, high, codes = column.encode(feature.low), column.encode(feature.high), column.encode(numbers)
        return (codes == low) | (codes == high)

    def rule_on_shares(self) -> Operating | None:
        if not self.offsets:
            return None
        if len(self.offsets) > 1:
            return Operating(tuple(USUAL * math.exp(offset) for offset in self.offsets))
        return Operating((1 / (1 + math.exp(-self.offsets[0])),))

    def without_original(self) -> Self:
        return dataclasses.replace(self, original=None)

    def with_certificate(self, certificate: Certificate) -> Self:
        return dataclasses.replace(self, certificate=certificate)

    def graph_bytes(self, *, sensitive: bool = True) -> bytes:
        if not sensitive:
            return onnx_bytes(self, sensitive=False)
        encoding, offsets, found = _written.get(self.network, (None, (), b""))
        if encoding is not self.encoding or offsets != self.offsets:
            found = onnx_bytes(self)
            _written[self.network] = self.encoding, self.offsets, found
        return found


def scores_under_every_code(network: Network, free: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Outputs [codes, rows, outputs] of encoded people under each sensitive code, in float32 as shipped."""
    together = max(1, CHUNK // max(len(free), 1))  # values of S computed in one call
    parts = []
    for i in range(0, len(codes), together):
        some = codes[i : i + together]
        people = np.tile(free, (len(some), 1))
        inputs = np.concatenate([people, np.repeat(some, len(free), axis=0)], axis=1)
        parts.append(network.scores(inputs).reshape(len(some), len(free), network.outputs))
    return np.concatenate(parts)


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Class probabilities [rows, K] from logits."""
    grown = np.exp(_below_largest(scores))
    return grown / grown.sum(axis=1, keepdims=True)


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Their logarithms, finite also where the probability is 0 in floating point."""
    shifted = _below_largest(scores)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _below_largest(scores: np.ndarray) -> np.ndarray:
    """Each class's score less that of the largest, in float64; of one output, 0 and the logit are the scores."""
    wide = scores.astype(np.float64)
    if scores.shape[1] == 1:
        wide = np.concatenate([np.zeros_like(wide), wide], axis=1)
    return wide - wide.max(axis=1, keepdims=True)
