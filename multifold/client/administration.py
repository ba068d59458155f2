"""Client methods that manage a service: collections, aliases, bundles, snapshots, jobs and metrics."""

import time
from pathlib import Path
from typing import Any

from multifold.client.transport import ServiceConnection, path_segment
from multifold.durable import replace_file
from multifold.errors import MultifoldError
from multifold.wire.administration import (
    AliasAnswer,
    AliasesAnswer,
    BundleReloadAnswer,
    BundlesAnswer,
    BundleStatus,
    CollectionsAnswer,
    CollectionStatus,
    JobAnswer,
    JobsAnswer,
    JobStatus,
    SnapshotAnswer,
    SnapshotFile,
    SnapshotsAnswer,
)


class AdminClient(ServiceConnection):
    """Manages a service. Most of it needs an admin key where there are keys."""

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
        return self._ask(CollectionStatus, "POST", "/v1/collections", json=body)

    def collections(self) -> tuple[CollectionStatus, ...]:
        """All collections, the main one first."""
        return self._ask(CollectionsAnswer, "GET", "/v1/collections").collections

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
        return self._ask(JobAnswer, "POST", path, json=_index_body(index, device, recall)).job

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
        """Write a collection again into another, with another bundle, and move an alias there in the end.

        `since` takes such a move back: only what was written after this version is carried.
        """
        body = {"to": to, "bundle": bundle, "alias": alias, "partial": partial, "since": since}
        return self._ask(JobAnswer, "POST", f"/v1/collections/{path_segment(name)}/rebuild", json=body).job

    def bundles(self) -> tuple[BundleStatus, ...]:
        """The bundles at hand, the service's own first."""
        return self._ask(BundlesAnswer, "GET", "/v1/bundles").bundles

    def reload_bundles(self) -> dict[str, str]:
        """Have the bundles in use read again, if they still make the same vectors; the bundle_id of each."""
        answer = self._ask(BundleReloadAnswer, "POST", "/v1/bundles/reload")
        return {one.name: one.bundle_id for one in answer.bundles}

    def drop_collection(self, name: str) -> None:
        """Remove a collection with all that it holds."""
        self._send("DELETE", f"/v1/collections/{path_segment(name)}")

    def aliases(self) -> dict[str, str]:
        """The collection of each alias."""
        return self._ask(AliasesAnswer, "GET", "/v1/aliases").aliases

    def set_alias(self, alias: str, collection: str) -> str | None:
        """Call a collection so from now on; gives the one that was called so before."""
        path = f"/v1/aliases/{path_segment(alias)}"
        return self._ask(AliasAnswer, "PUT", path, json={"collection": collection}).former

    def drop_alias(self, alias: str) -> None:
        """Call no collection so any more; `default` goes back to the main one."""
        self._send("DELETE", f"/v1/aliases/{path_segment(alias)}")

    def take_snapshot(self) -> SnapshotAnswer:
        """The whole collection in one file, at the service."""
        return self._ask(SnapshotAnswer, "POST", f"{self._at}/snapshots")

    def snapshots(self) -> tuple[SnapshotFile, ...]:
        """The snapshots that are at the service, oldest first."""
        return self._ask(SnapshotsAnswer, "GET", f"{self._at}/snapshots").snapshots

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
        return self._ask(JobsAnswer, "GET", "/v1/jobs").jobs

    def job(self, id: str) -> JobStatus:  # noqa: A002 (the service's word)
        """One job as it stands."""
        return self._ask(JobAnswer, "GET", f"/v1/jobs/{path_segment(id)}").job

    def wait(self, id: str, every: float = 0.5) -> JobStatus:  # noqa: A002 (the service's word)
        """The job once it has ended: done, failed or cancelled."""
        while not (job := self.job(id)).ended:
            time.sleep(every)
        return job

    def cancel(self, id: str) -> JobStatus:  # noqa: A002 (the service's word)
        """Ask a job to end."""
        return self._ask(JobAnswer, "POST", f"/v1/jobs/{path_segment(id)}/cancel").job

    def metrics(self) -> str:
        """The service's numbers, as Prometheus reads them."""
        return self._send("GET", "/metrics").text


def _index_body(kind: str | None, device: str, recall: float | None) -> dict[str, Any]:
    body = {"type": kind, "device": device, "recall": recall}
    return {name: value for name, value in body.items() if value is not None}
