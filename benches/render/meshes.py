"""Generated meshes as GLB files: the kinds of work that a renderer meets, from dense to glassy.

Textures are noise in the frequencies of painted ones, since a smooth picture would be decoded too fast.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, UInt8
from PIL import Image

from multifold.errors import needs_extra

with needs_extra("render"):
    import trimesh
    from trimesh.visual import TextureVisuals
    from trimesh.visual.material import PBRMaterial

Meshes = Sequence[trimesh.Trimesh]


def write_meshes(folder: Path, texture_side: int = 2048) -> dict[str, Path]:
    makers: Mapping[str, Callable[[], Meshes]] = {
        "textured sphere, 20k faces": lambda: [_sphere(100, _painted(texture_side // 2))],
        "textured sphere, 200k faces": lambda: [_sphere(316, _painted(texture_side // 2))],
        "helmet, five maps, 15k faces": lambda: [_helmet(texture_side)],
        "truck, four materials, 3k faces": lambda: _truck(texture_side),
        "chair, two finishes, 1k faces": _chair,
        "glass sphere, 20k faces": lambda: [_sphere(100, _glass(0.6, 0.8, 0.9, 0.35))],
    }
    paths = {name: folder / f"{number}.glb" for number, name in enumerate(makers)}
    for name, path in paths.items():
        export: Callable[..., bytes] = trimesh.Scene(list(makers[name]())).export
        path.write_bytes(export(file_type="glb", include_normals=True))
    return paths


def _sphere(rings: int, material: PBRMaterial) -> trimesh.Trimesh:
    """A ball of 2·rings² faces with texture coordinates."""
    v, u = np.meshgrid(np.linspace(0, 1, rings + 1), np.linspace(0, 1, rings + 1), indexing="ij")
    turn = 2 * np.pi * u
    width = np.sin(np.pi * v)
    points = np.stack([width * np.cos(turn), np.cos(np.pi * v), width * np.sin(turn)], axis=-1)
    corner = np.arange(rings)[:, None] * (rings + 1) + np.arange(rings)
    upper = np.stack([corner, corner + 1, corner + rings + 1], axis=-1)
    lower = np.stack([corner + 1, corner + rings + 2, corner + rings + 1], axis=-1)
    faces = np.concatenate([upper.reshape(-1, 3), lower.reshape(-1, 3)])
    return _dressed(points.reshape(-1, 3), faces, np.stack([u, v], axis=-1).reshape(-1, 2), material)


def _helmet(side: int) -> trimesh.Trimesh:
    """A dented ball in which every map of the metallic-roughness model is used."""
    material = _material(
        baseColorTexture=_picture(side, 1),
        metallicRoughnessTexture=_picture(side, 2),
        normalTexture=_bumps(side),
        occlusionTexture=_picture(side, 3),
        emissiveTexture=_picture(side, 4, dark=True),
        emissiveFactor=[1.0, 1.0, 1.0],
    )
    ball = _sphere(87, material)
    x, y, z = np.asarray(ball.vertices).T
    dent = 1 + 0.15 * np.sin(5 * x + 1) * np.sin(4 * y) + 0.1 * np.cos(6 * z)
    visual: Any = ball.visual
    return _dressed(ball.vertices * dent[:, None], ball.faces, visual.uv, material)


def _truck(side: int) -> list[trimesh.Trimesh]:
    """A painted body, a dark frame, glass windows and twelve tyres."""
    paint, frame, rubber = _painted(side), _plain((0.1, 0.1, 0.12, 1.0)), _plain((0.02, 0.02, 0.02, 1.0))
    window = _glass(0.2, 0.3, 0.35, 0.4)
    boxes = [
        ((3.0, 1.5, 1.4), (-0.6, 1.4, 0.0), paint),
        ((1.1, 1.1, 1.3), (1.6, 1.2, 0.0), paint),
        ((4.5, 0.2, 1.0), (0.0, 0.5, 0.0), frame),
        ((0.02, 0.5, 1.1), (2.17, 1.4, 0.0), window),
        ((0.6, 0.4, 1.32), (1.7, 1.4, 0.0), window),
    ]
    tyre = trimesh.creation.cylinder(radius=0.4, height=0.25, sections=64)
    wheels = [
        _dressed(np.add(tyre.vertices, (x, 0.4, z)), tyre.faces, tyre.vertices[:, :2], rubber)
        for x in (-1.7, -1.0, 1.6)
        for z in (-0.7, -0.4, 0.4, 0.7)
    ]
    return [_box(*box) for box in boxes] + wheels


def _chair() -> list[trimesh.Trimesh]:
    """A seat and a back of one finish on turned legs of another."""
    wood, cloth = _plain((0.35, 0.18, 0.08, 1.0)), _plain((0.1, 0.25, 0.5, 1.0))
    leg = trimesh.creation.cylinder(radius=0.04, height=0.9, sections=60)
    upright = np.asarray(leg.vertices)[:, [0, 2, 1]]
    legs = [
        _dressed(np.add(upright, (x, -0.45, z)), leg.faces[:, ::-1], upright[:, :2], wood)
        for x in (-0.4, 0.4)
        for z in (-0.4, 0.4)
    ]
    slats = [_box((0.08, 0.9, 0.04), (float(x), 0.5, -0.42), wood) for x in np.linspace(-0.4, 0.4, 5)]
    return [_box((1.0, 0.12, 1.0), (0.0, 0.06, 0.0), cloth), *slats, *legs]


def _box(size: tuple[float, ...], place: tuple[float, ...], material: PBRMaterial) -> trimesh.Trimesh:
    box = trimesh.creation.box(extents=size)
    return _dressed(np.add(box.vertices, place), box.faces, np.asarray(box.vertices)[:, :2], material)


def _dressed(
    vertices: Float64[np.ndarray, "n 3"],
    faces: Any,  # noqa: ANN401 (whole numbers of any size)
    uv: Float64[np.ndarray, "n 2"],
    material: PBRMaterial,
) -> trimesh.Trimesh:
    visual = TextureVisuals(uv=uv, material=material)  # type: ignore[no-untyped-call]
    # the mean of the faces' normals by area at each vertex; trimesh takes minutes for it without scipy
    a, b, c = (vertices[corner] for corner in np.asarray(faces).T)
    weighted = np.repeat(np.cross(b - a, c - a), 3, axis=0)
    sums = np.stack([np.bincount(np.ravel(faces), axis, len(vertices)) for axis in weighted.T], axis=1)
    normals = sums / np.linalg.norm(sums, axis=1, keepdims=True).clip(1e-12)
    return trimesh.Trimesh(vertices, faces, vertex_normals=normals, visual=visual, process=False)


def _painted(side: int) -> PBRMaterial:
    return _material(baseColorTexture=_picture(side, 0), roughnessFactor=0.6)


def _plain(color: tuple[float, ...]) -> PBRMaterial:
    return _material(baseColorFactor=list(color), roughnessFactor=0.7)


def _glass(*color: float) -> PBRMaterial:
    return _material(baseColorFactor=list(color), alphaMode="BLEND", roughnessFactor=0.1)


def _material(**looks: Any) -> PBRMaterial:  # noqa: ANN401 (whatever glTF has)
    return PBRMaterial(**{"metallicFactor": 0.0, **looks})  # type: ignore[no-untyped-call]


def _picture(side: int, seed: int, *, dark: bool = False) -> Image.Image:
    """Coloured noise of all sizes, as a JPEG that remembers its format."""
    random = np.random.default_rng(seed)
    light = np.zeros((side, side, 3))
    for cells in (4, 16, 64, 256):
        coarse = Image.fromarray(random.integers(0, 256, (cells, cells, 3), np.uint8))
        light += np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC), float) / cells**0.3
    light *= (0.15 if dark else 1.0) * 255 / light.max()
    return _as_jpeg(light.astype(np.uint8))


def _bumps(side: int) -> Image.Image:
    height = np.asarray(_picture(side, 5).convert("L"), float)
    down, across = np.gradient(height / 12)
    normal = np.stack([-across, down, np.ones_like(height)], axis=2)
    normal /= np.linalg.norm(normal, axis=2, keepdims=True)
    return _as_jpeg(((normal + 1) * 127.5).astype(np.uint8))


def _as_jpeg(pixels: UInt8[np.ndarray, "h w 3"]) -> Image.Image:
    """The picture as a JPEG; trimesh writes a picture in the format that it was read from."""
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "JPEG", quality=90)
    return Image.open(io.BytesIO(data.getvalue()))
