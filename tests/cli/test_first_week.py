"""A new user's first week: tables as they come, through every command.

Constants, sentinels, leaks, gaps, standardised codes, rare positives, names and numbers of customers, decimal commas.
Whatever happens, it happens with a status that means what it says and in one sentence.
"""

import json
import shlex
import shutil

import numpy as np
import pandas as pd
import pytest

from bank_table import LAST, customers
from samples import bornfair

pytestmark = pytest.mark.slow

ABOUT = ["customers.csv", "--target", "default", "--sensitive", "sex"]
QUICK = ["--epochs", "2", "--hidden", "8"]
SECRET = [*LAST, "example.org", "+49 170"]


def rare(count: int = 600, seed: int = 2) -> pd.DataFrame:
    """Two in a hundred are positive, numbers are standardised, and a flag is hardly ever set."""
    random = np.random.default_rng(seed)
    score = random.normal(size=count)
    table = pd.DataFrame(
        {
            "V1": score + random.normal(0, 0.5, count),
            "V2": random.normal(size=count),
            "AGE": (random.integers(18, 80, count) - 45) / 17.3,
            "SEX": random.choice([-1.106531, 0.903725], count),
            "FLAG": np.where(np.arange(count) == 7, 1, 0),
        }
    )
    table["FRAUD"] = (score > np.quantile(score, 0.98)).astype(int)
    return table


def asked(*words: object, cwd, status: int, says: str = "") -> str:
    """A command that ends as it should: with this status, and where it refuses with one sentence and nothing else."""
    done = bornfair(*words, cwd=cwd)
    shown = f"{shlex.join(map(str, words))}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == status, shown
    assert "Traceback" not in shown and "internal error" not in shown, shown
    if status == 2:
        assert done.stdout == "", shown
        (sentence,) = [line for line in done.stderr.splitlines() if not line.startswith("bornfair: note:")]
        assert sentence.startswith("bornfair: ") and sentence.endswith((".", "?", "--help")), shown
    assert says in done.stdout + done.stderr, shown
    return done.stdout


def suggested(*words: object, cwd) -> tuple[list[str], list[str]]:
    """The command that inspect suggests, and the options of it that say how the file is read."""
    command = shlex.split(json.loads(asked("inspect", *words, "--json", cwd=cwd, status=0))["command"])
    pairs = list(zip(command[3::2], command[4::2], strict=True))
    reading = [w for pair in pairs if pair[0] in ("--decimal", "--numeric", "--encoding", "--delimiter") for w in pair]
    return command[1:], reading


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    """A folder with the bank's table and two models of it, a fair and an unfair one, trained as inspect suggests."""
    folder = tmp_path_factory.mktemp("bank")
    customers().to_csv(folder / "customers.csv", index=False)
    train, _ = suggested(
        "customers.csv", "--target", "default", "--sensitive", "sex", "--sensitive", "race", cwd=folder
    )
    asked(*train, *QUICK, "--out", "fair", cwd=folder, status=0)
    asked(*train, *QUICK, "--epochs", "30", "--response", "none", "--out", "unfair", "--json", cwd=folder, status=1)
    return folder


# --- looking at the table ---


def test_inspect_finds_what_is_wrong_and_suggests_how_to_train(bank):
    told = json.loads(
        asked("inspect", "customers.csv", "--target", "default", "--sensitive", "sex", "--json", cwd=bank, status=0)
    )
    found = {finding["kind"]: finding["columns"] for finding in told["findings"]}
    assert found["identifier"] == ["customer_no", "email", "phone"]
    assert found["text"] == ["full_name", "street"] and found["date"] == ["opened"]
    assert found["constant"] == ["rate"] and found["sentinel"] == ["limit"]
    assert found["leak"] == ["recovered"] and found["proxy"] == ["sex_std"]
    assert found["gaps"] == ["age"] and found["codes"] == ["sector"]
    kinds = {column["name"]: column["kind"] for column in told["columns"]}
    assert kinds["age"] == "whole number" and kinds["income"] == "decimal" and kinds["region"] == "category"
    assert all(finding["text"].endswith(".") for finding in told["findings"])
    dropped = {"customer_no", "email", "phone", "full_name", "street", "opened", "rate", "recovered", "sex_std"}
    assert {f"--drop {name}" for name in dropped} <= {
        " ".join(pair) for pair in zip(told["options"][::2], told["options"][1::2], strict=True)
    }


