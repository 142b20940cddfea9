"""Models that are asked: what they are sent, what their answers mean, and what is said when they fail."""

import contextlib
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from bornfair import Command, Endpoint
from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.importers.opaque import opaque_model
from bornfair.models.columns import Columns, Who
from bornfair.models.opaque.command import as_csv, lines_read
from bornfair.models.opaque.endpoint import as_records
from bornfair.models.opaque.model import Steadiness
from bornfair.models.opaque.said import from_mapping, said, said_together
from bornfair.models.protocol import Unsteady
from bornfair.models.reading import Reading
from outside_models import SMALL, WIDE, by_age, command, served

PEOPLE = SMALL.sample(64, seed=3)


def opened(source, domain=SMALL, table=None, **reading):
    return opaque_model(source, Who(domain, None, table), Reading.of(reading))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return Command(command(tmp_path_factory.mktemp("program")))


def test_a_function_a_program_and_a_service_decide_alike(program):
    expected = by_age(PEOPLE).tolist()
    assert opened(by_age).predict(PEOPLE).tolist() == expected
    asked = opened(program)
    assert asked.predict(PEOPLE).tolist() == expected
    assert asked.steadiness == Steadiness(256, 0)
    assert "program.py" in asked.source.digest
    with served(lambda rows, _: {"decisions": by_age(pd.DataFrame(rows)).tolist()}) as url:
        assert opened(Endpoint(url, rate=1e6, rows=50)).predict(PEOPLE).tolist() == expected


def test_a_person_is_sent_as_the_same_bytes_from_every_table():
    columns = Columns(SMALL, SMALL.names)
    whole = pd.DataFrame({"age": [30, 41], "job": ["smith", "clerk"], "woman": [True, False]})
    decimals = whole.assign(age=[30.0, 41.0])
    assert as_csv(whole, columns) == as_csv(decimals, columns) == b"age,job,woman\n30,smith,True\n41,clerk,False\n"
    assert as_records(decimals, columns)[0] == {"age": 30, "job": "smith", "woman": True}
    gappy = decimals.assign(age=[30.0, np.nan], job=["smith", None])
    assert as_csv(gappy, columns).splitlines()[2] == b",,False"
    assert as_records(gappy, columns)[1] == {"age": None, "job": None, "woman": False}


@pytest.mark.parametrize(
    ("answers", "classes", "numbers", "first"),
    [
        (lambda t: t["age"] > 30, [False, True], None, False),
        (lambda t: (t["age"] > 30).astype(int), [0, 1], None, 0),
        (lambda t: (t["age"] > 30).astype(float), [0, 1], None, 0),
        (lambda t: t["age"] / 49, [0, 1], "probability", 1),
        (lambda t: np.stack([1 - t["age"] / 49, t["age"] / 49], axis=1), [0, 1], "probability", 1),
        (lambda t: np.where(t["age"] > 40, "c", np.where(t["age"] > 30, "b", "a")), ["a", "b", "c"], None, "a"),
        (lambda t: np.stack([29.0 - t["age"], t["age"] * 0, t["age"] - 40.0], axis=1), [0, 1, 2], "logit", 1),
    ],
)
def test_labels_and_numbers_of_every_kind_are_understood(answers, classes, numbers, first):
    model = opened(answers, SMALL.replaced(label=None))
    person = pd.DataFrame({"age": [30], "job": ["smith"], "woman": [True]})
    assert model.meant.classes == tuple(classes)
    assert model.meant.numbers == numbers
    assert model.predict(person).tolist() == [first]


def test_what_numbers_are_and_where_they_decide_can_be_said():
    def score(people):
        return people["age"] - 33.5

    with pytest.raises(InputError, match=r"numbers from -13.5 to 15.5, which may be scores or labels; say so by dec"):
        opened(score)
    at = pd.DataFrame({"age": [33, 34, 40], "job": ["smith"] * 3, "woman": [True] * 3})
    assert opened(score, decision="logit").predict(at).tolist() == ["no", "yes", "yes"]
    moved = opened(score, decision="logit", threshold=4)
    assert moved.predict(at).tolist() == ["no", "no", "yes"]
    assert moved.thresholds == {"yes": 4.0}
    share = opened(lambda t: t["age"] / 50, table=PEOPLE, threshold="top 25%")
    chosen = np.mean(share.predict(PEOPLE) == "yes")
    assert chosen <= 0.25 < np.mean(PEOPLE["age"] / 50 >= share.thresholds["yes"]) + 0.1
    with pytest.raises(InputError, match="answers labels only, which decide themselves"):
        opened(by_age, threshold=0.3)
    with pytest.raises(InputError, match="threshold of a probability must lie between 0 and 1"):
        opened(lambda t: t["age"] / 50, threshold=3)


