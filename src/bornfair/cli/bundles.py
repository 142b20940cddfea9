"""bornfair predict, certify, check, drift, export: what there is to do with a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bornfair.cli import options
from bornfair.cli.output import STATUS, print_json, print_table, print_twins, say, tell
from bornfair.core.errors import InputError
from bornfair.core.files import read_whole, recover, write_atomically
from bornfair.people.reading import TableReading


@options.choices("table", reading=TableReading)
def predict(
    bundle: options.Bundle,
    table: Annotated[
        str,
        typer.Argument(
            help="A CSV or Parquet table, a folder, a glob or an address; sensitive columns are not needed."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write a CSV file instead of printing.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write classes as they are, also those a spreadsheet would take for formulas.")
    ] = False,
    threshold: options.Threshold = None,
    identifiers: Annotated[
        list[str] | None,
        typer.Option("--id", help="A column of the table to write first, to know the rows by; repeat for several."),
    ] = None,
    stream: options.Stream = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: TableReading,
) -> None:
    """Predict the class of each row, with the probability of every class.

    A cell that a spreadsheet would take for a formula is written behind an apostrophe, and this is said. A long table
    is read in batches and written as it goes; interrupted, the same command goes on where it was.
    """
    from bornfair.cli.predictions import Predictions

    Predictions(bundle, table, reading, out, raw, threshold, identifiers or [], json).write(stream)


@options.choices("data", reading=TableReading)
def certify(
    model: options.ModelFile,
    out: Annotated[
        Path | None, typer.Option(help="Write a new bundle; without it a bundle is replaced, a forest needs it.")
    ] = None,
    timeout: options.Timeout = 60.0,
    data: options.Data = None,
    sensitive: options.Sensitive = None,
    target: options.Target = None,
    twins: options.Twins = None,
    domain: options.DomainFile = None,
    threshold: options.Threshold = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: TableReading,
) -> None:
    """Ask all engines whether the model is fair, and write a certificate of the answer, good or bad.

    Of a bundle, or of anybody's forest (the .json of XGBoost, the .txt of LightGBM, trees in .onnx).

    Status 0: verified. Status 1: falsified; the certificate holds two people who show it. Status 3: undecided.
    """
    clock = options.started(timeout, quiet=json)
    table = options.rows_of(data, reading)
    found: Any
    place: Path | None
    if model.is_dir() or model.suffix.lower() == ".zip":
        found, place = _of_bundle(model, table, threshold, sensitive or twins or domain), out or model
    else:
        found, place = _of_forest(clock, model, table, threshold, out, sensitive, target, twins, domain), out
    from bornfair.proof.bundle import save_bundle
    from bornfair.proof.certificate import certified

    done = certified(found, timeout=clock, seed=seed, table=table)
    assert place is not None
    written = save_bundle(done, place)
    certificate = done.certificate
    assert certificate is not None  # `certified` always writes one
    verdict = certificate.verdict
    leaves = sum(not isinstance(entry, list) for entry in certificate.tree or [])
    if json:
        print_json(
            verdict.to_json()
            | {"bundle": str(written), "claim": certificate.claim, "leaves": leaves, "thresholds": done.thresholds}
        )
    else:
        if verdict.twins:
            print_twins(certificate.claim, verdict.twins, verdict.decisions or ())
        else:
            tell(certificate.claim)
        tell(f"Written to {written}" + (f", with a proof tree of {leaves:,} leaves." if leaves else "."))
    raise typer.Exit(STATUS[verdict.answer])


def _of_bundle(bundle: Path, table: Any, threshold: list[str] | None, others: object) -> Any:
    from bornfair.core.errors import InputError
    from bornfair.models.operating import Asked
    from bornfair.proof.bundle import load_bundle

    if others:
        raise InputError("a bundle says itself who is sensitive, who exists and who is whose twin; leave these out.")
    model = load_bundle(bundle)
    if not threshold:
        return model
    point = Asked.of(threshold).for_classes(model.classes.tolist())
    say(f"bornfair: the threshold is {point.text}.")
    return model.at(point, table)


def _of_forest(
    clock: Any,
    path: Path,
    table: Any,
    threshold: list[str] | None,
    out: Path | None,
    sensitive: list[str] | None,
    target: str | None,
    twins: list[str] | None,
    domain: Path | None,
) -> Any:
    from bornfair.core.errors import InputError
    from bornfair.core.files import check_replaceable
    from bornfair.models.protocol import Exportable
    from bornfair.proof.bundle import bundle_of
    from bornfair.questions import Question

    if out is None:
        raise InputError(f"'{path}' is no bundle; name one to write with --out.")
    check_replaceable(out, marker="domain.json")
    asked = Question.within(
        clock, path, domain=domain, table=table, target=target, sensitive_features=sensitive or None,
        twins=twins or None, threshold=threshold or None,
    )  # fmt: skip
    if not asked.model.is_read:
        raise InputError(
            f"'{path}' can be run and not read ({asked.model.unread.rstrip('.')}), so that nothing can be certified of "
            "it; `bornfair verify` and `bornfair audit` ask it from outside."
        )
    if asked.model.kind != "forest" or not isinstance(asked.model, Exportable):
        raise InputError(
            f"'{path}' is a network of somebody else's, of which a bundle would hold another graph than it is; "
            "`bornfair verify` answers about it, and `bornfair repair` writes a bundle."
        )
    return bundle_of(asked.model)


def check(
    bundle: Annotated[Path | None, typer.Argument(help="A bundle: a folder or a .zip.")] = None,
    checker: Annotated[
        Path | None, typer.Option(help="Copy the checker to this file, to be run elsewhere with Python alone.")
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Check a bundle with the independent checker, which trusts nothing but the files.

    Status 0: valid, verified. Status 1: rejected, or valid and falsified. Status 3: valid, but nothing is certified.
    """
    from bornfair.proof import checker as independent

    if checker is not None:
        write_atomically(checker, Path(str(independent.__file__)).read_bytes())
        (say if json else tell)(f"{checker}: run it as  python {checker.name} BUNDLE")
        if bundle is None:
            return
    if bundle is None:
        raise InputError("name the bundle to check: a folder or a .zip that train wrote.")
    if not recover(bundle):
        raise InputError(f"there is no bundle '{bundle}'; give the folder or .zip that train wrote.")
    found = read_whole(bundle, lambda place: independent.check(place, None if json else say))
    if json:
        print_json(found)
    else:
        tell(*independent.told(found).splitlines())
    raise typer.Exit(STATUS[found["verdict"]] if found["valid"] else 1)


