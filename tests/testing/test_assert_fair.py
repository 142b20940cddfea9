"""`assert_fair` passes for what is proven, and fails with the two people in the message."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from bornfair.core.errors import InputError
from bornfair.testing import assert_fair

PEOPLE = pd.DataFrame({"hours": np.arange(40) % 20, "woman": np.arange(40) % 2, "paid": np.arange(40) % 20 > 9})


@pytest.fixture(scope="module")
def unfair():
    return LogisticRegression(C=100).fit(PEOPLE[["hours", "woman"]], PEOPLE["woman"])


def test_an_unfair_model_fails_with_the_twins(unfair):
    with pytest.raises(AssertionError) as failed:
        assert_fair(unfair, PEOPLE, sensitive_features=["woman"], target="paid", timeout=10)
    first, _, *rows = str(failed.value).splitlines()
    assert first == "not fair: these twins get different decisions"
    assert rows[0].split() in (["\u003e", "woman", "0", "1"], ["\u003e", "woman", "1", "0"])
    assert rows[1].split()[0] == "hours" and rows[2].startswith("> decision") and "arithmetic" in rows[-1]


def test_a_fair_model_passes_and_gives_the_verdict():
    tree = DecisionTreeClassifier(max_depth=2).fit(PEOPLE[["hours", "woman"]], PEOPLE["paid"])
    assert assert_fair(tree, PEOPLE, sensitive_features="woman", target="paid").answer == "verified"


def test_undecided_passes_only_if_allowed(monkeypatch, unfair):
    import bornfair.questions
    from bornfair.models.verdict import undecided

    monkeypatch.setattr(bornfair.questions, "verify", lambda *_, **__: undecided("bounds", "the time is up"))
    with pytest.raises(AssertionError, match=r"not proven fair, nor disproven .*: the time is up"):
        assert_fair(unfair, PEOPLE, sensitive_features=["woman"])
    assert assert_fair(unfair, PEOPLE, allow_undecided=True).answer == "undecided"


def test_a_wrong_question_is_no_failed_assertion(unfair):
    with pytest.raises(InputError, match="sex"):
        assert_fair(unfair, PEOPLE, sensitive_features=["sex"], target="paid")


def test_importing_it_loads_nothing_heavy():
    code = "import sys, bornfair.testing; assert not {'jax', 'pandas', 'sklearn', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
