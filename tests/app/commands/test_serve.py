"""`multifold serve` as its users meet it: a process that starts, answers, stops, dies and comes back."""

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from multifold.cli import main
from tests.app.process import serve


def put(client: httpx.Client, name: str, words: str) -> None:
    assert client.put(f"/v1/items/{name}", files={"texts": (None, words)}).status_code == 200


def found(client: httpx.Client, words: str) -> list[str]:
    hits = client.post("/v1/search", json={"text": words, "target": "text"}).json()["hits"]
    return [hit["id"] for hit in hits]


def test_it_tells_what_it_does_stops_when_told_and_keeps_its_data(tmp_path: Path, bundle: Path) -> None:
    with serve(tmp_path, bundle, MULTIFOLD_MAX_BODY="1000000") as running, running.client() as client:
        assert "tiny: Knows six colours" in running.output
        assert "0 items" in running.output
        assert "settings    max_body 1000000 (docs/settings.md)" in running.output
        assert client.post("/v1/search", json={"text": "x" * 1_000_001}).status_code == 413
        put(client, "one", "a red box")
        put(client, "two", "a blue box")
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0
        assert running.output.endswith("stopped\n")
        assert "Traceback" not in running.output
    with serve(tmp_path, bundle) as running, running.client() as client:
        assert "2 items (2 captions)" in running.output
        assert client.get("/readyz").status_code == 200
        assert found(client, "blue") == ["two", "one"]


@pytest.mark.slow
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path, bundle: Path) -> None:
    acknowledged: set[str] = set()
    for round_number in range(2):
        with serve(tmp_path, bundle) as running, running.client() as client:
            assert_there(client, acknowledged)
            killer = threading.Timer(0.1, running.process.kill)
            try:
                for number in range(10_000):
                    if number == 5:
                        killer.start()
                    name = f"{round_number}-{number}"
                    put(client, name, "a red box")
                    acknowledged.add(name)
            except httpx.TransportError:
                pass
            killer.join()
    with serve(tmp_path, bundle) as running, running.client() as client:
        assert client.get("/readyz").status_code == 200
        assert_there(client, acknowledged)
    assert len(acknowledged) >= 10


def assert_there(client: httpx.Client, names: set[str]) -> None:
    for name in names:
        assert client.get(f"/v1/items/{name}").status_code == 200


def test_a_second_writer_is_refused_with_the_address_of_the_first(tmp_path: Path, bundle: Path) -> None:
    with serve(tmp_path, bundle) as first, first.client() as client:
        with serve(tmp_path, bundle) as second:
            assert second.wait() == 2
            assert f"is being written by {str(client.base_url).rstrip('/')}" in second.output
            assert "Traceback" not in second.output
        assert client.get("/readyz").status_code == 200


def test_a_taken_port_is_said_clearly(tmp_path: Path, bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with serve(tmp_path, bundle, "--port", port) as running:
            assert running.wait() == 2
            assert f"127.0.0.1:{port} is in use" in running.output
            assert "Traceback" not in running.output


@pytest.mark.slow
def test_a_damaged_bundle_is_refused_with_the_reason(tmp_path: Path) -> None:
    with serve(tmp_path / "data", tmp_path) as running:
        assert running.wait() == 2
        assert "is no bundle" in running.output
        assert "Traceback" not in running.output


@pytest.mark.slow
def test_a_setting_that_makes_no_sense_is_said_clearly(tmp_path: Path, bundle: Path) -> None:
    with serve(tmp_path, bundle, MULTIFOLD_MAX_TEXT="-3") as running:
        assert running.wait() == 2
        assert "max_text" in running.output
        assert "Traceback" not in running.output


@pytest.mark.slow
def test_the_address_that_is_told_can_be_used_and_an_interrupt_is_no_failure(
    tmp_path: Path, bundle: Path
) -> None:
    with serve(tmp_path, bundle, "--host", "0.0.0.0") as running, running.client() as client:
        assert client.get("/healthz").status_code == 200
        assert client.base_url.host == "127.0.0.1"
        running.process.send_signal(signal.SIGINT)
        assert running.wait() == 0


def test_the_command_line_talks_to_the_service(
    tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What changes the collection is sent to its writer, or names it; what only looks goes on beside it."""
    data = ["--data", str(tmp_path / "data")]
    with serve(tmp_path / "data", bundle) as running, running.client() as client:
        assert main(["index", "add", "box", "--text", "a red box", *data]) == 0
        assert "written through http://127.0.0.1" in capsys.readouterr().out
        assert found(client, "a red box") == ["box"]
        for words in (["compact"], ["build", "--bundle", str(bundle)], ["import", str(tmp_path)]):
            assert main(["index", *words, *data]) == 2
            assert "is being written by http://127.0.0.1" in capsys.readouterr().err
        assert main(["index", "snapshot", str(tmp_path / "x.tar"), *data]) == 0
        assert main(["index", "verify", "--bundle", str(bundle), *data]) == 0
        assert main(["index", "remove", "box", *data]) == 0
        assert "1 of 1 removed through http" in capsys.readouterr().out
        assert found(client, "a red box") == []


def test_the_command_line_brings_its_key(
    tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["index", "add", "box", "--text", "a red box", "--data", str(tmp_path / "data")]
    with serve(tmp_path / "data", bundle, MULTIFOLD_KEYS="write:sesame-open-now-please-1") as running:
        running.client().close()
        assert main(words) == 2
        assert "key" in capsys.readouterr().err
        monkeypatch.setenv("MULTIFOLD_KEY", "sesame-open-now-please-1")
        assert main(words) == 0
        assert "written through" in capsys.readouterr().out


def test_what_was_loaded_is_not_looked_through_again() -> None:
    code = (
        "import gc; from app import server; server.freeze_garbage_collector(); print(gc.get_freeze_count())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(told.stdout) > 10_000
