"""A report says what its document says: every part, in words and numbers that claim no more than was found."""

import dataclasses
import json
import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bornfair.core.errors import InputError
from bornfair.models.verdict import Verdict
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, IntegerFeature, RealFeature
from bornfair.report import (
    Comparison,
    Document,
    DomainFacts,
    Estimate,
    Group,
    GroupMetrics,
    Histogram,
    HistoryPoint,
    Metrics,
    Pair,
    People,
    Proxy,
    Report,
    Shares,
    charts,
    from_json,
    to_html,
    to_json,
    to_markdown,
)
from bornfair.report.formatting import percent, readable
from bornfair.report.verdict_text import verdict_sentence
from report_examples import ANNA, BOB, DOMAIN, EXAMPLES, HOSTILE, Page, everything, fair, many_features, undecided

pytestmark = pytest.mark.slow

UNDECIDED = Verdict("undecided", "none", "bounds", (), "the time is up")
BOTH_WAYS = {"html": to_html, "markdown": to_markdown}


def spaced(text):
    return " ".join(text.split())


def words(document):
    return Page(to_html(document)).text


# --- the verdict ---


def test_the_verdict_is_one_sentence_on_top():
    plain = dataclasses.replace(everything(), domain=dataclasses.replace(DOMAIN, twins=()), people=None)
    assert verdict_sentence(plain) == (
        "Not fair: sex alone changes the decision for some people. Here are two who show it."
    )
    counted = dataclasses.replace(plain, people=People(3_164, 38))
    assert verdict_sentence(counted).replace("\xa0", " ") == (
        "Not fair: 1.2 % (38 of 3,164) of the people in the table would be decided otherwise with another value of sex."
    )
    nobody = verdict_sentence(dataclasses.replace(plain, people=People(3_164, 0)))
    assert "none of the 3,164 people in the table would be decided otherwise" in nobody
    assert verdict_sentence(fair()) == "Fair: sex never changes the decision, for anyone who could exist."
    assert verdict_sentence(undecided()).startswith("Undecided: whether sex can change a decision is neither")
    assert "with what the declared rules change along" in verdict_sentence(everything())


def test_nobody_is_announced_who_is_not_shown():
    bare = Document(Verdict("falsified", "none", "attack", ("float32",), "found"))
    assert "Here are two" not in words(bare) and "first person" not in words(bare)


def test_an_undecided_model_with_unfair_rows_is_not_called_harmless():
    found = dataclasses.replace(undecided(), people=People(100, 3))
    assert "but 3.0 % (3 of 100) of the people in the table would be decided otherwise" in words(found)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("way", BOTH_WAYS)
def test_every_example_is_written_the_same_way_twice(name, way):
    one, other = (BOTH_WAYS[way](EXAMPLES[name]()) for _ in range(2))
    assert one == other and len(one) > 500


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_page_is_whole_and_loads_nothing(name):
    text = to_html(EXAMPLES[name]())
    found = Page(text)
    tags = {tag for tag, _ in found.tags}
    assert tags.isdisjoint({"script", "img", "iframe", "link", "object", "form", "base"})
    loading = {"src", "srcset", "action", "style", "xlink:href"}
    assert not any(loading & set(given) or any(name.startswith("on") for name in given) for _, given in found.tags)
    assert all(given["href"].startswith("#") for _, given in found.tags if "href" in given)
    assert not re.search(r"url\(|@import", text)


