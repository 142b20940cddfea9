"""Files that are written otherwise: encodings, delimiters, decimal commas, numbers among texts."""

import bz2
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from bornfair.core.errors import InputError
from bornfair.people.numbers import number_of
from bornfair.people.reading import TableReading
from bornfair.people.tables import read_table, with_numbers

TABLE = pd.DataFrame({"städte": ["Zürich", "Genève", "Ulm"], "x": [1.5, 2.25, -3.0], "n": [1, 2, 3]})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_utf_8_and_whatever_has_a_byte_order_mark_is_read_as_it_is(tmp_path, encoding):
    TABLE.to_csv(tmp_path / "t.csv", index=False, encoding=encoding)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), TABLE)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "^"])
def test_any_delimiter_can_be_named(tmp_path, delimiter):
    TABLE.to_csv(tmp_path / "t.csv", index=False, sep=delimiter)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv", TableReading(delimiter=delimiter)), TABLE)


def test_latin_1_is_refused_with_the_option_that_helps_and_read_with_it(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False, encoding="latin-1")
    with pytest.raises(InputError, match=r"is not UTF-8 text at byte 2; name its encoding, as --encoding latin-1"):
        read_table(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv", TableReading(encoding="latin-1")), TABLE)
    with pytest.raises(InputError, match=r"is not ascii text at byte 2; name its encoding, as --encoding utf-8"):
        read_table(tmp_path / "t.csv", TableReading(encoding="ascii"))


def test_a_byte_that_is_not_utf_8_far_from_the_header_is_refused_alike(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"1,x\n" * 100_000 + b"2,\xe9\n")
    with pytest.raises(InputError, match="--encoding latin-1"):
        read_table(tmp_path / "t.csv")


def test_decimal_commas_between_semicolons_or_in_quotes(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv", TableReading(decimal=",")), TABLE)
    (tmp_path / "q.csv").write_text('x,y\n"1,5",a\n"2,5",b\n')
    assert read_table(tmp_path / "q.csv", TableReading(decimal=","))["x"].tolist() == [1.5, 2.5]


def test_packed_files_are_read(tmp_path):
    text = TABLE.to_csv(index=False).encode()
    (tmp_path / "t.csv.bz2").write_bytes(bz2.compress(text))
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("t.csv", text)
    for name in ("t.csv.bz2", "t.csv.zip"):
        pd.testing.assert_frame_equal(read_table(tmp_path / name), TABLE)


def spreadsheet() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "reading", "message"),
    [
        (b"a;b\n1;2\n", {"delimiter": ","}, r"a single column when read .* ',', .* try --delimiter ';'"),
        (b"a,b\n1,5,2,5\n3,5,4,5\n", {}, r"have more cells than its header has names, .*\(--delimiter ';'\)"),
        (b"a,b\n1,2\n3,4,5,6\n", {}, r"Expected 2 fields in line 3, saw 4\); is another sign .*\(--delimiter ';'\)"),
        (b'a,b\n"1,2\n3,4\n', {}, r"a quote is opened and never closed"),
        ("a,b\n1,2\n".encode("utf-16-le"), {}, r"zero bytes, as UTF-16 text does; .* --encoding utf-16-le"),
        (spreadsheet(), {}, r"a spreadsheet or an archive; save it as CSV"),
        (b"a,b\n1,2\n", {"numeric": ["c"]}, r"column 'c' is not in the table"),
        (b"a,b\n1,x\n2,x\n3,5\n", {"numeric": ["b"]}, r"'b' is to be numeric, but 2 of its 3 rows hold no number, the "
         r"first of them row 0, as 'x' in 2 of them; correct"),
        (b"a;b\n1;1,5\n2;0,25\n", {"numeric": ["b"], "decimal": "."}, r"hold no number.*; perhaps --decimal ','"),
    ],
)  # fmt: skip
def test_a_file_read_wrongly_is_refused_with_the_option_that_helps(tmp_path, content, reading, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "t.csv", TableReading(**reading))


def test_a_text_of_one_row_is_not_told_in_a_message():
    table = pd.DataFrame({"who": ["1", "Ada Lovelace", "3"]})
    with pytest.raises(InputError) as refused:
        with_numbers(table, TableReading(numeric=["who"]))
    assert "Ada" not in str(refused.value) and "row 1;" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "klingon"}, "--encoding 'klingon' is not known"),
        ({"encoding": "base64"}, "--encoding 'base64' is not known"),
        ({"decimal": "·"}, "--decimal must be '.' or ','"),
        ({"delimiter": "::"}, "--delimiter must be one sign"),
        ({"delimiter": "a"}, "--delimiter must be one sign"),
        ({"delimiter": ""}, "--delimiter must be one sign"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        TableReading(**options)


def test_a_tab_can_be_named():
    assert TableReading(delimiter="tab").delimiter == TableReading(delimiter="\\t").delimiter == "\t"


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("1,234", 1234.0, 1.234),
        ("1,234.5", 1234.5, None),
        ("1.234,5", None, 1234.5),
        ("1,5", None, 1.5),
        ("12 %", 12.0, 12.0),
        ("€ 1 200", 1200.0, 1200.0),
        ("CHF 1'200.50", 1200.5, None),
        ("(300)", -300.0, -300.0),
        ("300-", -300.0, -300.0),
        ("−4", -4.0, -4.0),
        ("12,34,567", 1234567.0, None),
        ("1e3", 1000.0, 1000.0),
        ("12-13", None, None),
        ("1,2,3", None, None),
        ("n/a", None, None),
        ("", None, None),
    ],
)
def test_numbers_as_people_write_them(text, point, comma):
    assert (number_of(text, "."), number_of(text, ",")) == (point, comma)


def test_numeric_columns_hold_numbers_and_gaps_where_no_value_is_written():
    table = pd.DataFrame({"a": ["1,000", "2,500", "n/a"], "b": ["1,5", "2,25", "?"], "c": ["1 000", "2 000", "3"]})
    read = with_numbers(table, TableReading(numeric=["a", "b", "c"]))
    np.testing.assert_array_equal(read["a"], [1000, 2500, np.nan])
    np.testing.assert_array_equal(read["b"], [1.5, 2.25, np.nan])
    assert read["c"].tolist() == [1000, 2000, 3] and read["c"].dtype == np.int64
