"""The pictures of the README, from the demo collection: python -m tests.app.web.pictures DEMO OUT.

DEMO is the folder that `make serve` fills, data/demo. `make pictures` runs this.
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from multifold.cli import main as multifold
from tests.app.browser import browsing
from tests.app.house import house

BUNDLE = Path(__file__).parents[3] / "bundles" / "furniture"
QUERY = "a red chair with four black legs"
WINDOW = (1280, 860)
VIEWS = "hero3"


def screenshot(demo: Path, path: Path) -> None:
    """The search page with the hits of the query."""
    with (
        TemporaryDirectory() as profile,
        house(demo, BUNDLE) as service,
        browsing(service.url, Path(profile)) as page,
        page.sized(*WINDOW),
    ):
        for query in ("a sofa", QUERY):  # the first one loads what every query uses
            page.open(f"/?q={query.replace(' ', '+')}")
            page.wait(page.pictures_loaded)
        page.wait(lambda: page.find("#narrow").is_displayed())
        page.script("document.documentElement.style.scrollbarWidth = 'none'")
        page.driver.save_screenshot(f"{profile}/page.png")
        _shrink(Path(profile) / "page.png", path)


def contact_sheet(demo: Path, path: Path) -> None:
    """One piece of furniture of each kind, each from several sides."""
    lines = (demo / "furniture" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    meshes = {entry["meta"]["kind"]: entry["mesh"] for entry in map(json.loads, reversed(lines))}
    with TemporaryDirectory() as folder:
        for kind, mesh in meshes.items():
            shutil.copy(demo / "furniture" / mesh, Path(folder) / f"{kind}.glb")
        views = Path(folder) / "views"
        multifold(["render", folder, "--out", str(views), "--rig", VIEWS, "--sheet", "--format", "png"])
        _shrink(views / "sheet_000.png", path)


def _shrink(picture: Path, path: Path) -> None:
    with Image.open(picture) as opened:
        opened.convert("RGB").save(path, quality=80, method=6)


if __name__ == "__main__":
    demo, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    screenshot(demo, out / "page.webp")
    contact_sheet(demo, out / "furniture.webp")
