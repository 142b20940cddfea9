"""The checker on declared twins: what bornfair writes it accepts, what a forger changes it rejects."""

from __future__ import annotations

import copy
import json
import random
from functools import cache

import jsonschema
import numpy as np
import pandas as pd
import pytest

from bornfair import Domain, FairClassifier
from bornfair.people.features import CategoricalFeature, IntegerFeature
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker
from bornfair.proof.bundle import bundle_files
from bundle_cases import Forgery, answer
from samples import CERTIFICATE_SCHEMA as CERTIFICATE
from samples import DOMAIN_SCHEMA as PUBLISHED
from twin_cases import HOURS, JOB, LABEL, OWNER, SEX, SHOE, TITLE, biased_labels, everybody, served_bytes, tied

RULES = "sex: f<->m, title: Mr<->Ms; job: clerk->nurse->cook->clerk; shoe: 5-x, owner: True<->False"
PEOPLE = Domain(features=(JOB, TITLE, SHOE, OWNER, HOURS, SEX), sensitive=("sex",), label=LABEL).with_twins(RULES)


@cache
def bundle(kind: str) -> dict[str, bytes]:
    rows = everybody(PEOPLE).sample(120, random_state=1)
    truth = pd.Series(biased_labels(rows, 3), name="grant")
    options = {} if kind == "merged" else {"response": "none"}
    classifier = FairClassifier(["sex"], domain=PEOPLE, epochs=2, hidden=(4,), learning_rate=0.05, **options)
    classifier.fit(rows, truth)
    model = tied(classifier.model_) if kind == "raw" else classifier.model_
    if kind != "merged":
        model = model.certified(timeout=10)
    return {name: content for name, content in bundle_files(model).items() if name != "report.html"}


def restated(forgery: Forgery) -> Forgery:
    """Property and claim as the forger's own domain says, so that only the proof can be wrong."""
    try:
        people = checker.Individuals(copy.deepcopy(forgery.domain))
        forgery.certificate["property"] = checker.property_of(people)
        facts = forgery.certificate
        facts["claim"] = checker.claim_of(
            facts["verdict"], facts["proof"], facts["arithmetic"], people.sensitive, facts["reason"], people.rules
        )
    except (checker.Rejected, *checker.MALFORMED):
        pass
    return forgery


@pytest.mark.parametrize(
    ("kind", "arithmetic"), [("merged", ["real", "float32"]), ("raw", ["real"]), ("falsified", ["real", "float32"])]
)
def test_what_bornfair_writes_about_declared_twins_is_accepted(kind, arithmetic):
    found = answer(bundle(kind))
    assert found["valid"] and found["arithmetic"] == arithmetic
    facts = json.loads(bundle(kind)["certificate.json"])
    assert facts["property"]["versions"] == 2 * 2 * 3 * 2 and facts["property"]["relation"] == "declared"
    assert "title: Mr<->Ms" in facts["claim"] and "shoe: -x+5" in facts["claim"]
    jsonschema.validate(facts, json.loads(CERTIFICATE.read_text()))
    jsonschema.validate(json.loads(bundle(kind)["domain.json"]), json.loads(PUBLISHED.read_text()))


# --- named forgeries, sealed anew ---


def another_rule(forgery):
    forgery.domain["twins"].append([{"kind": "cycles", "feature": "title", "cycles": [["Mr", "Dr"]]}])


def a_longer_cycle(forgery):
    forgery.domain["twins"][1][0]["cycles"] = [["clerk", "nurse", "smith", "cook"]]


def a_rule_about_hours(forgery):
    forgery.domain["twins"].append([{"kind": "mirror", "feature": "hours", "total": 3}])


def one_bit_of_a_merged_row(forgery):
    table = forgery.constant("merged title")
    table[1, 0] = np.nextafter(table[1, 0], np.float32(1))
    forgery.put("merged title", table)


def merged_rows_swapped(forgery):
    table = forgery.constant("merged job")
    forgery.put("merged job", table[[2, 1, 0, 3]].copy())


def owner_seen_again(forgery):
    names = [t.name for t in forgery.model.graph.initializer if t.name.startswith("code of owner")]
    forgery.put(names[0], np.array([[0.25]], np.float32))


def shoe_seen_again(forgery):
    factors = forgery.constant("scale")
    factors[0, 0] = 0.5
    forgery.put("scale", factors)


