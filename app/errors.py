"""Errors as answers, all in one shape: {"error": {"code", "message", "request_id"}}."""

from typing import Any

from multifold.bundle.preprocess import ImageError
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException

from index.cluster.contracts import ClusterError
from index.contracts import IndexPlanError, QueryError
from index.jobs import NoSuchJobError
from index.registry import CollectionNameError, NameTakenError, NoSuchCollectionError
from index.store.blobs import BlobError
from index.store.browse import ItemOrderError
from index.store.database import StoreError
from index.store.feedback import FeedbackError
from index.store.filters import FilterError
from index.store.item_rows import ItemError
from renderers.contracts import MeshError

STATUS_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "taken",
    413: "too_large",
    415: "unsupported_media_type",
    422: "bad_request",
    429: "busy",
    500: "internal",
    503: "not_ready",
}

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
    QueryError: (422, "bad_query"),
    ItemOrderError: (422, "bad_query"),
    ItemError: (422, "bad_item"),
    ClusterError: (503, "index_away"),
    BlobError: (503, "storage"),
    StoreError: (503, "storage"),
}


class ApiError(MultifoldError):
    """A request that is answered with a status, a code for programs and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after


def status_and_code(error: Exception) -> tuple[int, str]:
    """The status of an answer, and the code for programs."""
    if isinstance(error, ApiError):
        return error.status, error.code
    return next((known for kind, known in ERRORS.items() if isinstance(error, kind)), (422, "refused"))


def error_response(request_id: str, status: int, code: str, message: str) -> JSONResponse:
    """The answer to a refused request."""
    error = {"code": code, "message": message, "request_id": request_id}
    return JSONResponse({"error": error}, status)


def describe_errors(errors: list[Any]) -> str:
    """Pydantic's errors as one sentence."""
    sentences = []
    for error in errors:
        place = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path"))
        sentences.append(f"{place}: {error['msg']}" if place else str(error["msg"]))
    return "; ".join(sentences)


def install_error_handlers(app: FastAPI) -> None:
    """Answer every kind of error in this shape."""
    app.add_exception_handler(MultifoldError, _answer_refusal)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)


async def _answer_refusal(request: Request, error: Exception) -> JSONResponse:
    status, code = status_and_code(error)
    response = error_response(request.state.request_id, status, code, str(error))
    later = error.retry_after if isinstance(error, ApiError) else RETRY_SECONDS if status == 503 else None
    if later is not None:
        response.headers["retry-after"] = str(later)
    return response


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return error_response(request.state.request_id, 422, "bad_request", describe_errors(list(error.errors())))


async def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = str(error.detail)
    if error.status_code == 404 and error.detail == "Not Found":
        message = f"there is nothing at {request.url.path}"
    elif error.status_code == 405:
        message = f"{request.method} is not possible at {request.url.path}"
    code = STATUS_CODES.get(error.status_code, "refused")
    response = error_response(request.state.request_id, error.status_code, code, message)
    response.headers.update(error.headers or {})
    return response
