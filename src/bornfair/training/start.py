"""Which starts are fair? Draw, confirm, draw again (paper Lemma 3.1 and the loop of its Figure 3).

With the first layer split into W (free inputs) and V (sensitive codes), V = 0 is fair by construction and the default.
All other starts are fair only if a proof says so: `fair_start` returns none without one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from bornfair.core.checks import choice
from bornfair.core.errors import InputError, NoFairStart, shown
from bornfair.models.network.model import Model
from bornfair.models.network.network import Activation, Layer, Network, hidden_widths
from bornfair.models.network.structural import confirm_encoded
from bornfair.models.verdict import Verdict
from bornfair.people.encoding import Encoding
from bornfair.people.sensitive import ENUMERATION_LIMIT
from bornfair.people.twins.versions import Versions
from bornfair.training.embedding import Embedding, mean_of
from bornfair.verification.decide import decide

Layers = Literal["first", "all"]
Scalar = Literal["fixed", "uniform"]
LARGEST = float(np.finfo(np.float32).max)
SECONDS_FOR_A_START = 10.0
"""A start that is fair is proven in far less; longer thought about one draw is better spent on the next."""


@dataclass(frozen=True)
class Plain:
    """The usual random start (see `default_layers`): for comparison (ERM). Nothing makes it fair."""


@dataclass(frozen=True)
class Exact:
    """`Plain` with V = 0 exactly: fair by construction, and expected updates keep it so (exact preservation)."""


@dataclass(frozen=True)
class Bernoulli:
    """The paper's near-zero start: each parameter is +e^phi with probability p, else −e^phi.

    The paper means every parameter (layers='all', and what preset='paper' starts from). There the signal shrinks by a
    factor of hundreds at each layer, and so does the gradient on its way back: fair, but it does not learn. By default
    in the first layer only, the others being as in `Plain`.
    """

    phi: float = -10.0
    p: float = 0.5
    layers: Layers = "first"

    def __post_init__(self) -> None:
        _require(_usable(self.scale), f"phi={self.phi} gives weights of ±{self.scale:g}, which float32 cannot hold")
        _require(0 <= self.p <= 1, f"p={self.p} is not a probability; use a number from 0 to 1")
        choice("layers", self.layers, get_args(Layers))

    @property
    def scale(self) -> float:
        return math.exp(self.phi) if self.phi < 700 else math.inf


@dataclass(frozen=True)
class NearZero:
    """Each parameter is ±scale by a fair coin: the paper's Bernoulli start at another scale, a variant of our own.

    Biases are tossed too, so every neuron starts at its kink; what the paper's authors released is `SharedScalar`.
    """

    p: ClassVar[float] = 0.5
    scale: float = 1e-10
    layers: Layers = "first"

    def __post_init__(self) -> None:
        _require(_usable(self.scale), f"scale={self.scale} is not a number above 0 that float32 can hold")
        choice("layers", self.layers, get_args(Layers))


@dataclass(frozen=True)
class SharedScalar:
    """As the paper's authors released it: one number in every weight of the first layer, all else as in `Plain`.

    draw 'fixed': the number is `scale` (their script for the law school table). draw 'uniform': it is drawn once from
    ±scale (their script for the census).
    """

    scale: float = 1e-10
    draw: Scalar = "fixed"

    def __post_init__(self) -> None:
        _require(_usable(self.scale), f"scale={self.scale} is not a number above 0 that float32 can hold")
        choice("draw", self.draw, get_args(Scalar))


@dataclass(frozen=True)
class Constant:
    """All weights 0, every output equal to `value`: the proof of Lemma 3.1. Fair, but equal neurons hardly learn."""

    value: float = 0.0

    def __post_init__(self) -> None:
        _require(abs(self.value) < LARGEST, f"value={self.value} is not a finite float32 number")


@dataclass(frozen=True)
class FromModel:
    """Any given network; its own hidden widths and activation are kept."""

    network: Network = field(repr=False)


Named = Exact | Plain | Bernoulli | NearZero | SharedScalar | Constant
Start = Named | FromModel
STARTS: dict[str, type[Named]] = {
    "exact": Exact,
    "plain": Plain,
    "bernoulli": Bernoulli,
    "near_zero": NearZero,
    "shared_scalar": SharedScalar,
    "constant": Constant,
}
"""The starts that can be asked for by name."""


@dataclass(frozen=True)
class Attempt:
    """One turn of the loop: what was found out about the network drawn."""

    number: int
    verdict: str
    proof: str
    reason: str
    seconds: float


@dataclass(frozen=True)
class FairStart:
    """A network that is proven fair, the proof, and the draws it took."""

    network: Network
    verdict: Verdict
    attempts: tuple[Attempt, ...]
    members: tuple[Network, ...] = ()
    """What is trained: the network itself, or those whose mean it is, behind its embedding."""


def parse_start(text: str) -> Start:
    """A start from its name and options.

    >>> parse_start("bernoulli:phi=-8,layers=all")
    Bernoulli(phi=-8.0, p=0.5, layers='all')
    """
    name, _, rest = text.strip().partition(":")
    if name not in STARTS:
        raise InputError(
            f"start {name!r} is not known; use one of {shown(STARTS)}, with options as in bernoulli:phi=-10,p=0.5."
        )
    kind = STARTS[name]
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        options[key] = _option(name, kind, key, value)
    return kind(**options)


def draw(
    start: Start,
    *,
    free_width: int,
    sensitive_width: int,
    hidden: str | Sequence[int],
    outputs: int,
    activation: Activation = "relu",
    seed: int,
    attempt: int = 0,
    member: int = 0,
) -> Network:
    """The network a start gives; the same seed, attempt and member give the same bytes."""
    inputs = free_width + sensitive_width
    if isinstance(start, FromModel):
        return _fitting(start.network, inputs, outputs)
    _require(seed >= 0, f"seed={seed} is below 0; use a whole number from 0 on")
    rng = np.random.default_rng([seed, attempt, member] if member else [seed, attempt])
    # V is drawn last, so that all else is what a network without the sensitive columns would start from: `Exact` then
    # learns, bit for bit, what training without those columns learns.
    layers = default_layers((free_width, *hidden_widths(hidden), outputs), rng)
    bound = 1 / math.sqrt(max(inputs, 1))
    V = rng.uniform(-bound, bound, (len(layers[0].bias), sensitive_width))
    read = np.concatenate([layers[0].weight, np.zeros_like(V) if isinstance(start, Exact) else V], axis=1)
    layers = (Layer(read, layers[0].bias), *layers[1:])
    match start:
        case Bernoulli() | NearZero():
            tossed = layers[:1] if start.layers == "first" else layers
            layers = (*(_toss(layer, start, rng) for layer in tossed), *layers[len(tossed) :])
        case SharedScalar(scale=scale):
            number = rng.uniform(-scale, scale) if start.draw == "uniform" else scale
            layers = (Layer(np.full_like(layers[0].weight, number), layers[0].bias), *layers[1:])
        case Constant(value=value):
            layers = tuple(Layer(np.zeros_like(layer.weight), np.zeros_like(layer.bias)) for layer in layers)
            layers = (*layers[:-1], Layer(layers[-1].weight, np.full(outputs, value)))
    return Network(layers, activation)


def draw_members(start: Start, members: int, **shape: Any) -> tuple[Network, ...]:
    """A start for each member; the first is what a single network starts from."""
    return tuple(draw(start, **shape, member=member) for member in range(members))


def fair_start(
    start: Start,
    *,
    encoding: Encoding,
    hidden: str | Sequence[int],
    outputs: int,
    activation: Activation = "relu",
    seed: int,
    tries: int = 20,
    members: int = 1,
    embedding: Embedding | None = None,
) -> FairStart:
    """Draw until a proof of fairness succeeds; raises NoFairStart when `tries` draws had none.

    What is proven fair is the whole network: the mean of all members, behind the embedding.
    """
    _require(tries >= 1, f"tries={tries} is below 1; use a whole number from 1 on")
    # What cannot change from draw to draw is tried once.
    again = not isinstance(start, (Constant, FromModel)) and _listable(encoding)
    attempts: list[Attempt] = []
    for number in range(tries if again else 1):
        drawn = draw_members(
            start,
            members,
            free_width=encoding.free_width if embedding is None else embedding.width,
            sensitive_width=encoding.sensitive_width,
            hidden=hidden,
            outputs=outputs,
            activation=activation,
            seed=seed,
            attempt=number,
        )
        network = mean_of(drawn) if embedding is None else embedding.folded(mean_of(drawn))
        verdict = _judged(network, encoding, seed)
        attempts.append(Attempt(number, verdict.answer, verdict.proof, verdict.reason, verdict.seconds))
        if verdict:
            return FairStart(network, verdict, tuple(attempts), drawn)
    raise NoFairStart(
        f"no fair start: {start!r} could not be proven fair in {len(attempts)} "
        f"{'try' if len(attempts) == 1 else 'tries'}; the last time because {attempts[-1].reason}. "
        "Use init='exact', which is fair by construction."
    )


def default_layers(widths: Sequence[int], rng: np.random.Generator) -> tuple[Layer, ...]:
    """Weights uniform in ±1/√inputs of their layer, biases in [0, 1/√inputs], the last layer's biases in ± that.

    Hidden biases are not negative so that narrow ReLU layers start alive: with biases in ± one census run in five of
    the paper's network, whose last hidden layer has 4 neurons, never left the majority class.
    """
    layers: list[Layer] = []
    for inputs, outputs in itertools.pairwise(widths):
        bound = 1 / math.sqrt(max(inputs, 1))
        lowest = 0.0 if len(layers) < len(widths) - 2 else -bound
        layers.append(Layer(rng.uniform(-bound, bound, (outputs, inputs)), rng.uniform(lowest, bound, outputs)))
    return tuple(layers)


def _judged(network: Network, encoding: Encoding, seed: int) -> Verdict:
    """The verifier's word on a start: the quick proofs, and where they leave it open, all of it for a few seconds."""
    verdict = confirm_encoded(network, encoding)
    if verdict or not _listable(encoding):
        return verdict
    return decide(Model(network, encoding), timeout=SECONDS_FOR_A_START, seed=seed)


