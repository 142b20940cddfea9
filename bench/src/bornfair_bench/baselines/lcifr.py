"""LCIFR: learn codes in which twins lie close together, then a classifier that withstands that distance.

Ruoss, Balunović, Fischer and Vechev, "Learning Certified Individually Fair Representations" (NeurIPS 2020), for the
constraint "the sensitive value replaced by any other". The *producer* trains an encoder f and a helper classifier on
    cross entropy + weight · mean max(0, ‖f(x, s) − f(x, s')‖∞ − delta),    s' drawn uniformly from S;
the *consumer* trains a fresh classifier h on the codes against the worst shift of up to `robust_radius` in each entry.

As in the released code, whose attack on s' stands still where delta is 0 (it descends max(0, delta − distance), flat);
`attack_steps` brings it back where delta is above 0. Left out: the noise of 1e-4 on numbers, which is there for a
solver's sake, and the decoder, whose loss weighs nothing. Instead of 20 attack steps on a code the consumer takes the
worst shift itself, which a linear h has in closed form: −robust_radius·‖w‖₁ off the margin.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from bornfair.core.checks import choice, number, whole
from bornfair.core.errors import Diverged, InputError
from bornfair.models.network.bounds.intervals import box_bounds
from bornfair.models.network.network import (
    Activation,
    Layer,
    Network,
    Parameters,
    forward,
    forward_from_first,
    hidden_widths,
)
from bornfair.training.epochs import Callback, Epoch, EpochRecord
from bornfair.training.loops import classification_loss
from bornfair.training.start import default_layers
from bornfair_bench.baselines.base import Baseline, BaselineData, Certified
from bornfair_bench.baselines.penalised import Descent, Knobs, People, RowLosses

ATTACK_STEP = 0.05  # of the producer's attack, on the share of each sensitive value
CODE_STEPS, CODE_STEP = 20, 0.1  # of the consumer's attack where h has hidden layers; a step is a share of the radius
TOGETHER = 2**16  # versions of people that are certified at once: bounds memory

PHASES = ("producer", "consumer")


@dataclass(eq=False, repr=False)
class LCIFR(Baseline):
    """Certified individually fair representations: an encoder that brings twins together, and a robust classifier.

    Parameters, beside those of every baseline
    ----------
    hidden : the encoder's widths; the last is that of the code, which has no activation.
    classifier_hidden : hidden widths of the classifier on the code; none for logistic regression, as in the paper.
    weight : of fairness against accuracy. The authors use 10 (Adult, Crime, German), 1 (Compas, Health), 0.1 (law).
    delta : distance of twins' codes that costs nothing.
    attack_steps : of the attack that looks for a worse mixture of sensitive values; of use where delta is above 0.
    robust_radius : how far the entries of a code may be shifted while the classifier learns.
    epochs : of each of the two phases.
    weight_decay : coupled, on all weights and biases.
    callbacks : functions called after each epoch of both phases, as in `FairClassifier`.
    validation_fraction : share of rows held out; the learning rate is halved after `patience` epochs without a better
        loss on them. 0 keeps the rate.

    Attributes
    ----------
    encoder_, classifier_ : the two networks; `model_` holds one that joins them (see `joined`).
    producer_history_, consumer_history_ : a record for each epoch.

    Examples
    --------
    >>> from bornfair import datasets
    >>> people = datasets.load("credit").table
    >>> X, y = people.drop(columns="risk"), people["risk"]
    >>> lcifr = LCIFR(["sex"], epochs=5).fit(X, y)
    >>> lcifr.certify(X).share <= lcifr.empirical_fairness(X)
    True
    """

    hidden: Any = (20, 20)
    classifier_hidden: Sequence[int] = ()
    activation: Activation = "relu"
    weight: float = 10.0
    delta: float = 0.0
    attack_steps: int = 0
    robust_radius: float = 0.01
    weight_decay: float = 0.01
    validation_fraction: float = 0.2
    patience: int = 5
    callbacks: Sequence[Callback] = ()

    def _check_options(self) -> None:
        super()._check_options()
        choice("activation", self.activation, get_args(Activation))
        if not hidden_widths(self.hidden):
            raise InputError(
                "hidden is empty, but the encoder's last width is that of the code; use for instance [20]."
            )
        hidden_widths(self.classifier_hidden)
        for name in ("weight", "delta", "robust_radius", "weight_decay"):
            number(name, getattr(self, name), 0.0, math.inf)
        number("validation_fraction", self.validation_fraction, 0.0, 0.9)
        whole("attack_steps", self.attack_steps, 0)
        whole("patience", self.patience, 1)

    # --- training ---

    def _train(self, data: BaselineData) -> Network:
        encoder_widths = (data.free.shape[1] + data.codes.shape[1], *hidden_widths(self.hidden))
        head_widths = (encoder_widths[-1], *hidden_widths(self.classifier_hidden), data.outputs)
        random = np.random.default_rng([data.seed, 0])
        encoder, helper, head = (
            Network(default_layers(widths, random), self.activation)
            for widths in (encoder_widths, head_widths, head_widths)
        )
        rows = {"free": data.free, "codes": data.codes, "labels": data.labels.astype(np.int32)}
        produce = _ProducerLoss(self.activation, float(self.weight), float(self.delta), self.attack_steps)
        (encoder_parameters, _), self.producer_history_ = self._descend(
            produce, (encoder.to_jax(), helper.to_jax()), rows, data, phase="producer",
            network=lambda both: joined(*(Network.from_jax(part, self.activation) for part in both)),
        )  # fmt: skip
        self.encoder_ = Network.from_jax(encoder_parameters, self.activation)
        # The encoder is done, so each row is encoded once, not once an epoch.
        rows = {"code": self.encoder_.scores(data.inputs), "labels": rows["labels"]}
        consume = _ConsumerLoss(self.activation, float(self.robust_radius))
        head_parameters, self.consumer_history_ = self._descend(
            consume, head.to_jax(), rows, data, phase="consumer",
            network=lambda head: joined(self.encoder_, Network.from_jax(head, self.activation)),
        )  # fmt: skip
        self.classifier_ = Network.from_jax(head_parameters, self.activation)
        return joined(self.encoder_, self.classifier_)

    def _descend(
        self,
        losses: RowLosses,
        parameters: Parameters,
        rows: dict[str, np.ndarray],
        data: BaselineData,
        *,
        phase: str,
        network: Callable[[Parameters], Network],
    ) -> tuple[Parameters, tuple[EpochRecord, ...]]:
        """The rate is halved when held-out rows stop improving."""
        random = np.random.default_rng([data.seed, 1 + PHASES.index(phase)])
        count, knobs = len(data.labels), {"all_codes": jnp.asarray(data.all_codes)}
        order = random.permutation(count)
        held_out, training = np.split(order, [int(self.validation_fraction * count)])

        def with_twins() -> People:
            """The rows, each with a sensitive value drawn for its twin; it may be its own."""
            return table | {"twin": jnp.asarray(random.integers(0, len(data.all_codes), count, dtype=np.int32))}

        table = {name: jnp.asarray(array) for name, array in rows.items()}
        for_evaluation = with_twins()  # the same twins every epoch, so that epochs can be compared
        descent = Descent(losses, parameters, float(self.weight_decay))
        rate, best, since = float(self.learning_rate), math.inf, 0
        history = []
        for epoch in range(1, self.epochs + 1):
            began = time.perf_counter()
            batches = _batches(random.permutation(training), self.batch_size)
            mean = descent.epoch(with_twins(), batches, rate, knobs)
            if not math.isfinite(mean):
                raise Diverged(
                    f"LCIFR's {phase} diverged in epoch {epoch}: the loss is {mean}; lower the learning rate "
                    f"({self.learning_rate}) or scale extreme values in the table."
                )
            validation = None
            if len(held_out):
                validation = descent.loss(for_evaluation, _batches(held_out, self.batch_size), knobs)
                best, since = (validation, 0) if validation < best else (best, since + 1)
                if since == self.patience:
                    rate, since = rate / 2, 0
            # Epochs are counted through both phases; what a callback does is not part of an epoch's time.
            number_of = epoch + PHASES.index(phase) * self.epochs
            history.append(EpochRecord(number_of, mean, validation, None, time.perf_counter() - began))
            shown = Epoch(history[-1], 2 * self.epochs, functools.partial(network, descent.parameters))
            for callback in self.callbacks:
                callback(shown)
        return descent.parameters, tuple(history)

    # --- what LCIFR itself proves ---

    def certify(self, X: Any) -> Certified:
        """Who is certified by LCIFR's two bounds: how far apart a person's codes are, and what h makes of that.

        The radius is the largest difference in any entry between the code of a person and that of one of their twins,
        all of whom are tried. Certified is whose logit keeps its sign over the whole ball of that radius: a person
        whose twins agree may still be refused. Both bounds are about encoder and classifier in real arithmetic, rounded
        outward; how much the one network shipped differs from the two, in float32 or not, is taken off as well. So the
        claim holds for the network as shipped, in real arithmetic and in float32, for rows as encoded.
        """
        free, codes = self._encoded(X)
        together = max(1, TOGETHER // (len(self.model_.encoding.codes) + 1))
        parts = [
            self._keeps_sign(free[i : i + together], codes[i : i + together]) for i in range(0, len(free), together)
        ]
        radius, certified = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Certified(
            certified,
            float(radius.max()),
            "the decision of this row is the same for every sensitive value, in real arithmetic and in float32: the "
            "classifier decides alike on the whole ball that holds the codes of this person and all twins. The numbers "
            "are the radius of that ball for each row, the number is the largest of them.",
            radius,
        )

    def _keeps_sign(self, free: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The radius of each person's ball of codes, and whether the decision is the same on all of it."""
        people = len(free)
        versions = [own, *(np.broadcast_to(code, own.shape) for code in self.model_.encoding.codes)]
        points = np.concatenate([np.concatenate([free, code], axis=1) for code in versions])

        def furthest(distance: np.ndarray) -> np.ndarray:
            """Of each person's versions; infinite where nothing is known, above what was rounded."""
            largest = distance.max(axis=1).reshape(len(versions), people).max(axis=0)
            return np.where(np.isnan(largest), np.inf, np.nextafter(largest, np.inf))

        with np.errstate(invalid="ignore"):  # infinite bounds, where numbers may overflow
            low, high = box_bounds(self.encoder_, points, points)
            centre = 0.5 * low[:people] + 0.5 * high[:people]
            centres = np.tile(centre, (len(versions), 1))
            radius = furthest(np.maximum(high - centres, centres - low))
            reach = radius[:, None]
            least, most = box_bounds(
                self.classifier_, np.nextafter(centre - reach, -np.inf), np.nextafter(centre + reach, np.inf)
            )
            apart_low, apart_high = box_bounds(self.classifier_, low, high)
            shipped_low, shipped_high = box_bounds(self.model_.network, points, points, "float32")
            drift = furthest(np.maximum(shipped_high - apart_low, apart_high - shipped_low))
        # A network whose numbers may overflow for one of these people is trusted with none of them.
        bounded = bool(np.isfinite(shipped_high).all())
        return radius, ((least[:, 0] > drift) | (most[:, 0] < -drift)) & bounded


