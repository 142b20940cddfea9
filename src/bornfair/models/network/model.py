"""What decides about people? A network with the encoding of its domain: raw tables in, decisions out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.metrics import same_for_all
from bornfair.models.network.network import CHUNK, Layer, Network, decisions
from bornfair.models.operating import Asked, Threshold, thresholds_of
from bornfair.people.encoding import Encoding
from bornfair.people.features import Value
from bornfair.people.gaps import complete
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions

if TYPE_CHECKING:
    from bornfair.importers.original import Original
    from bornfair.people.domain import Domain
    from bornfair.proof.certificate import Certificate


@dataclass(frozen=True, eq=False)
class Model:
    """A network with the encoding of its domain, the certificate that came with it, and the model it was read from."""

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
    def classes(self) -> np.ndarray:
        return self.domain.classes

    @property
    def thresholds(self) -> dict[str, float]:
        """The probability above which a class is decided, by its name, where that is not ½; of more than two classes,
        what a class's probability is divided by before they are compared.
        """
        return thresholds_of(self.offsets, self.classes.tolist()) if self.offsets else {}

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

    def scores(self, table: Any) -> np.ndarray:
        """The network's outputs for raw rows."""
        return self.network.scores(self.inputs(table))

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

    def decision_function(self, table: Any) -> np.ndarray:
        scores = self.scores(table)
        return scores[:, 0] if self.network.outputs == 1 else scores

    def predict_proba(self, table: Any) -> np.ndarray:
        return self.probabilities(self.scores(table))

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Class probabilities [rows, K] from this model's outputs."""
        return probabilities(self.logits(scores))

    def predict(self, table: Any) -> np.ndarray:
        return self.classes[decisions(self.scores(table))]

    def scores_of_versions(self, table: Any) -> np.ndarray:
        """Each person's outputs as every version of themselves: [versions, rows, outputs], numbered as in
        `bornfair.people.twins.versions`; with no declared rules these are the values of S in order.

        The codes are fed to the network even if it ignores them: that is how fairness is put to the test.
        """
        frame, versions = as_pandas(table), Versions(self.domain)
        parts = []
        shown = 1 if self.encoding.merges_twins else versions.group.size
        for h in range(shown):
            free = self.encoding.encode(versions.moved(frame, h), sensitive=False).free
            parts.append(scores_under_every_code(self.network, free, self.encoding.codes))
        return np.concatenate(parts * (versions.group.size // shown))

    def empirical_fairness(self, table: Any, *, declared: bool = True) -> float:
        """Share of rows whose decision is the same for every version of the person. It speaks of these rows only.

        declared=False: for every sensitive value, the declared rules left aside.
        """
        self.domain.require_sensitive()
        versions = Versions(self.domain)
        count = versions.size if declared else versions.sensitive_size
        decided = decisions(self.scores_of_versions(table))[:count]
        return float(np.mean(same_for_all(decided)))


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
