"""The certificate as a page: it says what the JSON says, to people, and a column's name stays a name."""

import base64
import copy
import hashlib
import re

import pytest

from bornfair.people.domain import Domain
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.report import render
from bornfair.report.verdict_text import BEYOND_DOMAIN
from report_examples import Page

DOMAIN = Domain(
    features=(
        IntegerFeature(name="age", low=18, high=99),
        RealFeature(name="income", low=-0.5, high=70.25),
        CategoricalFeature(name="job", categories=("clerk", "nurse")),
        BooleanFeature(name="owner"),
        CategoricalFeature(name="sex", categories=("female", "male")),
        RealFeature(name="tone", low=0.0, high=1.0, grid=5),
    ),
    sensitive=("sex", "tone"),
    label=Label(name="grant", classes=("no", "yes")),
)
CERTIFICATE = {
    "format": "bornfair-certificate/2",
    "claim": "Two individuals who differ only in sex and tone always get the same decision.",
    "verdict": "verified",
    "proof": "structural",
    "arithmetic": ["real", "float32"],
    "reason": "all first-layer weights on the sensitive codes are 0",
    "property": {
        "relation": "flip",
        "sensitive": ["sex", "tone"],
        "sensitive_values": 10,
        "statement": "decision(x, s) = decision(x, t)",
    },
    "files": {"model.onnx": "a1" * 32, "domain.json": "b2" * 32},
    "tree": None,
    "twins": None,
    "decisions": None,
    "search": {"engine": "structural", "partitions": 1, "boxes": 1},
    "start": {"attempts": [{"number": 1, "verdict": "verified", "proof": "structural", "reason": ""}]},
    "response": {"mode": "expected", "gamma": 0.0, "draws": 1, "local_privacy": "complete: never read"},
    "training": {
        "plan": {"optimiser": "adamw", "learning_rate": 0.001, "batch_size": 32, "seed": 7, "epochs": 60},
        "epochs_run": 12,
        "best_epoch": 2,
        "sensitive_weights_untouched": True,
        "history": [{"epoch": i, "loss": 0.5, "validation_accuracy": 0.5 + i / 100} for i in range(1, 13)],
    },
    "versions": {"bornfair": "0.1.0", "numpy": "2.4"},
    "sha256": "c3" * 32,
}
PERSON = {"age": 30, "income": 12.5, "job": "nurse", "owner": False, "sex": "female", "tone": 0.25}
FALSIFIED = {
    "claim": "The model is not fair: two individuals who differ only in sex and tone get different decisions.",
    "verdict": "falsified",
    "proof": "none",
    "arithmetic": ["float32"],
    "reason": "samples of the domain; 4,096 people tried",
    "twins": [PERSON, PERSON | {"sex": "male"}],
    "decisions": ["no", "yes"],
    "search": {"engine": "attack", "partitions": 1, "boxes": 1},
}
BOUNDS = {
    "proof": "bounds",
    "tree": [["age", 40], 1, ["job", ["clerk"]], "same", {"each": 0}],
    "search": {"engine": "bounds", "partitions": 1, "boxes": 1234},
}
UNDECIDED = {
    "claim": "Nothing about fairness is certified: the time is up.",
    "verdict": "undecided",
    "proof": "none",
    "arithmetic": [],
    "reason": "the time is up",
}
FOREIGN = {"start": {}, "response": {}, "training": {}}
VARIANTS = {"verified": {}, "falsified": FALSIFIED, "bounds": BOUNDS, "undecided": UNDECIDED, "foreign": FOREIGN}


def changed(**changes):
    return copy.deepcopy(CERTIFICATE) | copy.deepcopy(changes)


def page(domain=DOMAIN, **changes):
    return Page(render(changed(**changes), domain))


# --- what it says ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_claim_files_and_limits_stand_on_every_page(variant):
    found = page(**VARIANTS[variant])
    certificate = changed(**VARIANTS[variant])
    for words in (
        certificate["claim"],
        certificate["reason"],
        "a1" * 32,
        "b2" * 32,
        "c3" * 32,
        "bornfair check BUNDLE",
        "python checker.py BUNDLE",
        "Proxies.",
        "Groups.",
        "People outside the domain.",
        "bornfair 0.1.0, numpy 2.4",
    ):
        assert words in found.text


@pytest.mark.parametrize("proof", ["verified", "bounds"])
def test_the_page_of_a_proof_names_the_same_condition_on_float32_sums_as_its_claim(proof):
    text = page(**VARIANTS[proof]).text
    assert "where the sums of both people are added up in the same order" in text
    assert "whatever the order" not in text
    assert "whatever the order in which sums are added up" in page(**VARIANTS["falsified"]).text


def test_the_page_says_of_people_outside_the_domain_what_drift_says():
    covered, not_covered = BEYOND_DOMAIN, "Values that the domain does not list are not covered"
    structural = page(**VARIANTS["verified"]).text
    assert covered in structural and not_covered not in structural
    for variant in ("bounds", "falsified", "undecided"):
        text = page(**VARIANTS[variant]).text
        assert not_covered in text and covered not in text


