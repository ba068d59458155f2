"""/v1/snapshots: the whole collection as one file; multifold index restore reads it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse

from app.errors import ApiError
from app.http.dependencies import CollectionDep
from app.http.openapi import FILE, error_responses
from app.runtime.runtime import CollectionRuntime
from index.store.store import make_home
from multifold.wire.administration import SnapshotAnswer, SnapshotFile, SnapshotsAnswer

router = APIRouter(prefix="/snapshots", tags=["snapshots"])
Name = Annotated[str, InPath(pattern=r"^[0-9]{8}T[0-9]{12}Z\.tar$")]


@router.post("", responses=error_responses(422, 429, 503))
async def take_snapshot(runtime: CollectionDep) -> SnapshotAnswer:
    """Take a snapshot as things are now; writes go on meanwhile."""
    path = _folder(runtime) / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z.tar"
    await runtime.run(lambda: make_home(path.parent))
    report = await runtime.run(lambda: runtime.service.collection.snapshot(path))
    runtime.audit("snapshot", [path.name], 1)
    contents = report.contents
    return SnapshotAnswer(path.name, report.size, contents.version, contents.items, tuple(report.absent))


@router.get("")
async def list_snapshots(runtime: CollectionDep) -> SnapshotsAnswer:
    """The snapshots that are here."""
    return await runtime.run(lambda: _all(runtime))


@router.get("/{name}", **FILE)
async def download_snapshot(runtime: CollectionDep, name: Name) -> Response:
    """One snapshot, as a file."""
    return FileResponse(_there(runtime, name), media_type="application/octet-stream", filename=name)


@router.delete("/{name}", responses=error_responses(404, 422))
async def delete_snapshot(runtime: CollectionDep, name: Name) -> SnapshotsAnswer:
    """Remove a snapshot; gives those that stay."""
    path = _there(runtime, name)
    await runtime.run(lambda: path.unlink(missing_ok=True))
    runtime.audit("remove snapshot", [name], 1)
    return await runtime.run(lambda: _all(runtime))


def _folder(runtime: CollectionRuntime) -> Path:
    return runtime.service.home / "snapshots"


def _all(runtime: CollectionRuntime) -> SnapshotsAnswer:
    paths = sorted(_folder(runtime).glob("*.tar"))
    return SnapshotsAnswer(tuple(SnapshotFile(path.name, path.stat().st_size) for path in paths))


def _there(runtime: CollectionRuntime, name: str) -> Path:
    path = _folder(runtime) / name
    if not path.is_file():
        raise ApiError(404, "not_found", f"there is no snapshot {name}")
    return path
