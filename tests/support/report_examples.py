"""Reports to look at (everything at once, hardly anything, hostile names, very many features) and a strict reader."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

from bornfair.models.verdict import Verdict
from bornfair.people.policies import Gaps
from bornfair.report import (
    Affected,
    CertificateFacts,
    Comparison,
    Confident,
    Document,
    DomainFacts,
    Estimate,
    Favourable,
    FeatureFacts,
    Group,
    GroupMetrics,
    Histogram,
    HistoryPoint,
    Metrics,
    Pair,
    People,
    Proxy,
    Repair,
    Shares,
)

HOSTILE = "<script>alert('x')</script>\"&|`*_[a](http://b)\n\u202e"
CAPITAL = "capital-gain"
ANNA = {
    "age": 38, "workclass": "Private", "education": "Bachelors", "marital-status": "Married-civ-spouse",
    "occupation": "Exec-managerial", "relationship": "Wife", "race": "White", CAPITAL: 5178, "capital-loss": 0,
    "hours-per-week": 40, "native-country": "United-States", "sex": "Female",
}  # fmt: skip
BOB = ANNA | {"sex": "Male"}
FEATURES = tuple(
    FeatureFacts(name, "integer" if isinstance(value, int) else "categorical",
                 "whole numbers from 0 to 99999" if isinstance(value, int) else f"{value}, and 7 others", name == "sex")
    for name, value in ANNA.items()
)  # fmt: skip
DOMAIN = DomainFacts(
    FEATURES, people="about 7.2 trillion people", sensitive_values=2, label="income", classes=("<=50K", ">50K"),
    twins=("sex: Male ↔ Female, relationship: Husband ↔ Wife",),
)  # fmt: skip
CERTIFICATE = CertificateFacts(
    claim="The model is not fair: two individuals who differ only in sex get different decisions.",
    format="bornfair-certificate/2",
    statement="decision(x, s) = decision(x, t)",
    files={"model.onnx": "a1" * 32, "domain.json": "b2" * 32},
    sha256="c3" * 32,
    facts={"Made with": "bornfair 0.1.0, numpy 2.4", "γ": "0", "Seed": "7"},
)


def guess(unfair: float, low: float, high: float) -> Estimate:
    return Estimate(unfair, low, high, confidence=0.95)


def everything() -> Document:
    """A falsified model with every part there is."""
    return Document(
        verdict=Verdict(
            "falsified", "none", "attack", ("real", "float32"), "close to the border; 4,096 people tried",
            twins=[ANNA, BOB], decisions=["<=50K", ">50K"], boxes=18_244, seconds=1.72,
        ),
        model="census-mlp.onnx",
        title="Income model, audit",
        made="16 November 2026",
        domain=DOMAIN,
        twins=(
            Pair((ANNA, BOB), ("<=50K", ">50K"), (0.4471, 0.5523)),
            Pair((ANNA | {"age": 51}, BOB | {"age": 51, "relationship": "Husband"}), ("<=50K", ">50K"), (0.31, 0.66),
                 "Here the declared rule carries the relationship along."),
        ),
        shares=Shares(
            0.812345, 0.000004, Estimate(0.0312, 0.0279, 0.0348, 10_000, 0.95), 18_244, 60.0, over="data",
            confident=Confident(0.03105, 0.03142, samples=11_200_000),
        ),
        people=People(
            15_060, 1057, source="the test table",
            most_affected=tuple(
                Affected(17 + 100 * i, ANNA | {"age": 30 + i}, BOB | {"age": 30 + i}, ("<=50K", ">50K"),
                         gap=0.42 - i / 50, undo="capital-gain up from 5,178 to 6,100")
                for i in range(14)
            ),
        ),
        groups=(
            Group("capital-gain ≥ 7 and relationship in {Husband, Wife}", 0.042, guess(0.31, 0.27, 0.36), 0.61),
            Group("hours-per-week ≥ 45 and education = Masters", 0.11, guess(0.062, 0.05, 0.077), 0.22),
            Group("age ≤ 25", 0.2, guess(0.0004, 0.0, 0.0021), 0.003),
        ),
        metrics=Metrics(0.8551, 0.7712, 0.9068, 0.9298, 15_053, "the table"),
        group_metrics=(
            GroupMetrics("Female", 4_913, 0.0812, 0.9211, 0.5012, 0.0211, ("sex",), 0.0737, 0.0892, 0.3100),
            GroupMetrics("Male", 10_120, 0.2619, 0.8231, 0.6214, 0.0912, ("sex",), 0.2533, 0.2706, 1.0),
            GroupMetrics("Other", 12, 0.3333, 0.75, 0.5, 0.25, ("sex",), 0.0992, 0.6511, 1.2726, small=True),
            GroupMetrics("not known", 15, None, 1.0, None, 0.0, ("sex",), unknown=True),
            *(
                GroupMetrics(f"{sex}, {race}", 700, rate, 0.9, 0.5, 0.02, ("sex", "race"), rate / 2, 0.4, rate / 0.3)
                for sex in ("Female", "Male")
                for race, rate in (("White", 0.3), ("Black", 0.22), ("Asian-Pac-Islander", 0.26))
            ),
        ),
        favourable=Favourable(">50K"),
        gaps=Gaps(15_100, 40, {"occupation": 40}, {}, {"sex": 15}, 7),
        uniform=Shares(0.55, 0.0001, Estimate(0.4062, 0.4001, 0.4124, 10_000, 0.95), 4_771, 20.0),
        measured=(
            Metrics(0.8612, rows=24_000, on="training rows"),
            Metrics(0.8580, rows=2_600, on="validation rows, which said when to stop"),
        ),
        examination={
            "Date": "16 November 2026, 19:06 UTC",
            "Model": f"census-mlp.onnx, SHA-256 {'d4' * 32}",
            "Data": f"people.csv, SHA-256 {'e5' * 32}",
            "Software": "bornfair 0.1.0, numpy 2.4, Python 3.11",
            "Command": "bornfair audit census-mlp.onnx --data people.csv --target income --sensitive sex",
        },
        score_gaps=Histogram(
            tuple(round(-0.4 + i * 0.04, 2) for i in range(21)),
            (1, 2, 4, 8, 20, 51, 130, 340, 900, 2600, 5200, 3000, 1300, 700, 400, 210, 110, 50, 20, 14),
        ),
        history=tuple(
            HistoryPoint(i, 0.76 + 0.095 * (1 - 0.8**i), 0.999 - 0.07 * (1 - 0.9**i), 0.7 * 0.93**i)
            for i in range(1, 41)
        ),
        making={"Training": "40 epochs run, the network after epoch 31 kept.", "Settings": "optimiser adam, seed 7"},
        certificate=CERTIFICATE,
        proxies=(
            Proxy("all other features together", 0.9341, note="histogram gradient boosting, 5 folds"),
            Proxy("relationship", 0.873, note="Husband occurs with Male only (13,193 of 13,193 rows)"),
            Proxy("occupation", 0.76, "balanced accuracy"),
            Proxy("race", 0.512),
        ),
        suggestions=("Declare the swap “sex: Male ↔ Female, relationship: Husband ↔ Wife” and train again.",),
        repair=Repair(0.8551, 0.8532, 0.041, 15_060, "The weights that read sex were set to 0, the rest was tuned."),
    )  # fmt: skip


def fair() -> Document:
    """A verified model of ours, with its history."""
    whole = everything()
    return Document(
        verdict=Verdict("verified", "structural", "structural", ("real", "float32"), "no node reads a sensitive input"),
        model="bornfair",
        domain=dataclasses.replace(DOMAIN, twins=()),
        people=People(15_060, 0),
        metrics=Metrics(0.8532, 0.7689, 0.9051, 1.0, 15_060),
        history=tuple(HistoryPoint(i, 0.76 + 0.093 * (1 - 0.8**i), 1.0, 0.7 * 0.93**i) for i in range(1, 26)),
        making=whole.making,
        certificate=dataclasses.replace(
            CERTIFICATE,
            claim="Two individuals who differ only in sex always get the same decision, for every individual of the "
            "domain, in exact and float32 arithmetic (structural proof).",
        ),
    )


def undecided() -> Document:
    """Hardly anything is known."""
    return Document(
        verdict=Verdict("undecided", "none", "bounds", (), "the time is up", boxes=52_000, seconds=60.0),
        model="deep and narrow",
        domain=dataclasses.replace(DOMAIN, twins=()),
        shares=Shares(0.27, 0.0, Estimate(0.0, 0.0, 0.00037, 10_000, 0.95), 52_000, 60.0),
    )


def comparison() -> Comparison:
    """Four models, two of them close together."""
    unaware = dataclasses.replace(
        fair(), model="sex dropped", metrics=Metrics(0.8541, 0.77, 0.906, 1.0, 15_060), people=People(15_060, 0)
    )
    plain = dataclasses.replace(
        everything(), model="plain training", metrics=Metrics(0.8551, 0.7712, 0.9068, 0.93, 15_060)
    )
    penalised = dataclasses.replace(
        undecided(), model="penalised", shares=None, people=People(15_060, 92), metrics=Metrics(0.8493, 0.76, 0.899)
    )
    return Comparison((fair(), unaware, plain, penalised), title="Four ways to learn who earns more")


def hostile() -> Document:
    """Every name tries to be more than a name."""
    person = {HOSTILE: 1, f"s{HOSTILE}": HOSTILE, "שם פרטי": "مرحبا", "x" * 300: "y" * 300, "": ""}
    twin = person | {f"s{HOSTILE}": "</td></table>"}
    features = tuple(
        FeatureFacts(name, "categorical", ", ".join([str(value), *(f"c{i}" for i in range(60))]), name.startswith("s<"))
        for name, value in person.items()
    )
    return Document(
        verdict=Verdict(
            "falsified", "none", HOSTILE, ("real",), HOSTILE, twins=[person, twin], decisions=[HOSTILE, "שלום"]
        ),
        model=HOSTILE,
        title=HOSTILE,
        made=HOSTILE,
        domain=DomainFacts(features, HOSTILE, 2, 2, (HOSTILE,), HOSTILE, (HOSTILE, "</td></table>")),
        twins=(Pair((person, twin), (HOSTILE, "שלום"), (0.1, 0.9), HOSTILE),),
        shares=Shares(0.5, 0.25, Estimate(0.3, 0.2, 0.4, 10, 0.95), 1, 1.0, over=HOSTILE),
        people=People(10, 1, (Affected(HOSTILE, person, twin, (HOSTILE, "b"), gap=0.1, undo=HOSTILE),), source=HOSTILE),
        groups=(Group(HOSTILE, 0.1, guess(0.1, 0.0, 0.2), 0.1),),
        metrics=Metrics(0.5),
        group_metrics=(GroupMetrics(HOSTILE, 1, 0.5, 0.5, 0.5, 0.5),),
        making={HOSTILE: HOSTILE},
        certificate=CertificateFacts(
            HOSTILE, HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, 3, {HOSTILE: HOSTILE}, HOSTILE
        ),
        proxies=(Proxy(HOSTILE, 0.7, HOSTILE, 0.5, HOSTILE),),
        suggestions=(HOSTILE,),
        repair=Repair(0.5, 0.6, 0.1, 10, HOSTILE),
    )  # fmt: skip


def many_features(count: int = 200) -> Document:
    """More features than anybody reads, a third of them with sixty categories."""
    features = tuple(
        FeatureFacts(
            f"measurement_{i:03d}_of_the_laboratory", "categorical" if i % 3 == 0 else "real",
            ", ".join(f"category {j}" for j in range(60)) if i % 3 == 0 else "0.0 to 1.0", i < 2,
        )
        for i in range(count)
    )  # fmt: skip
    person = {feature.name: round(0.123456789 * i, 6) for i, feature in enumerate(features)}
    twin = person | {features[0].name: 1.0}
    return Document(
        verdict=Verdict("falsified", "none", "attack", ("float32",), "found", twins=[person, twin], decisions=[0, 1]),
        model="laboratory",
        domain=DomainFacts(features, "more people than can be counted", 2, label="ill", classes=("0", "1")),
    )


EXAMPLES = {
    "everything": everything,
    "fair": fair,
    "undecided": undecided,
    "comparison": comparison,
    "hostile": hostile,
    "many-features": many_features,
}


class Page(HTMLParser):
    """Reads a page strictly: every tag that opens must close, in order."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words, self.rows, self.headings = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append((dict(attributes).get("class") or "", []))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][1].append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def row(self, name):
        return next(row for row in self.rows if row[1][0] == name)
