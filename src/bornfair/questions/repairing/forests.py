"""Repair of a forest: its mean over the sensitive values, written in its own format, certified and compared.

The mean shows less extreme scores, so that without more of it fewer people would get the rarer decision. Its base score
is moved until, over the rows of the table that are not measured on, its probabilities are on average the original's; no
label is needed, and twins are not concerned. The file is then read again, and compared with its own library.
"""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Say
from bornfair.core.errors import shown
from bornfair.importers.boosting import forest_file
from bornfair.importers.tree_source import ForestSource, compared
from bornfair.importers.writers import held_base, lightgbm_text, takes_mean, xgboost_json
from bornfair.models.columns import nothing_sensitive
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.model import ForestModel, Native
from bornfair.models.reading import Reading
from bornfair.people.sensitive import ENUMERATION_LIMIT
from bornfair.people.twins.versions import Versions
from bornfair.proof.bundle import FairForest
from bornfair.questions import Asking, Question
from bornfair.questions.repairing.changes import RepairedModel, RepairRows, account, domain_asked, quality_of
from bornfair.questions.repairing.means import Mean, mean_forest
from bornfair.questions.repairing.restriction import all_values, values_of
from bornfair.training.provenance import KEPT_ASIDE, operating_facts

METHODS = ("plain", "drop")
ROUNDS = 200  # to bring the mean probabilities of several classes to those of the original
MERGED = (
    "The declared twins are merged in front of the trees, which {library}'s own format cannot express: the model is in "
    "the bundle's model.onnx only."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class RepairedForest(RepairedModel):
    """A forest that does not read the sensitive features, and what that cost."""

    model: FairForest
    original: ForestModel
    averaged: str
    """What the mean goes over."""
    accuracy_averaged: float | None
    """Of the mean, before its base score is moved."""
    replaced: int
    """How many trees read the sensitive features."""
    shift: tuple[float, ...]
    """By how much the base score was moved, for each output."""

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """Trees, leaves, depth, and bytes of the native file, before and after."""
        found = {}
        for when, model in (("before", self.original), ("after", self.model)):
            forest = model.forest
            found[when] = {"trees": forest.trees, "leaves": len(forest.values), "depth": forest.depth}
            if model.native is not None:
                found[when]["bytes"] = len(model.native.content)
        return found

    def _of_its_kind(self) -> dict[str, Any]:
        return {
            "averaged": self.averaged,
            "accuracy_averaged": self.accuracy_averaged,
            "trees_replaced": self.replaced,
            "sizes": self.sizes,
            "shift": self.shift,
        }


def asked_of(question: Question, asking: Asking) -> ForestModel:
    """The forest, asked about these features and twins."""
    assert isinstance(question.model, ForestModel)
    domain, twins = domain_asked(question, question.model.domain, asking), asking.get("twins")
    if not domain.sensitive:
        raise nothing_sensitive(domain)
    return question.model.about(domain.with_twins(twins) if twins else domain)


def repair_forest(
    model: ForestModel,
    rows: RepairRows,
    *,
    method: str = "plain",
    fine_tune: bool = True,
    say: Say | None = None,
) -> RepairedForest:
    """The mean over the sensitive values: each counts the same ('plain'), or as often as it occurs ('drop')."""
    known = rows.people.iloc[np.sort(np.concatenate([rows.training, rows.validation]))]
    model = _of_its_library(model)
    over = all_values(model) if method == "plain" else values_of(model, known)
    native, forest = model.native, model.forest
    lightgbm = native is not None and native.suffix == ".txt"
    outputs = [tree % forest.outputs for tree in range(forest.trees)] if lightgbm else None
    fixed = takes_mean(native)  # of one tree, too, whose sum is divided by 1
    mean = mean_forest(model, over, outputs=outputs, copies=not fixed)
    if say:
        say(f"{len(mean.replaced):,} of {forest.trees:,} trees read {shown(model.domain.sensitive)}; averaged.")
    plain = dataclasses.replace(model, forest=mean.forest, original=None, native=None, certificate=None)
    shift = _shift(model, plain, known) if fine_tune and not fixed else np.zeros(forest.outputs)
    fair, written = _rebased(mean, shift, native)
    notes = [MERGED.format(library=native.library)] if native is not None and mean.merges else []
    repaired = FairForest.of(dataclasses.replace(plain, forest=fair, note=""))
    if native is not None and not mean.merges:
        repaired = dataclasses.replace(repaired, native=written)
        repaired = _as_read(repaired, rows.measured)
        if native.suffix == ".ubj":
            notes.append("The .ubj file is written as .json, which the library reads as well.")
    if model.operating:
        said = ", ".join(f"{name} above {share:g}" for name, share in model.operating.items())
        notes.append(
            f"The bundle decides at the threshold asked for ({said}); the library's own file does not know it."
        )
    done = repaired.certified()
    assert done.certificate is not None
    told = {"repair": {"forest": "mean", "over": over.told, "trees_replaced": len(mean.replaced)}}
    done = dataclasses.replace(
        done, certificate=dataclasses.replace(done.certificate, training=told | operating_facts(done))
    )
    averaged = quality_of(plain, rows.measured, rows.answers)
    few = not model.domain.real_sensitive and Versions(model.domain).size <= ENUMERATION_LIMIT
    return RepairedForest(
        **account(model, done, rows.measured, rows.answers, KEPT_ASIDE),
        averaged=over.told,
        accuracy_averaged=None if averaged is None else averaged["accuracy"],
        fairness_before=model.empirical_fairness(rows.measured) if few else None,
        replaced=len(mean.replaced),
        shift=tuple((np.array(fair.summation.base) - np.array(forest.summation.base)).tolist())
        if not lightgbm
        else tuple(shift.tolist()),
        note=" ".join(notes),
    )


# --- the base score ---


def _shift(before: ForestModel, after: ForestModel, people: pd.DataFrame) -> np.ndarray:
    """What to add to the scores of the mean so that its probabilities are on average those of the original."""
    forest, nothing = after.forest, np.zeros(after.forest.outputs)
    how = forest.summation
    if forest.cut.link not in ("sigmoid", "softmax") or how.divisor != 1 or how.scale != 1 or not len(people):
        return nothing
    wanted = before.predict_proba(people).mean(axis=0)
    scores = after.raw_scores(people)
    if forest.outputs == 1:
        low, high = -64.0, 64.0
        for _ in range(80):
            middle = (low + high) / 2
            below = forest.probabilities(scores + middle)[:, 1].mean() < wanted[1]
            low, high = (middle, high) if below else (low, middle)
        return np.array([(low + high) / 2])
    if not (wanted > 0).all():
        return nothing
    shift = nothing
    for _ in range(ROUNDS):
        reached = forest.probabilities(scores + shift).mean(axis=0)
        if not (reached > 0).all():
            return nothing
        shift = shift + np.log(wanted / reached)
    return shift - shift.mean()


def _rebased(mean: Mean, shift: np.ndarray, native: Native | None) -> tuple[Forest, Native | None]:
    """The mean with its base score moved, as its file can hold it, and that file."""
    forest, origin = mean.forest, mean.origin
    own = native is not None and not mean.merges
    if shift.any():
        if native is not None and native.suffix == ".txt":  # which has no base score, but may have trees of one leaf
            forest, origin = _with_constants(forest, shift), (*origin, *[-1] * forest.outputs)
        else:
            kind = np.dtype(forest.summation.precision).type
            base = tuple(float(kind(b + s)) for b, s in zip(forest.summation.base, shift, strict=True))
            base = held_base(native, base) if native is not None and own else base
            forest = dataclasses.replace(forest, summation=dataclasses.replace(forest.summation, base=base))
    if native is None or not own:
        return forest, None
    if native.suffix == ".txt":
        return forest, Native(".txt", lightgbm_text(native, forest, origin, mean.replaced))
    return forest, Native(".json", xgboost_json(native, forest, origin, mean.replaced, rebased=bool(shift.any())))


def _with_constants(forest: Forest, shift: np.ndarray) -> Forest:
    """One more tree for each output, of a single leaf."""
    count = len(shift)
    leaf = np.full(count, -1)
    return dataclasses.replace(
        forest,
        roots=np.append(forest.roots, forest.nodes + np.arange(count)),
        column=np.append(forest.column, leaf),
        threshold=np.append(forest.threshold, np.zeros(count)),
        members=np.append(forest.members, leaf),
        left=np.append(forest.left, leaf),
        right=np.append(forest.right, leaf),
        missing_left=np.append(forest.missing_left, np.zeros(count, bool)),
        values=np.concatenate([forest.values, np.diag(shift)]),
    )


# --- as its own library reads it ---


def _of_its_library(model: ForestModel) -> ForestModel:
    """Of a bundle, which holds a forest twice: as its library reads it, so that this file can be written again; without
    the file, if that is not what decides.
    """
    if not isinstance(model, FairForest) or model.native is None:
        return model
    source = _read(model.native)
    if same_forest(source.forest, model.forest):
        return model
    if model.operating or not set(source.forest.names) <= set(model.domain.names):
        return dataclasses.replace(model, native=None)
    return ForestModel(source.forest, model.domain, source.forest.names, native=model.native)


def _read(native: Native) -> ForestSource:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"repaired{native.suffix}"
        path.write_bytes(native.content)
        return dataclasses.replace(forest_file(path), origin="the repaired file")


def _as_read(repaired: FairForest, people: pd.DataFrame) -> FairForest:
    """The model as its file is read again: it must be the forest that was meant, and decide as its library does."""
    assert repaired.native is not None
    source = _read(repaired.native)
    if not same_forest(source.forest, repaired.forest):
        raise AssertionError("the repaired file does not hold the forest that was written")
    if source.judge is None:
        return repaired
    judged = compared(dataclasses.replace(repaired, forest=source.forest), source, Reading(), people)
    assert judged.original is not None
    forest = dataclasses.replace(judged.forest, cut=repaired.forest.cut)
    return FairForest.of(dataclasses.replace(judged, forest=forest, original=None))


def same_forest(one: Forest, other: Forest) -> bool:
    """Whether two forests have the same trees, leaves and sums; sets may be numbered otherwise."""
    names = ("roots", "threshold", "left", "right", "missing_left", "values")
    if not all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names):
        return False
    if one.summation.base != other.summation.base or one.summation.divisor != other.summation.divisor:
        return False
    return all(mine == theirs for mine, theirs in zip(_splits(one), _splits(other), strict=True))


def _splits(forest: Forest) -> list[Any]:
    sets = [tuple(members.tolist()) for members in forest.sets]
    return [
        (repr(forest.columns[column]), sets[members] if members >= 0 else None)  # two NaN are not equal
        for column, members in zip(forest.column.tolist(), forest.members.tolist(), strict=True)
        if column >= 0
    ]
