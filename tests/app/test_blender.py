"""The add-on for Blender: what it asks a service, and a hit that Blender itself drops into a scene."""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote

import pytest
from PIL import Image

from multifold.blender import command
from multifold.blender.connection import AddonConnection, AddonError, FoundModel, refusal_of, title_of
from tests.answering import answering
from tests.app.house import House, box, house, png

KEY = "write-key-of-blender"
BLENDER = shutil.which("blender")
OBJ = b"v 0 0 0\nv 4 0 0\nv 0 4 0\nv 0 0 4\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
SECONDS = 600
# What somebody does in Blender: a search, and a click on the first hit.
SESSION = """
import json, sys
import bpy
preferences = bpy.context.preferences.addons["multifold_search"].preferences
preferences.key = sys.argv[-1]
bpy.context.scene.cursor.location = (1, 2, 3)
bpy.context.window_manager.multifold_query = "a red box"  # it searches by itself
from multifold_search.panel import state
first = state.models[0]
before = set(bpy.data.objects)
assert bpy.ops.multifold.drop(item=first.id) == {"FINISHED"}
(dropped,) = set(bpy.data.objects) - before
bpy.context.view_layer.update()
(material,) = dropped.data.materials
seen = {
    "message": state.message,
    "found": [one.id for one in state.models],
    "picture": list(state.previews[first.id].image_size),
    "kind": dropped.type,
    "name": dropped.name,
    "id": dropped["multifold_id"],
    "place": list(dropped.location),
    "size": list(dropped.dimensions),
    "colour": list(material.node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value),
}
preferences.key = "another key"
bpy.ops.multifold.search()
print("SEEN" + json.dumps(seen | {"refusal": state.message}))
"""


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service with keys: a GLB file, an OBJ file, and a photo."""
    with house(tmp_path_factory.mktemp("yard"), bundle, keys=f"write:{KEY}") as opened:
        opened.client.headers["x-api-key"] = KEY
        for name, colour, file in (
            ("red box", "red", ("mesh", ("box.glb", box("red")))),
            ("sets/blue", "blue", ("mesh", ("corner.obj", OBJ))),
            ("photo", "red", ("images", ("photo.png", png("red")))),
        ):
            texts = {"texts": [f"a {colour} box"]}
            response = opened.client.put(f"/v1/items/{quote(name, safe='')}", data=texts, files=[file])
            assert response.status_code == 200, response.text
        yield opened


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy comes between."""
    monkeypatch.setenv("no_proxy", "*")


def test_it_finds_models_with_thumbnails(yard: House, tmp_path: Path) -> None:
    found = AddonConnection(f"{yard.url}/", KEY).find_models("a red box", tmp_path)
    assert [one.id for one in found.models] == ["red box", "sets/blue"]  # a photo is no model
    assert [(one.title, one.format) for one in found.models] == [("a red box", "glb"), ("a blue box", "obj")]
    for one in found.models:
        assert one.picture is not None
        with Image.open(one.picture) as picture:
            assert max(picture.size) <= 256
    assert len({one.picture for one in found.models}) == 2


def test_a_collection_can_be_named(yard: House, tmp_path: Path) -> None:
    named = AddonConnection(yard.url, KEY, collection="main")
    assert named.find_models("a red box", tmp_path).models[0].id == "red box"
    with pytest.raises(AddonError, match="'none'"):
        replace(named, collection="none").find_models("a red box", tmp_path)


