"""Training on a table read in windows: the same numbers as in memory, fair after every epoch, resumed exactly."""

import dataclasses
import json
from typing import ClassVar

import jax
import numpy as np
import pytest

from bornfair.core import checkpoint
from bornfair.core.errors import InputError
from bornfair.people import sources, survey
from bornfair.people.domain import Domain
from bornfair.people.policies import Policies
from bornfair.people.sources import Source
from bornfair.training import cache as caching
from bornfair.training import streamed_fit, streaming
from bornfair.training.cache import KEPT_ASIDE, TRAINING, VALIDATION, Layout, RowShares
from bornfair.training.fitting import Recipe
from bornfair.training.hosts import Hosts
from bornfair.training.loops import inputs_of
from bornfair.training.options import TrainingOptions
from bornfair.training.provenance import Calibration
from bornfair.training.streamed_fit import fit_streamed, survey_table
from samples import make_people

pytestmark = pytest.mark.slow

ROWS = 1200


@pytest.fixture(scope="module")
def people():
    table = make_people(ROWS, seed=3)
    table["income"] = table["income"].where(np.arange(ROWS) % 9 > 0)
    table["dependants"] = np.where(np.arange(ROWS) % 7 == 0, np.nan, np.arange(ROWS) % 4)
    table["code"] = np.arange(ROWS) * 7919 % 400  # more values than a byte holds
    table["plant"] = [f"p{number * 31 % 300}" for number in range(ROWS)]
    return table


@pytest.fixture(scope="module")
def streamed(people, tmp_path_factory):
    """The table in files, looked at once in small batches, with a domain and its encoded rows."""
    folder = tmp_path_factory.mktemp("streamed")
    for number in range(3):
        people.iloc[400 * number : 400 * number + 400].to_parquet(folder / f"{number}.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CELLS", 10 * 90)
        patch.setattr(sources, "LEAST_ROWS", 1)
        patch.setattr(survey, "SAMPLE_ROWS", (700, 700))
        table = survey_table(Source.at(folder), "grant", ["sex"])
    shown = table.survey.representative(sensitive=["sex"], without=["grant"])
    return table, Domain.infer(shown, sensitive=["sex"]).replaced(label=table.label)


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK", 32)
    monkeypatch.setattr(streaming, "WINDOW", 300)


def fitted(streamed, folder, *, options=None, **more):
    table, domain = streamed
    chosen = {
        "hidden": [8],
        "embedding": "piecewise",
        "bins": 4,
        "epochs": 3,
        "batch_size": 32,
        "learning_rate": 0.01,
    } | (options or {})
    recipe = Recipe.of(TrainingOptions(**chosen), 0)
    more = {"test_fraction": 0.2, "policies": Policies(unseen="ignore")} | more
    return fit_streamed(table, domain, recipe, folder=folder, **more)


@pytest.fixture(scope="module")
def whole_run(streamed, tmp_path_factory):
    """A run that nothing interrupts, the first layer after every epoch, and its cache."""
    folder, seen = tmp_path_factory.mktemp("run"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "BLOCK", 32)
        patch.setattr(streaming, "WINDOW", 300)
        found = fitted(streamed, folder, callbacks=(lambda epoch: seen.append(epoch.network()),))
    return found, seen, folder


def test_a_cached_row_is_the_encoded_row_bit_for_bit(streamed, people, whole_run):
    (found, _), _, _ = whole_run
    encoding = found.model.encoding
    layout = Layout(encoding, streamed[0].survey)
    assert (layout.words, layout.numbers) == (["plant"], ["income", "code"])
    assert {"age", "job", "owner", "race", "dependants"} == set(layout.bytes_)
    rows = layout.encode(people, np.zeros(ROWS, int))
    free = encoding.encode(people).free
    assert layout.free(rows).tobytes() == free.tobytes()
    expansion = [{name: np.asarray(part) for name, part in one.items()} for one in layout.expansion(found.embedding)]
    table = {"byte": rows["bytes"], "word": rows["words"], "number": rows["numbers"], "expansion": expansion}
    ours = jax.jit(inputs_of)(table, np.arange(ROWS))
    np.testing.assert_allclose(ours, found.embedding.columns(free), atol=1e-6, rtol=0)


def test_gaps_and_unknown_categories_are_treated_as_in_memory(streamed, people, whole_run):
    encoding = whole_run[0][0].model.encoding
    layout = Layout(encoding, streamed[0].survey)
    strange = people.head(4).assign(job=["clerk", "astronaut", "nurse", "smith"])
    assert layout.free(layout.encode(strange, np.zeros(4, int))).tobytes() == encoding.encode(strange).free.tobytes()
    for column, value, said in (
        ("job", None, "missing value"),
        ("owner", "maybe", "'maybe'"),
        ("age", None, "missing"),
    ):
        with pytest.raises(InputError, match=said):
            layout.encode(people.head(4).assign(**{column: [value, *people[column][1:4]]}), np.zeros(4, int))


