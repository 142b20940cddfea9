"""The sections of a report that say what was measured: of the domain, of a data set, of training and repair.

Each gives the blocks of its section, none where nothing was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from bornfair.models.metrics import quality_warning
from bornfair.people.space.subpopulation import in_words
from bornfair.quantification.records import Estimate, Group, Shares
from bornfair.report import charts
from bornfair.report.blocks import Block, BlockGroup, Chart, Listing, ListingEntry, Meter, Text, chart_numbers, stacked
from bornfair.report.facts import Document, Proxy
from bornfair.report.formatting import (
    MISSING,
    count,
    effort,
    feature_name,
    interval,
    measure_text,
    narrow,
    number,
    percent,
    points,
    readable,
    round_percent,
)
from bornfair.report.verdict_text import sensitive_names

TABLE = "the table"  # what an audit measures on
MOST_EPOCHS = 200  # drawn and listed; of longer histories a part
WHOSE = {"uniform": "everybody who could exist", "data": "people as in the data"}
OVER = {
    "uniform": "Every combination of values is counted alike, whether or not such people exist. These shares depend on "
    "how far the ranges of the domain reach, and say little about real people.",
    "data": "People count as often as their values are in the table, each feature taken by itself: combinations that "
    "the table does not hold count, too.",
}


def _measured_on(rows: int | None, which: str = "") -> str:
    of = f" ({readable(which)})" if which else ""
    return "" if rows is None else f"Measured on {count(rows, 'row')}{of}."


# --- everyone who could exist ---


def shares_of_the_data(document: Document) -> Iterator[Block]:
    """Of people as the data has them; where nothing else was measured, of whatever was."""
    if document.shares is not None and document.shares.over != "uniform":
        yield from _shares(document, document.shares)


def shares_of_combinations(document: Document) -> Iterator[Block]:
    """Of every combination of values: it says least about people, and stands last."""
    shares = document.uniform
    if shares is None and document.shares is not None and document.shares.over == "uniform":
        shares = document.shares
    if shares is not None:
        yield from _shares(document, shares)


def _shares(document: Document, shares: Shares) -> Iterator[Block]:
    yield Text(OVER.get(shares.over, f"Counted over: {readable(shares.over)}."))
    if shares.asked is not None:
        yield Text(
            "Nothing is proven of a model that is only asked; people were drawn, and asked about as all their versions."
        )
    else:
        yield from shares_chart(shares)
    if shares.asked is None and (work := effort(shares.boxes, shares.seconds)):
        yield Text(f"{work}. More time makes the open part smaller.", "soft")
    if document.verdict.answer == "verified" and shares.certified < 1:
        yield Text("The proof of the verdict covers everyone; this measurement is separate and did not get as far.")
    if shares.confident is not None:
        yield Text(f"Decided otherwise than a twin: {confident_sentence(shares)}.")
    if shares.estimate is not None:
        yield _estimate(shares.estimate)


def asked_about(people: int) -> Text:
    """In the place of proven shares."""
    return Text(f"{count(people, 'person', 'people')} were asked about, each as all their versions; nothing is proven.")


def confident_sentence(shares: Shares) -> str:
    """How many are treated unfairly, within how much, and how sure that is.

    >>> from bornfair.quantification.records import Confident
    >>> found = Shares(0.97, 0.012, confident=Confident(0.0153, 0.0157, samples=10_000_000))
    >>> confident_sentence(found).replace("\\xa0", " ")
    'between 1.53 % and 1.57 % of everybody who could exist (confidence 99.9999 %); of these 1.2 % proven'
    """
    sure = shares.confident or shares.proven_interval
    only = f" with {in_words(shares.where)}" if shares.where else ""
    of = f"{narrow(sure.low, sure.high)} of {WHOSE.get(shares.over, f'the rows of {shares.over}')}{only}"
    if shares.asked is not None:
        if sure.low == sure.high:
            return f"{of}, all of whom were asked about"
        return f"{of} (confidence {_confidence(sure.confidence)}), {shares.asked:,} of whom were asked about"
    if sure.low <= shares.falsified and sure.high >= 1 - shares.certified:
        return f"{of}, proven"
    return f"{of} (confidence {_confidence(sure.confidence)}); of these {percent(shares.falsified, 'down')} proven"


def _confidence(share: float) -> str:
    """Rounded down, so that nobody is surer than they may be: as many nines as there are."""
    digits = max(math.ceil(-math.log10(max(1 - share, 1e-15)) - 1e-6) - 2, 0)
    return f"{math.floor(share * 10 ** (digits + 2) + 1e-6) / 10**digits:.{digits}f}\u00a0%"


def shares_chart(shares: Shares) -> Iterator[Block]:
    """The bar of everybody who could exist, and what its parts are."""
    fair, unfair = percent(shares.certified, "down"), percent(shares.falsified, "down")
    undecided = percent(shares.undecided, "up")
    words = f"Bar of the whole domain: {fair} proven fair, {unfair} proven unfair, {undecided} undecided."
    yield Chart(partial(charts.shares_bar, shares=shares), words, repeats=True)
    key = ListingEntry("Proven fair", fair, "fair"), ListingEntry("Proven unfair", unfair, "unfair")
    yield Listing("key", (*key, ListingEntry("Undecided", undecided, "open")))


def _estimate(guess: Estimate) -> BlockGroup:
    drawn = "" if guess.samples is None else f" {count(guess.samples, 'person', 'people')} were drawn at random."
    sure = f"{interval(guess.low, guess.high, fine=True)} with {round_percent(guess.confidence)} confidence"
    words = f"Unfair: about {percent(guess.unfair, fine=True)} ({sure})."
    chart = Chart(partial(charts.estimate_line, estimate=guess), f"Estimate. {words}", repeats=True)
    return BlockGroup("Estimate, not a proof", (Text(f"{words}{drawn}"), chart), "aside")


def affected_groups(document: Document) -> Iterator[Block]:
    if not document.groups:
        return
    note = "Found and measured on samples: these are estimates, not proofs."
    first = next((group.inside for group in document.groups if group.inside), None)
    if first is not None:
        note += f" In brackets: the interval with {round_percent(first.confidence)} confidence."
    yield Text(note)
    columns = ("group", "covers, of everyone", "unfair inside, estimate", "holds, of all affected")
    rows = (
        (readable(group.text), percent(group.share), _inside(group), percent(group.contains))
        for group in document.groups
    )
    yield stacked(columns, rows, {1, 3})


def _inside(group: Group) -> str | Meter:
    guess = group.inside
    if guess is None:
        return MISSING
    return Meter(percent(guess.unfair), guess.unfair, f"({interval(guess.low, guess.high)})", guess.low, guess.high)


# --- how decisions and scores come about ---


def acting_trees(document: Document) -> Iterator[Block]:
    """Of a forest: the trees, splits and thresholds through which the sensitive features act."""
    for found in document.influences:
        yield Text(f"{readable(found.text)}.")
        rows = ((readable(split.text), f"{split.places:,}", f"{split.trees:,}") for split in found.splits)
        yield stacked(("split", "places", "trees"), rows, {1, 2})
        if found.tree_changes:
            trees = ", ".join(f"tree {tree} ({change:.3g})" for tree, change in found.tree_changes)
            yield Text(f"Trees, counted from 0, that tell twins apart most, and by how much at most: {trees}.", "soft")
    if document.influences:
        yield Text("Changes of the score are bounds that follow from the leaves; nobody need attain their sum.", "soft")


def other_thresholds(document: Document) -> Iterator[Block]:
    curve = document.thresholds
    if curve is None:
        return
    own, worst = (percent(share) for share in (curve.own, curve.worst))
    rows = f"{curve.own_affected:,} of the {curve.rows:,} people of the table"
    words = (
        f"It decides {readable(curve.decided)} above a probability of {own}: there {rows} "
        f"have a twin who is decided otherwise. At {worst} most would be affected: {curve.worst_affected:,}. Between "
        f"their versions, somebody's probability changes by up to {100 * curve.largest_change:.1f} points."
    )
    yield Text(words)
    yield Chart(
        partial(charts.threshold_line, curve=curve),
        f"Line over thresholds. {words}",
        "How many people of the table (up) have a twin who is decided otherwise if the model decides at a threshold "
        "(across). Dashed: where it decides.",
    )
    points = zip(curve.thresholds, curve.affected, strict=True)
    lines = [(percent(threshold, fine=True), f"{affected:,}") for threshold, affected in points]
    yield chart_numbers(("threshold", "people affected"), lines, {0, 1})


def score_gaps(document: Document) -> Iterator[Block]:
    found = document.score_gaps
    if found is None:
        return
    bins = [
        (f"{number(low)} to {number(high)}", f"{number(low)} and {number(high)}", amount)
        for (low, high), amount in zip(pairwise(found.edges), found.counts, strict=True)
    ]
    _, ends, most = max(bins, key=lambda one: one[2])
    words = (
        f"Histogram of {count(sum(found.counts), 'row')}: differences run from {number(found.edges[0])} to "
        f"{number(found.edges[-1])}; most rows, {most:,}, lie between {ends}."
    )
    yield Chart(
        partial(charts.histogram, found=found, label="difference between twins' scores"),
        words,
        "How many rows (up) have twins whose scores differ by how much (across). A difference need not change the "
        "decision; it can, close to the border.",
    )
    yield chart_numbers(("difference", "rows"), [(between, f"{amount:,}") for between, _, amount in bins], {1})


# --- how good it is ---

MEASURES = {
    "accuracy": ("Accuracy", "decisions that are right"),
    "balanced_accuracy": ("Balanced accuracy", "the mean over the classes, however rare they are"),
    "majority_share": ("Share of the largest class", "the accuracy of deciding everybody as the most frequent class"),
    "auc": ("AUC", "how well the score ranks; 0.5 is chance"),
    "brier": ("Brier score", "how far probabilities are from what happened, squared; 0 is best"),
    "empirical_fairness": ("Twins agree", "rows decided alike for every sensitive value; not a proof"),
}


def quality_warnings(document: Document) -> Iterator[str]:
    """What is wrong with a model that never decides some class, by the rows on which it was measured."""
    for found in (document.metrics, *document.measured):
        if found is not None and (text := quality_warning(vars(found))):
            yield f"{text} {_measured_on(found.rows, found.on)}".strip()


def quality(document: Document) -> Iterator[Block]:
    """One table where one set of rows was measured on, else one line for each; what was measured now comes first."""
    found = [one for one in (document.metrics, *document.measured) if one is not None]
    found = [one for one in found if any(getattr(one, name) is not None for name in MEASURES)]
    if not found:
        return
    if len(found) == 1:
        (only,) = found
        known = ((label, getattr(only, name), meaning) for name, (label, meaning) in MEASURES.items())
        rows = ((label, measure_text(label, value), meaning) for label, value, meaning in known if value is not None)
        yield stacked(("measure", "value", "meaning"), rows, {1}, _measured_on(only.rows, only.on))
    else:
        names = [name for name in MEASURES if any(getattr(one, name) is not None for one in found)]
        columns = ("measured on", "rows", *(MEASURES[name][0] for name in names))
        lines = [
            (
                readable(one.on) or "rows", MISSING if one.rows is None else f"{one.rows:,}",
                *(measure_text(MEASURES[name][0], getattr(one, name)) for name in names),
            )
            for one in found
        ]  # fmt: skip
        yield stacked(columns, lines, range(1, len(columns)))
        meanings = "; ".join(f"{MEASURES[name][0]}: {MEASURES[name][1]}" for name in names)
        yield Text(f"{meanings}.", "soft")
    for text in quality_warnings(document):
        yield Text(readable(text), "warning")
    if document.measured:
        yield Text("What training measured is recorded in the certificate, not proven.", "soft")
    if document.metrics is not None and document.metrics.on == TABLE:
        yield Text(
            "Whether the model learnt from rows of this table is not known here: then it looks better than it is.",
            "soft",
        )


# --- what else carries it, what repair cost, how it learnt ---


def proxies(document: Document) -> Iterator[Block]:
    if document.proxies:
        yield Text(
            f"How well other features predict {sensitive_names(document)}. The bar is empty where guessing would do as "
            "well, and full where the value can be read off. A feature that predicts it can stand in for it."
        )
        rows = (
            (feature_name(proxy.feature), _predicts(proxy), readable(proxy.measure), readable(proxy.note))
            for proxy in document.proxies
        )
        yield stacked(("feature", "predicts it", "measure", "note"), rows)
    if document.suggestions:
        yield Text("What could be done", "heading")
        yield from (Text(readable(text)) for text in document.suggestions)


def _predicts(proxy: Proxy) -> str | Meter:
    found = proxy.predicts_sensitive
    if found is None:
        return MISSING
    above = (found - proxy.chance) / max(1 - proxy.chance, 1e-9)
    return Meter(measure_text(proxy.measure, found), min(max(above, 0.0), 1.0))


def repair(document: Document) -> Iterator[Block]:
    found = document.repair
    if found is None:
        return
    if found.decisions_changed is not None:
        yield Text(f"Repair changed {percent(found.decisions_changed)} of the decisions.")
    before, after = found.accuracy_before, found.accuracy_after
    if before is not None or after is not None:
        change = MISSING if before is None or after is None else points(before, after)
        row = ("Accuracy", percent(before), percent(after), change)
        yield stacked(("measure", "before", "after", "change"), [row], {1, 2, 3}, _measured_on(found.rows))
    if found.note:
        yield Text(readable(found.note))


def learning(document: Document) -> Iterator[Block]:
    history = sorted(document.history, key=lambda point: point.epoch)
    lines = [name for name in ("accuracy", "fairness") if any(getattr(p, name) is not None for p in history)]
    if not lines:
        return
    last, every = history[-1], math.ceil(len(history) / MOST_EPOCHS)
    kept = [point for i, point in enumerate(history) if i % every == 0 or point is last]
    ends = [f"{name} {percent(getattr(last, name))}" for name in lines if getattr(last, name) is not None]
    words = f"Lines over {count(len(history), 'epoch')}: at the end {' and '.join(ends) or 'nothing was measured'}."
    caption = "Solid: accuracy on validation rows. Dashed: share of rows decided alike for every sensitive value."
    if len(lines) == 1:
        only = {"accuracy": "Accuracy on validation rows", "fairness": "Share of rows whose twins agree"}
        caption = f"{only[lines[0]]}, as recorded."
    if every > 1:
        caption += f" One epoch in {every:,} is shown."
    yield Chart(partial(charts.history_lines, history=kept), words, caption)
    rows = [(f"{p.epoch:,}", percent(p.accuracy), percent(p.fairness), number(p.loss)) for p in kept]
    yield chart_numbers(("epoch", "accuracy", "fairness", "loss"), rows, range(4))
