"""Whether twins get the same score, or probability, up to a tolerance: for premiums, limits and rankings.

Structure proves a difference of 0. Otherwise a mixed-integer program (`milp`) finds twins and proves how far apart any
can be; where there is no program, a bound on the steepness of the network does.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Literal

import numpy as np

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, shown
from bornfair.models.network.bounds.exact import whole_numbers
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network
from bornfair.models.network.structural import confirm_encoded
from bornfair.models.rounding import float_above
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.features import Value
from bornfair.verification.milp.network import largest_change
from bornfair.verification.milp.probability import change_of_probability, largest_probability_change

ENGINE = "change"


def decide_score(
    model: Model,
    *,
    output: Literal["score", "probability"],
    tolerance: float,
    timeout: Timeout = 60.0,
    seed: int = 0,
    say: Say | None = None,
) -> Verdict:
    """Whether no two twins' scores, or probabilities, differ by more than the tolerance, in real arithmetic.

    Falsified: two people whose exact scores do. `decisions` are then their scores.
    """
    clock = Clock.of(timeout, say)
    verdict = _by_structure(model, output, tolerance) or _by_change(model, output, tolerance, clock, seed)
    if model.note:
        verdict = dataclasses.replace(verdict, reason=f"{verdict.reason}; {model.note}")
    as_read = bool(verdict) and not model.covers_execution
    return dataclasses.replace(verdict, seconds=clock.spent, as_read=as_read)


def _by_structure(model: Model, output: str, tolerance: float) -> Verdict | None:
    found = confirm_encoded(model.network, model.encoding)
    if found.covers == "score":
        arithmetic = found.arithmetic if model.covers_execution else ("real",)
        return dataclasses.replace(found, arithmetic=arithmetic, reason=f"twins have the same {output}: {found.reason}")
    most = _steepest(model)
    if output == "probability" and most < math.inf:
        most = change_of_probability(most)
    if most <= tolerance:
        reason = f"no weights can carry more than a difference of {most:.6g}, proven"
        return Verdict("verified", "bounds", ENGINE, ("real",), reason)
    return None


def _steepest(model: Model) -> float:
    """The most that scores can change with the sensitive value, whatever else: along all paths, at the steepest."""
    network, sensitive = model.network, model.encoding.sensitive
    if network.outputs > 1 or model.domain.twins or sensitive.spans or network.broken_layer is not None:
        return math.inf
    codes = sensitive.listed_codes
    moves = largest_move(network.sensitive_weights(model.encoding.free_width), codes, codes.mean(axis=0))
    return float_above(2 * Fraction(moves) * largest_gain(network))


def largest_gain(network: Network) -> Fraction:
    """By how much a score, or the lead of one class over another, changes at most for each unit by which the first
    layer's sums do: Σ|w| along all paths, times the activation's largest slope at each neuron. Exact.
    """
    pairs = list(itertools.combinations(range(network.outputs), 2))
    rows = np.ones((1, 1), dtype=object)
    if pairs:
        rows = np.array([[(k == a) - (k == b) for k in range(network.outputs)] for a, b in pairs], dtype=object)
    scale = Fraction(1)
    for depth, layer in enumerate(reversed(network.layers[1:])):
        whole, unit = whole_numbers(layer.weight)
        rows = abs(rows @ whole) if depth == 0 else rows @ abs(whole)
        scale *= Fraction(network.function.steepest) / unit
    return Fraction(int(abs(rows).sum(axis=1).max())) * scale


def largest_move(weights: np.ndarray, codes: np.ndarray, mean: np.ndarray) -> Fraction:
    """max |V(c − c̄)|, exact."""
    exact, unit = whole_numbers(np.concatenate([np.unique(codes, axis=0), mean[None]]))
    whole, more = whole_numbers(weights)
    moves = abs((exact[:-1] - exact[-1]) @ whole.T)
    return Fraction(int(moves.max(initial=0)), unit * more)


def _by_change(model: Model, output: str, tolerance: float, clock: Clock, seed: int) -> Verdict:
    if output == "probability" and len(model.classes) > 2:
        raise InputError(
            f"how far apart probabilities can be is known for two classes, found {shown(model.classes)}; ask about the "
            "score: output='score' (--output score)."
        )
    ask = largest_change if output == "score" else largest_probability_change
    try:
        found = ask(model, timeout=clock, seed=seed, enough=tolerance)
    except InputError as error:  # no program for such a network
        return undecided(ENGINE, str(error).rstrip("."))
    between = f"the largest difference is between {found.low:.6g} and {found.high:.6g}"
    if found.high <= tolerance:
        return Verdict("verified", "bounds", ENGINE, ("real",), f"no twins' {output} differs by more; {between}")
    if found.low > tolerance and found.twins:
        scores = _scores(model, found.twins, output)
        reason = f"these twins' {output} differs by {found.low:.6g}; {between}"
        return Verdict("falsified", "none", ENGINE, ("real",), reason, twins=found.twins, decisions=scores)
    return undecided(ENGINE, f"{between}; {found.reason}")


def _scores(model: Model, twins: list[dict[str, Value]], output: str) -> list[float]:
    import pandas as pd

    people = pd.DataFrame(twins)
    if output == "probability":
        shares = model.predict_proba(people)[:, -1]
        return [float(share) for share in shares]
    scores = model.logits(model.scores(people))
    apart = np.argmax(np.abs(scores[0] - scores[-1]))
    return [float(score) for score in scores[:, apart]]
