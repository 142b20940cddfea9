"""The compiled part of training: one epoch as a single `lax.scan`, and evaluation in bounded memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bornfair.models.network.activations import ACTIVATIONS
from bornfair.models.network.network import Activation, Parameters, forward, forward_from_first
from bornfair.training.response import Response

OptimiserName = Literal["sgd", "momentum", "adam", "adamw"]
Carried = tuple[Parameters, Any, Parameters | None]
"""From step to step: the parameters, the optimiser's state, and the running mean of the parameters if there is one."""


@dataclass(frozen=True)
class OptimiserKey:
    """The part of a plan that is compiled in; the learning rate is not, so that a search over it compiles once."""

    optimiser: OptimiserName
    momentum: float
    weight_decay: float


@dataclass(frozen=True)
class Regularised:
    """What keeps a network from learning single rows by heart, while it is trained."""

    dropout: float = 0.0
    label_smoothing: float = 0.0

    def forward(self, parameters: Parameters, first: jax.Array, activation: Activation, key: jax.Array) -> jax.Array:
        """The network from the first layer's sums on, with a share of its hidden values left out."""
        if not self.dropout:
            return forward_from_first(parameters, first, activation)
        act, values = ACTIVATIONS[activation].jax, first
        drawn = jax.random.bits(key, (len(parameters) - 1,), jnp.uint32)
        for number, (weight, bias) in enumerate(parameters[1:]):
            kept = _hashed(drawn[number], values.shape) >= np.uint32(self.dropout * 2**32)
            values = jnp.where(kept, act(values) / (1 - self.dropout), 0.0) @ weight.T + bias
        return values

    def loss(self, scores: jax.Array, classes: jax.Array, targets: jax.Array | None) -> jax.Array:
        """Cross entropy of each row with its class, or with what it is taught, and a little with all classes alike."""
        own = classification_loss(scores, classes) if targets is None else taught_loss(scores, targets)
        if not self.label_smoothing:
            return own
        if scores.shape[1] == 1:
            anyone = jax.nn.softplus(scores[:, 0]) - scores[:, 0] / 2
        else:
            anyone = -jnp.mean(jax.nn.log_softmax(scores), axis=1)
        return (1 - self.label_smoothing) * own + self.label_smoothing * anyone


