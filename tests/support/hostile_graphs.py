"""ONNX graphs that are well-formed and hostile: they never end, grow without a limit, or lie about their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hostile_making import Chance


def _node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs, outputs, **attributes)


def _constant(name: str, values: Any, kind: str = "int64") -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.array(values, dtype=kind), name)


def _linear(source: str, target: str) -> tuple[list[Any], list[Any]]:
    """From four columns to one score."""
    weights = [[0.25, -0.5, 1.0, 0.75]]
    return [_node("Gemm", [source, "weights"], ["sum"], transB=1), _node("Sigmoid", ["sum"], [target])], [
        _constant("weights", weights, "float32")
    ]


def _model(nodes: list[Any], constants: list[Any], functions: list[Any] = [], opset: int = 18) -> bytes:  # noqa: B006
    from onnx import TensorProto, helper

    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, width]) for name, width in (("x", 4), ("y", 1))
    ]
    graph = helper.make_graph(nodes, "hostile", ends[:1], ends[1:], constants)
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid("f", 1)] if functions else [])]
    made: bytes = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=9).SerializeToString()
    return made


def endless_loop(chance: Chance) -> bytes:
    """A Loop that runs very often, with or without a dependence on the input."""
    from onnx import TensorProto, helper

    carried = chance.choice(["x", "start"])
    times = chance.choice([10**5, 10**9, 2**62])
    body = helper.make_graph(
        [_node("Identity", ["go"], ["on"]), _node(chance.choice(["Sin", "Identity", "Neg"]), ["v"], ["w"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go",
        TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("w",
        TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes, constants = _linear("x", "first")
    constants += [_constant("times", times), _constant("yes", True, "bool"), _constant("start", [[0.5]], "float32")]
    nodes.append(_node("Loop", ["times" if chance.random() < 0.7 else "", "yes", carried], ["looped"], body=body))
    nodes += [_node("ReduceMean", ["looped"], ["mean"], keepdims=0), _node("Add", ["first", "mean"], ["y"])]
    return _model(nodes, constants)


def exponential_functions(chance: Chance) -> bytes:
    """Each function calls the one before several times; the last one may call itself."""
    from onnx import helper

    depth, width = chance.choice([(12, 2), (30, 2), (25, 3), (60, 4), (400, 2)])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    functions = [helper.make_function("f", "F0", ["a"], ["b"], [_node("Neg", ["a"], ["b"])], imports)]
    for i in range(1, depth):
        callee = f"F{i if chance.random() < 0.01 else i - 1}"
        nodes = [
            _node(callee, ["a" if j == 0 else f"v{j - 1}"], [f"v{j}" if j < width - 1 else "b"], domain="f")
            for j in range(width)
        ]
        functions.append(helper.make_function("f", f"F{i}", ["a"], ["b"], nodes, imports))
    nodes, constants = _linear("z", "y")
    return _model([_node(f"F{depth - 1}", ["x"], ["z"], domain="f"), *nodes], constants, functions)


def large_constant(chance: Chance) -> bytes:
    """An operator that makes very much of few bytes."""
    size = chance.choice([10**6, 10**8, 10**10, 2**62, -5])
    nodes, constants = _linear("x", "first")
    constants += [
        _constant("one", [[1.0]], "float32"),
        _constant("size", [size, 1]),
        _constant("flat", [size]),
        _constant("scalar", size),
    ]
    constants += [
        _constant("zero", 0),
        _constant("step", 1),
        _constant("repeats", [1, size]),
        _constant("pads", [0, 0, 0, size]),
    ]
    constants += [_constant("scales", [1.0, float(size)], "float32"), _constant("two", [0, 0])]
    large = chance.choice([
        _node("ConstantOfShape", ["size"], ["large"]), _node("Expand", ["one", "size"], ["large"]), _node("Tile",
        ["one", "repeats"], ["large"]),
        _node("Pad", ["one", "pads"], ["large"]), _node("Resize", ["one", "", "scales"], ["large"]), _node("Expand",
        ["first", "repeats"], ["large"]),
        _node("Tile", ["first", "repeats"], ["large"]), _node("Pad", ["x", "pads"], ["large"]), _node("EyeLike",
        ["size"], ["large"], dtype=1),
        _node("OneHot", ["two", "scalar", "ends"], ["large"]), _node("RandomNormal", [], ["large"], shape=[abs(size)]),
    ])  # fmt: skip
    constants.append(_constant("ends", [0.0, 1.0], "float32"))
    ranged = [_node("Range", ["zero", "scalar", "step"], ["range"]), _node("Cast", ["range"], ["large"], to=1)]
    nodes += chance.choice([[large], [large], [large], ranged])
    nodes += [_node("ReduceMean", ["large"], ["mean"], keepdims=0), _node("Add", ["first", "mean"], ["y"])]
    return _model(nodes, constants)


def lying_tensor(chance: Chance) -> bytes:
    """A constant whose shape, kind or bytes are false, or that stands in another file."""
    from onnx import load_from_string

    model = load_from_string(_model(*_linear("x", "y")))
    tensor = model.graph.initializer[0]
    way = chance.randrange(5)
    if way == 0:
        tensor.dims[0] = chance.choice([0, -1, 2**40, 2**62, 3])
    elif way == 1:
        tensor.data_type = chance.choice([*range(26), 999])
    elif way == 2:
        tensor.raw_data = chance.choice([b"", b"\0" * 15, b"\xff" * 16, b"\0" * 4096])
    elif way == 3:
        tensor.ClearField("raw_data")
        tensor.data_location = 1
        for key, value in [
            ("location", chance.choice(["../four.json", "/etc/passwd", "four.csv", "four.onnx", "", ".", "gone", "a\0b",
            "/dev/zero", "x/../four.csv"])),
            ("offset", chance.choice(["0", "-1", str(2**63), "x", "9" * 5000])), ("length", chance.choice(["16", "-1",
            str(2**62), "0", "x"])),
            ("checksum", "0"), ("location", "four.csv"),
        ][: chance.choice([1, 2, 3, 5])]:  # fmt: skip
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
    else:
        sparse = model.graph.sparse_initializer.add()
        sparse.dims.extend([2**40, 4])
        sparse.values.CopyFrom(tensor)
        sparse.indices.CopyFrom(_constant("weights", [0, 2**41]))
        del model.graph.initializer[0]
    return model.SerializeToString()


def odd_graph(chance: Chance) -> bytes:
    """A cycle, a very long chain, a node twice, or branches inside branches."""
    from onnx import TensorProto, helper

    nodes, constants = _linear("z", "y")
    way = chance.randrange(6)
    if way == 0:
        nodes = [_node("Add", ["x", "w"], ["z"]), _node("Neg", ["z"], ["w"]), *nodes]
    elif way == 1:
        count = chance.choice([2_000, 20_000, 100_000])
        kind = chance.choice(["Neg", "Identity", "Relu", "Sin"])
        chain = [
            _node(kind, ["x" if i == 0 else f"c{i}"], ["z" if i == count - 1 else f"c{i + 1}"]) for i in range(count)
        ]
        nodes = [*chain, *nodes]
    elif way == 2:  # doubles at each step
        count = chance.choice([10, 26, 40])
        chain = [_node("Concat", [f"d{i}", f"d{i}"], [f"d{i + 1}"], axis=0) for i in range(count)]
        ends = [_node("ReduceMean", [f"d{count}"], ["mean"], keepdims=0), _node("Add", ["x", "mean"], ["z"])]
        nodes = [_node("Identity", ["x"], ["d0"]), *chain, *ends, *nodes]
    elif way == 3:
        inner = helper.make_graph(
            [_node("Neg", ["x"], ["o"])], "g", [], [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
        )
        for _ in range(chance.choice([5, 25])):
            outputs = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
            inner = helper.make_graph(
                [
                    _node(
                        "If",
                        ["yes"],
                        ["o"],
                        then_branch=inner,
                        else_branch=inner
                        if chance.random() < 0.2
                        else helper.make_graph([_node("Sin", ["x"], ["o"])], "e", [], outputs),
                    )
                ],
                "g",
                [],
                outputs,
            )
            if inner.ByteSize() > 1_000_000:
                break
        constants.append(_constant("yes", True, "bool"))
        nodes = [_node("If", ["yes"], ["z"], then_branch=inner, else_branch=inner), *nodes]
    elif way == 4:
        nodes = [_node("Neg", ["x"], ["z"]), _node("Neg", ["x"], ["z"]), *nodes]
    else:
        nodes = [
            _node(
                chance.choice(["MatMul", "Einsum", "Reshape", "Gather", "Slice", "TopK", "Split", "Scan", "STFT"]),
                ["x", "weights"],
                ["z"],
            ),
            *nodes,
        ]
    return _model(nodes, constants, opset=chance.choice([18, 18, 18, 7, 1, 0, 99, 2**40]))


def wide_network(chance: Chance) -> bytes:
    width = chance.choice([500, 3_000])
    nodes = [
        _node("Gemm", ["x", "a"], ["h"]),
        _node("Relu", ["h"], ["r"]),
        _node("Gemm", ["r", "b"], ["g"]),
        _node("Relu", ["g"], ["s"]),
        _node("Gemm", ["s", "c"], ["y"]),
    ]
    draw = np.random.default_rng(0).normal
    value = chance.choice([1.0, 1e30, 1e-40, float("nan"), float("inf")])
    return _model(
        nodes,
        [
            _constant("a", draw(size=(4, width)) * value, "float32"),
            _constant("b", draw(size=(width, width)), "float32"),
            _constant("c", draw(size=(width, 1)), "float32"),
        ],
    )


GRAPHS: dict[str, Callable[[Chance], bytes]] = {
    "an endless loop": endless_loop,
    "exponential functions": exponential_functions,
    "a large constant": large_constant,
    "a false tensor": lying_tensor,
    "an odd graph": odd_graph,
    "a wide network": wide_network,
}
