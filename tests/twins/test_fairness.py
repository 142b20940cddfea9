"""The group theorem: training keeps declared twins equal, exactly; brute force and onnxruntime judge.

Models that were trained without the rules are disproven, by people who are versions of each other.
"""

from __future__ import annotations

import dataclasses
import itertools
from functools import cache

import numpy as np
import pandas as pd
import pytest

from bornfair import FairClassifier, FairModel, FairnessWarning, verify
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.exact import exact_decisions
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import CategoricalFeature
from bornfair.people.twins.relation import twin_relation
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker
from bornfair.proof.bundle import bundle_files, load_bundle
from bornfair.proof.certificate import certificate_of
from bornfair.proof.vnnlib import export_query
from bornfair.verification.replay import exact_input
from bornfair.verification.search import search
from oracle import refutes
from twin_cases import HOURS, JOB, LABEL, SEX, TITLE, biased_labels, everybody, random_domain, served, tied

pytestmark = pytest.mark.slow

OPTIMISERS = ("sgd", "momentum", "adam", "adamw")
QUICK = {"epochs": 3, "hidden": (5, 3), "learning_rate": 0.05, "batch_size": 32, "validation_fraction": 0.0}


@cache
def trained(seed: int, **options) -> tuple[FairClassifier, pd.DataFrame]:
    """A classifier for a random domain with rules, by one of the optimisers, and everybody who could exist."""
    domain = random_domain(seed)
    people = everybody(domain)
    rows = people.sample(96, replace=True, random_state=seed)
    truth = biased_labels(rows, seed)
    how = QUICK | {"optimiser": OPTIMISERS[seed % 4], "weight_decay": 0.1 * (seed > 2)} | options
    classifier = FairClassifier([domain.sensitive[0]], domain=domain, random_state=seed, **how)
    return classifier.fit(rows, pd.Series(truth, name="grant")), people


