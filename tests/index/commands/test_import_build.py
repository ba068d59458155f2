"""`multifold index import` and `build`: embeddings of any origin become a collection, and its index."""

import re
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index import embedding_files
from index.contracts import CollectionLocation, IndexPlan
from index.engine_set import engine_set
from index.engines.builder import SegmentBuilder
from index.engines.faiss_engine import FaissEngine
from index.engines.segments import Segment
from index.plain_space import PlainSpace
from index.search.query import Query
from index.store.store import Store
from multifold.bundle.canary import open_encoder
from multifold.files.feature_shards import FeatureRow, FeatureShard, seal_folder, write_shard
from multifold.types import Item
from tests import tiny
from tests.index.commands.shell import DIM, VECTORS, Shell, embeddings, fifty


def items_of(shell: Shell, space: Any, *names: str) -> list[Item]:  # noqa: ANN401 (any encoder)
    with shell.opened(space) as collection:
        found = [collection.get(name) for name in names]
    return [item for item in found if item is not None]


def test_own_embeddings_need_no_encoder(either: Shell, tmp_path: Path) -> None:
    assert either(*fifty(tmp_path)) == 0
    assert "40 items" in either.out
    assert ("into the database" in either.out) == (either.place.database is not None)
    assert (either.place.folder / "store.sqlite").exists() == (either.place.database is None)
    told = either.stats()
    assert (told["vector_id"], told["items"]) == ("plain-cosine-8", 40)
    assert told["observations"] == {"caption": 0, "photo": 50, "view": 0}
    with either.opened(PlainSpace("cosine", DIM)) as collection:
        scores = VECTORS[:50] / np.linalg.norm(VECTORS[:50], axis=1, keepdims=True) @ VECTORS[7]
        (hit,) = collection.search(Query(VECTORS[7], "image", 1, "max"))
        assert hit.id == f"thing {scores.argmax() % 40}" == "thing 7"
        assert hit.score == pytest.approx(scores.max(), rel=1e-5)
        assert collection.disagreements() == []


def test_more_is_said_of_rows_in_jsonl(either: Shell, tmp_path: Path) -> None:
    meta = {"n": 1, "quote": 'a\t"b\\'}
    lines = [{"id": "a", "side": "text", "text": "words", "meta": meta}, {"id": "a"}, {"id": "b"}]
    asked = embeddings(tmp_path, VECTORS[:3].astype(np.float64), lines)  # type: ignore[arg-type]
    assert either(*asked, "--metric", "l2") == 0
    (item,) = items_of(either, PlainSpace("l2", DIM), "a")
    told = [(one.kind, one.index, one.text) for one in item.observations]
    assert told == [("caption", 0, "words"), ("photo", 0, None)]
    assert item.payload == meta
    assert np.array_equal(item.observations[1].feature, VECTORS[1])


def test_parquet(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'parquet')")
    from pyarrow import parquet

    table = arrow.table({"id": ["a", "b"], "vector": VECTORS[:2].tolist(), "text": ["x", "y"]})
    parquet.write_table(table, tmp_path / "two.parquet")
    assert shell("import", tmp_path / "two.parquet", "--side", "text", "--metric", "ip") == 0
    assert shell.stats()["observations"] == {"caption": 2, "photo": 0, "view": 0}
    parquet.write_table(table.drop(["vector"]), tmp_path / "bad.parquet")
    assert shell("import", tmp_path / "bad.parquet", "--metric", "ip") == 2
    assert "columns id and vector" in shell.err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert shell("import", tmp_path / "two.parquet", "--metric", "ip") == 2
    assert "extra 'parquet'" in shell.err


