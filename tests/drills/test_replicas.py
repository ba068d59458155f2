"""Two replicas on one PostgreSQL behind the proxy: the database, a replica that sleeps, and Milvus."""

import shutil
import signal
from pathlib import Path

import pytest

from multifold.client.client import Client
from tests import tiny
from tests.app.test_serve import serve
from tests.docker.test_proxy import nginx
from tests.drills.traffic import Traffic
from tests.index.clusters import MilvusServer
from tests.index.servers import Server
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]


def test_the_database_dies_and_a_replica_sleeps(tmp_path: Path, server: Server) -> None:
    bundle, place = tmp_path / "bundle", server.place()
    tiny.build(bundle)
    with (
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place) as one,
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place) as other,
        one.client() as first,
        other.client() as second,
        nginx(tmp_path, *(f"{c.base_url.host}:{c.base_url.port}" for c in (first, second))) as url,
    ):
        with Traffic(url) as traffic:
            server.stop()
            server.start()
            traffic.more()
            traffic.passed("PostgreSQL ends at once, and is started again")
        with Traffic(str(second.base_url)) as traffic:
            one.process.send_signal(signal.SIGSTOP)
            traffic.more(20)
            one.process.send_signal(signal.SIGCONT)
            traffic.passed(
                "a replica sleeps while the other one writes, and is asked next", str(first.base_url)
            )
            with Client(str(first.base_url)) as client:
                hit = client.search(text="a red box", target="text", limit=1).hits[0]
            assert hit.payload["edition"] == traffic.acknowledged[hit.id]


def test_milvus_dies_and_is_started_again(tmp_path: Path, server: Server, milvus: MilvusServer) -> None:
    bundle, place, uri = tmp_path / "bundle", server.place(), milvus.cluster.uri
    tiny.build(bundle)
    with (
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place, MULTIFOLD_MILVUS=uri) as one,
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place, MULTIFOLD_MILVUS=uri) as other,
        one.client() as first,
        other.client() as second,
        nginx(tmp_path, *(f"{c.base_url.host}:{c.base_url.port}" for c in (first, second))) as url,
        Traffic(url) as traffic,
    ):
        milvus.kill()
        known = sum(traffic.acknowledged.values())
        until(lambda: traffic.refusals["index_away"] > 3)
        until(lambda: sum(traffic.acknowledged.values()) > known + 5)  # changes go on
        milvus.start()
        traffic.more()
        assert set(traffic.refusals) == {"index_away"}
        traffic.passed("Milvus ends at once, and is started again")
