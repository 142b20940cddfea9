"""Settings by name. `default` serves users best; `paper` is what the paper says of its start and its experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bornfair.core.checks import choice

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


def settings(preset: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The preset's settings, with those that were chosen (not None) put in their place.

    Whoever chooses the hidden layers gets these and no others: what the preset adds to its own is left out then.
    """
    choice("preset", preset, PRESETS)
    usual = PRESETS[preset]
    if chosen["hidden"] is not None and preset != "paper":
        usual = usual | OF_OTHER_LAYERS
    return {name: value if chosen[name] is None else chosen[name] for name, value in usual.items()}


def resolve_automatic(chosen: dict[str, Any], rows: int) -> dict[str, Any]:
    """Settings with every 'auto' turned into a number for a table of so many rows."""
    batch = batch_size_for(rows) if chosen["batch_size"] == "auto" else chosen["batch_size"]
    epochs, patience = epochs_for(rows, batch if isinstance(batch, int) and batch > 0 else 1)
    automatic = {"batch_size": batch, "epochs": epochs, "patience": patience}
    return {name: automatic[name] if value == "auto" and name in automatic else value for name, value in chosen.items()}


def epochs_for(rows: int, batch_size: int) -> tuple[int, int]:
    """Epochs, and epochs without improvement before stopping: 60 and 10, or more where an epoch has few steps.

    >>> epochs_for(26_000, 256), epochs_for(60, 32)
    ((60, 10), (750, 125))
    """
    steps = -(-rows // batch_size)
    return max(60, 1500 // steps), max(10, 250 // steps)


def batch_size_for(rows: int) -> int:
    """About a hundred steps an epoch, in batches of 32 to 512.

    >>> batch_size_for(800), batch_size_for(26_000), batch_size_for(10**7)
    (32, 256, 512)
    """
    size = 32
    while size < 512 and size * 150 < rows:
        size *= 2
    return size
