"""Bundles: a trained model as a folder, or one .zip, of four files. Nothing in it is executable.

model.onnx (raw columns in, decision out), domain.json (who exists), certificate.json (what was proven of just these
files) and report.html (the same for people). The bundle of a forest may have a fifth file, model.json or model.txt, in
the format of the library that trained it. Of a graph of any operators the wires are proven. `bornfair check` examines
the bundle and trusts none of these files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from bornfair.core.errors import InputError
from bornfair.core.files import check_replaceable, read_whole, recover, write_atomically, write_folder
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import Cut, Summation
from bornfair.models.forest.model import ForestModel, Native
from bornfair.models.forest.onnx_graph import METADATA as FOREST_METADATA
from bornfair.models.forest.planting import Planting
from bornfair.models.graph.model import WiredModel
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.onnx_graph import METADATA, graph_columns
from bornfair.models.protocol import Exportable
from bornfair.models.verdict import Verdict
from bornfair.people.columns import GapColumns, NumberColumn
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.proof import checker
from bornfair.proof.certificate import Certificate, certificate_of, certified
from bornfair.report import render
from bornfair.verification.decide import decide

CERTIFICATE, DOMAIN, MODEL, REPORT = "certificate.json", "domain.json", "model.onnx", "report.html"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a .zip knows: the same model gives the same bytes


class Bundle(Exportable):
    """A model of any kind as people keep it and hand it over: it can be asked, certified, saved and served."""

    @classmethod
    def of(cls, model: Exportable) -> Self:
        """The same model, to be kept."""
        names = (field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]  # each kind is a dataclass
        return model if isinstance(model, cls) else cls(**{name: getattr(model, name) for name in names})

    def verify(self, *, timeout: float = 60.0, seed: int = 0) -> Verdict:
        """Ask the verifier anew, from the model alone, whether twins always get the same decision."""
        return decide(self, timeout=timeout, seed=seed)

    def certified(self, *, timeout: float = 60.0, seed: int = 0) -> Self:
        """The same model with a certificate of what the verifier finds out now: verified, falsified, or undecided."""
        return certified(self, timeout=timeout, seed=seed)

    def save(self, path: str | Path, *, sensitive: bool = True) -> Path:
        """Write a bundle: a folder, or one file if the name ends in .zip.

        sensitive=False: its model.onnx takes no sensitive columns (only if the model ignores them).
        """
        return save_bundle(self, path, sensitive=sensitive)

    def export_onnx(self, path: str | Path, *, sensitive: bool = True) -> Path:
        """Write model.onnx alone, to be served by onnxruntime."""
        return write_atomically(path, self.graph_bytes(sensitive=sensitive))


class FairModel(Bundle, Model):
    """A network to be kept.

    >>> from bornfair import FairClassifier, datasets
    >>> people = datasets.load("credit").table
    >>> clf = FairClassifier(["sex"], hidden=[4], epochs=1).fit(people.drop(columns="risk"), people["risk"])
    >>> clf.model_.verify().answer, clf.model_.empirical_fairness(people)
    ('verified', 1.0)
    """


class FairForest(Bundle, ForestModel):
    """A forest to be kept.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from bornfair import datasets, repair
    >>> people = datasets.load("credit").table[["age", "amount", "duration_months", "risk"]]
    >>> tree = DecisionTreeClassifier(max_depth=3).fit(people.drop(columns="risk"), people["risk"])
    >>> found = repair(tree, people, target="risk", sensitive_features=["age"])
    >>> found.model.kind, found.model.ignores_sensitive, found.model.verify(timeout=5).answer
    ('forest', True, 'verified')
    """


class FairGraph(Bundle, WiredModel):
    """A graph to be kept, with anything inside.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bornfair import FairWrapper, datasets
    >>> people = datasets.load("credit").table
    >>> clf = FairWrapper(GaussianNB(), ["sex"], method="average").fit(people.drop(columns="risk"), people["risk"])
    >>> clf.model_.kind, clf.model_.verify().reason
    ('graph', 'no path leads from sex to the decision')
    """


AnyBundle = FairModel | FairForest | FairGraph
_BUNDLES: Mapping[str, type[AnyBundle]] = {
    "network": FairModel, "forest": FairForest, "graph": FairGraph,
}  # fmt: skip


def bundle_of(model: Exportable) -> AnyBundle:
    """The same model, to be kept."""
    return _BUNDLES[model.kind].of(model)


def save_bundle(model: Exportable, path: str | Path, *, sensitive: bool = True) -> Path:
    """Write a bundle: a folder, or one file if the name ends in .zip. It appears whole or not at all.

    With `sensitive=False` model.onnx has no sensitive inputs; only a model that ignores them can be saved so.
    """
    target, files = Path(path), bundle_files(model, sensitive=sensitive)
    if target.suffix.lower() == ".zip":
        check_replaceable(target, marker=DOMAIN)
        return write_atomically(target, _zipped(files))
    return write_folder(target, files, marker=DOMAIN)


def _zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, date_time=EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return content.getvalue()


def bundle_files(model: Exportable, *, sensitive: bool = True) -> dict[str, bytes]:
    """The files of a bundle by name."""
    certificate = model.certificate
    if certificate is None:
        nobody_asked = Verdict("undecided", "none", "none", (), "this model was not examined.")
        certificate = certificate_of(model, nobody_asked, seconds=0)
    files = {MODEL: model.graph_bytes(sensitive=sensitive), DOMAIN: model.domain.text().encode()}
    if isinstance(model, ForestModel) and model.native is not None:
        files |= _native(model, model.native, certificate)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    facts = dataclasses.replace(certificate, files=digests).to_json()
    files[CERTIFICATE] = (json.dumps(facts, ensure_ascii=False, indent=None if facts["tree"] else 2) + "\n").encode()
    files[REPORT] = render(facts, model.domain).encode()
    return files


def _native(model: ForestModel, native: Native, certificate: Certificate) -> dict[str, bytes]:
    """The library's own file, where the checker can say of it what the certificate says, or that is nothing good.

    It adds up otherwise than model.onnx does: what is shown by bounds on sums is not shown of it.
    """
    name, verdict = f"model{native.suffix}", certificate.verdict
    if native.suffix == ".ubj" or (model.operating and verdict.covers != "score"):  # it decides elsewhere
        return {}
    if verdict.answer == "verified":
        people = checker.Individuals(checker.parse_json(model.domain.text().encode(), DOMAIN))
        try:
            checker.need(verdict.proof == "structural", "sums are not examined there")
            checker.prove_native(name, native.content, people)
        except (checker.Rejected, *checker.MALFORMED):
            return {}
    return {name: native.content}


def load_bundle(path: str | Path) -> AnyBundle:
    """Read a bundle. Its certificate must be about these very files; `bornfair check` examines the proof itself.

    Args:
        path: the folder or .zip that `save` or `bornfair train` wrote.

    Returns:
        The model with its certificate.

    Raises:
        InputError: if a file is missing, damaged, or not the one that the certificate speaks of.

    >>> import tempfile
    >>> from bornfair import FairClassifier, datasets
    >>> people = datasets.load("credit").table
    >>> clf = FairClassifier(["sex"], hidden=[4], epochs=1).fit(people.drop(columns="risk"), people["risk"])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     load_bundle(clf.save(f"{place}/bundle")).certificate.verdict.answer
    'verified'
    """
    place = Path(path)
    try:
        if not recover(place):
            raise InputError(f"there is no bundle '{place}'; give the folder or .zip that training wrote.")
        files = read_whole(place, checker.read_bundle)
        domain = Domain.from_json(files[DOMAIN].decode(errors="replace"), origin=str(place / DOMAIN))
        people = checker.Individuals(checker.parse_json(files[DOMAIN], DOMAIN))
        found = checker.read_model(files[MODEL], people)
        certificate = Certificate.from_json(checker.parse_json(files[CERTIFICATE], CERTIFICATE))
        for name in (name for name in files if name != CERTIFICATE):
            if certificate.files.get(name) != hashlib.sha256(files[name]).hexdigest():
                raise InputError(
                    f"'{place}': the certificate is about another {name}; the files do not belong together."
                )
    except InputError:
        raise
    except (checker.Rejected, OSError, MemoryError, *checker.MALFORMED) as error:
        raise InputError(f"cannot read '{place}': {error}; is the bundle complete and unchanged?") from error
    return _shipped(found, domain, str(place / MODEL), files, certificate)


def own_model(path: Path, content: bytes, domain: Domain | None) -> AnyBundle:
    """A model.onnx that bornfair wrote, with its domain (or the domain.json beside it)."""
    beside = path.parent / DOMAIN
    if domain is None:
        if not beside.is_file():
            raise InputError(f"'{path}' was written by bornfair without its {DOMAIN}; give the domain, or the bundle.")
        domain = Domain.load(beside)
    try:
        people = checker.Individuals(checker.parse_json(domain.text().encode(), DOMAIN))
        found = checker.read_model(content, people)
    except (checker.Rejected, *checker.MALFORMED) as error:
        raise InputError(
            f"cannot read '{path}' with this domain: {error}; give the domain it was trained with."
        ) from error
    return _shipped(found, domain, str(path), {MODEL: content})


def _shipped(
    found: checker.NetworkGraph | checker.ForestGraph | checker.Wiring,
    domain: Domain,
    origin: str,
    files: dict[str, bytes],
    certificate: Certificate | None = None,
) -> AnyBundle:
    """The model inside files as the checker read it."""
    if isinstance(found, checker.Wiring):
        return FairGraph(files[MODEL], domain, certificate)
    if isinstance(found, checker.NetworkGraph):
        return _shipped_network(found, domain, origin, certificate)
    native = next((Native(Path(name).suffix, files[name]) for name in checker.NATIVE if name in files), None)  # type: ignore[arg-type]
    return _shipped_forest(found, domain, origin, certificate, native)


def _shipped_network(
    found: checker.NetworkGraph, domain: Domain, origin: str, certificate: Certificate | None
) -> FairModel:
    try:
        settings = json.loads(found.metadata[METADATA])
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"'{origin}' was not written by bornfair: it has no encoding in its metadata.") from error
    encoding = Encoding.from_json(domain, settings, origin=origin)
    reads = any(column.feature in domain.sensitive for column in found.columns)
    columns = graph_columns(encoding, reads)
    if len(columns) != len(found.columns) or not _agrees(found, encoding):
        raise InputError(f"'{origin}': graph and metadata disagree about the encoding; was the file edited?")
    layers = []
    for i, (rows, bias) in enumerate(found.layers):
        weight = np.array(rows, np.float32).reshape(len(rows), -1)
        if i == 0:  # what the graph does not read has the weight 0
            whole = np.zeros((len(rows), encoding.width), np.float32)
            whole[:, columns] = weight
            weight = whole
        layers.append(Layer(weight, np.array(bias, np.float32)))
    network = Network(tuple(layers), found.activation)  # type: ignore[arg-type]
    return FairModel(network, encoding, certificate, offsets=tuple(found.offsets))


def _agrees(found: checker.NetworkGraph, encoding: Encoding) -> bool:
    """Whether the graph encodes every feature as the encoding says."""
    by_feature: dict[str, list[checker.InputColumn]] = {}
    for column in found.columns:
        by_feature.setdefault(column.feature, []).append(column)
    for name, own in encoding.columns.items():
        mine = by_feature.get(name, [])
        if name in encoding.domain.sensitive and not mine:  # a graph need not read what is sensitive
            continue
        if isinstance(own, GapColumns):
            shown = checker.InputColumn(name, None, own.number.steps, gap=own.fill)
            if mine != [shown, checker.InputColumn(name, {None: 1.0})]:
                return False
            continue
        if isinstance(own, NumberColumn):
            if [one.steps for one in mine] != [own.steps]:
                return False
            continue
        codes = [[one.value(level, False) for one in mine] for level in own.feature.levels()]
        if not np.array_equal(np.array(codes, np.float32), own.table):
            return False
    return True


def _shipped_forest(
    found: checker.ForestGraph,
    domain: Domain,
    origin: str,
    certificate: Certificate | None,
    native: Native | None,
) -> FairForest:
    """Trees over raw columns, summed in float64."""
    planting = Planting(origin, found.outputs)
    for root in found.roots:
        planting.add(**_tree(found, root))
    reads = tuple(dict.fromkeys(place.feature for place in found.places))
    columns = [_split_column(reads.index(place.feature), place) for place in found.places]
    at, alone = tuple(map(float, found.at)), found.outputs == 1
    offsets = () if alone or not any(at) else at
    cut = Cut(at=at[0] if alone else 0.0, link=found.link, slope=found.slope, offsets=offsets)  # type: ignore[arg-type]
    forest = planting.forest(reads, columns, _summation(found, origin), cut)
    try:
        told = json.loads(found.metadata[FOREST_METADATA])["operating"]
        operating = {str(name): float(share) for name, share in told.items()}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"'{origin}' was not written by bornfair: its metadata do not say where it decides."
        ) from error
    if not all(map(math.isfinite, operating.values())):
        raise InputError(f"'{origin}': its metadata say that it decides at no number; was the file edited?")
    return FairForest(forest, domain, reads, operating=operating, certificate=certificate, native=native)


def _tree(found: checker.ForestGraph, root: int) -> dict[str, Any]:
    rows: list[list[Any]] = []
    values: list[np.ndarray] = []
    waiting = [(found.yes[root] if found.is_idle(root) else root, -1, 0)]
    while waiting:
        at, parent, side = waiting.pop()
        here, value = len(rows), np.zeros(found.outputs)
        if parent >= 0:
            rows[parent][3 + side] = here
        if at < 0:
            value[found.targets[~at]] = found.weights[~at]
            rows.append([-1, 0.0, -1, -1, -1, False])
        else:
            rows.append([found.reads[at], float(found.splits[at]), -1, -1, -1, bool(found.missing[at])])
            waiting += [(found.no[at], here, 1), (found.yes[at], here, 0)]
        values.append(value)
    column, threshold, members, left, right, missing_left = map(list, zip(*rows, strict=True))
    return {
        "column": column, "threshold": threshold, "members": members, "left": left, "right": right,
        "missing_left": missing_left, "values": np.array(values),
    }  # fmt: skip


def _split_column(source: int, place: checker.TreeColumn) -> SplitColumn:
    if place.table is None or not place.others:  # a number, or true/false, which is one
        return SplitColumn(source, ())
    missing, other = map(float, place.others)
    codes = tuple((level, float(number)) for level, number in place.table.items() if level is not None)
    return SplitColumn(source, (), codes, other, missing)


def _summation(found: checker.ForestGraph, origin: str) -> Summation:
    operators = [operator for operator, _ in found.steps]
    if operators.count("Add") > 1:
        raise InputError(f"'{origin}' adds two base scores, which no model of bornfair does; was the file edited?")
    given = {operator: tuple(map(float, numbers)) for operator, numbers in found.steps}
    base = given.get("Add", (0.0,) * found.outputs)
    first = "Add" not in operators or operators[0] == "Add"
    divisor, scale = given.get("Div", (1.0,))[0], given.get("Mul", (1.0,))[0]
    return Summation("float64", base, first, divisor, scale, in_order=False)
