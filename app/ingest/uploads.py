"""Texts and files that clients hand in, as uploads, data URIs or addresses, within the limits.

A file name gives nothing but its suffix; it never becomes a path. An address is fetched from hosts that a
setting names, or from public ones, or not at all. A connection goes to the very network address that was
checked, so a name that resolves elsewhere a moment later leads nowhere. Redirections are checked too."""

import asyncio
import re
import socket
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import PurePosixPath

import httpx

from app.encoding.observations import MeshData
from app.errors import ApiError
from app.settings import split_list
from multifold.wire.files import Picture, UploadedFile, is_address, read_data_uri
from renderers.mesh.formats.table import MEDIA_TYPES, SIGNATURES

SAFE_SUFFIX = re.compile(r"\.[a-z0-9]{1,16}", re.ASCII)
PICTURE_TYPES = {".jpg": "image/jpeg", ".tif": "image/tiff"}
PICTURE_TYPES |= {f".{kind}": f"image/{kind}" for kind in ("png", "webp", "gif", "bmp", "avif", "heif")}


def check_many(count: int, what: str, most: int) -> None:
    """Not more of them in one request than are allowed."""
    if count > most:
        raise ApiError(422, "too_many", f"one request holds {most} {what} at most, not {count}")


def check_text(text: str, most: int) -> str:
    """Words, neither none nor too many."""
    if not text.strip():
        raise ApiError(422, "bad_text", "the text is empty; send words")
    if len(text) > most:
        raise ApiError(422, "bad_text", f"the text has {len(text):,} characters; {most:,} are the most")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ApiError(422, "bad_request", "the text has half of a character (a lone surrogate)") from None
    return text


def read_upload(file: Picture, what: str) -> UploadedFile:
    """A file of a request: one of a form, or one as a data URI."""
    if isinstance(file, UploadedFile):
        return file
    try:
        held = read_data_uri(file) if isinstance(file, str) else None  # only clients have other forms
    except ValueError:
        raise ApiError(422, f"bad_{what}", f"the base64 of '{what}' is damaged") from None
    if held is None:
        raise ApiError(422, f"bad_{what}", f"'{what}' must be a file or a data URI: data:TYPE;base64,…")
    return held


def read_mesh_file(file: UploadedFile, form: str | None = None) -> MeshData:
    """A mesh with its format: `form`, else by the file name, the media type or the first bytes."""
    suffix = f".{form.lower().lstrip('.')}" if form else PurePosixPath(file.name).suffix.lower()
    if SAFE_SUFFIX.fullmatch(suffix):
        return MeshData(file.data, suffix)
    if file.media_type in MEDIA_TYPES:
        return MeshData(file.data, MEDIA_TYPES[file.media_type])
    for start, suffix in SIGNATURES.items():
        if file.data.startswith(start):
            return MeshData(file.data, suffix)
    sentence = "cannot tell the format of the mesh; say it with 'mesh_format', such as glb"
    raise ApiError(422, "bad_mesh", sentence)


PUBLIC_HOSTS = "public"
ACCEPTED_TYPES = {
    "image": ("image/", "application/octet-stream"),
    "mesh": ("model/", "application/", "text/plain"),
}
MOST_REDIRECTIONS = 3
FETCH_SECONDS = 20.0  # for one file, all in all
FETCHES_AT_ONCE = 8  # files, for all requests together
NAT64_NETWORK = IPv6Network("64:ff9b::/96")  # IPv4 as a network of IPv6 alone sees it
COMPATIBLE_NETWORKS = IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96")  # IPv4 in older forms
CLOSED_NETWORKS = IPv6Network("64:ff9b:1::/48"), IPv6Network("3fff::/20")  # local NAT64, documentation
_ssl_context = cache(httpx.create_ssl_context)
_refusal = partial(ApiError, 422, "url_refused")


