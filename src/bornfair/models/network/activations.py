"""Activation functions: one record each, with values, slopes and bounds on intervals.

A new activation is one more record, and its name. Functions take `xp`, NumPy or jax.numpy, where both call them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from bornfair.models.rounding import FLOOR, TILT, Execution

if TYPE_CHECKING:
    import jax

Activation = Literal["relu", "tanh", "sigmoid", "gelu"]

GELU_TURN = (-0.7518, -0.7517)  # x·Φ(x) falls before, rises after; it turns once, at −0.75179…
GELU_LEAST = -0.16998  # its minimum is −0.169971…


class Enclosure(NamedTuple):
    """Two lines, slope·z + shift, between which an activation lies on an interval."""

    lower_slope: Any
    lower_shift: Any  # None: 0, and the upper shift is not negative
    upper_slope: Any
    upper_shift: Any


@dataclass(frozen=True, eq=False)
class ActivationFunction:
    """Everything we know of one activation."""

    jax: Callable[[jax.Array], jax.Array]
    """As it is trained."""
    value: Callable[[Any, Any], Any]
    """(xp, z): the same in plain float64."""
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """(z, value at z): the derivative."""
    steepest: float
    """No slope is larger than this in size."""
    image: Callable[[Any, Any, Any, Any, Any], tuple[Any, Any]]
    """(xp, low, high, error, floor): bounds of the value of anything in [low, high], as executed."""
    lines: Callable[[Any, Any, Any, tuple[Any, Any], Any], Enclosure]
    """(xp, low, high, image, error): lines around the value on [low, high], as executed."""
    operator: str
    """Its name in ONNX."""
    opset: int = 1
    """The first of ONNX's operator sets that has it."""
    exact: bool = False
    """Whether it is max(z, 0): without rounding error, fractions to fractions, 0 below 0; and solvers know it."""
    machine_error: float = 0.0
    """Of a float32 execution; `image` says relative to what."""
    own_error: float = 0.0
    """Of our float64 evaluation, by NumPy or JAX."""

    def error(self, execution: Execution) -> float:
        return self.own_error + (self.machine_error if execution.unit else 0.0)


def _of_jax(name: str, **options: Any) -> Callable[[jax.Array], jax.Array]:
    """A function of JAX, which is imported when it is first called."""

    def call(values: jax.Array) -> Any:
        import jax

        return getattr(jax.nn, name)(values, **options)

    return call


# --- relu ---


def _relu_lines(xp: Any, low: Any, high: Any, image: tuple[Any, Any], error: Any) -> Enclosure:
    bends = (low < 0) & (high > 0)
    stable = xp.where(high > 0, 1.0, 0.0)
    slope = xp.where(bends, high / xp.where(bends, high - low, 1.0), stable)
    # The line must reach relu at both ends, whatever the slope was rounded to: relu is convex.
    needed = xp.maximum(-slope * low, high - slope * high) + TILT * (high - slope * low) + FLOOR
    lower = xp.where(bends, xp.where(high > -low, 1.0, 0.0), stable)
    return Enclosure(lower, None, slope, xp.where(bends, needed, 0.0))


# --- tanh ---


def _tanh_image(xp: Any, low: Any, high: Any, error: Any, floor: Any) -> tuple[Any, Any]:
    """Errs in proportion to its value."""
    below, above = xp.tanh(low), xp.tanh(high)
    return below - error * xp.abs(below) - floor, above + error * xp.abs(above) + floor


def _tanh_lines(xp: Any, low: Any, high: Any, image: tuple[Any, Any], error: Any) -> Enclosure:
    """Chord and tangent where tanh bends one way only; else both lines with the smaller slope of the two ends."""
    middle, width = low / 2 + high / 2, high - low
    at_low, at_high, at_middle = xp.tanh(low), xp.tanh(high), xp.tanh(middle)
    chord = xp.clip((at_high - at_low) / xp.where(width > 0, width, 1.0), 0.0, 1.0)
    tangent = 1 - at_middle**2
    flattest = xp.minimum(1 - at_low**2, 1 - at_high**2)
    convex, concave = high <= 0, low >= 0
    below = xp.where(convex, tangent, xp.where(concave, chord, flattest))
    above = xp.where(concave, tangent, xp.where(convex, chord, flattest))
    # tanh is off by its own error, slopes by a few units in the last place: over the interval that is at most this.
    pad = error + TILT * (8 + 8 * xp.maximum(xp.abs(low), xp.abs(high)))
    at_ends_below = xp.minimum(at_low - below * low, at_high - below * high)
    at_ends_above = xp.maximum(at_low - above * low, at_high - above * high)
    lower = xp.where(convex, at_middle - below * middle, at_ends_below) - pad
    upper = xp.where(concave, at_middle - above * middle, at_ends_above) + pad
    return Enclosure(below, lower, above, upper)


