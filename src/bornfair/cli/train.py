"""bornfair train: from a table to a certified bundle."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from bornfair.cli import options
from bornfair.cli.output import (
    STATUS,
    print_json,
    say,
    training_progress,
    unfairness_warned,
    written_to,
)
from bornfair.cli.training_result import (
    TRAINED_ON,
    check_not_dropped,
    check_test_fraction,
    check_unlabelled,
    print_training,
    training_result,
)
from bornfair.core.errors import InputError, shown
from bornfair.core.files import check_replaceable
from bornfair.people.reading import TableReading
from bornfair.training.options import TrainingOptions, advice

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.cli.train_stream import Streamed
    from bornfair.people.domain import Domain


@dataclass(kw_only=True)
class TrainOptions:
    """What is trained on which table, and where the result goes; how, say `TrainingOptions`."""

    table: options.TableFile = None
    target: options.Target = None
    sensitive: options.Sensitive = None
    twins: options.Twins = None
    dataset: options.Dataset = None
    out: Annotated[Path, Option(help="The folder to write the bundle to.")] = options.BUNDLE
    drop: options.Drop = None
    keep: options.Keep = None
    categorical: options.Categorical = None
    domain: options.DomainFile = None
    combinations: options.Combinations = None
    estimator: Annotated[
        str,
        Option(
            help="network, or another estimator made fair by a wrapper: xgboost, lightgbm, hist-gradient-boosting, "
            "random-forest, logistic."
        ),
    ] = "network"
    method: Annotated[
        str,
        Option(
            help="For another estimator: merge trains it on what twins have in common, average on everything, and "
            "decides by the mean over all versions of a person."
        ),
    ] = "merge"
    class_weight: Annotated[str | None, Option(help="balanced, to give rare classes more weight.")] = None
    threshold: options.Threshold = None
    missing: Annotated[str, Option(help="Gaps: learn (a value of their own), impute or error.")] = "learn"
    unlabelled: Annotated[str, Option(help="Rows without an answer in the target: error or drop.")] = "error"
    unseen: Annotated[str, Option(help="Categories that are not in the domain: ignore or error.")] = "ignore"
    least_count: Annotated[
        int,
        Option(
            min=1,
            help="Categories of fewer rows are not stored: the model takes them for unseen. Sensitive ones stay.",
        ),
    ] = 1
    outside: Annotated[str, Option(help="Numbers outside their range: allow, clip or error.")] = "allow"
    test_fraction: Annotated[float, Option(help="Share of the rows kept aside to measure on.")] = 0.2
    checkpoint: Annotated[Path | None, Option(help="A file to go on from if training was interrupted.")] = None
    stream: options.Stream = None
    cache: Annotated[
        Path | None,
        Option(help="Of a table read in batches: a folder for its encoded rows, kept for the next training on it."),
    ] = None
    hosts: Annotated[
        str | None,
        Option(
            help="Train together with other processes: auto (as SLURM or a TPU pod tells), or ADDRESS:PORT of the "
            "first, how many, and which this is from 0, as 10.0.0.1:3456,4,0."
        ),
    ] = None
    verify_seconds: Annotated[
        float, Option(help="How long to look for a proof, or for unequal twins, where training alone proves nothing.")
    ] = 10.0
    seed: options.Seed = 0
    json: options.Json = False


@options.choices("combinations", asked=TrainOptions, chosen=TrainingOptions, reading=TableReading)
def train(*, asked: TrainOptions, chosen: TrainingOptions, reading: TableReading) -> None:
    """Train a fair classifier, prove it fair, and write it to a bundle.

    Status 0: done. Trained and written, but (response none or sampled, γ other than 0, …) status 1: unfair, with two
    people who show it in the certificate; status 3: neither proven nor disproven.
    """
    from bornfair.core.checkpoint import owned

    began = time.perf_counter()
    chosen.hidden, chosen.gamma = _widths(chosen.hidden), _gamma(chosen.gamma)  # type: ignore[arg-type]
    check_replaceable(asked.out, marker="domain.json")
    if asked.class_weight not in (None, "balanced"):
        raise InputError(f"--class-weight must be balanced, or left out, found {asked.class_weight!r}.")
    if asked.estimator == "network" and asked.method != "merge":
        raise InputError("--method is for other estimators than the network, which needs no wrapper; leave it out.")
    if asked.estimator != "network" and not asked.sensitive:
        raise InputError("name the sensitive columns with --sensitive; a wrapper is for them.")
    # The lock comes first: a run that is refused leaves no rows behind. Of several hosts the first takes it later.
    with owned(asked.checkpoint if asked.hosts is None else None):
        verdict = _trained(asked, chosen, reading, began)
    raise typer.Exit(STATUS[verdict])


def _trained(asked: TrainOptions, chosen: TrainingOptions, reading: TableReading, began: float) -> str:
    """Read the table, train, and print the result; its verdict."""
    from bornfair.core.checkpoint import owned
    from bornfair.people.sources import is_streamed

    notes: list[str] = []  # said when nothing can be refused any more: an error stands alone
    streamed: Streamed | None = None
    if asked.hosts is not None or is_streamed(asked.table, asked.stream, reading):
        from bornfair.cli.train_stream import Streamed

        streamed = Streamed.opened(asked, reading)
        people, target = streamed.sample, streamed.table.target
    else:
        if asked.cache is not None:
            raise InputError("--cache is for tables that are read in batches; add --stream, or leave it out.")
        people, target = _people(asked, reading)
        people = _labelled(people, target, asked.unlabelled, notes)
    if asked.estimator != "network":
        from bornfair.cli.train_estimator import check_options

        check_options(asked, chosen)
    known, findings = _looked_at(asked, people, target, reading, streamed, notes)
    _say_versions(known, asked.twins, target, quiet=asked.json)
    if streamed is None:
        check_test_fraction(asked.test_fraction)
        from bornfair.datasets import split_rows

        training, test = split_rows(people, seed=asked.seed, test_fraction=asked.test_fraction)
    for note in notes:
        say(f"bornfair: note: {note}")
    is_first = streamed is None or streamed.is_first
    with owned(asked.checkpoint if is_first else None):
        if streamed is not None:
            result = streamed.trained(known, chosen)
        elif asked.estimator != "network":
            from bornfair.cli.train_estimator import train_estimator

            result = train_estimator(asked, known, training, test, target)
        else:
            result = _train_network(asked, chosen, known, training, test, target)
        result |= {"findings": findings, "seconds": round(time.perf_counter() - began, 3)}
        if is_first:
            if asked.checkpoint is not None:
                asked.checkpoint.unlink(missing_ok=True)  # finished: nothing is left to go on with
            if asked.json:
                print_json(result)
            else:
                print_training(result)
    return str(result["verdict"])


def _train_network(
    asked: TrainOptions, chosen: TrainingOptions, known: Domain, training: pd.DataFrame, test: pd.DataFrame, target: str
) -> dict[str, Any]:
    from bornfair.estimator import FairClassifier

    with training_progress("training", quiet=asked.json) as advance, unfairness_warned():
        classifier = FairClassifier(
            list(known.sensitive) if asked.sensitive else (), twins=asked.twins or None, domain=known,
            class_weight=asked.class_weight, threshold=asked.threshold or None,  # type: ignore[arg-type]
            missing=asked.missing, unseen=asked.unseen,  # type: ignore[arg-type]
            outside=asked.outside, checkpoint=asked.checkpoint, random_state=asked.seed, callbacks=(advance,),  # type: ignore[arg-type]
            **vars(chosen),
        )  # fmt: skip
        classifier.fit(training.drop(columns=target), training[target])
    if classifier.model_.certificate and classifier.model_.certificate.verdict.answer == "undecided":
        # Not proven by construction: say what can be found out, and show the two people if it is unfair.
        classifier.certify(timeout=asked.verify_seconds, seed=asked.seed)
    result = describe(classifier, test if len(test) else training, target, kept_aside=len(test) > 0)
    with written_to(asked.out, options.BUNDLE):
        return {"bundle": str(classifier.save(asked.out)), **result}


def describe(classifier: Any, rows: pd.DataFrame, target: str, *, kept_aside: bool = True) -> dict[str, Any]:
    """The facts of a trained classifier, measured on rows that were kept aside, or where there are none on those it was
    trained on; what was measured on which rows goes into its certificate.
    """
    from bornfair.training.provenance import KEPT_ASIDE

    X, domain = rows.drop(columns=target), classifier.domain_
    with classifier.model_.encoding.keeping(X):
        figures = classifier.record(X, rows[target], KEPT_ASIDE if kept_aside else TRAINED_ON)
        stable = classifier.empirical_fairness(X, declared=False) if domain.twins else None
    return training_result(
        classifier.certificate_, domain, figures, thresholds=classifier.model_.thresholds, flip_stable=stable,
        advice=advice(classifier.preset), gamma=classifier.gamma_, epochs=len(classifier.history_),
    )  # fmt: skip


def _people(asked: TrainOptions, reading: TableReading) -> tuple[pd.DataFrame, str]:
    """The rows of the table, without what is dropped, and the target."""
    sensitive, drop = asked.sensitive or [], asked.drop or []
    if asked.dataset is not None and not sensitive:
        from bornfair import datasets

        usual = ", ".join(datasets.load(asked.dataset).sensitive)
        raise InputError(f"name the sensitive columns with --sensitive; for {asked.dataset} usually one of {usual}.")
    people, target = options.table_of(asked.table, asked.dataset, asked.target, reading)
    if target is None:
        raise InputError(
            f"name the column to predict with --target; the columns are {', '.join(map(str, people.columns))}."
        )
    from bornfair.people.features import unknown_column

    for role, names in (("target", [target]), ("sensitive feature", sensitive), ("column", drop)):
        for name in names:
            if name not in people.columns:
                raise InputError(unknown_column(name, list(people.columns), role))
    check_not_dropped(target, sensitive, drop)
    return people.drop(columns=drop), target


def _labelled(people: pd.DataFrame, target: str, unlabelled: str, notes: list[str]) -> pd.DataFrame:
    """The rows to learn from; those without an answer are refused later unless they are to be left out."""
    from bornfair.people.levels import answered

    check_unlabelled(unlabelled)
    known = answered(people[target])
    if unlabelled == "error" or len(known) == len(people):
        return people
    lost = len(people) - len(known)
    notes.append(f"{lost:,} of {len(people):,} rows have no '{target}' and are left out.")
    return people.loc[known.index].assign(**{target: known}).reset_index(drop=True)


def _looked_at(
    asked: TrainOptions,
    people: pd.DataFrame,
    target: str,
    reading: TableReading,
    streamed: Streamed | None,
    notes: list[str],
) -> tuple[Domain, list[dict[str, Any]]]:
    """Who could exist, and what is to be known about the table.

    Texts and identifiers are refused unless somebody said who could exist.
    """
    from bornfair.people.column_kinds import refusal
    from bornfair.people.dummies import sentences
    from bornfair.questions.inspection import inspect

    names, as_said = asked.sensitive or [], asked.domain is not None
    told, numbers_are_classes = _told(asked, people, target, reading)
    if streamed is not None and not as_said:
        streamed.check_running_numbers({*told, *names})
    found = inspect(
        people, target=target, sensitive_features=names, keep=sorted(told),
        categorical=[target] if numbers_are_classes else [], seed=asked.seed,
    )  # fmt: skip
    stray = [one for one in found.columns if one.teaches_nothing and one.name not in {target, *names, *told}]
    if stray and not as_said:
        raise InputError(refusal(stray))
    for finding in found.findings:
        if finding.weight == "refused" and finding.kind in (("target",) if as_said else ("target", "sensitive")):
            raise InputError(finding.text)
    if brief := found.brief():
        notes.append(f"{'' if streamed is None else streamed.looked_at}{brief}")
    categorical = [name for name in asked.categorical or [] if name != target]
    kinds = dict.fromkeys(categorical, "categorical") | dict.fromkeys(reading.numeric or [], "numeric")
    rows = people.drop(columns=target) if streamed is None else streamed.representative(kinds, names)
    known = _domain(asked, rows, kinds, in_batches=streamed is not None)
    if asked.least_count > 1:
        known = _without_rare(asked, known, people if streamed is None else streamed.counts, notes)
    notes += sentences(known, people)
    if known.gappy:
        notes.append(f"{shown(known.gappy)} may be missing: to the model a gap is one more value.")
    if not names and not known.sensitive:
        columns = [name for name in rows.columns if name != target]
        raise InputError(
            "name the columns that must not influence the decision with --sensitive; without one there is nothing to "
            f"prove, and the columns are {shown(columns)}."
        )
    return known, [one.to_json() for one in found.findings]


def _told(asked: TrainOptions, people: pd.DataFrame, target: str, reading: TableReading) -> tuple[set[str], bool]:
    """The columns of which somebody has said what they are, and whether each number of the target is a class."""
    from bornfair.people.features import unknown_column
    from bornfair.questions.findings import MOST_CLASSES

    told = {name for names in (asked.keep, asked.categorical, reading.numeric) for name in names or []}
    for name in sorted(told):
        if name not in people.columns:
            raise InputError(unknown_column(name, [str(column) for column in people.columns]))
    confirmed = target in (asked.categorical or []) and people[target].nunique() > MOST_CLASSES
    if target in told and not confirmed:
        raise InputError(f"'{target}' is the target; --keep, --categorical and --numeric are about features.")
    return told - {target}, confirmed


def _domain(asked: TrainOptions, people: pd.DataFrame, kinds: dict[str, Any], *, in_batches: bool) -> Domain:
    """Who could exist: as the file says, or everybody in the table, those kept aside to measure on included.

    in_batches: the rows are not those of the table; they only have the same values, and the combinations asked for.
    """
    from bornfair.people.domain import Domain
    from bornfair.people.dummies import check_combinations, with_sensitive
    from bornfair.people.inference import observed_combinations

    sensitive, combinations, gaps = asked.sensitive or [], asked.combinations, asked.missing == "learn"
    check_combinations(combinations)
    if asked.domain is not None:
        known = Domain.load(asked.domain)
        return with_sensitive(known, sensitive, people, combinations, detect=False) if sensitive else known
    if in_batches:
        known = Domain.infer(people, sensitive=sensitive, kinds=kinds, gaps=gaps)
        observed = combinations == "observed" and bool(sensitive)
        return known.with_sensitive(sensitive, observed_combinations(known, people)) if observed else known
    return Domain.infer(people, sensitive=sensitive, combinations=combinations, kinds=kinds, gaps=gaps)  # type: ignore[arg-type]


def _without_rare(asked: TrainOptions, known: Domain, people: Any, notes: list[str]) -> Domain:
    """Who could exist, without the categories of few rows."""
    from bornfair.people.inference import without_rare

    if asked.domain is not None:
        raise InputError("--least-count leaves out rare categories of the table, and --domain lists them; give one.")
    found = without_rare(known, people, asked.least_count, unseen=asked.unseen)
    fewer = {
        f.name: len(f.levels()) - len(found.feature(f.name).levels()) for f in known.features if f.kind == "categorical"
    }
    if told := [f"{count:,} of '{name}'" for name, count in fewer.items() if count]:
        notes.append(f"categories of fewer than {asked.least_count:,} rows are taken for unseen: {', '.join(told)}.")
    return found


def _say_versions(known: Domain, twins: list[str] | None, target: str, *, quiet: bool) -> None:
    """What the rules amount to, before anything is trained; refuses those that make no sense."""
    if twins and target not in known.names:
        from bornfair.people.features import Label

        # The classes are not known yet; the name alone makes a rule about the target an error of its own.
        known = known.replaced(label=Label(name=target, classes=(0, 1)))
    known = known.with_twins(twins) if twins else known
    if known.twins and not quiet:
        from bornfair.people.twins.versions import Versions

        say(f"By your rules, {Versions(known).told()}.")


def _widths(text: str | None) -> str | list[int] | None:
    if text is None or not text.replace(",", "").replace(" ", "").isdigit():
        return text
    return [int(part) for part in text.split(",")]


def _gamma(text: str) -> float | Literal["solve"]:
    if text == "solve":
        return "solve"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--gamma must be 'solve' or a number, found {text!r}.") from None
