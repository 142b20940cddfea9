"""Rows of a table, sub-populations and declared twins: shares against counting everybody out in exact arithmetic."""

from __future__ import annotations

import itertools
import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bornfair.quantification.measure as engine
from bornfair.cli import main
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.exact import exact_decisions
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature, Label, RealFeature
from bornfair.people.policies import Policies
from bornfair.people.space.subpopulation import rows_within
from bornfair.people.space.variables import variables
from bornfair.people.twins.relation import free_space
from bornfair.people.twins.versions import Versions
from bornfair.proof.bundle import FairModel
from bornfair.quantification.crowds import Crowd
from bornfair.quantification.groups import affected_groups
from bornfair.quantification.measure import shares_of
from bornfair.quantification.population import shares_of_rows
from bornfair.questions import quantify
from bornfair.verification.replay import exact_input
from twin_cases import random_domain

SEEDS = st.integers(0, 2**32 - 1)


def random_case(seed, *, held=True):
    """A small random model with declared twins, everybody in it without their sensitive values, and who is unfair."""
    rng = np.random.default_rng(seed)
    domain = random_domain(seed)
    if rng.random() < 0.3 or domain.twin_group.size > 12:
        domain = domain.replaced(twins=())
    scales = {f.name: Scale(centre=0.0, exponent=0) for f in domain.features if f.kind == "integer"}
    if held and rng.random() < 0.5:
        scales["hours"] = Scale(centre=0.0, exponent=0, low=1.0, high=2.0)
    encoding = Encoding(domain, scales)
    widths = [encoding.width, *rng.integers(1, 5, int(rng.integers(0, 3))).tolist(), 1]
    tame = rng.random() < 0.5
    layers = []
    for a, b in itertools.pairwise(widths):
        weight, bias = rng.normal(size=(b, a)), rng.normal(size=b)
        layers.append(Layer(*(np.round(2 * part) / 2 if tame else part for part in (weight, bias))))
    model = FairModel(Network(tuple(layers)), encoding)
    free = [feature.levels() for feature in domain.free_features]
    people = pd.DataFrame(list(itertools.product(*free)), columns=list(domain.free_names)).infer_objects()
    versions, parts = Versions(domain), []
    for h in range(versions.group.size):
        free = encoding.encode(versions.moved(people, h), sensitive=False).free
        for code in encoding.codes:
            parts.append(model.network.estimated(np.concatenate([free, np.tile(code, (len(free), 1))], axis=1)))
    scores = np.stack(parts)
    unfair = (decisions(scores) != decisions(scores[0])).any(axis=0)
    for row in np.flatnonzero(np.abs(scores).min(axis=(0, 2)) < 1e-3):  # where rounding might decide
        unfair[row] = is_unfair(model, people.iloc[row].to_dict())
    return rng, model, people, unfair


def is_unfair(model, person):
    versions = Versions(model.domain)
    inputs = np.stack([exact_input(model.encoding, person, v, versions) for v in range(versions.size)])
    return len(set(exact_decisions(model.network, inputs).tolist())) > 1


def random_where(rng, domain):
    where = {}
    for feature in domain.free_features:
        if rng.random() < 0.5:
            continue
        levels = list(feature.levels())
        if feature.kind == "integer":
            where[feature.name] = tuple(sorted(int(end) for end in rng.choice(levels, 2)))
        else:
            where[feature.name] = [
                levels[i] for i in rng.choice(len(levels), int(rng.integers(1, len(levels) + 1)), False)
            ]
    return where


def random_weights(rng, domain, where):
    found = {}
    for feature in domain.free_features:
        if rng.random() < 0.5:
            weights = {level: int(rng.integers(0, 4)) for level in feature.levels()}
            inside = where.get(feature.name)
            for level in feature.levels():
                if inside is None or (
                    inside[0] <= level <= inside[1] if feature.kind == "integer" else level in inside
                ):
                    weights[level] = max(weights[level], 1)
                    break
            found[feature.name] = weights
    return found


