"""STEP files -> parts: curved surfaces are cut into triangles by OpenCASCADE (the extra `cad`).

The largest distance between a surface and its triangles is `TOLERANCE` of each edge's length, and normals of
neighbouring triangles turn by at most `ANGLE` radians.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from multifold.errors import needs_extra
from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.formats import gltf
from renderers.mesh.formats.mesh_file import MeshContents, SiblingFiles

TOLERANCE = 0.01
ANGLE = 0.35
_ROUGHNESS = 0.7  # STEP knows colours, but not how they shine
_MAGIC = b"ISO-10303-21"
_OTHER_FILES = re.compile(rb"DOCUMENT_FILE|EXTERNAL_IDENTIFICATION|EXTERNALLY_DEFINED", re.IGNORECASE)


def read(data: bytes, suffix: str, siblings: SiblingFiles, limits: MeshLimits) -> MeshContents:  # noqa: ARG001 (readers are called alike)
    """The parts of a STEP file, colours included."""
    if _MAGIC not in data[:1024]:
        raise MeshError("this is not a STEP file, although its name says so.")
    if _OTHER_FILES.search(data):  # the kernel would open them wherever they lie
        raise MeshError(
            "the step file is put together from others, which are not read. Export it as one file."
        )
    with needs_extra("cad"):
        import cascadio
    with _files_in_memory():
        glb: bytes = cascadio.load(data, "step", TOLERANCE, ANGLE, tol_relative=True, use_parallel=False)
    if not glb:
        raise MeshError("the step file is damaged, or holds no surfaces. Export it anew.")
    contents = gltf.read(glb, ".glb", siblings, limits)
    matt = {
        id(one.material): replace(one.material, metallic=0.0, roughness=_ROUGHNESS) for one in contents.parts
    }
    parts = [replace(one, material=matt[id(one.material)]) for one in contents.parts]
    return MeshContents(parts, contents.notes, metres=contents.metres)


@contextmanager
def _files_in_memory() -> Iterator[None]:
    """A worker may write no file, but the kernel puts its result into one that lives in memory."""
    if sys.platform == "win32":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
