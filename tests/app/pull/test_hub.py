"""Downloads: pinned, verified, gone on with after a break; a hub that lies or leaves is told of."""

from pathlib import Path
from typing import Any

import pytest

from app.pull.hub import HubRequest, fetch_from_hub
from app.pull.published_files import PublishedFiles, PullError
from multifold.bundle.bundle import file_hash
from tests.app.pull import published
from tests.app.pull.hub import COMMIT, Hub, serving

GRAPH = "onnx/vision_model.onnx"
WANTED = HubRequest("own/tiny", "main", "fp32", None, 10**8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return published.clip(tmp_path / "published")


def fetched(
    hub: Hub, into: Path, pins: dict[str, str] | None = None, wanted: HubRequest = WANTED
) -> PublishedFiles:
    with serving(hub):
        return fetch_from_hub(wanted, into, pins or {}, hub.url)


def test_what_comes_is_what_is_there_and_the_commit_is_kept(folder: Path, tmp_path: Path) -> None:
    source = fetched(Hub(folder), tmp_path / "got", {GRAPH: file_hash(folder / GRAPH)})
    assert source.origin["revision"] == COMMIT
    assert source.licence == "apache-2.0"
    names = source.names()
    assert "README.md" not in names
    assert {*names} >= {GRAPH, "onnx/text_model.onnx", "tokenizer.json", "config.json"}
    assert all(source.path(name).read_bytes() == (folder / name).read_bytes() for name in names)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_breaks_off_goes_on(folder: Path, tmp_path: Path, ranges: bool) -> None:
    hub = Hub(folder, breaks=3, ranges=ranges)
    fetched(hub, tmp_path / "got")
    assert file_hash(tmp_path / "got" / GRAPH) == file_hash(folder / GRAPH)
    starts = [start for name, start in hub.asked if name == GRAPH]
    assert starts == ([0, 1000, 2000, 3000] if ranges else [0, 0, 0, 0])


def test_the_next_run_goes_on_where_a_lost_one_ended(folder: Path, tmp_path: Path) -> None:
    hub = Hub(folder, breaks=10**6, after=0)
    with pytest.raises(PullError, match=r"broke off .* pull again to go on from 0 bytes"):
        fetched(hub, tmp_path / "got")
    partial = tmp_path / "got" / f"{GRAPH}.partial"
    partial.parent.mkdir(exist_ok=True, parents=True)
    partial.write_bytes((folder / GRAPH).read_bytes()[:1234])
    again = Hub(folder)
    fetched(again, tmp_path / "got")
    assert (GRAPH, 1234) in again.asked
    once_more = Hub(folder)
    fetched(once_more, tmp_path / "got")
    assert once_more.asked == []


def test_a_damaged_file_is_removed_and_told(folder: Path, tmp_path: Path) -> None:
    for number, name in enumerate((GRAPH, "config.json")):
        wrong: dict[str, Any] = {"lfs": {"oid": "0" * 64}, "oid": "0" * 40}
        got = tmp_path / f"got-{number}"
        with pytest.raises(PullError, match=f"{name} came damaged"):
            fetched(Hub(folder, lies={name: wrong}), got)
        assert not any(path.name.startswith(Path(name).name) for path in got.rglob("*"))


def test_what_was_begun_from_another_file_is_fetched_anew(folder: Path, tmp_path: Path) -> None:
    partial = tmp_path / "got" / f"{GRAPH}.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"?" * 500)
    with pytest.raises(PullError, match="came damaged"):
        fetched(Hub(folder), tmp_path / "got")
    fetched(Hub(folder), tmp_path / "got")
    assert file_hash(tmp_path / "got" / GRAPH) == file_hash(folder / GRAPH)


def test_limits_and_pins_are_checked_before_anything_large_comes(folder: Path, tmp_path: Path) -> None:
    small = Hub(folder)
    with pytest.raises(PullError, match="more than the 1,000 that are allowed"):
        fetched(small, tmp_path / "got", wanted=HubRequest("own/tiny", "main", "fp32", None, 1000))
    with pytest.raises(PullError, match="the hub lists another sha256"):
        fetched(small, tmp_path / "got", {GRAPH: "0" * 64})
    assert small.asked == []
    longer = Hub(folder, lies={GRAPH: {"lfs": {"size": 100}}})
    with pytest.raises(PullError, match="longer than the promised 100 bytes"):
        fetched(longer, tmp_path / "got")


def test_a_hub_without_the_repository_or_out_of_reach_is_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PullError, match="has no public own/other"):
        fetched(Hub(folder), tmp_path / "got", wanted=HubRequest("own/other", "main", "fp32", None, 10**8))
    with pytest.raises(PullError, match=r"out of reach .* say --from FOLDER"):
        fetch_from_hub(WANTED, tmp_path / "got", {}, "http://127.0.0.1:9")


def test_weights_beside_a_graph_come_too_but_only_from_the_repository(folder: Path, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(folder / GRAPH)
    beside = folder / f"{GRAPH}_data"
    onnx.save(model, folder / GRAPH, save_as_external_data=True, location=beside.name, size_threshold=100)
    source = fetched(Hub(folder), tmp_path / "got")
    assert "onnx/vision_model.onnx_data" in source.names()
    lost = onnx.load(folder / GRAPH, load_external_data=False)
    for entry in (
        e for tensor in lost.graph.initializer for e in tensor.external_data if e.key == "location"
    ):
        entry.value = "../../secrets"
    onnx.save(lost, folder / GRAPH)
    with pytest.raises(PullError, match=r"wants its weights from '../../secrets'"):
        fetched(Hub(folder), tmp_path / "other")