REFUSED = {
    another_rule: "tells title 'Mr' from 'Dr'",
    a_longer_cycle: "tells job",
    a_rule_about_hours: "tells hours 0 from 3",
    one_bit_of_a_merged_row: "tells title",
    merged_rows_swapped: "tells job",
    owner_seen_again: "tells owner",
    shoe_seen_again: "tells shoe 1 from 4",
}


@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.__name__)
def test_a_model_that_tells_declared_twins_apart_is_rejected(change):
    forgery = Forgery.of(bundle("merged"))
    change(forgery)
    found = answer(restated(forgery).sealed())
    assert not found["valid"] and REFUSED[change] in found["reason"]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ([], "another property"),
        ([[]], "or none"),
        ([[{"kind": "cycles", "feature": "title", "cycles": [["Mr", "Ms"], ["Ms", "Dr"]]}]], "twice"),
        ([[{"kind": "cycles", "feature": "title", "cycles": [["Mr"]]}]], "moves nothing"),
        ([[{"kind": "cycles", "feature": "title", "cycles": [["Mr", "Lord"]]}]], "does not have"),
        ([[{"kind": "cycles", "feature": "lord", "cycles": [["Mr", "Ms"]]}]], "not in the domain"),
        ([[{"kind": "cycles", "feature": "hours", "cycles": [[0, 1]]}]], "single values of the number"),
        ([[{"kind": "cycles", "feature": "title", "cycles": [["Mr", "Ms"]]}] * 2], "moves a column twice"),
        ([[{"kind": "mirror", "feature": "shoe", "total": 6}]], "mirrored elsewhere"),
        ([[{"kind": "mirror", "feature": "title", "total": 6}]], "mirrored elsewhere"),
        ([[{"kind": "mirror", "feature": "shoe", "total": True}]], "odd"),
        ([[{"kind": "shift", "feature": "shoe", "total": 5}]], "odd"),
        ([[{"kind": "carried", "feature": "shoe", "by": "sex", "maps": [["f", 1, 0], ["m", 1, 1]]}]], "not supported"),
        ([[{"kind": "mirror", "feature": "shoe", "total": 5}]] * 101, "more than 100 rules"),
        ([5], "a rule must be a list"),
        ([[5]], "TypeError"),
        ("rules", "twins must be a list"),
        (None, "twins must be a list"),
    ],
)
def test_rules_that_make_no_sense_are_rejected(rules, reason):
    forgery = Forgery.of(bundle("merged"))
    forgery.domain["twins"] = rules
    found = answer(forgery.sealed())
    assert not found["valid"] and reason in found["reason"]


def test_a_group_that_is_too_large_is_rejected_before_it_is_listed():
    letters = CategoricalFeature(name="letter", categories=tuple("abcdefgh"))
    domain = json.loads(Domain(features=(letters, SEX), sensitive=("sex",), label=LABEL).text())
    domain["twins"] = [
        [{"kind": "cycles", "feature": "letter", "cycles": [["a", "b"]]}],
        [{"kind": "cycles", "feature": "letter", "cycles": [list("abcdefgh")]}],
    ]
    with pytest.raises(checker.Rejected, match="more than 10,000 versions"):
        checker.Individuals(domain).elements  # noqa: B018


def test_the_number_of_versions_and_the_arithmetic_cannot_be_overstated():
    forgery = Forgery.of(bundle("merged"))
    forgery.certificate["property"]["versions"] = 48
    assert "another property" in answer(forgery.sealed())["reason"]
    forgery = Forgery.of(bundle("raw"))
    forgery.certificate["arithmetic"] = ["real", "float32"]
    assert "real arithmetic only" in answer(restated(forgery).sealed())["reason"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"job": "smith"}, "differ in more than"),
        ({"hours": 0}, "differ in more than"),
        ({"title": "Dr"}, "differ in more than"),
        ({"shoe": 9}, "not in the domain"),
        ({"title": "Lord"}, "not in the domain"),
    ],
)
def test_twins_who_are_not_versions_of_one_person_are_rejected(change, reason):
    forgery = Forgery.of(bundle("falsified"))
    one, other = forgery.certificate["twins"]
    one |= {"job": "clerk", "hours": 3, "title": "Mr"}
    other |= {"job": "nurse", "hours": 3, "title": "Ms"} | change
    assert reason in answer(forgery.sealed())["reason"]


