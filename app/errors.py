"""Errors as answers, all in one shape: {"error": {"code", "message", "request_id"}}."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from multifold.bundle.preprocess import ImageError
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException

from index.cluster.contracts import BehindError, ClusterError
from index.collection import CollectionError
from index.contracts import IndexPlanError, PromiseError, QueryError
from index.jobs import NoSuchJobError
from index.names import CollectionNameError
from index.registry import NameTakenError, NoSuchCollectionError
from index.store.blobs import BlobError
from index.store.browse import ItemOrderError
from index.store.database import StoreError
from index.store.feedback import FeedbackError
from index.store.filters import FilterError
from index.store.item_rows import ItemError
from multifold.wire.items import BulkAnswer, Refusal
from multifold.wire.messages import BodyError
from multifold.wire.search import BatchSearchAnswer
from multifold.wire.validation import describe_errors
from renderers.contracts import MeshError

CODES = {  # of errors, for programs; the description of the API has them
    "bad_request": "the request is not as described here",
    "unauthorized": "a key is needed",
    "forbidden": "the key may not do this",
    "unknown_host": "the service is not known by this name",
    "foreign_origin": "pages of other sites may change nothing",
    "not_found": "there is no such item, picture, file, snapshot or path",
    "no_such_collection": "there is no collection or alias of this name",
    "no_such_bundle": "there is no such bundle",
    "no_such_model": "there is no such model",
    "no_such_job": "there is no such job",
    "method_not_allowed": "the method is not possible there",
    "taken": "the name, or the thing, is in use",
    "other_vectors": "the bundle makes other vectors now",
    "too_large": "the body, or a file, is too large",
    "too_many": "too much for one request; /v1/info has the limits",
    "too_many_files": "more files than one request may have",
    "unsupported_media_type": "the body is of a kind that is not understood",
    "no_query": "a search needs one thing to ask with",
    "several_queries": "a search takes one thing to ask with; a mix takes several",
    "bad_query": "the search, or the order, cannot be made",
    "bad_examples": "the examples cannot be understood, or an item is both a good and a bad one",
    "needs_evidence": "examples and diversity need the target 'item', and more than words",
    "bad_text": "the text is empty, too long, or a file",
    "bad_image": "the picture cannot be read",
    "bad_mesh": "the mesh cannot be read, or its format is not known",
    "bad_vector": "the vector has another length, or no direction",
    "bad_vectors": "the vectors of an item are no JSON object",
    "bad_filter": "the filter cannot be understood",
    "bad_id": "the id could not be asked for, or is nothing that can be seen",
    "bad_item": "the item has nothing to find it by, or too much",
    "bad_payload": "the payload is not JSON that can be stored",
    "bad_name": "a collection or alias cannot have this name",
    "bad_index": "the index cannot be built",
    "bad_feedback": "the verdict cannot be kept",
    "bad_cursor": "the cursor of a page cannot be used",
    "bad_dimensions": "vectors do not have this length here",
    "no_such_side": "the item has no such side",
    "no_calibration": "no confidence is known for this pair",
    "no_promise": "the collection has too few questions of its own from which an error could be promised",
    "no_cones": "the geometry of the encoder has no cones",
    "no_encoder": "the collection has no encoder",
    "no_feature": "a vector has no feature to walk from",
    "no_feedback": "the service keeps no feedback",
    "no_original": "the original of the item is not kept",
    "no_labels": "there is no label to choose from",
    "no_words": "there is no text whose words could be looked for",
    "url_refused": "the service fetches nothing from this address",
    "url_failed": "the file did not come from its address as it should",
    "refused": "the message says why",
    "busy": "too much is asked at once; the header Retry-After says when to try again",
    "internal": "something broke on our side",
    "not_ready": "the service is not ready",
    "timeout": "it took too long",
    "storage": "a disk, a database or a bucket fails",
    "index_away": "the server of the index does not answer",
    "index_behind": "the index does not have yet what was written; a search that is bounded would not wait",
}

STATUSES = {  # the code for programs, and what the description of the API says
    400: ("bad_request", "the body cannot be read"),
    401: ("unauthorized", "a key is needed; the message says of which scope"),
    403: ("forbidden", "the key may not do this"),
    404: ("not_found", "there is no such thing"),
    405: ("method_not_allowed", "the method is not possible there"),
    409: ("taken", "the name, or the thing, is in use"),
    413: ("too_large", "the body is too large"),
    415: ("unsupported_media_type", "the body is of a kind that is not understood"),
    422: ("bad_request", "the request cannot be answered; the message says why"),
    429: ("busy", "too much is asked at once; the header Retry-After says when to try again"),
    431: ("too_large", "the headers are too large"),
    500: ("internal", "something broke on our side"),
    503: ("not_ready", "not ready; the message says why"),
}

LATER = (429, 503)  # statuses of what may be done at another time
RETRY_SECONDS = 1  # after which a client may repeat what answered 503

ERRORS: dict[type[Exception], tuple[int, str]] = {  # the status and code of each
    CollectionNameError: (422, "bad_name"),
    NoSuchCollectionError: (404, "no_such_collection"),
    NameTakenError: (409, "taken"),
    NoSuchJobError: (404, "no_such_job"),
    IndexPlanError: (422, "bad_index"),
    ImageError: (422, "bad_image"),
    MeshError: (422, "bad_mesh"),
    FilterError: (422, "bad_filter"),
    FeedbackError: (422, "bad_feedback"),
    PromiseError: (422, "no_promise"),
    QueryError: (422, "bad_query"),
    ItemOrderError: (422, "bad_query"),
    ItemError: (422, "bad_item"),
    BehindError: (503, "index_behind"),
    ClusterError: (503, "index_away"),
    BlobError: (503, "storage"),
    CollectionError: (503, "storage"),
    StoreError: (503, "storage"),
}


class ApiError(MultifoldError):
    """A request that is answered with a status, a code for programs and a sentence for people."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        retry_after: int | None = None,
        beside: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.beside = beside or {}  # the error, in the answer