@settings(max_examples=15)
@given(SEEDS)
def test_shares_of_a_subpopulation_are_those_of_counting_it_out(seed):
    rng, model, people, unfair = random_case(seed)
    where = random_where(rng, model.domain)
    marginals = random_weights(rng, model.domain, where) if rng.random() < 0.5 else {}
    inside = rows_within(model.domain, people, where)
    weights = np.ones(len(people), dtype=object)
    for name, marginal in marginals.items():
        weights = weights * np.array([marginal[value] for value in people[name].tolist()], dtype=object)
    weights = np.where(inside, weights, 0)
    truth = Fraction(int(weights[unfair].sum()), int(weights.sum()))
    options = {"where": where, "marginals": marginals, "timeout": 1e9, "samples": 100, "arithmetic": ("real",)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FEW", int(rng.choice([1, 4, 64])))
        part = shares_of(model, most_boxes=int(rng.integers(1, 12)), **options)
        whole = shares_of(model, **options)
    for found in (part, whole):
        assert Fraction(found.falsified) <= truth <= 1 - Fraction(found.certified)
        assert Fraction(found.confident.low) <= truth <= Fraction(found.confident.high)
        assert found.where == where
    assert whole.undecided < 1e-9 and float(truth) == pytest.approx(whole.falsified, abs=1e-9)


@settings(max_examples=15)
@given(SEEDS)
def test_rows_of_a_table_are_counted_as_counting_them_out_does(seed):
    rng, model, people, unfair = random_case(seed)
    rows = rng.integers(0, len(people), 30)
    truth = int(unfair[rows].sum())
    exact = shares_of_rows(model, people.iloc[rows], arithmetic=("real",))
    assert exact.counts == {"certified": 30 - truth, "falsified": truth, "undecided": 0}
    assert exact.falsified <= truth / 30 and exact.confident.samples == 0
    executed = shares_of_rows(model, people.iloc[rows])
    assert executed.counts["falsified"] <= truth and executed.counts["certified"] <= 30 - truth
    assert executed.certified + executed.falsified + executed.undecided == pytest.approx(1.0)
    where = random_where(rng, model.domain)
    chosen = rows_within(model.domain, people.iloc[rows], where)
    if chosen.any():
        some = shares_of_rows(model, people.iloc[rows], where=where, arithmetic=("real",))
        assert some.counts["falsified"] == int(unfair[rows][chosen].sum())
        assert sum(some.counts.values()) == int(chosen.sum())


def numbers(low=0.0, high=1.0, scale=None):
    """x − 0.5 ± 0.25: unfair where 0.25 < x ≤ 0.75."""
    features = (RealFeature(name="x", low=low, high=high), BooleanFeature(name="s"))
    domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=(0, 1)))
    network = Network((Layer(np.array([[1.0, 0.25]]), np.array([-0.5])),))
    return FairModel(network, Encoding(domain, {"x": scale or Scale(centre=0.0, exponent=0)}))


def test_ranges_of_real_numbers_are_restricted_also_where_they_are_weighted_or_held():
    model = numbers()
    assert sorted(model.encoding.codes[:, 0]) == [-1.0, 1.0]
    found = shares_of(model, where={"x": (0.5, 1.0)}, timeout=1e9, most_boxes=60, samples=1000)
    assert found.falsified == pytest.approx(0.5, abs=1e-3) and found.certified == pytest.approx(0.5, abs=1e-3)
    assert found.falsified <= 0.5 and found.certified <= 0.5
    weights = {"x": {(0.0, 0.6): 1, (0.6, 1.0): 3}}  # of [0.5, 1]: 1/6 below 0.6, then 3/4 a unit up to 1
    found = shares_of(model, where={"x": (0.5, 1.0)}, marginals=weights, timeout=1e9, most_boxes=60, samples=1000)
    truth = (1 / 6 + 3 * 0.15 / 0.4) / (1 / 6 + 3)
    assert found.falsified == pytest.approx(truth, abs=2e-3) and found.falsified <= truth
    held = numbers(scale=Scale(centre=0.0, exponent=0, high=0.7))  # who is above 0.7 is seen as 0.7: unfair
    found = shares_of(held, where={"x": (0.6, 0.9)}, timeout=1e9, most_boxes=60, samples=1000)
    assert found.falsified == pytest.approx(1.0, abs=1e-3)
    found = shares_of(held, where={"x": (0.1, 0.9)}, timeout=1e9, most_boxes=60, samples=1000)
    assert found.falsified == pytest.approx(0.65 / 0.8, abs=2e-3) and found.falsified <= 0.65 / 0.8


def test_groups_are_those_of_the_subpopulation():
    features = (
        IntegerFeature(name="x", low=0, high=9),
        IntegerFeature(name="z", low=0, high=9),
        BooleanFeature(name="s"),
    )
    domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=(0, 1)))
    network = Network((Layer(np.array([[1.0, 0.0, 1.0]]), np.array([-4.5])),))
    model = FairModel(network, Encoding(domain, {name: Scale(centre=0.0, exponent=0) for name in ("x", "z")}))
    groups = affected_groups(model, samples=4000, where={"x": (3, 7), "z": (0, 1)}, timeout=30)
    assert groups and all("x" in group.text for group in groups)
    drawn = variables(model.encoding, free_space(model.encoding), None, {"x": (3, 7)}).draw(
        500, np.random.default_rng(0)
    )
    assert set(drawn[:, 0]) == {3.0, 4.0, 5.0, 6.0, 7.0} and set(drawn[:, 1]) == set(map(float, range(10)))


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"s": [True]}, "'s', which is sensitive"),
        ({"nobody": (1, 2)}, "nobody"),
        ({"x": (0.3, 0.3)}, "single value of a real number"),
        ({"x": (2.0, 3.0)}, "leaves nobody"),
    ],
)
def test_a_subpopulation_that_cannot_be_is_refused(where, says):
    with pytest.raises(InputError, match=says):
        shares_of(numbers(), where=where, timeout=1.0)


