"""The answer of a cluster is that of one process, and a machine that is lost on the way changes nothing but the time.

They start a Ray cluster of two nodes and a Dask cluster of two workers on this machine, and need the extras for them.
Where these are missing the tests are skipped with that reason, unless BORNFAIR_NEED_CLUSTER=1 says that they must be
there; then they fail (`make cluster`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal

import numpy as np
import pytest

from bornfair.core.errors import InputError
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.shares import forms
from bornfair.parallel import Workers, engines
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature
from bornfair.quantification import measure
from bornfair.verification.search import search
from samples import bornfair

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("ray", "distributed"))
        and os.environ.get("BORNFAIR_NEED_CLUSTER") != "1",
        reason="needs Ray and Dask: pip install 'bornfair[ray,dask]'",
    ),
    pytest.mark.filterwarnings("ignore"),  # of other people's clusters
]
STORE = 80 * 2**20  # bytes of a Ray node's object store


class RayNodes:
    """Two nodes of one core each, beside the one that we are on, which has none."""

    def __init__(self) -> None:
        import ray
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE})
        self.nodes = [self.cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]
        ray.init(self.cluster.address, log_to_driver=False, logging_level="ERROR")
        self.address = "auto"

    def lose_one(self) -> None:
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()


class DaskWorkers:
    """Two workers, each a process."""

    def __init__(self) -> None:
        from distributed import LocalCluster

        self.cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        self.address = self.cluster.scheduler_address

    def lose_one(self) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    def close(self) -> None:
        self.cluster.close()


@pytest.fixture(scope="module", params=[RayNodes, DaskWorkers])
def cluster(request):
    found = request.param()
    yield found
    found.close()


def a_hundred_thousand_people() -> Model:
    rng = np.random.default_rng(3)
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=17) for k in range(4))
    who = Domain(features=(*features, BooleanFeature(name="s")), sensitive=("s",))
    weight = rng.normal(size=(8, 5)) * [1, 1, 1, 1, 0.05]
    layers = (Layer(weight, 4 * rng.normal(size=8)), Layer(rng.normal(size=(1, 8)), np.array([0.3])))
    return Model(Network(layers), Encoding(who, {f"x{k}": Scale(centre=0.0, exponent=0) for k in range(4)}))


def answers(workers: Workers | int) -> tuple[dict, tuple]:
    """Shares and a verdict, after so many boxes, without the seconds they took."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "NUMBERS", 2**11)  # few boxes in a batch
        patch.setattr(measure, "FEW", 1)
        shares = measure.shares_of(
            a_hundred_thousand_people(), timeout=600.0, most_boxes=1500, samples=500, most_samples=20_000, jobs=workers
        )
    verdict = search(hidden(), timeout=600.0, batch=32, stop_after=900, jobs=workers)
    return (
        {name: value for name, value in shares.to_json().items() if name != "seconds"},
        (verdict.answer, verdict.boxes, verdict.reason.split(" in ")[0], verdict.twins),
    )


def hidden() -> Model:
    """A model in which nobody is treated unfairly, and that takes long to see."""
    model = a_hundred_thousand_people()
    first, *rest = model.network.layers
    weight = first.weight.copy()
    weight[:, -1] *= 0.003
    return Model(Network((Layer(weight, first.bias), *rest)), model.encoding)


@pytest.fixture(scope="module")
def alone():
    return answers(1)


def test_a_cluster_answers_as_one_process_does_also_when_a_machine_is_lost(cluster, alone, monkeypatch):
    shares, verdict = alone
    assert shares["boxes"] >= 1000 and 0 < shares["undecided"] < 1, "there is something to share"
    assert verdict[:2] == ("undecided", 900)
    with Workers.of(cluster=cluster.address) as workers:
        assert workers.jobs == 2
        assert answers(workers) == alone
        given = 0
        ordered = workers.ordered

        def losing(*asked):
            nonlocal given
            for found in ordered(*asked):
                given += 1
                if given == 20:
                    cluster.lose_one()
                yield found

        monkeypatch.setattr(workers, "ordered", losing)
        assert answers(workers) == alone
        assert given > 40


def test_the_command_shares_its_work_with_a_cluster(cluster, tmp_path):
    tmp_path.joinpath("n.nnet").write_text(
        "// two inputs\n1,2,1,2,\n2,1,\n0,\n0,0,\n9,1,\n0,0,0,\n1,1,1,\n1.0,0.5,\n-4.25,\n"
    )  # x from 0 to 9 and s: unfair where x = 4
    asked = ["quantify", "n.nnet", "--sensitive", "1", "--timeout", "60", "--json"]
    found = [
        json.loads(bornfair(*asked, *where, cwd=tmp_path).stdout) for where in ([], ["--cluster", cluster.address])
    ]
    assert found[0]["counts"] == {"certified": 9, "falsified": 1, "undecided": 0}
    assert found[0] | {"seconds": 0} == found[1] | {"seconds": 0}


def test_workers_of_another_version_are_refused(cluster, monkeypatch):
    monkeypatch.setattr("bornfair.__version__", "9.9")
    with pytest.raises(InputError, match=r"run bornfair .* and this is bornfair 9\.9, .*; install the same there"):
        Workers.of(cluster=cluster.address)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "ray://127.0.0.1:9"])
def test_a_cluster_that_is_not_there_is_one_sentence(address, monkeypatch):
    monkeypatch.setattr(engines, "CONNECTING", 0.5)
    with pytest.raises(InputError, match=f"the cluster '{address}' cannot be reached .*; start it with"):
        Workers.of(cluster=address)
