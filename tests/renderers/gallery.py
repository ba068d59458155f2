"""Creates the gallery: pictures of every exhibit by the software renderer and by pyrender, and their page.

python -m tests.renderers.gallery docs/gallery
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from renderers.contracts import RenderEngineError, Views
from renderers.orders import MeshSource, ViewOrder
from renderers.sandbox import Sandbox
from tests.renderers.exhibits import EXHIBITS, Make

RIG, SIZE = "hero2", 144
_PAGE = """# Gallery of rendered meshes

This page compares the render engines: each test mesh is rendered from two sides by two engines. The upper row
is the software rasteriser. The lower row is pyrender with {platform}. This command creates the page:

    python -m tests.renderers.gallery docs/gallery

The tests generate the meshes. *Common* is the intersection over union of the two silhouettes. *Colours* is \
the mean difference of
colours, of 255, where either picture shows the model.

| | | common | colours |
|---|---|---|---|
{rows}
"""


@dataclass(frozen=True)
class Agreement:
    """How alike two engines drew one mesh, from transparent views."""

    common: float  # of the silhouettes: intersection over union
    difference: float  # of colours and alpha, of 255, where either has something

    @classmethod
    def of(cls, one: Views, other: Views) -> "Agreement":
        first, second = one[..., 3] > 127, other[..., 3] > 127
        either = first | second
        difference = np.abs(one.astype(int) - other)[either].mean()
        return cls(float((first & second).sum() / either.sum()), float(difference))


def main(folder: Path) -> None:
    """Write the pictures and the page."""
    folder.mkdir(parents=True, exist_ok=True)
    with Sandbox(1) as ours, _pyrender() as theirs:
        rows = [_row(folder, name, what, make, ours, theirs) for name, (what, make) in EXHIBITS.items()]
        page = _PAGE.format(platform=theirs.engine.name.upper(), rows="\n".join(rows))
    (folder / "README.md").write_text(page, encoding="utf-8")


def _pyrender() -> Sandbox:
    """Through whichever platform works here."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("egl", "osmesa"):
            sandbox = Sandbox(1, engine=name)
            try:
                sandbox.draw(MeshSource(EXHIBITS["off"][1](Path(folder))), ViewOrder("ring1", 16))
            except RenderEngineError as error:
                sandbox.close()
                print(error)
            else:
                return sandbox
    raise RenderEngineError("the gallery needs pyrender; `multifold render --doctor` tells what is missing.")


def _row(folder: Path, name: str, what: str, make: Make, ours: Sandbox, theirs: Sandbox) -> str:
    with tempfile.TemporaryDirectory() as made:
        path = make(Path(made))
        first, second = (
            box.draw(MeshSource(path), ViewOrder(RIG, SIZE, "transparent")).views for box in (ours, theirs)
        )
    rows = [np.concatenate(list(_on_white(views)), axis=1) for views in (first, second)]
    Image.fromarray(np.concatenate(rows)).save(folder / f"{name}.webp", quality=80, method=6)
    alike = Agreement.of(first, second)
    return f"| {what} | ![{what}]({name}.webp) | {alike.common:.4f} | {alike.difference:.2f} |"


def _on_white(views: Views) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    for view in views:
        picture = Image.fromarray(view)
        page = Image.new("RGB", picture.size, "white")
        page.paste(picture, mask=picture)
        yield np.asarray(page)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