def test_an_estimator_is_asked_by_its_labels_and_its_score_is_shown():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=80), "s": rng.integers(0, 2, 80)})
    model = opaque_model(SVC().fit(table, table["a"] + table["s"] > 0.5), Who(None, ["s"], table), Reading())
    assert model.meant.numbers == "logit" and model.meant.by_label
    assert np.array_equal(model.predict(table), model.source.model.predict(table.astype(float)))
    assert model.source.how.startswith("the SVC of scikit-learn ")
    with pytest.raises(InputError, match=r"the SVC is not fitted; call fit first"):
        opaque_model(SVC(), Who(None, ["s"], table), Reading())


def test_whoever_changes_their_mind_is_told_so():
    def moody(people):
        moody.times += 1
        return by_age(people) if moody.times < 4 else by_age(people)[::-1]

    moody.times = 0
    model = opened(moody)
    assert model.steadiness.changed > 0
    assert "decided otherwise the second time" in model.provenance()["Asked from outside"]
    with pytest.raises(Unsteady, match="does not answer the same row alike"):
        model.require_steady()


@pytest.mark.parametrize(
    ("program_", "message"),
    [
        ("import sys; [print('yes') for _ in sys.stdin]", r"wrote 17 lines for 16 people; it must write one"),
        ("import sys; list(sys.stdin); print('yes')", r"wrote 1 lines for 16 people"),
        ("import sys; next(sys.stdin); [print('maybe') for _ in sys.stdin]", r"'maybe', which is not one of its class"),
        ("import sys; sys.exit('no such model')", r"the command '.*' ended with status 1: no such model\."),
        ("import os; os.kill(os.getpid(), 9)", r"ended with status -9\."),
        ("import sys\nwhile True: sys.stdout.write('x' * 10**6)", r"wrote more than .* bytes"),
        ("import sys; next(sys.stdin); [print('yes,') for _ in sys.stdin]", r"wrote 'yes,' for person 0"),
        ("import sys; next(sys.stdin); [print('nan') for _ in sys.stdin]", r"'nan'|numbers must be finite"),
        ("import sys; next(sys.stdin); [sys.stdout.buffer.write(b'\\xff\\n') for _ in sys.stdin]", r"not UTF-8"),
    ],
)
def test_a_program_that_fails_is_one_sentence(tmp_path, program_, message):
    with pytest.raises(InputError, match=message) as caught:
        opened(Command(command(tmp_path, program_), seconds=20))
    assert "\n" not in str(caught.value)


HANGING = """
import os, subprocess, sys, time
other = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
with open(sys.argv[1], "w") as stream:
    stream.write(f"{os.getpid()} {other.pid}")
time.sleep(600)
"""


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path):
    started = tmp_path / "started"
    with pytest.raises(InputError, match=r"took more than 2 s for 16 people and was ended; give it more time"):
        opened(Command(f"{command(tmp_path, HANGING)} {started}", seconds=2))
    running = started.read_text().split()
    for _ in range(100):  # who was killed needs a moment to be gone
        running = [process for process in running if _runs(process)]
        if not running:
            break
        time.sleep(0.05)
    assert not running


