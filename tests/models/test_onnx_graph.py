"""The model as served: onnxruntime decides from raw rows what bornfair decides, and refuses what bornfair refuses."""

import itertools
import json
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest

from bornfair import Domain, FairClassifier, datasets, load
from bornfair.core.errors import InputError
from bornfair.models.network.model import probabilities
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.models.network.onnx_graph import METADATA, onnx_bytes
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.policies import Policies
from bornfair.proof.bundle import FairModel
from samples import make_people

pytestmark = pytest.mark.slow

onnxruntime.set_default_logger_severity(4)  # a refused row is an exception here, and needs no log line too

# --- serving ---

KINDS = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": np.bool_}


def session_of(content):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def column_of(table, name, kind):
    if kind == "tensor(string)":  # a text that is missing is the empty one
        values = ["" if value is None or value != value else str(value) for value in table[name].tolist()]
        return np.array(values, dtype=object)[:, None]
    return table[name].to_numpy(dtype=KINDS[kind])[:, None]


def served(content, table):
    """What a server answers: the label and the probabilities of each row."""
    session = session_of(content) if isinstance(content, bytes) else content
    feeds = {item.name: column_of(table, item.name, item.type) for item in session.get_inputs()}
    labels, shares = session.run(None, feeds)
    return list(labels.tolist()), shares


def labels_of(model):
    """The classes as served: texts, unless all of them are of one other kind."""
    classes = list(model.domain.label.classes)
    return classes if len({type(c) for c in classes}) == 1 else [str(c) for c in classes]


def assert_served_alike(model, table, content=None):
    """Same decisions on every row, probabilities within 1e-6; returns the decisions."""
    labels, shares = served(content or onnx_bytes(model), table)
    scores, names = model.scores(table), labels_of(model)
    assert labels == [names[k] for k in decisions(scores)]
    assert {type(label) for label in labels} <= {type(name) for name in names}
    assert np.abs(shares - probabilities(scores)).max() <= 1e-6 and shares.shape[1] == max(model.network.outputs, 2)
    return labels


# --- models ---


def untrained(domain, table, *, fair=False, policies=None, activation="relu", hidden=(6, 4), seed=0):
    """A model with random weights: it decides both ways, and takes no time to make."""
    encoding = Encoding.fit(domain, table, policies)
    random, layers = np.random.default_rng(seed), []
    for after, inputs in itertools.pairwise((encoding.width, *hidden, domain.outputs)):
        layers.append(Layer(random.normal(size=(inputs, after)), random.normal(size=inputs) / 4))
    if fair:
        first = np.array(layers[0].weight)
        first[:, encoding.free_width :] = 0
        layers[0] = Layer(first, layers[0].bias)
    model = FairModel(Network(tuple(layers), activation), encoding)
    scores = model.scores(table)
    middle = np.median(scores, axis=0)  # each class gets some of the people
    middle -= 0.25 * (
        np.ptp(scores, axis=0) == 0
    )  # who all have one score are not put on the boundary, where rounding decides
    last = layers[-1]
    return FairModel(Network((*layers[:-1], Layer(last.weight, last.bias - middle)), activation), encoding)


def of_people(sensitive=("sex",), *, target="grant", classes=None, combinations="all", count=120, **options):
    table = make_people(count, seed=11)
    domain = Domain.infer(table, target=target, sensitive=sensitive, combinations=combinations)
    if classes is not None:
        domain = domain.replaced(label={"name": target, "classes": list(classes)})
    return untrained(domain, table, **options), table


def with_twins(model, table):
    """The table once for every sensitive value, everybody in the same row."""
    names = model.domain.sensitive
    return [
        table.assign(**dict(zip(names, values, strict=True))).astype({n: table[n].dtype for n in names})
        for values in model.domain.sensitive_space.values
    ]


# --- the embedded datasets ---

SENSITIVE = {"census": "sex", "bank": "marital", "credit": "age", "compas": "race", "law": "sex"}
QUICK = {"epochs": 2, "hidden": (16, 8), "learning_rate": 0.01, "validation_fraction": 0.0, "class_weight": "balanced"}


