"""A model hub on this machine: it speaks as much as huggingface-hub asks, and can break off or lie."""

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
    commit: str = COMMIT
    breaks: int = 0  # how often an answer ends early
    after: int = 1000  # bytes
    ranges: bool = True
    lies: dict[str, str] = field(default_factory=dict)  # hashes that are not those of the files
    understates: bool = False  # whether it lists each file with one byte
    licence: str | None = "apache-2.0"
    asked: list[tuple[str, int]] = field(default_factory=list)
    url: str = ""

    def names(self) -> list[str]:
        return sorted(p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if p.is_file())

    def describe(self, name: str) -> dict[str, Any]:
        """A file as the tree lists it."""
        content = (self.folder / name).read_bytes()
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content)}
        if len(content) <= LARGE:
            return {**entry, "oid": self.lies.get(name, blob)}
        sha256 = self.lies.get(name, hashlib.sha256(content).hexdigest())
        return {**entry, "oid": blob, "lfs": {"oid": sha256, "size": len(content), "pointerSize": 134}}

    def summary(self) -> dict[str, Any]:
        """The repository as it is described with its files."""
        siblings = []
        for name in self.names():
            listed = self.describe(name)
            size = 1 if self.understates else listed["size"]
            sibling = {"rfilename": name, "size": size, "blobId": listed["oid"]}
            if "lfs" in listed:
                large = listed["lfs"]
                sibling["lfs"] = {"sha256": large["oid"], "size": large["size"], "pointerSize": 134}
            siblings.append(sibling)
        model: dict[str, Any] = {"id": "own/tiny", "sha": self.commit, "siblings": siblings}
        return model if self.licence is None else {**model, "cardData": {"license": self.licence}}


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub at work, on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            files = f"/own/tiny/resolve/{hub.commit}/"
            if self.path.startswith("/api/models/own/tiny/revision/"):
                self._say(hub.summary())
            elif self.path.startswith(f"/api/models/own/tiny/tree/{hub.commit}"):
                self._say([hub.describe(name) for name in hub.names()])
            elif self.path.startswith(files):
                self._send(self.path.removeprefix(files))
            else:
                self._answer(404, b"", {"X-Error-Code": "RepoNotFound"})

        def _say(self, what: object) -> None:
            self._answer(200, json.dumps(what).encode(), {"Content-Type": "application/json"})

        def _send(self, name: str) -> None:
            content, listed = (hub.folder / name).read_bytes(), hub.describe(name)
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(asked[1]) if asked and hub.ranges else 0
            if self.command == "GET":
                hub.asked.append((name, start))
            etag = listed.get("lfs", listed)["oid"]
            headers = {"X-Repo-Commit": hub.commit, "ETag": f'"{etag}"'}
            if start:
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._answer(206 if start else 200, content[start:], headers)

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            if hub.breaks and len(body) > hub.after and "resolve" in self.path:
                hub.breaks -= 1
                self.wfile.write(body[: hub.after])
                self.close_connection = True
            else:
                self.wfile.write(body)

    with answering(Handler) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub
