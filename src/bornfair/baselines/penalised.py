"""Training with a penalty on the side: one compiled loop an epoch, for the methods that add unfairness to the loss.

A method says what each row of a batch costs; how strong its penalty is may change from epoch to epoch ("knobs").
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bornfair.checks import number, whole
from bornfair.models.network import Network, Parameters
from bornfair.training.loops import OptimiserKey, transformation_of
from bornfair.training.presets import batch_size_for
from bornfair.training.start import Plain, draw

Table = dict[str, Any]
"""Arrays by name; those with one line for each person are read by row number."""

Knobs = dict[str, Any]
"""Numbers that change from epoch to epoch, by name."""

RowLosses = Callable[[Parameters, Table, jax.Array, Knobs], jax.Array]
"""What each of the given rows costs. Must be one object for equal settings: compiled loops are kept by it."""

STEPS = 2_000  # about as many as all of these methods need to settle
FEWEST_EPOCHS = 20


@dataclass(frozen=True)
class Pace:
    """How long, in what portions and how fast to learn. Adam, with the decay added to the gradient (as released)."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int

    @staticmethod
    def of(epochs: Any, batch_size: Any, learning_rate: float, weight_decay: float, *, rows: int, seed: int) -> Pace:
        """With every 'auto' turned into a number for a table of so many rows.

        >>> Pace.of("auto", "auto", 1e-3, 0.0, rows=26_000, seed=0)
        Pace(epochs=20, batch_size=256, learning_rate=0.001, weight_decay=0.0, seed=0)
        """
        size = batch_size_for(rows) if batch_size == "auto" else int(batch_size)
        steps = -(-rows // size)
        return Pace(
            max(FEWEST_EPOCHS, STEPS // steps) if epochs == "auto" else int(epochs),
            size,
            learning_rate,
            weight_decay,
            seed,
        )


def check_pace(epochs: object, batch_size: object, learning_rate: object) -> None:
    """Refuse what `Pace.of` cannot read."""
    if epochs != "auto":
        whole("epochs", epochs, 0)
    if batch_size != "auto":
        whole("batch_size", batch_size, 1)
    number("learning_rate", learning_rate, 0.0, float("inf"), open_low=True)


def plain_start(free_width: int, sensitive_width: int, hidden: Any, seed: int) -> Network:
    """The usual random start of a relu network with one output: nothing makes it fair."""
    return draw(Plain(), free_width=free_width, sensitive_width=sensitive_width, hidden=hidden, outputs=1, seed=seed)


def train_penalised(
    start: Network,
    table: Table,
    rows: int,
    losses: RowLosses,
    pace: Pace,
    knobs: Callable[[int], dict[str, float]],
    epochs: range,
) -> Network:
    """The network after these epochs, which the optimiser begins without any memory."""
    loop, begin = _compiled(losses, pace.weight_decay)
    arrays = {name: jnp.asarray(array) for name, array in table.items()}
    rate = jnp.float32(pace.learning_rate)
    parameters = start.to_jax()
    state = begin(parameters)
    for epoch in epochs:
        now = {name: jnp.float32(value) for name, value in knobs(epoch).items()}
        batches = _batches(rows, pace.batch_size, pace.seed, epoch)
        parameters, state = loop(parameters, state, arrays, batches, rate, now)
    return Network.from_jax(parameters, start.activation)


def warn_if_constant(name: str, network: Network, inputs: np.ndarray, advice: str) -> None:
    """Tell that the penalty has won: narrow relu layers die under a strong one, and then everybody is decided alike."""
    decided = network.decide(inputs)
    if (decided == decided[0]).all():
        warnings.warn(
            f"{name} learnt to decide the same for all {len(inputs)} training rows: fair, and of no use; {advice}.",
            ConvergenceWarning,
            stacklevel=4,
        )


def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Of logits [rows] with labels that are 0 or 1."""
    return jax.nn.softplus(scores) - scores * labels


@functools.lru_cache(maxsize=32)
def _compiled(losses: RowLosses, weight_decay: float) -> tuple[Any, Any]:
    transformation = transformation_of(OptimiserKey("adam", 0.0, weight_decay))

    def batch_loss(parameters: Parameters, table: Table, rows: jax.Array, knobs: Knobs) -> jax.Array:
        # By the full batch size also where the last batch has fewer rows: every row counts the same.
        return jnp.sum(losses(parameters, table, rows, knobs) * (rows >= 0)) / rows.shape[0]

    def epoch(
        parameters: Parameters, state: Any, table: Table, batches: jax.Array, rate: jax.Array, knobs: Knobs
    ) -> tuple[Parameters, Any]:
        def step(carry: tuple[Parameters, Any], rows: jax.Array) -> Any:
            parameters, state = carry
            gradient = jax.grad(batch_loss)(parameters, table, rows, knobs)
            update, state = transformation.update(gradient, state, parameters)
            return (jax.tree.map(lambda p, u: p - rate * u, parameters, update), state), None

        carry, _ = jax.lax.scan(step, (parameters, state), batches)
        return carry

    return jax.jit(epoch), transformation.init


def _batches(rows: int, size: int, seed: int, epoch: int) -> np.ndarray:
    """Row numbers [steps, size] in an order of this epoch alone; the last line is filled up with -1."""
    size = min(size, rows)
    lines = np.full((-(-rows // size), size), -1, np.int32)
    lines.reshape(-1)[:rows] = np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(rows)
    return lines
