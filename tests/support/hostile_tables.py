"""Hostile tables, well-formed or nearly so: odd encodings, long lines, many rows in few bytes, nested types.

Each maker gets a `random.Random` and returns the content of a file; `TABLES` lists them by the name of their file.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import zipfile
from collections.abc import Callable
from typing import Any

from hostile_making import Chance, bad_bytes

HEADER = "age,income,job,owner,sex,race,grant"
ROW = "41,12.5,nurse,True,female,a,yes"
OTHER = "63,40.25,smith,False,male,b,no"


def _text(rows: int = 20) -> str:
    return "\n".join([HEADER, *[ROW, OTHER] * (rows // 2)]) + "\n"


# --- CSV ---


def encoded(chance: Chance) -> bytes:
    text = _text().replace("nurse", chance.choice(["Krankenpflegerin für Ältere", "看護師", "nurse", "é" * 300]))
    name = chance.choice(
        ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp1252", "utf-7", "cp037", "shift_jis"]
    )
    return text.encode(name, "replace")


def quoted(chance: Chance) -> bytes:
    cell = chance.choice(
        ['"', '""', '"""', '"nurse', 'nurse"', '"a\nb"', '"a""b"', "'nurse'", '"' * 999, '"a,b"', "\\"]
    )
    return _text().replace("nurse", cell, chance.choice([1, 3, -1])).encode()


def ended(chance: Chance) -> bytes:
    end = chance.choice(["\r", "\r\n", "\n\n", "\n\r", "\x0b", "\u2028", "\x1e", "", "\0", "\n\0", " \n", ",\n"])
    return _text().replace("\n", end).encode()


def separated(chance: Chance) -> bytes:
    return _text().replace(",", chance.choice([";", "\t", "|", " ", ":", ",,", "\x01", "\0", "·", ", "])).encode()


def long_line(chance: Chance) -> bytes:
    size = chance.choice([100_000, 2_000_000, 17 << 20, 40 << 20])
    way = chance.randrange(5)
    if way == 0:
        return _text().encode() + b"x" * size
    if way == 1:
        return _text().replace("nurse", '"' + "n" * size + '"', 1).encode()
    if way == 2:
        return (HEADER + "x" * size + "\n" + ROW + "\n").encode()
    if way == 3:
        return _text().encode() + b'"' + b"\n" * size
    return _text().replace("41", "4" * min(size, 2_000_000), 1).encode()


def wide(chance: Chance) -> bytes:
    columns = chance.choice([300, 9_999, 10_001, 60_000])
    names = [*HEADER.split(","), *(f"c{i}" for i in range(columns))]
    rows = [[*row.split(","), *["1"] * columns] for row in [ROW, OTHER] * 2]
    return "\n".join(",".join(row) for row in [names, *rows]).encode()


def headed(chance: Chance) -> bytes:
    """Odd headers, and tables with hardly anything."""
    head = chance.choice([
        "", " ", HEADER.replace("age", "sex"), HEADER.replace("job", ""), HEADER.upper(), HEADER + ",", "age",
        "\ufeff" + HEADER,
        ",".join(["sex"] * 7), HEADER.replace("income", "=cmd()"), HEADER.replace("race", "\x1b[31m"),
        HEADER.replace("age", "a" * 70_000),
        HEADER.replace("age", "nan"), HEADER.replace("age", "0"), HEADER.replace("age", "Unnamed: 0"),
        HEADER.replace("age", "age.1"),
    ])  # fmt: skip
    return "\n".join([head, *[ROW, OTHER] * chance.choice([0, 0, 1, 8])]).encode()


def numbered(chance: Chance) -> bytes:
    """Numbers as nobody writes them."""
    number = chance.choice([
        "1" * 400, "1" * 5_000, "1e400", "-1e400", "1e-400", "0x1F", "1_000", "١٢", "1,5", "1.5.2", "NaN", "-nan",
        "Infinity", "inf",
        "--1", "+1", "1e", "1d5", "2020-01-01", "12:30", "99999-01-01", "18446744073709551616", "-9223372036854775809",
        "0.1" + "0" * 900 + "1",
        "TRUE", "½", "1e308", "4.9e-324", "1 000", "$5", "12 %",
    ])  # fmt: skip
    lines = _text().replace("41", number, chance.choice([1, 5, -1]))
    return lines.replace("12.5", chance.choice(["12.5", number])).encode()


