"""Points, from a mesh to an answer: stored, asked, rebuilt, and without harm."""

import sqlite3
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from app.operations.probes import probe_collection
from app.runtime import rebuild
from index.store import browse
from index.store.item_rows import ItemError
from multifold.analysis.surface import CELLS
from multifold.client import Client
from multifold.types import Observation, pool_side
from renderers.mesh.load import load_model
from renderers.points import sample_points
from tests import tiny
from tests.app.house import BOXES, House, house
from tests.waiting import until


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    tiny.build_with_points(folder / "points")
    tiny.build(folder / "plain", seed=0)
    return folder


@pytest.fixture
def shop(tmp_path: Path, bundles: Path) -> Iterator[House]:
    with house(tmp_path / "data", bundles / "points", bundles=bundles) as opened:
        fill(opened)
        yield opened


def fill(opened: House) -> None:
    """A grey ball and a grey cube without a word, and coloured boxes."""
    for name in ("ball", "cube"):
        assert put_stl(opened, name).is_success
    for colour in BOXES:
        assert opened.put(f"{colour}-box", colour).is_success


def stl(form: str) -> bytes:
    mesh = trimesh.creation.icosphere(3) if form == "ball" else trimesh.creation.box((1, 1, 1))
    return bytes(mesh.export(file_type="stl"))


def put_stl(opened: House, form: str) -> Any:  # noqa: ANN401
    files = [("mesh", ("thing.stl", stl(form), "model/stl"))]
    return opened.client.put(f"/v1/items/{form}", files=files)


def kinds(opened: House, name: str) -> Counter[str]:
    return Counter(one["kind"] for one in opened.client.get(f"/v1/items/{name}").json()["observations"])


def test_a_mesh_is_stored_with_its_points(shop: House, tmp_path: Path) -> None:
    assert kinds(shop, "ball") == {"view": 6, "points": 1}
    assert shop.service.collection.read(browse.count_observations)["points"] == 6
    (tmp_path / "ball.stl").write_bytes(stl("ball"))
    sample = sample_points(load_model(tmp_path / "ball.stl"), tiny.POINTS.points, tiny.POINTS.seed)
    stored = shop.service.item("ball").observations
    points = next(one.feature for one in stored if one.kind == "points")
    np.testing.assert_array_equal(points, shop.service.encoder.points([sample.rows()])[0])


def test_a_grey_mesh_is_found_by_its_points(shop: House) -> None:
    for form, said in (("ball", "a ball"), ("cube", "a box")):
        found = shop.search(text=said, target="item", limit=6, lexical="off").json()["hits"]
        order = [hit["id"] for hit in found]
        other = "cube" if form == "ball" else "ball"
        assert order.index(form) < order.index(other)
        hit = found[order.index(form)]
        assert hit["modality"] == "shape"
        assert hit["matched"]["kind"] == "view"
        legs = {leg["leg"]: leg for leg in hit["evidence"]}
        assert legs["points"]["value"] > 0
        assert legs["points"]["matched"]["kind"] == "points"


def test_a_mesh_asks_with_all_that_the_bundle_has(shop: House) -> None:
    for form in ("ball", "cube"):
        files = {"mesh": ("q.stl", stl(form), "model/stl")}
        hits = shop.client.post("/v1/search", files=files, data={"target": "item"}).json()["hits"]
        assert hits[0]["id"] == form
        assert "points" in {leg["leg"] for leg in hits[0]["evidence"]}
    assert shop.best(id="ball", target="item") == "ball"


def test_items_are_reranked_for_a_mesh_as_a_search_ranks_them(shop: House) -> None:
    names = ["ball", "cube", *(f"{colour}-box" for colour in BOXES)]
    mesh = {"mesh": "data:model/stl;base64," + b64encode(stl("cube")).decode()}
    asked = {**mesh, "target": "item", "limit": len(names)}
    found = shop.client.post("/v1/search", json=asked).json()["hits"]
    ranked = rerank(shop, mesh, [{"id": name} for name in names])
    assert [one["id"] for one in ranked] == [hit["id"] for hit in found]
    assert [one["score"] for one in ranked] == pytest.approx([hit["score"] for hit in found], abs=1e-5)
    assert "points" in {share["leg"] for share in ranked[0]["evidence"]}
    beside = rerank(shop, mesh, [{"id": "ball"}, mesh, {"id": "cube"}])
    assert beside[-1]["index"] == 0


