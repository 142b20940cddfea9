"""Models that can only be asked: rules over a small domain, as functions, programs, graphs and a service."""

import contextlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from bornfair import Domain
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature

SMALL = Domain(
    features=(
        IntegerFeature(name="age", low=20, high=49),
        CategoricalFeature(name="job", categories=("smith", "nurse", "clerk")),
        BooleanFeature(name="woman"),
    ),
    sensitive=("woman",),
    label=Label(name="loan", classes=("no", "yes")),
)
WIDE = Domain(
    features=(
        RealFeature(name="income", low=0.0, high=100_000.0),
        IntegerFeature(name="age", low=18, high=99),
        CategoricalFeature(name="job", categories=("smith", "nurse", "clerk")),
        CategoricalFeature(name="sex", categories=("f", "m")),
    ),
    sensitive=("sex",),
)


def by_age(people: pd.DataFrame) -> np.ndarray:
    """Women are decided as if they were three years younger: unfair at 3 of 30 ages, but for clerks."""
    bonus = np.where(people["woman"].astype(bool) & (people["job"] != "clerk"), 3, 0)
    return np.where(people["age"].to_numpy(float) - bonus >= 35, "yes", "no")


def unfair_to(model, domain: Domain) -> float:
    """The share of the domain whose versions are decided differently: everybody is listed, and asked about at once."""
    free = list(product(*(f.levels() for f in domain.free_features)))
    names = (*domain.free_names, *domain.sensitive)
    rows = [person + values for person in free for values in domain.sensitive_space.values]
    decided = np.asarray(model(pd.DataFrame(rows, columns=list(names)))).reshape(len(free), -1)
    return float(np.mean([len(set(versions)) > 1 for versions in decided.tolist()]))


PROGRAM = """
import csv, sys
for row in csv.DictReader(sys.stdin):
    bonus = 3 if row["woman"] == "True" and row["job"] != "clerk" else 0
    print("yes" if int(row["age"]) - bonus >= 35 else "no")
"""


def command(folder: Path, program: str = PROGRAM, name: str = "program.py") -> str:
    """A command line that runs the program without waiting for site packages."""
    place = folder / name
    place.write_text(program)
    return f"{sys.executable} -S {place}"


@contextlib.contextmanager
def served(answer):
    """A service on the loopback address; `answer(rows, handler)` gives what is sent back as JSON, or None if the
    handler has answered by itself.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["rows"]
            found = answer(rows, self)
            if found is None:
                return
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            with contextlib.suppress(BrokenPipeError):  # whoever asked may not have waited
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/decide"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
