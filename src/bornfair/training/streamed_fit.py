"""From a table that no memory holds to a trained, certified model: survey → domain → encoding → cache → Algorithm 1 →
proof. The recipe is that of a table in memory; what needs many rows at once is taken from the survey's sample.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core import limits
from bornfair.core.errors import InputError, plain_value, shown
from bornfair.core.files import read_regular, write_atomically
from bornfair.models import metrics
from bornfair.models.network.network import Network, decisions
from bornfair.models.network.structural import confirm_encoded
from bornfair.models.operating import Asked, Threshold
from bornfair.parallel.task import require_jax
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import Label, Value
from bornfair.people.levels import class_positions
from bornfair.people.policies import Policies
from bornfair.people.sources import Batch, Source, shared_out
from bornfair.people.survey import Survey, from_bytes, merged, surveyed, to_bytes
from bornfair.proof.bundle import FairModel
from bornfair.training.cache import KEPT_ASIDE, PARTS, TRAINING, VALIDATION, Cache, Layout, RowShares, balancing, made
from bornfair.training.epochs import Callback
from bornfair.training.fitting import Fitted, Recipe, resolve_response
from bornfair.training.hosts import ALONE, Hosts
from bornfair.training.provenance import KEPT_ASIDE as ON_KEPT_ASIDE
from bornfair.training.provenance import VALIDATION_ONLY, VALIDATION_ROWS, calibration, certify, with_measured
from bornfair.training.start import Exact, FromModel, fair_start
from bornfair.training.streaming import NEEDS_SENSITIVE, StreamedRun, Told

SCORED_TOGETHER = 2**16
LOOKED_AT = 20_000  # rows of the sample whose versions are compared


@dataclass(frozen=True, eq=False)
class StreamedTable:
    """A table to train on, after one pass over it."""

    source: Source
    columns: tuple[str, ...]
    target: str
    survey: Survey
    stamp: str
    """Fingerprint of the files when they were first read."""
    hosts: Hosts = ALONE

    def batches(self) -> Iterator[Batch]:
        """The rows of this process."""
        return self.source.batches(
            self.columns, shared_out(self.source.parts, self.hosts.process, self.hosts.processes)
        )

    @property
    def label(self) -> Label:
        seen = self.survey.columns[self.target]
        values = [plain_value(value) for value in self.survey.counts(self.target)]
        if seen.numbers and seen.whole:
            values = [int(value) for value in values]  # beside gaps they came as decimals
        if len(values) < 2:
            raise InputError(
                f"the target has one class only, {shown(values)}, in all {self.survey.rows:,} rows; a classifier needs "
                "at least two."
            )
        classes: list[Value] = sorted(values, key=lambda value: (str(type(value)), value))
        return Label(name=self.target, classes=tuple(classes))


def survey_table(
    source: Source,
    target: str,
    sensitive: Sequence[str],
    *,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    observed: bool = False,
    seed: int = 0,
    keep: Path | None = None,
    hosts: Hosts = ALONE,
    told: Callable[[int], None] | None = None,
) -> StreamedTable:
    """One pass over the table, of several processes each over its own part.

    keep: a file for what is found out, so that a later run need not look again.
    """
    columns = tuple(name for name in source.columns if name not in drop)
    listed = [target, *sensitive, *categorical]
    parts = shared_out(source.parts, hosts.process, hosts.processes)
    stamp = source.fingerprint()
    mark = hashlib.sha256(repr((stamp, columns, listed, observed, seed, len(parts))).encode()).digest()
    known = _kept(keep, mark)
    if known is None:
        own = surveyed(
            source.batches(columns, parts), source, columns, listed=listed, seed=seed, told=told,
            together=list(sensitive) if observed else (),
        )  # fmt: skip
        known = to_bytes(own)
        source.check_unchanged(stamp)
        if keep is not None:
            keep.unlink(missing_ok=True)  # it may be a pipe
            write_atomically(keep, mark + hashlib.sha256(known).digest() + known, private=True)
    found = merged([from_bytes(one) for one in hosts.gathered(known)])
    if not found.rows:
        raise InputError(f"'{source.location}' has no rows; a table needs a header and at least one row.")
    return StreamedTable(source, columns, target, found, stamp, hosts)


def _kept(path: Path | None, mark: bytes) -> bytes | None:
    """The survey in a file, if it is whole and about this table."""
    try:
        content = b"" if path is None else read_regular(path, limits.MODEL_BYTES)
    except (OSError, InputError):
        return None
    digest, known = content[len(mark) : len(mark) + 32], content[len(mark) + 32 :]
    return known if content.startswith(mark) and hashlib.sha256(known).digest() == digest else None


def fit_streamed(
    table: StreamedTable,
    domain: Domain,
    recipe: Recipe,
    *,
    folder: Path,
    test_fraction: float = 0.0,
    policies: Policies | None = None,
    balanced: bool = False,
    threshold: Threshold | None = None,
    callbacks: tuple[Callback, ...] = (),
    checkpoint_path: str | Path | None = None,
    resume: bool = False,
    told_of_rows: Callable[[int], None] | None = None,
    told: Told | None = None,
) -> tuple[Fitted, dict[str, Any]]:
    """Train on a table that is read in batches, keeping its encoded rows in a folder; what was measured on rows kept
    aside comes back too, and stands in the certificate.
    """
    require_jax()
    survey, hosts, seed = table.survey, table.hosts, recipe.seed
    response = resolve_response(recipe, domain)
    if domain.sensitive and not (response.preserves_fairness and isinstance(recipe.start, (Exact, FromModel))):
        raise InputError(NEEDS_SENSITIVE)  # before anything is encoded
    if recipe.taught and "taught" in recipe.asked:
        raise InputError(
            f"taught={recipe.taught!r} needs the whole table in memory, and this one is read in batches; leave it out."
        )
    shares = RowShares.of(survey.rows, test_fraction, recipe.validation_fraction)
    plan = recipe.plan(max(round(survey.rows * (1 - shares.kept_aside)), 1))
    part = shares.parts(survey.addresses, seed)
    there = survey.sample[table.target].notna().to_numpy()
    learnt = survey.sample[there & (part != PARTS.index(KEPT_ASIDE))].reset_index(drop=True)
    point = None if threshold is None else Asked.of(threshold).among(learnt[table.target])
    point = None if point is None else point.for_classes(domain.classes.tolist())
    hold_tails = recipe.preset != "paper"
    encoding = Encoding.fit(domain, learnt, policies, merge_twins=response.mode != "none", hold_tails=hold_tails)
    embedding = None
    if recipe.embedding != "none":
        own = survey.sample[there & (part == PARTS.index(TRAINING))].reset_index(drop=True)
        free = encoding.encode(own, sensitive=False).free
        assert domain.label is not None
        classes = class_positions(own[table.target], domain.label.classes)
        weights = balancing(classes) if balanced else None
        embedding = recipe.embedding_of(encoding, free, classes, weights, np.arange(len(own)))
    start = fair_start(
        recipe.start, encoding=encoding, members=plan.members, embedding=embedding, hidden=recipe.hidden,
        outputs=domain.outputs, activation=recipe.activation, seed=seed,
    )  # fmt: skip
    layout = Layout(encoding, survey)
    cache = made(
        folder, layout, table.batches, table.target, shares, mark=table.stamp, seed=seed, told=told_of_rows,
        check=lambda: table.source.check_unchanged(table.stamp),
    )  # fmt: skip
    with contextlib.closing(cache):
        run = StreamedRun(
            start.members, cache, response, plan, recipe.transformation, embedding, hosts, balanced=balanced, told=told
        )
        training = run.trained(callbacks, checkpoint_path, resume)
        network, calibrated = training.network, None
        if recipe.calibrate:
            scores, answers = _scored(network, cache, hosts, VALIDATION)
            calibrated = calibration(scores, answers, balancing(answers) if balanced else None)
            network = calibrated.of(network)
        model = FairModel(network, encoding).at(point, learnt)
        verdict = confirm_encoded(model.network, model.encoding)
        on_validation = VALIDATION_ROWS if plan.patience else VALIDATION_ONLY
        measured = [_measured(model, cache, hosts, VALIDATION, on_validation)]
        certificate = certify(
            model, verdict, start=start, response=response, plan=plan, training=training, threshold=point,
            measured=[{name: one[name] for name in ("on", "rows", *metrics.QUALITY)} for one in measured if one],
            embedding=embedding, calibrated=calibrated,
        )  # fmt: skip
        figures = _measured(model, cache, hosts, KEPT_ASIDE, ON_KEPT_ASIDE) or measured[0]
        if figures and domain.sensitive:
            aside = survey.sample[there & (part == PARTS.index(KEPT_ASIDE))]
            some = (aside if len(aside) else learnt).head(LOOKED_AT)
            figures["empirical_fairness"] = model.empirical_fairness(some)
            figures["flip_stable"] = model.empirical_fairness(some, declared=False)
        if figures and figures["on"] == ON_KEPT_ASIDE:
            certificate = with_measured(
                certificate, {name: one for name, one in figures.items() if name != "flip_stable"}
            )
        kept = dataclasses.replace(model, certificate=certificate)
        return Fitted(kept, response, start, training, embedding, training.members), figures


def _scored(network: Network, cache: Cache, hosts: Hosts, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and true classes of one part of the rows, those of all processes together."""
    width = cache.layout.encoding.sensitive_width
    scores, truth = [np.zeros((0, network.outputs), np.float32)], [np.zeros(0, np.int32)]
    for rows in cache.blocks(part, SCORED_TOGETHER):
        free = cache.layout.free(rows)
        codes = np.zeros((len(free), width), np.float32)  # which the network does not read
        scores.append(np.asarray(network.scores(np.concatenate([free, codes], axis=1)), np.float32))
        truth.append(rows["class"].astype(np.int32))
    found = np.concatenate([np.frombuffer(one, np.float32) for one in hosts.gathered(np.concatenate(scores).tobytes())])
    answers = np.concatenate([np.frombuffer(one, np.int32) for one in hosts.gathered(np.concatenate(truth).tobytes())])
    return found.reshape(-1, network.outputs), answers


def _measured(model: FairModel, cache: Cache, hosts: Hosts, part: str, on: str) -> dict[str, Any]:
    """How good the model is on one part of the rows; {} of no rows."""
    shown_scores, answers = _scored(model.network, cache, hosts, part)
    if not len(answers):
        return {}
    classes = model.classes
    right, decided = classes[answers], classes[decisions(shown_scores)]
    return {
        "on": on, "rows": len(answers), **metrics.quality(right, decided),
        "auc": metrics.auc(right, model.probabilities(shown_scores), classes), "empirical_fairness": None,
    }  # fmt: skip


def sample_of(table: StreamedTable) -> pd.DataFrame:
    """Random rows of the table that have an answer, to look at."""
    sample = table.survey.sample
    return sample[sample[table.target].notna()].reset_index(drop=True)
