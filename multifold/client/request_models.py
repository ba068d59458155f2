"""Searches, items and files in the forms that the service accepts: JSON, form fields and data URIs."""

import base64
import io
import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from PIL.Image import Image

from multifold.bundle.preprocess import flatten
from multifold.errors import MultifoldError
from multifold.types import Pooling, Side, Target

File: TypeAlias = str | Path | bytes
Picture: TypeAlias = str | Path | bytes | Image
FormPart: TypeAlias = tuple[
    str, tuple[str | None, str | bytes, str | None]
]  # field, (file name, content, type)


def form_field(name: str, value: object) -> FormPart:
    """A plain field; an object goes as JSON."""
    return name, (None, json.dumps(value) if isinstance(value, (Mapping, bool)) else str(value), None)


def image_part(name: str, picture: Picture) -> FormPart:
    """A picture; one in memory travels as PNG, so that nothing is lost."""
    return file_part(name, _png(picture) if isinstance(picture, Image) else picture)


def file_part(name: str, content: File) -> FormPart:
    """A file by its path, or its bytes; an address is left to the service, which may fetch it."""
    if isinstance(content, bytes):
        return name, (name, content, "application/octet-stream")
    if is_address(content):
        return form_field(name, content)
    path = Path(content)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return name, (path.name, _read_file(path), kind)


def mesh_parts(content: File | None, mesh_format: str | None) -> list[FormPart]:
    """A mesh, and its format if it was said."""
    if content is None:
        return []
    told = [] if mesh_format is None else [form_field("mesh_format", mesh_format)]
    return [file_part("mesh", content), *told]


def is_address(content: object) -> bool:
    """Whether it names a file on the web."""
    return isinstance(content, str) and content.lower().startswith(("http://", "https://"))


def data_uri(part: FormPart) -> str:
    """A file as a data URI; an address as it is."""
    _, (name, content, kind) = part
    if name is None and isinstance(content, str):
        return content
    data = content if isinstance(content, bytes) else content.encode()
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def mesh_suffix(content: object) -> str | None:
    """The format that a path tells."""
    if is_address(content) or not isinstance(content, (str, Path)):
        return None
    return Path(content).suffix.lstrip(".").lower() or None


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MultifoldError(f"cannot read {path}: {error.strerror}") from error


def _png(picture: Image) -> bytes:
    out = io.BytesIO()
    flatten(picture).save(out, "PNG")
    return out.getvalue()


Filter: TypeAlias = Mapping[str, Any]
QUERY_FIELDS = ("text", "image", "mesh", "id", "vector", "mix")
Modality: TypeAlias = Literal["text", "image", "shape"]
Lexical: TypeAlias = Literal["auto", "off", "only"]


@dataclass(frozen=True)
class MixPart:
    """One part of a mixed query: exactly one of text, image, mesh, id and vector; below 0: away from it."""

    weight: float = 1.0
    text: str | None = None
    image: Picture | None = None
    mesh: File | None = None
    mesh_format: str | None = None
    id: str | None = None
    side: Side | None = None
    vector: Sequence[float] | None = None


@dataclass(frozen=True)
class Search:
    """A search: exactly one of text, image, mesh, id, vector and mix, and how to search with it."""

    text: str | None = None
    image: Picture | None = None
    mesh: File | None = None
    mesh_format: str | None = None
    id: str | None = None
    side: Side | None = None
    vector: Sequence[float] | None = None
    mix: Sequence[MixPart] | None = None
    target: Target = "shape"
    limit: int = 10
    offset: int = 0
    filter: Filter | None = None
    pool: Pooling = "mean"
    min_score: float | None = None
    min_confidence: float | None = None
    exact: bool = False
    lexical: Lexical | None = None  # as the service is set
    duplicates: Literal["show", "fold"] | None = None
    explain: bool = False

    def __post_init__(self) -> None:
        """Nobody can answer none, or several."""
        if sum(getattr(self, clue) is not None for clue in QUERY_FIELDS) != 1:
            raise MultifoldError(
                f"ask with exactly one of {', '.join(QUERY_FIELDS[:-1])} and {QUERY_FIELDS[-1]}"
            )

    @property
    def options(self) -> dict[str, Any]:
        """How to search; what is not said is left to the service."""
        said = {"target": self.target, "limit": self.limit, "pool": self.pool}
        more = {
            "offset": self.offset or None,
            "filter": self.filter,
            "min_score": self.min_score,
            "min_confidence": self.min_confidence,
            "exact": self.exact or None,
            "lexical": self.lexical,
            "duplicates": self.duplicates,
            "explain": self.explain or None,
        }
        return said | {name: value for name, value in more.items() if value is not None}

    def json(self) -> dict[str, Any]:
        """As JSON; files are data URIs."""
        mixed = (
            {}
            if self.mix is None
            else {"mix": [query_json(part) | {"weight": part.weight} for part in self.mix]}
        )
        return query_json(self) | mixed | self.options

    def form(self) -> list[FormPart] | None:
        """As a form, if there is a file to send."""
        if self.image is None and self.mesh is None:
            return None
        fields = [form_field(name, value) for name, value in self.options.items()]
        clue = (
            mesh_parts(self.mesh, self.mesh_format)
            if self.image is None
            else [image_part("image", self.image)]
        )
        return [*fields, *clue]


@dataclass(frozen=True)
class NewItem:
    """An item to be written."""

    id: str
    texts: Sequence[str] = ()
    images: Sequence[Picture] = ()
    mesh: File | None = None
    mesh_format: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A text is a sequence of texts too, but hardly meant so."""
        refuse_single_text(self.texts)

    def json(self) -> dict[str, Any]:
        """As JSON; files are data URIs."""
        body: dict[str, Any] = {"id": self.id, "texts": list(self.texts), "payload": dict(self.payload)}
        body["images"] = [data_uri(image_part("image", image)) for image in self.images]
        return body | _mesh_json(self.mesh, self.mesh_format)


def embedding_input(one: str | Picture | File, modality: Modality) -> str:
    """One input of an embedding: words, or a file as data URI."""
    if modality == "text":
        if not isinstance(one, str):
            raise MultifoldError("an embedding of the modality 'text' is made of texts")
        return one
    if modality == "image":
        return data_uri(image_part("image", one))
    if isinstance(one, Image):
        raise MultifoldError("a picture is no mesh; its modality is 'image'")
    return data_uri(file_part("mesh", one))


def refuse_single_text(texts: Sequence[str] | None) -> None:
    """Texts come in a list."""
    if isinstance(texts, str):
        raise MultifoldError("texts is a list of texts; a single one goes into a list of its own")


def query_json(asked: MixPart | Search) -> dict[str, Any]:
    """What is asked with, as JSON; files are data URIs."""
    body: dict[str, Any] = {
        name: value for name in ("text", "id", "side") if (value := getattr(asked, name)) is not None
    }
    if asked.vector is not None:
        body["vector"] = [float(number) for number in asked.vector]
    if asked.image is not None:
        body["image"] = data_uri(image_part("image", asked.image))
    return body | _mesh_json(asked.mesh, asked.mesh_format)


def _mesh_json(mesh: File | None, mesh_format: str | None) -> dict[str, Any]:
    if mesh is None:
        return {}
    told = mesh_format or mesh_suffix(mesh)
    return {"mesh": data_uri(file_part("mesh", mesh))} | ({"mesh_format": told} if told else {})
