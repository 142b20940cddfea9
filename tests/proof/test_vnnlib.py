"""The same question for other verifiers: two copies of the network, and a property in VNN-LIB."""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest

from bornfair import Domain, verify
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.people.columns import Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.proof.bundle import FairModel
from bornfair.proof.vnnlib import export_query
from bornfair.verification.replay import exact_input
from brute_force import random_model, truth

pytestmark = pytest.mark.slow

# --- models to ask about ---

PEOPLE = (
    IntegerFeature(name="age", low=18, high=99),
    RealFeature(name="income", low=0.1, high=70.3),
    CategoricalFeature(name="job", categories=("clerk", "nurse", "smith")),
    BooleanFeature(name="owner"),
    CategoricalFeature(name="sex", categories=("female", "male")),
    CategoricalFeature(name="race", categories=("a", "b", "c")),
    IntegerFeature(name="children", low=0, high=3),
)
SCALES = {
    "age": Scale(centre=40.0, exponent=4),
    "income": Scale(centre=float(np.float32(30.1)), exponent=3),
    "children": Scale(centre=1.0, exponent=0),
}


def make_model(sensitive=("sex",), classes=("no", "yes"), hidden=(8, 5), activation="relu", seed=0, features=PEOPLE):
    domain = Domain(features=features, sensitive=sensitive, label=Label(name="grant", classes=classes))
    encoding = Encoding(domain, {name: scale for name, scale in SCALES.items() if name in domain.names})
    random = np.random.default_rng(seed)
    widths = (encoding.width, *hidden, domain.outputs)
    layers = [
        Layer(random.normal(size=(after, before)), random.normal(size=after))
        for before, after in itertools.pairwise(widths)
    ]
    return FairModel(Network(tuple(layers), activation), encoding)


def without_sensitive_weights(model):
    first, *later = model.network.layers
    weight = first.weight.copy()
    weight[:, model.encoding.free_width :] = 0
    return FairModel(Network((Layer(weight, first.bias), *later), model.network.activation), model.encoding)


VARIANTS = {
    "one sensitive feature": {},
    "several, with a number": {"sensitive": ("race", "children", "sex")},
    "three classes": {"sensitive": ("race",), "classes": ("low", "middle", "high")},
    "no hidden layer": {"hidden": ()},
    "tanh": {"activation": "tanh"},
    "sigmoid": {"activation": "sigmoid", "sensitive": ("children",)},
}


@pytest.fixture(params=VARIANTS, ids=str)
def model(request):
    return make_model(**VARIANTS[request.param])


# --- a reader of VNN-LIB, as small as the language of these files ---


class Property:
    def __init__(self, path):
        self.text = path.read_text(encoding="ascii")
        code = re.sub(r";.*", "", self.text)
        tokens = re.findall(r"[()]|[^\s()]+", code)
        statements = []
        while tokens:
            statements.append(self._expression(tokens))
        self.declared = [s[1] for s in statements if s[0] == "declare-const"]
        assert all(s[2] == "Real" for s in statements if s[0] == "declare-const")
        self.asserts = [s[1] for s in statements if s[0] == "assert"]
        assert len(self.declared) + len(self.asserts) == len(statements)
        self.cases = next(a for a in self.asserts if a[0] == "or")[1:]
        self.simple = [a for a in self.asserts if a[0] != "or"]

    def _expression(self, tokens):
        token = tokens.pop(0)
        if token != "(":
            return token
        items = []
        while tokens[0] != ")":
            items.append(self._expression(tokens))
        tokens.pop(0)
        return items

    def holds(self, inputs, outputs, asserts=None):
        known = {f"X_{i}": Fraction(x) if isinstance(x, Fraction) else Fraction(float(x)) for i, x in enumerate(inputs)}
        known |= {f"Y_{j}": Fraction(float(y)) for j, y in enumerate(outputs)}
        return all(self._true(a, known) for a in (self.asserts if asserts is None else asserts))

    def _true(self, expression, known):
        operator, *rest = expression
        if operator in ("and", "or"):
            return (all if operator == "and" else any)(self._true(part, known) for part in rest)
        left, right = (known[item] if item in known else Fraction(item) for item in rest)
        return {">=": left >= right, "<=": left <= right}[operator]

    def inside(self, inputs):
        """Whether the bounds of the inputs hold, whatever the outputs."""
        return self.holds(inputs, (), self.simple)


