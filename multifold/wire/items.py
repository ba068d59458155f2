"""Items: what is written, changed, listed and removed; what is stored, and what became of it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from multifold.errors import MultifoldError
from multifold.types import Kind, Side
from multifold.wire.files import File, Picture
from multifold.wire.messages import Answer, Body, BodyError, DescribedAs, Number, described

MAX_PAGE = 1000


class ItemId(Body):
    """Which item."""

    id: str = described("a name of your own; any text without a line break")


class ItemBody(Body, example={"texts": ["a red chair with four legs"], "payload": {"colour": "red"}}):
    """What an item is made of; in JSON its files are data URIs."""

    texts: Sequence[str] = described("captions", default=())
    images: Sequence[Picture] = described(
        "photos as data URIs, or addresses if the service may fetch", default=()
    )
    mesh: File | None = described("a mesh as data URI or address; its views are rendered here", default=None)
    mesh_format: str | None = described(
        "format of the mesh, such as glb, if nothing else tells", default=None
    )
    vectors: Mapping[Side, Sequence[Sequence[Number]]] = described(
        "features that you made, by side: those of text are its captions' and those of image its photos', in "
        "their order, which are not encoded then; further ones have no caption or photo",
        default_factory=dict,
    )
    payload: Mapping[str, Any] = described("your own JSON object, kept with the item", default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_single_text(self.texts)


class NewItem(ItemBody, ItemId):
    """An item to be written."""


class BulkBody(
    Body,
    example={
        "items": [{"id": "chair-1", "texts": ["a red chair with four legs"], "payload": {"colour": "red"}}]
    },
):
    """Items to write, each on its own: one that is refused does not keep the others out."""

    items: Sequence[Annotated[Mapping[str, Any], DescribedAs(NewItem)]] = described(
        "each as it is written alone", min_length=1
    )

    @classmethod
    def read_json(cls, raw: object) -> object:
        """A single item may come by itself."""
        alone = isinstance(raw, Mapping) and "id" in raw and "items" not in raw
        return super().read_json({"items": [raw]} if alone else raw)


class ItemPatchBody(Body, any_of=("payload", "texts"), example={"payload": {"price": 49}}):
    """What to change of an item; the rest of it stays."""

    payload: Mapping[str, Any] | None = described(
        "a JSON merge patch: null takes a key away (RFC 7396)", default=None
    )
    texts: Sequence[str] | None = described("captions in place of the former ones", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_single_text(self.texts)
        if self.payload is None and self.texts is None:
            raise BodyError("bad_request", "say what to change: 'payload', 'texts' or both")


class ItemFilterBody(Body, example={"filter": {"colour": "red"}}):
    """Which items."""

    filter: Mapping[str, Any] | None = described('what the payload must be: {"colour": "red"}', default=None)


class ItemDeleteBody(ItemFilterBody, one_of=("ids", "filter"), example={"ids": ["chair-1"]}):
    """Which items to remove: by ids or by a filter."""

    ids: Sequence[str] | None = described("these items", default=None)


class ItemChangeBody(
    Body, one_of=("ids", "filter"), example={"filter": {"colour": "red"}, "payload": {"sold": True}}
):
    """What to change of the payload of some items: by ids or by a filter."""

    payload: Mapping[str, Any] = described(
        "a JSON merge patch for each of them: null takes a key away (RFC 7396)", min_length=1
    )
    filter: Mapping[str, Any] | None = described('what the payload must be: {"colour": "red"}', default=None)
    ids: Sequence[str] | None = described("these items", default=None)


class ItemScrollBody(
    ItemFilterBody, example={"filter": {"colour": "red"}, "sort": "-payload.price", "limit": 50}
):
    """A page of items, in the order of their ids unless another one is asked for."""

    sort: str = described(
        "'id', 'newest', or by a key of the payload: 'payload.price', the least first, and "
        "'-payload.price', the greatest first. It is sorted by its numbers, or by its texts if it has none; "
        "only items that have one are listed",
        default="id",
    )
    after: str | None = described("the `next` of the page before", default=None)
    limit: int = described("most items of the page", default=100, ge=1, le=MAX_PAGE)
    vectors: bool = described("with the vector of each observation", default=False)


def refuse_single_text(texts: object) -> None:
    """A single text would be read as a list of its letters."""
    if isinstance(texts, str):
        raise MultifoldError("texts is a list of texts; a single one goes into a list of its own")


class Refusal(Answer):
    """Why one of several things could not be done: a code for programs, a sentence for people."""

    code: str = described("as in an error: for programs")
    message: str = described("what is wrong and what to do, in a sentence")


class ObservationInfo(Answer):
    """One observation of an item: a caption with its text, or a photo or view with its address."""

    kind: Kind = described("what it is: a caption, a photo, a view of a mesh or its points")
    index: int = described("its place among those of its kind, from 0")
    url: str | None = described("address of its picture; null where it has none", default=None)
    text: str | None = described("of a caption; null else", default=None)
    vector: tuple[float, ...] | None = described(
        "its feature, as an item may bring it; null where it was not asked for", default=None
    )


class ItemFile(Answer):
    """An original that was kept."""

    index: int = described("its place among the files of the item, from 0")
    url: str = described("address of the file")
    format: str = described("its format, such as glb")


class StoredItem(Answer, kw_only=True):
    """An item with its payload and all its observations."""

    id: str = described("its name")
    payload: dict[str, Any] = described("your own JSON object")
    observations: tuple[ObservationInfo, ...] = described("captions, photos, views and points")
    files: tuple[ItemFile, ...] = described("the meshes that its views are of, as they came")
    notes: tuple[str, ...] = described("what was lost when its mesh was drawn, such as a texture", default=())


class ItemPage(Answer):
    """Items, and where the next page begins; null after the last."""

    items: tuple[StoredItem, ...] = described("in the order that was asked for")
    next: str | None = described("the `after` of the following page; null after the last")


class ItemWriteAnswer(Answer):
    """An item as it was stored: the collection's new version, and how many observations of each kind."""

    id: str = described("its name")
    version: int = described(
        "number of the change that wrote it: a search of this version or a later one sees it"
    )
    observations: dict[Kind, int] = described("how many it has of each kind")
    warnings: tuple[str, ...] = described(
        "what was lost of it, such as a texture or the end of a long text", default=()
    )


class BulkItemOutcome(Answer):
    """What became of one item: written, or refused with the reason."""

    id: str | None = described("its name; null where it has none")
    written: ItemWriteAnswer | None = described("if it was written: what was stored", default=None)
    error: Refusal | None = described("if it was refused: why", default=None)


class BulkAnswer(Answer):
    """What became of each item, in their order."""

    results: tuple[BulkItemOutcome, ...] = described("one for each item that was sent")
    written: int = described("how many were")
    refused: int = described("how many were not")
    version: int = described("number of the collection's last change")


class ItemCount(Answer):
    """How many items there are."""

    count: int = described("of items that the filter lets through")


class ChangeAnswer(Answer):
    """How many items were changed."""

    changed: int = described("whose payload is another one now")
    version: int = described("number of the collection's last change")


class RemovalAnswer(Answer):
    """How many items or verdicts a deletion removed."""

    removed: int = described("how many were there and are gone")
