"""Datasets of others as tables with readable values. Those in NAMES are in the package; EXTERNAL need a file."""

from bornfair.datasets.catalogue import ALL_NAMES as ALL_NAMES
from bornfair.datasets.catalogue import EXTERNAL as EXTERNAL
from bornfair.datasets.catalogue import NAMES as NAMES
from bornfair.datasets.catalogue import Dataset as Dataset
from bornfair.datasets.catalogue import Entry as Entry
from bornfair.datasets.catalogue import entry as entry
from bornfair.datasets.catalogue import fetch as fetch
from bornfair.datasets.catalogue import load as load
from bornfair.datasets.catalogue import split as split
from bornfair.datasets.catalogue import split_rows as split_rows
from bornfair.datasets.catalogue import where as where
from bornfair.datasets.files import Place as Place
