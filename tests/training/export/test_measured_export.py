"""A bundle does not take the place of a better one."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multifold.bundle import bundle as bundles
from multifold.bundle.canary import open_encoder
from multifold.cli import main
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from tests.training import small
from training import checkpoint, prepare
from training.checkpoint import Checkpoint
from training.export import bundle as bundle_export
from training.export import graphs
from training.export.bundle import export_bundle
from training.retrieval import comparison, directions
from training.retrieval.comparison import RivalEncoder, WorseError
from training.retrieval.directions import RetrievalDirection
from training.towers import TwoTowerModel

VIEWS, CAPTIONS = small.pictures()


@pytest.fixture(scope="module", autouse=True)
def graphs_once() -> Iterator[None]:
    """Graphs of one model are written once: that takes seconds."""
    written: dict[int, dict[str, bytes]] = {}
    write = graphs.write_graphs

    def write_once(model: TwoTowerModel, *rest: Any) -> None:  # noqa: ANN401
        folder: Path = rest[2]
        if id(model) not in written:
            write(model, *rest)
            written[id(model)] = {path.name: path.read_bytes() for path in folder.glob("*.onnx*")}
        for name, data in written[id(model)].items():
            (folder / name).write_bytes(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_export, "write_graphs", write_once)
        yield


@pytest.fixture(scope="module")
def learned(trained_run: Path) -> Checkpoint:
    return checkpoint.load_checkpoint(trained_run)


@pytest.fixture(scope="module")
def ignorant(learned: Checkpoint) -> Checkpoint:
    return replace(learned, model=small.model(learned.recipe, seed=7).eval())


@pytest.fixture(scope="module")
def good(trained_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(trained_bundle, tmp_path_factory.mktemp("bundles") / "good"))


def rival(folder: Path) -> RivalEncoder:
    encoder = open_encoder(folder)
    asked = directions.directions(encoder, directions.encode(encoder, VIEWS, CAPTIONS))
    return RivalEncoder(encoder.bundle.name, encoder.bundle.bundle_id, asked)


def test_a_worse_model_is_refused_and_the_old_bundle_stays(ignorant: Checkpoint, good: Path) -> None:
    before = bundles.load(good)
    with pytest.raises(WorseError, match=r"finds less than small.*text to shape R@1 0\.\d+ for .*--force"):
        export_bundle(ignorant, VIEWS, CAPTIONS, good, {}, rival(good))
    assert bundles.load(good) == before
    assert [path.name for path in good.parent.iterdir()] == ["good"]


def test_a_worse_model_can_be_forced_and_its_report_says_so(
    learned: Checkpoint, ignorant: Checkpoint, good: Path, tmp_path: Path
) -> None:
    bundle = export_bundle(ignorant, VIEWS, CAPTIONS, tmp_path / "b", {}, rival(good), force=True)
    told = bundle.provenance["against"]
    assert told["forced"] is True
    assert told["bundle_id"] == bundles.load(good).bundle_id
    new, old, low, high = told["recalls"]["text_to_shape/R@1"]
    assert new < old
    assert low <= round(new - old, 4) <= high < 0
    assert f"## Against small ({told['bundle_id']})" in bundle.path("report.md").read_text(encoding="utf-8")
    better = export_bundle(learned, VIEWS, CAPTIONS, bundle.folder, {}, rival(bundle.folder))
    assert better == bundles.load(bundle.folder)
    assert better.vector_id != bundle.vector_id
    assert better.provenance["against"]["recalls"]["text_to_shape/R@1"] == [old, new, -high, -low]


def test_few_items_decide_nothing(
    ignorant: Checkpoint, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrained model does not replace a good one because three items cannot tell them apart."""
    assert comparison.needed_items(0.1) == 157
    checkpoint.save_checkpoint(tmp_path / "ignorant.pt", ignorant)
    (tmp_path / "three.jsonl").touch()
    three = [ManifestEntry(str(n), images=(tmp_path / "x.png",), texts=("x",)) for n in range(3)]
    monkeypatch.setattr(prepare, "entries", lambda *_: three)
    words = ["export", str(tmp_path / "ignorant.pt"), str(tmp_path / "new"), "--against", str(good)]
    assert main([*words, "--held-out", str(tmp_path / "three.jsonl"), "--cache", str(tmp_path)]) == 2
    assert not (tmp_path / "new").exists()
    for items, difference, force in ((157, 0.1, False), (3, 0.1, True), (7, 0.5, False)):
        comparison.refuse_few(items, difference, force)
    with pytest.raises(
        WorseError, match=r"156 held-out items cannot show that recall falls by 0\.1: that takes 157"
    ):
        comparison.refuse_few(156, 0.1, False)


def test_what_is_no_bundle_is_not_overwritten(learned: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(MultifoldError, match="holds something that is no bundle"):
        export_bundle(learned, VIEWS, CAPTIONS, tmp_path, {})
    assert (tmp_path / "letters.txt").exists()


def direction(right: list[bool]) -> RetrievalDirection:
    """Two answers a query; where it is not right, the wrong one is first."""
    scores = np.array([[1.0, 0.0] if yes else [0.0, 1.0] for yes in right], np.float32)
    relevant = np.tile(np.array([True, False]), (len(right), 1))
    return RetrievalDirection(scores, relevant, np.arange(len(right)))


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_only_queries_that_the_two_answer_differently_decide(pairs: list[tuple[bool, bool]]) -> None:
    new, old = (
        {name: direction([p[i] for p in pairs]) for name in comparison.JUDGED_DIRECTIONS} for i in (0, 1)
    )
    first, *_ = comparison.compare_recalls(new, old)
    back, *_ = comparison.compare_recalls(old, new)
    assert first.interval.low == pytest.approx(-back.interval.high)
    if all(ours >= theirs for ours, theirs in pairs):
        assert not first.worse
    if all(theirs and not ours for ours, theirs in pairs):
        assert first.worse
        assert not back.worse