@pytest.fixture(scope="module")
def trained():
    known = {}

    def fit(name, response="expected"):
        if (name, response) not in known:
            data = datasets.load(name)
            table, target = data.table.drop(columns=data.target), data.table[data.target]
            known[name, response] = FairClassifier([SENSITIVE[name]], response=response, **QUICK).fit(table, target)
        return known[name, response], datasets.load(name).table

    return fit


def test_every_embedded_dataset_is_among_those_served_here():
    assert set(SENSITIVE) == set(datasets.NAMES)


@pytest.mark.parametrize(
    ("name", "response"), [*((name, "expected") for name in SENSITIVE), ("credit", "none"), ("compas", "none")]
)
def test_a_trained_model_is_served_as_it_predicts_on_every_row(trained, name, response, tmp_path):
    classifier, table = trained(name, response)
    assert classifier.model_.ignores_sensitive == (response == "expected")
    content = classifier.export_onnx(tmp_path / "model.onnx").read_bytes()
    labels = assert_served_alike(classifier.model_, table, content)
    assert labels == classifier.predict(table.drop(columns=datasets.entry(name).target)).tolist()
    assert len(set(labels)) == 2


SERVER = """
import json, sys
sys.modules["bornfair"] = None
try:
    import bornfair
    sys.exit("bornfair can be imported here")
except ImportError:
    pass
import onnxruntime, pandas
model, rows = sys.argv[1:]
session = onnxruntime.InferenceSession(model)
types = {"tensor(string)": "object", "tensor(int64)": "int64", "tensor(double)": "float64", "tensor(bool)": "bool"}
inputs = {i.name: types[i.type] for i in session.get_inputs()}
table = pandas.read_csv(rows, dtype={name: kind for name, kind in inputs.items() if kind == "object"})
feeds = {name: table[name].to_numpy(kind).reshape(-1, 1) for name, kind in inputs.items()}
labels, shares = session.run(None, feeds)
assert not [name for name, module in sys.modules.items() if name.startswith("bornfair") and module is not None]
print(json.dumps([labels.tolist(), shares.tolist()]))
"""


