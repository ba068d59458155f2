"""The queue of long jobs, kept in the store so that it outlives its process.

A worker notes every few seconds that it runs a job. A job whose worker has fallen silent is taken up by
another one, from where it was; after a few such losses it is given up.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from index.store.database import Database
from index.store.item_rows import TableRow
from multifold.errors import MultifoldError, needs_extra
from multifold.types import JobState

with needs_extra("serve"):
    from sqlalchemy import (
        Column,
        Connection,
        Double,
        Integer,
        MetaData,
        String,
        Table,
        Text,
        and_,
        delete,
        insert,
        or_,
        select,
        update,
    )

SILENT_SECONDS = 30.0  # seconds after which a worker is taken for dead
MAX_LOST_WORKERS = 3  # times that a job may lose its worker
ID = re.compile(r"[0-9a-f]{32}")
KEPT_JOBS = 200  # jobs that have ended
MOST_ERRORS = 100

tables = MetaData()
jobs = Table(
    "jobs",
    tables,
    Column("id", String(32), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("collection", String(64), nullable=False),
    Column("spec", Text, nullable=False),  # JSON: what is to be done; forgotten at the end
    Column("state", String(16), nullable=False),
    Column("worker", String(32)),
    Column("heard", Double, nullable=False),  # when its worker was last heard of
    Column("starts", Integer, nullable=False),
    Column("stop", Integer, nullable=False),  # 1: it is to end
    Column("progress", Text, nullable=False),  # JSON, see Progress
    Column("created", Double, nullable=False),
    Column("ended", Double),
)


class NoSuchJobError(MultifoldError):
    """There is no job of that name."""


@dataclass
class JobProgress:
    """How far a job is. What it needs to go on from there is in `result` too."""

    done: int = 0
    total: int = 0
    errors: list[str] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)

    def error(self, sentence: str) -> None:
        """Note what went wrong; beyond some, only how often."""
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(sentence)
        self.result["errors"] = self.result.get("errors", 0) + 1


@dataclass(frozen=True)
class JobRecord:
    """One job as it stands."""

    id: str
    kind: str
    collection: str
    spec: Mapping[str, Any]
    state: JobState
    starts: int
    stop: bool
    progress: JobProgress
    created: float
    ended: float | None


class JobList:
    """The jobs of a service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.writing() as connection:
            tables.create_all(connection)

    def add(self, kind: str, collection: str, spec: Mapping[str, Any], total: int = 0) -> JobRecord:
        """Queue a job."""
        row = {
            "id": uuid4().hex,
            "kind": kind,
            "collection": collection,
            "spec": json.dumps(spec),
            "state": "queued",
            "heard": 0.0,
            "starts": 0,
            "stop": 0,
            "progress": json.dumps(vars(JobProgress(total=total))),
            "created": time.time(),
        }
        with self._database.writing() as connection:
            connection.execute(insert(jobs), row)
            _forget_old(connection)
        return self.get(str(row["id"]))

    def get(self, id: str) -> JobRecord:  # noqa: A002 (what a job's name is called here)
        """One job."""
        with self._database.reading() as connection:
            return _one(connection, id)

    def all(self) -> list[JobRecord]:
        """Every job, the youngest first."""
        with self._database.reading() as connection:
            rows = connection.execute(select(jobs).order_by(jobs.c.created.desc(), jobs.c.id)).mappings()
            return [_job(row) for row in rows]

    def cancel(self, id: str) -> JobRecord:  # noqa: A002
        """Ask for a job to end; one without a worker ends immediately."""
        with self._database.writing() as connection:
            job = _one(connection, id)
            if job.state == "queued":
                _end(connection, id, "cancelled")
            elif job.state == "running":
                connection.execute(update(jobs).where(jobs.c.id == id).values(stop=1))
            return _one(connection, id)

    def take(self, worker: str, *, alone: bool = False) -> JobRecord | None:
        """The next job, now this worker's. `alone`: all other workers are known to be gone."""
        silent = jobs.c.heard < (time.time() - SILENT_SECONDS if not alone else float("1e18"))
        lost = and_(jobs.c.state == "running", or_(jobs.c.worker == worker, silent))
        with self._database.writing() as connection:
            query = select(jobs).where(or_(jobs.c.state == "queued", lost)).order_by(jobs.c.created).limit(1)
            row = connection.execute(query).mappings().first()
            if row is None:
                return None
            job = _job(row)
            if job.starts >= MAX_LOST_WORKERS or job.stop:
                if not job.stop:
                    job.progress.error(
                        f"given up: {MAX_LOST_WORKERS} times the service ended while it was running"
                    )
                _end(connection, job.id, "cancelled" if job.stop else "failed", job.progress)
                return None
            claimed = {"state": "running", "worker": worker, "heard": time.time(), "starts": job.starts + 1}
            connection.execute(update(jobs).where(jobs.c.id == job.id).values(**claimed))
            return _one(connection, job.id)

    def tell(self, id: str, worker: str, progress: JobProgress) -> bool:  # noqa: A002
        """Note how far it is; False: stop, it is to end or another worker has taken it over."""
        own = and_(jobs.c.id == id, jobs.c.worker == worker, jobs.c.state == "running")
        values = {"heard": time.time(), "progress": json.dumps(vars(progress))}
        with self._database.writing() as connection:
            changed = connection.execute(update(jobs).where(own).values(**values)).rowcount
            return changed == 1 and not connection.scalar(select(jobs.c.stop).where(jobs.c.id == id))

    def end(self, id: str, worker: str, state: JobState, progress: JobProgress) -> None:  # noqa: A002
        """It has ended; or it is `queued` again, as the service ends and it does not."""
        with self._database.writing() as connection:
            if connection.scalar(select(jobs.c.worker).where(jobs.c.id == id)) != worker:
                return
            if state == "queued":
                values = {"state": state, "starts": 0, "progress": json.dumps(vars(progress))}
                connection.execute(update(jobs).where(jobs.c.id == id).values(**values))
            else:
                _end(connection, id, state, progress)


def _one(connection: Connection, name: str) -> JobRecord:
    valid = ID.fullmatch(name) is not None  # no database gets what cannot be an id
    row = connection.execute(select(jobs).where(jobs.c.id == name)).mappings().first() if valid else None
    if row is None:
        raise NoSuchJobError(f"there is no job {name[:40]!r}")
    return _job(row)


def _job(row: TableRow) -> JobRecord:
    same = {name: row[name] for name in ("id", "kind", "collection", "state", "starts", "created", "ended")}
    progress = JobProgress(**json.loads(row["progress"]))
    return JobRecord(**same, spec=json.loads(row["spec"]), stop=bool(row["stop"]), progress=progress)


def _end(connection: Connection, name: str, state: JobState, progress: JobProgress | None = None) -> None:
    values = {"state": state, "ended": time.time(), "spec": "{}"}
    if progress is not None:
        values["progress"] = json.dumps(vars(progress))
    connection.execute(update(jobs).where(jobs.c.id == name).values(**values))


def _forget_old(connection: Connection) -> None:
    ended = select(jobs.c.id).where(jobs.c.ended.is_not(None)).order_by(jobs.c.ended.desc()).offset(KEPT_JOBS)
    old = list(connection.scalars(ended.limit(KEPT_JOBS)))
    if old:
        connection.execute(delete(jobs).where(jobs.c.id.in_(old)))
