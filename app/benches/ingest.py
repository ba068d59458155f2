"""What an ingest costs, and what it survives: files of all kinds, some of them broken.

    multifold bench ingest --files 10000

The files are made here. One run is killed in its middle and started again, another goes through at once; both
collections must be the same, and the report right to the file. Then the stages, each alone, over a sample.
"""

import argparse
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from app.benches import heap
from app.benches.heap import MESHES, PICTURES, Heap
from app.ingest import webp
from app.observer import Observer, encoder_of
from app.settings import Settings
from index.collection import Collection
from multifold.client import Client, ServiceError
from multifold.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.machine import ahead, cores
from multifold.types import Item, Observation
from renderers.sandbox import Sandbox

PAGE = os.sysconf("SC_PAGE_SIZE")
MEBIBYTE = 1 << 20
PROGRAM = (sys.executable, "-c", "import sys; from multifold.cli import main; sys.exit(main(sys.argv[1:]))")


class BenchError(MultifoldError):
    """A run did not do what it should."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--bundle", type=Path, default=Path("bundles/furniture"))
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--broken", type=float, default=0.05, help="share of the items that cannot be read")
    parser.add_argument("--sample", type=int, default=400, help="items that each stage alone is timed with")
    parser.add_argument("--beside", type=int, default=400, help="files taken in beside a running service")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=cores(), help="processes that render")


def run(args: argparse.Namespace) -> int:
    """Make, take in, kill, compare, time; prints what came out."""
    with tempfile.TemporaryDirectory(prefix="multifold-ingest-") as folder:
        home = Path(folder)
        made = heap.make(home / "files", args.files, args.broken, args.seed)
        good, broken = len(made.good), len(made.broken)
        print(f"{made.files} files: {good} items to read, {broken} broken", flush=True)
        runs = Runs(home, args.bundle, args.workers)
        runs.killed("killed", good // 2)
        resumed = runs.report("killed")
        print(f"killed, then resumed: {resumed.unchanged} were there, {len(resumed.added)} added", flush=True)
        whole = runs.report("clean")
        _check(made, whole)
        _same(home, args.bundle)
        rate = (good + broken) / whole.seconds
        print(f"one clean run: {whole.seconds:.1f} s, {rate:.1f} items/s; the report is right to the file")
        _tell_memory(whole.memory)
        again = runs.report("clean")
        print(f"again, nothing changed: {again.seconds:.1f} s for {again.unchanged} items", flush=True)
        some = set(heap.changed(home / "files", made, args.seed))
        if set(runs.report("clean").changed) != some:
            raise BenchError("A run after changes touched something else.")
        print(f"{len(some)} captions changed: just these items went in again", flush=True)
        _stages(home, args, whole.seconds, made)
        _beside(home, args)
    return 0


@dataclass(frozen=True)
class Outcome:
    """What one run reported, and its memory in MiB while it ran."""

    added: list[str]
    changed: list[str]
    skipped: list[str]
    unchanged: int
    seconds: float
    memory: list[float] = field(default_factory=list)


class Runs:
    """Ingests of the files into collections of this home, each a process of its own."""

    def __init__(self, home: Path, bundle: Path, workers: int) -> None:
        self._home, self._bundle, self._workers = home, bundle, workers

    def report(self, name: str, what: str = "files") -> Outcome:
        """Run it to its end."""
        told = self._home / "report.json"
        started = time.monotonic()
        with self._started(name, what, "--report", str(told)) as running:
            memory = list(_memory_of(running))
        if running.returncode != 0:
            raise BenchError(f"The ingest ended with {running.returncode}.")
        seconds = time.monotonic() - started
        raw = json.loads(told.read_text())
        skipped = [one["name"] for one in raw["skipped"]]
        return Outcome(raw["added"], raw["changed"], skipped, raw["unchanged"], seconds, memory)

    def killed(self, name: str, items: int) -> None:
        """Kill it once so many items are there."""
        with self._started(name, "files") as running:
            while running.poll() is None and _count(self._home / name) < items:
                time.sleep(0.05)
            running.send_signal(signal.SIGKILL)

    def _started(self, name: str, what: str, *more: str) -> subprocess.Popen[bytes]:
        given = ["ingest", str(self._home / what), "--data", str(self._home / name), "--bundle"]
        given += [str(self._bundle), "--workers", str(self._workers), *more]
        return subprocess.Popen(  # noqa: S603 (ourselves)
            [*PROGRAM, *given], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )


def _check(made: Heap, told: Outcome) -> None:
    """The report names what was made, and nothing else."""
    if set(told.added) != made.good or len(told.added) != len(made.good):
        raise BenchError(f"Added, but not to be read: {sorted(set(told.added) ^ made.good)[:5]}")
    if sorted(told.skipped) != sorted(made.broken):
        raise BenchError(f"Skipped, but not broken: {sorted(set(told.skipped) ^ made.broken)[:5]}")


def _same(home: Path, bundle: Path) -> None:
    """The resumed collection and the clean one hold the same."""
    one, other = (_held(home / name, bundle) for name in ("killed", "clean"))
    if one != other:
        raise BenchError(f"A resumed run differs: {sorted(one.items() ^ other.items())[:3]}")
    print("the resumed collection and the clean one hold the same items, words, pictures and features")


def _held(data: Path, bundle: Path) -> dict[str, str]:
    """Every item, as one text each; features to the precision that batches of other sizes leave."""
    held, after = {}, None
    with Collection.open(data, encoder_of(Settings(data=data, bundle=bundle)), read_only=True) as collection:
        while page := collection.scroll(after, 500):
            for item in page:
                seen = [(o.kind, o.index, o.text, o.blob, _rough(o.feature)) for o in item.observations]
                held[item.id] = json.dumps([dict(item.payload), seen], sort_keys=True)
            after = page[-1].id
    return held


def _rough(feature: np.ndarray) -> str:
    """Enough of a feature to tell it from another's, and no more."""
    return str(int(np.abs(feature).argmax()))


