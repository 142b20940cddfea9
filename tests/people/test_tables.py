"""Reading tables."""

import gzip
import lzma

import numpy as np
import pandas as pd
import pytest

from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading
from bornfair.people.sources import Source
from bornfair.people.tables import _separator, as_pandas, read_table, told_of_reading, with_large_numbers


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_with_any_usual_separator(tmp_path, people, separator):
    people.to_csv(tmp_path / "people.csv", index=False, sep=separator)
    pd.testing.assert_frame_equal(read_table(tmp_path / "people.csv"), people)


def test_parquet_and_gzip(tmp_path, people):
    people.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(people.to_csv(index=False).encode()))
    pd.testing.assert_frame_equal(read_table(tmp_path / "people.parquet"), people)
    pd.testing.assert_frame_equal(read_table(tmp_path / "people.csv.gz"), people)


def test_none_and_na_stay_texts_and_empty_is_missing(tmp_path):
    (tmp_path / "t.csv").write_text("country,x\nNA,1\nNone,2\n,3\n")
    column = read_table(tmp_path / "t.csv")["country"]
    assert column[:2].tolist() == ["NA", "None"] and column.isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "cannot read '.*t.csv' as a table"),
        ("t.csv", b"a,b\n", "has no rows; a table needs a header and at least one row"),
        ("t.csv", b"a,b\n1,2\n3,4,5,6\n", "cannot read '.*t.csv' as a table"),
        ("t.csv", b"\x80\x81bad", "cannot read '.*t.csv' as a table"),
        ("t.parquet", b"PAR1garbage", "cannot read '.*t.parquet' as a table"),
        ("t.csv.gz", b"not gzip", "cannot read '.*t.csv.gz' as a table"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:40], "cannot read '.*t.csv.gz' as a table"),
    ],
)
def test_unreadable_files_are_explained(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no file '.*nowhere.csv'"):
        read_table(tmp_path / "nowhere.csv")


def test_what_is_not_a_table_is_named():
    with pytest.raises(InputError, match=r"a table must be a pandas or polars data frame, found list"):
        as_pandas([1, 2])
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(InputError, match=r"two columns named 'a'; rename one"):
        as_pandas(twice)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ([1, 2], "column 'a' holds a ndarray in row 1; cells must be numbers, texts or true/false"),
        ({"x": 1}, "column 'a' holds a dict in row 1"),
    ],
)
def test_cells_that_are_no_single_values_are_named(tmp_path, cell, message):
    pd.DataFrame({"a": [None, cell], "b": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "t.parquet")


def test_numbers_beyond_all_formats_are_named(tmp_path):
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n{10**400},3\n")
    with pytest.raises(InputError, match=r"column 'a' holds a number of 1,329 bits in row 1"):
        read_table(tmp_path / "t.csv")


def test_a_number_too_large_for_pandas_makes_no_texts_of_the_others(tmp_path):
    """Whatever pandas does by itself, which depends on its version."""
    large = [10**19, -(10**20), 10**40]
    rows = [f"{number};{number};1,5;1,5;7;a" for number in large] + [
        "1;;1e400;1.5;x;1",
        f"2;3; -2 ;2,5;{10**20};{10**20}",
    ]
    (tmp_path / "t.csv").write_text("\n".join(["whole;holed;real;mixed;text;code", *rows]) + "\n")
    told = TableReading(delimiter=";", decimal=",")
    table = read_table(tmp_path / "t.csv", told)
    assert table["whole"].tolist() == [*large, 1, 2]
    assert table["holed"].dropna().tolist() == [*large, 3] and table["holed"].isna().sum() == 1
    assert table["real"].dtype == float and table["real"].tolist() == [1.5, 1.5, 1.5, np.inf, -2.0]
    for name, cells in (("mixed", ["1,5"] * 3 + ["1.5", "2,5"]), ("text", ["7"] * 3 + ["x", str(10**20)])):
        assert table[name].tolist() == cells, "not all are numbers as the file writes them"
    assert table["code"].tolist() == ["a", "a", "a", "1", str(10**20)]
    (batch,) = Source.at(str(tmp_path / "t.csv"), told).batches()
    assert batch.table.equals(table)


def test_numbers_are_kept_as_numbers_up_to_the_largest_that_a_format_holds():
    largest = 2**63 - 1
    kept = with_large_numbers(pd.DataFrame({"a": ["1", str(largest)], "b": ["1", str(largest + 1)]}), ".")
    assert kept["a"].tolist() == ["1", str(largest)]  # which pandas would have read by itself
    assert kept["b"].tolist() == [1, largest + 1]
    decimals = with_large_numbers(
        pd.DataFrame({"a": ["1.5", "1e308"], "b": ["1.5", "1e400"], "c": ["2.5", "-1e400"]}), "."
    )
    assert decimals["a"].tolist() == ["1.5", "1e308"]
    assert decimals["b"].tolist() == [1.5, np.inf] and decimals["c"].tolist() == [2.5, -np.inf]


@pytest.mark.parametrize("table", [[[1, 2]], {"a": [1]}, np.zeros((2, 2)), pd.Series([1, 2], name="a")])
def test_what_is_no_data_frame_is_refused_in_a_sentence(table):
    with pytest.raises(InputError, match=r"a table must be a pandas or polars data frame, found \w+; turn it into one"):
        as_pandas(table)


@pytest.mark.parametrize("names", [["a", 1], [1, "a"], ["a", "b", ("c", "d")]])
def test_names_of_two_types_are_refused(names):
    with pytest.raises(InputError, match=r"the table has columns named by a text \('a'\) and by a (int|tuple)"):
        as_pandas(pd.DataFrame([range(len(names))], columns=pd.Index(names, dtype=object)))
    numbered = pd.DataFrame([[1, 2]])
    assert as_pandas(numbered) is numbered


def test_columns_of_other_data_frames_keep_their_gaps_and_types():
    polars = pytest.importorskip("polars")
    native = polars.DataFrame(
        {"whole": [1, 2, 3], "holed": [1, None, 3], "real": [0.5, 1.5, 2.5], "text": ["a", None, "c"]}
    )
    for given in (native, native.lazy()):
        table = as_pandas(given)
        assert list(table.columns) == ["whole", "holed", "real", "text"]
        assert table["whole"].dtype == np.int64 and table["real"].dtype == np.float64
        assert table["holed"].isna().tolist() == [False, True, False] and table["holed"].dropna().tolist() == [1, 3]
        assert table["text"].tolist()[::2] == ["a", "c"] and table["text"].isna().tolist() == [False, True, False]


def test_cells_of_a_data_frame_are_single_values_that_a_number_format_holds():
    for cell, kind in (([1], "list"), ({"a": 1}, "dict"), ({1}, "set"), (np.zeros(2), "ndarray")):
        with pytest.raises(InputError, match=f"column 'a' holds a {kind} in row 5"):
            as_pandas(pd.DataFrame({"a": pd.Series([1, cell], index=[4, 5], dtype=object)}))
    for large in (2**1023, -(2**1023)):
        with pytest.raises(InputError, match=r"column 'a' holds a number of 1,024 bits in row 1"):
            as_pandas(pd.DataFrame({"a": pd.Series([1, large], dtype=object)}))
    for cells in ([1, 2**1023 - 1], [1, -(2**1023) + 1], ["a", "b"], [True, None], [1.5, None], ["a", 1, None]):
        table = pd.DataFrame({"a": pd.Series(cells, dtype=object)})
        assert as_pandas(table) is table


def test_endings_tell_what_a_file_is(tmp_path, people):
    for name in ("t.pq", "t.PARQUET"):
        people.to_parquet(tmp_path / name)
        pd.testing.assert_frame_equal(read_table(tmp_path / name), people)
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(people.to_csv(index=False).encode()))
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv.xz"), people)
    (tmp_path / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"a,b\n1,2\n")
    with pytest.raises(InputError, match="it is a spreadsheet or an archive; save it as CSV"):
        read_table(tmp_path / "old.xls")


