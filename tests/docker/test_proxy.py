"""The proxy of the cluster profile, as nginx reads it, before two real services on one PostgreSQL."""

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from multifold.client import Client, ServiceError
from tests.app.process import serve
from tests.drills.traffic import Traffic
from tests.index.servers import Server
from tests.ports import free_ports
from tests.waiting import PATIENCE, until

TEMPLATE = Path(__file__).resolve().parents[2] / "docker" / "proxy" / "multifold.conf.template"


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
    tmp_path: Path, bundle: Path, server: Server, neighbours: str, request: pytest.FixtureRequest
) -> None:
    """Every request is answered, no acknowledged change is lost, and no item is ever seen half-changed."""
    shared = {"MULTIFOLD_DATABASE": server.place()}
    if neighbours == "in milvus":
        shared["MULTIFOLD_MILVUS"] = request.getfixturevalue("milvus").cluster.uri
    with (
        serve(tmp_path, bundle, **shared) as one,
        serve(tmp_path, bundle, **shared) as other,
        one.client() as first,
        other.client() as second,
        nginx(tmp_path, *(f"{c.base_url.host}:{c.base_url.port}" for c in (first, second))) as address,
        Traffic(address) as traffic,
    ):
        traffic.more(8)
        one.process.kill()
        traffic.more(20)
        assert not traffic.refusals
        traffic.passed("a replica is killed")
