"""In which order does a report speak? The verdict, who shows it, how many, how good, what was proven, how to check.

Here a document becomes sections of plain blocks; what is not in the document leaves no gap.
"""

from __future__ import annotations

from collections.abc import Iterable

from bornfair.report.blocks import (
    Block,
    Code,
    Commands,
    Fold,
    Items,
    Quiet,
    Row,
    Section,
    Story,
    Table,
    Terms,
    Text,
    Tiles,
)
from bornfair.report.document import Document, FeatureFacts
from bornfair.report.measured import (
    affected_groups,
    by_group,
    data_people,
    domain_shares,
    learning,
    proxies,
    quality,
    repaired,
    score_gaps,
)
from bornfair.report.pairs import twins_section
from bornfair.report.words import count, disagreements, limits, listed, named, percent, seconds, told, verdict_sentence

MOST_FEATURES = 30  # of the domain, shown at once

PROOFS = {
    "structural": "Structural: the sensitive values cannot reach the decision. What the network computes from them is "
    "the same for all of them from the first layer on, whatever the rest of the person is.",
    "bounds": "By bounds: everybody who could exist was divided into parts, and in each part bounds that cover every "
    "rounding show that all twins get the same decision.",
    "none": "None. There is nothing here that a checker could follow to a statement of fairness.",
}
ARITHMETIC = {
    "real": "Exact: the weights are taken as the numbers they are and nothing is rounded.",
    "float32": "Float32: the network as computers run it, whatever the order in which sums are added up.",
}


def story_of(document: Document) -> Story:
    """The report on one model."""
    sections = [
        twins_section(document),
        domain_shares(document),
        data_people(document),
        affected_groups(document),
        score_gaps(document),
        quality(document),
        by_group(document),
        proxies(document),
        repaired(document),
        _meaning(document),
        _domain(document),
        _making(document),
        learning(document),
        _checking(document),
        _limits(document),
    ]
    default = "Fairness certificate" if document.certificate else "Fairness report"
    return Story(
        title=told(document.title or default),
        about=" · ".join(told(part) for part in (document.title or default, document.model, document.made) if part),
        headline=verdict_sentence(document),
        verdict=document.verdict.verdict,
        lead=tuple(_lead(document)),
        sections=tuple(section for section in sections if section is not None),
        footer=_footer(document),
    )


def _lead(document: Document) -> Iterable[Block]:
    certificate, found = document.certificate, document.verdict
    agrees = certificate is not None and certificate.verdict in ("", found.verdict)
    if found.verdict == "verified" and certificate is not None and certificate.claim and agrees:
        yield Text(told(certificate.claim), "quote")
    elif found.verdict == "verified":
        how = " and ".join({"real": "exact", "float32": "float32"}[kind] for kind in found.arithmetic)
        yield Text(
            "Two people who differ only in the sensitive features always get the same decision"
            + (f", proven in {how} arithmetic." if how else ".")
        )
    elif found.verdict == "undecided" and found.reason:
        yield Text(f"Why it is open: {told(found.reason)}")
    for note in disagreements(document):
        yield Text(note, "warning")
    if tiles := tuple(_tiles(document)):
        yield Tiles(tiles)


def _tiles(document: Document) -> Iterable[tuple[str, str, str]]:
    shares, people, metrics = document.shares, document.people, document.metrics
    if shares is not None:
        yield "Proven fair", percent(shares.certified, "down"), "of everyone who could exist"
        if shares.falsified or document.verdict.verdict == "falsified":
            yield "Proven unfair", percent(shares.falsified, "down"), "of everyone who could exist"
        if shares.estimate is not None:
            low, high = percent(shares.estimate.low, "down"), percent(shares.estimate.high, "up")
            yield "Unfair, estimate", percent(shares.estimate.unfair), f"{low} to {high}; a sample, not a proof"
    if people is not None:
        yield "Affected rows", percent(people.share), f"{people.unfair:,} of {count(people.rows, 'row')}"
    if metrics is not None and metrics.accuracy is not None:
        rows = "" if metrics.rows is None else f"on {count(metrics.rows, 'row')}"
        yield "Accuracy", percent(metrics.accuracy), rows
    if people is None and metrics is not None and metrics.empirical_fairness is not None:
        yield "Twins agree in the data", percent(metrics.empirical_fairness), "of the rows; not a proof"


# --- what it means ---


