"""Published files on this disk: where they came from, and which of them is what.

Vision and text towers are commonly published as ONNX graphs in one of two layouts:

immich:           visual/ and textual/, each with model.onnx and configuration; config.json is open_clip's
transformers.js:  onnx/vision_model.onnx and onnx/text_model.onnx, and variants of them with a suffix
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from multifold.bundle.bundle import file_hash
from multifold.errors import MultifoldError

Variant: TypeAlias = Literal["fp32", "fp16", "int8"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
VARIANT_SUFFIXES: dict[Variant, str] = {"fp32": "", "fp16": "_fp16", "int8": "_quantized"}
_FRONT = re.compile(r"\A---\s*\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(r"^license:\s*[\"']?([\w.+-]+)", re.MULTILINE)


class PullError(MultifoldError):
    """Published towers that cannot become a bundle; says why."""


@dataclass(frozen=True)
class PublishedFiles:
    """A folder of published files. `origin` says where they come from, for the bundle's provenance."""

    folder: Path
    origin: Mapping[str, str]
    licence: str | None
    pins: Mapping[str, str] = field(default_factory=dict)  # name -> sha256 that it must have

    def names(self) -> list[str]:
        paths = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.as_posix() for path in paths if not path.parts[0].startswith("."))

    def path(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise PullError(f"{self.folder} lacks its file {name}")
        return path

    def text(self, name: str) -> str:
        try:
            return self.path(name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise PullError(f"{self.path(name)} is damaged: {error}") from error

    def json(self, name: str) -> dict[str, Any]:
        try:
            config = json.loads(self.text(name))
        except json.JSONDecodeError as error:
            raise PullError(f"{self.path(name)} is damaged: {error}") from error
        if not isinstance(config, dict):
            raise PullError(f"{self.path(name)} is damaged: it is no JSON object")
        return config

    def hashes(self, names: Iterable[str]) -> dict[str, str]:
        """The sha256 of these files; one that is pinned must have the pinned one."""
        hashes = {name: file_hash(self.path(name)) for name in names}
        for name, pinned in self.pins.items():
            if hashes.get(name, pinned) != pinned:
                known = f"its sha256 is {hashes[name]}, not {pinned}"
                raise PullError(f"{name} is not the file that is known: {known}")
        return hashes


def open_published_folder(folder: Path, licence: str | None, pins: Mapping[str, str]) -> PublishedFiles:
    """Files that were brought by hand; their licence is the one stated, else what their README says."""
    if not folder.is_dir():
        raise PullError(f"there is no folder {folder}")
    readme = folder / "README.md"
    if licence is None and readme.is_file():
        front = _FRONT.match(readme.read_text(encoding="utf-8", errors="replace"))
        stated = _LICENCE.search(front[1]) if front else None
        licence = stated[1] if stated else None
    return PublishedFiles(folder, {"folder": folder.resolve().name}, licence, pins)


@dataclass(frozen=True)
class TowerLayout:
    kind: Literal["immich", "transformers.js"]
    image_graph: str
    text_graph: str
    image_config: str
    tokenizer: str
    tokenizer_config: str
    config: str = "config.json"

    @property
    def files(self) -> tuple[str, ...]:
        """What a bundle is made from; weights beside the graphs come on top."""
        small = (self.config, self.image_config, self.tokenizer, self.tokenizer_config)
        return (*small, self.image_graph, self.text_graph)


def recognise_layout(names: Collection[str], variant: Variant) -> TowerLayout:
    """The layout of a repository with these files; refuses with what is there instead."""
    graphs = [f"onnx/{tower}_model{VARIANT_SUFFIXES[variant]}.onnx" for tower in ("vision", "text")]
    if "visual/model.onnx" in names or "textual/model.onnx" in names:
        if variant != "fp32":
            raise PullError(f"towers in immich's layout come as fp32 alone, not as {variant}")
        layout = TowerLayout(
            "immich",
            image_graph="visual/model.onnx",
            text_graph="textual/model.onnx",
            image_config="visual/preprocess_cfg.json",
            tokenizer="textual/tokenizer.json",
            tokenizer_config="textual/tokenizer_config.json",
        )
    elif any(name in names for name in graphs):
        layout = TowerLayout(
            "transformers.js",
            image_graph=graphs[0],
            text_graph=graphs[1],
            image_config="preprocessor_config.json",
            tokenizer="tokenizer.json",
            tokenizer_config="tokenizer_config.json",
        )
    else:
        there = sorted(name for name in names if name.endswith(".onnx")) or ["no ONNX graph at all"]
        sought = f"looked for {graphs[0]} and visual/model.onnx, and found {', '.join(there[:8])}"
        raise PullError(f"no separate vision and text towers of the variant {variant} are here: {sought}")
    if missing := [name for name in layout.files if name not in names]:
        raise PullError(f"this is laid out as {layout.kind} does it, but {missing[0]} is missing")
    return layout
