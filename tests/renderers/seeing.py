"""Cameras, colours and looks that the renderer tests share."""

from pathlib import Path

import numpy as np

from renderers import cameras
from renderers.contracts import Background, MeshModel, Rig, Views
from renderers.mesh.load import load_model
from renderers.raster.renderer import SoftwareRenderer

SIZE = 64
WHITE, RED, GREEN, BLUE = (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255)
TOP_RED = np.array([[RED], [BLUE]], np.uint8).repeat(8, axis=0)  # a picture, red above blue
FRONT = Rig("front", cameras.look_at_origin(0.0, 0.0, 3.0)[None], 40.0)


def front(path: Path, size: int = SIZE, background: Background = "white") -> Views:
    """One picture of the mesh from straight ahead."""
    return SoftwareRenderer().render(load_model(path), FRONT, size, background)


def pixel_of(x: float, y: float, size: int = SIZE) -> tuple[int, int]:
    """Row and column at which the front camera sees a point of the plane z = 0, in the model's unit ball."""
    zoom = size / 2 / np.tan(np.radians(20)) / 3.0
    return int(size / 2 - y * zoom), int(size / 2 + x * zoom)


def seen_at(views: Views, x: float, y: float) -> tuple[int, int, int]:
    """The colour that the first view shows at a point of the plane z = 0."""
    red, green, blue = views[0][pixel_of(x, y, views.shape[1])]
    return int(red), int(green), int(blue)


def hue_at(views: Views, x: float, y: float) -> str:
    """The name of a clear colour there, however it is lit; an empty string for others."""
    color = seen_at(views, x, y)
    most, next_most = sorted(color)[:0:-1]
    clear = most > 100 and next_most < most / 2
    return ("red", "green", "blue")[color.index(most)] if clear else ""


def extent(model: MeshModel) -> list[float]:
    """Width, height and depth, the largest of them 1."""
    size = np.ptp(model.vertices, axis=0)
    return [round(float(one), 3) for one in size / size.max()]