def many_categories(chance: Chance) -> bytes:
    rows = chance.choice([3_000, 40_000])
    column = chance.choice(["nurse", "female", "yes", "a,"])
    return "\n".join([HEADER, *(ROW.replace(column, f"{column[0]}{i}") for i in range(rows))]).encode()


def many_rows(chance: Chance) -> bytes:
    rows = chance.choice([120_000, 300_000])
    return (HEADER + "\n").encode() + (
        chance.choice([f"{ROW}\n{OTHER}\n", ",,,,,,\n", f"{ROW}\n" + "\n" * 5])
    ).encode() * (rows // 2)


def squeezed(chance: Chance) -> bytes:
    """A small file that is large when it is unpacked."""
    size = chance.choice([1 << 20, 100 << 20, 600 << 20])
    rows = (ROW + "\n").encode()
    filler = chance.choice([b"x", b"\n", b"\0", b",", rows])
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=1) as file:
        file.write(_text().encode())
        for _ in range(size >> 20):
            file.write(filler * ((1 << 20) // len(filler)))
    return packed.getvalue()


def packed_otherwise(chance: Chance) -> bytes:
    text = _text().encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name in chance.choice([["people.csv"], [], ["a.csv", "b.csv"], ["../people.csv"]]):
            file.writestr(name, text)
    found = [
        gzip.compress(text),
        gzip.compress(gzip.compress(text)),
        bz2.compress(text),
        lzma.compress(text),
        archive.getvalue(),
        text,
    ]
    content = chance.choice(found)
    return bad_bytes(content, chance, text) if chance.random() < 0.4 else content


# --- Parquet ---


def _parquet(columns: dict[str, Any], **options: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = io.BytesIO()
    pq.write_table(pa.table(columns), made, **options)
    return made.getvalue()


def _people(rows: int) -> dict[str, Any]:
    import pyarrow as pa

    first, second = ROW.split(","), OTHER.split(",")
    found = dict[str, Any]()
    for name, one, two in zip(HEADER.split(","), first, second, strict=True):
        values = [one, two] * (rows // 2)
        found[name] = (
            pa.array([float(v) for v in values]) if name in ("age", "income") else pa.array(values, pa.string())
        )
    return found


def nested(chance: Chance) -> bytes:
    import decimal

    import pyarrow as pa

    columns = _people(20)
    deep = pa.int64()
    for _ in range(chance.choice([30, 90, 200])):
        deep = pa.list_(deep) if chance.random() < 0.5 else pa.struct([("a", deep)])
    nasty = [
        pa.array([[1, 2]] * 20), pa.array([{"a": {"b": [1]}}] * 20), pa.nulls(20), pa.nulls(20, deep),
        pa.array([[("k", 1)]] * 20, pa.map_(pa.string(), pa.int64())), pa.array([decimal.Decimal("1e30")] * 20,
        pa.decimal256(60, 2)),
        pa.array([b"\xff\0"] * 20, pa.binary()), pa.array([b"1234"] * 20, pa.binary(4)), pa.array([2**64 - 1] * 20,
        pa.uint64()),
        pa.array([float("nan")] * 20, pa.float32()), pa.array([1] * 20, pa.float16()), pa.array([10**15] * 20,
        pa.timestamp("us", "UTC")),
        pa.array([2**62] * 20, pa.timestamp("ns")), pa.array([-(2**31) + 1] * 20, pa.date32()), pa.array([1] * 20,
        pa.time64("ns")),
        pa.array([5] * 20, pa.duration("s")), pa.array(["x" * 100_000] * 20, pa.large_string()), pa.array([1,
        None] * 10, pa.int8()),
        pa.array(["a", None] * 10).dictionary_encode(), pa.array([True, None] * 10), pa.array(["\0", "\x1b[2J"] * 10),
    ]  # fmt: skip
    for _ in range(chance.choice([1, 1, 3])):
        columns[chance.choice([*columns, "", "new"])] = chance.choice(nasty)
    return _parquet(columns)


def sized(chance: Chance) -> bytes:
    """No rows, no columns, many columns, or the same name twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    way = chance.randrange(5)
    if way == 0:
        return _parquet({name: column[:0] for name, column in _people(2).items()})
    if way == 1:
        return _parquet({})
    if way == 2:
        return _parquet(
            _people(20) | {f"c{i}": pa.array([1.0] * 20) for i in range(chance.choice([500, 10_001, 20_000]))}
        )
    people = _people(20)
    names = [*people, *chance.choice([["sex"], ["age", "age"], [""], ["grant"]])]
    made = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([*people.values(), *[people["sex"]] * (len(names) - 7)], names), made)
    return made.getvalue()


def crowded(chance: Chance) -> bytes:
    """Very many rows, or very long values, in few bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = chance.choice([2_000_000, 10_000_000, 100_000_000])
    made = io.BytesIO()
    names = HEADER.split(",") if rows < 3_000_000 else ["sex", "grant"]
    block = 1_000_000
    text = chance.choice(["female", "f" * 1_000, "f" * 100_000])
    if len(text) > 6:
        rows, block = 1_000_000, 1_000
    columns = {}
    for name in names:
        column = pa.array([name if name != "sex" else text] * 10).dictionary_encode()
        columns[name] = pa.DictionaryArray.from_arrays(pa.array([0] * block, pa.int8()), column.dictionary)
    table = pa.table(columns)
    with pq.ParquetWriter(made, table.schema, compression="zstd") as file:
        for _ in range(rows // block):
            file.write_table(table, row_group_size=block)
    return made.getvalue()


def mislabelled(chance: Chance) -> bytes:
    """What pandas wrote about the table is false."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    notes = chance.choice([
        b"{", b"[]", b"null", b'{"index_columns": ["gone"]}', b"\xff\xfe", b'{"columns": 5}', b"[" * 5_000,
        json.dumps({
            "index_columns": chance.choice([["sex"], [{"kind": "range", "start": 0, "stop": 10**18, "step": 1}],
            [None]]),
            "column_indexes": [{"name": None, "pandas_type": chance.choice(["unicode", "datetimetz", "x"]),
            "metadata": None}],
            "columns": [{"name": "sex", "field_name": "sex", "pandas_type": "categorical", "numpy_type": "object",
            "metadata": {"num_categories": 10**12}}],
        }).encode(),
    ])  # fmt: skip
    made = io.BytesIO()
    pq.write_table(pa.table(_people(20)).replace_schema_metadata({b"pandas": notes, b"ARROW:schema": b"x"}), made)
    return made.getvalue()


def bad_footer(chance: Chance) -> bytes:
    content = bytearray(_parquet(_people(20)))
    size = struct.unpack("<I", content[-8:-4])[0]
    way = chance.randrange(6)
    if way == 0:
        content[-8:-4] = struct.pack(
            "<I", chance.choice([0, 1, size - 1, size + 1, 2**31 - 1, 2**32 - 1, len(content)])
        )
    elif way == 1:
        content[-4:] = chance.choice([b"PARE", b"PAR2", b"\0\0\0\0", b""])
    elif way == 2:
        del content[chance.randrange(4, len(content) - size) : len(content) - size - 8]
    else:
        for _ in range(chance.choice([1, 1, 2, 8])):  # any byte of the description, or of the pages
            start = len(content) - 8 - size if chance.random() < 0.8 else 4
            content[start + chance.randrange(min(size, len(content) - 8 - start))] = chance.randrange(256)
    return bytes(content)


TABLES: dict[str, dict[str, Callable[[Chance], bytes]]] = {
    "people.csv": {
        "encoding": encoded, "quotes": quoted, "ends of lines": ended, "separators": separated,
        "a long line": long_line,
        "many columns": wide, "a header": headed, "numbers": numbered, "many categories": many_categories,
        "many rows": many_rows,
        "another packing": packed_otherwise,
    },
    "people.csv.gz": {"a bomb": squeezed, "packing": packed_otherwise},
    "people.parquet": {
        "nested types": nested, "size": sized, "many rows": crowded, "notes of pandas": mislabelled,
        "a footer": bad_footer,
    },
}  # fmt: skip
