"""Who asks, and what no client has all of: places, and turns on the event loop."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from weakref import WeakValueDictionary

from app.errors import ApiError

client: ContextVar[str] = ContextVar("client", default="")  # a key's name, or an address; "": our own work
key_name: ContextVar[str | None] = ContextVar("key_name", default=None)  # of the key that was presented
REFUSAL_SECONDS = 1.0  # in which a client gets so many refusals at once, and by which others are held back
QUICK_REFUSALS = 8
MOST_REFUSED = 4_096  # clients whose refusals are counted
HOST_BITS = 64  # of an IPv6 address, which one client chooses as it likes


@lru_cache
def client_at(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(IPv6Address(int(parsed) >> HOST_BITS << HOST_BITS)) if parsed.version == 6 else address


class Places:
    """Places for what lasts long; one client has half of them at most. For one event loop."""

    def __init__(self, most: int, what: str, retry_seconds: int) -> None:
        self._most = most
        self._what = what
        self._retry_seconds = retry_seconds
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self) -> Iterator[None]:
        """A place for a while, or a refusal."""
        name = client.get()
        own = self._taken[name]
        if own >= (self._most + 1) // 2 or self._taken.total() >= self._most:
            count = f"{self._taken.total()} {self._what} are open, {own} of them yours"
            raise ApiError(429, "busy", f"{count}; try again in {self._retry_seconds} s", self._retry_seconds)
        self._taken[name] += 1
        try:
            yield
        finally:
            self._taken[name] -= 1
            self._taken += Counter()  # forgets who has none


class Refusals:
    """Holds back refusals of a client who asks on all the same: each costs what a small answer costs.

    Who waits as long as a refusal says is not held back. For one event loop.
    """

    def __init__(self) -> None:
        # By client, who was refused last coming last: since when, and how many.
        self._counts: dict[str, tuple[float, int]] = {}

    async def hold(self) -> None:
        """Wait before a refusal is sent, if this client had many of them within a moment."""
        now = asyncio.get_running_loop().time()
        since, count = self._counts.pop(client.get(), (now, 0))
        if now - since > REFUSAL_SECONDS:
            since, count = now, 0
        self._counts[client.get()] = since, count + 1
        if len(self._counts) > MOST_REFUSED:
            del self._counts[next(iter(self._counts))]
        if count >= QUICK_REFUSALS:
            await asyncio.sleep(REFUSAL_SECONDS)


class ClientLimit:
    """Requests of each client that are at work at once; others wait. For one event loop.

    The event loop has no turns of its own: what is at work there holds up all others.
    """

    def __init__(self, most: int, room: int) -> None:
        self._most = most
        self._room = room
        self._waiting: Counter[str] = Counter()
        self._limits: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def refuse_if_full(self) -> None:
        """Refuse a request before any work is done for it."""
        waiting = self._waiting[client.get()]
        if waiting >= self._room:
            raise ApiError(429, "busy", f"{waiting} of your requests are waiting; try again in 1 s", 1)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        name = client.get()
        limit = self._limits.setdefault(name, asyncio.Semaphore(self._most))
        self._waiting[name] += 1
        try:
            await limit.acquire()
        finally:
            self._waiting[name] -= 1
            self._waiting += Counter()
        try:
            yield
        finally:
            limit.release()
