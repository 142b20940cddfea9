"""What is not read is named: operators that our networks do not have, hostile and broken files, unclear questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from bornfair.core.errors import InputError
from bornfair.importers import affine, onnx_operators
from bornfair.people.domain import Domain
from bornfair.questions.loading import load_model
from interop_models import WIDTH, GraphMaker, categories, people, random_layer
from samples import make_people

RANDOM = np.random.default_rng(0)
W1, W2 = random_layer(RANDOM, WIDTH, 3), random_layer(RANDOM, 3, 1)


def hidden(g: GraphMaker, *operators: str) -> str:
    value = g.gemm("x", *W1)
    for operator in operators:
        value = g.node(operator, value)
    return g.gemm(value, *W2)


def squared(g: GraphMaker) -> str:
    value = g.gemm("x", *W1)
    return g.gemm(g.node("Mul", value, value), *W2)


def softmax_inside(g: GraphMaker) -> str:
    return hidden(g, "Softmax")


def mixed(g: GraphMaker) -> str:
    value = g.node("Relu", g.gemm("x", *W1))
    return g.gemm(g.node("Tanh", g.node("Mul", value, np.float32(0.5))), *W2)


def tanh_skip(g: GraphMaker) -> str:
    value = g.node("Tanh", g.gemm("x", *W1))
    return g.node("Add", g.gemm(value, *W2), g.gemm("x", *random_layer(RANDOM, WIDTH, 1)))


def across_people(g: GraphMaker) -> str:
    return g.node("Sub", hidden(g, "Relu"), g.node("ReduceMean", hidden(g, "Relu"), axes=[0]))


def computes_on(g: GraphMaker) -> str:
    label = g.node("Cast", g.node("Greater", hidden(g, "Relu"), np.float32(0)), to=TensorProto.FLOAT)
    return g.gemm(label, *random_layer(RANDOM, 1, 1))


def not_a_number(g: GraphMaker) -> str:
    broken = W1[0].copy()
    broken[0, 0] = np.nan
    return g.gemm(g.node("Relu", g.gemm("x", broken, W1[1])), *W2)


def at_random(g: GraphMaker) -> str:
    return hidden(g, "RandomUniformLike")


def divides(g: GraphMaker) -> str:
    return g.node("Div", np.float32(1), hidden(g, "Relu"))


def always_yes(g: GraphMaker) -> str:
    return g.node("Greater", g.node("Sigmoid", hidden(g, "Relu")), np.float32(-1))


UNSUPPORTED: dict[str, tuple[Callable[[GraphMaker], str], str]] = {
    "a power": (squared, r"node 'mul 1' \(Mul\) combines two computed values"),
    "Elu": (lambda g: hidden(g, "Elu"), r"node 'elu 1' \(Elu\) is an operator that is not supported"),
    "Erf": (lambda g: hidden(g, "Erf"), r"\(Erf\) is an operator that is not supported; dense layers with ReLU"),
    "Exp": (lambda g: hidden(g, "Exp"), r"\(Exp\) is a function that our networks do not have"),
    "softmax inside": (softmax_inside, "computes on after 'softmax 1'"),
    "relu and tanh": (mixed, "mixes tanh .* with relu .* in its hidden layers"),
    "skip past tanh": (tanh_skip, "skip connection past 'tanh 1'"),
    "the mean of people": (across_people, "across people"),
    "after the decision": (computes_on, "computes on with the decision"),
    "NaN": (not_a_number, "NaN"),
    "randomness": (at_random, "RandomUniformLike"),
    "division": (divides, "divides by a computed value"),
    "a threshold nobody misses": (always_yes, "everybody gets the same decision"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_cannot_be_read_is_named_with_its_node(name: str, tmp_path: Path) -> None:
    make, message = UNSUPPORTED[name]
    meant = 0.0 if name in ("softmax inside", "relu and tanh") else None  # bounded sums: where do they decide?
    g = GraphMaker()
    output = make(g)
    with pytest.raises(InputError, match=message):
        load_model(g.save(tmp_path / "m.onnx", [output]), domain=people(), threshold=meant)


def good(g: GraphMaker) -> Any:
    return g.model([hidden(g, "Relu")])


def external(model: Any) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")


def lying_shape(model: Any) -> None:
    model.graph.initializer[0].dims[0] = 10**12


def short_data(model: Any) -> None:
    model.graph.initializer[0].raw_data = b"\0" * 5


def cyclic(model: Any) -> None:
    model.graph.node[0].input[0] = model.graph.node[-1].output[0]


def endless(model: Any) -> None:
    node = model.graph.node[1]
    for _ in range(30_000):
        model.graph.node.append(node)


def doubling(model: Any) -> None:
    """Sixty concatenations of a value with itself: 2^60 columns."""
    value = "x"
    nodes = []
    for i in range(60):
        nodes.append(helper.make_node("Concat", [value, value], [f"twice{i}"], axis=1, name=f"twice{i}"))
        value = f"twice{i}"
    model.graph.node[0].input[0] = value
    for node in reversed(nodes):
        model.graph.node.insert(0, node)


def huge_constant(model: Any) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array([10**7, 10**7]), "shape"))
    model.graph.node.insert(0, helper.make_node("ConstantOfShape", ["shape"], ["huge"], name="huge"))
    model.graph.node.insert(1, helper.make_node("Add", ["x", "huge"], ["sum"], name="sum"))
    model.graph.node[2].input[0] = "sum"


def outer_product(model: Any) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.ones((100_000, 1), np.float32), "tall"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 100_000), np.float32), "wide"))
    model.graph.node.insert(0, helper.make_node("MatMul", ["tall", "wide"], ["huge"], name="huge"))
    model.graph.node[1].input[1] = "huge"


def no_output(model: Any) -> None:
    model.graph.output[0].name = "nothing"


def an_image(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim.add(dim_value=3)


HOSTILE: dict[str, tuple[Callable[[Any], None], str]] = {
    "weights elsewhere": (external, "are kept in '../../etc/passwd'; only a file beside the model is opened"),
    "a shape that lies": (lying_shape, "says its shape is"),
    "too little data": (short_data, "does not hold what it says"),
    "a cycle": (cyclic, "a cycle or the file is cut"),
    "too many nodes": (endless, "nodes, more than"),
    "doubling": (doubling, "more than the"),
    "a huge constant": (huge_constant, "more than the"),
    "an outer product": (outer_product, "more than the"),
    "no output": (no_output, "nothing gives the output"),
    "an image": (an_image, r"\[people, columns\] can be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_broken_files_are_refused_in_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affine, "MOST_ENTRIES", 1_000_000)  # the same with less memory
    change, message = HOSTILE[name]
    model = good(GraphMaker())
    change(model)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=message):
        load_model(path, domain=people())


@settings(max_examples=150)
@given(data=st.data())
def test_cut_and_changed_files_are_read_or_refused_but_never_crash(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(good(GraphMaker()).SerializeToString())
    cut = data.draw(st.integers(0, len(content)))
    content = content[:cut] if data.draw(st.booleans()) else content
    for _ in range(data.draw(st.integers(0, 4))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "changed.onnx"
    path.write_bytes(bytes(content))
    try:
        model = load_model(path, domain=people())
    except InputError as error:
        assert str(error)
    else:
        assert model.original is not None


@pytest.mark.parametrize("suffix", [".pkl", ".joblib", ".pt"])
def test_a_pickle_is_not_opened_and_says_why(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"\x80\x04cos\nsystem\n(S'echo'\ntR.")
    with pytest.raises(InputError, match="would run whatever code is in it"):
        load_model(path, domain=people())


def test_what_is_no_model_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a model must be a bundle.* found dict"):
        load_model({})
    with pytest.raises(InputError, match="there is no model"):
        load_model(tmp_path / "nowhere.onnx")
    (tmp_path / "m.dat").write_text("hello")
    with pytest.raises(InputError, match="not a kind of model"):
        load_model(tmp_path / "m.dat")
    (tmp_path / "m.txt").write_text("hello")
    with pytest.raises(InputError, match="not the text of a LightGBM model"):
        load_model(tmp_path / "m.txt")
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(InputError, match="no nodes"):
        load_model(tmp_path / "m.onnx", domain=people())


def test_a_model_of_encoded_numbers_asks_for_the_encoding(tmp_path: Path) -> None:
    g = GraphMaker()
    path = g.save(tmp_path / "m.onnx", [hidden(g, "Relu")])
    table = make_people(60, seed=0)
    with pytest.raises(InputError, match=r"takes 4 numbers, but the domain has 7 features.*pipeline"):
        load_model(path, table=table, sensitive=["sex"])
    with pytest.raises(InputError, match=r"takes numbers, but 'job' has the categories 'clerk', 'nurse', 'smith'"):
        load_model(path, table=table[["age", "income", "job", "owner"]], sensitive=["owner"])
    with pytest.raises(InputError, match="does not say who exists"):
        load_model(path, sensitive=["x0"])
    with pytest.raises(InputError, match="nobody has a twin yet"):
        load_model(path, domain=people().replaced(sensitive=()))


def test_an_input_that_no_column_fits_is_named(tmp_path: Path) -> None:
    g = GraphMaker()
    both = g.node("Concat", "age", "incme", axis=1)
    inputs = [("age", TensorProto.FLOAT, ["n", 1]), ("incme", TensorProto.FLOAT, ["n", 1])]
    path = g.save(tmp_path / "m.onnx", [g.gemm(both, *random_layer(RANDOM, 2, 1))], inputs=inputs)
    with pytest.raises(InputError, match=r"input 'incme' is not among the columns given; did you mean 'income'\?"):
        load_model(path, domain=people())


def test_a_category_the_model_does_not_know_is_named(tmp_path: Path) -> None:
    g = GraphMaker()
    hot = g.node("OneHotEncoder", "job", domain="ai.onnx.ml", cats_strings=["clerk", "nurse"], zeros=0)
    flat = g.node("Reshape", hot, np.array([-1, 2]))
    inputs = [("job", TensorProto.STRING, ["n", 1])]
    path = g.save(tmp_path / "m.onnx", [g.gemm(flat, *random_layer(RANDOM, 2, 1))], inputs=inputs)
    known = load_model(path, sensitive=["job"])  # its categories are in the file: no domain is needed
    assert known.domain.feature("job").levels() == ("clerk", "nurse")
    more = Domain(features=(categories("job", "clerk", "nurse", "pilot"),), sensitive=("job",))
    with pytest.raises(InputError, match="does not know the category 'pilot' of 'job'"):
        load_model(path, domain=more)


def test_an_import_that_differs_from_its_original_is_not_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an operator were read wrongly, the comparison with the original would say so."""
    monkeypatch.setitem(onnx_operators.STANDARD, "Relu", onnx_operators.STANDARD["Abs"])
    g = GraphMaker()
    path = g.save(tmp_path / "m.onnx", [g.centred(hidden(g, "Relu"))])
    with pytest.raises(InputError, match=r"is not the model: it .* of [0-9]+ people, such as age="):
        load_model(path, domain=people())
