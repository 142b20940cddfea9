"""From a table to a trained, certified model: domain → encoding → fair start → Algorithm 1 → proof."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.checks import choice, number
from bornfair.core.errors import InputError, plain
from bornfair.models.metrics import quality_warning
from bornfair.models.network.network import Network
from bornfair.models.network.structural import confirm_encoded
from bornfair.models.operating import Asked, Threshold
from bornfair.parallel.task import require_jax
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Feature, known_levels
from bornfair.people.numbers import constant_sentence, sentinel_sentence
from bornfair.people.policies import Policies
from bornfair.proof.bundle import FairModel
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.embedding import Bins, Embedding, Teacher, piecewise
from bornfair.training.epochs import Callback, Plan, Training, shared_split, split, with_numbers
from bornfair.training.options import OF_OTHER_LAYERS, PRESETS, TrainingOptions, advice
from bornfair.training.projection import projection
from bornfair.training.provenance import calibration, certify, measured_in_training
from bornfair.training.response import Response
from bornfair.training.start import (
    Bernoulli,
    Exact,
    FairStart,
    FromModel,
    NearZero,
    Plain,
    Start,
    draw_members,
    fair_start,
    parse_start,
)

EMBEDDINGS: dict[str, Bins] = {"boosted": "boosted", "piecewise": "tree", "quantiles": "quantiles", "none": "tree"}
"""The embeddings by name, and where their knots come from."""


class TableWarning(UserWarning):
    """The table holds something that is probably not meant as it stands."""


class QualityWarning(UserWarning):
    """The model never decides some class, so its accuracy says little."""


class FairnessWarning(UserWarning):
    """The guarantee is weaker than one might expect.

    >>> import warnings
    >>> from bornfair import FairClassifier, FairnessWarning, datasets
    >>> people = datasets.load("credit").table
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     sampled = FairClassifier(["sex"], response="sampled", hidden=[4], epochs=1)
    ...     _ = sampled.fit(people.drop(columns="risk"), people["risk"])
    >>> [warning.category is FairnessWarning for warning in caught]
    [True]
    """


@dataclass(kw_only=True, eq=False, repr=False)
class Recipe(TrainingOptions):
    """The choices of a fit with the preset's settings in place of None, and the seed.

    Own hidden layers go without the settings that a preset adds to its own layers.
    """

    hidden: Any = None
    embedding: Any = None
    bins: Any = None
    taught: Any = None
    validation_fraction: Any = None
    seed: int = 0
    asked: frozenset[str] = field(default=frozenset(), init=False)
    """What was chosen, and not left to the preset."""
    transformation: Any = field(default=None, init=False)
    """An optax transformation, where one is given as the optimiser."""

    @staticmethod
    def of(options: TrainingOptions, seed: int, **changes: Any) -> Recipe:
        chosen = {one.name: getattr(options, one.name) for one in fields(TrainingOptions)}
        return Recipe(seed=seed, **(chosen | changes))

    def __post_init__(self) -> None:
        choice("preset", self.preset, PRESETS)
        usual = PRESETS[self.preset]
        if self.hidden is not None and self.preset != "paper":
            usual = usual | OF_OTHER_LAYERS
        if self.optimiser is not None and not isinstance(self.optimiser, str):
            self.transformation, self.optimiser = self.optimiser, None
        self.asked = frozenset(name for name in usual if getattr(self, name) is not None)
        for name in usual.keys() - self.asked:
            setattr(self, name, usual[name])
        if self.validation_fraction == 0 and "patience" not in self.asked:
            self.patience = None

    def plan(self, rows: int) -> Plan:
        """How the loop trains on so many rows."""
        chosen = {name: value for name, value in vars(self).items() if name in Plan.__dataclass_fields__}
        if self.calibrate:  # on rows that no member has learnt from
            chosen["rotate"] = False
        return Plan(**with_numbers(chosen, rows))

    def embedding_of(
        self,
        encoding: Encoding,
        free: np.ndarray,
        classes: np.ndarray,
        weights: np.ndarray | None,
        rows: np.ndarray | None = None,
    ) -> Embedding | None:
        """How the network is to see numbers, from the rows that it learns from; None: as they are.

        What a preset says of it is for relu and for starts that are drawn; asked for by name it is refused elsewhere.
        """
        kind = self.embedding
        choice("embedding", kind, EMBEDDINGS)
        usable = self.activation == "relu" and isinstance(self.start, (Exact, Plain))
        if kind == "none" or not (usable or "embedding" in self.asked):
            return None
        if not usable:
            raise InputError(
                f"embedding={kind!r} needs activation 'relu' and the start 'exact', found {self.activation!r} and "
                f"{type(self.start).__name__}; leave it out, or use embedding='none'."
            )
        rows = shared_split(classes, self.plan(len(classes)))[0] if rows is None else rows
        own = None if weights is None else np.asarray(weights)[rows]
        return piecewise(
            encoding, free[rows], classes[rows], own, bins=self.bins, kind=EMBEDDINGS[kind], seed=self.seed
        )  # fmt: skip

    def taught_by(self, encoding: Encoding, data: TrainingData, plan: Plan) -> TrainingData:
        """The same rows, with what the network is to learn of them where trees have a word in it."""
        share = self.taught
        number("taught", share, 0.0, 1.0)
        if not share or not plan.epochs:
            return data
        teacher = Teacher(encoding, data.free, data.classes, data.weights, share, self.seed)
        if plan.rotates:
            aside = [split(data.classes, plan, part)[1] for part in range(plan.parts)]
            targets = teacher.taught_apart(aside)[np.arange(plan.members) % plan.parts]
        else:
            targets = teacher.taught(shared_split(data.classes, plan)[0])
        return dataclasses.replace(data, targets=targets)

    @property
    def start(self) -> Start:
        init = self.init
        if isinstance(init, str):
            return parse_start(init)
        if isinstance(init, Network):
            return FromModel(init)
        if isinstance(init, FairModel):
            return FromModel(init.shifted(()).network)
        assert init is not None
        return init


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit leaves behind."""

    model: FairModel
    response: Response
    start: FairStart | None
    training: Training
    embedding: Embedding | None = None
    members: tuple[Network, ...] = ()
    """What training can go on from: what was trained, behind the embedding, or the network that took its place."""


