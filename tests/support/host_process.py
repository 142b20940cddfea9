"""One of several processes that train together on a small table; what it saw is printed as JSON.

python host_process.py ADDRESS:PORT,PROCESSES,PROCESS TABLE FOLDER [linger]: with `linger` training goes no further than
to its first checkpoint, and waits to be killed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from bornfair.training.hosts import ALONE, Hosts, joined

EPOCHS = 4


def network_digest(network: Any) -> str:
    return hashlib.sha256(b"".join(tensor.tobytes() for tensor in network.tensors().values())).hexdigest()


def trained(hosts: Hosts, table: str, folder: Path, checkpoint: Path | None, *, linger: bool = False) -> dict[str, Any]:
    from bornfair.people.domain import Domain
    from bornfair.people.sources import Source
    from bornfair.training.fitting import Recipe
    from bornfair.training.options import TrainingOptions
    from bornfair.training.streamed_fit import fit_streamed, survey_table

    looked = survey_table(Source.at(table), "grant", ["sex", "owner"], hosts=hosts)
    shown = looked.survey.representative(sensitive=["sex", "owner"], without=["grant"])
    domain = Domain.infer(shown, sensitive=["sex", "owner"]).replaced(label=looked.label)
    recipe = Recipe.of(TrainingOptions(hidden=[6], epochs=EPOCHS, batch_size=32, learning_rate=0.02), 0)
    largest: list[float] = []

    def seen(epoch: Any) -> None:
        network, codes = epoch.network(), domain.sensitive_space.codes
        largest.append(float(abs(network.sensitive_weights(network.widths[0] - codes.shape[1])).max()))

    def told(*_: Any) -> None:
        while linger and checkpoint is not None and checkpoint.exists():
            time.sleep(0.05)

    from bornfair.training import streaming

    streaming.WINDOW, streaming.BLOCK, streaming.SAVED_EVERY = 128, 32, 0.0
    began_at = checkpoint is not None and checkpoint.exists()
    fitted, figures = fit_streamed(
        looked, domain, recipe, folder=folder / f"rows-{hosts.process}-{hosts.processes}", test_fraction=0.25,
        callbacks=(seen,), checkpoint_path=checkpoint, resume=checkpoint is not None, told=told,
    )  # fmt: skip
    return {
        "resumed": began_at, "network": network_digest(fitted.model.network), "accuracy": figures["accuracy"],
        "rows": figures["rows"], "sensitive": largest, "verdict": fitted.model.certificate.verdict.proof,  # type: ignore[union-attr]
        "losses": [record.loss for record in fitted.training.history], "domain": domain.text(),
        "share": looked.survey.rows,
    }  # fmt: skip


def sensitive_gradient(hosts: Hosts) -> list[float]:
    """The largest gradient of a sensitive weight on each process, on rows of its own, all versions of each computed."""
    import jax
    import numpy as np

    from bornfair.people.domain import Domain
    from bornfair.people.features import CategoricalFeature
    from bornfair.training.loops import Regularised, batch_loss_of
    from bornfair.training.response import Response
    from bornfair.training.start import Exact, draw

    races = CategoricalFeature(name="race", categories=tuple("abc"))
    codes = Domain(features=(races,), sensitive=("race",)).sensitive_space.codes
    random = np.random.default_rng(hosts.process)
    rows = np.arange(50)
    table = {
        "inputs": random.normal(size=(50, 5)).astype(np.float32), "classes": random.integers(0, 2, 50),
        "codes": codes, "true": random.integers(0, len(codes), 50),
    }  # fmt: skip
    start = draw(Exact(), free_width=5, sensitive_width=codes.shape[1], hidden=[6], outputs=1, seed=0)
    loss = batch_loss_of("relu", Response(), 5, Regularised())
    gradient = jax.grad(loss)(start.to_jax(), table, rows, jax.random.key(0))
    own = [float(abs(gradient[0][0][:, 5:]).max()), float(abs(gradient[0][0][:, :5]).max())]
    return [value for one in hosts.gathered(json.dumps(own).encode()) for value in json.loads(one)]


def main() -> None:
    warnings.simplefilter("ignore")
    address, table, folder, *linger = sys.argv[1:]
    hosts = joined(address)
    place = Path(folder)
    result = {"together": trained(hosts, table, place, place / "saved", linger=bool(linger))}
    result["again"] = trained(hosts, table, place, None)
    result["gradient"] = sensitive_gradient(hosts)  # type: ignore[assignment]
    result["process"] = hosts.process  # type: ignore[assignment]
    print(json.dumps(result), flush=True)


def alone(table: str, folder: Path) -> dict[str, Any]:
    return trained(ALONE, table, folder, None)


if __name__ == "__main__":
    main()