def test_every_part_of_a_document_is_told():
    text = words(everything())
    for sentence in (
        "census-mlp.onnx",
        "16 November 2026",
        "Proven fair: 81.2 %",
        "Proven unfair: 0.0004 %",
        "Unfair: about 3.12 % (2.79 % to 3.48 % with 95 % confidence). 10,000 people were drawn at random.",
        "Decided otherwise than a twin: between 3.10 % and 3.15 % of people as in the data (confidence 99.9999 %); of "
        "these 0.0004 % proven.",
        "7.0 % (1,057 of 15,060) of the people in the test table would be decided otherwise with another value of sex",
        "40 of 15,100 people are left out: they have gaps (occupation 40) that the model does not say how to fill in.",
        "Of 15 people sex is not known: they are judged as every value, and belong to no group.",
        "Every combination of values is counted alike, whether or not such people exist.",
        "validation rows, which said when to stop 2,600",
        "bornfair audit census-mlp.onnx --data people.csv --target income --sensitive sex",
        "Row 17 · sex Female → Male · decision <=50K → >50K · score gap 0.420",
        "What would undo it: capital-gain up from 5,178 to 6,100",
        "And 2 more, in the report's JSON form.",
        "capital-gain ≥ 7 and relationship in {Husband, Wife}",
        "31.0 % (27.0 % to 36.0 %)",
        "'>50K' is taken as the favourable decision; --favourable names another.",
        "8.1 % of Female and 26.2 % of Male get the favourable decision, 18.1 points apart: an impact ratio of 0.31, "
        "below the four fifths of the US rule of thumb.",
        "Husband occurs with Male only (13,193 of 13,193 rows)",
        "Declare the swap",
        "Repair changed 4.1 % of the decisions.",
        "−0.19 points",
        "or by the declared rules: sex: Male ↔ Female, relationship: Husband ↔ Wife",
        "about 7.2 trillion people",
        "bornfair check BUNDLE",
        "Here the declared rule carries the relationship along.",
    ):
        assert sentence in text, sentence


def test_what_is_not_in_the_document_leaves_no_section():
    assert Page(to_html(Document(UNDECIDED))).headings == ["What exactly was asked", "What this report does not say"]


def test_the_limits_fit_what_the_report_holds():
    plain = words(Document(UNDECIDED))
    assert "Undecided does not mean unfair" in plain and "Nothing is claimed in any arithmetic" in plain
    assert "Estimates." not in plain and "accuracy is not part of the verdict" in plain
    whole = words(everything())
    assert "The features listed above carry the sensitive value" in whole and "never a proof" in whole
    assert "how many more there are is not counted" not in whole
    exact = Document(dataclasses.replace(fair().verdict, arithmetic=("real",)))
    assert "A computer rounds" in words(exact) and "A computer rounds" not in words(fair())


def test_a_measurement_that_got_less_far_than_the_proof_says_so():
    assert "The proof of the verdict covers everyone" in words(dataclasses.replace(fair(), shares=Shares(0.9, 0.0)))
    assert "covers everyone" not in words(undecided())


def test_contradictions_are_pointed_out_not_smoothed_over():
    claimed = dataclasses.replace(fair(), shares=Shares(0.9, 0.1), people=People(10, 1))
    assert "Both cannot be true" in words(claimed) and "outside the domain, or decided in another" in words(claimed)
    sampled = dataclasses.replace(undecided(), shares=Shares(0.9, 0.0, Estimate(0.5, 0.4, 0.6)))
    assert "the proof counts" in words(sampled)
    other = dataclasses.replace(everything(), certificate=dataclasses.replace(fair().certificate, verdict="verified"))
    assert "The certificate says verified, this examination falsified." in words(other)
    for document in (fair(), everything(), undecided()):
        assert 'class="warning"' not in to_html(document)


# --- twins ---


def test_long_lists_of_shared_features_are_folded_away_but_there():
    found = Page(to_html(many_features()))
    assert "The 199 features they share" in found.text
    assert found.row("measurement_000_of_the_laboratory")[0] == "mark"
    assert found.row("measurement_150_of_the_laboratory")[1][1] == str(round(0.123456789 * 150, 6))
    first = found.text.index("measurement_000")
    assert first < found.text.index("decision: ill") < found.text.index("The 199 features")


def test_twins_given_with_scores_replace_the_same_twins_without():
    pairs = everything().pairs
    assert len(pairs) == 2 and pairs[0].scores == (0.4471, 0.5523)
    assert Document(everything().verdict).pairs == (Pair((ANNA, BOB), ("<=50K", ">50K")),)


def test_twins_of_a_verdict_are_shown_only_when_it_is_falsified():
    kept = dataclasses.replace(UNDECIDED, twins=[ANNA, BOB], decisions=["a", "b"])
    assert Document(kept).pairs == ()


