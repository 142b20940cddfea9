"""PyTorch's stacks of layers, in memory and as torch.onnx exports them.

They need the comparison extra (torch). Where it is missing these tests are skipped with that reason, unless
BORNFAIR_NEED_TORCH=1 says that it must be there; then they fail.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bornfair.core.errors import InputError
from bornfair.questions.loading import load_model
from interop_models import WIDTH, disagreements, people

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None and os.environ.get("BORNFAIR_NEED_TORCH") != "1",
    reason="needs the comparison extra (torch): pip install 'bornfair-bench[torch]'",
)

STACKS = ["ReLU", "LeakyReLU", "ReLU6", "Hardtanh", "Tanh", "Sigmoid", "GELU", "PReLU"]
ENDS = ["logit", "Sigmoid", "two", "Softmax", "LogSoftmax"]


def stack(activation: str, end: str = "logit") -> Any:
    import torch
    from torch import nn

    torch.manual_seed(3)
    outputs = 1 if end in ("logit", "Sigmoid") else 2 if end == "two" else 3
    first, last = nn.Linear(WIDTH, 6), nn.Linear(5, outputs)
    with torch.no_grad():
        first.weight /= torch.tensor([40.0, 30.0, 1.5, 3.0])
    layers = [
        nn.Flatten(), first, getattr(nn, activation)(), nn.BatchNorm1d(6), nn.Dropout(0.3),
        nn.Sequential(nn.Linear(6, 5), getattr(nn, activation)(), nn.Identity()), last,
    ]  # fmt: skip
    module = nn.Sequential(*layers)
    rows = torch.as_tensor(people().sample(400, seed=2).to_numpy(np.float32))
    module.train()(rows)  # so that the batch normalisation has something to say
    module.eval()
    with torch.no_grad():
        last.bias -= module(rows).mean(dim=0)
        last.weight *= 4
        last.bias *= 4
    if end in ("Softmax", "LogSoftmax"):
        module.append(getattr(nn, end)(dim=1))
    elif end == "Sigmoid":
        module.append(nn.Sigmoid())
    return module.eval()


@pytest.mark.parametrize("activation", STACKS)
def test_a_stack_in_memory_decides_as_torch_does(activation: str) -> None:
    model = load_model(stack(activation), domain=people())
    assert disagreements(model) == 0
    assert model.original is not None
    assert "torch" in model.original.runtime
    assert model.original.largest_difference is not None
    assert model.original.largest_difference < 1e-3


@pytest.mark.parametrize("end", ENDS)
def test_every_way_to_end_a_stack_is_read_as_its_decision(end: str) -> None:
    model = load_model(stack("ReLU", end), domain=people())
    assert disagreements(model) == 0
    assert model.network.outputs == (3 if end in ("Softmax", "LogSoftmax") else 1)


@pytest.mark.parametrize("activation", STACKS)
@pytest.mark.parametrize("rows", [None, 1])
def test_an_exported_stack_decides_as_its_file(activation: str, rows: int | None, tmp_path: Path) -> None:
    export(stack(activation, "Sigmoid"), tmp_path / "m.onnx", rows)
    model = load_model(tmp_path / "m.onnx", domain=people())
    assert disagreements(model, 10_000 if rows is None else 2_000) == 0


def test_a_residual_module_is_read_from_its_export(tmp_path: Path) -> None:
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.one, self.two, self.end = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

        def forward(self, x: Any) -> Any:
            x = (x - torch.tensor([50.0, 30.0, 1.5, 0.0])) / torch.tensor([20.0, 17.0, 1.0, 3.0])
            x = torch.relu(self.one(x)) + x
            x = nn.functional.leaky_relu(self.two(x) + x)
            return torch.argmax(self.end(x), dim=1)

    export(Residual().eval(), tmp_path / "m.onnx", None)
    model = load_model(tmp_path / "m.onnx", domain=people())
    assert model.network.activation == "relu"
    assert disagreements(model) == 0


def test_what_cannot_be_read_of_a_module_is_named() -> None:
    from torch import nn

    module = stack("ReLU")
    with pytest.raises(InputError, match=r"is in training mode; call \.eval\(\)"):
        load_model(module.train(), domain=people())
    recurrent = nn.Sequential(nn.Linear(WIDTH, 3), nn.Softplus(), nn.Linear(3, 1)).eval()
    with pytest.raises(InputError, match=r"layer '1' \(Softplus\) is not supported"):
        load_model(recurrent, domain=people())


def export(module: Any, path: Path, rows: int | None) -> None:
    """The exporter that needs nothing but torch."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.zeros(1, WIDTH),),
            str(path),
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=None if rows else {"x": {0: "n"}},
        )
