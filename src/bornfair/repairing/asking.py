"""What is to be repaired, and for whom? The model as it came, and the domain with the features asked about."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from bornfair.errors import InputError, plain, shown
from bornfair.models.importers.nnet import read_nnet, sensitive_name
from bornfair.models.importers.reading import Reading, ReadingOptions
from bornfair.models.model import Model
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import Label, unknown_column
from bornfair.proof.bundle import load_bundle
from bornfair.question import load_model
from bornfair.training.first_layer import told_in, with_first_layer
from bornfair.training.projection import fair_encoding


@dataclass(frozen=True, eq=False)
class Asked:
    """The model as it came, and the domain it is to be fair on."""

    original: Model
    domain: Domain

    def encoding(self, table: pd.DataFrame) -> Encoding:
        """How the repaired network reads people.

        As the original does, if only its sensitive weights are in question. Raw numbers are standardised by the
        table, as training needs them, other sensitive features are given centred codes, and declared twins are shown
        as what they have in common.
        """
        own = self.original.encoding
        if own.raw:
            absent = {f.name: f.levels()[0] for f in self.domain.sensitive_features if f.name not in table.columns}
            return Encoding.fit(self.domain, table.assign(**absent), own.policies, merge_twins=True)
        if self.domain == own.domain:
            return fair_encoding(own)
        return fair_encoding(dataclasses.replace(own, domain=self.domain, merged={}))

    def model(self) -> Model:
        """The original, asked about the domain's sensitive features and twins."""
        own = self.original.encoding
        if self.domain == own.domain:
            return self.original
        if own.raw:
            order = (*own.domain.free_names, *own.domain.sensitive)
            columns = [order.index(name) for name in (*self.domain.free_names, *self.domain.sensitive)]
            first = self.original.network.layers[0]
            network = with_first_layer(self.original.network, first.weight[:, columns], first.bias)
            return Model(network, dataclasses.replace(own, domain=self.domain))
        return told_in(self.original, dataclasses.replace(own, domain=self.domain, merged={}))


def asked_about(
    source: Any,
    table: pd.DataFrame,
    *,
    sensitive: Sequence[str | int] | None,
    target: str | None,
    twins: Any,
    domain: Domain | str | Path | None,
    **reading: Unpack[ReadingOptions],
) -> Asked:
    """Read the model, and name the features in which twins differ."""
    if target is not None and target not in table.columns:
        raise InputError(unknown_column(target, [str(name) for name in table.columns], "target"))
    original = read_model(source, table, sensitive=sensitive, target=target, domain=domain, **reading)
    who = original.domain
    for name in who.free_names if original.ignores_sensitive else who.names:
        if name not in table.columns:
            columns = [str(column) for column in table.columns]
            raise InputError(unknown_column(name, columns, "a feature that the model reads,"))
    if sensitive:
        names = tuple(sensitive_name(item, who) for item in sensitive)
        if target in names:
            raise InputError(f"'{target}' cannot be both the target and a sensitive feature.")
        if set(names) != set(who.sensitive):
            who = who.with_sensitive(names)
    if not who.sensitive:
        raise _nothing_sensitive(who)
    return Asked(original, who.with_twins(twins) if twins else who)


def _nothing_sensitive(who: Domain) -> InputError:
    return InputError(
        f"name the sensitive features of the model; it reads {shown(who.names, most=30)}, of which some are."
    )


def class_positions(model: Model, table: pd.DataFrame, target: str) -> np.ndarray:
    """The labels of a table as positions in the model's classes."""
    column = table[target]
    if column.isna().any():
        raise InputError(
            f"target '{target}' is missing in {int(column.isna().sum())} of {len(column)} rows; remove those rows."
        )
    values = column.astype(object)
    positions = pd.Index(model.classes.tolist(), dtype=object).get_indexer(pd.Index(values, dtype=object))
    if (positions < 0).any():
        found = plain(column.iloc[int(np.argmax(positions < 0))])
        raise InputError(
            f"target '{target}' holds {found!r}, which is not one of the model's classes {shown(model.classes)}; "
            "write the labels as the model's classes (of two, the last is the positive one)."
        )
    if len(np.unique(positions)) < 2:
        raise InputError(
            f"target '{target}' has one class only, {plain(column.iloc[0])!r}, in all {len(column)} rows; fine-tuning "
            "needs at least two. Without a target the original's own outputs are taught."
        )
    return positions


def read_model(
    source: Any,
    table: pd.DataFrame,
    *,
    sensitive: Sequence[str | int] | None = None,
    target: str | None = None,
    domain: Domain | str | Path | None = None,
    **reading: Unpack[ReadingOptions],
) -> Model:
    """A model of any kind we read, as it is: what it calls sensitive need not be what is asked about."""
    model = source if isinstance(source, Model) else getattr(source, "model_", None)
    if isinstance(model, Model) and domain is None:
        Reading(**reading).only_for("a trained model")
        return model
    if isinstance(source, (str, Path)) and domain is None:
        path = Path(source)
        if path.is_dir() or path.suffix.lower() == ".zip":
            Reading(**reading).only_for("a bundle")
            return load_bundle(path)
        if path.suffix.lower() == ".nnet":
            file = read_nnet(path)
            domain = _named_as_in(file.domain, table, target)
            if not sensitive:
                raise _nothing_sensitive(domain)
            if target is not None:
                classes = tuple(range(max(file.network.outputs, 2)))
                domain = domain.replaced(label=Label(name=target, classes=classes).model_dump())
    return load_model(source, domain=domain, sensitive=sensitive, table=table, target=target, **reading)


def _named_as_in(own: Domain, table: pd.DataFrame, target: str | None) -> Domain:
    """Inputs that have no names of their own take those of the table's columns, in their order."""
    columns = [str(name) for name in table.columns if name != target]
    if set(own.names) <= set(columns):
        return own
    if len(columns) != len(own.names):
        raise InputError(
            f"the network takes {len(own.names)} numbers, but the table has {len(columns)} columns besides the target; "
            "leave the inputs, in order, and drop the others, or give a domain that names them."
        )
    features = [feature.model_dump() | {"name": name} for feature, name in zip(own.features, columns, strict=True)]
    return own.replaced(features=features)
