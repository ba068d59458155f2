"""The contract of a renderer: it draws validated arrays, not files."""

from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import UInt8

from renderers.cameras import Rig
from renderers.errors import MeshError
from renderers.model import Model

Background: TypeAlias = Literal["white", "black"]
Views: TypeAlias = UInt8[np.ndarray, "v h w 3"]

LARGEST = 2048


def check_size(size: int) -> None:
    """Refuse pictures that are too small to show or too large to hold."""
    if not 8 <= size <= LARGEST:
        raise MeshError(f"views are drawn with 8 to {LARGEST} pixels on a side, not {size}.")


@runtime_checkable
class Renderer(Protocol):
    """One engine. The same model, rig, size and background give the same views on every call."""

    name: str
    version: str  # rises whenever a pixel may change: caches and bundles depend on it

    def render(self, model: Model, rig: Rig, size: int = 224, background: Background = "white") -> Views:
        """One square sRGB picture for each pose of the rig."""
        ...


def stamp(renderer: Renderer) -> str:
    """The word by which bundles and caches know whose views they hold."""
    return f"{renderer.name}-{renderer.version}"
