"""Models made of random numbers, dense ones and deep ones, and the cameras that see them."""

from collections.abc import Callable
from functools import partial

import numpy as np
import trimesh

from renderers import cameras
from renderers.contracts import (
    AlphaMode,
    Background,
    MeshMaterial,
    MeshModel,
    MeshPart,
    Texture,
    TextureMagnification,
    TextureWrap,
)
from renderers.images.textures import mip_pyramid
from renderers.mesh.load import assemble_model

RIG = cameras.rig("ring3@20")


def texture(random: np.random.Generator, channels: int) -> Texture:
    """Noise with any wrap, transform, filter and coordinates."""
    height, width = random.integers(1, 20, 2)
    made = mip_pyramid(random.random((height, width, channels), np.float32))
    wraps: tuple[TextureWrap, ...] = ("repeat", "clamp", "mirror")
    moved = random.normal(0, 1.5, (2, 3)).astype(np.float32) if random.random() < 0.4 else None
    across, down = wraps[random.integers(3)], wraps[random.integers(3)]
    magnify: TextureMagnification = "nearest" if random.random() < 0.3 else "linear"
    return Texture(made.texels, made.sizes, (across, down), moved, magnify, int(random.random() < 0.3))


def material(random: np.random.Generator) -> MeshMaterial:
    """Any look."""

    def perhaps(channels: int) -> Texture | None:
        return texture(random, channels) if random.random() < 0.5 else None

    modes: tuple[AlphaMode, ...] = ("OPAQUE", "OPAQUE", "MASK", "BLEND")
    red, green, blue, alpha, metallic, roughness, *glow = random.random(9).tolist()
    return MeshMaterial(
        base=(red, green, blue, alpha),
        metallic=metallic * (random.random() < 0.5),
        roughness=1.0 if random.random() < 0.2 else roughness,
        emissive=(glow[0] / 4, glow[1] / 4, glow[2] / 4),
        alpha_mode=modes[random.integers(4)],
        alpha_cutoff=0.3,
        unlit=bool(random.random() < 0.2),
        base_texture=perhaps(4),
        metal_rough_texture=perhaps(3),
        normal_texture=perhaps(3),
        occlusion_texture=perhaps(3),
        emissive_texture=perhaps(3),
    )


def scene(seed: int, faces: int = 60) -> MeshModel:
    """Random triangles of random looks, some large, some small, some of no area."""
    random = np.random.default_rng(seed)
    centres = random.normal(0, 0.3, (faces, 1, 3))
    points = centres + random.normal(0, 1, (faces, 3, 3)) * random.choice([0.02, 0.1, 0.4], (faces, 1, 1))
    points[::17, 1] = points[::17, 0]
    points /= np.linalg.norm(points, axis=2).max()
    normals = random.normal(0, 1, (faces, 3, 3))
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    count = int(random.integers(1, 5))
    plain = random.random() < 0.5
    return MeshModel(
        vertices=points.reshape(-1, 3).astype(np.float32),
        faces=np.arange(3 * faces, dtype=np.int32).reshape(-1, 3),
        normals=normals.astype(np.float32),
        uv=random.normal(0, 2, (3 * faces, 2)).astype(np.float32),
        colors=(np.ones((3 * faces, 4)) if plain else random.random((3 * faces, 4))).astype(np.float32),
        material_of=random.integers(0, count, faces).astype(np.int32),
        materials=tuple(material(random) for _ in range(count)),
        uv1=random.normal(0, 2, (3 * faces, 2)).astype(np.float32),
    )


def ball(mode: AlphaMode) -> MeshModel:
    """A sphere of faces about as small as a pixel, which look alike in a pixel."""
    noise = mip_pyramid(np.random.default_rng(3).random((16, 16, 4), np.float32))
    look = MeshMaterial(base=(0.5, 0.6, 0.7, 0.4), alpha_mode=mode, base_texture=noise)
    made = trimesh.creation.icosphere(4)
    return assemble_model([MeshPart(np.asarray(made.vertices), np.asarray(made.faces), look)])


def curtain(layers: int, mode: AlphaMode) -> MeshModel:
    """Squares behind each other that fill the picture."""
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * 0.7
    depths = np.linspace(-0.1, 0.1, layers)
    points = np.concatenate([np.column_stack([corners, np.full(4, depth)]) for depth in depths])
    faces = np.concatenate([np.array([(0, 1, 2), (0, 2, 3)]) + 4 * layer for layer in range(layers)])
    return MeshModel(
        vertices=points.astype(np.float32),
        faces=faces.astype(np.int32),
        normals=np.tile(np.array([0, 0, 1], np.float32), (len(faces), 3, 1)),
        uv=np.zeros((len(points), 2), np.float32),
        colors=np.ones((len(points), 4), np.float32),
        material_of=np.zeros(len(faces), np.int32),
        materials=(MeshMaterial(base=(0.5, 0.6, 0.7, 0.2), alpha_mode=mode),),
    )


# What the golden pictures show: the model, the size and the background of each.
GOLDEN: dict[str, tuple[Callable[[], MeshModel], int, Background]] = {
    **{f"random-{seed}": (partial(scene, seed), 48, "white") for seed in range(8)},
    "black": (partial(scene, 3), 48, "black"),
    "transparent": (partial(scene, 3), 48, "transparent"),
    **{f"size-{size}": (partial(scene, 11), size, "white") for size in (8, 33, 100)},
    "dense": (partial(ball, "OPAQUE"), 48, "white"),
    "dense-glass": (partial(ball, "BLEND"), 48, "white"),
    "many-panes": (partial(curtain, 90, "BLEND"), 16, "white"),
}
