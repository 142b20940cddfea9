"""The compiled part of training on a table that is read in windows: as many devices as there are, gradients averaged.

Every device makes its step on rows of its own, and what is applied is the mean of all gradients. A sensitive weight has
the gradient 0 on every device (docs/theory.md §3 holds of any rows), so their mean is 0 on however many.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bornfair.models.network.network import Activation, Parameters
from bornfair.training.loops import (
    OptimiserKey,
    Regularised,
    batch_loss_of,
    inputs_of,
    judged_rows,
    row_weights,
    step_of,
    transformation_of,
)

AXIS = "devices"
SHARED, OWN = PartitionSpec(), PartitionSpec(AXIS)


def all_devices() -> Mesh:
    return Mesh(np.array(jax.devices()), (AXIS,))


def shared(tree: Any, mesh: Mesh) -> Any:
    """The same numbers on every device."""
    place = NamedSharding(mesh, SHARED)
    return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf), place), tree)


def dealt(tree: Any, mesh: Mesh) -> Any:
    """Arrays [devices of this process, …] as parts of those of all processes."""
    place = NamedSharding(mesh, OWN)
    return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(place, leaf), tree)


def _agreed(gradient: Any) -> Any:
    """The mean of all devices' gradients, in one message for all layers."""
    flat, tree = ravel_pytree(gradient)
    return tree(jax.lax.pmean(flat, AXIS))


@functools.lru_cache(maxsize=16)
def compiled_windows(
    activation: Activation,
    free_width: int,
    optimiser: OptimiserKey | optax.GradientTransformation,
    regularised: Regularised,
    members: int,
    averaging: float,
    per_epoch: int,
    mesh: Mesh,
) -> tuple[Any, Any]:
    """The compiled steps of one window, and the evaluation of one."""
    transformation = transformation_of(optimiser)
    batch_loss = batch_loss_of(activation, None, free_width, regularised)
    judged = judged_rows(activation, members)

    def steps(
        parameters: Parameters,
        state: Any,
        averaged: Parameters | None,
        table: dict[str, Any],
        batches: jax.Array,
        rates: jax.Array,
        key_data: jax.Array,
        epoch: jax.Array,
        first: jax.Array,
    ) -> tuple[Parameters, Any, Parameters | None, jax.Array]:
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), epoch)
        key = jax.random.fold_in(key, jax.lax.axis_index(AXIS))

        step = step_of(batch_loss, transformation, averaging, table, key, epoch * per_epoch, _agreed)
        carried = parameters, state, averaged
        given = batches, rates, first + jnp.arange(batches.shape[0])
        (parameters, state, averaged), losses = jax.lax.scan(step, carried, given)
        return parameters, state, averaged, jax.lax.psum(jnp.sum(losses) * batches.shape[1], AXIS)

    side_by_side = steps if members == 1 else jax.vmap(steps, in_axes=(0, 0, 0, None, 0, None, 0, None, None))

    def window(
        parameters: Parameters,
        state: Any,
        averaged: Parameters | None,
        own: dict[str, Any],
        expansion: Any,
        batches: jax.Array,
        *rest: jax.Array,
    ) -> tuple[Parameters, Any, Parameters | None, jax.Array]:
        table = {name: array[0] for name, array in own.items()} | {"expansion": expansion}
        parameters, state, averaged, loss = side_by_side(parameters, state, averaged, table, batches[0], *rest)
        return parameters, state, averaged, jnp.mean(loss)

    def evaluation(
        parameters: Parameters, own: dict[str, Any], expansion: Any, chunks: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        table = {name: array[0] for name, array in own.items()} | {"expansion": expansion}

        def chunk(carry: tuple[jax.Array, jax.Array], rows: jax.Array) -> Any:
            losses, right = judged(parameters, inputs_of(table, rows), table["classes"][rows])
            loss = jnp.sum(losses * row_weights(table, rows))
            return (carry[0] + loss, carry[1] + jnp.sum(right * (rows >= 0))), None

        zero = jnp.zeros(())
        (loss, right), _ = jax.lax.scan(chunk, (zero, zero), chunks[0])
        return jax.lax.psum(loss, AXIS), jax.lax.psum(right, AXIS)

    # What comes out is the same on every device because all gradients were averaged; JAX need not find that out.
    everywhere = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
    trained = everywhere(
        window, in_specs=(SHARED, SHARED, SHARED, OWN, SHARED, OWN, SHARED, SHARED, SHARED, SHARED),
        out_specs=(SHARED, SHARED, SHARED, SHARED),
    )  # fmt: skip
    evaluated = everywhere(evaluation, in_specs=(SHARED, OWN, SHARED, OWN), out_specs=(SHARED, SHARED))
    return jax.jit(trained), jax.jit(evaluated)