def _meaning(document: Document) -> Section:
    found, domain, certificate = document.verdict, document.domain, document.certificate
    title = {
        "verified": "What exactly was proven",
        "falsified": "What exactly was shown",
        "undecided": "What exactly was asked",
    }[found.verdict]
    twins = "Two individuals who agree in everything except the sensitive features."
    if domain is not None and domain.twins:
        twins = "Two individuals who differ only in the sensitive features, or by the declared rules: "
        twins += "; ".join(told(rule) for rule in domain.twins)
    values = listed(document.sensitive, most=20) or "None were named."
    if document.sensitive and domain is not None and domain.sensitive_values is not None:
        values += f" ({count(domain.sensitive_values, 'possible value')} taken together)"
    elif document.sensitive and domain is not None:
        values += " (a real number among them takes every value of its range)"
    fair = "Twins always get the same decision."
    if certificate is not None and certificate.statement:
        fair += f"\n{told(certificate.statement)}"
    kinds = "\n".join(ARITHMETIC[kind] for kind in found.arithmetic) or "Nothing is claimed in any arithmetic."
    terms = [("Twins", twins), ("Sensitive features", values), ("Individually fair", fair), ("Arithmetic", kinds)]
    if found.verdict != "falsified":
        terms.append(("Proof", PROOFS[found.proof]))
    if certificate is not None and certificate.leaves is not None:
        terms.append(
            ("Size of the proof", f"{count(certificate.leaves, 'part')}, one for each leaf of the proof tree.")
        )
    terms.append(("Reported by the engine", _reported(document)))
    return Section("meaning", title, (Terms(tuple(terms)),))


def _reported(document: Document) -> str:
    found = document.verdict
    text = told(found.engine or "unknown") + (f": {told(found.reason)}" if found.reason else "")
    looked = [f"{count(found.boxes, 'part')} of the domain looked at"] if found.boxes > 1 else []
    took = [seconds(found.seconds)] if found.seconds else []
    return text + (f" ({', '.join(looked + took)})" if looked or took else "")


# --- who could exist ---


def _domain(document: Document) -> Section | None:
    domain = document.domain
    if domain is None:
        return None
    text = "The statement is about every individual of this domain, whether or not such a person is in any table."
    blocks: list[Block] = [Text(f"{text} They are {told(domain.people)}." if domain.people else text)]
    features = sorted(domain.features, key=lambda feature: not feature.sensitive)
    if len(features) > MOST_FEATURES:
        few = [feature for feature in features if feature.sensitive]
        if few:
            blocks.append(_features(few))
        rest = [feature for feature in features if not feature.sensitive]
        blocks.append(Fold(f"The {count(len(rest), 'other feature')}", (_features(rest),)))
    elif features:
        blocks.append(_features(domain.features))
    if domain.combinations is not None:
        only = f"Only {count(domain.combinations, 'combination')} of sensitive values exist; domain.json lists them."
        blocks.append(Text(only))
    if domain.label is not None:
        classes = f", one of {listed(domain.classes, most=40, word='and')}" if domain.classes else ""
        blocks.append(Text(f"What is decided: {told(domain.label)}{classes}."))
    return Section("domain", "Who could exist", tuple(blocks))


def _features(features: Iterable[FeatureFacts]) -> Table:
    rows = tuple(
        Row(
            (named(f.name), told(f.kind), told(f.values), "yes" if f.sensitive else Quiet("no")),
            mark=f.sensitive,
        )
        for f in features
    )
    return Table(("feature", "kind", "possible values", "sensitive?"), rows, shape="stack")


# --- how it was made, how to check, what is not said ---


def _making(document: Document) -> Section | None:
    if not document.making:
        if document.certificate is None:
            return None
        return Section("making", "How it was made", (Text("Not recorded: this model was not trained by bornfair."),))
    terms = Terms(tuple((told(name), told(text)) for name, text in document.making.items()))
    return Section("making", "How it was made", (Text("Recorded by the training program, not proven."), terms))


def _checking(document: Document) -> Section | None:
    certificate = document.certificate
    if certificate is None:
        return None
    hashes = [(told(name), Code(told(digest))) for name, digest in certificate.files.items()]
    if certificate.sha256:
        hashes.append(("certificate content", Code(told(certificate.sha256))))
    blocks: list[Block] = []
    if certificate.claim:
        blocks += [Text("The sentence that may be quoted:"), Text(told(certificate.claim), "quote")]
    blocks += [
        Text(
            "This page only repeats the certificate in words. To find out for yourself, run the checker on the bundle, "
            "the folder or .zip that this page came in. It reads the files, derives the claim anew and trusts nothing "
            "else."
        ),
        Commands((f"bornfair check {told(certificate.bundle)}",)),
        Text("Without bornfair: the checker is one file that needs Python alone."),
        Commands((f"python checker.py {told(certificate.bundle)}",)),
    ]
    if hashes:
        blocks += [
            Text("The certificate is about the files with these SHA-256 sums, and no others:"),
            Terms(tuple(hashes)),
        ]
    if certificate.facts:
        blocks.append(Terms(tuple((told(name), told(text)) for name, text in certificate.facts.items())))
    return Section("checking", "Files, and how to check them", tuple(blocks))


def _limits(document: Document) -> Section:
    return Section("limits", "What this report does not say", (Items(tuple(limits(document))),))


def _footer(document: Document) -> str:
    certificate = document.certificate
    parts = ["Made with bornfair."]
    if certificate is not None and certificate.format:
        parts.append(f"Certificate format {told(certificate.format)}.")
    return " ".join(parts)
