"""bornfair for scikit-learn users: a classifier that is individually fair by construction."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
)

from bornfair.core.errors import InputError, shown
from bornfair.models import metrics
from bornfair.models.network.network import decisions
from bornfair.models.operating import Threshold
from bornfair.people.domain import Domain
from bornfair.people.policies import GapsInTraining, OutsidePolicy, Policies, UnseenPolicy
from bornfair.training.epochs import Callback, Plan
from bornfair.training.fitting import Fitted, Recipe, TableWarning, continue_fit, fit_table, resolve_response
from bornfair.training.options import TrainingOptions
from bornfair.training.provenance import KEPT_ASIDE, with_measured
from bornfair.training.table_classifier import TableClassifier

if TYPE_CHECKING:
    from bornfair.proof.certificate import Certificate


@dataclass(eq=False, repr=False)
class FairClassifier(TrainingOptions, TableClassifier):
    """A neural network classifier whose decisions never depend on the sensitive features.

    Parameters
    ----------
    sensitive_features : name (or, for arrays, position) of the column in which twins may differ, or a list of several.
    twins : rules for twins beyond that, as 'sex: Male<->Female, relationship: Husband<->Wife'.
    preset : 'default'; 'accurate', which takes some five times as long; or 'paper' for the setting of the paper's
        experiments. Options left None follow the preset.
    hidden : hidden widths, or one of 'paper', 'shallow', 'deep', 'large'.
    activation : 'relu', 'tanh', 'sigmoid' or 'gelu'.
    init : the fair start: 'exact', 'bernoulli:phi=-10,p=0.5', 'near_zero:scale=1e-10', 'shared_scalar:draw=uniform',
        'constant', a network or model. Preset 'default' starts 'exact', 'paper' as printed ('bernoulli:layers=all'),
        which hardly learns.
    response : how Algorithm 1 is read. A row's own value randomised, 'expected' (exact, certified) or 'sampled'; the
        values of the whole table randomised, as printed: 'population' (exact, certified at every γ) or
        'population_sampled'; or 'none' (plain training, not fair).
    gamma : 'solve' for the γ that preserves fairness, or a number; other than 0 only 'population' preserves it.
    project : where training alone proves nothing (sampled response, γ other than 0), replace the network in the end by
        the closest one that ignores the sensitive values: approximate fairness becomes exact, and is certified.
    draws : random responses per row and step for 'sampled' and 'population_sampled'.
    calibrate : fit a rising line through the scores on the rows kept for early stopping, so that probabilities mean
        what they say. It becomes part of the last layer: one network, one proof; thresholds are of what comes out.
    embedding : how the network sees numbers: as shares of bins, which are cut where boosted trees cut them ('boosted'),
        where a small tree on that number does ('piecewise'), or into equally many people ('quantiles'); or as they are
        ('none'). A preset's embedding goes with its own `hidden`, with activation 'relu' and init 'exact'; with others
        numbers are seen as they are unless asked for.
    bins : how many bins a number has at most.
    taught : how much of what is learnt about a row is the word of boosted trees, 0 to 1; they read no sensitive column,
        and have not learnt from that row. They are thrown away after training.
    members : so many networks are trained side by side, and the mean of their scores decides: one network, one proof.
    rotate : each member keeps other rows aside for early stopping, so that together they learn from all of them; not
        with `calibrate`, which needs rows that none has learnt from.
    averaging : what is judged and kept is a running mean of the weights, of which each step keeps so much; 0 for none.
    optimiser : 'sgd', 'momentum', 'adam', 'adamw', or an optax transformation (without its learning rate).
    learning_rate, schedule, weight_decay, dropout, label_smoothing, batch_size, epochs, validation_fraction, patience :
        see `algorithm.Plan`. A preset's dropout goes with its own `hidden` too.
    class_weight : None, 'balanced', or a weight for each class.
    threshold : where the model decides: None at ½, 0.05, 'top 12%' of the training rows, or {'approve': 0.3}.
    combinations : which combinations of sensitive values exist: 'all', or the 'observed' ones. By default all, but the
        observed ones of 0/1 columns that are one feature (one-hot); naming one such column then names all of them.
    domain : who could exist; inferred from the training table when None.
    missing : what gaps of the table are: 'learn' them as a value of their own, 'impute' the median or the most frequent
        value, or 'error'. Of a feature that was never missing in training a gap is an error later, unless imputed.
    least_count : categories of fewer rows are not stored: the model takes them for unseen. Sensitive ones stay.
    unseen, outside : what to do with values that do not fit; see `people.policies.Policies`.
    warm_start : go on from the network of the last fit.
    checkpoint : a file from which an interrupted fit goes on.
    callbacks : functions called after each epoch with a `training.epochs.Epoch`.
    random_state : the seed; the same seed gives the same bytes.

    Attributes
    ----------
    model_ : the trained `FairModel`; `certificate_` : what was proven; `domain_`, `classes_`, `gamma_`, `history_`.

    Examples
    --------
    >>> from bornfair import FairClassifier, datasets
    >>> people = datasets.load("credit").table
    >>> clf = FairClassifier(sensitive_features=["sex", "age"], epochs=2)
    >>> clf.fit(people.drop(columns="risk"), people["risk"]).certificate_.verdict.answer
    'verified'
    """

    sensitive_features: str | int | Sequence[str | int] = ()
    _: KW_ONLY
    twins: str | Sequence[str] | None = None
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    threshold: Threshold | None = None
    combinations: Literal["all", "observed"] | None = None
    domain: Domain | None = None
    missing: GapsInTraining = "learn"
    least_count: int = 1
    unseen: UnseenPolicy = "ignore"
    outside: OutsidePolicy = "allow"
    warm_start: bool = False
    checkpoint: str | Path | None = None
    callbacks: Sequence[Callback] = ()
    random_state: Any = 0

    # --- fitting ---

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FairClassifier:
        """Train on a table (pandas, polars or array) and certify the result."""
        frame, labels = self._checked(X, y, reset=not (self.warm_start and hasattr(self, "model_")))
        recipe = self._recipe()
        watched: dict[str, Any] = {
            "threshold": self.threshold, "callbacks": tuple(self.callbacks),
            "checkpoint_path": self.checkpoint, "resume": self.checkpoint is not None,
        }  # fmt: skip
        if self.warm_start and hasattr(self, "model_"):
            codes, weights = self._class_indices(labels), self._weights(labels, sample_weight)
            response = resolve_response(recipe, self.domain_)
            plan = dataclasses.replace(recipe.plan(len(frame)), members=len(self._members))
            fitted = continue_fit(
                self._members, frame, codes, self.model_.encoding, recipe, response, plan=plan, weights=weights,
                embedding=self._embedding, **watched,
            )  # fmt: skip
            return self._keep(fitted)
        self.classes_ = self._classes(labels)
        codes, domain = self._class_indices(labels), self._domain(frame, y)
        with warnings.catch_warnings():
            if self.least_count > 1:  # which makes them unseen
                warnings.filterwarnings("ignore", ".* hold values that are not in the domain", TableWarning)
            policies, weights = self._policies, self._weights(labels, sample_weight)
            fitted = fit_table(frame, codes, domain, recipe, policies=policies, weights=weights, **watched)
        return self._keep(fitted)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> FairClassifier:
        """One epoch on more rows, from where training stands. The first call needs all `classes`."""
        first = not hasattr(self, "model_")
        if first and classes is None:
            raise InputError("the first call of partial_fit must be passed classes: all class labels that will occur.")
        frame, labels = self._checked(X, y, reset=first)
        recipe = self._recipe()
        if first:
            self.classes_ = self._classes(np.asarray(classes))
            started = fit_table(
                frame, self._class_indices(labels), self._domain(frame, y),
                Recipe.of(self, recipe.seed, epochs=0, validation_fraction=0.0, patience=None),
                policies=self._policies, whole=False,
            )  # fmt: skip
            self._keep(started)
            self._rounds = 0
        elif classes is not None and not np.array_equal(self._classes(np.asarray(classes)), self.classes_):
            raise InputError(f"partial_fit was first called with classes {shown(self.classes_)}; they cannot change.")
        self._rounds = getattr(self, "_rounds", 0) + 1
        plan = recipe.plan(len(frame))
        once = Plan(**(vars(plan) | {
            "epochs": 1, "validation_fraction": 0.0, "patience": None, "schedule": "constant", "averaging": 0.0,
            "seed": plan.seed + self._rounds, "members": len(self._members),
        }))  # fmt: skip
        fitted = continue_fit(
            self._members, frame, self._class_indices(labels), self.model_.encoding, recipe,
            resolve_response(recipe, self.domain_), threshold=self.threshold, plan=once,
            weights=self._weights(labels, sample_weight), callbacks=tuple(self.callbacks),
            optimiser_state=self._optimiser_state, embedding=self._embedding, whole=False,
        )  # fmt: skip
        return self._keep(fitted)

    def _keep(self, fitted: Fitted) -> FairClassifier:
        self.model_ = fitted.model
        self.domain_ = fitted.model.domain
        self.certificate_: Certificate | None = fitted.model.certificate
        self.gamma_ = fitted.response.gamma
        self.start_ = fitted.start
        self.history_ = fitted.training.history
        self.n_iter_ = max(len(fitted.training.history), 1)
        self._members, self._embedding = fitted.members, fitted.embedding
        self._optimiser_state = fitted.training.optimiser_state
        return self

    # --- proving ---

    def certify(self, *, timeout: float = 60.0, seed: int = 0) -> FairClassifier:
        """Ask all engines, and put their answer into `certificate_` in a form that can be checked."""
        check_is_fitted(self)
        self.model_ = self.model_.certified(timeout=timeout, seed=seed)
        self.certificate_ = self.model_.certificate
        return self

    def record(self, X: Any, y: Any, on: str = KEPT_ASIDE) -> dict[str, Any]:
        """Measure on rows that training has not seen, and write the figures into `certificate_`, beside what training
        measured: saved bundles and their reports show all of them, each under its name.

        >>> from bornfair import FairClassifier, datasets
        >>> people = datasets.load("credit").table
        >>> X, y = people.drop(columns="risk"), people["risk"]
        >>> clf = FairClassifier(["sex"], hidden=[4], epochs=1).fit(X[:800], y[:800])
        >>> figures = clf.record(X[800:], y[800:])
        >>> figures["rows"], [one["on"] for one in clf.certificate_.training["measured"]][-1]
        (200, 'rows kept aside')
        """
        check_is_fitted(self)
        frame, truth = self._checked(X, y, reset=False)
        with self.model_.encoding.keeping(frame):
            scores = self.model_.scores(frame)
            fairness = self.model_.empirical_fairness(frame) if self.domain_.sensitive else None
        shown = self.model_.probabilities(scores)
        figures = {
            "on": on,
            "rows": len(frame),
            **metrics.quality(truth, self.classes_[decisions(scores)]),
            "auc": metrics.auc(truth, shown, self.classes_),
            "brier": metrics.brier(truth, shown, self.classes_),
            "empirical_fairness": fairness,
        }
        if self.certificate_ is not None:
            self.certificate_ = with_measured(self.certificate_, figures)
            self.model_ = dataclasses.replace(self.model_, certificate=self.certificate_)
        return figures

    # --- options ---

    def _weights(self, labels: np.ndarray, sample_weight: Any) -> np.ndarray | None:
        if sample_weight is None and self.class_weight is None:
            return None
        weights = _check_sample_weight(sample_weight, np.zeros((len(labels), 1)))
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, labels)
        if (weights < 0).any() or not weights.any():
            raise InputError("sample weights must be at least 0, and not all 0.")
        return weights

    @property
    def _policies(self) -> Policies:
        return Policies.in_training(self.missing, self.unseen, self.outside)

    def _recipe(self) -> Recipe:
        return Recipe.of(self, self._seed())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags
