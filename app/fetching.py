"""Files that items name by address: fetched from hosts that a setting names, or public ones, or not at all.

A connection goes to the very network address that was checked: a name that leads elsewhere a moment later
leads nowhere. Redirections are checked like the rest.
"""

import asyncio
import socket
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import PurePosixPath
from ssl import SSLContext

from app.errors import ApiError
from app.uploads import File, from_data_uri
from multifold.errors import needs_extra
from multifold.uploads import is_address

with needs_extra("serve"):
    import httpx

PUBLIC = "public"
TYPES = {"image": ("image/", "application/octet-stream"), "mesh": ("model/", "application/", "text/plain")}
REDIRECTIONS = 3
SECONDS = 20.0  # for one file, all in all
AT_ONCE = 8  # files, for all requests together
TRANSLATED = IPv6Network("64:ff9b::/96")  # IPv4 as a network of IPv6 alone sees it


class Fetcher:
    """Fetches what may be fetched."""

    def __init__(self, allowed: str, most: int) -> None:
        self._allowed = frozenset(one.strip().lower() for one in allowed.split(",") if one.strip())
        self._most, self._turns = most, asyncio.Semaphore(AT_ONCE)

    def parcel(self) -> "Parcel":
        """All files of one item, which may be as large together as if they had been sent."""
        return Parcel(self, self._most)

    async def fetch(self, address: str, what: str, most: int) -> File:
        """The file at an address, if it has so many bytes at most."""
        try:
            async with self._turns, asyncio.timeout(SECONDS):
                url = httpx.URL(address)
                for _ in range(1 + REDIRECTIONS):
                    found = await self._hop(url, what, most)
                    if isinstance(found, File):
                        return found
                    url = found
        except TimeoutError:
            raise _failed(what, f"did not come within {SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError):
            raise _failed(what, "cannot be fetched from its address") from None
        raise _failed(what, f"is redirected more than {REDIRECTIONS} times")

    async def _hop(self, url: httpx.URL, what: str, most: int) -> File | httpx.URL:
        """What is there, or where it is instead."""
        there = url.copy_with(host=await self._checked(url, what))
        asked = {"host": url.netloc.decode(), "accept-encoding": "identity", "user-agent": "multifold"}
        async with (
            httpx.AsyncClient(verify=_trust(), trust_env=False, timeout=SECONDS) as client,
            client.stream("GET", there, headers=asked, extensions={"sni_hostname": url.host}) as response,
        ):
            if response.has_redirect_location:
                return url.join(response.headers["location"])
            if response.status_code != httpx.codes.OK:
                raise _failed(what, f"is answered with {response.status_code} by its host")
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind and not kind.startswith(TYPES[what]):
                raise _failed(what, f"is {kind}, as its host says")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise _failed(what, "comes packed, though it was asked for as it is")
            data = bytearray()
            async for piece in response.aiter_raw():
                data += piece
                if len(data) > most:
                    raise ApiError(413, "too_large", f"an item's files have {self._most:,} bytes at most")
        return File(bytes(data), PurePosixPath(url.path).name, kind)

    async def _checked(self, url: httpx.URL, what: str) -> str:
        """The network address of a host that may be asked."""
        if not self._allowed:
            sentence = "this service fetches nothing from addresses; send the file itself, or a data URI"
            raise ApiError(422, "url_refused", sentence)
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            raise ApiError(422, "url_refused", f"the address of '{what}' must be plain http:// or https://")
        host = url.netloc.decode().lower()
        named = host in self._allowed
        if not named and (PUBLIC not in self._allowed or url.port is not None):
            raise ApiError(422, "url_refused", f"this service fetches nothing from {host}")
        port = url.port or (443 if url.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        found = [str(one[4][0]) for one in await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)]
        if not named and not all(map(is_public, found)):
            raise ApiError(422, "url_refused", f"{url.host} is no public host, nor one that may be asked")
        return found[0]


class Parcel:
    """The files of one item, however they are handed in."""

    def __init__(self, fetcher: Fetcher, left: int) -> None:
        self._fetcher, self._left = fetcher, left

    async def file(self, value: str | File, what: str) -> File:
        """A file that came, or that a data URI holds or an address names."""
        if isinstance(value, File):
            return value
        if not is_address(value):
            return from_data_uri(value, what)
        found = await self._fetcher.fetch(value, what, self._left)
        self._left -= len(found.data)
        return found


def is_public(address: str) -> bool:
    """Whether everybody would meet the same host there: neither this machine nor one of our networks."""
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found in TRANSLATED:
            inner = IPv4Address(int(found) & 0xFFFF_FFFF)
        if inner is not None:
            found = inner
        elif found.teredo is not None:
            return False
    return found.is_global and not found.is_multicast


@cache
def _trust() -> SSLContext:
    return httpx.create_ssl_context()


def _failed(what: str, why: str) -> ApiError:
    return ApiError(422, "url_failed", f"the file of '{what}' {why}")
