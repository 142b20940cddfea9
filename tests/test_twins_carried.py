"""Numbers that are carried along with a sensitive value: twins have the same canonical value, and the same bits."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bornfair import Domain, FairClassifier, FairModel, checker, metrics, verify
from bornfair.bundle import bundle_files, load_bundle
from bornfair.certificate import certificate_of
from bornfair.domain import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.encoding import Encoding, Scale
from bornfair.errors import InputError
from bornfair.network import Layer, Network
from bornfair.verification.exact import exact_decisions
from bornfair.verification.replay import exact_input
from bornfair.verification.search import search
from checker_fuzz import Forgery, answer
from twin_cases import served

AGE = IntegerFeature(name="age", low=17, high=40)
INCOME = RealFeature(name="income", low=-4.0, high=100.0)
TITLE = CategoricalFeature(name="title", categories=("Mr", "Ms", "Dr"))
SEX = CategoricalFeature(name="sex", categories=("f", "m"))
VETERAN = BooleanFeature(name="veteran")
RACE = CategoricalFeature(name="race", categories=("a", "b", "c"))
LABEL = Label(name="grant", classes=("no", "yes"))
PEOPLE = Domain(features=(AGE, INCOME, TITLE, SEX), sensitive=("sex",), label=LABEL)
TWO = Domain(features=(AGE, TITLE, VETERAN, RACE), sensitive=("veteran", "race"), label=LABEL)

# --- rules ---


@pytest.mark.parametrize(
    ("domain", "text", "maps"),
    [
        (PEOPLE, "age: m->f by x+3", (("f", 1, 0), ("m", 1, 3))),
        (PEOPLE, "age: f->m by x+3", (("f", 1, 0), ("m", 1, -3))),
        (PEOPLE, "sex: m<->f, age: sex=m->f by x - 2", (("f", 1, 0), ("m", 1, -2))),
        (PEOPLE, "income: m->f by 2*x+7.5", (("f", 1.0, 0.0), ("m", 2.0, 7.5))),
        (PEOPLE, "income: m->f by x*1.1", (("f", 1.0, 0.0), ("m", 1.1, 0.0))),
        (PEOPLE, "income: m->f by x/1.1", (("f", 1.1, 0.0), ("m", 1.0, 0.0))),
        (TWO, "age: a->b by x+1, b->c by x+2", (("a", 1, 0), ("b", 1, -1), ("c", 1, -3))),
        (TWO, "age: True->False by x+4", ((False, 1, 0), (True, 1, 4))),
    ],
)
def test_rules_become_canonical_values(domain, text, maps):
    declared = domain.with_twins(text)
    (move,) = declared.carried.values()
    assert move.maps == maps and declared.twin_group.size == 1
    assert declared.with_twins(declared.twin_texts()) == declared and Domain.from_json(declared.text()) == declared


@pytest.mark.parametrize(
    ("domain", "text", "sentence"),
    [
        (PEOPLE, "age: m->f by 2*x", "'age' is a whole number: only whole numbers can be added to it"),
        (PEOPLE, "age: m->f by x+0.5", "only whole numbers can be added"),
        (PEOPLE, "age: m->f by x+30", "so nobody has a twin; widen the range"),
        (PEOPLE, "age: m->f by 0*x", "which nobody can undo"),
        (PEOPLE, "age: m->f by y", "which is not understood; write x+3"),
        (PEOPLE, "income: m->f by 1.5*x+1", "multiply by a power of two, or do not add anything"),
        (PEOPLE, "age: m->Ms by x+1", "must name two values of one sensitive category"),
        (PEOPLE, "age: rank", "ranks within groups are not known"),
        (PEOPLE, "age: m->f by x+1; age: -x+57", "'age' is carried along and moved by another rule too"),
        (PEOPLE, "title: m->f by x+1", "'title' has no value 'm'"),
        (TWO, "age: a->b by x+1", "but not to 'c'; say by how much"),
        (TWO, "age: a->b by x+1, b->c by x+1, a->c by x+3", "in two ways that do not agree"),
        (TWO, "age: a->b by x+1, a->c by x+1, True->False by x+1", "carried along with two features"),
    ],
)
def test_bad_ways_to_carry_are_refused_in_a_sentence(domain, text, sentence):
    with pytest.raises(InputError) as found:
        domain.with_twins(text)
    assert sentence in str(found.value) and str(found.value).startswith("twins:")


@pytest.mark.parametrize(
    ("maps", "by", "sentence"),
    [
        ([["f", 1.5, 2.0], ["m", 1.0, 0.0]], "sex", "would not be the same bits"),
        ([["f", 0.0, 0.0], ["m", 1.0, 0.0]], "sex", "times must be a number above 0"),
        ([["f", 1.0, 0.0]], "sex", "for each value of 'sex' once"),
        ([["Mr", 1.0, 0.0]], "title", "which is not sensitive"),
    ],
)
def test_a_file_cannot_carry_otherwise(maps, by, sentence):
    move = {"kind": "carried", "feature": "income", "by": by, "maps": maps}
    with pytest.raises(InputError, match=sentence):
        PEOPLE.replaced(twins=[[move]])
    with pytest.raises(checker.Rejected):
        checker.People(json.loads(PEOPLE.text()) | {"twins": [[move]]})


# --- the same bits ---


@given(
    st.floats(-4.0, 100.0),
    st.sampled_from([0.25, 0.5, 1.0, 2.0]),
    st.floats(-3.0, 3.0).filter(lambda plus: plus == 0 or abs(plus) > 2.0**-100),
)
def test_twins_are_encoded_as_the_same_bits(income, times, plus):
    """However the real sum rounds: it is rounded once, and it is the same real number for both."""
    move = {"kind": "carried", "feature": "income", "by": "sex", "maps": [["f", 1.0, 0.0], ["m", times, plus]]}
    domain = PEOPLE.replaced(twins=[[move]])
    versions = domain.versions
    person = versions.settled({"age": 20, "income": income, "title": "Mr"})
    assume(versions.exists(person, 0) and versions.exists(person, 1))
    one, other = versions.of(person, 0), versions.of(person, 1)
    assert Fraction(times) * Fraction(other["income"]) + Fraction(plus) == Fraction(one["income"])
    scales = {"age": Scale(centre=20.0, exponent=2), "income": Scale(centre=30.1, exponent=3)}
    encoding = Encoding(domain, scales, {}, carried=domain.carried)
    encoded = encoding.encode(pd.DataFrame([one, other])).free
    assert encoding.merges_twins and encoded[0].tobytes() == encoded[1].tobytes()


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        (PEOPLE, "sex: m<->f, title: Mr<->Ms, age: m->f by x+3; income: f->m by 0.5*x"),
        (TWO, "age: True->False by x-4; title: Mr->Ms->Dr->Mr"),
    ],
)
def test_training_keeps_carried_twins_bit_identical(domain, text, tmp_path):
    domain = domain.with_twins(text)
    rows = domain.sample(300, seed=5)
    truth = np.where(rows["age"] + 9 * (rows["title"] == "Mr") + 6 * (rows.iloc[:, -1] == rows.iloc[0, -1]) > 34, 1, 0)
    truth = pd.Series(np.array(["no", "yes"])[truth], name="grant")
    classifier = FairClassifier(list(domain.sensitive), domain=domain, epochs=3, hidden=(5,)).fit(rows, truth)
    assert classifier.certificate_.verdict.arithmetic == ("real", "float32")
    assert classifier.empirical_fairness(rows) == 1.0
    again = load_bundle(classifier.save(tmp_path / "bundle"))
    assert checker.check(tmp_path / "bundle")["arithmetic"] == ["real", "float32"]
    people = [versioned for row in rows.head(40).to_dict("records") for versioned in _existing(domain, row)]
    table = pd.DataFrame([person for person, _ in people])
    owners = np.array([owner for _, owner in people])
    scores, (label, shares) = again.scores(table)[:, 0], served(again, table)
    assert len(table) > 60 and np.array_equal(scores, classifier.model_.scores(table)[:, 0])
    for owner in set(owners):
        mine = owners == owner
        assert len(set(scores[mine].tolist())) == 1 and len(np.unique(shares[mine], axis=0)) == 1
    assert (label == again.predict(table)).mean() > 0.99


def _existing(domain, row):
    """All twins of a row, each with the row's number."""
    person = domain.versions.settled(domain.versions.shared(row))
    there = [v for v in range(domain.versions.size) if domain.versions.exists(person, v)]
    return [(domain.versions.of(person, v), str(person)) for v in there]


