"""The verdict in sentences: the one on top, what it means, what does not fit together, and what is not said."""

from __future__ import annotations

from collections.abc import Iterator

from bornfair.models.verdict import SHOWN, Arithmetic, Verdict
from bornfair.quantification.records import People
from bornfair.report.blocks import ListingEntry
from bornfair.report.facts import Document
from bornfair.report.formatting import count, effort, listed, percent, readable

BADGES = {"verified": "✓ Verified", "falsified": "✗ Falsified", "undecided": "? Undecided"}
NO_ARITHMETIC = "Nothing is claimed in any arithmetic."
ARITHMETIC_LIMITS = {
    (): NO_ARITHMETIC,
    ("real",): "The verdict is about exact numbers. A computer rounds: close to the border between two decisions, the "
    "running model can differ from it.",
    ("float32",): "The verdict is about float32, as computers run the model; other number formats make another model.",
    ("float32", "real"): "The verdict holds in exact and in float32 arithmetic. Other number formats, such as float16 "
    "or whole numbers after quantisation, make another model.",
    ("float64",): "The verdict is about float64, as computers run the model; other number formats make another model.",
    ("float64", "real"): "The verdict holds in exact and in float64 arithmetic. Other number formats make another "
    "model.",
    ("executed",): "The verdict is about the model as it is executed, by software that keeps to what its operators "
    "mean: what one gives depends on what it reads and on nothing else. Another version may decide otherwise.",
}
NOT_BEYOND = "Values that the domain does not list are not covered."
BEYOND_DOMAIN = (
    "The proof is structural: it does not depend on the values of the other features. Twins outside the domain get the "
    "same score, too."
)
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


def sensitive_names(document: Document, word: str = "and") -> str:
    return listed(document.sensitive, word=word) or "the sensitive value"


def people_sentence(document: Document) -> str:
    """How many people of the table would be decided otherwise, to go on after other words."""
    people = document.people
    assert people is not None
    other = f"another value of {sensitive_names(document, 'or')}"
    if document.domain is not None and document.domain.twins:
        other += ", or with what the declared rules change along"
    rows = f"people in {readable(people.source or 'the table')}"
    if people.drawn_from is not None:
        rows = f"people drawn at random from the {people.drawn_from:,} {rows.removeprefix('people ')}"
    if not people.unfair:
        return f"none of the {people.rows:,} {rows} would be decided otherwise with {other}"
    share = f"{percent(people.share)} ({people.unfair:,} of {people.rows:,})"
    return f"{share} of the {rows} would be decided otherwise with {other}"


def elsewhere(document: Document) -> str:
    """That at other thresholds people of the table would be affected, where none is at the model's own: with rare
    positives hardly anybody is near ½, and the threshold in use is another.
    """
    curve, people = document.thresholds, document.people
    if curve is None or people is None or people.unfair or not curve.worst_affected:
        return ""
    own, worst = (percent(share) for share in (curve.own, curve.worst))
    return (
        f" That holds at its threshold, {own} for {readable(curve.decided)}: at {worst}, {curve.worst_affected:,} of "
        f"the {curve.rows:,} people looked at would be decided otherwise."
    )


def verdict_sentence(document: Document) -> str:
    """The one sentence on top. It speaks of the people of a table, where there is one."""
    names, found, people = sensitive_names(document), document.verdict, document.people
    changes = "change" if len(document.sensitive) > 1 else "changes"
    rules = document.domain is not None and bool(document.domain.twins)
    if found.answer == "verified":
        along = ", with all that the declared rules change along," if rules else ""
        fair = "Fair, in real arithmetic, of the model as read" if found.as_read else "Fair"
        return f"{fair}: {names}{along} never {changes} the decision, for anyone who could exist.{elsewhere(document)}"
    if found.answer == "falsified" and people is not None and people.unfair:
        return f"Not fair: {people_sentence(document)}."
    if found.answer == "falsified" and people is not None:
        though = f"{people_sentence(document)}.{elsewhere(document)}"
        return f"Not fair: some who could exist are decided by {names}, though {though}"
    if found.answer == "falsified":
        two = " Here are two who show it." if document.pairs else ""
        along = ", with what the declared rules change along," if rules else " alone"
        return f"Not fair: {names}{along} {changes} the decision for some people.{two}"
    if people is not None and people.unfair:
        return f"Undecided for everyone who could exist, but {people_sentence(document)}."
    return f"Undecided: whether {names} can change a decision is neither proven nor disproven."


