"""What does each output reveal of a table? Every command runs on marked values, and its outputs are searched for them.

The answer is compared with the table in docs/security.md: 'no' must not be found, 'yes' must be, 'may' may be.
"""

import re
import sys

import numpy as np
import pandas as pd
import pytest

from bornfair import FairClassifier
from samples import ROOT, bornfair

RARE = "canary-job"  # of one row
SECRET = "s3cr3t"
FOLDER = "canary-folder"
KINDS = ("rows", "single values", "ranges", "paths")
PROGRAM = """
import csv, sys
for row in csv.DictReader(sys.stdin):
    print("yes" if float(row["income"]) + 3000 * (row["sex"] == "male") > 5000 else "no")
"""
ASKED = ("--data", "people.csv", "--target", "hired", "--sensitive", "sex")
QUICK = ("--target", "hired", "--sensitive", "sex", "--epochs", "1", "--hidden", "4", "--preset", "default")


def marked_people(count=160):
    """Two numbers of each row occur nowhere else; one row has a job of its own."""
    random = np.random.default_rng(5)
    numbers = (random.permutation(899_000)[: 2 * count] + 100_100) / 100  # six digits: no output rounds them away
    table = pd.DataFrame(
        {
            "sex": random.choice(["female", "male"], count),
            "job": random.choice(["clerk", "nurse", "smith"], count),
            "income": numbers[:count],
            "debt": numbers[count:],
        }
    )
    table.loc[7, "job"] = RARE
    score = table["income"] + 3000 * (table["sex"] == "male")
    return table.assign(hired=np.where(score > score.median(), "yes", "no"))


