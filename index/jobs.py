"""The queue of long jobs, kept in the store so that it outlives its process.

What a job is to do is kept apart from how far it is: a specification may have megabytes, and only the worker
that takes the job reads it.

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
from index.store.schema import TableRow
from multifold.errors import MultifoldError, needs_extra
from multifold.types import JobState

with needs_extra("serve"):
    import sqlalchemy as sa

SILENT_SECONDS = 30.0  # seconds after which a worker is taken for dead
MAX_LOST_WORKERS = 3  # times that a job may lose its worker
GIVEN_UP = f"given up: {MAX_LOST_WORKERS} times the service ended while it was running"
ID = re.compile(r"[0-9a-f]{32}")
KEPT_JOBS = 200  # jobs that have ended
JOB_ERRORS = 100
LONGEST_ERROR = 1000  # characters

tables = sa.MetaData()
jobs = sa.Table(
    "jobs",
    tables,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("collection", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("worker", sa.String(32)),
    sa.Column("heard", sa.Double, nullable=False),  # when its worker was last heard of
    sa.Column("starts", sa.Integer, nullable=False),
    sa.Column("stop", sa.Integer, nullable=False),  # 1: it is to end
    sa.Column("progress", sa.Text, nullable=False),  # JSON, see Progress
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("ended", sa.Double),
)
specs = sa.Table(
    "job_specs",
    tables,
    sa.Column("job", sa.String(32), primary_key=True),
    sa.Column("spec", sa.Text, nullable=False),  # JSON: what is to be done; forgotten at the end
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
        if len(self.errors) < JOB_ERRORS:
            self.errors.append(sentence[:LONGEST_ERROR])
        self.result["errors"] = self.result.get("errors", 0) + 1


@dataclass(frozen=True)
class JobRecord:
    id: str
    kind: str
    collection: str
    state: JobState
    starts: int
    stop: bool
    progress: JobProgress
    created: float
    ended: float | None


@dataclass(frozen=True)
class TakenJob(JobRecord):
    """A job in the hands of its worker, with what it is to do."""

    spec: Mapping[str, Any]


class JobList:
    """The jobs of a service; without `writes` those that an earlier one has left."""

    def __init__(self, database: Database, *, writes: bool = True) -> None:
        self._database = database
        self._there = True  # whether its table is
        if not writes:
            with database.reading() as connection:
                self._there = sa.inspect(connection).has_table(jobs.name)
            return
        with database.writing() as connection:
            tables.create_all(connection)
            _move_specs(connection)

    def add(self, kind: str, collection: str, spec: Mapping[str, Any], total: int = 0) -> JobRecord:
        name = uuid4().hex
        row = {"id": name, "kind": kind, "collection": collection}
        new = {"state": "queued", "created": time.time(), "heard": 0.0, "starts": 0, "stop": 0}
        progress = json.dumps(vars(JobProgress(total=total)))
        with self._database.writing() as connection:
            connection.execute(sa.insert(jobs), {**row, **new, "progress": progress})
            connection.execute(sa.insert(specs), {"job": name, "spec": json.dumps(spec)})
            _forget_old(connection)
        return self.get(name)

    def get(self, id: str) -> JobRecord:  # noqa: A002 (what a job's name is called here)
        with self._database.reading() as connection:
            return _one(connection, id, there=self._there)

    def all(self) -> list[JobRecord]:
        if not self._there:
            return []
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(jobs).order_by(jobs.c.created.desc(), jobs.c.id)).mappings()
            return [_job(row) for row in rows]

    def cancel(self, id: str) -> JobRecord:  # noqa: A002
        """Ask for a job to end; one without a worker ends immediately."""
        with self._database.writing() as connection:
            job = _one(connection, id)
            if job.state == "queued":
                _end(connection, id, "cancelled")
            elif job.state == "running":
                _change(connection, id, stop=1)
            return _one(connection, id)

    def take(self, worker: str, *, alone: bool = False) -> TakenJob | None:
        """The next job, now this worker's. `alone`: all other workers are known to be gone."""
        silent = jobs.c.heard < (time.time() - SILENT_SECONDS if not alone else float("1e18"))
        lost = sa.and_(jobs.c.state == "running", sa.or_(jobs.c.worker == worker, silent))
        with self._database.writing() as connection:
            waiting = sa.select(jobs).where(sa.or_(jobs.c.state == "queued", lost))
            row = connection.execute(waiting.order_by(jobs.c.created).limit(1)).mappings().first()
            if row is None:
                return None
            job = _job(row)
            if job.starts >= MAX_LOST_WORKERS or job.stop:
                if not job.stop:
                    job.progress.error(GIVEN_UP)
                _end(connection, job.id, "cancelled" if job.stop else "failed", job.progress)
                return None
            heard = time.time()
            starts = job.starts + 1
            _change(connection, job.id, state="running", worker=worker, heard=heard, starts=starts)
            spec = connection.scalar(sa.select(specs.c.spec).where(specs.c.job == job.id))
            return TakenJob(**vars(_one(connection, job.id)), spec=json.loads(spec or "{}"))

    def tell(self, id: str, worker: str, progress: JobProgress) -> bool:  # noqa: A002
        """Note how far it is; False: stop, it is to end or another worker has taken it over."""
        own = sa.and_(jobs.c.id == id, jobs.c.worker == worker, jobs.c.state == "running")
        values = {"heard": time.time(), "progress": json.dumps(vars(progress))}
        with self._database.writing() as connection:
            changed = connection.execute(sa.update(jobs).where(own).values(**values)).rowcount
            return changed == 1 and not connection.scalar(sa.select(jobs.c.stop).where(jobs.c.id == id))

    def end(self, id: str, worker: str, state: JobState, progress: JobProgress) -> None:  # noqa: A002
        """It has ended; or it is `queued` again, as the service ends and it does not."""
        with self._database.writing() as connection:
            if connection.scalar(sa.select(jobs.c.worker).where(jobs.c.id == id)) != worker:
                return
            if state == "queued":
                _change(connection, id, state=state, starts=0, progress=json.dumps(vars(progress)))
            else:
                _end(connection, id, state, progress)


