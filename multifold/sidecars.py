"""What is said of files in the files beside them: texts, JSON, tables of captions."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multifold import textfile
from multifold.errors import MultifoldError

TEXTS = (".txt", ".json")
TABLES = (".csv", ".tsv")
WHOLE = "captions"  # `captions.txt` speaks of all that lies in its folder
FILE = ("file", "filename", "file_name", "image", "path", "model", "mesh", "id", "name")
CAPTION = ("caption", "text", "description", "comment", "title")


class SideCarError(MultifoldError):
    """A file of captions that cannot be used; says why."""


@dataclass
class Said:
    """All that is said of one item."""

    texts: list[str] = field(default_factory=list)
    id: str | None = None
    split: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def add_file(self, path: Path) -> None:
        """A `.txt` with a caption a line, or a `.json`."""
        if path.suffix.lower() == ".txt":
            self.texts += textfile.lines(path)
            return
        try:
            said = json.loads(textfile.read(path))
        except (ValueError, RecursionError) as error:
            raise SideCarError(f"it is not JSON: {error}") from error
        self.add_json(said)

    def add_json(self, said: Any) -> None:  # noqa: ANN401 (any JSON)
        """A text, a list of texts, or an object that holds them."""
        said = said if isinstance(said, dict) else {"texts": said}
        given: Any = next((said[key] for key in ("texts", "captions", "caption", "text") if key in said), [])
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise SideCarError("texts must be a list of strings")
        if not isinstance(said.get("meta", {}), dict):
            raise SideCarError("'meta' must be an object")
        self.texts += [text.strip() for text in texts if text.strip()]
        self.id = str(said["id"]) if said.get("id") else self.id
        self.split = str(said["split"]) if said.get("split") else self.split
        self.meta |= said.get("meta", {})

    def add_row(self, row: "TableRow") -> None:
        """A caption of a table."""
        if row.caption:
            self.texts.append(row.caption)
            self.split = row.split or self.split


@dataclass(frozen=True)
class TableRow:
    """One row: the file as it is named there, where it would lie below the root, and what is said of it."""

    file: str
    places: tuple[str, ...]
    caption: str
    split: str | None


def rows(table: Path, root: Path) -> Iterator[TableRow]:
    """The rows of a table of captions; files lie beside it or below the root."""
    for row in textfile.table(table):
        file = textfile.column(row, FILE, table)
        caption = textfile.column(row, CAPTION, table)
        paths = [Path(os.path.normpath(base / file)) for base in (table.parent, root)]
        places = tuple(path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root))
        yield TableRow(file, places, caption, row.get("split") or None)


def of_folder(path: Path) -> bool:
    """Whether this file makes one item of its folder."""
    return path.stem.lower() == WHOLE and path.suffix.lower() in TEXTS