def rerank(opened: House, query: dict[str, str], candidates: list[dict[str, str]]) -> list[dict[str, Any]]:
    answer = opened.client.post("/v1/rerank", json={**query, "candidates": candidates})
    ranked: list[dict[str, Any]] = answer.json()["candidates"]
    return ranked


def test_the_shape_is_the_mean_of_its_views_and_its_points() -> None:
    rng = np.random.default_rng(0)
    views = [Observation("view", place, rng.normal(size=4).astype(np.float32)) for place in range(3)]
    mean = np.mean([one.feature for one in views], axis=0)
    plain = pool_side(views, "shape")
    assert plain is not None
    np.testing.assert_allclose(plain, mean, atol=1e-6)
    points = Observation("points", 0, 100 * rng.normal(size=4).astype(np.float32))
    both = pool_side([*views, points], "shape")
    assert both is not None
    unit = points.feature / np.linalg.norm(points.feature) * np.linalg.norm(mean)
    np.testing.assert_allclose(both, (mean + unit) / 2, atol=1e-6)
    assert pool_side(views, "text") is None


def test_a_collection_gains_them_by_the_rebuild(
    tmp_path: Path, bundles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "longest_request", lambda _: 1.0)
    with house(tmp_path / "data", bundles / "plain", bundles=bundles) as opened, Client(opened.url) as client:
        fill(opened)
        assert kinds(opened, "ball") == {"view": 6}
        answer = opened.client.post("/v1/collections", json={"name": "new", "bundle": "points"})
        assert answer.is_success, answer.text
        job = client.rebuild("main", to="new")
        until(lambda: client.job(job.id).state in ("done", "failed"), what="the rebuild")
        assert client.job(job.id).state == "done"
        item = opened.client.get("/v1/collections/new/items/ball").json()
        assert Counter(one["kind"] for one in item["observations"]) == {"view": 6, "points": 1}


def test_a_reopened_collection_still_has_them(tmp_path: Path, bundles: Path) -> None:
    for turn in range(2):
        with house(tmp_path / "data", bundles / "points") as opened:
            if not turn:
                fill(opened)
            assert kinds(opened, "cube") == {"view": 6, "points": 1}
            hits = opened.search(text="a ball", target="item", limit=6, lexical="off").json()["hits"]
            order = [hit["id"] for hit in hits]
            assert order.index("ball") < order.index("cube")


