"""The whole path in small, by a user's commands: shapes, training, bundle, collection, answer."""

from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from multifold.bundle.canary import open_encoder
from multifold.cli import main
from multifold.manifest import read

RECIPE = """
name = "path"
about = "Knows very little."
[data]
furniture_items = 48
furniture_seed = 5
test_items = 8
[views]
size = 64
[image]
size = 32
stem = [8, 16]
width = 32
depth = 1
heads = 2
[text]
vocabulary = 400
width = 32
depth = 1
heads = 2
[geometry]
dim = 16
[train]
items = 16
steps = 12
warmup = 2
shift = 1
"""


@pytest.mark.slow
def test_from_shapes_to_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fastapi.testclient import TestClient

    recipe, run, bundle, data = (str(tmp_path / name) for name in ("path.toml", "run", "bundle", "data"))
    furniture, cache = str(tmp_path / "furniture"), str(tmp_path / "cache")
    Path(recipe).write_text(RECIPE, encoding="utf-8")
    assert main(["train", recipe, "--out", run, "--cache", cache]) == 0
    assert main(["export", f"{run}/checkpoint.pt", bundle, "--cache", cache, "--pool", "furniture"]) == 0
    assert "text to shape" in capsys.readouterr().out
    assert main(["data", "furniture", "--items", "6", "--seed", "9", furniture]) == 0
    for _ in range(2):
        assert main(["ingest", f"{furniture}/manifest.jsonl", "--data", data, "--bundle", bundle]) == 0
    made = {entry.id: entry for entry in read(Path(furniture) / "manifest.jsonl")}
    assert "a chair" in open_encoder(Path(bundle)).bundle.pool()
    app = create_app(Settings(data=Path(data), bundle=Path(bundle)))
    with TestClient(app, base_url="http://localhost") as client:
        found = client.post("/v1/search", json={"text": "a chair", "limit": 10}).json()
        assert {hit["id"] for hit in found["hits"]} == set(made)
        mesh = next(iter(made.values()))
        assert mesh.mesh is not None
        with open(mesh.mesh, "rb") as file:
            own = client.post(
                "/v1/search", files={"mesh": ("query.glb", file)}, data={"target": "shape"}
            ).json()
        assert own["hits"][0]["id"] == mesh.id
