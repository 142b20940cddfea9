"""bornfair repair: from an unfair model to the fair one closest to it, and who is decided differently."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from bornfair.cli import options
from bornfair.cli.output import STATUS, percent, print_json, print_table, quality_rows, say, tell, written_to
from bornfair.core.files import check_replaceable
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.questions.repairing import Repaired, RepairedForest, RepairedGraph
    from bornfair.questions.repairing.changes import RepairedModel


REPAIRED = Path("bornfair-repaired")


@options.choices("data", about=options.ModelOptions, reading=TableReading)
def repair(
    model: options.ModelFile,
    data: Annotated[Path, Option(help="A CSV or Parquet table of people the model decides about.")],
    out: Annotated[Path, Option(help="The folder (or .zip) to write the repaired bundle to.")] = REPAIRED,
    method: Annotated[
        str,
        Option(
            help="plain drops what the model knew of the sensitive features; least_squares moves it onto features that "
            "predict them; auto chooses by validation rows. Of a forest, plain is the mean over the sensitive values, "
            "and drop the mean in which each counts as often as it occurs. average takes any model, whatever its "
            "operators, and decides by the mean over all versions of a person."
        ),
    ] = "plain",
    fine_tune: Annotated[
        bool, Option(help="Train on from the projected model, or move a forest's base score; it stays fair.")
    ] = True,
    epochs: Annotated[int, Option(help="At most so many epochs of fine-tuning.")] = 60,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    about: options.ModelOptions,
    reading: TableReading,
) -> None:
    """Make a model fair: project it, fine-tune it so that it stays fair, certify it, and tell whose decision changed.

    A forest is averaged over the sensitive values; the bundle also holds it in the format of its own library.

    Status 0: repaired and verified.
    """
    check_replaceable(out, marker="domain.json")
    from bornfair.questions.repairing import repair as mend

    found = mend(
        model, options.rows_of(data, reading), method=method, fine_tune=fine_tune, epochs=epochs, seed=seed,  # type: ignore[arg-type]
        say=None if json else say, **about.keywords,
    )  # fmt: skip
    with written_to(out, REPAIRED):
        bundle = str(found.model.save(out))
    if json:
        print_json({"bundle": bundle, **found.to_json()})
    else:
        _print(found, bundle)
    raise typer.Exit(STATUS[found.verdict])


def _print(found: Repaired | RepairedForest | RepairedGraph, bundle: str) -> None:
    assert found.model.certificate is not None
    facts, on = _facts(found)
    if found.original.note:
        facts += [("original model", found.original.note)]
    facts += [("seconds", f"{found.seconds:.1f}"), ("bundle", bundle)]
    print_table(f"Measured on {found.changes.rows:,} {on}", ["", "result"], facts, numbers_from=2)
    if found.changes.groups:
        classes = list(found.changes.now)
        rows = [
            (group.name, f"{group.rows:,}", percent(group.changed), *(str(group.now[name]) for name in classes))
            for group in found.changes.groups
        ]
        print_table("Whose decision changed", ["", "rows", "changed", *(f"now {name}" for name in classes)], rows)
    if found.changes.examples:
        _print_examples(found)
        tell("These people are rows of the table: they are real.", "")
    for line in filter(None, (found.note, found.model.certificate.claim)):
        tell(line)
    for text in found.warnings:
        say(f"bornfair: warning: {text}")


def _facts(found: Repaired | RepairedForest | RepairedGraph) -> tuple[list[tuple[str, str]], str]:
    """What is said of a repair, and on which rows it was measured."""
    from bornfair.questions.repairing import RepairedForest, RepairedGraph

    on = "rows kept aside"
    between: list[tuple[str, str]] = []  # between the figures before and after
    if isinstance(found, RepairedGraph):
        on = "rows of the table, from which nothing was learnt"
        own = [("mean over versions of each person", f"{found.versions:,}")]
        own += [("decides", f"{name} above {share:g}") for name, share in found.model.thresholds.items()]
    elif isinstance(found, RepairedForest):
        between = [("accuracy of the mean", percent(found.accuracy_averaged))]
        before, after = found.sizes["before"], found.sizes["after"]
        own = [
            ("averaged over", found.averaged),
            ("trees that read it", f"{found.replaced:,} of {before['trees']:,}"),
            ("trees and leaves before", f"{before['trees']:,} and {before['leaves']:,}"),
            ("trees and leaves after", f"{after['trees']:,} and {after['leaves']:,}"),
            ("base score moved by", ", ".join(f"{shift:+.3f}" for shift in found.shift)),
        ]
    else:
        between = [("accuracy of the projection", percent(found.accuracy_projected))]
        own = [
            ("projection", {0: "plain", 1: "least squares"}.get(found.blend, f"{percent(found.blend)} of the way")),  # type: ignore[call-overload]
            ("epochs of fine-tuning", str(found.epochs_run)),
            ("taught by", found.taught_by),
        ]
    earlier, now = quality_rows(found.quality_before or {}), quality_rows(found.quality_after or {})
    facts = [
        *((f"{name} before", text) for name, text in earlier[:2]),
        *between,
        *((f"{name} after", text) for name, text in now[:2]),
        *now[2:],  # the share of the largest class is that of the rows: it stands once
        ("same decision for all versions, before", percent(found.fairness_before)),
        ("verdict after", found.verdict),
        ("decided differently", percent(found.changed)),
        ("distance of the outputs", f"{found.changes.distance:.4f}"),
        *own,
    ]
    return facts, on


def _print_examples(found: RepairedModel) -> None:
    shown = found.changes.examples[:3]
    rows: list[tuple[str, ...]] = [
        (name, *(str(example.person.get(name, "–")) for example in shown)) for name in shown[0].person
    ]
    rows.append(("▶ decision before", *(str(example.before) for example in shown)))
    rows.append(("▶ decision after", *(str(example.after) for example in shown)))
    headers = ["", *(f"person {i + 1}" for i in range(len(shown)))]
    print_table("Some whose decision changed", headers, rows, numbers_from=99)