def test_a_glb_file_comes_as_it_is_and_others_are_converted(yard: House, tmp_path: Path) -> None:
    service = AddonConnection(yard.url, KEY)
    glb, obj = service.find_models("a red box", tmp_path).models
    original, converted = (path.read_bytes() for path in service.fetch_model(glb, tmp_path))
    assert original == box("red") != converted
    (only,) = service.fetch_model(obj, tmp_path)
    assert only.read_bytes()[:4] == converted[:4] == b"glTF"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"key": "another"}, "key"),
        ({"url": "file:///etc/passwd"}, "is no address of a service"),
        ({"url": ""}, "is no address of a service"),
        ({"url": "http://127.0.0.1:1"}, "does not answer"),
        ({"url": "http://a b"}, "does not answer"),
    ],
)
def test_trouble_is_a_sentence(yard: House, tmp_path: Path, changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(AddonError, match=sentence):
        replace(AddonConnection(yard.url, KEY), **changes).find_models("a red box", tmp_path)


def test_answers_of_other_servers_are_no_traceback(tmp_path: Path) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

    with answering(Other) as port, pytest.raises(AddonError, match="is no Multifold service"):
        AddonConnection(f"http://127.0.0.1:{port}").find_models("a red box", tmp_path)
    assert refusal_of(b"<html>", 502) == refusal_of(b"[]", 502) == "the service answers 502"


def test_a_model_has_a_title_and_one_unit_of_confidence() -> None:
    item = {"id": "sets/a_chair", "payload": {"name": "", "title": 7}, "observations": []}
    assert title_of(item) == "a_chair"
    assert title_of(item | {"observations": [{"kind": "caption", "text": "red"}]}) == "red"
    assert title_of(item | {"payload": {"title": "Chair"}}) == "Chair"
    model = FoundModel("a", "Chair", 0.834, "glb", None)
    assert model.label == "Chair · 83 %"
    assert replace(model, confidence=0.004).label == "Chair · < 1 %"
    assert replace(model, confidence=None).label == "Chair"


def test_the_zip_holds_an_addon_that_needs_nothing_else(tmp_path: Path) -> None:
    assert run("--zip", str(tmp_path / "addon.zip")) == 0
    with zipfile.ZipFile(tmp_path / "addon.zip") as archive:
        sources = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(sources) == {f"multifold_search/{name}.py" for name in ("__init__", "connection", "panel")}
    trees = [ast.parse(source) for source in sources.values()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    others = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert others == {"bpy", "numpy"}  # numpy: what Blender's own importer reads glTF with
    head = ast.parse(sources["multifold_search/__init__.py"])
    (described,) = (node.value for node in head.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(described)["blender"] == (3, 4, 0)  # Blender reads it without running it


def test_a_missing_blender_is_named() -> None:
    with pytest.raises(command.BlenderError, match="no program 'no-blender'"):
        run("--install", "--blender", "no-blender")


def own_environment() -> dict[str, str]:
    """Blender's: Debian's looks for its Python modules beside the first python3 of the path."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**ours, "PATH": "/usr/bin:/bin"}


@pytest.mark.slow
@pytest.mark.skipif(BLENDER is None, reason="needs Blender (apt-get install blender python3-numpy)")
def test_blender_installs_it_finds_a_box_and_drops_it(
    yard: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLENDER_USER_RESOURCES", str(tmp_path / "own"))  # of no user
    (tmp_path / "own").mkdir()
    assert run("--install", "--url", yard.url) == 0
    (tmp_path / "session.py").write_text(SESSION, encoding="utf-8")
    said = subprocess.run(
        [str(BLENDER), "-b", "--python-exit-code", "1", "--python", str(tmp_path / "session.py"), "--", KEY],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=own_environment(),
    )
    assert said.returncode == 0, said.stdout + said.stderr
    seen = json.loads(said.stdout.partition("SEEN")[2].splitlines()[0])
    assert (seen["message"], seen["found"]) == ("", ["red box", "sets/blue"])
    assert min(seen["picture"]) > 0
    assert (seen["kind"], seen["name"], seen["id"]) == ("MESH", "a red box", "red box")
    assert seen["place"] == [1, 2, 3]
    assert seen["size"] == pytest.approx([1.0, 0.6, 0.8], abs=1e-5)  # as in the file, with Z up
    assert seen["colour"] == pytest.approx([1, 0, 0, 1], abs=0.01)
    assert "key" in seen["refusal"]


def run(*words: str) -> int:
    """`multifold blender` with these words."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))
