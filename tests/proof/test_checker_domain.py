"""The checker reads domain.json as strictly as the product does, and a claim about nobody is no claim."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections import Counter

import pytest

from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.proof import checker
from bornfair.proof.bundle import bundle_files
from bundle_cases import Forgery, answer, bundle, hand_made
from forgeries import json_places

pytestmark = pytest.mark.slow

SEX = CategoricalFeature(name="sex", categories=("Female", "Male"))
SEEN = (
    IntegerFeature(name="age", low=18, high=60),
    RealFeature(name="income", low=0.5, high=8.0, grid=5),
    CategoricalFeature(name="job", categories=("clerk", "nurse", 3, 0.5)),
    BooleanFeature(name="owner"),
    SEX,
    CategoricalFeature(name="race", categories=("a", "b", "c")),
)
LABEL = Label(name="grant", classes=("no", "yes"))


def domains() -> list[dict]:
    """Domains as the product writes them: without and with rules, over all or some combinations."""
    plain = Domain(features=SEEN, sensitive=("sex", "race"), label=LABEL)
    some = plain.with_sensitive(["sex", "age"], [["Male", 20], ["Female", 20], ["Male", 58]])
    ruled = plain.with_twins("sex: Male<->Female, owner: True<->False; job: clerk->nurse->3->clerk; income: -x+8.5")
    bare = Domain(features=SEEN)
    real = plain.with_sensitive(["income"])
    moved = some.with_sensitive(["race"], [["a"], ["b"]]).with_twins("race: a<->b, job: clerk<->nurse")
    return [json.loads(domain.text()) for domain in (plain, some, ruled, bare, real, moved)]


def reads(data: dict) -> str | None:
    """Why the checker refuses a domain; None if it does not."""
    try:
        checker.Individuals(checker.parse_json(json.dumps(data).encode(), "domain.json"))
    except (checker.Rejected, *checker.MALFORMED) as error:
        return str(error)
    return None


def product_reads(data: dict) -> bool:
    try:
        Domain.from_json(json.dumps(data))
    except InputError:
        return False
    except (IndexError, OverflowError, UnicodeEncodeError):  # refused too, if not in a sentence
        return False
    return True


SPOILED = (
    None, True, False, 0, 1, -1, 2, 17, 5000, 0.5, 1.0, 20.0, 1e300, -0.0, "", "x", "sex", "race", "age", "job",
    "income", "Male", "a", "grant", "real", "integer", "boolean", "categorical", "cycles", "mirror", "carried", [], {},
    ["a"], ["Male"], [["Male"]], [["a", "b"]], ["sex"], ["income"], ["no", "yes"], "ab", "\ud800",
)  # fmt: skip


def spoiled(data: dict, chance: random.Random) -> None:
    """One value, anywhere, is another, gone, doubled, or in another place."""
    holder, key = chance.choice(list(json_places(data)))
    what = chance.randrange(6)
    if what == 0 and isinstance(holder, dict):
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder[chance.choice(["grid", "low", "high", "categories", "name", "total", "x"])] = chance.choice(SPOILED)
    elif what == 2 and isinstance(holder, list):
        holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(chance.choice(holder)))
    elif what == 3 and isinstance(holder, list):
        del holder[key]
    elif what == 4:
        other, place = chance.choice(list(json_places(data)))
        holder[key] = copy.deepcopy(other[place])
    else:
        holder[key] = copy.deepcopy(chance.choice(SPOILED))


def test_whatever_the_product_refuses_as_a_domain_the_checker_refuses():
    known, outcomes = domains(), Counter()
    for seed in range(8000):
        chance = random.Random(seed)
        data = copy.deepcopy(known[seed % len(known)])
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            spoiled(data, chance)
        if not isinstance(data, dict):
            continue
        ours, theirs = reads(data) is None, product_reads(data)
        assert theirs or not ours, (seed, data)
        outcomes[ours, theirs] += 1
    assert outcomes[True, True] > 500 and outcomes[False, False] > 3000


def test_the_checker_reads_every_domain_that_the_product_writes():
    assert [reads(data) for data in domains()] == [None] * len(domains())
    for seed in range(300):
        data = copy.deepcopy(domains()[seed % len(domains())])
        chance = random.Random(seed)
        spoiled(data, chance)
        if product_reads(data) and "ud800" not in json.dumps(data):  # half a character is in no ONNX file
            again = json.loads(Domain.from_json(json.dumps(data)).text())
            assert reads(again) is None or "no range" in str(reads(again)), seed  # which must be within 2^1000


# --- claims about nobody ---


def reading_sex() -> Forgery:
    """A model that grants to men only, called fair by a forger."""
    few = IntegerFeature(name="n", low=0, high=3)
    model = hand_made((few, SEX), ("sex",), [([[0.0, 5.0]], [0.0]), ([[1.0]], [0.0])])
    forgery = Forgery.of(bundle_files(model))
    return forgery.claim("verified", "structural", ["real", "float32"])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([["Male"], ["Male"]], "nobody has a twin"),
        ([["Male"]], "nobody has a twin"),
        ([], "nobody has a twin"),
        ([["Male"], ["Female"], ["Male"]], "listed twice"),
        ([["Male"], ["Female"]], "tells sex 'Female' from 'Male'"),
        (None, "tells sex 'Female' from 'Male'"),
    ],
)
def test_a_model_that_reads_sex_is_not_fair_because_few_combinations_are_listed(rows, reason):
    for arithmetic in (["real", "float32"], ["real"]):
        forgery = reading_sex().claim("verified", "structural", arithmetic)
        forgery.domain["combinations"] = rows
        forgery.certificate["property"]["sensitive_values"] = 2 if rows is None else len(rows)
        found = answer(forgery.restated().sealed())
        assert not found["valid"] and reason in found["reason"]


def test_a_sensitive_feature_of_one_value_beside_another_is_refused():
    ones = [{"kind": "categorical", "categories": ["Male"]}, {"kind": "integer", "low": 3, "high": 3}]
    for one in [*ones, {"kind": "real", "low": 3.0, "high": 3.0, "grid": 17}]:
        data = copy.deepcopy(domains()[0])
        data["features"][4] = {"name": "sex"} | one
        assert "nobody has a twin" in reads(data)


def test_a_value_that_is_not_listed_cannot_reach_the_decision_either():
    """The codes of two races are alike, so weights cancel among them; a race that is not listed gets another sum."""
    forgery = Forgery.of(bundle("cancelling"))
    table = forgery.constant("codes of race")
    table[:] = table[0]
    forgery.put("codes of race", table)
    weights = forgery.constant("weight 0")
    weights[:, 1:] = [1.0, 2.0, 4.0]
    forgery.put("weight 0", weights)
    assert answer(forgery.restated().sealed())["valid"]
    node = next(node for node in forgery.model.graph.node if node.output[0] == "one-hot race")
    next(a for a in node.attribute if a.name == "zeros").i = 1
    found = answer(forgery.restated().sealed())
    assert not found["valid"] and "from a value not listed" in found["reason"]


def test_a_model_of_which_nothing_is_sensitive_cannot_be_verified():
    forgery = Forgery.of(bundle("ignoring"))
    forgery.domain["sensitive"] = []
    owner = next(item for item in forgery.model.graph.input if item.name == "owner")
    forgery.domain["features"] = [f for f in forgery.domain["features"] if f["name"] != "owner"]
    forgery.model.graph.input.remove(owner)
    for proof, tree in (("structural", None), ("bounds", ["same"])):
        found = answer(forgery.claim("verified", proof, ["real", "float32"], tree).restated().sealed())
        assert not found["valid"] and "nothing to verify" in found["reason"]


def test_a_rule_that_makes_a_combination_that_does_not_exist_is_refused():
    data = copy.deepcopy(domains()[-1])
    assert reads(data) is None and product_reads(data)  # races a and b exist, and change places
    data["twins"][0][0]["cycles"] = [["a", "c"]]
    assert "combination that does not exist" in str(reads(data)) and not product_reads(data)


def test_twins_whose_combination_does_not_exist_disprove_nothing():
    race = CategoricalFeature(name="race", categories=("a", "b", "c"))
    model = hand_made((race,), ("race",), [([[8.0, 0.0, 0.0]], [0.0]), ([[1.0]], [-1.0])])
    forgery, kinds = Forgery.of(bundle_files(model)), ["real", "float32"]
    forgery.claim("falsified", "none", kinds, twins=[{"race": "a"}, {"race": "c"}], decisions=["yes", "no"])
    assert answer(forgery.restated().sealed())["valid"]
    for rows, valid in [([["a"], ["c"]], True), ([["a"], ["b"]], False), ([["b"], ["c"]], False)]:
        forgery.domain["combinations"] = rows
        found = answer(forgery.restated().sealed())
        assert found["valid"] == valid and (valid or "such twins do not exist" in found["reason"])


# --- real-valued sensitive features ---


def of_income(shape: list, bias: float) -> Forgery:
    """A model of one sensitive number in [0, 1]: hidden neurons of (weight, bias, weight in the sum)."""
    income = RealFeature(name="income", low=0.0, high=1.0)
    first = [[0.0, w] for w, _, _ in shape]
    layers = [(first, [b for _, b, _ in shape]), ([[out for *_, out in shape]], [bias])]
    model = hand_made((IntegerFeature(name="n", low=0, high=1), income), ("income",), layers)
    return Forgery.of(bundle_files(model))


def test_every_value_of_a_real_valued_feature_counts_not_those_of_a_grid():
    """A narrow peak between two of the 17 levels of its grid: all of those are decided alike."""
    code = 1 / 16  # the code goes from -1 to 1, so levels are an eighth apart
    peak = [(64.0, -64.0 * code, 1.0), (64.0, -64.0 * code - 0.5, -2.0), (64.0, -64.0 * code - 1.0, 1.0)]
    forgery = of_income(peak, -0.25)
    for leaf in (0, {"each": 0}, "exact", "same"):
        for arithmetic in (["real"], ["real", "float32"]):
            claim = forgery.claim("verified", "bounds", arithmetic, [leaf])
            found = answer(claim.restated().sealed())
            assert not found["valid"] and "is not proven" in found["reason"]


def test_a_proof_for_each_piece_of_a_range_covers_all_of_it():
    """Bounds over the whole range are too wide; over its pieces they are not."""
    valley = [(1.0, 0.0, 1.0), (-1.0, 0.0, 1.0)]  # the size of the code
    forgery = of_income(valley, -1.5)
    assert not answer(forgery.claim("verified", "bounds", ["real"], [1]).restated().sealed())["valid"]
    found = answer(forgery.claim("verified", "bounds", ["real", "float32"], [{"each": 0}]).restated().sealed())
    assert found["valid"]
    people = checker.Individuals(copy.deepcopy(forgery.domain))
    pieces = [view["income"] for view in people.views()]
    assert pieces[0][0] == 0.0 and pieces[-1][1] == 1.0
    assert all(one[1] == other[0] for one, other in itertools.pairwise(pieces))


def test_the_values_of_a_real_valued_feature_are_not_counted():
    people = checker.Individuals(domains()[4])
    assert checker.property_of(people)["sensitive_values"] is None
    listed = checker.Individuals(domains()[1])
    assert checker.property_of(listed)["sensitive_values"] == 3
