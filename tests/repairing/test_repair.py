"""Repair end to end: a table and an unfair model in, a certified fair one and an account of the changes out."""

import json
import types

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from bornfair import Domain, FairClassifier, load
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.encoding import Encoding
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker
from bornfair.proof.bundle import FairModel, bundle_files
from bornfair.questions.repairing import compare, repair
from bornfair.questions.repairing.networks import Lesson, fine_tune
from samples import make_people

pytestmark = pytest.mark.slow

NNET = (  # 3 inputs, 2 neurons, 1 output
    "2,3,1,2,\n3,2,1,\n0,\n0,0,0,\n99,9,1,\n0,0,0,0,\n1,1,1,1,\n"
    "0.02,0.4,2,\n-0.03,0.1,-1,\n-2.5,\n0.5,\n1,-2,\n-0.25,\n"
)


@pytest.fixture(scope="module")
def people():
    return make_people(400, seed=11)


@pytest.fixture(scope="module")
def unfair(people):
    plain = FairClassifier(["sex"], response="none", hidden=[16], epochs=40, random_state=1)
    return plain.fit(people.drop(columns="grant"), people["grant"])


@pytest.fixture(scope="module")
def repaired(unfair, people):
    return repair(unfair, people, target="grant", epochs=8, seed=3)


@pytest.fixture(scope="module")
def network_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("nnet") / "net.nnet"
    path.write_text(NNET)
    return path


@pytest.fixture(scope="module")
def numbers():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"pay": random.integers(0, 100, 300), "rank": random.integers(0, 10, 300)})
    table["sex"] = (random.random(300) < 0.3 + 0.04 * table["rank"]).astype(int)
    return table.assign(ok=(table["pay"] / 40 + 0.4 * table["rank"] > 3).astype(int))


def test_an_unfair_model_becomes_verified_and_the_checker_agrees(unfair, repaired):
    assert not unfair.verify(timeout=5)
    assert repaired.verdict == "verified" and repaired.model.ignores_sensitive
    assert repaired.model.verify().proof == "structural"
    found = checker.check_files(bundle_files(repaired.model))
    assert found["valid"] and found["verdict"] == "verified"
    assert repaired.fairness_before < 1 == repaired.model.empirical_fairness(make_people(200, seed=5))


def test_fine_tuning_never_ends_with_a_larger_validation_loss_than_the_projection(repaired):
    projected, after = repaired.validation_loss
    assert after <= projected and (repaired.taught_by == "labels") == (after < projected)


def test_what_is_measured_is_measured_on_rows_kept_aside(repaired, people):
    assert repaired.changes.rows == 80
    assert sum(group.rows for group in repaired.changes.groups) == 80
    assert [group.name for group in repaired.changes.groups] == ["sex female", "sex male"]
    total = sum(group.changed * group.rows for group in repaired.changes.groups)
    assert total == pytest.approx(80 * repaired.changed) and sum(repaired.changes.now.values()) == round(total)


def test_people_shown_as_examples_really_are_decided_differently(unfair, repaired):
    assert repaired.changes.examples
    shown = pd.DataFrame([example.person for example in repaired.changes.examples])
    assert list(unfair.predict(shown)) == [example.before for example in repaired.changes.examples]
    assert list(repaired.model.predict(shown)) == [example.after for example in repaired.changes.examples]
    assert all(example.before != example.after for example in repaired.changes.examples)


def test_the_account_is_json_and_the_certificate_says_how_the_model_came_about(repaired):
    facts = json.loads(json.dumps(repaired.to_json()))
    assert {"verdict", "accuracy_before", "accuracy_after", "changed", "changes", "candidates"} <= set(facts)
    certificate = repaired.model.certificate
    assert certificate.start["attempts"][0]["verdict"] == "verified"
    assert certificate.training["repair"]["share"] == repaired.blend
    assert certificate.training["sensitive_weights_untouched"] is True


