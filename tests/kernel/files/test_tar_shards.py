"""Files in tar shards are read by their place, and a shard that is not what it was is noticed."""

import io
import tarfile
from pathlib import Path

import pytest

from multifold.files import tar_shards
from multifold.files.tar_shards import TarShardError

FILES = {"a.jpg": b"one", "b" * 70 + "/" + "x" * 90 + ".jpg": b"two" * 700, "ä.json": b"", "z.txt": b"last"}


def shard(path: Path, kind: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=kind) as tar:
        for name, data in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_file_is_read_by_its_place(tmp_path: Path, kind: int) -> None:
    path = shard(tmp_path / "s.tar", kind)
    names = [tar_shards.member_path(path, member) for member in tar_shards.members(path)]
    assert [tar_shards.read_bytes(name) for name in reversed(names)] == [*FILES.values()][::-1]
    assert [name.name for name in names] == [Path(name).name for name in FILES]
    assert all(tar_shards.is_tar_member(name) for name in names)


def test_other_paths_are_files_as_ever(tmp_path: Path) -> None:
    for path in (tmp_path / "1+2" / "a.jpg", tmp_path / "s.tar" / "a.jpg"):
        path.parent.mkdir()
        path.write_bytes(b"plain")
        assert not tar_shards.is_tar_member(path)
        assert tar_shards.read_bytes(path) == b"plain"


def test_a_damaged_shard_is_named_with_the_file_before(tmp_path: Path) -> None:
    path = shard(tmp_path / "s.tar", tarfile.USTAR_FORMAT)
    whole = path.read_bytes()
    torn = bytearray(whole)
    place = [member.offset for member in tar_shards.members(path)][2]
    torn[place : place + 100] = b"?" * 100
    for data, reason in (
        (bytes(torn), rf"s\.tar is damaged at byte {place:,}, behind b+/x+\.jpg"),
        (whole[:2000], r"s\.tar is no plain tar file, or not a whole one"),
        (b"nothing at all" * 100, r"s\.tar is no plain tar file"),
    ):
        path.write_bytes(data)
        with pytest.raises(TarShardError, match=reason):
            list(tar_shards.members(path))
    with tarfile.open(path, "w:gz"):
        pass
    with pytest.raises(TarShardError, match="no plain tar file"):
        list(tar_shards.members(path))


def test_a_shard_that_was_written_anew_is_noticed(tmp_path: Path) -> None:
    path = shard(tmp_path / "s.tar")
    names = [tar_shards.member_path(path, member) for member in tar_shards.members(path)]
    whole = path.read_bytes()
    for data in (whole[512:], whole[:600], b""):
        path.write_bytes(data)
        with pytest.raises(
            TarShardError, match=r"s\.tar.*z\.txt is not there: s\.tar was changed or damaged"
        ):
            tar_shards.read_bytes(names[-1])
    path.unlink()
    with pytest.raises(TarShardError, match="cannot be read"):
        tar_shards.read_bytes(names[0])