def _runs(process):
    """Whether it is there and not merely waited for by nobody."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_commands_are_read_without_a_shell():
    with pytest.raises(InputError, match="the command is empty"):
        Command("  ")
    with pytest.raises(InputError, match="not understood: No closing quotation"):
        Command("python 'x")
    with pytest.raises(InputError, match=r"cannot be started: No such file or directory"):
        opened(Command("no-such-program-of-anybody | cat"))


@pytest.mark.parametrize(
    ("written", "labels", "numbers"),
    [
        (b"yes\nno\n", ["yes", "no"], None),
        (b"1\n0\n\n", [1, 0], None),
        (b"0.5\n0\n", None, [[0.5], [0.0]]),
        (b"0.5,0.5\n0,1\n", None, [[0.5, 0.5], [0.0, 1.0]]),
        (b"probability\n0\n1\n", None, [[0.0], [1.0]]),
        (b"decision,probability\r\nyes,0.75\r\nno,0.25\r\n", ["yes", "no"], [[0.75], [0.25]]),
        (b"decision\nno\n", ["decision", "no"], None),
    ],
)
def test_lines_are_decisions_or_numbers(written, labels, numbers):
    found = lines_read(written, 2, "it")
    assert (None if found.labels is None else found.labels.tolist()) == labels
    assert (None if found.numbers is None else found.numbers.tolist()) == numbers


def test_a_batch_of_whole_numbers_is_what_the_others_are():
    """A service that writes 1 for a probability of 1.0, as many do."""
    with served(lambda rows, _: [1 if row["age"] > 40 else 0.25 for row in rows]) as url:
        model = opened(Endpoint(url, rate=1e6))
        old = pd.DataFrame({"age": [45, 41], "job": ["smith"] * 2, "woman": [True] * 2})
        assert model.meant.numbers == "probability" and model.predict(old).tolist() == ["yes", "yes"]
    kinds = {False: int, True: float}
    labels = opened(lambda t: (t["age"] > 30).astype(kinds[len(t) > 2]), SMALL.replaced(label=None))
    assert labels.meant.by_label and labels.predict(old).tolist() == [1, 1]


def test_an_answer_for_each_row_is_needed():
    for values, message in (
        ([1, 0], "answered 2 decisions for 3 people"),
        (1, "answered one value for 3 people"),
        ([None, 1, 0], "answered None for person 0"),
        (np.array(["2026-01-01"] * 3, "datetime64[D]"), "for person 0 of 3; it must give a label"),
        ([0.1, float("nan"), 0.2], "numbers must be finite"),
        ([[1, 2], [3]], "unequal length|2 decisions"),
        (np.zeros((3, 2, 2)), r"shape \[3, 2, 2\]"),
        ([[], [], []], r"shape \[3, 0\]"),
        ([1, 10**400, 0], "a whole number of 1,329 bits for person 1 of 3; labels have at most 64"),
    ):
        with pytest.raises(InputError, match=message):
            said(values, 3, "it")


def test_probabilities_too_large_for_floats_are_refused():
    with pytest.raises(InputError, match="answered probabilities that are no numbers"):
        from_mapping({"probabilities": [0.5, 10**400, 0.1]}, 3, "it")


def _refused(status, text=b"", **headers):
    def answer(rows, handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (_refused(500, b"out of order"), r"refused with status 500: out of order\."),
        (
            _refused(302, Location="http://203.0.113.1/x"),
            r"redirects to 'http://203.0.113.1/x', and only the address",
        ),
        (_refused(302, Location="http://[::1"), r"redirects to '…', and only the address"),
        (_refused(503, Retry_After="0"), r"refused with status 503"),
        (_refused(503, Retry_After="1e-9"), r"refused with status 503"),
        (lambda rows, _: b"<html>", r"answered b'<html>', which is not JSON"),
        (lambda rows, _: {"verdict": 1}, r"an object with 'verdict'; it must have one of 'decisions', 'probabilities'"),
        (lambda rows, _: ["yes"], r"answered 1 decisions for 16 people"),
        (lambda rows, _: "yes", r"answered a str; it must be a list"),
        (lambda rows, _: ["maybe"] * len(rows), r"'maybe', which is not one of its classes 'no', 'yes'"),
        (lambda rows, _: time.sleep(0.6) or [], r"took more than 0.3 s for 16 people|did not answer within 0.3 s"),
    ],
)
def test_a_service_that_fails_is_one_sentence(answer, message):
    with served(answer) as url, pytest.raises(InputError, match=message) as caught:
        opened(Endpoint(url, seconds=0.3 if "0.3" in message else 5, rate=1e6))
    assert "\n" not in str(caught.value)


LONG_LINE = b"X-Slow: " + b"x" * 400


def _dripping(before, slowly, after=b""):
    """Answer with a part that takes 8 s if nobody ends it, one byte after the other."""

    def answer(rows, handler):
        with contextlib.suppress(OSError):
            handler.wfile.write(before)
            for byte in slowly:
                handler.wfile.write(bytes([byte]))
                threading.Event().wait(8 / len(slowly))
            handler.wfile.write(after)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        _dripping(b"HTTP/1.1 200 OK\r\n", LONG_LINE, b"\r\nContent-Length: 2\r\n\r\n[]"),
        _dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n", b"[" + b" " * 398 + b"]"),
        _dripping(b"HTTP/1.1 500 Oh\r\nContent-Length: 200\r\n\r\n", b"x" * 200),
        _dripping(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"[]"),
    ],
    ids=["headers", "content", "an error's content", "the status"],
)
def test_a_slow_answer_is_limited_as_a_whole(answer):
    """Each byte comes in time; all of them together take 16 times as long as allowed."""
    with served(answer) as url, pytest.raises(InputError, match=r"took more than 0\.5 s for 16 people"):
        opened(Endpoint(url, seconds=0.5, rate=1e6))


@pytest.mark.parametrize("asked", ["nan", "-5", "inf", "1e999", "soon"])
def test_a_busy_service_cannot_ask_for_a_pause_that_is_none(asked, monkeypatch):
    waited = []
    monkeypatch.setattr("bornfair.models.opaque.endpoint.time.sleep", waited.append)
    with served(_refused(503, Retry_After=asked)) as url, pytest.raises(InputError, match="refused with status 503"):
        opened(Endpoint(url, rate=1e6))
    pauses = [seconds for seconds in waited if seconds > 0.1]
    assert pauses == [limits.PAUSE_SECONDS if asked in ("inf", "1e999") else 1.0] * 2


def test_no_wait_for_a_service_outlives_the_question(monkeypatch):
    waited = []
    monkeypatch.setattr("bornfair.models.opaque.endpoint.time.sleep", waited.append)
    now = [0.0]
    monkeypatch.setattr(limits, "monotonic", lambda: now[0])
    columns = Columns(SMALL, SMALL.names)
    with served(_refused(503, Retry_After="10")) as url, limits.until(limits.Deadline(8.0)):
        with pytest.raises(InputError, match="status 503"):
            Endpoint(url, rate=1e6).ask(PEOPLE, columns, numbers=True)
        assert [seconds for seconds in waited if seconds > 0.1] == [8.0, 8.0]
        now[0] = 9.0
        seldom = Endpoint(url, rate=0.001)
        seldom._last.append(time.monotonic())
        with pytest.raises(InputError, match=r"may be asked again in 1,000 s, after the time limit; .*--rate"):
            seldom.ask(PEOPLE, columns, numbers=True)


def test_a_service_is_asked_no_more_often_than_allowed(monkeypatch):
    waited = []
    monkeypatch.setattr("bornfair.models.opaque.endpoint.time.sleep", waited.append)
    with served(lambda rows, _: [0.25] * len(rows)) as url:
        service, columns = Endpoint(url, rate=0.001), Columns(SMALL, SMALL.names)
        for _ in range(3):
            service.ask(PEOPLE, columns, numbers=True)
    assert len(waited) == 2 and min(waited) > 900


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://host/x", "not one of http or https"),
        ("file:///etc/hosts", "not one of http or https"),
        ("http:///x", "not one of http or https"),
        ("http://host:notaport/", "not understood"),
        ("http://host/für", "not understood"),
        ("http://host/x?q=für", "not understood"),
        ("http://" + "h" * 64 + ".example/", "not understood"),
        ("http://.example/", "not understood"),
        ("https://me:secret@host/x", "holds a user name or a password"),
    ],
)
def test_only_addresses_of_the_web_are_asked(url, message):
    with pytest.raises(InputError, match=message) as caught:
        Endpoint(url)
    assert "secret" not in str(caught.value)


def test_gaps_are_asked_as_they_are_where_the_model_takes_them():
    table = WIDE.sample(60, seed=1)
    table["income"] = table["income"].where(np.arange(60) % 3 > 0)

    def takes(people):
        return people["income"].fillna(1e4) > 5e4

    def refuses(people):
        if people["income"].isna().any():
            raise ValueError("NaN")
        return people["income"] > 5e4

    assert opened(takes, WIDE, table).takes_gaps
    assert not opened(refuses, WIDE, table).takes_gaps


def test_whoever_throws_is_named():
    def broken(people):
        raise KeyError("salary")

    with pytest.raises(
        InputError, match=r"the function broken could not decide about 16 people .*: KeyError: 'salary'\."
    ):
        opened(broken)


# --- how numbers decide ---

NUMBERED = SMALL.replaced(label=None)


def two(first, last):
    """A function that answers two numbers, made from a person's age."""
    return lambda t: np.stack([first(t["age"].to_numpy(float)), last(t["age"].to_numpy(float))], axis=1)