class FileFetcher:
    """Fetches what may be fetched."""

    def __init__(self, allowed: str, most: int) -> None:
        self._allowed = frozenset(split_list(allowed.lower()))
        self._most = most
        self._turns = asyncio.Semaphore(FETCHES_AT_ONCE)

    async def fetch(self, address: str, what: str, most: int) -> UploadedFile:
        """The file at an address; one of more than `most` bytes is refused."""
        try:
            async with self._turns, asyncio.timeout(FETCH_SECONDS):
                url = httpx.URL(address)
                for _ in range(1 + MOST_REDIRECTIONS):
                    found = await self._hop(url, what, most)
                    if isinstance(found, UploadedFile):
                        return found
                    url = found
        except TimeoutError:
            raise _fetch_error(what, f"did not come within {FETCH_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError):
            raise _fetch_error(what, "cannot be fetched from its address") from None
        raise _fetch_error(what, f"is redirected more than {MOST_REDIRECTIONS} times")

    async def _hop(self, url: httpx.URL, what: str, most: int) -> UploadedFile | httpx.URL:
        there = url.copy_with(host=await self._checked(url, what))
        asked = {"host": url.netloc.decode(), "accept-encoding": "identity", "user-agent": "multifold"}
        async with (
            httpx.AsyncClient(verify=_ssl_context(), trust_env=False, timeout=FETCH_SECONDS) as client,
            client.stream("GET", there, headers=asked, extensions={"sni_hostname": url.host}) as response,
        ):
            if response.has_redirect_location:
                return url.join(response.headers["location"])
            if response.status_code != httpx.codes.OK:
                raise _fetch_error(what, f"is answered with {response.status_code} by its host")
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind and not kind.startswith(ACCEPTED_TYPES[what]):
                raise _fetch_error(what, f"is {kind}, as its host says")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise _fetch_error(what, "comes packed, though it was asked for as it is")
            data = bytearray()
            async for piece in response.aiter_raw():
                data += piece
                if len(data) > most:
                    raise ApiError(413, "too_large", f"an item's files have {self._most:,} bytes at most")
        return UploadedFile(bytes(data), PurePosixPath(url.path).name, kind)

    async def _checked(self, url: httpx.URL, what: str) -> str:
        """The network address of a host that may be asked."""
        if not self._allowed:
            raise _refusal("this service fetches nothing from addresses; send the file itself, or a data URI")
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            raise _refusal(f"the address of '{what}' must be plain http:// or https://")
        host = url.netloc.decode().lower()
        named = host in self._allowed
        if not named and (PUBLIC_HOSTS not in self._allowed or url.port is not None):
            raise _refusal(f"this service fetches nothing from {host}")
        port = url.port or (443 if url.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        found = [str(one[4][0]) for one in await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)]
        if not named and not all(map(is_public, found)):
            raise _refusal(f"{url.host} is no public host, nor one that may be asked")
        return found[0]


@dataclass
class ItemFiles:
    """Reads the files of one item that are data URIs or addresses, up to `bytes_left` in all."""

    fetcher: FileFetcher
    bytes_left: int

    async def load(self, value: Picture, what: str) -> UploadedFile:
        """A file of the request, or the one that an address names."""
        if not is_address(value):
            return read_upload(value, what)
        file = await self.fetcher.fetch(value, what, self.bytes_left)
        self.bytes_left -= len(file.data)
        return file


def is_public(address: str) -> bool:
    """Whether everybody would meet the same host there: neither this machine nor one of our networks."""
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if any(found in network for network in (NAT64_NETWORK, *COMPATIBLE_NETWORKS)):
            inner = IPv4Address(int(found) & 0xFFFF_FFFF)
        if found.is_site_local or found.teredo or any(found in network for network in CLOSED_NETWORKS):
            return False
        found = inner or found
    return found.is_global and not found.is_multicast


def _fetch_error(what: str, why: str) -> ApiError:
    return ApiError(422, "url_failed", f"the file of '{what}' {why}")
