"""Models from bundles, files, objects, programs and addresses, with the people who are asked about.

`load_model` reads what can be read; `any_model` runs the other models without reading them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from bornfair.core.checks import later
from bornfair.core.errors import InputError
from bornfair.core.files import recover
from bornfair.importers import registry
from bornfair.importers.registry import OWN, Reader, is_graph
from bornfair.models.columns import Who
from bornfair.models.protocol import Decider
from bornfair.models.reading import Reading, ReadingOptions
from bornfair.people.domain import Domain
from bornfair.people.dummies import Combinations, check_combinations

load_bundle = later("proof.bundle.load_bundle")


class LoadingOptions(ReadingOptions, total=False):
    """Keyword arguments of `load_model` and `any_model`.

    domain: who exists. It replaces a bundle's own domain: it may narrow or widen ranges, but must name the same
    features. Foreign models need a domain, or a `table` (with its `target` named) from which the domain is inferred.
    sensitive: the sensitive features, by name or position.
    twins: rules for twins that replace those of the domain: "sex: Male<->Female, relationship: Husband<->Wife".
    as_it_is: a model of bornfair keeps its own sensitive features and twins.
    combinations: which combinations of sensitive values exist: 'all', those 'observed' in the table, or None for all,
    but the observed ones of 0/1 columns that are one feature (`bornfair.people.dummies`).
    """

    domain: Domain | str | Path | None
    sensitive: Sequence[str | int] | None
    table: Any
    target: str | None
    twins: str | Sequence[str] | None
    as_it_is: bool
    combinations: Combinations | None


def any_model(source: Any, *, opaque: bool = False, **options: Unpack[LoadingOptions]) -> Decider:
    """A model that is read if possible, and otherwise run without being read.

    opaque: whether the model is run even if it can be read. A model that can neither be read nor run is refused, with
    both reasons.
    """
    from bornfair.importers.opaque import is_run, opaque_model, outside_of

    who, asked = _asked(options)
    if isinstance(source, (str, Path)) and opaque and _is_bundle(source):
        source = load_bundle(Path(source))
    if opaque or is_run(source):
        return opaque_model(source, who, asked)
    if callable(source) and not hasattr(source, "predict") and outside_of(source) is not None:
        return opaque_model(source, who, asked, unread="a function shows nothing of what it computes")
    try:
        return _read(source, dataclasses.replace(who, twins=None) if who.as_trained else who, asked)
    except InputError as unread:
        if outside_of(source) is None:
            raise
        try:
            return opaque_model(source, who, asked, unread=str(unread))
        except InputError as error:
            if str(error) == str(unread):
                raise unread from None
            raise InputError(f"{str(unread).rstrip('.')}. Nor can it be asked from outside: {error}") from unread


def load_model(source: Any, **options: Unpack[LoadingOptions]) -> Decider:
    """A model that is read, with its domain and sensitive features.

    source: a bundle, an .onnx, .h5, .keras or .nnet file, the file of a forest, a fitted scikit-learn classifier or
    pipeline, a model of XGBoost, LightGBM or CatBoost, a `torch.nn.Sequential`, a `FairModel`, or a fitted
    `FairClassifier`. Any feature of a foreign model may be asked about.
    """
    return _read(source, *_asked(options))


def _asked(options: LoadingOptions) -> tuple[Who, Reading]:
    domain, table, target = options.get("domain"), options.get("table"), options.get("target")
    combinations = options.get("combinations")
    check_combinations(combinations)
    people = Domain.load(domain) if isinstance(domain, (str, Path)) else domain
    as_trained = options.get("as_it_is", False)
    who = Who(people, options.get("sensitive"), table, target, options.get("twins"), combinations, as_trained)
    frame = who.frame if target is not None else None
    answers = None if frame is None or target not in frame.columns else frame[target]
    people_options = LoadingOptions.__annotations__.keys() - ReadingOptions.__annotations__.keys()
    reading = {name: value for name, value in options.items() if name not in people_options}
    return who, Reading.of(reading, answers)  # type: ignore[arg-type]


def _read(source: Any, who: Who, asked: Reading) -> Decider:
    if isinstance(source, (str, Path)):
        recover(Path(source))
    found = registry.read(source, who, asked, (*READERS, *registry.READERS))
    return later("proof.bundle.bundle_of")(found) if found.kind == "network" else found


def _is_bundle(source: str | Path) -> bool:
    return Path(source).is_dir() or Path(source).suffix.lower() == ".zip"


def _bundle(source: Any, who: Who, asked: Reading) -> Decider:
    asked.only_for("a bundle", "threshold")
    return registry.read(load_bundle(Path(source)), who, asked, OWN)


def _graph(source: Any, who: Who, asked: Reading) -> Decider:
    """A graph of bornfair, or of another exporter."""
    from bornfair.importers.onnx_file import read_onnx
    from bornfair.models.forest.onnx_graph import METADATA as TREES
    from bornfair.models.graph.around import WIRED
    from bornfair.models.network.onnx_graph import METADATA
    from bornfair.proof.bundle import own_model

    file = read_onnx(source)
    if not {METADATA, TREES, WIRED} & set(file.metadata):
        return registry.graph_model(file, who, asked)
    asked.only_for("a model.onnx of bornfair", "threshold")
    found = own_model(file.path, file.content, who.domain)
    return registry.read(found, dataclasses.replace(who, domain=None, as_trained=False), asked, OWN)


READERS: tuple[Reader, ...] = (
    *OWN,
    Reader(lambda source: isinstance(source, (str, Path)) and _is_bundle(source), _bundle),
    Reader(lambda source: is_graph(source) and Path(source).exists(), _graph, chooses=True),
)
"""Of models, bundles and graphs of bornfair; those of the registry come after them."""