def at_ages(*ages):
    return pd.DataFrame({"age": list(ages), "job": ["smith"] * len(ages), "woman": [True] * len(ages)})


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (lambda a: a + 100, lambda a: a + 65 + 0 * a),  # never the last, although it is above 0
        (lambda a: a - 90, lambda a: -a),  # negative both
        (lambda a: 70 - a, lambda a: a),  # equal at 35
        (lambda a: a / 100, lambda a: a / 60),  # within [0, 1], another sum than 1
        (lambda a: 1 - a / 70, lambda a: a / 70),  # probabilities
        (lambda a: np.where(a < 40, 0.5002, 0.4), lambda a: np.where(a < 30, 0.5004, 0.5)),  # their sum is rounded
    ],
)
@pytest.mark.parametrize("decision", [None, "logit", "probability"])
def test_the_larger_of_two_numbers_decides_and_the_first_where_they_are_equal(first, last, decision):
    model = opened(two(first, last), NUMBERED, decision=decision)
    everyone = at_ages(*range(20, 50))
    ages = everyone["age"].to_numpy(float)
    assert model.predict(everyone).tolist() == (last(ages) > first(ages)).astype(int).tolist()
    scores = model.scores(everyone)
    assert scores.shape == (30, 1) and ((scores[:, 0] > 0) == (last(ages) > first(ages))).all()


