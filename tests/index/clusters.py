"""Milvus for tests: embedded in this process, or a real server of our own in a temporary folder."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from index.cluster.contracts import MilvusAddress
from index.cluster.milvus_connection import FLAT, MilvusConnection
from index.cluster.milvus_engine import MilvusEngine
from multifold.types import Metric
from tests.ports import free_ports
from tests.waiting import PATIENCE, until

RELEASE = "2.3.5"  # the newest server among Python's packages
HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multifold" / f"milvus-{RELEASE}"
ROLES = (
    *("etcd", "root_coord", "proxy", "proxy_internal", "query_coord", "query_node"),
    *("index_coord", "index_node", "data_coord", "data_node"),
)
SETTINGS = {
    "queryNode.segcore.interimIndex.enableIndex": "false",  # it hides rows that a filter lets through
    # Seconds until a killed server is believed dead: with 5, a starved one believes it of itself.
    "common.session.ttl": "10",
    "proxy.timeTickInterval": "50",
}
PREPARE = """
import json, sys
from milvus import MilvusServerConfig, _initialize_data_files
folder, ports, more = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
config = MilvusServerConfig(data_dir=folder, **ports)
for name, value in more.items():
    config.set(name, value)
config.resolve()
_initialize_data_files(config.base_data_dir)
"""


@cache
def embedded() -> MilvusConnection:
    """The embedded engine; its file is its process's own."""
    pytest.importorskip("milvus_lite", reason="milvus-lite is not installed (extra 'lite')")
    return MilvusConnection(
        MilvusAddress(str(Path(tempfile.mkdtemp(prefix="multifold-milvus-")) / "rows.db"))
    )


class OwnMilvusEngine(MilvusEngine):
    """Rows that go when the engine is closed."""

    def close(self) -> None:
        self.drop()


def milvus_of(dim: int, metric: Metric, link: MilvusConnection | None = None) -> MilvusEngine:
    """An engine of its own, in the embedded one if there is no other."""
    return OwnMilvusEngine(dim, metric, link or embedded(), f"multifold_{uuid4().hex}", wanted=FLAT)


def package() -> Path:
    """The Python that has the server's package, installed once; skips where it cannot be had."""
    HOME.mkdir(parents=True, exist_ok=True)
    python = HOME / "venv" / "bin" / "python"
    with open(HOME / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (HOME / "ready").exists():
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(HOME / "venv")],
                [str(python), "-m", "pip", "install", "--quiet", f"milvus=={RELEASE}"],
            ):
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
                if done.returncode:
                    pytest.skip(f"no Milvus server to be had: {done.stderr.strip()[-200:]}")
            (HOME / "ready").touch()
    return python


class MilvusServer:
    """One standalone server on free ports of its own."""

    def __init__(self) -> None:
        python = package()
        self.folder = Path(tempfile.mkdtemp(prefix="multifold-milvus-"))
        *ports, self._health, client, peer = free_ports(len(ROLES) + 3)
        named = {f"{role}_port": port for role, port in zip(ROLES, ports, strict=True)}
        self.cluster = MilvusAddress(f"http://127.0.0.1:{named['proxy_port']}")
        told = [str(self.folder), json.dumps(named), json.dumps(SETTINGS)]
        # once: after a kill the package cannot always do it again
        subprocess.run([python, "-c", PREPARE, *told], check=True, timeout=PATIENCE)
        (self.folder / "configs" / "etcd.yaml").write_text(_etcd(client, peer))
        (self.folder / "run").mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it says that it is well."""
        folder = str(self.folder)
        told = {
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(self._health),
            "MILVUS_RUN_DIR": folder + "/run",
            "LD_LIBRARY_PATH": folder + "/bin",
            "ETCD_CONFIG_PATH": folder + "/configs/etcd.yaml",
        }
        with open(folder + "/log", "ab") as log:
            self._process = subprocess.Popen(
                [folder + "/bin/milvus", "run", "standalone"],
                cwd=folder,
                env=os.environ | told,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._well, what="the Milvus server to get well")

    def kill(self) -> None:
        """End it at once; it does not always end when it is asked."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def _well(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/healthz", timeout=20) as answer:
                return b"OK" in answer.read()
        except OSError:
            return False


def _etcd(client: int, peer: int) -> str:
    ours, others = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return (
        f"name: default\nlisten-client-urls: {ours}\nadvertise-client-urls: {ours}\n"
        f"listen-peer-urls: {others}\ninitial-advertise-peer-urls: {others}\n"
        f"initial-cluster: default={others}\n"
    )
