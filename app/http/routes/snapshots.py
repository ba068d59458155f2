"""/v1/snapshots: the whole collection as one file; multifold index restore reads it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from app.errors import ApiError
from app.http.openapi import FILE_RESPONSE, error_responses
from app.runtime.runtime import CollectionRuntime, collection_runtime
from index.maintenance.snapshot import SnapshotReport
from multifold.durable import make_folder
from multifold.errors import needs_extra
from multifold.wire.administration import SnapshotAnswer, SnapshotFile, SnapshotsAnswer

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Response
    from fastapi import Path as InPath
    from fastapi.responses import FileResponse

router = APIRouter(prefix="/snapshots", tags=["snapshots"])
At = Annotated[CollectionRuntime, Depends(collection_runtime)]
Name = Annotated[str, InPath(pattern=r"^[0-9]{8}T[0-9]{12}Z\.tar$")]


@router.post("", responses=error_responses(422, 429, 503))
async def take(at: At) -> SnapshotAnswer:
    """Take a snapshot as things are now; writes go on meanwhile."""
    path = _folder(at) / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z.tar"

    def take_snapshot() -> SnapshotReport:
        make_folder(path.parent)
        return at.service.collection.snapshot(path)

    report = await at.run(take_snapshot)
    at.audit("snapshot", [path.name], 1)
    contents = report.contents
    return SnapshotAnswer(path.name, report.size, contents.version, contents.items, tuple(report.absent))


@router.get("")
async def snapshots(at: At) -> SnapshotsAnswer:
    """The snapshots that are here."""
    return await at.run(lambda: _all(at))


@router.get("/{name}", responses={**FILE_RESPONSE, **error_responses(404, 422)}, response_class=Response)
async def download(at: At, name: Name) -> Response:
    """One snapshot, as a file."""
    return FileResponse(_there(at, name), media_type="application/octet-stream", filename=name)


@router.delete("/{name}", responses=error_responses(404, 422))
async def remove(at: At, name: Name) -> SnapshotsAnswer:
    """Remove a snapshot; gives those that stay."""
    path = _there(at, name)
    await at.run(lambda: path.unlink(missing_ok=True))
    at.audit("remove snapshot", [name], 1)
    return await at.run(lambda: _all(at))


def _folder(at: CollectionRuntime) -> Path:
    return at.service.home / "snapshots"


def _all(at: CollectionRuntime) -> SnapshotsAnswer:
    paths = sorted(_folder(at).glob("*.tar"))
    return SnapshotsAnswer(tuple(SnapshotFile(path.name, path.stat().st_size) for path in paths))


def _there(at: CollectionRuntime, name: str) -> Path:
    path = _folder(at) / name
    if not path.is_file():
        raise ApiError(404, "not_found", f"there is no snapshot {name}")
    return path
