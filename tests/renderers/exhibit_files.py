"""The exhibits that are files of other kinds than glTF."""

from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from PIL import Image

from tests.renderers import made
from tests.renderers.shapes import Surface, ball, grid, picture, ring

_DAE = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><up_axis>Z_UP</up_axis></asset>
<library_images><image id="i"><init_from>ball.png</init_from></image></library_images>
<library_effects><effect id="e"><profile_COMMON>
<newparam sid="s"><surface type="2D"><init_from>i</init_from></surface></newparam>
<newparam sid="k"><sampler2D><source>s</source></sampler2D></newparam>
<technique sid="t"><lambert><diffuse><texture texture="k" texcoord="u"/></diffuse></lambert></technique>
</profile_COMMON></effect></library_effects>
<library_materials><material id="m"><instance_effect url="#e"/></material></library_materials>
<library_geometries><geometry id="g"><mesh>{sources}
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles material="a" count="{count}"><input semantic="VERTEX" source="#v" offset="0"/>
<input semantic="NORMAL" source="#n" offset="0"/><input semantic="TEXCOORD" source="#t" offset="0"/>
<p>{corners}</p></triangles></mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="w">
<node><rotate>1 0 0 90</rotate>{ball}
<node><translate>0 1.3 0</translate><scale>0.4 0.4 0.4</scale>{ball}</node></node>
</visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#w"/></scene></COLLADA>"""
_BALL = (
    '<instance_geometry url="#g"><bind_material><technique_common><instance_material symbol="a" target="#m"/>'
    "</technique_common></bind_material></instance_geometry>"
)


def obj(folder: Path) -> Path:
    """OBJ with its MTL and a texture beside it."""
    shape = ball(24)
    _stripes(folder / "ball.png")
    (folder / "ball.mtl").write_text("newmtl ball\nKd 1 1 1\nmap_Kd ball.png\n")
    lines = ["mtllib ball.mtl", "usemtl ball"]
    lines += [f"v {a:.5f} {b:.5f} {c:.5f}" for a, b, c in shape.places]
    lines += [f"vt {u:.5f} {1 - v:.5f}" for u, v in shape.uv]
    lines += ["f " + " ".join(f"{corner}/{corner}" for corner in face) for face in (shape.faces + 1).tolist()]
    (folder / "ball.obj").write_text("\n".join(lines))
    return folder / "ball.obj"


def ply(folder: Path) -> Path:
    """PLY with a colour at each corner."""
    shape = trimesh.creation.icosphere(subdivisions=3)
    shape.visual.vertex_colors = np.rint((shape.vertices[:, [1, 2, 0]] * 0.5 + 0.5) * 255).astype(np.uint8)
    return _exported(shape, folder / "colors.ply")


def stl(folder: Path) -> Path:
    """STL, Z up, without normals of its own: smooth where it bends gently, sharp at edges."""
    parts = [
        trimesh.creation.cylinder(radius=1, height=0.4, sections=48),
        trimesh.creation.cylinder(radius=0.4, height=2, sections=48).apply_translation([0, 0, 1.1]),
    ]
    return _exported(trimesh.util.concatenate(parts), folder / "part.stl")


def off(folder: Path) -> Path:
    """OFF: a shape and nothing else."""
    return _exported(trimesh.creation.icosahedron(), folder / "dice.off")


def cloud(folder: Path) -> Path:
    """A point cloud with colours."""
    turns = np.arange(4000) * np.pi * (3 - np.sqrt(5))
    height = 1 - 2 * (np.arange(4000) + 0.5) / 4000
    wide = np.sqrt(1 - height**2) * (1 + 0.25 * np.sin(5 * turns / 3))
    points = np.stack([wide * np.cos(turns), height, wide * np.sin(turns)], axis=1)
    colors = np.rint(np.clip(points * 0.5 + 0.5, 0, 1) * 255).astype(np.uint8)
    return _exported(trimesh.PointCloud(points, colors), folder / "cloud.ply")  # type: ignore[no-untyped-call]


def threemf(folder: Path) -> Path:
    """3MF: a ring of many colours, and a ball of one material that is built twice."""
    hues = [f"#{red:02X}{180 - red // 2:02X}{255 - red:02X}" for red in range(0, 256, 17)]
    looks = '<basematerials id="1"><base displaycolor="#D9A520"/></basematerials><m:colorgroup id="2">'
    looks += "".join(f'<m:color color="{hue}"/>' for hue in hues) + "</m:colorgroup>"
    hoop, dot = ring(0.3, 32), ball(16)
    height = np.rint((hoop.places[:, 1] / 0.6 + 0.5) * (len(hues) - 1)).astype(int)
    colored = [f'pid="2" p1="{a}" p2="{b}" p3="{c}"' for a, b, c in height[hoop.faces]]
    objects = _object_3mf('id="3"', hoop, colored)
    objects += _object_3mf('id="4" pid="1" pindex="0"', dot, [""] * len(dot.faces))
    items = '<item objectid="3" transform="1 0 0 0 0 1 0 -1 0 0 0 0"/>'
    items += '<item objectid="4" transform="0.4 0 0 0 0.4 0 0 0 0.4 0 0 0"/>'
    items += '<item objectid="4" transform="0.2 0 0 0 0.2 0 0 0 0.2 0 0 0.6"/>'
    (folder / "ring.3mf").write_bytes(made.package_3mf(looks + objects, items))
    return folder / "ring.3mf"


def collada(folder: Path) -> Path:
    """COLLADA, Z up: a textured ball, and the same again in a node within its node."""
    shape = ball(24)
    _stripes(folder / "ball.png")
    upward = np.stack([shape.uv[:, 0], 1 - shape.uv[:, 1]], axis=1)
    sources = made.source_dae("p", shape.places.ravel().tolist(), 3)
    sources += made.source_dae("n", shape.normals.ravel().tolist(), 3)
    sources += made.source_dae("t", upward.ravel().tolist(), 2)
    corners = " ".join(map(str, shape.faces.ravel().tolist()))
    text = _DAE.format(sources=sources, count=len(shape.faces), corners=corners, ball=_BALL)
    (folder / "balls.dae").write_text(text)
    return folder / "balls.dae"


def step(folder: Path) -> Path:
    """STEP: a solid with a colour."""
    (folder / "box.step").write_bytes(made.step_box(3, 2, 1, (0.1, 0.4, 0.7)))
    return folder / "box.step"


def _object_3mf(named: str, shape: Surface, looks: list[str]) -> str:
    vertices = "".join(f'<vertex x="{x:.5f}" y="{y:.5f}" z="{z:.5f}"/>' for x, y, z in shape.places)
    triangles = "".join(
        f'<triangle v1="{a}" v2="{b}" v3="{c}" {look}/>'
        for (a, b, c), look in zip(shape.faces, looks, strict=True)
    )
    mesh = f"<vertices>{vertices}</vertices><triangles>{triangles}</triangles>"
    return f"<object {named}><mesh>{mesh}</mesh></object>"


def _stripes(path: Path) -> None:
    x, _ = grid()
    Image.fromarray(picture(0.9, 0.4 + 0.5 * (x * 12 % 1 < 0.5), 0.2)).save(path)


def _exported(shape: Any, path: Path) -> Path:  # noqa: ANN401 (trimesh's types know no PointCloud)
    shape.export(path)
    return path
