"""The work of `multifold bench ingest`."""

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from app.encoding.observations import open_drawing_encoder
from app.settings import Settings
from benches.ingest import generated_files, stages
from benches.ingest.generated_files import GeneratedFiles
from benches.ingest.ingest_runs import IngestBenchError, IngestOutcome, IngestRuns, MemoryMoment, require
from benches.ingest.stages import StageTime
from benches.service.running_service import run_service
from multifold.bundle.encoder import Encoder
from multifold.client import Client, ServiceError
from multifold.machine import cores

MIB = 1 << 20
say = partial(print, flush=True)
OPENED = """
import os, sys
from pathlib import Path
from benches.service.running_service import resident_bytes
from index.collection import Collection
from multifold.bundle.canary import open_encoder
encoder = open_encoder(Path(sys.argv[2]))
before = resident_bytes(os.getpid())
with Collection.open(Path(sys.argv[1]), encoder, read_only=True) as collection:
    print(before, resident_bytes(os.getpid()), collection.count())
"""


def run(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="multifold-ingest-") as folder:
        home = Path(folder).resolve()
        files = home / "files"
        encoder = open_drawing_encoder(args.bundle, 1)
        heap = generated_files.make_files(files, args.files, args.broken, args.seed)
        say(f"{heap.files} files: {len(heap.good)} items to read, {len(heap.broken)} files broken,", end=" ")
        say(f"{len(heap.foreign)} of a kind that is not read, {len(heap.others)} others")
        runs = IngestRuns(home, args.bundle, args.workers)
        whole = runs.report("clean")
        _check_report(heap, whole)
        rate = len(heap.good) / whole.seconds
        busy = whole.cpu / (whole.seconds * cores())
        used = f"{rate:.1f} items/s, {busy:.0%} of {cores()} cores"
        say(f"one clean run: {whole.seconds:.1f} s, {used}")
        _print_memory(heap, whole.memory, home, encoder)
        times = stages.time_stages(files, home / "stages", encoder, args.workers, args.sample)
        _print_stages(times, whole)
        again = runs.report("clean")
        unchanged = f"Nothing changed, and {again.unchanged} of {len(heap.good)} are unchanged."
        require(again.unchanged == len(heap.good), unchanged)
        say(f"again, nothing changed: {again.seconds:.1f} s for {again.unchanged} items")
        some = set(generated_files.change_captions(files, heap, args.seed))
        require(set(runs.report("clean").changed) == some, "A run after changes touched something else.")
        say(f"{len(some)} captions changed: just these items went in again")
        _search_during_ingest(home, args)
    return 0


def _check_report(heap: GeneratedFiles, outcome: IngestOutcome) -> None:
    """The report names what was made, and nothing else."""
    for what, named, wanted in (
        ("added", outcome.added, heap.good),
        ("skipped", outcome.skipped, heap.skipped),
        ("passed over", outcome.passed_over, heap.others),
    ):
        wrong = f"The report is wrong on what was {what}: {sorted({*named} ^ wanted)[:5]}"
        require(sorted(named) == sorted(wanted), wrong)
    say("the report names what was added, skipped and passed over, right to the file")


def _print_memory(heap: GeneratedFiles, memory: Sequence[MemoryMoment], home: Path, encoder: Encoder) -> None:
    """The maximum in each quarter, and the growth with the number of items in the second half."""
    quarters = [part for part in np.array_split(np.array(memory, dtype=object), 4) if len(part)]
    for what in ("itself", "others"):
        most = ", ".join(f"{max(getattr(one, what) for one in part):.0f}" for part in quarters)
        say(f"memory of {what}, the most in each quarter: {most} MiB")
    late = memory[len(memory) // 2 :]
    if len(late) > 2:
        slope = np.polyfit([one.seconds for one in late], [one.itself for one in late], 1)[0]
        each = slope * memory[-1].seconds / len(heap.good) * 1000
        say(
            f"  the ingest itself grows by {each:.2f} MiB a 1,000 items in the second half; "
            f"once opened, that collection takes {_opened_memory(home, encoder):.2f}",
        )


def _opened_memory(home: Path, encoder: Encoder) -> float:
    """MiB that a thousand items take in an opened collection, in a process of its own."""
    command = [sys.executable, "-c", OPENED, str(home / "clean"), str(encoder.bundle.folder)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 (ourselves)
    before, after, items = map(int, output.split())
    return (after - before) / MIB / items * 1000


def _print_stages(times: dict[str, StageTime], whole: IngestOutcome) -> None:
    for name, one in times.items():
        say(f"  {name:<7} alone: {one.clock:6.1f} s, {one.cpu:6.1f} s of processors")
    slowest = max(times, key=lambda name: times[name].clock)
    alone = times[slowest].clock
    cpu = sum(one.cpu for one in times.values())
    best = max(alone, cpu / cores())
    say(f"throughput against {slowest}, the slowest stage, alone on all cores: {alone / whole.seconds:.2f}")
    say(f"  against all stages sharing {cores()} cores, none idle: {best / whole.seconds:.2f} (goal: 0.80)")
    say(f"  the most that the first could be, if the second were 1: {alone / best:.2f}")
    say(f"  work of the stages in all work of the run: {cpu / whole.cpu:.2f}")


def _search_during_ingest(home: Path, args: argparse.Namespace) -> None:
    """Searches of a service while files are added to its collection."""
    heap = generated_files.make_files(home / "more", args.beside, args.broken, args.seed + 1)
    settings = Settings(data=home / "clean", bundle=args.bundle)
    with run_service(settings) as service, Client(service.url) as client:
        idle = [_time_search(client) for _ in range(50)]
        runs = IngestRuns(home, args.bundle, args.workers)
        outcomes = list[IngestOutcome]()
        ingest = threading.Thread(target=lambda: outcomes.append(runs.report("clean", "more")))
        ingest.start()
        busy = []
        while ingest.is_alive():
            busy.append(_time_search(client))
            time.sleep(0.05)
    require(bool(outcomes), "The ingest beside the service failed.")
    added, skipped = len(outcomes[0].added), len(outcomes[0].skipped)
    right = (added, skipped) == (len(heap.good), len(heap.skipped))
    require(right, f"Beside a service {added} were added, {skipped} skipped.")
    quick, slow = (f"{1000 * statistics.median(times):.0f} ms" for times in (idle, busy))
    say(
        f"beside a service: {added} added; {len(busy)} searches meanwhile, none failed: "
        f"median {quick} before, {slow} meanwhile, the longest {1000 * max(busy):.0f} ms",
    )


def _time_search(client: Client) -> float:
    started = time.perf_counter()
    try:
        client.search(text="a thing of wood", target="any")
    except ServiceError as error:
        raise IngestBenchError(f"A search failed during the ingest: {error}") from error
    return time.perf_counter() - started
