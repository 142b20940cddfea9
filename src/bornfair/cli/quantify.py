"""bornfair quantify: how much of the domain is treated fairly, provably."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

from bornfair.cli.options import (
    Cluster,
    Data,
    Jobs,
    Json,
    MaybeModel,
    ModelOptions,
    MostBoxes,
    Option,
    OutsideOptions,
    Seed,
    Synthetic,
    Timeout,
    choices,
    people_of,
    population,
    started,
)
from bornfair.cli.output import print_json, print_table, tell
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.quantification.records import Shares


@choices("data", about=ModelOptions, outside=OutsideOptions, reading=TableReading)
def quantify(
    model: MaybeModel = None,
    data: Data = None,
    over: Annotated[
        str,
        Option(
            help="Who counts: uniform (everybody alike), data (each feature as often as in the table, independent), or "
            "a FILE: the rows of that table, each judged by itself."
        ),
    ] = "uniform",
    where: Annotated[
        list[str] | None, Option(help="Only these people, as age=30..40 or job=nurse,smith; repeat for several.")
    ] = None,
    precision: Annotated[float, Option(help="Stop when at most this share is undecided.")] = 0.0,
    timeout: Timeout = 60.0,
    most: Annotated[int, Option(help="How many people and groups to show.")] = 5,
    most_boxes: MostBoxes = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    synthetic: Synthetic = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    about: ModelOptions,
    outside: OutsideOptions,
    reading: TableReading,
) -> None:
    """Which share of everybody who could exist is proven fair, proven unfair, or neither? Interrupt it at any time.

    The shares are proven. What they leave open is sampled, for an interval of the unfair share that is true with
    99.9999 % confidence; beside them stands an estimate from a random sample.
    """
    clock = started(timeout, quiet=json)
    from bornfair.parallel import Workers
    from bornfair.questions import quantify as measure

    source = outside.model(model, timeout)
    asked = about.keywords | {"opaque": outside.opaque}
    rows, asked = people_of(data, reading, model, asked, seed, clock)
    with Workers.of(jobs, cluster) as workers:
        found = measure(
            source, table=rows, over=over, where=population(where or []), timeout=clock,
            precision=precision, most=most, most_boxes=most_boxes, jobs=workers, seed=seed,
            synthetic=synthetic, **asked,
        )  # fmt: skip
    if json:
        print_json(found.to_json())
    else:
        _print(found)


def _print(found: Shares) -> None:
    from bornfair.people.space.subpopulation import in_words
    from bornfair.quantification.records import NOTHING_SEEN, Over
    from bornfair.report.formatting import percent
    from bornfair.report.measured import confident_sentence

    guess, counted = found.estimate or NOTHING_SEEN, found.over not in get_args(Over)
    drawn = (
        f"unfair, estimated from {guess.samples:,} random people",
        f"{percent(guess.unfair)} ({percent(guess.low)} to {percent(guess.high)})",
    )
    proven = [
        ("proven fair", percent(found.certified, "down")),
        ("proven unfair", percent(found.falsified, "down")),
        ("neither", percent(found.undecided, "up")),
    ]
    boxes = ("rows" if counted else "boxes", f"{found.boxes:,}")
    if found.asked is not None:
        proven, boxes = [], ("people asked about", f"{found.asked:,}")
    rows = [
        *proven,
        *([] if counted or found.estimate is None else [drawn]),
        boxes,
        ("seconds", f"{found.seconds:.1f}"),
    ]
    if (people := found.people) is not None:
        share = f"{percent(people.share)} ({people.unfair:,} of {people.rows:,})"
        said = [f"({people.note})"] if people.note else []
        tell(f"{share} of the people in the table have a twin who is decided otherwise.", *said, "")
    tell(f"Decided otherwise than a twin: {confident_sentence(found)}.", "")
    words = {"uniform": "every combination of values counted alike", "data": "features as often as in the table"}
    whose = f"everybody who could exist ({words[found.over]})" if found.over in words else f"the rows of {found.over}"
    only = f", with {in_words(found.where)}" if found.where else ""
    print_table(f"Of {whose}{only}", ["", ""], rows)
    in_which = f"In {' and '.join(found.arithmetic)} arithmetic; " if found.arithmetic else "Nothing is proven: "
    tell(f"{in_which}{found.reason}.", "")
    for note in found.notes:
        tell(note, "")
    if found.groups:
        lines = [
            (group.text, percent(group.share), percent((group.inside or NOTHING_SEEN).unfair), percent(group.contains))
            for group in found.groups
        ]
        print_table(
            "Where it sits (estimates)", ["people with", "of the domain", "unfair inside", "of all unfair"], lines
        )
    if people is not None and people.most_affected:
        tell("Most affected:")
        for one in people.most_affected:
            decided = " / ".join(map(str, one.decisions))
            gap = "" if one.gap is None else f", score gap {one.gap:.3g}"
            tell(f"  row {one.row}: {decided}{gap}; {one.undo_text}")
