"""Every command and every Python snippet in README and docs runs."""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
import subprocess
import sys

import pytest

import documents
from bornfair import datasets
from bornfair.cli import _commands
from counted_time import count_time
from outside_models import served
from samples import ROOT, bornfair

# Commands that are not run, only parsed, and why.
NOT_RUN = {
    r"^bornfair bench ": "an experiment takes minutes or hours, or reads other people's files",
    r"s3://": "there is no object store",
    r"--hosts ": "there are no other hosts",
    r"--cluster ": "there is no cluster",
}
# Other exit statuses than 0, and why.
STATUSES = {
    r"^bornfair (verify|certify|audit) (model|AC-7|--endpoint|--model-command)": (1, "the stand-in is unfair"),
    r"^bornfair explain plain --row 89 ": (1, "the document shows an unfair version"),
    r"--response none ": (1, "plain training gives an unfair model"),
    r"^bornfair drift ": (1, "the document shows rows outside"),
    r"--drop opened --drop street$": (2, "the document shows the refusal"),
}
REPLACED = {("--jobs", "8"): "1"}  # starting eight processes takes longer than the work
SMALL = 300  # rows of a built-in table
TICK = 0.02  # seconds that pass at each reading of a clock,
TICK_OUTSIDE = 2.0  # and where each answer of a model starts a program

MAKING = {  # commands whose output others read
    "bundle": "bornfair train people.csv --target hired --sensitive sex --out bundle",
    "plain": "bornfair train --dataset credit --sensitive sex --sensitive age --response none "
    "--init bernoulli:phi=-10,p=0.5 --out plain",
}
SNIPPETS_NOT_RUN = {"docs/hosts.md": "there is no Ray cluster"}
SNIPPETS_REPLACED = {  # other engines, all of which run here
    'cluster="tcp://scheduler:8786"': "jobs=1",
    'parallel_config("dask")': 'parallel_config("sequential")',
    "jobs=8": "jobs=1",
}

RUN = [line for line in documents.COMMANDS if not any(re.search(pattern, line.text) for pattern in NOT_RUN)]
ONCE = {line.text: line for line in reversed(RUN)}
"""The first place of each command."""


def status_of(text: str) -> int:
    return next((status for pattern, (status, _) in STATUSES.items() if re.search(pattern, text)), 0)


@pytest.fixture(scope="module")
def small():
    """Built-in tables with few rows; the credit table as it is, since a document shows two people of it."""
    whole = datasets.load

    def load(name, *where, **options):
        found = whole(name, *where, **options)
        return found if name == "credit" else dataclasses.replace(found, table=found.table[:SMALL])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load", load)
        yield


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, small):
    """A folder with the files that the documents name, and what the commands that made some of them printed."""
    folder = tmp_path_factory.mktemp("documents")
    documents.prepare(folder)
    done = {text: bornfair(*shlex.split(text)[1:], cwd=folder) for text in MAKING.values()}
    shutil.copytree(folder / "bundle", folder / "census-bundle")
    return folder, done


@pytest.fixture
def place(prepared, tmp_path, monkeypatch):
    found = tmp_path / "place"
    shutil.copytree(prepared[0], found)
    monkeypatch.chdir(found)
    count_time(monkeypatch, TICK)
    return found


@pytest.fixture(scope="module")
def service():
    with served(lambda rows, _: {"decisions": documents.decided(rows)}) as address:
        yield address


@pytest.mark.parametrize("text", ONCE, ids=lambda text: ONCE[text].name)
def test_every_command_ends_with_the_documented_status(text, prepared, place, service, monkeypatch):
    _, made = prepared
    if "--model-command" in text or "--opaque" in text:
        count_time(monkeypatch, TICK_OUTSIDE)
    program, *words = ONCE[text].words_in(place)
    words = [REPLACED.get((before, word), word) for before, word in zip(["", *words], words, strict=False)]
    words = [word.replace("http://localhost:8080/decide", service) for word in words]
    if text in made:
        done = made[text]
    elif program == "bornfair":
        if "--out" in words:
            shutil.rmtree(place / words[words.index("--out") + 1], ignore_errors=True)
        done = bornfair(*words, cwd=place)
    else:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == status_of(text), f"{text}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", documents.COMMANDS, ids=lambda line: line.name)
def test_every_option_of_a_command_exists(line):
    if line.words[0] == "bornfair":
        parse(line.words[1:])
    for option in re.findall(r"(?<=[\[ ])--[a-z][a-z-]*", line.text):  # those of a synopsis, too
        assert option in options_of(line.text), f"{line.name}: {option}"


@pytest.mark.parametrize("block", documents.MENTIONED, ids=lambda block: f"{block.document}:{block.line}: {block.text}")
def test_every_command_that_a_sentence_mentions_exists(block):
    known = options_of(block.text)
    assert not set(re.findall(r"--[a-z][a-z-]*", block.text)) - known


def options_of(text: str) -> set[str]:
    """All options of the command that a line begins with."""
    command = _commands()
    for word in text.split()[1:]:
        if not hasattr(command, "commands"):
            break
        command = command if word.startswith("-") else command.commands[word]
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def parse(words: list[str]) -> None:
    """Have the command line understand the words without running them."""
    command, name = _commands(), "bornfair"
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


def test_every_other_program_is_known():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.M)
    for block in (block for block in documents.BLOCKS if not block.inline):
        for program, word in re.findall(r"^[\w-]*\$ +(\w+) +(\S+)", block.text, flags=re.M):
            known = word in targets if program == "make" else program in ("bornfair", "python3", "scp")
            assert known, f"{block.document}:{block.line}: {program} {word}"


@pytest.mark.parametrize("block", documents.SNIPPETS, ids=lambda block: f"{block.document}:{block.line}")
def test_every_snippet_runs(block, place):
    text = block.text
    for old, new in SNIPPETS_REPLACED.items():
        text = text.replace(old, new)
    code = compile(text, block.document, "exec")
    if block.document in SNIPPETS_NOT_RUN:
        return
    scope = documents.scope(place)
    exec(code, scope)
    for name in [name for name in scope if name.startswith("test_")]:
        scope[name](scope["fair"], scope["people"])


def test_the_snippet_of_the_readme_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in documents.SNIPPETS if block.document == "README.md"]
    scope: dict[str, object] = {}
    exec(block.text, scope)
    classifier, load = scope["clf"], scope["load"]
    assert classifier.certificate_.claim.startswith(
        "Two individuals who differ only in sex and age always get the same"
    )
    assert load("bundle").verify().answer == "verified"


def test_commands_of_all_documents_are_found():
    """What the other tests run is not an empty list, and every exception is one that a document needs."""
    assert len(RUN) > 50 and {line.block.document for line in RUN} > {"README.md", "docs/ci.md", "docs/wrapping.md"}
    texts = [line.text for line in documents.COMMANDS]
    for pattern in (*NOT_RUN, *STATUSES):
        assert any(re.search(pattern, text) for text in texts), pattern
    assert set(MAKING.values()) <= set(ONCE)
    assert set(SNIPPETS_NOT_RUN) <= {block.document for block in documents.SNIPPETS}
