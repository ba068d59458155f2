"""The compiled twin against the plain renderer: the same pixels, on random and on hard scenes."""

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from renderers import cameras
from renderers.contracts import (
    AlphaMode,
    Background,
    MeshError,
    MeshMaterial,
    MeshModel,
    MeshPart,
    Renderer,
    Texture,
    TextureMagnification,
    TextureWrap,
    engine_stamp,
)
from renderers.images.textures import mip_pyramid
from renderers.mesh.load import assemble_model
from renderers.raster.kernels.renderer import CompiledRenderer
from renderers.raster.pixels import SAMPLES_PER_SIDE, PixelFragments, fragments_in_pixels
from renderers.raster.renderer import SoftwareRenderer, depth_range
from renderers.raster.scene import RasterScene
from renderers.raster.spans import draw_nearest, project, spans_of_faces

SIZE = 48
RIG = cameras.rig("ring3@20")
NOISE = mip_pyramid(np.random.default_rng(3).random((16, 16, 4), np.float32))


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


def share_of_different_pixels(first: np.ndarray, second: np.ndarray) -> float:
    """At most 1/255 off, where a power is rounded otherwise on another processor."""
    assert first.shape == second.shape
    difference = np.abs(first.astype(int) - second.astype(int))
    assert difference.max() <= 1
    return float((difference > 0).mean())


@pytest.fixture(scope="module")
def compiled() -> CompiledRenderer:
    return CompiledRenderer()


@given(st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_compiled_pixels_are_those_of_numpy(compiled: CompiledRenderer, seed: int) -> None:
    model = scene(seed)
    plain = SoftwareRenderer().render(model, RIG, SIZE)
    assert share_of_different_pixels(plain, compiled.render(model, RIG, SIZE)) < 1e-3


@pytest.mark.parametrize("background", ["white", "black", "transparent"])
def test_backgrounds_are_those_of_numpy(compiled: CompiledRenderer, background: Background) -> None:
    plain = SoftwareRenderer().render(scene(3), RIG, SIZE, background)
    assert share_of_different_pixels(plain, compiled.render(scene(3), RIG, SIZE, background)) < 1e-3


@pytest.mark.parametrize("size", [8, 33, 100])
def test_sizes_are_drawn_alike(compiled: CompiledRenderer, size: int) -> None:
    plain = SoftwareRenderer().render(scene(11), RIG, size)
    assert share_of_different_pixels(plain, compiled.render(scene(11), RIG, size)) < 1e-3


def test_a_compiled_renderer_is_stamped_like_the_plain_one(compiled: CompiledRenderer) -> None:
    assert isinstance(compiled, Renderer)
    assert engine_stamp(compiled) == engine_stamp(SoftwareRenderer())


def test_compiled_pictures_are_the_same_each_time(compiled: CompiledRenderer) -> None:
    first = compiled.render(scene(5), RIG, SIZE)
    compiled.render(scene(6), RIG, SIZE)
    assert (compiled.render(scene(5), RIG, SIZE) == first).all()


def ball(material: MeshMaterial, color: float = 1.0) -> MeshModel:
    """A sphere of faces about as small as a pixel."""
    made = trimesh.creation.icosphere(4)
    colors = np.full((len(made.vertices), 4), color, np.float32)
    part = MeshPart(np.asarray(made.vertices), np.asarray(made.faces), material, colors=colors)
    return assemble_model([part])


@pytest.mark.parametrize("mode", ["OPAQUE", "BLEND"])
def test_dense_meshes_are_drawn_alike(compiled: CompiledRenderer, mode: AlphaMode) -> None:
    model = ball(MeshMaterial(base=(0.5, 0.6, 0.7, 0.4), alpha_mode=mode, base_texture=NOISE))
    plain = SoftwareRenderer().render(model, RIG, SIZE)
    assert share_of_different_pixels(plain, compiled.render(model, RIG, SIZE)) < 1e-3


def test_faces_that_look_alike_count_as_one() -> None:
    smooth, painted = (fragments_of(ball(MeshMaterial(), color)) for color in (1.0, 0.5))
    pixels = len(np.unique(smooth.pixel))
    assert len(smooth.pixel) < 1.5 * pixels  # more towards the rim alone
    assert len(painted.pixel) > 2 * pixels  # colours may change from face to face
    assert smooth.shown.sum() == painted.shown.sum()


def fragments_of(model: MeshModel) -> PixelFragments:
    side = 2 * SIZE
    scene = RasterScene(
        model, RIG.poses, project(model.vertices, RIG.poses, RIG.fov_degrees, side), SAMPLES_PER_SIDE
    )
    keys = np.zeros((len(RIG), side, side), np.int64)
    faces = np.arange(len(model.faces))
    draw_nearest(keys.reshape(-1), spans_of_faces(scene.screen, model.faces, faces, side, depth_range(RIG)))
    return fragments_in_pixels(scene, keys)


def curtain(layers: int, mode: str, scale: float = 1.0) -> MeshModel:
    """Squares behind each other that fill the picture."""
    z = np.linspace(-0.1, 0.1, layers)
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * 0.7 * scale
    points = np.concatenate([np.column_stack([corners, np.full(4, depth)]) for depth in z])
    faces = np.concatenate([np.array([(0, 1, 2), (0, 2, 3)]) + 4 * layer for layer in range(layers)])
    glass = MeshMaterial(base=(0.5, 0.6, 0.7, 0.2), alpha_mode="BLEND" if mode == "BLEND" else "OPAQUE")
    return MeshModel(
        vertices=points.astype(np.float32),
        faces=faces.astype(np.int32),
        normals=np.tile(np.array([0, 0, 1], np.float32), (len(faces), 3, 1)),
        uv=np.zeros((len(points), 2), np.float32),
        colors=np.ones((len(points), 4), np.float32),
        material_of=np.zeros(len(faces), np.int32),
        materials=(glass,),
    )


def test_only_the_nearest_layers_of_glass_count(compiled: CompiledRenderer) -> None:
    model = curtain(90, "BLEND")
    plain = SoftwareRenderer().render(model, RIG, 16)
    assert share_of_different_pixels(plain, compiled.render(model, RIG, 16)) < 1e-3


@pytest.mark.parametrize(("mode", "reason"), [("BLEND", "transparent"), ("OPAQUE", "large faces")])
def test_too_much_is_refused_before_memory_is_spent(
    compiled: CompiledRenderer, mode: str, reason: str
) -> None:
    with pytest.raises(MeshError, match=reason):
        compiled.render(curtain(60, mode), RIG, 2048)
