"""A Manyfold on this machine: as much of version 0 of its API as its OpenAPI description says of reading.

It names a host in its addresses that nobody can reach, as one does behind a proxy. What is asked without its
media type, or without a token, is sent to a page, as there.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.answering import answering

MEDIA_TYPE = "application/vnd.manyfold.v0+json"
INSIDE = "http://manyfold.invalid:3214"
SECRET = {"client_id": "an-id", "client_secret": "a-secret"}
CONTEXT = ["https://schema.org/", {"hydra": "http://www.w3.org/ns/hydra/core#"}]


@dataclass
class Model:
    """A model, and its files by their names: media type and bytes."""

    name: str
    files: dict[str, tuple[str, bytes]]
    fields: dict[str, Any] = field(default_factory=dict)  # others that a model may have
    shown: str | None = None  # the file that stands for it


@dataclass
class Manyfold:
    """What it has, what it was asked for, and how badly it answers."""

    models: dict[str, Model] = field(default_factory=dict)
    creators: dict[str, str] = field(default_factory=dict)
    page: int = 2
    busy: int = 0  # answers of 429 to come
    tokens: int = 0  # that were given
    expire: int = 0  # answers after which the token of today is good for nothing
    good: str = ""
    asked: list[str] = field(default_factory=list)
    url: str = ""
    at: str = ""  # where the bytes of files are said to be; else below the model
    onward: str = ""  # where those who ask for bytes are sent
    endless: bool = False  # whether each page of models names another one

    def listed(self, page: int) -> dict[str, Any]:
        if self.endless:
            next_page = {"next": f"/models?page={page + 1}"}
            return {"member": [_reference(f"/models/m{page}")], "view": next_page}
        ids = [*self.models]
        pages = max(1, -(-len(ids) // self.page))
        view = {"@id": f"/models?page={page}", "first": "/models?page=1", "last": f"/models?page={pages}"}
        if page < pages:
            view["next"] = f"/models?page={page + 1}"
        some = ids[(page - 1) * self.page : page * self.page]
        members = [{**_reference(f"/models/{one}"), "name": self.models[one].name} for one in some]
        whole = {"@id": "/models", "@type": "hydra:Collection", "totalItems": len(ids)}
        return {"@context": CONTEXT, **whole, "member": members, "view": view}

    def described(self, model: str) -> dict[str, Any]:
        one = self.models[model]
        files = f"/models/{model}/model_files"
        parts = [
            {**_reference(f"{files}/{_file_id(name)}"), "name": name, "encodingFormat": kind}
            for name, (kind, _) in one.files.items()
        ]
        shown = {} if one.shown is None else {"preview_file": _reference(f"{files}/{_file_id(one.shown)}")}
        own = _reference(f"/models/{model}")
        return {"@context": CONTEXT, **own, "name": one.name, "hasPart": parts, **shown, **one.fields}

    def file(self, model: str, file: str) -> dict[str, Any]:
        name = next(name for name in self.models[model].files if _file_id(name) == file)
        kind, data = self.models[model].files[name]
        where = f"/models/{model}/model_files/{file}"
        return {
            **_reference(where),
            "isPartOf": _reference(f"/models/{model}"),
            "filename": name,
            "encodingFormat": kind,
            "contentUrl": self.at or f"/models/{model}/raw/{name}",
            "contentSize": len(data),
        }


def _reference(path: str) -> dict[str, str]:
    return {"@id": f"{INSIDE}{path}", "@type": "3DModel"}


def _file_id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


@contextmanager
def serving(manyfold: Manyfold) -> Iterator[Manyfold]:
    """The server at work, on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            if self.path != "/oauth/token" or form.get("grant_type") != "client_credentials":
                self._answer(404, b"")
            elif form.items() >= SECRET.items() and form.get("scope") == "read":
                manyfold.tokens += 1
                manyfold.good = f"token-{manyfold.tokens}"
                given = {"access_token": manyfold.good, "token_type": "Bearer"}
                self._say({**given, "expires_in": 7200}, "application/json")
            else:
                why = {"error": "invalid_client", "error_description": "unknown client"}
                self._answer(401, json.dumps(why).encode(), {"content-type": "application/json"})

        def do_GET(self) -> None:
            manyfold.asked.append(self.path)
            manyfold.expire -= 1
            if manyfold.expire == 0:
                manyfold.good = ""
            match urlsplit(self.path).path.strip("/").split("/"):
                case ["sign_in"]:
                    self._answer(200, b"<html>", {"content-type": "text/html"})
                case _ if manyfold.busy:
                    manyfold.busy -= 1
                    self._answer(429, b"", {"retry-after": "0"})
                case [*_, "raw", _] if manyfold.onward:
                    self._answer(302, b"", {"location": manyfold.onward})
                case ["models", model, "raw", name] if self._is_allowed():
                    kind, data = manyfold.models[model].files[name]
                    self._answer(200, data, {"content-type": kind})
                case _ if not self._is_allowed():
                    self._answer(401, b"")
                case _ if self.headers.get("accept") != MEDIA_TYPE:
                    self._answer(302, b"", {"location": "/sign_in"})
                case ["models"]:
                    query = parse_qs(urlsplit(self.path).query)
                    self._say(manyfold.listed(int(query.get("page", ["1"])[0])))
                case ["models", model]:
                    self._say(manyfold.described(model))
                case ["models", model, "model_files", file]:
                    self._say(manyfold.file(model, file))
                case ["creators", name]:
                    self._say({**_reference(f"/creators/{name}"), "name": manyfold.creators[name]})
                case _:
                    self._answer(404, b"")

        def _is_allowed(self) -> bool:
            return self.headers.get("authorization") == f"Bearer {manyfold.good}"

        def _say(self, what: object, kind: str = MEDIA_TYPE) -> None:
            body = json.dumps(what).encode()
            tag = f'W/"{hashlib.sha256(body).hexdigest()}"'
            self._answer(200, body, {"content-type": kind, "etag": tag})

        def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {**(headers or {}), "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    with answering(Handler) as port:
        manyfold.url = f"http://127.0.0.1:{port}"
        yield manyfold
