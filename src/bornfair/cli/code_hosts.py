"""Options of commands that write what code hosts read, and how they write it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bornfair.cli.options import Option

if TYPE_CHECKING:
    from bornfair.report.code_hosts import Examined

Sarif = Annotated[Path | None, Option("--sarif", help="Also write the answer as SARIF 2.1.0, for code hosts.")]
Junit = Annotated[Path | None, Option("--junit", help="Also write the answer as JUnit XML, for test reports.")]


def write_for_code_hosts(command: str, examined: list[Examined], sarif: Path | None, junit: Path | None) -> list[str]:
    """Write the files that are asked for; their names."""
    from bornfair.core.files import write_atomically
    from bornfair.report.code_hosts import to_junit, to_sarif

    written = []
    for path, write in ((sarif, to_sarif), (junit, to_junit)):
        if path is not None:
            written.append(str(write_atomically(path, write(command, examined))))
    return written
