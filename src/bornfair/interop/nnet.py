"""Networks in the .nnet text format, as published by Fairify and FairQuant: ReLU layers over raw whole numbers.

After comment lines (`//`): sizes, a flag, minimum and maximum of each input, means and ranges that these networks do
not use, then for each layer its weight rows and its biases. One output is a logit; the decision is logit > 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bornfair.domain import Domain, IntegerFeature, Label, RealFeature
from bornfair.encoding import Encoding
from bornfair.errors import InputError, shown
from bornfair.model import FairModel
from bornfair.network import Layer, Network

MOST_NUMBERS = 50_000_000  # of a file that is still read: some 500 MB of text


def read_nnet(path: str | Path) -> tuple[Network, np.ndarray, np.ndarray]:
    """The network and the smallest and largest value of each input, as the file says."""
    lines = _Lines(Path(path))
    layers, inputs, outputs = lines.counts(4)[:3]
    widths = lines.counts(layers + 1)
    if (widths[0], widths[-1]) != (inputs, outputs):
        raise lines.wrong(f"the header says {inputs} inputs and {outputs} outputs, the layer sizes {widths}")
    if sum(a * b + b for a, b in itertools.pairwise(widths)) > MOST_NUMBERS:
        raise lines.wrong(f"the layer sizes {widths} make more than {MOST_NUMBERS:,} weights")
    lines.numbers(1)
    low, high = lines.numbers(inputs), lines.numbers(inputs)
    if (low > high).any():
        raise lines.wrong(f"input {int(np.argmax(low > high))} has its minimum above its maximum")
    lines.numbers(inputs + 1)
    lines.numbers(inputs + 1)
    made = []
    for before, after in itertools.pairwise(widths):
        weight = np.array([lines.numbers(before) for _ in range(after)])
        made.append(Layer(weight, np.array([lines.numbers(1)[0] for _ in range(after)])))
    lines.end()
    return Network(tuple(made)), low, high


def load_nnet(path: str | Path, *, sensitive: Sequence[str | int] = (), domain: Domain | None = None) -> FairModel:
    """The network with a domain: the given one (features in input order), or every whole number of the header's ranges.

    Features are named x0, x1, … unless a domain names them. `sensitive` takes names or zero-based positions.
    """
    network, low, high = read_nnet(path)
    if domain is None:
        whole = (low == np.round(low)) & (high == np.round(high))
        features = tuple(
            IntegerFeature(name=f"x{i}", low=int(a), high=int(b)) if w else RealFeature(name=f"x{i}", low=a, high=b)
            for i, (a, b, w) in enumerate(zip(low.tolist(), high.tolist(), whole, strict=True))
        )
        domain = Domain(features=features)
    elif len(domain.features) != len(low):
        raise InputError(
            f"'{path}' takes {len(low)} inputs, but the domain has {len(domain.features)} features; "
            "list one feature for each input, in order."
        )
    if sensitive:
        domain = domain.with_sensitive([sensitive_name(item, domain) for item in sensitive])
    classes = (0, 1) if network.outputs == 1 else tuple(range(network.outputs))
    if domain.label is None:
        domain = domain.replaced(label=Label(name="decision", classes=classes))
    return FairModel(_free_inputs_first(network, domain), Encoding.of_raw_numbers(domain))


def sensitive_name(item: str | int, domain: Domain) -> str:
    """A feature's name from its name or its zero-based position (a number, or a text of digits)."""
    if isinstance(item, str) and item in domain.names:
        return item
    if isinstance(item, int) or item.isdigit():
        if 0 <= int(item) < len(domain.names):
            return domain.names[int(item)]
        raise InputError(f"sensitive feature {item} is out of range; positions go from 0 to {len(domain.names) - 1}.")
    raise InputError(f"sensitive feature '{item}' is not known; the features are {shown(domain.names, most=30)}.")


def _free_inputs_first(network: Network, domain: Domain) -> Network:
    """The same network with its input columns in our order: free ones, then sensitive ones."""
    order = [domain.names.index(name) for name in (*domain.free_names, *domain.sensitive)]
    first = network.layers[0]
    return Network((Layer(first.weight[:, order], first.bias), *network.layers[1:]), network.activation)


class _Lines:
    """The lines of a file, with errors that say where."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        try:
            text = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read '{path}' as a .nnet file ({error}).") from error
        self.rest: Iterator[str] = iter(text.splitlines())

    def numbers(self, count: int) -> np.ndarray:
        line = self._next()
        fields = line.rstrip().rstrip(",").split(",")
        try:
            found = np.array([float(field) for field in fields])
        except ValueError:
            raise self.wrong(f"expected {count} numbers, found {line[:60]!r}") from None
        if len(found) != count or not (np.abs(found) < np.finfo(np.float32).max).all():
            raise self.wrong(f"expected {count} finite numbers, found {len(found)}: {line[:60]!r}")
        return found

    def counts(self, count: int) -> list[int]:
        found = self.numbers(count)
        if (found != np.round(found)).any() or (found < 1).any() or (found > MOST_NUMBERS).any():
            raise self.wrong(f"expected whole numbers above 0, found {found.tolist()}")
        return [int(value) for value in found]

    def end(self) -> None:
        left = [line for line in self.rest if line.strip()]
        if left:
            raise self.wrong(f"{len(left)} more lines than the layer sizes say")

    def wrong(self, what: str) -> InputError:
        return InputError(f"'{self.path}' is not a .nnet file we can read: line {self.number}: {what}.")

    def _next(self) -> str:
        for line in self.rest:
            self.number += 1
            if not line.startswith("//"):
                return line
        raise self.wrong("the file ends too early; is it truncated?")
