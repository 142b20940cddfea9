"""Rules of decisions: which output holds the decision, how numbers become a class, and which column feeds which input.

Every importer, every black-box model and every wrapper uses the rules in this module, so that all kinds of model are
judged by the decision that the original model makes. Thresholds are in `bornfair.models.operating`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.graph.wiring import reads_of
from bornfair.models.operating import USUAL
from bornfair.people.features import unknown_column

if TYPE_CHECKING:
    from bornfair.models.reading import Reading

# --- which output of a graph decides ---
#
# Any output that depends on the input may hold the decision. A label decides; its scores stand beside it. Without a
# label the scores decide, and also if a threshold is asked for. Two outputs that may decide otherwise are never chosen
# from: the user names the one that decides (`decision_output`).

FLOATS = (1, 10, 11, 16)  # ONNX's numbers for float, float16, double, bfloat16
BOOL = 9
CARRIERS = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout", "ZipMap"}
LINKS = {"Softmax", "LogSoftmax", "Sigmoid"}
SHOWS = CARRIERS | LINKS | {"Clip", "Concat", "Exp", "Log", "Neg", "Normalizer", "Transpose"}
ARITHMETIC = {"Add", "Sub", "Mul", "Div"}
REDUCED = {"ReduceSum", "ReduceMax", "ReduceMean", "ReduceLogSumExp", "ReduceL1"}
STEPS = {
    "And", "ArgMax", "ArgMin", "Binarizer", "CategoryMapper", "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual",
    "Hardmax", "IsInf", "IsNaN", "LabelEncoder", "Less", "LessOrEqual", "Not", "OneHot", "Or", "Round", "Sign", "Xor",
}  # fmt: skip
PICKS = {"Gather", "ArrayFeatureExtractor"}  # a label, if the position is computed and the data is not
COLUMNS = PICKS | {"Slice", "Split"}
CLASSIFIERS = {"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"}  # the first output is a label
Kind = Literal["label", "scores"]


@dataclass(frozen=True, eq=False)
class Output:
    """An output that depends on the input, with what its reader understands of it."""

    name: str
    kind: Kind
    value: Any = None
    why: InputError | None = None
    """Why the reader does not understand it."""


Pair = Callable[[Output, Output], bool]


def deciding(
    outputs: Sequence[Output], graph: Graph, asked: Reading, *, same: Pair | None = None, beside: Pair | None = None
) -> Output:
    """The output that decides.

    Args:
        outputs: all that depend on the input.
        graph: where they are.
        asked: what the user says: the output by name, or a threshold, which applies to scores.
        same: whether two labels, or two scores, make the same decision, as far as the reader can tell.
        beside: whether a score is known to belong to a label, as far as the reader can tell.

    Raises:
        InputError: if several outputs may decide, or if the one that decides is not understood.
    """
    moved = asked.moves_the_decision
    if asked.decision_output is not None:
        found = graph.named(asked.decision_output, outputs)
        if moved and found.kind == "label":
            raise InputError(
                f"{graph.origin}: output '{found.name}' is a label, which decides itself; leave decision and threshold "
                "(--decision, --threshold) out."
            )
        if found.why is not None:
            raise found.why
        return found
    labels = [output for output in outputs if output.kind == "label"]
    scores = [output for output in outputs if output.kind == "scores"]
    able = (scores if moved else labels) or scores or labels
    if not able:
        raise InputError(f"{graph.origin}: no output ({shown(graph.outputs)}) depends on the input.")
    first = next((output for output in able if output.why is None), able[0])
    for other in outputs:
        if other is first or (moved and other.kind == "label"):
            continue
        if other.kind == first.kind:
            known = (same is not None and same(first, other)) or graph.same(first, other, asked)
        else:
            known = (beside is not None and beside(first, other)) or graph.beside(first, other)
        if not known:
            unread = next((output for output in (other, first) if output.why is not None), None)
            why = "" if unread is None else f" '{unread.name}' is not read: {str(unread.why).rstrip('.')}."
            raise InputError(
                f"{graph.origin}: the outputs '{first.name}' and '{other.name}' may decide differently; name the one "
                f"that decides: decision_output='{other.name}' or '{first.name}' (--decision-output).{why}"
            )
    if first.why is not None:
        raise first.why
    return first


class Graph:
    """Which output of an ONNX graph is made of what, by the names of its operators."""

    def __init__(self, model: Any, inputs: Collection[str], origin: str) -> None:
        self.model, self.inputs, self.origin = model, frozenset(inputs), origin
        self.functions = {(function.domain, function.name) for function in model.functions}
        self.outputs = tuple(output.name for output in model.graph.output)
        self.types = {output.name: int(output.type.tensor_type.elem_type) for output in model.graph.output}

    @cached_property
    def makers(self) -> dict[str, Any]:
        return {name: node for node in self.model.graph.node for name in node.output if name}

    @cached_property
    def dependent(self) -> set[str]:
        """All values that depend on the input."""
        return self._reached(None)

    @cached_property
    def candidates(self) -> tuple[Output, ...]:
        """The outputs that depend on the input, as far as the names of operators tell what they are."""
        return tuple(Output(name, self.kind(name)) for name in self.outputs if name in self.dependent)

    def named(self, name: str, outputs: Sequence[Output]) -> Output:
        """The output that the user names as the one that decides."""
        if name not in self.outputs:
            raise InputError(
                f"{self.origin} has no output '{name}'; decision_output must be one of {shown(self.outputs)}."
            )
        found = next((output for output in outputs if output.name == name), None)
        if found is None:
            raise InputError(
                f"{self.origin}: output '{name}' does not depend on the input; decision_output must be one of "
                f"{shown(output.name for output in outputs)}."
            )
        return found

    def kind(self, name: str) -> Kind:
        """A label has an integer, boolean or text type, or is the result of a comparison or choice."""
        if self.types.get(name, 0) not in (0, *FLOATS):
            return "label"
        node = self.makers.get(self.tensor(name))
        return "label" if node is not None and self._steps(node, self.tensor(name)) else "scores"

    def tensor(self, name: str, *, any_type: bool = False) -> str:
        """The value that an output shows, without changes of shape (and, with `any_type`, of type)."""
        while (node := self.makers.get(name)) is not None and (
            node.op_type in CARRIERS
            or (node.op_type == "Cast" and (self._to(node) in FLOATS or (any_type and self._to(node) != BOOL)))
        ):
            name = node.input[0]
        return name

    def same(self, one: Output, other: Output, asked: Reading) -> bool:
        """Whether two outputs of a kind make the same decision: they show one value, or one is a link of the other."""
        if one.kind == "label":
            value = self.tensor(one.name, any_type=True)
            node = self.makers.get(value)
            stepped = node is not None and self._steps(node, value)
            return stepped and value == self.tensor(other.name, any_type=True)
        if asked.moves_the_decision:
            return self.tensor(one.name) == self.tensor(other.name)
        return self.unlinked(one.name)[0] == self.unlinked(other.name)[0]

    def unlinked(self, name: str) -> tuple[str, int]:
        """The value below the sigmoids and softmaxes at the end of an output, and how many of these there are."""
        count = 0
        while (node := self.makers.get(name := self.tensor(name))) is not None and node.op_type in LINKS:
            count, name = count + 1, node.input[0]
        return name, count

    def beside(self, label: Output, scores: Output) -> bool:
        """Whether scores belong to a label: some node computes all from which both are made, and the scores are shown
        as it gives them, but for links, casts and other functions of each number.
        """
        maker = self.makers.get(self.tensor(label.name, any_type=True))
        if maker is not None and maker.op_type == "SVMClassifier" and self._columns(scores.name) > 2:
            return scores.name not in self._reached(maker)  # votes of pairs of classes become scores of the classes
        for picks in (False, True):  # single columns are shown beside a label that is made of all of them
            for node in self._behind(scores.name, picks):
                whole = not picks or self._only_shows(label.name, node, False, steps=True)
                if whole and self._only_shows(scores.name, node, picks) and label.name not in self._reached(node):
                    return True
        return False

    def _columns(self, name: str) -> int:
        """As many as the file says; 0 if it does not say."""
        output = next(output for output in self.model.graph.output if output.name == name)
        dims = output.type.tensor_type.shape.dim
        if output.type.HasField("sequence_type"):  # maps, one for each row
            maker = self.makers.get(name)
            settings = [] if maker is None else [*maker.attribute]
            return max((len(attribute.ints) + len(attribute.strings) for attribute in settings), default=0)
        return int(dims[1].dim_value) if len(dims) == 2 else 0

    def _reached(self, without: Any) -> set[str]:
        """All values that depend on the input; if one node were a constant."""
        found = set(self.inputs)
        for node in self.model.graph.node:
            if node is not without and not found.isdisjoint(reads_of(node)):
                found.update(filter(None, node.output))
        return found

    def _behind(self, name: str, picks: bool) -> Iterator[Any]:
        """The nodes that make a value, back to the first that does more than to show numbers."""
        waiting, seen = [name], set[str]()
        while waiting:
            value = waiting.pop()
            node = self.makers.get(value)
            if value in seen or node is None or value not in self.dependent:
                continue
            seen.add(value)
            yield node
            waiting += self._showing(node, picks) or ()

    def _only_shows(self, name: str, source: Any, picks: bool, *, steps: bool = False) -> bool:
        waiting, seen = [name], set[str]()
        while waiting:
            value = waiting.pop()
            node = self.makers.get(value)
            if value in seen or value not in self.dependent or node is source:
                continue
            seen.add(value)
            behind = None if node is None else self._showing(node, picks)
            if behind is None and steps and node is not None and self._steps(node, value):
                behind = node.input
            if behind is None:
                return False
            waiting += behind
        return True

    def _showing(self, node: Any, picks: bool) -> Sequence[str] | None:
        """The values whose numbers a node shows one by one, normed or not; None if it does something else. With
        `picks`, it may show single columns.
        """
        if (node.domain, node.op_type) in self.functions or node.domain not in ("", "ai.onnx", "ai.onnx.ml"):
            return None
        if node.op_type in SHOWS or (node.op_type == "Cast" and self._to(node) in FLOATS):
            return list(node.input)
        if picks and node.op_type in COLUMNS and not self.dependent.intersection(node.input[1:]):
            return list(node.input)
        given = [name for name in node.input if name in self.dependent]
        if node.op_type not in ARITHMETIC or len(given) < 2:
            return given if node.op_type in ARITHMETIC else None
        whole, part = given
        maker = self.makers.get(self.tensor(part))
        normed = maker is not None and maker.op_type in REDUCED and self.tensor(maker.input[0]) == self.tensor(whole)
        return [whole] if normed else None

    def _steps(self, node: Any, value: str) -> bool:
        """Whether a node gives one of few values: a label, or the result of a comparison."""
        if (node.domain, node.op_type) in self.functions:
            return False
        if node.op_type in CLASSIFIERS:
            return value == node.output[0]
        if node.op_type in PICKS:
            return len(node.input) > 1 and node.input[0] not in self.dependent and node.input[1] in self.dependent
        if node.op_type == "Where":
            return not self.dependent.intersection(node.input[1:])
        return node.op_type in STEPS or node.op_type == "Cast"

    @staticmethod
    def _to(node: Any) -> int:
        return next((int(attribute.i) for attribute in node.attribute if attribute.name == "to"), 0)


def served(graph: Graph, asked: Reading) -> tuple[str | None, str | None]:
    """The outputs of a graph whose operators are not read: the label, if one decides, and the scores, if there are any
    that decide or belong to the label.
    """
    decides = deciding(graph.candidates, graph, asked)
    scores = [output for output in graph.candidates if output.kind == "scores"]
    if decides.kind == "label":
        scores = [output for output in scores if graph.beside(decides, output)]
    elif asked.decision_output is not None:
        scores = [decides]
    ranked = sorted(scores, key=lambda output: ("prob" in output.name.lower(), graph.unlinked(output.name)[1]))
    return decides.name if decides.kind == "label" else None, ranked[-1].name if ranked else None


# --- how numbers decide ---

Meaning = Literal["probability", "logit", "label"]
Part = Literal["all", "last", "first", "difference"]
STEP = 2.0**-22  # rounding error of a float32 number of size 1
SUM = 1e-3  # tolerance of the sum of probabilities


def usual_threshold(meaning: Meaning | None) -> float:
    """A probability decides for the last class above ½, any other score above 0."""
    return USUAL if meaning == "probability" else 0.0


def compared_part(columns: int, meaning: Meaning | None, *, threshold: bool, place: int = 1) -> Part:
    """Which part of the numbers for two classes is compared with a threshold.

    One number is compared itself. Of two numbers the first largest decides, which compares their difference with 0. A
    threshold for a probability applies to the column of the class at `place`; for other scores, to the difference.
    """
    if columns == 1:
        return "last"
    if not threshold or meaning != "probability":
        return "difference"
    return "last" if place else "first"


@dataclass(frozen=True)
class Rule:
    """How the numbers [rows, columns] of a model become a class.

    Of two classes, the last is decided where `value` exceeds `above`. Of more, the first largest column decides.

    >>> Rule.of(2, 2, "logit").scores(np.array([[2.0, 3.0], [-1.0, -1.0]]))[:, 0].tolist()
    [1.0, 0.0]
    """

    part: Part
    meaning: Meaning | None
    above: float = 0.0

    @staticmethod
    def of(classes: int, columns: int, meaning: Meaning | None, *, threshold: bool = False, place: int = 1) -> Rule:
        """The usual rule; with `threshold`, the one whose `above` is still to be set for the class at `place`."""
        if classes > 2:
            return Rule("all", meaning)
        part = compared_part(columns, meaning, threshold=threshold, place=place)
        return Rule(part, meaning, usual_threshold(meaning) if part == "last" and not threshold else 0.0)

    def value(self, numbers: np.ndarray) -> np.ndarray:
        """What is compared: [rows, 1], or all columns."""
        if self.part == "all":
            return numbers
        if self.part == "difference":  # halved for probabilities, so that it is p − ½
            return (numbers[:, -1:] - numbers[:, :1]) * (0.5 if self.meaning == "probability" else 1.0)
        return numbers[:, -1:] if self.part == "last" else -numbers[:, :1]

    def scores(self, numbers: np.ndarray) -> np.ndarray:
        """Scores that decide for the last of two classes above 0, or for the first largest of more."""
        return self.value(numbers) - self.above

    def limit(self, amount: float, place: int, columns: int) -> float:
        """The value of `above` for a threshold of the class at `place`."""
        if self.part == "first":
            return -amount
        if place:
            return amount
        return 1 - amount if self.meaning == "probability" and columns == 1 else -amount

    @property
    def threshold(self) -> float:
        """The threshold on the number of the last class: `above`, and what `value` lacks of that number."""
        halved = self.part == "difference" and self.meaning == "probability"
        return self.above + (1.0 if self.part == "first" else 0.5 if halved else 0.0)

    def probability(self, scores: np.ndarray) -> np.ndarray:
        """The probability of the last of two classes, from scores of probabilities."""
        return np.clip(scores + self.threshold, 0.0, 1.0)


def are_probabilities(numbers: np.ndarray) -> np.ndarray:
    """Which rows of numbers [rows, columns] may be probabilities: between 0 and 1, and with the sum 1 if several."""
    fit = ((numbers >= -STEP) & (numbers <= 1 + STEP)).all(axis=1)
    return np.asarray(fit if numbers.shape[1] == 1 else fit & (np.abs(numbers.sum(axis=1) - 1) < SUM))


# --- which column feeds an input ---

SEPARATORS = "_. "  # exporters replace other characters by one of these


def feeding(inputs: Sequence[str], columns: Sequence[str], origin: str) -> tuple[str, ...]:
    """The column that feeds each named input of a model.

    An exact name wins, then the same text in another Unicode form, then a name that an exporter may have rewritten: in
    another case, or with a separator in place of a character that is no letter or digit. Letters of all scripts count.
    A rewritten name must be the only one that fits the column, and the column the only one that fits the name.

    Raises:
        InputError: an input has no column, or several columns or inputs fit.

    >>> feeding(["hours_per_week", "性別"], ["年齢", "性別", "Hours-per-week"], "the model")
    ('Hours-per-week', '性別')
    """
    fed: dict[str, str] = {name: name for name in set(inputs) & set(columns)}
    fits: dict[str, list[str]] = {}
    for form in (partial(unicodedata.normalize, "NFC"), _rewritten):
        left = [name for name in dict.fromkeys(inputs) if name not in fed]
        by_form: dict[str, list[str]] = {}
        for column in dict.fromkeys(column for column in columns if column not in fed.values()):
            by_form.setdefault(form(column), []).append(column)
        fits = {name: [c for c in by_form.get(form(name), ()) if _may_be(name, c)] for name in left}
        wanted_by = {column: [name for name in left if column in fits[name]] for name in left for column in fits[name]}
        for name, found in fits.items():
            if len(found) == 1 and len(wanted_by[found[0]]) == 1:
                fed[name] = found[0]
            elif found:
                names = found if len(found) > 1 else wanted_by[found[0]]
                what = "columns" if len(found) > 1 else "inputs"
                raise InputError(
                    f"{origin}: input '{name}' has no column of exactly this name, and its name fits the {what} "
                    f"{shown(names)}; rename the columns as the model names its inputs."
                )
    for name in inputs:
        if name not in fed:
            reason = unknown_column(name, columns, "input")
            reason = reason.replace("is not in the table", "is not among the columns given")
            raise InputError(f"{origin}: {reason}")
    return tuple(fed[name] for name in inputs)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _rewritten(name: str) -> str:
    """What is left of a name when all characters but letters, marks and digits are replaced."""
    return "".join(c if unicodedata.category(c)[0] in "LMN" else "_" for c in _folded(name))


def _may_be(one: str, other: str) -> bool:
    """Whether one of two names of one form may be the other, rewritten: "<50" is not ">50"."""
    pairs = list(zip(_folded(one), _folded(other), strict=True))
    return all(a == b or a in SEPARATORS or b in SEPARATORS for a, b in pairs) and any(
        unicodedata.category(a)[0] in "LMN" for a, _ in pairs
    )
