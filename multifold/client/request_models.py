"""Searches, items and files in the forms that the service accepts: JSON, form fields and data URIs."""

import base64
import io
import json
import mimetypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from PIL.Image import Image

from multifold.bundle.preprocess import flatten
from multifold.errors import MultifoldError
from multifold.types import Examples, Pooling, Side, Target

File: TypeAlias = str | Path | bytes
Picture: TypeAlias = str | Path | bytes | Image
Filter: TypeAlias = Mapping[str, Any]
Lexical: TypeAlias = Literal["auto", "off", "only"]
# field, (file name, content, type)
FormPart: TypeAlias = tuple[str, tuple[str | None, str | bytes, str | None]]
QUERY_FIELDS = ("text", "image", "mesh", "id", "vector", "mix")
OPTION_FIELDS = (
    "target",
    "limit",
    "pool",
    "filter",
    "min_score",
    "min_confidence",
    "lexical",
    "duplicates",
    "after",
)
RERANK_FIELDS = (*QUERY_FIELDS, "mesh_format", "side", "lexical")  # of a search
FLAGS = ("offset", "exact", "explain", "diversity")  # sent if they are set


def form_field(name: str, value: object) -> FormPart:
    """A plain field; an object goes as JSON."""
    return name, (None, json.dumps(value) if isinstance(value, (Mapping, bool)) else str(value), None)


def image_part(name: str, picture: Picture) -> FormPart:
    """A picture; one in memory is sent as PNG, so that nothing is lost."""
    if not isinstance(picture, Image):
        return file_part(name, picture)
    png = io.BytesIO()
    flatten(picture).save(png, "PNG")
    return file_part(name, png.getvalue())


def file_part(name: str, content: File) -> FormPart:
    """A file by its path, or its bytes; an address is left to the service, which may fetch it."""
    if isinstance(content, bytes):
        return name, (name, content, "application/octet-stream")
    if is_address(content):
        return form_field(name, content)
    path = Path(content)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    try:
        return name, (path.name, path.read_bytes(), kind)
    except OSError as error:
        raise MultifoldError(f"cannot read {path}: {error.strerror}") from error


def mesh_parts(content: File | None, mesh_format: str | None) -> list[FormPart]:
    """A mesh, and its format if one is given."""
    if content is None:
        return []
    return [file_part("mesh", content), *([form_field("mesh_format", mesh_format)] if mesh_format else [])]


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


def given(**fields: object) -> dict[str, Any]:
    """The fields that have a value; the service decides about the others."""
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True)
class QueryInput:
    """Exactly one of text, image, mesh, id and vector; a mesh that is given as bytes needs its format."""

    text: str | None = None
    image: Picture | None = None
    mesh: File | None = None
    mesh_format: str | None = None
    id: str | None = None
    side: Side | None = None
    vector: Sequence[float] | None = None

    def query(self) -> dict[str, Any]:
        """As JSON; files are data URIs."""
        image = None if self.image is None else data_uri(image_part("image", self.image))
        vector = None if self.vector is None else [float(number) for number in self.vector]
        body = given(text=self.text, id=self.id, side=self.side, vector=vector, image=image)
        return body | _mesh_json(self.mesh, self.mesh_format)


@dataclass(frozen=True)
class MixPart(QueryInput):
    """One part of a mixed query, with its weight; below 0: away from it."""

    weight: float = 1.0


