"""How a model decides: which output holds the decision, how numbers become a class, and which column feeds which input.

Every importer, every black-box model and every wrapper uses the rules in this module, so that all kinds of model are
judged by the decision that the original model makes. Thresholds are in `bornfair.models.operating`.
"""

from __future__ import annotations

# --- which output of a graph decides ---


# --- how numbers decide ---


# --- which column feeds an input ---
