"""The furniture set: procedural 3D shapes with many sides; their facts and captions are true of them."""

from training.data.furniture.generator import make
from training.data.furniture.gltf import glb, scene

__all__ = ["glb", "make", "scene"]
