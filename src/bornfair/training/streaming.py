"""Algorithm 1 on a table that no memory holds: windows of its cache, in an order of their own in every epoch.

An epoch goes over blocks of rows in random order, a window of many blocks at a time, and draws batches from all rows of
the window. What a run gives depends on the seed, the rows and the number of devices, and on nothing else: killed at any
moment and resumed from its checkpoint, it ends with the same bytes.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bornfair.core.errors import InputError
from bornfair.models.network.network import Activation, Network, Parameters
from bornfair.training.cache import TRAINING, VALIDATION, Cache, class_weights
from bornfair.training.embedding import Embedding
from bornfair.training.epochs import TREES, Plan, Run, State, rates
from bornfair.training.hosts import ALONE, Hosts
from bornfair.training.loops import (
    Carried,
    OptimiserKey,
    Regularised,
    batch_loss_of,
    inputs_of,
    judged_rows,
    row_weights,
    step_of,
    transformation_of,
)
from bornfair.training.response import Response

BLOCK = 2_048  # rows that stay together on the way from the file
WINDOW = 2**20  # rows that batches are drawn from, of one process …
WINDOW_BYTES = 2**28  # … and at most so many bytes
EVALUATED = 8_192  # rows for a step of evaluation
SAVED_EVERY = 60.0  # seconds, at least, between two checkpoints within an epoch

NEEDS_SENSITIVE = (
    "a table that is read in batches is trained on without its sensitive values, which needs the start 'exact' and a "
    "response that preserves fairness (expected at γ = 0, or population); leave --init, --response and --gamma out, or "
    "train on a table that fits in memory."
)

Told = Callable[[int, int, int, float], None]
"""Is told the epoch, how many rows of it are done, of how many, and the mean loss so far."""


class StreamedRun(Run):
    """A run over the rows of a cache; of several processes each has a cache of its own rows."""

    def __init__(
        self,
        starts: Sequence[Network],
        cache: Cache,
        response: Response,
        plan: Plan,
        transformation: optax.GradientTransformation | None,
        embedding: Embedding | None,
        hosts: Hosts = ALONE,
        *,
        balanced: bool = False,
        told: Told | None = None,
    ) -> None:
        width = cache.layout.encoding.free_width if embedding is None else embedding.width
        super().__init__(starts, width, response, plan, transformation, embedding, hosts)
        if not self.collapsed:
            raise InputError(NEEDS_SENSITIVE)
        self.cache, self.told, self.balanced = cache, told, balanced
        self.mesh = all_devices()
        self.local = jax.local_device_count()
        self.each = -(-plan.batch_size // self.mesh.size)  # rows of a batch on each device
        counts = hosts.gathered(json.dumps([cache.counts[TRAINING], cache.counts[VALIDATION]]).encode())
        self.training, self.validation = zip(*map(json.loads, counts), strict=True)  # rows of each process
        if not sum(self.training):
            raise InputError("there are no rows to train on.")
        row = max(cache.layout.record.itemsize, 4 * plan.members)
        window = min(WINDOW, WINDOW_BYTES // row)
        self.together = max(window // (self.each * self.local), 1)  # steps of a window
        self.steps = -(-max(self.training) // (self.each * self.local))  # of an epoch
        self.expansion = shared(cache.layout.expansion(embedding), self.mesh)
        regularised = Regularised(plan.dropout, plan.label_smoothing)
        self.window_loop, self.judging = compiled_windows(
            self.activation, width, self.optimiser_key, regularised, plan.members, plan.averaging, self.steps, self.mesh
        )
        self.weights = None
        if balanced:
            classes = [json.loads(one) for one in hosts.gathered(json.dumps(cache.classes[TRAINING]).encode())]
            self.weights = class_weights(np.sum(classes, axis=0).tolist())

    def placed(self, state: State) -> State:
        return replace(state, **{name: shared(getattr(state, name), self.mesh) for name in TREES})

    def described(self) -> tuple[str, Sequence[np.ndarray | None]]:
        """Beside the settings, how the rows are dealt out; the caches' own marks stand for the rows."""
        rows = {"training": self.training, "validation": self.validation}
        facts = [self.plan.record(), asdict(self.response), self.activation, rows]
        marks = [one.decode() for one in self.hosts.gathered(self.cache.mark.encode())]
        return json.dumps([*facts, self.balanced, self.mesh.size, self.hosts.processes, self.together, marks]), ()

    # --- one epoch ---

    def one_epoch(self, state: State, keep: Callable[[State], None]) -> State:
        began = saved = time.perf_counter()
        pace = rates(self.plan, state.epoch, self.steps)
        carried, losses = state.carried, state.loss
        waiting: list[tuple[int, Any]] = []
        rows = sum(self.training)

        def settle(open_windows: int) -> None:
            """Wait until so few windows are under way; their losses are added one by one, wherever a run is left."""
            nonlocal losses
            while len(waiting) > open_windows:
                reached, loss = waiting.pop(0)
                losses += float(loss)
                if self.told is not None:
                    done = min(rows, reached * self.each * self.mesh.size)
                    self.told(state.epoch + 1, done, rows, losses / max(done, 1))

        for first, table, batches in self._windows(state.epoch, state.steps):
            reached = first + batches.shape[-2]
            carried, loss = self.window_loop(
                carried, table, self.expansion, batches, pace[first:reached], self.key, np.int32(state.epoch),
                np.int32(first),
            )  # fmt: skip
            waiting.append((reached, loss))
            settle(1)  # one window is computed while the next one is read
            if time.perf_counter() - saved > SAVED_EVERY and reached < self.steps:
                settle(0)
                saved = time.perf_counter()
                keep(state.after(carried, steps=reached, loss=losses))
        settle(0)
        judge = self.judge if sum(self.validation) else None
        return self.ended(state.after(carried), losses / rows, judge, began)

    def judge(self, parameters: Parameters) -> tuple[float, float]:
        """Mean loss and accuracy on the validation rows of all processes."""
        loss = right = 0.0
        each = EVALUATED * self.local
        longest = max(self.validation)
        for start in range(0, longest, each * 16):
            stop = min(start + each * 16, self.cache.counts[VALIDATION])
            size = -(-min(longest - start, each * 16) // self.local)
            table, present = self._table(self.cache.read(VALIDATION, start, stop), size)
            chunks = _lines(present, EVALUATED)
            found = self.judging(parameters, dealt(table, self.mesh), self.expansion, dealt(chunks, self.mesh))
            loss, right = loss + float(found[0]), right + float(found[1])
        return loss / sum(self.validation), right / sum(self.validation)

    # --- windows ---

    def _windows(self, epoch: int, done: int) -> Iterator[tuple[int, Any, Any]]:
        """From which step on, the rows, and the batches [devices, (members,) steps, rows] of each window."""
        own = self.cache.counts[TRAINING]
        order = self._order(epoch, own)
        for first in range(done, self.steps, self.together):
            steps = min(self.together, self.steps - first)
            size = self.each * self.local
            rows = self._stream(order, first * size, min((first + steps) * size, own))
            table, present = self._table(rows, steps * self.each)
            members = [
                np.stack([self._shuffled(one, epoch, first, device, member) for device, one in enumerate(present)])
                for member in range(self.plan.members)
            ]
            batches = np.stack(members, axis=1).reshape(self.local, self.plan.members, steps, self.each)
            if self.plan.members == 1:
                batches = batches[:, 0]
            yield first, dealt(table, self.mesh), dealt(np.ascontiguousarray(batches), self.mesh)

    def _order(self, epoch: int, rows: int) -> np.ndarray:
        """The blocks in the order of this epoch; the last one, which may be shorter, stays last."""
        blocks = -(-rows // BLOCK)
        generator = np.random.default_rng([self.plan.seed, 3, epoch, self.hosts.process])
        return np.append(generator.permutation(max(blocks - 1, 0)), blocks - 1)

    def _stream(self, order: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Rows from start to stop, blocks in their order."""
        found = []
        while start < stop:
            place, inside = divmod(start, BLOCK)
            count = min(BLOCK - inside, stop - start)
            begin = int(order[place]) * BLOCK + inside
            found.append(self.cache.read(TRAINING, begin, begin + count))
            start += count
        return np.concatenate(found) if found else np.zeros(0, self.cache.layout.record)

    def _table(self, rows: np.ndarray, each: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Rows dealt to the devices of this process, `each` of them at most, and their places there; -1 is nobody."""
        padded = np.zeros(each * self.local, rows.dtype)
        padded[: len(rows)] = rows
        kept = padded.reshape(self.local, each)
        names = {"bytes": "byte", "words": "word", "numbers": "number"}
        table = {names[name]: np.ascontiguousarray(kept[name]) for name in names if name in (rows.dtype.names or ())}
        table["classes"] = kept["class"].astype(np.int32)
        if self.weights is not None:
            table["weights"] = self.weights[table["classes"]]
        places = np.broadcast_to(np.arange(each, dtype=np.int32), (self.local, each)).copy()
        places.reshape(-1)[len(rows) :] = -1
        return table, places

    def _shuffled(self, places: np.ndarray, epoch: int, first: int, device: int, member: int) -> np.ndarray:
        """The places of a window in random order, nobody at the end."""
        mixed, present = places.copy(), int((places >= 0).sum())
        generator = np.random.default_rng([self.plan.seed, 4, epoch, first, self.hosts.process, device, member])
        generator.shuffle(mixed[:present])
        return mixed


def _lines(places: np.ndarray, size: int) -> np.ndarray:
    """[devices, rows] in lines of `size`, filled up with -1."""
    lines = -(-places.shape[1] // size)
    filled = np.full((len(places), lines * size), -1, np.int32)
    filled[:, : places.shape[1]] = places
    return filled.reshape(len(places), lines, size)


# --- the compiled steps of a window ---

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
    """The mean of all devices' gradients, in one message for all layers; 0 on every device is 0 on average."""
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
        carried: Carried, table: dict[str, Any], batches: jax.Array, rates: jax.Array, key_data: jax.Array,
        epoch: jax.Array, first: jax.Array,
    ) -> tuple[Carried, jax.Array]:  # fmt: skip
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), epoch)
        key = jax.random.fold_in(key, jax.lax.axis_index(AXIS))
        step = step_of(batch_loss, transformation, averaging, table, key, epoch * per_epoch, _agreed)
        carried, losses = jax.lax.scan(step, carried, (batches, rates, first + jnp.arange(batches.shape[0])))
        return carried, jax.lax.psum(jnp.sum(losses) * batches.shape[1], AXIS)

    side_by_side = steps if members == 1 else jax.vmap(steps, in_axes=(0, None, 0, None, 0, None, None))

    def window(
        carried: Carried, own: dict[str, Any], expansion: Any, batches: jax.Array, *rest: jax.Array
    ) -> tuple[Carried, jax.Array]:
        table = {name: array[0] for name, array in own.items()} | {"expansion": expansion}
        carried, loss = side_by_side(carried, table, batches[0], *rest)
        return carried, jnp.mean(loss)

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
    dealt_out = (SHARED, OWN, SHARED, OWN, SHARED, SHARED, SHARED, SHARED)
    trained = everywhere(window, in_specs=dealt_out, out_specs=(SHARED, SHARED))
    evaluated = everywhere(evaluation, in_specs=(SHARED, OWN, SHARED, OWN), out_specs=(SHARED, SHARED))
    return jax.jit(trained), jax.jit(evaluated)