def test_shards_of_an_encoder(shell: Shell, tmp_path: Path) -> None:
    """An item lies in several of them."""
    bundle = tiny.build(tmp_path / "tiny")
    features = np.random.default_rng(1).standard_normal((30, tiny.FEATURE)).astype(np.float32)
    rows = [FeatureRow(f"item {n % 10}", "view", n // 10) for n in range(30)]
    for name, vector_id in (("shards", bundle.vector_id), ("other", "ffff")):
        (tmp_path / name).mkdir()
        for start in range(0, 30, 7):
            shard = FeatureShard(vector_id, tuple(rows[start : start + 7]), features[start : start + 7])
            write_shard(tmp_path / name, f"{start:05d}", shard)
        seal_folder(tmp_path / name, vector_id, tiny.FEATURE)
    (tmp_path / "m.jsonl").write_text('{"id": "item 3", "texts": ["x"], "meta": {"price": 5}}\n')
    asked = ["import", tmp_path / "shards", "--manifest", tmp_path / "m.jsonl"]
    assert shell(*asked, "--bundle", tmp_path / "tiny") == 0
    told = shell.stats()
    assert (told["items"], told["vector_id"]) == (10, bundle.vector_id)
    assert shell("verify", "--bundle", tmp_path / "tiny") == 0
    assert [one.payload for one in items_of(shell, open_encoder(tmp_path / "tiny"), "item 3")] == [
        {"price": 5}
    ]
    assert shell("import", tmp_path / "other", "--bundle", tmp_path / "tiny") == 2
    assert "'ffff'" in shell.err
    assert bundle.vector_id in shell.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["vectors.npy", "--metric", "ip"], "Give --ids"),
        (["vectors.npy", "--ids", "short.txt", "--metric", "ip"], "50 rows, and .* has 2 lines"),
        (["vectors.npy", "--ids", "nothing.txt", "--metric", "ip"], "cannot be read"),
        (["cube.npy", "--ids", "short.txt", "--metric", "ip"], "rows of floats"),
        (["pickle.npy", "--ids", "short.txt", "--metric", "ip"], "cannot be read"),
        (["bad.npy", "--ids", "short.txt", "--metric", "ip"], "not finite"),
        (["zero.npy", "--ids", "short.txt", "--metric", "cosine"], "no usable vector"),
        (["two.npy", "--ids", "bad.jsonl", "--metric", "ip"], "line 2"),
        (["two.npy", "--ids", "smell.jsonl", "--metric", "ip"], "must be one of text, image, shape, points."),
        (["ids.txt", "--metric", "ip"], "neither a folder of shards"),
        (["two.npy", "--ids", "short.txt", "--bundle", "nowhere"], "no bundle"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    shell: Shell, tmp_path: Path, words: list[str], reason: str
) -> None:
    fifty(tmp_path)
    (tmp_path / "short.txt").write_text("a\nb\n")
    (tmp_path / "bad.jsonl").write_text('{"id": "a"}\n{"name": "b"}\n')
    (tmp_path / "smell.jsonl").write_text('{"id": "a"}\n{"id": "b", "side": "smell"}\n')
    np.save(tmp_path / "two.npy", VECTORS[:2])
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2), np.float32))
    np.save(tmp_path / "pickle.npy", np.array([{}, {}]), allow_pickle=True)
    np.save(tmp_path / "bad.npy", np.full((2, DIM), np.nan, np.float32))
    np.save(tmp_path / "zero.npy", np.zeros((2, DIM), np.float32))
    assert shell("import", *(tmp_path / word if "." in word else word for word in words)) == 2
    assert re.search(reason, shell.err)


def test_a_second_import_keeps_the_space(shell: Shell, tmp_path: Path) -> None:
    *asked, _, metric = fifty(tmp_path)
    for given in (["--metric", metric], [], ["--metric", metric]):
        assert shell(*asked, *given) == 0
    assert shell.stats()["items"] == 40
    assert shell(*asked, "--metric", "l2") == 2
    assert "plain-cosine-8" in shell.err


def test_an_import_goes_on_where_it_was_stopped(
    shared: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_files, "ITEMS_AT_ONCE", 256)
    asked = [*embeddings(tmp_path, VECTORS, [f"thing {n % 600}" for n in range(900)]), "--metric", "cosine"]
    upsert, calls = Store.upsert, iter(range(2))

    def stopped(self: Store, new: list[Item]) -> int:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return upsert(self, new)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "upsert", stopped)
        assert shared(*asked) == 130
    for written in (88, 0):
        assert shared(*asked) == 0
        assert f"{written} items written" in shared.out
        assert "600 items, version 600" in shared.out


