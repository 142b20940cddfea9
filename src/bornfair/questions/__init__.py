"""Which model is asked about, which people, whose twins? Every question about fairness comes in here.

`Question.of` reads a model of any kind with its domain and table; `verify` and `quantify` put the two plain questions.
`bornfair.questions.auditing` and `bornfair.questions.repairing` ask theirs through the same record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast, get_args

import numpy as np
import pandas as pd

from bornfair.core.checks import keywords
from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError
from bornfair.core.limits import ends_in_time, until
from bornfair.importers.registry import TABLES
from bornfair.models.columns import Who
from bornfair.models.protocol import Countable, Decider
from bornfair.models.reading import Reading, ReadingOptions
from bornfair.models.verdict import Verdict
from bornfair.parallel import Jobs
from bornfair.people.domain import Domain
from bornfair.people.dummies import Combinations, sentences
from bornfair.people.features import listed_names, unknown_column
from bornfair.people.levels import as_listed, class_positions
from bornfair.people.policies import Gaps, decidable
from bornfair.people.sources import Source, is_streamed
from bornfair.people.space.subpopulation import Where, limits_of, marginals_of, rows_within
from bornfair.people.space.variables import Marginal
from bornfair.people.tables import as_pandas, read_table
from bornfair.quantification.groups import affected_groups
from bornfair.quantification.people import people_of, treatment
from bornfair.quantification.population import domain_shares, shares_of_batches, shares_of_rows
from bornfair.quantification.records import Over, Shares
from bornfair.quantification.synthetic import shown_by_rows, with_people_of, without_people
from bornfair.questions.loading import any_model
from bornfair.verification.decide import Engine, Output, check_output, check_question, decide

if TYPE_CHECKING:
    from bornfair.proof.bundle import FairModel

JUDGING = 0.25  # share of the time for the rows of a table
GROUPING = 0.15  # of what is then left, for groups
AFTER_INTERRUPT = 0.3  # seconds to describe people in
DESCRIBING = 0.2  # for groups and the people whom it affects most


class Asking(ReadingOptions, total=False):
    """Keyword arguments of every function that asks about a model; `Question.of` says what they mean."""

    domain: Domain | str | Path | None
    table: Any
    target: str | None
    sensitive_features: str | int | Sequence[str | int] | None
    twins: str | Sequence[str] | None
    combinations: Combinations | None
    opaque: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """A model over its domain, which says who is sensitive and who is whose twin, and a table of real people.

    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> people = pd.DataFrame({"age": [20, 30, 40, 50], "woman": [0, 1, 0, 1], "paid": [0, 0, 1, 1]})
    >>> bank = LogisticRegression().fit(people[["age", "woman"]], people["paid"])
    >>> asked = Question.of(bank, people, target="paid", sensitive_features=["woman"])
    >>> asked.model.domain.free_names, asked.answers.tolist()
    (('age',), [0, 0, 1, 1])
    """

    model: Decider
    table: pd.DataFrame | None = None
    """The people about whom the model can decide, gaps filled in as it does."""
    target: str | None = None
    gaps: Gaps = dataclasses.field(default_factory=Gaps)
    inferred: bool = True
    """Whether nobody gave a domain: who exists is read off the table, or is the model's own."""

    @staticmethod
    def of(model: Any, people: Any = None, *, as_it_is: bool = False, **asking: Unpack[Asking]) -> Question:
        """The question about a model, read from wherever it is.

        Args:
            model: whatever can be read (`load_model`): a bundle, an .onnx, .h5, .keras or .nnet file, a scikit-learn
                classifier or pipeline, a torch.nn.Sequential, a FairClassifier or FairModel; or whatever can only be
                run: any object with `predict`, a function from a data frame to decisions, an .onnx file of any
                operators, a `Command`, an `Endpoint`.
            people: who could exist, as a `Domain` or a domain.json, or a table of real people (a data frame, a CSV or
                Parquet file). Where both are given, `domain` and `table` name them.
            as_it_is: the features that a trained model calls sensitive need not be those that are asked about.
            target: the column of the table that is no feature.
            sensitive_features: names, or positions from 0; one, or a list of several.
            twins: who else counts as a twin, as "sex: Male<->Female, relationship: Husband<->Wife".
            combinations: which combinations of sensitive values exist: 'all', or those 'observed' in the table. Left
                out, all of them, but the observed ones of 0/1 columns that are one feature (one-hot, complementary);
                naming one such column then names all of them.
            opaque: do not read the model, though it may be readable; only ask it.
            decision, threshold, normalise, decision_output: how to read a file that does not say so itself
                (`ReadingOptions`).

        Raises:
            InputError: if the model or the table cannot be read, or they do not fit each other.
        """
        domain, table = asking.pop("domain", None), asking.pop("table", None)
        target, sensitive = asking.pop("target", None), listed_names(asking.pop("sensitive_features", None))
        twins, unread = asking.pop("twins", None), asking.pop("opaque", False)
        combinations = asking.pop("combinations", None)
        if people is not None:
            is_domain = isinstance(people, Domain) or (isinstance(people, (str, Path)) and _is_json(people))
            if (domain if is_domain else table) is not None:
                raise InputError(f"the {'domain' if is_domain else 'table'} is given twice; give it once.")
            domain, table = (people, table) if is_domain else (domain, people)
        rows = read_table(table) if isinstance(table, (str, Path)) else None if table is None else as_pandas(table)
        if rows is not None:
            rows = rows.set_axis([str(name) for name in rows.columns], axis=1)
            target = None if target is None else str(target)
        if rows is not None and target is not None and target not in rows.columns:
            raise InputError(unknown_column(target, [str(name) for name in rows.columns], "target"))
        if rows is not None and not len(rows):
            raise InputError("the table has no rows; leave it out, or give one with people.")
        if rows is not None and target is not None and rows[target].isna().all():
            raise InputError(
                f"target '{target}' is missing in every row; give rows with answers, or a table without this column."
            )
        reading: ReadingOptions = asking
        read = any_model(
            model, domain=domain, sensitive=sensitive, table=rows, target=target, twins=twins, as_it_is=as_it_is,
            opaque=unread, combinations=combinations, **reading,
        )  # fmt: skip
        if rows is None:
            return Question(read, None, target)
        return Question(read, *_decidable(read, as_listed(read.domain, rows), target), inferred=domain is None)

    @staticmethod
    def within(clock: Clock, model: Any, people: Any = None, **asking: Unpack[Asking]) -> Question:
        """`Question.of`, where the clock limits how long other people's models run while they are read."""
        with until(clock):
            return Question.of(model, people, **asking)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said about columns of the table that are one feature."""
        return sentences(self.model.domain, self.table)

    @cached_property
    def countable_model(self) -> Countable:
        """The model, for questions about how many: a graph of which only the wires are read is run on people."""
        if isinstance(self.model, Countable):
            return self.model
        from bornfair.importers.opaque import opaque_model

        return opaque_model(self.model, Who(self.model.domain), Reading(), unread="only its wires are read")

    @property
    def network_model(self) -> FairModel:
        """The model, for questions that only a network can be asked."""
        if self.model.kind == "network":
            return cast("FairModel", self.model)
        if not self.model.is_read:
            why = f": {self.model.unread.rstrip('.')}" if self.model.unread else ""
            raise InputError(
                f"{self.model.name} can be run and not read{why}; so it can be asked by verify, quantify, audit "
                "and proxies, but nothing in it can be bounded or changed. A fair model around it decides by its mean "
                "score over all versions of a person."
            )
        kind = "a forest" if self.model.kind == "forest" else "a graph with anything inside"
        raise InputError(f"the model is {kind}, of which this cannot be asked; its predictions can.")

    @property
    def people(self) -> pd.DataFrame | None:
        """The table without the column that is no feature."""
        if self.table is None or self.target is None or self.target not in self.table.columns:
            return self.table
        return self.table.drop(columns=self.target)

    @property
    def answers(self) -> np.ndarray | None:
        """The true answers of the table as positions in the model's classes, −1 where one is not known; None where no
        target is named.
        """
        if self.table is None or self.target is None:
            return None
        return class_positions(self.table[self.target], self.model.classes.tolist(), gaps=True)


@ends_in_time
def verify(
    model: Any,
    people: Any = None,
    *,
    engine: Engine = "auto",
    timeout: Timeout = 60.0,
    partitions: int | None = None,
    soft_timeout: float = 100.0,
    where: dict[str, Any] | None = None,
    relax: dict[str, float] | None = None,
    output: Output = "decision",
    tolerance: float = 0.0,
    most_boxes: int | None = None,
    jobs: Jobs = None,
    seed: int = 0,
    resume: str | Path | None = None,
    synthetic: bool = False,
    say: Say | None = None,
    **asking: Unpack[Asking],
) -> Verdict:
    """Whether two individuals who differ only in the sensitive features, or by declared rules, always get the same
    decision (or score).

    Args:
        model, people, sensitive_features, twins, table, target, …: as in `Question.of`. A table also serves to show
            twins close to a real person.
        engine: 'auto', or 'bounds', 'smt' (of networks) or 'milp' for a second opinion.
        timeout: seconds for all of it, reading included; or a `Clock` that is running already.
        partitions, soft_timeout: for 'smt': into how many parts the domain is cut, and seconds for each.
        where: for 'smt', and of forests for 'auto': a sub-population, as {"age": (30, 40), "job": ["nurse"]}.
        relax: for 'smt': by how much other numbers of twins may differ, as {"age": 2}.
        output, tolerance: ask instead whether no twins' 'score' (logit) or 'probability' differs by more than that.
        most_boxes: after how many boxes a search of a network stops; the answer is then the same whatever the time.
        jobs: how many processes of this machine share the work, or `Workers` of a cluster (`bornfair.parallel`).
        seed: the same seed asks in the same order.
        resume: a file from which an interrupted search goes on.
        synthetic: show only people who are not in the table.
        say: is told how far it is.

    Returns:
        A verdict that is true only if it is "verified"; "falsified" comes with the two people. Of a model that can only
        be run it is one of the other two.

    Raises:
        InputError: if the model cannot be read, or the question cannot be asked.

    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> people = pd.DataFrame({"age": [20, 30, 40, 50], "woman": [0, 1, 0, 1]})
    >>> unfair = LogisticRegression(C=100).fit(people, people["woman"])
    >>> verdict = verify(unfair, people, sensitive_features=["woman"])
    >>> verdict.answer, sorted(twin["woman"] for twin in verdict.twins)
    ('falsified', [0, 1])
    """
    keywords(verify, asking, Asking)
    check_question(engine, timeout, where, relax)
    check_output(output, tolerance)
    if output != "decision" and (engine != "auto" or where or relax or resume is not None):
        raise InputError(f"engine, where, relax and resume are for decisions; leave them out with output={output!r}.")
    clock = Clock.of(timeout, say)
    asked = Question.within(clock, model, people, **asking)
    if output != "decision":
        from bornfair.verification.score import decide_score

        found = decide_score(asked.network_model, output=output, tolerance=tolerance, timeout=clock, seed=seed)
        found = with_people_of(asked.model, found, asked.table)
        if synthetic and found.shown == "real":
            found = without_people(found, "other twins are searched for only if decisions are asked about")
        return dataclasses.replace(found, notes=asked.notes)
    found = decide(
        asked.model, engine=engine, timeout=clock, table=None if synthetic else asked.table, partitions=partitions,
        soft_timeout=soft_timeout, where=where, relax=relax, seed=seed, resume=resume, most_boxes=most_boxes, jobs=jobs,
    )  # fmt: skip
    if synthetic and found.answer == "undecided" and not (where or relax) and engine == "auto":
        by_rows = shown_by_rows(asked.model, asked.people, timeout=clock, seed=seed)
        found = found if by_rows is None else dataclasses.replace(by_rows, seconds=clock.spent)
    if synthetic and (where or relax):
        found = with_people_of(asked.model, found, asked.table)
        if found.shown == "real":
            found = without_people(found, "other twins are searched for only in the whole domain")
    else:
        found = with_people_of(asked.model, found, asked.table, synthetic=synthetic, timeout=clock, seed=seed)
    return dataclasses.replace(found, notes=asked.notes)


@ends_in_time
def quantify(
    model: Any,
    people: Any = None,
    *,
    over: Any = "uniform",
    where: Where | None = None,
    marginals: Mapping[str, Marginal] | None = None,
    timeout: Timeout = 60.0,
    precision: float = 0.0,
    most: int = 5,
    most_boxes: int | None = None,
    jobs: Jobs = None,
    seed: int = 0,
    synthetic: bool = False,
    say: Say | None = None,
    **asking: Unpack[Asking],
) -> Shares:
    """Which share of everybody who could exist is proven to be treated fairly, proven not to be, or neither; where
    those sit who are not; and which people of a table have a twin who is decided otherwise.

    Args:
        model, people, sensitive_features, twins, table, target, …: as in `Question.of`.
        over: "uniform" (everybody counts the same), "data" (each feature's values as often as in the table), or a
            table, or its file: then its rows are all who count, each judged by itself.
        where: a sub-population by its free features, as {"age": (30, 40), "job": ["nurse"]}.
        marginals: other weights of the values of features, in the form of `marginals_of(domain, table)`.
        timeout: seconds for all of it, reading, groups and people included; or a `Clock` that is running already.
        precision: stop when at most this share is undecided.
        most: how many groups and people to describe.
        most_boxes: stop after so many boxes (of networks and forests); the shares are then the same whatever the time.
        jobs: how many processes of this machine share the work, or `Workers` of a cluster (`bornfair.parallel`).
        seed: the same seed draws the same people.
        synthetic: show nobody of the table: its rows are counted, and the most affected ones are not described.
        say: is told how far it is.

    Returns:
        Shares that sum to 1, `groups` of the domain (estimates), and `people` if there is a table. Of a model that can
        only be run nothing is proven, and `confident` is the interval of the unfair share.

    Raises:
        InputError: if the model cannot be read, or the table does not fit it.

    >>> import numpy as np
    >>> from bornfair import Domain, FairModel
    >>> from bornfair.models.network.network import Layer, Network
    >>> from bornfair.people.encoding import Encoding
    >>> from bornfair.people.columns import Scale
    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> who = Domain(features=(IntegerFeature(name="x", low=0, high=9), BooleanFeature(name="s")), sensitive=("s",))
    >>> network = Network((Layer(np.array([[1.0, 0.5]]), np.array([-4.0])),))  # s decides where x = 4
    >>> found = quantify(FairModel(network, Encoding(who, {"x": Scale(centre=0.0, exponent=0)})), timeout=5)
    >>> round(found.certified, 9), round(found.falsified, 9), found.counts
    (0.9, 0.1, {'certified': 9, 'falsified': 1, 'undecided': 0})
    """
    keywords(quantify, asking, Asking)
    clock = Clock.of(timeout, say)
    if isinstance(over, (str, Path)) and over not in get_args(Over) and is_streamed(over):
        return _over_batches(str(over), Question.within(clock, model, people, **asking), where, marginals, clock, seed)
    counted, name = _counted(over)
    asked = Question.within(clock, model, people, **asking)
    about, rows, limits, gaps = asked.countable_model, asked.people, None, asked.gaps
    if counted is not None:
        counted, of_them = _decidable(about, counted, None)[::2]
        rows, gaps = (counted, of_them) if rows is None else (rows, gaps)
    if where:
        limits = limits_of(about.domain, where)
        rows = None if rows is None else rows[rows_within(about.domain, rows, limits)]
        rows = rows if rows is not None and len(rows) else None
    if name == "data" and (asked.people is None or marginals is not None):
        raise InputError("over='data' takes the weights from a table: give a table, and no marginals.")
    if counted is not None and marginals is not None:
        raise InputError("marginals weigh the domain, and here the rows of a table are counted; leave them out.")
    for sentence in gaps.sentences if clock.listener is not None else ():
        clock.listener(sentence)  # type: ignore[misc]
    treated = None if rows is None else treatment(about, rows, timeout=clock.part(JUDGING), seed=seed)
    if name == "data":
        marginals = marginals_of(about.domain, asked.people)
    after = DESCRIBING if rows is not None else GROUPING
    if counted is not None:
        found = shares_of_rows(about, counted, where=limits, timeout=clock.part(1 - after), seed=seed)
    else:
        found = domain_shares(
            about, timeout=clock.part(1 - after), precision=precision, marginals=marginals, where=limits,
            most_boxes=most_boxes, jobs=jobs, seed=seed,
        )  # fmt: skip
    try:
        if counted is None and found.certified < 1 and not found.interrupted:
            groups = affected_groups(
                about, most=most, seed=seed, marginals=marginals, where=limits, timeout=clock.part(GROUPING / after)
            )
            found = dataclasses.replace(found, groups=tuple(groups))
        if rows is not None and treated is not None:
            left = clock.part(most=AFTER_INTERRUPT) if found.interrupted else clock
            told = people_of(about, rows, 0 if synthetic else most, treated=treated, timeout=left)
            found = dataclasses.replace(found, people=dataclasses.replace(told, left_out=gaps.left_out))
    except KeyboardInterrupt:  # what is known by then is the answer
        found = dataclasses.replace(found, interrupted=True)
    notes = asked.notes
    if found.people is not None and found.people.most_affected:
        notes += ("The most affected people are rows of the table: these are real people.",)
    return dataclasses.replace(found, over=name, seconds=clock.spent, notes=notes)


def _over_batches(over: str, asked: Question, where: Where | None, marginals: Any, clock: Clock, seed: int) -> Shares:
    """The shares of the rows of a table that is read in batches."""
    if marginals is not None:
        raise InputError("marginals weigh the domain, and here the rows of a table are counted; leave them out.")
    about, source = asked.countable_model, Source.at(over)
    names = [name for name in about.domain.names if name in source.columns]
    limits = limits_of(about.domain, where) if where else None
    found = shares_of_batches(
        about, source.batches(names), source.rows, lambda rows: _decidable(about, rows, None)[0], where=limits,
        timeout=clock, seed=seed,
    )  # fmt: skip
    return dataclasses.replace(found, over=Path(over).name or over, seconds=clock.spent, notes=asked.notes)


def _counted(over: Any) -> tuple[pd.DataFrame | None, str]:
    """The table whose rows are the population, if it is one, and what is counted in a word."""
    if isinstance(over, str) and over in get_args(Over):
        return None, over
    if not isinstance(over, (str, Path)):
        return as_pandas(over), "a table"
    if not Path(over).exists():
        raise InputError(f"over is uniform, data, or the file of a table that is counted; '{over}' is none of these.")
    return read_table(over), Path(over).name


def _decidable(model: Decider, rows: pd.DataFrame, target: str | None) -> tuple[pd.DataFrame, str | None, Gaps]:
    kept, gaps = decidable(model.domain, rows, model.fills, target=target, as_they_are=model.takes_gaps)
    return kept, target, gaps


def _is_json(path: str | Path) -> bool:
    return Path(path).suffix.lower() not in (*TABLES, ".txt")
