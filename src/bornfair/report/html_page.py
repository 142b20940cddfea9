"""A story as one HTML file that loads nothing and runs nothing. Every text is escaped here, and only here."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable

from bornfair.report import charts
from bornfair.report.blocks import (
    Aside,
    Block,
    Cell,
    Chart,
    Code,
    Commands,
    Fold,
    Heading,
    Items,
    Key,
    Meter,
    Quiet,
    Row,
    Section,
    Story,
    Table,
    Terms,
    Text,
    Tiles,
)
from bornfair.report.style import STYLE
from bornfair.report.words import BADGES, visible

BROAD, SLIM = 740, 330  # pixels for which charts are drawn: a page, a phone
LONGEST_WORD = 20  # letters of a word in a table that are kept together
LEAST_FOR_CONTENTS = 4  # sections from which a list of them is worth its place


def html_page(story: Story) -> str:
    """The whole file; the same story gives the same bytes."""
    # Only this very style sheet is allowed: no scripts, no fonts, no requests, no styles smuggled in.
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    badge = "" if story.verdict is None else f'<p class="badge {story.verdict}">{BADGES[story.verdict]}</p>\n'
    title = story.title if story.verdict is None else f"{BADGES[story.verdict]}: {story.title}"
    lead = "\n".join(_block(block) for block in story.lead)
    body = "\n".join(_section(section) for section in story.sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{_text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<div class="frame">
<header>
<p class="about">{_text(story.about)}</p>
{badge}<h1>{_text(story.headline)}</h1>
<div class="lead">
{lead}
</div>
</header>
{_contents(story.sections)}<main id="content">
{body}
</main>
<footer><p>{_text(story.footer)}</p></footer>
</div>
</body>
</html>
"""


def _contents(sections: Iterable[Section]) -> str:
    listed = list(sections)
    if len(listed) < LEAST_FOR_CONTENTS:
        return ""
    items = "".join(f'<li><a href="#{section.name}">{_text(section.title)}</a></li>' for section in listed)
    return f'<nav aria-label="Contents">\n<p>In this report</p>\n<ol>{items}</ol>\n</nav>\n'


def _section(section: Section) -> str:
    content = "\n".join(_block(block) for block in section.blocks)
    return (
        f'<section id="{section.name}" aria-labelledby="{section.name}-title">\n'
        f'<h2 id="{section.name}-title">{_text(section.title)}</h2>\n{content}\n</section>'
    )


def _block(block: Block) -> str:
    match block:
        case Text(text, kind):
            marked = f' class="{kind}"' if kind else ""
            return f"<p{marked}>{_text(text)}</p>"
        case Heading(text):
            return f"<h3>{_text(text)}</h3>"
        case Terms(pairs):
            terms = "\n".join(f"<dt>{_text(name)}</dt><dd>{_cell(text)}</dd>" for name, text in pairs)
            return f'<dl class="terms">{terms}</dl>'
        case Items(pairs):
            items = "\n".join(f"<li><strong>{_text(name)}</strong> {_text(text)}</li>" for name, text in pairs)
            return f"<ul>{items}</ul>"
        case Commands(lines):
            return "\n".join(f"<pre><code>{_text(line)}</code></pre>" for line in lines)
        case Tiles(tiles):
            shown = "\n".join(
                f'<div><dt>{_text(label)}</dt><dd><div class="value">{_text(value)}</div>'
                f'<div class="means">{_text(meaning)}</div></dd></div>'
                for label, value, meaning in tiles
            )
            return f'<dl class="tiles">\n{shown}\n</dl>'
        case Key(parts):
            items = "".join(
                f"<li>{charts.swatch(kind)}<span>{_text(name)}: <strong>{_text(value)}</strong></span></li>"
                for kind, name, value in parts
            )
            return f'<ul class="key">{items}</ul>'
        case Aside(title, blocks):
            content = "\n".join(_block(inner) for inner in blocks)
            named = f'role="group" aria-label="{_text(title)}"'
            return f'<div class="aside" {named}>\n<h3>{_text(title)}</h3>\n{content}\n</div>'
        case Fold(summary, blocks, kind):
            content = "\n".join(_block(inner) for inner in blocks)
            marked = f' class="{kind}"' if kind else ""
            return f"<details{marked}><summary>{_text(summary)}</summary>\n{content}\n</details>"
        case Chart():
            return _chart(block)
        case Table():
            return _table(block)


def _chart(chart: Chart) -> str:
    pictures = [
        chart.draw(width).replace("<svg ", f'<svg class="{kind}" ', 1)
        for kind, width in (("broad", BROAD), ("slim", SLIM))
    ]
    told = f'<div role="img" aria-label="{_text(chart.told)}">{"".join(pictures)}</div>'
    caption = f"<figcaption>{_text(chart.caption)}</figcaption>" if chart.caption else ""
    numbers = "" if chart.numbers is None else "\n" + _block(Fold("The numbers", (chart.numbers,), "numbers"))
    return f"<figure>{told}{caption}</figure>{numbers}"


def _table(table: Table) -> str:
    numeric = [' class="number"' if i in table.numbers else "" for i in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{kind}>{_text(name)}</th>' for name, kind in zip(table.columns, numeric, strict=True)
    )
    caption = f"<caption>{_text(table.caption)}</caption>" if table.caption else ""
    rows = "\n".join(_row(row, table) for row in table.rows)
    # Focusable, so that a table wider than the screen can be scrolled with the keyboard too.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="table: {_text(", ".join(table.columns))}">\n'
        f'<table class="{table.shape}">{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'
    )


def _row(row: Row, table: Table) -> str:
    kinds = " ".join(kind for kind, wanted in (("mark", row.mark), ("final", row.final)) if wanted)
    long = ' class="long"' if _is_long(row.cells[0]) else ""
    cells = [f'<th scope="row"{long}>{_cell(row.cells[0])}</th>']
    last = len(row.cells) - 1
    for i, cell in enumerate(row.cells[1:], start=1):
        classes = ["number"] if i in table.numbers else ["note"] if table.shape == "twins" and i == last else []
        if isinstance(cell, Quiet) or cell in ("", "–"):
            classes.append("quiet")
        if _is_long(cell):
            classes.append("long")
        marked = f' class="{" ".join(classes)}"' if classes else ""
        label = f' data-label="{_text(table.columns[i])}"' if table.shape == "stack" else ""
        cells.append(f"<td{marked}{label}>{_cell(cell)}</td>")
    attribute = f' class="{kinds}"' if kinds else ""
    return f"<tr{attribute}>{''.join(cells)}</tr>"


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
