"""Random ONNX graphs whose outputs may decide: networks, trees and both, several outputs in any order.

onnxruntime runs the graph for everybody of a small domain. The generator declares which output decides, by its own
rule: the output that is named; the scores, if a threshold is given; else the labels; else the scores. If several
outputs could decide and differ, only a refusal is right. A threshold is for the positive class: the label may give its
name to low scores.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
from onnx import TensorProto, helper, numpy_helper

from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import IntegerFeature
from bornfair.questions import Question, verify
from fuzzing import Summary

NAMES = ("a", "b", "s")
DOMAIN = Domain(
    features=tuple(IntegerFeature(name=name, low=0, high=high) for name, high in zip(NAMES, (4, 3, 1), strict=True)),
    sensitive=("s",),
)
ROWS = pd.DataFrame(itertools.product(range(5), range(4), range(2)), columns=list(NAMES))
FLOAT, INT, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
KINDS = {"float": FLOAT, "double": TensorProto.DOUBLE, "int": INT, "bool": TensorProto.BOOL}
POSITIVE = {"1", "1.0", "true", "yes"}
Decide = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class End:
    """An output: its role, and how it decides by itself."""

    name: str
    role: str  # "label" or "scores"
    kind: int
    decide: Decide
    threshold: bool = False  # whether a threshold can be given for it
    logit: bool = False
    low: bool = False  # whether a label gives the name of the positive class to low scores


@dataclass
class Case:
    """A graph, what bornfair is told of it, and which outputs decide."""

    ends: list[End]
    content: bytes = b""
    asked: dict[str, Any] = field(default_factory=dict)
    what: str = ""

    def able(self) -> list[End]:
        """The outputs that may decide by what is said: all must agree."""
        if "decision_output" in self.asked:
            return [end for end in self.ends if end.name == self.asked["decision_output"]]
        labels = [end for end in self.ends if end.role == "label"]
        scores = [end for end in self.ends if end.role == "scores"]
        return scores if "threshold" in self.asked or not labels else labels


class Writer:
    def __init__(self, random: np.random.Generator, *, apart: bool) -> None:
        self.random, self.apart = random, apart
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.functions: list[Any] = []
        self.ends: list[End] = []
        self.row = "" if apart else "x"

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def pick(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, operator: str, inputs: list[str], *, domain: str = "", outputs: int = 1, **settings: Any) -> Any:
        made = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, made, domain=domain or None, **settings))
        return made[0] if outputs == 1 else made

    @property
    def x(self) -> str:
        """All columns; where each is an input, they are joined once they are needed."""
        self.row = self.row or self.add("Concat", list(NAMES), axis=1)
        return self.row

    def column(self, name: str) -> str:
        if self.apart and self.chance(0.7):
            return name
        return self.add("Gather", [self.x, self.const([NAMES.index(name)], np.int64)], axis=1)

    # --- scores ---

    def network(self, width: int, *, fair: bool) -> str:
        """Sums of quarters: every score is exact in float32."""

        def layer(given: str, rows: int, columns: int, *, first: bool) -> str:
            weight = self.random.integers(-4, 5, (rows, columns)) / 4
            if first and fair:
                weight[2] = 0
            bias = self.random.integers(-6, 7, columns) / 4
            if self.chance(0.5):
                return self.add("Gemm", [given, self.const(weight), self.const(bias)])
            return self.add("Add", [self.add("MatMul", [given, self.const(weight)]), self.const(bias)])

        wired = not (fair and self.apart)
        first = self.x if wired else self.add("Concat", ["a", "b", "a"], axis=1)
        if self.chance(0.25):
            first = self.add(self.pick("Erf", "Sin", "Softplus"), [first])
        hidden = int(self.random.integers(0, 4))
        if hidden:
            first = self.add("Relu", [layer(first, 3, hidden, first=True)])
        return layer(first, hidden or 3, width, first=not hidden)

    def trees(self, outputs: int, *, fair: bool, classes: list[str] | list[int] | None = None, **more: Any) -> Any:
        """Stumps and trees of depth two over whole numbers; leaves are multiples of a quarter."""
        made: dict[str, list[Any]] = {name: [] for name in ("tree", "id", "mode", "value", "feature", "yes", "no")}
        leaves: list[tuple[int, int, int, float]] = []
        for tree in range(int(self.random.integers(1, 4))):
            for node in range(7):
                inner = node < 3
                made["tree"].append(tree)
                made["id"].append(node)
                made["mode"].append("BRANCH_LEQ" if inner else "LEAF")
                made["feature"].append(int(self.random.integers(2 if fair else 3)) if inner else 0)
                made["value"].append(float(self.random.integers(0, 4)) + 0.5 if inner else 0.0)
                made["value"][-1] = 0.5 if made["feature"][-1] == 2 else made["value"][-1]
                made["yes"].append(2 * node + 1 if inner else 0)
                made["no"].append(2 * node + 2 if inner else 0)
                for target in range(outputs) if not inner else ():
                    leaves.append((tree, node, target, float(self.random.integers(-7, 8)) / 8))
        settings = {
            "nodes_treeids": made["tree"], "nodes_nodeids": made["id"], "nodes_modes": made["mode"],
            "nodes_values": made["value"], "nodes_featureids": made["feature"], "nodes_truenodeids": made["yes"],
            "nodes_falsenodeids": made["no"],
        }  # fmt: skip
        what = "target" if classes is None else "class"
        for name, values in zip(("treeids", "nodeids", "ids", "weights"), zip(*leaves, strict=True), strict=True):
            settings[f"{what}_{name}"] = list(values)
        if classes is None:
            return self.add(
                "TreeEnsembleRegressor", [self.x], domain="ai.onnx.ml", n_targets=outputs, **settings, **more
            )
        named = "classlabels_strings" if isinstance(classes[0], str) else "classlabels_int64s"
        return self.add(
            "TreeEnsembleClassifier", [self.x], domain="ai.onnx.ml", outputs=2, **{named: classes}, **settings, **more
        )

    # --- outputs ---

    def end(
        self, value: str, role: str, kind: int, decide: Decide, *, threshold: bool = False, logit: bool = False
    ) -> None:
        """An output, under a name that does not tell what it is."""
        if kind == FLOAT and self.chance(0.15):
            kind = TensorProto.DOUBLE
            value = self.add("Cast", [value], to=kind)
        name = f"{self.pick('label', 'probabilities', 'scores', 'decision', 'y')}{len(self.ends)}"
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.ends.append(End(name, role, kind, decide, threshold, logit))

    def condition(self, value: str) -> None:
        """A label from something true or false [N, 1]: as such, as a number, by name, with or without its axis."""
        if self.chance(0.4):
            value = self.add("Reshape", [value, self.const([-1], np.int64)])
        kind = self.pick("bool", "int", "float", "double", "text", "where", "not")
        if kind == "text":
            names = self.const(["no", "yes"], object)
            place = self.add("Cast", [value], to=INT)
            return self.end(self.add("Gather", [names, place]), "label", TEXT, np.ravel)
        if kind == "where":
            value = self.add("Where", [value, self.const(1.0), self.const(0.0)])
            return self.end(value, "label", FLOAT, np.ravel)
        if kind == "not":
            self.end(self.add("Not", [value]), "label", TensorProto.BOOL, np.ravel)
            self.ends[-1] = replace(self.ends[-1], low=True)
            return None
        if kind != "bool":
            value = self.add("Cast", [value], to=KINDS[kind])
        return self.end(value, "label", KINDS[kind], np.ravel)

    def compared(self, score: str, at: float) -> None:
        operator = self.pick("Greater", "Greater", "GreaterOrEqual", "Less")
        self.condition(self.add(operator, [score, self.const(at)]))
        self.ends[-1] = replace(self.ends[-1], low=(operator == "Less") != self.ends[-1].low)

    def odd(self, score: str) -> None:
        """A label that is computed in an unusual way: from columns, in a body, by a function, by other operators."""
        kind = self.pick("columns", "column", "body", "loop", "function", "raised", "rounded", "power")
        column = self.column(self.pick("s", "s", "a"))
        if kind == "columns":
            other = self.add("Greater", [self.column("a"), self.const(2.0)])
            equal = self.add("Equal", [column, self.const(1.0)])
            self.condition(self.add(self.pick("And", "Or", "Xor"), [equal, other]))
        elif kind == "column":
            self.condition(self.add("Equal", [column, self.const(1.0)]))
        elif kind in ("body", "loop"):
            self.condition(self.add("Greater", [self.body(kind, score, column), self.const(0.75)]))
        elif kind == "function":
            self.functions = [
                helper.make_function(
                    "own", "Mixed", ["p", "q"], ["r"],
                    [helper.make_node("Mul", ["q", "p"], ["m"]), helper.make_node("Add", ["p", "m"], ["r"])],
                    [helper.make_opsetid("", 18)],
                )
            ]  # fmt: skip
            mixed = self.add("Mixed", [score, column], domain="own")
            self.condition(self.add("Greater", [mixed, self.const(0.6)]))
        elif kind == "raised":  # the threshold depends on the person
            share = self.add("Add", [self.add("Mul", [column, self.const(0.4)]), self.const(0.3)])
            self.condition(self.add("Greater", [score, share]))
        elif kind == "rounded":
            self.end(self.add("Round", [score]), "label", FLOAT, np.ravel)
        else:
            self.condition(self.add("Greater", [self.add("Pow", [score, self.const(2.0)]), self.const(0.3)]))

    def body(self, kind: str, score: str, column: str) -> str:
        """What reads names from around it."""
        made = f"in{len(self.nodes)}"
        inner = [helper.make_node("Add", [score, column], [made])]
        out = helper.make_tensor_value_info(made, FLOAT, None)
        if kind == "body":
            other = helper.make_graph(
                [helper.make_node("Identity", [score], [f"{made}o"])], "other", [],
                [helper.make_tensor_value_info(f"{made}o", FLOAT, None)],
            )  # fmt: skip
            then = helper.make_graph(inner, "then", [], [out])
            return self.add("If", [self.const(True, np.bool_)], then_branch=then, else_branch=other)
        inputs = [
            helper.make_tensor_value_info(f"{made}i", INT, []),
            helper.make_tensor_value_info(f"{made}c", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"{made}h", FLOAT, None),
        ]
        inner = [
            helper.make_node("Identity", [f"{made}c"], [f"{made}k"]),
            helper.make_node("Add", [f"{made}h", column], [made]),
        ]
        body = helper.make_graph(
            inner, "round", inputs, [helper.make_tensor_value_info(f"{made}k", TensorProto.BOOL, []), out]
        )
        return self.add("Loop", [self.const(1, np.int64), self.const(True, np.bool_), score], body=body)

    def model(self) -> bytes:
        self.random.shuffle(self.ends)  # type: ignore[arg-type]
        names = [("x", 3)] if not self.apart else [(name, 1) for name in NAMES]
        graph = helper.make_graph(
            self.nodes, "fuzz", [helper.make_tensor_value_info(name, FLOAT, ["n", width]) for name, width in names],
            [helper.make_tensor_value_info(end.name, end.kind, None) for end in self.ends], self.constants,
        )  # fmt: skip
        opsets = [helper.make_opsetid(*pair) for pair in (("", 18), ("ai.onnx.ml", 3), ("own", 1))]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=9, functions=self.functions
        ).SerializeToString()


def above(at: float) -> Decide:
    return lambda found: (np.asarray(found, np.float64).reshape(len(found), -1)[:, -1] > at).astype(int)


def above_for_the_first(at: float) -> Decide:
    """Of two classes the first, which is the positive one, is decided where its probability is above."""
    return lambda found: (1 - np.asarray(found, np.float64).reshape(len(found), -1)[:, -1] <= at).astype(int)


def largest(found: np.ndarray) -> np.ndarray:
    return np.argmax(found, axis=1)


def random_case(random: np.random.Generator) -> Case:
    make = Writer(random, apart=bool(random.random() < 0.5))
    fair = make.chance(0.5)
    kind = make.pick("one", "one", "several", "tree", "forest", "classifier", "both")
    if kind in ("one", "tree", "both"):
        z = make.network(1, fair=fair) if kind != "tree" else make.trees(1, fair=fair)
        p = make.add("Sigmoid", [z])
        wide = make.add("Concat", [make.add("Sub", [make.const(1.0), p]), p], axis=1)
        if make.chance(0.7) or kind == "tree":
            shown = make.pick(
                (p, above(0.5), True), (p, above(0.5), True), (wide, largest, False), (z, above(0.0), False)
            )
            make.end(shown[0], "scores", FLOAT, shown[1], threshold=shown[2], logit=shown[0] == z)
        if make.chance(0.15):
            make.end(z, "scores", FLOAT, above(0.0), logit=True)
        if make.chance(0.6):
            make.compared(p, make.pick(0.5, 0.5, 0.2, 0.8))
        elif make.chance(0.3):
            make.end(make.add("ArgMax", [wide], axis=1, keepdims=make.pick(0, 1)), "label", INT, np.ravel)
        if kind == "both":
            other = make.add("Sigmoid", [make.trees(1, fair=make.chance(0.5))])
            if make.chance(0.5):
                make.compared(other, 0.5)
            else:
                make.end(other, "scores", FLOAT, above(0.5), threshold=True)
    else:
        count = int(random.integers(2, 4))
        if kind == "classifier":
            classes = make.pick(list(range(count)), ["x", "y", "z"][:count])
            text = isinstance(classes[0], str)
            label, scores = make.trees(count, fair=fair, classes=classes)
            if make.chance(0.8):
                make.end(label, "label", TEXT if text else INT, np.ravel)
        else:
            scores = make.network(count, fair=fair) if kind == "several" else make.trees(count, fair=fair)
            if make.chance(0.6):
                place = make.add("ArgMax", [scores], axis=1, keepdims=0)
                if make.chance(0.3):
                    place = make.add("Cast", [place], to=FLOAT)
                    make.end(place, "label", FLOAT, np.ravel)
                else:
                    make.end(place, "label", INT, np.ravel)
        p = make.add("Gather", [scores, make.const([count - 1], np.int64)], axis=1)
        for _ in range(int(make.chance(0.7)) + int(make.chance(0.1))):
            shown = make.add("Softmax", [scores], axis=1) if make.chance(0.4) else scores
            make.end(shown, "scores", FLOAT, largest)
        if make.chance(0.15):
            make.compared(p, 0.25)
    if make.chance(0.25) or not make.ends:
        make.odd(p)
    if make.chance(0.1):  # the same for everybody
        make.nodes.append(helper.make_node("Identity", [make.const([[1.0]])], ["constant"]))
    case = Case(make.ends, make.model(), what=kind + (" fair" if fair else ""))
    if make.chance(0.35):
        chosen = make.pick(*case.ends)
        case.asked["decision_output"] = chosen.name
        if chosen.threshold and make.chance(0.3):
            case.asked["threshold"] = make.pick(0.15, 0.35, 0.9)
    elif make.chance(0.15) and any(end.threshold for end in case.ends):
        case.asked["threshold"] = make.pick(0.15, 0.35, 0.9)
    return case


# --- the judge ---


def decisions(case: Case, threshold: Callable[[float], Decide] = above) -> list[np.ndarray]:
    """What every output that may decide decides about everybody, as onnxruntime executes it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(case.content, options, providers=["CPUExecutionProvider"])
    rows = ROWS.to_numpy(np.float32)
    inputs = [given.name for given in session.get_inputs()]
    feed = {"x": rows} if "x" in inputs else {n: rows[:, NAMES.index(n)][:, None] for n in inputs}
    able = case.able()
    found = session.run([end.name for end in able], feed)
    at = case.asked.get("threshold")
    return [
        end.decide(shown) if at is None else threshold(at)(shown) if end.threshold else np.arange(len(ROWS))
        for end, shown in zip(able, found, strict=True)
    ]