def test_without_points_their_module_is_not_imported(bundles: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from multifold.bundle.canary import open_encoder; "
        f"open_encoder(Path({str(bundles / 'plain')!r})); "
        "print('multifold.bundle.point_groups' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_shapes_alone_are_ranked_by_all_that_is_known_of_them(shop: House) -> None:
    for form, said in (("ball", "a ball"), ("cube", "a box")):
        answer = shop.search(text=said, limit=6, lexical="off").json()
        order = [hit["id"] for hit in answer["hits"]]
        other = "cube" if form == "ball" else "ball"
        assert order.index(form) < order.index(other)
        hit = answer["hits"][order.index(form)]
        assert {leg["leg"] for leg in hit["evidence"]} <= {"shape", "points"}
        assert 0 <= hit["confidence"] <= 1
        assert answer["calibrated_by"] in ("prior", "collection")
    sure = shop.search(text="a ball", min_confidence=0.0, limit=6).json()["hits"]
    assert len(sure) == 6
    mixed = shop.search(mix=[{"text": "a ball"}, {"text": "red", "weight": 0.5}], limit=6).json()
    assert {hit["confidence"] for hit in mixed["hits"]} == {None}
    assert mixed["calibrated_by"] is None
    refused = shop.search(mix=[{"text": "a ball"}, {"text": "red"}], min_confidence=0.1)
    assert refused.json()["error"]["code"] == "no_calibration"


def test_pages_of_shapes_continue_one_another(shop: House) -> None:
    whole = [hit["id"] for hit in shop.search(text="a ball", limit=6).json()["hits"]]
    first = shop.search(text="a ball", limit=4).json()
    rest = shop.search(text="a ball", limit=4, after=first["next"]).json()
    assert [hit["id"] for hit in first["hits"] + rest["hits"]] == whole
    among = shop.search(text="a ball", limit=6, filter={"is": "red"}).json()["hits"]
    assert [hit["id"] for hit in among] == ["red-box"]


def test_similar_items_and_a_mesh_are_ranked_by_views_and_points(shop: House) -> None:
    answer = shop.client.post("/v1/items/ball/similar", json={"target": "shape", "limit": 6}).json()
    assert {leg["leg"] for hit in answer["hits"] for leg in hit["evidence"]} >= {"shape", "points"}
    files = {"mesh": ("q.stl", stl("ball"), "model/stl")}
    hits = shop.client.post("/v1/search", files=files, data={"target": "shape"}).json()["hits"]
    assert hits[0]["id"] == "ball"


def test_meshes_that_are_no_items_are_reranked_by_their_points(shop: House) -> None:
    candidates = [
        {"mesh": f"data:model/stl;base64,{b64encode(stl(form)).decode()}", "mesh_format": "stl"}
        for form in ("cube", "ball")
    ]
    for said, best in (("a ball", 1), ("a box", 0)):
        answer = shop.client.post("/v1/rerank", json={"text": said, "candidates": candidates})
        ranked = answer.json()["candidates"]
        assert [one["index"] for one in ranked] == [best, 1 - best]
        assert "points" in {leg["leg"] for leg in ranked[0]["evidence"]}


def test_the_service_is_ready_with_points(shop: House) -> None:
    assert shop.client.get("/readyz").status_code == 200


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


def test_damaged_points_without_a_mesh_are_told(tmp_path: Path, bundles: Path) -> None:
    with house(tmp_path / "data", bundles / "points", keep_files=False) as opened:
        assert put_stl(opened, "ball").is_success
        damage(opened, "points")
        found = probe_collection(opened.service)
        assert (found.damaged, found.repaired) == (1, 0)
        with pytest.raises(ItemError, match="points 0 is damaged: write the item again"):
            opened.service.repair("ball")
        assert put_stl(opened, "ball").is_success
        assert kinds(opened, "ball") == {"view": 6, "points": 1}


def test_points_are_explained_on_the_views_of_the_mesh(shop: House) -> None:
    asked = {"text": "a ball", "item": "cube", "kind": "points"}
    answer = shop.client.post("/v1/explain", json=asked).json()
    explained = answer["explained"]
    assert explained["observation"]["kind"] == "points"
    assert explained["heat_map"] is None
    surface = explained["surface"]
    assert surface["method"] == "occlusion"
    assert [len(one["grid"]) for one in surface["views"]] == [CELLS] * 6
    shares = [one["share"] for one in surface["regions"]]
    assert shares == sorted(shares, reverse=True)
    # this tower knows a ball by points that lie far out: of a cube, its corners
    far = [np.linalg.norm(one["middle"]) for one in surface["regions"]]
    assert np.mean(far[:8]) > np.mean(far[-8:])
    view = shop.client.post("/v1/explain", json={**asked, "kind": "view"}).json()["explained"]
    assert view["surface"] is None
    assert view["heat_map"] is not None
    scores = shop.client.post("/v1/explain", json={**asked, "maps": False}).json()["explained"]
    assert scores["surface"] is None


def test_points_of_a_mesh_that_is_not_kept_have_no_map(tmp_path: Path, bundles: Path) -> None:
    with house(tmp_path / "data", bundles / "points", keep_files=False) as opened:
        assert put_stl(opened, "ball").is_success
        asked = {"text": "a ball", "item": "ball", "kind": "points"}
        answer = opened.client.post("/v1/explain", json=asked).json()
        assert answer["explained"]["surface"] is None
        assert answer["warnings"] == ["the mesh of this item is not kept here, so its points cannot be drawn"]