# --- numbers ---


@given(st.floats(0, 1))
def test_a_percentage_never_rounds_to_nothing_or_to_all(share):
    text = percent(share)
    assert (text == "0\u00a0%") == (share == 0) and (text == "100\u00a0%") == (share == 1)


@given(st.floats(1e-5, 1 - 1e-5))
def test_proven_shares_are_rounded_down_and_open_ones_up(share):
    low, high = (float(percent(share, way).removesuffix("\u00a0%")) / 100 for way in ("down", "up"))
    assert low <= share * (1 + 1e-12) and high >= share * (1 - 1e-12)
    assert high - low <= 0.0011


@pytest.mark.parametrize("share", [1e-9, 4e-6, 0.0004])
def test_tiny_shares_stay_visible_in_the_chart_and_in_numbers(share):
    shares = Shares(1 - share, share)
    document = Document(UNDECIDED, shares=shares)
    assert f"Proven unfair: {spaced(percent(share, 'down'))}" in words(document)
    (width,) = re.findall(r'class="unfair"[^>]*width="([\d.]+)"', charts.shares_bar(740, shares))
    assert float(width) >= charts.SMALLEST


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6).filter(any), st.sampled_from([330, 740]))
def test_the_parts_of_a_bar_fill_it(shares, width):
    spans = charts.visible_spans(shares, width)
    assert sum(spans) == pytest.approx(width) and all(span > 0 for span, s in zip(spans, shares, strict=True) if s > 0)


# --- charts ---


@given(st.lists(st.tuples(st.text(max_size=40), st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12))
def test_labels_of_points_never_overlap_each_other_or_a_point(points):
    places = [(60 + 600 * x, 40 + 250 * y) for _, x, y in points]
    found = charts.place_labels(places, [name for name, _, _ in points], (0, 0, 740, 320))
    if found is not None:
        boxes = [box for text, box in found if text]
        around = [(x - 5, y - 5, x + 5, y + 5) for x, y in places]
        assert not any(charts._overlap(one, other) for one, other in combinations(boxes, 2))
        assert not any(charts._overlap(box, point) for box in boxes for point in around)


def test_models_in_one_place_are_numbered_instead_of_named():
    points = [(f"a model with a rather long name, {i}", 0.5 + i / 1000, 0.5) for i in range(9)]
    drawn = charts.scatter(330, points, list(range(1, 10)), "x", "y")
    labels = re.findall(r'<text x="[\d.]+" y="[\d.]+" text-anchor="\w+">([^<]*)</text>', drawn)
    assert labels == [str(i) for i in range(1, 10)]


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.floats(0, 1)), st.one_of(st.none(), st.floats(0, 1))), min_size=1, max_size=8
    ),
    st.lists(st.integers(0, 10**9), min_size=1, max_size=9),
    st.floats(1e-6, 1e6),
)
def test_charts_stay_inside_their_frame(history, counts, width):
    edges = tuple(width * i for i in range(len(counts) + 1))
    document = Document(
        UNDECIDED,
        score_gaps=Histogram(edges, tuple(counts)),
        history=tuple(HistoryPoint(i + 1, right, same) for i, (right, same) in enumerate(history)),
        shares=Shares(0.5, 0.5, Estimate(history[0][0] or 0.0, 0.0, 1.0)),
    )
    page = to_html(document)
    for picture in re.findall(r'<svg class="(?:broad|slim)".*?</svg>', page):
        wide, tall = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)[0])
        for name, value in re.findall(r' (x|y|x1|x2|y1|y2|cx|cy)="([^"]*)"', picture):
            assert -0.01 <= float(value) <= (wide if "x" in name else tall) + 0.01
        assert all(float(size) >= 0 for size in re.findall(r' (?:width|height)="([^"]*)"', picture))