def test_what_is_printed_fits_a_terminal_and_names_nobody(bank):
    words = ("inspect", "customers.csv", "--target", "default", "--sensitive", "sex", "--sensitive", "race")
    printed, document = asked(*words, cwd=bank, status=0), asked(*words, "--json", cwd=bank, status=0)
    table, _, command = printed.rpartition("To train:")
    assert max(map(len, table.splitlines())) <= 100 and command.strip().startswith("bornfair train customers.csv")
    assert not [secret for secret in SECRET if secret in printed + document]


def test_without_target_and_sensitive_columns_inspect_says_what_it_can(bank):
    printed = asked("inspect", "customers.csv", cwd=bank, status=0, says="Name --target and --sensitive")
    assert "'rate' has the same value" in printed and "To train" not in printed


def test_nothing_about_single_people_gets_into_a_bundle(bank):
    for name in ("domain.json", "report.html", "certificate.json"):
        text = (bank / "fair" / name).read_text()
        assert not [secret for secret in SECRET if secret in text], name


def test_a_clean_table_has_no_findings(tmp_path):
    random = np.random.default_rng(0)
    pd.DataFrame({
        "x": random.normal(size=200).round(3), "c": random.choice(list("abc"), 200),
        "sex": random.choice(["f", "m"], 200), "y": random.choice(["no", "yes"], 200),
    }).to_csv(tmp_path / "t.csv", index=False)  # fmt: skip
    asked("inspect", "t.csv", "--target", "y", "--sensitive", "sex", cwd=tmp_path, status=0,
          says="Nothing to watch out for was found.")  # fmt: skip


# --- training refuses what it cannot learn from ---


def test_train_refuses_names_and_identifiers_by_name_unless_told(bank):
    words = ["train", "customers.csv", "--target", "default", "--sensitive", "sex", "--out", "no", *QUICK]
    asked(*words, cwd=bank, status=2, says="'full_name' (names, addresses or free text)")
    asked(*words, cwd=bank, status=2, says="--drop customer_no --drop full_name --drop street --drop email")
    rest = ["--drop", "customer_no", "--drop", "email", "--drop", "phone", "--drop", "opened", "--missing", "impute"]
    asked(*words, *rest, "--drop", "street", cwd=bank, status=2, says="or keep it with --keep full_name.")
    kept = ["--keep", "full_name", "--drop", "street", "--out", "kept"]
    asked(*words, *rest, *kept, cwd=bank, status=0, says="note: 'recovered' alone tells the answer almost perfectly")
    assert "Abelmann" in (bank / "kept" / "domain.json").read_text()  # as asked


def test_train_says_what_matters_on_stderr_and_in_its_json(bank):
    rest = [w for c in ("customer_no", "email", "phone", "opened", "full_name", "street") for w in ("--drop", c)]
    words = [
        "train",
        "customers.csv",
        "--target",
        "default",
        "--sensitive",
        "sex",
        "--missing",
        "impute",
        *rest,
        *QUICK,
    ]
    done = bornfair(*words, "--out", "noted", "--json", cwd=bank)
    (note,) = [line for line in done.stderr.splitlines() if line.startswith("bornfair: note:")]
    for part in ("'recovered' alone tells", "'sex_std' gives the sensitive value away", "'limit' holds numbers far",
                 "'rate' has the same value"):  # fmt: skip
        assert part in note
    assert {f["kind"] for f in json.loads(done.stdout)["findings"]} >= {"leak", "proxy", "sentinel", "constant"}


def test_a_single_word_among_numbers_is_said_and_read_as_a_gap_where_asked(tmp_path):
    table = customers(1500)[["age", "income", "sex", "default"]].fillna(40).astype({"age": object})
    table.loc[7, "age"] = "unknown"
    table.to_csv(tmp_path / "t.csv", index=False)
    about = ["t.csv", "--target", "default", "--sensitive", "sex"]
    asked(
        "train", *about, *QUICK, "--out", "b", cwd=tmp_path, status=0, says="note: 'age' holds numbers that are taken"
    )
    train, _ = suggested(*about, cwd=tmp_path)
    asked(*train, *QUICK, "--out", "c", cwd=tmp_path, status=0)
    kinds = {f["name"]: f["kind"] for f in json.loads((tmp_path / "c" / "domain.json").read_text())["features"]}
    assert kinds["age"] == "integer"
    data = ["--data", "t.csv", "--target", "default"]
    asked("audit", "c", *data, "--timeout", "1", cwd=tmp_path, status=2, says="(--decimal and --numeric read numbers")


