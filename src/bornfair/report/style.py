"""How a report looks: on a screen, a phone and paper, in light and in dark. One style sheet, no fonts to load."""

STYLE = """
:root { color-scheme: light dark;
  --page: #f6f6f4; --panel: #ffffff; --ink: #1d2227; --soft: #57606a; --line: #d9dce0; --mark: #fdf2d3; --bar: #9a6700;
  --accent: #1f5c8a; --verified: #17653f; --falsified: #a3261e; --undecided: #6d5208;
  --fair: #2c7a58; --unfair: #b5352a; --open: #eceef0; --shelf: #e6e8eb; }
@media (prefers-color-scheme: dark) { :root {
  --page: #111417; --panel: #191d22; --ink: #e6e9ec; --soft: #a7b0ba; --line: #333b44; --mark: #3a3016; --bar: #e0b040;
  --accent: #84bbe3; --verified: #1d7d4b; --falsified: #bd342c; --undecided: #856200;
  --fair: #52ae87; --unfair: #e8756a; --open: #262c33; --shelf: #2a3138; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; background: var(--page); color: var(--ink); overflow-wrap: anywhere;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif;
  font-variant-numeric: tabular-nums; }
.frame { max-width: 54rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.skip { position: absolute; left: -100rem; } .skip:focus { left: 1rem; top: 1rem; background: var(--panel);
  padding: .5rem .75rem; z-index: 1; }
h1 { font-size: clamp(1.45rem, 1.1rem + 1.8vw, 2.15rem); line-height: 1.22; letter-spacing: -.012em; font-weight: 650;
  margin: .9rem 0 .9rem; max-width: 44rem; text-wrap: balance; }
h2 { font-size: 1.3rem; line-height: 1.3; letter-spacing: -.005em; font-weight: 650; margin: 0 0 .75rem; }
h3 { font-size: 1rem; font-weight: 650; margin: 1.75rem 0 .4rem; } h2 + h3 { margin-top: .75rem; }
p, ul { margin: .5rem 0; max-width: 44rem; } li { margin: .35rem 0; } ul { padding-left: 1.2rem; }
.about { color: var(--soft); margin: 0; }
.soft { color: var(--soft); }
.badge { display: inline-block; margin: 1.1rem 0 0; padding: .22rem .75rem; border: 1px solid transparent;
  border-radius: 99rem; color: #ffffff; font-weight: 650; font-size: .95rem; }
.badge.verified { background: var(--verified); } .badge.falsified { background: var(--falsified); }
.badge.undecided { background: var(--undecided); }
.lead { font-size: 1.05rem; }
.quote { border-left: 3px solid var(--accent); padding-left: .9rem; }
.warning { border: 1px solid var(--bar); border-left-width: .3rem; background: var(--mark); padding: .6rem .9rem;
  border-radius: .3rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.5rem 0 0; }
.tiles > div { flex: 1 1 9.5rem; background: var(--panel); border: 1px solid var(--line); border-radius: .6rem;
  padding: .75rem .9rem; }
.tiles dt { color: var(--soft); font-size: .875rem; margin: 0; font-weight: 400; }
.tiles dd { margin: 0; }
.tiles .value { font-size: 1.4rem; font-weight: 650; line-height: 1.35; overflow-wrap: break-word; }
.tiles .means { font-size: .8125rem; color: var(--soft); line-height: 1.4; }
nav { margin: 1.75rem 0 0; font-size: .9rem; }
nav p { margin: 0 0 .25rem; color: var(--soft); }
nav ol { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
nav li { margin: 0; } nav a { text-decoration: none; } nav a:hover { text-decoration: underline; }
section { background: var(--panel); border: 1px solid var(--line); border-radius: .75rem; padding: 1.5rem 1.6rem;
  margin: 1.25rem 0 0; scroll-margin-top: 1rem; }
section > :last-child { margin-bottom: 0; }
.scroll { overflow-x: auto; margin: .75rem 0; position: relative; }
table { border-collapse: collapse; width: 100%; font-size: .9375rem; }
caption { text-align: left; color: var(--soft); font-size: .9rem; padding-bottom: .4rem; }
th, td { text-align: left; vertical-align: top; padding: .42rem .7rem; border-bottom: 1px solid var(--line); }
th, td { overflow-wrap: break-word; } .long { overflow-wrap: anywhere; min-width: 9rem; }
thead th { color: var(--soft); font-weight: 600; font-size: .84rem; vertical-align: bottom; line-height: 1.3; }
tbody th { font-weight: 600; } tbody tr:last-child > * { border-bottom: 0; }
td.number, .metered { white-space: nowrap; } .number { text-align: right; }
table.twins { table-layout: fixed; } table.twins :is(th, td) { overflow-wrap: anywhere; min-width: 0; }
 table.twins th:last-child, table.twins td:last-child { width: 6.5rem; }
tr.mark > * { background: var(--mark); } tr.mark > :first-child { box-shadow: inset .25rem 0 0 var(--bar); }
.note { white-space: nowrap; color: var(--soft); } tr.mark .note { color: var(--ink); font-weight: 650; }
tr.final > * { border-top: 2px solid var(--ink); font-weight: 650; }
dl.terms { margin: .5rem 0; } .terms dt { font-weight: 600; margin-top: .8rem; }
.terms dd { margin: .1rem 0 0; max-width: 44rem; } .terms code { font-size: .8em; }
code { font-family: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "Liberation Mono", monospace;
  font-size: .88em; }
pre { background: var(--page); border: 1px solid var(--line); border-radius: .4rem; padding: .65rem .9rem;
  overflow-x: auto; margin: .6rem 0; }
details { margin: .75rem 0 0; } summary { cursor: pointer; color: var(--accent); padding: .2rem 0; }
details.person { border-top: 1px solid var(--line); margin: 0; padding: .3rem 0; }
.person > summary { color: var(--ink); } .person > summary::marker { color: var(--accent); }
figure { margin: 1rem 0 .5rem; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 44rem; margin-top: .35rem; }
figure svg { display: block; width: 100%; height: auto; } figure svg.slim { display: none; }
.aside { border: 1px dashed var(--soft); border-radius: .5rem; padding: .75rem 1rem .6rem; margin: 1.1rem 0 .5rem; }
.aside h3 { margin: 0 0 .2rem; }
.key { list-style: none; padding: 0; margin: .75rem 0; display: grid; gap: .3rem 1.5rem; max-width: none;
  grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); }
.key li { margin: 0; display: flex; gap: .5rem; align-items: baseline; }
.key svg { flex: none; width: 14px; height: 14px; position: relative; top: .12rem; }
svg text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif;
  fill: var(--ink); font-variant-numeric: tabular-nums; }
svg text.soft { fill: var(--soft); } .fair { fill: var(--fair); } .unfair { fill: var(--unfair); }
.open { fill: var(--open); } .hatch { stroke: var(--soft); stroke-width: 1.2; }
.edge { fill: none; stroke: var(--soft); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; } .shelf { stroke: var(--shelf); stroke-width: 1; }
rect.bar { fill: var(--accent); } .track { fill: var(--open); } .dot { fill: var(--accent); }
.whisker { stroke: var(--accent); stroke-width: 2.5; } .leader { stroke: var(--soft); stroke-width: 1; }
polyline { fill: none; stroke: var(--accent); stroke-width: 2.25; stroke-linejoin: round; }
polyline.fairness { stroke: var(--fair); stroke-dasharray: 7 4; } .dot.fairness { fill: var(--fair); }
svg text.accuracy-text { fill: var(--accent); font-weight: 600; }
svg text.fairness-text { fill: var(--fair); font-weight: 600; }
svg.meter { width: 88px; height: 16px; vertical-align: -.15em; margin-right: .55rem; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .875rem; }
@media (min-width: 48rem) {
  .terms { display: grid; grid-template-columns: 13rem 1fr; gap: .6rem 1.5rem; }
  .terms dt, .terms dd { margin: 0; } }
@media (min-width: 84rem) {
  .frame { max-width: 72rem; display: grid; grid-template-columns: 13.5rem minmax(0, 54rem); column-gap: 3rem; }
  .frame > * { grid-column: 2; }
  .frame > nav { grid-column: 1; grid-row: 1 / span 3; position: sticky; top: 2.5rem; align-self: start; margin: 0; }
  nav ol { display: block; } nav li { padding: .2rem 0; line-height: 1.35; } }
@media (max-width: 40rem) {
  .frame { padding: 1.25rem .9rem 3rem; } section { padding: 1.1rem 1rem; border-radius: .6rem; }
  .tiles { gap: .5rem; } .tiles > div { flex-basis: 8.2rem; padding: .6rem .7rem; }
  .tiles .value { font-size: 1.2rem; }
  figure svg.broad { display: none; } figure svg.slim { display: block; }
  .aside { padding: .6rem .7rem; }
  /* Rows become small blocks: the name above, what belongs to it below. */
  :is(.twins, .stack), :is(.twins, .stack) :is(caption, thead, tbody) { display: block; }
  :is(.twins, .stack) tr { display: grid; grid-template-columns: 1fr 1fr; padding: .35rem 0;
    border-bottom: 1px solid var(--line); }
  :is(.twins, .stack) :is(th, td) { border: 0; padding: .1rem .5rem; min-width: 0; overflow-wrap: anywhere; }
  .twins tr > :last-child { grid-area: 1 / 2; text-align: right; width: auto; }
  .twins thead tr > :is(:first-child, :last-child) { display: none; }
  table.twins th:last-child, table.twins td:last-child { width: auto; }
  .stack thead { display: none; } .stack tr { grid-template-columns: 1fr; }
  .stack td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); }
  .stack td.number { text-align: left; white-space: normal; } .stack .quiet { display: none; }
  tr.mark { background: var(--mark); box-shadow: inset .25rem 0 0 var(--bar); }
  :is(.twins, .stack) tr.mark > * { background: none; } :is(.twins, .stack) tr.mark > :first-child { box-shadow: none; }
  :is(.twins, .stack) tr.final { border-top: 2px solid var(--ink); }
  :is(.twins, .stack) tr.final > * { border-top: 0; } }
@media print {
  :root { color-scheme: light;
    --page: #ffffff; --panel: #ffffff; --ink: #000000; --soft: #444444; --line: #bbbbbb; --mark: #f3f3f3;
    --bar: #000000; --accent: #1f4f75; --verified: #17653f; --falsified: #a3261e; --undecided: #6d5208;
    --fair: #2c7a58; --unfair: #b5352a; --open: #eeeeee; --shelf: #dddddd; }
  @page { margin: 16mm 15mm; }
  body { font-size: 10pt; } .frame { display: block; max-width: none; padding: 0; } nav, .skip { display: none; }
  h1 { font-size: 18pt; } h2 { font-size: 13pt; }
  section { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: .9rem 0 0; }
  .badge { background: none; color: #000000; border-color: #000000; }
  .scroll, pre { overflow: visible; } pre { white-space: pre-wrap; }
  figure svg.broad { display: block; } figure svg.slim { display: none; }
  .tiles > div { flex-basis: 6.5rem; } details.numbers { display: none; }
  h2, h3, h2 + p, h3 + p, dt, summary, caption, thead { break-after: avoid; }
  tr, dd, li, figure, .tiles > div, .aside, .warning, details.person { break-inside: avoid; }
  thead { display: table-header-group; }
  details:not([class])::details-content { content-visibility: visible; block-size: auto; }
  rect, line, circle, polyline, tr.mark > * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
