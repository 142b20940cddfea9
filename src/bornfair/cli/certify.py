"""bornfair certify: put what the verifier finds out into the bundle, in a form that can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bornfair.cli.options import Bundle, Data, Json, Seed, Threshold, Timeout, choices, rows_of, started
from bornfair.cli.output import STATUS, print_json, print_twins, tell
from bornfair.people.reading import Reading


@choices(Reading, after="data")
def certify(
    bundle: Bundle,
    out: Annotated[Path | None, typer.Option(help="Write a new bundle instead of replacing this one.")] = None,
    timeout: Timeout = 60.0,
    data: Data = None,
    threshold: Threshold = None,
    seed: Seed = 0,
    json: Json = False,
    **reading: Any,
) -> None:
    """Ask all engines whether the model is fair, and write a certificate of the answer, good or bad.

    Status 0: verified. Status 1: falsified; the certificate holds two people who show it. Status 3: undecided.
    """
    clock = started(timeout, quiet=json)
    from bornfair.proof.bundle import load_bundle, save_bundle
    from bornfair.proof.certificate import certified

    table = rows_of(data, reading)
    model = load_bundle(bundle)
    if threshold:
        model = model.at(threshold, table)
    model = certified(model, timeout=clock, seed=seed, table=table)
    written = save_bundle(model, out or bundle)
    certificate = model.certificate
    assert certificate is not None  # `certified` always writes one
    verdict = certificate.verdict
    leaves = sum(not isinstance(entry, list) for entry in certificate.tree or [])
    if json:
        print_json(
            verdict.to_json()
            | {"bundle": str(written), "claim": certificate.claim, "leaves": leaves, "thresholds": model.thresholds}
        )
    else:
        if verdict.twins:
            print_twins(certificate.claim, verdict.twins, verdict.decisions or ())
        else:
            tell(certificate.claim)
        tell(f"Written to {written}" + (f", with a proof tree of {leaves:,} leaves." if leaves else "."))
    raise typer.Exit(STATUS[verdict.verdict])
