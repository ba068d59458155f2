"""Features in bulk: whatever dies or is broken on the way, the shards hold what the encoder says."""

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from multifold.bundle.canary import open_encoder
from multifold.cli import main
from multifold.errors import MultifoldError
from multifold.files import feature_shards
from multifold.files.feature_shards import FeatureRow
from multifold.manifest import ManifestEntry, write
from multifold.types import Features
from tests.training.data.sources.test_folder import CUBE
from training.data.extraction import extract as workers
from training.data.extraction.extract import ExtractionOrder, extract_features
from training.data.extraction.parts import FeatureExtractor, ManifestPart, PartFeatures

BUNDLE = Path(__file__).resolve().parents[4] / "bundles" / "furniture"
ITEMS, SIZE = 12, 3  # items, and how many make a part
BROKEN = ("broken-picture", "broken-mesh", "gone")


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest with photos, one mesh, and three poisoned items."""
    folder = tmp_path_factory.mktemp("things")
    entries = []
    for place in range(ITEMS - 1):
        path = folder / f"{place}.png"
        Image.fromarray(np.random.default_rng(place).integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(path)
        entries.append(ManifestEntry(f"thing-{place}", (path,), texts=(f"noise {place}", "a picture")))
    (folder / "cube.obj").write_text(CUBE, encoding="utf-8")
    entries.append(ManifestEntry("cube", mesh=folder / "cube.obj", texts=("a cube",)))
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n and then nothing")
    (folder / "broken.obj").write_text("v 1 2\nf 9 9 9", encoding="utf-8")
    entries.insert(2, ManifestEntry("broken-picture", (folder / "broken.png",), texts=("no picture",)))
    entries.insert(7, ManifestEntry("broken-mesh", mesh=folder / "broken.obj"))
    entries.append(ManifestEntry("gone", (folder / "gone.png",)))
    write(folder / "things.jsonl", entries)
    return folder / "things.jsonl"


@cache
def extractor() -> FeatureExtractor:
    made = FeatureExtractor(BUNDLE)
    atexit.register(made.close)
    return made


def in_this_process(parts: Sequence[ManifestPart]) -> Iterator[PartFeatures]:
    return map(extractor(), parts)


def features(folder: Path) -> dict[FeatureRow, Features]:
    return {
        row: values
        for rows, found in feature_shards.read_features(folder)
        for row, values in zip(rows, found, strict=True)
    }


def check(things: Path, out: Path) -> None:
    """What lies in the folder is what the encoder says of each observation, one by one."""
    found, encoder = features(out), open_encoder(BUNDLE)
    names = [f"thing-{place}" for place in range(ITEMS - 1)]
    assert {row.id for row in found} == {*names, "cube"}
    assert sum(row.kind == "view" for row in found) == encoder.bundle.views.views
    for row, values in found.items():
        if row.kind == "caption":
            assert row.text is not None
            expected = encoder.texts([row.text]).features[0]
        elif row.kind == "photo":
            expected = encoder.pictures([Image.open(things.parent / f"{row.id.removeprefix('thing-')}.png")])[
                0
            ]
        else:
            continue
        np.testing.assert_allclose(values, expected, atol=1e-4)
    assert feature_shards.read_description(out).vector_id == encoder.vector_id


def test_poisoned_items_are_told_and_harm_no_other(things: Path, tmp_path: Path) -> None:
    done = extract_features(ExtractionOrder(things, BUNDLE, tmp_path, SIZE), in_this_process)
    check(things, tmp_path)
    assert set(done.problems) == set(BROKEN)
    assert "not a picture" in done.problems["broken-picture"]
    assert done.rows == len(features(tmp_path))


def test_it_goes_on_where_it_stopped(things: Path, tmp_path: Path) -> None:
    asked: list[int] = []

    def until(most: int) -> Callable[[Sequence[ManifestPart]], Iterator[PartFeatures]]:
        def work(parts: Sequence[ManifestPart]) -> Iterator[PartFeatures]:
            asked.extend(part.number for part in parts)
            for result, _ in zip(in_this_process(parts), range(most), strict=False):
                yield result
            if most < len(parts):
                raise KeyboardInterrupt

        return work

    order = ExtractionOrder(things, BUNDLE, tmp_path, SIZE)
    with pytest.raises(KeyboardInterrupt):
        extract_features(order, until(2))
    with pytest.raises(feature_shards.ShardError, match="is not finished"):
        feature_shards.read_description(tmp_path)
    (tmp_path / "00001.npy").write_bytes(b"torn")
    done = extract_features(order, until(99))
    assert asked == [0, 1, 2, 3, 4, 1, 2, 3, 4]
    assert set(done.problems) == set(BROKEN)
    check(things, tmp_path)
    extract_features(order, until(0))
    assert len(asked) == 9
    with pytest.raises(MultifoldError, match="features of another manifest or encoder"):
        extract_features(ExtractionOrder(things, BUNDLE, tmp_path, SIZE + 1), until(0))


@pytest.mark.slow
def test_killed_processes_are_replaced(
    things: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with killing(lambda pid: parent(pid) == os.getpid() and "spawn_main" in command(pid)) as killed:
        words = ["features", str(things), str(BUNDLE), str(tmp_path), "--items", str(SIZE), "--workers", "2"]
        assert main(words) == 0
    assert len(killed) == 1
    check(things, tmp_path)
    assert "left out broken-mesh" in capsys.readouterr().out


def test_workers_that_always_die_are_given_up(things: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures.process import BrokenProcessPool

    def dies(*_: object, **__: object) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr("training.data.extraction.extract.ProcessPoolExecutor.submit", dies)
    parts = ExtractionOrder(things, BUNDLE, things.parent / "out", SIZE).parts()
    with pytest.raises(MultifoldError, match="workers were killed 5 times in a row"):
        list(workers.work_in_processes(BUNDLE, parts, 2))


def test_a_refused_manifest_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "texts": ["x"]}\n{"id": "a", "texts": ["y"]}\n')
    order = ExtractionOrder(tmp_path / "bad.jsonl", BUNDLE, tmp_path / "out", SIZE)
    with pytest.raises(MultifoldError, match="stands twice"):
        extract_features(order, in_this_process)
    assert not (tmp_path / "out").exists()


class killing:  # noqa: N801 (a context, used as a word)
    """Kills the first process of a kind, once, a moment after it is seen."""

    def __init__(self, which: Callable[[int], bool]) -> None:
        self.which, self.killed, self.over = which, list[int](), threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self.over.wait(0.05) and not self.killed:
            for name in filter(str.isdecimal, os.listdir("/proc")):
                if self.which(int(name)):
                    time.sleep(0.5)
                    os.kill(int(name), signal.SIGKILL)
                    self.killed.append(int(name))
                    return

    def __enter__(self) -> list[int]:
        self.thread.start()
        return self.killed

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0
