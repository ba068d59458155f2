"""A real service on a real port, with a few coloured boxes in its collection."""

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import trimesh
import uvicorn
from PIL import Image
from trimesh.visual import TextureVisuals
from trimesh.visual.material import PBRMaterial

from app.collections.service import CollectionService
from app.main import create_app
from app.runtime.collections import Collections, open_collections
from app.server import IDLE_CONNECTION_SECONDS, bind_port
from app.settings import Settings
from tests import tiny
from tests.files import picture_file
from tests.waiting import until

LONGEST = 600.0  # seconds
BOXES = ("red", "green", "blue", "yellow")


@dataclass(frozen=True)
class House:
    """A running service, and a client of it."""

    shelf: Collections
    client: httpx.Client
    url: str
    server: uvicorn.Server

    @property
    def service(self) -> CollectionService:
        """The main collection."""
        return self.shelf.main

    def search(self, **asked: Any) -> httpx.Response:  # noqa: ANN401 (any JSON)
        """Search in JSON; among shapes, if nothing else is said."""
        return self.client.post("/v1/search", json={"target": "shape"} | asked)

    def best(self, **asked: Any) -> str:  # noqa: ANN401
        """The id that is found first."""
        response = self.search(**asked)
        assert response.status_code == 200, response.text
        return str(response.json()["hits"][0]["id"])

    def settle(self) -> None:
        """Wait until every request is over, which it is a little after its answer."""
        until(lambda: not self.server.server_state.tasks)

    def fill(self, *colours: str) -> None:
        """Write a box of each colour."""
        for colour in colours or BOXES:
            assert self.put(f"{colour}-box", colour).is_success

    def put(self, name: str, colour: str, captions: tuple[str, ...] | None = None) -> httpx.Response:
        """Write a box, with a photo and captions."""
        texts = list(captions or (f"a {colour} box", f"{colour} thing"))
        data = {"texts": texts, "payload": json.dumps({"is": colour})}
        files = [
            ("mesh", ("box.glb", box(colour), "model/gltf-binary")),
            ("images", ("photo.png", png(colour), "image/png")),
        ]
        return self.client.put(f"/v1/items/{name}", data=data, files=files)


@contextmanager
def house(data: Path, bundle: Path, **changes: Any) -> Iterator[House]:  # noqa: ANN401 (any setting)
    """Open it, run it in a thread, close it. Its limits are those of a busy machine."""
    limits: dict[str, Any] = {"request_timeout": LONGEST, "render_seconds": LONGEST / 4} | changes
    settings = Settings(data=data, bundle=bundle, port=0, threads=1, **limits)
    with bind_port(settings) as socket:
        settings = settings.model_copy(update={"port": socket.getsockname()[1]})
        with open_collections(settings) as shelf:
            app = create_app(settings, shelf)
            config = uvicorn.Config(
                app, log_level="critical", lifespan="on", timeout_keep_alive=IDLE_CONNECTION_SECONDS
            )
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
            thread.start()
            try:
                until(lambda: server.started, what="the service to start")
                with httpx.Client(base_url=settings.url, trust_env=False, timeout=LONGEST) as client:
                    yield House(shelf, client, settings.url, server)
            finally:
                server.should_exit = True
                thread.join()


def box(colour: str, height: float = 0.8) -> bytes:
    """A box of one colour as GLB."""
    shade = [round(255 * (1 - missing)) for missing in tiny.COLOURS[colour]]
    mesh = trimesh.creation.box(extents=(1.0, height, 0.6))
    material = PBRMaterial(baseColorFactor=[*shade, 255])  # type: ignore[no-untyped-call]
    mesh.visual = TextureVisuals(material=material)  # type: ignore[no-untyped-call]
    return bytes(trimesh.Scene(mesh).export(file_type="glb"))  # type: ignore[no-untyped-call]


def png(colour: str) -> bytes:
    """A picture of one colour."""
    return encoded(tiny.picture(colour))


def encoded(pixels: np.ndarray) -> bytes:
    """Pixels as PNG."""
    return picture_file(Image.fromarray(pixels))


def glb(description: dict[str, Any], binary: bytes = b"") -> bytes:
    """A GLB file with this JSON."""
    text = json.dumps(description).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text
    if binary:
        binary += b"\0" * (-len(binary) % 4)
        chunks += struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def triangle_with(first: float) -> bytes:
    """A GLB of one triangle whose first coordinate is given."""
    corners = np.array([[first, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    description = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "bufferViews": [{"buffer": 0, "byteLength": corners.nbytes}],
        "buffers": [{"byteLength": corners.nbytes}],
    }
    return glb(description, corners.tobytes())
