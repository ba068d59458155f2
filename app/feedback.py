"""From what somebody says of a hit to what is kept of it: as much of the query as the operator allows."""

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from app.errors import ApiError
from app.questions import Clue, Given, Known, Picture, Question, Shape, Text
from app.service import Service
from app.settings import Keeps
from index.truth.blobs import Blobs
from index.truth.feedback import Asked, Judgement, Verdict
from multifold.preprocess import suffix_of
from multifold.types import Kind
from renderers.files.container import EXTENSIONS

PICTURES: tuple[Keeps, ...] = ("all",)
WORDS: tuple[Keeps, ...] = ("all", "text")


def judge(
    service: Service,
    question: Question,
    item: str,
    seen: tuple[Kind, int] | None,
    verdict: Verdict,
    by: str | None,
) -> Judgement:
    """Keep a verdict; the item must be there."""
    keeps = service.settings.feedback
    if keeps == "off":
        raise ApiError(403, "no_feedback", "this service keeps no feedback; its operator can allow it")
    _check_item(service, item, seen)
    for clue, _ in question.clues:
        _check(service, clue)
    asked = tuple(_asked(clue, weight, keeps, service.collection.blobs) for clue, weight in question.clues)
    name = identity([(_essence(clue), weight) for clue, weight in question.clues], item, by)
    judgement = Judgement(name, item, verdict, question.options.target, asked, by, seen, time.time())
    service.collection.judge(judgement)
    return judgement


def identity(query: Sequence[tuple[Any, float]], item: str, by: str | None) -> str:
    """One name for a query, an item and an author: a second verdict takes the place of the first."""
    text = json.dumps([query, item, by])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _check_item(service: Service, name: str, seen: tuple[Kind, int] | None) -> None:
    item = service.collection.get(name)
    if item is None:
        raise ApiError(404, "not_found", f"there is no item {name!r}")
    if seen is not None and seen not in [(one.kind, one.index) for one in item.observations]:
        raise ApiError(404, "not_found", f"the item {name!r} has no {seen[0]} {seen[1]}")


def _check(service: Service, clue: Clue) -> None:
    """Refuse files that nobody could have searched with."""
    if isinstance(clue, Picture):
        service.observer.look(clue.data)
    if isinstance(clue, Shape) and clue.mesh.suffix not in EXTENSIONS:
        raise ApiError(422, "bad_mesh", f"a mesh of the format {clue.mesh.suffix!r} cannot be read here")


def _asked(clue: Clue, weight: float, keeps: Keeps, blobs: Blobs) -> Asked:
    """What is kept of a clue."""
    match clue:
        case Text(text):
            return Asked("text", weight, text=text if keeps in WORDS else None)
        case Picture(data):
            return Asked(
                "image", weight, blob=blobs.put(data, suffix_of(data)) if keeps in PICTURES else None
            )
        case Shape(mesh):
            return Asked(
                "mesh", weight, blob=blobs.put(mesh.data, mesh.suffix) if keeps in PICTURES else None
            )
        case Known(name, sides):
            return Asked("id", weight, id=name, side=sides[0])
        case _:
            return Asked("vector", weight)


def _essence(clue: Clue) -> list[Any]:
    """What makes two clues the same; files and vectors by their hash."""
    match clue:
        case Text(text):
            return ["text", text]
        case Picture(data):
            return ["image", hashlib.sha256(data).hexdigest()]
        case Shape(mesh):
            return ["mesh", hashlib.sha256(mesh.data).hexdigest()]
        case Known(name, _):
            return ["id", name]
        case Given(numbers):
            return ["vector", list(numbers)]
        case _:
            raise TypeError(clue)