def people_are_real(document: Document) -> bool:
    """Whether rows of the table are among the people shown."""
    return document.verdict.shown == "real" or bool(document.people is not None and document.people.most_affected)


def people_shown(verdict: Verdict, people: People | None) -> str:
    """Whether a report with this verdict and these people shows rows of the table, in a sentence or two."""
    affected = 0 if people is None else len(people.most_affected)
    if affected or verdict.shown == "real":
        rows = f"{count(affected, 'row')} of the table" if affected else "a row of the table"
        return f"This report shows real people: {rows}. Give it only to people who may see the table."
    return SHOWN.get(verdict.shown, "")


def disagreements(document: Document) -> Iterator[str]:
    """What in this document cannot all be true, or needs a word of explanation."""
    shares, people, certificate = document.shares, document.people, document.certificate
    verdict = document.verdict.answer
    some_unfair = shares is not None and shares.falsified > 0
    if verdict == "verified" and some_unfair:
        yield (
            "The verdict says fair, yet a share of the domain is reported as proven unfair. Both cannot be true of "
            "the same model and domain: find out which files were examined before relying on either."
        )
    if verdict == "verified" and people is not None and people.unfair:
        yield (
            "The verdict says fair, yet rows of the data have twins who are decided otherwise. Are these rows "
            "outside the domain, or decided in another arithmetic than the proof speaks of?"
        )
    if certificate is not None and {certificate.verdict, verdict} == {"verified", "falsified"}:
        yield (
            f"The certificate says {certificate.verdict}, this examination {verdict}. Run the checker: it tells "
            "whether the certificate holds for these files."
        )
    estimate = None if shares is None else shares.estimate
    if shares and estimate and (estimate.high < shares.falsified or estimate.low > 1 - shares.certified):
        yield (
            "The estimate lies outside what is proven. A sample is wrong now and then; where the two disagree, "
            "the proof counts."
        )
    if verdict == "undecided" and some_unfair:
        yield (
            "A share of the domain is proven unfair, so the model is not fair, although the search for a pair of twins "
            "ended without one."
        )


def limits(document: Document) -> Iterator[ListingEntry]:
    """What the report does not say, in the light of what it does."""
    verdict, shares = document.verdict.answer, document.shares
    if verdict == "undecided":
        yield ListingEntry("Unfair.", "Undecided does not mean unfair: neither proof nor counterexample was found.")
    if verdict == "falsified" and shares is None and document.people is None:
        pairs = len(document.pairs)
        which = "One pair of twins is shown" if pairs == 1 else f"{count(pairs, 'pair')} of twins are shown"
        yield ListingEntry("How many.", f"{which}; how many more there are is not counted.")
    if shares is not None and shares.estimate is not None:
        text = "What is marked as an estimate comes from a sample. It can be wrong; it is never a proof."
        yield ListingEntry("Estimates.", text)
    yield ListingEntry(
        "Proxies.",
        "The features listed above carry the sensitive value. Twins share them unless a rule says otherwise, so "
        "the verdict does not speak of decisions that rest on them. The list is of this data only."
        if document.proxies
        else "Other features, such as a place or an occupation, can go together with the sensitive ones. Twins share "
        "them, so the verdict does not speak of decisions that rest on them.",
    )
    rates = " The rates by group above are of these rows alone; nothing is proven about them."
    yield ListingEntry(
        "Groups.",
        "Whether groups of people get the positive decision equally often is another question."
        + (rates if document.group_metrics else ""),
    )
    certificate = document.certificate
    certified = certificate is not None and certificate.verdict == "verified" == verdict
    beyond = BEYOND_DOMAIN if certified and document.verdict.proof == "structural" else NOT_BEYOND
    yield ListingEntry(
        "People outside the domain.",
        f"{beyond} What happens to the data before the model, or to the decision after it, is not covered.",
    )
    counted = document.metrics or document.measured
    right = "accuracy was measured on a sample of rows" if counted else "accuracy is not part of the verdict"
    yield ListingEntry("Being right.", f"A fair decision can still be a wrong one; {right}.")
    yield ListingEntry("Arithmetic.", ARITHMETIC_LIMITS[tuple(sorted(set(document.verdict.arithmetic)))])


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


def meaning(document: Document) -> Iterator[ListingEntry]:
    """What was proven, shown or asked, term by term."""
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