def found_in(content: bytes, people: pd.DataFrame) -> set[str]:
    """Which kinds of content of the table an output holds, as text or as binary numbers."""
    text = content.decode("latin-1")
    written = set(re.findall(r"(?<![\d.])\d{4}(?:\.\d{1,2})?(?![\d])", text.replace(",", "")))
    written |= set(re.findall(r"(?<![\d.])\d{4}(?:\.\d{1,2})?(?![\d])", text))

    def holds(value):
        binary = "\0" in text and any(np.array(value, kind).tobytes() in content for kind in ("<f4", "<f8"))
        return binary or f"{value:.2f}" in written or f"{value:g}" in written

    kinds, inner = set(), {}
    for name in ("income", "debt"):
        ends = (people[name].min(), people[name].max())
        inner[name] = {i for i, value in people[name].items() if value not in ends and holds(value)}
        kinds |= {"ranges"} if any(map(holds, ends)) else set()
    kinds |= {"rows"} if inner["income"] & inner["debt"] else set()
    kinds |= {"single values"} if inner["income"] | inner["debt"] or RARE in text else set()
    return kinds | ({"paths"} if FOLDER in text else set())


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of all commands: name in the documentation → (file or text, content)."""
    place = tmp_path_factory.mktemp("disclosure") / FOLDER
    place.mkdir()
    people = marked_people()
    people.to_csv(place / "people.csv", index=False)
    newer = people.assign(income=people["income"].where(people.index != 3, 23456.78))
    newer.drop(columns="hired").to_csv(place / "new.csv", index=False)
    (place / "scorer.py").write_text(PROGRAM)
    found: dict[str, list[bytes]] = {}

    def run(*words, allowed=(0, 1, 3)):
        done = bornfair(*words, cwd=place)
        assert done.returncode in allowed, (words, done.stderr)
        found.setdefault(f"{words[0]}, on the terminal", []).append((done.stdout + done.stderr).encode())
        return done

    def keep(name, *paths):
        for path in paths:
            every = sorted(one for one in (place / path).rglob("*") if one.is_file()) or [place / path]
            found.setdefault(name, []).extend(one.read_bytes() for one in every)

    run("train", place / "people.csv", *QUICK, "--out", "fair")
    run(
        "train",
        "people.csv",
        *QUICK,
        "--response",
        "none",
        "--hidden",
        "16,16",
        "--out",
        "unfair",
        "--verify-seconds",
        "1",
    )
    run("train", "people.csv", *QUICK, "--stream", "--cache", "cache", "--out", "streamed")
    for name in ("model.onnx", "domain.json", "certificate.json", "report.html"):
        keep(f"BUNDLE/{name}", f"fair/{name}", f"unfair/{name}", f"streamed/{name}")
    keep("train --cache", "cache")
    FairClassifier(["sex"], epochs=1, hidden=[4], checkpoint=place / "state").fit(
        people.drop(columns="hired"), people["hired"]
    )
    keep("train --checkpoint", "state")
    unfair = ("unfair", *ASKED, "--seed", "1")
    run("verify", *unfair)
    run("verify", *unfair, "--json", "--sarif", "v.sarif", "--junit", "v.xml")
    run("verify", *unfair, "--no-synthetic", "--sarif", "w.sarif", "--junit", "w.xml")
    run("verify", "unfair", "--engine", "bounds", "--resume", "resumed", "--most-boxes", "1")
    keep("verify --resume", "resumed")
    run("export", "unfair", "exported.onnx")
    run("export", "unfair", "query", "--query")
    keep("export", "exported.onnx", "query")
    audit = ("audit", place / "unfair", "--data", place / "people.csv", *ASKED[2:], "--timeout", "1.5")
    run(*audit, "--folder", "kept", "--card", "card.md")
    run(*audit, "--folder", "kept", "--report", "audit.json", "--json")
    run(*audit, "--report", "made_up.html", "--card", "made_up.md", "--sarif", "a.sarif", "--junit", "a.xml")
    run(*audit, "--report", "made_up.json", "--synthetic")
    program = f"{sys.executable} scorer.py --key {SECRET} --token={SECRET} -p{SECRET} {SECRET}"
    asked = ("audit", "--model-command", program, *ASKED, "--timeout", "1.5")
    run(*asked, "--report", "asked.html", "--card", "asked.md", "--sarif", "asked.sarif", "--junit", "asked.xml")
    run(*asked, "--report", "asked.json", "--json")
    wrong = ("verify", "--endpoint", f"http://127.0.0.1:9/{SECRET}?api_key={SECRET}", *ASKED)
    run(*wrong, allowed=(2,))
    run("quantify", *unfair, "--timeout", "1.5")
    run("quantify", *unfair, "--timeout", "1.5", "--json")
    run("explain", "unfair", "--row", "9", *ASKED, "--json")
    run("proxies", "people.csv", "--target", "hired", "--sensitive", "sex")
    run("inspect", "people.csv", "--target", "hired", "--sensitive", "sex", "--json")
    run("drift", "fair", "new.csv", "--json")
    run("predict", "fair", "people.csv", "--out", "decided.csv")
    run("certify", "fair", "--out", "certified", "--timeout", "5")
    run("repair", "unfair", *ASKED, "--out", "repaired")
    keep("audit.html, .md, .json", "audit.html", "card.md", "audit.json", "asked.html", "asked.md", "asked.json")
    keep("audit.html, .md, .json with --synthetic", "made_up.html", "made_up.md", "made_up.json")
    keep("audit --folder", "kept")
    keep("--sarif, --junit", *(f"{name}.{end}" for name in ("v", "w", "a", "asked") for end in ("sarif", "xml")))
    keep("predict --out", "decided.csv")
    for bundle in ("certified", "repaired"):
        for name in ("model.onnx", "domain.json", "certificate.json", "report.html"):
            keep(f"BUNDLE/{name}", f"{bundle}/{name}")
    return people, found


def documented():
    """The table in docs/security.md: output → kind → 'no', 'may' or 'yes'."""
    lines = (ROOT / "docs" / "security.md").read_text().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("| output |")))
    head = [cell.strip() for cell in lines[start].strip("|").split("|")]
    assert tuple(head[1:]) == KINDS
    table = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        table[name.replace("`", "")] = dict(zip(KINDS, cells, strict=True))
    return table


def test_every_output_reveals_what_the_documentation_says(outputs):
    people, found = outputs
    told = documented()
    assert told.keys() == found.keys()
    for name, contents in found.items():
        seen = set().union(*(found_in(content, people) for content in contents))
        for kind, answer in told[name].items():
            assert answer in ("yes", "no", "may")
            assert answer == "may" or (kind in seen) == (answer == "yes"), (name, kind, answer)


def test_no_output_holds_a_secret(outputs):
    _, found = outputs
    for name, contents in found.items():
        assert not any(SECRET.encode() in content for content in contents), name


def test_the_search_finds_what_is_there():
    people = marked_people()
    row = people.iloc[[20]]
    assert found_in(row.to_csv().encode(), people) == {"rows", "single values"}
    assert found_in(np.array(row["debt"], "<f4").tobytes() + b"\0", people) == {"single values"}
    assert found_in(f"{people['debt'].max():g}".encode(), people) == {"ranges"}
    assert found_in(RARE.encode(), people) == {"single values"} and found_in(b"nurse 17", people) == set()


@pytest.mark.parametrize("how", [(), ("--stream",)])
def test_a_rare_category_is_left_out_of_a_bundle_on_request(how, tmp_path):
    pd.concat([marked_people()] * 2).to_csv(tmp_path / "people.csv", index=False)  # then in two rows
    for least, stays in ((2, True), (3, False)):
        words = (*QUICK[:4], "--least-count", least, *QUICK[4:], *how)
        done = bornfair("train", "people.csv", *words, "--out", f"least{least}", cwd=tmp_path)
        assert done.returncode in (0, 3), done.stderr
        files = [one.read_bytes() for one in (tmp_path / f"least{least}").iterdir()]
        assert any(RARE.encode() in content for content in files) == stays
        assert RARE not in done.stdout + done.stderr
        assert ("categories of fewer than 3 rows are taken for unseen: 1 of 'job'" in done.stderr) != stays
    wrapped = bornfair("train", "people.csv", *words[:6], "--estimator", "logistic", cwd=tmp_path)
    assert wrapped.returncode == 2 and "--least-count is for the network" in wrapped.stderr
    decided = bornfair("predict", "least3", "people.csv", "--out", "decided.csv", cwd=tmp_path)
    assert decided.returncode == 0 and len(pd.read_csv(tmp_path / "decided.csv")) == 320


def test_rare_categories_are_counted_and_not_named(tmp_path):
    marked_people().to_csv(tmp_path / "people.csv", index=False)
    asked = ("--target", "hired", "--sensitive", "sex")
    for words in (asked, (*asked, "--json"), ("--target", "job")):
        done = bornfair("inspect", "people.csv", *words, cwd=tmp_path)
        assert done.returncode == 0 and RARE not in done.stdout
    done = bornfair("inspect", "people.csv", *asked, cwd=tmp_path)
    assert "categories of fewer than 5 rows: 1 in 'job'" in done.stdout and "--least-count 5" in done.stdout
