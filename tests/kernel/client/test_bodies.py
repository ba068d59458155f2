"""Bodies are sent with what was given, and files as parts of a form or as data URIs."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from multifold.bundle.preprocess import decode
from multifold.client import Examples, MixPart, NewItem, Search
from multifold.client.bodies import to_form, to_json
from multifold.errors import MultifoldError
from multifold.wire.administration import CollectionBody, IndexBody
from multifold.wire.labels import TagProposalBody
from multifold.wire.messages import Body
from multifold.wire.validation import validate

GLB = b"glTF\x00\x01"
MIX = [MixPart(text="a", weight=-0.5), MixPart(id="b")]


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (Search(text="a", limit=10, pool="max"), {"text": "a", "pool": "max"}),
        (Search(id="a", side="text", filter={"b": [1]}), {"id": "a", "side": "text", "filter": {"b": [1]}}),
        (Search(vector=[0.5, 1.0]), {"vector": [0.5, 1.0]}),
        (Search(text="a", examples=Examples(["b"])), {"text": "a", "examples": {"good": ["b"], "bad": []}}),
        (Search(mix=MIX), {"mix": [{"text": "a", "weight": -0.5}, {"id": "b"}]}),
        (
            NewItem("a", texts=("b", "c"), payload={"d": None}),
            {"id": "a", "texts": ["b", "c"], "payload": {"d": None}},
        ),
        (CollectionBody("a", index=IndexBody(recall=0.9)), {"name": "a", "index": {"recall": 0.9}}),
        (TagProposalBody({"sky": ["blue"]}), {"labels": [{"label": "sky", "prompts": ["blue"]}]}),
    ],
)
def test_what_is_as_by_default_is_left_out_and_a_service_reads_the_rest(
    body: Body, sent: dict[str, Any]
) -> None:
    written = json.loads(json.dumps(to_json(body)))
    assert written == sent
    assert json.loads(json.dumps(to_json(validate(type(body), written)))) == sent


def test_files_are_data_uris_in_json(tmp_path: Path) -> None:
    mesh = tmp_path / "chair.OBJ"
    mesh.write_bytes(b"v 0 0 0\n")
    item = to_json(NewItem("a", images=[b"photo", "https://a/b.png"], mesh=mesh))
    assert item["images"] == ["data:application/octet-stream;base64,cGhvdG8=", "https://a/b.png"]
    assert base64.b64decode(item["mesh"].partition("base64,")[2]) == mesh.read_bytes()
    assert item["mesh_format"] == "obj"  # a data URI has no name
    assert "mesh_format" not in to_json(Search(mesh=GLB))
    assert to_json(Search(mesh=mesh, mesh_format="stl"))["mesh_format"] == "stl"


def test_files_are_parts_of_a_form(tmp_path: Path) -> None:
    mesh = tmp_path / "stuhl grün.glb"
    mesh.write_bytes(GLB)
    item = NewItem(
        "a", texts=["b", "c"], images=[b"photo", "https://a/b.png"], mesh=str(mesh), payload={"d": "ü"}
    )
    parts = to_form(item, without=("id",))
    assert [(name, file, content) for name, (file, content, _) in parts] == [
        ("texts", None, "b"),
        ("texts", None, "c"),
        ("images", "images", b"photo"),
        ("images", None, "https://a/b.png"),
        ("mesh", "stuhl grün.glb", GLB),
        ("payload", None, '{"d": "\\u00fc"}'),
    ]
    flags = to_form(Search(image=b"photo", exact=True, limit=5))
    assert [(name, content) for name, (_, content, _) in flags[1:]] == [("limit", "5"), ("exact", "true")]


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "RGBA", "L"])
def test_a_picture_in_memory_arrives_as_it_is_seen(mode: str) -> None:
    """Transparency becomes white before it travels, as it would on arrival."""
    picture = Image.new("RGB", (9, 8), "red").convert(mode)
    if mode == "RGBA":
        picture.putalpha(0)
    ((name, (_, png, kind)),) = to_form(Search(image=picture))
    assert (name, kind) == ("image", "application/octet-stream")
    assert isinstance(png, bytes)
    assert Image.open(io.BytesIO(png)).format == "PNG"
    seen = np.asarray(decode(png))[0, 0].tolist()
    assert seen == ([255] * 3 if mode == "RGBA" else [255, 0, 0] if mode != "L" else [76] * 3)


def test_files_that_cannot_be_sent_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MultifoldError, match=r"cannot read .*gone\.png"):
        to_form(Search(image=tmp_path / "gone.png"))
    with pytest.raises(MultifoldError, match="8 or 16 bits"):
        to_json(Search(image=Image.new("F", (8, 8))))
