"""The certificate for people: one HTML page that needs nothing else."""

from bornfair.report.page import render

__all__ = ["render"]
