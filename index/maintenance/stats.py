"""A collection in figures, read from its files without opening an index."""

import json
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from index.contracts import CollectionLocation
from index.engines import segments
from index.engines.saved_engines import CURRENT
from index.engines.segments import SegmentReport
from index.store.browse import count_observations
from index.store.item_rows import count_rows
from index.store.metadata import last_change
from index.store.schema import changes, items
from index.store.store import Store, open_blobs
from multifold.types import Kind


@dataclass(frozen=True)
class CollectionStats:
    """What there is, and what it takes on disk."""

    vector_id: str
    version: int
    items: int
    observations: Mapping[Kind, int]
    log: int
    plan: str
    bytes: Mapping[str, int]  # store, blobs, index
    reports: Mapping[str, list[SegmentReport]]  # of the last save, by index


def collect_stats(place: CollectionLocation) -> CollectionStats:
    blobs = place.folder / "blobs"
    pictures = open_blobs(place.folder, place.bucket).size() if place.bucket else _bytes(blobs)
    with closing(Store(place.items, None, read_only=True)) as store, store.moment() as now:
        plan = store.plan()
        return CollectionStats(
            vector_id=store.vector_id,
            version=last_change(now),
            items=count_rows(now, items),
            observations=count_observations(now),
            log=count_rows(now, changes),
            plan="default" if plan is None else str(plan),
            bytes={
                "store": store.size(),
                "blobs": pictures,
                **{name: _bytes(place.folder / name) for name in ("index", "texts")},
            },
            reports=_reports(place.folder / "index"),
        )


def _bytes(folder: Path) -> int:
    """What all files take, each once however often it is linked."""
    sizes: dict[int, int] = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # removed by the writer meanwhile
            status = path.stat()
            sizes[status.st_ino] = status.st_size if path.is_file() else 0
    return sum(sizes.values())


def _reports(folder: Path) -> dict[str, list[SegmentReport]]:
    """The reports of the sealed segments in the last save."""
    try:
        current = json.loads((folder / CURRENT).read_bytes())
        home = folder / current["folder"]
        sealed = {
            f"{side} {kind}": _header(home / f"{side}-{kind}").get("sealed", [])
            for side, kind in current["segments"]
        }
        return {
            name: [segments.report_from_json(_header(home / file)["report"]) for file in files]
            for name, files in sealed.items()
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # not saved, or being saved


def _header(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        return dict(json.loads(file.readline()))
