"""Options of every command that reads other people's models: what their files do not say about themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bornfair.models.importers.reading import ReadingOptions

Decision = Annotated[
    str | None,
    typer.Option(
        "--decision",
        help="What the model's output is, if that does not show: probability, logit or label.",
    ),
]
Threshold = Annotated[
    float | None, typer.Option("--threshold", help="Above which probability (or logit) the last class is decided.")
]
Normalise = Annotated[
    str | None,
    typer.Option("--normalise", help="yes or no: whether the means and ranges of a .nnet file are applied."),
]


def reading(decision: str | None, threshold: float | None, normalise: str | None) -> ReadingOptions:
    return {"decision": decision, "threshold": threshold, "normalise": normalise}  # type: ignore[typeddict-item]
