"""bornfair bench: the measurements behind the claims, each with one command.

A command is a record: what it measures, what can be chosen, and the module of `bornfair_bench.experiments` whose
`report` measures it. The module is loaded when the command runs.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from bornfair.cli.options import declared, option
from bornfair.cli.output import LARGEST_SEED, print_json, print_table, say, tell

app = typer.Typer(
    help="Measurements behind the claims.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


def several(name: str, flag: str, what: str) -> inspect.Parameter:
    return option(name, list[str] | None, None, flag, help=what)


def folder(name: str) -> inspect.Parameter:
    place = Path("bench-output") / name
    return option("folder", Path, place, "--out", help="Where runs and results are kept.")


def epochs(default: int | None, what: str) -> inspect.Parameter:
    return option("epochs", int if default else int | None, default, help=what)


REQUIRED = inspect.Parameter.empty
NAMES = several("names", "--dataset", "Only this dataset; repeat for several.")
METHODS = several("methods", "--method", "Only this method; repeat for several.")
SEEDS = option("seeds", int, 3, help="How many splits, each with its own seed.")
JOBS = (
    option("jobs", int | None, None, min=1, help="Trainings at the same time."),
    option(
        "cluster", str | None, None, help="A cluster instead: ray://HOST:PORT or auto (Ray), tcp://HOST:PORT (Dask)."
    ),
)
MODELS = option("models", Path, REQUIRED, help="The folder of the public .nnet files.")
MINUTE = option("timeout", float, 60.0, help="Seconds for each question.")
SEED_HELP = "The same seed gives the same numbers (but not the same seconds)."
SEED = option("seed", int, 0, min=0, max=LARGEST_SEED, help=SEED_HELP)
JSON = option("json", bool, False, "--json", help="Print one JSON document.")


@dataclass(frozen=True)
class Command:
    """One measurement. `unread` options are accepted, as everywhere, and not handed on."""

    name: str
    module: str
    measures: str
    options: tuple[inspect.Parameter, ...] = ()
    unread: tuple[inspect.Parameter, ...] = ()

    def declared(self) -> Callable[..., None]:
        """The function that typer makes a command of."""

        def run(*, json: bool, **choices: Any) -> None:
            for parameter in self.unread:
                del choices[parameter.name]
            experiment = importlib.import_module(f"bornfair_bench.experiments.{self.module}")
            found = experiment.report(say=say, **choices)
            if json:
                print_json(found.document)
                return
            for title, (headers, *cells), numbers_from in found.tables:
                print_table(title, headers, cells, numbers_from=numbers_from)
            tell(*found.sentences)

        return declared(run, (*self.options, *self.unread, JSON))


COMMANDS = (
    Command(
        "preservation", "preservation",
        "Does fairness survive training? Starts and responses on census, attacked over people who could exist.",
        (option("table", str, "starts", help="A table of docs/theory.md: starts, authors, draws or population."),
         epochs(100, "Epochs of training."),
         option("people", int, 300, help="People for the attack over whole numbers."),
         option("crossings", int, 250, help="Decision boundaries to cross in the attack over real numbers."),
         option("verify", float, 0.0, help="Seconds for the verifier beside the attacks; 0 does not ask it."),
         several("rows", "--row", "This row (start/response) instead of a table; repeat for several."),
         option("seeds", int, 1, help="How many seeds, from --seed on."), SEED),
    ),
    Command(
        "neurons", "fair_neurons",
        "Which neurons of a start are fair with unfair inputs (the set L of Theorem 3.4), and does a γ solve for them?",
        (NAMES, several("starts", "--start", "Only this start; repeat for several."),
         option("seeds", int, 2, help="How many seeds.")),
    ),
    Command(
        "tolerance", "tolerance",
        "Is a network with small sensitive weights fair? Starts near zero on a finite domain, and what is certified.",
        (SEED,),
    ),
    Command(
        "accuracy", "accuracy",
        "What does fairness cost? Ours beside training without the sensitive column, and with it.",
        (option("dataset", str, "census", help="A built-in dataset."),
         several("sensitive", "--sensitive", "A sensitive column; repeat for several."),
         option("preset", str, "paper", help="default, accurate or paper."),
         option("seeds", int, 5, help="How many splits."),
         option("against", bool, False, "--against", help="Beside boosted trees and others, on many real tables."),
         several("tables", "--table", "With --against: only this table; repeat for several."),
         several("contenders", "--contender", "With --against: only this contender; repeat for several.")), (SEED,),
    ),
    Command(
        "speed", "speed", "Seconds per epoch on one core, side by side: ours plain and fair, PyTorch, scikit-learn.",
        (option("repeats", int, 7, help="Rounds in which every contender runs once."),
         option("preset", str, "paper", help="The network and its training: paper, or default with all it adds.")),
    ),
    Command(
        "scaling", "scaling",
        "Rows per second and memory for 1e5, 1e6 and 1e7 rows, and the network of 8.6 million parameters.",
    ),
    Command(
        "rows", "rows",
        "Rows per second and memory of training on 1e5 to 1e8 rows of Parquet files, read in batches and in memory.",
        (several("rows", "--rows", "Only this many rows, as 1e6; repeat for several. 1e8 take 8 GB of disk."),
         option("table", Path | None, None, help="A folder for the table, kept for the next time; one --rows."),
         option("hidden", str | None, None, help="The network: paper, shallow, deep or widths.")), (SEED,),
    ),
    Command(
        "parallel", "sharing",
        "Boxes per second of quantify: one process, and several workers of a machine or a cluster.",
        (option("jobs", int, 2, min=2, help="How many processes share the work."),
         option("cluster", str | None, None, help="A cluster instead: ray://HOST:PORT, auto or tcp://HOST:PORT."),
         option("boxes", int, 40_000, min=1000, help="How many boxes are bounded."),
         option("rounds", int, 3, min=1, help="How often; the best round counts."), SEED),
    ),
    Command(
        "table1", "table1",
        "The paper's Table 1 beside ours: are the starts provably fair, and how long does it take to know?",
        (NAMES, several("engines", "--engine", "Only this engine (auto, bounds, smt, milp)."),
         several("starts", "--start", "Only this start; repeat for several."),
         option("partitions", int | None, None, help="Parts for smt; by default as in the paper."),
         option("timeout", float, 1800.0, help="Seconds for each question."), SEED),
    ),
    Command(
        "table2", "table2",
        "The paper's Table 2 beside ours: fairness of test people and accuracy, all datasets, all methods.",
        (NAMES, METHODS, SEEDS, *JOBS, epochs(None, "Epochs, for a quick look; by default as documented."),
         folder("table2")), (SEED,),
    ),
    Command(
        "iterations", "iterations",
        "The paper's Figure 4: fairness, accuracy and time after each epoch, on census unless datasets are named. One "
        "process, so times compare.",
        (NAMES, METHODS, SEEDS, epochs(100, "Epochs (LCIFR: of each of its two phases)."), folder("iterations")),
        (SEED,),
    ),
    Command(
        "mistakes", "mistakes",
        "Whom do we decide wrongly whom others decide rightly? The paper's analysis of its misclassified cases.",
        (NAMES, SEEDS, epochs(None, "Epochs, for a quick look.")), (SEED,),
    ),
    Command(
        "authors", "authors",
        "How much does it change if census is read as 13 whole numbers, as other public networks read it? Beside the "
        "paper's numbers.",
        (SEEDS, epochs(None, "Epochs, for a quick look.")), (SEED,),
    ),
    Command(
        "configurations", "configurations",
        "The paper's Figure 5: networks from [16] to [2048, 2048, 2048, 4] on census.",
        (several("widths", "--network", "Only this network (shallow, paper, deep, large)."), METHODS, SEEDS, *JOBS,
         epochs(None, "Epochs, for a quick look; by default 100, large 5."), folder("configurations")), (SEED,),
    ),
    Command(
        "audit", "audit",
        "A verdict for every network of a folder, such as the public ones of Fairify and FairQuant. One core.",
        (option("models", Path, REQUIRED, help="A folder of .nnet files."),
         several("sensitive", "--sensitive", "Sensitive inputs; by default those of the public files."), MINUTE, SEED),
    ),
    Command(
        "twins", "twins_comparison",
        "What do declared twins cost and change? ERM, unaware, flip-fair, swap-fair and repaired, on census and "
        "credit.",
        (NAMES, METHODS, SEEDS, *JOBS, epochs(None, "Epochs, for a quick look."), folder("twins")), (SEED,),
    ),
    Command(
        "wrapping", "wrapping",
        "What does fairness cost other estimators? Network, XGBoost, LightGBM, HistGradientBoosting and logistic "
        "regression, each plain, merged and averaged.",
        (NAMES, METHODS, SEEDS, *JOBS, epochs(None, "Epochs of the network, for a quick look."), folder("wrapping")),
        (SEED,),
    ),
    Command(
        "quantify", "quantify_anchors",
        "Which share of the domain is left undecided, beside FairQuant's, and how it falls with time. One core.",
        (MODELS, option("anchors", Path, REQUIRED, help="What FairQuant reached on them (CSV)."),
         several("only", "--only", "Only this network; repeat for several."),
         option("jobs", int | None, None, min=1, help="How many cores to use."), MINUTE, folder("quantify"), SEED),
    ),
    Command(
        "forests", "forest_anchors",
        "How soon public ensembles of trees are decided, and how much is left open beside plain splitting. One core.",
        (option("models", Path, REQUIRED, help="A folder of NAME_….json with NAME.details.csv (name, lb, ub)."),
         several("only", "--only", "Only this ensemble; repeat for several."), MINUTE, SEED),
    ),
    Command(
        "repaired-forests", "forest_repairs",
        "What the repair of public ensembles of trees costs: accuracy, decisions, size and speed. Needs xgboost.",
        (option("models", Path, REQUIRED, help="A folder of NAME_….json with held-out rows in NAME.test.csv.gz."),
         several("only", "--only", "Only this ensemble; repeat for several."), SEED),
    ),
    Command(
        "repair", "repair_anchors", "Repair the public networks of Fairify: verdict and accuracy before and after.",
        (MODELS, option("adult_test", Path | None, None,
                        help="The adult.test file, to measure on the rows the networks' authors kept aside."),
         option("compas", Path | None, None,
                help="ProPublica's compas-scores-two-years.csv; without it the compas networks are left out."), SEED),
    ),
)  # fmt: skip
for command in COMMANDS:
    app.command(command.name, help=command.measures)(command.declared())