def test_a_model_with_carried_numbers_needs_the_sensitive_column():
    domain = PEOPLE.with_twins("age: m->f by x+3")
    rows = domain.sample(60, seed=1)
    truth = pd.Series(np.where(rows["age"] > 28, "yes", "no"), name="grant")
    classifier = FairClassifier(["sex"], domain=domain, epochs=0, hidden=(3,)).fit(rows, truth)
    with pytest.raises(InputError, match="'age' is carried along with it; give the column"):
        classifier.predict(rows.drop(columns="sex"))
    with pytest.raises(InputError, match="cannot do without"):
        bundle_files(classifier.model_, sensitive=False)
    assert classifier.certificate_.response["local_privacy"].startswith("none: the true values say what age counts")
    with pytest.raises(InputError, match="use twin_inputs='merged'"):
        FairClassifier(["sex"], domain=domain, epochs=0, twin_inputs="raw").fit(rows, truth)


# --- networks that know nothing of it, against counting out ---

SMALL = Domain(
    features=(IntegerFeature(name="age", low=0, high=9), TITLE, CategoricalFeature(name="sex", categories=("f", "m"))),
    sensitive=("sex",),
    label=LABEL,
)
THREE = Domain(
    features=(IntegerFeature(name="age", low=0, high=9), BooleanFeature(name="owner"), RACE),
    sensitive=("race",),
    label=LABEL,
)


