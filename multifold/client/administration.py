"""Client methods that manage a service: collections, aliases, bundles, snapshots, jobs and metrics."""

import time
from pathlib import Path
from typing import Any

from multifold.client.request_models import given
from multifold.client.transport import ServiceConnection, path_segment
from multifold.durable import replace_file
from multifold.errors import MultifoldError
from multifold.wire import administration as wire

LONGEST_WAIT = 3600.0  # seconds, unless another limit is given


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
    ) -> wire.CollectionStatus:
        """Make an empty collection. Without `index` and `recall` it chooses its index itself."""
        body: dict[str, Any] = {"name": name, "bundle": bundle}
        if index is not None or recall is not None:
            body["index"] = given(type=index, device=device, recall=recall)
        return self._ask(wire.CollectionStatus, "POST", "/v1/collections", json=body)

    def collections(self) -> tuple[wire.CollectionStatus, ...]:
        """All collections, the main one first."""
        return self._ask(wire.CollectionsAnswer, "GET", "/v1/collections").collections

    def reindex(
        self, name: str, *, index: str | None = None, device: str = "auto", recall: float | None = None
    ) -> wire.JobStatus:
        """Build another index of a collection; nothing is encoded again, and searches go on meanwhile."""
        path = f"/v1/collections/{path_segment(name)}/reindex"
        body = given(type=index, device=device, recall=recall)
        return self._ask(wire.JobAnswer, "POST", path, json=body).job

    def rebuild(
        self,
        name: str,
        to: str,
        *,
        bundle: str | None = None,
        alias: str | None = None,
        partial: bool = False,
        since: int | None = None,
    ) -> wire.JobStatus:
        """Write a collection again into another, with another bundle, and move an alias there in the end.

        `since` takes such a move back: only what was written after this version is carried.
        """
        body = {"to": to, "bundle": bundle, "alias": alias, "partial": partial, "since": since}
        path = f"/v1/collections/{path_segment(name)}/rebuild"
        return self._ask(wire.JobAnswer, "POST", path, json=body).job

    def bundles(self) -> tuple[wire.BundleStatus, ...]:
        """The bundles at hand, the service's own first."""
        return self._ask(wire.BundlesAnswer, "GET", "/v1/bundles").bundles

    def reload_bundles(self) -> dict[str, str]:
        """Have the bundles in use read again, if they still make the same vectors; the bundle_id of each."""
        answer = self._ask(wire.BundleReloadAnswer, "POST", "/v1/bundles/reload")
        return {one.name: one.bundle_id for one in answer.bundles}

    def drop_collection(self, name: str) -> None:
        """Remove a collection with all that it holds."""
        self._send("DELETE", f"/v1/collections/{path_segment(name)}")

    def aliases(self) -> dict[str, str]:
        """The collection of each alias."""
        return self._ask(wire.AliasesAnswer, "GET", "/v1/aliases").aliases

    def set_alias(self, alias: str, collection: str) -> str | None:
        """Call a collection so from now on; gives the one that was called so before."""
        path = f"/v1/aliases/{path_segment(alias)}"
        return self._ask(wire.AliasAnswer, "PUT", path, json={"collection": collection}).former

    def drop_alias(self, alias: str) -> None:
        """Call no collection so any more; `default` goes back to the main one."""
        self._send("DELETE", f"/v1/aliases/{path_segment(alias)}")

    def take_snapshot(self) -> wire.SnapshotAnswer:
        """The whole collection in one file, at the service."""
        return self._ask(wire.SnapshotAnswer, "POST", f"{self._at}/snapshots")

    def snapshots(self) -> tuple[wire.SnapshotFile, ...]:
        """The snapshots that are at the service, oldest first."""
        return self._ask(wire.SnapshotsAnswer, "GET", f"{self._at}/snapshots").snapshots

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

    def jobs(self) -> tuple[wire.JobStatus, ...]:
        """All jobs that the service knows, the youngest first."""
        return self._ask(wire.JobsAnswer, "GET", "/v1/jobs").jobs

    def job(self, id: str) -> wire.JobStatus:
        """One job as it stands."""
        return self._ask(wire.JobAnswer, "GET", f"/v1/jobs/{path_segment(id)}").job

    def wait(self, id: str, every: float = 0.5, limit: float = LONGEST_WAIT) -> wire.JobStatus:
        """The job once it has ended: done, failed or cancelled; `limit`: seconds after which to give up."""
        end = time.monotonic() + limit
        while not (job := self.job(id)).ended:
            if time.monotonic() > end:
                far = f"{job.done} of {job.total} done" if job.total else f"{job.done} done"
                sentence = f"The {job.kind} {id} of {job.collection} is {job.state} after {limit:g} s, {far}"
                raise MultifoldError(f"{sentence}. It goes on: wait again, or cancel it.")
            time.sleep(every)
        return job

    def cancel(self, id: str) -> wire.JobStatus:
        """Ask a job to end."""
        return self._ask(wire.JobAnswer, "POST", f"/v1/jobs/{path_segment(id)}/cancel").job

    def folder(self) -> wire.FolderAnswer:
        """The folder that the service follows into this collection, and what was left out of it."""
        return self._ask(wire.FolderAnswer, "GET", f"{self._at}/folder")

    def metrics(self) -> str:
        """The service's numbers, as Prometheus reads them."""
        return self._send("GET", "/metrics").text
