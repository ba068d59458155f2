"""Points, from a mesh to an answer: stored, asked, rebuilt, and without harm."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from app.runtime import rebuild
from app.runtime.probes import probe_collection
from index.store import browse
from index.store.item_rows import ItemError
from multifold.analysis.surface import CELLS
from multifold.client import Client
from renderers.mesh.load import load_model
from renderers.points import sample_points
from tests import tiny
from tests.app.answers import refused, uri
from tests.app.house import BOXES, House, house

FORMS = {"ball": "a ball", "cube": "a box"}
NAMES = [*FORMS, *(f"{colour}-box" for colour in BOXES)]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    tiny.build_with_points(folder / "points")
    tiny.build(folder / "plain", seed=0)
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, bundles: Path) -> Iterator[House]:
    """A grey ball and a grey cube without a word, and coloured boxes."""
    with house(tmp_path_factory.mktemp("shop"), bundles / "points", bundles=bundles) as opened:
        for form in FORMS:
            assert put_stl(opened, form).is_success
        opened.fill()
        yield opened


def stl(form: str) -> bytes:
    mesh = trimesh.creation.icosphere(3) if form == "ball" else trimesh.creation.box((1, 1, 1))
    return bytes(mesh.export(file_type="stl"))


def put_stl(opened: House, form: str) -> Any:  # noqa: ANN401
    files = [("mesh", ("thing.stl", stl(form), "model/stl"))]
    return opened.client.put(f"/v1/items/{form}", files=files)


def kinds(opened: House, name: str, within: str = "") -> Counter[str]:
    item = opened.client.get(f"/v1/{within}items/{name}").json()
    return Counter(one["kind"] for one in item["observations"])


def by_mesh(form: str) -> dict[str, str]:
    return {"mesh": uri(stl(form), "model/stl"), "mesh_format": "stl"}


def hits(shop: House, **asked: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    found: list[dict[str, Any]] = shop.search(limit=6, **asked).json()["hits"]
    return found


def legs(hit: dict[str, Any]) -> set[str]:
    return {share["leg"] for share in hit["evidence"]}


def rerank(opened: House, query: dict[str, str], candidates: list[dict[str, str]]) -> list[dict[str, Any]]:
    answer = opened.client.post("/v1/rerank", json={**query, "candidates": candidates})
    ranked: list[dict[str, Any]] = answer.json()["candidates"]
    return ranked


def test_a_mesh_is_stored_with_its_points(shop: House, tmp_path: Path) -> None:
    assert kinds(shop, "ball") == {"view": 6, "points": 1}
    assert shop.service.collection.read(browse.count_observations)["points"] == 6
    assert shop.client.get("/readyz").status_code == 200
    (tmp_path / "ball.stl").write_bytes(stl("ball"))
    sample = sample_points(load_model(tmp_path / "ball.stl"), tiny.POINTS.points, tiny.POINTS.seed)
    stored = shop.service.item("ball").observations
    points = next(one.feature for one in stored if one.kind == "points")
    np.testing.assert_array_equal(points, shop.service.encoder.points([sample.rows()])[0])


@pytest.mark.parametrize("target", ["item", "shape"])
@pytest.mark.parametrize(("form", "other"), [("ball", "cube"), ("cube", "ball")])
def test_a_grey_mesh_is_found_by_its_points(shop: House, form: str, other: str, target: str) -> None:
    found = hits(shop, text=FORMS[form], target=target, lexical="off")
    order = [hit["id"] for hit in found]
    assert order.index(form) < order.index(other)
    hit = found[order.index(form)]
    assert (hit["modality"], hit["matched"]["kind"]) == ("shape", "view")
    assert 0 <= hit["confidence"] <= 1
    points = next(leg for leg in hit["evidence"] if leg["leg"] == "points")
    assert (points["value"] > 0, points["matched"]["kind"]) == (True, "points")
    assert target == "item" or legs(hit) <= {"shape", "points"}
    (first, *_) = hits(shop, **by_mesh(form), target=target)
    assert (first["id"], "points" in legs(first)) == (form, True)
    assert shop.best(id=form, target=target) == form


def test_a_mix_has_no_confidence_and_pages_continue_one_another(shop: House) -> None:
    mix = [{"text": "a ball"}, {"text": "red", "weight": 0.5}]
    mixed = shop.search(mix=mix, limit=6).json()
    assert ({hit["confidence"] for hit in mixed["hits"]}, mixed["calibrated_by"]) == ({None}, None)
    refused(shop.search(mix=mix, min_confidence=0.1), 422, "no_calibration")
    whole = [hit["id"] for hit in hits(shop, text="a ball", min_confidence=0.0)]
    first = shop.search(text="a ball", limit=4).json()
    rest = shop.search(text="a ball", limit=4, after=first["next"]).json()
    assert [hit["id"] for hit in first["hits"] + rest["hits"]] == whole
    assert [hit["id"] for hit in hits(shop, text="a ball", filter={"is": "red"})] == ["red-box"]
    answer = shop.client.post("/v1/items/ball/similar", json={"target": "shape", "limit": 6}).json()
    assert set().union(*map(legs, answer["hits"])) >= {"shape", "points"}


def test_items_and_other_meshes_are_reranked_as_a_search_ranks_them(shop: House) -> None:
    found = hits(shop, **by_mesh("cube"), target="item")
    ranked = rerank(shop, by_mesh("cube"), [{"id": name} for name in NAMES])
    assert [one["id"] for one in ranked] == [hit["id"] for hit in found]
    assert [one["score"] for one in ranked] == pytest.approx([hit["score"] for hit in found], abs=1e-5)
    assert "points" in legs(ranked[0])
    beside = rerank(shop, by_mesh("cube"), [{"id": "ball"}, by_mesh("cube"), {"id": "cube"}])
    assert beside[-1]["index"] == 0
    for said, best in (("a ball", 1), ("a box", 0)):
        ranked = rerank(shop, {"text": said}, [by_mesh("cube"), by_mesh("ball")])
        assert [one["index"] for one in ranked] == [best, 1 - best]
        assert "points" in legs(ranked[0])


def test_points_are_explained_on_the_views_of_the_mesh(shop: House) -> None:
    asked = {"text": "a ball", "item": "cube", "kind": "points"}
    explained = shop.client.post("/v1/explain", json=asked).json()["explained"]
    assert (explained["observation"]["kind"], explained["heat_map"]) == ("points", None)
    surface = explained["surface"]
    assert surface["method"] == "occlusion"
    assert [len(one["grid"]) for one in surface["views"]] == [CELLS] * 6
    shares = [one["share"] for one in surface["regions"]]
    assert shares == sorted(shares, reverse=True)
    # this tower knows a ball by points that lie far out: of a cube, its corners
    far = [np.linalg.norm(one["middle"]) for one in surface["regions"]]
    assert np.mean(far[:8]) > np.mean(far[-8:])
    view = shop.client.post("/v1/explain", json={**asked, "kind": "view"}).json()["explained"]
    assert (view["surface"], view["heat_map"] is None) == (None, False)
    scores = shop.client.post("/v1/explain", json={**asked, "maps": False}).json()["explained"]
    assert scores["surface"] is None


def test_a_collection_gains_them_by_the_rebuild(
    tmp_path: Path, bundles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "longest_request", lambda _: 0.1)
    with house(tmp_path / "data", bundles / "plain", bundles=bundles) as opened, Client(opened.url) as client:
        assert put_stl(opened, "ball").is_success
        assert kinds(opened, "ball") == {"view": 6}
        assert client.wait(client.rebuild("main", "new", bundle="points").id, 0.05).state == "done"
        assert kinds(opened, "ball", "collections/new/") == {"view": 6, "points": 1}


def damage(opened: House, *kinds: str) -> None:
    """Change the bytes of the features of these kinds, of the ball alone."""
    with closing(sqlite3.connect(opened.service.home / "store.sqlite")) as store, store:
        wanted = ", ".join("?" * len(kinds))
        store.execute(
            f"UPDATE observations SET feature = zeroblob(length(feature)) WHERE kind IN ({wanted})"
            " AND edition = (SELECT edition FROM items WHERE id = 'ball')",
            kinds,
        )


def test_damaged_points_are_made_anew_from_the_mesh(shop: House) -> None:
    before = shop.service.item("ball").observations
    damage(shop, "points", "view")
    assert kinds(shop, "ball") == {}
    found = probe_collection(shop.service)
    assert (found.damaged, found.repaired) == (7, 7)
    after = shop.service.item("ball")
    assert after.damaged == ()
    assert [(one.kind, one.index) for one in after.observations] == [(one.kind, one.index) for one in before]
    for old, new in zip(before, after.observations, strict=True):
        # views are kept with a little loss, points are sampled from the mesh as they were
        np.testing.assert_allclose(new.feature, old.feature, atol=0 if old.kind == "points" else 0.02)
    assert shop.service.collection.disagreements() == []


def test_without_the_mesh_points_have_no_map_and_damage_is_told(tmp_path: Path, bundles: Path) -> None:
    with house(tmp_path / "data", bundles / "points", keep_files=False) as opened:
        assert put_stl(opened, "ball").is_success
        asked = {"text": "a ball", "item": "ball", "kind": "points"}
        answer = opened.client.post("/v1/explain", json=asked).json()
        assert answer["explained"]["surface"] is None
        assert answer["warnings"] == ["the mesh of this item is not kept here, so its points cannot be drawn"]
        damage(opened, "points")
        found = probe_collection(opened.service)
        assert (found.damaged, found.repaired) == (1, 0)
        with pytest.raises(ItemError, match="points 0 is damaged: write the item again"):
            opened.service.repair("ball")
        assert put_stl(opened, "ball").is_success
        assert kinds(opened, "ball") == {"view": 6, "points": 1}
