"""Graphs that would do more than was read: only what was read is run, in a process with limits that ends with us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bornfair import verify
from bornfair.core import limits
from bornfair.core.clock import Clock
from bornfair.core.errors import InputError
from bornfair.core.limits import Deadline
from bornfair.models import onnx_worker
from bornfair.models.onnx_child import packed, unpacked
from bornfair.models.onnx_worker import CannotRun, ForeignGraph
from bornfair.questions.loading import load_model
from interop_models import WIDTH, GraphMaker, disagreements, people, random_layer

pytestmark = pytest.mark.slow


def good(g: GraphMaker) -> str:
    random = np.random.default_rng(1)
    scale = np.array([0.02, 0.03, 0.5, 0.3], np.float32)
    hidden = g.node("Relu", g.gemm(g.node("Mul", "x", scale), *random_layer(random, WIDTH, 5)))
    return g.node("Sigmoid", g.centred(g.gemm(hidden, *random_layer(random, 5, 1))))


def endless(g: GraphMaker) -> str:
    """A loop of 2^62 turns that adds 1."""
    turn = helper.make_tensor_value_info("turn", TensorProto.INT64, [])
    more_in = helper.make_tensor_value_info("more_in", TensorProto.BOOL, [])
    more_out = helper.make_tensor_value_info("more_out", TensorProto.BOOL, [])
    sum_in, sum_out = (helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in ("sum_in", "sum_out"))
    one = numpy_helper.from_array(np.array(1.0, np.float32), "one")
    nodes = [
        helper.make_node("Identity", ["more_in"], ["more_out"]),
        helper.make_node("Add", ["sum_in", "one"], ["sum_out"]),
    ]
    body = helper.make_graph(nodes, "body", [turn, more_in, sum_in], [more_out, sum_out], [one])
    return g.node("Loop", np.array(2**62), np.array(True), np.array(0.0, np.float32), body=body)


def enormous(g: GraphMaker) -> str:
    """Six gigabytes, made of a few bytes."""
    fill = numpy_helper.from_array(np.array([1.0], np.float32))
    return g.node("ConstantOfShape", np.array([1_500_000_000]), value=fill)


def expanded(g: GraphMaker) -> str:
    return g.node("Expand", np.ones(1, np.float32), np.array([40_000, 40_000]))


def counted(g: GraphMaker) -> str:
    return g.node("Range", np.array(0), np.array(2**40), np.array(1))


ASIDE = {"a loop": endless, "a constant": enormous, "an expansion": expanded, "a range": counted}


@pytest.mark.parametrize("beside", [False, True], ids=["dead branch", "second output"])
@pytest.mark.parametrize("name", ASIDE)
def test_what_was_not_read_is_not_run(name: str, beside: bool, tmp_path: Path) -> None:
    g = GraphMaker()
    output = good(g)
    aside = ASIDE[name](g)
    path = g.save(tmp_path / "m.onnx", [output, aside] if beside else [output])
    model = load_model(path, domain=people())
    assert disagreements(model, 2_000) == 0
    assert verify(path, people(), timeout=5).answer == "falsified"


@pytest.fixture
def own_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(onnx_worker, "_running", {})
    yield
    for worker in onnx_worker._running.values():
        worker.stop()


def graph_of(name: str) -> bytes:
    g = GraphMaker()
    return g.model([g.node("Add", g.node("ReduceSum", ASIDE[name](g)), g.node("ReduceSum", "x"))]).SerializeToString()


FEED = {"x": np.zeros((1, WIDTH), np.float32)}


@pytest.mark.parametrize(
    ("name", "seconds", "message"), [("a loop", 2, "more than 2 s"), ("a constant", 600, "more than 4 GB")]
)
def test_a_run_that_takes_too_much_is_ended_and_the_next_one_works(
    name: str, seconds: float, message: str, own_processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CHILD_SECONDS", seconds)
    with pytest.raises(CannotRun, match=message):
        ForeignGraph(graph_of(name)).run(FEED)
    monkeypatch.setattr(limits, "CHILD_SECONDS", 600)
    g = GraphMaker()
    fine = ForeignGraph(g.model([g.node("Identity", "x")]).SerializeToString())
    assert next(iter(fine.run(FEED).values())).tolist() == [[0.0] * WIDTH]


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    g = GraphMaker()
    path = g.save(tmp_path / "m.onnx", [g.node("Relu", g.node("Relu", "x"))])
    name = onnx.load(path).graph.node[0].output[0].encode()
    path.write_bytes(path.read_bytes().replace(name, b"\xff" * len(name)))
    with pytest.raises(InputError, match=r"is damaged: the name b'.*xff' in it is no text; export the model again"):
        load_model(path, domain=people())


def test_a_graph_that_onnxruntime_refuses_is_one_sentence(tmp_path: Path) -> None:
    g = GraphMaker(opset=500)
    path = g.save(tmp_path / "m.onnx", [g.node("Relu", "x")])
    with pytest.raises(InputError, match=r"cannot be run by onnxruntime [0-9.]+: "):
        load_model(path, domain=people())


def test_constants_of_nodes_in_other_files_are_not_opened(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros((WIDTH, 1), np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    (tmp_path / "weights.bin").write_bytes(b"\0" * 4 * WIDTH)
    g = GraphMaker()
    path = g.save(tmp_path / "m.onnx", [g.node("MatMul", "x", g.node("Constant", value=tensor))])
    with pytest.raises(InputError, match="kept in another file, which is not opened"):
        load_model(path, domain=people())


def weights_beside(place: Path, **told: str) -> Path:
    """A model whose only weights are said to be in a file beside it; the numbers are the first of that file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[WIDTH, 1])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": "m.onnx.data"} | told).items():
        tensor.external_data.add(key=key, value=value)
    model = onnx.load_from_string(GraphMaker().model([]).SerializeToString())
    model.graph.node.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    model.graph.initializer.append(tensor)
    (place / "m.onnx").write_bytes(model.SerializeToString())
    return place / "m.onnx"


