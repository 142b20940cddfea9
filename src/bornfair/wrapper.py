"""Any estimator, born fair: a scikit-learn classifier around another, to which twins are one person.

Method 'merge' shows the inner estimator only what twins have in common. Method 'average' shows it everything: a class
that all versions of a person get is decided, and otherwise the mean of the probabilities over all versions, at the
operating point of the estimator. Versions come in one order that is the same for all twins.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter

from bornfair.core.checks import choice
from bornfair.core.errors import InputError, plain, shown
from bornfair.models import metrics
from bornfair.models.operating import agreeing, point_of_means
from bornfair.models.verdict import Verdict
from bornfair.parallel.task import openmp_after_fork
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.people.levels import as_listed, level_positions
from bornfair.people.policies import UnseenPolicy
from bornfair.people.twins.versions import Folding, Versions
from bornfair.proof.bundle import AnyBundle
from bornfair.proof.certificate import Certificate, certified
from bornfair.questions.repairing.graphs import FittedEstimator, exported
from bornfair.training.provenance import KEPT_ASIDE, operating_facts, with_measured
from bornfair.training.table_classifier import TableClassifier

PROBES = 256  # people whose shares are part of a fingerprint
KEPT_ROWS = 256  # of the training table, to compare a written model with
TOGETHER = 65_536  # rows of all versions that the inner estimator is asked about at once


def _shows_shares(wrapper: FairWrapper) -> bool:
    inner = getattr(wrapper, "estimator_", wrapper.estimator)
    return hasattr(inner, "predict_proba")


@dataclass(eq=False, repr=False)
class FairWrapper(TableClassifier):
    """Any scikit-learn classifier, made fair: two people who are twins get the same score, bit for bit.

    Parameters
    ----------
    estimator : the classifier to make fair; an estimator that is fitted already goes in as `FrozenEstimator(it)`, with
        method 'average'.
    sensitive_features : name (or, for arrays, position) of the column in which twins may differ, or a list of several.
    twins : rules for twins beyond that, as 'sex: Male<->Female, relationship: Husband<->Wife'.
    method : 'merge' trains it on what twins have in common: without the sensitive columns, declared twins as one of
        them. 'average' trains it on everything; the class that all versions of a person get is decided, and where they
        get several, the mean of its shares decides at its threshold (FixedThresholdClassifier), or by the largest.
    encoding : 'auto' gives it one column for each category, unless it is or wraps a pipeline, or all columns are
        numbers; 'one-hot' always does so, 'none' hands the table on as it is.
    unseen : what to do with categories that training has not seen: 'error', or 'ignore'.
    combinations : which combinations of sensitive values exist: 'all', or the 'observed' ones. By default all, but the
        observed ones of 0/1 columns that are one feature (one-hot); naming one such column then names all of them.
    domain : who could exist; inferred from the training table when None.

    Attributes
    ----------
    estimator_ : the fitted inner estimator, with its encoding; `domain_`, `classes_`.
    model_ : what `save` writes, a `FairModel`, `FairForest` or `FairGraph`; None where there is no such thing.
    certificate_ : what was proven, of the files that `save` writes, or by construction of this Python object.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from bornfair import FairWrapper, datasets
    >>> people = datasets.load("credit").table
    >>> forest = RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0)
    >>> clf = FairWrapper(forest, sensitive_features=["sex"], method="average")
    >>> clf.fit(people.drop(columns="risk"), people["risk"]).certificate_.verdict.answer
    'verified'
    """

    estimator: Any
    sensitive_features: str | int | Sequence[str | int] = ()
    _: KW_ONLY
    twins: str | Sequence[str] | None = None
    method: Literal["merge", "average"] = "merge"
    encoding: Literal["auto", "one-hot", "none"] = "auto"
    unseen: UnseenPolicy = "error"
    combinations: Literal["all", "observed"] | None = None
    domain: Domain | None = None

    missing = "impute"  # gaps in numbers are handed on; the inner estimator takes them or says why not

    # --- fitting ---

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FairWrapper:
        """Train the inner estimator on what the method shows it."""
        self._check_options()
        openmp_after_fork()
        frame, labels = self._checked(X, y, reset=True)
        self.classes_ = self._classes(labels)
        self.domain_ = self._domain(frame, y)
        self._kept: tuple[Any, ...] | None = None
        folding = Folding(self.domain_)
        if self.method == "average" and self.domain_.sensitive:
            folding.check()
        if not self.domain_.free_features and self.domain_.sensitive:
            raise InputError(
                f"every column is sensitive ({len(self.domain_.names)} feature(s)); what twins have in common is "
                "nothing to decide from."
            )
        frame = as_listed(self.domain_, frame)[list(self.domain_.names)]
        table = folding.merged(frame) if self.method == "merge" else frame
        inner = self._inner(table)
        codes = _needs_numbers(inner)
        if codes:
            inner.set_params(**self._numbered(inner))
        wanted = self._class_indices(labels) if codes else labels
        given = {} if sample_weight is None else self._weights(inner, sample_weight, len(frame))
        try:
            self.estimator_ = inner.fit(table, wanted, **given)
        except (KeyError, ValueError) as error:
            raise self._explained(error, table) from error
        self._require_shares(self.estimator_)  # some know only when they are fitted
        self.shown_ = tuple(table.columns)
        self._known_rows = _some_rows(frame)
        self._at = self._fitted().operating(table) if self.method == "average" else None
        return self

    def _check_options(self) -> None:
        choice("method", self.method, ("merge", "average"))
        choice("encoding", self.encoding, ("auto", "one-hot", "none"))
        choice("unseen", self.unseen, ("error", "ignore"))
        name = type(self.estimator).__name__
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise InputError(
                f"estimator must be a scikit-learn classifier, such as LogisticRegression(), found {name}."
            )
        if not hasattr(type(self.estimator), "predict_proba"):
            self._require_shares(self.estimator)

    def _require_shares(self, inner: Any) -> None:
        if self.method == "average" and not hasattr(inner, "predict_proba"):
            raise InputError(
                f"{type(self.estimator).__name__} has no predict_proba, and method 'average' decides by the mean of "
                "shares; wrap it in CalibratedClassifierCV, or use method 'merge'."
            )

    def _inner(self, table: pd.DataFrame) -> Any:
        """The estimator to fit, behind an encoder where it needs one."""
        inner = clone(self.estimator)
        texts = [
            feature for feature in self.domain_.features
            if feature.name in table.columns and feature.kind == "categorical"
        ]  # fmt: skip
        numbers = all(pd.api.types.is_numeric_dtype(table[feature.name]) for feature in texts)
        if self.encoding == "none" or (self.encoding == "auto" and (_takes_tables(inner) or numbers)):
            return inner
        from sklearn.compose import ColumnTransformer
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import OneHotEncoder

        levels = [np.array(feature.levels(), object) for feature in texts]
        hot = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
        encoder = ColumnTransformer([("categories", hot, [f.name for f in texts])], remainder="passthrough")
        return Pipeline([("encoding", encoder), *getattr(inner, "steps", [("estimator", inner)])])

    def _numbered(self, inner: Any) -> dict[str, Any]:
        """Parameters that name a class, for an estimator that is told the classes' numbers."""
        return {
            name: int(self._class_indices(np.array([value]))[0]) for name, value in inner.get_params().items()
            if name.split("__")[-1] == "pos_label" and value is not None
        }  # fmt: skip

    def _weights(self, inner: Any, sample_weight: Any, count: int) -> dict[str, Any]:
        weights = _check_sample_weight(sample_weight, np.zeros((count, 1)))
        steps = getattr(inner, "steps", None)
        final = steps[-1][1] if steps else inner
        if not has_fit_parameter(final, "sample_weight"):
            raise InputError(f"{type(final).__name__} takes no sample_weight; leave the weights out.")
        return {f"{steps[-1][0]}__sample_weight" if steps else "sample_weight": weights}

    def _explained(self, error: Exception, table: pd.DataFrame) -> Exception:
        """An error of the inner estimator, with what it has to do with the wrapper."""
        said = " ".join(str(error).split())[:300]
        told = f"{said} {error.__cause__ or ''}"  # some versions of scikit-learn name a column in the cause only
        gone = [name for name in self.domain_.sensitive if name in told] if self.method == "merge" else []
        if gone:
            return InputError(
                f"the inner estimator asks for {shown(gone)}, which method 'merge' does not show it ({said}); leave "
                "the column out of its pipeline, or use method 'average'."
            )
        texts = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
        if "could not convert string" in said and texts:
            return InputError(
                f"the inner estimator takes numbers, but {shown(texts)} holds texts ({said}); use encoding='one-hot', "
                "or make an encoder part of its pipeline."
            )
        gaps = [name for name in table.columns if table[name].isna().any()]
        if gaps and "NaN" in said:
            return InputError(
                f"{type(self.estimator).__name__} takes no missing values (NaN), and {shown(gaps)} has some; use an "
                "estimator that takes them (HistGradientBoostingClassifier, XGBoost, LightGBM), or put a SimpleImputer "
                "before it in a pipeline."
            )
        return error

    # --- deciding ---

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row. No sensitive columns are needed."""
        frame = self._asked(X)
        if self.method == "merge":
            return self.classes_[self._own_classes(self._merged(frame))]
        return self.classes_[self._averaged(frame)[1]]

    @available_if(_shows_shares)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The share of each class; the mean over all versions of the person, if averaged."""
        return self._shares(self._asked(X))

    @available_if(_shows_shares)
    def decision_function(self, X: Any) -> np.ndarray:
        """The share of the last of two classes less that of the other, moved so that it is above 0 where that class is
        decided; of more classes, their shares.
        """
        frame = self._asked(X)
        if self.method == "merge":
            merged = self._merged(frame)
            shares, decided = self._shares(frame), self._own_classes(merged)
        else:
            shares, decided = self._averaged(frame)
        scores = agreeing(shares, decided, self._at)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _asked(self, X: Any) -> pd.DataFrame:
        check_is_fitted(self)
        openmp_after_fork()
        frame = as_listed(self.domain_, self._frame(X, reset=False))
        self._check_columns(frame, list(self.domain_.free_names))
        if self.unseen == "error":
            self._check_levels(frame)
        return frame

    def _check_levels(self, frame: pd.DataFrame) -> None:
        for feature in self.domain_.free_features:
            if isinstance(feature, NUMERIC):
                continue
            column = frame[feature.name]
            strange = (level_positions(feature, column) < 0) & column.notna().to_numpy()
            if strange.any():
                found = plain(column.iloc[int(np.argmax(strange))])
                raise InputError(
                    f"column '{feature.name}' holds {found!r}, which is not among {shown(feature.levels())}; correct "
                    "it, list it in the domain, or use unseen='ignore'."
                )

    def _merged(self, frame: pd.DataFrame) -> pd.DataFrame:
        return Folding(self.domain_).merged(frame)[list(self.shown_)]

    def _own_classes(self, table: pd.DataFrame) -> np.ndarray:
        """Class indices, as the inner estimator decides."""
        found = np.asarray(self.estimator_.predict(table)).ravel()
        return found.astype(np.int64) if _needs_numbers(self.estimator_) else self._class_indices(found)

    def _shares(self, frame: pd.DataFrame) -> np.ndarray:
        if self.method == "merge":
            return np.asarray(self.estimator_.predict_proba(self._merged(frame)))
        total = np.zeros((len(frame), len(self.classes_)))
        for part in self._of_versions(frame, self._inner_shares):
            total += part
        return total / Folding(self.domain_).size

    def _inner_shares(self, table: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.estimator_.predict_proba(table), np.float64)

    def _averaged(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The mean of the shares, and the class: that of all versions if they get one, else by the mean."""
        shares = self._shares(frame)
        at = point_of_means(self._at, len(self.classes_))
        decided = shares.argmax(axis=1) if at is None else at.decide(shares)
        least, most = np.full(len(frame), len(self.classes_)), np.full(len(frame), -1)
        for part in self._of_versions(frame, self._own_classes):
            least, most = np.minimum(least, part), np.maximum(most, part)
        return shares, np.where(least == most, least, decided)

    def _of_versions(self, frame: pd.DataFrame, answer: Callable[[pd.DataFrame], np.ndarray]) -> Iterator[np.ndarray]:
        """What the inner estimator answers for everybody as each version, in order; asked about many at once."""
        folding, waiting = Folding(self.domain_), list[pd.DataFrame]()
        together = max(1, TOGETHER // max(len(frame), 1))
        for i, table in enumerate(folding.tables(frame)):
            waiting.append(table)
            if len(waiting) == together or i + 1 == folding.size:
                found = answer(pd.concat(waiting, ignore_index=True))
                yield from found.reshape(len(waiting), len(frame), *found.shape[1:])
                waiting = []

    def empirical_fairness(self, X: Any, *, declared: bool = True) -> float:
        """Share of the rows whose decision is the same for every version of the person (declared=False: for every
        sensitive value only).
        """
        frame, versions = self._asked(X), Versions(self.domain_)
        self.domain_.require_sensitive()
        count = versions.size if declared else versions.sensitive_size
        return float(np.mean(metrics.same_for_all(self._decided_versions(frame, versions, count))))

    def _decided_versions(self, frame: pd.DataFrame, versions: Versions, count: int) -> Iterator[np.ndarray]:
        """Decisions about everybody as each version. Only what twins have in common is looked at, so that a version
        that has the same in common as the first one is not asked about again.
        """
        seen: list[tuple[pd.DataFrame, np.ndarray]] = []
        for version in range(count):
            table = versions.table(frame, version)[list(self.domain_.names)]
            merged = Folding(self.domain_).merged(table)
            known = next((decided for other, decided in seen if merged.equals(other)), None)
            if known is None:
                known = self.predict(table)
                seen.append((merged, known))
            yield known

    # --- proving ---

    @property
    def model_(self) -> AnyBundle | None:  # type: ignore[override]
        """What `save` writes, certified; None where the inner estimator cannot be written as a file."""
        return self._written()[0]

    @property
    def certificate_(self) -> Certificate:
        """What was proven: of the files that `save` writes; where there are none, of this Python object."""
        model = self._written()[0]
        if model is None:
            return self._written()[2]
        assert model.certificate is not None
        return model.certificate

    def _written(self) -> tuple[Any, str, Any]:
        """The model, or why there is none, and then the certificate of the object."""
        check_is_fitted(self)
        if self._kept is None:
            try:
                found = exported(self._fitted(), self.method)
            except InputError as error:
                self._kept = (None, str(error), self._certificate_of_object(str(error)))
            else:
                self._kept = (self._told(certified(found, timeout=60.0)), "", None)
        return self._kept

    def _fitted(self) -> FittedEstimator:
        if not _shows_shares(self):
            raise InputError(f"{type(self.estimator).__name__} has no predict_proba, and a bundle shows shares.")
        return FittedEstimator(self.estimator_, self.domain_, self.shown_, self._known_rows)

    def _told(self, model: Any) -> Any:
        training = {"estimator": type(self.estimator).__name__, "method": self.method} | operating_facts(model)
        return dataclasses.replace(model, certificate=dataclasses.replace(model.certificate, training=training))

    def verify(self, *, timeout: float = 60.0, seed: int = 0) -> Verdict:
        """Ask the verifier, from the file that `save` writes, whether twins always get the same decision; where there
        is none, whether this object treats them alike by construction.
        """
        model, _, own = self._written()
        return own.verdict if model is None else model.verify(timeout=timeout, seed=seed)

    def save(self, path: str | Path, *, sensitive: bool = True) -> Path:
        """Write a bundle (a folder, or a .zip) that `bornfair.load` reads and `bornfair check` examines."""
        return self._file().save(path, sensitive=sensitive)

    def export_onnx(self, path: str | Path, *, sensitive: bool = True) -> Path:
        """Write model.onnx alone, to be served by onnxruntime."""
        return self._file().export_onnx(path, sensitive=sensitive)

    def _file(self) -> AnyBundle:
        model, why, _ = self._written()
        if model is None:
            raise InputError(
                f"there is no file to write: {why.rstrip('.')}. The certificate binds this Python object only; choose "
                "an estimator that can be read or converted, or keep the object."
            )
        return model

    def record(self, X: Any, y: Any, on: str = KEPT_ASIDE) -> dict[str, Any]:
        """Measure on rows that training has not seen, and write the figures into `certificate_`.

        >>> from sklearn.linear_model import LogisticRegression
        >>> from bornfair import FairWrapper, datasets
        >>> people = datasets.load("credit").table[["duration_months", "amount", "age", "risk"]]
        >>> X, y = people.drop(columns="risk"), people["risk"]
        >>> clf = FairWrapper(LogisticRegression(max_iter=500), ["age"]).fit(X[:800], y[:800])
        >>> clf.record(X[800:], y[800:])["rows"], clf.certificate_.training["measured"][0]["on"]
        (200, 'rows kept aside')
        """
        frame, truth = self._checked(X, y, reset=False)
        decided, shares = self.predict(frame), _shows_shares(self)
        figures = {
            "on": on,
            "rows": len(frame),
            **metrics.quality(truth, decided),
            "auc": metrics.auc(truth, self.predict_proba(frame), self.classes_) if shares else None,
            "empirical_fairness": self.empirical_fairness(frame) if self.domain_.sensitive else None,
        }
        model, why, own = self._written()
        told = with_measured(self.certificate_, figures)
        self._kept = (None, why, told) if model is None else (dataclasses.replace(model, certificate=told), why, own)
        return figures

    # --- where there is no file ---

    def _certificate_of_object(self, why: str) -> Certificate:
        """What holds by construction of an object of which there is no file; its hash says which object."""
        domain = self.domain_
        verdict, claim = self._by_construction(why)
        counted = not domain.real_sensitive and bool(domain.sensitive)
        return Certificate(
            claim=claim,
            verdict=verdict,
            sensitive=domain.sensitive,
            sensitive_values=domain.sensitive_space.size if counted else None,
            declared=bool(domain.twins),
            person_versions=Versions(domain).size if counted and domain.twins else None,
            training={"estimator": type(self.estimator).__name__, "method": self.method},
        )

    def _by_construction(self, why: str) -> tuple[Verdict, str]:
        domain, mark = self.domain_, self.fingerprint()
        if not domain.sensitive:
            reason = "no feature was named sensitive."
            return Verdict("undecided", "none", "construction", (), reason), f"Nothing is certified: {reason}"
        if not self._is_steady():
            reason = f"{type(self.estimator).__name__} answers differently when asked about the same people again."
            return Verdict("undecided", "none", "construction", (), reason), f"Nothing is certified: {reason}"
        names = " and ".join(domain.sensitive) + (" or by the declared rules" if domain.twins else "")
        claim = (
            f"Two individuals who differ only in {names} always get the same score from this Python object: by its "
            f"construction, {type(self.estimator).__name__} is shown the same of both, as long as what it answers "
            f"depends on nothing else. There is no file ({why.rstrip('.')}), so this binds the Python object only, and "
            f"the independent checker has nothing to examine. The object: sha256 {mark} of its parameters and of its "
            f"answers for {PROBES} people of the domain."
        )
        reason = "by construction of the Python object: the inner estimator is shown the same of all twins"
        return Verdict("verified", "structural", "construction", ("executed",), reason), claim

    def fingerprint(self) -> str:
        """SHA-256 of the inner estimator's parameters, as scikit-learn lists them, and of what it answers for people
        drawn from the domain: enough to recognise the object, by whoever has it.
        """
        check_is_fitted(self)
        told = {name: re.sub(r" at 0x[0-9a-f]+", "", repr(value)) for name, value in self.get_params().items()}
        found = hashlib.sha256(json.dumps([told, self.domain_.text()], sort_keys=True).encode())
        people = self.domain_.sample(PROBES, seed=0)
        answers = self._shares(people) if _shows_shares(self) else self.predict(people).astype(str).astype("S")
        found.update(np.ascontiguousarray(answers).tobytes())
        return found.hexdigest()

    def _is_steady(self) -> bool:
        people = self.domain_.sample(PROBES, seed=0)
        answer = self._shares if _shows_shares(self) else self.predict
        return bool(np.array_equal(answer(people), answer(people), equal_nan=_shows_shares(self)))

    @property
    def _needs_no_sensitive(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.non_deterministic = inner.non_deterministic
        return tags


def _takes_tables(estimator: Any) -> bool:
    """Whether it is a pipeline or wraps one, or names columns somewhere inside: it encodes texts itself."""
    if hasattr(_inside(estimator), "steps"):
        return True
    return any(type(value).__name__ == "ColumnTransformer" for value in estimator.get_params().values())


def _inside(estimator: Any) -> Any:
    """What a threshold, a calibration or a search is wrapped around."""
    while not hasattr(estimator, "steps") and hasattr(getattr(estimator, "estimator", None), "fit"):
        estimator = estimator.estimator
    return estimator


def _needs_numbers(estimator: Any) -> bool:
    """Whether classes must be numbered for it."""
    final = _inside(estimator)
    while hasattr(final, "steps"):
        final = _inside(final.steps[-1][1])
    return any(cls.__module__.split(".")[0] == "xgboost" for cls in type(final).__mro__)


def _some_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows to compare with, those with gaps among them."""
    gappy = table[table.isna().any(axis=1)]
    parts = [part.sample(min(KEPT_ROWS, len(part)), random_state=0) for part in (table, gappy)]
    return pd.concat(parts, ignore_index=True)
