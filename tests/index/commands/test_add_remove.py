"""`multifold index add` and `remove`."""

from pathlib import Path

import pytest
from PIL import Image

from index.collection import Collection
from index.plain_space import PlainSpace
from index.texts import text_indexes
from multifold.bundle.canary import open_encoder
from multifold.types import Item
from tests import tiny
from tests.index.commands.shell import DIM, VECTORS, Shell, fifty
from tests.index.things import view


def test_items_come_and_go(either: Shell, tmp_path: Path) -> None:
    bundle = ["--bundle", tiny.build(tmp_path / "tiny").folder]
    Image.fromarray(tiny.picture("red")).save(tmp_path / "red.png")
    asked = ["add", "box", "--text", "a red box", "--image", tmp_path / "red.png", "--payload", '{"n": 1}']
    assert either(*asked, *bundle) == 0
    assert either.stats()["observations"] == {"caption": 1, "photo": 1, "view": 0}
    assert either("verify", *bundle) == 0
    for words, reason in (
        (["--mesh", "x.glb"], "drawn by the service"),
        (["--payload", "[]"], "JSON object"),
        (["--image", "nothing.png"], "cannot be read"),
        ([], "0 observations"),
    ):
        assert either("add", "other", *words, *bundle) == 2
        assert reason in either.err
    assert either("remove", "box", "nobody", *bundle) == 0
    assert "1 of 2 removed" in either.out
    assert either("remove", "nobody", *bundle) == 1
    assert either("compact", "--keep-changes", "0") == 0
    pictures = 0 if either.place.database else 1  # of a shared store they stay
    assert f"2 changes and {pictures} pictures removed" in either.out


def test_a_command_opens_the_texts_that_a_service_saved(
    shell: Shell, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_indexes, "SAVED_ITEMS", 1)
    bundle = tiny.build(tmp_path / "tiny").folder
    assert shell("add", "box", "--text", "a red box", "--bundle", bundle) == 0
    encoder = open_encoder(bundle)
    with Collection.open(shell.place.folder, encoder, reader=encoder.reader) as collection:
        assert collection.count() == 1
    assert (shell.place.folder / "texts").is_dir()
    assert shell("verify", "--bundle", bundle) == 0
    assert shell("remove", "box", "--bundle", bundle) == 0
    assert "built again" not in caplog.text


def test_plain_embeddings_have_no_words(shell: Shell, tmp_path: Path) -> None:
    assert shell(*fifty(tmp_path)) == 0
    assert shell("add", "x", "--text", "hello") == 2
    assert "multifold index import" in shell.err
    assert shell("remove", "thing 3") == 0
    assert shell.stats()["items"] == 39


def test_what_is_wrong_is_told(shell: Shell, tmp_path: Path) -> None:
    assert shell(*fifty(tmp_path)) == 0
    with Collection.open(shell.place.folder, PlainSpace("cosine", DIM)) as collection:
        collection.upsert([Item("broken", (view(0, VECTORS[0]),))])
    assert shell("verify") == 1
    assert "no blob" in shell.out
    assert "1 things are wrong" in shell.out