def renamed(places: np.ndarray, said: Any) -> np.ndarray:
    """Places of classes under the names that a model gives them, as far as these tell places apart."""
    names = {place: said[int(np.argmax(places == place))] for place in set(places.tolist())}
    if len(set(names.values())) < len(names):
        return places
    return np.array([names[place] for place in places.tolist()], object)


def alike(one: Any, other: Any) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return str(one) == str(other)


def wrong(verdict: Any, decided: np.ndarray) -> str | None:
    """What is wrong with a verdict, if this is what the graph decides."""
    table = decided.reshape(-1, 2)
    if verdict.answer == "verified" and (unfair := table[:, 0] != table[:, 1]).any():
        return f"verified, but {int(unfair.sum())} people's twins are decided otherwise"
    if verdict.answer == "falsified":
        one, other = (decided[_row(twin)] for twin in verdict.twins)
        if alike(one, other):
            return f"falsified by {verdict.twins}, who both get {one}"
        if [alike(said, true) for said, true in zip(verdict.decisions, (one, other), strict=True)] != [True, True]:
            return f"falsified by {verdict.twins} as {verdict.decisions}, not {one} and {other}"
    return None


def _row(person: dict[str, Any]) -> int:
    return int(person["a"]) * 8 + int(person["b"]) * 2 + int(person["s"])


