"""A model as pyrender's scene, meshes and materials, lit by our shaders.

Import it through `gl/renderer.py`, which chooses the platform first. pyrender keeps meshes, materials and
cameras and talks to OpenGL. Ours are the shaders, textures in linear light with our mip levels, and a
picture of float samples, so that light adds up and blends in linear space.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyrender
from jaxtyping import Float32, Float64, Int64
from OpenGL import GL
from pyrender.shader_program import ShaderProgramCache

from renderers.contracts import MeshMaterial, MeshModel, Rig, Texture, TextureMagnification, TextureWrap
from renderers.look import by_opacity, depth_range, lamp_directions, shader_defines

_WRAPS: dict[TextureWrap, int] = {
    "repeat": GL.GL_REPEAT,
    "clamp": GL.GL_CLAMP_TO_EDGE,
    "mirror": GL.GL_MIRRORED_REPEAT,
}
_MAGNIFY: dict[TextureMagnification, int] = {"linear": GL.GL_LINEAR, "nearest": GL.GL_NEAREST}
TextureOf: TypeAlias = Callable[[Texture | None], "_GlTexture | None"]
_MAPS = {
    "base": "baseColorTexture",
    "metal_rough": "metallicRoughnessTexture",
    "normal": "normalTexture",
    "occlusion": "occlusionTexture",
    "emissive": "emissiveTexture",
}  # our names of textures, pyrender's


class _GlMaterial(pyrender.MetallicRoughnessMaterial):  # type: ignore[misc]
    """One of our materials, with uniforms that our shaders need beside pyrender's."""

    def __init__(self, material: MeshMaterial, texture: "TextureOf", *, blended: bool) -> None:
        maps = {name: getattr(material, f"{name}_texture") for name in _MAPS}
        super().__init__(
            baseColorFactor=np.array(material.base),
            metallicFactor=min(max(material.metallic, 0.0), 1.0),
            roughnessFactor=min(max(material.roughness, 0.0), 1.0),
            emissiveFactor=np.array(material.emissive),
            alphaMode="BLEND" if blended else "OPAQUE",
            **{_MAPS[name]: texture(one) for name, one in maps.items()},
        )
        cutoff = material.alpha_cutoff if material.alpha_mode == "MASK" else -1.0
        transforms = ((f"{name}_transform", _transform(one)) for name, one in maps.items())
        self.uniforms = (("unlit", int(material.unlit)), ("cutoff", cutoff), *transforms)

    def _compute_transparency(self) -> bool:
        return bool(self.alphaMode == "BLEND")  # drawn after what is solid


class _GlTexture(pyrender.Texture):  # type: ignore[misc]
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


class PyrenderMeshes:
    """A model's faces as pyrender's meshes."""

    def __init__(self, model: MeshModel) -> None:
        self.model = model
        self._textures: dict[tuple[object, ...], _GlTexture] = {}
        self._materials: dict[tuple[int, bool], _GlMaterial] = {}

    def mesh(self, faces: Int64[np.ndarray, " g"], *, blended: bool) -> Any:  # noqa: ANN401
        """These faces, those of one material together, in this order but for that."""
        of_material = self.model.material_of[faces]
        numbers, first = np.unique(of_material, return_index=True)
        parts = [(number, faces[of_material == number]) for number in numbers[np.argsort(first)]]
        return pyrender.Mesh([self._primitive(part, int(number), blended) for number, part in parts])

    def sorted_from(self, eye: Float64[np.ndarray, "3"], faces: Int64[np.ndarray, " g"]) -> Any:  # noqa: ANN401
        """See-through faces from far to near: by material, and by face within it."""
        middles = self.model.vertices[self.model.faces[faces]].mean(axis=1)
        distance = np.linalg.norm(middles - eye, axis=1)
        of_material = self.model.material_of[faces]
        sums = np.bincount(of_material, distance)
        counts = np.maximum(np.bincount(of_material), 1)
        order = np.lexsort((-distance, -(sums / counts)[of_material]))
        return self.mesh(faces[order], blended=True)

    def _primitive(self, faces: Int64[np.ndarray, " g"], number: int, blended: bool) -> Any:  # noqa: ANN401
        model = self.model
        if (number, blended) not in self._materials:
            described = model.materials[number]
            self._materials[number, blended] = _GlMaterial(described, self._texture, blended=blended)
        material = self._materials[number, blended]
        corners = model.faces[faces].ravel()
        return pyrender.Primitive(
            positions=model.vertices[corners],
            normals=model.normals[faces].reshape(-1, 3),
            texcoord_0=model.uv[corners] if material.tex_flags else None,
            texcoord_1=None if model.uv1 is None else model.uv1[corners],
            color_0=model.colors[corners] if model.colored else None,
            material=material,
        )

    def _texture(self, texture: Texture | None) -> _GlTexture | None:
        """Every picture of a model once, whichever materials show it."""
        if texture is None:
            return None
        key = id(texture.texels), texture.wrap, texture.magnify
        return self._textures.setdefault(key, _GlTexture(texture))


