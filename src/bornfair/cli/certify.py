"""bornfair certify: put what the verifier finds out into a bundle, in a form that can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bornfair.cli.options import (
    Data,
    DomainFile,
    Json,
    ModelFile,
    Seed,
    Sensitive,
    Target,
    Threshold,
    Timeout,
    Twins,
    choices,
    rows_of,
    started,
)
from bornfair.cli.output import STATUS, print_json, print_twins, say, tell
from bornfair.people.reading import TableReading


@choices("data", reading=TableReading)
def certify(
    model: ModelFile,
    out: Annotated[
        Path | None, typer.Option(help="Write a new bundle; without it a bundle is replaced, a forest needs it.")
    ] = None,
    timeout: Timeout = 60.0,
    data: Data = None,
    sensitive: Sensitive = None,
    target: Target = None,
    twins: Twins = None,
    domain: DomainFile = None,
    threshold: Threshold = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    reading: TableReading,
) -> None:
    """Ask all engines whether the model is fair, and write a certificate of the answer, good or bad.

    Of a bundle, or of anybody's forest (the .json of XGBoost, the .txt of LightGBM, trees in .onnx).

    Status 0: verified. Status 1: falsified; the certificate holds two people who show it. Status 3: undecided.
    """
    clock = started(timeout, quiet=json)
    table = rows_of(data, reading)
    found: Any
    place: Path | None
    if model.is_dir() or model.suffix.lower() == ".zip":
        found, place = _of_bundle(model, table, threshold, sensitive or twins or domain), out or model
    else:
        found, place = _of_forest(clock, model, table, threshold, out, sensitive, target, twins, domain), out
    from bornfair.proof.bundle import save_bundle
    from bornfair.proof.certificate import certified

    done = certified(found, timeout=clock, seed=seed, table=table)
    assert place is not None
    written = save_bundle(done, place)
    certificate = done.certificate
    assert certificate is not None  # `certified` always writes one
    verdict = certificate.verdict
    leaves = sum(not isinstance(entry, list) for entry in certificate.tree or [])
    if json:
        print_json(
            verdict.to_json()
            | {"bundle": str(written), "claim": certificate.claim, "leaves": leaves, "thresholds": done.thresholds}
        )
    else:
        if verdict.twins:
            print_twins(certificate.claim, verdict.twins, verdict.decisions or ())
        else:
            tell(certificate.claim)
        tell(f"Written to {written}" + (f", with a proof tree of {leaves:,} leaves." if leaves else "."))
    raise typer.Exit(STATUS[verdict.answer])


def _of_bundle(bundle: Path, table: Any, threshold: list[str] | None, others: object) -> Any:
    from bornfair.core.errors import InputError
    from bornfair.models.operating import Asked
    from bornfair.proof.bundle import load_bundle

    if others:
        raise InputError("a bundle says itself who is sensitive, who exists and who is whose twin; leave these out.")
    model = load_bundle(bundle)
    if not threshold:
        return model
    point = Asked.of(threshold).for_classes(model.classes.tolist())
    say(f"bornfair: the threshold is {point.text}.")
    return model.at(point, table)


def _of_forest(
    clock: Any,
    path: Path,
    table: Any,
    threshold: list[str] | None,
    out: Path | None,
    sensitive: list[str] | None,
    target: str | None,
    twins: list[str] | None,
    domain: Path | None,
) -> Any:
    from bornfair.core.errors import InputError
    from bornfair.core.files import check_replaceable
    from bornfair.models.protocol import Exportable
    from bornfair.proof.bundle import bundle_of
    from bornfair.questions import Question

    if out is None:
        raise InputError(f"'{path}' is no bundle; name one to write with --out.")
    check_replaceable(out, marker="domain.json")
    asked = Question.within(
        clock, path, domain=domain, table=table, target=target, sensitive_features=sensitive or None,
        twins=twins or None, threshold=threshold or None,
    )  # fmt: skip
    if not asked.model.is_read:
        raise InputError(
            f"'{path}' can be run and not read ({asked.model.unread.rstrip('.')}), so that nothing can be certified of "
            "it; `bornfair verify` and `bornfair audit` ask it from outside."
        )
    if asked.model.kind != "forest" or not isinstance(asked.model, Exportable):
        raise InputError(
            f"'{path}' is a network of somebody else's, of which a bundle would hold another graph than it is; "
            "`bornfair verify` answers about it, and `bornfair repair` writes a bundle."
        )
    return bundle_of(asked.model)
