"""A trained model as a folder: domain.json, encoding.json, model.safetensors, certificate.json. Nothing in it is
executable.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

from bornfair.certificate import Certificate, weights_digest
from bornfair.domain import Domain
from bornfair.encoding import Encoding
from bornfair.errors import InputError
from bornfair.files import folder_written_atomically
from bornfair.model import FairModel
from bornfair.network import Network
from bornfair.verification import Verdict

CERTIFICATE, DOMAIN, ENCODING, MODEL = "certificate.json", "domain.json", "encoding.json", "model.safetensors"


def save_bundle(model: FairModel, path: str | Path) -> Path:
    """Write a bundle: the folder appears whole or not at all."""
    with folder_written_atomically(path, marker=DOMAIN) as folder:
        model.domain.save(folder / DOMAIN)
        _write_json(folder / ENCODING, model.encoding.to_json() | {"activation": model.network.activation})
        (folder / MODEL).write_bytes(tensor_bytes(model.network.tensors()))
        if model.certificate is not None:
            _write_json(folder / CERTIFICATE, model.certificate.to_json())
    return Path(path)


def load_bundle(path: str | Path) -> FairModel:
    """Read a bundle. The certificate must be about these very weights; `bornfair check` examines the proof itself."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"there is no bundle '{folder}'; give the folder that training wrote.")
    domain = Domain.load(folder / DOMAIN)
    settings = _read_json(folder / ENCODING)
    encoding = Encoding.from_json(domain, settings, origin=str(folder / ENCODING))
    try:
        tensors = read_tensors((folder / MODEL).read_bytes())
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read '{folder / MODEL}' ({error}); is the bundle complete?") from error
    network = Network.from_tensors(tensors, settings.get("activation", "relu"), folder / MODEL)
    expected = (encoding.width, domain.outputs)
    if (network.widths[0], network.outputs) != expected:
        raise InputError(
            f"'{folder}': the network has {network.widths[0]} inputs and {network.outputs} outputs, but its domain "
            f"needs {expected[0]} and {expected[1]}; the files do not belong together."
        )
    certificate = _certificate(folder / CERTIFICATE) if (folder / CERTIFICATE).exists() else None
    if certificate is not None and certificate.weights_sha256 != weights_digest(network):
        raise InputError(f"'{folder}': the certificate is about another network; the files do not belong together.")
    return FairModel(network, encoding, certificate)


def _certificate(path: Path) -> Certificate:
    data = _read_json(path)
    try:
        verdict = data["verdict"] | {"arithmetic": tuple(data["verdict"]["arithmetic"])}
        return Certificate(**(data | {"verdict": Verdict(**verdict), "sensitive": tuple(data["sensitive"])}))
    except (KeyError, TypeError) as error:
        raise InputError(f"'{path}' is not a bornfair certificate ({error}).") from error


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"cannot read '{path}' ({error}); is the bundle complete?") from error
    if not isinstance(data, dict):
        raise InputError(f"'{path}' must hold one JSON object, found {type(data).__name__}.")
    return data