@pytest.mark.parametrize("name", ["census", "compas"])
def test_a_process_without_bornfair_serves_raw_rows_of_a_csv_file(trained, name, tmp_path):
    classifier, table = trained(name)
    rows = table.sample(1500, random_state=1)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    classifier.save(tmp_path / "bundle")
    command = [sys.executable, "-I", "-c", SERVER, tmp_path / "bundle" / "model.onnx", tmp_path / "rows.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    labels, shares = json.loads(done.stdout)
    assert labels == classifier.model_.predict(rows).tolist() and len(set(labels)) == 2
    assert np.abs(np.array(shares) - classifier.model_.predict_proba(rows)).max() <= 1e-6


# --- every kind of column, label and network ---


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu"])
@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("target", ["grant", "job"])
def test_every_activation_is_served_for_two_and_three_classes(activation, fair, target):
    model, table = of_people(target=target, activation=activation, fair=fair)
    assert len(set(assert_served_alike(model, table))) == len(model.domain.label.classes)


@pytest.mark.parametrize(
    "classes",
    [
        ("no", "yes"), (0, 1), (-7, 2**60), (False, True), (0.25, 1.5), (1, 2.5), (False, 2), ("yes", 1, False),
        (3, 1, 2), (1.0, 2.0, -3.5), ("ä", "", "中 文"),
    ],
    ids=str,
)  # fmt: skip
def test_labels_keep_their_kind_and_mixed_ones_become_texts(classes):
    model, table = of_people(classes=classes)
    assert set(assert_served_alike(model, table)) == set(labels_of(model))


def test_labels_that_read_the_same_as_text_are_refused():
    model, _ = of_people(classes=("1", 1))
    with pytest.raises(InputError, match="'label' has two values that read the same as text, '1'"):
        onnx_bytes(model)


@pytest.mark.parametrize(
    "sensitive",
    [
        (), ("sex",), ("owner",), ("age",), ("income",), ("race",), ("sex", "race"), ("owner", "age", "job"),
        ("income", "race"), ("age", "income", "job", "owner", "sex", "race"),
    ],
    ids=",".join,
)  # fmt: skip
@pytest.mark.parametrize("fair", [True, False])
def test_every_kind_of_sensitive_feature_is_served(sensitive, fair):
    model, table = of_people(sensitive, fair=fair)
    if fair and len(sensitive) == 6:  # nothing else to decide from: everybody gets the same
        assert len(set(assert_served_alike(model, table))) == 1
    else:
        assert len(set(assert_served_alike(model, table))) == 2


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("sensitive", [("sex", "race"), ("owner", "age"), ("race", "age", "sex")], ids=",".join)
def test_observed_combinations_are_served(sensitive, fair):
    model, table = of_people(sensitive, combinations="observed", fair=fair, count=40)
    assert model.domain.combinations is not None
    assert_served_alike(model, table)


def test_a_real_sensitive_value_between_the_grid_points_is_served():
    model, table = of_people(("income",))
    between = table.assign(income=np.linspace(model.domain.feature("income").low, 60.0, len(table)))
    assert_served_alike(model, between)


@pytest.mark.parametrize("fair", [True, False])
def test_columns_may_have_any_name_and_categories_any_kind(fair):
    random, count = np.random.default_rng(5), 90
    names = ["label", "probabilities", "encoded", "weight 0", "rows", "class", "layer 0", "double rows", "Größe ✓"]
    odd = ["", " ", "a b", "ä", "'quoted'", "new\nline", "中文", "refused: a number", "None"]
    table = pd.DataFrame({name: random.normal(size=count).round(2) for name in names[:3]})
    table["weight 0"] = random.integers(-5, 99, count)
    table["rows"] = random.integers(0, 2**40, count)
    table["class"] = pd.Series(random.choice(odd, count), dtype=object)
    table["layer 0"] = pd.Series([[3, "one", 2.5, True][i % 4] for i in range(count)], dtype=object)
    table["double rows"] = pd.Categorical(random.choice([-3, 0, 7, 2**40], count))
    table["Größe ✓"] = random.random(count) < 0.5
    table["activation 1"] = random.choice(["x", "y", "z"], count)
    domain = Domain.infer(table, sensitive=["activation 1", "layer 0", "double rows"]).replaced(
        label={"name": "target", "classes": ["label", "probabilities"]}
    )
    model = untrained(domain, table, fair=fair)
    content = onnx_bytes(model)
    kinds = {i.name: i.type for i in session_of(content).get_inputs()}
    assert set(kinds) == set(table.columns)
    assert kinds["double rows"] == "tensor(int64)" and kinds["layer 0"] == kinds["class"] == "tensor(string)"
    assert len(set(assert_served_alike(model, table, content))) == 2


def test_categories_that_read_the_same_as_text_are_refused():
    domain = Domain(
        features=(CategoricalFeature(name="c", categories=(1, "1")), BooleanFeature(name="s")), sensitive=("s",)
    )
    model = untrained(domain, pd.DataFrame({"c": pd.Series([1, "1"], dtype=object), "s": [True, False]}))
    with pytest.raises(InputError, match="'c' has two values that read the same as text, '1'; ONNX needs them apart"):
        onnx_bytes(model)


def test_a_column_without_a_name_is_refused():
    domain = Domain(features=(IntegerFeature(name="", low=0, high=3), BooleanFeature(name="s")), sensitive=("s",))
    model = untrained(domain, pd.DataFrame({"": [1, 2], "s": [True, False]}))
    with pytest.raises(InputError, match="a column has no name"):
        onnx_bytes(model)


def test_a_model_without_a_label_answers_zero_or_one():
    table = make_people(60, seed=11).drop(columns="grant")
    model = untrained(Domain.infer(table, sensitive=["sex"]), table)
    labels, _ = served(onnx_bytes(model), table)
    assert labels == decisions(model.scores(table)).tolist() and set(labels) == {0, 1}


def test_a_network_of_raw_numbers_is_served():
    """How other people's networks read numbers: as they stand, sensitive ones included."""
    domain = Domain(
        features=(
            IntegerFeature(name="a", low=-3, high=9), RealFeature(name="r", low=-1.5, high=2.0),
            IntegerFeature(name="s", low=0, high=2),
        ),
        sensitive=("s",), label=Label(name="y", classes=(0, 1)),
    )  # fmt: skip
    table = domain.sample(80, seed=0)
    random = np.random.default_rng(1)
    layers = Layer(random.normal(size=(5, 3)), random.normal(size=5)), Layer(random.normal(size=(1, 5)), np.zeros(1))
    assert len(set(assert_served_alike(FairModel(Network(layers), Encoding.of_raw_numbers(domain)), table))) == 2


def test_one_row_and_no_row_at_all_are_served():
    model, table = of_people()
    assert_served_alike(model, table[:1])
    labels, shares = served(onnx_bytes(model), table[:0])
    assert labels == [] and shares.shape == (0, 2)


# --- what does not fit ---

REFUSED = onnxruntime.capi.onnxruntime_pybind11_state.Fail

POLICIES = [
    Policies(missing=missing, unseen=unseen, outside=outside)
    for missing, unseen, outside in itertools.product(
        ("error", "impute"), ("error", "ignore"), ("allow", "clip", "error")
    )
]


def odd_rows(table, sensitive):
    """Rows that do not fit, by what is wrong with them."""
    row = table[:3].reset_index(drop=True)
    rows = {
        "nothing": row,
        "number too high": row.assign(age=[40, 200, 30]),
        "number too low": row.assign(income=[0.5, -1e6, 3.25]),
        "number missing": row.assign(income=[20.0, np.nan, 30.0]),
        "whole number missing": row.assign(age=[20.0, np.nan, 30.0]),
        "category missing": row.assign(job=["nurse", None, "clerk"]),
        "category unseen": row.assign(job=["nurse", "pilot", "clerk"]),
        "all of it": row.assign(income=[np.nan, -1e6, 2e6], job=["pilot", None, "clerk"]),
    }
    if sensitive == "sex":
        rows["sensitive category missing"] = row.assign(sex=["male", None, "female"])
        rows["sensitive category unseen"] = row.assign(sex=["male", "other", "female"])
    return rows


def outcome(decide, refused):
    """Decisions and probabilities, or None where the rows are refused."""
    try:
        return decide()
    except refused:
        return None


@pytest.mark.parametrize("policies", POLICIES, ids=lambda p: f"{p.missing}-{p.unseen}-{p.outside}")
@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("sensitive", ["sex", "age", "income"])
def test_what_is_imputed_ignored_clipped_or_refused_is_so_when_served(policies, fair, sensitive):
    model, table = of_people((sensitive,), policies=policies, fair=fair)
    content = onnx_bytes(model)
    session = session_of(content)
    assert_served_alike(model, table, session)
    types = {item.name: item.type for item in session.get_inputs()}
    for what, rows in odd_rows(table, sensitive).items():
        if rows["age"].isna().any() and types["age"] == "tensor(int64)":
            continue  # such a column cannot say "missing"
        ours = outcome(lambda rows=rows: model.scores(rows), InputError)
        theirs = outcome(lambda rows=rows: served(session, rows), REFUSED)
        assert (ours is None) == (theirs is None), what
        if theirs is not None:
            assert theirs[0] == [labels_of(model)[k] for k in decisions(ours)], what
            assert np.abs(theirs[1] - probabilities(ours)).max() <= 1e-6, what


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("outside", ["allow", "clip", "error"])
@pytest.mark.parametrize("sensitive", ["sex", "income"])
def test_a_number_that_is_none_is_refused_in_words(value, outside, sensitive):
    model, table = of_people((sensitive,), policies=Policies(outside=outside))
    with pytest.raises(InputError):
        model.scores(table.assign(income=value))
    with pytest.raises(REFUSED, match="refused: a number is missing, infinite or outside its range"):
        served(onnx_bytes(model), table.assign(income=value))


def test_a_missing_category_is_refused_by_both_though_unseen_ones_are_ignored():
    model, table = of_people(policies=Policies(missing="error", unseen="ignore"))
    rows = table.assign(job=None)
    assert outcome(lambda: model.scores(rows), InputError) is None
    assert outcome(lambda: served(onnx_bytes(model), rows), REFUSED) is None


def test_a_refused_row_refuses_the_table_wherever_it_stands():
    model, table = of_people(policies=Policies(outside="error"))
    session = session_of(onnx_bytes(model))
    for row in (0, 1, 63, 64, len(table) - 1):
        ages = table["age"].to_numpy().copy()
        ages[row] = 1000
        with pytest.raises(REFUSED, match="refused"):
            served(session, table.assign(age=ages))


def test_imputed_values_are_those_of_the_encoding():
    model, table = of_people(policies=Policies(missing="impute"))
    fill, session = model.encoding.fill, session_of(onnx_bytes(model))
    gaps = table.assign(age=np.nan, income=np.nan, job=None, sex=None)
    filled = table.assign(age=fill["age"], income=fill["income"], job=fill["job"], sex=fill["sex"])
    assert served(session, gaps)[1].tobytes() == served(session, filled)[1].tobytes()
    assert_served_alike(model, gaps, session)


# --- the sensitive columns ---


def inputs_of(content):
    return [item.name for item in session_of(content).get_inputs()]


@pytest.mark.parametrize("sensitive", [("sex",), ("age", "owner"), ("income", "race")], ids=",".join)
def test_a_fair_model_is_served_without_its_sensitive_columns(sensitive, tmp_path):
    model, table = of_people(sensitive, fair=True)
    bare = model.export_onnx(tmp_path / "bare.onnx", sensitive=False).read_bytes()
    whole = onnx_bytes(model)
    assert inputs_of(bare) == [name for name in inputs_of(whole) if name not in sensitive]
    without = served(bare, table.drop(columns=list(sensitive)))
    assert without[0] == assert_served_alike(model, table, whole)
    assert without[1].tobytes() == served(whole, table)[1].tobytes()


def test_a_model_that_reads_the_sensitive_columns_cannot_do_without(tmp_path):
    model, _ = of_people(("sex", "race"))
    with pytest.raises(InputError, match="this model reads 'sex', 'race', so it cannot be exported without"):
        model.export_onnx(tmp_path / "model.onnx", sensitive=False)
    with pytest.raises(InputError, match="this model reads 'sex', 'race', so it cannot be exported without"):
        model.save(tmp_path / "bundle", sensitive=False)
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_sensitive_columns_alone_cannot_do_without():
    table = make_people(60, seed=11)
    domain = Domain.infer(table[["sex", "grant"]], target="grant", sensitive=["sex"])
    alone = untrained(domain, table, fair=True)
    assert_served_alike(alone, table)
    with pytest.raises(InputError, match="every feature of this model is sensitive; without them there is nothing"):
        onnx_bytes(alone, sensitive=False)


@pytest.mark.parametrize("sensitive", [("sex",), ("age", "owner"), ("income", "race")], ids=",".join)
def test_the_graph_of_a_fair_model_reads_no_sensitive_column(sensitive):
    model, table = of_people(sensitive, fair=True)
    content = onnx_bytes(model)
    graph = onnx.load_from_string(content).graph
    read = {name for node in graph.node for name in node.input}
    assert not read & set(sensitive) and read >= set(model.domain.free_names)
    assert not [node for node in graph.node if any(a.HasField("g") or a.graphs for a in node.attribute)]
    nonsense = {"sex": "nobody", "race": "", "age": 10**9, "owner": True, "income": np.nan}
    strangers = table.assign(**{name: nonsense[name] for name in sensitive})
    assert served(content, strangers)[1].tobytes() == served(content, table)[1].tobytes()


def test_a_model_that_reads_a_sensitive_value_refuses_one_it_does_not_know():
    model, table = of_people(("sex",), policies=Policies(unseen="ignore"))
    with pytest.raises(REFUSED, match=r"one-hot sex.*Unknown Category"):
        served(onnx_bytes(model), table.assign(sex="nobody"))
    number, table = of_people(("income",))
    with pytest.raises(REFUSED, match="refused"):
        served(onnx_bytes(number), table.assign(income=np.nan))


def test_twins_are_served_the_same_bits(trained):
    for name in ("compas", "credit"):
        classifier, table = trained(name)
        session = session_of(onnx_bytes(classifier.model_))
        versions = [served(session, rows) for rows in with_twins(classifier.model_, table[:700])]
        assert len(versions) == classifier.model_.domain.sensitive_space.size >= 2
        assert {tuple(labels) for labels, _ in versions} == {tuple(versions[0][0])}
        assert {shares.tobytes() for _, shares in versions} == {versions[0][1].tobytes()}


def test_twins_of_a_model_that_reads_them_with_weight_zero_are_served_the_same_bits():
    """Where every feature is sensitive the graph must read them: times 0, they change no bit."""
    table = make_people(60, seed=11)[["sex", "race", "grant"]]
    model = untrained(Domain.infer(table, target="grant", sensitive=["sex", "race"]), table, fair=True)
    session = session_of(onnx_bytes(model))
    assert len({served(session, rows)[1].tobytes() for rows in with_twins(model, table)}) == 1


# --- the file ---


@pytest.mark.parametrize("fair", [True, False])
def test_the_same_model_gives_the_same_bytes(fair):
    model, _ = of_people(("age", "race"), policies=POLICIES[-1], fair=fair)
    again, _ = of_people(("age", "race"), policies=POLICIES[-1], fair=fair)
    assert onnx_bytes(model) == onnx_bytes(again)
    assert model.network is not again.network


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu"])
def test_the_file_is_valid_and_says_who_wrote_it(activation):
    model, _ = of_people(activation=activation, policies=POLICIES[5])
    made = onnx.load_from_string(onnx_bytes(model))
    onnx.checker.check_model(made, full_check=True)
    assert made.producer_name == "bornfair" and [entry.key for entry in made.metadata_props] == [METADATA]
    assert {item.domain: item.version for item in made.opset_import} == {
        "": 20 if activation == "gelu" else 18, "ai.onnx.ml": 3,
    }  # fmt: skip
    assert {tensor.data_type for tensor in made.graph.initializer if "weight" in tensor.name} == {1}


# --- and back ---


def bits(model):
    return [array.tobytes() for layer in model.network.layers for array in (layer.weight, layer.bias)]


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("sensitive", [("sex",), ("owner", "race"), ("age",), ("income", "job")], ids=",".join)
@pytest.mark.parametrize("place", ["bundle", "bundle.zip"])
def test_a_bundle_gives_back_the_same_model(fair, sensitive, place, tmp_path):
    policies = Policies(missing="impute", unseen="ignore", outside="clip")
    model, table = of_people(sensitive, fair=fair, policies=policies)
    back = load(model.save(tmp_path / place))
    assert bits(back) == bits(model) and back.network.activation == model.network.activation
    assert back.domain == model.domain
    assert back.encoding.scales == model.encoding.scales and back.encoding.fill == model.encoding.fill
    assert back.encoding.policies == policies and back.encoding.raw == model.encoding.raw
    assert back.scores(table).tobytes() == model.scores(table).tobytes()
    assert onnx_bytes(back) == onnx_bytes(model)


def test_a_domain_equals_the_one_that_is_read_back(tmp_path):
    model, table = of_people()
    back = load(model.save(tmp_path / "bundle"))
    model.scores(table), back.scores(table)
    assert back.domain == model.domain


@pytest.mark.parametrize("policies", POLICIES, ids=lambda p: f"{p.missing}-{p.unseen}-{p.outside}")
def test_a_bundle_gives_back_every_policy(policies, tmp_path):
    model, _ = of_people(policies=policies, activation="tanh")
    back = load(model.save(tmp_path / "bundle"))
    assert back.encoding.policies == policies and back.network.activation == "tanh" and bits(back) == bits(model)


def test_a_bundle_without_sensitive_inputs_gives_back_the_same_model(tmp_path):
    model, table = of_people(("sex", "age"), fair=True)
    back = load(model.save(tmp_path / "bundle", sensitive=False))
    assert inputs_of((tmp_path / "bundle" / "model.onnx").read_bytes()) == ["income", "job", "owner", "race"]
    assert bits(back) == bits(model) and back.domain == model.domain
    assert back.scores(table).tobytes() == model.scores(table).tobytes()
    assert back.verify(timeout=20).proof == "structural"


def test_a_trained_bundle_keeps_certificate_and_predictions(trained, tmp_path):
    classifier, table = trained("compas")
    folder, archive = classifier.save(tmp_path / "bundle"), classifier.save(tmp_path / "bundle.zip")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["certificate.json", "domain.json", "model.onnx", "report.html"]
    with zipfile.ZipFile(archive) as content:
        assert sorted(content.namelist()) == names
        assert all(content.read(name) == (folder / name).read_bytes() for name in names)
    for place in (folder, archive):
        back = load(place)
        assert bits(back) == bits(classifier.model_) and back.certificate == classifier.certificate_
        assert back.predict_proba(table).tobytes() == classifier.model_.predict_proba(table).tobytes()
    again = classifier.save(tmp_path / "again.zip")
    assert again.read_bytes() == archive.read_bytes()