def test_every_chart_has_words_and_the_long_ones_their_numbers():
    found = Page(to_html(everything()))
    told_charts = [given["aria-label"] for _, given in found.tags if given.get("role") == "img"]
    assert len(told_charts) == 6 and all(len(text) > 30 for text in told_charts)
    assert sum(tag == "summary" for tag, _ in found.tags) > 4 and found.text.count("The numbers") == 2
    assert all(given.get("aria-hidden") == "true" for tag, given in found.tags if tag == "svg")


def test_long_histories_are_thinned_and_say_so():
    history = tuple(HistoryPoint(i, 0.5 + i / 10_000, 1.0) for i in range(1, 1002))
    text = words(Document(UNDECIDED, history=history))
    assert "One epoch in 6 is shown." in text and "Lines over 1,001 epochs" in to_html(
        Document(UNDECIDED, history=history)
    )
    page = Page(to_html(Document(UNDECIDED, history=history)))
    assert page.row("1,001")[1][1] == percent(0.6001)


def test_what_could_not_be_measured_leaves_a_dash_not_a_broken_chart():
    history = (HistoryPoint(1, float("nan"), 1.0), HistoryPoint(2, 0.5, None, float("nan")))
    proxies = (Proxy("a", None), Proxy("b", float("nan")))
    page = to_html(Document(UNDECIDED, history=history, proxies=proxies, metrics=Metrics(float("nan"))))
    assert "nan" not in page.lower().replace("nanum", "") and Page(page).row("b")[1][1] == "–"


# --- several models ---


def test_a_comparison_tells_each_model_and_draws_those_measured_alike():
    page = to_html(EXAMPLES["comparison"]())
    found = Page(page)
    assert "Of 4 models, 2 are proven fair, 1 is not fair and 1 is undecided." in found.text
    assert found.headings[:2] == ["Side by side", "Fairness against accuracy"]
    assert spaced(found.row("3. plain training")[1][1]) == "✗ Falsified"
    picture = re.findall(r'<svg class="broad".*?</svg>', page)[0]
    assert all(f">{name}</text>" in picture for name in ("bornfair", "sex dropped", "plain training", "penalised"))


def test_a_chart_never_mixes_proven_shares_with_counted_rows():
    models = [
        Document(UNDECIDED, model="a", shares=Shares(0.5, 0.0), metrics=Metrics(0.8)),
        Document(UNDECIDED, model="b", people=People(10, 1), metrics=Metrics(0.8)),
    ]
    assert "Fairness against accuracy" not in words(Comparison(tuple(models)))


def test_a_comparison_needs_models_with_names_of_their_own():
    with pytest.raises(InputError, match="two models or more, found 1"):
        Comparison((fair(),))
    with pytest.raises(InputError, match="a name of its own"):
        Comparison((fair(), fair()))


# --- hostile and odd texts ---


def test_hostile_texts_stay_texts_on_the_page():
    page = to_html(EXAMPLES["hostile"]())
    found = Page(page)
    assert "<script" not in page and "\u202e" not in page and "<td></table>" not in page
    written = HOSTILE.replace("\n", r"\n").replace("\u202e", r"\u202e")
    assert found.text.count(written) > 30
    assert found.row("s" + written)[1][2] == "</td></table>"


@given(st.text(max_size=30))
def test_any_text_comes_out_of_the_page_as_it_went_in(text):
    seen = readable(text)
    row = Page(to_html(Document(UNDECIDED, proxies=(Proxy(text, 0.7),)))).rows
    assert any((seen or "(no name)") in "".join(cells[:1]) for _, cells in row) or seen.strip() == ""


def blocks_of(card):
    parser = MarkdownIt("commonmark").enable("table")
    return parser.parse(card)


@pytest.mark.parametrize("name", EXAMPLES)
def test_cards_are_markdown_whose_only_html_folds(name):
    tokens = blocks_of(to_markdown(EXAMPLES[name]()))
    raw = [token.content for token in tokens if token.type == "html_block"]
    assert all(re.fullmatch(r"<details><summary>[^<>]*</summary>\n?|</details>\n?", text) for text in raw)
    inner = [child.type for token in tokens for child in token.children or []]
    assert not {"html_inline", "link_open", "image"} & set(inner)


