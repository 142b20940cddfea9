"""`make proofs`: Coq accepts the theorems as they stand, and nothing that is broken, admitted or assumed.

Needs Coq. Where there is none, all but what can be read off the sources is skipped with that reason, unless CI or
BORNFAIR_NEED_COQ=1 says that there must be one.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PROOFS = ROOT / "proofs"
README = (PROOFS / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def checking() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_proofs", PROOFS / "check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def coq() -> None:
    if shutil.which("coqc") is None:
        reason = "there is no Coq here; install it (Debian: apt-get install coq)"
        if os.environ.get("CI") or os.environ.get("BORNFAIR_NEED_COQ") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def checked(folder: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ if path is None else {**os.environ, "PATH": path}
    command = [sys.executable, str(PROOFS / "check.py"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def changed(folder: Path, files: tuple[str, ...], old: str = "", new: str = "") -> Path:
    """A copy of some files, in the last of which a passage is replaced."""
    for file in files:
        shutil.copy(PROOFS / file, folder)
    last = folder / files[-1]
    text = last.read_text("utf-8")
    assert text.count(old) == 1 or not old, old
    last.write_text(text.replace(old, new) if old else text + new, "utf-8")
    return folder


# --- with Coq ---


def test_coq_accepts_every_proof_and_the_readme_shows_what_is_printed(coq: None) -> None:
    before = sorted(PROOFS.rglob("*"))
    done = subprocess.run(
        ["make", "--no-print-directory", "proofs", f"PYTHON={sys.executable}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert f"    $ make proofs\n    {done.stdout}" in README
    assert sorted(PROOFS.rglob("*")) == before


BASE = ("FiniteSums.v", "Optimisers.v")
BROKEN = {
    # Statements that are false: a premise is missing, or the conclusion is too strong.
    "codes that are not centred": (
        (*BASE, "ExactPreservation.v"),
        "forall person k, sum values (fun omega => release person omega * code omega k) = 0.",
        "forall (person : row) (k : code_column), True.",
    ),
    "weights that need not cancel": (
        ("FiniteSums.v", "Structural.v"),
        "  (forall n, sum inputs (fun i => weight n i * (x i - y i)) = 0) -> first_layer x = first_layer y.",
        "  first_layer x = first_layer y.",
    ),
    "flags that take any weight but 0 for 0": (
        ("FiniteSums.v", "Structural.v"),
        "forallb (fun i => same i || is_zero (weights l n i)) (read l)",
        "forallb (fun i => same i || negb (is_zero (weights l n i))) (read l)",
    ),
    "training on everybody's own version alone": (
        (*BASE, "GroupPreservation.v"),
        "signal now person h omega i * act h (free person) j",
        "signal now person h omega i * free person j",
    ),
    "groups of neurons with factors of any sign": (
        ("FiniteSums.v", "Structural.v", "Relus.v"),
        "(c * base rationals g)%Qc /\\ (Q2Qc 0 < c)%Qc)",
        "(c * base rationals g)%Qc /\\ c <> Q2Qc 0)",
    ),
    "relus that are never active whatever they are fed": (
        ("FiniteSums.v", "Structural.v", "Relus.v"),
        "never_active l n = true -> (forall i, not_below (x i) = true) -> through",
        "never_active l n = true -> (forall i : nat, True) -> through",
    ),
    "a step that adds something to V": (
        (*BASE, "ExactPreservation.v"),
        "V := fun i k => V now i k - optimiser now i k (seen now i k);",
        "V := fun i k => V now i k + 1 - optimiser now i k (seen now i k);",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_statement_is_not_proven(coq: None, tmp_path: Path, case: str) -> None:
    files, old, new = BROKEN[case]
    done = checked(changed(tmp_path, files, old, new))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f'Not proven: coqc says:\nFile "./{files[-1]}", line ')
    assert not re.search("Syntax error|not found in the current environment|has type", done.stderr), done.stderr


def test_a_broken_proof_is_not_proven(coq: None, tmp_path: Path) -> None:
    done = checked(
        changed(tmp_path, ("FiniteSums.v",), "Proof. intro same. apply sum_ext_in. auto. Qed.", "Proof. Qed.")
    )
    assert done.returncode == 1 and "incomplete proof" in done.stderr


def test_an_axiom_below_a_statement_is_found_by_coq_itself(coq: None, tmp_path: Path) -> None:
    """Of the standard library, which the words of our sources do not show."""
    new = (
        "\nFrom Coq Require Import FunctionalExtensionality.\n"
        "Lemma same_function (f : nat -> nat) : (fun n => f n) = f.\n"
        "Proof. apply functional_extensionality. reflexivity. Qed.\n"
    )
    done = checked(changed(tmp_path, ("FiniteSums.v",), new=new))
    assert done.returncode == 1
    assert "rests on what nobody has proven" in done.stderr and "functional_extensionality_dep" in done.stderr


# --- what is asked of the sources ---


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("Lemma all_alike (a b : nat) : a = b.\nProof. Admitted.\n", "Admitted"),
        ("Lemma all_alike (a b : nat) : a = b.\nProof. admit. Qed.\n", "admit"),
        ("Axiom all_alike : forall a b : nat, a = b.\n", "Axiom"),
        ("Parameter nobody : False.\n", "Parameter"),
        ("Variable nobody : False.\n", "Variable nobody : False"),
        ("Section Some. Variable n : nat. End Some.\nHypothesis nobody : False.\n", "Hypothesis nobody : False"),
        ("Unset Guard Checking.\n", "Unset Guard Checking"),
    ],
)
def test_what_admits_or_assumes_is_refused(checking: ModuleType, tmp_path: Path, new: str, told: str) -> None:
    folder = changed(tmp_path, ("FiniteSums.v",), new=f"\n{new}")
    with pytest.raises(checking.NotProven, match=re.escape(f"FiniteSums.v says {told!r}")):
        checking.check(folder)


def test_an_admitted_proof_gives_status_1(coq: None, tmp_path: Path) -> None:
    old = "  rewrite same, IH; auto.\nQed."
    done = checked(changed(tmp_path, ("FiniteSums.v",), old, "Admitted."))
    assert done.returncode == 1 and "'Admitted'" in done.stderr


def test_comments_may_say_anything(checking: ModuleType) -> None:
    source = "(* Admitted (* Axiom *) Parameter *)\nLemma a : True.\n"
    assert checking.assumed(checking.without_comments(source)) == []
    assert checking.statements(checking.without_comments("(*\nLemma a. *)\nTheorem b : True.")) == ["b"]


def test_a_folder_without_statements_proves_nothing(checking: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(checking.NotProven, match="there is no statement"):
        checking.check(tmp_path)


def test_without_coq_it_says_so_and_fails(tmp_path: Path) -> None:
    done = checked(PROOFS, path=str(tmp_path))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("The proofs were not checked: coqc, coqdep, coqchk not found; install Coq")


# --- the README ---


def table() -> dict[str, list[tuple[list[str], list[str]]]]:
    """By file: statements and the code that each line of the README's table names."""
    found: dict[str, list[tuple[list[str], list[str]]]] = {}
    for line in README.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and (file := re.match(r"\*\*\[(\w+\.v)\]", cells[0])):
            lines = found.setdefault(file[1], [])
        elif cells and cells[0].startswith("`"):
            lines.append((re.findall(r"`(\w+)`", cells[0]), re.findall(r"`([\w/]+\.py:\w+)`", cells[3])))
    return found