@options.choices("table", reading=TableReading)
def drift(
    bundle: options.Bundle,
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet table of new people.")],
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: TableReading,
) -> None:
    """Which rows of a new table are outside the domain that the certificate is about, why, and what follows?

    Status 0: all rows are inside. Status 1: some are outside.
    """
    from bornfair.questions.drift import drift as ask

    found = ask(bundle, options.rows_of(table, reading))
    if json:
        print_json({"bundle": str(bundle), "table": str(table), **found.to_json()})
    else:
        if found.problems:
            lines = [
                (one.column, one.problem, one.allowed, ", ".join(map(str, one.examples)), str(one.first_row),
                 f"{one.rows:,}") for one in found.problems
            ]  # fmt: skip
            headers = ["column", "what is outside", "the domain", "such as", "first row", "rows"]
            print_table(f"{found.outside:,} of {found.rows:,} rows are outside", headers, lines, numbers_from=4)
        for name, count in found.filled.items():
            tell(f"Gaps of '{name}' in {count:,} rows do not matter: the model fills them in, or tries every value.")
        if found.absent:
            tell(f"Sensitive columns that the table lacks: {', '.join(found.absent)}.")
        if found.extra:
            tell(f"Columns that the model does not read: {', '.join(found.extra)}.")
        tell(*found.follows)
    raise typer.Exit(0 if found else 1)


def export(
    bundle: options.Bundle,
    out: Annotated[
        Path, typer.Argument(help="A name.onnx for the model alone; a folder or .zip for a bundle, or with --query.")
    ],
    without_sensitive: Annotated[
        bool,
        typer.Option("--without-sensitive", help="Without the sensitive inputs, for a model that ignores them."),
    ] = False,
    query: Annotated[
        bool, typer.Option("--query", help="Write the fairness question as query.onnx and query.vnnlib instead.")
    ] = False,
    margin: Annotated[
        float,
        typer.Option(help="--query: how far above 0 a score must be to count as yes; other verifiers know ≥ only."),
    ] = 0.0,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Write the model as ONNX (raw columns in, label and probabilities out), a bundle with its certificate, or the
    question whether it is fair.
    """
    from bornfair.proof.bundle import load_bundle

    model = load_bundle(bundle)
    if query:
        from bornfair.core.errors import InputError
        from bornfair.models.network.model import Model
        from bornfair.proof.vnnlib import export_query

        if not isinstance(model, Model):
            raise InputError("--query is about networks; the bundle holds a forest, which such verifiers do not read.")
        written = export_query(model, out, margin=margin)
        files = [str(written.network), str(written.property)]
    elif out.suffix.lower() == ".onnx":
        files = [str(model.export_onnx(out, sensitive=not without_sensitive))]
    else:
        files = [str(model.save(out, sensitive=not without_sensitive))]
    if json:
        print_json({"bundle": str(bundle), "files": files})
    else:
        tell(*files)
