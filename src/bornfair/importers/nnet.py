"""Networks in the .nnet text format: ReLU layers over numbers, as published for aircraft, and by Fairify and FairQuant.

After comment lines (`//`): sizes, a flag, minimum and maximum of each input, means and ranges of inputs and output,
then for each layer its weight rows and its biases. One output is a logit; the decision is logit > 0. By the format's
own convention inputs are normalised by means and ranges; the networks of Fairify and FairQuant carry them and take raw
numbers. No file says which it means, so that is asked.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.core.files import read_regular
from bornfair.importers.dense_stack import StackSource, Step
from bornfair.importers.source import imported
from bornfair.models.columns import Who, nothing_sensitive, sensitive_name, with_classes
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.models.reading import Answer, Reading
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import LARGEST_WHOLE, Feature, IntegerFeature, RealFeature

MOST_NUMBERS = 50_000_000  # of a file that is still read: some 500 MB of text


@dataclass(frozen=True, eq=False)
class NnetFile:
    """What a file holds, in float64."""

    path: Path
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]  # weights [outputs, inputs] and biases
    low: np.ndarray
    high: np.ndarray
    means: np.ndarray  # of the inputs, then one of the outputs
    ranges: np.ndarray

    @property
    def network(self) -> Network:
        return Network(tuple(Layer(weight, bias) for weight, bias in self.layers))

    @property
    def classes(self) -> int:
        return max(len(self.layers[-1][1]), 2)

    @property
    def domain(self) -> Domain:
        """Every whole number of the header's ranges (every number, where an end is not whole, or so large that floating
        point skips whole numbers); x0, x1, …
        """
        features: list[Feature] = []
        for i, (low, high) in enumerate(zip(self.low.tolist(), self.high.tolist(), strict=True)):
            if low == round(low) and high == round(high) and max(abs(low), abs(high)) <= LARGEST_WHOLE:
                features.append(IntegerFeature(name=f"x{i}", low=int(low), high=int(high)))
            else:
                features.append(RealFeature(name=f"x{i}", low=low, high=high))
        return Domain(features=tuple(features))

    def domain_as_in(self, table: pd.DataFrame, target: str | None) -> Domain:
        """The header's domain; inputs that have no names of their own take those of a table's columns, in their order,
        and the decision that of its target.
        """
        own, columns = self.domain, [str(name) for name in table.columns if name != target]
        if not set(own.names) <= set(columns):
            if len(columns) != len(own.names):
                raise InputError(
                    f"the network takes {len(own.names)} numbers, but the table has {len(columns)} columns besides the "
                    "target; leave the inputs, in order, and drop the others, or give a domain that names them."
                )
            named = zip(own.features, columns, strict=True)
            own = own.replaced(features=[feature.model_dump() | {"name": name} for feature, name in named])
        return with_classes(own, None, self.classes, target, f"'{self.path}'")

    def of_raw_numbers(self, domain: Domain, sensitive: Sequence[str | int]) -> Model:
        """The network as it stands, over raw numbers; its input columns in our order: free ones, then sensitive."""
        if len(domain.features) != len(self.low):
            raise InputError(
                f"'{self.path}' takes {len(self.low)} inputs, but the domain has {len(domain.features)} features; "
                "list one feature for each input, in order."
            )
        if sensitive:
            domain = domain.with_sensitive([sensitive_name(item, domain) for item in sensitive])
        first, *later = self.network.layers
        order = [domain.names.index(name) for name in (*domain.free_names, *domain.sensitive)]
        network = Network((Layer(first.weight[:, order], first.bias), *later))
        people = with_classes(domain, None, self.classes, None, f"'{self.path}'")
        return Model(network, Encoding.of_raw_numbers(people))

    def is_normalised(self, answer: Answer | None) -> bool:
        """Whether means and ranges are to be applied; refuses to guess."""
        if not self.means.any() and (self.ranges == 1).all():
            return False
        if answer is None:
            raise InputError(
                f"'{self.path}' holds means and ranges, which some such files apply to their inputs and others do not; "
                "say normalise='yes' or 'no' (--normalise); those of Fairify and FairQuant take raw numbers: no."
            )
        if answer == "yes" and not self.ranges.all():
            raise InputError(f"'{self.path}' cannot be normalised: one of its ranges is 0.")
        return answer == "yes"


def read_nnet(path: str | Path) -> NnetFile:
    """A file's numbers, if it holds what its sizes say."""
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
    means, ranges = lines.numbers(inputs + 1), lines.numbers(inputs + 1)
    made = []
    for before, after in itertools.pairwise(widths):
        weight = np.array([lines.numbers(before) for _ in range(after)])
        made.append((weight, np.array([lines.numbers(1)[0] for _ in range(after)])))
    if left := [line for line in lines.rest if line.strip()]:
        raise lines.wrong(f"{len(left)} more lines than the layer sizes say")
    return NnetFile(Path(path), tuple(made), low, high, means, ranges)


