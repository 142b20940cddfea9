"""From a bundle, a file, an object, a program or an address to a model that can be asked, about whom it is to be asked.

`load_model` reads what can be read; `any_model` asks the others from outside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from bornfair.core.errors import InputError, shown
from bornfair.core.files import recover
from bornfair.importers.nnet import nnet_source, read_nnet
from bornfair.importers.opaque import is_graph, opaque_model, outside_of
from bornfair.importers.source import imported
from bornfair.models.columns import Who, sensitive_name
from bornfair.models.forest.model import ForestModel
from bornfair.models.graph.model import WiredModel
from bornfair.models.network.model import Model
from bornfair.models.opaque.command import Command
from bornfair.models.opaque.endpoint import Endpoint
from bornfair.models.opaque.model import OpaqueModel
from bornfair.models.reading import Reading, ReadingOptions
from bornfair.people.domain import Domain
from bornfair.people.dummies import Combinations, check_combinations, with_sensitive
from bornfair.people.inference import listed
from bornfair.people.tables import as_pandas
from bornfair.proof.bundle import FairGraph, FairModel, load_bundle, own_model

if TYPE_CHECKING:
    from bornfair.importers.onnx_file import OnnxFile

FILES = "a bundle (a folder or .zip), an .onnx, .h5, .keras or .nnet file, or the .json, .ubj or .txt of a forest"
TABLES = (".csv", ".tsv", ".gz", ".parquet", ".pq")
EXECUTABLE = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".bin", ".dill", ".cloudpickle", ".npy")
OBJECTS = (
    "a bundle, a .nnet file, a FairModel or a fitted FairClassifier, a scikit-learn classifier or pipeline, a model of "
    "XGBoost, LightGBM or CatBoost, a torch.nn.Sequential, or an .onnx, .h5 or .keras file; or, to be asked and not "
    "read, any object with predict or a function from rows to decisions"
)


def any_model(
    source: Any,
    *,
    domain: Domain | str | Path | None = None,
    sensitive: Sequence[str | int] | None = None,
    table: Any = None,
    target: str | None = None,
    twins: str | Sequence[str] | None = None,
    as_it_is: bool = False,
    opaque: bool = False,
    combinations: Combinations | None = None,
    **reading: Unpack[ReadingOptions],
) -> FairModel | ForestModel | OpaqueModel | WiredModel:
    """A model that is read if it can be, else one that is only asked; the arguments are those of `load_model`.

    A model that can neither be read nor run is refused, with both reasons.
    """
    people = Domain.load(domain) if isinstance(domain, (str, Path)) else domain
    check_combinations(combinations)
    who = Who(people, sensitive, table, target, twins, combinations)
    how = Reading.of(reading, _answers(table, target))
    if isinstance(source, (str, Path)) and opaque and (Path(source).is_dir() or Path(source).suffix.lower() == ".zip"):
        source = load_bundle(Path(source))
    if opaque or isinstance(source, (Command, Endpoint, OpaqueModel)):
        return opaque_model(source, who, how)
    if callable(source) and not hasattr(source, "predict") and outside_of(source) is not None:
        return opaque_model(source, who, how, unread="a function shows nothing of what it computes")
    try:
        return load_model(
            source, domain=people, sensitive=sensitive, table=table, target=target, twins=None if as_it_is else twins,
            as_it_is=as_it_is, combinations=combinations, **reading,
        )  # fmt: skip
    except InputError as unread:
        if outside_of(source) is None:
            raise
        try:
            return opaque_model(source, who, how, unread=str(unread))
        except InputError as error:
            if str(error) == str(unread):
                raise unread from None
            raise InputError(f"{str(unread).rstrip('.')}. Nor can it be asked from outside: {error}") from unread


def load_model(
    source: Any,
    *,
    domain: Domain | str | Path | None = None,
    sensitive: Sequence[str | int] | None = None,
    table: Any = None,
    target: str | None = None,
    twins: str | Sequence[str] | None = None,
    as_it_is: bool = False,
    combinations: Combinations | None = None,
    **reading: Unpack[ReadingOptions],
) -> FairModel | ForestModel | WiredModel:
    """A model with its domain and sensitive features.

    `source` is a bundle, an .onnx, .h5, .keras or .nnet file, a fitted scikit-learn classifier or pipeline, a
    `torch.nn.Sequential`, a `FairModel`, or a fitted `FairClassifier`. A domain given here takes the place of a
    bundle's own: it may narrow or widen ranges, but must name the same features. Other people's models need a domain,
    or a `table` (with its `target` named) to read off who exists; any of their features may be asked about. `twins`
    says who else counts as a twin, if not as the domain says: "sex: Male<->Female, relationship: Husband<->Wife".
    `combinations`: which combinations of sensitive values exist: 'all', those 'observed' in the table, or None for all,
    but the observed ones of 0/1 columns that are one feature (`bornfair.people.dummies`).
    `as_it_is`: what a trained model calls sensitive need not be what is asked about. `decision`, `threshold`,
    `normalise` and `decision_output` say how to read a file that does not say so itself (`ReadingOptions`).
    """
    people = Domain.load(domain) if isinstance(domain, (str, Path)) else domain
    who = Who(people, sensitive, table, target, twins, combinations)
    found = _read(source, Reading.of(reading, _answers(table, target)), who, as_it_is)
    return FairModel.of(found) if isinstance(found, Model) else found


def _answers(table: Any, target: str | None) -> Any:
    """The column of the table that is the target, if both are given."""
    frame = None if table is None or target is None else as_pandas(table)
    return None if frame is None or target not in frame.columns else frame[target]


def _read(source: Any, asked: Reading, who: Who, as_it_is: bool) -> Model | ForestModel | WiredModel:
    if isinstance(source, WiredModel) or isinstance(getattr(source, "model_", None), WiredModel):
        wired = source if isinstance(source, WiredModel) else source.model_
        asked.only_for("a wrapped model")
        return _wired_about(wired, who)
    if isinstance(source, ForestModel):
        asked.only_for("a forest that was read", "threshold")
        return _forest_about(_deciding_forest(source, asked, who.table), who)
    for what, own in (("a FairModel", source), ("a FairClassifier", getattr(source, "model_", None))):
        if isinstance(own, Model):
            asked.only_for(what, "threshold")
            deciding = _deciding(own, asked, who.table)
            return deciding if as_it_is and who.domain is None else _asked_about(deciding, who)
    if not is_graph(source):
        what = f"'{source}'" if isinstance(source, (str, Path)) else f"a model of type {type(source).__name__}"
        asked.only_for(what, "decision", "threshold", "normalise")
    if not isinstance(source, (str, Path)):
        return _object(source, who, asked)
    path = Path(source)
    recover(path)
    kind = path.suffix.lower()
    if kind == ".nnet":
        return _nnet(path, who, asked)
    if path.is_dir() or kind == ".zip":
        asked.only_for("a bundle", "threshold")
        return _read(load_bundle(path), asked, who, as_it_is)
    if kind in EXECUTABLE:
        raise InputError(
            f"'{path}' is a pickle or the like: loading it would run whatever code is in it, so it is not opened; load "
            "it yourself and hand over the model, or export it to ONNX (skl2onnx, torch.onnx.export)."
        )
    if not path.exists():
        raise InputError(f"there is no model '{path}'; give {FILES}.")
    if is_graph(path):
        return _onnx(path, who, asked)
    if kind in (".h5", ".hdf5", ".keras"):
        from bornfair.importers.keras_file import read_keras

        return imported(read_keras(path), who, asked)
    if kind in (".json", ".ubj", ".txt"):
        from bornfair.importers.forest_files import forest_file
        from bornfair.importers.forest_source import imported_forest

        return imported_forest(forest_file(path), who, asked)
    check_no_table(path)
    raise InputError(f"'{path}' is not a kind of model that can be read; give {FILES}.")


def check_no_table(path: Path) -> None:
    """Refuse what is a table by its name where a model is asked for."""
    if path.suffix.lower() in TABLES:
        raise InputError(f"'{path}' is a table, not a model; name it as people (--data {path}), and give {FILES}.")


def _people_asked(own: Domain, who: Who) -> Domain:
    """The people of a domain with the sensitive features, combinations and twins that are asked about."""
    names, about = [sensitive_name(item, own) for item in who.sensitive or ()], own
    others = bool(names) and set(names) != set(own.sensitive)
    if others or who.combinations is not None:
        bare = own.replaced(sensitive=(), combinations=None, twins=()) if others else own
        table = None if who.table is None else as_pandas(who.table)
        about = with_sensitive(bare, names or own.sensitive, table, who.combinations, detect=who.domain is None)
    return about if who.twins is None else about.with_twins(who.twins)


def _wired_about(model: WiredModel, who: Who) -> WiredModel:
    """The graph for the sensitive features and twins that are asked about; its domain may have other ranges."""
    about = model.domain if who.domain is None else who.domain.replaced(label=model.domain.label)
    if about.names != model.domain.names:
        raise InputError(
            f"the domain has the features {shown(about.names)}, the model {shown(model.domain.names)}; name the same."
        )
    about = _people_asked(about, who)
    if not about.sensitive:
        raise nothing_sensitive(about)
    return model if about is model.domain else dataclasses.replace(model, domain=about, certificate=None)


def _forest_about(model: ForestModel, who: Who) -> ForestModel:
    """The forest over the domain, for the sensitive features and twins that are asked about."""
    about = _people_asked(model.domain if who.domain is None else who.domain, who)
    return model if about is model.domain else model.about(about)


def _object(source: Any, who: Who, asked: Reading) -> Model | ForestModel:
    family = {cls.__module__.split(".")[0] for cls in type(source).__mro__}
    if family & {"xgboost", "lightgbm", "catboost"}:
        from bornfair.importers.forest_files import forest_object
        from bornfair.importers.forest_source import imported_forest

        return imported_forest(forest_object(source), who, asked)
    if "torch" in family:
        from bornfair.importers.torch_module import read_torch

        return imported(read_torch(source), who, asked)
    if "sklearn" in family:
        from bornfair.importers.forest_source import imported_forest
        from bornfair.importers.scikit import ScikitSource
        from bornfair.importers.scikit_forest import ends_in_forest, scikit_forest

        if ends_in_forest(source):
            return imported_forest(scikit_forest(source), who, asked)

        return imported(ScikitSource(source), who, asked)
    raise InputError(f"a model must be {OBJECTS}, found {type(source).__name__}.")


def _nnet(path: Path, who: Who, asked: Reading) -> Model:
    """As it stands, if it takes raw numbers and decides at 0; else folded as other people's models are."""
    file = read_nnet(path)
    domain = who.domain
    if domain is None:
        domain = file.domain if who.table is None else file.domain_as_in(as_pandas(who.table), who.target)
    if not who.sensitive and not domain.sensitive:
        raise nothing_sensitive(domain)
    normalised = file.is_normalised(asked.normalise)
    if normalised or asked.moves_the_decision:
        how = dataclasses.replace(asked, decision=asked.decision or "logit", normalise=None)
        model = imported(nnet_source(file, normalised), dataclasses.replace(who, domain=domain), how)
    else:
        names = [sensitive_name(item, domain) for item in who.sensitive or domain.sensitive]
        table = None if who.table is None else as_pandas(who.table)
        people = with_sensitive(domain, names, table, who.combinations, detect=who.domain is None)
        model = _with_twins(file.of_raw_numbers(people, ()), who.twins)
    return dataclasses.replace(model, note=asked.note)


