"""What do code hosts read? An answer about each model as SARIF 2.1.0 and as JUnit XML.

Names, categories and paths come from others: in SARIF what would be a link or a placeholder is none, in XML what is
markup is escaped, in both what cannot be seen is written out. Paths stand there as they were given.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from bornfair import __version__
from bornfair.models.verdict import SHOWN, Verdict
from bornfair.quantification.synthetic import without_people
from bornfair.report.formatting import clipped, readable, twins_text, value_text, visible

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULES = {
    "falsified": (
        "BF001", "TwinsDecidedDifferently", "error",
        "Two people who differ only in sensitive features get different decisions.",
        "The model is not individually fair: the message shows two people who are alike but for their sensitive "
        "features, or for what declared rules change along, and whom the model decides differently.",
    ),
    "undecided": (
        "BF002", "FairnessUndecided", "warning",
        "Whether twins always get the same decision is neither proven nor disproven.",
        "No proof and no counterexample was found in the time given. More time may help; it is not evidence of "
        "fairness.",
    ),
}  # fmt: skip
"""What is reported, by verdict: id, name, level, a sentence, what it means. Of a verified model there is nothing."""


@dataclass(frozen=True)
class Examined:
    """A model, where it is, and what was found out; `sentence` says it in short."""

    model: str
    path: str | None
    """None where it is no file."""
    verdict: Verdict
    sentence: str
    decided: str = "decision"
    """What the twins' `decisions` are."""

    @staticmethod
    def at(
        path: str | Path | None, verdict: Verdict, sentence: str, *, name: str = "", decided: str = "decision"
    ) -> Examined:
        """Of the model in a file; a bundle's folder is known by its model.onnx. Real people are left out, because these
        files are made to be uploaded.
        """
        if verdict.shown == "real":
            verdict = without_people(verdict, "they are real")
        if path is None:
            return Examined(name or "the model", None, verdict, sentence, decided)
        place = Path(path)
        file = place / "model.onnx" if place.is_dir() else place
        return Examined(name or place.name or str(place), str(file), verdict, sentence, decided)

    @property
    def uri(self) -> str:
        """The place of the file as a reference: relative as it was given, absolute only if that was so; "" of no file.

        >>> from bornfair.models.verdict import undecided
        >>> Examined("m", "models/a b.onnx", undecided("bounds", ""), "").uri
        'models/a%20b.onnx'
        """
        if self.path is None:
            return ""
        path = PurePath(self.path)
        if path.is_absolute():
            return path.as_uri()
        return quote(os.fsencode(path.as_posix()), safe="/")

    @property
    def unlike(self) -> str:
        """In what the twins differ and how they are decided, in one line."""
        twins, decisions = self.verdict.twins, self.verdict.decisions
        if not twins:
            return ""
        names = [name for name in twins[0] if any(twin.get(name) != twins[0][name] for twin in twins)]
        told = [f"{clipped(n)} {' / '.join(clipped(value_text(twin.get(n))) for twin in twins)}" for n in names]
        decided = " / ".join(clipped(value_text(one)) for one in decisions or ())
        return f"{', '.join(told)}: {self.decided} {decided}"


# --- SARIF ---


