"""What manages a service: collections, aliases, bundles, snapshots, jobs and metrics."""

from collections.abc import Sequence
from typing import Any

from multifold.client.calls import Call, ask, path_segment
from multifold.client.methods import service_method, takes_fields
from multifold.client.transport import ServiceAddress
from multifold.types import Device, Distance, Memory
from multifold.wire import administration as wire


class AdminMethods(ServiceAddress):
    """Manages a service. Most of it needs an admin key where there are keys."""

    @service_method
    def create_collection(
        self,
        name: str,
        *,
        bundle: str | None = None,
        dim: int | None = None,
        distance: Distance = "cosine",
        index: str | None = None,
        device: Device = "auto",
        recall: float | None = None,
        memory: Memory | None = None,
    ) -> Call[wire.CollectionStatus]:
        """Make an empty collection. Without `index`, `recall` and `memory` it chooses its index.

        With `dim` it has no encoder: items and queries bring vectors of so many numbers.
        """
        asked = any(one is not None for one in (index, recall, memory))
        plan = _index(index, device, recall, memory) if asked else None
        vectors = None if dim is None else wire.VectorsBody(dim, distance)
        body = wire.CollectionBody(name, bundle, plan, vectors)
        return ask(wire.CollectionStatus, "POST", "/v1/collections", body)

    @service_method
    def collections(self) -> Call[tuple[wire.CollectionStatus, ...]]:
        """All collections, the main one first."""
        return ask(wire.CollectionsAnswer, "GET", "/v1/collections").then(lambda answer: answer.collections)

    @service_method
    def reindex(
        self,
        name: str,
        *,
        index: str | None = None,
        device: Device = "auto",
        recall: float | None = None,
        memory: Memory | None = None,
    ) -> Call[wire.JobStatus]:
        """Build another index of a collection; nothing is encoded again, and searches go on meanwhile."""
        path = f"/v1/collections/{path_segment(name)}/reindex"
        body = _index(index, device, recall, memory)
        return ask(wire.JobAnswer, "POST", path, body).then(lambda answer: answer.job)

    @service_method
    @takes_fields(wire.RebuildBody)
    def rebuild(self, name: str, body: wire.RebuildBody) -> Call[wire.JobStatus]:
        """Write a collection again into another, with another bundle, and move an alias there in the end.

        `since` takes such a move back: only what was written after this version is carried.
        """
        path = f"/v1/collections/{path_segment(name)}/rebuild"
        return ask(wire.JobAnswer, "POST", path, body).then(lambda answer: answer.job)

    @service_method
    def bundles(self) -> Call[tuple[wire.BundleStatus, ...]]:
        """The bundles at hand, the service's own first."""
        return ask(wire.BundlesAnswer, "GET", "/v1/bundles").then(lambda answer: answer.bundles)

    @service_method
    def reload_bundles(self) -> Call[dict[str, str]]:
        """Have the bundles in use read again, if they still make the same vectors; the bundle_id of each."""
        answer = ask(wire.BundleReloadAnswer, "POST", "/v1/bundles/reload")
        return answer.then(lambda found: {one.name: one.bundle_id for one in found.bundles})

    @service_method
    def drop_collection(self, name: str) -> Call[None]:
        """Remove a collection with all that it holds."""
        return Call("DELETE", f"/v1/collections/{path_segment(name)}", lambda _: None)

    @service_method
    def aliases(self) -> Call[dict[str, tuple[str, ...]]]:
        """The collection of each alias, or the several that it names."""
        asked = ask(wire.AliasesAnswer, "GET", "/v1/aliases")
        return asked.then(
            lambda found: {alias: (one,) for alias, one in found.aliases.items()} | found.several
        )

    @service_method
    def set_alias(self, alias: str, collection: str | Sequence[str]) -> Call[str | None]:
        """Call a collection so from now on, or several for searches; gives the one that had the name."""
        path = f"/v1/aliases/{path_segment(alias)}"
        body = wire.AliasBody(collection) if isinstance(collection, str) else wire.AliasBody(None, collection)
        asked = ask(wire.AliasAnswer, "PUT", path, body)
        return asked.then(lambda answer: answer.former)

    @service_method
    def drop_alias(self, alias: str) -> Call[None]:
        """Call no collection so any more; `default` goes back to the main one."""
        return Call("DELETE", f"/v1/aliases/{path_segment(alias)}", lambda _: None)

    @service_method
    def take_snapshot(self, name: str | None = None) -> Call[wire.SnapshotAnswer]:
        """The whole collection in one file, at the service; without a name it has that of the moment."""
        return ask(wire.SnapshotAnswer, "POST", f"{self._at}/snapshots", params={"name": name})

    @service_method
    def snapshots(self) -> Call[tuple[wire.SnapshotFile, ...]]:
        """The snapshots that are at the service, oldest first."""
        return ask(wire.SnapshotsAnswer, "GET", f"{self._at}/snapshots").then(lambda answer: answer.snapshots)

    @service_method
    def restore_snapshot(self, name: str, to: str) -> Call[wire.JobStatus]:
        """Make a new collection of a snapshot at the service; a job does it."""
        path = f"{self._at}/snapshots/{path_segment(name)}/restore"
        return ask(wire.JobAnswer, "POST", path, wire.RestoreBody(to)).then(lambda answer: answer.job)

    @service_method
    def remove_snapshot(self, name: str) -> Call[None]:
        """Remove a snapshot at the service."""
        return Call("DELETE", f"{self._at}/snapshots/{path_segment(name)}", lambda _: None)

    @service_method
    def jobs(self) -> Call[tuple[wire.JobStatus, ...]]:
        """All jobs that the service knows, the youngest first."""
        return ask(wire.JobsAnswer, "GET", "/v1/jobs").then(lambda answer: answer.jobs)

    @service_method
    def job(self, id: str) -> Call[wire.JobStatus]:
        """One job as it stands."""
        return ask(wire.JobAnswer, "GET", f"/v1/jobs/{path_segment(id)}").then(lambda answer: answer.job)

    @service_method
    def cancel(self, id: str) -> Call[wire.JobStatus]:
        """Ask a job to end."""
        return ask(wire.JobAnswer, "POST", f"/v1/jobs/{path_segment(id)}/cancel").then(
            lambda answer: answer.job
        )

    @service_method
    def folder(self) -> Call[wire.FolderAnswer]:
        """The folder that the service follows into this collection, and what was left out of it."""
        return ask(wire.FolderAnswer, "GET", f"{self._at}/folder")

    @service_method
    def metrics(self) -> Call[str]:
        """The service's numbers, as Prometheus reads them."""
        return Call("GET", "/metrics", lambda response: response.text)


def _index(type: str | None, device: Device, recall: float | None, memory: Memory | None) -> wire.IndexBody:
    """An index with what is given, and else as it is by default."""
    given: dict[str, Any] = {"type": type, "recall": recall, "memory": memory}
    return wire.IndexBody(device=device, **{name: one for name, one in given.items() if one is not None})