def nothing_sensitive(who: Domain) -> InputError:
    return InputError(
        f"name the sensitive features of the model, by name or position; it reads {shown(who.names, most=30)}."
    )


def _onnx(path: Path, who: Who, asked: Reading) -> Model | ForestModel | WiredModel:
    from bornfair.importers.forest_source import imported_forest
    from bornfair.importers.onnx_file import read_onnx
    from bornfair.importers.onnx_forest import has_trees, onnx_forest
    from bornfair.importers.onnx_source import OnnxSource
    from bornfair.models.forest.onnx_graph import METADATA as TREES
    from bornfair.models.graph.around import WIRED
    from bornfair.models.network.onnx_graph import METADATA

    file = read_onnx(path)
    if {METADATA, TREES, WIRED} & set(file.metadata):
        asked.only_for("a model.onnx of bornfair", "threshold")
        found = own_model(path, file.content, who.domain)
        if isinstance(found, ForestModel | FairGraph):
            return _read(found, asked, dataclasses.replace(who, domain=None), False)
        own = _deciding(found, asked, who.table)
        return _asked_about(own, dataclasses.replace(who, domain=None))
    if has_trees(file):
        return imported_forest(onnx_forest(file, asked), who, asked)
    try:
        return imported(OnnxSource(file), who, asked)
    except InputError as unread:
        return _by_wires(file, who, asked, unread)


