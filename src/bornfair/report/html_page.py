"""The contents of a report as one HTML file that loads nothing and runs nothing.

Every text is escaped here, and only here.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable
from importlib import resources

from bornfair.report import charts
from bornfair.report.blocks import (
    Block,
    BlockGroup,
    Cell,
    Chart,
    Code,
    Contents,
    Listing,
    Meter,
    Quiet,
    Row,
    Table,
    Text,
)
from bornfair.report.formatting import MISSING, visible

BROAD, SLIM = 740, 330  # pixels for which charts are drawn: a page, a phone
LONGEST_WORD = 20  # letters of a word in a table that are kept together
LEAST_FOR_CONTENTS = 4  # sections from which a list of them is worth its place

STYLE = resources.files("bornfair.report").joinpath("style.css").read_text("utf-8")
# Only this very style sheet is allowed: no scripts, no fonts, no requests, no styles smuggled in.
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
TAGS = {"": "<p>{}</p>", "heading": "<h3>{}</h3>", "command": "<pre><code>{}</code></pre>"}
LISTINGS = {
    "terms": ('<dl class="terms">{}</dl>', "<dt>{name}</dt><dd>{text}</dd>"),
    "points": ("<ul>{}</ul>", "<li><strong>{name}</strong> {text}</li>"),
    "tiles": (
        '<dl class="tiles">\n{}\n</dl>',
        '<div><dt>{name}</dt><dd><div class="value">{text}</div><div class="means">{more}</div></dd></div>',
    ),
    "key": ('<ul class="key">{}</ul>', "<li>{swatch}<span>{name}: <strong>{text}</strong></span></li>"),
}
ASIDE = '<div class="aside" role="group" aria-label="{title}">\n<h3>{title}</h3>\n{content}\n</div>'
FOLD = "<details{classes}><summary>{title}</summary>\n{content}\n</details>"
SECTION = """<section id="{name}" aria-labelledby="{name}-title">
<h2 id="{name}-title">{title}</h2>
{content}
</section>"""


def html_page(contents: Contents) -> str:
    """The whole file; the same contents give the same bytes."""
    badge = f'<p class="badge {contents.verdict}">{_text(contents.badge)}</p>\n' if contents.badge else ""
    title = f"{contents.badge}: {contents.title}" if contents.badge else contents.title
    sections = contents.sections
    links = "".join(f'<li><a href="#{section.name}">{_text(section.title)}</a></li>' for section in sections)
    listed = f'<nav aria-label="Contents">\n<p>In this report</p>\n<ol>{links}</ol>\n</nav>\n'
    body = "\n".join(
        SECTION.format(name=section.name, title=_text(section.title), content=_blocks(section.blocks))
        for section in sections
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{_text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<div class="frame">
<header>
<p class="about">{_text(contents.about)}</p>
{badge}<h1>{_text(contents.headline)}</h1>
<div class="lead">
{_blocks(contents.lead)}
</div>
</header>
{listed if len(sections) >= LEAST_FOR_CONTENTS else ""}<main id="content">
{body}
</main>
<footer><p>{_text(contents.footer)}</p></footer>
</div>
</body>
</html>
"""


def _blocks(blocks: Iterable[Block]) -> str:
    return "\n".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    match block:
        case Text(text, kind):
            return TAGS.get(kind, f'<p class="{kind}">{{}}</p>').format(_text(text))
        case Listing(kind, entries):
            whole, each = LISTINGS[kind]
            written = (
                each.format(
                    name=_text(name), text=_cell(text), more=_text(more),
                    swatch=charts.swatch(more) if kind == "key" else "",
                )
                for name, text, more in entries
            )  # fmt: skip
            return whole.format("\n".join(written))
        case BlockGroup(title, inner, kind):
            classes = _classes(**{kind: kind != "fold"})
            template = ASIDE if kind == "aside" else FOLD
            return template.format(title=_text(title), content=_blocks(inner), classes=classes)
        case Chart():
            return _chart(block)
        case Table():
            return _table(block)


def _chart(chart: Chart) -> str:
    pictures = [
        chart.draw(width).replace("<svg ", f'<svg class="{kind}" ', 1)
        for kind, width in (("broad", BROAD), ("slim", SLIM))
    ]
    caption = f"<figcaption>{_text(chart.caption)}</figcaption>" if chart.caption else ""
    return f'<figure><div role="img" aria-label="{_text(chart.words)}">{"".join(pictures)}</div>{caption}</figure>'


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_classes(number=i in table.numbers)}>{_text(name)}</th>'
        for i, name in enumerate(table.columns)
    )
    caption = f"<caption>{_text(table.caption)}</caption>" if table.caption else ""
    rows = "\n".join(_row(row, table) for row in table.rows)
    # Focusable, so that a table wider than the screen can be scrolled with the keyboard too.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="table: {_text(", ".join(table.columns))}">\n'
        f'<table class="{table.shape}">{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'
    )


def _row(row: Row, table: Table) -> str:
    first, *others = row.cells
    cells = [f'<th scope="row"{_classes(long=_is_long(first))}>{_cell(first)}</th>']
    for i, cell in enumerate(others, start=1):
        classes = _classes(
            number=i in table.numbers,
            note=table.shape == "twins" and i == len(others),
            quiet=isinstance(cell, Quiet) or cell in ("", MISSING),
            long=_is_long(cell),
        )
        label = f' data-label="{_text(table.columns[i])}"' if table.shape == "stack" else ""
        cells.append(f"<td{classes}{label}>{_cell(cell)}</td>")
    return f"<tr{_classes(mark=row.mark, final=row.final)}>{''.join(cells)}</tr>"


def _classes(**wanted: bool) -> str:
    names = " ".join(name for name, want in wanted.items() if want)
    return f' class="{names}"' if names else ""


def _cell(cell: Cell) -> str:
    if isinstance(cell, Meter):
        picture = charts.meter(cell.value, cell.low, cell.high)
        more = f' <span class="metered">{_text(cell.more)}</span>' if cell.more else ""
        return f'<span class="metered">{picture}{_text(cell.text)}</span>{more}'
    if isinstance(cell, Code):
        return f"<code>{_text(cell)}</code>"
    return "<br>".join(_text(line) for line in cell.split("\n"))


def _is_long(cell: Cell) -> bool:
    """Whether a word in it is so long that it must be broken somewhere; others never are."""
    return isinstance(cell, str) and any(len(word) > LONGEST_WORD for word in cell.split())


def _text(text: str) -> str:
    return html.escape(visible(text))