def test_codes_are_categories_where_somebody_says_so(bank):
    train, _ = suggested(
        "customers.csv", "--target", "default", "--sensitive", "sex", "--categorical", "sector", cwd=bank
    )
    assert train[train.index("--categorical") + 1] == "sector"
    asked(*train, *QUICK, "--out", "coded", cwd=bank, status=0)
    features = {f["name"]: f for f in json.loads((bank / "coded" / "domain.json").read_text())["features"]}
    assert features["sector"]["categories"] == [1, 2, 3, 4, 5, 6, 7] and features["age"]["kind"] == "integer"
    asked("predict", "coded", "customers.csv", "--out", "out.csv", cwd=bank, status=0)


def test_how_a_file_is_read_does_not_change_what_a_category_is(tmp_path):
    """Codes that are texts beside an "A" are numbers in a file without; one odd cell makes texts of true and false."""
    random = np.random.default_rng(0)
    code = random.choice(["1", "2", "A"], 400, p=[0.45, 0.45, 0.1])
    table = pd.DataFrame({
        "code": code, "owner": random.random(400) < 0.5, "sex": random.choice(["f", "m"], 400),
        "y": np.where((code == "1") ^ (random.random(400) < 0.1), "yes", "no"),
    })  # fmt: skip
    table.to_csv(tmp_path / "t.csv", index=False)
    few = ["--hidden", "8", "--epochs", "40"]
    asked("train", "t.csv", "--target", "y", "--sensitive", "sex", *few, "--out", "b", cwd=tmp_path, status=0)
    asked("predict", "b", "t.csv", "--out", "all.csv", cwd=tmp_path, status=0)
    table[code != "A"].to_csv(tmp_path / "numbers.csv", index=False)
    done = bornfair("predict", "b", "numbers.csv", "--out", "some.csv", cwd=tmp_path)
    notes = [line for line in done.stderr.splitlines() if "note" in line]
    assert done.returncode == 0 and all("rows with a label" in line for line in notes)  # nothing about categories
    whole = pd.read_csv(tmp_path / "all.csv")[code != "A"].reset_index(drop=True)
    assert pd.read_csv(tmp_path / "some.csv").equals(whole) and whole["prediction"].nunique() == 2
    told = asked(
        "audit", "b", "--data", "numbers.csv", "--target", "y", "--timeout", "1", "--json", cwd=tmp_path, status=0
    )
    right = (whole["prediction"] == table["y"][code != "A"].reset_index(drop=True)).mean()
    assert json.loads(told)["metrics"]["accuracy"] == pytest.approx(right)
    odd = table.astype(object)
    odd.loc[3, "owner"], odd.loc[5:9, "code"] = "maybe", "Z"
    odd.to_csv(tmp_path / "odd.csv", index=False)
    asked("predict", "b", "odd.csv", cwd=tmp_path, status=2, says="column 'owner' holds 'maybe' in row 3")
    odd.drop(index=3).to_csv(tmp_path / "odd.csv", index=False)
    asked(
        "predict",
        "b",
        "odd.csv",
        cwd=tmp_path,
        status=0,
        says="has not seen count as none of those it has: 'code' in 5 of",
    )


# --- every command, on what was trained ---


def test_every_command_on_a_fair_model(bank):
    data = ["--data", "customers.csv", "--target", "default"]
    asked("predict", "fair", "customers.csv", "--out", "out.csv", cwd=bank, status=0)
    assert len(pd.read_csv(bank / "out.csv")) == 300
    asked("verify", "fair", *data, "--timeout", "1", cwd=bank, status=0, says="VERIFIED")
    asked("quantify", "fair", *data, "--timeout", "1", cwd=bank, status=0, says="0 % (0 of 300) of the people")
    audited = asked("audit", "fair", *data, "--timeout", "1", "--report", "fair.html", cwd=bank, status=0)
    assert "\\xa0" not in audited and not [secret for secret in SECRET if secret in (bank / "fair.html").read_text()]
    asked("certify", "fair", "--out", "again", "--timeout", "1", cwd=bank, status=0)
    asked("check", "again", cwd=bank, status=0, says="VALID")
    asked("export", "fair", "fair.onnx", cwd=bank, status=0)


