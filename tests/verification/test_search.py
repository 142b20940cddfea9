"""Search agrees with brute force wherever it comes to an end, and never calls fair what is not."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

import bornfair.verification.attack as attacking
import bornfair.verification.decide as deciding
import bornfair.verification.looking as looking
import bornfair.verification.search as engine
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.boxes import Places
from bornfair.people.twins.relation import flip_relation
from bornfair.proof.bundle import FairModel
from bornfair.verification.decide import decide
from bornfair.verification.search import search
from clocks import fast_clock, slow_clock
from oracle import disagreeing_twins, refutes

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)
SEX = CategoricalFeature(name="s", categories=("p", "q"))


def model_of(features, layers, outputs=1, sensitive=SEX, activation="relu"):
    """A model over these free features, with numbers taken as they are."""
    label = Label(name="y", classes=tuple(range(max(outputs, 2))))
    domain = Domain(features=(*features, sensitive), sensitive=(sensitive.name,), label=label)
    scales = {f.name: Scale(centre=0.0, exponent=0) for f in domain.features if f.kind in ("integer", "real")}
    return FairModel(Network(tuple(Layer(*layer) for layer in layers), activation), Encoding(domain, scales))


def random_model(rng, style, outputs, *, features=None):
    pool = [
        IntegerFeature(name="n", low=-2, high=int(rng.integers(-1, 6))),
        IntegerFeature(name="m", low=0, high=int(rng.integers(1, 5))),
        BooleanFeature(name="b"),
        CategoricalFeature(name="c", categories=("x", "y", "z")),
    ]
    kept = features or [f for f in pool if rng.random() < 0.7] or pool[:1]
    sensitive = CategoricalFeature(name="s", categories=("p", "q", "o")[: int(rng.integers(2, 4))])
    width = sum(len(f.levels()) if f.kind == "categorical" else 1 for f in kept) + (
        1 if len(sensitive.categories) == 2 else 3
    )
    sizes = [width, *(int(n) for n in rng.integers(1, 5, int(rng.integers(0, 3)))), outputs]
    layers = []
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        if style == "tame":
            weight, bias = rng.integers(-4, 5, (b, a)) / 2.0, rng.integers(-4, 5, b) / 2.0
        else:
            weight, bias = rng.normal(size=(b, a)), rng.normal(size=b)
        if style == "weak" and i == 0:
            weight[:, width - (1 if len(sensitive.categories) == 2 else 3) :] *= 10.0 ** rng.uniform(-7, -1)
        layers.append((weight, bias))
    return model_of(kept, layers, outputs, sensitive)


@settings(max_examples=100)
@given(SEEDS, st.sampled_from(["tame", "normal", "weak"]), st.sampled_from([1, 1, 3]))
def test_search_agrees_with_brute_force(seed, style, outputs):
    rng = np.random.default_rng(seed)
    model = random_model(rng, style, outputs)
    relation = flip_relation(model.encoding)
    verdict = search(model, timeout=60, batch=int(rng.choice([1, 7, 512])))
    unfair = disagreeing_twins(model.network, relation)
    assert verdict.answer != "undecided"
    if verdict:
        assert "real" in verdict.arithmetic
        assert refutes(model.network, relation, verdict.arithmetic, seed % 1000) is None
    else:
        assert verdict.twins is not None
        assert len(set(verdict.decisions or [])) == 2
        assert ("real" in verdict.arithmetic) <= (unfair is not None)
    if unfair is not None:
        assert verdict.answer == "falsified"


@settings(max_examples=40)
@given(SEEDS)
def test_search_without_looking_for_twins_agrees_too(seed):
    """The bounds alone, cut down to single people: the attack hides no mistake of theirs."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, "weak", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking.Looking, "_suspects", lambda *_, **__: [])
        patch.setattr(looking, "FEW", 1)
        verdict = search(model, timeout=60)
    unfair = disagreeing_twins(model.network, flip_relation(model.encoding))
    assert (unfair is not None) <= (verdict.answer == "falsified")
    assert bool(verdict) <= (unfair is None)


@settings(max_examples=15)
@given(SEEDS, st.sampled_from(["relu", "tanh", "sigmoid", "gelu"]))
def test_real_features_are_never_called_fair_wrongly(seed, activation):
    rng = np.random.default_rng(seed)
    features = (RealFeature(name="r", low=-1.0, high=2.0), IntegerFeature(name="n", low=0, high=3))
    layers = [(rng.normal(size=(3, 3)), rng.normal(size=3)), (rng.normal(size=(1, 3)), rng.normal(size=1) * 2)]
    layers[0][0][:, 2] *= 0.1
    model = model_of(features, layers, activation=activation)
    verdict = search(model, timeout=0.4)
    people = np.stack([rng.uniform(-1, 2, 3000), rng.integers(0, 4, 3000)], axis=1)
    scores = [model.network.scores(view(people))[:, 0] > 0 for view in flip_relation(model.encoding).views]
    if verdict:
        assert (scores[0] == scores[1]).all()