def joined(encoder: Network, classifier: Network) -> Network:
    """One network for classifier ∘ encoder: the code has no activation, so the two affine maps around it are one.

    Their product is computed in float64 and rounded to float32 once. It is the network that is shipped, verified and
    asked for decisions; `LCIFR.certify` allows for what rounding the product changed.
    """
    last, first = encoder.layers[-1], classifier.layers[0]
    weight = first.weight.astype(np.float64) @ last.weight.astype(np.float64)
    bias = first.weight.astype(np.float64) @ last.bias.astype(np.float64) + first.bias
    return Network((*encoder.layers[:-1], Layer(weight, bias), *classifier.layers[1:]), encoder.activation)


# --- the losses of the two phases ---


@dataclass(frozen=True)
class _ProducerLoss:
    """Cross entropy + weight · max(0, distance to the code of a random twin − delta); (encoder, helper)."""

    activation: Activation
    weight: float
    delta: float
    attack_steps: int

    def __call__(self, parameters: Parameters, rows: People, knobs: Knobs) -> jax.Array:
        encoder, helper = parameters
        codes = knobs["all_codes"]
        weight, bias = encoder[0]
        free_width = rows["free"].shape[1]
        shared = rows["free"] @ weight[:, :free_width].T + bias  # twins differ by what their sensitive codes add to it

        def encoded(sensitive: jax.Array) -> jax.Array:
            return forward_from_first(encoder, shared + sensitive @ weight[:, free_width:].T, self.activation)

        code = encoded(rows["codes"])
        entropy = classification_loss(forward(helper, code, self.activation), rows["labels"])

        def distance(twin: jax.Array) -> jax.Array:
            return jnp.max(jnp.abs(code - encoded(twin)), axis=1)

        def still_near(shares: jax.Array) -> jax.Array:
            return jnp.sum(jax.nn.relu(self.delta - distance(shares @ codes)))

        def further(_: int, shares: jax.Array) -> jax.Array:
            moved = jnp.clip(shares - ATTACK_STEP * jnp.sign(jax.grad(still_near)(shares)), 0.0, 1.0)
            total = jnp.sum(moved, axis=1, keepdims=True)
            return jnp.where(total > 0, moved / jnp.maximum(total, 1e-9), shares)

        twin = codes[rows["twin"]]
        if self.attack_steps:
            # What the attack moves is the share of each value of S in the twin: all of one at first, then a mixture.
            shares = jax.nn.one_hot(rows["twin"], codes.shape[0])
            twin = jax.lax.stop_gradient(jax.lax.fori_loop(0, self.attack_steps, further, shares)) @ codes
        return entropy + self.weight * jax.nn.relu(distance(twin) - self.delta)


