"""The same thing in several files is one hit, if that is asked for."""

import io

import numpy as np
import pytest
import trimesh
from PIL import Image

from app.collections.duplicates import comparison_thumbnail, shows_same
from multifold.client import Client
from tests.app.house import House, box, png


def scene(seed: int) -> Image.Image:
    """A picture of some patches."""
    rng = np.random.default_rng(seed)
    pixels = np.full((480, 640, 3), 255, np.uint8)
    for _ in range(8):
        top, left = rng.integers(0, 400, 2)
        pixels[top : top + 160, left : left + 200] = rng.integers(0, 255, 3)
    return Image.fromarray(pixels)


def saved(picture: Image.Image, form: str, **how: int) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **how)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(5))
def test_another_size_and_quality_is_the_same(seed: int) -> None:
    first = comparison_thumbnail(scene(seed))[None]
    small = Image.open(io.BytesIO(saved(scene(seed).resize((320, 240)), "JPEG", quality=50)))
    assert shows_same(first, comparison_thumbnail(small)[None])
    assert not shows_same(first, comparison_thumbnail(scene(seed + 100))[None])
    assert not shows_same(
        first, comparison_thumbnail(Image.eval(scene(seed), lambda level: level * 3 // 4))[None]
    )


def test_the_same_picture_is_one_hit_with_several_files(own: House) -> None:
    picture = scene(1)
    files = {
        "a.png": saved(picture, "PNG"),
        "b.jpg": saved(picture, "JPEG", quality=60),
        "c.webp": saved(picture.resize((320, 240)), "WEBP"),
        "other.png": saved(scene(2), "PNG"),
        "red.png": png("red"),
    }
    with Client(own.url) as client:
        for name, data in files.items():
            client.upsert(name, images=[data], payload={"path": name})
        shown = client.search(image=files["a.png"], target="image", limit=10).hits
        assert len(shown) == 5
        folded = client.search(image=files["a.png"], target="image", limit=10, duplicates="fold").hits
        assert len(folded) == 3
        same = [hit.id for hit in shown if hit.id in ("a.png", "b.jpg", "c.webp")]
        assert folded[0].id == same[0]
        assert [one.id for one in folded[0].duplicates] == same[1:]
        assert {one.payload["path"] for one in folded[0].duplicates} == set(same[1:])
        assert all(not hit.duplicates for hit in folded[1:])
        second = client.search(
            image=files["a.png"], target="image", limit=1, offset=1, duplicates="fold"
        ).hits
        assert [hit.id for hit in second] == [folded[1].id]


def test_what_is_the_same_as_an_item_is_like_it(own: House) -> None:
    same, fitting = {"1.png", "2.png", "3.png"}, {"like": True}
    with Client(own.url) as client:
        for name in same:
            client.upsert(name, images=[saved(scene(3), "PNG")], payload=fitting)
        client.upsert("4.png", images=[saved(scene(4), "PNG")], payload=fitting)
        for asked in same:
            hits = client.similar(asked, target="image", filter=fitting, duplicates="fold").hits
            assert {hits[0].id, *(one.id for one in hits[0].duplicates)} == same - {asked}
            assert [(one.id, one.duplicates) for one in hits[1:]] == [("4.png", ())]


def test_a_mesh_in_another_scale_is_the_same(own: House) -> None:
    mesh = trimesh.creation.box(extents=(1.0, 0.8, 0.6))
    with Client(own.url) as client:
        client.upsert("one", mesh=bytes(mesh.export(file_type="glb")))
        larger = mesh.copy().apply_scale(7)
        client.upsert("two", mesh=bytes(larger.export(file_type="glb")))
        client.upsert("flat", mesh=box("blue"))
        hits = client.search(id="one", target="shape", duplicates="fold").hits
        assert [(hit.id, [other.id for other in hit.duplicates]) for hit in hits] == [
            ("one", ["two"]),
            ("flat", []),
        ]