def hidden_person_model(width, where):
    """Everybody is refused, but for one person in (width + 1)^3, of one sex: 1 − Σ|x_k − where_k| + (s − 1)/2 > 0."""
    rows, biases = [], []
    for k, place in enumerate(where):
        for sign in (1.0, -1.0):
            row = np.zeros(4)
            row[k] = sign
            rows.append(row)
            biases.append(-sign * place)
    rows.append(np.array([0.0, 0, 0, 1.0]))
    biases.append(0.0)
    last = np.array([[-1.0] * 6 + [0.75]])
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=width) for k in range(3))
    return model_of(features, [(np.array(rows), np.array(biases)), (last, np.array([-0.5]))])


def test_one_unfair_person_among_a_million_million_is_found_or_nothing_is_claimed():
    model = hidden_person_model(10_000, (1234, 777, 9001))
    assert not search(model, timeout=0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking.Looking, "_suspects", lambda *_, **__: [])
        verdict = search(model, timeout=30)
    assert verdict.answer == "falsified"
    assert verdict.twins is not None
    assert [verdict.twins[0][f"x{k}"] for k in range(3)] == [1234, 777, 9001]


def test_a_million_million_people_without_the_unfair_one_are_verified():
    """The same network, with its peak half way between two lattice points."""
    model = hidden_person_model(10_000, (1234.5, 777, 9001))
    verdict = search(model, timeout=30)
    assert verdict
    assert verdict.arithmetic == ("real", "float32")
    assert verdict.proof == "bounds"
    assert verdict.engine == "bounds"


def test_an_effect_too_small_for_the_lattice_is_fair():
    """x − 2.5 ± 0.1 never changes sign on whole numbers, although no box around 2.5 has one sign."""
    features = (IntegerFeature(name="x", low=0, high=5), IntegerFeature(name="z", low=0, high=1000))
    model = model_of(features, [(np.array([[1.0, 0.0, 0.1]]), np.array([-2.5]))])
    verdict = search(model, timeout=30)
    assert verdict.arithmetic == ("real", "float32")
    assert not engine.prove_structurally(model.network, flip_relation(model.encoding))


def test_an_effect_clipped_by_dead_neurons_is_fair_even_on_the_boundary():
    first = np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([0.0, -2.0])
    model = model_of((RealFeature(name="x", low=-1.0, high=1.0),), [first, (np.array([[1.0, 5.0]]), np.array([-0.3]))])
    verdict = search(model, timeout=30)
    assert verdict.arithmetic == ("real", "float32")


def test_what_holds_in_real_arithmetic_only_is_said_to():
    """(x + 1e7) − (1e7 + s/100) − 1/2 has the sign of x − 1/2; in float32 that depends on the order of summation."""
    first = np.array([[1.0, 0.0], [0.0, 0.01]]), np.array([1e7, 1e7])
    model = model_of((IntegerFeature(name="x", low=0, high=40),), [first, (np.array([[1.0, -1.0]]), np.array([-0.5]))])
    assert search(model, timeout=30).arithmetic == ("real",)
    assert search(model, timeout=30, arithmetic=("real",)).arithmetic == ("real",)
    assert search(model, timeout=30, arithmetic=("float32",)).answer == "undecided"


def test_weights_that_cancel_in_real_arithmetic_only_keep_their_structural_proof():
    """Two sensitive columns whose weights cancel for every value of S, with the boundary inside the domain."""
    sensitive = CategoricalFeature(name="s", categories=("p", "q", "o"))
    layers = [(np.array([[1.0, 0.7, 0.7, 0.7]]), np.array([0.1]))]
    model = model_of((RealFeature(name="x", low=-1.0, high=1.0),), layers, sensitive=sensitive)
    codes = model.encoding.codes.sum(axis=1)
    verdict = search(model, timeout=0.5)
    assert (codes == 0).all()
    assert verdict.arithmetic in [("real",), ("float32",)]
    assert verdict.answer == ("verified" if verdict.arithmetic == ("real",) else "falsified")
    assert not search(model, timeout=0.2, arithmetic=("float32",))


