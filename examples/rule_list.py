# %% [markdown]
# # Add a kind of model: a rule list read from JSON
#
# A new kind is a subclass of `Countable`, a reader, and an engine if something can be proven of it. All questions about
# decisions then work: here verify, quantify and audit. Nothing inside the library changes.

# %%
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bornfair import Domain, Verdict, audit, datasets, quantify, verify
from bornfair.core.errors import InputError
from bornfair.importers.registry import READERS, Reader, a_file
from bornfair.models.columns import Wanted, columns_for, with_classes
from bornfair.models.opaque.model import OpaqueRows
from bornfair.models.protocol import Countable, Decided, Replay, as_versions
from bornfair.models.verdict import undecided
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions
from bornfair.verification.decide import ENGINES
from bornfair.verification.replay import falsified, replay

# %% [markdown]
# ## The model
#
# The first rule that a person fulfils gives the probability of the last class, which is decided above ½. A condition is
# a list of categories, or {"from": number, "to": number} with both ends included.


# %%
def fulfilled(column, wanted):
    if isinstance(wanted, list):
        return column.isin(wanted)
    return column.between(wanted.get("from", -math.inf), wanted.get("to", math.inf))


@dataclass(frozen=True, eq=False)
class RuleList(Countable):
    domain: Domain
    rules: list
    otherwise: float

    kind, name, note, certificate, original, thresholds, fills = "rules", "the rule list", "", None, None, {}, {}

    @property
    def ignores_sensitive(self):
        return not {name for rule in self.rules for name in rule["if"]} & set(self.domain.sensitive)

    def shares(self, table):
        found, left = np.full(len(table), self.otherwise), np.ones(len(table), bool)
        for rule in self.rules:
            holds = left & np.all([fulfilled(table[name], wanted) for name, wanted in rule["if"].items()], axis=0)
            found, left = np.where(holds, rule["share"], found), left & ~holds
        return found

    def evaluate(self, table, versions=None, which=None, *, scores=True):
        found = np.stack([self.shares(rows) for rows in as_versions(as_pandas(table), versions, which)], axis=1)
        return Decided((found > 0.5).astype(np.int64), (found - 0.5)[..., None])

    def probabilities(self, scores):
        return np.concatenate([0.5 - scores, 0.5 + scores], axis=1)

    def share_of_last(self, values):
        return values + 0.5

    def replay(self, people, versions=()):
        decided = self.evaluate(pd.DataFrame(list(people))).classes[:, 0]
        return Replay(tuple(map(dict, people)), {"executed": tuple(decided.tolist())}, tuple(versions))

    def row_method(self):
        return OpaqueRows(self)  # rows are judged by the decisions about all their versions

    def structure(self):
        if not self.ignores_sensitive:
            return undecided("rules", "rules read sensitive features")
        return Verdict("verified", "structural", "rules", ("executed",), "no rule reads a sensitive feature")

    def pieces(self, feature):
        """One value of each set of values that no rule tells apart."""
        wanted = [rule["if"][feature.name] for rule in self.rules if feature.name in rule["if"]]
        if feature.kind not in ("integer", "real"):
            return feature.levels() if wanted else feature.levels()[:1]
        starts = [feature.low, *(one["from"] for one in wanted if "from" in one)]
        starts += [np.nextafter(float(one["to"]), math.inf) for one in wanted if "to" in one]
        starts = [math.ceil(start) for start in starts] if feature.kind == "integer" else starts
        return sorted({start for start in starts if feature.low <= start <= feature.high})


# %% [markdown]
# ## A reader, and an engine that proves
#
# Rules cut the domain into finitely many cells. One person of each cell is decided as all versions. Without an engine,
# verify would examine the structure only. Shares of the domain are estimated for any kind.


# %%
def read_rules(source, who, asked):
    asked.only_for("a rule list")
    content = json.loads(Path(source).read_text())
    domain = columns_for(Wanted("the rule list", tuple(content["reads"])), who).domain
    if domain.twins or domain.real_sensitive or any(getattr(one, "missing", False) for one in domain.features):
        raise InputError("a rule list takes no twin rules, gaps or real numbers as sensitive; leave them out.")
    for name, wanted in ((name, wanted) for rule in content["rules"] for name, wanted in rule["if"].items()):
        if isinstance(wanted, list) == (domain.feature(name).kind in ("integer", "real")):
            raise InputError(f"a rule about '{name}' needs a list of categories, or from and to for numbers.")
    domain = with_classes(domain, tuple(content["classes"]), 2, who.target, "the rule list")
    return RuleList(domain, content["rules"], content["otherwise"])


def decide_rules(model, effort):
    if proof := model.structure():
        return proof
    if effort.engine != "auto" or effort.among or effort.where or effort.relax:
        raise InputError("a rule list is verified as a whole; leave out engine, where and relax.")
    pieces = {feature.name: model.pieces(feature) for feature in model.domain.free_features}
    people = pd.MultiIndex.from_product(pieces.values(), names=pieces).to_frame(index=False)
    decided = model.evaluate(people, Versions(model.domain)).classes
    unfair = np.flatnonzero((decided != decided[:, :1]).any(axis=1))
    if not len(unfair):
        return Verdict("verified", "bounds", "rules", ("executed",), f"all {len(people):,} cells are fair")
    (person,) = people.iloc[unfair[:1]].to_dict("records")
    twins = replay(model, person, [0, int(np.argmax(decided[unfair[0]] != decided[unfair[0], 0]))])
    return falsified(model, twins, engine="rules", reason=f"{len(unfair):,} of {len(people):,} cells are unfair")


READERS.insert(0, Reader(a_file(".rules"), read_rules))
ENGINES["rules"] = decide_rules

# %%
people = datasets.load("credit").table
asked = {"target": "risk", "sensitive_features": ["sex"]}
rules = [{"if": {"duration_months": {"from": 30}, "sex": ["female"]}, "share": 0.42}]
rules += [{"if": {"amount": {"to": 900}, "savings": ["below 100"]}, "share": 0.49}]
content = {"classes": ["bad", "good"], "reads": ["duration_months", "sex", "amount", "savings"], "otherwise": 0.65}
Path("credit.rules").write_text(json.dumps(content | {"rules": rules}))
Path("fair.rules").write_text(json.dumps(content | {"rules": [rules[1], rules[0] | {"share": 0.6}]}))

verdicts = {name: verify(name, people, **asked) for name in ("credit.rules", "fair.rules")}
shares = quantify("credit.rules", people, over=people, **asked)
report = audit("credit.rules", people, timeout=10, **asked)
print(*(f"{name}: {verdict.answer}, {verdict.reason}" for name, verdict in verdicts.items()), sep="\n")
print(shares.counts, shares.people.most_affected[0], report, sep="\n")
