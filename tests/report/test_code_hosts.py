"""SARIF and JUnit files are what their formats say, whatever names they hold; the commands write them."""

import json
import string
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.models.verdict import Verdict, undecided
from bornfair.report.code_hosts import Examined, to_junit, to_sarif

HOSTILE = "<b>&\"'[x](http://e) {0} \x1b[2J\u202e\n]]>\ud800"
UNFAIR = Verdict(
    "falsified", "none", "attack", ("float32", "real"), "one person tried",
    twins=[{"sex": "f", HOSTILE: 1}, {"sex": HOSTILE, HOSTILE: 1}], decisions=["no", HOSTILE], seconds=1.5,
)  # fmt: skip
FAIR = Verdict("verified", "structural", "structural", ("real",), "weights are 0")
OPEN = undecided("bounds", "the time is up")
ALL = [
    Examined("one", "models/one.onnx", UNFAIR, f"Not fair: {HOSTILE}"),
    Examined(HOSTILE, "two.onnx", OPEN, "Undecided"),
    Examined("three", "/there/three.onnx", FAIR, "Fair"),
]


def check_sarif(document: dict) -> None:
    """What the schema of SARIF 2.1.0 asks of the parts that are used, and what code hosts ask beyond it."""
    assert document["version"] == "2.1.0" and document["$schema"].startswith("https://")
    assert set(document) == {"$schema", "version", "runs"}
    for run in document["runs"]:
        assert set(run) <= {"tool", "automationDetails", "columnKind", "invocations", "results"}
        driver = run["tool"]["driver"]
        assert driver["name"] and set(driver) <= {"name", "version", "rules"}
        for rule in driver["rules"]:
            assert rule["id"] and rule["name"].isalnum() and rule["shortDescription"]["text"].endswith(".")
            assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        for invocation in run["invocations"]:
            assert invocation["executionSuccessful"] is True
            for note in invocation["toolExecutionNotifications"]:
                assert note["level"] == "note" and note["message"]["text"]
        for result in run["results"]:
            assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["level"] in ("warning", "error")
            text = result["message"]["text"]
            assert text and "](" not in text and "{" not in text.replace("{{", "") and "\x1b" not in text
            (location,) = result["locations"]
            if "logicalLocations" in location:
                assert location["logicalLocations"][0]["name"]
                continue
            place = location["physicalLocation"]
            assert place["region"]["startLine"] == 1
            uri = place["artifactLocation"]["uri"]
            assert set(uri) <= set(string.ascii_letters + string.digits + "-._~/%:")
            assert ("uriBaseId" in place["artifactLocation"]) == ("://" not in uri)
            assert all(isinstance(value, str) for value in result["partialFingerprints"].values())


def check_junit(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text.encode())
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    cases = suite.findall("testcase")
    for name, tag in (("failures", "failure"), ("errors", "error")):
        assert int(suite.get(name)) == int(root.get(name)) == sum(case.find(tag) is not None for case in cases)
    assert int(suite.get("tests")) == len(cases) and suite.get("skipped") == "0"
    assert all(
        case.get("classname") and case.get("name") is not None and float(case.get("time")) >= 0 for case in cases
    )
    return suite


def test_every_verdict_is_told():
    document = json.loads(to_sarif("audit", ALL))
    check_sarif(document)
    (run,) = document["runs"]
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [("BF001", "error"), ("BF002", "warning")]
    first, _ = run["results"]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models/one.onnx"
    assert "> sex" in first["message"]["text"] and first["properties"]["arithmetic"] == ["float32", "real"]
    assert [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]] == ["three: Fair"]
    assert ALL[2].uri == "file:///there/three.onnx"
    assert to_sarif("audit", ALL) == to_sarif("audit", ALL)
    suite = check_junit(to_junit("audit", ALL))
    kinds = [[part.tag for part in case] for case in suite]
    assert kinds == [["failure"], ["error"], ["system-out"]] and suite[0].get("file") == "models/one.onnx"
    assert (
        "> sex" in suite[0][0].text and suite[0][0].get("type") == "falsified" and "weights are 0" in suite[2][0].text
    )
    check_sarif(json.loads(to_sarif("verify", [])))
    check_junit(to_junit("verify", []))