@pytest.mark.parametrize(
    ("header", "besides", "separator"),
    [
        ("a,b;c\n", None, ","), ("a;b;c,d\n", None, ";"), ('"a;b;c",d\n', None, ","), ("a\n", None, ","),
        ("a|b\n", None, "|"), ("a\tb\tc,d\n", None, "\t"), ("a;b\n", ",", ";"), ("a\n", ";", ";"), ("a,b\n", ";", ","),
        ('"a""b",c;d;e\n', None, ";"),
    ],
)  # fmt: skip
def test_the_separator_is_the_most_frequent_sign_and_a_comma_if_in_doubt(header, besides, separator):
    assert _separator(header, besides) == separator


def test_a_file_of_one_column_needs_no_separator(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    assert read_table(tmp_path / "t.csv")["a"].tolist() == [1, 2]
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"a single column when read with the delimiter tab, and its header holds ','"):
        read_table(tmp_path / "t.csv", TableReading(delimiter="\t"))


def test_large_numbers_among_gaps_and_signs():
    large = 2**65
    cells = {"a": ["", "+1", f"-{large}"], "b": [None, " 7", f"{large} "], "c": ["x", "1", str(large)], "d": [1, 2, 3]}
    found = with_large_numbers(pd.DataFrame({name: pd.Series(column) for name, column in cells.items()}), ".")
    assert found["a"].dropna().tolist() == [1, -large] and found["a"].isna().tolist() == [True, False, False]
    assert found["b"].dropna().tolist() == [7, large] and found["b"].isna().sum() == 1
    assert found["c"].tolist() == cells["c"] and found["d"].tolist() == cells["d"]
    longest = with_large_numbers(pd.DataFrame({"a": ["1", "9" * 4_300], "b": ["1", "9" * 4_301]}), ".")
    assert longest["a"].tolist() == [1, 10**4_300 - 1] and longest["b"].tolist() == [1.0, np.inf]
    commas = with_large_numbers(pd.DataFrame({"a": ["1,5", "1e400"], "b": ["1.5", "1e400"]}), ",")
    assert commas["a"].tolist() == [1.5, np.inf] and commas["b"].tolist() == ["1.5", "1e400"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ImportError("pyarrow"), r"reading 't' needs pyarrow: pip install"),
        (ValueError(), r"cannot read 't' as a table \(ValueError\); is it a complete CSV or Parquet file"),
        (ValueError("one\ntwo"), r"cannot read 't' as a table \(one\); is it a complete"),
        (ValueError("Expected 2 fields"), r"\(Expected 2 fields\); is it a complete"),
        (ValueError("Expected 2 fields, saw 3"), r"is another sign between the cells"),
        (ValueError("EOF inside string"), r"a quote is opened and never closed there"),
        (UnicodeError("?"), r"it is not UTF-8 text; name its encoding, as --encoding latin-1 or cp1252\."),
        (InputError("as it is"), r"^as it is$"),
    ],
)
def test_failures_of_readers_are_one_sentence(error, message):
    with pytest.raises(InputError, match=message), told_of_reading("t", TableReading()):
        raise error
    with pytest.raises(MemoryError), told_of_reading("t", TableReading()):
        raise MemoryError