def run(query, inputs):
    session = onnxruntime.InferenceSession(query.network, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(["Y"], {"X": row[None].astype(np.float32)})[0] for row in inputs])


def pair_inputs(model, people, ones, others):
    free = model.encoding.encode(people, sensitive=False).free
    return np.concatenate([free, model.encoding.codes[ones], model.encoding.codes[others]], axis=1)


def drawn(model, count, seed=0):
    """People, and two different sensitive values for each."""
    random = np.random.default_rng(seed)
    people, size = model.domain.sample(count, seed=seed), model.domain.sensitive_space.size
    ones = random.integers(size, size=count)
    return people, ones, (ones + random.integers(1, size, size=count)) % size


# --- the network ---


def test_the_product_network_gives_both_twins_scores(model, tmp_path):
    query = export_query(model, tmp_path / "query")
    people, ones, others = drawn(model, 60)
    outputs = run(query, pair_inputs(model, people, ones, others))
    versions = model.scores_of_versions(people)
    expected = np.concatenate([versions[ones, range(60)], versions[others, range(60)]], axis=1)
    assert outputs.shape == (60, 2 * model.network.outputs)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)


def test_both_copies_decide_as_the_model_does(model, tmp_path):
    query = export_query(model, tmp_path / "query")
    people, ones, others = drawn(model, 60, seed=3)
    outputs = run(query, pair_inputs(model, people, ones, others))
    versions, width = model.scores_of_versions(people), model.network.outputs
    for values, copy in ((ones, outputs[:, :width]), (others, outputs[:, width:])):
        expected = versions[values, range(60)]
        ranked = np.sort(expected, axis=1)
        lead = np.abs(expected[:, 0]) if width == 1 else ranked[:, -1] - ranked[:, -2]
        clear = lead > 1e-4
        assert clear.sum() > 50
        assert (decisions(copy)[clear] == decisions(expected)[clear]).all()


def test_the_network_is_a_plain_stack_with_the_very_weights(tmp_path):
    model = make_model(sensitive=("race",))
    query = export_query(model, tmp_path / "query")
    product = onnx.load(query.network)
    onnx.checker.check_model(product, full_check=True)
    assert [node.op_type for node in product.graph.node] == ["Gemm", "Relu", "Gemm", "Relu", "Gemm"]
    assert product.ir_version == 8 and [o.version for o in product.opset_import] == [17]
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in product.graph.initializer}
    free = model.encoding.free_width
    for i, layer in enumerate(model.network.layers):
        rows = len(layer.weight)
        top, bottom = tensors[f"weight{i}"][:rows], tensors[f"weight{i}"][rows:]
        if i == 0:
            first, second = top[:, : free + 3], np.delete(bottom, np.s_[free : free + 3], axis=1)
            apart = np.concatenate([top[:, free + 3 :], bottom[:, free : free + 3]])
        else:
            first, second = top[:, : layer.weight.shape[1]], bottom[:, layer.weight.shape[1] :]
            apart = np.concatenate([top[:, layer.weight.shape[1] :], bottom[:, : layer.weight.shape[1]]])
        assert first.tobytes() == second.tobytes() == layer.weight.tobytes()
        assert not apart.any()
        assert tensors[f"bias{i}"].tobytes() == layer.bias.tobytes() * 2


# --- the property ---


def test_everything_is_declared_bounded_and_counted(model, tmp_path):
    query = export_query(model, tmp_path / "query")
    asked = Property(query.property)
    size, outputs = model.domain.sensitive_space.size, model.network.outputs
    inputs = model.encoding.free_width + 2 * model.encoding.sensitive_width
    assert asked.declared == [f"X_{i}" for i in range(inputs)] + [f"Y_{j}" for j in range(2 * outputs)]
    assert len(asked.cases) == math.comb(size, 2) * (2 if outputs == 1 else outputs * (outputs - 1))
    assert [a[:2] for a in asked.simple] == [[op, f"X_{i}"] for i in range(inputs) for op in (">=", "<=")]


