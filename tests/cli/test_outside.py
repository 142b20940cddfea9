"""Programs and services are audited from the shell."""

import json

import pytest

from outside_models import SMALL, by_age, command, served
from samples import bornfair


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("outside")
    people = SMALL.sample(300, seed=1)
    people.assign(loan=by_age(people)).to_csv(place / "people.csv", index=False)
    return place


ASKED = ("--data", "people.csv", "--target", "loan", "--sensitive", "woman")


def test_a_program_is_asked(folder):
    program = command(folder)
    found = bornfair("verify", "--model-command", program, *ASKED, "--timeout", 60, "--json", cwd=folder)
    verdict = json.loads(found.stdout)
    assert found.returncode == 1 and verdict["verdict"] == "falsified" and verdict["arithmetic"] == ["executed"]
    assert sorted(verdict["decisions"]) == ["no", "yes"]
    counted = bornfair("quantify", "--model-command", program, *ASKED, "--timeout", 8, cwd=folder)
    assert counted.returncode == 0
    assert "6.67" in counted.stdout and "all of whom were asked about" in counted.stdout
    assert "proven fair" not in counted.stdout and "score gap" not in counted.stdout


def test_a_service_is_audited_with_a_report(folder):
    import pandas as pd

    with served(lambda rows, _: {"decisions": by_age(pd.DataFrame(rows)).tolist()}) as url:
        found = bornfair("audit", "--endpoint", url, "--rate", 1e6, *ASKED, "--timeout", 4, cwd=folder)
        told = bornfair(
            "proxies", "people.csv", "--sensitive", "woman", "--target", "loan", "--endpoint", url, cwd=folder
        )
    assert found.returncode == 1, found.stderr
    assert "It was asked from outside, not read: the endpoint http://127.0.0.1" in found.stdout
    assert "asked from outside" in (folder / "audit.html").read_text()
    assert told.returncode == 0 and "the model's score" in told.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("verify", *ASKED), "name one model: a file, --model-command or --endpoint; none was given."),
        (("audit", *ASKED), "name one model: a file, --model-command or --endpoint; none was given."),
        (("verify", "model.onnx", "--endpoint", "http://h/", *ASKED), "found a file and --endpoint."),
        (("quantify", "--endpoint", "gopher://h/", *ASKED), "is not one of http or https"),
        (("verify", "--model-command", "false", *ASKED), "the command 'false' ended with status 1."),
    ],
)
def test_mistakes_are_one_sentence(folder, words, message):
    found = bornfair(*words, cwd=folder)
    assert found.returncode == 2 and message in found.stderr and found.stderr.count("\n") == 1
