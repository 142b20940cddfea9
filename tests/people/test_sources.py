"""Tables in batches: which files, which rows, what one pass over them tells, whoever reads which part."""

import gzip
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.people import sources, survey
from bornfair.people.domain import Domain
from bornfair.people.reading import TableReading
from bornfair.people.sources import Source, is_streamed, shared_out
from bornfair.people.survey import Survey, from_bytes, merged, surveyed, to_bytes
from bornfair.people.tables import read_table, size_of
from samples import make_people


@pytest.fixture(scope="module")
def table():
    people = make_people(900, seed=3)
    people["grade"] = np.where(np.arange(900) % 7 == 0, np.nan, np.arange(900) % 4)
    people.loc[people.index % 11 == 0, "job"] = None
    return people


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    place = tmp_path_factory.mktemp("table")
    for kind in ("csv", "parquet"):
        (place / kind).mkdir()
        for number in range(3):
            part, name = table.iloc[300 * number : 300 * number + 300], place / kind / f"{number}.{kind}"
            part.to_csv(name, index=False) if kind == "csv" else part.to_parquet(name, row_group_size=200)
    (place / "csv" / "_SUCCESS").write_text("")
    return place


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(sources, "CELLS", 8 * 70)
    monkeypatch.setattr(sources, "LEAST_ROWS", 1)
    monkeypatch.setattr(survey, "SAMPLE_ROWS", (200, 200))


def look(source, parts=None, **options) -> Survey:
    return surveyed(source.batches(parts=parts), source, source.columns, listed=["grant", "sex"], seed=5, **options)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_batches_hold_every_row_once_and_in_order(kind, folder, table, small_batches):
    batches = list(Source.at(folder / kind).batches())
    assert len(batches) >= 12
    together = pd.concat([batch.table.astype(object) for batch in batches], ignore_index=True)
    assert (
        together["age"].tolist() == table["age"].tolist() and together["job"].isna().sum() == table["job"].isna().sum()
    )
    addresses = np.concatenate([batch.addresses for batch in batches])
    assert len(np.unique(addresses)) == 900 and (np.diff(addresses.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_parts_tell_together_what_the_whole_tells_and_a_sample_does_not_depend_on_the_readers(
    kind, folder, small_batches
):
    source = Source.at(str(folder / kind / f"*.{kind}"))
    whole = look(source, together=["sex", "owner"])
    halves = merged([look(source, shared_out(source.parts, i, 2), together=["sex", "owner"]) for i in range(2)])
    assert whole.rows == 900 and 100 < len(whole.sample) <= 200 and not whole.complete
    assert halves.addresses.tolist() == whole.addresses.tolist()
    for name, seen in whole.columns.items():
        assert (halves.columns[name].low, halves.columns[name].high) == (seen.low, seen.high)
        assert (halves.columns[name].gaps, halves.columns[name].values) == (seen.gaps, seen.values)
    assert set(halves.together) == set(whole.together) and len(whole.together) == 4
    again = from_bytes(to_bytes(whole))
    assert again.sample.astype(object).equals(whole.sample.astype(object))
    assert again.columns == whole.columns


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("sensitive", [["sex"], ["grade"], ["owner", "sex"]])
def test_the_domain_of_a_survey_is_the_domain_of_the_table(kind, sensitive, folder, table, small_batches):
    source = Source.at(folder / kind)
    combinations = "observed" if len(sensitive) > 1 else "all"
    gaps = sensitive != ["grade"]
    found = surveyed(
        source.batches(), source, source.columns, listed=["grant", *sensitive], seed=5,
        together=sensitive if combinations == "observed" else (),
    )  # fmt: skip
    shown = found.representative(sensitive=sensitive)
    asked = {"target": "grant", "sensitive": sensitive, "combinations": combinations, "gaps": gaps}
    assert len(shown) < 100
    assert Domain.infer(shown, **asked) == Domain.infer(table, **asked)


def test_object_stores_are_read_through_fsspec(table):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for number in range(2):
        with store.open(f"/people/{number}.parquet", "wb") as stream:
            table.iloc[number::2].to_parquet(stream)
        with store.open(f"/rows/{number}.csv", "w") as stream:
            table.iloc[number::2].to_csv(stream, index=False)
    for address in ("memory://people", "memory://people/*.parquet", "memory://rows/", "memory://rows/*.csv"):
        assert is_streamed(address)
        source = Source.at(address)
        assert sum(len(batch.table) for batch in source.batches(["age"])) == 900
        assert source.fingerprint() == Source.at(address).fingerprint()
    with pytest.raises(InputError, match="cannot read 'memory://nowhere'"):
        Source.at("memory://nowhere")
    with pytest.raises(InputError, match=r"cannot read 'nostore://x' .* check the address"):
        Source.at("nostore://x")


def test_what_is_read_in_batches(folder, monkeypatch):
    one = folder / "csv" / "0.csv"
    assert not is_streamed(one) and is_streamed(one, True) and is_streamed(folder) and not is_streamed(None)
    assert not is_streamed("no-such-file.csv") and not is_streamed(folder, False)
    monkeypatch.setattr(limits, "STREAMED_BYTES", 100)
    assert is_streamed(one)


def constant(path, rows, columns=1):
    """A Parquet file of a few kilobytes, whatever its number of rows."""
    names = [f"c{i}" for i in range(columns)]
    batch = pa.table(
        {name: pa.DictionaryArray.from_arrays(pa.array(bytes(2**16), pa.int8()), pa.array([1.0])) for name in names}
    )
    with pq.ParquetWriter(path, batch.schema, compression="zstd") as writer:
        for start in range(0, rows, 2**16):
            writer.write_table(batch.slice(0, min(2**16, rows - start)))
    return path


def test_rows_and_cells_of_a_small_file_decide_about_batches(tmp_path):
    long, wide = constant(tmp_path / "long.parquet", 1_000_001), constant(tmp_path / "wide.parquet", 600_000, 17)
    short = constant(tmp_path / "short.parquet", 500_000)
    assert all(path.stat().st_size < 200_000 for path in (long, wide, short))
    assert [is_streamed(path) for path in (long, wide, short)] == [True, True, False]
    assert not is_streamed(long, False)
    (tmp_path / "lines.csv").write_bytes(b"a,b\n" + b"1,2\n" * 1_000_001)
    (tmp_path / "cells.csv").write_bytes(b";".join([b"a"] * 101) + b"\n" + (b";" * 100 + b"\n") * 100_000)
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(b"a\n" + b"1\n" * 1_000_001))
    (tmp_path / "few.csv").write_bytes(b"a,b\n" + b"1,2\n" * 10_000)
    names = ("lines.csv", "cells.csv", "packed.csv.gz", "few.csv")
    assert [is_streamed(tmp_path / name) for name in names] == [True, True, True, False]


def test_a_table_that_is_too_large_to_be_read_as_a_whole_is_refused(tmp_path):
    path = constant(tmp_path / "long.parquet", 25_100_000)
    assert path.stat().st_size < 2_000_000
    with pytest.raises(InputError, match=r"has 25,100,000 rows and 1 columns .* at most 25,000,000 cells"):
        read_table(path)
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 13_000_000, 1))
    with pytest.raises(InputError, match=r"has at least 12,\d+,\d+ rows and 2 columns"):
        read_table(packed)


