"""A terminal obeys what it is sent; names in files are other people's. They are shown, never obeyed."""

import json

import numpy as np
import pandas as pd
import pytest

from bornfair import Domain
from bornfair.cli import output, run
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import CategoricalFeature, IntegerFeature, Label
from bornfair.people.policies import Policies
from bornfair.proof.bundle import FairModel

pytestmark = pytest.mark.slow

# Clear the screen, go to the beginning of the line, begin a new one, write from right to left, look like markup.
NASTY = "\x1b[2J\x9b1m\x07\x08\r\n\x7f\x85\u2028\u202e\u2066\u200f\ufeff\xad[bold][red]VERIFIED[/red]"


def unfit(text):
    """What of a text a terminal might obey."""
    return sorted({c for c in text if not c.isprintable() and c != "\n"})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A bundle that is unfair, and a table, in which every name is hostile."""
    folder = tmp_path_factory.mktemp("place")
    sex, job, grant = f"sex{NASTY}", f"job{NASTY}", f"grant{NASTY}"
    values = (f"m{NASTY}", f"w{NASTY}")
    domain = Domain(
        features=(
            IntegerFeature(name=f"age{NASTY}", low=18, high=60),
            CategoricalFeature(name=job, categories=(f"a{NASTY}", f"b{NASTY}", "c")),
            CategoricalFeature(name=sex, categories=values),
        ),
        sensitive=(sex,),
        label=Label(name=grant, classes=(f"no{NASTY}", f"yes{NASTY}")),
    )
    encoding = Encoding(
        domain,
        {f"age{NASTY}": Scale(centre=30.0, exponent=3)},
        {feature.name: feature.levels()[0] for feature in domain.features if feature.name != f"age{NASTY}"}
        | {f"age{NASTY}": 30},
        Policies(),
    )
    weight = np.zeros((1, encoding.width), np.float32)
    weight[0, 0], weight[0, -1] = 1.0, 2.0
    FairModel(Network((Layer(weight, np.zeros(1, np.float32)),)), encoding).save(folder / "bundle")
    (folder / "domain.json").write_text(domain.text())
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            f"age{NASTY}": random.integers(18, 60, 120),
            job: random.choice([f"a{NASTY}", f"b{NASTY}", "c"], 120),
            sex: random.choice(values, 120),
        }
    )
    table[grant] = np.where(table[f"age{NASTY}"] + 20 * (table[sex] == values[0]) > 45, f"yes{NASTY}", f"no{NASTY}")
    table.to_parquet(folder / "people.parquet")
    return folder


TRAINED = ["--target", f"grant{NASTY}", "--sensitive", f"sex{NASTY}"]
QUICK = ["--epochs", "2", "--hidden", "4"]
DATA = ["--data", "people.parquet"]
COMMANDS = [
    (["verify", "bundle"], 1),
    (["verify", "bundle", *DATA, "--target", f"grant{NASTY}", "--json"], 1),
    (["verify", "bundle", "--change"], 0),
    (["verify", "bundle", "--engine", "smt", "--where", f"job{NASTY}=c", "--relax", f"age{NASTY}=1"], 1),
    (["quantify", "bundle", *DATA, "--target", f"grant{NASTY}", "--timeout", "5"], 0),
    (["quantify", "bundle", *DATA, "--target", f"grant{NASTY}", "--timeout", "5", "--json"], 0),
    (["audit", "bundle", *DATA, "--target", f"grant{NASTY}", "--timeout", "5", "--card", "card.md"], 1),
    (["audit", "bundle", *DATA, "--target", f"grant{NASTY}", "--timeout", "5", "--json"], 1),
    (["repair", "bundle", *DATA, "--target", f"grant{NASTY}", "--epochs", "2", "--out", f"out{NASTY}"], 0),
    (["proxies", "people.parquet", *TRAINED], 0),
    (["proxies", "people.parquet", *TRAINED, "--json"], 0),
    (["gamma", "people.parquet", *TRAINED], 0),
    (["gamma", "people.parquet", *TRAINED, "--json"], 0),
    (["gamma", "--codes", NASTY], 2),
    (["train", "people.parquet", *TRAINED, *QUICK, "--out", "fair"], 0),
    (
        [
            "train",
            "people.parquet",
            *TRAINED,
            *QUICK,
            "--verify-seconds",
            "5",
            "--out",
            "sampled",
            "--response",
            "sampled",
        ],
        0,
    ),
    (["train", "people.parquet", *TRAINED, *QUICK, "--twins", f"job{NASTY}: a<->b"], 2),
    (["train", "people.parquet", "--target", "none"], 2),
    (["predict", "bundle", "people.parquet"], 0),
    (["predict", "bundle", "people.parquet", "--json"], 0),
    (["predict", "bundle", "people.parquet", "--out", f"p{NASTY}.csv"], 0),
    (["certify", "bundle", "--out", f"c{NASTY}", "--timeout", "5"], 1),
    (["check", f"c{NASTY}"], 1),
    (["check", f"c{NASTY}", "--json"], 1),
    (["export", "bundle", f"e{NASTY}.onnx"], 0),
    (["verify", f"nowhere{NASTY}"], 2),
    (["verify", "bundle", "--sensitive", NASTY], 2),
    (["verify", "bundle", f"--{NASTY}"], 2),
    (["verify", "bundle", "--timeout", NASTY], 2),
    (["datasets", "fetch", NASTY], 2),
    ([NASTY], 2),
]


@pytest.mark.parametrize(("arguments", "status"), COMMANDS, ids=range(len(COMMANDS)))
def test_no_command_sends_a_terminal_what_others_wrote(place, monkeypatch, capsys, arguments, status):
    monkeypatch.chdir(place)
    found = run(arguments)
    said = capsys.readouterr()
    assert found == status, said.err
    assert not unfit(said.out) and not unfit(said.err)
    for line in (said.out + said.err).splitlines():
        assert not line.startswith(("VERIFIED", "[bold]")), "a name must not begin a line"
    if status == 2:
        assert len(said.err.splitlines()) == 1
    if "--json" in arguments:
        json.loads(said.out)


def test_markup_in_names_is_shown_as_it_is(capsys):
    output.print_table("[red]t[/red]", ["[bold]h[/bold]", "[/]"], [["[i]c[/i]", "\\[x]"]])
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("[red]t[/red]", "[bold]h[/bold]", "[/]", "[i]c[/i]", "\\[x]"))


def test_json_says_what_it_was_given(capsys):
    output.print_json({NASTY: ["γ", "\ud800", "𝔘"]})
    said = capsys.readouterr().out
    assert said.isascii() and not unfit(said)
    assert json.loads(said) == {NASTY: ["γ", "\ud800", "𝔘"]}


def test_what_is_fit_to_print_is_not_touched(capsys):
    output.tell("Größe × γ → 東京 𝔘 [x] \\ é")
    assert capsys.readouterr().out == "Größe × γ → 東京 𝔘 [x] \\ é\n"


def test_warnings_of_libraries_are_shown_the_same_way(place, monkeypatch, capsys):
    import warnings

    def warn(*_, **__):
        warnings.simplefilter("always")
        warnings.warn(f"Columns ({NASTY}) have mixed types.", UserWarning, stacklevel=1)
        raise OSError(28, "No space left on device", NASTY)

    monkeypatch.setattr("bornfair.people.tables.read_table", warn)
    assert run(["proxies", "x.csv", "--sensitive", "a"]) == 2
    said = capsys.readouterr().err
    assert "warning: Columns (\\x1b[2J" in said and not unfit(said) and len(said.splitlines()) == 2


def test_nothing_in_the_command_line_prints_but_its_output_module():
    import ast
    from pathlib import Path

    for file in Path(output.__file__).parent.glob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        names = {call.id for call in calls if isinstance(call, ast.Name)}
        assert file.name == "output.py" or "print" not in names, file.name
        assert not {call.attr for call in calls if isinstance(call, ast.Attribute)} & {"echo", "secho"}, file.name
