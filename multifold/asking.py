"""What is asked, as it goes over the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from PIL.Image import Image

from multifold import uploads
from multifold.errors import MultifoldError
from multifold.types import Pool, Side, Target
from multifold.uploads import File, Part, Picture

Filter: TypeAlias = Mapping[str, Any]
CLUES = ("text", "image", "mesh", "id", "vector", "mix")
Modality: TypeAlias = Literal["text", "image", "shape"]
Lexical: TypeAlias = Literal["auto", "off", "only"]


@dataclass(frozen=True)
class Clue:
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
    mix: Sequence[Clue] | None = None
    target: Target = "shape"
    limit: int = 10
    offset: int = 0
    filter: Filter | None = None
    pool: Pool = "mean"
    min_score: float | None = None
    min_confidence: float | None = None
    exact: bool = False
    lexical: Lexical | None = None  # as the service is set
    duplicates: Literal["show", "fold"] | None = None
    explain: bool = False

    def __post_init__(self) -> None:
        """Nobody can answer none, or several."""
        if sum(getattr(self, clue) is not None for clue in CLUES) != 1:
            raise MultifoldError(f"ask with exactly one of {', '.join(CLUES[:-1])} and {CLUES[-1]}")

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
            else {"mix": [clue_json(part) | {"weight": part.weight} for part in self.mix]}
        )
        return clue_json(self) | mixed | self.options

    def form(self) -> list[Part] | None:
        """As a form, if there is a file to send."""
        if self.image is None and self.mesh is None:
            return None
        fields = [uploads.field(name, value) for name, value in self.options.items()]
        clue = (
            uploads.mesh(self.mesh, self.mesh_format)
            if self.image is None
            else [uploads.image("image", self.image)]
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
        refuse_text(self.texts)

    def json(self) -> dict[str, Any]:
        """As JSON; files are data URIs."""
        body: dict[str, Any] = {"id": self.id, "texts": list(self.texts), "payload": dict(self.payload)}
        body["images"] = [uploads.data_uri(uploads.image("image", image)) for image in self.images]
        return body | _mesh(self.mesh, self.mesh_format)


def embeddable(one: str | Picture | File, modality: Modality) -> str:
    """One input of an embedding: words, or a file as data URI."""
    if modality == "text":
        if not isinstance(one, str):
            raise MultifoldError("an embedding of the modality 'text' is made of texts")
        return one
    if modality == "image":
        return uploads.data_uri(uploads.image("image", one))
    if isinstance(one, Image):
        raise MultifoldError("a picture is no mesh; its modality is 'image'")
    return uploads.data_uri(uploads.file("mesh", one))


def refuse_text(texts: Sequence[str] | None) -> None:
    """Texts come in a list."""
    if isinstance(texts, str):
        raise MultifoldError("texts is a list of texts; a single one goes into a list of its own")


def clue_json(asked: Clue | Search) -> dict[str, Any]:
    """What is asked with, as JSON; files are data URIs."""
    body: dict[str, Any] = {
        name: value for name in ("text", "id", "side") if (value := getattr(asked, name)) is not None
    }
    if asked.vector is not None:
        body["vector"] = [float(number) for number in asked.vector]
    if asked.image is not None:
        body["image"] = uploads.data_uri(uploads.image("image", asked.image))
    return body | _mesh(asked.mesh, asked.mesh_format)


def _mesh(mesh: File | None, mesh_format: str | None) -> dict[str, Any]:
    if mesh is None:
        return {}
    told = mesh_format or uploads.suffix(mesh)
    return {"mesh": uploads.data_uri(uploads.file("mesh", mesh))} | ({"mesh_format": told} if told else {})
