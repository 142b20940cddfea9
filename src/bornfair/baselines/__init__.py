"""Other people's methods, to compare with: plain training, and three that train for individual fairness.

All are written anew for the one relation bornfair is about (people who differ in the sensitive values alone), keep the
sensitive columns as inputs, and answer the same questions as `FairClassifier`.
"""

from __future__ import annotations

from bornfair.baselines.base import Baseline, BaselineData, Certified
from bornfair.baselines.erm import ERM, Unaware
from bornfair.baselines.lcifr import LCIFR
from bornfair.baselines.milp import MILP
from bornfair.baselines.udif import UDIF

__all__ = ["ERM", "LCIFR", "MILP", "UDIF", "Baseline", "BaselineData", "Certified", "Unaware"]
