"""Imports run downwards, also those inside functions; CONTRIBUTING names every room and every module at the top."""

import ast
import graphlib
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = (ROOT / "src", ROOT / "bench" / "src")
# From the bottom up. A room imports what stands before it; what stands together on a line does not know its neighbours.
FLOORS = (
    ("core",),
    ("parallel",),
    ("people",),
    ("models",),
    ("importers",),
    ("verification",),
    ("quantification",),
    ("report",),
    ("proof",),
    ("training",),
    ("questions",),
    ("testing", "estimator", "wrapper"),
    ("datasets",),
    ("cli",),
)
BENCH_FLOORS = (("gamma_network", "tolerance", "smt", "baselines"), ("experiments",), ("cli",))
"""Of bornfair_bench, all of which may import all of bornfair."""
FOUND = {
    f"bornfair.{room}": i for i, rooms in enumerate(FLOORS) for room in rooms
} | {
    f"bornfair_bench.{room}": i for i, rooms in enumerate(BENCH_FLOORS, len(FLOORS)) for room in rooms
}  # fmt: skip
MODULES = {
    ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
    for source in SOURCES
    for path in source.rglob("*.py")
}


def imports_of(source: str, package: str) -> set[str]:
    """Modules of ours that a source imports anywhere but for type checkers."""
    found: set[str] = set()
    waiting = [ast.parse(source)]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
                full = ".".join(part for part in (base, node.module or "") if part)
                found |= {f"{full}.{alias.name}" if f"{full}.{alias.name}" in MODULES else full for alias in node.names}
            waiting.append(node)
    return found & MODULES.keys()


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    packages = {name: name if path.name == "__init__.py" else name.rpartition(".")[0] for name, path in MODULES.items()}
    return {name: imports_of(path.read_text(), packages[name]) - {name} for name, path in MODULES.items()}


def floor(module: str) -> int:
    return FOUND.get(".".join(module.split(".")[:2]), -1)  # bornfair itself knows nobody


def test_no_module_imports_itself_by_a_detour(graph):
    graphlib.TopologicalSorter(graph).prepare()


def test_imports_run_downwards(graph):
    upward = sorted(
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if module.split(".")[:2] != other.split(".")[:2] and floor(other) >= floor(module)
    )
    assert not upward, upward


def test_every_room_has_its_floor(graph):
    assert [name for name in graph if "." in name and floor(name) < 0] == []
    alone = [name for name in graph if name.count(".") < 2 and MODULES[name].name != "__init__.py"]
    assert sum(name.startswith("bornfair.") for name in alone) < 10


def test_bornfair_asks_for_its_measurements_in_two_places_and_never_imports_them(graph):
    """`checks.installed` imports them by their name, if they are there."""
    ours = [name for name in MODULES if name.split(".")[0] == "bornfair"]
    assert [name for name in ours if any(other.startswith("bornfair_bench") for other in graph[name])] == []
    naming = {name for name in ours if '"bornfair_bench' in MODULES[name].read_text()}
    assert naming == {"bornfair.cli", "bornfair.verification.decide"}


def test_the_walk_sees_imports_in_functions_and_leaves_out_those_for_types():
    source = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import bornfair.cli\n"
        "def f():\n    from bornfair.core import errors\n    from .models import metrics\n"
    )
    assert imports_of(source, "bornfair") == {"bornfair.core.errors", "bornfair.models.metrics"}


def test_functions_that_are_loaded_later_exist_in_rooms_below():
    """`later("room.module.name")` is an import that no walk over import statements sees."""
    found = {
        (module, node.args[0].value)
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "later"
    }
    assert len(found) > 5
    for module, home in found:
        other, _, name = f"bornfair.{home}".rpartition(".")
        assert hasattr(importlib.import_module(other), name), home
        assert module.split(".")[:2] == other.split(".")[:2] or floor(other) < floor(module), f"{module}: {home}"


def test_questions_load_no_kind_of_model_and_no_engine():
    code = "import sys, bornfair.questions; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = [name for name in answer.stdout.split() if name.split(".")[0] == "bornfair"]
    assert 50 < len(ours) <= 80, ours
    kinds = re.compile(r"bornfair\.(models\.(forest|opaque|graph\.model|network\.model)|proof|report|training)\b")
    assert [name for name in ours if kinds.match(name)] == []
    assert not {"jax", "sklearn", "scipy", "onnx", "onnxruntime"} & set(answer.stdout.split())


def test_contributing_names_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"^\| `([\w./]+?)/?(?:\.py)?`", text, flags=re.M))
    rooms = {name.split(".")[1] for name in MODULES if "." in name}
    assert rooms <= named, rooms - named
