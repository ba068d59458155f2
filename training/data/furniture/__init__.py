"""The furniture set: procedural 3D shapes with many sides; their facts and captions are true of them."""

from training.data.furniture.gltf import glb, scene
from training.data.furniture.workshop import make

__all__ = ["glb", "make", "scene"]