def test_weights_in_a_file_beside_the_model_are_read(tmp_path: Path) -> None:
    numbers = np.arange(1, WIDTH + 1, dtype=np.float32)
    (tmp_path / "m.onnx.data").write_bytes(b"1234" + numbers.tobytes() + b"more")
    whole = load_model(weights_beside(tmp_path, offset="4", length=str(4 * WIDTH)), domain=people())
    free = whole.encoding.free_columns()
    assert np.count_nonzero(whole.network.layers[0].weight) == WIDTH and free
    assert whole.original.people_compared > 2_000  # onnxruntime has run the same weights


@pytest.mark.parametrize(
    ("told", "size", "message"),
    [
        ({}, None, r"keeps its weights in 'm.onnx.data', which is not beside it; put the two files into one folder"),
        ({}, 4 * WIDTH - 1, r"the weights 'w' need [0-9,]+ bytes of 'm.onnx.data', which has [0-9,]+, from 0 on"),
        ({"offset": "8"}, 4 * WIDTH, r"from 8 on; the two files do not belong together, or one is cut off"),
        ({"length": "4"}, 4 * WIDTH, r"do not belong together"),
        ({"offset": "-4"}, 4 * WIDTH, r"have the offset '-4'; the file is broken"),
        ({"offset": "9" * 30}, 4 * WIDTH, r"have the offset '9+'; the file is broken"),
        ({"location": "/etc/passwd"}, None, r"only a file beside the model is opened"),
        ({"location": "../m.onnx.data"}, None, r"only a file beside the model is opened"),
        ({"location": ".."}, None, r"only a file beside the model is opened"),
        ({"location": ""}, None, r"only a file beside the model is opened"),
        ({"location": "folder"}, None, r"'folder', which holds its weights, is not a regular file"),
        ({"location": "link"}, None, r"'link', which holds its weights, is not a regular file"),
    ],
)
def test_weights_that_are_not_beside_the_model_or_do_not_fit_are_refused(
    tmp_path: Path, told: dict[str, str], size: int | None, message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    if size is not None:
        (tmp_path / "m.onnx.data").write_bytes(bytes(size))
    with pytest.raises(InputError, match=message):
        load_model(weights_beside(tmp_path, **told), domain=people())


def test_an_operator_may_not_be_given_another_meaning(tmp_path: Path) -> None:
    g = GraphMaker()
    model = g.model([good(g)])
    twice = helper.make_node("Add", ["a", "a"], ["b"])
    own = helper.make_function("", "Relu", ["a"], ["b"], [twice], [helper.make_opsetid("", 17)])
    model.functions.append(own)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="gives the operator Relu a meaning of its own"):
        load_model(path, domain=people())