def test_two_probabilities_are_shown_as_they_are_answered():
    share = two(lambda a: 1 - a / 70, lambda a: a / 70)
    everyone = at_ages(*range(20, 50))
    for options in ({}, {"threshold": 0.6}, {"threshold": "0=0.6"}):
        found = opened(share, NUMBERED, **options).predict_proba(everyone)
        np.testing.assert_allclose(found, share(everyone), atol=1e-12)
    logits = two(lambda a: a * 0 + 3, lambda a: a / 10)
    odds = np.exp(everyone["age"].to_numpy(float) / 10 - 3)
    for options in ({}, {"threshold": 0.6, "decision": "logit"}):
        found = opened(logits, NUMBERED, **options).predict_proba(everyone)
        np.testing.assert_allclose(found[:, 1], odds / (1 + odds), atol=1e-12)
    three = opened(lambda t: np.stack([t["age"] / 100, t["age"] / 100, 1 - t["age"] / 50], axis=1), NUMBERED)
    np.testing.assert_allclose(three.predict_proba(at_ages(40)), [[0.4, 0.4, 0.2]])
    assert three.predict(at_ages(40, 20)).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("options", "last_decided"),
    [
        ({"threshold": 0.6}, lambda p, q: q > 0.6),
        ({"threshold": "1=0.6"}, lambda p, q: q > 0.6),
        ({"threshold": "0=0.6"}, lambda p, q: p < 0.6),
        ({"threshold": 0.3, "decision": "probability"}, lambda p, q: q > 0.3),
        ({"threshold": "0=0.4", "decision": "probability"}, lambda p, q: p < 0.4),
        ({"threshold": 0.2, "decision": "logit"}, lambda p, q: q - p > 0.2),
        ({"threshold": "0=0.2", "decision": "logit"}, lambda p, q: q - p > -0.2),
        ({"threshold": -0.2, "decision": "logit"}, lambda p, q: q - p > -0.2),
    ],
)
def test_a_threshold_is_compared_with_the_number_of_its_class_or_the_difference(options, last_decided):
    ages = np.arange(20, 50).astype(float)
    share = two(lambda a: 1 - a / 70.5, lambda a: a / 70.5)
    expected = last_decided(1 - ages / 70.5, ages / 70.5).astype(int).tolist()
    assert 0 < sum(expected) < 30
    assert opened(share, NUMBERED, **options).predict(at_ages(*range(20, 50))).tolist() == expected