def fit_table(
    table: pd.DataFrame,
    classes: np.ndarray,
    domain: Domain,
    recipe: Recipe,
    *,
    policies: Policies | None = None,
    weights: np.ndarray | None = None,
    threshold: Threshold | None = None,
    callbacks: tuple[Callback, ...] = (),
    checkpoint_path: str | Path | None = None,
    resume: bool = False,
    whole: bool = True,
) -> Fitted:
    """Train on the rows of a table; `classes` are positions in the domain's label.

    whole: these rows are all there are, so that it shows what is constant and what lies far out. The paper knows of
    neither.
    """
    require_jax()
    response = resolve_response(recipe, domain)
    hold_tails = whole and recipe.preset != "paper"
    encoding = Encoding.fit(domain, table, policies, merge_twins=response.mode != "none", hold_tails=hold_tails)
    if hold_tails:
        _warn_of_oddities(domain, table)
    start, embedding = None, None
    shape: dict[str, Any] = {
        "hidden": recipe.hidden, "outputs": domain.outputs, "activation": recipe.activation, "seed": recipe.seed,
        "members": recipe.plan(len(table)).members,
    }  # fmt: skip
    with encoding.keeping(table):
        if whole and recipe.embedding != "none":
            embedding = recipe.embedding_of(encoding, encoding.encode_free(table), classes, weights)
        if response.mode == "none":
            kind = recipe.start if isinstance(recipe.start, FromModel) else Plain()
            width = encoding.free_width if embedding is None else embedding.width
            starts = draw_members(kind, free_width=width, sensitive_width=encoding.sensitive_width, **shape)
        else:
            _warn_of_slow_start(recipe.start)
            start = fair_start(recipe.start, encoding=encoding, embedding=embedding, **shape)
            starts = start.members
        return continue_fit(
            starts, table, classes, encoding, recipe, response,
            start=start, weights=weights, threshold=threshold, callbacks=callbacks, checkpoint_path=checkpoint_path,
            resume=resume, embedding=embedding, whole=whole,
        )  # fmt: skip