def _listable(encoding: Encoding) -> bool:
    return Versions(encoding.domain).size <= ENUMERATION_LIMIT


def _toss(layer: Layer, coin: Bernoulli | NearZero, rng: np.random.Generator) -> Layer:
    """A layer of the same shape, every parameter ±scale."""
    weight, bias = (np.where(rng.random(a.shape) < coin.p, 1, -1) for a in (layer.weight, layer.bias))
    return Layer(coin.scale * weight, coin.scale * bias)


def _fitting(network: Network, inputs: int, outputs: int) -> Network:
    if (network.widths[0], network.outputs) != (inputs, outputs):
        raise InputError(
            f"the model to start from has {network.widths[0]} inputs and {network.outputs} outputs, but this domain "
            f"needs {inputs} inputs and {outputs} outputs; give a model trained for the same features and classes."
        )
    return network


def _option(name: str, kind: type, key: str, value: str) -> float | str:
    allowed = [f.name for f in dataclasses.fields(kind)]
    if key not in allowed:
        known = f"use one of {shown(allowed)}" if allowed else "it takes none"
        raise InputError(f"start '{name}' has no option {key!r}; {known}.")
    if key in ("layers", "draw"):
        return value
    try:
        return float(value)
    except ValueError:
        raise InputError(f"start '{name}': {key} must be a number, found {value!r}.") from None


def _usable(scale: float) -> bool:
    return 0 < scale < LARGEST and float(np.float32(scale)) > 0


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise InputError(f"{problem}.")
