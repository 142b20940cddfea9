"""bornfair check: may I believe this bundle?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bornfair.cli.options import Json, Seed
from bornfair.cli.output import STATUS, print_json, say, tell
from bornfair.core.errors import InputError
from bornfair.core.files import read_whole, recover, write_atomically


def check(
    bundle: Annotated[Path | None, typer.Argument(help="A bundle: a folder or a .zip.")] = None,
    checker: Annotated[
        Path | None, typer.Option(help="Copy the checker to this file, to be run elsewhere with Python alone.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Check a bundle with the independent checker, which trusts nothing but the files.

    Status 0: valid, verified. Status 1: rejected, or valid and falsified. Status 3: valid, but nothing is certified.
    """
    from bornfair.proof import checker as independent

    if checker is not None:
        write_atomically(checker, Path(str(independent.__file__)).read_bytes())
        (say if json else tell)(f"{checker}: run it as  python {checker.name} BUNDLE")
        if bundle is None:
            return
    if bundle is None:
        raise InputError("name the bundle to check: a folder or a .zip that train wrote.")
    if not recover(bundle):
        raise InputError(f"there is no bundle '{bundle}'; give the folder or .zip that train wrote.")
    found = read_whole(bundle, lambda place: independent.check(place, None if json else say))
    if json:
        print_json(found)
    else:
        tell(*independent.told(found).splitlines())
    raise typer.Exit(STATUS[found["verdict"]] if found["valid"] else 1)
