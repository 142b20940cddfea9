"""The figures, readable in black and white: methods differ in marker and line as well as in shade."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bornfair.core.files import write_atomically

LOOKS: dict[str, tuple[str, Any, str]] = {
    "erm": ("o", "--", "#777777"),
    "lcifr": ("s", ":", "#b35900"),
    "lcifr_attack": ("v", (0, (3, 2, 1, 2)), "#cc7a7a"),
    "milp": ("^", "-.", "#4d7a00"),
    "udif": ("D", (0, (5, 1, 1, 1)), "#7a3db8"),
    "unaware": ("x", (0, (1, 3)), "#000000"),
    "ours": ("*", "-", "#0057b8"),
}
"""Of each method its marker, its line and its shade."""


def figure(rows: int, columns: int, *, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A figure and its axes, drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(drawn)
    return drawn, drawn.subplots(rows, columns, squeeze=False, **options)


def save(drawn: Any, place: Path) -> list[Path]:
    """As SVG and PNG; the same numbers give the same bytes."""
    import matplotlib

    written = []
    with matplotlib.rc_context({"svg.hashsalt": "bornfair", "svg.fonttype": "none"}):
        for kind, facts in (("svg", {"Date": None}), ("png", {"Software": None})):
            content = io.BytesIO()
            drawn.savefig(content, format=kind, metadata=facts, dpi=150)
            written.append(write_atomically(place.with_suffix(f".{kind}"), content.getvalue()))
    return written


def plain_axes(axes: Any, *, x: str, y: str, title: str) -> None:
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def series(axes: Any, method: str, name: str, x: Sequence[float], y: Sequence[float]) -> None:
    """One method's line, with a mark here and there."""
    mark, line, shade = LOOKS[method]
    axes.plot(
        x, y, label=name, color=shade, linestyle=line, marker=mark, markevery=max(1, len(x) // 10),
        markersize=8 if method == "ours" else 5, linewidth=1.4,
    )  # fmt: skip


def points(axes: Any, method: str, **options: Any) -> None:
    """One method's means with their deviations (x, y, xerr or yerr)."""
    axes.errorbar(**point_style(method), **options)


def point_style(method: str) -> dict[str, Any]:
    mark, _, shade = LOOKS[method]
    return {"marker": mark, "color": shade, "markersize": 9 if method == "ours" else 6, "linestyle": "none"}
