"""The contract of a renderer: it draws validated arrays, not files.

Every engine draws the same *look*: the same cameras and framing, light and materials, to within a tolerance
that the tests state. What an encoder learned from one engine's views it knows in another's, so bundles record
the look. Caches of pictures, which promise the same bytes, depend on the engine and its version too.
"""

from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import UInt8

from multifold.errors import MultifoldError
from renderers.backdrop import Background
from renderers.cameras import Rig
from renderers.errors import MeshError
from renderers.model import Model

__all__ = ["LARGEST", "LOOK", "Background", "EngineError", "Renderer", "Views", "check_size", "stamp"]

Views: TypeAlias = UInt8[np.ndarray, "v h w c"]  # c: 3, and alpha where the background is transparent

LOOK = "software-1"  # rises when views change so much that encoders must learn them anew
LARGEST = 2048


class EngineError(MultifoldError):
    """An engine that is unknown or does not work here."""


def check_size(size: int) -> None:
    """Refuse pictures that are too small to show or too large to hold."""
    if not 8 <= size <= LARGEST:
        raise MeshError(f"views are drawn with 8 to {LARGEST} pixels on a side, not {size}.")


@runtime_checkable
class Renderer(Protocol):
    """One engine. The same model, rig, size and background give the same views on every call."""

    name: str
    version: str  # rises whenever a pixel may change

    def render(self, model: Model, rig: Rig, size: int = 224, background: Background = "white") -> Views:
        """One square sRGB picture for each pose of the rig."""
        ...


def stamp(renderer: Renderer) -> str:
    """The word by which caches know whose pictures they hold."""
    return f"{renderer.name}-{renderer.version}"