def _tell_memory(memory: Sequence[float]) -> None:
    quarters = [max(part) for part in np.array_split(np.array(memory), 4) if len(part)]
    shown = ", ".join(f"{one:.0f}" for one in quarters)
    print(f"memory of all its processes, the most in each quarter of the run: {shown} MiB", flush=True)


def _stages(home: Path, args: argparse.Namespace, seconds: float, made: Heap) -> None:
    """Each stage alone, over a sample, as time for all files; the slowest against the whole run."""
    encoder = encoder_of(Settings(data=home / "clean", bundle=args.bundle))
    paths = {path.with_suffix("").relative_to(home / "files").as_posix(): path for path in _things(home)}
    chosen = [paths[name] for name in sorted(made.good)]
    photos = [path for path in chosen if path.suffix[1:] in PICTURES]
    meshes = [path for path in chosen if path.suffix[1:] in MESHES]
    some_photos, some_meshes = photos[: args.sample], meshes[: args.sample]
    with Sandbox(args.workers) as sandbox:
        observer = Observer(encoder, sandbox, Settings(data=home / "clean", bundle=args.bundle))
        list(sandbox.render_many(some_meshes[: args.workers]))  # workers are up and compiled
        took = {
            "draw": _timed(lambda: _draw(sandbox, encoder, some_meshes), len(meshes) / len(some_meshes)),
            "decode": _timed(lambda: _decode(observer, some_photos), len(photos) / len(some_photos)),
        }
        took["encode"] = _encode_time(encoder, observer, some_photos, len(photos), len(meshes))
    took["write"] = _write_time(home, encoder, args.sample, len(chosen))
    for name, one in took.items():
        print(f"  {name:<7} alone: {one:6.1f} s")
    slowest = max(took, key=lambda name: took[name])
    print(f"the run against its slowest stage alone ({slowest}): {took[slowest] / seconds:.2f}", flush=True)


def _things(home: Path) -> Iterator[Path]:
    wanted = {f".{kind}" for kind in (*PICTURES, *MESHES)}
    return (path for path in (home / "files").rglob("*") if path.suffix in wanted)


def _timed(work: Callable[[], object], scale: float) -> float:
    started = time.monotonic()
    work()
    return (time.monotonic() - started) * scale