@pytest.mark.parametrize("seed", range(3))
def test_everybody_of_the_domain_lies_within_the_bounds(model, tmp_path, seed):
    asked = Property(export_query(model, tmp_path / "query").property)
    people, ones, others = drawn(model, 40, seed=seed)
    for row in pair_inputs(model, people, ones, others):
        assert asked.inside(row)
    for person, one, other in zip(people.to_dict("records"), ones, others, strict=True):
        exact = exact_input(model.encoding, person, int(one))
        code = exact_input(model.encoding, person, int(other))[model.encoding.free_width :]
        assert asked.inside([*exact, *code])


@pytest.mark.parametrize("centre", [0.0, 0.1, 1 / 3, -7.3e5, 1e17])
@pytest.mark.parametrize(
    "feature",
    [
        RealFeature(name="x", low=0.1, high=0.7),
        RealFeature(name="x", low=-1e-30, high=1e17 + 1000),
        IntegerFeature(name="x", low=-(2**49) - 1, high=2**49 + 1),
        IntegerFeature(name="x", low=16777217, high=33554433),
        RealFeature(name="x", low=0.0, high=0.0),
    ],
    ids=str,
)
def test_the_people_at_the_ends_are_never_cut_off_by_rounding(tmp_path, feature, centre):
    domain = Domain(features=(feature, BooleanFeature(name="s")), sensitive=("s",))
    if feature.kind == "integer" and centre == 1e17:
        with pytest.raises(InputError, match="float64 cannot keep its values apart"):
            Encoding(domain, {"x": Scale(centre=centre, exponent=3)})
        return
    encoding = Encoding(domain, {"x": Scale(centre=centre, exponent=3)})
    model = FairModel(Network((Layer(np.ones((1, 2)), np.zeros(1)),)), encoding)
    asked = Property(export_query(model, tmp_path / "query").property)
    low, high = (Fraction(asked.simple[i][2]) for i in (0, 1))
    for end in (feature.low, feature.high):
        exact = exact_input(encoding, {"x": end, "s": True}, 0)[0]
        table = domain.sample(1, seed=0).assign(x=[end])
        assert low <= exact <= high
        assert low <= Fraction(float(encoding.encode(table).free[0, 0])) <= high
    # Every reader reads the same bound, whatever it computes in.
    for bound in (low, high):
        assert Fraction(float(np.float32(float(bound)))) == bound


def test_whole_numbers_and_categories_are_not_widened(tmp_path):
    asked = Property(export_query(make_model(), tmp_path / "query").property)
    assert asked.simple[:2] == [[">=", "X_0", "-1.375"], ["<=", "X_0", "3.6875"]]
    assert all(asked.simple[2 * i][2] == "0.0" and asked.simple[2 * i + 1][2] == "1.0" for i in range(2, 6))


@pytest.mark.parametrize("variant", ["one sensitive feature", "several, with a number", "three classes"])
def test_twins_found_by_the_verifier_satisfy_the_property(tmp_path, variant):
    model = make_model(**VARIANTS[variant])
    verdict = verify(model, timeout=20)
    assert verdict.answer == "falsified" and "float32" in verdict.arithmetic
    query = export_query(model, tmp_path / "query")
    asked = Property(query.property)
    space = model.domain.sensitive_space
    values = [space.values.index(tuple(twin[name] for name in model.domain.sensitive)) for twin in verdict.twins]
    person = model.domain.sample(1, seed=0).assign(**{n: [verdict.twins[0][n]] for n in model.domain.free_names})
    # Pairs stand in one order, so one of the two orders of the twins is the one that is asked about.
    ordered = [pair_inputs(model, person, [a], [b])[0] for a, b in (values, values[::-1])]
    assert [asked.holds(row, run(query, [row])[0]) for row in ordered].count(True) == 1


