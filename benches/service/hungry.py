"""What a client gets beside a hungry one, which sends the heaviest requests that are allowed.

Each has an address of its own, of this machine. The memory is the service's largest, in sizes of the idle
one.
"""

import itertools
import json
import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from ctypes import c_long
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

from app.settings import Settings
from benches.reporting import head, row
from benches.service.load import LoadResult
from benches.service.running_service import RunningService, resident_bytes, run_service
from benches.service.sample_collection import text_queries

HUNGRY, OTHER = "127.0.0.1", "127.0.0.2"
LONGEST = 120.0  # seconds
LARGE_PAYLOAD, LARGE_ITEMS = 1_000_000, 150  # characters; items of them
JOBS, JOB_ITEMS, JOB_TEXT = 5, 20_000, 500  # of 10 MB each
SETTLE_SECONDS = 20.0
READ_BYTES = 1 << 16
COLUMNS = (
    "beside it",
    "rate, of the idle one",
    "p95, of the idle one",
    "refused",
    "answers to the hungry one",
    "memory",
)


@dataclass(frozen=True)
class HungryLoad:
    """What a hungry client asks for, on how many connections."""

    name: str
    connections: int
    method: str
    path: str
    bodies: Sequence[bytes] = (b"",)


def measure(settings: Settings, connections: int, seconds: float) -> None:
    """Print a row of a table for each load, beside what an idle machine gives."""
    with run_service(settings, MULTIFOLD_CACHE="1") as service:
        search_for(service, seconds)  # its first searches are slower
        idle = search_for(service, seconds)
        size = resident_bytes(service.process)
        p95 = 1000 * idle.quantile(0.95)
        print(f"idle: {size / 1e6:.0f} MB, {idle.rate:.0f} searches/s, p95 {p95:.0f} ms\n")
        print(head(*COLUMNS))
        for load in hungry_loads(service.port, connections):
            print(_row(load, idle, beside(service, load, seconds), size), flush=True)


def search_for(service: RunningService, seconds: float) -> LoadResult:
    """One client that asks again as soon as it is answered; refusals are repeated at once."""
    load = LoadResult(seconds)
    bodies = itertools.cycle(query.wire.partition(b"\r\n\r\n")[2] for query in text_queries())
    end = time.perf_counter() + seconds
    with closing(HTTPConnection("127.0.0.1", service.port, LONGEST, (OTHER, 0))) as connection:
        while (since := time.perf_counter()) < end:
            status, answer = send(connection, "POST", "/v1/search", next(bodies))
            if status == 200:
                load.latencies.append(time.perf_counter() - since)
            else:
                load.refusals.append(answer[:200])
    return load


@dataclass
class HungryTurn:
    """What the other client got, what the hungry one, and how large the service was."""

    load: LoadResult
    largest_bytes: int = 0
    statuses: dict[int, int] = field(default_factory=dict)


def beside(service: RunningService, load: HungryLoad, seconds: float) -> HungryTurn:
    """Searches of one client while another one is hungry."""
    context = multiprocessing.get_context("spawn")
    statuses = context.Array(c_long, 600)
    hungry = context.Process(target=devour, args=(service.port, load, statuses))
    hungry.start()
    until = time.monotonic() + LONGEST
    while not statuses[0] and time.monotonic() < until:  # it has begun
        time.sleep(0.01)
    time.sleep(1.0)
    with watch_memory(service.process) as sizes:
        turn = HungryTurn(search_for(service, seconds))
    turn.largest_bytes = max(sizes)
    turn.statuses = {status: count for status, count in enumerate(statuses[:]) if count and status}
    hungry.terminate()
    hungry.join()
    settle(service)
    return turn


@contextmanager
def watch_memory(process: int) -> Iterator[list[int]]:
    """The sizes of a process, ten times a second."""
    sizes = [resident_bytes(process)]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            sizes.append(resident_bytes(process))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield sizes
    finally:
        over.set()
        thread.join()


def settle(service: RunningService) -> None:
    """Wait until the service does nothing."""
    former = -1.0
    end = time.monotonic() + SETTLE_SECONDS
    while service.cpu() > former + 0.1 and time.monotonic() < end:
        former = service.cpu()
        time.sleep(1.0)