def test_numbers_that_do_not_sum_to_one_are_compared_only_as_the_user_says():
    apart = two(lambda a: a / 100.3, lambda a: a / 60.7)
    ages = np.arange(20, 50)
    with pytest.raises(InputError, match=r"2 numbers between 0 and 1 that do not sum to 1; say what the threshold"):
        opened(apart, NUMBERED, threshold=0.3)
    for options, expected in (
        ({"threshold": 0.6, "decision": "probability"}, ages / 60.7 > 0.6),
        ({"threshold": "0=0.3", "decision": "probability"}, ages / 100.3 < 0.3),
        ({"threshold": 0.2, "decision": "logit"}, ages / 60.7 - ages / 100.3 > 0.2),
    ):
        found = opened(apart, NUMBERED, **options).predict(at_ages(*ages))
        assert found.tolist() == expected.astype(int).tolist() and 0 < expected.sum() < 30
    wide = opened(two(lambda a: a * 0 + 3, lambda a: a / 10), NUMBERED, threshold=0.5)  # above 1: a difference
    assert wide.predict(at_ages(34, 35, 36)).tolist() == [0, 0, 1] and wide.thresholds == {"1": 0.5}


@pytest.mark.parametrize(
    ("place", "columns", "tiny"),
    [(0, 1, 1.0), (0, 2, 1.0), (1, 1, 1.0), (1, 2, 1.0), (0, 2, 1e-18), (1, 1, 1e-18), (1, 2, 1e-18)],
)
def test_top_so_many_percent_have_the_largest_numbers_for_the_class(place, tiny, columns):
    """Also where a number is so small that 1 less it is 1."""
    rare = two(lambda a: 1 - tiny * a / 70, lambda a: tiny * a / 70)
    if place == 0:
        rare = two(lambda a: tiny * a / 70, lambda a: 1 - tiny * a / 70)
    answer = rare if columns == 2 else lambda t: rare(t)[:, 1]
    everyone = at_ages(*range(20, 50))
    model = opened(answer, NUMBERED, table=everyone, threshold=f"{place}=top 10%")
    chosen = everyone["age"].to_numpy()[model.predict(everyone) == place]
    assert sorted(chosen.tolist()) == [47, 48, 49]


def test_answers_must_stay_probabilities_if_they_were_in_the_trial():
    def drifting(people):
        drifting.times += 1
        return people["age"].to_numpy(float) / (50 if drifting.times < 9 else 10)

    drifting.times = 0
    model = opened(drifting)
    model.predict(PEOPLE)
    drifting.times = 9
    with pytest.raises(InputError, match=r"answered \d.*, which is no probability, after probabilities in a tr"):
        model.predict(PEOPLE)
    drifting.times = 0
    said_so = opened(drifting, decision="probability")
    drifting.times = 9
    assert set(said_so.predict(PEOPLE)) == {"yes"}
    near = opened(lambda t: np.full(len(t), 1 + 2.0**-24))  # the sum of some float32 numbers
    assert near.meant.numbers == "probability" and near.predict(at_ages(20)).tolist() == ["yes"]


def test_several_labels_are_no_scores():
    several = two(lambda a: (a > 30).astype(float), lambda a: (a > 40).astype(float))
    with pytest.raises(InputError, match=r"2 numbers that are 0 or 1 and do not sum to 1, which may be several labels"):
        opened(several, NUMBERED)
    assert opened(several, NUMBERED, decision="logit").predict(at_ages(20, 35, 45)).tolist() == [0, 0, 0]
    one_hot = two(lambda a: (a <= 40).astype(float), lambda a: (a > 40).astype(float))
    assert opened(one_hot, NUMBERED).predict(at_ages(40, 41)).tolist() == [0, 1]
    votes = two(lambda a: np.full(len(a), 3.0), lambda a: np.round(a / 10))
    assert opened(votes, NUMBERED).predict(at_ages(20, 30, 40)).tolist() == [0, 0, 1]


def test_named_columns_of_numbers_belong_to_the_classes_of_that_name():
    def named(*names):
        return lambda t: pd.DataFrame({names[0]: t["age"] / 70, names[1]: 1 - t["age"] / 70})

    assert opened(named("yes", "no")).predict(at_ages(34, 36)).tolist() == ["no", "yes"]
    assert opened(named("no", "yes")).predict(at_ages(34, 36)).tolist() == ["yes", "no"]
    assert opened(named(0, 1)).predict(at_ages(34, 36)).tolist() == ["yes", "no"]
    assert opened(named("yes", "no"), NUMBERED).meant.classes == ("yes", "no")
    with pytest.raises(InputError, match=r"names the classes 'p0', 'p1', but the label 'loan' has 'no', 'yes'"):
        opened(named("p0", "p1"))
    numbers = SMALL.replaced(label={"name": "loan", "classes": [0, 1]})
    assert opened(named("1", "0"), numbers).meant.classes == (1, 0)


