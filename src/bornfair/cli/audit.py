"""bornfair audit: everything about anybody's model, in a report people read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bornfair.cli.code_hosts import Junit, Sarif, write_for_code_hosts
from bornfair.cli.options import (
    Cluster,
    Data,
    Drop,
    Jobs,
    Json,
    ModelOptions,
    Option,
    OutsideOptions,
    Seed,
    Stream,
    SyntheticFiles,
    choices,
    domain_of_all,
    is_bundle,
    rows_of,
    sample_of,
    started,
    without,
)
from bornfair.cli.output import STATUS, print_json, tell, written_to
from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.people.survey import TableSample


USUAL = Path("audit.html")
ON_A_TERMINAL = ("people", "twins", "quality", "by-group", "shares", "combinations", "groups", "trees", "proxies")
"""Sections of the report that are printed, too."""


@choices("data", about=ModelOptions, outside=OutsideOptions, reading=TableReading)
def audit(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Models: bundles, .onnx, .nnet, .h5. Several are compared side by side.", show_default=False
        ),
    ] = None,
    data: Data = None,
    drop: Drop = None,
    report: Annotated[Path, Option(help="Where to write the report: .html, .md or .json.")] = USUAL,
    card: Annotated[Path | None, Option(help="Also write a model card (.md).")] = None,
    sarif: Sarif = None,
    junit: Junit = None,
    synthetic: SyntheticFiles = None,
    favourable: Annotated[
        str | None,
        Option(help="The decision people hope for, as approve; inferred from its name, and said, otherwise."),
    ] = None,
    over: Annotated[
        str | None,
        Option(
            help="How people are weighted: data (as often as in the table), uniform (every combination alike); "
            "both if left out."
        ),
    ] = None,
    timeout: Annotated[float, Option(help="Seconds for all of it, reading included; for each model.")] = 60.0,
    jobs: Jobs = None,
    cluster: Cluster = None,
    send_data: Annotated[
        bool,
        Option(
            "--send-data",
            help="--cluster: the rows of the table may be sent to its workers, so that several models are audited "
            "side by side there. Without it none is sent.",
        ),
    ] = False,
    folder: Annotated[
        Path | None,
        Option("--folder", help="Keep what is found of each model there; the same command goes on where it stopped."),
    ] = None,
    stream: Stream = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    about: ModelOptions,
    outside: OutsideOptions,
    reading: TableReading,
) -> None:
    """Is it fair, to how many, to whom not, and how good is it? For one model or several side by side.

    Status 0: all verified. Status 1: one is falsified. Status 3: one is undecided, and none falsified.
    """
    clock = started(timeout, quiet=json)
    from bornfair.core.files import check_report_replaceable
    from bornfair.parallel import Workers
    from bornfair.questions.auditing import audit as ask

    for path, endings in ((report, (".html", ".htm", ".md", ".json")), (card, (".md",))):
        if path is not None and path.suffix.lower() not in endings:
            raise InputError(f"'{path}' ends in '{path.suffix}'; the name must end in one of {', '.join(endings)}.")
        if path is not None:
            check_report_replaceable(path)
    looked = sample_of(data, reading, stream, drop, seed, clock)
    rows, read = (None, "") if looked is not None else _rows_of(data, reading)
    people = looked.sample if looked is not None else None if rows is None else without(rows, drop)
    if people is None and drop:
        raise InputError(f"--drop {drop[0]}: there is no table to leave it out of; name one with --data.")
    asked = about.keywords | {"opaque": outside.opaque}
    if looked is not None and about.domain is None and not (models and all(map(is_bundle, models))):
        asked |= {
            "domain": domain_of_all(str(data), reading, about.target, about.sensitive or [], drop or [], seed, clock)
        }
    sources: dict[str, Any] = dict(_named(models or []))
    if outside.named or not sources:
        other = outside.model(None, timeout)
        sources[other.name] = other
    made_up = bool(sarif or junit) if synthetic is None else synthetic
    examination = _examination(data, drop, read if looked is None else looked.told_at_length)
    with Workers.of(jobs, cluster) as workers:
        found = ask(
            sources, people, over=over, favourable=favourable, timeout=clock, seed=seed,  # type: ignore[arg-type]
            jobs=workers, send_table=send_data, folder=folder, examination=examination,
            synthetic=made_up, **asked,
        )  # fmt: skip
    found = found if looked is None else _of_sample(found, looked, synthetic=made_up)
    written = []
    for path in filter(None, (report, card)):
        with written_to(path, USUAL):
            written.append(str(found.save(path)))
    documents = found.documents
    if sarif or junit:
        written += write_for_code_hosts("audit", _examined(_named(models or []), documents), sarif, junit)
    if json:
        print_json({"reports": written, **found.to_json()})
    else:
        from bornfair.cli.terminal import print_contents
        from bornfair.models.protocol import ASKED
        from bornfair.report.sections import contents_of

        for document in documents:
            how = ("making",) if ASKED in document.making else ()
            print_contents(contents_of(document), ON_A_TERMINAL + how, document.model)
        tell(f"To look at: {' and '.join(written)}")
    statuses = {STATUS[document.verdict.answer] for document in documents}
    raise typer.Exit(next(status for status in (1, 3, 0) if status in statuses))


def _named(paths: list[Path]) -> dict[str, Path]:
    """Models by the shortest names that tell them apart."""
    from bornfair.importers.registry import check_no_table

    for path in paths:  # before the first of them is looked at for a minute
        check_no_table(path)
    short = [path.name or str(path) for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) != len(names):
        raise InputError(f"the model '{next(n for n in names if names.count(n) > 1)}' is named twice; name it once.")
    return dict(zip(names, paths, strict=True))


def _examined(files: dict[str, Path], documents: Any) -> Any:
    from bornfair.report.code_hosts import Examined
    from bornfair.report.verdict_text import verdict_sentence

    return [Examined.at(files.get(one.model), one.verdict, verdict_sentence(one), name=one.model) for one in documents]


def _of_sample(report: Any, looked: TableSample, *, synthetic: bool) -> Any:
    """The report, in which it is said of how many rows those who were judged are a sample. If synthetic, it shows
    nobody, because twins were compared with the sample only.
    """
    import dataclasses

    from bornfair.quantification.synthetic import without_people
    from bornfair.report import Report
    from bornfair.report.facts import Comparison
    from bornfair.report.verdict_text import people_shown

    def noted(document: Any) -> Any:
        if synthetic and not len(looked.sample) == looked.read == looked.total:
            verdict = without_people(document.verdict, "they were compared with a sample of the table only")
            document = dataclasses.replace(document, verdict=verdict, shows=people_shown(verdict, document.people))
        if document.people is None or len(looked.sample) == looked.read:
            return document
        return dataclasses.replace(document, people=dataclasses.replace(document.people, drawn_from=looked.read))

    if isinstance(report.document, Comparison):
        models = tuple(noted(one) for one in report.document.models)
        return Report(dataclasses.replace(report.document, models=models))
    return Report(noted(report.document))


def _rows_of(data: str | None, reading: TableReading) -> tuple[Any, str]:
    """The rows of a file, and the digest of the bytes they were read from."""
    from bornfair.questions.audit_runs import data_digest

    before = data_digest(data) if data is not None and Path(data).is_file() else ""
    rows = rows_of(data, reading)
    if data is not None and data_digest(data) != before:
        raise InputError(f"'{data}' changed while it was read; run the command again when no program writes to it.")
    return rows, f"SHA-256 {before}"


def _examination(data: str | None, drop: list[str] | None, told: str) -> dict[str, str]:
    """What the command knows of how the report came about: itself, and the file of the table."""
    from bornfair.core.redacted import typed, url_shown

    command = {"Command": typed(["bornfair", *sys.argv[1:]])}
    if data is None:
        return command
    without = f", without {' and '.join(drop)}" if drop else ""
    named = url_shown(data) if "://" in data else Path(data).name
    return {"Data": f"{named}{without}, {told}" if told.startswith("SHA-256 ") else told} | command
