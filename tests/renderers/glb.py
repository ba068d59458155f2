"""GLB files made by hand, so that a test says each byte that matters."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import DracoPy
import meshopt
import numpy as np
from jaxtyping import Shaped, UInt8
from PIL import Image

from tests.files import picture_file

TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
COMPONENTS = {"int8": 5120, "uint8": 5121, "int16": 5122, "uint16": 5123, "uint32": 5125, "float32": 5126}
SQUARE = np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], np.float32)
SQUARE_FACES = np.array([0, 1, 2, 0, 2, 3], np.uint16)
SQUARE_UV = np.array([(0, 1), (1, 1), (1, 0), (0, 0)], np.float32)  # the picture upright, as glTF counts
SQUARE_IN_BALL = SQUARE * np.sqrt(0.5)  # as a model has it


class Glb:
    """A glTF tree and its binary chunk, growing."""

    def __init__(self) -> None:
        self.tree: dict[str, Any] = {"asset": {"version": "2.0"}, "scenes": [{"nodes": []}], "scene": 0}
        self.binary = bytearray()

    def add(self, kind: str, **entry: object) -> int:
        """A new entry of a list of the tree; gives its number."""
        entries = self.tree.setdefault(kind, [])
        entries.append(entry)
        return len(entries) - 1

    def view(self, data: bytes, **entry: object) -> int:
        self.binary += b"\0" * (-len(self.binary) % 4)
        offset = len(self.binary)
        self.binary += data
        return self.add("bufferViews", buffer=0, byteOffset=offset, byteLength=len(data), **entry)

    def accessor(self, values: Shaped[np.ndarray, "..."], **entry: object) -> int:
        width = 1 if values.ndim == 1 else values.shape[1]
        described = {
            "count": len(values),
            "type": TYPES[width],
            "componentType": COMPONENTS[values.dtype.name],
        }
        return self.add("accessors", bufferView=self.view(values.tobytes()), **described, **entry)

    def texture(self, pixels: UInt8[np.ndarray, "h w c"], **sampler: int) -> int:
        """A PNG texture with its sampler."""
        data = picture_file(Image.fromarray(pixels))
        image = self.add("images", bufferView=self.view(data), mimeType="image/png")
        return self.add("textures", source=image, sampler=self.add("samplers", **sampler))

    def basis(self, data: bytes) -> int:
        """A texture of a KTX2 picture."""
        image = self.add("images", bufferView=self.view(data), mimeType="image/ktx2")
        return self.add("textures", extensions={"KHR_texture_basisu": {"source": image}})

    def packed(self, values: Shaped[np.ndarray, "..."], mode: str, **more: object) -> int:
        """A buffer view that meshoptimizer has compressed."""
        place, width = self.view(meshopt.encode_gltf_buffer(values, mode)), values.nbytes // len(values)
        told = {"byteStride": width, "count": len(values), "mode": mode, **more}
        packing = {**self.tree["bufferViews"][place], **told}
        return self.add(
            "bufferViews",
            buffer=1,
            byteLength=values.nbytes,
            extensions={"EXT_meshopt_compression": packing},
        )

    def material(
        self, color: tuple[float, ...] = (1, 1, 1, 1), pbr: dict[str, Any] | None = None, **entry: object
    ) -> int:
        """A matt material of one colour, linear."""
        looks = {"baseColorFactor": list(color), "metallicFactor": 0, **(pbr or {})}
        return self.add("materials", pbrMetallicRoughness=looks, **entry)

    def mesh(self, attributes: dict[str, int], **primitive: object) -> int:
        return self.add("meshes", primitives=[{"attributes": attributes, **primitive}])

    def place(self, mesh: int, **node: object) -> int:
        """A mesh in the scene."""
        number = self.add("nodes", mesh=mesh, **node)
        self.tree["scenes"][0]["nodes"].append(number)
        return number

    def square(self, material: int | None = None, z: float = 0.0, scale: float = 1.0, **node: object) -> int:
        """A square that looks towards +Z."""
        placed: dict[str, Any] = {"translation": [0, 0, z], "scale": [scale] * 3, **node}
        return self.surface({"TEXCOORD_0": SQUARE_UV}, material=material, **placed)

    def surface(
        self,
        attributes: Mapping[str, Shaped[np.ndarray, "..."] | int] | None = None,
        indices: Shaped[np.ndarray, " _"] = SQUARE_FACES,
        material: int | None = None,
        **node: object,
    ) -> int:
        """The square with other attributes, or other places: numbers, or an accessor that is there."""
        named = {
            name: values if isinstance(values, int) else self.accessor(values)
            for name, values in {"POSITION": SQUARE, **(attributes or {})}.items()
        }
        dressed = {} if material is None else {"material": material}
        return self.place(self.mesh(named, indices=self.accessor(indices), **dressed), **node)

    def packed_surface(
        self,
        places: Shaped[np.ndarray, "n 3"] = SQUARE,
        faces: Shaped[np.ndarray, " _"] = SQUARE_FACES,
        material: int | None = None,
    ) -> int:
        """A surface that meshoptimizer has compressed; the square unless told."""
        self.tree["extensionsRequired"] = ["EXT_meshopt_compression"]
        corners = {"count": len(faces), "type": "SCALAR", "componentType": COMPONENTS[faces.dtype.name]}
        position = self.add(
            "accessors",
            bufferView=self.packed(places, "ATTRIBUTES"),
            count=len(places),
            type="VEC3",
            componentType=5126,
        )
        indices = self.add("accessors", bufferView=self.packed(faces, "TRIANGLES"), **corners)
        dressed = {} if material is None else {"material": material}
        return self.place(self.mesh({"POSITION": position}, indices=indices, **dressed))

    def draco_surface(
        self,
        places: Shaped[np.ndarray, "n 3"] = SQUARE,
        faces: Shaped[np.ndarray, " _"] = SQUARE_FACES,
        material: int | None = None,
    ) -> int:
        """A surface that Draco has compressed; the square unless told."""
        self.tree["extensionsRequired"] = ["KHR_draco_mesh_compression"]
        data = DracoPy.encode(places, faces.astype(np.uint32).reshape(-1, 3), quantization_bits=14)
        packed = {"bufferView": self.view(data), "attributes": {"POSITION": 0}}
        position = self.add("accessors", count=len(places), type="VEC3", componentType=5126)
        indices = self.add("accessors", count=len(faces), type="SCALAR", componentType=5125)
        dressed = {} if material is None else {"material": material}
        extensions = {"KHR_draco_mesh_compression": packed}
        return self.place(
            self.mesh({"POSITION": position}, indices=indices, extensions=extensions, **dressed)
        )

    def bytes(self) -> bytes:
        self.tree["buffers"] = [{"byteLength": len(self.binary)}]
        return pack(json.dumps(self.tree).encode(), bytes(self.binary))

    def save(self, folder: Path, name: str = "mesh.glb") -> Path:
        path = folder / name
        path.write_bytes(self.bytes())
        return path


def pack(text: bytes, binary: bytes) -> bytes:
    """The two chunks of a GLB file, wrapped."""
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    chunks = (
        struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    )
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def unlit(
    glb: Glb,
    color: tuple[float, ...] = (1, 1, 1, 1),
    pbr: dict[str, Any] | None = None,
    **entry: object,
) -> int:
    """A material whose colour is what one sees."""
    return glb.material(color, pbr, extensions={"KHR_materials_unlit": {}}, **entry)


def textured(glb: Glb, texture: int, **reference: object) -> int:
    """A material that shows a texture as it is."""
    return unlit(glb, pbr={"baseColorTexture": {"index": texture, **reference}})


def colored_square(*color: float) -> Glb:
    """A square of one colour, red unless told."""
    glb = Glb()
    glb.square(unlit(glb, color or (1, 0, 0, 1)))
    return glb
