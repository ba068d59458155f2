"""Who asks, and a number of places of which no client takes them all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from app.errors import ApiError

client: ContextVar[str] = ContextVar("client", default="")  # a key's name, or an address; "": our own work
HOST_BITS = 64  # of an IPv6 address, which one client chooses as it likes


@lru_cache
def client_at(address: str) -> str:
    """The client at an address."""
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
