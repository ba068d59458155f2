"""One good file of every format, as full of features as it is small: what the hostile ones are made from."""

import json
from collections.abc import Callable

import numpy as np
import trimesh

from tests.renderers import made
from tests.renderers.glb import SQUARE, SQUARE_FACES, SQUARE_UV, Glb, textured

KTX2 = made.ktx2((255, 0, 0, 255))
MTL = "newmtl a\nKd 1 0 0\nd 0.5\nmap_Kd t.png\n"
OBJ = (
    "# a square\nmtllib m.mtl\nv -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
    "vn 0 0 1\nusemtl a\nf 1/1/1 2/2/1 3/3/1\nf -4/1/1 -2/3/1 -1/4/1\n"
)


def originals() -> dict[str, dict[str, bytes]]:
    """Name -> the mesh's file, called mesh.SUFFIX, and those beside it."""
    box = trimesh.creation.box()
    ply = box.copy()
    ply.visual.vertex_colors = [200, 30, 30, 255]
    text = {suffix: _bytes(box.export(file_type=suffix)) for suffix in ("stl_ascii", "off")}
    return {
        "glb": {"mesh.glb": rich().bytes()},
        "glb draco": {"mesh.glb": made_by(Glb.draco_surface)},
        "glb meshopt": {"mesh.glb": made_by(Glb.packed_surface)},
        "glb ktx2": {"mesh.glb": made_by(lambda glb: glb.square(textured(glb, glb.basis(KTX2))))},
        "gltf": gltf(),
        "obj": {"mesh.obj": OBJ.encode(), "m.mtl": MTL.encode(), "t.png": made.png((255, 0, 0))},
        "ply": {"mesh.ply": _bytes(ply.export(file_type="ply"))},
        "ply text": {"mesh.ply": _bytes(ply.export(file_type="ply", encoding="ascii"))},
        "ply points": {"mesh.ply": made.ply_points(SQUARE)},
        "stl": {"mesh.stl": _bytes(box.export(file_type="stl"))},
        "stl text": {"mesh.stl": text["stl_ascii"]},
        "off": {"mesh.off": text["off"]},
        "3mf": {"mesh.3mf": colored_3mf()},
        "dae": {"mesh.dae": made.dae('<texture texture="k"/>').encode(), "t.png": made.png((255, 0, 0))},
        "usda": {"mesh.usda": usd("t.png").encode(), "t.png": made.png((255, 0, 0))},
        "usdz": {"mesh.usdz": made.usdz({"root.usda": usd("t.png"), "t.png": made.png((255, 0, 0))})},
        "step": {"mesh.step": made.step_box(1, 2, 3, (1, 0, 0))},
    }


def usd(picture: str) -> str:
    """A textured square."""
    return f"""#usda 1.0
def Mesh "m" (prepend apiSchemas = ["MaterialBindingAPI"])
{{
    point3f[] points = [(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]
    int[] faceVertexCounts = [4]
    int[] faceVertexIndices = [0, 1, 2, 3]
    texCoord2f[] primvars:st = [(0, 0), (1, 0), (1, 1), (0, 1)] (interpolation = "faceVarying")
    rel material:binding = </p>
}}
def Material "p"
{{
    token outputs:surface.connect = </p/s.outputs:surface>
    def Shader "s"
    {{
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor.connect = </p/t.outputs:rgb>
        token outputs:surface
    }}
    def Shader "t"
    {{
        uniform token info:id = "UsdUVTexture"
        asset inputs:file = @{picture}@
        float3 outputs:rgb
    }}
}}
"""


def rich() -> Glb:
    """A textured, bumpy, skinned, quantised, morphed square with an instance and a point cloud beside it."""
    glb = Glb()
    reference = {"index": glb.texture(np.zeros((4, 4, 3), np.uint8)), "texCoord": 1}
    joints, weights = np.zeros((4, 4), np.uint8), np.tile(np.array([1, 0, 0, 0], np.float32), (4, 1))
    attributes = {
        "POSITION": glb.accessor((SQUARE * 100).astype(np.int16)),
        "NORMAL": glb.accessor(np.tile(np.array([0, 0, 1], np.float32), (4, 1))),
        "TEXCOORD_0": glb.accessor(SQUARE_UV),
        "TEXCOORD_1": glb.accessor((SQUARE_UV * 255).astype(np.uint8), normalized=True),
        "JOINTS_0": glb.accessor(joints),
        "WEIGHTS_0": glb.accessor(weights),
    }
    material = glb.material(pbr={"baseColorTexture": reference}, normalTexture=reference, alphaMode="BLEND")
    targets = [{"POSITION": glb.accessor(SQUARE)}]
    faces = glb.accessor(SQUARE_FACES)
    mesh = glb.mesh(attributes, indices=faces, material=material, targets=targets)
    glb.tree["meshes"][mesh]["weights"] = [0.5]
    bone = glb.add("nodes")
    glb.tree["scenes"][0]["nodes"].append(bone)
    glb.place(mesh, skin=glb.add("skins", joints=[bone]))
    places = {"attributes": {"TRANSLATION": glb.accessor(SQUARE)}}
    glb.place(mesh, extensions={"EXT_mesh_gpu_instancing": places})
    glb.place(glb.mesh({"POSITION": glb.accessor(SQUARE)}, mode=0))
    return glb


def gltf() -> dict[str, bytes]:
    """The same with its numbers beside it."""
    glb = rich()
    glb.tree["buffers"] = [{"byteLength": len(glb.binary), "uri": "m.bin"}]
    return {"mesh.gltf": json.dumps(glb.tree).encode(), "m.bin": bytes(glb.binary)}


def made_by(make: Callable[[Glb], object]) -> bytes:
    """A GLB file that this has made something in."""
    glb = Glb()
    make(glb)
    return glb.bytes()


def colored_3mf() -> bytes:
    colors = '<basematerials id="5"><base displaycolor="#FF0000"/></basematerials>'
    pair = '<object id="2"><components><component objectid="1"/></components></object>'
    square = made.square_3mf('pid="5" p1="0"')
    return made.package_3mf(colors + square + pair, '<item objectid="2"/>')


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)
