"""Metrics that are read when they are asked for: of collections, queues, the cache, drift and the process."""

import resource
import shutil
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.collections.service import CollectionService
from app.runtime.probes import ProbeResult
from index.store import browse

INDEX = ("collection", "side", "kind")


def _gauge(name: str, about: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, labels=labels)


def _counter(name: str, about: str, labels: Sequence[str]) -> CounterMetricFamily:
    return CounterMetricFamily(name, about, labels=labels)


def read_contents(services: Iterable[CollectionService]) -> Iterable[Metric]:
    info = _gauge("multifold_info", "What runs here.", ("collection", "version", "bundle", "vector_id"))
    items = _gauge("multifold_items", "Items in the collection.", ["collection"])
    kinds = _gauge("multifold_observations", "Observations in the collection.", ["collection", "kind"])
    changes = _gauge("multifold_version", "Last change that searches see.", ["collection"])
    behind = _gauge(
        "multifold_behind_seconds", "For which indexes have lacked what is stored.", ["collection"]
    )
    for service in services:
        bundle = service.encoder.bundle
        info.add_metric([service.name, version("multifold"), bundle.name, service.encoder.vector_id], 1)
        items.add_metric([service.name], service.collection.count())
        for kind, count in service.collection.read(browse.count_observations).items():
            kinds.add_metric([service.name, kind], count)
        changes.add_metric([service.name], service.collection.version)
        behind.add_metric([service.name], service.collection.behind())
    return info, items, kinds, changes, behind


def read_indexes(services: Iterable[CollectionService]) -> Iterable[Metric]:
    rows = _gauge("multifold_index_rows", "Rows of an index in this process.", INDEX)
    sealed = _gauge(
        "multifold_index_sealed_rows", "Those in sealed parts; others are searched exactly.", INDEX
    )
    recall = _gauge("multifold_index_recall", "Recall of the first ten, when a part was sealed.", INDEX)
    memory = _gauge("multifold_index_bytes", "What sealed parts take in memory.", INDEX)
    files = _gauge("multifold_index_file_bytes", "Vectors of sealed parts that are read from files.", INDEX)
    for service in services:
        for (side, kind), (count, segments) in service.collection.engines.sealed().items():
            labels = [service.name, side, kind]
            rows.add_metric(labels, count)
            sealed.add_metric(labels, sum(one.rows for one in segments))
            recall.add_metric(labels, min([1.0, *(one.recall for one in segments)]))
            memory.add_metric(labels, int(sum(one.rows * one.bytes_per_row for one in segments)))
            files.add_metric(labels, int(sum(one.rows * one.file_bytes_per_row for one in segments)))
    return rows, sealed, recall, memory, files


def read_searches(services: Iterable[CollectionService]) -> Iterable[Metric]:
    """The recall of late searches, and what all searches have read from files."""
    recall = _gauge(
        "multifold_index_served_recall", "Recall of late searches, of those repeated exactly.", INDEX
    )
    repeated = _gauge("multifold_index_served_answers", "Late searches that were repeated exactly.", INDEX)
    unlike = _counter(
        "multifold_index_unlike_queries_total",
        "Searches of a part by queries unlike all that was measured, which were compared with every row.",
        INDEX,
    )
    reads = _counter(
        "multifold_index_reads_total", "Queries, or blocks of rows, that read from files.", INDEX
    )
    rows = _counter("multifold_index_rows_read_total", "Rows that were read from files.", INDEX)
    disk = _counter("multifold_index_disk_read_bytes_total", "What the disk gave for these rows.", INDEX)
    for service in services:
        for (side, kind), served in service.collection.engines.served().items():
            recall.add_metric([service.name, side, kind], served.mean)
            repeated.add_metric([service.name, side, kind], served.answers)
        for (side, kind), count in service.collection.engines.unlike().items():
            unlike.add_metric([service.name, side, kind], count)
        for (side, kind), read in service.collection.engines.read_counts().items():
            reads.add_metric([service.name, side, kind], read.reads)
            rows.add_metric([service.name, side, kind], read.rows)
            disk.add_metric([service.name, side, kind], read.bytes)
    return recall, repeated, unlike, reads, rows, disk


def read_probes(probes: dict[str, ProbeResult]) -> Iterable[Metric]:
    sound = _gauge("multifold_probe_sound", "Whether the encoder answers its canaries.", ["collection"])
    recall = _gauge("multifold_probe_recall", "Share of known captions that find their item.", ["collection"])
    when = _gauge("multifold_probe_time_seconds", "When the last probe ended.", ["collection"])
    damaged = _gauge("multifold_damaged_observations", "Found damaged, and not repaired.", ["collection"])
    repaired = _gauge("multifold_repaired_observations", "Found damaged, and repaired.", ["collection"])
    for name, probe in {**probes}.items():
        sound.add_metric([name], probe.sound)
        if probe.queries:
            recall.add_metric([name], probe.hits / probe.queries)
        when.add_metric([name], probe.at)
        damaged.add_metric([name], probe.damaged - probe.repaired)
        repaired.add_metric([name], probe.repaired)
    return sound, recall, when, damaged, repaired


def read_queues(waiting: dict[str, int], room: int) -> Iterable[Metric]:
    waits = _gauge("multifold_queue_waiting", "Requests that wait.", ["work"])
    for work, count in waiting.items():
        waits.add_metric([work], count)
    return waits, GaugeMetricFamily("multifold_queue_room", "Most that may wait for one work.", room)


def read_cache(hits: int, misses: int, size: int) -> Iterable[Metric]:
    requests = _counter(
        "multifold_cache_requests_total", "Queries whose vector was cached, or not.", ["result"]
    )
    requests.add_metric(["hit"], hits)
    requests.add_metric(["miss"], misses)
    return requests, GaugeMetricFamily("multifold_cache_size", "Vectors that are cached.", size)


def read_process(data: Path) -> Iterable[Metric]:
    """Memory and time of this process, and the disk of its data."""
    disk = shutil.disk_usage(data)
    return (
        GaugeMetricFamily("multifold_disk_bytes", "The disk of the data folder.", disk.total),
        GaugeMetricFamily("multifold_disk_free_bytes", "What is free on it.", disk.free),
        GaugeMetricFamily("multifold_resident_bytes", "Memory in use.", _resident_bytes()),
        CounterMetricFamily("multifold_cpu_seconds_total", "Processor time used.", time.process_time()),
    )


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()
