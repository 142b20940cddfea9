"""What is to be repaired, and for whom? The model as it came, and the domain with the features asked about."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain
from bornfair.models.columns import nothing_sensitive, sensitive_name
from bornfair.models.network.model import Model
from bornfair.people.domain import Domain
from bornfair.people.dummies import with_sensitive
from bornfair.people.encoding import Encoding
from bornfair.people.features import listed_names, unknown_column
from bornfair.people.labels import class_positions
from bornfair.questions import Asking, Question
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
        return fair_encoding(own.over(self.domain))

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
            return Model(network, dataclasses.replace(own, domain=self.domain), offsets=self.original.offsets)
        return told_in(self.original, own.over(self.domain))


def domain_asked(question: Question, domain: Domain, asking: Asking) -> Domain:
    """The domain with the sensitive features and the combinations that are asked about."""
    combinations = asking.get("combinations")
    names = tuple(sensitive_name(item, domain) for item in listed_names(asking.get("sensitive_features")))
    if question.target in names:
        raise InputError(f"'{question.target}' cannot be both the target and a sensitive feature.")
    if not names and combinations is None:
        return domain
    found = with_sensitive(domain, names or domain.sensitive, question.table, combinations, detect=question.inferred)
    same = set(found.sensitive) == set(domain.sensitive)
    return domain if same and (combinations is None or found.combinations == domain.combinations) else found


def asked_about(question: Question, asking: Asking) -> Asked:
    """Name the features in which twins differ."""
    original, table, twins = question.network_model, question.table, asking.get("twins")
    assert table is not None
    who = original.domain
    for name in who.free_names if original.ignores_sensitive else who.names:
        if name not in table.columns:
            columns = [str(column) for column in table.columns]
            raise InputError(unknown_column(name, columns, "a feature that the model reads,"))
    asked = domain_asked(question, who, asking)
    who = who if asked is who else original.encoding.over(asked).domain
    if not who.sensitive:
        raise nothing_sensitive(who)
    return Asked(original, who.with_twins(twins) if twins else who)


def taught(question: Question, column: pd.Series) -> np.ndarray:
    """The labels to fine-tune on, as positions in the model's classes."""
    positions = class_positions(column, question.model.classes.tolist())
    if len(np.unique(positions)) < 2:
        raise InputError(
            f"target '{column.name}' has one class only, {plain(column.iloc[0])!r}, in all {len(column)} rows; "
            "fine-tuning needs at least two. Without a target the original's own outputs are taught."
        )
    return positions
