"""Which versions are the tests run against? Writes constraints.txt (the newest admitted) and floors.txt (the lowest).

Run by `make pins`, with one interpreter of each supported Python: pip resolves on each of them, wheels only, and
versions that differ get a marker. Tools without a range in pyproject.toml are the newest in both files.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = (ROOT / "pyproject.toml", ROOT / "bench" / "pyproject.toml")
FILES = {
    "constraints.txt": "The newest admitted versions, which `make demo` and `make test` install.",
    "floors.txt": "The lowest admitted versions, which `make floors` installs.",
}


def requirements() -> list[str]:
    """All that the two distributions name, except each other and their own extras."""
    named: dict[str, None] = {}  # each once, in order
    for project in (tomllib.loads(path.read_text()) for path in PROJECTS):
        extras = project["project"]["optional-dependencies"].values()
        for several in (project["build-system"]["requires"], project["project"]["dependencies"], *extras):
            named |= dict.fromkeys(several)
    return [name for name in named if not name.startswith("bornfair")]


def lowest(requirement: str) -> str:
    """
    >>> lowest("jax>=0.8,<0.11"), lowest("pytest")
    ('jax==0.8', 'pytest')
    """
    return re.sub(r">=([^,]+).*", r"==\1", requirement)


def resolve(python: str, wanted: list[str]) -> tuple[str, dict[str, str]]:
    """The Python version, such as 3.13, and the version of each package that pip would install there."""
    command = [python, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--quiet"]
    found = subprocess.run([*command, "--report", "-", *wanted], check=True, stdout=subprocess.PIPE)
    report = json.loads(found.stdout)
    versions = {}
    for package in (entry["metadata"] for entry in report["install"]):
        name = re.sub(r"[-_.]+", "-", package["name"]).lower()
        # For which graphics card PyTorch was built is left to the machine: no 2.13.0+cpu, no CUDA packages.
        if not name.startswith(("cuda-", "nvidia-", "triton")):
            versions[name] = package["version"].split("+")[0]
    return report["environment"]["python_version"], versions


def merge(resolutions: dict[str, dict[str, str]]) -> list[str]:
    """
    >>> merge({"3.11": {"a": "1", "b": "1"}, "3.12": {"a": "1", "b": "2"}, "3.13": {"a": "1", "b": "2", "c": "1"}})
    ['a==1', 'b==1 ; python_version <= "3.11"', 'b==2 ; python_version >= "3.12"', 'c==1']
    """
    lines = []
    pythons = sorted(resolutions, key=lambda version: [int(part) for part in version.split(".")])
    for name in sorted({name for versions in resolutions.values() for name in versions}):
        users: dict[str, list[str]] = {}
        for python in pythons:
            if name in resolutions[python]:
                users.setdefault(resolutions[python][name], []).append(python)
        for version, where in users.items():
            bounds = [f'python_version >= "{where[0]}"'] * (where[0] != pythons[0])
            bounds += [f'python_version <= "{where[-1]}"'] * (where[-1] != pythons[-1])
            lines.append(f"{name}=={version}" + (f" ; {' and '.join(bounds)}" if bounds and len(users) > 1 else ""))
    return lines


def main(pythons: list[str]) -> None:
    for (file, meaning), choose in zip(FILES.items(), (str, lowest), strict=True):
        resolutions = dict(resolve(python, [choose(name) for name in requirements()]) for python in pythons)
        heading = [f"# {meaning}", f"# Written by `make pins` with Python {', '.join(resolutions)}."]
        (ROOT / file).write_text("\n".join([*heading, *merge(resolutions)]) + "\n")
        print(f"{file}: {len(merge(resolutions))} versions")


if __name__ == "__main__":
    main(sys.argv[1:])