# --- rare shapes of answers ---


def test_answers_of_one_column_are_labels_or_numbers_like_plain_ones():
    for values in (np.array([["a"], ["b"]]), np.array([[True], [False]]), pd.DataFrame({"x": ["a", "b"]})):
        found = said(values, 2, "it")
        assert found.numbers is None and found.labels.tolist() == np.asarray(values)[:, 0].tolist()
    whole = said(np.array([[3], [4]]), 2, "it")
    assert whole.labels.tolist() == [3, 4] and whole.numbers is None
    assert said(pd.DataFrame({"p": [0.25, 0.5]}), 2, "it").numbers.tolist() == [[0.25], [0.5]]
    assert said(pd.DataFrame({"p": [0.25, 0.5]}), 2, "it").classes is None
    assert said(np.array([[1, 2], [3, 4]]), 2, "it").numbers.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(InputError, match=r"an array of shape \[2, 2\] of <U1; it must give one label"):
        said(np.array([["a", "b"], ["c", "d"]]), 2, "it")
    with pytest.raises(InputError, match=r"an array of shape \[2, 2\] of bool"):
        said(np.ones((2, 2), bool), 2, "it")


def test_a_service_may_answer_decisions_and_numbers_together():
    def both(decisions, numbers):
        return from_mapping({"decisions": decisions, "probabilities": numbers}, 2, "it")

    for decisions in ([1, 0], [1.0, 0.0], [[1.0], [0.0]]):  # decimals are labels too, beside numbers
        found = both(decisions, [0.75, 0.25])
        assert found.labels.tolist() == [1, 0] and found.numbers.tolist() == [[0.75], [0.25]]
    assert both(["a", "b"], [[0.5, 0.5], [0.25, 0.75]]).labels.tolist() == ["a", "b"]
    with pytest.raises(InputError, match="probabilities that are no numbers; give numbers"):
        both([1, 0], ["a", "b"])
    assert from_mapping({"labels": ["a", "b"]}, 2, "it").numbers is None
    assert from_mapping({"scores": [0.5, 2.0]}, 2, "it").labels is None


def test_batches_must_be_answered_alike():
    def parts(*answers):
        return said_together([said(answer, len(answer), "it") for answer in answers], "it")

    assert parts(["a"], ["b", "c"]).labels.tolist() == ["a", "b", "c"]
    assert parts([0.5], [1]).numbers.tolist() == [[0.5], [1.0]]
    for answers in (([0.5], ["a"]), ([0.5], [[0.5, 0.5]])):
        with pytest.raises(InputError, match="answered some people by labels and others by numbers, or by more of th"):
            parts(*answers)


def test_later_answers_must_have_the_shape_of_the_trial():
    def changing(first, later):
        def answer(people):
            return later(people) if answer.later else first(people)

        answer.later = False
        return answer

    def numbers(people):
        return people["age"].to_numpy(float) / 100

    cases = [
        (numbers, lambda t: np.stack([numbers(t)] * 2, axis=1), r"answered 2 numbers for each person, and 1 before"),
        (numbers, lambda t: np.array(["yes"] * len(t)), "answered without numbers, which it gave before"),
        (by_age, lambda t: np.stack([numbers(t)] * 2, axis=1), "answered numbers, and labels before; say what"),
        (by_age, lambda t: np.array(["maybe"] * len(t)), "'maybe', which is not one of its classes 'no', 'yes'"),
    ]
    for first, later, message in cases:
        answer = changing(first, later)
        model = opened(answer)
        model.predict(PEOPLE)
        answer.later = True
        with pytest.raises(InputError, match=message):
            model.predict(PEOPLE)


class Estimator:
    """Anything with `predict`, `classes_` and what it shows besides."""

    def __init__(self, classes, decide, shown):
        self.classes_, self.predict, self.predict_proba = classes, decide, shown