def test_the_same_seed_gives_the_same_bytes(unfair, people, repaired):
    again = repair(unfair, people, target="grant", epochs=8, seed=3)
    assert bundle_files(again.model) == bundle_files(repaired.model)


def test_without_labels_the_original_is_the_teacher(unfair, people):
    found = repair(unfair, people, epochs=8, seed=3)
    assert found.accuracy_before is None and found.verdict == "verified" and found.taught_by in ("original", "nobody")
    assert found.validation_loss[1] <= found.validation_loss[0]
    assert found.changed < 0.5  # most people are decided as before, though sex decides a lot in this table


def test_plain_drops_what_was_known_and_least_squares_moves_it_to_what_goes_with_it(people, unfair):
    known = people.assign(owner=people["sex"] == "male")  # a perfect proxy
    plain, moved = (repair(unfair, known, fine_tune=False, **how) for how in ({}, {"method": "least_squares"}))
    assert (plain.blend, moved.blend) == (0.0, 1.0) and "moves what the model knew" in moved.note and not plain.note
    assert moved.candidates[0].first_layer_error < 0.05 * plain.candidates[0].first_layer_error
    assert moved.changed <= plain.changed and moved.verdict == plain.verdict == "verified"
    assert moved.taught_by == "nobody" and moved.epochs_run == 0


def test_the_closest_projection_is_chosen_unless_another_is_clearly_more_accurate(unfair, people):
    repaired = repair(unfair, people, target="grant", method="auto", epochs=0, seed=3)
    best = max(candidate.accuracy for candidate in repaired.candidates)
    chosen = next(c for c in repaired.candidates if c.blend == repaired.blend)
    closer = [c for c in repaired.candidates if c.distance < chosen.distance]
    assert chosen.accuracy > best - 0.1 and all(c.accuracy < best - 0.01 for c in closer)


def test_a_model_can_be_repaired_for_features_it_was_not_trained_to_protect(unfair, people):
    found = repair(unfair, people, sensitive_features=["race", "age"], target="grant", fine_tune=False)
    assert found.verdict == "verified" and found.model.domain.sensitive == ("race", "age")
    assert "sex" in found.model.domain.free_names
    np.testing.assert_allclose(found.original.scores(people), unfair.model_.scores(people), atol=1e-4)
    assert found.fairness_before < 1 and any(" to " in group.name for group in found.changes.groups)


def test_declared_twins_are_repaired_too(unfair, people):
    found = repair(unfair, people, target="grant", epochs=2, twins="sex: female<->male, job: nurse<->smith")
    assert found.verdict == "verified"
    assert Versions(found.model.domain).size == 4 and found.model.empirical_fairness(people) == 1.0
    swapped = people.assign(job=people["job"].map({"nurse": "smith", "smith": "nurse", "clerk": "clerk"}))
    assert np.array_equal(found.model.scores(swapped), found.model.scores(people))
    assert checker.check_files(bundle_files(found.model))["valid"]


def test_a_network_of_raw_numbers_becomes_a_bundle_that_takes_the_tables_columns(network_file, numbers, tmp_path):
    found = repair(network_file, numbers, sensitive_features=["sex"], target="ok", epochs=5)
    assert found.verdict == "verified" and found.model.domain.names == ("pay", "rank", "sex")
    assert not found.model.encoding.raw and found.fairness_before < 1
    found.model.save(tmp_path / "bundle")
    again = load(tmp_path / "bundle")
    assert np.array_equal(again.predict(numbers.drop(columns=["sex", "ok"])), found.model.predict(numbers))
    assert checker.check(tmp_path / "bundle")["valid"]
    x = numbers[["pay", "rank", "sex"]].to_numpy(np.float64)
    hidden = np.maximum(x @ np.array([[0.02, 0.4, 2], [-0.03, 0.1, -1]]).T + [-2.5, 0.5], 0)
    by_hand = hidden @ [1, -2] - 0.25
    np.testing.assert_allclose(found.original.decision_function(numbers), by_hand, atol=1e-4)


