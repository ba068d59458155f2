"""Models -> GLB: what a viewer shows, in one plain file, whatever format the mesh came in.

The file has positions, normals, colours and the base colour of each material. It needs no extension but
`KHR_materials_unlit`. The mesh stands upright in the unit ball, as it is drawn.
"""

import io
import json
import struct
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32, Int64
from PIL import Image

from renderers.contracts import MeshLimits, MeshMaterial, MeshModel, Texture
from renderers.images.color import to_srgb

GLB_LIMITS = MeshLimits(faces=500_000, vertices=1_500_000)  # more would keep browsers waiting
TYPE_NAMES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}
COMPONENT_TYPES = {"float32": 5126, "uint16": 5123, "uint32": 5125}
WRAPS = {"repeat": 10497, "clamp": 33071, "mirror": 33648}
ARRAY_BUFFER, ELEMENT_BUFFER = 34962, 34963
NORMAL_STEPS = 127  # normals that differ by less are one vertex


class GlbFile:
    """A GLB file that grows by arrays, pictures and materials."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self.json: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "Multifold"},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": []}],
            "buffers": [{}],
        }

    def add(self, kind: str, value: dict[str, Any]) -> int:
        """Add an entry to a list of the description; its place there."""
        entries = self.json.setdefault(kind, [])
        entries.append(value)
        return len(entries) - 1

    def add_bytes(self, data: bytes, **options: int) -> int:
        """A view of the buffer with these bytes."""
        view = self.add(
            "bufferViews", {"buffer": 0, "byteOffset": self._size, "byteLength": len(data), **options}
        )
        padded = data + b"\0" * (-len(data) % 4)
        self._chunks.append(padded)
        self._size += len(padded)
        return view

    def add_array(self, array: np.ndarray, target: int, **options: object) -> int:
        """An accessor of an array, one row an element."""
        width = array.shape[1] if array.ndim == 2 else 1
        view = self.add_bytes(np.ascontiguousarray(array).tobytes(), target=target)
        accessor = {"bufferView": view, "componentType": COMPONENT_TYPES[array.dtype.name]}
        return self.add("accessors", accessor | {"count": len(array), "type": TYPE_NAMES[width], **options})

    def encode(self) -> bytes:
        """The whole file."""
        self.json["buffers"][0]["byteLength"] = self._size
        text = json.dumps(self.json, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        size = 12 + 8 + len(text) + 8 + self._size
        head = struct.pack("<4sII", b"glTF", 2, size) + struct.pack("<I4s", len(text), b"JSON") + text
        return b"".join([head, struct.pack("<I4s", self._size, b"BIN\0"), *self._chunks])


def encode_glb(model: MeshModel) -> bytes:
    """A model as GLB; one that is too large to be looked at in a browser is refused."""
    GLB_LIMITS.check("triangles", len(model.faces), GLB_LIMITS.faces)
    file = GlbFile()
    for number, material in enumerate(model.materials):
        faces = np.flatnonzero(model.material_of == number)
        if len(faces):
            file.json["meshes"][0]["primitives"].append(_primitive(file, model, faces, material))
    return file.encode()


def _primitive(
    file: GlbFile, model: MeshModel, faces: Int64[np.ndarray, " f"], material: MeshMaterial
) -> dict[str, Any]:
    """The faces of one material."""
    indices, vertices, corners = weld_corners(model.faces[faces], model.normals[faces])
    positions = model.vertices[vertices]
    extent = {"min": positions.min(axis=0).tolist(), "max": positions.max(axis=0).tolist()}
    attributes = {
        "POSITION": file.add_array(positions, ARRAY_BUFFER, **extent),
        "NORMAL": file.add_array(model.normals[faces].reshape(-1, 3)[corners], ARRAY_BUFFER),
    }
    if model.colored:
        colors = np.rint(model.colors[vertices] * 65535).astype(np.uint16)
        attributes["COLOR_0"] = file.add_array(colors, ARRAY_BUFFER, normalized=True)
    if (texture := material.base_texture) is not None:
        attributes["TEXCOORD_0"] = file.add_array(_coordinates(model, texture)[vertices], ARRAY_BUFFER)
    return {
        "attributes": attributes,
        "indices": file.add_array(indices, ELEMENT_BUFFER),
        "material": file.add("materials", _material(file, material)),
    }


def weld_corners(
    faces: Int32[np.ndarray, "f 3"], normals: Float32[np.ndarray, "f 3 3"]
) -> tuple[np.ndarray, Int64[np.ndarray, " v"], Int64[np.ndarray, " v"]]:
    """Corners of one vertex and one normal become one: the indices of the faces, and of each new vertex its
    former number and a corner that it stands for."""
    corner_vertices = faces.reshape(-1).astype(np.int64)
    steps = np.rint(normals.reshape(-1, 3) * NORMAL_STEPS).astype(np.int64) + NORMAL_STEPS
    keys = ((corner_vertices << 8 | steps[:, 0]) << 8 | steps[:, 1]) << 8 | steps[:, 2]
    _, corners, inverse = np.unique(keys, return_index=True, return_inverse=True)
    dtype = np.uint16 if len(corners) < 65535 else np.uint32
    return inverse.reshape(-1).astype(dtype), corner_vertices[corners], corners


def _coordinates(model: MeshModel, texture: Texture) -> Float32[np.ndarray, "n 2"]:
    """Texture coordinates with the texture's own transform in them."""
    uv = model.uv1 if texture.uv_set and model.uv1 is not None else model.uv
    if texture.transform is None:
        return uv
    return np.asarray(uv @ texture.transform[:, :2].T + texture.transform[:, 2], np.float32)


