"""Who does several pieces of work at once? This process, others on this machine, or a cluster: one seam for all."""

from bornfair.parallel.workers import ALONE as ALONE
from bornfair.parallel.workers import Jobs as Jobs
from bornfair.parallel.workers import Workers as Workers