def test_many_views_and_many_classes():
    rng = np.random.default_rng(4)
    sensitive = IntegerFeature(name="s", low=0, high=11)
    features = (IntegerFeature(name="x", low=0, high=9), CategoricalFeature(name="c", categories=("u", "v", "w")))
    for strength in (0.0001, 0.5):
        weight = rng.normal(size=(6, 5))
        weight[:, 4] *= strength
        model = model_of(features, [(weight, rng.normal(size=6)), (rng.normal(size=(4, 6)), rng.normal(size=4))], 4,
                         sensitive)  # fmt: skip
        verdict = search(model, timeout=30)
        unfair = disagreeing_twins(model.network, flip_relation(model.encoding))
        assert verdict.answer == ("verified" if unfair is None else "falsified")


def stopped_after(judged, model, file, **options):
    """A search that is interrupted after so many batches of boxes."""
    calls, judge = itertools.count(), engine.LinearBounds.judge

    def interrupt(self, *arguments):
        if next(calls) == judged:
            raise KeyboardInterrupt
        return judge(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.LinearBounds, "judge", interrupt)
        return search(model, timeout=30, resume=file, **options)


def test_an_interrupted_search_goes_on_to_the_same_verdict_with_less_work(tmp_path):
    file, said, rng = tmp_path / "cuts", [], np.random.default_rng(3)
    weight = rng.normal(size=(8, 5)) * [1, 1, 1, 1, 0.0003]
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=15) for k in range(4))
    model = model_of(features, [(weight, 4 * rng.normal(size=8)), (rng.normal(size=(1, 8)), np.array([0.3]))])
    assert search(model, timeout=0.0, resume=file).answer == "undecided" and file.exists()
    whole = search(model, timeout=30, batch=16)
    first = stopped_after(whole.boxes // 20, model, file, batch=16, say=said.append)
    assert first.answer == "undecided" and first.reason.startswith("interrupted") and first.boxes > 0 and said
    last = search(model, timeout=30, resume=file, batch=16)
    assert (last.answer, last.arithmetic) == (whole.answer, whole.arithmetic) == ("verified", ("real", "float32"))
    assert last.boxes < 0.75 * whole.boxes, "what was cut is not bounded again"
    assert not file.exists(), "nothing is left to go on with"


def test_a_file_of_another_question_is_refused(tmp_path):
    file = tmp_path / "cuts"
    search(hidden_person_model(300, (123.5, 77, 201)), timeout=0.0, resume=file)
    with pytest.raises(InputError, match="belongs to a run with another model"):
        search(hidden_person_model(300, (124.5, 77, 201)), timeout=0.0, resume=file)
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="is not a bornfair checkpoint"):
        search(hidden_person_model(300, (123.5, 77, 201)), timeout=0.0, resume=file)


def forged(file, rng, change):
    """Put something else into a saved search, under the same digest."""
    tensors = read_tensors(file.read_bytes())
    change(tensors, rng)
    file.write_bytes(tensor_bytes({name: np.ascontiguousarray(array) for name, array in tensors.items()}))


def shuffled(tensors, rng):
    rng.shuffle(tensors["parents"])


def random_columns(tensors, rng):
    tensors["columns"] = rng.integers(0, tensors["columns"].max(initial=0) + 1, len(tensors["columns"]), np.int32)


def random_categories(tensors, rng):
    tensors["kept"] = rng.integers(0, 256, tensors["kept"].shape).astype(np.uint8)


def its_own_child(tensors, rng):
    tensors["parents"] = np.minimum(2 * np.arange(len(tensors["parents"])) + 1, 2 * len(tensors["parents"]))


def missing_cuts(tensors, rng):
    keep = rng.random(len(tensors["parents"])) < 0.5
    for name in ("parents", "columns", "kept"):
        tensors[name] = tensors[name][keep]
    tensors["parents"] = np.minimum(tensors["parents"], 2 * keep.sum())


FORGERIES = [shuffled, random_columns, random_categories, its_own_child, missing_cuts]


@settings(max_examples=30)
@given(seed=SEEDS, change=st.sampled_from(FORGERIES), stop=st.integers(1, 6))
def test_whatever_a_file_holds_the_answeris_that_of_counting_out(seed, change, stop):
    rng = np.random.default_rng(seed)
    model = random_model(rng, "normal", 1)
    unfair = disagreeing_twins(model.network, flip_relation(model.encoding)) is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cuts"
        stopped_after(stop, model, file, batch=1, arithmetic=("real",))
        if file.exists():
            forged(file, rng, change)
        verdict = search(model, timeout=30, resume=file, arithmetic=("real",))
    assert verdict.answer == ("falsified" if unfair else "verified")


