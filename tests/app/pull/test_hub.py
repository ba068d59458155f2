"""Files of a hub: pinned, verified, resumed; a hub that lies or is away is named in one sentence."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from huggingface_hub import constants

from app.pull.hub import HubRequest, fetch_from_hub
from app.pull.published_files import PublishedFiles, PullError
from multifold.bundle.bundle import file_hash
from tests.app.pull import published
from tests.app.pull.hub import COMMIT, Hub, serving

GRAPH = "onnx/vision_model.onnx"
WANTED = HubRequest("own/tiny", "main", "fp32", None, 10**8)
OTHER = "dead" + "0" * 36


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
def test_a_download_that_breaks_off_goes_on(
    folder: Path, tmp_path: Path, ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # between the attempts of the library
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 500)  # it goes on from whole pieces
    hub = Hub(folder, breaks=2, ranges=ranges)
    fetched(hub, tmp_path / "got")
    assert file_hash(tmp_path / "got" / GRAPH) == file_hash(folder / GRAPH)
    starts = [start for name, start in hub.asked if name == GRAPH]
    assert starts == ([0, 1000, 2000] if ranges else [0, 0, 0])


def test_files_that_came_whole_are_not_fetched_again(folder: Path, tmp_path: Path) -> None:
    fetched(Hub(folder), tmp_path / "got")
    (tmp_path / "got" / GRAPH).unlink()
    again = Hub(folder)
    fetched(again, tmp_path / "got")
    assert again.asked == [(GRAPH, 0)]


@pytest.mark.parametrize("name", [GRAPH, "config.json"])
def test_a_damaged_file_is_removed_and_named(folder: Path, tmp_path: Path, name: str) -> None:
    length = 64 if name == GRAPH else 40
    with pytest.raises(PullError, match=f"{name} came damaged"):
        fetched(Hub(folder, lies={name: "0" * length}), tmp_path / "got")
    assert not (tmp_path / "got" / name).exists()
    fetched(Hub(folder), tmp_path / "got")
    assert file_hash(tmp_path / "got" / name) == file_hash(folder / name)


def test_limits_and_pins_are_checked_before_anything_comes(folder: Path, tmp_path: Path) -> None:
    hub = Hub(folder)
    with pytest.raises(PullError, match="more than the 1,000 that are allowed"):
        fetched(hub, tmp_path / "got", wanted=replace(WANTED, most=1000))
    with pytest.raises(PullError, match="the hub lists another sha256"):
        fetched(hub, tmp_path / "got", {GRAPH: "0" * 64})
    with pytest.raises(PullError, match=f"answers with commit {COMMIT} of own/tiny, not {OTHER}"):
        fetched(hub, tmp_path / "got", wanted=replace(WANTED, revision=OTHER))
    with pytest.raises(PullError, match=f"is at {COMMIT} now, and was pulled at {OTHER} before"):
        fetched(hub, tmp_path / "got", wanted=replace(WANTED, former=OTHER))
    assert hub.asked == []


def test_a_hub_that_is_away_or_lacks_the_repository_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PullError, match="has no public own/other at main"):
        fetched(Hub(folder), tmp_path / "got", wanted=replace(WANTED, repository="own/other"))
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(PullError, match=r"^own/tiny cannot be had from [^\n]* say --from FOLDER$"):
        fetch_from_hub(WANTED, tmp_path / "got", {}, "http://127.0.0.1:9")


def test_weights_beside_a_graph_come_too_but_only_from_the_repository(folder: Path, tmp_path: Path) -> None:
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


def test_the_bound_counts_what_comes_and_not_what_is_stated(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PullError, match="sends more than it states, and than the 1,000 bytes"):
        fetched(Hub(folder, understates=True), tmp_path / "got", wanted=replace(WANTED, most=1000))
    assert not (tmp_path / "got" / GRAPH).exists()
