"""`multifold index`: a collection is filled, looked at, checked and kept from the command line."""

import json
import re
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from index.collection import Collection
from index.commands import index, run_index
from index.contracts import IndexPlan
from index.engines.builder import SegmentBuilder
from index.engines.faiss_engine import FaissEngine
from index.engines.segments import Segment
from index.plain_space import PlainSpace, PlainSpaceError, parse_plain_space
from index.search import engine_set
from index.search.query import Query
from multifold.cli import main
from multifold.files.feature_shards import FeatureRow, ShardWriter
from multifold.types import Item
from tests import tiny
from tests.index.things import view

DIM = 8
VECTORS = np.random.default_rng(0).standard_normal((50, DIM)).astype(np.float32)


class Shell:
    """Runs `multifold index` on one collection, and remembers what it said."""

    def __init__(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data, self._capsys = data, capsys
        self.out = self.err = ""

    def __call__(self, *words: object) -> int:
        status = main(["index", *map(str, words), "--data", str(self.data)])
        self.out, self.err = self._capsys.readouterr()
        return status

    def stats(self) -> dict[str, object]:
        assert self("stats", "--json") == 0
        told: dict[str, object] = json.loads(self.out)
        return told


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "data", capsys)


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """Fifty embeddings of forty things."""
    np.save(tmp_path / "vectors.npy", VECTORS)
    (tmp_path / "ids.txt").write_text("".join(f"thing {n % 40}\n" for n in range(50)))
    return tmp_path / "vectors.npy"


@pytest.fixture
def filled(shell: Shell, vectors: Path) -> Shell:
    assert shell("import", vectors, "--ids", vectors.with_name("ids.txt"), "--metric", "cosine") == 0
    return shell


def test_own_embeddings_need_no_encoder(filled: Shell) -> None:
    told = filled.stats()
    assert (told["vector_id"], told["items"]) == ("plain-cosine-8", 40)
    assert told["observations"] == {"caption": 0, "photo": 50, "view": 0}
    with Collection.open(filled.data, PlainSpace("cosine", DIM), read_only=True) as collection:
        scores = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True) @ VECTORS[7]
        (hit,) = collection.search(Query(VECTORS[7], "image", 1, "max"))
        assert hit.id == f"thing {scores.argmax() % 40}" == "thing 7"
        assert hit.score == pytest.approx(scores.max(), rel=1e-5)