def test_cells_of_a_card_hold_what_the_cells_of_the_page_hold():
    document = dataclasses.replace(EXAMPLES["hostile"](), domain=None)
    tokens = blocks_of(to_markdown(document))
    cells = [
        "".join(child.content for child in tokens[i + 1].children)
        for i, token in enumerate(tokens)
        if token.type == "td_open"
    ]
    written = HOSTILE.replace("\n", r"\n").replace("\u202e", r"\u202e")
    assert written in cells and f"s{written}" in cells and "</td></table>" in cells
    widths = [sum(t.type in ("td_open", "th_open") for t in row) for row in rows_of(tokens)]
    assert set(widths) <= {3, 4, 6} and len(widths) > 10


def rows_of(tokens):
    rows, row = [], []
    for token in tokens:
        row = [] if token.type == "tr_open" else [*row, token]
        if token.type == "tr_close":
            rows.append(row)
    return rows


@given(st.text(alphabet="ab1 .-+#|*_`<>[]()!&\\~$=:\n", max_size=20))
def test_any_text_in_a_card_reads_as_itself(text):
    tokens = blocks_of(to_markdown(Document(UNDECIDED, suggestions=(text,), groups=(Group(text, 0.5),))))
    contents = [
        "".join(child.content for child in token.children)
        for token in tokens
        if token.type == "inline" and token.children
    ]
    seen = readable(text).strip()
    assert not seen or contents.count(seen) == 2
    assert not [token for token in tokens if token.type in ("html_block", "fence", "code_block")]


# --- as JSON ---


@pytest.mark.parametrize("name", EXAMPLES)
def test_json_holds_everything_and_reads_back(name):
    document = EXAMPLES[name]()
    written = json.loads(json.dumps(to_json(document), allow_nan=False))
    again = from_json(written)
    assert to_json(again) == written and to_html(again) == to_html(document)


def test_numpy_numbers_are_plain_in_json():
    document = Document(
        UNDECIDED,
        metrics=Metrics(np.float32(0.5), rows=np.int64(3)),
        group_metrics=(GroupMetrics("a", 1, float("nan")),),
    )
    written = to_json(document)
    assert written["metrics"]["accuracy"] == 0.5 and type(written["metrics"]["rows"]) is int
    assert written["group_metrics"][0]["selection_rate"] is None and "–" in words(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "a report's JSON form says 'bornfair-report/1'"),
        ({"shares": {"certified": 0.5}}, "report.shares: .*falsified"),
        ({"shares": 3}, "report.shares: found 3"),
        ({"shares": {"certified": 0.5, "falsified": 0.5}}, "report.shares: .*undecided"),
        ({"shares": {"certified": 0.5, "falsified": 0.5, "undecided": 0.5}}, "sum to 1, found 1.5"),
        ({"groups": [{"text": "all", "share": 1.0}]}, "'share' is not a field of it; the fields are 'text', 'covers'"),
        ({"sharse": None}, "'sharse' is not a field of it"),
        ({"history": {}}, "report.history: found {}; give a list"),
        ({"verdict": {"verdict": "fine", "proof": "none", "engine": "", "arithmetic": [], "reason": ""}}, "'fine'"),
    ],
)
def test_json_that_is_no_report_is_refused_by_name(change, message):
    with pytest.raises(InputError, match=message):
        from_json(to_json(Document(UNDECIDED)) | change)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shares(1.5, -0.5), "certified of shares: found 1.5; give a share from 0 to 1"),
        (lambda: Shares(float("nan"), 0.0), "certified of shares: found nan"),
        (lambda: Estimate(0.5, 0.6, 0.7), "found 0.5 outside 0.6 to 0.7"),
        (lambda: Group("all", 1.5), "share of group: found 1.5"),
        (lambda: Histogram((0.0, 1.0), (1, 2)), "2 edges .* and 2 counts"),
        (lambda: Histogram((0.0, 1.0), (-1,)), "found -1"),
        (lambda: People(3, 4), "4 of 3"),
        (lambda: Pair(({},)), "two people, found 1"),
        (lambda: Pair(({}, {}), ("a",)), "1 given for 2 people"),
        (lambda: Metrics(accuracy=85.0), "accuracy of metrics: found 85.0"),
        (lambda: Document(dataclasses.replace(UNDECIDED, proof="trust")), "found 'trust'"),
    ],
)
def test_nonsense_is_refused_where_it_enters(make, message):
    with pytest.raises(InputError, match=message):
        make()


