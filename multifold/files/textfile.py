"""Text files and tables in any common encoding, with or without a byte-order mark, any delimiter."""

import csv
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from multifold.errors import MultifoldError

DELIMITERS = ",\t;|"
CAPTION_COLUMNS = ("caption", "text", "description", "comment", "title")
FILE_NAME = re.compile(r"[^\s].*\.\w{1,5}")
LARGEST_FIELD = 1 << 20


class TextFileError(MultifoldError):
    """A text or table that cannot be used; says which and why."""


def read(path: Path) -> str:
    """A text file: as its mark says, as UTF-8, or else as Windows wrote it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TextFileError(f"there is no file {path}") from None
    except OSError as error:
        raise TextFileError(f"{path} cannot be read: {error.strerror}") from error
    return decode(data)


def decode(data: bytes) -> str:
    """The text in a file's bytes."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig" if data.startswith(BOM_UTF8) else "utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def lines(path: Path) -> list[str]:
    """The lines that are not blank."""
    return [line.strip() for line in read(path).splitlines() if line.strip()]


def table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a table with a header, by lower-case column names.

    After a file name, a caption in the last column may have delimiters of its own without being quoted.
    """
    text = read(path)
    header = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=header.count)
    csv.field_size_limit(LARGEST_FIELD)
    rows = csv.reader(text.replace("\0", "").splitlines(keepends=True), delimiter=delimiter)
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        for row in rows:
            kind = _kind_of_file(row[0]) if row else ""
            swallowing = row if kind else []
            if swallowed := next((cell for cell in swallowing if _holds_rows(cell, delimiter, kind)), None):
                opened = rows.line_num - len(swallowed.splitlines()) + 1
                raise TextFileError(f"{path}, line {opened}: a quote is opened, and not closed in its row")
            if any(cell.strip() for cell in row[len(names) :]):
                if not (names[-1] in CAPTION_COLUMNS and FILE_NAME.fullmatch(row[0].strip())):
                    where = f"{path}, line {rows.line_num}, has {len(row)} cells for {len(names)} columns"
                    raise TextFileError(f"{where}; a text with {delimiter!r} in it belongs into quotes")
                row[len(names) - 1 :] = [delimiter.join(row[len(names) - 1 :])]
            if any(cell.strip() for cell in row):
                yield dict(zip(names, (cell.strip() for cell in row), strict=False))
    except csv.Error as error:
        raise TextFileError(f"{path} is no table: {error}") from error


def _holds_rows(cell: str, delimiter: str, kind: str) -> bool:
    """Whether a cell goes on into lines that begin as its row does: a file of this kind and a delimiter.

    "wood.It, and its legs" is a sentence, and no file.
    """
    lines = cell.splitlines()[1:]
    return any(delimiter in line and _kind_of_file(line.partition(delimiter)[0]) == kind for line in lines)


def _kind_of_file(text: str) -> str:
    """The suffix of a file name; none, if it is none."""
    name = text.strip()
    return name.rpartition(".")[2].lower() if FILE_NAME.fullmatch(name) else ""


def column(row: Mapping[str, str], names: Sequence[str], path: Path) -> str:
    """The first of these columns that the table has."""
    for name in names:
        if name in row:
            return row[name]
    raise TextFileError(f"{path} has the columns {', '.join(row)}; one must be named {' or '.join(names)}")
