"""The search page, as the service hands it out."""

import re

from renderers.mesh.formats.table import EXTENSIONS
from tests.app.house import House


def test_it_takes_every_mesh_that_is_read_and_pictures(shop: House) -> None:
    page = shop.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    accepted = re.search(r'id="file"[^>]*accept="([^"]*)"', page.text)
    assert accepted is not None
    assert accepted[1].split(",") == ["image/*", *EXTENSIONS]
