"""How fair is it? The question put to any model that can be read; see `measure` for how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from bornfair.domain import Domain
from bornfair.interop.load import load_model
from bornfair.interop.reading import ReadingOptions
from bornfair.quantification.measure import Shares, shares_of
from bornfair.quantification.variables import Marginal


def quantify(
    model: Any,
    domain: Domain | str | Path | None = None,
    *,
    sensitive_features: Sequence[str | int] | None = None,
    twins: str | Sequence[str] | None = None,
    table: Any = None,
    target: str | None = None,
    marginals: Mapping[str, Marginal] | None = None,
    timeout: float = 60.0,
    precision: float = 0.0,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
    **reading: Unpack[ReadingOptions],
) -> Shares:
    """Which share of everybody who could exist is proven to be treated fairly, proven not to be, or neither.

    model, domain, sensitive_features, twins: as in `verify`. table: real rows, from which who exists is read off if
    neither model nor domain says so. marginals: weights of the values of features, such as
    `bornfair.quantification.marginals_of(domain, table)`; everybody counts the same without. precision: stop when at
    most this share is undecided. decision, threshold, normalise: as in `verify`.
    """
    asked = load_model(
        model, domain=domain, sensitive=sensitive_features, table=table, target=target, twins=twins, **reading
    )
    return shares_of(asked, timeout=timeout, precision=precision, marginals=marginals, seed=seed, say=say)
