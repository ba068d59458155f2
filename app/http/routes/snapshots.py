"""/v1/snapshots: the whole collection as one file, from which a new one is made."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from fastapi import Path as InPath
from fastapi import Query, Response
from fastapi.responses import FileResponse

from app.collections.service import CollectionService
from app.errors import ApiError
from app.http.dependencies import CollectionDep, CollectionsDep
from app.http.openapi import FILE, body_errors, error_responses
from app.http.routers import collection_router
from app.http.routes.jobs import serialize_job
from app.runtime.rebuild import RESTORE_JOB, snapshot_folder
from index.maintenance.snapshot import SnapshotReport
from index.store.store import make_home
from multifold.wire.administration import (
    JobAnswer,
    RestoreBody,
    SnapshotAnswer,
    SnapshotFile,
    SnapshotsAnswer,
)

router = collection_router(prefix="/snapshots", tags=["snapshots"])
OWN_NAME = r"[a-z0-9][a-z0-9_-]{0,39}"
Name = Annotated[str, InPath(pattern=rf"^([0-9]{{8}}T[0-9]{{12}}Z|{OWN_NAME})\.tar$")]
NewName = Annotated[
    str, Query(pattern=f"^{OWN_NAME}$", description="of the file, before .tar; else the time")
]


@router.post("", responses=error_responses(409, 422, 429, 503))
async def take_snapshot(service: CollectionDep, name: NewName | None = None) -> SnapshotAnswer:
    """Take a snapshot as things are now; writes go on meanwhile."""
    path = snapshot_folder(service) / f"{name or f'{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z'}.tar"
    if path.exists():
        raise ApiError(409, "taken", f"there is a snapshot {path.name} already; choose another name")

    def take() -> SnapshotReport:
        make_home(path.parent)
        return service.collection.snapshot(path)

    report = await service.run(take, finishes=True)
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


@router.post("/{name}/restore", status_code=202, responses=body_errors(404, 409))
async def restore_snapshot(
    collections: CollectionsDep, service: CollectionDep, name: Name, body: RestoreBody
) -> JobAnswer:
    """Make a new collection of a snapshot; a job does it, which checks all of the file first."""
    _there(service, name)
    collections.check_restore(body.to)
    service.audit(f"restore {name} as {body.to}", [], 1)
    spec = {"snapshot": name, "to": body.to}
    return JobAnswer(serialize_job(await collections.job_runner.add(RESTORE_JOB, service.name, spec)))


@router.delete("/{name}", responses=error_responses(404, 422))
async def delete_snapshot(service: CollectionDep, name: Name) -> SnapshotsAnswer:
    """Remove a snapshot; gives those that stay."""
    path = _there(service, name)
    await service.run(lambda: path.unlink(missing_ok=True), finishes=True)
    service.audit("remove snapshot", [name], 1)
    return await service.run(lambda: _all(service), admitted=True)


def _all(service: CollectionService) -> SnapshotsAnswer:
    paths = sorted(
        snapshot_folder(service).glob("*.tar"), key=lambda path: (path.stat().st_mtime_ns, path.name)
    )
    return SnapshotsAnswer(tuple(SnapshotFile(path.name, path.stat().st_size) for path in paths))


def _there(service: CollectionService, name: str) -> Path:
    path = snapshot_folder(service) / name
    if not path.is_file():
        raise ApiError(404, "not_found", f"there is no snapshot {name}")
    return path
