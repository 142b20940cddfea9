"""A trained model as people hand it over: a folder, or one .zip, of four files. Nothing in it is executable.

model.onnx (raw columns in, decision out), domain.json (who exists), certificate.json (what was proven of just these two
files) and report.html (the same for people). `bornfair check` examines it without trusting any of this.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np

from bornfair import checker
from bornfair.certificate import Certificate, certificate_of
from bornfair.domain import NUMERIC, Domain
from bornfair.encoding import Encoding
from bornfair.errors import InputError
from bornfair.files import check_replaceable, read_whole, recover, write_atomically, write_folder
from bornfair.model import FairModel
from bornfair.network import Layer, Network
from bornfair.onnx_graph import METADATA, graph_columns, number_steps, onnx_bytes, shown_levels
from bornfair.report import render
from bornfair.verification import Verdict

CERTIFICATE, DOMAIN, MODEL, REPORT = "certificate.json", "domain.json", "model.onnx", "report.html"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a .zip knows: the same model gives the same bytes


def save_bundle(model: FairModel, path: str | Path, *, sensitive: bool = True) -> Path:
    """Write a bundle: a folder, or one file if the name ends in .zip. It appears whole or not at all.

    With `sensitive=False` model.onnx has no sensitive inputs; only a model that ignores them can be saved so.
    """
    target, files = Path(path), bundle_files(model, sensitive=sensitive)
    if target.suffix.lower() == ".zip":
        check_replaceable(target, marker=DOMAIN)
        return write_atomically(target, _zipped(files))
    return write_folder(target, files, marker=DOMAIN)


def bundle_files(model: FairModel, *, sensitive: bool = True) -> dict[str, bytes]:
    """The files of a bundle by name."""
    certificate = model.certificate
    if certificate is None:
        nobody_asked = Verdict("undecided", "none", "none", (), "this model was not examined.")
        certificate = certificate_of(model, nobody_asked, seconds=0)
    files = {MODEL: onnx_bytes(model, sensitive=sensitive), DOMAIN: model.domain.text().encode()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    facts = dataclasses.replace(certificate, files=digests).to_json()
    files[CERTIFICATE] = (json.dumps(facts, ensure_ascii=False, indent=None if facts["tree"] else 2) + "\n").encode()
    files[REPORT] = render(facts, model.domain).encode()
    return files


def load_bundle(path: str | Path) -> FairModel:
    """Read a bundle. Its certificate must be about these very files; `bornfair check` examines the proof itself."""
    place = Path(path)
    try:
        if not recover(place):
            raise InputError(f"there is no bundle '{place}'; give the folder or .zip that training wrote.")
        files = read_whole(place, checker.read_bundle)
        domain = Domain.from_json(files[DOMAIN].decode(errors="replace"), origin=str(place / DOMAIN))
        people = checker.People(checker.parse_json(files[DOMAIN], DOMAIN))
        found = checker.read_model(files[MODEL], people)
        certificate = Certificate.from_json(checker.parse_json(files[CERTIFICATE], CERTIFICATE))
        for name in (MODEL, DOMAIN):
            if certificate.files[name] != hashlib.sha256(files[name]).hexdigest():
                raise InputError(
                    f"'{place}': the certificate is about another {name}; the files do not belong together."
                )
    except InputError:
        raise
    except (checker.Rejected, OSError, MemoryError, *checker.MALFORMED) as error:
        raise InputError(f"cannot read '{place}': {error}; is the bundle complete and unchanged?") from error
    return FairModel(*network_and_encoding(found, domain, str(place / MODEL)), certificate)


def network_and_encoding(found: checker.Network, domain: Domain, origin: str) -> tuple[Network, Encoding]:
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
    return Network(tuple(layers), found.activation), encoding  # type: ignore[arg-type]


def _agrees(found: checker.Network, encoding: Encoding) -> bool:
    """Whether the graph encodes every feature as the encoding says."""
    by_feature: dict[str, list[checker.Column]] = {}
    for column in found.columns:
        by_feature.setdefault(column.feature, []).append(column)
    for feature in encoding.domain.free_features:
        mine = by_feature.get(feature.name, [])
        if isinstance(feature, NUMERIC):
            if [column.steps for column in mine] != [number_steps(encoding, feature.name)]:
                return False
            continue
        shown = [[column.value(level, False) for column in mine] for level in feature.levels()]
        if not np.array_equal(np.array(shown, np.float32), shown_levels(encoding, feature)):
            return False
    for coded in encoding.domain.sensitive_space.features:
        mine = by_feature.get(coded.feature.name, [])
        if mine and isinstance(coded.feature, NUMERIC):
            if [column.steps for column in mine] != [() if encoding.raw else coded.steps]:
                return False
        elif mine:
            codes = [[column.value(level, False) for column in mine] for level in coded.feature.levels()]
            if not np.array_equal(np.array(codes, np.float32), coded.table):
                return False
    return True


def _zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, date_time=EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return content.getvalue()


def export_onnx(model: FairModel, path: str | Path, *, sensitive: bool = True) -> Path:
    """Write the model alone, for serving. Without `sensitive` columns only if it ignores them."""
    return write_atomically(path, onnx_bytes(model, sensitive=sensitive))
