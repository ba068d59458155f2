"""Between the wire and the service: reads what a request says, and writes hits, items and jobs as answers.

A request names its collection, and has searches and items in JSON or forms, which are checked against the
limits.
"""

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import Depends, Path
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from app.errors import ApiError, describe_errors, status_and_code
from app.http.schemas.items import ItemBody
from app.http.schemas.labels import RerankBody, SubjectBody
from app.http.schemas.search import QueryBody, SearchBody, SearchOptions
from app.ingest.pipeline import WrittenItem
from app.ingest.sources import ItemSource
from app.ingest.uploads import ItemFiles, UploadedFile, read_data_uri, read_mesh_file
from app.runtime.runtime import CollectionRuntime, Runtime
from app.search import query
from app.search.query import QueryPart, SearchHits, WeightedParts
from app.settings import Settings
from index.jobs import JobRecord
from index.registry import DEFAULT
from index.store import filters
from index.store.blobs import BlobKey
from index.store.filters import Filter
from multifold.errors import MultifoldError
from multifold.types import KIND_OF, Hit, Item, Observation, Side, Target
from multifold.wire.administration import JobAnswer, JobStatus
from multifold.wire.items import ItemFile, ItemWriteAnswer, ObservationInfo, Refusal, StoredItem
from multifold.wire.search import DuplicateItem, EvidenceShare, SearchAnswer, SearchHit, SearchTimings

SMALL_BODY = 64 * 1024  # bytes that are read faster than a thread is woken
QUERY_FIELDS = ("text", "image", "mesh", "id", "vector")
SUBJECT_FIELDS = ("text", "image", "mesh", "id")
FORM_QUERY_FIELDS = QUERY_FIELDS[:3]
FORM_OBJECTS = ("filter", "examples")  # in JSON
FORM_EXTRA_FIELDS = (*FORM_OBJECTS, "mesh_format")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
PREFERRED_SIDES: tuple[Side, ...] = ("shape", "image", "text")  # of an item that is asked with
PICTURE_FOLDERS = {"view": "views", "photo": "photos"}
TAG_LENGTH = 12
B = TypeVar("B", bound=BaseModel)


async def collection_runtime(request: Request) -> CollectionRuntime:
    """The runtime of the collection that a request names in its path, else of the default one."""
    return await service_runtime(request).collection(request.path_params.get("collection", DEFAULT))


def collection_name(collection: Annotated[str, Path(description="its name or an alias")]) -> str:
    """The path parameter of every route of a named collection."""
    return collection


def service_runtime(request: Request) -> Runtime:
    """The runtime of the service that a request came to."""
    runtime: Runtime = request.app.state.runtime
    return runtime


CollectionDep = Annotated[CollectionRuntime, Depends(collection_runtime)]
ServiceDep = Annotated[Runtime, Depends(service_runtime)]


def validate(model: type[B], values: Any) -> B:  # noqa: ANN401 (any JSON)
    """JSON text or its values as a model, or a 422."""
    try:
        read = model.model_validate_json if isinstance(values, bytes) else model.model_validate
        return read(values)
    except ValidationError as error:
        raise ApiError(422, "bad_request", describe_errors(list(error.errors()))) from None


async def read_body(request: Request, model: type[B], run: Callable[[Callable[[], B]], Awaitable[B]]) -> B:
    """The JSON body of a request as a model, or a refusal; `run` reads a large one in a thread."""
    if media_type(request.headers) != "application/json":
        raise ApiError(415, "unsupported_media_type", "send application/json")
    body = await request.body()
    return validate(model, body) if len(body) <= SMALL_BODY else await run(partial(validate, model, body))


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_parts(body: SearchBody | RerankBody, max_text: int) -> WeightedParts:
    target: Target = body.target if isinstance(body, SearchBody) else "item"
    if body.mix is None:
        return ((parse_query_part(body, target, max_text), 1.0),)
    if alone := _given_fields(body):
        raise _query_error(["mix", *alone])
    return tuple((parse_query_part(part, target, max_text), part.weight) for part in body.mix)


def parse_subject(body: SubjectBody, max_text: int) -> QueryPart:
    """What is ranked or classified: an item, or a text, an image or a mesh that is no item."""
    given = [name for name in SUBJECT_FIELDS if getattr(body, name) is not None]
    if len(given) != 1:
        code = "several_queries" if given else "no_query"
        sentence = f"name exactly one of {', '.join(SUBJECT_FIELDS)}, not {' and '.join(given) or 'nothing'}"
        raise ApiError(422, code, sentence)
    if body.id is not None:
        return query.ItemQueryPart(body.id, PREFERRED_SIDES)
    return parse_content(given[0], getattr(body, given[0]), body.mesh_format, max_text)


