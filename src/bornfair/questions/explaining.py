"""Explanations of one person: whether they, and those around them, are treated as their twins, and what would undo it.

One person is a part of the domain like any other: the verifier is asked about them (`decide(among=…)`), so that what is
said of them is proven, disproven or undecided in the arithmetics named, and twins are replayed on what ships.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from bornfair.core.checks import keywords, whole
from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, plain_value
from bornfair.core.limits import ends_in_time
from bornfair.models.protocol import Countable, Decider, Unsteady
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.features import Value
from bornfair.people.space.subpopulation import whole_domain
from bornfair.people.tables import as_pandas, read_table
from bornfair.quantification.people import undo_of
from bornfair.quantification.records import Affected
from bornfair.quantification.synthetic import ComparedRows, with_people_of, without_people
from bornfair.questions import Asking, Question
from bornfair.questions.person import Person, limits_around, person_of_domain, read_person, row_of
from bornfair.verification.decide import check_question, decide
from bornfair.verification.replay import falsified

Raw = dict[str, Value]
REAL_PERSON = "The person is real: a row of the table agrees with them in everything that twins share."
HIDDEN_PERSON = "The person is a row of the table, so that their values are not shown."
OF_PERSON = 0.4  # of the time, for the person alone; the rest for those around them
UNDONE = 0.5  # of what is left, for the person after the change


@dataclass(frozen=True)
class Version:
    """The person with other sensitive values, or moved by a declared rule: what differs (feature → own value, other
    value), and what is decided.
    """

    changes: dict[str, tuple[Value, Value]]
    decision: Value
    scores: tuple[float, ...]
    probabilities: dict[str, float] | None
    """None of a model that shows none."""

    def to_json(self) -> dict[str, Any]:
        changes = {name: list(values) for name, values in self.changes.items()}
        return {**vars(self), "changes": changes, "scores": list(self.scores)}


@dataclass(frozen=True)
class Explanation:
    """What was found out about one person; true only if they, and all whom was asked about, are proven to be treated as
    their twins.
    """

    person: Person
    decision: Value | None
    """About the person as they are; None where a sensitive value is not given."""
    probabilities: dict[str, float] | None
    verdict: Verdict
    """About the person."""
    versions: int | None
    """How many versions of the person were decided one by one; None where they are too many to list."""
    otherwise: int
    """How many of these are decided otherwise than the person, or (if a sensitive value is not given) than most."""
    differing: tuple[Version, ...]
    """These, the nearest first; not more than were asked for."""
    undo: Mapping[str, Any] | None = None
    """The smallest change found of free features after which all versions get one decision, that decision, and whether
    it is `proven` that they all get it. That no smaller change would do is not proven.
    """
    around: Verdict | None = None
    """About everybody in the neighbourhood, where one was named."""
    neighbourhood: Mapping[str, tuple[Value, ...]] | None = None
    """What the features that were named may be there."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.overall)

    @property
    def overall(self) -> Verdict:
        """The verdict on all whom was asked about: the neighbourhood where there is one, else the person."""
        return self.verdict if self.around is None else self.around

    @property
    def undo_text(self) -> str:
        """What would undo it, in a sentence; empty where there is nothing to undo."""
        if self.verdict.answer != "falsified" or not self.person.values:
            return ""
        return Affected(0, self.person.values, {}, undo=self.undo).undo_text

    def without_person(self) -> Explanation:
        """The verdicts and counts, without the values of the person, which those near them share."""
        why = "the person is a row of the table"
        return dataclasses.replace(
            self, person=Person({}, {}), probabilities=None, differing=(), undo=None, neighbourhood={},
            verdict=without_people(self.verdict, why),
            around=None if self.around is None else without_people(self.around, why),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        around = None
        if self.around is not None and self.neighbourhood is not None:
            limits = {name: list(limit) for name, limit in self.neighbourhood.items()}
            around = {"within": limits, **self.around.to_json()}
        return {
            "person": self.person.values, "filled": list(self.person.filled), "decision": self.decision,
            "probabilities": self.probabilities, **self.verdict.to_json(), "versions": self.versions,
            "otherwise": self.otherwise, "differing": [version.to_json() for version in self.differing],
            "undo": None if self.undo is None else dict(self.undo), "undo_text": self.undo_text,
            "neighbourhood": around, "notes": list(self.notes), "seconds": self.seconds,
        }  # fmt: skip


@ends_in_time
def explain(
    model: Any,
    person: Mapping[str, Any] | int | str | Path,
    people: Any = None,
    *,
    within: Mapping[str, float | None] | None = None,
    most: int = 20,
    timeout: Timeout = 60.0,
    seed: int = 0,
    synthetic: bool = False,
    say: Say | None = None,
    **asking: Unpack[Asking],
) -> Explanation:
    """Whether one person is treated as all their twins; which versions of them are decided otherwise; the smallest
    change found that undoes it; and whether the same holds for everybody near them.

    Args:
        model, people, sensitive_features, twins, table, target, …: as in `Question.of`.
        person: the person's raw values by feature (sensitive ones may be left out), a JSON file of these, or the number
            of a row of the table, counted from 0.
        within: the neighbourhood that is asked about too: by how much each of these numbers may differ, None for any
            value, as {"age": 2, "job": None}. All other features are as the person's.
        most: how many of the versions that are decided otherwise to describe.
        timeout: seconds for all of it, reading included; or a `Clock` that is running already.
        seed: the same seed asks in the same order.
        synthetic: show nobody who is in the table: of a person who is, only verdicts and counts remain.
        say: is told how far it is.

    Returns:
        An explanation that is true only if the person, and the neighbourhood if there is one, are proven to be treated
        as their twins are.

    Raises:
        InputError: if the model cannot be read, or the person is not of its domain.

    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> people = pd.DataFrame({"age": [20, 30, 40, 50], "woman": [0, 1, 0, 1]})
    >>> unfair = LogisticRegression(C=100).fit(people, people["woman"])
    >>> found = explain(unfair, {"age": 30, "woman": 1}, people, sensitive_features=["woman"])
    >>> found.verdict.answer, found.decision, found.differing[0].changes, found.differing[0].decision
    ('falsified', 1, {'woman': (1, 0)}, 0)
    """
    keywords(explain, asking, Asking)
    check_question("auto", timeout)
    whole("most", most, 0)
    clock = Clock.of(timeout, say)
    given, strict, people = _given(person, people, asking)
    asked = Question.within(clock, model, people, **asking)
    about = asked.model
    about.domain.require_sensitive()
    if synthetic and asked.people is None:
        raise InputError("synthetic compares the person with a table, and there is none; give one.")
    who = person_of_domain(about.domain, given, about.fills, strict=strict)
    alone = limits_around(about.domain, who.shared, {})
    near = None if not within else limits_around(about.domain, who.shared, within)
    say = clock.listener or (lambda text: None)
    say("asking about the person")
    verdict = decide(about, among=alone, timeout=clock if near is None else clock.part(OF_PERSON), seed=seed)
    looked, twins, notes = _look(about, who, most)
    if twins is not None:
        verdict = _shown_by(about, twins, verdict)
    undo = _undone(about, who, clock, seed) if verdict.answer == "falsified" and isinstance(about, Countable) else None
    around = None
    if near is not None:
        say("asking about everybody near the person")
        if verdict.answer == "falsified":  # who is near themselves may have shown it already
            around = dataclasses.replace(verdict, reason=f"the person is one of them: {verdict.reason}")
        else:
            around = decide(about, among=near, timeout=clock.part(), seed=seed)
    real = asked.people is not None and ComparedRows(about.domain, asked.people).hold([who.shared])
    if around is not None:
        around = with_people_of(about, around, asked.people, synthetic=synthetic, within=near, timeout=clock, seed=seed)
    asked_of = {**whole_domain(about.domain).limits, **(near or {})}
    filled = [f"'{name}' is not given; it is filled in as the model fills it in" for name in who.filled]
    found = Explanation(
        person=who,
        verdict=with_people_of(about, verdict, asked.people),
        **looked,
        undo=undo,
        around=around,
        neighbourhood=None if near is None else {name: asked_of[name] for name in within or {}},
        notes=(*filled, *notes, *asked.notes, *([HIDDEN_PERSON if synthetic else REAL_PERSON] if real else [])),
        seconds=clock.spent,
    )
    return found.without_person() if real and synthetic else found


def _given(
    person: Mapping[str, Any] | int | str | Path, people: Any, asking: Asking
) -> tuple[Mapping[str, Any], bool, Any]:
    """The person's values, whether other names among them are mistakes, and the people, read if they were a file."""
    if isinstance(person, Mapping):
        return person, True, people
    if isinstance(person, (str, Path)):
        return read_person(person), True, people
    if isinstance(person, bool) or not isinstance(person, (int, np.integer)):
        raise InputError(
            f"a person is an object of values by feature, its JSON file, or the number of a row, found "
            f"{type(person).__name__}."
        )
    table = asking.get("table")
    from_people = table is None
    if from_people:
        table = people
    if table is None or (isinstance(table, (str, Path)) and Path(table).suffix.lower() == ".json"):
        raise InputError(f"person {person} is the number of a row; give the table whose row it is.")
    rows = read_table(table) if isinstance(table, (str, Path)) else as_pandas(table)
    if not from_people:
        asking["table"] = rows
    return row_of(rows, int(person)), False, rows if from_people else people


# --- the person as each version ---


def _look(model: Decider, who: Person, most: int) -> tuple[dict[str, Any], tuple[Raw, Raw] | None, list[str]]:
    """Decide the person as they are, and as every version that can be listed, by what ships: what is said of that in
    the explanation, the person and their nearest version that is decided otherwise, and notes.
    """
    domain, known = model.domain, set(model.domain.sensitive) <= who.sensitive.keys()
    own = [{name: who.values[name] for name in domain.names}] if known else []
    versions = model.listed_versions()
    listed = [] if versions is None else [v for v in range(versions.size) if versions.exists(who.shared, v)]
    others = [] if versions is None else [versions.of(who.shared, v) for v in listed]
    everybody = [*own, *others]
    found: dict[str, Any] = dict.fromkeys(("decision", "probabilities", "versions")) | {"otherwise": 0, "differing": ()}
    if not everybody:
        return found, None, ["the versions of a person are too many to be listed"]
    names, seen = model.class_names, model.described(pd.DataFrame(everybody, columns=list(domain.names)))
    decided, scores, shares = seen.classes, seen.ranked(len(names)), seen.probabilities

    def described(i: int) -> dict[str, float] | None:
        if shares is None:
            return None
        return {str(name): float(share) for name, share in zip(names, shares[i], strict=True)}

    first = int(decided[0]) if known else int(np.bincount(decided).argmax())
    apart = [i for i in range(len(own), len(everybody)) if decided[i] != first]
    base = 0 if known else next(i for i in range(len(everybody)) if decided[i] == first)
    mine = everybody[base]
    changed = {
        i: {name: (mine[name], value) for name, value in everybody[i].items() if mine[name] != value} for i in apart
    }
    far = np.abs(scores - scores[base]).max(axis=1)
    order = sorted(apart, key=lambda i: (len(changed[i]), -float(far[i]), i))
    notes = [] if versions is not None else ["the versions of the person are too many to be listed"]
    if model.some_values_only:
        real = " and ".join(domain.real_sensitive)
        notes.append(f"of {real}, some values are listed; the verdict is about every value")
    found = {
        "decision": plain_value(names[first]) if known else None,
        "probabilities": described(0) if known else None,
        "versions": None if versions is None else len(others),
        "otherwise": len(apart),
        "differing": tuple(
            Version(changed[i], plain_value(names[decided[i]]), tuple(map(float, scores[i])), described(i))
            for i in order[:most]
        ),
    }
    return found, (mine, everybody[order[0]]) if order else None, notes


def _shown_by(model: Decider, twins: tuple[Raw, Raw], found: Verdict) -> Verdict:
    """The verdict with the person and their nearest version as the twins, if replay says so: also where the search came
    to no end, or spoke of the network as read.
    """
    if not isinstance(model, Countable):
        return found
    try:
        again = model.replay(twins)
    except Unsteady as error:
        return undecided("asking", str(error).rstrip("."))
    if not again.unfair_in:
        return found
    told = falsified(model, again, engine="versions", reason="versions of the person are decided differently")
    return dataclasses.replace(told, boxes=found.boxes, partitions=found.partitions, seconds=found.seconds)


def _undone(model: Countable, who: Person, clock: Clock, seed: int) -> dict[str, Any] | None:
    """The smallest change found, and whether all versions are then proven to be decided alike."""
    found = undo_of(model, who.shared, clock.part(UNDONE))
    if found is None:
        return None
    changed = who.shared | {name: values[1] for name, values in found["changes"].items()}
    after = decide(model, among=limits_around(model.domain, changed, {}), timeout=clock.part(UNDONE), seed=seed)
    return found | {"proven": bool(after)}