def test_texts_that_a_file_keeps_once_count_in_every_row(tmp_path, monkeypatch):
    path, rows = tmp_path / "texts.parquet", 20_000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 30_000]))
    pq.write_table(pa.table({"a": texts}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 50_000
    assert is_streamed(path)
    with pytest.raises(InputError, match=r"has 20,000 rows and 1 columns \(600,000,000 bytes\)"):
        read_table(path)
    monkeypatch.setattr(limits, "WHOLE_BYTES", 6_000_000)
    batches = [batch.table for batch, _ in zip(Source.at(path).batches(), range(3), strict=False)]
    assert [len(batch) for batch in batches] == [100, 100, 100]
    wide = pa.table({"a": pa.array(["one", None, "three"], pa.large_string())})
    pq.write_table(wide, tmp_path / "wide.parquet")
    assert (
        size_of(tmp_path / "wide.parquet").rows == len(next(Source.at(tmp_path / "wide.parquet").batches()).table) == 3
    )
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"a": ["one", "two", None] * 1_000}), plain)
    assert not is_streamed(plain) and read_table(plain)["a"].isna().sum() == 1_000


def test_a_table_of_too_many_columns_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "TABLE_COLUMNS", 50)
    names = [f"c{i}" for i in range(51)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    constant(tmp_path / "wide.parquet", 1, len(names))
    for name in ("wide.csv", "wide.parquet"):
        for read in (read_table, lambda path: Source.at(path).columns):
            with pytest.raises(InputError, match=r"has 51 columns; at most 50 are read"):
                read(tmp_path / name)


def test_a_batch_of_long_lines_has_fewer_rows_and_no_more_bytes_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "WHOLE_BYTES", 2**22)
    long = b"x" * 1_023 + b"\n"
    (tmp_path / "long.csv").write_bytes(b"a\n" + long * 10_000)
    sizes = [len(batch.table) for batch in Source.at(tmp_path / "long.csv").batches()]
    assert sum(sizes) == 10_000 and max(sizes) <= 2**21 // 1_000
    for packed in (False, True):
        path = tmp_path / ("later.csv.gz" if packed else "later.csv")
        content = b"a\n" + b"x\n" * 2**20 + long * 10_000
        path.write_bytes(gzip.compress(content, 1) if packed else content)
        with pytest.raises(InputError, match=r"rows of more than 4,194,304 bytes in one batch"):
            list(Source.at(path).batches())


