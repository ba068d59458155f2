"""A USD file before it is put together: a package, or one layer; and what it holds beside its layers.

Pixar's library opens files by itself, wherever they lie. So each layer is looked through before any is
composed: it may name layers of its own package, and no others.
"""

import io
import posixpath
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from renderers.contracts import MeshError, MeshLimits
from renderers.images.textures import TextureError
from renderers.mesh.formats.mesh_file import SiblingFiles

UsdObject: TypeAlias = Any  # the library has no types
PACKAGE = ".usdz"
LAYERS = (".usd", ".usda", ".usdc")
_MOST_ENTRIES = 10_000
_CLIPS = ("clips", "clipSets")  # values of other files, at some times
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError)


@dataclass
class UsdFile:
    """A file of the four kinds; `path` is where the library opens it."""

    path: Path
    data: bytes
    siblings: SiblingFiles
    limits: MeshLimits
    entries: dict[str, zipfile.ZipInfo] = field(default_factory=dict)  # of a package, the first layer first

    def __post_init__(self) -> None:
        if self.path.suffix.lower() == PACKAGE:
            try:
                infos = zipfile.ZipFile(io.BytesIO(self.data)).infolist()
            except _BROKEN as error:
                raise MeshError("the usdz file is cut short or damaged. Export it anew.") from error
            self.limits.check("entries", len(infos), _MOST_ENTRIES)
            self.limits.check("bytes", sum(info.file_size for info in infos), self.limits.unpacked_bytes)
            self.entries = {info.filename: info for info in infos}
            if not self.entries or not next(iter(self.entries)).lower().endswith(LAYERS):
                raise MeshError("the usdz file is damaged: it does not begin with a layer. Export it anew.")

    def check_layers(self) -> None:
        """Refuse a file that is put together from files outside of it."""
        waiting = [next(iter(self.entries), "")]
        known = set(waiting)
        while waiting:
            name = waiting.pop()
            layer = _open_layer(f"{self.path}[{name}]" if name else str(self.path))
            _check_clips(layer)
            for named in filter(None, layer.GetCompositionAssetDependencies()):  # "": within the layer
                inner = posixpath.normpath(posixpath.join(posixpath.dirname(name), named))
                if inner not in self.entries or not inner.lower().endswith(LAYERS):
                    raise MeshError(
                        f"the usd file is put together from others ({named:.80}), which are not read. "
                        "Export it as one file, such as usdz."
                    )
                if inner not in known:
                    known.add(inner)
                    waiting.append(inner)

    def open_stage(self) -> UsdObject:
        """Its composed scene, of layers that were checked."""
        from pxr import Usd

        stage = Usd.Stage.Open(str(self.path))
        own = str(self.path.resolve())
        layers = (layer for layer in stage.GetUsedLayers() if not layer.anonymous)
        if any(not str(layer.realPath).startswith(own) for layer in layers):
            raise MeshError("the usd file opens others, which are not read. Export it as one file.")
        return stage

    def read_picture(self, asset: UsdObject) -> bytes:
        """A texture: an entry of the package, or a file beside the layer."""
        if not self.entries:
            return self.siblings.read(asset.path)
        _, bracket, inner = asset.resolvedPath.rpartition("[")
        info = self.entries.get(inner.removesuffix("]"))
        if not bracket or info is None:
            raise TextureError("it is not in the package")
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as package:
                return package.read(info)
        except _BROKEN as error:
            raise TextureError("the package is damaged there") from error


def _open_layer(name: str) -> UsdObject:
    from pxr import Sdf

    layer = Sdf.Layer.FindOrOpen(name)
    if layer is None:
        raise damaged_usd()
    return layer


def _check_clips(layer: UsdObject) -> None:
    """Refuse values of other files, which they are opened for as soon as the layer is composed."""

    def look(path: UsdObject) -> None:
        if path.IsPrimPath() or path.IsPrimVariantSelectionPath():
            prim = layer.GetPrimAtPath(path)
            if prim and any(prim.HasInfo(key) for key in _CLIPS):
                raise MeshError("the usd file has value clips, which are other files. Export it as one file.")

    layer.Traverse("/", look)


def damaged_usd() -> MeshError:
    """The refusal of what the library cannot open, or cannot read on."""
    return MeshError("this is not a USD file, although its name says so, or it is damaged. Export it anew.")
