"""The proxy of the cluster profile, as nginx reads it, before two real services on one PostgreSQL."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from multifold.client import Client, ServiceError
from tests import tiny
from tests.app.process import serve
from tests.index.servers import Server
from tests.ports import free_ports
from tests.waiting import PATIENCE, until

TEMPLATE = Path(__file__).resolve().parents[2] / "docker" / "proxy" / "multifold.conf.template"
READERS, WRITERS = 3, 2
BEFORE, AFTER = 8, 30  # changes of each writer around the kill


@contextmanager
def nginx(folder: Path, *replicas: str) -> Iterator[str]:
    """The address of the proxy."""
    (port,) = free_ports(1)
    filled = {
        "RESOLVER": "",
        "LISTEN": f"127.0.0.1:{port}",
        "REPLICAS": " ".join(f"server {replica} max_fails=3 fail_timeout=5s;" for replica in replicas),
    }
    site = re.sub(r"\$\{(\w+)\}", lambda name: filled[name[1]], TEMPLATE.read_text(encoding="utf-8"))
    places = "".join(
        f"{what}_temp_path {folder}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {places} {site} }}"
    )
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:

        def listens() -> bool:
            assert process.poll() is None, (folder / "error.log").read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(listens, what="nginx to listen")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(PATIENCE)


needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")


@needs_nginx
def test_where_nobody_answers_clients_are_told_so_and_when_to_ask_again(tmp_path: Path) -> None:
    nobody = [f"127.0.0.1:{port}" for port in (1, 2)]
    with nginx(tmp_path, *nobody) as address, Client(address) as client:
        for _ in range(10):  # until both are known to be away, and beyond
            with pytest.raises(ServiceError, match="no replica answers") as told:
                client.search(text="a red box")
            assert (told.value.status, told.value.code, told.value.retry_after) == (503, "nobody_answers", 1)
        with pytest.raises(ServiceError, match="may have been made"):
            client.update("a", payload={})


@needs_nginx
@pytest.mark.parametrize("head", [b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a"])
def test_a_head_that_does_not_come_is_not_waited_for(
    tmp_path: Path, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = tmp_path / "hasty.conf"
    text = TEMPLATE.read_text(encoding="utf-8")
    hasty.write_text(text.replace("client_header_timeout 10s", "client_header_timeout 1s"), encoding="utf-8")
    monkeypatch.setattr(f"{__name__}.TEMPLATE", hasty)
    with nginx(tmp_path, "127.0.0.1:1") as address:
        port = httpx.URL(address).port
        assert port is not None
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
            line.sendall(head)
            assert b" 200 " not in b"".join(iter(lambda: line.recv(4096), b""))


@pytest.mark.slow
@needs_nginx
@pytest.mark.parametrize("neighbours", ["at home", "in milvus"])
def test_a_replica_that_is_killed_is_not_missed(
    tmp_path: Path, server: Server, neighbours: str, request: pytest.FixtureRequest
) -> None:
    """Every read is answered, no acknowledged change is lost, and no item is ever seen half-changed."""
    bundle, pictures = tmp_path / "bundle", tmp_path / "pictures"
    shared = {"MULTIFOLD_DATABASE": server.place()}
    if neighbours == "in milvus":
        shared["MULTIFOLD_MILVUS"] = request.getfixturevalue("milvus").cluster.uri
    tiny.build(bundle)
    with (
        serve(pictures, bundle, **shared) as one,
        serve(pictures, bundle, **shared) as other,
        one.client() as first,
        other.client() as second,
        nginx(tmp_path, *(f"{c.base_url.host}:{c.base_url.port}" for c in (first, second))) as address,
        httpx.Client(base_url=address, trust_env=False, timeout=PATIENCE) as client,
        ThreadPoolExecutor(READERS + WRITERS) as pool,
    ):
        writing, halfway = threading.Event(), threading.Semaphore(0)
        writing.set()
        reads: Counter[int] = Counter()
        wanted: set[str] = set()  # items that were acknowledged before a search began must be found

        def write(name: str) -> int:
            for number in range(BEFORE + AFTER):
                parts = [("texts", (None, f"{name} edition {number} part {part}")) for part in range(3)]
                payload = ("payload", (None, json.dumps({"edition": number})))
                put = client.put(f"/v1/items/{name}", files=[*parts, payload])
                assert put.status_code == 200, put.text
                wanted.add(name)
                if number == BEFORE:
                    halfway.release()
            return number

        def read() -> None:
            while writing.is_set():
                before = set(wanted)
                answer = client.post("/v1/search", json={"text": "edition", "target": "text", "limit": 20})
                reads[answer.status_code] += 1
                hits = answer.json().get("hits", [])
                assert before <= {hit["id"] for hit in hits}
                for hit in hits:
                    assert f"edition {hit['payload']['edition']} part" in hit["matched"]["text"]
                shown = client.get("/v1/items/a")
                reads[shown.status_code if shown.status_code != 404 else 200] += 1

        readers = [pool.submit(read) for _ in range(READERS)]
        writers = {name: pool.submit(write, name) for name in "ab"}
        try:
            for writer in writers.values():
                while not halfway.acquire(timeout=1):
                    assert not writer.done(), writer.exception()
            os.kill(one.process.pid, signal.SIGKILL)
            last = {name: writer.result() for name, writer in writers.items()}
        finally:
            writing.clear()
        for reader in readers:
            reader.result()
        assert set(reads) == {200}
        assert reads[200] > BEFORE
        for name, number in last.items():
            kept = client.get(f"/v1/items/{name}").json()
            assert kept["payload"] == {"edition": number}
            captions = [one["text"] for one in kept["observations"]]
            assert captions == [f"{name} edition {number} part {part}" for part in range(3)]
