"""Client methods that manage a service: collections, aliases, bundles, snapshots, jobs and metrics."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multifold.client.transport import ServiceConnection, path_segment
from multifold.durable import replace_file
from multifold.errors import MultifoldError
from multifold.types import Kind

Raw = Mapping[str, Any]


@dataclass(frozen=True)
class CollectionStatus:
    """A collection; without counts where it is not served, for the `trouble` that is told."""

    name: str
    aliases: tuple[str, ...]
    vector_id: str
    bundle: str | None
    items: int | None
    observations: Mapping[Kind, int] | None
    version: int | None
    trouble: str | None


@dataclass(frozen=True)
class SnapshotFile:
    """A file that holds a whole collection as it was."""

    name: str
    bytes: int


@dataclass(frozen=True)
class JobStatus:
    """Long work at the service: how far it is, and what went wrong."""

    id: str
    kind: str
    collection: str
    state: str
    done: int
    total: int
    errors: tuple[str, ...]
    result: Raw

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in ("done", "failed", "cancelled")


class AdminClient(ServiceConnection):
    """Looks after a service. Most of it needs an admin key where there are keys."""

    def create_collection(
        self,
        name: str,
        *,
        bundle: str | None = None,
        index: str | None = None,
        device: str = "auto",
        recall: float | None = None,
    ) -> CollectionStatus:
        """Make an empty collection. Without `index` and `recall` it chooses its index itself."""
        body: dict[str, Any] = {"name": name, "bundle": bundle}
        if index is not None or recall is not None:
            body["index"] = _index_body(index, device, recall)
        return self._ask(_parse_collection, "POST", "/v1/collections", json=body)

    def collections(self) -> tuple[CollectionStatus, ...]:
        """All collections, the main one first."""
        return self._ask(
            lambda raw: tuple(map(_parse_collection, raw["collections"])), "GET", "/v1/collections"
        )

    def reindex(
        self,
        name: str,
        *,
        index: str | None = None,
        device: str = "auto",
        recall: float | None = None,
    ) -> JobStatus:
        """Build another index of a collection; nothing is encoded again, and searches go on meanwhile."""
        path = f"/v1/collections/{path_segment(name)}/reindex"
        return self._ask(parse_job_answer, "POST", path, json=_index_body(index, device, recall))

    def rebuild(
        self,
        name: str,
        to: str,
        *,
        bundle: str | None = None,
        alias: str | None = None,
        partial: bool = False,
        since: int | None = None,
    ) -> JobStatus:
        """Make a collection anew in another, with another bundle, and move an alias there in the end.

        `since` takes such a move back: only what was written after this version is carried.
        """
        body = {"to": to, "bundle": bundle, "alias": alias, "partial": partial, "since": since}
        return self._ask(parse_job_answer, "POST", f"/v1/collections/{path_segment(name)}/rebuild", json=body)

    def bundles(self) -> tuple[Raw, ...]:
        """The bundles at hand, the service's own first."""
        return self._ask(lambda raw: tuple(raw["bundles"]), "GET", "/v1/bundles")

    def reload_bundles(self) -> dict[str, str]:
        """Have the bundles at work read anew, if they still make the same vectors; the bundle_id of each."""
        told = "POST", "/v1/bundles/reload"
        return self._ask(lambda raw: {one["name"]: one["bundle_id"] for one in raw["bundles"]}, *told)

    def drop_collection(self, name: str) -> None:
        """Remove a collection with all that it holds."""
        self._send("DELETE", f"/v1/collections/{path_segment(name)}")

    def aliases(self) -> dict[str, str]:
        """The collection of each alias."""
        return self._ask(lambda raw: dict(raw["aliases"]), "GET", "/v1/aliases")

    def set_alias(self, alias: str, collection: str) -> str | None:
        """Call a collection so from now on; gives the one that was called so before."""
        path = f"/v1/aliases/{path_segment(alias)}"
        former: str | None = self._ask(
            lambda raw: raw["former"], "PUT", path, json={"collection": collection}
        )
        return former

    def drop_alias(self, alias: str) -> None:
        """Call no collection so any more; `default` goes back to the main one."""
        self._send("DELETE", f"/v1/aliases/{path_segment(alias)}")

    def take_snapshot(self) -> SnapshotFile:
        """The whole collection in one file, at the service."""
        return self._ask(_parse_snapshot, "POST", f"{self._at}/snapshots")

    def snapshots(self) -> tuple[SnapshotFile, ...]:
        """The snapshots that are at the service, oldest first."""
        return self._ask(
            lambda raw: tuple(map(_parse_snapshot, raw["snapshots"])), "GET", f"{self._at}/snapshots"
        )

    def fetch_snapshot(self, name: str, path: Path | str) -> Path:
        """Write a snapshot into a new file here; `multifold index restore` makes a collection of it."""
        path = Path(path)
        if path.exists():
            raise MultifoldError(f"{path} is there already: choose another name, or remove it.")
        try:
            with replace_file(path) as out:
                for piece in self._stream(f"{self._at}/snapshots/{path_segment(name)}"):
                    out.write(piece)
        except OSError as error:
            raise MultifoldError(f"{path} cannot be written: {error.strerror or error}.") from error
        return path

    def remove_snapshot(self, name: str) -> None:
        """Remove a snapshot at the service."""
        self._send("DELETE", f"{self._at}/snapshots/{path_segment(name)}")

    def jobs(self) -> tuple[JobStatus, ...]:
        """All jobs that the service knows, the youngest first."""
        return self._ask(lambda raw: tuple(map(_parse_job, raw["jobs"])), "GET", "/v1/jobs")

    def job(self, id: str) -> JobStatus:  # noqa: A002 (the service's word)
        """One job as it stands."""
        return self._ask(parse_job_answer, "GET", f"/v1/jobs/{path_segment(id)}")

    def wait(self, id: str, every: float = 0.5) -> JobStatus:  # noqa: A002 (the service's word)
        """The job once it has ended, whichever way."""
        while not (found := self.job(id)).ended:
            time.sleep(every)
        return found

    def cancel(self, id: str) -> JobStatus:  # noqa: A002 (the service's word)
        """Ask a job to end."""
        return self._ask(parse_job_answer, "POST", f"/v1/jobs/{path_segment(id)}/cancel")

    def metrics(self) -> str:
        """The service's numbers, as Prometheus reads them."""
        return self._send("GET", "/metrics").text


def _index_body(kind: str | None, device: str, recall: float | None) -> dict[str, Any]:
    asked = {"type": kind, "device": device, "recall": recall}
    return {key: value for key, value in asked.items() if value is not None}


def _parse_collection(raw: Raw) -> CollectionStatus:
    return CollectionStatus(
        raw["name"],
        tuple(raw["aliases"]),
        raw["vector_id"],
        raw["bundle"],
        raw["items"],
        raw["observations"],
        raw["version"],
        raw["trouble"],
    )


def parse_job_answer(raw: Raw) -> JobStatus:
    """The job of an answer."""
    return _parse_job(raw["job"])


def _parse_job(raw: Raw) -> JobStatus:
    state, errors = raw["state"], tuple(raw["errors"])
    return JobStatus(
        raw["id"], raw["kind"], raw["collection"], state, raw["done"], raw["total"], errors, raw["result"]
    )


def _parse_snapshot(raw: Raw) -> SnapshotFile:
    return SnapshotFile(raw["name"], raw["bytes"])