def test_several_classes_can_be_repaired(people):
    random = np.random.default_rng(2)
    domain = Domain.infer(people.drop(columns="grant"), sensitive=["sex"])
    domain = domain.replaced(label={"name": "band", "classes": ["a", "b", "c"]})
    encoding = Encoding.fit(domain, people)
    layers = [Layer(random.normal(size=(b, a)), np.zeros(b)) for a, b in ((encoding.width, 8), (8, 3))]
    found = repair(FairModel(Network(tuple(layers)), encoding), people, epochs=2)
    assert found.verdict == "verified" and found.model.network.outputs == 3
    assert found.validation_loss[1] <= found.validation_loss[0]


def test_rows_to_measure_on_can_be_given(unfair, people):
    found = repair(unfair, people, target="grant", epochs=0, test=make_people(50, seed=99))
    assert found.changes.rows == 50 and found.accuracy_after is not None


def test_a_teacher_who_is_certain_teaches_as_labels_do():
    random = np.random.default_rng(0)
    free = random.normal(size=(64, 3)).astype(np.float32)
    classes = (free[:, 0] > 0).astype(np.int64)
    data = Lesson(free, np.eye(2)[classes]).data()
    assert data.weights is None and np.array_equal(data.free, free) and np.array_equal(data.classes, classes)
    shares = np.stack([np.full(64, 0.25), np.full(64, 0.75)], axis=1)
    soft = Lesson(free, shares).data()
    assert len(soft.classes) == 128 and soft.weights.sum() == pytest.approx(64)
    network = Network((Layer(np.zeros((1, 4)), np.zeros(1)),))
    assert Lesson(free, shares).loss(network) == pytest.approx(np.log(2))


def test_fine_tuning_keeps_the_sensitive_weights_bitwise_zero_and_the_start_if_nothing_is_better():
    random = np.random.default_rng(1)
    free = random.normal(size=(200, 3)).astype(np.float32)
    lesson = Lesson(free, np.eye(2)[(free @ [1, -1, 0.5] > 0).astype(np.int64)])
    weight = np.concatenate([random.normal(size=(6, 3)), np.zeros((6, 2))], axis=1)
    start = Network((Layer(weight, np.zeros(6)), Layer(random.normal(size=(1, 6)), np.zeros(1))))
    tuned = fine_tune(start, lesson, lesson, epochs=5, seed=0)
    assert tuned.loss < tuned.start_loss and not tuned.network.sensitive_weights(3).any()
    still = fine_tune(start, lesson, lesson, epochs=0, seed=0)
    assert still.network is start and still.plan is None and still.loss == still.start_loss


def test_a_repair_of_a_fair_model_changes_nothing_it_need_not(people, repaired):
    again = repair(repaired.model, people.drop(columns="sex"), fine_tune=False)
    assert again.changed == 0 and again.fairness_before == 1.0 and again.changes.groups == ()
    assert bundle_files(again.model)["model.onnx"] == bundle_files(repaired.model)["model.onnx"]


