"""What is made of originals: a mesh as GLB, large views, several items as one ZIP file."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from multifold.files import folder
from multifold.files.folder import FolderLayout
from renderers.mesh.formats.mesh_file import find_companions
from renderers.mesh.formats.table import EXTENSIONS
from tests.app.house import House, png


def test_a_mesh_of_any_format_comes_as_glb(shop: House) -> None:
    stl = trimesh.creation.cone(1, 6).export(file_type="stl")
    assert isinstance(stl, bytes)
    assert shop.client.put("/v1/items/cone", files={"mesh": ("cone.stl", stl)}).status_code == 200
    try:
        answer = shop.client.get("/v1/items/cone/model")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "model/gltf-binary")
        mesh = trimesh.load(io.BytesIO(answer.content), "glb", force="mesh")
        assert mesh.bounds[1][1] > 0.6 > mesh.bounds[1][0]  # it stands: STL has Z up, glTF has Y
        tag = {"if-none-match": answer.headers["etag"]}
        assert shop.client.get("/v1/items/cone/model", headers=tag).status_code == 304
        (file,) = shop.client.get("/v1/items/cone").json()["files"]
        original = shop.client.get(file["url"])
        assert (original.content, original.headers["content-type"]) == (stl, "application/octet-stream")
        assert original.headers["content-disposition"].startswith("attachment")
        assert shop.client.get("/v1/items/cone/files/1").status_code == 404
        kept = shop.client.get("/v1/items/cone/model", params={"v": file["url"].partition("v=")[2]})
        assert "immutable" in kept.headers["cache-control"]
    finally:
        shop.client.delete("/v1/items/cone")


def test_without_a_mesh_there_is_no_model(shop: House) -> None:
    shop.client.put("/v1/items/photo", files={"images": ("p.png", png("red"))})
    try:
        answer = shop.client.get("/v1/items/photo/model")
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "no_original")
        assert shop.client.get("/v1/items/nobody/model").status_code == 404
    finally:
        shop.client.delete("/v1/items/photo")


@pytest.mark.parametrize("size", [64, 512])
def test_a_view_is_rendered_larger(shop: House, size: int) -> None:
    stored = Image.open(io.BytesIO(shop.client.get("/v1/items/red-box/views/1").content)).convert("RGB")
    answer = shop.client.get("/v1/items/red-box/views/1", params={"size": size})
    large = Image.open(io.BytesIO(answer.content)).convert("RGB")
    assert large.size == (size, size)
    apart = np.asarray(stored.resize((8, 8)), float) - np.asarray(large.resize((8, 8)), float)
    assert np.abs(apart).max() < 40
    assert shop.client.get("/v1/items/red-box/views/6", params={"size": size}).status_code == 404


@pytest.mark.parametrize("size", ["63", "1025", "x"])
def test_a_senseless_size_is_refused(shop: House, size: str) -> None:
    assert shop.client.get("/v1/items/red-box/views/1", params={"size": size}).status_code == 422


def test_an_archive_is_a_folder_that_an_ingest_reads(shop: House, tmp_path: Path) -> None:
    names = ["red-box", "in/ner/../box"]
    files = [("images", ("a.png", png("red"))), ("images", ("b.png", png("blue")))]
    data = {"texts": ["two photos"], "payload": json.dumps({"price": 3})}
    assert shop.client.put("/v1/items/in%2Fner%2F..%2Fbox", files=files, data=data).status_code == 200
    try:
        answer = shop.client.get("/v1/archive", params={"id": names})
        assert answer.headers["content-type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert archive.testzip() is None
            assert not [name for name in archive.namelist() if ".." in name or name.startswith("/")]
            archive.extractall(tmp_path)
        layout = FolderLayout(EXTENSIONS, find_companions)
        entries = {entry.id: entry for entry in folder.read(tmp_path, layout).entries}
        assert set(entries) == set(names)
        assert [Path(path).read_bytes() for path in entries[names[1]].images] == [png("red"), png("blue")]
        assert (entries[names[1]].texts, entries[names[1]].meta["price"]) == (("two photos",), 3)
        assert entries["red-box"].mesh is not None
    finally:
        shop.client.delete("/v1/items/in%2Fner%2F..%2Fbox")
    assert shop.client.get("/v1/archive", params={"id": "nobody"}).status_code == 404
    assert shop.client.get("/v1/archive").status_code == 422


def test_an_archive_of_long_ids_can_be_unpacked(shop: House, tmp_path: Path) -> None:
    names = ["\u00fc" * 250, "\u00fc" * 249]
    for name in names:
        assert shop.client.put(f"/v1/items/{name}", files={"images": ("a.png", png("red"))}).is_success
    try:
        answer = shop.client.get("/v1/archive", params={"id": names})
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            archive.extractall(tmp_path)
        entries = folder.read(tmp_path, FolderLayout(EXTENSIONS, find_companions)).entries
        assert {entry.id for entry in entries} == set(names)
    finally:
        shop.client.post("/v1/items/delete", json={"ids": names})
