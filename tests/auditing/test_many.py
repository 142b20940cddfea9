"""Many models are audited side by side as one by one, and an audit that stopped goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from bornfair import audit
from bornfair.core.errors import InputError
from bornfair.parallel import Workers
from samples import bornfair

pytestmark = pytest.mark.slow

# x from 0 to 9 and s: unfair where x = 4, for nobody, for everybody
WEIGHTS = {"some": "1.0,0.5,\n-4.25,", "none": "1.0,0.0,\n-4.25,", "all": "0.0,1.0,\n-0.5,"}
PEOPLE = pd.DataFrame({"x0": [1, 4, 4, 9, 5], "x1": [0, 1, 0, 1, 0]})
ASKED = {"sensitive_features": ["x1"], "timeout": 1.0}


@pytest.fixture
def models(tmp_path):
    files = {}
    for name, weights in WEIGHTS.items():
        files[name] = tmp_path / f"{name}.nnet"
        files[name].write_text(f"// two inputs\n1,2,1,2,\n2,1,\n0,\n0,0,\n9,1,\n0,0,0,\n1,1,1,\n{weights}\n")
    return files


def told(report):
    return [(one.model, one.verdict.answer, one.shares.certified, one.people.unfair) for one in report.documents]


class Elsewhere(Workers):
    """Workers of a cluster, as far as anybody can tell, that write down what they are given."""

    def __init__(self):
        super().__init__()
        self.given = []
        self.jobs, self.is_elsewhere = 2, True

    def _results(self, work, items, *patience, **order):
        self.given.append(type(work).__name__)
        return super()._results(work, items, *patience, **order)


def test_side_by_side_they_are_found_as_one_by_one(models):
    said = []
    alone = audit(models, PEOPLE, **ASKED)
    assert told(alone) == [("some", "falsified", 0.6, 2), ("none", "verified", 1.0, 0), ("all", "falsified", 0.0, 5)]
    assert told(audit(models, PEOPLE, jobs=2, say=said.append, **ASKED)) == told(alone)
    counted = [line for line in said if line.startswith("[")]
    assert len(counted) == 3 and counted[-1].startswith("[3 of 3, about 0.0 min left]")


def test_the_table_leaves_the_machine_only_if_that_is_said(models):
    for send, expected in ((False, False), (True, True)):
        workers = Elsewhere()
        audit(models, PEOPLE, jobs=workers, send_table=send, **ASKED)
        assert ("partial" in workers.given) is expected
        assert workers.given, "boxes are shared anyway"
    workers = Elsewhere()
    audit({name: models[name] for name in ("some", "none")}, jobs=workers, **ASKED)
    assert "partial" in workers.given, "without a table there is nothing to keep here"


def test_an_audit_goes_on_where_it_stopped(models, tmp_path):
    folder, broken, said = tmp_path / "kept", tmp_path / "broken.nnet", []
    broken.write_text("nothing")
    with pytest.raises(InputError, match=r"broken\.nnet"):
        audit({"broken": broken, **models}, PEOPLE, folder=folder, **ASKED)
    kept = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert len(kept) == 3, "the others are not lost"
    report = audit(models, PEOPLE, folder=folder, say=said.append, **ASKED)
    assert [one for one in said if "audited before" in one] == [f"3 of 3 models were audited before, in {folder}"]
    assert told(report) == told(audit(models, PEOPLE, **ASKED))
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == kept
    models["none"].write_text(models["none"].read_text().replace("-4.25", "-5.25"))
    audit(models, PEOPLE, folder=folder, **ASKED)
    audit({"none": models["none"]}, PEOPLE.iloc[:3], folder=folder, **ASKED)
    audit({"none": models["none"]}, PEOPLE, folder=folder, **ASKED | {"timeout": 1.5})
    assert len(list(folder.iterdir())) == 6, "another model, table or question is asked anew"
    next(iter(kept)).write_text("{")
    with pytest.raises(InputError, match=r"is not what an audit keeps .*delete it to ask again"):
        audit(models, PEOPLE, folder=folder, **ASKED)


def test_the_command_audits_many_in_one_report(models, tmp_path):
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    asked = ["audit", *(path.name for path in models.values()), "--data", "people.csv", "--sensitive", "x1"]
    run = bornfair(*asked, "--timeout", 1, "--jobs", 2, "--folder", "kept", "--report", "a.json", cwd=tmp_path)
    assert run.returncode == 1, run.stderr
    assert "[3 of 3," in run.stderr and len(list((tmp_path / "kept").iterdir())) == 3
    document = json.loads(Path(tmp_path / "a.json").read_text())
    assert [one["verdict"]["verdict"] for one in document["models"]] == ["falsified", "verified", "falsified"]
    refused = bornfair(*asked, "--cluster", "nowhere", cwd=tmp_path)
    assert refused.returncode == 2 and "cluster='nowhere' is not known" in refused.stderr