@pytest.mark.parametrize("seed", (0, 1, 2, 3, 5, 6, 89, 567))
def test_the_verifier_agrees_with_counting_out_carried_twins(seed):
    """Who has no twin inside the domain cannot disprove anything; all others can."""
    random = np.random.default_rng([seed, 3])
    if seed % 2:  # who has no twin of the other sex may still have one by the swap
        domain = SMALL.with_twins(f"age: m->f by x+{random.integers(1, 8)}, title: Mr<->Ms")
    else:  # and who has none of another race, one who is an owner or not
        a, b = random.integers(-4, 5, 2)
        both = THREE.with_sensitive(["race", "owner"]) if seed % 4 else THREE
        domain = both.with_twins(f"age: a->b by x{a:+}, b->c by x{b:+}")
    encoding = Encoding(domain, {"age": Scale(centre=4.0, exponent=1)}, {})
    layers = [
        Layer(np.round(2 * random.normal(size=(b, a))) / 2, np.round(3 * random.normal(size=b)) / 2)
        for a, b in itertools.pairwise((encoding.width, 3, 1))
    ]
    if seed % 3 == 0:  # hardly anything differs, so that some of them are fair
        weight = layers[0].weight.copy()
        weight[:, 1:] = 0
        layers = [Layer(weight, layers[0].bias - 4 * (seed % 2)), layers[1]]
    model = FairModel(Network(tuple(layers)), encoding)
    twins = _all_twins(domain)
    decided = {}
    for one in set(itertools.chain(*twins)):
        raw = dict(zip(domain.names, one, strict=True))
        person = domain.versions.shared(raw)
        position = domain.sensitive_space.values.index(tuple(raw[name] for name in domain.sensitive))
        assert domain.versions.of(person, position) == raw
        decided[one] = int(exact_decisions(model.network, exact_input(encoding, person, position)[None])[0])
    unfair = any(decided[one] != decided[other] for one, other in twins)
    for verdict in (verify(model, timeout=20, seed=seed), search(model, timeout=20, seed=seed)):
        assert verdict.verdict == ("falsified" if unfair else "verified"), verdict.reason
        if verdict.verdict == "falsified":
            assert tuple(tuple(twin[n] for n in domain.names) for twin in verdict.twins) in twins
    shown = FairModel(model.network, encoding, certificate_of(model, verdict, seconds=1))
    found = checker.check_files(bundle_files(shown))
    assert found["valid"] and found["verdict"] in (verdict.verdict, "undecided")


def _all_twins(domain):
    """Every ordered pair of people who are twins, by the most literal reading."""
    (move,) = domain.carried.values()
    plus = {value: shift for value, _, shift in move.maps}
    swap = {"Mr": "Ms", "Ms": "Mr"} if domain.twin_group.moved else {}
    people = list(itertools.product(*(f.levels() for f in domain.features)))
    place, by = domain.names.index("age"), domain.names.index(move.by)
    groups: dict = {}
    for one in people:
        shared = [i for i, name in enumerate(domain.names) if name not in domain.sensitive and i != place]
        rest = [one[i] for i in shared]
        key = frozenset((tuple(rest), tuple(swap.get(value, value) for value in rest)))
        groups.setdefault((one[place] + plus[one[by]], key), []).append(one)
    return {pair for group in groups.values() for pair in itertools.permutations(group, 2)}


