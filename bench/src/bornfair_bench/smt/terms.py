"""The network of each twin, pruned over a part of the domain, as exact terms of the solver z3 (after Fairify).

A ReLU whose input is never above 0, for nobody of the part and no sensitive value, gives 0 and is removed. A ReLU whose
input is never below 0 is the identity.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import z3

from bornfair.core.clock import Clock
from bornfair.models.network.model import Model
from bornfair.people.space.subpopulation import Part, inputs_of
from bornfair.verification.twin_question import NeuronBounds, SumBounds

Views = slice | list[int]
EVERY_VIEW = slice(None)
Sources = dict[int, list[int]]  # whose outputs of the layer before a sum is made of

BATCH = 2**18  # numbers per array of bounds


@dataclass(frozen=True, eq=False)
class Pruning:
    """Bounds [views, neurons] of what the neurons of each layer receive over a part, and what follows from them."""

    bounds: SumBounds

    def never(self, layer: int, views: Views = EVERY_VIEW) -> np.ndarray:
        """Which neurons give 0 in all of the views."""
        return np.all(self.bounds.high[layer][views] <= 0, axis=0)

    def always(self, layer: int, views: Views = EVERY_VIEW) -> np.ndarray:
        """Which neurons pass on what they receive in all of the views."""
        return np.all(self.bounds.low[layer][views] >= 0, axis=0)

    @property
    def share(self) -> float:
        """Share of hidden neurons that need no case split in any view."""
        settled = [self.never(i) | self.always(i) for i in range(len(self.bounds.low) - 1)]
        return float(np.concatenate(settled).mean()) if settled else 1.0

    @property
    def one_class(self) -> bool:
        """Whether one class is decided for everybody of the part in every view."""
        low, high = self.bounds.low[-1].min(axis=0), self.bounds.high[-1].max(axis=0)
        if len(low) == 1:
            return bool(low[0] > 0 or high[0] <= 0)
        winner = int(np.argmax(low))
        return bool((low[winner] > np.delete(high, winner)).all())


def prunings(
    bounds: NeuronBounds, parts: Iterable[Part], with_twins: Callable[[Part], Part]
) -> Iterator[tuple[Part, Pruning]]:
    """Each part with the bounds that hold for its people and their twins."""
    rest, together = iter(parts), max(1, BATCH // (len(bounds.base[0]) * max(bounds.network.widths)))
    while some := list(itertools.islice(rest, together)):
        found = bounds.of([with_twins(part) for part in some])
        yield from zip(some, map(Pruning, found), strict=True)


Term = Any  # a z3 expression: the package has no types


def raw_layers(model: Model, views: Sequence[int]) -> tuple[list[list[list[Fraction]]], list[list[Fraction]]]:
    """Weights and biases, exactly, of the network that reads raw values: W(v − centre)/2^e + V c(s) + b."""
    layers = model.network.layers
    weights = [[[Fraction(w) for w in row] for row in layer.weight.tolist()] for layer in layers]
    biases = [[Fraction(b) for b in layer.bias.tolist()] for layer in layers]
    encoding = model.encoding
    inputs = [one for several in inputs_of(encoding).values() for one in several]
    codes = [[Fraction(c) for c in code] for code in encoding.sensitive.listed_codes[list(views)].tolist()]
    for i, row in enumerate(weights[0]):
        for place, one in enumerate(inputs):
            row[place] /= Fraction(2) ** one.exponent
            biases[0][i] -= row[place] * Fraction(one.centre)
        reads = [sum((v * c for v, c in zip(row[len(inputs) :], code, strict=True)), Fraction(0)) for code in codes]
        weights[0][i] = row[: len(inputs)] + reads
    return weights, biases


@dataclass
class Version:
    """The pruned network as read for one twin."""

    sums: list[list[Term]] = field(default_factory=list)
    """For each layer what its neurons receive; for the last one these are the outputs."""
    owners: list[list[int | None]] = field(default_factory=list)
    """For each hidden neuron the twin whose variable holds its output; None if it is never active."""
    owned: list[tuple[Term, Term, bool]] = field(default_factory=list)
    """Output, what is received, and whether that is passed on as it is, of the neurons this twin owns."""


class NetworkTerms:
    """Exact weights [neuron][input] and biases of all layers, and terms made of them.

    Products of a weight and a variable are made once for all parts; `inputs` are the variables of each twin.
    """

    def __init__(
        self, weights: list[list[list[Fraction]]], biases: list[list[Fraction]], inputs: list[list[Term]]
    ) -> None:
        self.weights, self.biases, self.inputs = weights, biases, inputs
        self.products: dict[tuple[int, int, int], list[Any]] = {}
        self.kept: list[list[Term]] = []  # z3 frees a term when Python forgets it
        self.outputs: dict[tuple[int, int, int], Term] = {}
        self.constants: dict[Fraction, Term] = {}
        self.clock = Clock()  # how long it may take to write terms
        self.bias_terms = [[self.number(bias) for bias in row] for row in biases]

    def version(
        self, twin: int, free: list[int], ones: list[int], pruning: Pruning, views: Views, other: Version | None
    ) -> Version:
        """One twin's network, with `free` inputs to be found, `ones` known to be 1 and all others 0.

        A neuron that receives the same as the other twin's is the other twin's: then z3 sees one variable, not two.
        """
        version = Version()
        sources: Sources = {twin: free}
        for layer, biases in enumerate(self.biases):
            sums = [self._sum(layer, i, sources, ones) for i in range(len(biases))]
            version.sums.append(sums)
            if layer == len(self.biases) - 1:
                break
            never, always = pruning.never(layer, views), pruning.always(layer, views)
            owners: list[int | None] = []
            for i, received in enumerate(sums):
                if other is not None and received.eq(other.sums[layer][i]):
                    owners.append(other.owners[layer][i])
                    continue
                owners.append(None if never[i] else twin)
                if not never[i]:
                    version.owned.append((self._output(layer, i, twin), received, bool(always[i])))
            version.owners.append(owners)
            sources, ones = {whose: [i for i, owner in enumerate(owners) if owner == whose] for whose in (0, 1)}, []
            if other is not None and owners == other.owners[layer]:
                # The layer's outputs are the other twin's, and so is all that follows.
                return Version([*version.sums, *other.sums[layer + 1 :]], [*version.owners, *other.owners[layer + 1 :]])
        return version

    def number(self, value: Fraction | float) -> Term:
        exact = Fraction(value)
        if exact not in self.constants:
            self.constants[exact] = z3.RealVal(f"{exact.numerator}/{exact.denominator}")
        return self.constants[exact]

    def definitions(self, version: Version) -> list[Term]:
        """What the outputs of a twin's own neurons are: max(received, 0)."""
        return [
            output == (received if always else z3.If(received > 0, received, 0))
            for output, received, always in version.owned
        ]

    def _sum(self, layer: int, i: int, sources: Sources, ones: list[int]) -> Term:
        weights = self.weights[layer][i]
        terms: list[Any] = []
        for owner, places in sources.items():
            row = self._products(layer, i, owner)
            terms += [row[j] for j in places if row[j] is not None]
        terms += [self.number(weights[j]).as_ast() for j in ones if weights[j]]
        bias = self.bias_terms[layer][i]
        if not terms:
            return bias
        terms.append(bias.as_ast())
        context = z3.main_ctx()
        # Not z3.Sum, which inspects every term anew: making sums is most of the time spent on a part.
        added = z3.Z3_mk_add(context.ref(), len(terms), (z3.Ast * len(terms))(*terms))
        return z3.ArithRef(added, context)

    def _products(self, layer: int, i: int, owner: int) -> list[Any]:
        """Weight times variable for each input of a neuron, None where the weight is 0."""
        key = (layer, i, owner)
        if key not in self.products:
            self.clock.check()
            row = self.weights[layer][i]
            made = [
                self.number(w) * (self._output(layer - 1, j, owner) if layer else self.inputs[owner][j]) if w else None
                for j, w in enumerate(row)
            ]
            self.kept.append(made)
            self.products[key] = [None if term is None else term.as_ast() for term in made]
        return self.products[key]

    def _output(self, layer: int, i: int, owner: int) -> Term:
        key = (layer, i, owner)
        if key not in self.outputs:
            self.outputs[key] = z3.Real(f"neuron {layer}.{i} of twin {owner}")
        return self.outputs[key]