def test_a_table_that_changes_while_it_is_read_is_refused(streamed, people, whole_run):
    layout = Layout(whole_run[0][0].model.encoding, streamed[0].survey)
    for age in (3, 400):
        with pytest.raises(InputError, match="'age' holds numbers now that it did not hold"):
            layout.encode(people.head(1).assign(age=age), np.zeros(1, int))


def test_who_is_kept_aside_is_decided_by_address_and_seed(streamed, whole_run):
    shares, addresses = RowShares.of(ROWS, 0.2, 0.1), np.arange(ROWS, dtype=np.uint64)
    where = shares.parts(addresses, 0)
    assert where[500:].tolist() == shares.parts(addresses[500:], 0).tolist()
    assert where.tolist() != shares.parts(addresses, 1).tolist()
    counts = json.loads((whole_run[2] / "cache.json").read_text())["counts"]
    assert sum(counts.values()) == ROWS and 150 < counts[KEPT_ASIDE] < 330 and 50 < counts[VALIDATION] < 150
    assert RowShares.of(10**9, 0.2, 0.1) == RowShares(0.002, 0.002)


def test_every_epoch_of_a_streamed_training_is_fair_and_learns(whole_run):
    (found, figures), seen, _ = whole_run
    width = found.embedding.width
    free = found.model.encoding.free_width
    assert len(seen) == 3 and width > 0
    for network in seen:
        assert not network.sensitive_weights(free).any()
    assert found.training.collapsed and found.model.certificate.verdict.proof == "structural"
    losses = [record.loss for record in found.training.history]
    assert losses[2] < losses[0] < 0.8
    assert figures["accuracy"] > 0.6 and figures["empirical_fairness"] == 1.0
    assert [one["on"] for one in found.model.certificate.training["measured"]][-1] == "rows kept aside"


@pytest.mark.parametrize("stop", [2, 6])
def test_killed_within_an_epoch_and_resumed_it_ends_with_the_same_bytes(
    stop, streamed, whole_run, tmp_path, monkeypatch
):
    monkeypatch.setattr(streaming, "SAVED_EVERY", 0.0)
    calls = []

    def killed(*_):
        calls.append(1)
        if len(calls) == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(streamed, tmp_path / "rows", checkpoint_path=tmp_path / "saved", resume=True, told=killed)
    assert (tmp_path / "saved").exists()
    before = (tmp_path / "rows" / "training.rows").stat().st_mtime_ns
    found, figures = fitted(streamed, tmp_path / "rows", checkpoint_path=tmp_path / "saved", resume=True)
    assert (tmp_path / "rows" / "training.rows").stat().st_mtime_ns == before  # nothing is encoded again
    expected, measured = whole_run[0]
    assert figures == measured
    for ours, theirs in zip(found.model.network.layers, expected.model.network.layers, strict=True):
        assert ours.weight.tobytes() == theirs.weight.tobytes() and ours.bias.tobytes() == theirs.bias.tobytes()
    assert found.training.history[0].loss == expected.training.history[0].loss
    with pytest.raises(InputError, match="belongs to a run with"):
        fitted(streamed, tmp_path / "rows", checkpoint_path=tmp_path / "saved", resume=True, balanced=True)


def test_calibration_is_by_the_validation_rows_and_counts_as_training_does(streamed, whole_run, monkeypatch):
    given = []

    def doubled(*rows):
        given.append(rows)
        return Calibration(2.0, (0.5,), 1)

    monkeypatch.setattr(streamed_fit, "calibration", doubled)
    folder = whole_run[2]  # nothing is encoded again
    found, _ = fitted(streamed, folder, options={"calibrate": True, "epochs": 0}, balanced=True)
    [(scores, answers, weights)] = given
    rows = json.loads((folder / "cache.json").read_text())["counts"]
    assert scores.shape == (rows[VALIDATION], 1) and len(answers) == rows[VALIDATION] != rows[TRAINING]
    np.testing.assert_array_equal(weights, caching.balancing(answers))
    last, trained = found.model.network.layers[-1], found.training.network.layers[-1]
    np.testing.assert_allclose(last.weight, 2 * trained.weight)
    np.testing.assert_allclose(last.bias, 2 * trained.bias + 0.5)