def _by_wires(file: OnnxFile, who: Who, asked: Reading, unread: InputError) -> WiredModel:
    """A graph that cannot be read, if its wires alone say that no sensitive value matters."""
    from bornfair.importers.onnx_core import onnx_core
    from bornfair.models.graph.around import around

    try:
        core, domain, at = onnx_core(file, who, asked)
        found = WiredModel(around(core, domain, "as it is", at=at), domain, note="only its wires were read")
    except InputError:
        raise unread from None
    if found.unclear() is not None:
        raise unread
    return found


def _deciding(own: Model, asked: Reading, table: Any) -> Model:
    """The model at the threshold that is asked about, if one is."""
    if asked.threshold is None:
        return own
    if own.original is not None:
        raise InputError(
            "this model was read from another that decides by itself; name the threshold when reading that one."
        )
    point = asked.point(own.classes.tolist())
    moved = own.at(point, table)
    said = ", ".join(f"{name} above {share:g}" for name, share in moved.thresholds.items()) or "the usual one"
    return dataclasses.replace(moved, note=f"asked at another threshold than its own ({said}), for {point.text}")


def _deciding_forest(own: ForestModel, asked: Reading, table: Any) -> ForestModel:
    if asked.threshold is None:
        return own
    asked = asked.for_classes(own.classes.tolist())
    note = "; ".join(part for part in (own.note, asked.note) if part)
    return dataclasses.replace(own.at(asked.point(own.classes.tolist()), table), note=note)