def test_every_command_on_an_unfair_model(bank):
    data = ["--data", "customers.csv", "--target", "default"]
    asked("predict", "unfair", "customers.csv", "--json", cwd=bank, status=0)
    asked("verify", "unfair", *data, "--timeout", "5", cwd=bank, status=1, says="FALSIFIED")
    asked("quantify", "unfair", *data, "--timeout", "1", "--json", cwd=bank, status=0)
    asked("audit", "unfair", "fair", *data, "--timeout", "1", "--report", "both.md", cwd=bank, status=1)
    asked("certify", "unfair", "--out", "shown", "--timeout", "5", cwd=bank, status=1)
    asked("check", "shown", cwd=bank, status=1)
    asked("export", "unfair", "unfair.onnx", cwd=bank, status=0)
    asked("export", "unfair", "without.onnx", "--without-sensitive", cwd=bank, status=2)
    asked("repair", "unfair", *data, "--epochs", "2", "--out", "mended", cwd=bank, status=0)
    asked("check", "mended", cwd=bank, status=0)


def test_proxies_of_the_table(bank):
    rest = [w for c in ("customer_no", "email", "phone", "opened", "full_name", "street") for w in ("--drop", c)]
    printed = asked("proxies", "customers.csv", "--sensitive", "sex", "--target", "default", *rest, cwd=bank, status=0)
    assert "sex_std" in printed
    asked("proxies", "customers.csv", "--sensitive", "sx", cwd=bank, status=2, says="did you mean 'sex'?")


def test_gamma_needs_no_answers(tmp_path):
    table = customers()[["age", "sex", "default"]]
    table.assign(default=table["default"].where(table.index > 9)).to_csv(tmp_path / "t.csv", index=False)
    asked("gamma", "t.csv", "--sensitive", "sex", "--target", "default", cwd=tmp_path, status=0)
    asked("gamma", "t.csv", "--sensitive", "sex", "--target", "defalt", cwd=tmp_path, status=2, says="'default'?")


# --- files that are written otherwise ---


def test_a_german_file_is_read_the_same_way_by_every_command(tmp_path):
    table = customers(200).drop(columns=["customer_no", "email", "phone", "opened", "recovered", "sex_std", "rate"])
    table["region"] = table["region"].replace("south", "süd")
    table["share"] = [f"{n} %" for n in np.random.default_rng(5).integers(0, 100, len(table))]
    table.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    about = ["t.csv", "--target", "default", "--sensitive", "sex"]
    asked("inspect", *about, cwd=tmp_path, status=2, says="--encoding latin-1")
    asked("train", *about, cwd=tmp_path, status=2, says="--encoding latin-1")
    asked("inspect", *about, "--encoding", "latin-1", "--delimiter", ",", cwd=tmp_path, status=2)
    train, reading = suggested(*about, "--encoding", "latin-1", cwd=tmp_path)
    assert reading == ["--encoding", "latin-1", "--decimal", ",", "--numeric", "share"]
    asked(*train, *QUICK, "--out", "b", cwd=tmp_path, status=0)
    domain = {f["name"]: f for f in json.loads((tmp_path / "b" / "domain.json").read_text())["features"]}
    assert domain["income"]["kind"] == "real" and domain["share"]["kind"] == "integer"
    assert "süd" in domain["region"]["categories"]
    data = ["--data", "t.csv", "--target", "default", *reading]
    asked("predict", "b", "t.csv", *reading, "--out", "out.csv", cwd=tmp_path, status=0)
    asked("predict", "b", "t.csv", "--encoding", "latin-1", cwd=tmp_path, status=2, says="(--decimal and --numeric")
    asked("verify", "b", *data, "--timeout", "1", cwd=tmp_path, status=0)
    asked("repair", "b", *data, "--epochs", "1", "--out", "c", cwd=tmp_path, status=0)
    asked("certify", "b", "--data", "t.csv", *reading, "--out", "d", "--timeout", "1", cwd=tmp_path, status=0)
    asked("proxies", "t.csv", "--sensitive", "sex", "--target", "default", "--drop", "full_name", "--drop", "street",
          *reading, cwd=tmp_path, status=0)  # fmt: skip