def devour(port: int, load: HungryLoad, statuses: Any) -> None:  # noqa: ANN401 (an array of processes)
    """Ask on all connections, without end."""
    threads = [threading.Thread(target=_devour, args=(port, load, statuses)) for _ in range(load.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _devour(port: int, load: HungryLoad, statuses: Any) -> None:  # noqa: ANN401
    bodies = itertools.cycle(load.bodies)
    while True:
        try:
            with closing(HTTPConnection("127.0.0.1", port, LONGEST, (HUNGRY, 0))) as connection:
                while True:
                    statuses[0] += 1
                    status, _ = send(connection, load.method, load.path, next(bodies))
                    statuses[status] += 1
                    time.sleep(0.05 if status == 429 else 0)
        except (OSError, HTTPException):
            statuses[599] += 1  # none


def send(connection: HTTPConnection, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    """The status, and the last piece of the answer."""
    connection.request(method, path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    piece = last = b""
    while piece := answer.read(READ_BYTES):
        last = piece
    return answer.status, last


def hungry_loads(port: int, connections: int) -> Iterator[HungryLoad]:
    """The heaviest requests that the service says it allows, and jobs that are read all the time."""
    limits = ask(port, "GET", "/v1/info")["limits"]
    texts = [json.loads(query.wire.partition(b"\r\n\r\n")[2])["text"] for query in text_queries()]
    many = [{"text": text} for text in texts[: limits["batch"]]]
    deepest = limits.get("batch_hits", 64 * limits["hits"]) // limits["hits"]
    deep = [{"text": text, "limit": limits["hits"], "explain": True} for text in texts[:deepest]]
    batch = "/v1/search/batch"
    yield HungryLoad(f"a batch of {len(many)} searches", connections, "POST", batch, [encode(searches=many)])
    yield HungryLoad(
        f"a batch of {len(deep)} with `limit: {limits['hits']}` and `explain`",
        connections, "POST", batch, [encode(searches=deep)],
    )  # fmt: skip
    yield HungryLoad(
        f"one search with `limit: {limits['hits']}` and `explain`",
        connections, "POST", "/v1/search", [encode(**one) for one in deep],
    )  # fmt: skip
    ask(port, "POST", "/v1/collections", encode(name="many"))
    items = [{"id": f"item-{n}", "texts": ["red " * (JOB_TEXT // 4)]} for n in range(JOB_ITEMS)]
    job, *_ = (
        ask(port, "POST", "/v1/collections/many/items/bulk", encode(items=items))["job"]["id"]
        for _ in range(JOBS)
    )
    yield HungryLoad("no one, but a job of 10 MB runs", 1, "GET", f"/v1/jobs/{job}")
    yield HungryLoad("followers of a job of 10 MB", 100, "GET", f"/v1/jobs/{job}/events")
    yield HungryLoad("lists of jobs of 10 MB", connections, "GET", "/v1/jobs")
    prepare_large_items(port)
    yield HungryLoad(
        f"pages of payloads of {LARGE_PAYLOAD // 1_000_000} MB",
        connections, "POST", "/v1/collections/large/items/scroll", [encode(limit=limits["page"])],
    )  # fmt: skip


def prepare_large_items(port: int) -> None:
    ask(port, "POST", "/v1/collections", encode(name="large"))
    for number in range(LARGE_ITEMS):
        item = {"id": f"large-{number}", "texts": ["red"], "payload": {"x": "x" * LARGE_PAYLOAD}}
        ask(port, "POST", "/v1/collections/large/items", encode(items=[item]))


def encode(**body: Any) -> bytes:  # noqa: ANN401 (any JSON)
    return json.dumps(body).encode()


def ask(port: int, method: str, path: str, body: bytes = b"") -> Any:  # noqa: ANN401
    with closing(HTTPConnection("127.0.0.1", port, LONGEST)) as connection:
        connection.request(method, path, body, {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())


def _row(load: HungryLoad, idle: LoadResult, turn: HungryTurn, size: int) -> str:
    got = turn.load
    p95 = f"{got.quantile(0.95) / idle.quantile(0.95):.1f} ×" if got.latencies else "none"
    refused = f"{len(got.refusals)} of {len(got.refusals) + len(got.latencies)}"
    answers = ", ".join(f"{count} × {status}" for status, count in turn.statuses.items())
    grown = f"{turn.largest_bytes / size:.2f} ×"
    return row(load.name, f"{got.rate / idle.rate:.2f} ×", p95, refused, answers, grown)
