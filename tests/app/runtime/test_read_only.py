"""A service on a disk that takes nothing: it searches, refuses changes in a sentence, and writes nothing."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from index.store.database import StoreError
from index.store.folder_locks import LockError, WriterLock
from tests.app.answers import refused
from tests.app.house import house

CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/items", {"id": "new", "texts": ["a red box"]}),
    ("POST", "/v1/items/bulk", {"items": [{"id": "new", "texts": ["a red box"]}]}),
    ("PATCH", "/v1/items/red-box", {"payload": {"is": "blue"}}),
    ("DELETE", "/v1/items/red-box", {}),
    ("POST", "/v1/items/delete", {"ids": ["red-box"]}),
    ("POST", "/v1/collections", {"name": "second"}),
    ("POST", "/v1/feedback", {"query": {"text": "red"}, "item": "red-box", "verdict": "good"}),
]


@pytest.fixture
def fixed(tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a service that has ended, on a disk that says it takes nothing."""
    folder = tmp_path / "data"
    with house(folder, bundle) as opened:
        opened.fill()
        assert opened.client.post("/v1/collections", json={"name": "beside"}).is_success
    mount_for_reading(monkeypatch)
    return folder


def mount_for_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all disks say that they are."""
    statvfs = os.statvfs

    def say(path: Path) -> SimpleNamespace:
        told = statvfs(path)
        values = {name: getattr(told, name) for name in dir(told) if name.startswith("f_")}
        return SimpleNamespace(**values | {"f_flag": told.f_flag | os.ST_RDONLY})

    monkeypatch.setattr(os, "statvfs", say)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """What is there, but for the thumbnails, which are tried each time."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if "thumbnails" not in path.parts
    }


def test_it_is_searched_and_nothing_is_written(fixed: Path, bundle: Path) -> None:
    before = contents(fixed)
    with house(fixed, bundle, probe_interval=0.1) as opened:
        assert opened.client.get("/readyz").status_code == 200
        assert opened.best(text="a red box") == "red-box"
        assert opened.client.get("/v1/items/red-box/thumbnail").status_code == 200
        assert opened.client.get("/v1/jobs").json() == {"jobs": []}
        assert opened.client.get("/v1/collections/beside/info").status_code == 200
        for method, path, body in CHANGES:
            answer = opened.client.request(method, path, json=body)
            refused(answer, 503, "storage")
        assert opened.client.get("/v1/items/red-box").json()["payload"]["is"] == "red"
    assert contents(fixed) == before


def test_a_log_that_nobody_can_read_is_refused(fixed: Path, bundle: Path) -> None:
    """It has the last changes of a service that was killed."""
    (fixed / "store.sqlite-wal").write_bytes(b"changes")
    with pytest.raises(StoreError, match=r"are still in store\.sqlite-wal"), house(fixed, bundle):
        pass
    WriterLock(fixed).release()  # the refused one holds nothing


def test_what_is_written_elsewhere_is_not_read_as_if_it_were_not(fixed: Path, bundle: Path) -> None:
    """The disk may be mounted twice. Whoever comes second is refused."""
    writer = WriterLock(fixed, "http://there")
    with pytest.raises(LockError, match="is being written by http://there"), house(fixed, bundle):
        pass
    writer.release()
    with house(fixed, bundle), pytest.raises(LockError, match="is being written"):
        WriterLock(fixed)
    WriterLock(fixed).release()


def test_what_is_found_at_the_start_counts(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, bundle) as opened:
        opened.fill("red")
        mount_for_reading(monkeypatch)
        assert opened.put("blue-box", "blue").is_success