def test_reading_options_without_a_table_are_refused(bank):
    for command in ("verify", "quantify", "audit", "certify"):
        asked(command, "fair", "--decimal", ",", cwd=bank, status=2, says="--decimal: there is no table")


# --- rare positives, gaps where they hurt ---


def test_rare_positives_are_said_and_trained_on(tmp_path):
    rare().to_csv(tmp_path / "t.csv", index=False)
    about = ["t.csv", "--target", "FRAUD", "--sensitive", "SEX"]
    printed = asked("inspect", *about, cwd=tmp_path, status=0, says="(--threshold)")
    assert "1 is the answer in 2.0 % of the rows" in printed and "'FLAG' has the same value in nearly all" in printed
    train, _ = suggested(*about, cwd=tmp_path)
    asked(*train, *QUICK, "--out", "b", cwd=tmp_path, status=0, says="one class of 'FRAUD' is rare")
    asked("audit", "b", "--data", "t.csv", "--target", "FRAUD", "--timeout", "1", cwd=tmp_path, status=0)


def test_a_rare_positive_model_is_asked_where_it_decides(tmp_path):
    table = rare()
    table["FRAUD"] = (table["V1"] + 1.5 * (table["SEX"] > 0) > np.quantile(table["V1"], 0.99) + 0.4).astype(int)
    table["NO"] = np.arange(5000, 5600)
    table.to_csv(tmp_path / "t.csv", index=False)
    about, data = ["t.csv", "--target", "FRAUD"], ["--data", "t.csv", "--target", "FRAUD"]
    made = ["--sensitive", "SEX", "--drop", "NO", "--hidden", "8", "--epochs", "40", "--response", "none", "--out", "b"]
    asked("train", *about, *made, "--threshold", "top 5%", cwd=tmp_path, status=1, says="decides")
    domain = {f["name"]: f for f in json.loads((tmp_path / "b" / "domain.json").read_text())["features"]}
    assert domain["SEX"]["categories"] == [-1.106531, 0.903725]  # and nothing between
    told = asked("audit", "b", *data, "--drop", "NO", "--timeout", "2", "--report", "a.html", cwd=tmp_path, status=1)
    headline = told.splitlines()[0]
    assert headline.startswith("b: Not fair: ") and "of 600) of the people in the table would" in headline
    page = (tmp_path / "a.html").read_text()
    assert "It decides 1 above" in page and "At other thresholds" in page and "Every combination of values" in page
    assert page.index("People in the table") < page.index("People as in the data") < page.index("Every combination")
    for threshold in ("0.9999", "0=0.0001"):  # where nobody is decided otherwise, it says where somebody would be
        words = ("audit", "b", *data, "--drop", "NO", "--timeout", "1", "--threshold", threshold, "--json")
        found = json.loads(bornfair(*words, cwd=tmp_path).stdout)
        assert found["people"]["unfair"] == 0 < found["thresholds"]["worst_affected"]
        said = bornfair(*words[:-1], cwd=tmp_path).stdout.splitlines()[0]
        assert "That holds at its threshold, " in said and "people looked at would be decided otherwise" in said
    asked("verify", "b", "--output", "score", "--tolerance", "0.001", "--timeout", "3", cwd=tmp_path, status=1)
    asked("verify", "b", "--output", "score", "--tolerance", "1000", "--timeout", "3", cwd=tmp_path, status=0)
    asked("verify", "b", "--change", "--data", "t.csv", "--timeout", "2", cwd=tmp_path, status=0, says="of the table")
    asked("repair", "b", *data, "--epochs", "2", "--out", "c", cwd=tmp_path, status=0)
    asked("predict", "c", "t.csv", "--id", "NO", "--out", "out.csv", cwd=tmp_path, status=0)
    assert pd.read_csv(tmp_path / "out.csv")["NO"].tolist() == table["NO"].tolist()
    asked("export", "c", "without", "--without-sensitive", cwd=tmp_path, status=0)
    shutil.make_archive(str(tmp_path / "zipped"), "zip", tmp_path, "without")  # one directory level
    asked("check", "zipped.zip", cwd=tmp_path, status=0, says="at every threshold")
    for sensitive, status in ((["V1"], 1), (["SEX", "FLAG"], None)):  # the natural next question
        more = [w for name in sensitive for w in ("--sensitive", name)]
        done = bornfair("verify", "b", *more, "--data", "t.csv", "--timeout", "3", cwd=tmp_path)
        assert done.returncode in ((status,) if status is not None else (0, 1, 3)), done.stderr