KILLED = """
import os, signal, sys
from index import embedding_files
from index.store.store import Store
from multifold.cli import main
embedding_files.ITEMS_AT_ONCE, upsert, calls = 256, Store.upsert, iter(range(2))
def killed(store, new):
    version = upsert(store, new)
    if next(calls, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return version
Store.upsert = killed
main(["index", *sys.argv[1:]])
"""


def test_an_import_that_is_killed_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is killed after a change is in the store, and before the indexes have it."""
    shell = Shell(CollectionLocation(tmp_path / "things"), capsys)
    asked = [*embeddings(tmp_path, VECTORS, [f"thing {n}" for n in range(900)]), "--metric", "cosine"]
    command = [sys.executable, "-c", KILLED, *map(str, asked), "--data", str(shell.place.folder)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    for written in (132, 0):
        assert shell(*asked) == 0
        assert f"{written} items written" in shell.out
        assert "900 items, version 900" in shell.out
        assert shell("verify") == 0


def test_an_import_ends_sealed(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_set, "SAVED_ROWS", 1)
    build = SegmentBuilder.build

    def slow(*given: Any) -> Segment:  # noqa: ANN401 (as it is)
        time.sleep(0.3)
        return build(*given)

    monkeypatch.setattr(SegmentBuilder, "build", slow)
    many = np.random.default_rng(2).standard_normal((9000, 4)).astype(np.float32)
    assert shell(*embeddings(tmp_path, many, [f"{n}" for n in range(9000)]), "--metric", "l2") == 0
    for reports in shell.stats()["reports"].values():
        assert sum(one["rows"] for one in reports) > 9000 - IndexPlan().seal_at
    assert shell("build", "--type", "IVF{cells},Flat", "--recall", "0.9", "--device", "cpu") == 0
    assert "image pooled: 9000 rows as IVF128,Flat" in shell.out
    assert re.search(r"recall@10 (0\.9|1\.0)", shell.out)
    assert shell("verify") == 0
    assert shell("build", "--type", "nonsense") == 2
    assert shell("stats") == 0
    assert "IVF{cells},Flat, recall 0.9" in shell.out
    assert "image observation: 9000 rows as IVF128,Flat" in shell.out


def test_a_first_import_fills_indexes_as_a_whole(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_set, "SAVED_ROWS", 1)
    filling, filled = FaissEngine.filling, list[FaissEngine]()

    def noted(engine: FaissEngine) -> AbstractContextManager[None]:
        filled.append(engine)
        return filling(engine)

    monkeypatch.setattr(FaissEngine, "filling", noted)
    for count in (300, 200, 300):
        asked = embeddings(tmp_path, VECTORS[:300], [f"{n % count}" for n in range(300)])
        assert shell(*asked, "--metric", "l2") == 0
        assert len(filled) == 2  # none but those of the first import
        assert shell("verify") == 0
    assert shell.stats()["items"] == 300


@pytest.fixture(scope="module")
def pointed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that reads points."""
    folder = tmp_path_factory.mktemp("bundles") / "points"
    tiny.build_with_points(folder)
    return folder


@pytest.mark.parametrize(
    ("sides", "kinds"),
    [(("shape", "points"), {"view", "points"}), (("text",), {"caption"}), (("shape",), None)],
)
def test_points_that_the_encoder_needs_are_missed(
    shell: Shell, pointed: Path, tmp_path: Path, sides: tuple[str, ...], kinds: set[str] | None
) -> None:
    encoder, text = open_encoder(pointed), {"text": "a red ball"}
    features = encoder.texts(["a red ball", "a green box"]).features[: len(sides)]
    asked = embeddings(
        tmp_path, features, [{"id": "thing", "side": one, "text": text.get(one)} for one in sides]
    )
    assert (shell(*asked, "--bundle", pointed) == 0) == (kinds is not None)
    if kinds is None:
        assert "has views and no points of the item 'thing'" in shell.err
        assert "multifold encode" in shell.err
    else:
        (item,) = items_of(shell, encoder, "thing")
        assert {one.kind for one in item.observations} == kinds
