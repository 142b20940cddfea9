"""bornfair train: from a table to a certified bundle."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
    from bornfair.questions.inspection import Inspection


@options.choices("combinations", chosen=TrainingOptions, reading=TableReading)
def train(
    table: options.TableFile = None,
    target: options.Target = None,
    sensitive: options.Sensitive = None,
    twins: options.Twins = None,
    dataset: options.Dataset = None,
    out: Annotated[Path, Option(help="The folder to write the bundle to.")] = options.BUNDLE,
    drop: options.Drop = None,
    keep: options.Keep = None,
    categorical: options.Categorical = None,
    domain: options.DomainFile = None,
    combinations: options.Combinations = None,
    estimator: Annotated[
        str,
        Option(
            help="network, or another estimator made fair by a wrapper: xgboost, lightgbm, hist-gradient-boosting, "
            "random-forest, logistic."
        ),
    ] = "network",
    method: Annotated[
        str,
        Option(
            help="For another estimator: merge trains it on what twins have in common, average on everything, and "
            "decides by the mean over all versions of a person."
        ),
    ] = "merge",
    class_weight: Annotated[str | None, Option(help="balanced, to give rare classes more weight.")] = None,
    threshold: options.Threshold = None,
    missing: Annotated[str, Option(help="Gaps: learn (a value of their own), impute or error.")] = "learn",
    unlabelled: Annotated[str, Option(help="Rows without an answer in the target: error or drop.")] = "error",
    unseen: Annotated[str, Option(help="Categories that are not in the domain: ignore or error.")] = "ignore",
    least_count: Annotated[
        int,
        Option(
            min=1,
            help="Categories of fewer rows are not stored: the model takes them for unseen. Sensitive ones stay.",
        ),
    ] = 1,
    outside: Annotated[str, Option(help="Numbers outside their range: allow, clip or error.")] = "allow",
    test_fraction: Annotated[float, Option(help="Share of the rows kept aside to measure on.")] = 0.2,
    checkpoint: Annotated[Path | None, Option(help="A file to go on from if training was interrupted.")] = None,
    stream: options.Stream = None,
    cache: Annotated[
        Path | None,
        Option(help="Of a table read in batches: a folder for its encoded rows, kept for the next training on it."),
    ] = None,
    hosts: Annotated[
        str | None,
        Option(
            help="Train together with other processes: auto (as SLURM or a TPU pod tells), or ADDRESS:PORT of the "
            "first, how many, and which this is from 0, as 10.0.0.1:3456,4,0."
        ),
    ] = None,
    verify_seconds: Annotated[
        float, Option(help="How long to look for a proof, or for unequal twins, where training alone proves nothing.")
    ] = 10.0,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    chosen: TrainingOptions,
    reading: TableReading,
) -> None:
    """Train a fair classifier, prove it fair, and write it to a bundle.

    Status 0: done. Trained and written, but (response none or sampled, γ other than 0, …) status 1: unfair, with two
    people who show it in the certificate; status 3: neither proven nor disproven.
    """
    from bornfair.people.dummies import sentences
    from bornfair.people.sources import is_streamed

    began = time.perf_counter()
    chosen.hidden, chosen.gamma = _widths(chosen.hidden), _gamma(chosen.gamma)  # type: ignore[arg-type]
    notes: list[str] = []  # said when nothing can be refused any more: an error stands alone
    streamed: Streamed | None = None
    check_replaceable(out, marker="domain.json")
    if hosts is not None or is_streamed(table, stream, reading):
        from bornfair.cli.train_stream import Streamed

        streamed = Streamed.opened(
            table, dataset, target, sensitive or [], drop or [], categorical or [], reading, unlabelled, estimator,
            observed=combinations == "observed", out=out, cache=cache, hosts=hosts, seed=seed, quiet=json,
            resumable=checkpoint is not None,
        )  # fmt: skip
        people, target, names = streamed.sample, streamed.table.target, sensitive or []
    else:
        if cache is not None:
            raise InputError("--cache is for tables that are read in batches; add --stream, or leave it out.")
        people, target, names = _people(table, dataset, target, sensitive or [], drop or [], reading)
        people = _labelled(people, target, unlabelled, notes)
    if class_weight not in (None, "balanced"):
        raise InputError(f"--class-weight must be balanced, or left out, found {class_weight!r}.")
    if estimator == "network" and method != "merge":
        raise InputError("--method is for other estimators than the network, which needs no wrapper; leave it out.")
    if estimator != "network":
        if not names:
            raise InputError("name the sensitive columns with --sensitive; a wrapper is for them.")
        from bornfair.cli.train_estimator import check_options

        others = {
            "threshold": (threshold, None), "missing": (missing, "learn"), "outside": (outside, "allow"),
            "checkpoint": (checkpoint, None), "least_count": (least_count, 1),
        }  # fmt: skip
        check_options(estimator, chosen, others)
    told, numbers_are_classes = _told(people, target, keep, categorical, reading.numeric)
    categorical = [name for name in categorical or [] if name != target]
    if streamed is not None and domain is None:
        streamed.check_running_numbers({*told, *names})
    found = _looked_at(
        people, target, names, told, as_said=domain is not None, numbers_are_classes=numbers_are_classes, seed=seed
    )
    if brief := found.brief():
        notes.append(f"{'' if streamed is None else streamed.looked_at}{brief}")
    kinds = dict.fromkeys(categorical, "categorical") | dict.fromkeys(reading.numeric or [], "numeric")
    shown_rows = people.drop(columns=target) if streamed is None else streamed.representative(kinds, names)
    known = _domain(
        domain, shown_rows, names, combinations, kinds, gaps=missing == "learn", in_batches=streamed is not None
    )
    if least_count > 1:
        known = _without_rare(known, people, least_count, unseen, domain, streamed, notes)
    names = list(known.sensitive) if names else names
    notes += sentences(known, people)
    if known.gappy:
        notes.append(f"{shown(known.gappy)} may be missing: to the model a gap is one more value.")
    if not names and not known.sensitive:
        columns = [name for name in shown_rows.columns if name != target]
        raise InputError(
            "name the columns that must not influence the decision with --sensitive; without one there is nothing to "
            f"prove, and the columns are {shown(columns)}."
        )
    _say_versions(known, twins, target, quiet=json)
    if streamed is not None:
        from bornfair.core.checkpoint import owned

        _say_notes(notes)
        with owned(checkpoint if streamed.is_first else None):
            result = streamed.trained(
                known, twins, chosen, missing=missing, unseen=unseen, outside=outside, threshold=threshold or None,
                test_fraction=test_fraction, balanced=class_weight == "balanced", checkpoint=checkpoint,
            )  # fmt: skip
            result |= {"findings": [one.to_json() for one in found.findings]}
            _finished(result, began, checkpoint, json, first=streamed.is_first)
        raise typer.Exit(STATUS[result["verdict"]])
    training, test = _split(people, test_fraction, seed)
    _say_notes(notes)
    if estimator != "network":
        from bornfair.cli.train_estimator import train_estimator

        made = train_estimator(
            estimator, method, known, twins, unseen, class_weight, training, test, target, seed, out
        )  # fmt: skip
        made |= {"findings": [one.to_json() for one in found.findings]}
        _finished(made, began, None, json)
        raise typer.Exit(STATUS[made["verdict"]])
    from bornfair.core.checkpoint import owned
    from bornfair.estimator import FairClassifier

    classifier = FairClassifier(
        names, twins=twins or None, class_weight=class_weight, domain=known,  # type: ignore[arg-type]
        threshold=threshold or None,
        missing=missing, unseen=unseen, outside=outside, checkpoint=checkpoint, random_state=seed,  # type: ignore[arg-type]
        **vars(chosen),
    )  # fmt: skip
    with owned(checkpoint):
        with training_progress("training", quiet=json) as advance, unfairness_warned():
            classifier.set_params(callbacks=(advance,))
            classifier.fit(training.drop(columns=target), training[target])
        if classifier.model_.certificate and classifier.model_.certificate.verdict.answer == "undecided":
            # Not proven by construction: say what can be found out, and show the two people if it is unfair.
            classifier.certify(timeout=verify_seconds, seed=seed)
        result = describe(classifier, test if len(test) else training, target, kept_aside=len(test) > 0)
        with written_to(out, options.BUNDLE):
            bundle = str(classifier.save(out))
        result = {"bundle": bundle, **result, "findings": [one.to_json() for one in found.findings]}
        _finished(result, began, checkpoint, json)
    raise typer.Exit(STATUS[result["verdict"]])


def _finished(result: dict[str, Any], began: float, checkpoint: Path | None, json: bool, *, first: bool = True) -> None:
    """Say what came out; of several processes the first one does."""
    result["seconds"] = round(time.perf_counter() - began, 3)
    if not first:
        return
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)  # finished: nothing is left to go on with
    if json:
        print_json(result)
    else:
        print_training(result)


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


def _people(
    table: str | None,
    dataset: str | None,
    target: str | None,
    sensitive: list[str],
    drop: list[str],
    reading: TableReading,
) -> tuple[pd.DataFrame, str, list[str]]:
    if dataset is not None and not sensitive:
        from bornfair import datasets

        usual = ", ".join(datasets.load(dataset).sensitive)
        raise InputError(f"name the sensitive columns with --sensitive; for {dataset} usually one of {usual}.")
    people, target = options.table_of(table, dataset, target, reading)
    if target is None:
        raise InputError(
            f"name the column to predict with --target; the columns are {', '.join(map(str, people.columns))}."
        )
    from bornfair.people.features import unknown_column

    for name, role in [
        (target, "target"),
        *((n, "sensitive feature") for n in sensitive),
        *((n, "column") for n in drop),
    ]:
        if name not in people.columns:
            raise InputError(unknown_column(name, list(people.columns), role))
    check_not_dropped(target, sensitive, drop)
    return people.drop(columns=drop), target, sensitive


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


def _split(people: pd.DataFrame, fraction: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    check_test_fraction(fraction)
    from bornfair.datasets import split_rows

    return split_rows(people, seed=seed, test_fraction=fraction)


def _told(
    people: pd.DataFrame,
    target: str,
    keep: list[str] | None,
    categorical: list[str] | None,
    numeric: Sequence[str] | None,
) -> tuple[set[str], bool]:
    """The columns of which somebody has said what they are, and whether each number of the target is a class."""
    from bornfair.people.features import unknown_column
    from bornfair.questions.findings import MOST_CLASSES

    told = {name for names in (keep, categorical, numeric) for name in names or []}
    for name in sorted(told):
        if name not in people.columns:
            raise InputError(unknown_column(name, [str(column) for column in people.columns]))
    confirmed = target in (categorical or []) and people[target].nunique() > MOST_CLASSES
    if target in told and not confirmed:
        raise InputError(f"'{target}' is the target; --keep, --categorical and --numeric are about features.")
    return told - {target}, confirmed


def _looked_at(
    people: pd.DataFrame,
    target: str,
    sensitive: list[str],
    told: set[str],
    *,
    as_said: bool,
    numbers_are_classes: bool,
    seed: int,
) -> Inspection:
    """What is to be known about the table; texts and identifiers are refused unless somebody said who could exist."""
    from bornfair.people.column_kinds import refusal
    from bornfair.questions.inspection import inspect

    classes = [target] if numbers_are_classes else []
    found = inspect(
        people, target=target, sensitive_features=sensitive, keep=sorted(told), categorical=classes, seed=seed
    )
    known = {target, *sensitive, *told}
    stray = [] if as_said else [one for one in found.columns if one.teaches_nothing and one.name not in known]
    if stray:
        raise InputError(refusal(stray))
    for finding in found.findings:
        if finding.weight == "refused" and finding.kind in (("target",) if as_said else ("target", "sensitive")):
            raise InputError(finding.text)
    return found


def _domain(
    path: Path | None,
    people: pd.DataFrame,
    sensitive: list[str],
    combinations: str | None,
    kinds: dict[str, Any],
    *,
    gaps: bool,
    in_batches: bool,
) -> Domain:
    """Who could exist: as the file says, or everybody in the table, those kept aside to measure on included.

    in_batches: the rows are not those of the table; they only have the same values, and the combinations asked for.
    """
    from bornfair.people.domain import Domain
    from bornfair.people.dummies import check_combinations, with_sensitive
    from bornfair.people.inference import observed_combinations

    check_combinations(combinations)
    if path is not None:
        known = Domain.load(path)
        return with_sensitive(known, sensitive, people, combinations, detect=False) if sensitive else known
    if in_batches:
        known = Domain.infer(people, sensitive=sensitive, kinds=kinds, gaps=gaps)
        observed = combinations == "observed" and bool(sensitive)
        return known.with_sensitive(sensitive, observed_combinations(known, people)) if observed else known
    return Domain.infer(people, sensitive=sensitive, combinations=combinations, kinds=kinds, gaps=gaps)  # type: ignore[arg-type]


def _without_rare(
    known: Domain,
    people: pd.DataFrame,
    least: int,
    unseen: str,
    path: Path | None,
    streamed: Streamed | None,
    notes: list[str],
) -> Domain:
    """Who could exist, without the categories of few rows."""
    from bornfair.people.inference import without_rare

    if path is not None:
        raise InputError("--least-count leaves out rare categories of the table, and --domain lists them; give one.")
    found = without_rare(known, people if streamed is None else streamed.counts, least, unseen=unseen)
    fewer = {
        f.name: len(f.levels()) - len(found.feature(f.name).levels()) for f in known.features if f.kind == "categorical"
    }
    if told := [f"{count:,} of '{name}'" for name, count in fewer.items() if count]:
        notes.append(f"categories of fewer than {least:,} rows are taken for unseen: {', '.join(told)}.")
    return found


def _say_notes(notes: list[str]) -> None:
    for note in notes:
        say(f"bornfair: note: {note}")


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
