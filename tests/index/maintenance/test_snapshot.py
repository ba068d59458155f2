"""A snapshot is one version in one file, and comes back as it was."""

import hashlib
import tarfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection, CollectionError
from index.maintenance.archive import END, ArchiveWriter
from index.maintenance.restore import restore_snapshot
from index.maintenance.snapshot import SnapshotError
from index.store import metadata
from index.store.blobs import FolderBlobs
from index.store.folder_locks import LockError, allow_blob_removal
from multifold.types import Item
from tests.index.processes import started
from tests.index.shots import chair, equal, held
from tests.index.spaces import SPACE
from tests.index.storm import apply, foretold
from tests.index.things import answers, feature, query, thing
from tests.waiting import until


def test_what_was_taken_comes_back(collection: Collection, taken: Path, tmp_path: Path) -> None:
    contents = restore_snapshot(taken, tmp_path / "new" / "place")
    assert (contents.items, contents.version, contents.vector_id) == (20, collection.version, "sphere")
    with Collection.open(tmp_path / "new" / "place", SPACE) as restored:
        assert equal(held(restored), held(collection))
        assert restored.version == collection.version
        for side in ("text", "shape"):
            asked = query(feature(0.3, 1), target=side, limit=30)
            assert answers(restored.search(asked)) == answers(collection.search(asked))
        (hit,) = restored.search(query(feature(1)))
        assert restored.blobs.get(str(hit.matched.blob)) == b"a picture"
        assert restored.upsert([thing("new", np.random.default_rng(1))]) == collection.version + 1


def test_notes_about_originals_come_back_with_them(collection: Collection, tmp_path: Path) -> None:
    files = (collection.blobs.put(b"a mesh", ".glb"),)
    rng, note = np.random.default_rng(2), ("drawn without 'oak.png'",)
    noted = [replace(thing(f"{len(some)}", rng), files=some, notes=note) for some in ((), files)]
    collection.upsert(noted)
    collection.snapshot(tmp_path / "noted.snapshot")
    restore_snapshot(tmp_path / "noted.snapshot", tmp_path / "again")
    with Collection.open(tmp_path / "again", SPACE) as restored:
        found = [one for item in noted if (one := restored.get(item.id))]
        assert [(one.files, one.notes) for one in found] == [(one.files, one.notes) for one in noted]
        assert restored.blobs.get(files[0]) == b"a mesh"


def test_any_tar_reads_it(taken: Path) -> None:
    with tarfile.open(taken) as archive:
        names = archive.getnames()
    assert names[:2] == ["multifold.json", "store.sqlite"]
    assert names[2:] == [f"blobs/{(key := hashlib.sha256(b'a picture').hexdigest())[:2]}/{key}.webp", END]


def test_a_restored_collection_goes_its_own_way(collection: Collection, taken: Path, tmp_path: Path) -> None:
    """Its indexes and the original's cannot be taken for each other."""
    restore_snapshot(taken, tmp_path / "copy")
    with Collection.open(tmp_path / "copy", SPACE) as restored:
        own, others = (one.read(metadata.read_note, metadata.SESSION) for one in (restored, collection))
        assert own != others