def test_a_window_is_dealt_out_so_that_every_row_comes_once(streamed, whole_run):
    (found, _), _, folder = whole_run
    layout = Layout(found.model.encoding, streamed[0].survey)
    facts = json.loads((folder / "cache.json").read_text())
    cache = caching.Cache(folder, layout, facts["counts"], facts["classes"], facts["mark"])
    plan = Recipe.of(TrainingOptions(hidden=[8], epochs=1, batch_size=32), 0).plan(ROWS)
    run = streaming.StreamedRun(found.training.members, cache, found.response, plan, None, found.embedding)
    rows = []
    for _, table, batches in run._windows(0, 0):
        places = np.asarray(batches).reshape(-1)
        rows += [np.asarray(table["number"])[0][places[places >= 0]]]
    mixed, all_rows = np.concatenate(rows), cache.read(TRAINING, 0, facts["counts"][TRAINING])["numbers"]
    assert mixed.shape == all_rows.shape and not np.array_equal(mixed, all_rows)
    order = lambda array: array[np.lexsort(array.T)]  # noqa: E731
    assert np.array_equal(order(mixed), order(all_rows))


class Second(Hosts):
    """The second of two processes, and what the first one says whenever all are asked."""

    answers: ClassVar[list[bytes]] = []

    def gathered(self, content):
        return [self.answers.pop(0), content]


def test_the_second_process_counts_all_rows_takes_the_checkpoint_of_the_first_and_writes_none(
    streamed, whole_run, tmp_path
):
    (found, _), _, folder = whole_run
    layout = Layout(found.model.encoding, streamed[0].survey)
    facts = json.loads((folder / "cache.json").read_text())
    cache = caching.Cache(folder, layout, facts["counts"], facts["classes"], facts["mark"])
    plan = Recipe.of(TrainingOptions(hidden=[8], epochs=1, batch_size=256, learning_rate=1e-9), 0).plan(ROWS)
    given = found.training.members, cache, found.response, plan, None, found.embedding
    second = Second(1, 2)
    second.answers[:] = [b"[1900, 50]", b"[1800, 100]"]
    run = streaming.StreamedRun(*given, second, balanced=True)
    rows = facts["counts"]
    assert (run.training, run.validation) == ((1900, rows[TRAINING]), (50, rows[VALIDATION]))
    assert run.steps == -(-1900 // 256) > -(-rows[TRAINING] // 256)
    together = np.add([1800, 100], facts["classes"][TRAINING])
    np.testing.assert_array_equal(run.weights, caching.class_weights(together.tolist()))
    alone = streaming.StreamedRun(*given, balanced=True)
    assert alone._order(0, 640).tolist() != run._order(0, 640).tolist()  # rows of their own, in orders of their own

    second.answers[:] = [b"another mark"]
    kept = jax.tree.map(lambda weight: 2 * weight, run.initial_state(None).parameters)
    state = dataclasses.replace(run.initial_state(None), parameters=kept)
    checkpoint.save(tmp_path / "first", state.saved(), expected=run._fingerprint())
    second.answers[:] = [b"another mark", b"there", (tmp_path / "first").read_bytes()]
    trained = run.trained((), tmp_path / "second", resume=True)
    assert not second.answers and not (tmp_path / "second").exists()
    last, first = trained.members[0].layers[-1].weight, found.training.members[0].layers[-1].weight
    np.testing.assert_allclose(last, 2 * first, rtol=1e-4)
    second.answers[:] = [b"other rows", b"there", (tmp_path / "first").read_bytes()]
    with pytest.raises(InputError, match="belongs to a run with"):
        run.trained((), tmp_path / "second", resume=True)
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="it is a folder; name a file"):
        alone.trained((), tmp_path, resume=True)
    with pytest.raises(InputError, match="is not a bornfair checkpoint"):
        alone.trained((), tmp_path / "empty", resume=True)


@pytest.mark.filterwarnings("ignore::bornfair.FairnessWarning")
def test_what_is_not_fair_by_construction_is_not_trained_in_batches(streamed, tmp_path):
    for options in ({"response": "sampled"}, {"response": "none"}, {"gamma": 1.0}, {"init": "near_zero"}):
        with pytest.raises(InputError, match="without its sensitive values"):
            fitted(streamed, tmp_path / "rows", options=options)
    with pytest.raises(InputError, match=r"taught=0\.5 needs the whole table in memory"):
        fitted(streamed, tmp_path / "rows", options={"taught": 0.5})
    assert not (tmp_path / "rows").exists()


def test_rows_that_cannot_be_kept_are_an_error_in_a_sentence(streamed, tmp_path):
    (tmp_path / "rows").write_text("a file")
    with pytest.raises(InputError, match=r"cannot keep the encoded table in .*--cache"):
        fitted(streamed, tmp_path / "rows")