def _move_specs(connection: sa.Connection) -> None:
    """Move specifications to their own table, where an earlier version kept them beside the state."""
    if any(column["name"] == "spec" for column in sa.inspect(connection).get_columns(jobs.name)):
        former = sa.select(jobs.c.id, sa.literal_column("spec")).where(jobs.c.ended.is_(None))
        connection.execute(sa.insert(specs).from_select(["job", "spec"], former))
        connection.execute(sa.text("ALTER TABLE jobs DROP COLUMN spec"))


def _one(connection: sa.Connection, name: str, *, there: bool = True) -> JobRecord:
    valid = there and ID.fullmatch(name) is not None  # no database gets what cannot be an id
    row = connection.execute(sa.select(jobs).where(jobs.c.id == name)).mappings().first() if valid else None
    if row is None:
        raise NoSuchJobError(f"there is no job {name[:40]!r}")
    return _job(row)


def _job(row: TableRow) -> JobRecord:
    same = {name: row[name] for name in ("id", "kind", "collection", "state", "starts", "created", "ended")}
    progress = JobProgress(**json.loads(row["progress"]))
    return JobRecord(**same, stop=bool(row["stop"]), progress=progress)


def _end(connection: sa.Connection, name: str, state: JobState, progress: JobProgress | None = None) -> None:
    values = {} if progress is None else {"progress": json.dumps(vars(progress))}
    _change(connection, name, state=state, ended=time.time(), **values)
    connection.execute(sa.delete(specs).where(specs.c.job == name))


def _change(connection: sa.Connection, name: str, **values: object) -> None:
    connection.execute(sa.update(jobs).where(jobs.c.id == name).values(**values))


def _forget_old(connection: sa.Connection) -> None:
    ended = sa.select(jobs.c.id).where(jobs.c.ended.is_not(None)).order_by(jobs.c.ended.desc())
    old = list(connection.scalars(ended.offset(KEPT_JOBS).limit(KEPT_JOBS)))
    connection.execute(sa.delete(jobs).where(jobs.c.id.in_(old)))