def of_each_version(domain: Domain, people: pd.DataFrame, most: int = 24):
    """Everybody as some of their versions, among them one for each value of S."""
    size = Versions(domain).size
    some = dict.fromkeys([*range(domain.sensitive_space.size), *range(0, size, -(-size // most))])
    return [Versions(domain).table(people, version) for version in some]


# --- training with the rules ---


@pytest.mark.parametrize("seed", range(5))
def test_training_keeps_all_versions_bit_identical(seed):
    classifier, people = trained(seed)
    model, domain = classifier.model_, classifier.domain_
    assert classifier.certificate_.verdict.arithmetic == ("real", "float32")
    assert classifier.certificate_.person_versions == Versions(domain).size
    tables = of_each_version(domain, people)
    together = pd.concat(tables, ignore_index=True)
    scores = model.scores(together).reshape(len(tables), -1)
    assert (scores == scores[0]).all() and len(np.unique(scores)) > 1
    label, shares = served(model, together)
    label, shares = label.reshape(len(tables), -1), shares.reshape(len(tables), -1)
    assert (label == label[0]).all() and (shares == shares[0]).all()
    assert (label[0] == model.predict(tables[0])).mean() > 0.99  # sums in another order may tip a tie
    found = checker.check_files(bundle_files(model))
    assert found["valid"] and found["verdict"] == "verified" and found["proof"] == "structural"
    assert found["arithmetic"] == ["real", "float32"]


def test_weights_on_what_is_merged_may_be_anything():
    """P in front is what makes twins equal, not the weights."""
    classifier, people = trained(1)
    first, *rest = classifier.model_.network.layers
    weight = first.weight + np.random.default_rng(0).normal(size=first.weight.shape)
    weight[:, classifier.model_.encoding.free_width :] = 0
    changed = FairModel(Network((Layer(weight, first.bias), *rest)), classifier.model_.encoding)
    assert changed.verify(timeout=5).arithmetic == ("real", "float32")
    tables = of_each_version(classifier.domain_, people)
    assert len({changed.scores(table).tobytes() for table in tables}) == 1


def test_a_bundle_with_rules_is_read_back_bit_for_bit(tmp_path):
    classifier, people = trained(2)
    again = load_bundle(classifier.save(tmp_path / "bundle"))
    assert again.domain == classifier.domain_ and again.encoding.merged == classifier.model_.encoding.merged
    assert again.scores(people).tobytes() == classifier.model_.scores(people).tobytes()
    assert again.certificate.person_versions == Versions(classifier.domain_).size
    without = load_bundle(classifier.save(tmp_path / "without", sensitive=False))
    assert checker.check(tmp_path / "without")["valid"] and without.certificate.claim == again.certificate.claim


def test_a_table_without_sensitive_columns_is_enough():
    classifier, people = trained(4)
    bare = people.drop(columns=list(classifier.domain_.sensitive))
    assert np.array_equal(classifier.predict(bare), classifier.predict(people))


# --- raw columns ---


@pytest.mark.parametrize("seed", [2])
def test_equal_weights_on_raw_columns_are_fair_in_real_arithmetic(seed):
    """W = W·P without P in front of the network: as counting out in fractions confirms."""
    classifier, people = trained(seed, response="none")
    model, domain = tied(classifier.model_).certified(timeout=10), classifier.domain_
    assert not model.encoding.merged and model.ignores_sensitive
    assert "real" in model.certificate.verdict.arithmetic
    assert checker.check_files(bundle_files(model))["valid"]
    for person in people.sample(5, random_state=seed).to_dict("records"):
        inputs = np.stack([exact_input(model.encoding, person, v) for v in range(Versions(domain).size)])
        assert len(set(exact_decisions(model.network, inputs).tolist())) == 1


def test_many_versions_are_one_computation():
    letters = CategoricalFeature(name="letter", categories=tuple("abcdefg"))
    domain = Domain(features=(letters, HOURS, SEX), sensitive=("sex",), label=LABEL)
    domain = domain.with_twins("letter: a<->b; letter: a->b->c->d->e->f->g->a")
    rows = domain.sample(20, seed=1)
    truth = pd.Series(np.where(rows["hours"] > 1, "yes", "no"), name="grant")
    options = {"domain": domain, "epochs": 0, "hidden": (3,)}
    assert FairClassifier(["sex"], **options).fit(rows, truth).certificate_.verdict.answer == "verified"


# --- models that know nothing of the rules ---


def random_network(seed: int, encoding: Encoding, style: int) -> Network:
    random = np.random.default_rng([seed, 13])
    widths = (encoding.width, 4, 1)
    layers = []
    for a, b in itertools.pairwise(widths):
        weight = np.round(2 * random.normal(size=(b, a))) / 2
        layers.append(Layer(weight, np.round(2 * random.normal(size=b)) / 2))
    if style:  # no sensitive weights: only a swap can tell people apart; or hardly anything can
        first = layers[0].weight.copy()
        first[:, encoding.free_width :] = 0
        layers[0] = Layer(first * (2.0**-6 if style == 2 else 1), layers[0].bias)
    return Network(tuple(layers))


@pytest.mark.parametrize("seed", (0, 1, 2, 3, 4, 5, 7, 10))
def test_the_verifier_agrees_with_counting_out_all_versions(seed):
    domain = random_domain(seed)
    if Versions(domain).size > 60:
        domain = domain.replaced(twins=domain.model_dump()["twins"][:1])
    people = everybody(domain)
    encoding = Encoding.fit(domain, people.sample(30, random_state=seed))
    model = FairModel(random_network(seed, encoding, seed % 3), encoding)
    relation = twin_relation(encoding)
    free = Encoding.encode(encoding, people.drop_duplicates(list(domain.free_names))).free
    exact = np.stack([exact_decisions(model.network, _fractions(view(free))) for view in relation.views])
    unfair = bool((exact != exact[0]).any())
    verdict = verify(model, timeout=20, seed=seed)
    assert verdict.answer == ("falsified" if unfair else "verified"), verdict.reason
    if unfair:
        one, other = verdict.twins
        listed = [Versions(domain).of(one, i) for i in range(Versions(domain).size)]
        assert other in listed and one in listed and len(set(verdict.decisions)) == 2
        decided = model.predict(pd.DataFrame(verdict.twins))
        assert "float32" not in verdict.arithmetic or decided.tolist() == verdict.decisions
    elif verdict.proof != "structural":
        assert refutes(model.network, relation, verdict.arithmetic, seed) is None
    certified = dataclasses.replace(model, certificate=certificate_of(model, verdict, seconds=1.0))
    found = checker.check_files(bundle_files(certified))
    assert found["valid"] and found["verdict"] in (verdict.answer, "undecided")


def _fractions(values: np.ndarray) -> np.ndarray:
    from bornfair.models.network.bounds.exact import fractions

    return fractions(values)


def test_search_alone_finds_swapped_twins_and_proves_where_there_are_none():
    domain = Domain(features=(JOB, TITLE, HOURS, SEX), sensitive=("sex",), label=LABEL)
    domain = domain.with_twins("sex: f<->m, title: Mr<->Ms")
    encoding = Encoding.fit(domain, domain.sample(30, seed=1))
    weight = np.zeros((2, encoding.width), np.float32)
    weight[0, encoding.free_columns()["title"]] = [1, 0, 0]
    weight[1, encoding.free_columns()["hours"]] = 1
    for last, expected in (([[1, 1]], "falsified"), ([[0, 1]], "verified"), ([[0.125, 1]], "verified")):
        scales = encoding.scales["hours"]
        grid = [(hours - scales.centre) * 2.0**-scales.exponent for hours in range(4)]
        bias = -max((grid[2] + grid[3]) / 2, 0)
        model = FairModel(Network((Layer(weight, np.zeros(2)), Layer(np.array(last), np.array([bias])))), encoding)
        verdict = search(model, timeout=20)
        assert verdict.answer == expected
        if expected == "falsified":
            one, other = verdict.twins
            assert {one["title"], other["title"]} == {"Mr", "Ms"}


def test_training_that_is_fair_for_the_flip_is_unfair_by_the_rules_and_says_who():
    domain = Domain(features=(JOB, TITLE, HOURS, SEX), sensitive=("sex",))
    rows = domain.sample(300, seed=3)
    truth = pd.Series(np.where((rows["title"] == "Mr") | (rows["hours"] > 2), "yes", "no"), name="grant")
    flip = FairClassifier(["sex"], domain=domain, hidden=(8,), epochs=30, learning_rate=0.05).fit(rows, truth)
    assert flip.verify(timeout=5).answer == "verified"
    rules = "sex: f<->m, title: Mr<->Ms"
    verdict = verify(flip, twins=rules, timeout=10, table=rows)
    assert verdict.answer == "falsified"
    one, other = verdict.twins
    assert {one["title"], other["title"]} == {"Mr", "Ms"} and one["job"] == other["job"]
    declared = dataclasses.replace(flip.model_.encoding, domain=flip.domain_.with_twins(rules))
    asked = dataclasses.replace(flip.model_, encoding=declared)
    assert asked.empirical_fairness(rows) < asked.empirical_fairness(rows, declared=False) == 1.0


def test_a_proof_tree_for_swapped_twins_is_accepted_and_one_of_the_flip_is_not_taken_for_it():
    """Fair, but not by structure: the weight on the title never tips the scale."""
    domain = Domain(features=(TITLE, HOURS, SEX), sensitive=("sex",), label=LABEL).with_twins("title: Mr<->Ms")
    encoding = Encoding.fit(domain, everybody(domain))
    first = np.zeros((1, encoding.width), np.float32)
    first[0, encoding.free_columns()["title"]] = [0.0625, 0, 0]
    first[0, encoding.free_columns()["hours"]] = 1
    # columns: hours is read as (v - 2)·2^0
    model = FairModel(Network((Layer(first, np.array([0.5])), Layer(np.ones((1, 1)), np.array([-1.0])))), encoding)
    certified = model.certified(timeout=20)
    assert (certified.certificate.verdict.answer, certified.certificate.verdict.proof) == ("verified", "bounds")
    files = bundle_files(certified)
    assert checker.check_files(files)["valid"]
    clear = np.array(first)
    clear[0, encoding.free_columns()["title"]] = [0.75, 0, 0]
    unfair = FairModel(Network((Layer(clear, np.array([0.5])), Layer(np.ones((1, 1)), np.array([-1.0])))), encoding)
    swapped = unfair.certified(timeout=20)
    assert swapped.certificate.verdict.answer == "falsified"
    flip_only = dataclasses.replace(unfair.encoding, domain=domain.replaced(twins=()))
    fair_by_flip = FairModel(unfair.network, flip_only).certified(timeout=20)
    assert fair_by_flip.certificate.verdict.answer == "verified"


def test_engines_that_know_no_rules_say_so(tmp_path):
    classifier, _ = trained(1)
    for engine in ("smt", "milp"):
        with pytest.raises(
            InputError, match=f"the {engine} engine does not know declared twins .* use engine='bounds'"
        ):
            verify(classifier, engine=engine)
    with pytest.raises(InputError, match="does not know declared twins"):
        export_query(classifier.model_, tmp_path / "query")


def test_decisions_of_versions_are_those_of_their_tables():
    domain = random_domain(6)
    some = everybody(domain).sample(40, random_state=0)
    encoding = Encoding.fit(domain, some)
    model = FairModel(random_network(6, encoding, 0), encoding)
    decided = decisions(model.scores_of_versions(some))
    for version in range(0, Versions(domain).size, 5):
        alone = model.predict(Versions(domain).table(some, version))
        assert np.array_equal(model.classes[decided[version]], alone)


@pytest.mark.parametrize("twins", [None, "job: nurse<->smith"])
def test_a_sampled_training_that_is_projected_in_the_end_is_exactly_fair(people, tmp_path, twins):
    X, y = people.drop(columns="grant"), people["grant"]
    settings = {"twins": twins, "hidden": [5], "epochs": 3, "response": "sampled", "random_state": 0}
    with pytest.warns(FairnessWarning):
        sampled = FairClassifier(["sex"], **settings).fit(X, y)
    projected = FairClassifier(["sex"], project=True, **settings).fit(X, y)
    assert sampled.certificate_.verdict.answer == "undecided"
    assert projected.certificate_.verdict.proof == "structural" and projected.empirical_fairness(X) == 1.0
    assert projected.certificate_.training["projected"] is True
    assert checker.check(projected.save(tmp_path / "bundle"))["valid"]
    assert np.mean(projected.predict(X) == sampled.predict(X)) > 0.9, "the smallest change, not another model"