def _hashed(word: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Random bits for dropout from one random word: the counter mixed as hash tables do it. A proper generator would
    take longer than the layer.
    """
    bits = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape) * np.uint32(0x9E3779B9) + word
    bits = (bits ^ (bits >> 16)) * np.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * np.uint32(0xC2B2AE35)
    return bits ^ (bits >> 16)


def transformation_of(plan: OptimiserKey | optax.GradientTransformation) -> optax.GradientTransformation:
    """The optimiser up to the step size, which each step multiplies in. All of ours map a zero gradient history to a
    zero update.
    """
    if not isinstance(plan, OptimiserKey):
        return plan
    decay = [optax.add_decayed_weights(plan.weight_decay)] if plan.weight_decay else []
    return {
        "sgd": lambda: optax.chain(optax.identity(), *decay),
        "momentum": lambda: optax.chain(*decay, optax.trace(decay=plan.momentum)),
        "adam": lambda: optax.chain(*decay, optax.scale_by_adam()),
        "adamw": lambda: optax.chain(optax.scale_by_adam(), *decay),
    }[plan.optimiser]()


def batch_loss_of(
    activation: Activation, response: Response | None, free_width: int, regularised: Regularised
) -> Callable[[Parameters, dict[str, Any], jax.Array, jax.Array], jax.Array]:
    """The loss of a batch of rows of a table, as a function of the parameters."""

    def batch_loss(parameters: Parameters, table: dict[str, Any], rows: jax.Array, key: jax.Array) -> jax.Array:
        inputs = inputs_of(table, rows)
        if response is None:
            weight, bias = parameters[0]
            scores = regularised.forward(parameters, inputs @ weight.T + bias, activation, key)
            losses = regularised.loss(scores, table["classes"][rows], _targets(table, rows))
        else:
            losses = _responded_loss(
                parameters, inputs, table, rows, key, response, free_width, activation, regularised
            )
        # By the full batch size also where the last batch has fewer rows: every row counts the same. (Averaging over
        # those few gives a stray row the weight of a whole batch, and it comes last: on census that cost up to 4
        # points of accuracy.)
        return jnp.sum(losses * row_weights(table, rows)) / rows.shape[0]

    return batch_loss


def inputs_of(table: dict[str, Any], rows: jax.Array) -> jax.Array:
    """What the network reads of some rows: as they are, or expanded from rows of a cache (`cache.Layout.expansion`)."""
    if "inputs" in table:
        return table["inputs"][rows]
    kinds: list[str] = [kind for kind in ("byte", "word", "number") if kind in table]
    kept = {kind: table[kind][rows] for kind in kinds}
    places, found = dict.fromkeys(kinds, 0), []
    for field in table["expansion"]:
        kind = next((kind for kind in ("byte", "word") if kind in field), "number")
        own = kept[kind][:, places[kind]]
        places[kind] += 1
        if kind != "number":
            found.append(field[kind][own])
        elif "plain" in field:
            found.append(own[:, None])
        else:
            found.append(jnp.clip((own[:, None] - field["low"]) / (field["high"] - field["low"]), 0.0, 1.0))
    return jnp.concatenate(found, axis=1)


def judged_rows(
    activation: Activation, members: int
) -> Callable[[Parameters, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """The loss of rows and whether they are right, by the mean of all members: of inputs and classes."""

    def outputs(parameters: Parameters, inputs: jax.Array) -> jax.Array:
        if members == 1:
            return forward(parameters, inputs, activation)
        return jnp.mean(jax.vmap(lambda own: forward(own, inputs, activation))(parameters), axis=0)

    def judged(parameters: Parameters, inputs: jax.Array, classes: jax.Array) -> tuple[jax.Array, jax.Array]:
        scores = outputs(parameters, inputs)
        right = (scores[:, 0] > 0) == (classes == 1) if scores.shape[1] == 1 else jnp.argmax(scores, 1) == classes
        return classification_loss(scores, classes), right

    return judged


def running_mean(averaging: float, steps: jax.Array, mean: Any, parameters: Parameters) -> Any:
    """The mean of the parameters after so many steps; None where there is none (averaging 0)."""
    if not averaging:
        return mean
    kept = jnp.minimum(averaging, (1.0 + steps) / (10.0 + steps))  # the first steps are soon forgotten
    return jax.tree.map(lambda before, now: kept * before + (1 - kept) * now, mean, parameters)


def step_of(
    batch_loss: Callable[..., jax.Array],
    transformation: optax.GradientTransformation,
    averaging: float,
    table: dict[str, Any],
    key: jax.Array,
    before: jax.Array,
    agreed: Callable[[Any], Any] = lambda gradient: gradient,
) -> Callable[[Any, Any], Any]:
    """One step on a batch (rows, rate, number within the epoch), as `jax.lax.scan` takes it; `before` it came so many
    steps of other epochs, and `agreed` makes the gradient of all devices out of that of one.
    """

    def step(carry: tuple[Any, ...], batch: tuple[jax.Array, jax.Array, jax.Array]) -> Any:
        parameters, state, averaged = carry
        rows, rate, number = batch
        loss, gradient = jax.value_and_grad(batch_loss)(parameters, table, rows, jax.random.fold_in(key, number))
        update, state = transformation.update(agreed(gradient), state, parameters)
        parameters = jax.tree.map(lambda p, u: p - rate * u, parameters, update)
        averaged = running_mean(averaging, before + number, averaged, parameters)
        return (parameters, state, averaged), loss

    return step


@functools.lru_cache(maxsize=64)
def compiled_loops(
    activation: Activation,
    response: Response | None,
    free_width: int,
    optimiser: OptimiserKey | optax.GradientTransformation,
    regularised: Regularised = Regularised(),
    members: int = 1,
    averaging: float = 0.0,
    own_rows: bool = False,
) -> tuple[Any, Any]:
    """The compiled epoch and evaluation. Cached, so that fitting the same shapes again does not compile again.

    Several members are trained side by side: their parameters, states, batches and keys have one more axis in front,
    and what is evaluated is the mean of their outputs, or with `own_rows` each on rows of its own. With `averaging` the
    epoch carries a running mean of the parameters along, which no step reads.
    """
    transformation = transformation_of(optimiser)
    batch_loss = batch_loss_of(activation, response, free_width, regularised)
    judged = judged_rows(activation, 1 if own_rows else members)

    def epoch(
        carried: Carried, table: dict[str, jax.Array], batches: jax.Array, rates: jax.Array, key_data: jax.Array,
        epoch_number: jax.Array,
    ) -> tuple[Carried, jax.Array]:  # fmt: skip
        # Folded in here and not by the caller: outside, this one call takes as long as several steps of a small table.
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), epoch_number)
        step = step_of(batch_loss, transformation, averaging, table, key, epoch_number * batches.shape[0])
        carried, losses = jax.lax.scan(step, carried, (batches, rates, jnp.arange(batches.shape[0])))
        return carried, jnp.sum(losses) * batches.shape[1] / jnp.sum(batches >= 0)

    def evaluation(
        parameters: Parameters, table: dict[str, jax.Array], chunks: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def chunk(carry: tuple[jax.Array, jax.Array, jax.Array], rows: jax.Array) -> Any:
            present = rows >= 0
            inputs, classes = table["inputs"][rows], table["classes"][rows]
            if response is not None:
                inputs = jnp.concatenate([inputs, table["codes"][table["true"][rows]]], axis=1)
            losses, right = judged(parameters, inputs, classes)
            loss = jnp.sum(losses * row_weights(table, rows))
            return (carry[0] + loss, carry[1] + jnp.sum(right * present), carry[2] + jnp.sum(present)), None

        zero = jnp.zeros(())
        (loss, right, count), _ = jax.lax.scan(chunk, (zero, zero, zero), chunks)
        return loss / count, right / count

    def side_by_side(carried: Carried, table: dict[str, jax.Array], *given: Any) -> Any:
        own = {name: 0 if name == "targets" and array.ndim == 3 else None for name, array in table.items()}
        return jax.vmap(epoch, in_axes=(0, own, 0, None, 0, None))(carried, table, *given)

    each = jax.vmap(evaluation, in_axes=(0, None, 0)) if own_rows and members > 1 else evaluation
    return jax.jit(epoch if members == 1 else side_by_side), jax.jit(each)


def row_weights(table: dict[str, jax.Array], rows: jax.Array) -> jax.Array:
    """How much each row counts; the last batch is filled up with -1, which is nobody."""
    present = rows >= 0
    return present if "weights" not in table else jnp.where(present, table["weights"][rows], 0.0)


def _responded_loss(
    parameters: Parameters,
    inputs: jax.Array,
    table: dict[str, jax.Array],
    rows: jax.Array,
    key: jax.Array,
    response: Response,
    free_width: int,
    activation: Activation,
    regularised: Regularised,
) -> jax.Array:
    """The loss of each row under its response: the mean over its draws, or the exact expectation over S. The copies of
    a row differ only by their code's offset.
    """
    weight, bias = parameters[0]
    offsets = table["codes"] @ weight[:, free_width:].T  # [|S|, width]
    shared = (inputs @ weight[:, :free_width].T + bias)[:, None, :]
    true, size = table["true"][rows], offsets.shape[0]
    if response.draws_values:
        if response.of_population:
            # A random person's released value has the distribution r: nobody needs to be looked up.
            values = jax.random.choice(key, size, (rows.shape[0], response.draws), p=table["release"])
        else:
            values = response.draw(key, true, size)  # [rows, draws]
        first = shared + offsets[values]
        probabilities = jnp.full(values.shape, 1.0 / response.draws)
    else:
        first = shared + offsets[None, :, :]
        if response.of_population:
            probabilities = table["release"][None, :]
        else:
            probabilities = jnp.asarray(response.matrix(size), jnp.float32)[true]
    copies = first.shape[1]
    scores = regularised.forward(parameters, first.reshape(-1, first.shape[-1]), activation, key)
    targets = _targets(table, rows)
    targets = None if targets is None else jnp.repeat(targets, copies, axis=0)
    losses = regularised.loss(scores, jnp.repeat(table["classes"][rows], copies), targets)
    return jnp.sum(losses.reshape(-1, copies) * probabilities, axis=1)


def _targets(table: dict[str, jax.Array], rows: jax.Array) -> jax.Array | None:
    return table["targets"][rows] if "targets" in table else None


def taught_loss(scores: jax.Array, targets: jax.Array) -> jax.Array:
    """Cross entropy of each row with how likely each class is; with one output, the second one."""
    if scores.shape[1] == 1:
        return jax.nn.softplus(scores[:, 0]) - scores[:, 0] * targets[:, 0]
    return optax.softmax_cross_entropy(scores, targets)


def classification_loss(scores: jax.Array, classes: jax.Array) -> jax.Array:
    """Cross entropy of each row: logistic for one output, softmax for K."""
    if scores.shape[1] == 1:
        return jax.nn.softplus(scores[:, 0]) - scores[:, 0] * (classes == 1)
    return optax.softmax_cross_entropy_with_integer_labels(scores, classes)
