"""bornfair train of a table that is read in batches: from the options to a bundle."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bornfair.cli import options
from bornfair.cli.output import RowPace, say, training_progress, unfairness_warned, written_to
from bornfair.cli.training_result import check_not_dropped, check_test_fraction, check_unlabelled, training_result
from bornfair.core.errors import InputError
from bornfair.core.growing import Busy, OwnFolder, private_folder, remove_leftovers
from bornfair.people.column_kinds import refusal, refused
from bornfair.people.domain import Domain
from bornfair.people.policies import Policies
from bornfair.people.reading import TableReading
from bornfair.people.sources import Source
from bornfair.training.cache import told_of_rows
from bornfair.training.fitting import Recipe
from bornfair.training.hosts import ALONE, joined
from bornfair.training.options import TrainingOptions, advice
from bornfair.training.streamed_fit import StreamedTable, fit_streamed, sample_of, survey_table

if TYPE_CHECKING:
    from bornfair.cli.train import TrainOptions


@dataclass(frozen=True, eq=False)
class Streamed:
    """A table that was looked at once, and what there is to do with it."""

    asked: TrainOptions
    table: StreamedTable
    sample: pd.DataFrame
    folder: Path
    own: OwnFolder | None
    """The folder, where it is removed in the end."""

    @staticmethod
    def opened(asked: TrainOptions, reading: TableReading) -> Streamed:
        """Look at the whole table once. With a checkpoint, an interrupted run keeps its encoded rows for the next."""
        table, target, out = asked.table, asked.target, asked.out
        sensitive, drop, categorical = asked.sensitive or [], asked.drop or [], asked.categorical or []
        if table is None or asked.dataset is not None:
            raise InputError("--stream and --hosts are for tables in files; give a TABLE, and no --dataset.")
        if asked.estimator != "network":
            raise InputError(
                f"--estimator {asked.estimator} needs the whole table in memory; train a network on a table that is "
                "read in batches, or use --no-stream."
            )
        source = Source.at(table, reading)
        if target is None:
            raise InputError(f"name the column to predict with --target; the columns are {', '.join(source.columns)}.")
        source.check_columns([target], "target")
        source.check_columns(sensitive, "sensitive feature")
        source.check_columns([*drop, *categorical])
        check_not_dropped(target, sensitive, drop)
        check_unlabelled(asked.unlabelled)
        together = ALONE if asked.hosts is None else joined(asked.hosts)
        folder = asked.cache or out.parent / f".{out.name}-rows"
        if together.processes > 1:  # each process has rows of its own, also where several share a disk
            folder = folder / f"{together.process}-of-{together.processes}"
        with told_of_rows(folder):
            private_folder(folder)
            own = None if asked.cache is not None else _owned(folder, out, kept=asked.checkpoint is not None)
        pace = RowPace("looking at the table", source.rows, quiet=asked.json or not together.is_first)
        mark = hashlib.sha256(repr((table, target)).encode()).hexdigest()[:16]
        looked = survey_table(
            source, target, sensitive, drop=drop, categorical=categorical, observed=asked.combinations == "observed",
            seed=asked.seed, keep=folder / f"survey-{mark}.safetensors", hosts=together, told=pace,
        )  # fmt: skip
        gaps, rows = looked.survey.columns[target].gaps, looked.survey.rows
        if gaps and asked.unlabelled == "error":
            raise InputError(
                f"target '{target}' is missing in {gaps:,} of {rows:,} rows; remove those rows, or leave them out with "
                "--unlabelled drop."
            )
        if gaps and together.is_first:
            say(f"bornfair: note: {gaps:,} of {rows:,} rows have no '{target}' and are left out.")
        return Streamed(asked, looked, sample_of(looked), folder, own)

    @property
    def is_first(self) -> bool:
        return self.table.hosts.is_first

    @property
    def quiet(self) -> bool:
        return self.asked.json or not self.is_first

    @property
    def looked_at(self) -> str:
        """Of what the findings are."""
        survey = self.table.survey
        return "" if survey.complete else f"in {len(self.sample):,} random rows of {survey.rows:,}: "

    def representative(self, kinds: dict[str, Any], sensitive: list[str]) -> pd.DataFrame:
        categorical = [name for name, kind in kinds.items() if kind == "categorical"]
        return self.table.survey.representative(
            categorical=categorical, sensitive=sensitive, without=[self.table.target]
        )

    @property
    def counts(self) -> dict[str, Any]:
        """How often each value of each column occurs, None of a column of many values."""
        return {name: seen.values for name, seen in self.table.survey.columns.items()}

    def check_running_numbers(self, told: set[str]) -> None:
        """Refuse counters, which a sample does not show."""
        counting = [name for name in self.table.survey.running_numbers() if name not in told]
        stray = [name for name in counting if name != self.table.target]
        if stray:
            listed = refused(pd.DataFrame({name: range(40) for name in stray}))
            raise InputError(refusal(listed))

    def trained(self, known: Domain, chosen: TrainingOptions) -> dict[str, Any]:
        """Train, prove, and write the bundle; the facts of it."""
        asked = self.asked
        check_test_fraction(asked.test_fraction)
        domain = known.replaced(label=self.table.label)
        domain = domain.with_twins(asked.twins) if asked.twins else domain
        recipe = Recipe.of(chosen, asked.seed)
        encoding = RowPace("encoding the table", self.table.survey.rows, quiet=self.quiet)
        epochs: dict[int, RowPace] = {}

        def told(number: int, rows: int, total: int, loss: float) -> None:
            pace = epochs.setdefault(number, RowPace(f"epoch {number}", total, quiet=self.quiet))
            pace.reached(rows, f", loss {loss:.4f}")

        with training_progress("training", quiet=self.quiet) as advance, unfairness_warned():
            fitted, figures = fit_streamed(
                self.table, domain, recipe, folder=self.folder, test_fraction=asked.test_fraction,
                policies=Policies.in_training(asked.missing, asked.unseen, asked.outside),
                balanced=asked.class_weight == "balanced", threshold=asked.threshold or None, callbacks=(advance,),
                checkpoint_path=asked.checkpoint, resume=asked.checkpoint is not None,
                told_of_rows=encoding, told=told,
            )  # fmt: skip
        model, certificate = fitted.model, fitted.model.certificate
        assert certificate is not None
        bundle = str(asked.out)
        if self.is_first:
            with written_to(asked.out, options.BUNDLE):
                bundle = str(model.save(asked.out))
        self.table.hosts.gathered(b"done")  # nobody leaves before the bundle is written
        if self.own is not None:
            self.own.remove()
            if self.table.hosts.processes > 1:
                with contextlib.suppress(OSError):  # the last process removes it
                    self.folder.parent.rmdir()
        return {
            "bundle": bundle,
            **training_result(
                certificate, domain, figures, thresholds=model.thresholds, advice=advice(recipe.preset),
                gamma=fitted.response.gamma, epochs=len(fitted.training.history),
                flip_stable=figures.get("flip_stable"),
            ),
            "rows": self.table.survey.rows,
            "streamed": True,
        }  # fmt: skip


def _owned(folder: Path, out: Path, *, kept: bool) -> OwnFolder:
    """The folder for the encoded rows of this run; those of runs that were killed are removed."""
    remove_leftovers(out.parent, ".*-rows")
    try:
        return OwnFolder(folder, kept=kept)
    except Busy:
        raise InputError(
            f"another run is training '{out}'; wait until it ends, or name another folder with --out."
        ) from None
