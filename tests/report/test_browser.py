"""Reports in a real browser: they fit a phone and a desk, in light and dark, complain of nothing and ask for nothing.

Needs Chromium. Where there is none these tests are skipped with that reason, unless CI or BORNFAIR_NEED_BROWSER=1 says
that there must be one.
"""

import os

import pytest

from bornfair.report import Report, to_html
from browser import browsing, find_browser
from report_examples import EXAMPLES

pytestmark = pytest.mark.slow

WIDTHS = (320, 360, 800, 1200, 1500)
# Elements that reach beyond the right edge of the page and are not inside something that scrolls by itself.
STICKING_OUT = """
[...document.querySelectorAll('body *')].filter(element => {
  const box = element.getBoundingClientRect();
  return box.width && box.right > innerWidth + 1 && !element.closest('.scroll, pre, .skip')
}).map(element => element.tagName + ' ' + element.textContent.slice(0, 40))
"""
# Tables that are cut off inside their own scroller.
CUT_OFF = """
[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel)
"""
# Texts of charts that overlap each other, in pictures that are shown.
OVERLAPS = """
[...document.querySelectorAll('figure svg')].filter(s => s.getBoundingClientRect().width).flatMap(picture => {
  const texts = [...picture.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  const frame = picture.getBoundingClientRect();
  const cut = texts.filter(([_, b]) => b.left < frame.left - 1 || b.right > frame.right + 1).map(([t]) => 'cut: ' + t);
  return cut.concat(texts.flatMap(([t, a], i) => texts.slice(i + 1).filter(([u, b]) =>
    a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom).map(([u]) => t + ' / ' + u)))
})
"""


@pytest.fixture(scope="module")
def browser():
    program = find_browser()
    if program is None:
        reason = "there is no Chromium here; install it (Debian: apt-get install chromium)"
        if os.environ.get("CI") or os.environ.get("BORNFAIR_NEED_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with browsing(program) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name, make in EXAMPLES.items():
        (folder / f"{name}.html").write_text(to_html(make()), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_report_fits_every_width_and_asks_for_nothing(browser, pages, name):
    for scheme in ("light", "dark"):
        browser.open(pages[name], width=WIDTHS[0], scheme=scheme)
        assert browser.complaints() == []
        assert browser.requests() == [pages[name].as_uri()]
        for width in WIDTHS:
            browser.look(width=width, scheme=scheme)
            assert browser.value("document.documentElement.scrollWidth") <= width, (width, scheme)
            assert browser.value(STICKING_OUT) == [], (width, scheme)
            if name != "hostile":
                assert browser.value(OVERLAPS) == [], (width, scheme)
                assert width != 1200 or browser.value(CUT_OFF) == [], scheme


def test_what_matters_is_on_the_screen(browser, pages):
    browser.open(pages["everything"])
    text = browser.value("document.body.innerText")
    for sentence in (
        "of the people in the test table would be decided otherwise with another value of sex, or with what",
        "By sex and race",
        "Every combination of values is counted alike, whether or not such people exist.",
        "Estimate, not a proof",
        "What this report does not say",
        "bornfair check BUNDLE",
    ):
        assert sentence in text
    twins = "document.querySelector('#twins').innerText"
    assert "native-country" not in browser.value(twins)  # folded away until somebody opens it
    browser.value("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert "native-country" in browser.value(twins)
    assert browser.value("document.documentElement.scrollWidth") == 1200


def test_names_that_look_like_markup_are_shown_as_names(browser, pages):
    browser.open(pages["hostile"], width=360)
    text = browser.value("document.body.innerText")
    assert "<script>alert('x')</script>" in text and r"\u202e" in text
    assert browser.value("document.scripts.length") == 0


def test_the_policy_of_the_page_stops_what_does_not_belong_to_it(browser, pages, tmp_path):
    spoilt = (
        pages["fair"]
        .read_text(encoding="utf-8")
        .replace("</body>", "<style>h1 { color: red }</style><script>document.title = 'run'</script></body>")
    )
    (tmp_path / "spoilt.html").write_text(spoilt, encoding="utf-8")
    browser.open(tmp_path / "spoilt.html")
    assert browser.value("document.title").startswith("✓ Verified")
    assert browser.value("getComputedStyle(document.querySelector('h1')).color") == "rgb(29, 34, 39)"
    assert len(browser.complaints()) >= 2


def test_dark_is_dark_and_paper_is_light(browser, pages):
    browser.open(pages["fair"], scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert browser.value(colour) == "rgb(17, 20, 23)"
    browser.look(width=1200, scheme="light")
    assert browser.value(colour) == "rgb(246, 246, 244)"
    browser.look(width=720, scheme="dark", media="print")
    assert browser.value(colour) == "rgb(255, 255, 255)"
    shown = "getComputedStyle(document.querySelector('nav')).display"
    assert browser.value(shown) == "none"


def test_on_paper_the_features_twins_share_are_there(browser, pages):
    browser.open(pages["everything"], width=720, media="print")
    height = "document.querySelector('#twins details .scroll').getBoundingClientRect().height"
    assert browser.value(height) > 100
    assert browser.value("document.documentElement.scrollWidth") == 720
    browser.look(width=720)
    assert browser.pdf().startswith(b"%PDF-")


def test_a_notebook_keeps_its_own_looks(browser, tmp_path):
    notebook = tmp_path / "notebook.html"
    cell = Report(EXAMPLES["fair"]())._repr_html_()
    notebook.write_text(f"<!DOCTYPE html><title>n</title><h1>mine</h1><p class='badge'>b</p>{cell}", encoding="utf-8")
    browser.open(notebook, width=900)
    looks = "['h1', 'p'].map(t => getComputedStyle(document.querySelector(t)).fontFamily + document.styleSheets.length)"
    framed = browser.value(looks)
    assert len(set(framed)) == 1 and framed[0].endswith("0")
    assert browser.value("document.querySelector('iframe').getBoundingClientRect().height") > 300
    assert browser.complaints() == []
