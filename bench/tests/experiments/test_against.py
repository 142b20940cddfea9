"""Ours beside others: the same splits for all, and every table stands in one of two lists."""

import json

import pandas as pd
import pytest

from bornfair.core.errors import InputError
from bornfair_bench.experiments import accuracy, against
from bornfair_bench.experiments.real_tables import CHOOSE, REPORT, TABLES, RealTable, real_table
from samples import bornfair


def test_no_table_is_both_chosen_on_and_reported():
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names) == 30
    assert set(CHOOSE) | set(REPORT) == set(names) and not set(CHOOSE) & {*REPORT, *against.BUILT_IN}


def test_every_contender_learns_what_can_be_learnt(monkeypatch):
    n = 240
    table = pd.DataFrame({
        "sex": ["a", "b"] * (n // 2), "job": (["x"] * 3 + ["y"] * 3) * (n // 6), "age": [i * 7 % n for i in range(n)]
    })  # fmt: skip
    table["paid"] = ((table["job"] == "x") & (table["age"] > 60)).map({True: "yes", False: "no"})
    monkeypatch.setattr(against, "loaded", lambda name: (table, "paid", ("sex",)))
    outcomes = against.run(["credit"], seeds=1)
    assert [o["contender"] for o in outcomes] == list(against.CONTENDERS)
    assert all(o["accuracy"] >= (0.7 if o["contender"] == "perceptron" else 0.85) for o in outcomes), outcomes
    assert [o["verdict"] for o in outcomes[:2]] == ["verified", "verified"]
    header, line, mean, rank, seconds = against.table_of(outcomes)
    assert header[2:] == tuple(against.CONTENDERS) and line[:2] == ("credit", "240") and mean[0] == "mean"
    assert min(float(cell) for cell in rank[2:]) == 1 and len(seconds) == len(header)


def test_the_command_prints_it(tmp_path):
    words = ["--against", "--table", "credit", "--contender", "logistic", "--seeds", "1", "--json"]
    found = bornfair("bench", "accuracy", *words, cwd=tmp_path)
    (run,) = json.loads(found.stdout)["runs"]
    assert run["table"] == "credit" and 0.6 < run["accuracy"] < 0.9


def test_tables_lose_gaps_and_become_two_classes(monkeypatch):
    raw = pd.DataFrame({"gone": [None, None, 3, None], "x": [1, 2, None, 4], "y": [0, 5, 5, 7], "t": list("abca")})
    monkeypatch.setattr(RealTable, "_read", lambda self: raw)
    told = RealTable("one", "nowhere", "", "y", drop=("t",), above=4).load()
    assert told.to_dict("list") == {"x": [1, 2, 4], "y": ["less", "more", "more"]}


def test_what_is_not_there_is_said():
    for ask, message in [
        (lambda: against.run(["nobody"]), "table 'nobody' is not known"),
        (lambda: against.run(["credit"], contenders=["magic"]), "contender 'magic' is not known"),
        (lambda: real_table("nobody"), "is not known"),
        (lambda: RealTable("one", "no_such_package", "a.csv", "y").load(), "pip install no_such_package"),
        (
            lambda: accuracy.report(dataset="credit", sensitive=None, preset="paper", seeds=1, say=print, tables=["x"]),
            "for --against",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            ask()
