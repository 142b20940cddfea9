"""Does Coq accept every proof here, with nothing assumed? Run by `make proofs`; Python's standard library only.

python proofs/check.py [folder]     status 0: all is proven; 1: something is not; 2: Coq is not installed

Three ways in which a file could pass without being a proof are closed: sources must not admit or assume anything, Coq
must find no axiom below any statement, and Coq's separate checker reads the compiled proofs again. Everything is built
in a temporary folder.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY = "BornFair"
TOOLS = ("coqc", "coqdep", "coqchk")
CLOSED = "Closed under the global context"
STATEMENT = re.compile(r"^\s*(?:Theorem|Lemma|Corollary|Example|Definition)\s+(\w+)", flags=re.M)
# What lets a statement pass without a proof, or turns off what Coq checks of one.
FORBIDDEN = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjecture|Primitive|bypass_check|Unset\s+\w+\s+Checking"
    r"|Declare\s+ML)\b"
)
# A premise inside a section, an axiom outside.
PREMISE = re.compile(r"^(?:Variables?|Hypothes[ie]s|Context)\b")


class NotProven(Exception):
    """What is not proven, in a sentence."""


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(
            f"The proofs were not checked: {', '.join(missing)} not found; install Coq (Debian: apt-get install coq).",
            file=sys.stderr,
        )
        return 2
    try:
        print(check(folder))
    except NotProven as reason:
        print(f"Not proven: {reason}", file=sys.stderr)
        return 1
    return 0


def check(folder: Path) -> str:
    """How much is proven, in a sentence; raises NotProven."""
    sources = {path.stem: without_comments(path.read_text("utf-8")) for path in sorted(folder.glob("*.v"))}
    named = {file: statements(source) for file, source in sources.items()}
    if not any(named.values()):
        raise NotProven(f"there is no statement in {folder}.")
    for file, source in sources.items():
        for flaw in assumed(source):
            raise NotProven(f"{file}.v says {flaw!r}, which assumes what is to be proven.")
    with tempfile.TemporaryDirectory() as scratch:
        built = Path(scratch)
        for file in sources:
            shutil.copy(folder / f"{file}.v", built)
        order = run(built, "coqdep", "-sort", *(f"{file}.v" for file in sources)).split()
        for file in order:
            run(built, "coqc", "-q", file)
        if (found := axioms(built, named)) != CLOSED:
            raise NotProven(f"some statement rests on what nobody has proven. {found}")
        run(built, "coqchk", "-silent", *(word for file in sources for word in ("-norec", f"{LIBRARY}.{file}")))
    count = sum(map(len, named.values()))
    return f"Coq accepts all {count} statements and definitions of {len(sources)} files; none rests on an axiom."


def without_comments(source: str) -> str:
    """The source with comments, which Coq lets stand inside one another, left out; their line breaks stay."""
    kept, depth = [], 0
    for part in re.split(r"(\(\*|\*\))", source):
        if part in ("(*", "*)"):
            depth += 1 if part == "(*" else -1
        else:
            kept.append(part if not depth else "\n" * part.count("\n"))
    return "".join(kept)


def statements(source: str) -> list[str]:
    """The names of what a source without comments states or defines."""
    return STATEMENT.findall(source)


def assumed(source: str) -> list[str]:
    """Whatever a source without comments takes for granted, apart from the premises of its sections."""
    found = [match.group() for match in FORBIDDEN.finditer(source)]
    depth = 0
    for sentence in re.split(r"\.\s", source):
        words = sentence.split()
        if words[:1] == ["Section"]:
            depth += 1
        elif words[:1] == ["End"]:
            depth -= 1
        elif depth == 0 and PREMISE.match(sentence.strip()):
            found.append(" ".join(words))
    return found


def axioms(built: Path, named: dict[str, list[str]]) -> str:
    """What Coq says that all statements together rest on. Asking for each one by itself takes three times as long."""
    asked = ",\n  ".join(f"@{LIBRARY}.{file}.{name}" for file, names in named.items() for name in names)
    source = f"From {LIBRARY} Require {' '.join(named)}.\nDefinition asked := (\n  {asked}).\nPrint Assumptions asked."
    (built / "Asked.v").write_text(source, "utf-8")
    return run(built, "coqc", "-q", "Asked.v").strip()


def run(built: Path, tool: str, *words: str) -> str:
    done = subprocess.run([tool, "-R", ".", LIBRARY, *words], cwd=built, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotProven(f"{tool} says:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
