"""Rules for twins: how they are read, what they generate, and whom they relate."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bornfair import Domain
from bornfair.core.errors import InputError
from bornfair.models import metrics
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.rules import MOST_ELEMENTS, rule_text
from bornfair.people.twins.relation import flip_relation, free_space, twin_relation
from bornfair.people.twins.versions import Versions
from twin_cases import everybody, random_domain

PEOPLE = Domain(
    features=(
        CategoricalFeature(name="relationship", categories=("Husband", "Wife", "Own-child", "a, b", "Other")),
        IntegerFeature(name="age", low=17, high=90),
        RealFeature(name="score", low=-1.0, high=2.0),
        BooleanFeature(name="owner"),
        CategoricalFeature(name="sex", categories=("Female", "Male")),
        IntegerFeature(name="band", low=1, high=3),
    ),
    sensitive=("sex", "band"),
    label=Label(name="income", classes=("<=50K", ">50K")),
)

# --- reading and writing ---


@pytest.mark.parametrize(
    ("text", "versions", "orbits"),
    [
        ("sex: Male<->Female", 6, {}),
        ("sex: Male<->Female, relationship: Husband<->Wife", 12, {"relationship": ((0, 1),)}),
        ("relationship: Husband->Wife->'a, b'->Husband", 18, {"relationship": ((0, 1, 3),)}),
        ("relationship: Husband<->Wife, Own-child<->Other", 12, {"relationship": ((0, 1), (2, 4))}),
        ("relationship: Husband<->Wife; relationship: Own-child<->Other", 24, {"relationship": ((0, 1), (2, 4))}),
        ("owner: true<->False; age: 107-x", 24, {"age": ((0, 1),), "owner": ((0, 1),)}),
        ("owner: True<->False, age: -age + 107, score: -x+1", 12, dict.fromkeys(["age", "score", "owner"], ((0, 1),))),
        ("band: 1->2->3->1, sex: Male<->Female, owner: True<->False", 12, {"owner": ((0, 1),)}),
    ],
)
def test_rules_are_read_and_written_back(text, versions, orbits):
    declared = PEOPLE.with_twins(text)
    assert (Versions(declared).size, declared.twin_group.orbits) == (versions, orbits)
    assert PEOPLE.with_twins([rule_text(rule) for rule in declared.twins]) == declared
    assert Domain.from_json(declared.text()) == declared


def test_no_rules_leave_the_file_as_it_was():
    assert '"twins"' not in PEOPLE.text() and Versions(PEOPLE).size == 6


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("relationship: Husband->Wife", "not a permutation: nothing is mapped back to 'Husband'"),
        ("relationship: Husband<->Wife, Wife<->Other", "'Wife' is mapped twice in one rule"),
        ("relationship: Husband<->Wfie", "has no value 'Wfie'; did you mean 'Wife'?"),
        ("relatonship: Husband<->Wife", "column 'relatonship' is not in the table; did you mean 'relationship'?"),
        ("income: <=50K<->>50K", "'income' is the label, which is decided and not part of a person"),
        ("relationship: Husband<->Wife<->Other", "swaps more than two values; write a cycle as a->b->c->a"),
        ("relationship: Husband", "says nothing that happens"),
        ("Husband<->Wife", "names no column; write it as 'column: Husband<->Wife'"),
        ("relationship: -x+3", "'relationship: -x+3' says nothing that happens"),
        ("age: Husband<->Wife", "'age' is a number, and 'Husband<->Wife' speaks of categories"),
        ("age: 17<->18", "'age' is a number, and 17, 18 are single values"),
        ("age: x+3", "has infinite order"),
        ("age: 2*x", "has infinite order"),
        ("age: -x+100", "does not map the range [17, 90] onto itself; write -x+107"),
        ("age: -x+107, age: -x+107", "'age' is moved twice in one rule"),
        ("age: sideways", "'sideways' is not understood"),
        ("age: Male->Female by x+3", "'age: Male->Female by x+3': numbers carried along by a sensitive value are not"),
        ("sex: Male<->Female, score: sex=Male->Female by 2*x", "not supported; declare a swap of categories"),
        ("owner: True<->Maybe", "'owner' has no value 'Maybe'; it has False, True"),
        ("band: 1<->9", "'band' has no value 9"),
        (" ; ", "there is no rule in it"),
        ([3], "twins must be texts"),
    ],
)
def test_bad_rules_are_refused_in_a_sentence(text, sentence):
    with pytest.raises(InputError) as found:
        PEOPLE.with_twins(text)
    assert sentence in str(found.value) and str(found.value).startswith("twins") and str(found.value).endswith(".")


def test_rules_need_somebody_sensitive():
    with pytest.raises(InputError, match="no feature is sensitive"):
        Domain(features=PEOPLE.features).with_twins("owner: True<->False")


def test_combinations_must_be_mapped_onto_combinations():
    few = PEOPLE.with_sensitive(["sex", "band"], [["Male", 1], ["Female", 1], ["Male", 2]])
    assert Versions(few.with_twins("owner: True<->False")).size == 6
    with pytest.raises(InputError, match=r"turns \['Male', 2\] .* into \['Female', 2\], which is not among the comb"):
        few.with_twins("sex: Male<->Female, owner: True<->False")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ([[{"kind": "cycles", "feature": "owner", "cycles": [[True]]}]], "needs two or more values"),
        ([[]], "must move at least one column"),
        ([[{"kind": "mirror", "feature": "owner", "total": 1}]], "'owner' is boolean and has no -x"),
        ([[{"kind": "cycles", "feature": "relationship", "cycles": [["Husband", "Nobody"]]}]], "no value 'Nobody'"),
        ([[{"kind": "cycles", "feature": "nobody", "cycles": [["a", "b"]]}]], "'nobody' is not in the table"),
        ([[{"kind": "shift", "feature": "age", "by": 3}]], "shift"),
        ([[{"kind": "carried", "feature": "age", "by": "sex", "maps": []}]], "twins.0.0: numbers carried along by a"),
        ([[{"kind": "mirror", "feature": "age", "total": 107}]] * 101, "at most 100"),
    ],
)
def test_rules_in_a_file_are_checked_too(change, sentence):
    with pytest.raises(InputError, match=sentence):
        PEOPLE.replaced(twins=change)


def test_groups_that_are_too_large_are_refused():
    digits = CategoricalFeature(name="digit", categories=tuple("abcdefgh"))
    wide = Domain(features=(digits, *PEOPLE.features), sensitive=("sex",))
    with pytest.raises(InputError, match=f"more than {MOST_ELEMENTS:,} versions"):
        wide.with_twins("digit: a<->b; digit: a->b->c->d->e->f->g->h->a")  # all 40,320 orders of eight letters
    assert wide.with_twins("digit: a<->b; digit: a->b->c->d->e->f->g->a").twin_group.size == 5040


# --- the group, against brute force ---


@pytest.mark.parametrize("seed", range(12))
def test_versions_are_the_orbits_that_rules_applied_again_and_again_give(seed):
    domain = random_domain(seed)
    people = [tuple(row) for row in everybody(domain)[list(domain.free_names)].itertuples(index=False)]
    steps = [_as_function(rule, domain) for rule in domain.twins]
    values = domain.sensitive_space.values
    random = np.random.default_rng(seed)
    for person in (people[i] for i in random.integers(len(people), size=10)):
        reached, fresh = {person}, [person]
        while fresh:
            fresh = list({step(one) for one in fresh for step in steps} - reached)
            reached |= set(fresh)
        raw = dict(zip(domain.free_names, person, strict=True))
        listed = [tuple(Versions(domain).of(raw, i).values()) for i in range(Versions(domain).size)]
        expected = {(*free, *value) for free in reached for value in values}
        assert set(listed) == expected and Versions(domain).of(raw, 0) == raw | {domain.sensitive[0]: values[0][0]}


def _as_function(rule, domain):
    """A rule as the most literal reading of its text."""
    maps = {}
    for move in rule:
        if move.kind == "mirror":
            maps[move.feature] = lambda value, total=move.total: total - value
        else:
            goes = {a: b for cycle in move.cycles for a, b in itertools.pairwise((*cycle, cycle[0]))}
            maps[move.feature] = lambda value, goes=goes: goes.get(value, value)

    def step(person):
        return tuple(maps.get(n, lambda v: v)(v) for n, v in zip(domain.free_names, person, strict=True))

    return step


@pytest.mark.parametrize("seed", range(6))
def test_a_table_of_versions_is_each_person_s_version(seed):
    domain = random_domain(seed)
    table = domain.sample(15, seed=seed)
    for version in range(0, Versions(domain).size, 3):
        moved = Versions(domain).table(table, version)
        one_by_one = [Versions(domain).of(row, version) for row in table.to_dict("records")]
        assert moved.to_dict("records") == one_by_one


@given(st.floats(-1.0, 2.0))
def test_a_mirrored_number_is_settled_where_its_image_is_a_number_too(score):
    domain = PEOPLE.with_twins("score: 1-x")
    person = {"relationship": "Wife", "age": 20, "score": score, "owner": True}
    settled = Versions(domain).settled(person)
    assert abs(settled["score"] - score) <= 2.0**-51
    assert Versions(domain).exists(settled, 6)
    assert Versions(domain).of(settled, 6)["score"] == 1 - settled["score"]


# --- geometry ---


def test_without_rules_the_views_are_those_of_the_flip():
    encoding = Encoding.fit(PEOPLE, PEOPLE.sample(30, seed=1))
    ours, flip = twin_relation(encoding), flip_relation(encoding)
    assert ours.versions == tuple(range(6))
    for one, other in zip(ours.views, flip.views, strict=True):
        assert np.array_equal(one.matrix, other.matrix) and np.array_equal(one.offset, other.offset)


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("seed", (0, 1, 2, 4, 5, 6))
def test_a_view_of_a_person_is_the_encoding_of_their_version(seed, merge):
    domain = random_domain(seed)
    table = domain.sample(12, seed=seed)
    encoding = Encoding.fit(domain, table, merge_twins=merge)
    plain = Encoding(domain, encoding.scales, encoding.fill).encode(table).free
    relation = twin_relation(encoding)
    assert len(relation.views) == (domain.sensitive_space.size if merge else Versions(domain).size)
    assert relation.free.width == free_space(encoding).width
    for view, version in zip(relation.views, relation.versions, strict=True):
        encoded = encoding.encode(Versions(domain).table(table, version))
        assert np.array_equal(view(plain), np.concatenate([encoded.free, encoded.sensitive], axis=1))


@pytest.mark.parametrize("seed", (0, 1, 2, 4, 5, 6))
def test_merged_twins_are_the_same_bits_and_keep_what_the_orbit_has_in_common(seed):
    domain = random_domain(seed)
    people = everybody(domain)
    encoding = Encoding.fit(domain, people, merge_twins=True)
    assert encoding.merges_twins
    first = encoding.encode(Versions(domain).table(people, 0)).free
    everything = range(0, Versions(domain).size, domain.sensitive_space.size)
    for version in everything:
        assert encoding.encode(Versions(domain).table(people, version)).free.tobytes() == first.tobytes()
    some, raw = people[::7], Encoding(domain, encoding.scales, encoding.fill)
    mean = np.mean([raw.encode(Versions(domain).table(some, v)).free for v in everything], axis=0)
    np.testing.assert_allclose(first[::7], mean, atol=1e-6)


def test_an_encoding_with_merged_values_is_read_back():
    domain = PEOPLE.with_twins("relationship: Husband<->Wife; owner: True<->False; score: 1-x")
    encoding = Encoding.fit(domain, domain.sample(30, seed=1), merge_twins=True)
    again = Encoding.from_json(domain, encoding.to_json())
    assert again.merged == encoding.merged and again.merges_twins
    assert not Encoding.from_json(PEOPLE.with_twins("relationship: Husband<->Other"), encoding.to_json()).merges_twins
    for odd in ({"relationship": [[0, 9]]}, {"relationship": [[0, 1], [1, 2]]}, {"sex": [[0, 1]]}, {"nobody": []}):
        with pytest.raises(InputError):
            Encoding.from_json(domain, encoding.to_json() | {"merged": odd})


# --- measuring ---


def test_swap_stable_and_flip_stable_are_told_apart():
    domain = PEOPLE.with_twins("sex: Male<->Female, relationship: Husband<->Wife")
    table = pd.DataFrame(
        {
            "relationship": ["Husband", "Wife", "Other", "Own-child"],
            "age": [30, 40, 50, 60],
            "score": [0.0, 0.5, 1.0, 1.5],
            "owner": [True, False, True, False],
            "sex": ["Male", "Female", "Male", "Female"],
            "band": [1, 2, 3, 1],
        }
    )

    def husbands_are_granted(people):
        return ((people["relationship"] == "Husband") | (people["age"] > 55)).to_numpy()

    same = metrics.survives_every_change(husbands_are_granted, table, domain)
    assert same.tolist() == [False, False, True, True]
    assert metrics.survives_every_change(husbands_are_granted, table, domain).mean() == 0.5
    assert metrics.survives_every_change(husbands_are_granted, table, domain, declared=False).mean() == 1.0


def test_a_mirrored_sensitive_number_must_keep_to_the_combinations():
    age = IntegerFeature(name="age", low=20, high=60)
    some = Domain(features=(age, IntegerFeature(name="n", low=0, high=4)), sensitive=("age",))
    kept = some.with_sensitive(["age"], [[20], [30], [50], [60]]).with_twins("age: -x+80, n: -x+4")
    assert Versions(kept).size == 8
    with pytest.raises(InputError, match=r"turns \[30\] of 'age' into \[50\], which is not among the combinations"):
        some.with_sensitive(["age"], [[20], [30], [60]]).with_twins("age: -x+80, n: -x+4")
