"""A model of any kind we read, from a path or an object, ready for questions about its fairness."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bornfair.bundle import load_bundle
from bornfair.domain import Domain
from bornfair.errors import InputError, shown
from bornfair.interop.nnet import load_nnet, sensitive_name
from bornfair.model import FairModel


def load_model(
    source: Any, *, domain: Domain | str | Path | None = None, sensitive: Sequence[str | int] | None = None
) -> FairModel:
    """A model with its domain and sensitive features.

    `source` is a bundle (a folder or .zip), a .nnet file, a `FairModel`, or a fitted `FairClassifier`. A domain given
    here takes the place of the model's own: it may narrow or widen ranges, but must name the same features.
    """
    who = Domain.load(domain) if isinstance(domain, (str, Path)) else domain
    if isinstance(source, FairModel):
        return _asked_about(source, who, sensitive)
    fitted = getattr(source, "model_", None)
    if isinstance(fitted, FairModel):
        return _asked_about(fitted, who, sensitive)
    if not isinstance(source, (str, Path)):
        raise InputError(
            "a model must be a bundle, a .nnet file, a FairModel or a fitted FairClassifier, "
            f"found {type(source).__name__}."
        )
    path = Path(source)
    if path.suffix.lower() == ".nnet":
        model = load_nnet(path, sensitive=sensitive or (), domain=who)
        if not model.domain.sensitive:
            raise InputError(f"name the sensitive inputs of '{path}', as x8 or as the position 8.")
        return model
    if path.is_dir() or path.suffix.lower() == ".zip":
        return _asked_about(load_bundle(path), who, sensitive)
    if not path.exists():
        raise InputError(f"there is no model '{path}'; give a bundle (a folder or .zip) or a .nnet file.")
    raise InputError(
        f"'{path}' is not a kind of model that can be read; give a bundle (a folder or .zip) or a .nnet file."
    )


def _asked_about(model: FairModel, domain: Domain | None, sensitive: Sequence[str | int] | None) -> FairModel:
    own = model.domain
    if sensitive:
        names = tuple(sensitive_name(item, own) for item in sensitive)
        if set(names) != set(own.sensitive):
            raise InputError(
                f"this model knows {shown(own.sensitive)} as sensitive, and was asked about {shown(names)}; "
                "ask about those, or train with the others named sensitive."
            )
    if not own.sensitive:
        raise InputError("this model has no sensitive features, so nobody has a twin; train it with some named.")
    return model if domain is None else _with_ranges(model, domain)


def _with_ranges(model: FairModel, domain: Domain) -> FairModel:
    """The model over another domain of the same features, where numbers may have other ranges."""
    own = model.domain
    if domain.names != own.names:
        raise InputError(
            f"the domain has the features {shown(domain.names)}, the model {shown(own.names)}; name the same."
        )
    for mine, theirs in zip(own.features, domain.features, strict=True):
        same_kind = mine.kind == theirs.kind
        fixed = mine.kind in ("categorical", "boolean") or mine.name in own.sensitive
        if not same_kind or (fixed and mine != theirs):
            raise InputError(
                f"feature '{mine.name}' is encoded into the network as {mine.kind} with "
                f"{shown(mine.levels())}; another domain may change only the ranges of numbers that are not sensitive."
            )
    changed = domain.replaced(sensitive=own.sensitive, combinations=own.combinations, label=own.label)
    return FairModel(model.network, dataclasses.replace(model.encoding, domain=changed))
