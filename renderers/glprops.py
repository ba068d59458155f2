"""A model as pyrender's meshes and materials, with what our shaders want to know; see `glstage.py`."""

from typing import Any

import numpy as np
import pyrender
from jaxtyping import Float64, Int64
from OpenGL import GL

from renderers.model import Magnify, Material, Model, Texture, Wrap

_WRAPS: dict[Wrap, int] = {
    "repeat": GL.GL_REPEAT,
    "clamp": GL.GL_CLAMP_TO_EDGE,
    "mirror": GL.GL_MIRRORED_REPEAT,
}
_MAGNIFY: dict[Magnify, int] = {"linear": GL.GL_LINEAR, "nearest": GL.GL_NEAREST}
_TRANSFORMS = {
    "base_transform": "base_texture",
    "metal_rough_transform": "metal_rough_texture",
    "normal_transform": "normal_texture",
    "occlusion_transform": "occlusion_texture",
    "emissive_transform": "emissive_texture",
}


class _Look(pyrender.MetallicRoughnessMaterial):  # type: ignore[misc]
    """One of our materials, with what our shaders want to know beside what pyrender tells them."""

    def __init__(self, material: Material, textures: "_Textures", *, blended: bool) -> None:
        super().__init__(
            baseColorFactor=np.array(material.base),
            metallicFactor=min(max(material.metallic, 0.0), 1.0),
            roughnessFactor=min(max(material.roughness, 0.0), 1.0),
            emissiveFactor=np.array(material.emissive),
            baseColorTexture=textures.get(material.base_texture),
            metallicRoughnessTexture=textures.get(material.metal_rough_texture),
            normalTexture=textures.get(material.normal_texture),
            occlusionTexture=textures.get(material.occlusion_texture),
            emissiveTexture=textures.get(material.emissive_texture),
            alphaMode="BLEND" if blended else "OPAQUE",
        )
        cutoff = material.alpha_cutoff if material.alpha_mode == "MASK" else -1.0
        transforms = ((name, _transform(getattr(material, texture))) for name, texture in _TRANSFORMS.items())
        self.uniforms = (("unlit", int(material.unlit)), ("cutoff", cutoff), *transforms)

    def _compute_transparency(self) -> bool:
        return bool(self.alphaMode == "BLEND")  # drawn after what is solid


class _Texture(pyrender.Texture):  # type: ignore[misc]
    """One of our textures: linear light, with the mip levels that the model has."""

    def __init__(self, texture: Texture) -> None:
        across, down = (_WRAPS[wrap] for wrap in texture.wrap)
        super().__init__(sampler=pyrender.Sampler(wrapS=across, wrapT=down))
        self.texture = texture

    def _add_to_context(self) -> None:
        self._texid = GL.glGenTextures(1)
        GL.glBindTexture(GL.GL_TEXTURE_2D, self._texid)
        GL.glPixelStorei(GL.GL_UNPACK_ALIGNMENT, 4)
        four = self.texture.texels.shape[1] == 4
        inside, outside = (GL.GL_RGBA16F, GL.GL_RGBA) if four else (GL.GL_RGB16F, GL.GL_RGB)
        for level, (start, size) in enumerate(zip(self.texture.starts, self.texture.sizes, strict=True)):
            width, height = (int(length) for length in size)
            texels = self.texture.texels[start : start + width * height]
            GL.glTexImage2D(GL.GL_TEXTURE_2D, level, inside, width, height, 0, outside, GL.GL_FLOAT, texels)
        for name, value in (
            (GL.GL_TEXTURE_MAX_LEVEL, len(self.texture.sizes) - 1),
            (GL.GL_TEXTURE_MIN_FILTER, GL.GL_LINEAR_MIPMAP_NEAREST),
            (GL.GL_TEXTURE_MAG_FILTER, _MAGNIFY[self.texture.magnify]),
            (GL.GL_TEXTURE_WRAP_S, self.sampler.wrapS),
            (GL.GL_TEXTURE_WRAP_T, self.sampler.wrapT),
        ):
            GL.glTexParameteri(GL.GL_TEXTURE_2D, name, value)
        GL.glBindTexture(GL.GL_TEXTURE_2D, 0)


class _Textures:
    """Every picture of a model once, however many materials show it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[Wrap, Wrap], Magnify], _Texture] = {}

    def get(self, texture: Texture | None) -> _Texture | None:
        if texture is None:
            return None
        key = id(texture.texels), texture.wrap, texture.magnify
        return self._known.setdefault(key, _Texture(texture))


class Props:
    """A model's faces as pyrender's meshes."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._colored = bool((model.colors != 1).any())
        self._textures = _Textures()
        self._looks: dict[tuple[int, bool], _Look] = {}

    def mesh(self, faces: Int64[np.ndarray, " g"], *, blended: bool) -> Any:  # noqa: ANN401
        """These faces, those of one material together, in this order but for that."""
        of_material = self.model.material_of[faces]
        numbers, first = np.unique(of_material, return_index=True)
        parts = [(number, faces[of_material == number]) for number in numbers[np.argsort(first)]]
        return pyrender.Mesh([self._primitive(part, int(number), blended) for number, part in parts])

    def _primitive(self, faces: Int64[np.ndarray, " g"], number: int, blended: bool) -> Any:  # noqa: ANN401
        model = self.model
        look = self._looks.get((number, blended))
        if look is None:
            look = self._looks[number, blended] = _Look(
                model.materials[number], self._textures, blended=blended
            )
        corners = model.faces[faces].ravel()
        return pyrender.Primitive(
            positions=model.vertices[corners],
            normals=model.normals[faces].reshape(-1, 3),
            texcoord_0=model.uv[corners] if look.tex_flags else None,
            texcoord_1=None if model.uv1 is None else model.uv1[corners],
            color_0=model.colors[corners] if self._colored else None,
            material=look,
        )


class Glass:
    """See-through faces, to be drawn from far to near: by material, and by face within it."""

    def __init__(self, props: Props, faces: Int64[np.ndarray, " g"]) -> None:
        self._props, self._faces = props, faces
        self._middles = props.model.vertices[props.model.faces[faces]].mean(axis=1)

    def seen_from(self, eye: Float64[np.ndarray, "3"]) -> Any:  # noqa: ANN401
        distance = np.linalg.norm(self._middles - eye, axis=1)
        of_material = self._props.model.material_of[self._faces]
        sums, counts = np.bincount(of_material, distance), np.maximum(np.bincount(of_material), 1)
        order = np.lexsort((-distance, -(sums / counts)[of_material]))
        return self._props.mesh(self._faces[order], blended=True)


def _transform(texture: Texture | None) -> Float64[np.ndarray, "3 3"]:
    """Of texture coordinates, as a matrix for columns (u, v, 1); its last number says which coordinates."""
    matrix = np.diag([1.0, 1.0, 0.0 if texture is None else texture.uv_set])
    if texture is not None and texture.transform is not None:
        matrix[:2] = texture.transform
    return matrix