def test_two_models_can_be_compared_on_any_rows(unfair, repaired):
    rows = make_people(60, seed=1)
    same = compare(unfair.model_, unfair.model_, rows)
    assert same.changed == 0 and same.distance == 0 and same.examples == ()
    other = compare(unfair.model_, repaired.model, rows, examples=1)
    assert other.distance > 0 and len(other.examples) <= 1


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda t: t, {"target": "grnt"}, r"target 'grnt' is not in the table; did you mean 'grant'"),
        (lambda t: t, {"sensitive_features": ["sx"]}, r"sensitive feature 'sx' is not known; the features are"),
        (lambda t: t.drop(columns="sex"), {}, r"feature that the model reads, 'sex' is not in the table"),
        (lambda t: t.drop(columns="job"), {}, r"feature that the model reads, 'job' is not in the table"),
        (lambda t: t.assign(grant="yes"), {"target": "grant"}, r"target 'grant' has one class only, 'yes'"),
        (lambda t: t.assign(grant="maybe"), {"target": "grant"}, r"holds 'maybe', which is not one of the model's cl"),
        (lambda t: t.head(12), {"target": "grant"}, r"the table has 12 rows; a repair needs at least 20"),
        (lambda t: t, {"epochs": -1}, r"epochs must be a whole number of at least 0, found -1"),
        (lambda t: t, {"method": "magic"}, r"method='magic' is not known; use one of 'auto', 'plain'"),
        (lambda t: t, {"twins": "job: nurse<->smth"}, r"'job' has no value 'smth'; did you mean 'smith'"),
        (lambda t: t, {"target": "grant", "sensitive_features": ["grant"]}, r"sensitive feature 'grant' is not known"),
    ],
)
def test_what_cannot_be_repaired_is_explained(unfair, people, change, options, message):
    with pytest.raises(InputError, match=message):
        repair(unfair, change(people), **options)


def test_unnamed_inputs_need_as_many_columns_and_a_sensitive_feature(network_file, numbers):
    with pytest.raises(InputError, match="takes 3 numbers, but the table has 2 columns besides the target"):
        repair(network_file, numbers.drop(columns="rank"), target="ok", sensitive_features=["sex"])
    with pytest.raises(
        InputError,
        match="name the sensitive features of the model, by name or position; it reads 'pay', 'rank', 'sex'",
    ):
        repair(network_file, numbers, target="ok")
    with pytest.raises(InputError, match="holds 'no', which is not one of the model's classes 0, 1"):
        repair(network_file, numbers.assign(ok="no"), target="ok", sensitive_features=["sex"])


# --- the command ---


@pytest.fixture
def command():
    from bornfair.cli.repair import repair as run

    app = typer.Typer()
    app.command()(run)
    return types.SimpleNamespace(run=lambda *words: CliRunner().invoke(app, [str(word) for word in words]))


def test_the_command_writes_a_bundle_and_one_json_document(command, unfair, people, tmp_path):
    unfair.save(tmp_path / "unfair")
    people.to_csv(tmp_path / "people.csv", index=False)
    words = [tmp_path / "unfair", "--data", tmp_path / "people.csv", "--target", "grant", "--epochs", 2]
    done = command.run(*words, "--out", tmp_path / "fair", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["verdict"] == "verified" and facts["bundle"] == str(tmp_path / "fair")
    assert checker.check(tmp_path / "fair")["valid"]
    shown = command.run(*words, "--out", tmp_path / "fair.zip")
    assert shown.exit_code == 0 and "Whose decision changed" in shown.stdout and "verified" in shown.stdout
    assert (tmp_path / "fair.zip").is_file()


def test_the_command_leaves_other_peoples_folders_alone_and_writes_nothing_on_errors(command, unfair, people, tmp_path):
    unfair.save(tmp_path / "unfair")
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    words = [tmp_path / "unfair", "--data", tmp_path / "people.csv"]
    refused = command.run(*words, "--out", tmp_path / "mine")
    assert isinstance(refused.exception, InputError) and "is left alone" in str(refused.exception)
    wrong = command.run(*words, "--sensitive", "planet", "--out", tmp_path / "new")
    assert isinstance(wrong.exception, InputError) and not (tmp_path / "new").exists()


def test_a_domain_can_name_the_inputs(network_file, numbers):
    features = [
        {"kind": "integer", "name": name, "low": 0, "high": high}
        for name, high in (("pay", 99), ("rank", 9), ("sex", 1))
    ]
    domain = Domain.from_json(json.dumps({"features": features, "label": {"name": "ok", "classes": [0, 1]}}))
    found = repair(network_file, numbers, domain=domain, sensitive_features=["sex"], target="ok", fine_tune=False)
    assert isinstance(found.model, FairModel) and found.verdict == "verified"
