"""The command line. Related commands share a module, and import the heavy parts only when it runs."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import typer

from bornfair import __version__
from bornfair.cli import audit, bundles, datasets, questions, repair, tables, train
from bornfair.cli.guarded import NO_RESULT, answer_as_child, needs_guard, run_guarded
from bornfair.cli.output import only_documents, printable, say, tell
from bornfair.core.checks import installed
from bornfair.core.errors import BornfairError, InputError
from bornfair.core.growing import Terminated, one_run

app = typer.Typer(
    name="bornfair",
    help="Train tabular classifiers that are born fair and stay fair, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    datasets.demo, tables.inspect, train.train, bundles.predict, questions.verify, questions.quantify, audit.audit,
    questions.explain, repair.repair, tables.proxies, tables.gamma, bundles.certify, bundles.check, bundles.drift,
    bundles.export,
):  # fmt: skip
    app.command(command.__name__)(command)
app.add_typer(datasets.app, name="datasets")


def _version(wanted: bool) -> None:
    if wanted:
        tell(f"bornfair {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help="Show the version and stop.", is_eager=True, callback=_version
    ),
) -> None:
    pass


def main() -> None:
    """Run the command that was typed, and end with its status."""
    _open_standard_streams()
    with contextlib.suppress(AttributeError):  # not the interpreter's own stream
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if needs_guard(sys.argv[1:]) and os.name == "posix":
        found = run_guarded(sys.argv[1:])
        sys.exit(_failed(NO_RESULT, 2) if found is None else found)
    sys.exit(finished(run(sys.argv[1:])))


def main_of_child() -> None:
    """The same in the child process of a guarded command."""
    answer_as_child(lambda: finished(run(sys.argv[1:])))


def finished(status: int) -> int:
    """The same status, once nothing is left that Python would print when it ends: an error then gives status 1."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # what could not be printed is not tried again
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return status


def _open_standard_streams() -> None:
    """Open the null device in place of streams that are closed. Else a file that is opened later takes their number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number, inheritable=True)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def run(arguments: list[str]) -> int:
    """Run a command and return its status. Whatever goes wrong is one sentence on stderr, never a traceback.

    Status: 0 yes or done, 1 falsified or rejected, 2 bad usage or input, 3 undecided, 4 a bug of ours; and as shells
    count signals, 130 interrupted, 143 terminated, 141 the reader of our output has gone. No answer is taken for
    another.
    """
    try:
        with warnings.catch_warnings(), one_run():
            warnings.simplefilter("ignore")  # libraries' notes to programmers
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *_, **__: say(f"bornfair: warning: {message}")
            with only_documents() if "--json" in arguments else contextlib.nullcontext():
                status = _answered(arguments)
        sys.stdout.flush()  # here a full disk is noticed
        return status
    except BornfairError as error:
        return _failed(str(error), error.exit_code)
    except _USAGE as error:
        return _misused(error)
    except Terminated as end:
        return _failed("terminated.", end.status)
    except SystemExit as error:  # of a library: it gives no result
        return _bug(RuntimeError(f"a library ended the process with status {error.code}"))
    except KeyboardInterrupt:
        return _failed("interrupted; train --checkpoint FILE and verify --resume FILE go on later.", 130)
    except BrokenPipeError:
        return 141
    except MemoryError:
        return _failed(NO_MEMORY, 2)
    except OSError as error:
        place = f" '{error.filename}'" if error.filename else ""
        return _failed(f"cannot read or write{place}: {error.strerror or error}.", 2)
    except Exception as error:  # noqa: BLE001 - the net under everything: no bug of ours looks like an answer
        said = str(error)  # as JAX says it, before it computes or while it does
        if any(word in said for word in LOST):
            return _failed(NO_PEER, 2)
        return _failed(NO_MEMORY, 2) if "RESOURCE_EXHAUSTED" in said or "Out of memory" in said else _bug(error)


NO_MEMORY = "there is not enough memory; give a smaller table or model, or run it where there is more."
LOST = ("Gloo", "heartbeat", "coordination service", "CoordinationService", "Connection closed by peer")
NO_PEER = (
    "another process of --hosts has ended or cannot be reached; start all of them again (with --checkpoint FILE, "
    "training goes on where it was)."
)
_USAGE: Any = typer.BadParameter.__mro__[2]  # what typer raises for arguments it does not understand, in all versions


def _answered(arguments: list[str]) -> int:
    try:
        with _commands().make_context("bornfair", arguments or ["--help"]) as context:
            context.command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


@functools.cache
def _commands() -> Any:
    found: Any = typer.main.get_command(app)
    found.commands["bench"] = _bench()  # only now, since these commands import modules of this package
    return found


def _bench() -> Any:
    """The commands of bornfair-bench, or one command that says how to install it."""
    try:
        return typer.main.get_command(installed("bornfair_bench.cli", "bornfair bench").app)
    except InputError as error:
        missing = error
    alone = typer.Typer(add_completion=False)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @alone.command(
        help="Measurements behind the claims (needs bornfair-bench).", context_settings=anything, add_help_option=False
    )
    def bench() -> None:
        raise missing

    return typer.main.get_command(alone)


def _failed(sentence: str, status: int) -> int:
    text = printable(sentence)
    with contextlib.suppress(OSError):  # nobody can read it; the status stays
        say(f"bornfair: {text if len(text) <= 2000 else f'{text[:1500]} … {text[-400:]}'}")  # a name may be a book
    return status


def _misused(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands without one: its help is the message
        error.show()
    else:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "bornfair"
        say(f"bornfair: {error.format_message().rstrip('.')}; see {command} --help")
    return 2


def _bug(error: Exception) -> int:
    if os.environ.get("BORNFAIR_TRACEBACK"):
        traceback.print_exception(error)
    where = (traceback.extract_tb(error.__traceback__) or traceback.extract_stack())[-1]
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    at = f"{Path(where.filename).name}, line {where.lineno}"
    return _failed(
        f"internal error ({what[:300]}; {at}). This is no answer but a bug of bornfair: please report it as "
        "docs/security.md says, with what BORNFAIR_TRACEBACK=1 shows.",
        4,
    )