def _draw(sandbox: Sandbox, encoder: Encoder, meshes: Sequence[Path]) -> None:
    spec = encoder.bundle.views
    drawn = sandbox.draw_many(
        [(path, spec.up, None) for path in meshes], spec.rig, spec.size, spec.background
    )
    for one in drawn:
        if isinstance(one, MultifoldError):
            raise one
        for view in one.views:
            webp(view)


def _decode(observer: Observer, photos: Sequence[Path]) -> None:
    for _ in ahead(lambda path: observer.look(path.read_bytes()), photos, cores(), 64):
        pass


def _encode_time(
    encoder: Encoder, observer: Observer, photos: Sequence[Path], photo_count: int, mesh_count: int
) -> float:
    batch = np.stack([observer.look(path.read_bytes()) for path in photos[:32]])
    one = min(_timed(lambda: encoder.pixels(batch), 1 / len(batch)) for _ in range(5))
    words = min(_timed(lambda: encoder.texts(["a thing of wood"] * 32), 1 / 32) for _ in range(5))
    pictures = photo_count + mesh_count * encoder.bundle.views.views
    return (
        one * pictures + words * (photo_count + mesh_count) * 5 / 3
    )  # two captions where only a name is known


def _write_time(home: Path, encoder: Encoder, sample: int, count: int) -> float:
    feature = encoder.texts(["a thing"]).features[0]
    seen = (Observation("caption", 0, feature, text="a thing"),)
    made = [Item(f"i{number}", seen, {"path": f"shelf/i{number}.png"}) for number in range(sample)]
    with Collection.open(home / "write", encoder) as collection:
        batches = [made[start : start + 32] for start in range(0, sample, 32)]
        return _timed(lambda: [collection.upsert(batch) for batch in batches], count / sample)


def _beside(home: Path, args: argparse.Namespace) -> None:
    """Searches of a service while files go in through it."""
    heap.make(home / "more", args.beside, args.broken, args.seed + 1)
    given = ["serve", "--data", str(home / "clean"), "--bundle", str(args.bundle), "--port", "0"]
    with subprocess.Popen(  # noqa: S603 (ourselves)
        [*PROGRAM, *given], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as at:
        try:
            assert at.stdout is not None
            ready = next(line for line in at.stdout if line.startswith("ready at "))
            threading.Thread(target=at.stdout.read, daemon=True).start()
            with Client(ready.split()[2]) as client:
                idle = [_asked(client) for _ in range(50)]
                busy, told = _asked_during(client, Runs(home, args.bundle, args.workers))
        finally:
            at.terminate()
    quick, slow = (f"{1000 * statistics.median(times):.0f} ms" for times in (idle, busy))
    print(f"beside a service: {len(told.added)} added; {len(busy)} searches meanwhile, none failed:")
    print(f"  median {quick} before, {slow} meanwhile (the longest {1000 * max(busy):.0f} ms)", flush=True)


def _asked_during(client: Client, runs: Runs) -> tuple[list[float], Outcome]:
    told: list[Outcome] = []
    ingesting = threading.Thread(target=lambda: told.append(runs.report("clean", "more")))
    ingesting.start()
    busy = []
    while ingesting.is_alive():
        busy.append(_asked(client))
        time.sleep(0.05)
    ingesting.join()
    if not told:
        raise BenchError("The ingest beside the service failed.")
    return busy, told[0]


def _asked(client: Client) -> float:
    started = time.perf_counter()
    try:
        client.search(text="a thing of wood", target="any")
    except ServiceError as error:
        raise BenchError(f"A search failed during the ingest: {error}") from error
    return time.perf_counter() - started


def _count(data: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{data / 'store.sqlite'}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM items").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def _memory_of(running: subprocess.Popen[bytes]) -> Iterator[float]:
    """Resident memory of a process and those it started, again and again until it ends."""
    while running.poll() is None:
        yield sum(_resident(one) for one in _session(running.pid)) / MEBIBYTE
        time.sleep(0.5)


def _session(leader: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == leader:
                    yield int(entry.name)
            except ProcessLookupError:
                continue


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0
