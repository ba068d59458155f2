"""The folders that a collection was filled from, each with a short name.

The name, not the place, stands in the payload of items, where clients see it. It is written down before the
first item is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multifold.durable import make_folder, write_file
from multifold.errors import MultifoldError

SOURCES_FILE = "sources.json"


class SourceListError(MultifoldError):
    """The list of sources cannot be used."""


@dataclass(frozen=True)
class SourceFolder:
    """A folder that items come from."""

    name: str
    root: Path


def find_source(data: Path, folder: Path) -> SourceFolder:
    """The source that a folder belongs to: a known one that holds it, or a new one."""
    folder = folder.resolve()
    known = _read_sources(data)
    holding = [SourceFolder(name, root) for name, root in known.items() if folder.is_relative_to(root)]
    if holding:
        return max(holding, key=lambda source: len(source.root.parts))
    plain = folder.name or "root"
    numbered = (f"{plain}-{number}" for number in range(2, len(known) + 3))
    return SourceFolder(next(name for name in (plain, *numbered) if name not in known), folder)


def record_source(data: Path, source: SourceFolder) -> None:
    """Write a source down, so that it keeps its name."""
    known = _read_sources(data)
    if known.get(source.name) == source.root:
        return
    make_folder(data)
    roots = {**{name: str(root) for name, root in known.items()}, source.name: str(source.root)}
    write_file(data / SOURCES_FILE, json.dumps(roots).encode())


def find_original(data: Path, payload: Mapping[str, Any]) -> tuple[Path, Path] | None:
    """The file that an item was made of, and the folder of its source; None if it is no file of a source."""
    root, path = _read_sources(data).get(str(payload.get("source"))), payload.get("path")
    if root is None or not isinstance(path, str):
        return None
    found = (root / path).resolve()  # clients can change a payload
    return (found, root) if found.is_relative_to(root.resolve()) and found.is_file() else None


def _read_sources(data: Path) -> dict[str, Path]:
    try:
        raw = json.loads((data / SOURCES_FILE).read_text(encoding="utf-8"))
        return {str(name): Path(root) for name, root in raw.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as error:
        raise SourceListError(
            f"{data / SOURCES_FILE} is damaged ({error}); it holds the name of each folder."
        ) from error