def _transform(texture: Texture | None) -> Float64[np.ndarray, "3 3"]:
    """Of texture coordinates, as a matrix for columns (u, v, 1); its last number says which coordinates."""
    matrix = np.diag([1.0, 1.0, 0.0 if texture is None else texture.uv_set])
    if texture is not None and texture.transform is not None:
        matrix[:2] = texture.transform
    return matrix


_ALL_SIDES = pyrender.RenderFlags.OFFSCREEN | pyrender.RenderFlags.SKIP_CULL_FACES


class GlScene:
    """One OpenGL context, and the model that stands in it."""

    def __init__(self, platform: str) -> None:
        self._platform = _open_platform(platform)
        self._renderer = _Renderer(1, 1)
        self._scene = pyrender.Scene(ambient_light=np.zeros(3))
        self._clear = np.zeros(0, np.int64)  # the faces that let light through

    def show(self, model: MeshModel, rig: Rig, side: int) -> None:
        """Prepare a model for pictures of `side` samples from a rig's field of view."""
        self.clear()
        self._renderer.viewport_width = self._renderer.viewport_height = side
        near, far = (1 / inverse for inverse in depth_range(rig))
        camera = pyrender.PerspectiveCamera(np.radians(rig.fov_degrees), near, far, aspectRatio=1.0)
        self._camera = self._scene.add(camera)
        self._meshes = PyrenderMeshes(model)
        solid, cut, self._clear = by_opacity(model)
        if len(solid) + len(cut):
            self._scene.add(self._meshes.mesh(np.concatenate([solid, cut]), blended=False))

    def picture(self, pose: Float64[np.ndarray, "4 4"], background: float) -> Float32[np.ndarray, "s s 3"]:
        """Linear light of every sample, seen from here, before a grey of this much light."""
        self._platform.make_current()
        self._scene.set_pose(self._camera, pose)
        self._scene.bg_color = np.full(4, background)
        self._renderer.lamps = tuple(lamp[:, 0] for lamp in lamp_directions(pose[None]))
        if not len(self._clear):
            return np.asarray(self._renderer.render(self._scene, _ALL_SIDES))
        glass = self._scene.add(self._meshes.sorted_from(pose[:3, 3], self._clear))
        samples = self._renderer.render(self._scene, _ALL_SIDES)
        self._scene.remove_node(glass)
        return np.asarray(samples)

    def clear(self) -> None:
        """Remove the model, from the memory of OpenGL too."""
        self._platform.make_current()
        self._scene.clear()
        self._renderer._update_context(self._scene, _ALL_SIDES)


