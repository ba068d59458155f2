"""What manages a service: collections, aliases, bundles, snapshots, jobs and metrics."""

from typing import Any

from multifold.client.calls import Call, CollectionAddress, ask, path_segment
from multifold.client.request_models import given
from multifold.client.transport import ServiceMethod
from multifold.wire import administration as wire


class AdminMethods(CollectionAddress):
    """Manages a service. Most of it needs an admin key where there are keys."""

    @ServiceMethod
    def create_collection(
        self,
        name: str,
        *,
        bundle: str | None = None,
        index: str | None = None,
        device: str = "auto",
        recall: float | None = None,
        memory: str | None = None,
        stored: str | None = None,
    ) -> Call[wire.CollectionStatus]:
        """Make an empty collection. Without `index`, `recall`, `memory` and `stored` it chooses its index."""
        body: dict[str, Any] = {"name": name, "bundle": bundle}
        if any(one is not None for one in (index, recall, memory, stored)):
            body["index"] = given(type=index, device=device, recall=recall, memory=memory, stored=stored)
        return ask(wire.CollectionStatus, "POST", "/v1/collections", json=body)

    @ServiceMethod
    def collections(self) -> Call[tuple[wire.CollectionStatus, ...]]:
        """All collections, the main one first."""
        return ask(wire.CollectionsAnswer, "GET", "/v1/collections").then(lambda answer: answer.collections)

    @ServiceMethod
    def reindex(
        self,
        name: str,
        *,
        index: str | None = None,
        device: str = "auto",
        recall: float | None = None,
        memory: str | None = None,
        stored: str | None = None,
    ) -> Call[wire.JobStatus]:
        """Build another index of a collection; nothing is encoded again, and searches go on meanwhile."""
        path = f"/v1/collections/{path_segment(name)}/reindex"
        body = given(type=index, device=device, recall=recall, memory=memory, stored=stored)
        return ask(wire.JobAnswer, "POST", path, json=body).then(lambda answer: answer.job)

    @ServiceMethod
    def rebuild(
        self,
        name: str,
        to: str,
        *,
        bundle: str | None = None,
        alias: str | None = None,
        partial: bool = False,
        since: int | None = None,
    ) -> Call[wire.JobStatus]:
        """Write a collection again into another, with another bundle, and move an alias there in the end.

        `since` takes such a move back: only what was written after this version is carried.
        """
        body = {"to": to, "bundle": bundle, "alias": alias, "partial": partial, "since": since}
        path = f"/v1/collections/{path_segment(name)}/rebuild"
        return ask(wire.JobAnswer, "POST", path, json=body).then(lambda answer: answer.job)

    @ServiceMethod
    def bundles(self) -> Call[tuple[wire.BundleStatus, ...]]:
        """The bundles at hand, the service's own first."""
        return ask(wire.BundlesAnswer, "GET", "/v1/bundles").then(lambda answer: answer.bundles)

    @ServiceMethod
    def reload_bundles(self) -> Call[dict[str, str]]:
        """Have the bundles in use read again, if they still make the same vectors; the bundle_id of each."""
        answer = ask(wire.BundleReloadAnswer, "POST", "/v1/bundles/reload")
        return answer.then(lambda found: {one.name: one.bundle_id for one in found.bundles})

    @ServiceMethod
    def drop_collection(self, name: str) -> Call[None]:
        """Remove a collection with all that it holds."""
        return Call("DELETE", f"/v1/collections/{path_segment(name)}", lambda _: None)

    @ServiceMethod
    def aliases(self) -> Call[dict[str, str]]:
        """The collection of each alias."""
        return ask(wire.AliasesAnswer, "GET", "/v1/aliases").then(lambda answer: answer.aliases)

    @ServiceMethod
    def set_alias(self, alias: str, collection: str) -> Call[str | None]:
        """Call a collection so from now on; gives the one that was called so before."""
        path = f"/v1/aliases/{path_segment(alias)}"
        return ask(wire.AliasAnswer, "PUT", path, json={"collection": collection}).then(
            lambda answer: answer.former
        )

    @ServiceMethod
    def drop_alias(self, alias: str) -> Call[None]:
        """Call no collection so any more; `default` goes back to the main one."""
        return Call("DELETE", f"/v1/aliases/{path_segment(alias)}", lambda _: None)

    @ServiceMethod
    def take_snapshot(self) -> Call[wire.SnapshotAnswer]:
        """The whole collection in one file, at the service."""
        return ask(wire.SnapshotAnswer, "POST", f"{self._at}/snapshots")

    @ServiceMethod
    def snapshots(self) -> Call[tuple[wire.SnapshotFile, ...]]:
        """The snapshots that are at the service, oldest first."""
        return ask(wire.SnapshotsAnswer, "GET", f"{self._at}/snapshots").then(lambda answer: answer.snapshots)

    @ServiceMethod
    def remove_snapshot(self, name: str) -> Call[None]:
        """Remove a snapshot at the service."""
        return Call("DELETE", f"{self._at}/snapshots/{path_segment(name)}", lambda _: None)

    @ServiceMethod
    def jobs(self) -> Call[tuple[wire.JobStatus, ...]]:
        """All jobs that the service knows, the youngest first."""
        return ask(wire.JobsAnswer, "GET", "/v1/jobs").then(lambda answer: answer.jobs)

    @ServiceMethod
    def job(self, id: str) -> Call[wire.JobStatus]:
        """One job as it stands."""
        return ask(wire.JobAnswer, "GET", f"/v1/jobs/{path_segment(id)}").then(lambda answer: answer.job)

    @ServiceMethod
    def cancel(self, id: str) -> Call[wire.JobStatus]:
        """Ask a job to end."""
        return ask(wire.JobAnswer, "POST", f"/v1/jobs/{path_segment(id)}/cancel").then(
            lambda answer: answer.job
        )

    @ServiceMethod
    def folder(self) -> Call[wire.FolderAnswer]:
        """The folder that the service follows into this collection, and what was left out of it."""
        return ask(wire.FolderAnswer, "GET", f"{self._at}/folder")

    @ServiceMethod
    def metrics(self) -> Call[str]:
        """The service's numbers, as Prometheus reads them."""
        return Call("GET", "/metrics", lambda response: response.text)