def test_people_treated_equally_with_a_margin_do_not_satisfy_it(model, tmp_path):
    query = export_query(model, tmp_path / "query")
    asked = Property(query.property)
    people, ones, others = drawn(model, 80, seed=5)
    ones, others = np.minimum(ones, others), np.maximum(ones, others)
    inputs = pair_inputs(model, people, ones, others)
    outputs, width = run(query, inputs), model.network.outputs
    fair = unfair = 0
    for row, scores in zip(inputs, outputs, strict=True):
        copies = scores[:width], scores[width:]
        lead = min(abs(c[0]) if width == 1 else np.diff(np.sort(c))[-1] for c in copies)
        if lead < 1e-4:
            continue
        same = decisions(copies[0]) == decisions(copies[1])
        assert asked.holds(row, scores) == (not same)
        fair, unfair = fair + same, unfair + (not same)
    assert fair > 10


def test_a_pair_of_equal_values_or_of_unknown_codes_is_not_asked_about(tmp_path):
    asked = Property(export_query(make_model(sensitive=("race",)), tmp_path / "query").property)
    free = [0.0] * 2 + [1.0, 0.0, 0.0, 0.0] + [0.0, 1.0] + [0.0]
    codes = [Fraction(bound[2]) for bound in asked.simple[2 * len(free) :: 2]]
    assert len(codes) == 6
    a, b = [1, Fraction(-1, 2), Fraction(-1, 2)], [Fraction(-1, 2), 1, Fraction(-1, 2)]
    assert asked.holds([*free, *a, *b], (1.0, -1.0)) and asked.holds([*free, *a, *b], (-1.0, 1.0))
    assert not asked.holds([*free, *a, *a], (1.0, -1.0))
    assert not asked.holds([*free, *a, 0, 0, 0], (1.0, -1.0))


def test_the_property_holds_for_somebody_whenever_counting_out_says_unfair(tmp_path):
    """Unsat must be final: no unfair model may have a property that none of its people satisfies."""
    asked_about = 0
    for seed in range(60):
        model = random_model(seed)
        if not truth(model).float32:
            continue
        asked = Property(export_query(model, tmp_path / "query").property)
        people = model.domain.sample(1500, seed=0).drop_duplicates(list(model.domain.free_names))
        versions = model.scores_of_versions(people)
        decided = decisions(versions)
        position = int(np.argmax((decided != decided[0]).any(axis=0)))
        other = int(np.argmax(decided[:, position] != decided[0, position]))
        assert other > 0
        row = pair_inputs(model, people.iloc[[position]], [0], [other])[0]
        assert asked.holds(row, [*versions[0, position], *versions[other, position]])
        asked_about += 1
    assert asked_about > 15


# --- ties and the margin ---


def test_a_fair_network_is_a_candidate_only_where_both_scores_are_zero(tmp_path):
    model = without_sensitive_weights(make_model())
    asked = Property(export_query(model, tmp_path / "plain").property)
    apart = Property(export_query(model, tmp_path / "margin", margin=1e-6).property)
    people, ones, others = drawn(model, 5)
    row = pair_inputs(model, people, np.minimum(ones, others), np.maximum(ones, others))[0]
    assert asked.holds(row, (0.0, 0.0)) and not apart.holds(row, (0.0, 0.0))
    assert not asked.holds(row, (0.5, 0.5)) and not asked.holds(row, (-0.5, -0.5))
    assert apart.holds(row, (1e-6, 0.0)) and not apart.holds(row, (5e-7, -1.0))
    assert "unsat does not speak of twins" in apart.text and "unsat does not speak of twins" not in asked.text


def test_a_margin_of_nothing_is_no_margin(tmp_path):
    plain, tiny = make_model(), export_query(make_model(), tmp_path / "tiny", margin=1e-60)
    assert tiny.property.read_bytes() == export_query(plain, tmp_path / "plain").property.read_bytes()


# --- the words ---