class _ShaderPrograms(ShaderProgramCache):  # type: ignore[misc]
    """pyrender's, with the constants of the light in place of their names."""

    def get_program(self, *, defines: dict[str, Any], **shaders: Any) -> Any:  # noqa: ANN401
        return super().get_program(defines={**defines, **shader_defines()}, **shaders)


class _Renderer(pyrender.Renderer):  # type: ignore[misc]
    """pyrender's, drawing float samples with our shaders."""

    lamps: tuple[Float32[np.ndarray, "3"], ...] = ()

    def __init__(self, width: int, height: int) -> None:
        super().__init__(width, height)
        self._main_fb: Any
        self._main_fb_dims: Any
        self._program_cache = _ShaderPrograms(str(Path(__file__).parent / "shaders"))
        self._programs: dict[tuple[int, int], Any] = {}

    def _get_primitive_program(self, primitive: Any, flags: int, program_flags: int) -> Any:  # noqa: ANN401
        """Compiled once; with OSMesa pyrender's own cache takes every call for another context."""
        kind = (primitive.buf_flags, primitive.material.tex_flags)
        if kind not in self._programs:
            self._programs[kind] = super()._get_primitive_program(primitive, flags, program_flags)
        return self._programs[kind]

    def _bind_and_draw_primitive(self, primitive: Any, pose: Any, program: Any, flags: int) -> None:  # noqa: ANN401
        for name, value in (*zip(("key", "fill"), self.lamps, strict=True), *primitive.material.uniforms):
            program.set_uniform(name, value)
        super()._bind_and_draw_primitive(primitive, pose, program, flags)

    def _configure_main_framebuffer(self) -> None:
        """One buffer of half floats, one sample each: pyrender's own holds bytes."""
        side = self.viewport_width
        if self._main_fb is not None and self._main_fb_dims[0] == side:
            return
        self._delete_main_framebuffer()
        self._main_fb = self._main_fb_ms = GL.glGenFramebuffers(1)
        GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, self._main_fb)
        self._main_cb = self._main_cb_ms = _buffer(side, GL.GL_RGBA16F, GL.GL_COLOR_ATTACHMENT0)
        self._main_db = self._main_db_ms = _buffer(side, GL.GL_DEPTH_COMPONENT24, GL.GL_DEPTH_ATTACHMENT)
        self._main_fb_dims = (side, side)

    def _read_main_framebuffer(self, scene: Any, flags: int) -> Float32[np.ndarray, "s s 3"]:  # noqa: ANN401, ARG002
        side = self._main_fb_dims[0]
        GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, self._main_fb)
        data = GL.glReadPixels(0, 0, side, side, GL.GL_RGB, GL.GL_FLOAT)
        return np.asarray(data, np.float32).reshape(side, side, 3)[::-1]


def _open_platform(name: str) -> Any:  # noqa: ANN401
    """A context of the first device that has one."""
    if name == "osmesa":
        from pyrender.platforms.osmesa import OSMesaPlatform

        openers = [partial(OSMesaPlatform, 1, 1)]
    else:
        from pyrender.platforms import egl

        openers = [partial(egl.EGLPlatform, 1, 1, device) for device in egl.query_devices()]
    failure: Exception = OSError("EGL knows no device")
    for opener in openers:
        try:
            platform = opener()
            platform.init_context()
            platform.make_current()
        except Exception as error:  # noqa: BLE001 (whatever it is, the next device may do)
            failure = error
        else:
            return platform
    raise OSError(str(failure)) from failure


def _buffer(side: int, kind: int, place: int) -> int:
    """A square render buffer, attached to the framebuffer at hand."""
    number: int = GL.glGenRenderbuffers(1)
    GL.glBindRenderbuffer(GL.GL_RENDERBUFFER, number)
    GL.glRenderbufferStorage(GL.GL_RENDERBUFFER, kind, side, side)
    GL.glFramebufferRenderbuffer(GL.GL_FRAMEBUFFER, place, GL.GL_RENDERBUFFER, number)
    return number
