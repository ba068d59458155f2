"""Points and views read together, from a mesh to an answer: stored, asked, rebuilt, and without harm."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from app.runtime import rebuild
from multifold.client.client import Client
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
    assert kinds(shop, "ball") == {"view": 6, "points": 1, "together": 1}
    counted = shop.service.collection.observations()
    assert (counted["points"], counted["together"]) == (6, 6)
    (tmp_path / "ball.stl").write_bytes(stl("ball"))
    sample = sample_points(load_model(tmp_path / "ball.stl"), tiny.POINTS.points, tiny.POINTS.seed)
    stored = shop.service.item("ball").observations
    points = next(one.feature for one in stored if one.kind == "points")
    np.testing.assert_array_equal(points, shop.service.encoder.points([sample.rows()])[0])
    together = next(one.feature for one in stored if one.kind == "together")
    views = np.stack([one.feature for one in stored if one.kind == "view"])
    np.testing.assert_allclose(together, shop.service.encoder.together(views), atol=1e-6)


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
        assert "points" in {leg["leg"] for leg in hits[0]["evidence"]}  # views together count once fitted
    assert shop.best(id="ball", target="item") == "ball"


def test_the_shape_is_the_mean_of_its_forms() -> None:
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
        assert Counter(one["kind"] for one in item["observations"]) == {"view": 6, "points": 1, "together": 1}


def test_a_reopened_collection_still_has_them(tmp_path: Path, bundles: Path) -> None:
    for turn in range(2):
        with house(tmp_path / "data", bundles / "points") as opened:
            if not turn:
                fill(opened)
            assert kinds(opened, "cube") == {"view": 6, "points": 1, "together": 1}
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