@pytest.mark.parametrize(
    ("variant", "badge"),
    [("verified", "✓ Verified"), ("falsified", "✗ Falsified"), ("undecided", "? Undecided")],
)
def test_the_verdict_is_a_word_before_it_is_a_colour(variant, badge):
    text = page(**VARIANTS[variant]).text
    assert badge in text
    assert all(other not in text for other in {"✓ Verified", "✗ Falsified", "? Undecided"} - {badge})


def test_sections_come_in_the_order_in_which_questions_arise():
    assert page(**FALSIFIED).headings == [
        "The two people",
        "What exactly was shown",
        "Who could exist",
        "How it was made",
        "While it learnt",
        "Files, and how to check them",
        "What this report does not say",
    ]
    assert page(**FOREIGN).headings[0] == "What exactly was proven" and len(page(**FOREIGN).headings) == 5


def test_twins_stand_side_by_side_with_what_differs_marked_in_words_and_colour():
    found = page(**FALSIFIED)
    assert found.row("sex") == ("mark", ["sex", "female", "male", "≠ differs"])
    assert found.row("decision: grant") == ("mark final", ["decision: grant", "no", "yes", "≠ differs"])
    assert found.row("tone") == ("", ["tone", "0.25", "0.25", "= same"])
    assert found.row("owner") == ("", ["owner", "false", "false", "= same"])
    names = [cells[0] for _, cells in found.rows]
    assert names[:8] == ["feature", "sex", "age", "income", "job", "owner", "tone", "decision: grant"]


def test_twins_are_shown_only_for_a_falsified_model():
    for variant in ("verified", "bounds", "undecided"):
        assert "first person" not in page(**VARIANTS[variant]).text


def test_the_domain_is_a_table_of_everybody_who_could_exist():
    found = page()
    assert found.row("age") == ("", ["age", "integer", "whole numbers from 18 to 99", "no"])
    assert found.row("income") == ("", ["income", "real", "-0.5 to 70.25", "no"])
    assert found.row("job") == ("", ["job", "categorical", "clerk, nurse", "no"])
    assert found.row("owner") == ("", ["owner", "boolean", "false, true", "no"])
    assert found.row("sex") == ("mark", ["sex", "categorical", "female, male", "yes"])
    assert found.row("tone") == ("mark", ["tone", "real", "0.0 to 1.0, every value", "yes"])
    assert "What is decided: grant, one of no and yes." in found.text


def test_long_lists_of_categories_are_cut_and_counted():
    many = CategoricalFeature(name="town", categories=tuple(f"t{i}" for i in range(1500)))
    cells = page(DOMAIN.replaced(features=[*DOMAIN.features, many])).row("town")[1]
    assert cells[2].endswith("t39 and 1,460 more")


def test_combinations_and_a_missing_label_are_told():
    domain = DOMAIN.with_sensitive(["sex", "owner"], [["female", False], ["male", True]]).replaced(label=None)
    text = page(domain).text
    assert "Only 2 combinations of sensitive values exist" in text and "What is decided" not in text


def test_terms_are_explained_in_plain_sentences():
    text = page().text
    assert "the sensitive values cannot reach the decision" in text
    assert "Exact: the weights" in text and "Float32: the model as computers run it" in text
    assert "sex and tone (a real number among them takes every value of its range)" in text
    listed = page(DOMAIN.with_sensitive(["sex", "owner"])).text
    assert "(4 possible values taken together)" in listed
    assert "decision(x, s) = decision(x, t)" in text
    undecided = page(**UNDECIDED).text
    assert "Nothing is claimed in any arithmetic." in undecided and "does not mean unfair" in undecided
    assert "Exact: the weights" not in page(**FALSIFIED).text


def test_a_proof_by_bounds_tells_its_leaves():
    text = page(**BOUNDS).text
    assert "3 parts, one for each leaf of the proof tree" in text and "1,234 parts of the domain looked at" in text
    assert "1 part, one for each leaf" in page(**(BOUNDS | {"tree": [0]})).text
    assert "leaf of the proof tree" not in page().text


def test_how_it_was_made_is_told_as_recorded_not_proven():
    text = page().text
    for words in (
        "Recorded by the training program, not proven.",
        "Proven fair before training began (structural proof; 1 network drawn).",
        "expected response, γ = 0",
        "complete: never read",
        "12 epochs run, the network after epoch 2 was kept.",
        "optimiser adamw, learning rate 0.001, batch size 32, seed 7",
        "52.0 %",
        "were not touched by training",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"mode": "none", "gamma": 0.0, "draws": 1}, "The true sensitive values were used"),
        ({"mode": "sampled", "gamma": 0.5, "draws": 3}, "sampled response, γ = 0.5, 3 draws for each row and step"),
    ],
)
def test_other_responses_are_named(response, words):
    assert words in page(response=response, start={}).text
    assert "was not proven fair" in page(response=response, start={}).text


def test_a_model_from_elsewhere_has_no_history():
    assert "this model was not trained by bornfair" in page(**FOREIGN).text


