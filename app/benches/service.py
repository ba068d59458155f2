"""What the service costs beside the bare encoder and index on the same batches: rate, latency, CPU time.

    multifold bench service

A collection is made in a temporary folder, and a service of its own serves it in another process; the
clients are in a third one. Bare is the library: encode a batch of as many queries as there are clients, then
search for all of it,
as the service searches: words are looked for, and hits have their confidence.
The two take turns, so that they meet the same machine. Vectors of queries are not remembered.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from app import confidence
from app.benches import load
from app.benches.load import Load
from app.observer import encoder_of
from app.settings import Settings
from index.collection import Collection
from index.searching import Ask
from multifold.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.preprocess import decode, pixels
from multifold.types import Item, Observation, Query, Side, Vector, Vectors, Words

VIEWS, CHUNK = 6, 2000
QUERIES = 512
TICKS = os.sysconf("SC_CLK_TCK")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--bundle", type=Path, default=Path("bundles/furniture"))
    parser.add_argument("--items", type=int, default=2000, help="items of six views and a caption")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=5, help="of each of the two")


def run(args: argparse.Namespace) -> int:
    """Measure, and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder), bundle=args.bundle, threads=1)
        encoder = encoder_of(settings)
        _fill(settings.data, encoder, args.items)
        kinds = {"text": _texts(), "image": _images(encoder)}
        with (
            _served(settings) as served,
            Collection.open(settings.data, encoder, read_only=True) as collection,
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as clients,
        ):
            bare = Bare(encoder, collection)
            print(
                f"{args.items} items, {VIEWS * args.items} views; {args.turns} turns of {args.seconds:g} s\n"
            )
            print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
            for kind, queries in kinds.items():
                for count in args.clients:
                    turns = [
                        (
                            bare.turn(kind, queries, count, args.seconds),
                            served.turn(clients, queries, count, args.seconds),
                        )
                        for _ in range(args.turns)
                    ]
                    print(_row(kind, count, turns), flush=True)
    return 0


COLUMNS = (
    "query",
    "clients",
    "bare, queries/s",
    "service, queries/s",
    "ratio",
    "bare CPU ms",
    "service CPU ms",
    "client CPU ms",
    "bare ms",
    "service p50 ms",
    "p95 ms",
)


@dataclass(frozen=True)
class Asked:
    """One query: as the library takes it, and as it goes over the wire."""

    said: str | bytes
    wire: bytes


@dataclass(frozen=True)
class Turn:
    """One turn of either: queries a second, and milliseconds of a query."""

    rate: float
    cpu: float
    p50: float
    p95: float
    client: float = 0.0


@dataclass(frozen=True)
class Bare:
    """The encoder and the index, without a service."""

    encoder: Encoder
    collection: Collection

    def turn(self, kind: str, queries: Sequence[Asked], count: int, seconds: float) -> Turn:
        """Batches of so many, one after the other."""
        encode: Callable[[Sequence[str | bytes]], Vectors] = self._texts if kind == "text" else self._images
        times, done = [], 0
        start, cpu = time.perf_counter(), time.process_time()
        while (since := time.perf_counter()) < start + seconds:
            batch = [queries[(done + place) % len(queries)].said for place in range(count)]
            self.collection.search_many(list(map(self._ask, batch, encode(batch))))
            times.append(time.perf_counter() - since)
            done += count
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        middle = 1e3 * statistics.median(times)
        return Turn(done / took, 1e3 * cpu / done, middle, middle)

    def _ask(self, said: str | bytes, vector: Vector) -> Ask:
        asked: Side
        words, asked = (Words(said), "text") if isinstance(said, str) else (None, "image")
        sure = confidence.of(self.encoder.curves, asked, "mean")
        return Ask(Query(vector, "shape", words=words), calibration=sure)

    def _texts(self, texts: Sequence[str | bytes]) -> Vectors:
        return self.encoder.vectors(self.encoder.texts([str(text) for text in texts]).features)

    def _images(self, pictures: Sequence[str | bytes]) -> Vectors:
        spec = self.encoder.bundle.image
        seen = [pixels(decode(data), spec) for data in pictures if isinstance(data, bytes)]
        return self.encoder.vectors(self.encoder.pixels(np.stack(seen)))


