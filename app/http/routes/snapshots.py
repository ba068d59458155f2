"""/v1/snapshots: the whole collection as one file; multifold index restore reads it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse

from app.collections.service import CollectionService
from app.errors import ApiError
from app.http.dependencies import CollectionDep
from app.http.openapi import FILE, error_responses
from index.store.store import make_home
from multifold.wire.administration import SnapshotAnswer, SnapshotFile, SnapshotsAnswer

router = APIRouter(prefix="/snapshots", tags=["snapshots"])
Name = Annotated[str, InPath(pattern=r"^[0-9]{8}T[0-9]{12}Z\.tar$")]


@router.post("", responses=error_responses(422, 429, 503))
async def take_snapshot(service: CollectionDep) -> SnapshotAnswer:
    """Take a snapshot as things are now; writes go on meanwhile."""
    path = _folder(service) / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z.tar"
    await service.run(lambda: make_home(path.parent))
    report = await service.run(lambda: service.collection.snapshot(path))
    service.audit("snapshot", [path.name], 1)
    contents = report.contents
    return SnapshotAnswer(path.name, report.size, contents.version, contents.items, tuple(report.absent))


@router.get("")
async def list_snapshots(service: CollectionDep) -> SnapshotsAnswer:
    """The snapshots that are here."""
    return await service.run(lambda: _all(service))


@router.get("/{name}", **FILE)
async def download_snapshot(service: CollectionDep, name: Name) -> Response:
    """One snapshot, as a file."""
    return FileResponse(_there(service, name), media_type="application/octet-stream", filename=name)


@router.delete("/{name}", responses=error_responses(404, 422))
async def delete_snapshot(service: CollectionDep, name: Name) -> SnapshotsAnswer:
    """Remove a snapshot; gives those that stay."""
    path = _there(service, name)
    await service.run(lambda: path.unlink(missing_ok=True))
    service.audit("remove snapshot", [name], 1)
    return await service.run(lambda: _all(service))


def _folder(service: CollectionService) -> Path:
    return service.home / "snapshots"


def _all(service: CollectionService) -> SnapshotsAnswer:
    paths = sorted(_folder(service).glob("*.tar"))
    return SnapshotsAnswer(tuple(SnapshotFile(path.name, path.stat().st_size) for path in paths))


def _there(service: CollectionService, name: str) -> Path:
    path = _folder(service) / name
    if not path.is_file():
        raise ApiError(404, "not_found", f"there is no snapshot {name}")
    return path