# --- sigmoid ---


def sigmoid(z: Any, xp: Any = np) -> Any:
    return 0.5 + 0.5 * xp.tanh(0.5 * z)


def _sigmoid_image(xp: Any, low: Any, high: Any, error: Any, floor: Any) -> tuple[Any, Any]:
    """As 1/2 + tanh(z/2)/2, which errs by its own rounding near 0 and not in proportion: the pad is absolute."""
    pad = error + floor
    return sigmoid(low, xp) - pad, sigmoid(high, xp) + pad


def _sigmoid_lines(xp: Any, low: Any, high: Any, image: tuple[Any, Any], error: Any) -> Enclosure:
    """Lines for tanh at half the place, at half the height. Slopes and halves are exact; the sum with 1/2 rounds once,
    and an execution may err as much as tanh itself, not half of it.
    """
    half = _tanh_lines(xp, 0.5 * low, 0.5 * high, image, error)
    pad = error + 4 * TILT
    return Enclosure(
        0.25 * half.lower_slope,
        0.5 + 0.5 * half.lower_shift - pad,
        0.25 * half.upper_slope,
        0.5 + 0.5 * half.upper_shift + pad,
    )


# --- gelu ---


def _normal(xp: Any, z: Any) -> Any:
    """Φ(z), the distribution function of the normal distribution."""
    if xp is np:
        from scipy.special import erfc
    else:
        from jax.scipy.special import erfc
    return 0.5 * erfc(z * -np.sqrt(0.5))


def _gelu(xp: Any, z: Any) -> Any:
    return z * _normal(xp, z)


def _gelu_slope(z: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.asarray(_normal(np, z) + z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def _gelu_image(xp: Any, low: Any, high: Any, error: Any, floor: Any) -> tuple[Any, Any]:
    """Errs in proportion to |z|: where z is very negative the form z/2·(1 + erf(z/√2)) cancels; what remains is the
    error of erf near −1, times |z|.
    """
    at_low, at_high = _gelu(xp, low), _gelu(xp, high)
    turns = (low <= GELU_TURN[1]) & (high >= GELU_TURN[0])
    # Falling then rising: the largest value is at an end, and so is the smallest unless the turn lies between.
    least = xp.where(turns, GELU_LEAST, xp.minimum(at_low, at_high))
    pad = error * xp.maximum(xp.abs(low), xp.abs(high)) + floor
    return least - pad, xp.maximum(at_low, at_high) + pad


def _flat_lines(xp: Any, low: Any, high: Any, image: tuple[Any, Any], error: Any) -> Enclosure:
    """What can be said of any activation."""
    flat = xp.zeros_like(low)
    return Enclosure(flat, image[0], flat, image[1])


ACTIVATIONS: dict[str, ActivationFunction] = {
    "relu": ActivationFunction(
        jax=_of_jax("relu"),
        value=lambda xp, z: xp.maximum(z, 0),
        slope=lambda z, value: (z > 0).astype(np.float64),
        steepest=1.0,
        image=lambda xp, low, high, error, floor: (xp.maximum(low, 0), xp.maximum(high, 0)),  # exact everywhere
        lines=_relu_lines,
        operator="Relu",
        exact=True,
    ),
    "tanh": ActivationFunction(
        jax=_of_jax("tanh"),
        value=lambda xp, z: xp.tanh(z),
        slope=lambda z, value: 1.0 - value**2,
        steepest=1.0,
        image=_tanh_image,
        lines=_tanh_lines,
        operator="Tanh",
        machine_error=2.0**-20,  # measured in units of 2^-24: XLA 4.8, NumPy 1.8
        own_error=2.0**-47,  # measured in units of 2^-53: XLA 7.3, NumPy 1.7
    ),
    "sigmoid": ActivationFunction(
        jax=_of_jax("sigmoid"),
        value=lambda xp, z: sigmoid(z, xp),
        slope=lambda z, value: value * (1.0 - value),
        steepest=0.25,
        image=_sigmoid_image,
        lines=_sigmoid_lines,
        operator="Sigmoid",
        machine_error=2.0**-20,  # errs by no more than tanh does, of which it is made
        own_error=2.0**-47,
    ),
    "gelu": ActivationFunction(
        jax=_of_jax("gelu", approximate=False),
        value=_gelu,
        slope=_gelu_slope,
        steepest=1.13,
        image=_gelu_image,
        lines=_flat_lines,
        operator="Gelu",
        opset=20,
        machine_error=2.0**-20,  # measured in units of 2^-24: 3.6 in the form with erf, 2.1 with erfc
        own_error=2.0**-39,
    ),
}