def test_an_unfair_model_is_not_verified_by_a_file_without_open_boxes(tmp_path):
    """The whole is always there, however little a file says of it."""
    file, model = tmp_path / "cuts", hidden_person_model(300, (123, 77, 201))
    stopped_after(3, model, file, batch=8)

    def nothing(tensors, _):
        for name in ("parents", "columns", "kept"):
            tensors[name] = tensors[name][:0]

    forged(file, None, nothing)
    assert search(model, timeout=30, resume=file).answer == "falsified"


@pytest.mark.parametrize(
    "change",
    [
        lambda t, _: t.pop("columns"),
        lambda t, _: t.update(columns=t["columns"] + 100),
        lambda t, _: t.update(columns=-1 - t["columns"]),
        lambda t, _: t.update(parents=t["parents"] + 10_000),
        lambda t, _: t.update(parents=t["parents"] - 1),
        lambda t, _: t.update(parents=t["parents"] * np.nan),
        lambda t, _: t.update(parents=t["parents"][:-1]),
        lambda t, _: t.update(kept=t["kept"][:, :0]),
        lambda t, _: t.update(kept=t["kept"][0]),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, change):
    file, model = tmp_path / "cuts", hidden_person_model(300, (123.5, 77, 201))
    stopped_after(6, model, file, batch=8)
    forged(file, None, change)
    with pytest.raises(InputError, match=r"is not a search that can be resumed; delete it"):
        search(model, timeout=30, resume=file)


def test_depth_first_beyond_the_cap_ends_with_the_same_verdict():
    model = hidden_person_model(100, (12.5, 7, 31))
    assert search(model, timeout=30, most_boxes=2, batch=3)


def test_undecided_says_how_much_is_decided():
    verdict = search(hidden_person_model(10_000, (1234.5, 777, 9001)), timeout=0.0)
    assert "0.0000 % of the domain is decided" in verdict.reason
    assert "open boxes" in verdict.reason


def test_people_who_are_nothing_but_sensitive():
    for weight, answer in ((0.5, "verified"), (2.0, "falsified")):
        model = model_of((), [(np.array([[weight]]), np.array([1.0]))])
        assert search(model, timeout=10).answer == answer


def test_domains_too_large_to_count_are_measured():
    """10^400 people: shares are computed from logarithms."""
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=9999) for k in range(100))
    weight = np.concatenate([np.full((1, 100), 1e-4), np.array([[1.0]])], axis=1)
    model = model_of(features, [(weight, np.array([-50.0]))])
    verdict = search(model, timeout=0.3)
    assert verdict.answer in ("undecided", "falsified")
    sure = model_of(features, [(weight, np.array([-200.0])), (np.array([[1.0]]), np.array([-1.0]))])
    assert search(sure, timeout=10)


@pytest.mark.parametrize("wrong", [{"arithmetic": ("float64",)}, {"batch": 0}, {"timeout": float("nan")}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(InputError):
        search(hidden_person_model(3, (1, 1, 1)), **({"timeout": 1.0} | wrong))


@settings(max_examples=40)
@given(SEEDS)
def test_cutting_loses_nobody(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, "normal", 1)
    places = Places(flip_relation(model.encoding).free)
    boxes = places.root
    for _ in range(4):
        noise = rng.normal(size=(2, len(boxes), places.free.width))
        first, second, cuttable = places.cut(boxes, np.abs(noise[0]), noise[1])
        boxes = boxes.joined(first, second, boxes[~cuttable])
    people, _ = places.everybody(boxes)
    everybody, _ = places.everybody(places.root)
    assert sorted(map(tuple, people)) == sorted(map(tuple, everybody))
    assert places.share(boxes).sum() == pytest.approx(1)
    assert places.count(boxes).sum() == len(everybody)


def test_a_number_of_boxes_gives_the_same_answerwhatever_the_clock_says(monkeypatch):
    monkeypatch.setattr(deciding, "LOOKS", 3000)
    monkeypatch.setattr(attacking, "FIRST", 4)
    answers = set()
    for seed in range(6):
        model = random_model(np.random.default_rng(seed), ("weak", "normal")[seed % 2], 1)
        fast, slow = (decide(model, timeout=clock, most_boxes=20) for clock in (fast_clock(), slow_clock()))
        assert (fast.answer, fast.engine, fast.twins) == (slow.answer, slow.engine, slow.twins)
        assert fast.boxes == slow.boxes
        answers.add(fast.engine)
    assert "attack" in answers and len(answers) > 1
