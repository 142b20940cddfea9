"""Whether twins get the same score, up to a tolerance: never contradicted by everybody counted out."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair import verify
from bornfair.cli import run
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import CategoricalFeature, IntegerFeature, Label
from bornfair.proof.bundle import FairModel
from bornfair.verification.score import largest_gain

PEOPLE = Domain(
    features=(
        IntegerFeature(name="n", low=-3, high=3),
        IntegerFeature(name="m", low=0, high=4),
        CategoricalFeature(name="sex", categories=("F", "M", "X")),
    ),
    sensitive=("sex",),
    label=Label(name="y", classes=("no", "yes")),
)


def drawn(seed: int, activation: str = "relu", sensitive: float = 1.0, outputs: int = 1) -> FairModel:
    rng = np.random.default_rng(seed)
    encoding = Encoding(PEOPLE, {name: Scale(centre=0.0, exponent=1) for name in ("n", "m")})
    first = rng.normal(size=(4, encoding.width)).round(2)
    first[:, encoding.free_width :] *= sensitive
    layers = (Layer(first, rng.normal(size=4)), Layer(rng.normal(size=(outputs, 4)), rng.normal(size=outputs)))
    return FairModel(Network(layers, activation), encoding)  # type: ignore[arg-type]


def largest(model: FairModel, output: str) -> float:
    """Everybody counted out, in float32."""
    grid = [{"n": n, "m": m, "sex": "F"} for n in range(-3, 4) for m in range(5)]
    scores = model.logits(model.scores_of_versions(pd.DataFrame(grid))).astype(np.float64)
    if output == "probability":
        scores = 1 / (1 + np.exp(-scores))
    return float((scores.max(axis=0) - scores.min(axis=0)).max())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("output", ["score", "probability"])
def test_it_is_true_of_everybody(seed: int, output: str) -> None:
    model = drawn(seed)
    if seed % 2:
        model = model.at(0.2)  # where it decides is no matter
    most = largest(model, output)
    for factor in (0.5, 0.99, 1.01, 2.0):
        found = verify(model, output=output, tolerance=factor * most, timeout=5)  # type: ignore[arg-type]
        near = abs(factor - 1) < 0.05 and output == "probability"  # found and proven need not meet there
        assert found.answer == ("falsified" if factor < 1 else "verified") or (near and found.answer == "undecided")
        if found.twins:
            assert {name: found.twins[0][name] for name in "nm"} == {name: found.twins[1][name] for name in "nm"}
            assert found.decisions is not None
            assert abs(found.decisions[0] - found.decisions[1]) > factor * most - 1e-5


def test_scores_of_several_classes() -> None:
    model = drawn(3, outputs=3)
    label = Label(name="y", classes=("a", "b", "c"))
    domain = PEOPLE.replaced(label=label.model_dump())
    model = FairModel(model.network, Encoding(domain, model.encoding.scales))
    most = largest(model, "score")
    assert verify(model, output="score", tolerance=1.05 * most, timeout=10).answer == "verified"
    assert verify(model, output="score", tolerance=0.95 * most, timeout=10).answer == "falsified"
    with pytest.raises(InputError, match="for two classes, found 'a', 'b', 'c'; ask about the score"):
        verify(model, output="probability", tolerance=0.1)


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_networks_without_a_program_are_proven_by_how_steep_they_are(activation: str) -> None:
    model = drawn(1, activation, sensitive=1e-4)
    most = largest(model, "score")
    assert verify(model, output="score", tolerance=100 * most + 0.1, timeout=2).answer == "verified"
    assert verify(model, output="score", tolerance=most / 2, timeout=2).answer == "undecided"


def test_a_network_that_ignores_sex_has_no_difference_at_all() -> None:
    found = verify(drawn(2, sensitive=0.0), output="score", tolerance=0.0)
    assert found.answer == "verified" and found.covers == "score" and found.arithmetic == ("real", "float32")


def test_questions_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(InputError, match="a decision has no tolerance"):
        verify(drawn(0), tolerance=0.1)
    with pytest.raises(InputError, match="output='rank' is not known"):
        verify(drawn(0), output="rank")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="are for decisions; leave them out with output='score'"):
        verify(drawn(0), output="score", engine="smt")


def test_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = drawn(0).save(tmp_path / "bundle")
    asked = ["verify", str(bundle), "--output", "score", "--timeout", "5"]
    assert run([*asked, "--tolerance", "100"]) == 0
    assert "VERIFIED: no twins' score differs by more than 100" in capsys.readouterr().out
    assert run([*asked, "--tolerance", "0.001"]) == 1
    said = capsys.readouterr().out
    assert "FALSIFIED: these twins' score differs by more than 0.001" in said and "▶ score" in said
    assert run([*asked, "--tolerance", "0.001", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["output"], answer["tolerance"], answer["verdict"]) == ("score", 0.001, "falsified")


# --- the gain ---


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_no_score_changes_by_more_than_the_gain(seed):
    """Of the network from the first layer on, moved by anything, also where it bends."""
    rng = np.random.default_rng(seed)
    outputs = int(rng.integers(1, 4))
    activation = ("relu", "tanh", "sigmoid", "gelu")[rng.integers(4)]
    widths = [3, *rng.integers(1, 5, rng.integers(0, 3)).tolist(), outputs]
    layers = tuple(Layer(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in itertools.pairwise(widths))
    network, gain = Network(layers, activation), float(largest_gain(Network(layers, activation)))
    sums = rng.normal(size=(200, widths[1]))
    moved = sums + (moves := rng.uniform(-1, 1, sums.shape) * 10.0 ** rng.uniform(-3, 1, (200, 1)))
    change = network.estimated_from_first(moved) - network.estimated_from_first(sums)
    leads = change if outputs == 1 else change[:, :, None] - change[:, None, :]
    assert (np.abs(leads).reshape(200, -1).max(axis=1) <= gain * np.abs(moves).max(axis=1) * (1 + 1e-9) + 1e-12).all()


def test_the_gain_is_reached():
    """Σ|w| along all paths, where all of them are open."""
    one = Network((Layer(np.ones((2, 1)), np.zeros(2)), Layer(np.array([[2.0, 3.0]]), np.zeros(1))))
    assert largest_gain(one) == 5
    two = Network((Layer(np.ones((2, 1)), np.zeros(2)), Layer(np.array([[2.0, 3.0], [1, -1], [2, 3]]), np.zeros(3))))
    assert largest_gain(two) == 1 + 4  # of the first class over the second: (2 − 1)·d + (3 + 1)·d
    assert largest_gain(Network(one.layers[:1])) == 2  # no hidden layer, two outputs: one up, the other down
    steep = Network((*one.layers[:1], Layer(np.array([[4.0, -4.0]]), np.zeros(1))), "sigmoid")
    assert largest_gain(steep) == 2
