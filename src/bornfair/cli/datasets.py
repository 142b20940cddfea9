"""bornfair demo, datasets: what there is to train on without a file of one's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bornfair.cli.output import LARGEST_SEED, print_json, print_table, print_twins, say, tell, training_progress

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.datasets import Entry
    from bornfair.estimator import FairClassifier
    from bornfair.people.domain import Domain


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write the bundle to.")] = Path("demo-output/credit-bundle"),
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same bytes.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Train on German Credit (1,000 applicants; sensitive: sex and age), plainly and fairly, and compare."""
    from bornfair import Domain, datasets, load
    from bornfair.cli.train import describe
    from bornfair.proof import checker

    began = time.perf_counter()
    data = datasets.load("credit")
    training, test = datasets.split(data, seed=seed)
    applicants = test.drop(columns=data.target)
    domain = Domain.infer(data.table.drop(columns=data.target), sensitive=["sex", "age"])
    plain = _trained("plain training", "none", training, data.target, domain, seed, quiet=json)
    fair = _trained("fair training", "expected", training, data.target, domain, seed, quiet=json)
    twins = worst_twins(plain, applicants)
    bundle = fair.save(out)
    again = load(bundle)
    checked = checker.check(bundle)
    blind = again.predict(applicants.drop(columns=["sex", "age"]))
    same = bool((blind == fair.predict(applicants)).all())
    facts = {name: describe(model, test, data.target) for name, model in (("plain", plain), ("fair", fair))}
    seconds = round(time.perf_counter() - began, 3)
    if json:
        print_json({
            "bundle": str(bundle), **facts["fair"], "verdict": checked["verdict"], "proof": checked["proof"],
            "checked": checked, "report": str(bundle / "report.html"), "plain": facts["plain"], "twins": twins,
            "same_without_sensitive_columns": same, "seconds": seconds,
        })  # fmt: skip
        return
    _print_demo(facts, twins, checked, bundle, same, len(test), seconds)


def worst_twins(classifier: FairClassifier, people: pd.DataFrame) -> dict[str, Any] | None:
    """Of the people whose decision a change of the sensitive values flips, the one with the widest gap of the score."""
    import numpy as np

    from bornfair.core.errors import plain
    from bornfair.models.network.network import decisions

    names = classifier.domain_.sensitive
    values = classifier.domain_.sensitive_space.values
    outputs = classifier.model_.scores_of_versions(people)
    scores, decided = outputs[..., 0], decisions(outputs)
    flipped = np.flatnonzero((decided != decided[0]).any(axis=0))
    if not len(flipped):
        return None
    gap = scores.max(axis=0) - scores.min(axis=0)
    person = flipped[np.argmax(gap[flipped])]
    pair = [int(np.argmin(scores[:, person])), int(np.argmax(scores[:, person]))]
    return {
        "people": [
            {n: plain(v) for n, v in people.iloc[person].items()} | dict(zip(names, values[i], strict=True))
            for i in pair
        ],
        "decisions": [plain(classifier.classes_[decided[i, person]]) for i in pair],
        "affected": len(flipped),
        "of": len(people),
    }


def _trained(
    label: str, response: Any, training: pd.DataFrame, target: str, domain: Domain, seed: int, *, quiet: bool
) -> FairClassifier:
    from bornfair.estimator import FairClassifier

    with training_progress(label, quiet=quiet) as advance:
        model = FairClassifier(
            ["sex", "age"], domain=domain, response=response, random_state=seed, callbacks=(advance,)
        )
        model.fit(training.drop(columns=target), training[target])
    if not quiet:
        say(f"{label}: {len(model.history_)} epochs, {sum(record.seconds for record in model.history_):.1f} s")
    return model


def _print_demo(
    facts: dict[str, dict[str, Any]],
    twins: dict[str, Any] | None,
    checked: dict[str, Any],
    bundle: Path,
    same: bool,
    rows: int,
    seconds: float,
) -> None:
    tell("", "Who gets credit? 1,000 applicants of a German bank; sex and age must not decide.", "")
    if twins is not None:
        _print_twins(twins)
    cells = [
        (
            {"plain": "plain training", "fair": "bornfair"}[name],
            f"{100 * f['accuracy']:.1f} %",
            f"{f['auc']:.3f}",
            f"{100 * f['empirical_fairness']:.1f} %",
            "proven fair" if f["verdict"] == "verified" else "disproven" if twins else "no proof",
        )
        for name, f in facts.items()
    ]
    over_two_lines = ("sex and age", "make no difference"), ("for everyone", "who could exist")
    headers: list[str | tuple[str, ...]] = ["", "accuracy", "AUC", *over_two_lines]
    print_table(f"On {rows} applicants kept aside", headers, cells)
    tell(f"The independent checker on {bundle}: {'VALID' if checked['valid'] else 'REJECTED'}, {checked['reason']}.")
    tell(checked.get("claim", ""))
    answer = "decides exactly the same" if same else "DECIDES DIFFERENTLY, which is a bug"
    tell(f"Given a table without the sex and age columns it {answer}. {seconds:.1f} s in all.")
    tell(f"To look at: {bundle / 'report.html'}. To serve with onnxruntime alone: {bundle / 'model.onnx'}.")


def _print_twins(twins: dict[str, Any]) -> None:
    print_twins(
        "Plain training tells twins apart", twins["people"], [f"{decision} risk" for decision in twins["decisions"]]
    )
    tell(f"For {twins['affected']} of {twins['of']} test applicants, sex and age alone change the decision.", "")


app = typer.Typer(help="Datasets to train on.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_datasets(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="Accepted like everywhere; listing is not random.")
    ] = 0,
) -> None:
    """List the datasets, their size, target and sensitive columns, and whether they are here."""
    from bornfair import datasets

    known = [(datasets.entry(name), datasets.where(name)) for name in datasets.ALL_NAMES]
    if json:
        print_json({"datasets": [_described(e) | {"here": place and place.kind} for e, place in known]})
        return
    cells = [
        (e.name, f"{e.rows:,}", str(e.columns), e.target, ", ".join(e.sensitive), place.kind if place else "no",
         e.source) for e, place in known
    ]  # fmt: skip
    headers = ["name", "rows", "columns", "target", "sensitive", "here", "source"]
    print_table("Datasets", headers, cells, numbers_from=99)
    missing = [e for e, place in known if place is None]
    for e in missing:
        say(f"{e.name} is not here: {e.raw.advice}.")


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="The dataset, by the name that list shows.")],
    url: Annotated[str | None, typer.Option(help="Download it from here.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Copy it from this file: plain, .gz or .zip.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="Accepted like everywhere; fetching is not random.")
    ] = 0,
) -> None:
    """Get a dataset that is not in the package; its checksum decides whether it is kept."""
    from bornfair import datasets

    place = datasets.fetch(name, url=url, file=source)
    if json:
        print_json(
            {"name": name, "here": place.kind, "path": str(place.path), "sha256": datasets.entry(name).raw.sha256}
        )
        return
    tell(f"{name} is here ({place.kind}), its checksum is right: {place.path}")


def _described(entry: Entry) -> dict[str, Any]:
    shown = (
        "name", "description", "rows", "columns", "target", "sensitive", "paper_sensitive", "source", "licence",
        "embedded",
    )  # fmt: skip
    return {name: getattr(entry, name) for name in shown}