def test_the_header_says_what_is_asked_and_what_an_answer_means(tmp_path):
    query = export_query(make_model(sensitive=("race", "sex")), tmp_path / "query")
    header = " ".join(line[1:].strip() for line in query.property.read_text().splitlines() if line.startswith(";"))
    for words in (
        "two people who differ only in 'race', 'sex' and get different decisions?",
        "unsat: no such twins exist. That answer is final.",
        "sat: a candidate only.",
        "whole numbers and one-hot groups (exactly one 1) are widened to intervals",
        "readers know no strict comparison",
        "X_0: ('age' - 40.0) / 2^4, whole numbers from 18 to 99",
        "X_3: 1 if 'job' is 'nurse'",
        "X_5: 'owner', 0 for False and 1 for True",
        "X_7 and X_11: code of 'race=a', first and second copy",
        "Y_0 and Y_1: score of the first and second copy, 'yes' if above 0, else 'no'",
        "1: 'race' = 'a', 'sex' = 'female' / 'race' = 'a', 'sex' = 'male'",
        "15: 'race' = 'c', 'sex' = 'female' / 'race' = 'c', 'sex' = 'male'",
    ):
        assert words in header


def test_names_cannot_smuggle_statements_in(tmp_path):
    hostile = "a\n(assert (>= X_0 9.0))\r\u2028ü"
    features = (
        IntegerFeature(name=hostile, low=0, high=3),
        CategoricalFeature(name="s\n(", categories=("p\n(assert (<= Y_0 0.0))", "q")),
    )
    domain = Domain(features=features, sensitive=("s\n(",), label=Label(name="y", classes=("\n(", "1")))
    encoding = Encoding(domain, {hostile: Scale(centre=0.0, exponent=0)})
    model = FairModel(Network((Layer(np.ones((1, 2)), np.zeros(1)),)), encoding)
    query = export_query(model, tmp_path / "query")
    asked = Property(query.property)
    assert len(asked.declared) == 5 and len(asked.simple) == 6 and len(asked.cases) == 2
    assert len(asked.text.splitlines()) == asked.text.count("\n")


# --- what is refused ---


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: make_model(sensitive=()), {}, r"no feature is sensitive, so nobody has a twin; name sensitive"),
        (
            lambda: make_model(activation="gelu"),
            {},
            r"a network with gelu cannot be asked about: ONNX 17, .* train with one of 'relu', 'tanh', 'sigmoid'",
        ),
        (
            lambda: make_model(sensitive=("age", "sex")),
            {},
            r"164 sensitive values make 13,366 pairs and 26,732 cases, more than the 20,000 .* name fewer features",
        ),
        (
            lambda: make_model(sensitive=("age",), classes=tuple(range(4))),
            {},
            r"82 sensitive values make 3,321 pairs and 39,852 cases",
        ),
        (lambda: make_model(), {"margin": -1.0}, r"margin must be a number of at least 0"),
        (
            lambda: make_model(classes=("a", "b", "c")),
            {"margin": 0.5},
            r"margin=0.5 needs a network with one score, found 3",
        ),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(tmp_path, make, options, message):
    with pytest.raises(InputError, match=message):
        export_query(make(), tmp_path / "query", **options)
    assert list(tmp_path.iterdir()) == []


def test_columns_beyond_float32_are_named(tmp_path):
    features = (RealFeature(name="wealth", low=0.0, high=1e60), BooleanFeature(name="s"))
    domain = Domain(features=features, sensitive=("s",))
    encoding = Encoding(domain, {"wealth": Scale(centre=0.0, exponent=0)})
    model = FairModel(Network((Layer(np.ones((1, 2)), np.zeros(1)),)), encoding)
    with pytest.raises(InputError, match=r"column 'wealth' reaches 0 to 1e\+60 as network input"):
        export_query(model, tmp_path / "query")


def test_a_folder_of_other_things_is_left_alone_and_an_earlier_query_is_replaced(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("ten years")
    with pytest.raises(InputError, match=r"is not a bornfair result .* name a new folder"):
        export_query(make_model(), tmp_path / "work")
    export_query(make_model(seed=1), tmp_path / "query")
    query = export_query(make_model(seed=2), tmp_path / "query")
    assert sorted(p.name for p in (tmp_path / "query").iterdir()) == ["query.onnx", "query.vnnlib"]
    assert query.network.read_bytes() == export_query(make_model(seed=2), tmp_path / "again").network.read_bytes()


def test_the_same_model_gives_the_same_bytes(model, tmp_path):
    one, two = (export_query(model, tmp_path / name) for name in ("one", "two"))
    assert one.network.read_bytes() == two.network.read_bytes()
    assert one.property.read_bytes() == two.property.read_bytes()
