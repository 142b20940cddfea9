"""bornfair for scikit-learn users: a classifier that is individually fair by construction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from bornfair.checks import choice
from bornfair.domain import Domain, Label, unknown_column
from bornfair.encoding import MissingPolicy, OutsidePolicy, Policies, UnseenPolicy
from bornfair.errors import InputError, plain, plain_value, shown
from bornfair.fitting import Fitted, Recipe, continue_fit, fit_table, resolve_response
from bornfair.model import probabilities
from bornfair.network import Activation, decisions
from bornfair.tables import as_pandas
from bornfair.training import Callback, Plan

if TYPE_CHECKING:
    from bornfair.certificate import Certificate
    from bornfair.verification import Verdict


class FairClassifier(ClassifierMixin, BaseEstimator):
    """A neural network classifier whose decisions never depend on the sensitive features.

    Parameters
    ----------
    sensitive_features : names (or, for arrays, positions) of the columns in which twins may differ.
    preset : 'default', or 'paper' for the setting of the paper's experiments. Options left None follow the preset.
    hidden : hidden widths, or one of 'paper', 'shallow', 'deep', 'large'.
    activation : 'relu', 'tanh', 'sigmoid' or 'gelu'.
    init : the fair start: 'exact', 'bernoulli:phi=-10,p=0.5', 'near_zero:scale=1e-10', 'constant', a network or model.
    response : 'expected' (exact, certified), 'sampled' (Algorithm 1 as printed) or 'none' (plain training, not fair).
    gamma : 'solve' for the γ that preserves fairness, or a number; then nothing is certified unless it is 0.
    draws : random responses per row and step for 'sampled'.
    optimiser : 'sgd', 'momentum', 'adam', 'adamw', or an optax transformation (without its learning rate).
    learning_rate, schedule, weight_decay, batch_size, epochs, validation_fraction, patience : see `training.Plan`.
    class_weight : None, 'balanced', or a weight for each class.
    combinations : with several sensitive features, 'all' combinations of their values exist, or the 'observed' ones.
    domain : who could exist; inferred from the training table when None.
    missing, unseen, outside : what to do with values that do not fit; see `encoding.Policies`.
    warm_start : go on from the network of the last fit.
    checkpoint : a file from which an interrupted fit goes on.
    callbacks : functions called after each epoch with a `training.Epoch`.
    random_state : the seed; the same seed gives the same bytes.

    Attributes
    ----------
    model_ : the trained `FairModel`; `certificate_` : what was proven; `domain_`, `classes_`, `gamma_`, `history_`.

    Examples
    --------
    >>> from bornfair import FairClassifier, datasets
    >>> people = datasets.load("credit").table
    >>> clf = FairClassifier(sensitive_features=["sex", "age"], epochs=2)
    >>> clf.fit(people.drop(columns="risk"), people["risk"]).certificate_.verdict.verdict
    'verified'
    """

    def __init__(
        self,
        sensitive_features: Sequence[str | int] = (),
        *,
        preset: str = "default",
        hidden: str | Sequence[int] | None = None,
        activation: Activation = "relu",
        init: Any = "exact",
        response: Literal["expected", "sampled", "none"] = "expected",
        gamma: float | Literal["solve"] = "solve",
        draws: int = 1,
        optimiser: Any = None,
        learning_rate: float | None = None,
        schedule: str | None = None,
        weight_decay: float | None = None,
        batch_size: int | Literal["auto"] | None = None,
        epochs: int | Literal["auto"] | None = None,
        validation_fraction: float | None = None,
        patience: int | Literal["auto"] | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        combinations: Literal["all", "observed"] = "all",
        domain: Domain | None = None,
        missing: Literal["error", "impute"] = "error",
        unseen: Literal["error", "ignore"] = "error",
        outside: Literal["allow", "clip", "error"] = "allow",
        warm_start: bool = False,
        checkpoint: str | Path | None = None,
        callbacks: Sequence[Callback] = (),
        random_state: Any = 0,
    ) -> None:
        self.sensitive_features = sensitive_features
        self.preset = preset
        self.hidden = hidden
        self.activation = activation
        self.init = init
        self.response = response
        self.gamma = gamma
        self.draws = draws
        self.optimiser = optimiser
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.epochs = epochs
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.class_weight = class_weight
        self.combinations = combinations
        self.domain = domain
        self.missing = missing
        self.unseen = unseen
        self.outside = outside
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.random_state = random_state

    # --- fitting ---

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FairClassifier:
        """Train on a table (pandas, polars or array) and certify the result."""
        frame, labels = self._checked(X, y, reset=not (self.warm_start and hasattr(self, "model_")))
        recipe = self._recipe()
        if self.warm_start and hasattr(self, "model_"):
            codes = self._class_indices(labels)
            weights = self._weights(labels, sample_weight)
            response = resolve_response(recipe, self.domain_)
            fitted = continue_fit(
                self.model_.network, frame, codes, self.model_.encoding, recipe, response, weights=weights,
                callbacks=tuple(self.callbacks), checkpoint_path=self.checkpoint, resume=self.checkpoint is not None,
            )  # fmt: skip
            return self._keep(fitted)
        self.classes_ = self._classes(labels)
        fitted = fit_table(
            frame,
            self._class_indices(labels),
            self._domain(frame, y),
            recipe,
            policies=self._policies(),
            weights=self._weights(labels, sample_weight),
            callbacks=tuple(self.callbacks),
            checkpoint_path=self.checkpoint,
            resume=self.checkpoint is not None,
        )
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
                Recipe(**(vars(recipe) | {"epochs": 0, "validation_fraction": 0.0, "patience": None})),
                policies=self._policies(),
            )  # fmt: skip
            self._keep(started)
            self._rounds = 0
        elif classes is not None and not np.array_equal(self._classes(np.asarray(classes)), self.classes_):
            raise InputError(f"partial_fit was first called with classes {shown(self.classes_)}; they cannot change.")
        self._rounds = getattr(self, "_rounds", 0) + 1
        plan = recipe.plan(len(frame))
        once = Plan(**(vars(plan) | {
            "epochs": 1, "validation_fraction": 0.0, "patience": None, "schedule": "constant",
            "seed": plan.seed + self._rounds,
        }))  # fmt: skip
        fitted = continue_fit(
            self.model_.network, frame, self._class_indices(labels), self.model_.encoding, recipe,
            resolve_response(recipe, self.domain_),
            plan=once, weights=self._weights(labels, sample_weight), callbacks=tuple(self.callbacks),
            optimiser_state=self._optimiser_state,
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
        self._optimiser_state = fitted.training.optimiser_state
        return self

    # --- using ---

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row. A fair model needs no sensitive columns."""
        decided = decisions(self._scores(X))
        return self.classes_[decided]

    def predict_proba(self, X: Any) -> np.ndarray:
        return probabilities(self._scores(X))

    def decision_function(self, X: Any) -> np.ndarray:
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def empirical_fairness(self, X: Any) -> float:
        """Share of the rows whose decision is the same for every sensitive value."""
        check_is_fitted(self)
        return self.model_.empirical_fairness(self._frame(X, reset=False))

    def verify(self, *, timeout: float = 60.0, seed: int = 0) -> Verdict:
        """Ask the verifier, from the weights alone, whether twins always get the same decision."""
        check_is_fitted(self)
        return self.model_.verify(timeout=timeout, seed=seed)

    def certify(self, *, timeout: float = 60.0, seed: int = 0) -> FairClassifier:
        """Ask all engines, and put their answer into `certificate_` in a form that can be checked."""
        check_is_fitted(self)
        self.model_ = self.model_.certified(timeout=timeout, seed=seed)
        self.certificate_ = self.model_.certificate
        return self

    def save(self, path: str | Path, *, sensitive: bool = True) -> Path:
        """Write a bundle (a folder, or a .zip) that `bornfair.load` reads and `bornfair check` examines.

        sensitive=False: its model.onnx takes no sensitive columns (only if the model ignores them).
        """
        check_is_fitted(self)
        return self.model_.save(path, sensitive=sensitive)

    def export_onnx(self, path: str | Path, *, sensitive: bool = True) -> Path:
        """Write model.onnx alone, to be served by onnxruntime."""
        check_is_fitted(self)
        return self.model_.export_onnx(path, sensitive=sensitive)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.model_.scores(self._frame(X, reset=False))

    # --- checking input ---

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[pd.DataFrame, np.ndarray]:
        if y is None:
            raise InputError("FairClassifier requires y to be passed, but the target y is None.")
        frame = self._frame(X, reset=reset)
        labels = column_or_1d(y, warn=True)
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        if len(labels) != len(frame):
            raise InputError(f"X has {len(frame)} rows but y has {len(labels)}; they must be the same people.")
        if pd.isna(labels).any():
            raise InputError(f"the target is missing (NaN) in {int(pd.isna(labels).sum())} rows; remove those rows.")
        return frame, labels

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        if hasattr(X, "columns") and hasattr(X, "shape"):
            frame = as_pandas(X)
            if not any(isinstance(name, str) for name in frame.columns):  # numbered columns: as good as an array
                validate_data(self, frame, reset=reset, skip_check_array=True)
                return frame.set_axis([f"x{i}" for i in range(frame.shape[1])], axis=1)
            sensitive = () if reset else self.domain_.sensitive
            if sensitive and self.model_.ignores_sensitive and not any(name in frame.columns for name in sensitive):
                wanted = [name for name in self.domain_.names if name not in sensitive]
                self._check_columns(frame, wanted)
                return frame
            validate_data(self, frame, reset=reset, skip_check_array=True)
            if not len(frame):
                raise InputError(
                    "found 0 rows (0 sample(s)); a table needs at least one row, a minimum of 1 is required."
                )
            return frame
        finite = "allow-nan" if self.missing == "impute" else True
        array = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=finite)
        return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])]).infer_objects()

    @staticmethod
    def _check_columns(frame: pd.DataFrame, wanted: list[str]) -> None:
        for name in wanted:
            if name not in frame.columns:
                raise InputError(unknown_column(name, list(frame.columns)))

    def _classes(self, labels: np.ndarray) -> np.ndarray:
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InputError(
                f"the target has one class only, {shown(classes)}, in all {len(labels)} rows; "
                "a classifier needs at least two."
            )
        return classes

    def _class_indices(self, labels: np.ndarray) -> np.ndarray:
        index = np.searchsorted(self.classes_, labels)
        index = np.minimum(index, len(self.classes_) - 1)
        unknown = self.classes_[index] != labels
        if unknown.any():
            raise InputError(
                f"the target holds {plain(labels[int(np.argmax(unknown))])!r}, which is not one of the classes "
                f"{shown(self.classes_)}."
            )
        return index

    def _weights(self, labels: np.ndarray, sample_weight: Any) -> np.ndarray | None:
        if sample_weight is None and self.class_weight is None:
            return None
        weights = _check_sample_weight(sample_weight, np.zeros((len(labels), 1)))
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, labels)
        if (weights < 0).any() or not weights.any():
            raise InputError("sample weights must be at least 0, and not all 0.")
        return weights

    # --- options ---

    def _domain(self, frame: pd.DataFrame, y: Any) -> Domain:
        names = tuple(self._sensitive_name(feature, frame) for feature in self.sensitive_features)
        domain = self.domain
        if domain is None:
            domain = Domain.infer(frame, sensitive=names, combinations=self.combinations)
        elif names and domain.sensitive != names:
            domain = domain.with_sensitive(names)
        name = str(getattr(y, "name", None) or "target")
        while name in domain.names:
            name += "_"
        label = Label(name=name, classes=tuple(plain_value(c) for c in self.classes_))
        return domain.replaced(label=label)

    def _sensitive_name(self, feature: str | int, frame: pd.DataFrame) -> str:
        if isinstance(feature, (int, np.integer)) and not isinstance(feature, bool):
            if not 0 <= feature < frame.shape[1]:
                raise InputError(
                    f"sensitive feature {feature} is out of range; there are {frame.shape[1]} columns, from 0."
                )
            return str(frame.columns[feature])
        if feature not in frame.columns:
            raise InputError(unknown_column(feature, list(frame.columns), "sensitive feature"))
        return str(feature)

    def _policies(self) -> Policies:
        for name, kind in (("missing", MissingPolicy), ("unseen", UnseenPolicy), ("outside", OutsidePolicy)):
            choice(name, getattr(self, name), get_args(kind))
        return Policies(missing=self.missing, unseen=self.unseen, outside=self.outside)

    def _recipe(self) -> Recipe:
        state = self.random_state
        seed = int(state) if isinstance(state, (int, np.integer)) else int(check_random_state(state).randint(2**31))
        names = [name for name in Recipe.__dataclass_fields__ if name != "seed"]
        return Recipe(seed=seed, **{name: getattr(self, name) for name in names})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.missing == "impute"
        tags.non_deterministic = False
        return tags
