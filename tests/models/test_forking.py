"""A forked process predicts: gunicorn --preload, Celery and multiprocessing fork after a model was loaded or fitted."""

from __future__ import annotations

import functools
import multiprocessing
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from bornfair import FairClassifier, FairWrapper
from bornfair.core.errors import InputError
from bornfair.models import onnx_worker
from bornfair.models.network.network import PerProcess
from bornfair.proof.bundle import load_bundle

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*"),  # JAX and Python warn of it
]
HANGS = 60.0  # seconds; only a process that hangs takes so long


def answer(ask: Any, pipe: Any) -> None:
    pipe.send(ask())


def forked(ask: Any) -> Any:
    """What a forked process answers."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=answer, args=(ask, theirs))
    child.start()
    theirs.close()
    try:
        assert mine.poll(HANGS), "the forked process hangs"
        return mine.recv()
    finally:
        child.kill()
        child.join()


@functools.cache
def people() -> tuple[pd.DataFrame, list[str]]:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"age": random.integers(18, 65, 300), "sex": random.choice(["F", "M"], 300)})
    table["pay"] = random.normal(size=300).round(2)
    return table, ["yes" if pay + old / 40 > 1 else "no" for pay, old in zip(table["pay"], table["age"], strict=True)]


@functools.cache
def fitted(kind: str) -> Any:
    if kind == "network":
        made = FairClassifier(["sex"], hidden=(8,), epochs=1)
    elif kind == "members":
        made = FairClassifier(["sex"], hidden=(8,), epochs=1, members=2)
    elif kind == "forest":
        made = FairWrapper(HistGradientBoostingClassifier(max_iter=2, random_state=0), ["sex"])
    else:
        made = FairWrapper(HistGradientBoostingClassifier(max_iter=2, random_state=0), ["sex"], method="average")
    return made.fit(*people())


@pytest.mark.parametrize("kind", ["network", "members", "forest", "wired graph"])
def test_a_fitted_classifier_and_its_bundle_answer_the_same_in_a_forked_process(kind, tmp_path):
    made = fitted(kind)
    made.save(tmp_path / "bundle")
    for model in (made, load_bundle(tmp_path / "bundle")):
        for name in ("predict", "predict_proba", "decision_function"):
            if not hasattr(model, name):
                continue
            ask = getattr(model, name)
            here = ask(people()[0])  # so the sessions and workers of this process exist
            np.testing.assert_array_equal(forked(lambda ask=ask: ask(people()[0])), here)
            np.testing.assert_array_equal(ask(people()[0]), here)


def test_training_in_a_forked_process_is_refused_where_it_would_hang():
    fitted("network")

    def refusal():
        with pytest.raises(InputError) as error:
            FairClassifier(["sex"], epochs=1).fit(*people())
        return str(error.value)

    assert "would hang" in forked(refusal)


def test_nothing_of_prediction_imports_jax(tmp_path):
    fitted("network").save(tmp_path / "bundle")
    people()[0].to_csv(tmp_path / "people.csv", index=False)
    code = (
        "import sys, pandas, bornfair\n"
        "model = bornfair.load(sys.argv[1])\n"
        "rows = pandas.read_csv(sys.argv[2])\n"
        "model.predict(rows), model.predict_proba(rows), model.decision_function(rows), model.scores(rows)\n"
        "print(sorted({'jax', 'jaxlib', 'optax'} & set(sys.modules)))"
    )
    given = [sys.executable, "-c", code, str(tmp_path / "bundle"), str(tmp_path / "people.csv")]
    assert subprocess.run(given, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_what_was_made_for_the_parent_process_is_made_again(monkeypatch):
    class Key: ...

    key, made = Key(), list[int]()
    known = PerProcess(lambda key: made.append(os.getpid()) or object())
    first = known(key)
    assert known(key) is first and len(made) == 1
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert known(key) is not first and len(made) == 2


def test_a_fork_while_a_graph_runs_waits_for_nobody_and_ends_nobodys_worker():
    fitted("wired graph").model_.predict(people()[0])
    running = dict(onnx_worker._running)
    with onnx_worker._lock:  # as another thread would hold it
        free = forked(lambda: onnx_worker._lock.acquire(blocking=False) and not onnx_worker._running)
    assert free and running
    child = os.fork()
    if not child:
        for worker in running.values():
            worker.stop() if worker.stop.alive else None  # as the end of the interpreter does it
        os._exit(0)
    os.waitpid(child, 0)
    assert all(worker.process.poll() is None for worker in running.values())
