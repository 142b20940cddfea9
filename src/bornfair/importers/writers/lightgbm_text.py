"""A LightGBM model with some of its trees exchanged, as the text that the library reads.

Trees that stay are copied letter for letter; the others are written with their splits and leaves, and without what
training recorded (gains are 0, and counts are of leaves). Trees that come in addition stand behind all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bornfair.importers.lightgbm_file import CATEGORICAL, DEFAULT_LEFT, STEPS
from bornfair.importers.writers.planted import PlantedTree
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.model import Native

MARK = "\nTree="
END = "end of trees"


def lightgbm_text(native: Native, forest: Forest, origin: Sequence[int], replaced: Sequence[int]) -> bytes:
    """The text of a forest whose trees come from those of the native file (`Mean.origin`, `Mean.replaced`)."""
    head, *parts = native.content.decode().split(MARK)
    parts[-1], end, rest = parts[-1].partition(END)
    used, changed = len(parts), set(replaced)
    blocks = []
    for place in range(len(origin)):
        if place < used and place not in changed:
            blocks.append(f"Tree={parts[place]}" + "\n" * (place < used - 1))
        else:
            blocks.append(_tree(PlantedTree.of(forest, place), place))
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    lines = [f"tree_sizes={sizes}" if line.startswith("tree_sizes=") else line for line in head.split("\n")]
    return ("\n".join(lines) + "\n" + "".join(blocks) + end + rest).encode()


def takes_mean(native: Native | None) -> bool:
    """Whether LightGBM divides the sum of trees by their number (boosting "rf"), so that no tree may be added."""
    if native is None or native.suffix != ".txt":
        return False
    head = native.content.decode().partition(MARK)[0]
    return "average_output" in (line.strip() for line in head.splitlines())


def _tree(planted: PlantedTree, place: int) -> str:
    forest, inner = planted.forest, planted.inner
    splits = np.flatnonzero(inner)
    number = np.zeros(len(inner), np.int64)  # of splits from 0 upwards, of leaves from −1 downwards
    number[splits] = np.arange(len(splits))
    number[~inner] = -1 - np.arange(len(inner) - len(splits))
    nodes = planted.nodes[splits]
    chosen = forest.members[nodes] >= 0
    ways = {steps: way for way, steps in STEPS.items()}
    missing = np.array([ways[forest.columns[column].steps] for column in forest.column[nodes]], np.int64)
    kinds = np.where(
        chosen, CATEGORICAL, (np.maximum(missing, 0) << 2) | np.where(forest.missing_left[nodes], DEFAULT_LEFT, 0)
    )
    words = [_words(forest.sets[forest.members[node]]) for node in nodes[chosen]]
    threshold: list[Any] = forest.threshold[nodes].tolist()
    for count, at in enumerate(np.flatnonzero(chosen)):
        threshold[at] = count
    values, covers = planted.values()[:, planted.output], planted.covers()
    leaves = np.flatnonzero(~inner)
    alone = not len(splits)
    lines: dict[str, Iterable[Any]] = {
        "num_leaves": [len(leaves)],
        "num_cat": [len(words)],
        "split_feature": planted.sources[splits],
        "split_gain": [0] * len(splits),
        "threshold": threshold,
        "decision_type": kinds,
        "left_child": number[planted.left[splits]],
        "right_child": number[planted.right[splits]],
        "leaf_value": values[leaves].tolist(),
        "leaf_weight": [] if alone else [1] * len(leaves),
        "leaf_count": [] if alone else [1] * len(leaves),
        "internal_value": [0] * len(splits),
        "internal_weight": covers[splits],
        "internal_count": covers[splits],
    }
    if words:
        bounds = np.cumsum([0, *map(len, words)])
        lines |= {"cat_boundaries": bounds, "cat_threshold": [word for several in words for word in several]}
    lines |= {"is_linear": [0], "shrinkage": [1]}
    written = "\n".join(f"{name}={' '.join(map(_number, items))}" for name, items in lines.items())
    return f"Tree={place}\n{written}\n\n\n"


def _words(members: np.ndarray) -> list[int]:
    """Categories as bits of words of 32."""
    found = [0] * (int(members.max(initial=0)) // 32 + 1)
    for member in members.astype(np.int64).tolist():
        found[member // 32] |= 1 << (member % 32)
    return found


def _number(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float) else str(int(value))
