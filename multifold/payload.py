"""What stands in the payload of an item beside what its owner wrote.

The ingest of a folder notes where a file is. Machines write under keys of their own. These can be filtered
by, but no search reads their words, and an ingest keeps them.
"""

from collections.abc import Mapping
from typing import Any

PART_NAMES = "part_names"  # words of the names of a mesh's parts, which are searched
FILE_KEYS = frozenset({"source", "path", "folder", "format", "size", "content", PART_NAMES})
MACHINE_TAGS = "machine_tags"  # tags that a model proposed and a person accepted
MEASURED = "measured"  # facts of its mesh
MACHINE_KEYS = frozenset({MACHINE_TAGS, MEASURED})


def is_of_folder(payload: Mapping[str, Any]) -> bool:
    """Whether the ingest of a folder made it."""
    return payload.keys() >= {"source", "path", "content"}


def owner_part(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Without what machines wrote."""
    return {key: value for key, value in payload.items() if key not in MACHINE_KEYS}


def machine_part(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What machines wrote, alone."""
    return {key: value for key, value in payload.items() if key in MACHINE_KEYS}