async def parse_search_form(form: FormData, max_text: int) -> tuple[WeightedParts, SearchOptions]:
    """The parts and options of a search in multipart/form-data."""
    others = (*FORM_QUERY_FIELDS, *FORM_EXTRA_FIELDS)
    fields = {name: value for name, value in form.items() if name not in others}
    raw = {name: read_plain_field(form.get(name)) for name in FORM_OBJECTS}
    objects = {name: _json_object(text, name) for name, text in raw.items() if text}
    options = validate(SearchOptions, {**fields, **objects})
    given = [(name, value) for name, value in form.multi_items() if name in FORM_QUERY_FIELDS]
    if len(given) != 1:
        raise _query_error([name for name, _ in given])
    ((name, value),) = given
    mesh_format = read_plain_field(form.get("mesh_format"))
    return ((parse_content(name, await read_field(value), mesh_format, max_text), 1.0),), options


def parse_filter(raw: Mapping[str, Any] | None) -> Filter | None:
    """A filter as the index takes it; an empty one lets everything through."""
    return filters.parse_filter(raw) if raw else None


def check_text(value: str | UploadedFile, most: int) -> str:
    """Words, neither none nor too many."""
    if isinstance(value, UploadedFile):
        raise ApiError(422, "bad_text", "a text must be a plain field, not a file")
    if not value.strip():
        raise ApiError(422, "bad_text", "the text is empty; say what to look for")
    if len(value) > most:
        raise ApiError(422, "bad_text", f"the text has {len(value):,} characters; {most:,} are the most")
    return value


def read_file(value: str | UploadedFile, what: str) -> UploadedFile:
    return value if isinstance(value, UploadedFile) else read_data_uri(value, what)


async def read_field(value: UploadFile | str) -> str | UploadedFile:
    if isinstance(value, str):
        return value
    return UploadedFile(await value.read(), value.filename or "", value.content_type or "")


def read_plain_field(value: UploadFile | str | None) -> str | None:
    if isinstance(value, UploadFile):
        raise ApiError(422, "bad_request", f"{value.filename!r} is a file where a plain field is wanted")
    return value


def parse_payload(raw: str | Mapping[str, Any] | None) -> dict[str, Any]:
    payload = _json_object(raw or "{}", "payload") if not isinstance(raw, Mapping) else dict(raw)
    try:
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ApiError(422, "bad_payload", "'payload' is not JSON that can be stored") from None
    return payload


