"""Which folders a collection was filled from: each has a short name, which stands in its items' payload.

The name, not the place, is what clients of the service see. It is written down before the first item is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multifold.durable import make_folder, write
from multifold.errors import MultifoldError

FILE = "sources.json"


class SourceError(MultifoldError):
    """The list of sources cannot be used."""


@dataclass(frozen=True)
class Source:
    """A folder that items come from."""

    name: str
    root: Path


def source_of(data: Path, folder: Path) -> Source:
    """The source that a folder belongs to: a known one that holds it, or a new one."""
    folder = folder.resolve()
    known = _read(data)
    holding = [Source(name, root) for name, root in known.items() if folder.is_relative_to(root)]
    if holding:
        return max(holding, key=lambda source: len(source.root.parts))
    plain = folder.name or "root"
    numbered = (f"{plain}-{number}" for number in range(2, len(known) + 3))
    return Source(next(name for name in (plain, *numbered) if name not in known), folder)


def remember(data: Path, source: Source) -> None:
    """Write a source down, so that it keeps its name."""
    known = _read(data)
    if known.get(source.name) == source.root:
        return
    make_folder(data)
    roots = {**{name: str(root) for name, root in known.items()}, source.name: str(source.root)}
    write(data / FILE, json.dumps(roots).encode())


def original(data: Path, payload: Mapping[str, Any]) -> tuple[Path, Path] | None:
    """The file that an item was made of, and the folder of its source; None if it is no file of a source."""
    root, path = _read(data).get(str(payload.get("source"))), payload.get("path")
    if root is None or not isinstance(path, str):
        return None
    found = (root / path).resolve()  # clients can change a payload
    return (found, root) if found.is_relative_to(root.resolve()) and found.is_file() else None


def _read(data: Path) -> dict[str, Path]:
    try:
        raw = json.loads((data / FILE).read_text(encoding="utf-8"))
        return {str(name): Path(root) for name, root in raw.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as error:
        raise SourceError(f"{data / FILE} is damaged ({error}); it holds the name of each folder.") from error
