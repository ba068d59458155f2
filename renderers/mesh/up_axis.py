"""Which axis of a mesh file points up, and who says so."""

from typing import Literal, TypeAlias

from renderers.contracts import Axis

Up: TypeAlias = Literal["auto", "y", "z"]

_BY_FORMAT: dict[str, tuple[Axis, str]] = {
    ".glb": ("y", "glTF is Y up"),
    ".gltf": ("y", "glTF is Y up"),
    ".stl": ("z", "STL files come from CAD and printing, where Z is up"),
    ".3mf": ("z", "3MF is Z up"),
    ".step": ("z", "CAD is Z up"),
    ".stp": ("z", "CAD is Z up"),
}


def up_axis(suffix: str, told: Up, stated: Axis | None, head: bytes) -> tuple[Axis, str]:
    """The up axis and the reason: the caller's word, the file's, its format's custom, or a guess."""
    if told != "auto":
        return told, "as told"
    if stated is not None:
        return stated, "the file says so"
    if suffix in _BY_FORMAT:
        return _BY_FORMAT[suffix]
    if suffix == ".ply" and b"Blender" in head:
        return "z", "a guess: Blender writes PLY files with Z up"
    return "y", f"a guess: {suffix[1:].upper()} files don't say, and most have Y up"