def continue_fit(
    network: Network | Sequence[Network],
    table: pd.DataFrame,
    classes: np.ndarray,
    encoding: Encoding,
    recipe: Recipe,
    response: Response,
    *,
    start: FairStart | None = None,
    plan: Plan | None = None,
    weights: np.ndarray | None = None,
    threshold: Threshold | Asked | None = None,
    callbacks: tuple[Callback, ...] = (),
    checkpoint_path: str | Path | None = None,
    resume: bool = False,
    optimiser_state: list[np.ndarray] | None = None,
    embedding: Embedding | None = None,
    whole: bool = True,
) -> Fitted:
    """Train a given network further, let it decide at the threshold asked for, and certify what came out.

    whole: these rows are all there are, so that trees may have a word in what is learnt.
    """
    known = encoding.domain.classes
    if threshold is not None:
        threshold = Asked.of(threshold).among(known[classes] if whole else ()).for_classes(known.tolist())
    starts = (network,) if isinstance(network, Network) else tuple(network)
    plan = plan or recipe.plan(len(table))
    free_width = encoding.free_width if embedding is None else embedding.width
    unread = response.preserves_fairness and all(own.ignores_sensitive(free_width) for own in starts)
    data = training_data(table, classes, encoding, response, weights, unread=unread)
    data = recipe.taught_by(encoding, data, plan) if whole else data
    training = train(
        starts,
        data,
        response,
        plan,
        callbacks=callbacks,
        checkpoint_path=checkpoint_path,
        resume=resume,
        optimiser_state=optimiser_state,
        transformation=recipe.transformation,
        embedding=embedding,
    )
    network, calibrated = training.network, None
    if recipe.calibrate:
        _, aside = shared_split(classes, plan)
        counted = None if weights is None else np.asarray(weights)[aside]
        calibrated = calibration(data.scores(network, aside), classes[aside], counted)
        network = calibrated.of(network)
    model = FairModel(network, encoding).at(threshold, table)
    verdict = confirm_encoded(model.network, model.encoding)
    projected = recipe.project and not verdict and bool(encoding.domain.sensitive)
    if projected:
        model = projection(model)
        verdict = confirm_encoded(model.network, model.encoding)
    measured = []
    if whole:  # one more batch of many would be told as if it were all
        measured = measured_in_training(model, table if projected else data, classes, plan)
        useless = quality_warning(measured[0]) if measured and training.history else ""
        if useless:
            warnings.warn(f"{useless} {advice(recipe.preset)}", QualityWarning, stacklevel=3)
    certificate = certify(
        model, verdict, start=start, response=response, plan=plan, training=training, projected=projected,
        threshold=threshold,
        measured=measured,
        embedding=embedding,
        calibrated=calibrated,
        taught=0.0 if data.targets is None else recipe.taught,
    )  # fmt: skip
    if encoding.domain.sensitive and not verdict and response.mode != "none":
        warnings.warn(certificate.claim, FairnessWarning, stacklevel=2)
    kept = dataclasses.replace(model, certificate=certificate)
    if projected:
        return Fitted(kept, response, start, training, members=(model.shifted(()).network,))
    return Fitted(kept, response, start, training, embedding, training.members)


def training_data(
    table: pd.DataFrame,
    classes: np.ndarray,
    encoding: Encoding,
    response: Response,
    weights: np.ndarray | None,
    *,
    unread: bool,
) -> TrainingData:
    """The encoded table, with the sensitive part only where this response reads it."""
    encoded = encoding.encode(table, sensitive=not unread)
    if unread or not encoding.domain.sensitive:
        return TrainingData(encoded.free, classes, weights=weights)
    if response.mode == "none":
        return TrainingData(encoded.free, classes, sensitive=encoded.sensitive, weights=weights)
    index = encoding.sensitive_index(encoded) if response.reads_values else None
    return TrainingData(encoded.free, classes, true_index=index, codes=encoding.codes, weights=weights)


def _warn_of_oddities(domain: Domain, table: pd.DataFrame) -> None:
    """Say what is left out, and what may not be meant as a number."""
    for name in domain.names:
        said = constant_sentence(table[name]) if name in domain.free_names else None
        if said is None and isinstance(domain.feature(name), NUMERIC):
            said = sentinel_sentence(table[name])
        if said is None and not isinstance(domain.feature(name), NUMERIC):
            said = _unknown_sentence(table[name], domain.feature(name))
        if said is not None:
            warnings.warn(said, TableWarning, stacklevel=4)


def _unknown_sentence(column: pd.Series, feature: Feature) -> str | None:
    present = column.dropna()
    unknown = present[~present.isin(list(known_levels(feature)))]
    if not len(unknown):
        return None
    return (
        f"column '{feature.name}' holds {plain(unknown.iloc[0])!r}, and {len(unknown):,} rows in all hold values that "
        "are not in the domain: they are trained on as if they had none; add them to the domain."
    )


def _warn_of_slow_start(start: Start) -> None:
    if isinstance(start, (Bernoulli, NearZero)) and start.layers == "all":
        warnings.warn(
            f"the start has ±{start.scale:.2g} in every layer, so hardly any gradient reaches the first ones and the "
            "network may learn nothing; init='exact' is fair and learns faster.",
            UserWarning,
            stacklevel=4,
        )


def resolve_response(recipe: Recipe, domain: Domain) -> Response:
    """The response with its γ: the one that preserves fairness, or the one asked for (with a warning)."""
    if recipe.gamma != "solve":
        response = Response(recipe.response, recipe.gamma, recipe.draws)
        if response.gamma != 0 and response.mode in ("expected", "sampled") and domain.sensitive:
            warnings.warn(
                f"γ = {response.gamma:g} lets the true sensitive value through: no fairness is certified "
                "(γ = 0 preserves it); response='population' preserves it at every γ.",
                FairnessWarning,
                stacklevel=3,
            )
        return response
    gamma = 0.0
    if domain.sensitive and recipe.response != "none":
        from bornfair.training.gamma import solve_domain

        gamma = solve_domain(domain).gamma
    return Response(recipe.response, gamma, recipe.draws)
