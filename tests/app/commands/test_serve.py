"""`multifold serve` as its users meet it: a process that starts, answers, stops, dies and comes back."""

import gc
import json
import re
import signal
import time
from pathlib import Path

import httpx
import pytest

from app import server
from app.commands import run_serve
from multifold.cli import main
from tests.app.house import house
from tests.app.process import serve


def put(client: httpx.Client, name: str, words: str) -> None:
    assert client.put(f"/v1/items/{name}", files={"texts": (None, words)}).status_code == 200


def later(client: httpx.Client, name: str) -> str:
    """A job that writes 256 items."""
    items = [{"id": f"{name}-{number}", "texts": [f"{name} {number}"]} for number in range(256)]
    return str(client.post("/v1/items/bulk", json={"items": items}).json()["job"]["id"])


def found(client: httpx.Client, words: str) -> list[str]:
    hits = client.post("/v1/search", json={"text": words, "target": "text"}).json()["hits"]
    return [hit["id"] for hit in hits]


@pytest.mark.parametrize(
    ("stop", "host"),
    [(signal.SIGTERM, "127.0.0.1"), pytest.param(signal.SIGINT, "0.0.0.0", marks=pytest.mark.slow)],
)
def test_it_tells_what_it_does_stops_when_told_and_keeps_its_data(
    tmp_path: Path, bundle: Path, stop: int, host: str
) -> None:
    words = ("--host", host)
    with serve(tmp_path, bundle, *words, MULTIFOLD_MAX_BODY="1000000") as running, running.client() as client:
        assert client.base_url.host == "127.0.0.1"  # an address that can be used
        assert "tiny: Knows six colours" in running.output
        assert "0 items" in running.output
        assert "settings    max_body 1000000, photo_texts off (docs/settings.md)" in running.output
        assert client.post("/v1/search", json={"text": "x" * 1_000_001}).status_code == 413
        put(client, "one", "a red box")
        put(client, "two", "a blue box")
        job = [later(client, f"job-{number}") for number in range(20)][-1]
        with client.stream("GET", f"/v1/jobs/{job}/events") as events:
            running.process.send_signal(stop)
            (*_, last) = [line for line in events.iter_lines() if line]  # all: the stream is ended, not cut
        assert json.loads(last.removeprefix("data: "))["ended"] is None
        assert running.wait() == 0
        assert running.output.endswith("stopped\n")
        assert "Traceback" not in running.output
    with house(tmp_path, bundle) as shop:
        assert found(shop.client, "blue")[0] == "two"


@pytest.mark.slow
def test_an_idle_connection_outlives_those_of_clients_and_proxies(tmp_path: Path, bundle: Path) -> None:
    pool = httpx.Limits(max_connections=1, keepalive_expiry=None)
    with (
        serve(tmp_path, bundle) as running,
        running.client() as client,
        httpx.Client(base_url=client.base_url, limits=pool, trust_env=False) as patient,
    ):
        first = patient.get("/healthz").extensions["network_stream"].get_extra_info("client_addr")
        time.sleep(6)
        second = patient.get("/healthz").extensions["network_stream"].get_extra_info("client_addr")
        assert first == second  # one and the same connection
    proxy = (Path(__file__).parents[3] / "docker" / "proxy" / "multifold.conf.template").read_text()
    (idle,) = re.findall(r"keepalive_timeout (\d+)s", proxy)
    assert int(idle) < server.IDLE_CONNECTION_SECONDS


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        ("another writer", "is being written by {url}"),
        ("a taken port", "{address} is in use"),
        ("a damaged bundle", "is no bundle"),
        ("a setting without sense", "max_text"),
        ("no folder", "there is no folder"),
    ],
)
def test_what_cannot_be_served_is_said_clearly(
    trouble: str,
    sentence: str,
    tmp_path: Path,
    bundle: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_serve, "log_as_json", lambda: None)
    with house(tmp_path / "data", bundle) as first:
        address = first.url.removeprefix("http://")
        words = ["--data", str(tmp_path / "other"), "--bundle", str(bundle), "--port", "0"]
        if trouble == "another writer":
            words += ["--data", str(tmp_path / "data")]
        elif trouble == "a taken port":
            words += ["--port", address.partition(":")[2]]
        elif trouble == "a damaged bundle":
            words += ["--bundle", str(tmp_path)]
        elif trouble == "no folder":
            words += ["--folder", str(tmp_path / "none")]
        else:
            monkeypatch.setenv("MULTIFOLD_MAX_TEXT", "-3")
        assert main(["serve", *words]) == 2
        assert sentence.format(url=first.url, address=address) in capsys.readouterr().err
        assert first.client.get("/readyz").status_code == 200


def test_the_command_line_talks_to_the_service(
    tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes the collection is sent to its writer, or names it; what only looks goes on beside it."""
    data, key = ["--data", str(tmp_path / "data")], "sesame-open-now-please-1"
    add = ["index", "add", "box", "--text", "a red box", *data]
    with house(tmp_path / "data", bundle, keys=f"write:{key}") as shop:
        shop.client.headers["x-api-key"] = key
        assert main(add) == 2
        assert "key" in capsys.readouterr().err
        monkeypatch.setenv("MULTIFOLD_KEY", key)
        assert main(add) == 0
        assert "written through http://127.0.0.1" in capsys.readouterr().out
        assert found(shop.client, "a red box") == ["box"]
        for words in (["compact"], ["build", "--bundle", str(bundle)], ["import", str(tmp_path)]):
            assert main(["index", *words, *data]) == 2
            assert "is being written by http://127.0.0.1" in capsys.readouterr().err
        assert main(["index", "snapshot", str(tmp_path / "x.tar"), *data]) == 0
        assert main(["index", "verify", "--bundle", str(bundle), *data]) == 0
        assert main(["index", "remove", "box", *data]) == 0
        assert "1 of 1 removed through http" in capsys.readouterr().out
        assert found(shop.client, "a red box") == []


def test_what_was_loaded_is_not_looked_through_again() -> None:
    before = gc.get_threshold()
    try:
        server.freeze_garbage_collector()
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