def _json_object(raw: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise ApiError(422, f"bad_{what}", f"'{what}' is not JSON that can be read") from None
    if not isinstance(found, dict):
        raise ApiError(422, f"bad_{what}", f"'{what}' must be a JSON object")
    return found


def _given_fields(asked: QueryBody) -> list[str]:
    return [name for name in QUERY_FIELDS if getattr(asked, name) is not None]


def parse_query_part(asked: QueryBody, target: Target, max_text: int) -> QueryPart:
    given = _given_fields(asked)
    if len(given) != 1:
        raise _query_error(given)
    if asked.vector is not None:
        return query.VectorQueryPart(tuple(asked.vector))
    if asked.id is not None:
        return query.ItemQueryPart(asked.id, choose_sides(asked.side, target))
    return parse_content(given[0], getattr(asked, given[0]), asked.mesh_format, max_text)


def choose_sides(side: Side | None, target: Target) -> tuple[Side, ...]:
    """Which side of an item is asked with: this one, else the target's, else the first that it has."""
    return tuple(sorted(PREFERRED_SIDES, key=lambda one: one != target)) if side is None else (side,)


def parse_content(name: str, value: str | UploadedFile, mesh_format: str | None, max_text: int) -> QueryPart:
    if name == "text":
        return query.TextQueryPart(check_text(value, max_text))
    if name == "image":
        return query.ImageQueryPart(read_file(value, name).data)
    return query.MeshQueryPart(read_mesh_file(read_file(value, name), mesh_format))


def _query_error(given: Sequence[str]) -> ApiError:
    """For a search with none, or several, of the things that can be asked with."""
    if given:
        sentence = f"ask with exactly one of text, image, mesh, id, vector and mix, not {' and '.join(given)}"
        return ApiError(422, "several_queries", sentence)
    sentence = "ask with exactly one of 'text', 'image', 'mesh', 'id', 'vector' and 'mix'; there is none"
    return ApiError(422, "no_query", sentence)


ITEM_FIELDS = ("texts", "images", "mesh", "mesh_format", "payload")


@dataclass(frozen=True)
class ItemForm:
    """What a form says of an item; the same fields as in JSON."""

    id: str
    texts: list[str | UploadedFile]
    images: list[str | UploadedFile]
    mesh: str | UploadedFile | None
    mesh_format: str | None
    payload: str | None


async def parse_item_form(item_id: str, form: FormData, files: ItemFiles, settings: Settings) -> ItemSource:
    unknown = sorted(set(form) - set(ITEM_FIELDS))
    if unknown:
        sentence = f"unknown field {unknown[0]!r}; fields are {', '.join(ITEM_FIELDS)}"
        raise ApiError(422, "bad_request", sentence)
    texts, images, meshes = [
        [await read_field(value) for value in form.getlist(name)] for name in ("texts", "images", "mesh")
    ]
    if len(meshes) > 1:
        raise ApiError(422, "bad_mesh", f"an item has one mesh at most, not {len(meshes)}")
    mesh_format, payload = (read_plain_field(form.get(name)) for name in ("mesh_format", "payload"))
    item = ItemForm(item_id, texts, images, meshes[0] if meshes else None, mesh_format, payload)
    return await _load_item(item, files, settings)


async def parse_item(raw: Mapping[str, Any], files: ItemFiles, settings: Settings) -> ItemSource:
    return await _load_item(validate(ItemBody, raw), files, settings)


def check_item_id(item_id: str) -> None:
    """Refuse an id that could be written, but never asked for, or that nobody sees."""
    if item_id in (".", ".."):
        raise ApiError(422, "bad_id", f"an address cannot hold the id {item_id!r}; choose another")
    if not item_id.strip() or CONTROL.search(item_id):
        sentence = "an id has a character that can be seen, and no control characters such as a line break"
        raise ApiError(422, "bad_id", f"{sentence}; not {item_id[:40]!r}")


async def _load_item(item: ItemBody | ItemForm, files: ItemFiles, settings: Settings) -> ItemSource:
    payload = parse_payload(item.payload)
    check_item_id(item.id)
    if len(item.images) + (item.mesh is not None) > settings.max_files:
        sentence = f"an item has {settings.max_files} files at most in one request"
        raise ApiError(422, "too_many_files", sentence)
    captions = tuple(check_text(text, settings.max_text) for text in item.texts)
    shape = None
    if item.mesh is not None:
        shape = read_mesh_file(await _load_file(item.mesh, "mesh", files), item.mesh_format)
    photos = tuple([(await _load_file(image, "image", files)).data for image in item.images])
    return ItemSource(item.id, captions, photos, shape, payload)


async def _load_file(value: str | UploadedFile, what: str, files: ItemFiles) -> UploadedFile:
    return value if isinstance(value, UploadedFile) else await files.load(value, what)


def serialize_answer(found: SearchHits, runtime: CollectionRuntime) -> SearchAnswer:
    encode, search = 1000 * found.encode_seconds, 1000 * found.search_seconds
    return SearchAnswer(
        hits=tuple(serialize_hit(hit, runtime.address) for hit in found.hits),
        took_ms=SearchTimings(round(encode, 2), round(search, 2), round(encode + search, 2)),
        version=found.version,
        bundle=runtime.service.encoder.bundle.name,
        calibrated_by=found.basis,
        matches_well=found.matches_well,
        warnings=found.warnings,
        next=found.next,
    )


def serialize_hit(hit: Hit, address: str) -> SearchHit:
    """One hit; `address` is that of the collection."""
    return SearchHit(
        id=hit.id,
        score=hit.score,
        confidence=hit.confidence,
        chance=hit.chance,
        modality=hit.side,
        matched=serialize_observation(hit.id, hit.matched, address),
        payload=dict(hit.payload),
        sides=None if hit.sides is None else dict(hit.sides),
        words=tuple(hit.words),
        evidence=tuple(
            EvidenceShare(
                one.leg,
                one.value,
                None if one.matched is None else serialize_observation(hit.id, one.matched, address),
                one.field,
            )
            for one in hit.evidence
        ),
        duplicates=tuple(DuplicateItem(one.id, dict(one.payload)) for one in hit.same),
    )


def serialize_item(item: Item, address: str) -> StoredItem:
    files = f"{address}/items/{quote(item.id, safe='')}/files"
    return StoredItem(
        id=item.id,
        payload=dict(item.payload),
        observations=tuple(serialize_observation(item.id, one, address) for one in item.observations),
        files=tuple(
            ItemFile(index, f"{files}/{index}?v={key[:TAG_LENGTH]}", BlobKey(key).suffix.lstrip("."))
            for index, key in enumerate(item.files)
        ),
        notes=item.notes,
    )


def serialize_written(written: WrittenItem) -> ItemWriteAnswer:
    kinds = [observation.kind for observation in written.item.observations]
    counts = dict.fromkeys(KIND_OF.values(), 0) | Counter(kinds)
    return ItemWriteAnswer(written.item.id, written.version, counts, tuple(written.warnings))


def serialize_observation(owner: str, observation: Observation, address: str) -> ObservationInfo:
    """An observation with the address of its picture, which changes when the picture does."""
    kind, index, blob = observation.kind, observation.index, observation.blob
    picture = f"{address}/items/{quote(owner, safe='')}/{PICTURE_FOLDERS.get(kind)}/{index}"
    url = f"{picture}?v={blob[:TAG_LENGTH]}" if blob is not None else None
    return ObservationInfo(kind, index, url, observation.text)


def serialize_refusal(error: MultifoldError) -> Refusal:
    return Refusal(status_and_code(error)[1], str(error))


def serialize_job(job: JobRecord) -> JobStatus:
    progress = job.progress
    return JobStatus(
        id=job.id,
        kind=job.kind,
        collection=job.collection,
        state=job.state,
        done=progress.done,
        total=progress.total,
        errors=tuple(progress.errors),
        result=progress.result,
        created=datetime.fromtimestamp(job.created, UTC),
        ended=None if job.ended is None else datetime.fromtimestamp(job.ended, UTC),
    )


def job_answer(job: JobRecord) -> JobAnswer:
    return JobAnswer(serialize_job(job))
