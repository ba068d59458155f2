"""What the add-on asks a service, with Python's standard library alone: Blender's Python has nothing else."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

SECONDS = 30
AT_ONCE = 4
ASKED, SHOWN = 60, 24  # hits of a search, and models among them that are shown
NAMES = ("name", "title")  # keys of the payload that name an item


class AddonError(Exception):
    """A sentence for whoever sits in front of Blender."""


@dataclass(frozen=True)
class FoundModel:
    """An item with a mesh, and a file with its thumbnail if there is one."""

    id: str
    title: str
    confidence: float | None
    format: str
    picture: Path | None

    @property
    def label(self) -> str:
        """Its title with the confidence, in the unit of the search page."""
        if self.confidence is None:
            return self.title
        percent = round(100 * self.confidence)
        return f"{self.title} · {f'{percent} %' if percent else '< 1 %'}"


@dataclass(frozen=True)
class FoundModels:
    """Models, best first; `matches_well` is false where nothing stands out."""

    models: tuple[FoundModel, ...]
    matches_well: bool


@dataclass(frozen=True)
class AddonConnection:
    """A service, as the preferences of the add-on name it."""

    url: str
    key: str = ""
    collection: str = ""

    def find_models(self, text: str, folder: Path) -> FoundModels:
        """The items with a mesh among the best hits of a text. Their thumbnails are written to a folder."""
        try:
            return self._find(text, folder)
        except (ValueError, KeyError, TypeError) as error:
            raise AddonError(f"what answers at {self.url} is no Multifold service") from error

    def _find(self, text: str, folder: Path) -> FoundModels:
        answer = json.loads(self._ask("/search", {"text": text, "limit": ASKED}))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            items = pool.map(self._item, [hit["id"] for hit in answer["hits"]])
            meshes = [(hit, item) for hit, item in zip(answer["hits"], items, strict=True) if has_mesh(item)]
            places = [folder / f"{number:02}.webp" for number in range(SHOWN)]
            models = pool.map(self._model, meshes[:SHOWN], places)
            return FoundModels(tuple(models), answer["matches_well"] is not False)

    def fetch_model(self, model: FoundModel, folder: Path) -> Iterator[Path]:
        """Files to import until one works: the original if it is GLB, then what the service makes of it."""
        for number, address in enumerate(["/files/0"] * (model.format == "glb") + ["/model"]):
            path = folder / f"{number}.glb"
            path.write_bytes(self._ask(f"/items/{quote(model.id, safe='')}{address}"))
            yield path

    def _item(self, name: str) -> dict[str, Any]:
        item: dict[str, Any] = json.loads(self._ask(f"/items/{quote(name, safe='')}"))
        return item

    def _model(self, found: tuple[dict[str, Any], dict[str, Any]], place: Path) -> FoundModel:
        hit, item = found
        try:
            place.write_bytes(self._ask(f"/items/{quote(hit['id'], safe='')}/thumbnail"))
            picture = place
        except AddonError:
            picture = None
        return FoundModel(hit["id"], title_of(item), hit["confidence"], item["files"][0]["format"], picture)

    def _ask(self, address: str, body: Mapping[str, Any] | None = None) -> bytes:
        """What the service answers; a refusal or a broken line is an AddonError."""
        base = self.url.strip().rstrip("/")
        if urlsplit(base).scheme not in ("http", "https"):
            raise AddonError(f"{self.url!r} is no address of a service, such as http://127.0.0.1:8000")
        scope = f"/v1/collections/{quote(self.collection, safe='')}" if self.collection else "/v1"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(base + scope + address, data)  # noqa: S310 (the scheme is checked)
        request.add_header("content-type", "application/json")
        if self.key:
            request.add_unredirected_header("x-api-key", self.key)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            with error:
                raise AddonError(refusal_of(error.read(), error.code)) from error
        except (OSError, HTTPException, ValueError) as error:
            raise AddonError(f"the service at {base} does not answer: {error}") from error


def has_mesh(item: Mapping[str, Any]) -> bool:
    """Whether an item has an original mesh. A mesh has views, photos have none."""
    return bool(item["files"]) and any(one["kind"] == "view" for one in item["observations"])


def title_of(item: Mapping[str, Any]) -> str:
    """The name of an item: in its payload, else its first caption, else the end of its id."""
    captions = (one["text"] for one in item["observations"] if one["kind"] == "caption")
    names = [*(item["payload"].get(key) for key in NAMES), next(captions, None), item["id"].split("/")[-1]]
    return next(name for name in names if isinstance(name, str) and name)


def refusal_of(answer: bytes, status: int) -> str:
    """The sentence of a refusal."""
    try:
        return str(json.loads(answer)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the service answers {status}"