def _material(file: GlbFile, material: MeshMaterial) -> dict[str, Any]:
    pbr: dict[str, Any] = {
        "baseColorFactor": list(map(float, material.base)),
        "metallicFactor": float(material.metallic),
        "roughnessFactor": float(material.roughness),
    }
    if material.base_texture is not None:
        pbr["baseColorTexture"] = {"index": _texture(file, material.base_texture)}
    made: dict[str, Any] = {"pbrMetallicRoughness": pbr, "doubleSided": True}
    if any(material.emissive):
        made["emissiveFactor"] = [min(1.0, float(one)) for one in material.emissive]
    if material.alpha_mode != "OPAQUE":
        made["alphaMode"] = material.alpha_mode
    if material.alpha_mode == "MASK":
        made["alphaCutoff"] = float(material.alpha_cutoff)
    if material.unlit:
        made["extensions"] = {"KHR_materials_unlit": {}}
        file.json["extensionsUsed"] = ["KHR_materials_unlit"]
    return made


def _texture(file: GlbFile, texture: Texture) -> int:
    """The largest level of a texture: JPEG, or PNG where it lets light through."""
    width, height = map(int, texture.sizes[0])
    texels = texture.texels[: width * height].reshape(height, width, -1)
    pixels = to_srgb(np.ascontiguousarray(texels[:, :, :3]))
    opaque = texels.shape[2] < 4 or bool((texels[:, :, 3] >= 1).all())
    if not opaque:
        alpha = np.rint(texels[:, :, 3:].clip(0, 1) * 255).astype(np.uint8)
        pixels = np.concatenate([pixels, alpha], axis=2)
    if pixels.shape[2] == 1:
        pixels = pixels.repeat(3, axis=2)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG" if opaque else "PNG", quality=90)
    image = {"bufferView": file.add_bytes(out.getvalue()), "mimeType": f"image/{'jpeg' if opaque else 'png'}"}
    sampler = {"wrapS": WRAPS[texture.wrap[0]], "wrapT": WRAPS[texture.wrap[1]]}
    sampler["magFilter"] = 9728 if texture.magnify == "nearest" else 9729
    places = {"source": file.add("images", image), "sampler": file.add("samplers", sampler)}
    return file.add("textures", places)
