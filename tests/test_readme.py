"""What the README tells people to run does run."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_python_example_runs_and_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    scope: dict[str, object] = {}
    exec(code, scope)
    classifier, load = scope["clf"], scope["load"]
    assert classifier.certificate_.claim.startswith(
        "Two individuals who differ only in sex and age always get the same"
    )
    assert load("bundle").verify().verdict == "verified"


def test_every_command_it_names_exists():
    from typer.testing import CliRunner

    from bornfair.cli import app

    named = set(re.findall(r"^(?:\$ )?bornfair (\w+)(?: (\w+))?", README, flags=re.M))
    assert {command for command, _ in named} >= {"train", "predict", "verify", "bench"}
    for command, second in named:
        words = [command, second] if command == "bench" else [command]
        assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0, words
