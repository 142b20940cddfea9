"""bornfair audit: everything about anybody's model, in a report people read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from bornfair.cli import options
from bornfair.cli.output import STATUS, print_json, print_table, say, tell, write_for_code_hosts, written_to
from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.people.survey import TableSample


USUAL = Path("audit.html")
ON_A_TERMINAL = ("people", "twins", "quality", "by-group", "shares", "combinations", "groups", "trees", "proxies")
"""Sections of the report that are printed, too."""


@options.choices("data", about=options.QuestionOptions, reading=TableReading)
def audit(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Models: bundles, .onnx, .nnet, .h5. Several are compared side by side.", show_default=False
        ),
    ] = None,
    data: options.Data = None,
    drop: options.Drop = None,
    report: Annotated[Path, Option(help="Where to write the report: .html, .md or .json.")] = USUAL,
    card: Annotated[Path | None, Option(help="Also write a model card (.md).")] = None,
    sarif: options.Sarif = None,
    junit: options.Junit = None,
    synthetic: options.SyntheticFiles = None,
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
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
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
    stream: options.Stream = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    about: options.QuestionOptions,
    reading: TableReading,
) -> None:
    """Is it fair, to how many, to whom not, and how good is it? For one model or several side by side.

    Status 0: all verified. Status 1: one is falsified. Status 3: one is undecided, and none falsified.
    """
    clock = options.started(timeout, quiet=json)
    from bornfair.core.files import check_report_replaceable
    from bornfair.parallel import Workers
    from bornfair.questions.auditing import audit as ask

    for path, endings in ((report, (".html", ".htm", ".md", ".json")), (card, (".md",))):
        if path is not None and path.suffix.lower() not in endings:
            raise InputError(f"'{path}' ends in '{path.suffix}'; the name must end in one of {', '.join(endings)}.")
        if path is not None:
            check_report_replaceable(path)
    looked = options.sample_of(data, reading, stream, drop, seed, clock)
    rows, read = (None, "") if looked is not None else _rows_of(data, reading)
    people = looked.sample if looked is not None else None if rows is None else options.without(rows, drop)
    if people is None and drop:
        raise InputError(f"--drop {drop[0]}: there is no table to leave it out of; name one with --data.")
    asked = about.keywords
    if looked is not None and about.domain is None and not (models and all(map(options.is_bundle, models))):
        sensitive = about.sensitive or []
        everybody = options.domain_of_all(str(data), reading, about.target, sensitive, drop or [], seed, clock)
        asked |= {"domain": everybody}
    sources: dict[str, Any] = dict(_named(models or []))
    if about.named or not sources:
        other = about.model(None, timeout)
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
        for document in documents:
            _print(document)
        tell(f"To look at: {' and '.join(written)}")
    statuses = {STATUS[document.verdict.answer] for document in documents}
    raise typer.Exit(next(status for status in (1, 3, 0) if status in statuses))


def _print(document: Any) -> None:
    """Sections of the report as text, without pictures. Warnings of the lead go to stderr; sections repeat them."""
    from bornfair.models.protocol import ASKED
    from bornfair.report.blocks import Block, BlockGroup, Cell, Chart, Listing, Meter, Table, Text
    from bornfair.report.sections import contents_of

    def text_of(cell: Cell) -> str:
        return f"{cell.text} {cell.more}".strip() if isinstance(cell, Meter) else cell.replace("\n", ", ")

    def show(block: Block) -> None:
        match block:
            case Text(_, "warning"):
                return
            case Text(text, kind):
                tell(text, *([] if kind == "heading" else [""]))
            case Listing(kind, entries):
                more = [f" ({entry.more})" if kind == "tiles" and entry.more else "" for entry in entries]
                tell(*(f"{one.name}: {text_of(one.text)}{also}" for one, also in zip(entries, more, strict=True)), "")
            case Table(columns, rows, caption, numbers):
                cells = [tuple(map(text_of, row.cells)) for row in rows]
                last = [i for i in range(len(columns)) if i not in numbers]
                print_table(caption, columns, cells, numbers_from=max(last, default=-1) + 1)
            case BlockGroup(title, inner, "aside"):
                tell(title)
                for block in inner:
                    show(block)
            case BlockGroup(title, _, "person"):
                tell(f"  {title}")
            case Chart(_, words, _, repeats) if not repeats:
                tell(words, "")

    contents = contents_of(document)
    tell(f"{document.model}: {contents.headline}" if document.model else contents.headline, "")
    for block in contents.lead:
        if isinstance(block, Text) and block.kind == "warning":
            say(f"bornfair: warning: {block.text}")
        else:
            show(block)
    for section in contents.sections:
        if section.name in ON_A_TERMINAL or (section.name == "making" and ASKED in document.making):
            tell(f"== {section.title} ==")
            for block in section.blocks:
                show(block)


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
    rows = options.rows_of(data, reading)
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
