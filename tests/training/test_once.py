"""What a training does once: it encodes and scores its rows, looks at its columns and writes its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bornfair import datasets
from bornfair.cli import app
from bornfair.models.network import model as models
from bornfair.models.network.network import Network
from bornfair.people import column_kinds
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.questions import inspection

TRAINED_ON, KEPT_ASIDE = 800, 200
TWINS = "sex: male<->female, housing: own<->rent"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str | int]:
    """How often rows were encoded and scored, by their number; how often columns were looked at, and graphs written."""
    found: Counter[str | int] = Counter()

    def watch(owner: Any, name: str, key: Callable[..., str | int]) -> None:
        own = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            found[key(*given)] += 1
            return own(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    watch(Encoding, "_fill_in", lambda encoding, table, free: len(table))
    watch(Network, "scores", lambda network, rows: f"scores of {len(rows)}")
    watch(models, "onnx_bytes", lambda model: "graphs")
    for module in (column_kinds, inspection):
        watch(module, "look", lambda column: f"looks at {column.name}")
    return found


@pytest.mark.parametrize("more", [(), ("--threshold", "bad=top 12%"), ("--calibrate",)])
def test_training_encodes_and_scores_its_rows_once(
    more: tuple[str, ...], counted: Counter[str | int], tmp_path: Path
) -> None:
    _train("--dataset", "credit", "--sensitive", "sex", *more, out=tmp_path)
    assert counted[TRAINED_ON] == 1, counted
    assert counted[KEPT_ASIDE] == 1, counted
    assert counted[f"scores of {TRAINED_ON}"] == 1 + ("--threshold" in more), counted
    assert counted[f"scores of {KEPT_ASIDE}"] == 1, counted
    assert counted["graphs"] == 1, counted


def test_a_training_that_proves_nothing_encodes_twice_and_writes_one_graph(
    counted: Counter[str | int], tmp_path: Path
) -> None:
    _train("--dataset", "credit", "--sensitive", "sex", "--response", "none", "--hidden", "4", out=tmp_path)
    assert (counted[TRAINED_ON], counted[KEPT_ASIDE], counted["graphs"]) == (1, 1, 1), counted


def test_declared_twins_cost_no_further_encoding(counted: Counter[str | int], tmp_path: Path) -> None:
    _train("--dataset", "credit", "--sensitive", "sex", "--twins", TWINS, out=tmp_path)
    assert (counted[TRAINED_ON], counted[KEPT_ASIDE], counted["graphs"]) == (1, 1, 1), counted


def test_training_looks_at_each_column_once(counted: Counter[str | int], tmp_path: Path) -> None:
    people = datasets.load("credit").table
    people.to_csv(tmp_path / "people.csv", index=False)
    _train(str(tmp_path / "people.csv"), "--target", "risk", "--sensitive", "sex", out=tmp_path)
    assert {name: counted[f"looks at {name}"] for name in people.columns} == dict.fromkeys(people.columns, 1)


def test_an_encoding_forgets_a_table_after_the_block(counted: Counter[str | int]) -> None:
    people = datasets.load("credit").table
    encoding = Encoding.fit(Domain.infer(people, sensitive=["sex"]), people)
    with encoding.keeping(people):
        first = encoding.encode(people).free
        assert encoding.encode(people).free is first
    changed = people.assign(age=people["age"].iloc[::-1].to_numpy())
    assert (encoding.encode(changed).free != first).any() and counted[len(people)] == 2


def _train(*arguments: str, out: Path) -> None:
    words = ["train", *arguments, "--epochs", "2", "--out", str(out / "bundle"), "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code in (0, 1, 3) and isinstance(found.exception, SystemExit | None), found.output