def test_a_domain_without_sensitive_features_is_said_to_have_none():
    nothing = {"relation": "flip", "sensitive": [], "sensitive_values": 1, "statement": "s"}
    assert "None were named." in page(DOMAIN.with_sensitive([]), **(UNDECIDED | {"property": nothing})).text


def test_a_title_takes_the_place_of_the_general_one():
    assert "Fairness certificate" in render(CERTIFICATE, DOMAIN)
    titled = render(CERTIFICATE, DOMAIN, title="Loans <2025>")
    assert "<title>✓ Verified: Loans &lt;2025&gt;</title>" in titled and "Fairness certificate" not in titled


# --- what it must never do ---

HOSTILE = "<script>alert('x')</script>\"&\u202e"


def hostile_domain():
    features = (
        IntegerFeature(name=HOSTILE, low=0, high=1),
        CategoricalFeature(name=f"s{HOSTILE}", categories=(HOSTILE, "")),
    )
    label = Label(name=HOSTILE + "y", classes=(HOSTILE, "</td></table>"))
    return Domain(features=features, sensitive=(f"s{HOSTILE}",), label=label)


def hostile_certificate():
    """Every text replaced, wherever it stands, except the words the page knows."""

    def spoil(value):
        if isinstance(value, str):
            return HOSTILE
        if isinstance(value, dict):
            return {key: spoil(item) for key, item in value.items()}
        return [spoil(item) for item in value] if isinstance(value, list) else value

    certificate = spoil(changed(**FALSIFIED))
    certificate |= {"verdict": "falsified", "proof": "none", "arithmetic": ["real"]}
    certificate |= {"files": {HOSTILE: HOSTILE}, "versions": {HOSTILE: HOSTILE}}
    one = {HOSTILE: 1, f"s{HOSTILE}": HOSTILE}
    return certificate | {"twins": [one, one | {f"s{HOSTILE}": ""}], "decisions": [HOSTILE, "</td></table>"]}


def test_hostile_texts_stay_texts():
    text = render(hostile_certificate(), hostile_domain(), title=HOSTILE)
    found = Page(text)
    assert {tag for tag, _ in found.tags}.isdisjoint({"script", "img", "iframe", "link", "object", "form"})
    assert {given["href"][0] for tag, given in found.tags if tag == "a"} == {"#"}
    assert "<script" not in text and "\u202e" not in text
    assert r"<script>alert('x')</script>\"&\u202e".replace('\\"', '"') in found.text
    assert found.row("s" + HOSTILE.replace("\u202e", r"\u202e"))[1][2] == "(empty text)"
    attributes = {name for _, given in found.tags for name in given}
    assert attributes <= {
        "lang", "charset", "name", "content", "http-equiv", "class", "scope", "tabindex", "role", "aria-label", "id",
        "aria-labelledby", "aria-hidden", "href", "data-label", "viewbox", "points", "text-anchor", "x", "y", "x1",
        "x2", "y1", "y2", "cx", "cy", "r", "width", "height",
    }  # fmt: skip


def test_texts_that_no_file_can_hold_are_written_out():
    render(changed(reason="half a pair: \ud800"), DOMAIN).encode()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_page_is_whole_html_that_loads_nothing(variant):
    text = render(changed(**VARIANTS[variant]), DOMAIN)
    found = Page(text)
    assert text.startswith("<!DOCTYPE html>\n") and text.endswith("</html>\n")
    assert [tag for tag, _ in found.tags].count("h1") == 1
    assert not re.search(r"https?:|//|url\(|@import|src=|href=[^\"]|href=\"[^#]|\son\w+=|\sstyle=", text)
    policy = next(given["content"] for tag, given in found.tags if given.get("http-equiv"))
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_every_link_leads_somewhere_on_the_page():
    found = page(**FALSIFIED)
    targets = {given["id"] for _, given in found.tags if "id" in given}
    links = [given["href"][1:] for tag, given in found.tags if tag == "a"]
    assert len(links) > 4 and set(links) <= targets
    assert len(targets) == sum("id" in given for _, given in found.tags)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_certificate_gives_the_same_bytes_and_stays_as_it_was(variant):
    certificate = changed(**VARIANTS[variant])
    before = copy.deepcopy(certificate)
    assert render(certificate, DOMAIN).encode() == render(certificate, DOMAIN).encode()
    assert certificate == before


# --- how it looks ---


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_text_can_be_read_in_light_dark_and_on_paper():
    """WCAG AA: a contrast of 4.5 for text."""
    roots = re.findall(r":root \{([^}]*)\}", render(CERTIFICATE, DOMAIN))
    assert len(roots) == 3
    for root in roots:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", root))
        grounds = [colours[name] for name in ("page", "panel", "mark")]
        inks = ("ink", "soft", "accent")
        assert all(contrast(colours[ink], ground) >= 4.5 for ink in inks for ground in grounds)
        badges = [colours[name] for name in ("verified", "falsified", "undecided")]
        assert all(contrast("#ffffff", badge) >= 4.5 for badge in badges)
        assert contrast(colours["fair"], colours["panel"]) >= 4.5  # a label of a line, too
        parts = ("unfair", "bar", "soft")
        assert all(contrast(colours[part], colours["panel"]) >= 3 for part in parts)
