"""The command line. Each command lives in the module of its name and imports the heavy parts only when it runs."""

from __future__ import annotations

import sys

import typer

from bornfair.cli import (
    audit,
    bench,
    certify,
    check,
    datasets,
    demo,
    export,
    predict,
    proxies,
    quantify,
    repair,
    train,
    verify,
)

app = typer.Typer(
    name="bornfair",
    help="Train tabular classifiers that are born fair and stay fair, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("predict")(predict.predict)
app.command("verify")(verify.verify)
app.command("quantify")(quantify.quantify)
app.command("audit")(audit.audit)
app.command("repair")(repair.repair)
app.command("proxies")(proxies.proxies)
app.command("certify")(certify.certify)
app.command("check")(check.check)
app.command("export")(export.export)
app.add_typer(datasets.app, name="datasets")
app.add_typer(bench.app, name="bench")


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help="Show the version and stop.", is_eager=True, callback=lambda v: _version(v)
    ),
) -> None:
    pass


def _version(wanted: bool) -> None:
    if wanted:
        from bornfair import __version__

        typer.echo(f"bornfair {__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command. What the user can mend is one sentence on stderr and a status; a traceback means a bug of ours.

    Status: 0 yes or done, 1 falsified or rejected, 2 bad usage or input, 3 undecided, 130 interrupted.
    """
    from bornfair.errors import BornfairError

    try:
        app()
    except BornfairError as error:
        print(f"bornfair: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("bornfair: interrupted; train --checkpoint FILE and verify --resume FILE go on later.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.stderr.close()
        sys.exit(0)
