"""The meshes of the gallery, generated: one for each thing that a file can say. Tests draw them too."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64

from tests.renderers import exhibit_files, made, shapes
from tests.renderers.glb import Glb, textured, unlit
from tests.renderers.shapes import Surface, arrow, ball, bumps, checks, grid, pane, picture

Make: TypeAlias = Callable[[Path], Path]  # a folder -> the file made in it
WHITE = (0.9, 0.9, 0.9, 1.0)


def put(glb: Glb, shape: Surface, material: int, **node: object) -> int:
    """A surface in the scene."""
    return glb.place(mesh(glb, shape, material), **node)


def mesh(glb: Glb, shape: Surface, material: int, **attributes: int) -> int:
    named = {
        "POSITION": glb.accessor(shape.places),
        "NORMAL": glb.accessor(shape.normals),
        "TEXCOORD_0": glb.accessor(shape.uv),
        **attributes,
    }
    return glb.mesh(named, indices=indices(glb, shape.faces), material=material)


def indices(glb: Glb, faces: Int64[np.ndarray, "f 3"]) -> int:
    return glb.accessor(faces.astype(np.uint16).ravel())


def all_maps(folder: Path) -> Path:
    """Bricks: colour, roughness and metal, normal, occlusion."""
    glb, (x, y) = Glb(), grid(128)
    row = np.floor(y * 8)
    joint = ((y * 8) % 1 < 0.12) | ((x * 8 + row % 2 / 2) % 1 < 0.06)
    shade = 0.8 + 0.2 * np.sin(row * 2.4 + np.floor(x * 8 + row % 2 / 2) * 1.7)
    brick = picture(*(np.where(joint, 0.75, tone * shade) for tone in (0.72, 0.3, 0.22)))
    material = glb.material(
        pbr={
            "baseColorTexture": {"index": glb.texture(brick)},
            "metallicFactor": 1,
            "metallicRoughnessTexture": {"index": glb.texture(picture(0, 0.9 - 0.5 * ~joint, 0 * x))},
        },
        normalTexture={"index": glb.texture(bumps(8))},
        occlusionTexture={"index": glb.texture(picture(np.where(joint, 0.4, 1), 0, 0))},
    )
    put(glb, ball(48), material)
    return glb.save(folder, "bricks.glb")


def metals(folder: Path) -> Path:
    """Smooth to rough from left to right; plastic above, gold below."""
    glb = Glb()
    for column in range(4):
        for row, (color, metallic) in enumerate((((0.1, 0.25, 0.7, 1), 0), ((1, 0.77, 0.34, 1), 1))):
            pbr = {"roughnessFactor": 0.1 + 0.3 * column, "metallicFactor": metallic}
            put(glb, ball(24), glb.material(color, pbr), translation=[2.2 * column, -2.2 * row, 0])
    return glb.save(folder, "metals.glb")


def normal_map(folder: Path) -> Path:
    """One flat pane and one with bumps."""
    glb = Glb()
    put(glb, pane(), glb.material((0.5, 0.5, 0.6, 1)), translation=[-1.1, 0, 0])
    bumpy = glb.material((0.5, 0.5, 0.6, 1), normalTexture={"index": glb.texture(bumps())})
    put(glb, pane(), bumpy, translation=[1.1, 0, 0])
    return glb.save(folder, "bumps.glb")


def emissive(folder: Path) -> Path:
    """A dark ball with stripes that glow."""
    glb, (_, y) = Glb(), grid()
    lines = (y * 8 % 1 < 0.3) * 1.0
    glow = {"index": glb.texture(picture(lines, 0.7 * lines, 0.1 * lines))}
    put(glb, ball(), glb.material((0.05, 0.05, 0.1, 1), emissiveTexture=glow, emissiveFactor=[1, 1, 1]))
    return glb.save(folder, "glow.glb")


def vertex_colors(folder: Path) -> Path:
    """Colours at the corners, mixed in between."""
    glb, shape = Glb(), shapes.ring()
    colors = glb.accessor((shape.normals * 0.5 + 0.5).astype(np.float32))
    glb.place(mesh(glb, shape, glb.material(), COLOR_0=colors), rotation=[0.5, 0, 0, 0.866])
    return glb.save(folder, "rainbow.glb")


def mask(folder: Path) -> Path:
    """Holes cut by alpha, and what lies behind them."""
    glb, (x, y) = Glb(), grid(256)
    holes = (x * 4 % 1 - 0.5) ** 2 + (y * 4 % 1 - 0.5) ** 2 < 0.12
    leaf = {"baseColorTexture": {"index": glb.texture(picture(0.2, 0.5, 0.15, ~holes * 1.0))}}
    put(glb, ball(), glb.material(pbr=leaf, alphaMode="MASK", doubleSided=True))
    put(glb, ball(), glb.material((0.8, 0.1, 0.05, 1)), scale=[0.5] * 3)
    return glb.save(folder, "holes.glb")


def blend(folder: Path) -> Path:
    """A ball in a glass ball, behind a pane of another colour."""
    glb = Glb()
    put(glb, ball(), glb.material((0.3, 0.6, 0.9, 0.35), alphaMode="BLEND"))
    put(glb, ball(), glb.material((0.9, 0.6, 0.1, 1)), scale=[0.5] * 3)
    pink = glb.material((0.9, 0.2, 0.5, 0.4), alphaMode="BLEND")
    put(glb, pane(), pink, translation=[0.6, 0, 1.2], scale=[0.6] * 3)
    return glb.save(folder, "glass.glb")


def both_sides(folder: Path) -> Path:
    """Half a pipe from within: faces are seen, and lit, from either side."""
    glb = Glb()
    put(glb, shapes.tube(), glb.material((0.7, 0.5, 0.2, 1), doubleSided=True))
    return glb.save(folder, "pipe.glb")


def moved_textures(folder: Path) -> Path:
    """KHR_texture_transform: as it is, moved, turned, doubled."""
    glb = Glb()
    moves: tuple[dict[str, object], ...] = ({}, {"offset": [0.5, 0.0]}, {"rotation": 0.6}, {"scale": [2, 2]})
    texture = glb.texture(arrow())
    for number, move in enumerate(moves):
        moved = textured(glb, texture, extensions={"KHR_texture_transform": move})
        put(glb, pane(), moved, translation=[2.1 * (number % 2), -2.1 * (number // 2), 0])
    return glb.save(folder, "moved.glb")


def wraps(folder: Path) -> Path:
    """Beyond its edge a texture repeats, mirrors or stops; the last is magnified without smoothing."""
    glb, shape = Glb(), pane()
    wide = Surface(shape.places, shape.normals, shape.uv * np.float32(3) - np.float32(1), shape.faces)
    small = arrow(16)
    samplers: tuple[dict[str, int], ...] = (
        {},
        {"wrapS": 33648, "wrapT": 33648},
        {"wrapS": 33071, "wrapT": 33071},
        {"magFilter": 9728},
    )
    for number, sampler in enumerate(samplers):
        material = textured(glb, glb.texture(small, **sampler))
        place = [2.1 * (number % 2), -2.1 * (number // 2), 0]
        put(glb, shape if number == 3 else wide, material, translation=place)
    return glb.save(folder, "wraps.glb")


def second_uv(folder: Path) -> Path:
    """Checks by the first coordinates, shadows by the second."""
    glb, shape = Glb(), ball()
    x, y = grid()
    spot = np.clip(((x - 0.5) ** 2 + (y - 0.5) ** 2) * 12, 0.0, 1)
    material = glb.material(
        pbr={"baseColorTexture": {"index": glb.texture(picture(0.9, 0.5 + 0.4 * checks(8), 0.3))}},
        occlusionTexture={"index": glb.texture(picture(spot, 0, 0)), "texCoord": 1},
        emissiveTexture={"index": glb.texture(picture(0, 0, 1 - spot)), "texCoord": 1},
        emissiveFactor=[0.6, 0.6, 0.6],
    )
    second = glb.accessor(shape.places[:, :2] * np.float32(0.8) + np.float32(0.5))
    glb.place(mesh(glb, shape, material, TEXCOORD_1=second))
    return glb.save(folder, "second.glb")


def quantised(folder: Path) -> Path:
    """KHR_mesh_quantization: places in 16 bits."""
    glb, shape = Glb(), shapes.ring()
    glb.tree["extensionsRequired"] = ["KHR_mesh_quantization"]
    places = glb.accessor(np.rint(shape.places / 2 * 32767).astype(np.int16), normalized=True)
    attributes = {"POSITION": places, "NORMAL": glb.accessor(shape.normals)}
    material = glb.material((0.2, 0.6, 0.5, 1))
    glb.place(glb.mesh(attributes, indices=indices(glb, shape.faces), material=material))
    return glb.save(folder, "quantised.glb")


def draco(folder: Path) -> Path:
    """KHR_draco_mesh_compression."""
    glb, shape = Glb(), shapes.ring()
    glb.draco_surface(shape.places, shape.faces.ravel(), glb.material((0.6, 0.3, 0.6, 1)))
    return glb.save(folder, "draco.glb")


def scene(folder: Path) -> Path:
    """Nodes within nodes, one mirrored; a hundred instances of one mesh."""
    glb = Glb()
    drop = mesh(glb, ball(12), glb.material((0.8, 0.3, 0.2, 1)))
    angle = np.linspace(0, 4 * shapes.TURN, 100)
    spiral = np.stack([np.cos(angle), angle / 15 - 0.8, np.sin(angle)], axis=1).astype(np.float32)
    sizes = np.repeat(np.linspace(0.12, 0.05, 100, dtype=np.float32)[:, None], 3, axis=1)
    placed = {"TRANSLATION": glb.accessor(spiral), "SCALE": glb.accessor(sizes)}
    glb.tree["extensionsUsed"] = ["EXT_mesh_gpu_instancing"]
    glb.place(drop, extensions={"EXT_mesh_gpu_instancing": {"attributes": placed}})
    page = mesh(glb, pane(), textured(glb, glb.texture(arrow())))
    for side in (1, -1):
        child = glb.add("nodes", mesh=page, translation=[0.6 * side, 0, 0], scale=[0.45 * side, 0.45, 0.45])
        parent = glb.add("nodes", children=[child], translation=[0, -1.2, 0], rotation=[-0.5, 0, 0, 0.866])
        glb.tree["scenes"][0]["nodes"].append(parent)
    return glb.save(folder, "scene.glb")


def lone_colors(folder: Path) -> Path:
    """KHR_materials_unlit: a ball that no lamp shades, beside one that lamps do."""
    glb = Glb()
    stripes = {"baseColorTexture": {"index": glb.texture(picture(0.9, 0.35 + 0.5 * checks(8), 0.2))}}
    put(glb, ball(), unlit(glb, pbr=stripes), translation=[-1.1, 0, 0])
    put(glb, ball(), glb.material(pbr=stripes), translation=[1.1, 0, 0])
    return glb.save(folder, "unlit.glb")


def meshopt(folder: Path) -> Path:
    """EXT_meshopt_compression: places and faces packed."""
    glb, shape = Glb(), shapes.ring()
    faces = shape.faces.astype(np.uint16).ravel()
    glb.packed_surface(shape.places, faces, glb.material((0.75, 0.5, 0.15, 1)))
    return glb.save(folder, "meshopt.glb")


def ktx2(folder: Path) -> Path:
    """KHR_texture_basisu: stripes in a KTX2 picture."""
    glb = Glb()
    glb.tree["extensionsRequired"] = ["KHR_texture_basisu"]
    rows = [(230, 40 + 25 * row, 60, 255) if row % 2 else (40, 60, 230 - 25 * row, 255) for row in range(8)]
    put(glb, ball(), glb.material(pbr={"baseColorTexture": {"index": glb.basis(made.ktx2(*rows))}}))
    return glb.save(folder, "stripes.glb")


EXHIBITS: dict[str, tuple[str, Make]] = {
    "all-maps": ("colour, roughness, normal and occlusion maps", all_maps),
    "metals": ("metal and plastic, smooth to rough", metals),
    "normal-map": ("a normal map", normal_map),
    "emissive": ("an emissive map", emissive),
    "vertex-colors": ("vertex colours", vertex_colors),
    "mask": ("alpha mode MASK", mask),
    "blend": ("alpha mode BLEND", blend),
    "both-sides": ("double-sided faces", both_sides),
    "texture-transform": ("KHR_texture_transform", moved_textures),
    "wraps": ("repeat, mirror, clamp; nearest", wraps),
    "second-uv": ("TEXCOORD_1", second_uv),
    "quantised": ("KHR_mesh_quantization", quantised),
    "draco": ("KHR_draco_mesh_compression", draco),
    "scene": ("nested nodes, a mirrored one, instances", scene),
    "unlit": ("KHR_materials_unlit, left", lone_colors),
    "meshopt": ("EXT_meshopt_compression", meshopt),
    "ktx2": ("KTX2", ktx2),
    "obj": ("OBJ + MTL + PNG", exhibit_files.obj),
    "ply": ("PLY", exhibit_files.ply),
    "stl": ("STL", exhibit_files.stl),
    "off": ("OFF", exhibit_files.off),
    "3mf": ("3MF", exhibit_files.threemf),
    "dae": ("COLLADA", exhibit_files.collada),
    "step": ("STEP", exhibit_files.step),
    "cloud": ("a point cloud", exhibit_files.cloud),
}