def mistakes(case: Case, path: Path) -> tuple[str, str | None]:
    """What came of a case, and what is wrong with it."""
    truth, able = decisions(case), case.able()
    if able[0].role == "label":  # one that is the same for everybody decides nothing
        truth = [decided for decided in truth if len(set(decided.tolist())) > 1] or truth
    if [end.logit for end in able] == [True]:  # numbers that happen to lie between 0 and 1 may be meant otherwise
        case.asked.setdefault("decision", "logit")
    path.write_bytes(case.content)
    try:
        question = Question.of(path, DOMAIN, **case.asked)
        model = question.countable_model
        said = model.predict(ROWS)
        verdict = verify(path, DOMAIN, timeout=20.0, **case.asked)
    except InputError:
        return "refused", None
    outcome = f"{verdict.answer} ({type(question.model).__name__})"
    if "threshold" in case.asked and str(model.domain.classes.tolist()[0]).lower() in POSITIVE:
        if not any(end.low for end in case.ends):
            return outcome, "the classes are named in reverse"
        truth = decisions(case, above_for_the_first)
    for decided in truth:
        if able[0].role == "scores":  # which are named by a label, or by their positions
            decided = renamed(decided, said)
        different = [i for i, (one, other) in enumerate(zip(said, decided, strict=True)) if not alike(one, other)]
        if different:
            return outcome, f"{len(different)} of {len(ROWS)} rows are decided otherwise"
        if (problem := wrong(verdict, decided)) is not None:
            return outcome, problem
    return outcome, None


def run(count: int, seed: int) -> Summary:
    found = Summary()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        for number in range(count):
            case = random_case(np.random.default_rng([seed, number, 28]))
            outcome, problem = mistakes(case, path)
            found.cases += 1
            found.outcomes[outcome] += 1
            if problem is not None:
                ends = [(end.name, end.role) for end in case.ends]
                found.wrong.append(f"case {number} ({case.what}; {ends}; {case.asked}): {problem}")
    return found