def test_an_output_that_may_be_the_decision_is_not_passed_over(tmp_path: Path) -> None:
    g = GraphMaker()
    probability = good(g)
    label = g.node(
        "Round", g.node("Add", probability, np.float32(0.3))
    )  # decides at 0.2, by an operator we do not read
    path = g.save(tmp_path / "m.onnx", [label, probability])
    with pytest.raises(InputError, match=r"\(Round\) is an operator that is not supported"):
        load_model(path, domain=people())
    assert load_model(path, domain=people(), threshold=0.2).original is not None


def test_arrays_of_every_kind_travel_unchanged() -> None:
    arrays: dict[str, np.ndarray] = {
        "numbers": np.arange(6, dtype=np.float32).reshape(2, 3),
        "none": np.zeros((0, 2)),
        "truth": np.array([True, False]),
        "texts\n": np.array([["ä\0"], [""], ["\ud800"]], dtype=object),
        "whole": np.array(2**62),
    }
    found = unpacked(packed(arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tolist() == array.tolist()


STARTS = """
import numpy as np, os, sys
from bornfair.models import onnx_worker
content = open(sys.argv[1], "rb").read()
onnx_worker.ForeignGraph(content).run({"x": np.zeros((1, 4), np.float32)})
print(onnx_worker._running["onnxruntime"].process.pid, flush=True)
onnx_worker.ForeignGraph(open(sys.argv[2], "rb").read()).run({"x": np.zeros((1, 4), np.float32)})
"""


def test_the_process_ends_with_ours_even_in_the_middle_of_a_run(tmp_path: Path) -> None:
    g = GraphMaker()
    quick, slow = tmp_path / "quick.onnx", tmp_path / "slow.onnx"
    g.save(quick, [g.node("Identity", "x")])
    slow.write_bytes(graph_of("a loop"))
    ours: Any = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(quick), str(slow)], stdout=subprocess.PIPE, text=True
    )
    child = int(ours.stdout.readline())
    time.sleep(0.5)  # into the loop
    os.kill(ours.pid, signal.SIGKILL)
    ours.wait()
    ours.stdout.close()
    for _ in range(200):
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the process that runs graphs outlived us")


class EndlessModels:
    """Stands for the child process: no model ever answers, and the seconds that are waited for one pass at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.waits = 0.0, 0
        monkeypatch.setattr(limits, "monotonic", lambda: self.now)
        monkeypatch.setattr(ForeignGraph, "run", self.run)

    def run(self, *_: Any) -> dict[str, np.ndarray]:
        self.waits += 1
        self.now += Deadline.within(limits.CHILD_SECONDS).seconds
        raise CannotRun("it takes more than the time that is left (--timeout)")


@pytest.mark.parametrize("seconds", [5.0, 20.0])
def test_all_waits_for_a_model_that_never_answers_end_with_the_question(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = GraphMaker()
    path = g.save(tmp_path / "m.onnx", [g.node("Add", g.node("ReduceSum", endless(g)), g.node("ReduceSum", "x"))])
    endlessly = EndlessModels(monkeypatch)
    with pytest.raises(InputError, match="the time that is left"):
        verify(path, people(), timeout=Clock(seconds, now=lambda: endlessly.now))
    assert endlessly.waits >= 2 and seconds <= endlessly.now <= seconds + endlessly.waits * limits.LEAST_WAIT


def test_an_answerof_too_many_bytes_is_not_received(monkeypatch: pytest.MonkeyPatch) -> None:
    g = GraphMaker()
    content = g.model([g.node("Identity", "x")]).SerializeToString()
    monkeypatch.setattr(limits, "GRAPH_ANSWER_BYTES", 1_000)
    assert ForeignGraph(content).run(FEED)
    with pytest.raises(CannotRun, match=r"outputs take .* bytes, more than 1,000"):
        ForeignGraph(content).run({"x": np.zeros((1_000, WIDTH), np.float32)})
    assert ForeignGraph(content).run(FEED)
