"""The experiments on repair and on declared twins, on small networks and few epochs."""

import json

import numpy as np
import pandas as pd
import pytest

from bornfair.core.errors import InputError
from bornfair_bench.experiments import public_networks, repair_anchors, twins_comparison
from bornfair_bench.experiments.printout import lines

pytestmark = pytest.mark.slow


def write_network(path, low, high, *, seed):
    """A random network of whole numbers with one hidden layer, in the .nnet format."""
    random = np.random.default_rng(seed)
    inputs, hidden = len(low), 6
    line = lambda numbers: ",".join(f"{number:g}" for number in numbers) + ","  # noqa: E731
    scale = np.maximum(np.array(high) - low, 1)
    layers = [(random.normal(size=(hidden, inputs)) / scale, hidden), (random.normal(size=(1, hidden)), 1)]
    lines = [line([2, inputs, 1, hidden]), line([inputs, hidden, 1]), "0,", line(low), line(high)]
    lines += [line([0] * (inputs + 1)), line([1] * (inputs + 1))]
    for weight, count in layers:
        lines += [line(row) for row in weight] + [line([0.1])] * count
    path.write_text("\n".join(lines) + "\n")


def test_the_german_table_is_rebuilt_in_the_ranges_of_the_networks():
    table = public_networks.german_inputs()
    assert table.shape == (1000, 21) and table["credit"].sum() == 700
    assert [*table.columns[:2], *table.columns[-3:]] == ["status", "month", "foreign_worker", "sex", "credit"]
    highest = {"status": 2, "credit_history": 2, "purpose": 9, "savings": 2, "employment": 2, "age": 1, "sex": 1}
    assert {name: int(table[name].max()) for name in highest} == highest
    assert int(table["age"].sum()) == 810 and int(table["sex"].sum()) == 690  # 26 or older; men


def test_the_adult_table_is_rebuilt_in_the_ranges_of_the_networks():
    table = public_networks.adult_inputs()
    assert len(table) == 30_162 and int(table["income"].sum()) == 7_508
    highest = {"workclass": 6, "education": 15, "relationship": 5, "race": 4, "capital-gain": 19, "native-country": 40}
    assert {name: int(table[name].max()) for name in highest} == highest
    assert int(table["sex"].sum()) == 20_380  # men: the later of the two names


def test_networks_of_a_folder_are_repaired_and_verified(tmp_path):
    inputs = public_networks.german_inputs().drop(columns="credit")
    write_network(tmp_path / "GC-1.nnet", [0] * 20, [int(v) for v in inputs.max()], seed=4)
    questions = [("GC-1", "age"), ("GC-1", "sex")]
    outcomes = repair_anchors.run(tmp_path, questions=questions, epochs=1, timeout=0.5)
    assert [(o["model"], o["sensitive"], o["verdict_after"]) for o in outcomes] == [(*q, "verified") for q in questions]
    assert all(o["rows"] == 150 and 0 <= o["changed"] <= 1 for o in outcomes)
    assert {len(line) for line in lines(repair_anchors.COLUMNS, outcomes)} == {9}
    assert json.dumps(outcomes)
    with pytest.raises(InputError, match=r"there is no network '.*AC-1.nnet'"):
        repair_anchors.run(tmp_path, questions=[("AC-1", "sex")])


def test_a_model_repaired_for_the_swap_keeps_it(tmp_path):
    outcomes = twins_comparison.run(tmp_path, names=["credit"], methods=["repaired"], seeds=1, epochs=4)
    assert [(o["verdict"], o["swap_stable"], o["flip_stable"]) for o in outcomes] == [("verified", 1.0, 1.0)]
    assert outcomes[0]["moved_people"] == outcomes[0]["test_people"] == 200
    assert [len(line) for line in twins_comparison.table(outcomes)] == [9, 9]
    assert {path.name for path in tmp_path.iterdir()} >= {"twins.csv", "twins.json", "twins.svg"}


def test_differences_between_groups_are_those_counted_by_hand():
    groups = pd.Series(["a"] * 4 + ["b"] * 4)
    truth = np.array([1, 1, 0, 0, 1, 1, 0, 0], bool)
    chosen = np.array([1, 1, 0, 0, 1, 0, 0, 0], bool)
    found = twins_comparison.group_differences(truth, chosen, groups)
    assert found == {"selection_difference": 0.25, "odds_difference": 0.5}
    assert twins_comparison.group_differences(truth, truth, groups)["odds_difference"] == 0


def test_the_bank_table_is_rebuilt_in_the_ranges_of_the_networks():
    table, ranges = public_networks.bank_inputs(), public_networks.LAYOUTS["BM"].ranges
    assert len(table) == 30_488 and int(table["y"].sum()) == 3_859
    assert all(low <= table[name].min() and table[name].max() <= high for name, (low, high) in ranges.items())


COMPAS = """sex,age,race,priors_count,days_b_screening_arrest,c_charge_degree,is_recid,score_text,two_year_recid,name
Female,24,Caucasian,0,-1,M,0,Low,0,-
Male,25,African-American,3,0,F,1,High,1,-
Male,40,Other,3,-31,F,1,High,1,-
Male,40,Other,3,,F,1,High,1,-
Female,40,Other,3,1,O,1,High,1,-
"""


def test_the_compas_table_is_rebuilt_by_propublicas_rules_without_names(tmp_path):
    (tmp_path / "scores.csv").write_text(COMPAS)
    table = public_networks.compas_inputs(tmp_path / "scores.csv")
    assert table.to_numpy().tolist() == [[0, 0, 0, 0, 1, 1, 0], [1, 3, 1, 1, 0, 0, 1]]
    layout = public_networks.LAYOUTS["compas"]
    assert list(table.columns) == [*layout.names, layout.target]
    fitted, kept = public_networks.held_out(100, layout)
    assert len(kept) == 10 and sorted([*fitted, *kept]) == list(range(100))


def test_layouts_name_the_columns_of_their_tables_in_order():
    tables = {
        "AC": public_networks.adult_inputs(),
        "GC": public_networks.german_inputs(),
        "BM": public_networks.bank_inputs(),
    }
    for kind, table in tables.items():
        layout = public_networks.LAYOUTS[kind]
        assert [name for name in table.columns if name != layout.target] == list(layout.names)
        assert set(layout.sensitive) <= set(layout.names)


def test_networks_without_rows_are_left_out_and_said(tmp_path):
    write_network(tmp_path / "compas-1.nnet", [0] * 6, [1, 38, 1, 1, 1, 1], seed=1)
    write_network(tmp_path / "BM-2.nnet", [0] * 16, [1] * 16, seed=2)
    told = []
    assert repair_anchors.questions_of(tmp_path, ["AC", "BM"], told.append) == [("BM-2", "age")]
    assert told == ["compas-1 is left out: the rows it learnt from are not given"]
    domain = public_networks.named_domain(tmp_path / "BM-2.nnet")
    assert (domain.feature("duration").high, domain.feature("emp.var.rate").low) == (5000, -3)
    write_network(tmp_path / "AC-1.nnet", [0] * 5, [1] * 5, seed=2)
    with pytest.raises(InputError, match="has 5 inputs, but networks of its name have 13"):
        public_networks.named_domain(tmp_path / "AC-1.nnet")