def _asked_about(model: Model, who: Who) -> Model:
    """The model over the domain, for the sensitive features and twins that are asked about."""
    own = model.domain
    about = model if who.domain is None else _with_ranges(model, who.domain)
    names = tuple(sensitive_name(item, own) for item in who.sensitive or ())
    if names and set(names) != set(own.sensitive):
        return _about_others(about, names, who)
    if not own.sensitive:
        raise InputError(
            "this model has no sensitive features, so nobody has a twin; name those to ask about, among "
            f"{shown(own.names, most=30)}."
        )
    if who.combinations is not None:
        table = None if who.table is None else as_pandas(who.table)
        asked = with_sensitive(own, own.sensitive, table, who.combinations)
        if (asked.sensitive, asked.combinations) != (own.sensitive, own.combinations):
            return _about_others(about, own.sensitive, who)
    return _with_twins(about, who.twins)


def _about_others(model: Model, names: tuple[str, ...], who: Who) -> Model:
    """The model asked about other features than those it was made fair to: read anew, with its own graph as judge.

    Numbers among them of which the table shows few values are lists of these: nobody has what lies between.
    """
    if model.original is not None:
        raise InputError(
            f"this model was read with {shown(model.domain.sensitive)} as sensitive, and was asked about "
            f"{shown(names)}; load it with the others named sensitive."
        )
    from bornfair.importers.own import OwnSource

    made, own = model.certificate, model.domain.sensitive
    bare = model.domain if set(names) == set(own) else model.domain.replaced(twins=())
    table = None if who.table is None else as_pandas(who.table)
    rows = table if who.domain is None else None
    features = [
        listed(f, rows[f.name]) if rows is not None and f.name in names and f.name in rows.columns else f
        for f in bare.features
    ]
    if tuple(features) != bare.features:
        bare = bare.replaced(features=[f.model_dump() for f in features], sensitive=(), combinations=None)
    asked = with_sensitive(bare, names, table, who.combinations, detect=who.domain is None)
    found = imported(OwnSource(model), Who(asked, twins=who.twins), Reading())
    notes = [model.note] if model.note else []
    if made is not None and own:
        notes.append(
            f"asked about {shown(names)}; the model's own certificate is about {shown(own)} and says nothing of this"
        )
    return dataclasses.replace(found, note="; ".join(notes), offsets=model.offsets)


def _with_twins(model: Model, twins: str | Sequence[str] | None) -> Model:
    """The model with other rules for twins; what was proven under the old ones is left behind."""
    if twins is None:
        return model
    encoding = dataclasses.replace(model.encoding, domain=model.domain.with_twins(twins))
    return dataclasses.replace(model, encoding=encoding, certificate=None)


def _with_ranges(model: Model, domain: Domain) -> Model:
    """The model over another domain of the same features, where numbers may have other ranges."""
    own = model.domain
    if domain.names != own.names:
        raise InputError(
            f"the domain has the features {shown(domain.names)}, the model {shown(own.names)}; name the same."
        )
    for mine, theirs in zip(own.features, domain.features, strict=True):
        same_kind = mine.kind == theirs.kind
        fixed = mine.kind in ("categorical", "boolean") or mine.name in own.sensitive
        if not same_kind or (fixed and mine != theirs):
            raise InputError(
                f"feature '{mine.name}' is encoded into the network as {mine.kind} with "
                f"{shown(mine.levels())}; another domain may change only the ranges of numbers that are not sensitive."
            )
    changed = domain.replaced(sensitive=own.sensitive, combinations=own.combinations, label=own.label)
    encoding = dataclasses.replace(model.encoding, domain=changed)
    return dataclasses.replace(model, encoding=encoding, certificate=None)
