"""The end of an ONNX graph: outputs of one decision, the names of classes, and the arithmetic that is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from onnx import parser

from bornfair.core.errors import InputError
from bornfair.importers.onnx_file import read_onnx
from bornfair.importers.onnx_source import OnnxSource
from bornfair.importers.source import Read
from bornfair.models.columns import Who, columns_for
from bornfair.models.reading import Reading
from bornfair.people.domain import Domain
from bornfair.people.features import IntegerFeature
from bornfair.questions.loading import load_model

PEOPLE = Domain(
    features=(IntegerFeature(name="age", low=0, high=9), IntegerFeature(name="sex", low=0, high=1)), sensitive=("sex",)
)
ROWS = pd.DataFrame([(age, sex) for age in range(10) for sex in (0, 1)], columns=["age", "sex"])
CONSTANTS = """float[2, 1] w = {1, 0.5}, float[1] b = {-4.25}, float[2, 2] w2 = {1, 0, 0, 1},
 float[2, 3] w3 = {1, 0, -1, 0, 0.5, 0}, float[3] b3 = {-4.25, 0, 4}, float[3, 1] v = {1, -1, 0.5}, float zero = {0},
 float[1] zeros = {0}, float third = {0.25}, float half = {0.5}, float one = {1}, float two = {2}, float minus = {-2},
 int64[1] last = {1}, int64[1] flat = {-1}, string[2] words = {"no", "yes"}, string[2] other = {"yes", "no"},
 string[2] alien = {"a", "b"}, string[3] three = {"a", "b", "c"}"""
Z = "z = Gemm(x, w, b)"
SEVERAL = "z = Gemm(x, w3, b3)"
KINDS = {"label": "bool[N, 1]", "place": "int64[N]", "word": "string[N]", "wordy": "string[N]"}


def written(folder: Path, outputs: str, body: str, inputs: str = "float[N, 2] x") -> Path:
    """A graph with these outputs, which are scores [N, columns] unless their name says otherwise."""
    listed = ", ".join(f"{KINDS.get(name, 'float[N, K]')} {name}" for name in outputs.split())
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({listed}) <{CONSTANTS}> {{ {body} }}'
    path = folder / "m.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def read(path: Path, **asked: Any) -> Read:
    file = read_onnx(path)
    return OnnxSource(file).read(columns_for(file.wanted, Who(PEOPLE)), Reading(**asked))


def executed(path: Path, output: str) -> np.ndarray:
    session = onnxruntime.InferenceSession(path.read_bytes())
    return session.run([output], {session.get_inputs()[0].name: ROWS.to_numpy(np.float32)})[0]


@pytest.mark.parametrize(
    ("outputs", "body", "asked", "layers"),
    [
        ("label", f"{Z} label = Greater(z, zero)", {}, 1), ("label", f"{Z} label = Greater(z, zeros)", {}, 1),
        ("label", f"{Z} label = Greater(z, half)", {}, 0), ("label", f"{Z} label = GreaterOrEqual(z, zero)", {}, 0),
        ("label", f"{Z} label = Less(z, zero)", {}, 0),
        ("label", f"{Z} y = Mul(z, minus) label = Greater(z, y)", {}, 0),
        ("label", f"{Z} label = Greater(zero, z)", {}, 0),
        ("label", f"{Z} g = Greater(z, zero) k = Cast<to = 1>(g) label = Cast<to = 9>(k)", {}, 1),
        ("label", f"{Z} i = Identity(z) d = Dropout(i) label = Greater(d, zero)", {}, 1),
        ("label", "m = MatMul(x, w) z = Add(m, b) label = Greater(z, zero)", {}, 1),
        ("label", "m = MatMul(x, w) z = Add(b, m) label = Greater(z, zero)", {}, 1),
        ("label", "z = MatMul(x, w) label = Greater(z, zero)", {}, 1),
        ("label", "h = Gemm(x, w3, b3) r = Relu(h) z = MatMul(r, v) label = Greater(z, zero)", {}, 2),
        ("label", "h = Gemm(x, w3, b3) z = MatMul(h, v) label = Greater(z, zero)", {}, 0),
        ("label", "h = Gemm(x, w3, b3) r = Relu(h) q = Relu(r) z = MatMul(q, v) label = Greater(z, zero)", {}, 0),
        ("label", "h = Gemm(x, w3, b3) t = Tanh(h) z = MatMul(t, v) label = Greater(z, zero)", {}, 0),
        ("label", "r = Relu(x) z = Gemm(r, w, b) label = Greater(z, zero)", {}, 0),
        ("label", "y = Sub(x, half) z = Gemm(y, w, b) label = Greater(z, zero)", {}, 0),
        ("label", "y = Add(x, half) z = Gemm(y, w, b) label = Greater(z, zero)", {}, 0),
        ("label", "z = Gemm<alpha = 2.0>(x, w, b) label = Greater(z, zero)", {}, 0),
        ("label", "z = Gemm<beta = 0.5>(x, w, b) label = Greater(z, zero)", {}, 0),
        ("label", "z = Gemm<alpha = 1.0, beta = 1.0>(x, w, b) label = Greater(z, zero)", {}, 1),
        ("label", "k = Constant<value = float[1] {-4.25}>() z = Gemm(x, w, k) label = Greater(z, zero)", {}, 1),
        ("label", f"{Z} p = Sigmoid(z) label = Greater(p, half)", {}, 0),
        ("label", f"{Z} y = Add(z, z) label = Greater(y, zero)", {}, 0),
        ("label", f"{Z} n = Neg(z) label = Greater(n, zero)", {}, 0),
        ("label s", f"{Z} s = Sigmoid(z) label = Greater(z, zero)", {}, 1),  # the scores beside it do not decide
        ("place", f"{SEVERAL} place = ArgMax<axis = 1, keepdims = 0>(z)", {}, 1),
        ("place", "z = Gemm(x, w2) place = ArgMax<axis = 1, keepdims = 0>(z)", {}, 0),  # two scores are subtracted
        ("word", f"{SEVERAL} k = ArgMax<axis = 1, keepdims = 0>(z) word = Gather(three, k)", {}, 1),
        ("z", SEVERAL, {}, 1), ("z", Z, {}, 1), ("z", Z, {"decision": "logit"}, 1), ("z", Z, {"threshold": 0.5}, 0),
        ("z", Z, {"threshold": 0.0}, 1), ("z", "z = Gemm(x, w2)", {}, 0), ("p", f"{Z} p = Sigmoid(z)", {}, 0),
        ("p", f"{SEVERAL} p = Softmax(z)", {}, 0),
        ("p", f"{SEVERAL} p = Softmax(z)", {"threshold": (0.5, 0.25, 0.5)}, 0),
    ],
)  # fmt: skip
def test_plain_sums_in_float32_are_recognised(outputs: str, body: str, asked: Any, layers: int, tmp_path: Path) -> None:
    found = read(written(tmp_path, outputs, body), **asked)
    assert found.plain_layers == layers and isinstance(found.plain_layers, int)


def test_other_inputs_are_no_plain_sums(tmp_path: Path) -> None:
    body = "c = Cast<to = 1>(x) z = Gemm(c, w, b) label = Greater(z, zero)"
    assert read(written(tmp_path, "label", body, "double[N, 2] x")).plain_layers == 0
    body = "x = Concat<axis = 1>(age, sex) z = Gemm(x, w, b) label = Greater(z, zero)"
    assert read(written(tmp_path, "label", body, "float[N, 1] age, float[N, 1] sex")).plain_layers == 0


P = f"{Z} p = Sigmoid(z)"
WORDS = "k = Cast<to = 7>(g) f = Reshape(k, flat) word = Gather(words, f)"


@pytest.mark.parametrize(
    ("outputs", "body", "chosen"),
    [
        # two labels: of one scale, of one point, of one side
        ("label s", f"{Z} label = Greater(z, half) y = Mul(z, two) g = Greater(y, one) s = Cast<to = 1>(g)", "label"),
        ("label s", f"{Z} label = Greater(z, half) y = Mul(z, two) g = Greater(y, half) s = Cast<to = 1>(g)", None),
        ("label s", f"{Z} label = Greater(z, half) y = Mul(z, two) g = GreaterOrEqual(y, one)"
         " s = Cast<to = 1>(g)", None),
        ("label s", f"{Z} label = Greater(z, zero) y = Mul(z, minus) g = Greater(y, zero) s = Cast<to = 1>(g)", None),
        ("label s", f"{Z} label = Greater(z, zero) y = Gemm(x, w2) q = Gather<axis = 1>(y, last)"
         " g = Greater(q, zero) s = Cast<to = 1>(g)", None),
        # two names of one class are no contradiction, one name of two classes is
        ("label word", f"{Z} label = Greater(z, zero) y = Mul(z, two) g = Greater(y, zero) {WORDS}", "label"),
        ("word wordy", f"{Z} g = Greater(z, zero) {WORDS} y = Mul(z, two) h = Greater(y, zero) i = Cast<to = 7>(h)"
         " j = Reshape(i, flat) wordy = Gather(words, j)", "word"),
        ("word wordy", f"{Z} g = Greater(z, zero) {WORDS} y = Mul(z, two) h = Greater(y, zero) i = Cast<to = 7>(h)"
         " j = Reshape(i, flat) wordy = Gather(alien, j)", "word"),
        ("word wordy", f"{Z} g = Greater(z, zero) {WORDS} y = Mul(z, two) h = Greater(y, zero) i = Cast<to = 7>(h)"
         " j = Reshape(i, flat) wordy = Gather(other, j)", None),
        # scores beside a label: its own, scaled, turned round, at another point; others
        ("label p", f"{P} label = Greater(p, third)", "label"), ("p label", f"{P} label = Greater(z, half)", "label"),
        ("label y", f"{Z} label = Greater(z, zero) y = Mul(z, minus)", "label"),
        ("label y", f"{Z} label = Greater(z, zero) q = Gemm(x, w2) r = Gather<axis = 1>(q, last) y = Tanh(r)", None),
        ("label y", f"{Z} label = Greater(z, half) y = Relu(z)", "label"),
        ("label y", f"{Z} label = Greater(z, zero) q = Gemm(x, w2) r = Gather<axis = 1>(q, last) y = Relu(r)", None),
        ("p q", f"{P} y = Mul(z, two) q = Sigmoid(y)", "p"), ("p q", f"{P} y = Add(z, half) q = Sigmoid(y)", None),
        ("p q", f"{P} y = Mul(z, minus) q = Sigmoid(y)", None),
    ],
)  # fmt: skip
def test_outputs_are_read_where_they_cannot_decide_otherwise(
    outputs: str, body: str, chosen: Any, tmp_path: Path
) -> None:
    path = written(tmp_path, outputs, body)
    if chosen is None:
        with pytest.raises(InputError, match="may decide differently"):
            load_model(path, domain=PEOPLE)
        return
    model = load_model(path, domain=PEOPLE)
    found = executed(path, chosen).ravel()
    expected = found > 0.5 if chosen == "p" else found
    assert [str(one) for one in model.predict(ROWS)] == [str(one) for one in expected.astype(model.predict(ROWS).dtype)]
    assert len(set(expected.tolist())) == 2


@pytest.mark.parametrize(
    ("outputs", "body", "classes"),
    [
        ("word p", f"{P} g = Greater(p, half) {WORDS}", ("no", "yes")),
        ("word p", f"{P} g = Less(p, half) {WORDS}", ("yes", "no")),  # the word is for low scores
        ("word q", f"{SEVERAL} q = Softmax(z) k = ArgMax<axis = 1, keepdims = 0>(z) word = Gather(three, k)",
         ("a", "b", "c")),
        ("p", P, (0, 1)),
    ],
)  # fmt: skip
def test_a_label_names_the_classes_of_scores_in_their_order(
    outputs: str, body: str, classes: Any, tmp_path: Path
) -> None:
    path = written(tmp_path, outputs, body)
    threshold = {} if len(classes) > 2 else {"threshold": f"{classes[1]}=0.7"}
    model = load_model(path, domain=PEOPLE, **threshold)  # type: ignore[arg-type]
    assert tuple(model.domain.classes.tolist()) == classes
    if threshold:
        assert (model.predict(ROWS) == classes[1]).tolist() == (executed(path, "p").ravel() > 0.7).tolist()
    else:
        assert model.predict(ROWS).tolist() == executed(path, "word").ravel().tolist()


@pytest.mark.parametrize(
    ("factor", "classes"), [("two", ("a", "b", "c")), ("half", ("a", "b", "c")), ("minus", (0, 1, 2))]
)
def test_a_label_names_the_classes_of_the_scores_it_decides_by(factor: str, classes: Any, tmp_path: Path) -> None:
    """Also of a multiple of them, and not where the smallest decides."""
    body = f"{SEVERAL} y = Mul(z, {factor}) k = ArgMax<axis = 1, keepdims = 0>(y) word = Gather(three, k)"
    model = load_model(written(tmp_path, "word z", body), domain=PEOPLE, decision_output="z")
    assert tuple(model.domain.classes.tolist()) == classes
    best = executed(tmp_path / "m.onnx", "z").argmax(axis=1)
    assert model.predict(ROWS).tolist() == [classes[place] for place in best]


def test_what_is_shown_beside_a_label_is_compared_where_it_is_of_its_scores(tmp_path: Path) -> None:
    for outputs, body, compared in (
        ("label p", f"{P} label = Greater(p, third)", True),
        ("label y", f"{Z} y = Mul(z, two) label = Greater(z, half)", False),
        ("place q", f"{SEVERAL} q = Softmax(z) place = ArgMax<axis = 1, keepdims = 0>(z)", True),
        ("place q", f"{SEVERAL} y = Add(z, b3) q = Softmax(z) place = ArgMax<axis = 1, keepdims = 0>(y)", False),
        ("label", f"{Z} label = Greater(z, zero)", False),
    ):  # fmt: skip
        model = load_model(written(tmp_path, outputs, body), domain=PEOPLE)
        assert model.original is not None and (model.original.scores(ROWS) is not None) == compared
        if compared:
            assert model.original.largest_difference is not None and model.original.largest_difference < 1e-5


def test_outputs_that_say_nothing_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no output \('c'\) depends on the person"):
        load_model(written(tmp_path, "c", "c = Add(half, one)"), domain=PEOPLE)
    with pytest.raises(InputError, match="output 'y' is computed from single features or has several columns"):
        load_model(
            written(tmp_path, "y", "c = Gather<axis = 1>(x, last) e = Equal(c, one) y = Cast<to = 1>(e)"), domain=PEOPLE
        )
    path = written(tmp_path, "p", P)
    broken = onnx.load(path)
    broken.graph.output[0].name = "gone"
    onnx.save(broken, path)
    with pytest.raises(InputError, match="'gone'"):
        load_model(path, domain=PEOPLE)
    constant = load_model(written(tmp_path, "c p", f"{P} c = Add(half, one)"), domain=PEOPLE)
    assert constant.predict(ROWS).tolist() == (executed(tmp_path / "m.onnx", "p").ravel() > 0.5).astype(int).tolist()
