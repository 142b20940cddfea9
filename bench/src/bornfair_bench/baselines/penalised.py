"""Adam on a loss with a penalty on the side, an epoch in one compiled loop: for the methods that train for fairness.

A method says what each of some people costs; how strong its penalty is may change from epoch to epoch ("knobs").
"""

from __future__ import annotations

import functools
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bornfair.models.network.network import Network, Parameters
from bornfair.training.epochs import batch_size_for
from bornfair.training.loops import OptimiserKey, transformation_of
from bornfair.training.start import Plain, draw
from bornfair.verification.milp.probability import probability_ends
from bornfair_bench.baselines.base import Baseline, BaselineData, Certified
from bornfair_bench.baselines.logit_bounds import one_decision

People = dict[str, Any]
"""Arrays by name, with a line for each person."""

Knobs = Mapping[str, Any]
"""What all people share, by name: numbers that change from epoch to epoch, the codes of all sensitive values."""

RowLosses = Callable[[Parameters, People, Knobs], jax.Array]
"""What each of these people costs. Must be one object for equal settings: compiled loops are kept by it."""

STEPS = 2_000  # about as many as all of these methods need to settle
FEWEST_EPOCHS = 20
WEIGHT_DECAY = 1e-4


class Descent:
    """Adam, with the decay added to the gradient (as released), from these parameters on."""

    def __init__(self, losses: RowLosses, parameters: Parameters, weight_decay: float) -> None:
        self._epoch, self._evaluation, begin = _compiled(losses, weight_decay)
        self.parameters, self._state = parameters, begin(parameters)

    def epoch(self, people: People, batches: np.ndarray, rate: float, knobs: Knobs) -> float:
        """Learn from these batches [steps, size] of row numbers, -1 for nobody; the mean loss."""
        self.parameters, self._state, mean = self._epoch(self.parameters, self._state, people, batches, rate, knobs)
        return float(mean)

    def loss(self, people: People, batches: np.ndarray, knobs: Knobs) -> float:
        return float(self._evaluation(self.parameters, people, batches, knobs))


@functools.lru_cache(maxsize=32)
def _compiled(losses: RowLosses, weight_decay: float) -> tuple[Any, Any, Any]:
    optimiser = transformation_of(OptimiserKey("adam", 0.0, weight_decay))

    def batch_loss(parameters: Parameters, people: People, rows: jax.Array, knobs: Knobs) -> jax.Array:
        some = {name: array[rows] for name, array in people.items()}
        # By the full batch size also where the last batch has fewer rows: every row counts the same.
        return jnp.sum(losses(parameters, some, knobs) * (rows >= 0)) / rows.shape[0]

    def epoch(
        parameters: Parameters, state: Any, people: People, batches: jax.Array, rate: jax.Array, knobs: Knobs
    ) -> tuple[Parameters, Any, jax.Array]:
        def step(carry: tuple[Parameters, Any], rows: jax.Array) -> Any:
            parameters, state = carry
            value, gradient = jax.value_and_grad(batch_loss)(parameters, people, rows, knobs)
            update, state = optimiser.update(gradient, state, parameters)
            return (jax.tree.map(lambda p, u: p - rate * u, parameters, update), state), value

        (parameters, state), values = jax.lax.scan(step, (parameters, state), batches)
        return parameters, state, jnp.mean(values)

    def evaluation(parameters: Parameters, people: People, batches: jax.Array, knobs: Knobs) -> jax.Array:
        return jnp.mean(jax.lax.map(lambda rows: batch_loss(parameters, people, rows, knobs), batches))

    return jax.jit(epoch), jax.jit(evaluation), optimiser.init


