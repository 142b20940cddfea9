"""Options for reading the file of a table, where the file itself does not show them or shows them wrongly.

This module imports nothing heavy, because `bornfair --help` reads it.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field

from bornfair.core.errors import InputError

NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True, kw_only=True)
class TableReading:
    """What is said about a file; None means: as the file shows.

    encoding: UTF-8 unless the file begins with a byte order mark.
    delimiter: of the usual ones the one the header line holds most often.
    decimal: the sign before the fractional part, '.' or ','.
    numeric: columns of texts that are numbers, as '1,234', '12 %' or 'EUR 5'.
    """

    encoding: str | None = field(
        default=None,
        metadata={"kind": str | None, "help": "How a CSV file is encoded, as latin-1 or cp1252; utf-8 by default."},
    )
    delimiter: str | None = field(
        default=None, metadata={"kind": str | None, "help": "What separates the cells of a CSV file, as ';' or tab."}
    )
    decimal: str | None = field(
        default=None, metadata={"kind": str | None, "help": "The decimal sign of a CSV file: '.' or ','."}
    )
    numeric: Sequence[str] | None = field(
        default=None,
        metadata={
            "kind": list[str] | None,
            "help": "A column that holds numbers, also where written as 1,234 or 12 %; repeat for several.",
        },
    )

    def __post_init__(self) -> None:
        if self.encoding is not None and not _is_text_encoding(self.encoding):
            raise InputError(
                f"--encoding {self.encoding!r} is not known; name one such as utf-8, latin-1, cp1252 or utf-16."
            )
        if self.decimal not in (None, ".", ","):
            raise InputError(f"--decimal must be '.' or ',', found {self.decimal!r}.")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", NAMED_DELIMITERS.get(self.delimiter, self.delimiter))
            if len(self.delimiter) != 1 or self.delimiter in '"\r\n\0' or self.delimiter.isalnum():
                raise InputError(
                    f"--delimiter must be one sign such as ';' or '|', or the word tab, found {self.delimiter!r}."
                )


AS_SHOWN = TableReading()


def _is_text_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
        return isinstance("a".encode(name), bytes) and name.lower() not in ("idna", "punycode", "undefined")
    except (LookupError, ValueError, TypeError):  # unknown, not of texts, or no name at all
        return False
