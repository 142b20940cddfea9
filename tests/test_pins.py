"""The versions that are installed are those that both pyproject.toml admit, on every supported Python."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bornfair

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ["3.11", "3.12", "3.13"]


@pytest.fixture(scope="module")
def pins() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pins", ROOT / ".ci" / "pins.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pinned(file: str, python: str) -> dict[str, str]:
    """The one version of each package that the file allows on this Python."""
    versions: dict[str, str] = {}
    for line in (ROOT / file).read_text().splitlines():
        if line.startswith("#"):
            continue
        entry = Requirement(line)
        if entry.marker is None or entry.marker.evaluate({"python_version": python}):
            (exactly,) = entry.specifier
            assert (exactly.operator, entry.url) == ("==", None) and entry.name not in versions
            versions[entry.name] = exactly.version
    return versions


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_pinned_to_a_version_it_admits(pins: ModuleType, python: str) -> None:
    versions = pinned("constraints.txt", python)
    for wanted in map(Requirement, pins.requirements()):
        assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), wanted


@pytest.mark.parametrize("python", PYTHONS)
def test_the_floors_are_the_lowest_versions_admitted(pins: ModuleType, python: str) -> None:
    versions = pinned("floors.txt", python)
    for requirement in pins.requirements():
        lowest = Requirement(pins.lowest(requirement))
        assert lowest.specifier.contains(versions[canonicalize_name(lowest.name)]), requirement


def test_all_but_the_development_tools_have_a_floor(pins: ModuleType) -> None:
    tools = {"pytest", "pytest-xdist", "hypothesis", "ruff", "mypy", "jsonschema", "markdown-it-py", "pandas-stubs"}
    assert {name for name in pins.requirements() if "==" not in pins.lowest(name)} == tools


def test_a_version_that_differs_between_pythons_gets_a_marker(pins: ModuleType) -> None:
    found = {"3.9": {"a": "1", "b": "1"}, "3.10": {"a": "1", "b": "2"}, "3.11": {"a": "1", "b": "3", "c": "1"}}
    assert pins.merge(found) == [
        "a==1",
        'b==1 ; python_version <= "3.9"',
        'b==2 ; python_version >= "3.10" and python_version <= "3.10"',
        'b==3 ; python_version >= "3.11"',
        "c==1",
    ]


def test_the_measurements_need_the_bornfair_of_their_own_version(pins: ModuleType) -> None:
    library, bench = (tomllib.loads(path.read_text())["project"] for path in pins.PROJECTS)
    assert bench["version"] == library["version"] == bornfair.__version__
    assert f"bornfair=={library['version']}" in bench["dependencies"]
