"""Manyfold (https://manyfold.app), by version 0 of its API: JSON-LD, and OAuth's client credentials.

An item is a model with its name, caption, description, tags, creator, licence and page. A model has many
files: its mesh is the one that Manyfold shows, or else the first of the best format. Addresses in answers may
name a host of another network, so only their path counts; and the token goes to the given scheme, host and
port alone. What leads elsewhere is not asked.
"""

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import httpx

from app.libraries.contracts import LibraryError, LibraryFile, LibraryItem, LibraryLimits
from multifold.durable import replace_file
from multifold.files.folder import PICTURE_SUFFIXES
from renderers.mesh.formats.table import EXTENSIONS

MEDIA_TYPE = "application/vnd.manyfold.v0+json"
CREDENTIALS = ("MANYFOLD_CLIENT_ID", "MANYFOLD_CLIENT_SECRET")  # in the environment
ID = re.compile(r"\w[\w-]{0,63}", re.ASCII)
# Media types of meshes, the best first.
MESH_TYPES = (
    *("model/gltf-binary", "model/gltf+binary", "model/gltf", "model/3mf", "model/x-ply", "model/stl"),
    *("model/vnd.collada+xml", "model/obj", "model/step"),
)
WHOLE_MESHES = tuple(suffix for suffix in EXTENSIONS if suffix != ".gltf")  # no files beside it are needed
MOST_PICTURES, MOST_MESHES = 8, 16  # of one model, that are looked at
MOST_JSON_BYTES = 16 << 20
MOST_REDIRECTS = 5
MOST_PAGES = 10_000  # of the list of models; a Manyfold has some dozens on each
MOST_LETTERS = 1_000  # of a text
TIMEOUT_SECONDS = 60.0
TRIES = 5  # of a request to a server that is busy
WAIT_SECONDS, LONGEST_WAIT = 2.0, 60.0  # between two of them, unless the server says how long; and at most
BUSY_STATUSES = (429, 502, 503)
REASONS = {
    401: "it does not accept its own token any more",
    403: "the application may not read this; it needs the scope 'read'",
    404: "there is no such thing any more",
}


