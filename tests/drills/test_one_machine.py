"""One machine: the process, its workers, its disk, its clock and its files."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from multifold.client import Client, NewItem
from tests import tiny
from tests.app.house import box
from tests.app.process import Process, serve
from tests.drills.traffic import Traffic
from tests.index.store.powerloss import assemble, compiled, key, shim
from tests.ports import free_ports
from tests.waiting import until

__all__ = ["shim"]  # a fixture
pytestmark = pytest.mark.slow
YEAR = 365 * 24 * 3600


@pytest.fixture
def port() -> int:
    """A port that a service can have again after its death."""
    return free_ports(1)[0]


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
    told = {"MULTIFOLD_RENDER_SECONDS": "200"}
    with started(tmp_path, bundle, port, **told) as running, Client(url) as client, Traffic(url) as traffic:
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


def furnish(url: str, count: int) -> None:
    """So many items of 20 captions."""
    with Client(url) as client:
        for start in range(0, count, 50):
            names = range(start, start + 50)
            client.upsert_many([NewItem(f"item {n}", texts=[f"box {k}" for k in range(20)]) for n in names])


@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_the_index_is_lost(tmp_path: Path, bundle: Path, port: int, url: str, what: str) -> None:
    with started(tmp_path, bundle, port) as first, Traffic(url) as traffic:
        furnish(url, 250)
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


def test_a_kill_in_the_middle_of_a_merge(tmp_path: Path, bundle: Path, port: int, url: str) -> None:
    with started(tmp_path, bundle, port) as first, Traffic(url) as traffic, Client(url) as client:
        furnish(url, 1000)  # 20,000 rows: they are sealed and merged while more come
        job = client.reindex("main", index="HNSW32")
        until(lambda: client.job(job.id).state == "running")
        first.process.kill()
        first.wait()
        with started(tmp_path, bundle, port):
            traffic.more()
            assert client.wait(job.id, 0.1).state == "done"
            traffic.passed("killed in the middle of a merge, and started again")


def test_a_kill_in_the_middle_of_a_bundle_flip(tmp_path: Path, bundle: Path, port: int, url: str) -> None:
    tiny.build(tmp_path / "others" / "second", seed=1, name="second")
    told = {"MULTIFOLD_BUNDLES": str(tmp_path / "others"), "MULTIFOLD_REQUEST_TIMEOUT": "10"}
    data = tmp_path / "data"
    with started(data, bundle, port, **told) as first, Traffic(url) as traffic, Client(url) as client:
        furnish(url, 500)
        job = client.rebuild("main", "second", bundle="second", alias="default")
        until(lambda: client.job(job.id).done > 50)
        assert client.info()["bundle"]["name"] == "tiny"
        first.process.kill()
        first.wait()
        with started(data, bundle, port, **told):
            traffic.more()
            assert client.wait(job.id, 0.1).state == "done"
            assert client.info()["bundle"]["name"] == "second"
            traffic.more()
            traffic.passed("killed in the middle of a bundle flip, and started again")


def test_the_bundle_is_swapped(tmp_path: Path, bundle: Path, port: int, url: str) -> None:
    tiny.build(tmp_path / "other", seed=1)
    damaged = shutil.copytree(bundle, tmp_path / "apart" / "damaged")
    graph = bytearray((damaged / "image.onnx").read_bytes())
    graph[len(graph) // 2] ^= 255
    (damaged / "image.onnx").write_bytes(graph)
    data = tmp_path / "data"
    with started(data, bundle, port) as first, Traffic(url) as traffic:
        traffic.more()
        first.process.terminate()
        first.wait()
        for wrong, why in ((tmp_path / "other", "their vectors do not compare"), (damaged, "image.onnx")):
            with serve(data, wrong, "--port", str(port)) as refused:
                assert refused.wait() != 0
                assert why in refused.output
        with started(data, bundle, port):
            traffic.more()
            traffic.passed("the bundle is swapped for another, then damaged, then put back")


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