def test_more_is_said_of_rows_in_jsonl(shell: Shell, tmp_path: Path) -> None:
    lines = [{"id": "a", "side": "text", "text": "words", "meta": {"n": 1}}, {"id": "a"}, {"id": "b"}]
    (tmp_path / "ids.jsonl").write_text("\n".join(map(json.dumps, lines)))
    np.save(tmp_path / "three.npy", VECTORS[:3].astype(np.float64))
    assert shell("import", tmp_path / "three.npy", "--ids", tmp_path / "ids.jsonl", "--metric", "l2") == 0
    with Collection.open(shell.data, PlainSpace("l2", DIM), read_only=True) as collection:
        item = collection.get("a")
        assert item is not None
        assert [(one.kind, one.index, one.text) for one in item.observations] == [
            ("caption", 0, "words"),
            ("photo", 0, None),
        ]
        assert item.payload == {"n": 1}


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
    bundle = tiny.build(tmp_path / "tiny")
    features = np.random.default_rng(1).standard_normal((30, tiny.FEATURE)).astype(np.float32)
    rows = [
        FeatureRow(f"item {n % 10}", "view", n // 10) for n in range(30)
    ]  # an item lies in several shards
    with ShardWriter(tmp_path / "shards", bundle.vector_id, tiny.FEATURE, rows_per_shard=7) as out:
        out.write(rows, features)
    (tmp_path / "m.jsonl").write_text('{"id": "item 3", "texts": ["x"], "meta": {"price": 5}}\n')
    asked = ["import", tmp_path / "shards", "--manifest", tmp_path / "m.jsonl"]
    assert shell(*asked, "--bundle", tmp_path / "tiny") == 0
    told = shell.stats()
    assert (told["items"], told["vector_id"]) == (10, bundle.vector_id)
    assert shell("verify", "--bundle", tmp_path / "tiny") == 0
    assert shell("snapshot", tmp_path / "x.tar") == 0
    copy = Shell(tmp_path / "copy", shell._capsys)
    assert copy("restore", tmp_path / "x.tar", "--bundle", tmp_path / "tiny") == 0
    assert copy.stats()["items"] == 10
    with ShardWriter(tmp_path / "other", "ffff", tiny.FEATURE) as out:
        out.write(rows, features)
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
        (["two.npy", "--ids", "short.txt", "--metric", "ip", "--side", "text"], "has no text"),
        (["ids.txt", "--metric", "ip"], "neither a folder of shards"),
        (["two.npy", "--ids", "short.txt", "--bundle", "nowhere"], "no bundle"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    shell: Shell, vectors: Path, words: list[str], reason: str
) -> None:
    folder = vectors.parent
    (folder / "short.txt").write_text("a\nb\n")
    (folder / "bad.jsonl").write_text('{"id": "a"}\n{"name": "b"}\n')
    np.save(folder / "two.npy", VECTORS[:2])
    np.save(folder / "cube.npy", np.zeros((2, 2, 2), np.float32))
    np.save(folder / "pickle.npy", np.array([{}, {}]), allow_pickle=True)
    np.save(folder / "bad.npy", np.full((2, DIM), np.nan, np.float32))
    np.save(folder / "zero.npy", np.zeros((2, DIM), np.float32))
    asked = [str(folder / word) if "." in word else word for word in words]
    assert shell("import", *asked) == 2
    assert re.search(reason, shell.err)


def test_a_second_import_keeps_the_space(filled: Shell, vectors: Path) -> None:
    ids = vectors.with_name("ids.txt")
    assert filled("import", vectors, "--ids", ids) == 0
    assert filled("import", vectors, "--ids", ids, "--metric", "cosine") == 0
    assert filled.stats()["items"] == 40
    assert filled("import", vectors, "--ids", ids, "--metric", "l2") == 2
    assert "plain-cosine-8" in filled.err


def test_an_import_ends_sealed(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_set, "WORTH_SAVING", 1)
    build = SegmentBuilder.build

    def slow(*given: Any) -> Segment:  # noqa: ANN401 (as it is)
        time.sleep(0.3)
        return build(*given)

    monkeypatch.setattr(SegmentBuilder, "build", slow)
    np.save(tmp_path / "many.npy", np.random.default_rng(2).standard_normal((10_000, 4)).astype(np.float32))
    (tmp_path / "ids.txt").write_text("".join(f"{n}\n" for n in range(10_000)))
    assert shell("import", tmp_path / "many.npy", "--ids", tmp_path / "ids.txt", "--metric", "l2") == 0
    kinds: Any = shell.stats()["reports"]
    for reports in kinds.values():
        assert sum(one["rows"] for one in reports) > 10_000 - IndexPlan().seal_at


def test_a_first_import_fills_indexes_as_a_whole(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_set, "WORTH_SAVING", 1)
    filling, filled = FaissEngine.filling, list[FaissEngine]()

    def noted(engine: FaissEngine) -> AbstractContextManager[None]:
        filled.append(engine)
        return filling(engine)

    monkeypatch.setattr(FaissEngine, "filling", noted)
    np.save(tmp_path / "some.npy", np.random.default_rng(2).standard_normal((300, 4)).astype(np.float32))
    for times, count in ((2, 300), (2, 200), (2, 300)):  # how many engines were filled by then, and of what
        (tmp_path / "ids.txt").write_text("".join(f"{n % count}\n" for n in range(300)))
        assert shell("import", tmp_path / "some.npy", "--ids", tmp_path / "ids.txt", "--metric", "l2") == 0
        assert len(filled) == times
        assert shell("verify") == 0
    assert shell.stats()["items"] == 300


def test_an_index_is_built_and_stays(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_set, "WORTH_SAVING", 1)
    many = np.random.default_rng(2).standard_normal((9000, DIM)).astype(np.float32)
    np.save(tmp_path / "many.npy", many)
    (tmp_path / "ids.txt").write_text("".join(f"{n}\n" for n in range(9000)))
    assert shell("import", tmp_path / "many.npy", "--ids", tmp_path / "ids.txt", "--metric", "l2") == 0
    assert shell("build", "--type", "IVF{cells},Flat", "--recall", "0.9", "--device", "cpu") == 0
    assert "image pooled: 8192 rows as IVF128,Flat" in shell.out
    assert "recall@10 0.9" in shell.out or "recall@10 1.0" in shell.out
    assert shell("verify") == 0
    assert shell("stats") == 0
    assert "IVF{cells},Flat, recall 0.9" in shell.out
    assert "image observation: 8192 rows as IVF128,Flat" in shell.out
    assert shell("build", "--type", "nonsense") == 2
    assert shell("stats") == 0
    assert "IVF{cells},Flat, recall 0.9" in shell.out


def test_items_come_and_go(shell: Shell, tmp_path: Path) -> None:
    bundle = tiny.build(tmp_path / "tiny")
    tiny_bundle = ["--bundle", str(bundle.folder)]
    Image.fromarray(tiny.picture("red")).save(tmp_path / "red.png")
    asked = ["add", "box", "--text", "a red box", "--image", tmp_path / "red.png", "--payload", '{"n": 1}']
    assert shell(*asked, *tiny_bundle) == 0
    assert shell.stats()["observations"] == {"caption": 1, "photo": 1, "view": 0}
    assert shell("verify", *tiny_bundle) == 0
    for words, reason in (
        (["--mesh", "x.glb"], "drawn by the service"),
        (["--payload", "[]"], "JSON object"),
        (["--image", "nothing.png"], "cannot be read"),
        ([], "0 observations"),
    ):
        assert shell("add", "other", *words, *tiny_bundle) == 2
        assert reason in shell.err
    assert shell("remove", "box", "nobody", *tiny_bundle) == 0
    assert "1 of 2 removed" in shell.out
    assert shell("remove", "nobody", *tiny_bundle) == 1
    assert shell("compact", "--keep-changes", "0") == 0
    assert "2 changes and 1 pictures removed" in shell.out


def test_plain_embeddings_have_no_words(filled: Shell) -> None:
    assert filled("add", "x", "--text", "hello") == 2
    assert "multifold index import" in filled.err
    assert filled("remove", "thing 3") == 0
    assert filled.stats()["items"] == 39


def test_what_is_wrong_is_told(filled: Shell) -> None:
    with Collection.open(filled.data, PlainSpace("cosine", DIM)) as collection:
        collection.upsert([Item("broken", (view(0, VECTORS[0]),))])
    assert filled("verify") == 1
    assert "no blob" in filled.out
    assert "1 things are wrong" in filled.out


def test_nowhere_there_is_nothing(shell: Shell, tmp_path: Path) -> None:
    for words in (["stats"], ["verify"], ["compact"], ["build"], ["remove", "x"], ["snapshot", "x.tar"]):
        assert shell(*words) == 2
        assert "There is no collection" in shell.err
    assert shell("restore", tmp_path / "nothing.tar") == 2
    assert not shell.data.exists()


def test_a_plain_space_is_known_by_its_name() -> None:
    for comparison in ("cosine", "ip", "l2"):
        space = PlainSpace(comparison, 768)
        assert parse_plain_space(space.vector_id) == space
    for name in ("plain-cosine-0", "plain-cos-8", "plain-ip-8x", "0123456789abcdef", "plain-ip-9999999"):
        assert parse_plain_space(name) is None
    with pytest.raises(PlainSpaceError, match="plain-ip-0"):
        PlainSpace("ip", 0)


def test_every_action_that_is_described_can_be_run() -> None:
    assert list(run_index.ACTIONS) == list(index.ACTIONS)