def status_and_code(error: Exception) -> tuple[int, str]:
    if isinstance(error, ApiError):
        return error.status, error.code
    if isinstance(error, BodyError):
        return 422, error.code
    return next((known for kind, known in ERRORS.items() if isinstance(error, kind)), (422, "refused"))


def refusal(error: MultifoldError) -> Refusal:
    """Why one of several things of a request could not be done."""
    return Refusal(status_and_code(error)[1], str(error))


def status_of_several(errors: Sequence[Exception], count: int, answer: BulkAnswer | BatchSearchAnswer) -> int:
    """The status of a request of several things: 207 where some were refused.

    If none was done, an error is raised, which has the answer beside it.
    """
    if len(errors) < count:
        return 207 if errors else 200
    first = errors[0]
    reasons = {status_and_code(one) for one in errors}
    if len(reasons) == 1 and status_and_code(first)[0] in LATER:  # the same request may be answered then
        raise first
    status, code = reasons.pop() if len(reasons) == 1 else (422, "refused")
    message = str(first) if len(errors) == 1 else f"all {len(errors)} were refused; the first: {first}"
    raise ApiError(status, code, message, beside=asdict(answer))


def error_response(
    error: Exception, request_id: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    status, code = status_and_code(error)
    later = error.retry_after if isinstance(error, ApiError) else RETRY_SECONDS if status == 503 else None
    if later is not None:
        headers = {"retry-after": str(later)}
    answer = {"code": code, "message": str(error), "request_id": request_id}
    beside = error.beside if isinstance(error, ApiError) else {}
    return JSONResponse({"error": answer, **beside}, status, headers)


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(MultifoldError, _answer_refusal)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)


async def _answer_refusal(request: Request, error: Exception) -> JSONResponse:
    return error_response(error, request.state.request_id)


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    refused = ApiError(422, "bad_request", describe_errors(error.errors()))
    if isinstance(error.body, bytes):  # which FastAPI did not read, as it is no JSON by its type
        refused = ApiError(415, "unsupported_media_type", "send application/json")
    return error_response(refused, request.state.request_id)


async def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = str(error.detail)
    if error.status_code == 404 and error.detail == "Not Found":
        message = f"there is nothing at {request.url.path}"
    elif error.status_code == 405:
        message = f"{request.method} is not possible at {request.url.path}"
    code = STATUSES[error.status_code][0] if error.status_code in STATUSES else "refused"
    return error_response(ApiError(error.status_code, code, message), request.state.request_id, error.headers)
