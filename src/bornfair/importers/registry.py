"""Readers of files and objects of other libraries, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bornfair.core.checks import later
from bornfair.core.errors import InputError
from bornfair.models.columns import Who
from bornfair.models.protocol import Decider
from bornfair.models.reading import Reading

if TYPE_CHECKING:
    from bornfair.importers.onnx_file import OnnxFile
    from bornfair.models.graph.model import WiredModel

FILES = "a bundle (a folder or .zip), an .onnx, .h5, .keras or .nnet file, or the .json, .ubj or .txt of a forest"
TABLES = (".csv", ".tsv", ".gz", ".parquet", ".pq")
EXECUTABLE = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".bin", ".dill", ".cloudpickle", ".npy")
OBJECTS = (
    "a bundle, a .nnet file, a FairModel or a fitted FairClassifier, a scikit-learn classifier or pipeline, a model of "
    "XGBoost, LightGBM or CatBoost, a torch.nn.Sequential, or an .onnx, .h5 or .keras file; or, to be asked and not "
    "read, any object with predict or a function from rows to decisions"
)


@dataclass(frozen=True)
class Reader:
    """One kind of source.

    claims: whether a source is of this kind; it opens nothing.
    read: the model for the people who are asked about.
    chooses: whether the reader itself checks `decision_output`; all others refuse it.
    """

    claims: Callable[[Any], bool]
    read: Callable[[Any, Who, Reading], Decider]
    chooses: bool = False


def read(source: Any, who: Who, asked: Reading, readers: Iterable[Reader]) -> Decider:
    """The model, from the first reader that claims the source."""
    for reader in readers:
        if reader.claims(source):
            if not reader.chooses:
                what = f"'{source}'" if isinstance(source, (str, Path)) else f"a model of type {type(source).__name__}"
                asked.only_for(what, "decision", "threshold", "normalise")
            return reader.read(source, who, asked)
    raise _unclaimed(source)


def _unclaimed(source: Any) -> InputError:
    if not isinstance(source, (str, Path)):
        return InputError(f"a model must be {OBJECTS}, found {type(source).__name__}.")
    path = Path(source)
    if path.suffix.lower() in EXECUTABLE:
        return InputError(
            f"'{path}' is a pickle or the like: loading it would run whatever code is in it, so it is not opened; load "
            "it yourself and hand over the model, or export it to ONNX (skl2onnx, torch.onnx.export)."
        )
    if not path.exists():
        return InputError(f"there is no model '{path}'; give {FILES}.")
    check_no_table(path)
    return InputError(f"'{path}' is not a kind of model that can be read; give {FILES}.")


def check_no_table(path: Path) -> None:
    """Refuse what is a table by its name where a model is asked for."""
    if path.suffix.lower() in TABLES:
        raise InputError(f"'{path}' is a table, not a model; name it as people (--data {path}), and give {FILES}.")


def a_file(*suffixes: str) -> Callable[[Any], bool]:
    """Whether a source names a file that exists and ends in one of these."""

    return lambda source: _suffix(source) in suffixes and Path(source).exists()


def libraries_of(source: Any) -> list[str]:
    """The libraries of an object's class and of the classes that it extends."""
    return [cls.__module__.split(".")[0] for cls in type(source).__mro__]


def _of_library(*libraries: str) -> Callable[[Any], bool]:
    """Whether an object comes from one of these libraries."""
    return lambda source: not set(libraries).isdisjoint(libraries_of(source))


def is_graph(source: Any) -> bool:
    """Whether this names an .onnx file."""
    return _suffix(source) == ".onnx"


def _suffix(source: Any) -> str:
    """How the name of a file ends; "" of anything else."""
    return Path(source).suffix.lower() if isinstance(source, (str, Path)) else ""


def made_here(source: Any, kind: str) -> Any:
    """A model of this kind: the source itself, or what an estimator of bornfair holds; None if neither."""
    held = (source, getattr(source, "model_", None))
    return next((one for one in held if isinstance(one, Decider) and one.kind == kind), None)


def _as_read(model: Decider, who: Who, asked: Reading) -> Decider:
    """A model of another kind, about the people whom it was read for."""
    asked.only_for(model.name)
    own = model.domain.sensitive
    if who.domain not in (None, model.domain) or who.twins or set(who.sensitive or own) != set(own):
        raise InputError(f"{model.name} was read for other people; read it anew for those you ask about.")
    return model


def graph_model(file: OnnxFile, who: Who, asked: Reading) -> Decider:
    """The model of an ONNX graph: a network, a forest, or its wires alone."""
    from bornfair.importers.onnx_forest import has_trees, onnx_forest
    from bornfair.importers.onnx_source import OnnxSource
    from bornfair.importers.source import imported
    from bornfair.importers.tree_source import imported_forest

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
    from bornfair.models.graph.model import WiredModel

    try:
        core, domain, at = onnx_core(file, who, asked)
        found = WiredModel(around(core, domain, "as it is", at=at), domain, note="only its wires were read")
    except InputError:
        raise unread from None
    if found.unclear() is not None:
        raise unread
    return found


_network = later("importers.source.imported")
_forest = later("importers.tree_source.imported_forest")


def _opened(opening: Callable[[Any], Any], importing: Callable[..., Decider]) -> Callable[[Any, Who, Reading], Decider]:
    """Open the source, and import what that gives for the people who are asked about."""
    return lambda source, who, asked: importing(opening(source), who, asked)


def _scikit(source: Any, who: Who, asked: Reading) -> Decider:
    if later("importers.scikit_forest.ends_in_forest")(source):
        return _opened(later("importers.scikit_forest.scikit_forest"), _forest)(source, who, asked)
    return _opened(later("importers.scikit.ScikitSource"), _network)(source, who, asked)


OWN: tuple[Reader, ...] = (
    Reader(lambda source: made_here(source, "graph") is not None, later("importers.own.wired_model"), chooses=True),
    Reader(
        lambda source: isinstance(source, Decider) and source.kind == "forest",
        later("importers.own.forest_model"),
        chooses=True,
    ),
    Reader(lambda source: made_here(source, "network") is not None, later("importers.own.network_model"), chooses=True),
    Reader(lambda source: isinstance(source, Decider) and source.is_read, _as_read, chooses=True),
)
"""Of models that were read or made here."""
READERS = [
    Reader(lambda source: _suffix(source) == ".nnet", later("importers.nnet.nnet_model")),
    Reader(a_file(".h5", ".hdf5", ".keras"), _opened(later("importers.keras_file.read_keras"), _network)),
    Reader(a_file(".json", ".ubj", ".txt"), _opened(later("importers.boosting.forest_file"), _forest)),
    Reader(_of_library("xgboost", "lightgbm", "catboost"), _opened(later("importers.boosting.forest_object"), _forest)),
    Reader(_of_library("torch"), _opened(later("importers.dense_stack.read_torch"), _network)),
    Reader(_of_library("sklearn"), _scikit),
]
"""Of files and objects of other libraries. A program adds a reader of its own at the front."""