@dataclass(frozen=True)
class Served:
    """A service in a process of its own."""

    process: int
    port: int

    def turn(
        self, clients: ProcessPoolExecutor, queries: Sequence[Asked], count: int, seconds: float
    ) -> Turn:
        """So many clients, each asking as soon as it is answered."""
        cpu = self._cpu()
        met: Load = clients.submit(
            load.run, "127.0.0.1", self.port, [query.wire for query in queries], count, seconds
        ).result()
        if met.refusals:
            raise MultifoldError(f"the service refused: {met.refusals[0].decode(errors='replace')}")
        each = 1e3 / len(met.latencies)
        p50, p95 = (1e3 * met.quantile(share) for share in (0.5, 0.95))
        return Turn(met.rate, each * (self._cpu() - cpu), p50, p95, each * met.cpu)

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def _served(settings: Settings) -> Iterator[Served]:
    words = ["serve", "--data", str(settings.data), "--bundle", str(settings.bundle), "--port", "0"]
    code = "from multifold.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "MULTIFOLD_CACHE": "1", "MULTIFOLD_THREADS": "1"}
    process = subprocess.Popen(  # noqa: S603 (ourselves)
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"ready at http://[^:]+:(\d+)", line):
                yield Served(process.pid, int(found[1]))
                break
        else:
            raise MultifoldError("the service did not get ready")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def _row(kind: str, count: int, turns: Sequence[tuple[Turn, Turn]]) -> str:
    def middle(which: int, name: str) -> float:
        return float(statistics.median(getattr(turn[which], name) for turn in turns))

    ratio = statistics.median(served.rate / bare.rate for bare, served in turns)
    numbers = [f"{middle(0, 'rate'):.0f}", f"{middle(1, 'rate'):.0f}", f"{ratio:.2f}"]
    numbers += [f"{middle(which, 'cpu'):.2f}" for which in (0, 1)] + [f"{middle(1, 'client'):.2f}"]
    numbers += [f"{value:.2f}" for value in (middle(0, "p50"), middle(1, "p50"), middle(1, "p95"))]
    return f"| {kind} | {count} | " + " | ".join(numbers) + " |"


def _fill(folder: Path, encoder: Encoder, count: int) -> None:
    """Items whose views scatter around features that this encoder made."""
    rng = np.random.default_rng(0)
    texts = encoder.texts([query.said for query in _texts() if isinstance(query.said, str)]).features
    spread = texts.std(axis=0)
    with Collection.open(folder, encoder, probes=encoder.bundle.probes()) as collection:
        for start in range(0, count, CHUNK):
            numbers = range(start, min(count, start + CHUNK))
            collection.upsert([_item(number, texts, spread, rng) for number in numbers])


def _item(number: int, features: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> Item:
    near = features[rng.integers(len(features))] + spread * rng.standard_normal((VIEWS + 1, len(spread)))
    near = near.astype(np.float32)
    views = [Observation("view", place, near[place], blob="0" * 64 + ".webp") for place in range(VIEWS)]
    caption = Observation("caption", 0, near[VIEWS], text=f"number {number}")
    return Item(f"item-{number}", (*views, caption), {"number": number})


def _texts() -> list[Asked]:
    colours, things = ("red", "blue", "oak", "black"), ("chair", "table", "sofa", "shelf")
    said = [
        f"a {colours[n % 4]} {things[n // 4 % 4]} with {2 + n % 5} {colours[n // 16 % 4]} legs, number {n}"
        for n in range(QUERIES)
    ]
    return [
        Asked(text, load.post("/v1/search", json.dumps({"text": text}).encode(), "application/json"))
        for text in said
    ]


def _images(encoder: Encoder) -> list[Asked]:
    rng = np.random.default_rng(1)
    return [_image(rng, 2 * encoder.bundle.image.size) for _ in range(QUERIES // 4)]


def _image(rng: np.random.Generator, size: int) -> Asked:
    coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).resize((size, size))
    out = io.BytesIO()
    coarse.save(out, "JPEG")
    head = b'--b\r\ncontent-disposition: form-data; name="image"; filename="q.jpg"\r\n\r\n'
    body = head + out.getvalue() + b"\r\n--b--\r\n"
    return Asked(out.getvalue(), load.post("/v1/search", body, "multipart/form-data; boundary=b"))