def test_without_pictures(collection: Collection, tmp_path: Path) -> None:
    told = collection.snapshot(tmp_path / "small.tar", pictures=False)
    assert (told.blobs, told.absent) == (0, ())
    restore_snapshot(tmp_path / "small.tar", tmp_path / "small")
    with Collection.open(tmp_path / "small", SPACE) as restored:
        assert equal(held(restored), held(collection))
        assert not any((tmp_path / "small").rglob("*.webp"))


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"another")])
def test_a_picture_that_is_lost_is_told_and_the_rest_is_kept(
    collection: Collection, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    (item,) = [one for one in held(collection).values() if one.id == "chair"]
    key = str(item.observations[0].blob)
    assert isinstance(collection.blobs, FolderBlobs)
    harm(collection.blobs.path(key))
    told = collection.snapshot(tmp_path / "x.tar")
    assert (told.blobs, told.absent) == (0, (key,))
    assert restore_snapshot(tmp_path / "x.tar", tmp_path / "copy").items == 20


def test_a_snapshot_under_a_storm_is_one_version(tmp_path: Path) -> None:
    """Change number n is the same everywhere, so every snapshot must equal the state after some n."""
    stopped, failed = threading.Event(), []
    versions: dict[int, int] = {0: 0}

    def storm(collection: Collection) -> None:
        try:
            for number in range(10_000):
                apply(collection, number)
                versions[collection.version] = number + 1
                if stopped.is_set():
                    return
        except BaseException as error:
            failed.append(error)
            raise

    with Collection.open(tmp_path / "things", SPACE) as collection:
        writer = threading.Thread(target=storm, args=(collection,))
        writer.start()
        shots: list[int] = []
        for n in range(5):
            until(lambda: failed or collection.version > max(shots, default=0))
            shots.append(collection.snapshot(tmp_path / f"{n}.tar").contents.version)
        stopped.set()
        writer.join()
    assert failed == []
    assert shots == sorted(shots)
    assert len(set(shots)) > 1
    state: dict[str, Item] = {}
    states = [state] + [state := foretold(state, number) for number in range(max(versions.values()))]
    for n, version in enumerate(shots):
        restore_snapshot(tmp_path / f"{n}.tar", tmp_path / f"{n}")
        with Collection.open(tmp_path / f"{n}", SPACE, read_only=True) as restored:
            assert restored.version == version
            assert equal(held(restored), states[versions[version]])


def test_a_reader_takes_snapshots_too(collection: Collection, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "things", SPACE, read_only=True) as reader:
        assert reader.snapshot(tmp_path / "x.tar").contents.version == collection.version
    with pytest.raises(CollectionError, match="closed"):
        reader.snapshot(tmp_path / "y.tar")


def test_nothing_is_overwritten(collection: Collection, taken: Path, tmp_path: Path) -> None:
    before = taken.read_bytes()
    with pytest.raises(SnapshotError, match="is there already"):
        collection.snapshot(taken)
    assert taken.read_bytes() == before
    with pytest.raises(SnapshotError, match="no folder"):
        collection.snapshot(tmp_path / "nowhere" / "x.tar")
    with pytest.raises(SnapshotError, match="is not empty"):
        restore_snapshot(taken, tmp_path / "things")
    with pytest.raises(SnapshotError, match="is not empty"):
        restore_snapshot(taken, taken)
    (tmp_path / "empty").mkdir()
    assert restore_snapshot(taken, tmp_path / "empty").items == 20


def test_blobs_stay_while_a_snapshot_is_taken(collection: Collection, tmp_path: Path) -> None:
    with allow_blob_removal(tmp_path / "things"), pytest.raises(LockError, match="cleared"):
        collection.snapshot(tmp_path / "x.tar")
    collection.snapshot(tmp_path / "x.tar")


def test_a_full_disk_leaves_no_snapshot(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ArchiveWriter, told: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ArchiveWriter, "finish", full)
    with pytest.raises(SnapshotError, match="No space left"):
        collection.snapshot(tmp_path / "x.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["things"]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["take", "restore"])
def test_killed_at_any_moment_it_is_whole_or_not_there(tmp_path: Path, what: str) -> None:
    with Collection.open(tmp_path / "things", SPACE) as collection:
        for n in range(40):
            picture = np.random.default_rng(n).bytes(300_000)
            collection.upsert([replace(chair(collection, picture), id=f"chair {n}")])
        collection.snapshot(tmp_path / "things.tar")
    source = tmp_path / ("things" if what == "take" else "things.tar")
    whole = 0
    for n in range(9):
        target = tmp_path / f"target {n}"
        with started("worker", what, source, target) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            until(target.exists) if n == 8 else time.sleep(0.01 * 2**n)
            child.kill()
        if not target.exists():
            continue
        whole += 1
        found = target if what == "restore" else tmp_path / f"copy {n}"
        if what == "take":
            restore_snapshot(target, found)
        with Collection.open(found, SPACE, read_only=True) as restored:
            assert restored.count() == 40
            names = [str(one.observations[0].blob) for one in held(restored).values()]
            assert all(restored.blobs.exists(name) for name in names)
    assert 0 < whole < 9