def test_labels_decide_and_numbers_are_only_shown_unless_the_user_says_otherwise():
    def share(t):
        return np.stack([1 - t["age"] / 70, t["age"] / 70], axis=1)

    def strict(t):
        return np.where(t["age"] > 45, "yes", "no")

    estimator = Estimator(["no", "yes"], strict, share)
    model = opened(estimator)
    everyone = at_ages(40, 45, 46)
    assert model.meant.by_label and model.predict(everyone).tolist() == ["no", "no", "yes"]
    np.testing.assert_allclose(model.predict_proba(everyone), share(everyone))
    assert opened(estimator, decision="probability").predict(everyone).tolist() == ["yes", "yes", "yes"]
    assert opened(estimator, decision="label").predict(everyone).tolist() == ["no", "no", "yes"]
    odd = Estimator(["no", "yes"], strict, lambda t: np.stack([t["age"] * 1.0, t["age"] * 2.0], axis=1))
    shown = opened(odd)
    assert shown.meant.numbers == "logit" and shown.predict(everyone).tolist() == ["no", "no", "yes"]
    one = opened(lambda t: t["age"].to_numpy(float) / 50, decision="probability")
    np.testing.assert_allclose(one.predict_proba(at_ages(40)), [[0.2, 0.8]])


def test_scores_are_above_0_where_an_estimator_with_a_threshold_of_its_own_decides():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=80), "s": rng.integers(0, 2, 80)})
    fixed = FixedThresholdClassifier(GaussianNB(), threshold=0.2).fit(table, table["a"] + table["s"] > 0.5)
    for options, threshold in (({}, 0.2), ({"decision": "probability"}, 0.5)):
        model = opaque_model(fixed, Who(None, ["s"], table), Reading.of(options))
        shares = fixed.predict_proba(table)[:, 1]
        assert np.array_equal(model.scores(table)[:, 0] > 0, shares > threshold)
        assert np.array_equal(model.predict(table), shares > threshold)
        np.testing.assert_allclose(model.predict_proba(table)[:, 1], shares, atol=1e-12)


@pytest.mark.parametrize("low", [0.0, -0.9])
def test_two_scores_outside_0_and_1_are_compared_by_their_difference(low):
    high = 1.4 + low  # below 0 on one side, or above 1 on the other
    scores = two(lambda a: np.full(len(a), low), lambda a: low + (high - low) * (a - 20) / 29)
    model = opened(scores, NUMBERED, threshold=0.35)
    ages = np.arange(20, 50)
    assert model.predict(at_ages(*ages)).tolist() == (1.4 * (ages - 20) / 29 > 0.35).astype(int).tolist()


def test_what_a_trial_cannot_tell_is_asked():
    with pytest.raises(InputError, match=r"decides 'yes' about all 256 people of a trial; say which other decisions"):
        opened(lambda t: np.array(["yes"] * len(t)), NUMBERED)
    assert opened(lambda t: np.ones(len(t), bool), NUMBERED).meant.classes == (False, True)
    assert opened(lambda t: np.ones(len(t), int), NUMBERED).meant.classes == (0, 1)
    with pytest.raises(InputError, match="decides 7 about all"):
        opened(lambda t: np.full(len(t), 7), NUMBERED)
    with pytest.raises(InputError, match=r"answers numbers, so that decision='label' does not fit; leave it out"):
        opened(lambda t: np.ones((len(t), 2)), NUMBERED, decision="label")
    with pytest.raises(InputError, match=r"answers 3 numbers for 2 classes 'no', 'yes'; give one for each"):
        opened(lambda t: np.full((len(t), 3), 1 / 3))
    three = SMALL.replaced(label={"name": "loan", "classes": ["a", "b", "c"]})
    with pytest.raises(InputError, match=r"answers one number for 3 classes 'a', 'b', 'c'; give one for each"):
        opened(lambda t: t["age"] / 50, three)
    with pytest.raises(InputError, match="tells 3 classes apart and cannot be read, so no threshold can be set"):
        opened(lambda t: np.full((len(t), 3), 1 / 3), three, threshold="a=0.3")
    for threshold in (1.0, "no=1.0", 0.0):
        with pytest.raises(InputError, match=r"threshold of a probability must lie between 0 and 1, found [01]\.0"):
            opened(lambda t: t["age"] / 50, threshold=threshold)
    with pytest.raises(InputError, match="'yes=top 5%' is a share of a table's people; give a table, or a number"):
        opened(lambda t: t["age"] / 50, threshold="top 5%")
