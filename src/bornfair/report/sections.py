"""The contents of a report, in order: verdict, who shows it, how many, how good, what was proven, how to check it.

Several models stand side by side: one table, one chart of fairness against accuracy, and each model's verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from bornfair.models.protocol import ASKED
from bornfair.report import charts, measured
from bornfair.report.blocks import (
    Block,
    BlockGroup,
    Chart,
    Code,
    Contents,
    Listing,
    ListingEntry,
    Quiet,
    Row,
    Table,
    Text,
    filled_sections,
    filled_table,
)
from bornfair.report.facts import COLUMNS, OPERATING_POINT, Comparison, Document, FeatureFacts, Metrics
from bornfair.report.formatting import (
    MISSING,
    clipped,
    count,
    feature_name,
    interval,
    listed,
    measure_text,
    narrow,
    percent,
    readable,
    round_percent,
)
from bornfair.report.measured import asked_about, shares_chart
from bornfair.report.people import (
    lowest_ratio,
    pairs_of_twins,
    people_of_the_data,
    rates_by_group,
    reliability,
    side_by_side,
)
from bornfair.report.verdict_text import (
    BADGES,
    disagreements,
    limits,
    meaning,
    people_are_real,
    sensitive_names,
    verdict_sentence,
)

MOST_FEATURES = 30  # of the domain, shown at once
FOOTER = "Made with bornfair."
COMMAND = "Command"  # of the facts about how a report came about
LIMITS_TITLE = "What this report does not say"
EXAMINATION_TITLE = "How this report came about"
MEANING_TITLES = {
    "verified": "What exactly was proven",
    "falsified": "What exactly was shown",
    "undecided": "What exactly was asked",
}
ABOUT_ALL = (
    "Verdicts are about everyone who could exist; accuracy, and who is decided otherwise with another sensitive value, "
    "about the rows of a table."
)

Models = tuple[Document, ...]


def contents_of(document: Document) -> Contents:
    """The report on one model."""
    certificate, verdict = document.certificate, document.verdict.answer
    title = document.title or ("Fairness certificate" if certificate else "Fairness report")
    written_as = f" Certificate format {readable(certificate.format)}." if certificate and certificate.format else ""
    sections = [
        ("people", "People in the table", people_of_the_data(document)),
        (
            "twins",
            "The two people" if len(document.pairs) == 1 else "People who show it",
            pairs_of_twins(document),
        ),
        ("by-group", "By group", rates_by_group(document)),
        ("shares", "People as in the data", measured.shares_of_the_data(document)),
        ("groups", "Whom it affects most", measured.affected_groups(document)),
        ("trees", "Through which trees it acts", measured.acting_trees(document)),
        ("thresholds", "At other thresholds", measured.other_thresholds(document)),
        ("gaps", "How far twins' scores lie apart", measured.score_gaps(document)),
        ("quality", "How good it is", measured.quality(document)),
        ("reliability", "Whether probabilities mean what they say", reliability(document)),
        ("proxies", "What else carries the sensitive value", measured.proxies(document)),
        ("repair", "What repair changed", measured.repair(document)),
        ("combinations", "Every combination of values", measured.shares_of_combinations(document)),
        ("meaning", MEANING_TITLES[verdict], [Listing("terms", tuple(meaning(document)))]),
        ("domain", "Who could exist", _domain(document)),
        ("making", "How it was made", _making(document)),
        ("history", "While it learnt", measured.learning(document)),
        ("checking", "Files, and how to check them", _checking(document)),
        ("examination", EXAMINATION_TITLE, _examination(document.examination)),
        ("limits", LIMITS_TITLE, [Listing("points", tuple(limits(document)))]),
    ]
    return Contents(
        title=readable(title),
        about=" · ".join(readable(part) for part in (title, document.model, _made_on(document)) if part),
        headline=verdict_sentence(document),
        lead=tuple(_lead(document)),
        sections=filled_sections(sections),
        footer=FOOTER + written_as,
        verdict=verdict,
        badge=BADGES[verdict],
    )


def _lead(document: Document) -> Iterator[Block]:
    certificate, found = document.certificate, document.verdict
    agrees = certificate is not None and certificate.verdict in ("", found.answer)
    if found.answer == "verified" and certificate is not None and certificate.claim and agrees:
        yield Text(readable(certificate.claim), "quote")
    elif found.answer == "verified":
        how = " and ".join({"real": "exact"}.get(kind, kind) for kind in found.arithmetic)
        proven = f", proven in {how} arithmetic" if how else ""
        what = "score, and so the same decision at every threshold" if found.covers == "score" else "decision"
        yield Text(f"Two people who differ only in the sensitive features always get the same {what}{proven}.")
    if decides := document.making.get(OPERATING_POINT):
        yield Text(readable(decides))
    if told := document.making.get(COLUMNS):
        yield Text(readable(told))
    if document.shows:
        yield Text(readable(document.shows), "warning" if people_are_real(document) else "")
    if ASKED in document.making:
        yield Text(
            "The model was asked from outside, not read: its answers can show that it is not fair, never that it is."
        )
    yield from _why_open(document)
    for note in disagreements(document):
        yield Text(note, "warning")
    if useless := next(measured.quality_warnings(document), ""):  # one is enough here; all are told with the figures
        yield Text(readable(useless), "warning")
    if tiles := tuple(_tiles(document)):
        yield Listing("tiles", tiles)


def _why_open(document: Document) -> Iterator[Text]:
    if document.verdict.answer == "undecided" and document.verdict.reason:
        yield Text(f"Why it is open: {readable(document.verdict.reason)}")


def _tiles(document: Document) -> Iterator[ListingEntry]:
    shares, people, metrics = document.shares, document.people, document.metrics
    if people is not None:
        of = f"{people.unfair:,} of {people.rows:,} people in the table"
        yield ListingEntry("Decided otherwise", percent(people.share), of)
    if document.favourable is not None and (ratio := lowest_ratio(document.group_metrics)) is not None:
        yield ListingEntry("Impact ratio", f"{ratio:.2f}", "the lowest of the groups; four fifths are 0.80")
    if shares is not None:
        whose = "of people as in the data" if shares.over == "data" else "of all combinations of values"
        if (sure := shares.confident) is not None and sure.samples:
            means = f"{whose}, with {round_percent(sure.confidence)} confidence"
            yield ListingEntry("Unfair", narrow(sure.low, sure.high), means)
        elif guess := shares.estimate:
            means = f"{whose}: {interval(guess.low, guess.high)}; a sample, not a proof"
            yield ListingEntry("Unfair, estimate", percent(guess.unfair), means)
        if shares.asked is None:
            yield ListingEntry("Proven fair", percent(shares.certified, "down"), whose)
        if shares.asked is None and (shares.falsified or document.verdict.answer == "falsified"):
            yield ListingEntry("Proven unfair", percent(shares.falsified, "down"), whose)
    if metrics is not None and metrics.accuracy is not None:
        rows = "" if metrics.rows is None else f"on {count(metrics.rows, 'row')}"
        largest = None if metrics.majority_share is None else f"largest class {percent(metrics.majority_share)}"
        balanced = None if metrics.balanced_accuracy is None else f"balanced {percent(metrics.balanced_accuracy)}"
        yield ListingEntry("Accuracy", percent(metrics.accuracy), "; ".join(filter(None, (rows, balanced, largest))))
    if people is None and metrics is not None and metrics.empirical_fairness is not None:
        yield ListingEntry("Twins agree in the data", percent(metrics.empirical_fairness), "of the rows; not a proof")


def _made_on(document: Document) -> str:
    return document.made or document.examination.get("Date", "")


def _examination(facts: Mapping[str, str]) -> Iterator[Block]:
    """When, of what, with what: all a reader needs to repeat it."""
    if not facts:
        return
    yield _terms((name, text) for name, text in facts.items() if name != COMMAND)
    if COMMAND in facts:
        yield Text(readable(facts[COMMAND]), "command")


# --- who could exist ---


def _domain(document: Document) -> Iterator[Block]:
    domain = document.domain
    if domain is None:
        return
    text = "The statement is about every individual of this domain, whether or not such a person is in any table."
    yield Text(f"{text} They are {readable(domain.people)}." if domain.people else text)
    if len(domain.features) > MOST_FEATURES:
        few = [feature for feature in domain.features if feature.sensitive]
        if few:
            yield _features(few)
        rest = [feature for feature in domain.features if not feature.sensitive]
        yield BlockGroup(f"The {count(len(rest), 'other feature')}", (_features(rest),), "fold")
    elif domain.features:
        yield _features(domain.features)
    if domain.combinations is not None:
        combinations = count(domain.combinations, "combination")
        yield Text(f"Only {combinations} of sensitive values exist; domain.json lists them.")
    if domain.label is not None:
        classes = f", one of {listed(domain.classes, most=40)}" if domain.classes else ""
        yield Text(f"What is decided: {readable(domain.label)}{classes}.")


def _features(features: Iterable[FeatureFacts]) -> Table:
    cells = ((f, (feature_name(f.name), readable(f.kind), readable(f.values))) for f in features)
    rows = tuple(Row((*told, "yes" if f.sensitive else Quiet("no")), mark=f.sensitive) for f, told in cells)
    return Table(("feature", "kind", "possible values", "sensitive?"), rows, shape="stack")


# --- how it was made, how to check ---


def _making(document: Document) -> Iterator[Block]:
    if document.making:
        if not {ASKED, COLUMNS} >= set(document.making):
            yield Text("Recorded by the training program, not proven.")
        yield _terms(document.making.items())
    elif document.certificate is not None:
        yield Text("Not recorded: this model was not trained by bornfair.")


def _checking(document: Document) -> Iterator[Block]:
    certificate = document.certificate
    if certificate is None:
        return
    if certificate.claim:
        yield Text("The sentence that may be quoted:")
        yield Text(readable(certificate.claim), "quote")
    yield Text(
        "This page only repeats the certificate in words. To find out for yourself, run the checker on the bundle, "
        "the folder or .zip that this page came in. It reads the files, derives the claim anew and trusts nothing "
        "else."
    )
    yield Text(f"bornfair check {readable(certificate.bundle)}", "command")
    yield Text("Without bornfair: the checker is one file that needs Python alone.")
    yield Text(f"python checker.py {readable(certificate.bundle)}", "command")
    content = {"certificate content": certificate.sha256} if certificate.sha256 else {}
    if sums := {**certificate.files, **content}:
        yield Text("The certificate is about the files with these SHA-256 sums, and no others:")
        yield Listing(
            "terms", tuple(ListingEntry(readable(name), Code(readable(digest))) for name, digest in sums.items())
        )
    if certificate.facts:
        yield _terms(certificate.facts.items())


def _terms(pairs: Iterable[tuple[str, str]]) -> Listing:
    return Listing("terms", tuple(ListingEntry(readable(name), readable(text)) for name, text in pairs))


# --- several models side by side ---


def contents_of_comparison(comparison: Comparison) -> Contents:
    """The report on several models."""
    models = comparison.models
    title = readable(comparison.title or "Fairness of several models")
    names = [f"{position}. {readable(document.model)}" for position, document in enumerate(models, start=1)]
    words = {"verified": "proven fair", "falsified": "not fair", "undecided": "undecided"}
    amounts = {verdict: sum(document.verdict.answer == verdict for document in models) for verdict in words}
    counted = [f"{n} {'is' if n == 1 else 'are'} {words[verdict]}" for verdict, n in amounts.items() if n]
    sections = [
        ("side-by-side", "Side by side", [_side_by_side(names, models)]),
        ("chart", "Fairness against accuracy", _chart(models)),
        *((f"model-{i + 1}", name, _one(model)) for i, (name, model) in enumerate(zip(names, models, strict=True))),
        ("limits", LIMITS_TITLE, [Listing("points", _limits_of_all(models))]),
        ("examination", EXAMINATION_TITLE, _examination(_examined(names, models))),
    ]
    return Contents(
        title=title,
        about=" · ".join(part for part in (title, readable(comparison.made or _made_on(models[0]))) if part),
        headline=f"Of {count(len(models), 'model')}, {listed(counted)}.",
        lead=tuple(Text(text) for text in (_affected(models), ABOUT_ALL) if text),
        sections=filled_sections(sections),
        footer=FOOTER,
    )


def _affected(models: Models) -> str:
    """How many people of the table are affected, from the best of the models to the worst."""
    shares = [document.people.share for document in models if document.people is not None]
    if len(shares) < len(models):
        return ""
    low, high = percent(min(shares)), percent(max(shares))
    which, depending = (low, "") if low == high else (f"Between {low} and {high}", ", depending on the model,")
    return (
        f"{which} of the people in the table{depending} would be decided otherwise with another value of "
        f"{sensitive_names(models[0], 'or')}."
    )


def _side_by_side(names: list[str], models: Models) -> Table:
    rows = []
    for name, document in zip(names, models, strict=True):
        people, shares, metrics = document.people, document.shares, document.metrics or Metrics()
        ratio, agree = lowest_ratio(document.group_metrics), metrics.empirical_fairness
        otherwise = MISSING if agree is None else percent(1 - agree)
        if people is not None:
            otherwise = f"{percent(people.share)}\n{people.unfair:,} of {people.rows:,}"
        unfair = MISSING  # the confident interval on two lines, else the estimate
        if shares is not None and (sure := shares.confident) is not None:
            unfair = narrow(sure.low, sure.high).removeprefix("between ").replace(" and ", "\nto ")
        elif shares is not None and shares.estimate is not None:
            unfair = percent(shares.estimate.unfair)
        proven = MISSING if shares is None or shares.asked is not None else percent(shares.certified, "down")
        rows.append({
            "model": name,
            "verdict": BADGES[document.verdict.answer].replace(" ", "\u00a0"),
            "decided otherwise": otherwise,
            "unfair": unfair,
            "proven fair": proven,
            "impact ratio": MISSING if ratio is None else f"{ratio:.2f}",
            "accuracy": percent(metrics.accuracy),
            "balanced accuracy": percent(metrics.balanced_accuracy),
            "largest class": percent(metrics.majority_share),
            "AUC": measure_text("AUC", metrics.auc),
        })  # fmt: skip
    return filled_table(rows, texts=("model", "verdict"))


def _fairness(document: Document) -> tuple[str, float] | None:
    """The one number for a chart, and what it is: of people first; a proven share would make a good model look bad that
    was given little time.
    """
    agree = document.metrics.empirical_fairness if document.metrics else None
    if document.people is not None and document.people.rows:
        agree = 1 - document.people.share
    if agree is not None:
        return "people in the table decided as their twins", agree
    estimate = document.shares.estimate if document.shares else None
    return None if estimate is None else ("people decided as their twins, estimate", 1 - estimate.unfair)


def _chart(models: Models) -> Iterator[Block]:
    """Only models measured in the same way share a chart."""
    found = [
        (position, document.model, *fairness, document.metrics.accuracy)
        for position, document in enumerate(models, start=1)
        if document.metrics is not None and document.metrics.accuracy is not None and (fairness := _fairness(document))
    ]
    kinds = [kind for _, _, kind, _, _ in found]
    most = max(sorted(set(kinds)), key=kinds.count, default="")
    points = [(name, fair, right) for _, name, kind, fair, right in found if kind == most]
    numbers = [position for position, _, kind, _, _ in found if kind == most]
    if len(points) < 2:
        return
    words = "; ".join(f"{clipped(name)}: {percent(fair)}, accuracy {percent(right)}" for name, fair, right in points)
    yield Chart(
        partial(charts.scatter, points=points, numbers=numbers, x_label=most, y_label="accuracy"),
        f"Chart of {most} against accuracy. {words}.",
        "Up and to the right is better. The scales are cut to where the models are; where names do not fit, the "
        "numbers are those of the table.",
    )


def _one(document: Document) -> Iterator[Block]:
    yield Text(f"{BADGES[document.verdict.answer]}. {verdict_sentence(document)}")
    for note in disagreements(document):
        yield Text(note, "warning")
    if document.shares is not None:
        whose = {"data": "Of people as in the data:", "uniform": "Of every combination of values, counted alike:"}
        yield Text(whose.get(document.shares.over, ""), "soft")
        asked = document.shares.asked
        yield from shares_chart(document.shares) if asked is None else [asked_about(asked)]
    if document.pairs:
        yield from side_by_side(document.pairs[0], document.label)
    yield from _why_open(document)


def _limits_of_all(models: Models) -> tuple[ListingEntry, ...]:
    """What holds for any of them, said once."""
    said: dict[str, ListingEntry] = {}
    for document in models:
        for entry in limits(document):
            said.setdefault(entry.name, entry)
    own = "Each verdict is about the arithmetic of its own report, and no other number format."
    said["Arithmetic."] = ListingEntry("Arithmetic.", own)
    return tuple(sorted(said.values(), key=lambda entry: entry.name not in ("Unfair.", "How many.")))


def _examined(names: list[str], models: Models) -> dict[str, str]:
    """What is the same of all of them once, and what is not for each."""
    facts: dict[str, str] = {}
    for fact in dict.fromkeys(fact for document in models for fact in document.examination):
        found = [document.examination.get(fact, MISSING) for document in models]
        if len(set(found)) == 1:
            facts[fact] = found[0]
        else:
            facts |= {f"{fact} {name}": text for name, text in zip(names, found, strict=True)}
    return facts
