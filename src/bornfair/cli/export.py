"""bornfair export: the model for serving, or the question about it for other verifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bornfair.cli.options import Bundle, Json, Seed
from bornfair.cli.output import print_json, tell


def export(
    bundle: Bundle,
    out: Annotated[
        Path, typer.Argument(help="A name.onnx for the model alone; a folder or .zip for a bundle, or with --query.")
    ],
    without_sensitive: Annotated[
        bool,
        typer.Option("--without-sensitive", help="Without the sensitive inputs, for a model that ignores them."),
    ] = False,
    query: Annotated[
        bool, typer.Option("--query", help="Write the fairness question as query.onnx and query.vnnlib instead.")
    ] = False,
    margin: Annotated[
        float,
        typer.Option(help="--query: how far above 0 a score must be to count as yes; other verifiers know ≥ only."),
    ] = 0.0,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write the model as ONNX (raw columns in, label and probabilities out), a bundle with its certificate, or the
    question whether it is fair.
    """
    from bornfair.proof.bundle import load_bundle

    model = load_bundle(bundle)
    if query:
        from bornfair.core.errors import InputError
        from bornfair.models.network.model import Model
        from bornfair.proof.vnnlib import export_query

        if not isinstance(model, Model):
            raise InputError("--query is about networks; the bundle holds a forest, which such verifiers do not read.")
        written = export_query(model, out, margin=margin)
        files = [str(written.network), str(written.property)]
    elif out.suffix.lower() == ".onnx":
        files = [str(model.export_onnx(out, sensitive=not without_sensitive))]
    else:
        files = [str(model.save(out, sensitive=not without_sensitive))]
    if json:
        print_json({"bundle": str(bundle), "files": files})
    else:
        tell(*files)