def load_nnet(
    path: str | Path,
    *,
    sensitive: Sequence[str | int] = (),
    domain: Domain | None = None,
    normalise: Answer | None = None,
) -> Model:
    """A network that takes raw numbers, with a domain: the given one (features in input order), or the header's.

    Features are named x0, x1, … unless a domain names them. `sensitive` takes names or zero-based positions. A file
    that is to be normalised is read by `load_model`.
    """
    file = read_nnet(path)
    if file.is_normalised(normalise):
        raise InputError(f"'{path}' is to be normalised; read it by load_model(…, normalise='yes').")
    return file.of_raw_numbers(file.domain if domain is None else domain, sensitive)


def nnet_model(path: str | Path, who: Who, asked: Reading) -> Model:
    """The network as it stands, if it takes raw numbers and decides at 0; else folded as foreign networks are."""
    file, domain = read_nnet(path), who.domain
    if domain is None:
        domain = file.domain if who.frame is None else file.domain_as_in(who.frame, who.target)
    if not who.sensitive and not domain.sensitive:
        raise nothing_sensitive(domain)
    normalised = file.is_normalised(asked.normalise)
    if normalised or asked.moves_the_decision:
        how = dataclasses.replace(asked, decision=asked.decision or "logit", normalise=None)
        model = imported(nnet_source(file, normalised), dataclasses.replace(who, domain=domain), how)
    else:
        people = who.about(domain)
        model = file.of_raw_numbers(people if who.twins is None else people.with_twins(who.twins), ())
    return dataclasses.replace(model, note=asked.note)


def nnet_source(file: NnetFile, normalised: bool) -> StackSource:
    """A file as layers to be folded: (x − mean) / range, the layers, and the output times its range plus its mean."""
    steps = [Step("scale", "the means and ranges", (1 / file.ranges[:-1], -file.means[:-1] / file.ranges[:-1]))]
    for i, (weight, bias) in enumerate(file.layers):
        steps += [Step("relu", f"the ReLU before layer {i}")] if i else []
        steps.append(Step("dense", f"layer {i}", (weight.T, bias)))
    steps.append(Step("scale", "the output's mean and range", (file.ranges[-1:], file.means[-1:])))
    return StackSource(f"'{file.path}'", steps if normalised else steps[1:-1])


class _Lines:
    """The lines of a file, with errors that say where."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        try:
            text = read_regular(path, limits.DOCUMENT_BYTES).decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read '{path}' as a .nnet file ({error}).") from error
        self.rest: Iterator[str] = iter(text.splitlines())

    def numbers(self, count: int) -> np.ndarray:
        line = ""
        for line in self.rest:
            self.number += 1
            if not line.startswith("//"):
                break
        else:
            raise self.wrong("the file ends too early; is it truncated?")
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

    def wrong(self, what: str) -> InputError:
        return InputError(f"'{self.path}' is not a .nnet file we can read: line {self.number}: {what}.")
