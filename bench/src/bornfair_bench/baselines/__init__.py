"""Other people's methods, to compare with: plain training, and three that train for individual fairness.

All are written anew for the one relation bornfair is about (people who differ in the sensitive values alone), keep the
sensitive columns as inputs, and answer the same questions as `FairClassifier`.
"""

from __future__ import annotations

from bornfair_bench.baselines.base import Baseline, BaselineData, Certified
from bornfair_bench.baselines.erm import ERM, Unaware
from bornfair_bench.baselines.lcifr import LCIFR
from bornfair_bench.baselines.milp import MILP
from bornfair_bench.baselines.udif import UDIF

__all__ = ["ERM", "LCIFR", "MILP", "UDIF", "Baseline", "BaselineData", "Certified", "Unaware"]