@dataclass(frozen=True)
class Pace:
    """How long, in what portions and how fast to learn."""

    epochs: int
    batch_size: int
    learning_rate: float
    seed: int

    @staticmethod
    def of(epochs: Any, batch_size: Any, learning_rate: float, *, rows: int, seed: int) -> Pace:
        """With every 'auto' turned into a number for a table of so many rows.

        >>> Pace.of("auto", "auto", 1e-3, rows=26_000, seed=0)
        Pace(epochs=20, batch_size=256, learning_rate=0.001, seed=0)
        """
        size = batch_size_for(rows) if batch_size == "auto" else int(batch_size)
        steps = -(-rows // size)
        return Pace(max(FEWEST_EPOCHS, STEPS // steps) if epochs == "auto" else int(epochs), size, learning_rate, seed)

    def batches(self, rows: int, epoch: int) -> np.ndarray:
        """Row numbers [steps, size] in an order of this epoch alone; the last line is filled up with -1."""
        size = min(self.batch_size, rows)
        lines = np.full((-(-rows // size), size), -1, np.int32)
        lines.reshape(-1)[:rows] = np.random.Generator(np.random.Philox(key=[self.seed, epoch])).permutation(rows)
        return lines


def train_penalised(
    start: Network, people: People, losses: RowLosses, pace: Pace, knobs: Callable[[int], Knobs], epochs: range
) -> Network:
    """The network after these epochs, which the optimiser begins without any memory."""
    descent = Descent(losses, start.to_jax(), WEIGHT_DECAY)
    arrays = {name: jnp.asarray(array) for name, array in people.items()}
    for epoch in epochs:
        now = {name: jnp.asarray(value, jnp.float32) for name, value in knobs(epoch).items()}
        descent.epoch(arrays, pace.batches(len(people["labels"]), epoch), pace.learning_rate, now)
    return Network.from_jax(descent.parameters, start.activation)


@dataclass(eq=False, repr=False)
class Penalised(Baseline):
    """A relu network with one output that is trained with a penalty; what is certified are bounds of its logit."""

    epochs: Any = "auto"
    batch_size: Any = "auto"

    automatic: ClassVar[bool] = True
    advice: ClassVar[str]
    """What to do where the penalty has won."""

    @abstractmethod
    def _learn(self, data: BaselineData, start: Network, pace: Pace) -> Network:
        """The network after the training that the pace says."""

    def _train(self, data: BaselineData) -> Network:
        rows, seed = len(data.free), data.seed
        pace = Pace.of(self.epochs, self.batch_size, self.learning_rate, rows=rows, seed=seed)
        start = draw(
            Plain(), free_width=data.free.shape[1], sensitive_width=data.codes.shape[1], hidden=self.hidden, outputs=1,
            seed=seed,
        )  # fmt: skip
        network = self._learn(data, start, pace)
        decided = network.decide(data.inputs)
        if pace.epochs and (decided == decided[0]).all():  # narrow relu layers die under a strong penalty
            warnings.warn(
                f"{type(self).__name__} learnt to decide the same for all {rows} training rows: fair, and of no use; "
                f"{self.advice}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return network


def certified_between(
    low: np.ndarray, high: np.ndarray, number: Callable[[np.ndarray], Any], meaning: str
) -> Certified:
    """What bounds of each row's logit prove; `number` is made of how much the probability varies between them."""
    widths = probability_widths(low, high)
    return Certified(one_decision(low, high), float(number(widths)), meaning, widths)


def probability_widths(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How far apart the probabilities of logits between these bounds can be, rounded up."""
    least, most = probability_ends(low, high)
    return np.minimum(np.nextafter(most - least, np.inf), 1.0)


def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Of logits [rows] with labels that are 0 or 1."""
    return jax.nn.softplus(scores) - scores * labels


def next_interval(
    centre: jax.Array, radius: jax.Array, weight: jax.Array, bias: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Centre and radius of a layer's sums, from those of the layer before: in float32, to learn by, not to prove."""
    low, high = jax.nn.relu(centre - radius), jax.nn.relu(centre + radius)
    return 0.5 * (low + high) @ weight.T + bias, 0.5 * (high - low) @ jnp.abs(weight).T