@dataclass(frozen=True)
class _ConsumerLoss:
    """Cross entropy at the worst code within the radius: exact for a linear classifier, else by an attack."""

    activation: Activation
    radius: float

    def __call__(self, head: Parameters, rows: People, knobs: Knobs) -> jax.Array:
        def losses(code: jax.Array) -> jax.Array:
            return classification_loss(forward(head, code, self.activation), rows["labels"])

        code = rows["code"]
        if len(head) == 1:
            towards_wrong = jnp.where(rows["labels"][:, None] == 1, -1.0, 1.0) * jnp.sign(head[0][0])
            return losses(code + self.radius * towards_wrong)

        def worse(_: int, shift: jax.Array) -> jax.Array:
            uphill = jnp.sign(jax.grad(lambda s: jnp.sum(losses(code + s)))(shift))
            return jnp.clip(shift + CODE_STEP * self.radius * uphill, -self.radius, self.radius)

        shift = jax.lax.fori_loop(0, CODE_STEPS, worse, jnp.zeros_like(code))
        return losses(code + jax.lax.stop_gradient(shift))


def _batches(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows in lines of `size`; the few that do not fill a line sit out (in training, other ones every epoch)."""
    size = min(size, len(rows))
    return rows[: len(rows) // size * size].reshape(-1, size)
