"""Ctrl-C ends an audit: the question under way answers with what it knows, and no other question is asked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import bornfair.questions.auditing as auditing
from bornfair import audit
from bornfair.models.verdict import Verdict
from bornfair.verification.frontier import INTERRUPTED


@pytest.mark.parametrize("where", ["decide", "domain_shares"])
def test_an_interrupted_question_is_the_last_one(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    people = pd.DataFrame({"age": [20, 30, 40, 50], "woman": [0, 1, 0, 1], "paid": [0, 1, 0, 1]})
    model = LogisticRegression(C=100).fit(people[["age", "woman"]], people["paid"])
    asked, measured = list[str](), auditing.domain_shares

    def stops(*given: Any, **named: Any) -> Any:
        asked.append(where)
        if where == "decide":
            return Verdict("undecided", "none", "bounds", (), f"{INTERRUPTED}: 0 % of the domain is decided")
        return dataclasses.replace(measured(*given, **named), interrupted=True)

    monkeypatch.setattr(auditing, where, stops)
    if where == "decide":
        monkeypatch.setattr(auditing, "shown_by", lambda *given: None)
    monkeypatch.setattr(auditing, "_of_people", lambda *given: pytest.fail("another question was asked"))
    with pytest.raises(KeyboardInterrupt):
        audit(model, people, target="paid", sensitive_features=["woman"], timeout=2)
    assert asked == [where]
