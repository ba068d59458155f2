"""One machine: the process, its workers, its disk, its clock and its files."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from multifold.asking import NewItem
from multifold.client import Client
from tests import tiny
from tests.app.house import box
from tests.app.test_serve import Process, serve
from tests.drills.traffic import Traffic, until
from tests.index.test_powerloss import assemble, compiled, key, shim

__all__ = ["shim"]  # a fixture
pytestmark = pytest.mark.slow
YEAR = 365 * 24 * 3600


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drills") / "bundle"
    tiny.build(folder)
    return folder


@pytest.fixture
def port() -> int:
    """A port that a service can have again after its death."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@contextmanager
def started(data: Path, bundle: Path, port: int, **environment: str) -> Iterator[Process]:
    with serve(data, bundle, "--port", str(port), **environment) as running:
        running.client().close()
        yield running


def test_the_service_is_killed(tmp_path: Path, bundle: Path, port: int, url: str) -> None:
    with started(tmp_path, bundle, port) as first, Traffic(url) as traffic:
        first.process.kill()
        first.wait()
        with started(tmp_path, bundle, port):
            traffic.more()
            traffic.passed("the service is killed, and started again")


def test_a_worker_is_killed(tmp_path: Path, bundle: Path, port: int, url: str) -> None:
    with started(tmp_path, bundle, port) as running, Client(url) as client, Traffic(url) as traffic:
        client.upsert("drawn", mesh=box("red"), mesh_format="glb")
        of_it = ["pgrep", "--parent", str(running.process.pid), "--full", "renderers.worker"]
        workers = subprocess.run(of_it, capture_output=True, check=True).stdout.split()
        for worker in workers:
            os.kill(int(worker), signal.SIGKILL)
        client.upsert("drawn again", mesh=box("blue"), mesh_format="glb")
        traffic.more()
        assert not traffic.refusals
        traffic.passed("the workers that draw are killed")


def test_the_power_fails(tmp_path: Path, bundle: Path, port: int, url: str, shim: Path) -> None:
    home, shadow, left = tmp_path / "home", tmp_path / "shadow", tmp_path / "left"
    home.mkdir()
    shadow.mkdir()
    forgetful = {"LD_PRELOAD": str(shim), "SHADOW": str(shadow)}
    with started(home, bundle, port, **forgetful) as first, Traffic(url) as traffic:
        traffic.more(10)
        first.process.kill()
        first.wait()
        assemble(shadow, key(home), left)
        with started(left, bundle, port):
            traffic.more()
            traffic.passed("the power fails: what was not synced is gone")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")
def test_the_disk_is_full(tmp_path: Path, bundle: Path, port: int, url: str) -> None:
    data = tmp_path / "small"
    data.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", data], check=False).returncode:
        pytest.skip("no disk may be mounted here")
    try:
        with started(data, bundle, port), Traffic(url) as traffic:
            ballast = data / "ballast"
            fill(ballast)
            until(lambda: traffic.refusals["storage"] > 4)
            answers = traffic.answers
            until(lambda: traffic.answers > answers + 5)  # what only reads goes on
            ballast.unlink()
            traffic.more()
            assert set(traffic.refusals) == {"storage"}
            traffic.passed("the disk is full, and has room again")
    finally:
        subprocess.run(["umount", data], check=True)


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(4096)):
                pass
        except OSError:
            return


@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_the_index_is_lost(tmp_path: Path, bundle: Path, port: int, url: str, what: str) -> None:
    with started(tmp_path, bundle, port) as first, Traffic(url) as traffic:
        with Client(url) as client:
            for place in range(5):
                many = [NewItem(f"{place} {n}", texts=[f"box {k}" for k in range(20)]) for n in range(50)]
                client.upsert_many(many)
        first.process.terminate()
        first.wait()
        files = [file for file in (tmp_path / "index").rglob("*") if file.is_file()]
        assert files
        for file in files:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 255
            file.write_bytes(data) if what == "damaged" else file.unlink()
        with started(tmp_path, bundle, port):
            traffic.more()
            traffic.passed(f"the files of the index are {what}")


def test_the_clock_jumps(tmp_path: Path, bundle: Path, port: int, url: str) -> None:
    clock, preload = tmp_path / "clock", compiled(Path(__file__).with_name("clock.c"), tmp_path)
    clock.write_text("0")
    faked = {"LD_PRELOAD": str(preload), "CLOCK": str(clock)}
    with started(tmp_path / "data", bundle, port, **faked), Traffic(url) as traffic:
        for jump in (YEAR, -2 * YEAR, 0):
            clock.write_text(str(jump))
            traffic.more()
        assert not traffic.refusals
        traffic.passed("the clock jumps a year ahead, then three back")
