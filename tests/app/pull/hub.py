"""A model hub on this machine: it lists a folder's files, answers ranges, and breaks off as it is told."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.answering import answering

COMMIT = "c0ffee" + "0" * 34
LARGE = 2000  # bytes; above, a file is listed with its sha256, below with git's own hash


@dataclass
class Hub:
    """What it serves, and how badly. `asked` are the ranges of each file, in order."""

    folder: Path
    breaks: int = 0  # how often an answer ends early
    after: int = 1000  # bytes
    ranges: bool = True
    lies: dict[str, dict[str, Any]] = field(default_factory=dict)  # what is listed otherwise than it is
    licence: str | None = "apache-2.0"
    asked: list[tuple[str, int]] = field(default_factory=list)
    url: str = ""

    def listing(self) -> list[dict[str, Any]]:
        """The tree of the one commit."""
        names = sorted(p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if p.is_file())
        return [self._entry(name) for name in names]

    def _entry(self, name: str) -> dict[str, Any]:
        content = (self.folder / name).read_bytes()
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content)}
        entry["oid"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        if len(content) > LARGE:
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content)}
        lies = self.lies.get(name, {})
        if "lfs" in entry and "lfs" in lies:
            entry["lfs"] = {**entry["lfs"], **lies["lfs"]}
        return {**entry, **{key: value for key, value in lies.items() if key != "lfs"}}


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub at work, on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/api/models/own/tiny/revision/"):
                self._say({"sha": COMMIT, "cardData": {"license": hub.licence}})
            elif self.path.startswith(f"/api/models/own/tiny/tree/{COMMIT}"):
                self._list()
            elif self.path.startswith(f"/own/tiny/resolve/{COMMIT}/"):
                self._send(self.path.removeprefix(f"/own/tiny/resolve/{COMMIT}/"))
            else:
                self.send_error(404)

        def _list(self) -> None:
            """In two pages, as long lists come."""
            listing, second = hub.listing(), "cursor=2" in self.path
            half = len(listing) // 2
            link = f'<{hub.url}{self.path}&cursor=2>; rel="next"'
            self._say(listing[half:] if second else listing[:half], {} if second else {"Link": link})

        def _say(self, what: object, headers: dict[str, str] | None = None) -> None:
            self._answer(200, json.dumps(what).encode(), headers or {})

        def _send(self, name: str) -> None:
            content = (hub.folder / name).read_bytes()
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(asked[1]) if asked and hub.ranges else 0
            hub.asked.append((name, start))
            part = f"bytes {start}-{len(content) - 1}/{len(content)}"
            headers = {"Content-Range": part} if start else {}
            self._answer(206 if start else 200, content[start:], headers)

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if hub.breaks and len(body) > hub.after and "resolve" in self.path:
                hub.breaks -= 1
                self.wfile.write(body[: hub.after])
                self.close_connection = True
            else:
                self.wfile.write(body)

    with answering(Handler) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub
