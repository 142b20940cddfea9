"""What all baselines share: a scikit-learn classifier that reads a table, sensitive columns included, and trains.

A baseline is one method of `_train` (encoded people in, network out) and one of `certify` (what the method itself has
to say about given people). Everything else is as in `FairClassifier`, so that only the training differs.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bornfair.core.checks import number, whole
from bornfair.core.errors import Diverged, InputError, shown
from bornfair.models.metrics import same_for_all
from bornfair.models.network.network import Network, decisions, hidden_widths
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.policies import Policies
from bornfair.proof.bundle import FairModel
from bornfair.training.table_classifier import TableClassifier


@dataclass(frozen=True, eq=False)
class BaselineData:
    """A training table as numbers. The network's input is [free, codes], in this order."""

    free: np.ndarray  # float32 [rows, free]
    codes: np.ndarray  # float32 [rows, sensitive]: each row's own sensitive values
    all_codes: np.ndarray  # float32 [|S|, sensitive]: every sensitive value, in the order of S
    labels: np.ndarray  # int64 [rows], 0 … K−1
    positions: np.ndarray  # int64 [rows]: each row's own place in S
    encoding: Encoding
    seed: int

    @property
    def inputs(self) -> np.ndarray:
        """[free, codes]: what the network reads, float32 [rows, width]."""
        return np.concatenate([self.free, self.codes], axis=1)

    @property
    def outputs(self) -> int:
        """How many outputs the network needs: 1 for two classes, else K."""
        return self.encoding.domain.outputs


@dataclass(frozen=True, eq=False)
class Certified:
    """What a method proves about given people; `meaning` says in a sentence what a True in `certified` is worth."""

    certified: np.ndarray  # bool [rows]
    number: float  # the method's own measure; which one, `meaning` says
    meaning: str
    numbers: np.ndarray | None = None  # the same for each row, where the method has one: float64 [rows]

    @property
    def share(self) -> float:
        """Share of the rows that are certified."""
        return float(np.mean(self.certified))


@dataclass(eq=False, repr=False)
class Baseline(TableClassifier, metaclass=ABCMeta):
    """A method to compare with, used like `FairClassifier`. Its options are the fields of a dataclass.

    Parameters
    ----------
    sensitive_features : names (or, for arrays, positions) of the columns in which twins may differ; all are inputs.
    hidden : hidden widths, or one of 'paper', 'shallow', 'deep', 'large'.
    epochs, batch_size, learning_rate : how long, in what portions and how fast to learn.
    domain : who could exist; inferred from the training table when None.
    random_state : the seed; the same seed gives the same bytes.

    Attributes
    ----------
    model_ : the trained `FairModel`; `domain_`, `classes_`.
    """

    # Any: a constructor stores whatever it is given, fit checks; and a method may allow more, as None or 'auto'.
    sensitive_features: Sequence[str | int] = ()
    _: KW_ONLY
    hidden: Any = "paper"
    epochs: Any = 100
    batch_size: Any = 256
    learning_rate: Any = 1e-3
    domain: Domain | None = None
    random_state: Any = 0

    multiclass: ClassVar[bool] = False
    """Whether the method can tell more than two classes apart."""
    automatic: ClassVar[bool] = False
    """Whether epochs and batch size may be 'auto'."""

    # --- what a method brings ---

    @abstractmethod
    def _train(self, data: BaselineData) -> Network:
        """The trained network, with inputs [free, codes] and `data.outputs` outputs."""

    @abstractmethod
    def certify(self, X: Any) -> Certified:
        """What the method itself proves about these people."""

    def _check_options(self) -> None:
        """Refuse options that cannot be used; a method with options of its own adds its checks."""
        hidden_widths(self.hidden)
        for name, least in (("epochs", 0), ("batch_size", 1)):
            if not (self.automatic and getattr(self, name) == "auto"):
                whole(name, getattr(self, name), least)
        number("learning_rate", self.learning_rate, 0.0, float("inf"), open_low=True)

    # --- fitting ---

    def fit(self, X: Any, y: Any) -> Self:
        """Train on a table (pandas, polars or array) that includes the sensitive columns."""
        name = type(self).__name__
        self._check_options()
        frame, labels = self._checked(X, y, reset=True)
        self.classes_ = self._classes(labels)
        if len(self.classes_) > 2 and not self.multiclass:
            raise InputError(
                f"{name}: Only binary classification is supported. The type of the target is multiclass, with the "
                f"classes {shown(self.classes_)}; keep two of them, or use ERM, Unaware or FairClassifier."
            )
        encoding = Encoding.fit(self._domain(frame, y), frame, Policies(unseen="ignore"))
        encoded = encoding.encode(frame)
        assert encoded.sensitive is not None  # the domain's columns are all there: Encoding.fit has read them
        network = self._train(
            BaselineData(
                free=encoded.free,
                codes=encoded.sensitive,
                all_codes=encoding.codes,
                labels=self._class_indices(labels),
                positions=encoding.sensitive_index(encoded),
                encoding=encoding,
                seed=self._seed(),
            )
        )
        if (i := network.broken_layer) is not None:
            raise Diverged(f"{name} diverged: layer {i} holds NaN or infinity; lower the learning rate.")
        self.model_ = FairModel(network, encoding)
        self.domain_ = encoding.domain
        return self

    # --- for certify ---

    def _encoded(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Free part and own sensitive codes of rows, as the network reads them."""
        self._require_twins()
        encoded = self.model_.encoding.encode(self._frame(X, reset=False))
        if encoded.sensitive is None:
            raise InputError(
                f"the table has no sensitive column {shown(self.domain_.sensitive)}, but a certificate starts from "
                "each person's own value; give the column."
            )
        return encoded.free, encoded.sensitive

    def _same_decision(self, X: Any) -> np.ndarray:
        """For each row: is its decision, in float32 as shipped, the same for every value of S? (bool [rows])"""
        self._require_twins()
        return same_for_all(decisions(self.model_.scores_of_versions(self._frame(X, reset=False))))

    def _require_twins(self) -> None:
        check_is_fitted(self)
        self.domain_.require_sensitive()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multiclass
        return tags
