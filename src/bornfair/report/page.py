"""What does the certificate say, for somebody who does not read JSON? One page without scripts or anything to load.

The page proves nothing: it repeats certificate.json and domain.json in words and says how to check them. Every text
that comes from outside passes through `_text`, so that a column's name stays a name.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from bornfair.domain import NUMERIC, Domain, Feature

MOST_CATEGORIES = 40  # shown by name for one feature; the file has them all
BADGES = {"verified": "✓ Verified", "falsified": "✗ Falsified", "undecided": "? Undecided"}

STYLE = """
:root { color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --soft: #555d66; --line: #cfd5dc; --panel: #f4f6f8; --mark: #fff0c2; --bar: #9a6700;
  --verified: #14653a; --falsified: #a3201b; --undecided: #6b4e00; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171b; --ink: #e7eaee; --soft: #a9b2bc; --line: #3b434c; --panel: #1e2329; --mark: #3d3213; --bar: #e0b040;
  --verified: #1d7d4b; --falsified: #bd342c; --undecided: #856200; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: clamp(1.35rem, 1rem + 2vw, 2.1rem); line-height: 1.3; margin: .75rem 0 1rem; }
h1, h2, p, li, dt, dd, caption { overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p, ul { margin: .5rem 0; max-width: 44rem; }
.about { color: var(--soft); margin: 0; }
.badge { display: inline-block; margin: 1rem 0 0; padding: .3rem .8rem; border: 2px solid transparent;
  border-radius: .4rem; color: #ffffff; font-weight: 700; letter-spacing: .03em; }
.verified { background: var(--verified); } .falsified { background: var(--falsified); }
.undecided { background: var(--undecided); }
.wide { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .7rem; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; min-width: 5.5rem; }
thead th { border-bottom-width: 2px; white-space: nowrap; }
tbody th { font-weight: 600; min-width: 12rem; overflow-wrap: break-word; }
tr.marked > * { background: var(--mark); }
tr.marked > :first-child { box-shadow: inset .25rem 0 0 var(--bar); }
.note, .kind { white-space: nowrap; } tr.marked .note { font-weight: 700; }
tr.decision > * { border-top: 2px solid var(--ink); font-weight: 700; }
dl { margin: .75rem 0; } dt { font-weight: 600; margin-top: .75rem; } dd { margin: .1rem 0 0; max-width: 44rem; }
code { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .7rem .9rem;
  overflow-x: auto; }
footer { margin-top: 3rem; color: var(--soft); font-size: .9rem; }
@media (min-width: 48rem) { dl { display: grid; grid-template-columns: 14.5rem 1fr; gap: .6rem 1.25rem; }
  dt, dd { margin: 0; } }
@media (max-width: 36rem) {  /* rows become small blocks: name and mark above, values below */
  main { padding: 1.25rem 1rem 3rem; } table, caption, thead, tbody { display: block; }
  tr { display: grid; grid-template-columns: 1fr auto; padding: .3rem 0; border-bottom: 1px solid var(--line); }
  th, td { min-width: 0; border: 0; padding: .1rem .5rem; } tbody th { min-width: 0; }
  tr > :last-child { grid-area: 1 / 2; } .quiet, .people thead { display: none; }
  .twins tr { grid-template-columns: 1fr 1fr; } .twins tr > :last-child { text-align: right; }
  .twins thead th:first-child, .twins thead th:last-child { display: none; }
  .people td:not(.note) { grid-column: 1 / -1; } .kind { color: var(--soft); }
  tr.marked { background: var(--mark); box-shadow: inset .25rem 0 0 var(--bar); }
  tr.marked > * { background: none; } tr.marked > :first-child { box-shadow: none; }
  tr.decision { border-top: 2px solid var(--ink); } tr.decision > * { border-top: 0; } }
@media print {
  :root { --page: #ffffff; --ink: #000000; --soft: #333333; --line: #999999; --panel: #ffffff; --mark: #ffffff;
    --bar: #000000; }
  body { font-size: 10pt; } main { max-width: none; padding: 0; } .wide, pre { overflow: visible; }
  .badge { background: none; color: #000000; border-color: #000000; }
  pre { white-space: pre-wrap; } h2, dt { break-after: avoid; } tr, dd, li { break-inside: avoid; }
}
"""


def render(certificate: dict[str, Any], domain: Domain, *, title: str | None = None) -> str:
    """A certificate (as JSON) and its domain as one HTML page; the same input gives the same bytes."""
    heading = _text(title or "Fairness certificate")
    verdict = certificate["verdict"]
    sections = [
        _twins(certificate, domain),
        _meaning(certificate),
        _people(domain),
        _making(certificate),
        _checking(certificate),
        _limits(verdict),
    ]
    body = "\n".join(section for section in sections if section)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{_text(BADGES[verdict])}: {heading}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<p class="about">{heading}</p>
<p class="badge {verdict}">{BADGES[verdict]}</p>
<h1>{_text(certificate["claim"])}</h1>
</header>
{body}
<footer><p>{_made_with(certificate)}</p></footer>
</main>
</body>
</html>
"""


# --- the twins ---


def _twins(certificate: dict[str, Any], domain: Domain) -> str:
    if certificate["verdict"] != "falsified" or not certificate["twins"]:
        return ""
    one, other = certificate["twins"][:2]
    unlike = [name for name in domain.names if one.get(name) != other.get(name)]
    alike = [name for name in domain.names if name not in unlike]
    rows = [_twin_row(name, one.get(name), other.get(name), marked=name in unlike) for name in (*unlike, *alike)]
    if certificate["decisions"]:
        label = "decision" if domain.label is None else f"decision: {domain.label.name}"
        rows.append(_twin_row(label, *certificate["decisions"][:2], marked=True, kind="decision"))
    table = _table(
        ("feature", "first person", "second person", "compared"),
        rows,
        "What differs comes first and is marked ≠.",
        kind="twins",
    )
    return _section(
        "The two people",
        "<p>They are the same person but for the marked features, and the model decides differently. "
        "Both were run through the model again, from the values below, before this was written.</p>" + table,
    )


def _twin_row(name: str, one: Any, other: Any, *, marked: bool, kind: str = "") -> str:
    classes = " ".join(filter(None, ["marked" if marked else "", kind]))
    attribute = f' class="{classes}"' if classes else ""
    note = "≠ differs" if marked else "= same"
    return (
        f'<tr{attribute}><th scope="row">{_text(name)}</th><td>{_value(one)}</td><td>{_value(other)}</td>'
        f'<td class="note">{note}</td></tr>'
    )


# --- what it means ---

PROOFS = {
    "structural": "Structural: the sensitive values cannot reach the decision. What the network computes from them is "
    "the same for all of them from the first layer on, whatever the rest of the person is.",
    "bounds": "By bounds: everybody who could exist was divided into parts, and in each part bounds that cover every "
    "rounding show that all twins get the same decision.",
    "none": "None. There is nothing here that a checker could follow to a statement of fairness.",
}
ARITHMETIC = {
    "real": "Exact: the weights are taken as the numbers they are and nothing is rounded.",
    "float32": "Float32: the network as computers run it, whatever the order in which sums are added up.",
}


def _meaning(certificate: dict[str, Any]) -> str:
    asked, search, verdict = certificate["property"], certificate["search"], certificate["verdict"]
    title = {
        "verified": "What exactly was proven",
        "falsified": "What exactly was shown",
        "undecided": "What exactly was asked",
    }[verdict]
    names = ", ".join(_text(name) for name in asked["sensitive"])
    values = f"{names} ({_count(asked['sensitive_values'], 'possible value')} taken together)"
    terms = [
        ("Twins", "Two individuals who agree in everything except the sensitive features."),
        ("Sensitive features", values if names else "None were named."),
        (
            "Individually fair",
            f"Twins always get the same decision: <code>{_text(asked['statement'])}</code>.",
        ),
        (
            "Arithmetic",
            "<br>".join(ARITHMETIC[kind] for kind in certificate["arithmetic"])
            or "Nothing is claimed in any arithmetic.",
        ),
    ]
    if verdict != "falsified":
        terms.append(("Proof", PROOFS[certificate["proof"]]))
    if certificate["tree"]:
        # A binary tree listed node by node has one leaf more than it has cuts, whatever its leaves look like.
        leaves = (len(certificate["tree"]) + 1) // 2
        terms.append(("Size of the proof", f"{_count(leaves, 'part')}, one for each leaf of the proof tree."))
    terms.append(("Reported by the engine", _reported(certificate["reason"], search)))
    return _section(title, _definitions(terms))


def _reported(reason: str, search: dict[str, Any]) -> str:
    boxes = search.get("boxes", 0)
    looked = f" ({_count(boxes, 'part')} of the domain looked at)" if boxes > 1 else ""
    return f"<code>{_text(search.get('engine', 'unknown'))}</code>: {_text(reason)}{looked}"


# --- who could exist ---


def _people(domain: Domain) -> str:
    rows = []
    for feature in domain.features:
        sensitive = feature.name in domain.sensitive
        marked = ' class="marked"' if sensitive else ""
        note = '<td class="note">yes, sensitive</td>' if sensitive else '<td class="note quiet">no</td>'
        rows.append(
            f'<tr{marked}><th scope="row">{_text(feature.name)}</th><td class="kind">{feature.kind}</td>'
            f"<td>{_range(feature, sensitive)}</td>{note}</tr>"
        )
    text = (
        "<p>The statement is about every individual of this domain, whether or not such a person is in any table.</p>"
    )
    text += _table(("feature", "kind", "possible values", "sensitive?"), rows, kind="people")
    if domain.combinations is not None:
        text += (
            f"<p>Only {_count(len(domain.combinations), 'combination')} of sensitive values exist; "
            "<code>domain.json</code> lists them.</p>"
        )
    if domain.label is not None:
        classes = ", ".join(_value(item) for item in domain.label.classes)
        text += f"<p>What is decided: <strong>{_text(domain.label.name)}</strong>, one of {classes}.</p>"
    return _section("Who could exist", text)


def _range(feature: Feature, sensitive: bool) -> str:
    if isinstance(feature, NUMERIC):
        ends = f"{_value(feature.low)} to {_value(feature.high)}"
        if feature.kind == "integer":
            return f"whole numbers from {ends}"
        return f"{ends}, in {len(feature.levels())} levels" if sensitive else ends
    levels = feature.levels()
    more = "" if len(levels) <= MOST_CATEGORIES else f" and {len(levels) - MOST_CATEGORIES:,} more"
    return ", ".join(_value(level) for level in levels[:MOST_CATEGORIES]) + more


# --- how it was made ---

RESPONSES = {
    "expected": "Every row counted as each sensitive value, weighted by its probability (expected response, {gamma}).",
    "sampled": "Sensitive values were drawn at random (sampled response, {gamma}, {draws} for each row and step).",
    "none": "The true sensitive values were used: plain training, without a promise of fairness.",
}


def _making(certificate: dict[str, Any]) -> str:
    start, response, training = certificate["start"], certificate["response"], certificate["training"]
    if not (start or response or training):
        return _section("How it was made", "<p>Not recorded: this model was not trained by bornfair.</p>")
    terms = []
    if start or training:
        terms.append(("Start", _start(start.get("attempts", []))))
    if response:
        terms.append(("Sensitive values in training", _response(response)))
    if "local_privacy" in response:
        terms.append(("Privacy of the sensitive values", _text(response["local_privacy"])))
    if training:
        terms += _training(training)
    return _section("How it was made", "<p>Recorded by the training program, not proven.</p>" + _definitions(terms))


def _start(attempts: Sequence[dict[str, Any]]) -> str:
    if not attempts:
        return "The network training began with was not proven fair."
    proof = _text(attempts[-1].get("proof", "unknown"))
    drawn = _count(len(attempts), "network")
    return f"Proven fair before training began ({proof} proof; {drawn} drawn)."


def _response(response: dict[str, Any]) -> str:
    mode = response.get("mode")
    if mode not in RESPONSES:
        return _text(mode)
    gamma, draws = response.get("gamma", 0.0), response.get("draws", 1)
    return RESPONSES[mode].format(gamma=f"γ = {gamma:g}", draws=_count(draws, "draw"))


def _training(training: dict[str, Any]) -> list[tuple[str, str]]:
    plan, best = training.get("plan", {}), training.get("best_epoch")
    epochs = f"{_count(training.get('epochs_run', 0), 'epoch')} run"
    epochs += f", the network after epoch {_value(best)} was kept." if best is not None else "."
    terms = [("Training", epochs)]
    known = ("optimiser", "learning_rate", "schedule", "batch_size", "seed")
    if settings := [f"{name.replace('_', ' ')} {_value(plan[name])}" for name in known if name in plan]:
        terms.append(("Settings", ", ".join(settings)))
    history = training.get("history", [])
    held_out = [record.get("validation_accuracy") for record in history if record.get("epoch") == best]
    if held_out and held_out[0] is not None:
        terms.append(("Accuracy on held-out rows", f"{held_out[0]:.1%}"))
    if "sensitive_weights_untouched" in training:
        untouched = training["sensitive_weights_untouched"]
        what = "were not touched by training." if untouched else "were trained like all others."
        terms.append(("Sensitive weights", f"The weights that read the sensitive values {what}"))
    return terms


# --- how to check, and what is not said ---


def _checking(certificate: dict[str, Any]) -> str:
    hashes = [(_text(name), f"<code>{_text(digest)}</code>") for name, digest in certificate["files"].items()]
    hashes.append(("certificate content", f"<code>{_text(certificate['sha256'])}</code>"))
    text = (
        "<p>This page only repeats the certificate in words. To find out for yourself, run the checker on the bundle, "
        "the folder or .zip that this page came in. It reads the files, derives the claim anew and trusts nothing "
        "else.</p>"
        "<pre><code>bornfair check BUNDLE</code></pre>"
        "<p>Without bornfair: the checker is one file that needs Python alone.</p>"
        "<pre><code>python checker.py BUNDLE</code></pre>"
        "<p>The certificate is about the files with these SHA-256 sums, and no others:</p>"
    )
    return _section("Files, and how to check them", text + _definitions(hashes))


def _limits(verdict: str) -> str:
    items = [
        (
            "Proxies.",
            "Other features, such as a place or an occupation, can go together with the sensitive ones. Twins share "
            "them, so the statement does not speak of decisions that rest on them.",
        ),
        (
            "Groups.",
            "Whether groups of people get the positive decision equally often is another question.",
        ),
        (
            "People outside the domain.",
            "Values that are not in the table above are not covered, nor is what happens to the data before or to the "
            "decision after the model.",
        ),
        ("Being right.", "A fair decision can still be a wrong one; accuracy is not part of the statement."),
    ]
    if verdict == "undecided":
        items.insert(0, ("Unfair.", "Undecided does not mean unfair: neither proof nor counterexample was found."))
    if verdict == "falsified":
        items.insert(0, ("How many.", "One pair of twins is shown; how many more there are is not counted."))
    listed = "".join(f"<li><strong>{name}</strong> {text}</li>" for name, text in items)
    return _section("What it does not say", f"<ul>{listed}</ul>")


def _made_with(certificate: dict[str, Any]) -> str:
    versions = ", ".join(f"{_text(name)} {_text(number)}" for name, number in certificate["versions"].items())
    made = f"Made with {versions}. " if versions else ""
    return f"{made}Certificate format <code>{_text(certificate['format'])}</code>."


# --- pieces of HTML ---


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>"


def _table(columns: Sequence[str], rows: Iterable[str], caption: str = "", *, kind: str) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    told = f"<caption>{caption}</caption>" if caption else ""
    # Focusable, so that a table wider than the screen can be scrolled with the keyboard too.
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="table: {", ".join(columns)}">\n'
        f'<table class="{kind}">{told}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
    )


def _definitions(terms: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "\n".join(f"<dt>{term}</dt><dd>{text}</dd>" for term, text in terms) + "</dl>"


def _count(number: int, noun: str) -> str:
    """
    >>> _count(1, "part"), _count(1200, "part")
    ('1 part', '1,200 parts')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _value(value: Any) -> str:
    """A value as it stands in a table.

    >>> _value(True), _value(2.0), _value("a<b"), _value("")
    ('true', '2.0', 'a&lt;b', '(empty text)')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) or "(empty text)"


def _text(value: object) -> str:
    """Any text, safe inside HTML. What cannot be seen is written out: a direction mark could reorder a sentence.

    >>> _text("<b>"), _text("a\\u202eb"), _text("é\\n")
    ('&lt;b&gt;', 'a\\\\u202eb', 'é\\\\n')
    """
    joiners = "\u00a0\u200c\u200d"  # a space that does not break and what joins letters: parts of written words
    seen = (c if c.isprintable() or c in joiners else c.encode("unicode_escape").decode() for c in str(value))
    return html.escape("".join(seen))
