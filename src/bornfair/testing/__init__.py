"""Is the model fair? As an assertion, for test suites: `assert_fair`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from bornfair.core.clock import Timeout
    from bornfair.models.verdict import Verdict
    from bornfair.questions import Asking

__all__ = ["assert_fair"]


def assert_fair(
    model: Any,
    people: Any = None,
    *,
    allow_undecided: bool = False,
    timeout: Timeout = 60.0,
    seed: int = 0,
    synthetic: bool = False,
    **asking: Unpack[Asking],
) -> Verdict:
    """Assert that two people who differ only in sensitive features, or by declared rules, always get the same decision.

    Args:
        model, people, sensitive_features, twins, table, target, …: as in `bornfair.verify`.
        allow_undecided: pass, too, if neither a proof nor a counterexample is found in time.
        timeout: seconds for all of it.
        seed: the same seed asks in the same order.
        synthetic: show only people who are not in the table, as test reports that are uploaded should.

    Returns:
        The verdict, where the assertion holds.

    Raises:
        AssertionError: if it is not proven; with the two people side by side where they were found.
        InputError: if the model cannot be read, or the question cannot be asked.

    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> people = pd.DataFrame({"age": [20, 30, 40, 50], "woman": [0, 1, 0, 1]})
    >>> unfair = LogisticRegression(C=100).fit(people, people["woman"])
    >>> assert_fair(unfair, people, sensitive_features=["age"]).answer
    'verified'
    >>> try:
    ...     assert_fair(unfair, people, sensitive_features=["woman"])
    ... except AssertionError as failed:
    ...     print(str(failed).splitlines()[0])
    not fair: these twins get different decisions
    """
    __tracebackhide__ = True  # pytest shows the test, not this
    from bornfair.core.checks import keywords
    from bornfair.questions import Asking, verify

    keywords(assert_fair, asking, Asking)
    verdict = verify(model, people, timeout=timeout, seed=seed, synthetic=synthetic, **asking)
    if verdict or (allow_undecided and verdict.answer == "undecided"):
        return verdict
    raise AssertionError(_told(verdict))


def _told(verdict: Verdict) -> str:
    """Why the assertion fails, with the twins."""
    from bornfair.models.verdict import SHOWN
    from bornfair.report.formatting import twins_text

    if verdict.twins is None and verdict.answer == "falsified":
        return f"not fair: {SHOWN[verdict.shown]} ({verdict.reason})"
    if verdict.twins is None:
        return f"not proven fair, nor disproven (allow_undecided=True lets this pass): {verdict.reason}"
    how = f"({verdict.engine}, in {' and '.join(verdict.arithmetic)} arithmetic: {verdict.reason})"
    return f"not fair: these twins get different decisions\n\n{twins_text(verdict.twins, verdict.decisions)}\n\n{how}"