def test_every_statement_of_the_readme_exists(checking: ModuleType) -> None:
    named = table()
    assert named.keys() | {"FiniteSums.v"} == {path.name for path in PROOFS.glob("*.v")}
    for file, lines in named.items():
        stated = checking.statements(checking.without_comments((PROOFS / file).read_text("utf-8")))
        assert [name for names, _ in lines for name in names if name not in stated] == []
        assert len(stated) == len(set(stated))


def test_every_theorem_is_in_the_readme(checking: ModuleType) -> None:
    for file, lines in table().items():
        source = checking.without_comments((PROOFS / file).read_text("utf-8"))
        theorems = set(re.findall(r"^(?:Theorem|Example) (\w+)", source, flags=re.M))
        assert theorems <= {name for names, _ in lines for name in names}, file


def test_the_code_that_the_readme_names_exists() -> None:
    places = [place for lines in table().values() for _, places in lines for place in places]
    assert len(places) > 10
    for file, name in (place.split(":") for place in places):
        source = (ROOT / "src" / "bornfair" / file).read_text("utf-8")
        assert re.search(rf"^ *(?:def|class) {name}\b", source, flags=re.M), (file, name)


def test_the_theory_points_to_each_file() -> None:
    theory = (ROOT / "docs" / "theory.md").read_text("utf-8")
    for file in ("ExactPreservation.v", "GroupPreservation.v", "Structural.v", "Relus.v"):
        assert f"../proofs/{file}" in theory
