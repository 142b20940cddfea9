"""Results of earlier commands are never lost without a word, and questions that make no sense are refused."""

import json

import numpy as np
import pytest

from samples import bornfair, make_people

QUICK = ["--epochs", "1", "--hidden", "4", "--embedding", "none", "--taught", "0"]
TRAIN = ["train", "people.csv", "--target", "grant", "--sensitive", "sex", *QUICK]


@pytest.fixture
def place(tmp_path):
    make_people(60, seed=3).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def names(place):
    return sorted(path.name for path in place.iterdir())


def certificate(bundle):
    return json.loads((bundle / "certificate.json").read_text())


def test_training_again_keeps_the_earlier_bundle_beside_the_new_one(place):
    first = bornfair(*TRAIN, cwd=place)
    assert first.returncode == 0 and "kept as" not in first.stderr, first.stderr
    before = certificate(place / "bornfair-bundle")
    again = bornfair(*TRAIN, cwd=place)  # the same bytes: nothing is lost, so nothing is kept twice
    assert again.returncode == 0 and names(place) == ["bornfair-bundle", "people.csv"]
    other = bornfair(*TRAIN, "--seed", "1", cwd=place)
    assert "note: the earlier 'bornfair-bundle' is kept as 'bornfair-bundle-1'." in other.stderr
    assert certificate(place / "bornfair-bundle-1") == before != certificate(place / "bornfair-bundle")
    assert bornfair("check", "bornfair-bundle", cwd=place).returncode == 0
    assert bornfair("check", "bornfair-bundle-1", cwd=place).returncode == 0


def test_a_bundle_that_somebody_named_is_replaced_and_that_is_said(place):
    assert bornfair(*TRAIN, "--out", "mine", cwd=place).returncode == 0
    other = bornfair(*TRAIN, "--out", "mine", "--seed", "1", cwd=place)
    assert "note: the earlier 'mine' was replaced." in other.stderr and names(place) == ["mine", "people.csv"]


def test_a_training_that_is_refused_leaves_the_earlier_bundle_where_it_was(place):
    assert bornfair(*TRAIN, cwd=place).returncode == 0
    before = certificate(place / "bornfair-bundle")
    assert bornfair(*TRAIN, "--gamma", "x", cwd=place).returncode == 2
    assert certificate(place / "bornfair-bundle") == before and names(place) == ["bornfair-bundle", "people.csv"]


def test_reports_are_kept_and_files_of_others_are_left_alone(place):
    assert bornfair(*TRAIN, cwd=place).returncode == 0
    audit = ["audit", "bornfair-bundle", "--timeout", "1"]
    assert bornfair(*audit, cwd=place).returncode == 0
    first = (place / "audit.html").read_text()
    second = bornfair(*audit, "--seed", "3", cwd=place)
    assert "note: the earlier 'audit.html' is kept as 'audit-1.html'." in second.stderr
    assert (place / "audit-1.html").read_text() == first
    for name in ("r.md", "r.json", "r.html"):
        assert bornfair(*audit, "--report", name, cwd=place).returncode == 0
        again = bornfair(*audit, "--report", name, cwd=place)
        assert again.returncode == 0 and f"the earlier '{name}' was replaced" in again.stderr, again.stderr
    (place / "audit.html").write_text("<p>Somebody's homepage</p>")
    refused = bornfair(*audit, cwd=place)
    assert refused.returncode == 2 and "'audit.html' exists and is not a report of bornfair" in refused.stderr
    assert (place / "audit.html").read_text() == "<p>Somebody's homepage</p>"


def test_a_quantity_is_no_target_unless_somebody_says_that_each_number_is_a_class(place):
    table = make_people(200, seed=3)
    table["grade"] = np.arange(200) % 53
    table.to_csv(place / "grades.csv", index=False)
    asked = ["train", "grades.csv", "--target", "grade", "--sensitive", "sex", *QUICK, "--out", "graded", "--json"]
    refused = bornfair(*asked, cwd=place)
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert "the target 'grade' has 53 values; it looks like a quantity; make classes of it" in refused.stderr
    assert "confirm with --categorical grade that each value is a class" in refused.stderr
    done = bornfair(*asked, "--categorical", "grade", cwd=place)
    assert done.returncode == 0, done.stderr
    label = json.loads((place / "graded" / "domain.json").read_text())["label"]
    assert len(label["classes"]) == 53


def test_training_without_a_sensitive_column_is_refused_and_a_domain_may_name_it(place):
    asked = [*TRAIN[:4], *QUICK]
    refused = bornfair(*asked, cwd=place)
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert "--sensitive" in refused.stderr and "complete" not in refused.stdout
    assert names(place) == ["people.csv"]
    assert bornfair(*TRAIN, "--out", "first", cwd=place).returncode == 0
    named = bornfair(*asked, "--domain", "first/domain.json", "--out", "second", "--json", cwd=place)
    assert named.returncode == 0 and json.loads(named.stdout)["sensitive"] == ["sex"], named.stderr
