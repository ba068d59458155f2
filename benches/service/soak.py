"""A service under load for a long time, read and written at once: whether anything fails, whether it grows.

    multifold bench soak --minutes 20

Readers search by words, pictures and items; writers put, change and remove items of their own, and read each
change back. Whatever is not the answer that it should be is an error. Memory, open files and threads of the
service are noted in ten spans. The first two warm it up; it has grown if the last four needed more than the
four before, beyond what is allowed for.
"""

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from app.encoding.observations import open_drawing_encoder
from app.settings import Settings
from benches.reporting import head, row
from benches.service.running_service import RunningService, resident_bytes, run_service
from benches.service.sample_collection import fill_collection, noise_photo, text_queries
from multifold.client.client import Client, ServiceError
from multifold.errors import MultifoldError

ITEMS, VIEWS, OWN = 500, 2, 20
SPANS, WARM = 10, 2
MEBIBYTE = 1 << 20
MEMORY, HANDLES = 1.1, 8  # times as much, and so many more, are no growth
COLUMNS = ("minute", "answers/s", "writes/s", "errors", "p95 ms", "memory MiB", "files", "threads")


class WrongAnswerError(MultifoldError):
    """The service answered, and not as it should."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", type=Path, default=Path("bundles/furniture"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--readers", type=int, default=6)
    parser.add_argument("--writers", type=int, default=2)


def run(args: argparse.Namespace) -> int:
    """Load the service, print its needs, and say whether anything failed or grew."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder), bundle=args.bundle, threads=1)
        fill_collection(settings.data, open_drawing_encoder(settings.bundle, settings.threads), ITEMS, VIEWS)
        with run_service(settings, MULTIFOLD_CACHE="64") as service:
            print(head(*COLUMNS), flush=True)
            log, samples = run_soak(service, 60 * args.minutes, args.readers, args.writers)
    grown = find_growth(samples)
    for trouble in [*log.errors, *grown]:
        print(trouble)
    print("no error, no growth" if not log.errors and not grown else "failed")
    return 1 if log.errors or grown else 0


@dataclass
class SoakLog:
    """What the clients recorded; shared by many threads."""

    answers: int = 0
    writes: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of the answers since the last sample
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def timed(self, act: Callable[[], object], *, writes: bool) -> None:
        """Run it, and record time and error."""
        start, trouble = time.perf_counter(), None
        try:
            act()
        except (ServiceError, WrongAnswerError) as error:
            trouble = f"{type(error).__name__}: {error}"
        with self._lock:
            self.answers += 1
            self.writes += writes
            self.seconds.append(time.perf_counter() - start)
            self.errors += [trouble] if trouble else []

    def slow(self) -> float:
        """The 95th percentile since the last call."""
        with self._lock:
            seconds, self.seconds = sorted(self.seconds), []
        return seconds[int(0.95 * len(seconds))] if seconds else 0.0


@dataclass(frozen=True)
class SoakSample:
    """The needs of the service at one moment."""

    memory: int
    files: int
    threads: int


def run_soak(
    service: RunningService, seconds: float, readers: int, writers: int
) -> tuple[SoakLog, list[SoakSample]]:
    """So many clients for so long; prints a line for each span of time."""
    log, samples, over = SoakLog(), [], threading.Event()
    with ThreadPoolExecutor(readers + writers) as clients:
        doing = [clients.submit(_read, service.url, number, log, over) for number in range(readers)]
        doing += [clients.submit(_write, service.url, number, log, over) for number in range(writers)]
        try:
            for span in range(1, SPANS + 1):
                before = log.answers, log.writes
                over.wait(seconds / SPANS)
                open_files, threads = service.count("fd"), service.count("task")
                samples.append(SoakSample(resident_bytes(service.process), open_files, threads))
                rates = (log.answers - before[0], log.writes - before[1])
                _print(span * seconds / SPANS, [rate * SPANS / seconds for rate in rates], log, samples[-1])
        finally:
            over.set()
    for one in doing:
        one.result()
    return log, samples


def find_growth(samples: Sequence[SoakSample]) -> list[str]:
    """What the later half of the time needed more of than the earlier one."""
    half = (len(samples) + WARM) // 2
    found = []
    for name in ("memory", "files", "threads"):
        early, late = ([getattr(one, name) for one in some] for some in (samples[WARM:half], samples[half:]))
        before, after = statistics.median(early), statistics.median(late)
        if after > (MEMORY * before if name == "memory" else before + HANDLES):
            found.append(f"{name} grew from {before:,.0f} to {after:,.0f}")
    return found


def _print(seconds: float, rates: Sequence[float], log: SoakLog, sample: SoakSample) -> None:
    cells = [f"{seconds / 60:.1f}", *(f"{rate:.1f}" for rate in rates), f"{len(log.errors)}"]
    cells += [f"{1e3 * log.slow():.0f}", f"{sample.memory / MEBIBYTE:.0f}"]
    print(row(*cells, sample.files, sample.threads), flush=True)


def _read(url: str, number: int, log: SoakLog, over: threading.Event) -> None:
    rng, texts = random.Random(number), [str(query.content) for query in text_queries()]  # noqa: S311 (no secret)
    pictures = [noise_photo(np.random.default_rng(seed), 128) for seed in range(16)]
    with Client(url) as client:
        acts: list[Callable[[], object]] = [
            lambda: _search(client, text=rng.choice(texts)),
            lambda: _search(client, text=rng.choice(texts), target="any"),
            lambda: _search(client, image=rng.choice(pictures)),
            lambda: client.similar(f"item-{rng.randrange(ITEMS)}"),
            lambda: _search(client, text=rng.choice(texts), filter={"number": {"lt": ITEMS}}),
            lambda: client.facets(["writer"]),
        ]
        while not over.is_set():
            log.timed(rng.choice(acts), writes=False)


def _search(client: Client, **query: object) -> None:
    hits = client.search(**query).hits  # type: ignore[arg-type]
    if len(hits) != 10:
        raise WrongAnswerError(f"{len(hits)} hits where there are {ITEMS} items and more")


def _write(url: str, number: int, log: SoakLog, over: threading.Event) -> None:
    rng, turn = random.Random(1000 + number), 0  # noqa: S311 (no secret)
    with Client(url) as client:
        while not over.is_set():
            turn += 1
            name = f"own-{number}-{rng.randrange(OWN)}"
            act = rng.choice((_put, _put, _change, _remove))
            log.timed(lambda act=act, name=name, turn=turn: act(client, name, turn), writes=True)  # type: ignore[misc]


def _put(client: Client, name: str, turn: int) -> None:
    picture = noise_photo(np.random.default_rng(turn), 96)
    client.upsert(
        name, texts=[f"a thing of turn {turn}"], images=[picture], payload={"writer": name, "turn": turn}
    )
    if client.get(name).payload != {"writer": name, "turn": turn}:
        raise WrongAnswerError(f"{name} is not what was written")


def _change(client: Client, name: str, turn: int) -> None:
    _put(client, name, turn)
    client.update(name, payload={"turn": None, "changed": turn})
    if client.get(name).payload != {"writer": name, "changed": turn}:
        raise WrongAnswerError(f"{name} is not what it was changed to")


def _remove(client: Client, name: str, turn: int) -> None:
    _put(client, name, turn)
    if client.delete(name) != 1 or client.count({"writer": name}):
        raise WrongAnswerError(f"{name} was removed, and is there")