def test_a_model_that_reads_age_alone_is_unfair_where_age_is_carried():
    rows = PEOPLE.sample(300, seed=3)
    encoding = Encoding.fit(PEOPLE, rows)
    weight = np.zeros((2, encoding.width), np.float32)
    weight[0, 0], weight[1, 1] = 1.0, 0.125  # age, and a little income
    unaware = FairModel(Network((Layer(weight, np.ones(2)), Layer(np.ones((1, 2)), np.array([-2.0])))), encoding)
    verdict = verify(unaware, twins="age: m->f by x+3", timeout=10, table=rows)
    assert verdict.verdict == "falsified"
    older, younger = sorted(verdict.twins, key=lambda twin: twin["sex"])
    assert older["age"] == younger["age"] + 3 and older["income"] == younger["income"]
    asked = verify(unaware, twins="income: m->f by 1.1*x", engine="bounds", timeout=5)
    assert asked.verdict == "undecided" and "no float64 number says exactly" in asked.reason


# --- rows whose twin has left the domain ---


def test_rows_whose_twin_is_outside_have_none():
    domain = PEOPLE.with_twins("age: m->f by x+3")
    rows = pd.DataFrame({"age": [18, 38, 20, 30], "income": 1.0, "title": "Dr", "sex": ["f", "m", "m", "f"]})
    there = [domain.versions.inside(rows, version).tolist() for version in (0, 1)]
    assert there == [[True, False, True, True], [False, True, True, True]]

    def granted(people):
        return (people["age"] >= 30).to_numpy()

    same = metrics.survives_every_change(granted, rows, domain)
    assert same.tolist() == [True, True, True, False]  # at 30 her twin is 27; at 20 his is 23


# --- forgeries ---


def _trained_files():
    domain = PEOPLE.with_twins("age: m->f by x+3; income: m->f by 2*x")
    rows = domain.sample(80, seed=1)
    truth = pd.Series(np.where(rows["age"] > 28, "yes", "no"), name="grant")
    classifier = FairClassifier(["sex"], domain=domain, epochs=0, hidden=(3,)).fit(rows, truth)
    return {n: c for n, c in bundle_files(classifier.model_).items() if n != "report.html"}


def test_forged_ways_to_carry_are_rejected():
    files = _trained_files()
    assert answer(files)["valid"]

    def in_the_domain(forgery):
        forgery.domain["twins"][0][0]["maps"][1][2] = 4

    def in_the_graph(forgery):
        names = [t.name for t in forgery.model.graph.initializer if t.name.startswith("carried sex")]
        table = forgery.constant(names[1])
        table[1, 0] = 4.0
        forgery.put(names[1], table)

    def undeclared(forgery):
        forgery.domain["twins"] = forgery.domain["twins"][:1]

    def with_rounding(forgery):
        forgery.domain["twins"][1][0]["maps"][1][1:] = [1.1, 0.3]

    for change, reason in (
        (in_the_domain, "tells twins apart by 'age'"),
        (in_the_graph, "tells twins apart by 'age'"),
        (undeclared, "tells twins apart by 'income'"),
        (with_rounding, "carried along with rounding"),
    ):
        forgery = Forgery.of(files)
        change(forgery)
        try:
            people = checker.People(json.loads(json.dumps(forgery.domain)))
            facts = forgery.certificate
            facts["property"] = checker.property_of(people)
            stated = facts["verdict"], facts["proof"], facts["arithmetic"], people.sensitive, facts["reason"]
            facts["claim"] = checker.claim_of(*stated, people.rules)
        except checker.Rejected:
            pass
        found = answer(forgery.sealed())
        assert not found["valid"] and reason in found["reason"], found


def test_twins_by_carrying_must_be_exact():
    people = checker.People(json.loads(PEOPLE.with_twins("age: m->f by x+3; income: m->f by 1.1*x").text()))
    one = {"age": 20, "income": 10.0, "title": "Mr", "sex": "m"}
    assert not checker.are_versions(people, one, one | {"age": 23, "sex": "f", "income": 11.0})  # 1.1 is not 11/10
    assert not checker.are_versions(people, one, one | {"age": 22, "sex": "f"})
    assert not checker.are_versions(people, one, one | {"sex": "f"})
    none = one | {"income": 0.0}
    assert checker.are_versions(people, none, none | {"age": 23, "sex": "f"})


def test_no_proof_tree_is_offered_or_taken_for_carried_numbers():
    domain = SMALL.with_twins("age: m->f by x+3")
    encoding = Encoding(domain, {"age": Scale(centre=4.0, exponent=1)}, {})
    weight = np.zeros((1, encoding.width), np.float32)
    weight[0, 0] = 0.125
    model = FairModel(Network((Layer(weight, np.array([2.0])), Layer(np.ones((1, 1)), np.array([-1.0])))), encoding)
    certified = model.certified(timeout=10)
    assert certified.certificate.verdict.verdict == "undecided"
    assert "do not know numbers that are carried along" in certified.certificate.verdict.reason
    assert model.verify(timeout=10).verdict == "verified"
