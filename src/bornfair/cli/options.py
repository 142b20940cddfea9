"""Options that several commands share, each declared once, and the tables that they name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bornfair.cli.output import LARGEST_SEED, say
from bornfair.core.checks import number
from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.core.clock import Clock
    from bornfair.people.survey import TableSample

BUNDLE = Path("bornfair-bundle")
"""Where a trained model is written if nobody says where."""
Option = typer.Option
Command = Callable[..., None]


def option(name: str, kind: Any, default: Any, *flags: str, **facts: Any) -> inspect.Parameter:
    """Something that can be chosen; `name` is what the command calls it, and the flag unless one is given."""
    kind = Annotated[kind, typer.Option(*flags, **facts)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def declared(command: Command, parameters: Iterable[inspect.Parameter]) -> Command:
    """The command as typer reads it: with these parameters, whatever it calls them itself."""
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return command


def choices(after: str, **records: Any) -> Callable[[Command], Command]:
    """Give a command the fields of records as options, behind the option `after`, which is its own or that of a first
    record; it is called with whole records.

    A field says how it is typed by an annotation of typer, or by `metadata` where typer must not be imported.
    """
    fields_of = {argument: _options_of(record) for argument, record in records.items()}

    def command_with_them(command: Command) -> Command:
        own = [
            parameter for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.name not in records
        ]  # fmt: skip
        first, *others = fields_of.values() if not own else (own, *fields_of.values())
        at = [parameter.name for parameter in first].index(after) + 1

        @functools.wraps(command)
        def run(**given: Any) -> None:
            built = {
                argument: records[argument](**{one.name: given.pop(one.name) for one in found})
                for argument, found in fields_of.items()
            }
            command(**given, **built)

        return declared(run, [*first[:at], *(one for found in others for one in found), *first[at:]])

    return command_with_them


def _options_of(record: Any) -> list[inspect.Parameter]:
    kinds = get_type_hints(record, include_extras=True) if record.__module__.startswith(__package__) else {}
    return [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=kinds[one.name])
        if one.name in kinds
        else option(
            one.name, one.metadata["kind"], one.default, f"--{one.name.replace('_', '-')}", help=one.metadata["help"]
        )
        for one in fields(record)
        if one.name in kinds or one.metadata
    ]


MaybeModel = Annotated[
    Path | None,
    typer.Argument(help="A bundle (folder or .zip), .onnx, .h5, .keras or .nnet.", show_default=False),
]
ModelFile = Annotated[Path, typer.Argument(help="A bundle (folder or .zip), .onnx, .h5, .keras or .nnet.")]
Bundle = Annotated[Path, typer.Argument(help="A bundle: a folder or a .zip.")]
TableFile = Annotated[
    str | None,
    typer.Argument(
        help="A CSV or Parquet table: a file, a folder, a glob, or an address as s3://…", show_default=False
    ),
]
Stream = Annotated[
    bool | None,
    Option(
        "--stream/--no-stream",
        help="Read the table in batches, as folders, globs, addresses and large files are, or as a whole.",
        show_default=False,
    ),
]

DomainFile = Annotated[
    Path | None, Option("--domain", help="Who could exist (domain.json); as the model or the table says by default.")
]
Data = Annotated[str | None, Option("--data", help="A CSV or Parquet table of real people.")]
Target = Annotated[str | None, Option("--target", help="The column of the table that holds the true answers.")]
Sensitive = Annotated[
    list[str] | None, Option("--sensitive", help="A sensitive feature: name or position from 0; repeat for several.")
]
Twins = Annotated[
    list[str] | None,
    Option("--twins", help="Who else is a twin, as 'sex: Male<->Female, relationship: Husband<->Wife'; repeatable."),
]
Dataset = Annotated[str | None, Option("--dataset", help="A built-in dataset instead of a table.")]
Drop = Annotated[list[str] | None, Option("--drop", help="A column of the table to leave out; repeat for several.")]
Keep = Annotated[
    list[str] | None,
    Option("--keep", help="A column to use though it looks like free text, an identifier or dates; repeatable."),
]
Categorical = Annotated[
    list[str] | None, Option("--categorical", help="A column of codes that are categories, not numbers; repeatable.")
]
Combinations = Annotated[
    str | None,
    Option(
        "--combinations",
        help="Sensitive combinations that exist: all, or observed in the table. By default all, but the observed ones "
        "of 0/1 columns that are one feature (one-hot); naming one of these columns names all of them.",
    ),
]
Timeout = Annotated[float, Option("--timeout", help="Seconds for all of it, reading included.")]
MostBoxes = Annotated[
    int | None,
    Option("--most-boxes", min=1, help="Stop after so many boxes: the answer is then the same however long it takes."),
]
Jobs = Annotated[
    int | None, Option("--jobs", min=1, help="How many cores to use; of a cluster, how many workers at most.")
]
Cluster = Annotated[
    str | None,
    Option("--cluster", help="Share the work with a cluster: ray://HOST:PORT or auto (Ray), tcp://HOST:PORT (Dask)."),
]
SYNTHETIC = "Show only people who are not in the table; their twins are replayed on the model like any others."
Synthetic = Annotated[bool, Option("--synthetic", help=SYNTHETIC)]
SyntheticFiles = Annotated[
    bool | None,
    Option(
        "--synthetic/--no-synthetic",
        help=f"{SYNTHETIC} The default with --sarif or --junit, which never show rows.",
        show_default=False,
    ),
]
Seed = Annotated[int, Option("--seed", min=0, max=LARGEST_SEED, help="The same seed gives the same answer.")]
Json = Annotated[bool, Option("--json", help="Print one JSON document.")]

ModelCommand = Annotated[
    str | None,
    Option("--model-command", help="A program instead of a model: CSV on stdin, a decision for each row on stdout."),
]
EndpointUrl = Annotated[
    str | None, Option("--endpoint", help="An http(s) address instead of a model: JSON rows in, decisions out.")
]
Rate = Annotated[float, Option("--rate", help="--endpoint: requests per second at most.")]
Opaque = Annotated[
    bool, Option("--opaque", help="Ask the model from outside, though it could be read; nothing is then proven.")
]
Decision = Annotated[
    str | None,
    Option("--decision", help="What the model's output is, if that does not show: probability, logit or label."),
]
Threshold = Annotated[
    list[str] | None,
    Option("--threshold", help="Above which probability a class is decided: CLASS=0.05 or 'CLASS=top 12%'."),
]
Normalise = Annotated[
    str | None, Option("--normalise", help="yes or no: whether the means and ranges of a .nnet file are applied.")
]

Sarif = Annotated[Path | None, Option("--sarif", help="Also write the answer as SARIF 2.1.0, for code hosts.")]
Junit = Annotated[Path | None, Option("--junit", help="Also write the answer as JUnit XML, for test reports.")]

DecisionOutput = Annotated[
    str | None,
    Option("--decision-output", help="The output of an .onnx file that decides, if several may."),
]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Who is asked about, and how the model is read: options of every question about a model."""

    domain: DomainFile = None
    sensitive: Sensitive = None
    twins: Twins = None
    combinations: Combinations = None
    target: Target = None
    decision: Decision = None
    threshold: Threshold = None
    normalise: Normalise = None
    decision_output: DecisionOutput = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of `Question.of`."""
        given = {one.name: getattr(self, one.name) for one in fields(ModelOptions)}
        given = {name: None if value == [] else value for name, value in given.items()}
        return {"sensitive_features": given.pop("sensitive"), **given}


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """A model that is a program or a service."""

    model_command: ModelCommand = None
    endpoint: EndpointUrl = None
    rate: Rate = 10.0

    @property
    def named(self) -> bool:
        return self.model_command is not None or self.endpoint is not None

    def model(self, model: Path | None, timeout: float) -> Any:
        """The model: a file, a program or a service; one of them."""
        named_by = (("a file", model), ("--model-command", self.model_command), ("--endpoint", self.endpoint))
        given = [how for how, one in named_by if one is not None]
        if len(given) != 1:
            named = f"found {' and '.join(given)}" if given else "none was given"
            raise InputError(f"name one model: a file, --model-command or --endpoint; {named}.")
        if model is not None:
            return model
        from bornfair.core.limits import REQUEST_SECONDS
        from bornfair.models.opaque.command import Command
        from bornfair.models.opaque.endpoint import Endpoint

        seconds = min(REQUEST_SECONDS, timeout)
        if self.model_command is not None:
            return Command(self.model_command, seconds)
        assert self.endpoint is not None
        return Endpoint(self.endpoint, seconds, self.rate)


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(ServiceOptions, ModelOptions):
    """Both: options of a question about any model."""

    opaque: Opaque = False

    @property
    def keywords(self) -> dict[str, Any]:
        return super().keywords | {"opaque": self.opaque}


def started(timeout: float, *, quiet: bool) -> Clock:
    """The clock of a command: to be started first, so that all it loads and reads is counted."""
    from bornfair.core.clock import Clock

    clock = Clock(timeout, None if quiet else say)
    number("timeout", timeout, 0.0, float("inf"), open_low=True)
    return clock


def rows_of(path: str | Path | None, reading: TableReading) -> pd.DataFrame | None:
    """The rows of a file, read as the options of `TableReading` say; no file, no rows."""
    if path is None:
        if said := [name for name, value in vars(reading).items() if value]:
            raise InputError(f"--{said[0]}: there is no table to read so; name one.")
        return None
    from bornfair.people.tables import read_table

    return read_table(path, reading)


def sample_of(
    path: str | None, reading: TableReading, stream: bool | None, drop: list[str] | None, seed: int, clock: Any = None
) -> TableSample | None:
    """Random rows of a table that is read in batches; None of one that is read as a whole. Reading takes at most a
    quarter of the time.
    """
    from bornfair.people.sources import Source, is_streamed

    if not is_streamed(path, stream, reading):
        return None
    assert path is not None
    from bornfair.people.survey import looked_at

    part = None if clock is None else clock.part(0.25)
    found = looked_at(Source.at(path, reading), drop=drop or [], seed=seed, is_up=part and (lambda: part.is_up))
    say(f"bornfair: note: what is said of the people of the table is said of {found.told}.")
    return found


def people_of(
    data: str | None, reading: TableReading, model: Path | None, asked: dict[str, Any], seed: int, clock: Clock
) -> tuple[pd.DataFrame | None, dict[str, Any]]:
    """The rows of a table, or a sample if it is read in batches, and what is asked: then with the domain of all rows,
    unless one is given or the model has its own.
    """
    looked = sample_of(data, reading, None, None, seed, clock)
    if looked is None:
        return rows_of(data, reading), asked
    if asked["domain"] is None and not (model is not None and is_bundle(model)):
        sensitive = asked["sensitive_features"] or []
        asked = asked | {"domain": domain_of_all(str(data), reading, asked["target"], sensitive, [], seed, clock)}
    return looked.sample, asked


def is_bundle(path: Path) -> bool:
    return path.suffix.lower() == ".zip" or (path / "domain.json").is_file()


def domain_of_all(
    data: str, reading: TableReading, target: str | None, sensitive: list[str], drop: list[str], seed: int, clock: Any
) -> Any:
    """Everybody in a table that is read in batches: a sample does not show who that is."""
    from bornfair.people.sources import Source
    from bornfair.people.survey import domain_of

    def check(_: int) -> None:
        if clock.is_up:
            raise InputError(
                f"reading who is in '{data}' takes longer than the {clock.timeout:g} seconds of --timeout; give it "
                "more, or say who could exist with --domain FILE."
            )

    return domain_of(Source.at(data, reading), target=target, sensitive=sensitive, drop=drop, seed=seed, check=check)


def table_of(
    table: str | None, dataset: str | None, target: str | None, reading: TableReading, seed: int | None = None
) -> tuple[pd.DataFrame, str | None]:
    """The rows of a file or of a built-in dataset, and the column to predict. With a seed: a sample of a large file."""
    if (table is None) == (dataset is None):
        raise InputError("give either a TABLE, or --dataset NAME.")
    if dataset is not None:
        from bornfair import datasets
        from bornfair.people.tables import with_numbers

        loaded = datasets.load(dataset)
        return with_numbers(loaded.table, reading), target or loaded.target
    looked = None if seed is None else sample_of(table, reading, None, None, seed)
    rows = rows_of(table, reading) if looked is None else looked.sample
    assert rows is not None
    return rows, target


def without(people: pd.DataFrame, drop: list[str] | None) -> pd.DataFrame:
    """The table without the columns to leave out."""
    from bornfair.people.features import unknown_column

    for name in drop or []:
        if name not in people.columns:
            raise InputError(unknown_column(name, list(people.columns)))
    return people.drop(columns=drop or [])


def population(texts: list[str]) -> dict[str, Any] | None:
    """Sub-populations as the user writes them: age=30..40, job=nurse,smith."""
    parts: dict[str, Any] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or not rest:
            raise InputError(f"--where {text!r} is not understood; write age=30..40 or job=nurse,smith.")
        low, dots, high = rest.partition("..")
        parts[name] = (number_in(low, text), number_in(high, text)) if dots else rest.split(",")
    return parts or None


def number_in(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{whole!r} is not understood: {text!r} should be a number.") from None
    return int(value) if value.is_integer() else value