@settings(max_examples=40)
@given(st.text(st.characters(codec=None), max_size=30), st.text(max_size=20))
def test_no_name_breaks_the_formats(name, path):
    verdict = Verdict(
        "falsified", "none", "attack", ("real",), name, twins=[{name: 1}, {name: name}], decisions=[name, 0]
    )
    one = Examined(name, path.replace("\0", "") or "m", verdict, name)
    document = json.loads(to_sarif("verify", [one]))
    check_sarif(document)
    uri = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert "://" in uri or unquote(uri).strip("/")
    check_junit(to_junit("verify", [one]))


def test_a_bundle_is_known_by_its_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    found = Examined.at("a b", FAIR, "Fair")
    assert (found.model, found.uri) == ("a b", "a%20b/model.onnx")
    assert Examined.at("x/m.onnx", FAIR, "Fair").uri == "x/m.onnx"
    service = Examined.at(None, OPEN, "Undecided", name="a service")
    check_sarif(json.loads(to_sarif("verify", [service])))
    assert check_junit(to_junit("verify", [service]))[0].get("file") is None and service.uri == ""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    from bornfair import Domain, FairModel
    from bornfair.models.network.network import Layer, Network
    from bornfair.people.columns import Scale
    from bornfair.people.encoding import Encoding
    from bornfair.people.features import BooleanFeature, IntegerFeature, Label

    folder = tmp_path_factory.mktemp("hosts")
    label = Label(name="y", classes=("no", "yes"))
    who = Domain(
        features=(IntegerFeature(name="x", low=0, high=9), BooleanFeature(name="s")), sensitive=("s",), label=label
    )
    encoding = Encoding(who, {"x": Scale(centre=0.0, exponent=0)}, {"x": 1, "s": True})
    for name, weight in (("unfair", 0.5), ("fair", 0.0)):
        FairModel(Network((Layer([[1.0, weight]], [-4.0]),)), encoding).save(folder / name)
    return folder


def test_commands_write_them(place):
    from samples import bornfair

    run = bornfair("verify", "unfair", "--sarif", "v.sarif", "--junit", "v.xml", "--json", cwd=place)
    assert run.returncode == 1 and json.loads(run.stdout)["verdict"] == "falsified"
    found = json.loads((place / "v.sarif").read_text())
    check_sarif(found)
    assert "FALSIFIED" in found["runs"][0]["results"][0]["message"]["text"] and str(place) not in str(found)
    assert check_junit((place / "v.xml").read_text()).get("failures") == "1"
    assert bornfair("verify", "fair", "--sarif", "v.sarif", cwd=place).returncode == 0
    assert json.loads((place / "v.sarif").read_text())["runs"][0]["results"] == []
    run = bornfair(
        "audit", "fair", "unfair", "--timeout", 3, "--sarif", "a.sarif", "--junit", "a.xml", "--report", "a.md",
        "--json", cwd=place,
    )  # fmt: skip
    assert run.returncode == 1 and json.loads(run.stdout)["reports"] == ["a.md", "a.sarif", "a.xml"]
    suite = check_junit((place / "a.xml").read_text())
    assert [case.get("name") for case in suite] == ["fair", "unfair"] and suite.get("failures") == "1"
    check_sarif(json.loads((place / "a.sarif").read_text()))
    assert '"uri": "unfair/model.onnx"' in (place / "a.sarif").read_text()
    refused = bornfair("verify", "fair", "--change", "--sarif", "v.sarif", cwd=place)
    assert refused.returncode == 2 and "leave out --sarif" in refused.stderr
