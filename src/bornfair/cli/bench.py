"""bornfair bench: the commands of the separate distribution bornfair-bench, if it is installed."""

from __future__ import annotations

from typing import Any

import typer

from bornfair.core.checks import installed
from bornfair.core.errors import InputError

HELP = "Measurements behind the claims (needs bornfair-bench)."
ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def commands() -> Any:
    """The group of commands, or one command that says how to install it."""
    try:
        return typer.main.get_command(installed("bornfair_bench.cli", "bornfair bench").app)
    except InputError as error:
        missing = error
    alone = typer.Typer(add_completion=False)

    @alone.command(help=HELP, context_settings=ANYTHING, add_help_option=False)
    def bench() -> None:
        raise missing

    return typer.main.get_command(alone)