# --- the domain, the notebook, the file ---


def test_a_domain_tells_how_many_people_could_exist():
    sex = CategoricalFeature(name="sex", categories=("f", "m"))
    few = Domain(features=(IntegerFeature(name="age", low=18, high=99), sex), sensitive=("sex",))
    assert DomainFacts.of(few).people == "164 people" and DomainFacts.of(few).sensitive_values == 2
    many = Domain(features=(*(IntegerFeature(name=f"n{i}", low=-(10**15), high=10**15) for i in range(300)), sex))
    assert DomainFacts.of(many).people == "about 10⁴⁵⁹¹ people"
    real = Domain(features=(RealFeature(name="x", low=0, high=1), sex), sensitive=("sex",))
    assert "1 feature takes any real value" in DomainFacts.of(real).people


def test_declared_rules_reach_the_report():
    ways = CategoricalFeature(name="is", categories=("Husband", "Wife", "Other"))
    sex = CategoricalFeature(name="sex", categories=("Female", "Male"))
    domain = Domain(features=(ways, sex), sensitive=("sex",)).with_twins("sex: Male<->Female, is: Husband<->Wife")
    facts = DomainFacts.of(domain)
    assert len(facts.twins) == 1 and "is: Husband<->Wife" in facts.twins[0]
    assert "is: Husband<->Wife" in words(Document(UNDECIDED, domain=facts))


def test_a_notebook_gets_a_frame_of_its_own():
    shown = Report(everything())._repr_html_()
    found = Page(shown)
    assert [tag for tag, _ in found.tags] == ["iframe"] and found.words == []
    frame = found.tags[0][1]
    assert frame["srcdoc"] == to_html(everything()) and frame["sandbox"] == ""


@pytest.mark.parametrize(("ending", "start"), [("html", "<!DOCTYPE html>"), ("md", "# Income"), ("JSON", "{\n")])
def test_the_ending_says_how_a_report_is_saved(tmp_path, ending, start):
    place = Report(everything()).save(tmp_path / f"report.{ending}")
    assert place.read_text(encoding="utf-8").startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [f"report.{ending}"]


def test_other_endings_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"ends in '.pdf'; a report is saved as .html, .md or .json"):
        Report(fair()).save(tmp_path / "report.pdf")


def test_half_a_letter_can_be_saved(tmp_path):
    odd = Document(dataclasses.replace(UNDECIDED, reason="half a pair: \ud800"))
    assert r"half a pair: \ud800" in Report(odd).save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert json.loads(Report(odd).save(tmp_path / "a.json").read_text(encoding="utf-8"))["verdict"]["reason"]


def test_the_chart_of_several_models_shows_people_and_not_what_was_proven_in_time():
    facts = {"shares": Shares(0.01, 0.0), "people": People(1_000, 10), "metrics": Metrics(0.9, rows=1_000)}
    hurried = dataclasses.replace(undecided(), model="hurried", **facts)
    plain = dataclasses.replace(hurried, model="plain", people=People(1_000, 300), metrics=Metrics(0.91, rows=1_000))
    both = Comparison((hurried, plain))
    labels = [found["aria-label"] for _, found in Page(to_html(both)).tags if "aria-label" in found]
    chart = next(text for text in labels if text.startswith("Chart of")).replace("\xa0", " ")
    assert "hurried: 99.0 %, accuracy 90.0 %; plain: 70.0 %, accuracy 91.0 %" in chart
    people = "Between 1.0 % and 30.0 % of the people in the table, depending on the model,"
    assert f"{people} would be decided otherwise" in words(both)


def test_groups_of_a_report_are_read_back():
    again = from_json(to_json(everything()))
    assert again == everything() and again.group_metrics[2].small and again.gaps.unknown == {"sex": 15}
