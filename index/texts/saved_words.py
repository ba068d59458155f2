"""An index of words on disk: one file for each of its arrays, read memory-mapped, and one that names them
all.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from index.texts.contracts import TextIndexError
from index.texts.word_arrays import SortedWords, WordSegment
from multifold.durable import make_folder, replace_file, write_file

FORMAT = 2
CONTENTS = "contents.json"
CHANGING = {"alive", "having", "sums"}  # what a removal writes to


def write_index(
    path: Path, languages: tuple[str, ...], words: SortedWords, segment: WordSegment | None
) -> None:
    """Write it durably, the file that names all others last."""
    make_folder(path)
    parts: Mapping[str, object] = {"vocabulary": words} | ({} if segment is None else {"segment": segment})
    sums = {}
    for part, owner in parts.items():
        for name, array in vars(owner).items():
            file = path / f"{part}-{name}.npy"
            with replace_file(file) as out:
                np.save(out, array)
            sums[file.name] = _sum(file)
    write_file(
        path / CONTENTS, json.dumps({"format": FORMAT, "languages": languages, "files": sums}).encode()
    )


def read_index(path: Path) -> tuple[tuple[str, ...], SortedWords, list[WordSegment]]:
    """Languages, words and segments that were written; anything else is a TextIndexError."""
    try:
        contents = json.loads((path / CONTENTS).read_bytes())
        files: dict[str, str] = contents["files"]
        if contents["format"] != FORMAT or any(_sum(path / name) != told for name, told in files.items()):
            raise TextIndexError(f"{path} is damaged or of another version: delete it and it is built again")
        arrays = {
            name.removesuffix(".npy"): np.asarray(np.load(path / name, mmap_mode="r")) for name in files
        }
        of_parts: dict[str, dict[str, np.ndarray]] = {"vocabulary": {}, "segment": {}}
        for name, array in arrays.items():
            part, _, column = name.partition("-")
            of_parts[part][column] = array.copy() if column in CHANGING else array
        segments = [WordSegment(**of_parts["segment"])] if of_parts["segment"] else []
        return tuple(contents["languages"]), SortedWords(**of_parts["vocabulary"]), segments
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TextIndexError(
            f"{path} is no index of words ({error}): delete it and it is built again"
        ) from error


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
