"""How Milvus is called."""

from pathlib import Path

import pytest

from index.cluster.contracts import MilvusAddress
from index.cluster.milvus_connection import MilvusConnection

AN_HOUR = 3_600_000  # milliseconds


def test_an_embedded_engine_is_not_asked_whether_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends a connection that asks: after a pause of a minute and a half, the next call failed."""
    pytest.importorskip("milvus_lite", reason="milvus-lite is not installed (extra 'lite')")
    grpc = pytest.importorskip("grpc")
    opened: list[dict[str, object]] = []
    plain = grpc.insecure_channel

    def noted(address: str, options: list[tuple[str, object]]) -> object:
        opened.append(dict(options))
        return plain(address, options=options)

    monkeypatch.setattr(grpc, "insecure_channel", noted)
    connection = MilvusConnection(MilvusAddress(str(tmp_path / "rows.db")))
    assert connection.find("rows") is None
    connection.close()
    assert opened
    for options in opened:
        assert int(str(options["grpc.keepalive_time_ms"])) > AN_HOUR
