"""What several tests share: small tables of people, the command line, and where the project is."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
DOMAIN_SCHEMA = ROOT / "docs" / "schemas" / "domain.schema.json"
CERTIFICATE_SCHEMA = DOMAIN_SCHEMA.with_name("certificate.schema.json")


def make_people(count: int, *, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": random.integers(18, 80, count),
            "income": random.normal(30.0, 12.0, count).round(3),
            "job": random.choice(["clerk", "nurse", "smith"], count),
            "owner": random.random(count) < 0.4,
            "sex": random.choice(["female", "male"], count),
            "race": random.choice(["a", "b", "c"], count),
        }
    )
    signal = (
        table["income"] / 12 + 2 * (table["sex"] == "male") + (table["job"] == "nurse") + random.normal(0, 1, count)
    )
    table["grant"] = np.where(signal > signal.median(), "yes", "no")
    return table


def bornfair(*arguments: object, cwd: Path, own_process: bool = False) -> subprocess.CompletedProcess[str]:
    """A command with its status, stdout and stderr.

    It runs in this process, where libraries are loaded and loops compiled, unless a process is what is tested, or the
    command starts a child process that reports its status.
    """
    from bornfair.cli.guarded import needs_guard

    words = [str(argument) for argument in arguments]
    if own_process or needs_guard(words):
        command = [sys.executable, "-c", "from bornfair.cli import main; main()", *words]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    from bornfair.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["bornfair", *words]), pytest.raises(SystemExit) as end,
    ):  # fmt: skip
        main()
    return subprocess.CompletedProcess(words, end.value.code or 0, out.getvalue(), err.getvalue())


def double(run: Any) -> dict[str, Any]:
    """What a run of an experiment might measure; other processes can import it from here."""
    return {"seconds": 0.0, "value": 2 * run.seed}