@dataclass(frozen=True)
class Search(QueryInput):
    """A search: exactly one of text, image, mesh, id, vector and mix, and how to search with it.

    With `fold` items that show the same are one hit; with `explain` each has the score of its sides. With
    `diversity` look-alikes give way: 0 to 1.
    """

    mix: Sequence[MixPart] | None = None
    target: Target = "item"
    limit: int = 10
    offset: int = 0
    after: str | None = None  # the `next` of the page before
    filter: Filter | None = None
    pool: Pooling = "mean"
    min_score: float | None = None
    min_confidence: float | None = None
    exact: bool = False
    lexical: Lexical | None = None  # as the service is set
    duplicates: Literal["show", "fold"] | None = None
    fold: bool = False  # the same as duplicates="fold"
    explain: bool = False
    examples: Examples | None = None
    diversity: float = 0.0

    def __post_init__(self) -> None:
        """A search without a query, or with several, is refused."""
        if sum(getattr(self, name) is not None for name in QUERY_FIELDS) != 1:
            raise MultifoldError(
                f"ask with exactly one of {', '.join(QUERY_FIELDS[:-1])} and {QUERY_FIELDS[-1]}"
            )

    @property
    def options(self) -> dict[str, Any]:
        """How to search."""
        flags = {name: getattr(self, name) or None for name in FLAGS}
        options = given(**{name: getattr(self, name) for name in OPTION_FIELDS}, **flags)
        judged = {"examples": asdict(self.examples)} if self.examples else {}
        return options | judged | ({"duplicates": "fold"} if self.fold else {})

    def json(self) -> dict[str, Any]:
        """As JSON; files are data URIs."""
        body = self.query() | self.options
        if self.mix is not None:
            body["mix"] = [part.query() | {"weight": part.weight} for part in self.mix]
        return body

    def form(self) -> list[FormPart] | None:
        """As a form, if there is a file to send."""
        if self.image is None and self.mesh is None:
            return None
        fields = [form_field(name, value) for name, value in self.options.items()]
        if self.image is None:
            return [*fields, *mesh_parts(self.mesh, self.mesh_format)]
        return [*fields, image_part("image", self.image)]


@dataclass(frozen=True)
class NewItem:
    """An item to be written."""

    id: str
    texts: Sequence[str] = ()
    images: Sequence[Picture] = ()
    mesh: File | None = None
    mesh_format: str | None = None
    payload: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """A single text would be read as a list of its letters."""
        refuse_single_text(self.texts)

    def json(self) -> dict[str, Any]:
        """As JSON; files are data URIs."""
        images = [data_uri(image_part("image", image)) for image in self.images]
        body = {"id": self.id, "texts": list(self.texts), "payload": dict(self.payload or {})}
        return body | {"images": images} | _mesh_json(self.mesh, self.mesh_format)

    def form(self) -> list[FormPart]:
        """As a form, without the id."""
        parts = [form_field("texts", text) for text in self.texts]
        parts += [image_part("images", image) for image in self.images]
        parts += mesh_parts(self.mesh, self.mesh_format)
        return [*parts, form_field("payload", json.dumps(self.payload or {}))]


def vocabulary(
    labels: Sequence[str] | Mapping[str, Sequence[str]] | None,
    key: str | None,
    templates: Sequence[str] | None,
) -> dict[str, Any]:
    """Labels to choose from; a mapping gives each one its prompts."""
    refuse_single_text(None if isinstance(labels, Mapping) else labels)
    named: list[Any] | None = None
    if isinstance(labels, Mapping):
        named = [{"label": label, "prompts": list(prompts)} for label, prompts in labels.items()]
    elif labels is not None:
        named = list(labels)
    return given(labels=named, key=key, templates=None if templates is None else list(templates))


Fields = ParamSpec("Fields")
Asked = TypeVar("Asked")
Asker = TypeVar("Asker")
Result = TypeVar("Result")


def takes_fields(
    kind: Callable[Fields, Asked],
) -> Callable[[Callable[[Asker, Asked], Result]], Callable[Concatenate[Asker, Fields], Result]]:
    """Makes a method that is called with the fields of a request of one that is called with the request."""

    def decorate(method: Callable[[Asker, Asked], Result]) -> Callable[Concatenate[Asker, Fields], Result]:
        @wraps(method)
        def call(self: Asker, /, *values: Fields.args, **fields: Fields.kwargs) -> Result:
            return method(self, kind(*values, **fields))

        first = next(iter(signature(method).parameters.values()))
        vars(call)["__signature__"] = Signature([first, *signature(kind).parameters.values()])
        return call

    return decorate


def embedding_input(one: str | Picture | File, modality: Side) -> str:
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
    """A single text where a list is expected is an error."""
    if isinstance(texts, str):
        raise MultifoldError("texts is a list of texts; a single one goes into a list of its own")


def _mesh_json(mesh: File | None, mesh_format: str | None) -> dict[str, Any]:
    if mesh is None:
        return {}
    if not mesh_format and not isinstance(mesh, bytes) and not is_address(mesh):
        mesh_format = Path(mesh).suffix.lstrip(".").lower()
    return given(mesh=data_uri(file_part("mesh", mesh)), mesh_format=mesh_format or None)
