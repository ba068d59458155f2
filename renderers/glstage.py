"""pyrender's parts, with our light: import it through `gl.py`, which chooses the platform first.

pyrender keeps meshes, materials and cameras and talks to OpenGL. Ours are the shaders, textures in linear
light with our mip levels, and a picture of float samples, so that light adds up and blends in linear space.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyrender
from jaxtyping import Float32, Float64
from OpenGL import GL
from pyrender.shader_program import ShaderProgramCache

from renderers.cameras import Rig
from renderers.glprops import Glass, Props
from renderers.light import lamps
from renderers.model import Model
from renderers.software import by_opacity, depth_range

_ALL_SIDES = pyrender.RenderFlags.OFFSCREEN | pyrender.RenderFlags.SKIP_CULL_FACES


class Stage:
    """One OpenGL context, and the model that stands in it."""

    def __init__(self, platform: str) -> None:
        self._platform = _opened(platform)
        self._renderer = _Renderer(1, 1)
        self._scene = pyrender.Scene(ambient_light=np.zeros(3))
        self._glass: Glass | None = None

    def show(self, model: Model, rig: Rig, side: int) -> None:
        """Put a model on the stage, for pictures of `side` samples from a rig's field of view."""
        self.clear()
        self._renderer.viewport_width = self._renderer.viewport_height = side
        near, far = (1 / inverse for inverse in depth_range(rig))
        camera = pyrender.PerspectiveCamera(np.radians(rig.fov_degrees), near, far, aspectRatio=1.0)
        self._camera = self._scene.add(camera)
        props = Props(model)
        solid, cut, clear = by_opacity(model)
        if len(solid) + len(cut):
            self._scene.add(props.mesh(np.concatenate([solid, cut]), blended=False))
        self._glass = Glass(props, clear) if len(clear) else None

    def picture(self, pose: Float64[np.ndarray, "4 4"], background: float) -> Float32[np.ndarray, "s s 3"]:
        """Linear light of every sample, seen from here, before a grey of this much light."""
        self._platform.make_current()
        self._scene.set_pose(self._camera, pose)
        self._scene.bg_color = np.full(4, background)
        self._renderer.lamps = tuple(lamp[:, 0] for lamp in lamps(pose[None]))
        panes = None if self._glass is None else self._scene.add(self._glass.seen_from(pose[:3, 3]))
        samples: Float32[np.ndarray, "s s 3"] = self._renderer.render(self._scene, _ALL_SIDES)
        if panes is not None:
            self._scene.remove_node(panes)
        return samples

    def clear(self) -> None:
        """Take the model off the stage and out of the memory of OpenGL."""
        self._platform.make_current()
        self._scene.clear()
        self._glass = None
        self._renderer._update_context(self._scene, _ALL_SIDES)


class _Renderer(pyrender.Renderer):  # type: ignore[misc]
    """pyrender's, drawing float samples with our shaders."""

    lamps: tuple[Float32[np.ndarray, "3"], ...] = ()

    def __init__(self, width: int, height: int) -> None:
        super().__init__(width, height)
        self._main_fb: Any
        self._main_fb_dims: Any
        self._program_cache = ShaderProgramCache(str(Path(__file__).parent / "shaders"))
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


def _opened(platform: str) -> Any:  # noqa: ANN401
    """A context of the first device that has one."""
    if platform == "osmesa":
        from pyrender.platforms.osmesa import OSMesaPlatform

        return _entered(OSMesaPlatform(1, 1))
    from pyrender.platforms import egl

    failure: Exception = OSError("EGL knows no device")
    for device in egl.query_devices():
        try:
            return _entered(egl.EGLPlatform(1, 1, device))
        except Exception as error:  # noqa: BLE001 (whatever it is, the next device may do)
            failure = error
    raise OSError(str(failure)) from failure


def _entered(platform: Any) -> Any:  # noqa: ANN401
    platform.init_context()
    platform.make_current()
    return platform


def _buffer(side: int, kind: int, place: int) -> int:
    """A square render buffer, attached to the framebuffer at hand."""
    number: int = GL.glGenRenderbuffers(1)
    GL.glBindRenderbuffer(GL.GL_RENDERBUFFER, number)
    GL.glRenderbufferStorage(GL.GL_RENDERBUFFER, kind, side, side)
    GL.glFramebufferRenderbuffer(GL.GL_FRAMEBUFFER, place, GL.GL_RENDERBUFFER, number)
    return number