def to_sarif(command: str, examined: Sequence[Examined]) -> str:
    """One run with a result for each model that is not verified; of the others there is a note.

    The same answers give the same bytes.
    """
    rules = [
        {
            "id": rule, "name": name, "shortDescription": {"text": short}, "fullDescription": {"text": text},
            "help": {"text": text}, "defaultConfiguration": {"level": level},
            "properties": {"tags": ["fairness"], "precision": "very-high"},
        }
        for rule, name, level, short, text in RULES.values()
    ]  # fmt: skip
    positions = {verdict: i for i, verdict in enumerate(RULES)}
    notes = [
        {"level": "note", "message": {"text": _sarif_text(f"{readable(one.model)}: {one.sentence}")}}
        for one in examined if one.verdict.answer not in RULES
    ]  # fmt: skip
    run = {
        "tool": {"driver": {"name": "bornfair", "version": __version__, "rules": rules}},
        "automationDetails": {"id": f"bornfair/{command}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": [_result(one, positions[one.verdict.answer]) for one in examined if one.verdict.answer in RULES],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2) + "\n"


def _result(one: Examined, position: int) -> dict[str, Any]:
    rule, _, level, *_ = RULES[one.verdict.answer]
    verdict = one.verdict
    text = f"{readable(one.model)}: {one.sentence}"
    if verdict.twins:
        text += f" {one.unlike}.\n\n{twins_text(verdict.twins, verdict.decisions, decided=one.decided)}"
    if verdict.shown:
        text += f"\n\n{SHOWN[verdict.shown]}"
    place: dict[str, Any] = {"logicalLocations": [{"name": readable(one.model)}]}
    if one.path is not None:
        base = {} if PurePath(one.path).is_absolute() else {"uriBaseId": "%SRCROOT%"}
        place = {"physicalLocation": {"artifactLocation": {"uri": one.uri, **base}, "region": {"startLine": 1}}}
    identity = hashlib.sha256(f"{rule}\0{one.uri}\0{one.model}".encode("utf-8", "backslashreplace")).hexdigest()
    return {
        "ruleId": rule, "ruleIndex": position, "level": level, "message": {"text": _sarif_text(text)},
        "locations": [place],
        "partialFingerprints": {"bornfair/v1": identity},
        "properties": {
            "verdict": verdict.answer, "engine": verdict.engine, "arithmetic": list(verdict.arithmetic),
            "reason": visible(verdict.reason),
        },
    }  # fmt: skip


def _sarif_text(text: str) -> str:
    """Text in which nothing is taken for a placeholder (SARIF 2.1.0, 3.11.5) or for a link (3.11.6).

    >>> _sarif_text("job [a](b) {0}")
    'job [a] (b) {{0}}'
    """
    seen = "\n".join(visible(line) for line in text.split("\n"))
    return seen.replace("](", "] (").replace("{", "{{").replace("}", "}}")


# --- JUnit ---


def to_junit(command: str, examined: Sequence[Examined]) -> str:
    """One test for each model: a failure if it is falsified, an error if it is undecided."""
    kinds = {"falsified": "failure", "undecided": "error"}
    count = {kind: sum(kinds.get(one.verdict.answer) == kind for one in examined) for kind in kinds.values()}
    seconds = sum(one.verdict.seconds for one in examined)
    totals = f'tests="{len(examined)}" failures="{count["failure"]}" errors="{count["error"]}" skipped="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="bornfair" {totals} time="{seconds:.3f}">',
        f'  <testsuite name="bornfair {command}" {totals} time="{seconds:.3f}">',
    ]
    for one in examined:
        verdict = one.verdict
        file = "" if one.path is None else f"file={_attribute(one.path)} "
        head = (
            f"    <testcase classname={_attribute(f'bornfair.{command}')} name={_attribute(one.model)} "
            f'{file}time="{verdict.seconds:.3f}"'
        )
        kind = kinds.get(verdict.answer)
        if kind is None:
            lines += [f"{head}>", f"      <system-out>{_content(_body(one))}</system-out>", "    </testcase>"]
            continue
        short = f"{one.sentence} {one.unlike}".strip()
        lines += [
            f"{head}>",
            f"      <{kind} type={_attribute(verdict.answer)} message={_attribute(short)}>"
            f"{_content(_body(one))}</{kind}>",
            "    </testcase>",
        ]
    return "\n".join([*lines, "  </testsuite>", "</testsuites>"]) + "\n"


def _body(one: Examined) -> str:
    verdict = one.verdict
    parts = [one.sentence]
    if verdict.twins:
        parts.append(twins_text(verdict.twins, verdict.decisions, decided=one.decided))
    if verdict.shown:
        parts.append(SHOWN[verdict.shown])
    parts.append(f"engine {verdict.engine}, arithmetic {', '.join(verdict.arithmetic) or '–'}: {verdict.reason}")
    return "\n\n".join(parts)


def _content(text: str) -> str:
    return escape("\n".join(visible(line) for line in text.split("\n")))


def _attribute(text: str) -> str:
    return quoteattr(visible(text))
