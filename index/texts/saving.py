"""A text index on disk: one file for each of its arrays, read memory-mapped, and one that names them all."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from index.texts.contracts import TextIndexError
from multifold.bundle.bundle import file_hash
from multifold.durable import make_folder, replace_file, write_file

FORMAT = 4
CONTENTS = "contents.json"


Groups: TypeAlias = Mapping[str, Mapping[str, np.ndarray]]


def write_arrays(path: Path, groups: Groups, about: Mapping[str, object]) -> None:
    """Write groups of arrays durably into a folder that is made, the file that names all others last."""
    make_folder(path)
    sums = {}
    for group, arrays in groups.items():
        for name, values in arrays.items():
            file = path / f"{group}-{name}.npy"
            with replace_file(file) as out:
                np.save(out, values)
            sums[file.name] = file_hash(file)
    write_file(path / CONTENTS, json.dumps({"format": FORMAT, "about": about, "files": sums}).encode())


def read_arrays(path: Path) -> tuple[Groups, dict[str, Any]]:
    """What was written; anything else is a TextIndexError."""
    try:
        contents = json.loads((path / CONTENTS).read_bytes())
        files: dict[str, str] = contents["files"]
        if contents["format"] != FORMAT or any(
            file_hash(path / name) != told for name, told in files.items()
        ):
            raise TextIndexError(f"{path} is damaged or of another version: delete it and it is built again")
        groups = defaultdict[str, dict[str, np.ndarray]](dict)
        for file in files:
            group, _, name = file.removesuffix(".npy").partition("-")
            groups[group][name] = np.asarray(np.load(path / file, mmap_mode="r"))
        return groups, dict(contents["about"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TextIndexError(
            f"{path} is no index of texts ({error}): delete it and it is built again"
        ) from error