@pytest.mark.parametrize(
    ("spoil", "finding"),
    [
        (lambda t: t.assign(default=t["default"].where(t.index > 9)), "target 'default' has gaps in 3.3 % of the rows"),
        (lambda t: t.assign(default=1), "the target 'default' has one class only, 1, in all 300 rows"),
        (lambda t: t.assign(default=t["income"]), "the target 'default' has 300 values; it looks like a quantity"),
        (lambda t: t.assign(income=t["income"].where(t.index != 3, 1e300), age=40.0), "'income' holds 1e+300"),
        (lambda t: t.assign(sex="female"), "the sensitive column 'sex' has 1 value, so nobody has a twin"),
    ],
)
def test_what_cannot_be_trained_on_is_found_before_and_refused_alike(tmp_path, spoil, finding):
    spoil(customers()[["age", "income", "region", "sex", "default"]].fillna(40)).to_csv(tmp_path / "t.csv", index=False)
    about = ["t.csv", "--target", "default", "--sensitive", "sex"]
    asked("inspect", *about, cwd=tmp_path, status=0)
    told = json.loads(asked("inspect", *about, "--json", cwd=tmp_path, status=0))
    assert any(finding in one["text"] for one in told["findings"]), told["findings"]
    assert (told["command"] is None) == ("has gaps" not in finding)  # nothing is suggested that train would refuse
    asked("train", *about, *QUICK, cwd=tmp_path, status=2, says=finding)
    assert len(bornfair("train", *about, *QUICK, cwd=tmp_path).stderr.splitlines()) == 1  # no note before it


def test_rows_without_an_answer_or_a_sensitive_value_are_no_obstacle(tmp_path):
    table = customers()[["age", "income", "region", "sex", "default"]].fillna(40)
    table["default"], table["sex"] = table["default"].where(table.index > 9), table["sex"].where(table.index < 280)
    table.to_csv(tmp_path / "t.csv", index=False)
    train, _ = suggested("t.csv", "--target", "default", "--sensitive", "sex", cwd=tmp_path)
    assert train[-2:] == ["--unlabelled", "drop"]
    asked(*train, *QUICK, "--out", "b", cwd=tmp_path, status=0, says="10 of 300 rows have no 'default'")
    assert json.loads((tmp_path / "b" / "domain.json").read_text())["label"]["classes"] == [0, 1]
    asked("predict", "b", "t.csv", "--json", cwd=tmp_path, status=0)


def test_bad_questions_are_refused_in_one_sentence(bank):
    about = ["customers.csv", "--target", "default", "--sensitive", "sex"]
    for words, says in [
        (["inspect", "nowhere.csv"], "there is no file 'nowhere.csv'"),
        (["inspect", "customers.csv", "--target", "defalt"], "did you mean 'default'?"),
        (["inspect", *about, "--keep", "nme"], "column 'nme' is not in the table"),
        (["inspect", *about, "--decimal", ";"], "--decimal must be '.' or ','"),
        (["inspect", "customers.csv", "--target", "sex", "--sensitive", "sex"], "cannot be both"),
        (["train", *about, "--categorical", "default"], "'default' is the target"),
        (["train", *about, "--keep", "region", "--drop", "region"], "'region' is not in the table"),
        (["train", *about, "--numeric", "region"], "'region' is to be numeric, but 300 of its 300 rows hold no number"),
        (["audit", "nowhere.onnx", "customers.csv"], "'customers.csv' is a table, not a model; name it as people"),
        (["verify", "customers.csv"], "--data customers.csv"),
        (["train", *about, "--encoding", "morse"], "--encoding 'morse' is not known"),
    ]:
        asked(*words, cwd=bank, status=2, says=says)
