"""What can be chosen about a training? Declared once, for the estimator, the recipe and the command line.

Nothing heavy is loaded here: `bornfair --help` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from bornfair.models.network.network import Activation, Network
    from bornfair.proof.bundle import FairModel
    from bornfair.training.response import Mode
    from bornfair.training.start import Start


def typed(kind: Any, help: str | None = None) -> dict[str, Any]:
    """What the command line makes an option of: how it is typed there, and what the option says of itself."""
    return {"kind": kind, "help": help}


START = (
    "The start: exact, bernoulli:phi=-10,p=0.5, near_zero:scale=1e-10, shared_scalar:draw=uniform or constant; by "
    "default as the preset says, exact or (paper) bernoulli:layers=all."
)
RESPONSE = (
    "Own value randomised: expected (certified) or sampled; everybody's, as Algorithm 1 is printed: population "
    "(certified) or population_sampled; or none (not fair)."
)


CALIBRATE = (
    "Fit a rising line through the scores on the rows kept for early stopping, so that probabilities mean what they "
    "say; twins stay equal."
)
EMBEDDING = (
    "How the network sees numbers: as shares of bins that boosted trees cut (boosted), or a small tree (piecewise), or "
    "of equally many (quantiles); or none (as they are: with --hidden, or another activation or start, too)."
)
TAUGHT = (
    "How much of what is learnt about a row is the word of boosted trees, 0 to 1; they read no sensitive column, and "
    "have not learnt from that row."
)


# `default` serves users best; `paper` is what the paper says of its start and its experiments.
PRESETS: dict[str, dict[str, Any]] = {
    # Chosen on tables that are not reported on (docs/accuracy.md), and done in seconds.
    "default": {
        "hidden": (128, 64),
        "init": "exact",
        "optimiser": "adamw",
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "weight_decay": 0.3,
        "batch_size": "auto",
        "epochs": "auto",
        "validation_fraction": 0.1,
        "patience": "auto",
        "dropout": 0.15,
        "label_smoothing": 0.0,
        "embedding": "boosted",
        "bins": 64,
        "taught": 0.5,
        "members": 1,
        "rotate": False,
        "averaging": 0.998,
    },
    "paper": {
        "hidden": "paper",
        # Every parameter ±e^-10, as printed. It is fair and does not learn (docs/theory.md §2); whoever wants the
        # paper's network, optimiser and batches with a start that learns adds init="exact".
        "init": "bernoulli:layers=all",
        "optimiser": "sgd",
        "learning_rate": 0.01,
        "schedule": "constant",
        "weight_decay": 0.0,
        "batch_size": 64,
        "epochs": 100,
        "validation_fraction": 0.0,
        "patience": None,
        "dropout": 0.0,
        "label_smoothing": 0.0,
        "embedding": "none",
        "bins": 64,
        "taught": 0.0,
        "members": 1,
        "rotate": False,
        "averaging": 0.0,
    },
}
OF_OTHER_LAYERS = {
    "embedding": "none",
    "taught": 0.0,
    "dropout": 0.0,
    "averaging": 0.0,
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
}
PRESETS["accurate"] = PRESETS["default"] | {"members": 8, "rotate": True, "validation_fraction": 0.125}

RARE_CLASSES = "Balanced class weights, or a lower threshold for the rare class, may help."
SLOW_PRESET = "Preset 'paper' learns slowly; preset 'default', or init 'exact' with learning rate 0.1, is as fair."


def advice(preset: str) -> str:
    """What to try when the trained network never decides some class."""
    return SLOW_PRESET if preset == "paper" else RARE_CLASSES


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingOptions:
    """All choices of a fit. None means: as the preset says."""

    preset: str = field(default="default", metadata=typed(str, "default, accurate or paper."))
    hidden: str | Sequence[int] | None = field(
        default=None, metadata=typed(str | None, "Hidden widths such as 128,64, or paper, shallow, deep, large.")
    )
    activation: Activation = field(default="relu", metadata=typed(str, "relu, tanh, sigmoid or gelu."))
    init: str | Start | Network | FairModel | None = field(default=None, metadata=typed(str | None, START))
    response: Mode = field(default="expected", metadata=typed(str, RESPONSE))
    gamma: float | Literal["solve"] = field(
        default="solve", metadata=typed(str, "solve for the γ that preserves fairness, or a number.")
    )
    project: bool = field(
        default=False, metadata=typed(bool, "Make a sampled training exactly fair in the end, by the smallest change.")
    )
    draws: int = field(default=1, metadata=typed(int, "Random responses per row and step, for the sampled ones."))
    calibrate: bool = field(default=False, metadata=typed(bool, CALIBRATE))
    embedding: str | None = field(default=None, metadata=typed(str | None, EMBEDDING))
    bins: int | None = field(
        default=None, metadata=typed(int | None, "Bins of each number, at most, where they are piecewise.")
    )
    taught: float | None = field(default=None, metadata=typed(float | None, TAUGHT))
    members: int | None = field(
        default=None, metadata=typed(int | None, "Networks that are trained side by side; their mean decides.")
    )
    rotate: bool | None = None
    averaging: float | None = None
    optimiser: Any = field(default=None, metadata=typed(str | None, "sgd, momentum, adam or adamw."))
    learning_rate: float | None = field(default=None, metadata=typed(float | None))
    batch_size: int | Literal["auto"] | None = field(default=None, metadata=typed(int | None))
    epochs: int | Literal["auto"] | None = field(default=None, metadata=typed(int | None))
    schedule: str | None = None
    weight_decay: float | None = field(default=None, metadata=typed(float | None))
    dropout: float | None = field(
        default=None, metadata=typed(float | None, "Share of hidden values left out at each step.")
    )
    label_smoothing: float | None = field(default=None, metadata=typed(float | None))
    validation_fraction: float | None = field(
        default=None, metadata=typed(float | None, "Share of the training rows used for early stopping.")
    )
    patience: int | Literal["auto"] | None = field(
        default=None, metadata=typed(int | None, "Epochs without improvement before stopping.")
    )