def test_rows_that_leave_the_domain_are_judged_as_they_are():
    model = numbers()
    rows = pd.DataFrame({"x": [-5.0, 0.5, 0.7, 5.0]})
    assert shares_of_rows(model, rows).counts == {"certified": 2, "falsified": 2, "undecided": 0}
    strict = FairModel(model.network, Encoding(model.domain, model.encoding.scales, policies=Policies(outside="error")))
    with pytest.raises(InputError, match="outside the domain"):
        shares_of_rows(strict, rows)


def test_time_that_is_up_leaves_rows_undecided(monkeypatch):
    import bornfair.quantification.population as population

    monkeypatch.setattr(population, "NUMBERS", 1)
    rows = pd.DataFrame({"x": np.linspace(0, 1, 1000)})
    found = shares_of_rows(numbers(), rows, timeout=0.0)
    assert found.reason == "time is up" and 0 < found.counts["undecided"] < 1000

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Crowd, "judge", interrupt)
    found = shares_of_rows(numbers(), rows)
    assert found.interrupted and found.counts["undecided"] == 1000


# --- as people ask ---


def test_the_function_counts_the_rows_of_a_table_or_a_file(tmp_path):
    model = numbers()
    rows = pd.DataFrame({"x": [0.1, 0.5, 0.6, 0.9, 0.95], "s": [True] * 5})
    found = quantify(model, over=rows, timeout=10)
    assert found.counts == {"certified": 3, "falsified": 2, "undecided": 0} and found.over == "a table"
    assert found.people.unfair == 2 and found.people.rows == 5
    rows.to_csv(tmp_path / "them.csv", index=False)
    found = quantify(model, over=tmp_path / "them.csv", where={"x": (0.55, 1.0)}, timeout=10)
    assert found.counts == {"certified": 2, "falsified": 1, "undecided": 0}
    assert found.to_json()["over"] == "them.csv" and found.to_json()["where"] == {"x": (0.55, 1.0)}
    assert found.people.rows == 3
    with pytest.raises(InputError, match=r"over is uniform, data, or the file of a table .* 'nowhere\.csv'"):
        quantify(model, over="nowhere.csv", timeout=1)
    with pytest.raises(InputError, match="marginals weigh the domain"):
        quantify(model, over=rows, marginals={"x": {(0.0, 1.0): 1}}, timeout=1)


def test_an_interrupt_while_groups_are_looked_for_keeps_the_shares():
    import bornfair.questions as question

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    rows = pd.DataFrame({"x": [0.1, 0.5, 0.6, 0.9, 0.95], "s": [True] * 5})
    for phase in ("affected_groups", "people_of"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(question, phase, interrupt)
            found = quantify(numbers(), table=rows, timeout=2)
        assert found.interrupted and found.falsified > 0.49 and found.confident.low <= 0.5 <= found.confident.high


def test_the_command_counts_a_file_and_a_subpopulation(tmp_path, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bornfair", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    Path("n.nnet").write_text(
        "// two inputs\n1,2,1,2,\n2,1,\n0,\n0,0,\n9,1,\n0,0,0,\n1,1,1,\n1.0,0.5,\n-4.25,\n"
    )  # x from 0 to 9 and s: unfair where x = 4
    pd.DataFrame({"x0": [1, 4, 4, 9, 5]}).to_csv("them.csv", index=False)
    asked = ["quantify", "n.nnet", "--sensitive", "1", "--timeout", "5"]
    status, said = run(*asked, "--over", "them.csv", "--where", "x0=4..9", "--json")
    found = json.loads(said.out)
    assert status == 0 and found["counts"] == {"certified": 2, "falsified": 2, "undecided": 0}
    assert (found["over"], found["where"]) == ("them.csv", {"x0": [4, 9]})
    status, said = run(*asked, "--over", "them.csv")
    assert status == 0 and "of the rows of them.csv" in said.out.replace("\xa0", " ")
    status, said = run(*asked, "--where", "x0=3..6", "--jobs", "2")
    assert status == 0 and "25.0 % of everybody who could exist with x0 from 3 to 6, proven" in " ".join(
        said.out.replace("\xa0", " ").split()
    )
    status, said = run(*asked, "--where", "x1=0..1")
    assert status == 2 and "which is sensitive" in said.err
    status, said = run(*asked, "--over", "nobody.csv")
    assert status == 2 and "'nobody.csv' is none of these" in said.err
