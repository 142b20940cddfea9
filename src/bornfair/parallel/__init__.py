"""Several pieces of work at once, in this process, in others on this machine, or on a cluster."""

from bornfair.parallel.workers import ALONE as ALONE
from bornfair.parallel.workers import Jobs as Jobs
from bornfair.parallel.workers import Workers as Workers
