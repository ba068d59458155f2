"""Clients that cost little: each keeps one connection and asks again as soon as it is answered."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"


@dataclass
class LoadResult:
    """Seconds of each answer, and the first lines of refusals."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    refusals: list[bytes] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """The latency that this share of the answers stayed under."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def post_request(path: str, body: bytes, kind: str) -> bytes:
    fields = {"host": "localhost", "content-type": kind, "content-length": len(body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def run_load(host: str, port: int, requests: Sequence[bytes], clients: int, seconds: float) -> LoadResult:
    """Run a number of clients for some seconds, all with one list of requests."""
    return asyncio.run(_run(host, port, requests, clients, seconds))


async def _run(host: str, port: int, requests: Sequence[bytes], clients: int, seconds: float) -> LoadResult:
    load = LoadResult(seconds)
    loop = asyncio.get_running_loop()
    todo = cycle(requests)
    made = [await loop.create_connection(lambda: _Client(todo, load), host, port) for _ in range(clients)]
    end = time.perf_counter() + seconds
    cpu = time.process_time()
    for _, client in made:
        client.begin(end)
    await asyncio.gather(*(client.done for _, client in made))
    load.cpu = time.process_time() - cpu
    return load


class _Client(asyncio.Protocol):
    def __init__(self, todo: Iterator[bytes], load: LoadResult) -> None:
        self._todo = todo
        self._load = load
        self._got = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def begin(self, end: float) -> None:
        """Send requests until then; later answers do not count."""
        self._end = end
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._got += data
        head = self._got.find(HEAD_END)
        if head < 0 or len(self._got) < head + len(HEAD_END) + _length(self._got[:head]):
            return
        now = time.perf_counter()
        if self._got.startswith(b"HTTP/1.1 200"):
            if now < self._end:
                self._load.latencies.append(now - self._since)
        else:
            self._load.refusals.append(self._got[:200])
        self._got = b""
        if now < self._end:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _ask(self) -> None:
        self._since = time.perf_counter()
        self._transport.write(next(self._todo))


def _length(head: bytes) -> int:
    lowered = head.lower()
    start = lowered.index(LENGTH) + len(LENGTH)
    return int(lowered[start:].split(b"\r\n", 1)[0])
