"""Making an unfair model fair: projection, fine-tuning that keeps fairness, and an account of what changed."""

from bornfair.questions.repairing.changes import ChangedGroup, Changes, Example, compare
from bornfair.questions.repairing.forests import RepairedForest
from bornfair.questions.repairing.graphs import RepairedGraph
from bornfair.questions.repairing.mending import Candidate, Repaired, repair
from bornfair.training.projection import project

__all__ = [
    "Candidate",
    "ChangedGroup",
    "Changes",
    "Example",
    "Repaired",
    "RepairedForest",
    "RepairedGraph",
    "compare",
    "project",
    "repair",
]