def test_a_line_that_is_too_long_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "LINE_BYTES", 2**20)
    ends = {"header": b"a" * 2**21 + b"\n1\n", "row": b"a\n1\n" + b"1" * 2**21, "old": b"a\r1\r" + b"1" * 2**21 + b"\r"}
    for name, content in ends.items():
        (tmp_path / f"{name}.csv").write_bytes(content)
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(content))
        for path in (tmp_path / f"{name}.csv", tmp_path / f"{name}.csv.gz"):
            for read in (read_table, lambda path: list(Source.at(path).batches())):
                with pytest.raises(InputError, match=r"has a line of more than 1,048,576 bytes; a table has one row"):
                    read(path)
    (tmp_path / "good.csv").write_bytes(b"a\n" + b"12345678\n" * 2**18)
    assert len(read_table(tmp_path / "good.csv")) == 2**18


def test_tables_that_cannot_be_read_are_refused_in_a_sentence(folder, tmp_path, monkeypatch):
    def refused(*parts, **options):
        with pytest.raises(InputError) as error:
            source = Source.at(*parts)
            surveyed(source.batches(), source, source.columns, **options).representative()
        return str(error.value)

    assert "no file or folder 'nothing'" in refused("nothing")
    (tmp_path / "empty").mkdir()
    assert "no CSV or Parquet file" in refused(tmp_path / "empty")
    assert "both CSV and Parquet" in refused(folder)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x\n1\n")
    assert "b.csv' has no column 'y', which" in refused(tmp_path)
    (tmp_path / "b.csv").write_text("x,y\n1,inf\n")
    assert "column 'y' holds inf in a row from 0 on of" in refused(tmp_path)
    (tmp_path / "b.csv").write_bytes(b"x,y\n1,\xff\n")
    assert "not UTF-8 text" in refused(tmp_path)
    (tmp_path / "b.csv").write_text("x,y\n1,2,3\n")
    assert "more cells than its header has names" in refused(tmp_path)
    monkeypatch.setattr(survey, "SAMPLE_ROWS", (5, 5))
    (tmp_path / "b.csv").write_text("x,y\n" + "1,many\n" * 20)
    assert "column 'y' holds texts in some rows and numbers" in refused(tmp_path)
    assert "--decimal" in refused(tmp_path, TableReading(numeric=["y"]))
    monkeypatch.setattr(survey, "MOST_CATEGORIES", 9)
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"1,t{i}\n" for i in range(20)))
    assert "more than 9 different values" in refused(tmp_path)
    with pytest.raises(InputError, match="2 processes share a table of 1 part"):
        shared_out([sources.SourcePart(0)], 0, 2)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install 'bornfair[remote]'" in refused("s3://bucket/x")


def test_running_numbers_show_only_in_the_whole_table(tmp_path, small_batches):
    people = make_people(400, seed=1)
    people.insert(0, "counter", np.arange(1000, 1400))
    people.to_parquet(tmp_path / "people.parquet")
    source = Source.at(tmp_path)
    assert look(source).running_numbers() == ["counter"]


def test_categories_of_a_batch_are_its_own_in_the_order_of_the_rows(tmp_path):
    random = np.random.default_rng(0)
    few = random.choice(["b", "a", "é", ""], 3000).astype(object)
    few[random.random(3000) < 0.1] = None
    few[1024:2048] = "late"
    table = pd.DataFrame({"few": few, "many": [f"text {i % 1500}" for i in range(3000)], "none": [None] * 2999 + ["x"]})
    table["kept"] = table["few"].astype("category")
    table.to_parquet(tmp_path / "t.parquet", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "MOST_ROWS", 1024)
        read = [batch.table for batch in Source.at(tmp_path / "t.parquet").batches()]
    assert [len(one) for one in read] == [1024, 1024, 952]
    for start, one in zip((0, 1024, 2048), read, strict=True):
        for name in ("few", "many", "none"):
            cells = table[name].iloc[start : start + 1024]
            assert one[name].cat.categories.tolist() == cells.dropna().unique().tolist(), name
            assert one[name].astype(object).fillna("gap").tolist() == cells.fillna("gap").tolist()
        assert one["kept"].cat.categories.tolist() == table["kept"].cat.categories.tolist(), "as the file says"
