"""In which order does a report speak? The verdict, who shows it, how many, how good, what was proven, how to check.

Here the facts about one model become sections of plain blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bornfair.models.protocol import ASKED
from bornfair.models.verdict import Arithmetic, Verdict
from bornfair.report import measured
from bornfair.report.blocks import (
    Block,
    BlockGroup,
    Code,
    Contents,
    Listing,
    ListingEntry,
    Quiet,
    Row,
    Table,
    Text,
    filled_sections,
)
from bornfair.report.domain_facts import FeatureFacts
from bornfair.report.facts import COLUMNS, OPERATING_POINT, Document
from bornfair.report.formatting import (
    count,
    effort,
    feature_name,
    interval,
    listed,
    narrow,
    percent,
    readable,
    round_percent,
)
from bornfair.report.people import lowest_ratio, pairs_of_twins, people_of_the_data, rates_by_group, reliability
from bornfair.report.verdict_text import (
    BADGES,
    NO_ARITHMETIC,
    disagreements,
    limits,
    people_are_real,
    verdict_sentence,
)

MOST_FEATURES = 30  # of the domain, shown at once
FOOTER = "Made with bornfair."
COMMAND = "Command"  # of the facts about how a report came about
LIMITS_TITLE = "What this report does not say"
MEANING_TITLES = {
    "verified": "What exactly was proven",
    "falsified": "What exactly was shown",
    "undecided": "What exactly was asked",
}
PROOFS = {
    "structural": "Structural: the sensitive values cannot reach the decision. What a network computes from them is "
    "the same for all of them from some layer on, or no split of a forest tells them apart, or no path of a graph "
    "leads from them to it, whatever the rest of the person is.",
    "bounds": "By bounds: everybody who could exist was divided into parts, and in each part bounds that cover every "
    "rounding show that all twins get the same decision.",
    "none": "None. Nothing here lets a checker conclude that the model is fair.",
}
ARITHMETIC = {
    "real": "Exact: the weights are taken as the numbers they are and nothing is rounded.",
    "float32": "Float32: the model as computers run it",
    "float64": "Float64: the model as computers run it",
    "executed": "As executed: in whatever formats the model computes, by one program that is asked about both in "
    "the same way.",
}


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
        ("meaning", MEANING_TITLES[verdict], [Listing("terms", tuple(_meaning(document)))]),
        ("domain", "Who could exist", _domain(document)),
        ("making", "How it was made", _making(document)),
        ("history", "While it learnt", measured.learning(document)),
        ("checking", "Files, and how to check them", _checking(document)),
        ("examination", "How this report came about", examination(document.examination)),
        ("limits", LIMITS_TITLE, [Listing("points", tuple(limits(document)))]),
    ]
    return Contents(
        title=readable(title),
        about=" · ".join(readable(part) for part in (title, document.model, made_on(document)) if part),
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
    yield from why_open(document)
    for note in disagreements(document):
        yield Text(note, "warning")
    if useless := next(measured.quality_warnings(document), ""):  # one is enough here; all are told with the figures
        yield Text(readable(useless), "warning")
    if tiles := tuple(_tiles(document)):
        yield Listing("tiles", tiles)


def why_open(document: Document) -> Iterator[Text]:
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


def made_on(document: Document) -> str:
    return document.made or document.examination.get("Date", "")


def examination(facts: Mapping[str, str]) -> Iterator[Block]:
    """When, of what, with what: all a reader needs to repeat it."""
    if not facts:
        return
    terms = [(name, text) for name, text in facts.items() if name != COMMAND]
    yield _terms(terms)
    if COMMAND in facts:
        yield Text(readable(facts[COMMAND]), "command")


# --- what it means ---


def _arithmetic(verdict: Verdict, kind: Arithmetic) -> str:
    """What the verdict says in this arithmetic, under the same condition as the certificate's claim."""
    if kind not in ("float32", "float64"):
        return ARITHMETIC[kind]
    condition = ", whatever the order in which sums are added up"
    if verdict.answer == "verified" and kind == "float32":
        condition = ", where the sums of both people are added up in the same order"
    elif verdict.answer == "verified" and verdict.proof == "structural":
        condition = ", where no sum rounds or the trees of both people are added up in the same order"
    return f"{ARITHMETIC[kind]}{condition}."


def _meaning(document: Document) -> Iterator[ListingEntry]:
    found, domain, certificate = document.verdict, document.domain, document.certificate
    twins = "Two individuals who agree in everything except the sensitive features."
    if domain is not None and domain.twins:
        twins = "Two individuals who differ only in the sensitive features, or by the declared rules: "
        twins += "; ".join(readable(rule) for rule in domain.twins)
    yield ListingEntry("Twins", twins)
    values = listed(document.sensitive, most=20) or "None were named."
    if domain is not None and domain.sensitive and domain.sensitive_values is not None:
        values += f" ({count(domain.sensitive_values, 'possible value')} taken together)"
    elif domain is not None and domain.sensitive:
        values += " (a real number among them takes every value of its range)"
    yield ListingEntry("Sensitive features", values)
    statement = f"\n{readable(certificate.statement)}" if certificate and certificate.statement else ""
    yield ListingEntry("Individually fair", f"Twins always get the same decision.{statement}")
    kinds = "\n".join(_arithmetic(found, kind) for kind in found.arithmetic)
    yield ListingEntry("Arithmetic", kinds or NO_ARITHMETIC)
    if found.answer != "falsified":
        yield ListingEntry("Proof", PROOFS[found.proof])
    if certificate is not None and certificate.leaves is not None:
        leaves = f"{count(certificate.leaves, 'part')}, one for each leaf of the proof tree."
        yield ListingEntry("Size of the proof", leaves)
    reported = readable(found.engine or "unknown") + (f": {readable(found.reason)}" if found.reason else "")
    work = effort(found.boxes if found.boxes > 1 else None, found.seconds or None)
    yield ListingEntry("Reported by the engine", f"{reported} ({work})" if work else reported)


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
    rows = tuple(
        Row(
            (feature_name(f.name), readable(f.kind), readable(f.values), "yes" if f.sensitive else Quiet("no")),
            mark=f.sensitive,
        )
        for f in features
    )
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
    sums = [*certificate.files.items()]
    sums += [("certificate content", certificate.sha256)] if certificate.sha256 else []
    if sums:
        yield Text("The certificate is about the files with these SHA-256 sums, and no others:")
        yield Listing("terms", tuple(ListingEntry(readable(name), Code(readable(digest))) for name, digest in sums))
    if certificate.facts:
        yield _terms(certificate.facts.items())


def _terms(pairs: Iterable[tuple[str, str]]) -> Listing:
    return Listing("terms", tuple(ListingEntry(readable(name), readable(text)) for name, text in pairs))
