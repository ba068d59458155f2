"""A collection in figures, read from its files without opening an index."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from index.engines import segments
from index.engines.saved_engines import CURRENT
from index.engines.segments import SegmentReport
from index.store.browse import count_observations
from index.store.metadata import last_change
from index.store.schema import changes, items
from index.store.store import Store
from multifold.errors import needs_extra
from multifold.types import Kind

with needs_extra("serve"):
    from sqlalchemy import func, select


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


def collect_stats(folder: Path) -> CollectionStats:
    """The figures of one moment."""
    store = Store(folder / "store.sqlite", None, read_only=True)
    try:
        with store.moment() as now:
            plan = store.plan()
            counts = [now.scalar(select(func.count()).select_from(table)) or 0 for table in (items, changes)]
            return CollectionStats(
                store.vector_id,
                last_change(now),
                counts[0],
                count_observations(now),
                counts[1],
                "default" if plan is None else f"{plan.type}, recall {plan.recall}",
                _bytes(folder),
                _reports(folder / "index"),
            )
    finally:
        store.close()


def _bytes(folder: Path) -> dict[str, int]:
    kinds = {"store": folder.glob("store.sqlite*")}
    kinds |= {name: (folder / name).rglob("*") for name in ("blobs", "index")}
    return {
        kind: sum({status.st_ino: status.st_size for path in paths if (status := _stat(path))}.values())
        for kind, paths in kinds.items()
    }


def _stat(path: Path) -> Any:  # noqa: ANN401 (os.stat_result, or None)
    try:
        return path.stat() if path.is_file() else None
    except FileNotFoundError:
        return None  # removed by the writer meanwhile


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