def test_a_rule_moves_all_its_columns_or_none():
    """The shoe is mirrored only together with the change of owner."""
    people = checker.Individuals(json.loads(PEOPLE.text()))
    one = {"job": "clerk", "title": "Mr", "shoe": 1, "owner": True, "hours": 2, "sex": "m"}
    assert checker.are_versions(people, one, one | {"shoe": 4, "owner": False})
    assert checker.are_versions(people, one, one | {"job": "cook", "title": "Ms", "sex": "f"})
    for other in ({"shoe": 4}, {"owner": False}, {"shoe": 3, "owner": False}, {"job": "smith"}):
        assert not checker.are_versions(people, one, one | other)


def test_images_of_a_box_hold_every_version_of_its_people():
    people = checker.Individuals(json.loads(PEOPLE.text()))
    box = people.everybody() | {"job": ("clerk", "smith"), "shoe": (1, 2), "title": ("Mr",)}
    images = people.images(box)
    assert images[0] == box and len(images) == 12
    table = everybody(PEOPLE)
    inside = table[table["job"].isin(box["job"]) & table["shoe"].le(2) & table["title"].eq("Mr")]
    for version in range(Versions(PEOPLE).size):
        for person in Versions(PEOPLE).table(inside, version).sample(6, random_state=version).to_dict("records"):
            assert any(_holds(people, image, person) for image in images)


def _holds(people, box, person):
    ends = {n: box[n] for n in box if people.is_number(n)}
    return all(low <= person[n] <= high for n, (low, high) in ends.items()) and all(
        person[n] in box[n] for n in box if n not in ends
    )


# --- any forgery: what is accepted must be true of all versions ---


def rule_mutated(forgery, chance):
    rules = forgery.domain["twins"]
    rule = chance.choice(rules)
    move = chance.choice(rule)
    what = chance.randrange(5)
    if what == 0:
        rules.remove(rule)
    elif what == 1:
        rules.append([copy.deepcopy(move)])
    elif what == 2 and move["kind"] == "cycles" and move["feature"] != "sex":
        listed = {f["name"]: f.get("categories", [False, True]) for f in forgery.domain["features"]}
        levels = listed[move["feature"]]
        move["cycles"] = [chance.sample(levels, chance.randrange(2, len(levels) + 1))]
    elif what == 3:
        rules[0] += [part for part in rule if part["feature"] not in {m["feature"] for m in rules[0]}]
    else:
        forgery.domain["sensitive"] = chance.choice([["sex"], ["sex", "owner"], ["title"], ["job"]])


def table_mutated(forgery, chance):
    name = chance.choice(["merged title", "merged job", "weight 0", "scale"])
    table = forgery.constant(name)
    flat = table.reshape(-1)
    at, other = chance.randrange(len(flat)), chance.randrange(len(flat))
    flat[at] = chance.choice([flat[other], 0.0, 0.5, -flat[at], np.nextafter(flat[at], np.inf)])
    forgery.put(name, table)


def test_whatever_is_changed_nothing_false_is_accepted():
    accepted = 0
    for seed in range(80):
        chance, forgery = random.Random(seed), Forgery.of(bundle("merged"))
        for _ in range(chance.randrange(1, 3)):
            chance.choice([rule_mutated, table_mutated])(forgery, chance)
        files = restated(forgery).sealed()
        if not answer(files)["valid"] or accepted == 12:
            continue
        accepted += 1
        domain = Domain.from_json(files["domain.json"].decode())
        people, size = everybody(domain), Versions(domain).size
        tables = [Versions(domain).table(people, v) for v in range(0, size, max(1, size // 8))]
        label = served_bytes(files["model.onnx"], pd.concat(tables, ignore_index=True))[0].reshape(len(tables), -1)
        assert (label == label[0]).all(), seed
    assert accepted == 12  # otherwise this would show nothing


def test_mirrored_real_numbers_are_twins_only_where_the_sum_is_exact():
    domain = json.loads(
        Domain(features=(IntegerFeature(name="n", low=0, high=3), SEX), sensitive=("sex",), label=LABEL).text()
    )
    domain["features"][0] = {"kind": "real", "name": "n", "low": 0.0, "high": 3.0, "grid": 17}
    domain["twins"] = [[{"kind": "mirror", "feature": "n", "total": 3.0}]]
    people = checker.Individuals(domain)
    assert checker.are_versions(people, {"n": 0.5, "sex": "f"}, {"n": 2.5, "sex": "f"})
    tiny = 2.0**-60
    assert 3.0 - tiny == 3.0
    assert not checker.are_versions(people, {"n": tiny, "sex": "f"}, {"n": 3.0, "sex": "f"})