class ManyfoldLibrary:
    """The models that an application of a Manyfold server may read."""

    def __init__(self, address: str, limits: LibraryLimits) -> None:
        self._address = _server_address(address)
        self._home = httpx.URL(self._address)
        self._limits = limits
        self.name = "-".join(filter(None, ("manyfold", self._home.host, str(self._home.port or ""))))
        self._client_id, self._client_secret = _read_credentials(self._address)
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS, follow_redirects=False)
        self._token: str | None = None
        self._token_turn = threading.Lock()
        self._creators: dict[str, str | None] = {}
        self._read_bytes = 0  # in all

    def ids(self) -> Sequence[str]:
        found: dict[str, None] = {}
        page = 1
        with self._understood():
            while True:
                listed = self._json(f"/models?page={page}")
                before = len(found)
                found.update(dict.fromkeys(_id_of(one) for one in listed["member"]))
                if len(found) > self._limits.items:
                    most = f"more than {self._limits.items} models"
                    raise LibraryError(f"{self._address} lists {most}; --library-items allows more")
                if len(found) == before or "next" not in listed.get("view", {}):
                    return [*found]
                page += 1
                if page > MOST_PAGES:
                    raise LibraryError(f"{self._address} lists its models on more than {MOST_PAGES:,} pages")

    def read(self, id: str) -> LibraryItem:  # noqa: A002
        with self._understood():
            model = self._json(f"/models/{id}")
            payload = {
                "name": model.get("name"),
                "tags": list(model.get("keywords") or ()),
                "creator": self._creator(model.get("creator")),
                "licence": (model.get("spdx:license") or {}).get("licenseId"),
                "link": f"{self._address}/models/{id}",
            }
            said = [str(model.get(key) or "").strip() for key in ("name", "caption", "description")]
            texts = tuple(dict.fromkeys(text[:MOST_LETTERS] for text in said if text))
            files = tuple(self._files(id, model))
        return LibraryItem(texts, files, {key: value for key, value in payload.items() if value})

    def fetch(self, file: LibraryFile, path: Path) -> None:
        with closing(self._send(file.address)) as response, self._reached():
            if response.headers.get("content-type", "").startswith("text/html"):
                raise LibraryError(f"{file.address} is a page and not the file; may the application read it?")
            with replace_file(path) as out:
                for piece in self._pieces(response, self._limits.file_bytes, "--library-bytes allows more"):
                    out.write(piece)

    def _files(self, model_id: str, model: Mapping[str, Any]) -> Iterator[LibraryFile]:
        """The mesh of a model and its pictures, first of each what Manyfold shows of it."""
        shown = (model.get("preview_file") or {}).get("@id")
        parts = sorted(model.get("hasPart") or (), key=lambda part: part["@id"] != shown)
        meshes = [part for part in parts if part["encodingFormat"] in MESH_TYPES]
        meshes.sort(key=lambda part: (part["@id"] != shown, MESH_TYPES.index(part["encodingFormat"])))
        pictures = [part for part in parts if part["encodingFormat"].startswith("image/")][:MOST_PICTURES]
        yield from islice(self._readable(model_id, meshes[:MOST_MESHES], WHOLE_MESHES), 1)
        yield from self._readable(model_id, pictures, PICTURE_SUFFIXES)

    def _readable(
        self, model_id: str, parts: Sequence[Mapping[str, Any]], suffixes: Sequence[str]
    ) -> Iterator[LibraryFile]:
        for part in parts:
            file_id = _id_of(part)
            where = f"/models/{model_id}/model_files/{file_id}"
            described, tag = self._tagged_json(where)
            address = self._at_home(described["contentUrl"])
            suffix = PurePosixPath(address.path).suffix.lower()
            if suffix in suffixes:
                told = json.dumps({**described, "contentUrl": address.path}, sort_keys=True)
                version = tag or hashlib.sha256(told.encode()).hexdigest()
                yield LibraryFile(f"{file_id}{suffix}", version, str(address))

    def _creator(self, reference: Mapping[str, Any] | None) -> str | None:
        """The name of a creator, each of which is asked for once."""
        if not reference:
            return None
        name = _id_of(reference)
        if name not in self._creators:
            self._creators[name] = self._json(f"/creators/{name}").get("name")
        return self._creators[name]

    def _json(self, path: str) -> Mapping[str, Any]:
        return self._tagged_json(path)[0]

    def _tagged_json(self, path: str) -> tuple[Mapping[str, Any], str | None]:
        with closing(self._send(f"{self._address}{path}", MEDIA_TYPE)) as response, self._reached():
            if "json" not in response.headers.get("content-type", ""):
                raise LibraryError(f"{self._address}{path} answers with a page; is that a Manyfold?")
            said = b"".join(self._pieces(response, MOST_JSON_BYTES, "no answer of the API is so long"))
            return json.loads(said), response.headers.get("etag")

    def _at_home(self, reference: str) -> httpx.URL:
        """An address on the given host, whatever host a reference names."""
        path = httpx.URL(reference).raw_path.decode()
        address = self._home.join("/" + path.lstrip("/\\"))
        self._refuse_elsewhere(address, reference)
        return address

    def _refuse_elsewhere(self, address: httpx.URL, asked: str) -> None:
        """Refuse what is not of the given scheme, host and port: it would get the token, or reach inside."""
        if _origin(address) != _origin(self._home) or address.userinfo:
            raise LibraryError(f"{asked} leads to {address}, and the token is for {self._address} alone")

    def _pieces(self, response: httpx.Response, most: int, advice: str) -> Iterator[bytes]:
        """The body of an answer, as far as it is no longer than that, nor all answers together too long."""
        size = 0
        for piece in response.iter_bytes():
            size += len(piece)
            if size > most:
                raise LibraryError(f"{response.url} has more than {most} bytes; {advice}")
            self._read_bytes += len(piece)
            self._refuse_more()
            yield piece

    def _refuse_more(self) -> None:
        most = self._limits.all_bytes
        if self._read_bytes > most:
            raise LibraryError(
                f"{self._address} sends more than {most} bytes in all; --library-total allows more"
            )

    def _send(self, address: str, media_type: str = "*/*") -> httpx.Response:
        """An answer whose body is to be read; it is asked for again with a new token, or later."""
        self._refuse_more()
        refused = None
        for left in reversed(range(TRIES)):
            token = self._bearer(refused)
            headers = {"authorization": f"Bearer {token}", "accept": media_type}
            response = self._follow(address, headers)
            status = response.status_code
            if status == httpx.codes.OK:
                return response
            response.close()
            if status == httpx.codes.UNAUTHORIZED and refused is None:
                refused = token  # they expire
            elif status in BUSY_STATUSES and left:
                later = response.headers.get("retry-after", "")
                time.sleep(min(float(later), LONGEST_WAIT) if later.isdecimal() else WAIT_SECONDS)
            else:
                break
        raise LibraryError(f"{address}: {REASONS.get(status, f'the answer is {status}')}")

    def _follow(self, address: str, headers: Mapping[str, str]) -> httpx.Response:
        """The answer at an address, or where it leads on the same host; its body is to be read."""
        for _ in range(MOST_REDIRECTS + 1):
            with self._reached():
                request = self._http.build_request("GET", address, headers=headers)
                self._refuse_elsewhere(request.url, address)
                response = self._http.send(request, stream=True)
            if not response.has_redirect_location:
                return response
            response.close()
            with self._reached():
                onward = response.url.join(response.headers["location"])
            self._refuse_elsewhere(onward, address)
            address = str(onward)
        raise LibraryError(f"{address} leads from one address to the next")

    def _bearer(self, refused: str | None) -> str:
        """The token, or a new one in place of one that was refused."""
        with self._token_turn:
            if self._token is None or self._token == refused:
                self._token = self._new_token()
            return self._token

    def _new_token(self) -> str:
        form = {"grant_type": "client_credentials", "scope": "read"}
        form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        with self._reached():
            response = self._http.post(f"{self._address}/oauth/token", data=form)
        try:
            answer = response.json()
            if response.is_success:
                return str(answer["access_token"])
            why = answer.get("error_description") or answer["error"]
        except (KeyError, TypeError, ValueError, AttributeError):
            why = f"the answer is {response.status_code}; is that a Manyfold?"
        raise LibraryError(f"{self._address} gives no token for {CREDENTIALS[0]}: {why}")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise LibraryError(f"{self._address} cannot be reached ({error})") from error

    @contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, httpx.InvalidURL) as error:
            raise LibraryError(f"{self._address} answers otherwise than API v0 says ({error!r})") from error


def _server_address(address: str) -> str:
    address = address.rstrip("/")
    if "://" not in address:
        address = f"https://{address}"
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise LibraryError(f"{address!r} is no address of a Manyfold; write manyfold:https://models.example")
    return address


def _read_credentials(address: str) -> tuple[str, str]:
    first, second = (os.environ.get(name, "") for name in CREDENTIALS)
    if not first or not second:
        names = " and ".join(CREDENTIALS)
        raise LibraryError(
            f"set {names}: those of an application with the scope 'read', from {address}/oauth/applications"
        )
    return first, second


def _origin(address: httpx.URL) -> tuple[str, str, int | None]:
    return address.scheme, address.host, address.port


def _id_of(reference: Mapping[str, Any]) -> str:
    """The id of a model, a file or a creator: the last part of its address."""
    name = PurePosixPath(httpx.URL(reference["@id"]).path).name
    if not ID.fullmatch(name):
        raise ValueError(f"the id {name!r}")
    return name
