"""One shape for every error: {"error": {"code", "message", "request_id"}}."""

from typing import Any

from multifold.errors import MultifoldError, needs_extra
from multifold.preprocess import ImageError

with needs_extra("serve"):
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException

from index.check import ItemError, QueryError
from index.engines.cluster import ClusterError
from index.names import CollectionNameError, NameTakenError, NoSuchCollectionError
from index.plan import PlanError
from index.truth.blobs import BlobError
from index.truth.database import StoreError
from index.truth.feedback import FeedbackError
from index.truth.filters import FilterError
from index.truth.joblist import NoSuchJobError
from index.truth.ordering import OrderError
from renderers.errors import MeshError

CODES = {
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

AWAY = 1  # seconds after which to ask again what is away

STORAGE = (BlobError, StoreError)  # nobody's request is at fault

REFUSALS: dict[type[Exception], str] = {
    CollectionNameError: "bad_name",
    NoSuchCollectionError: "no_such_collection",
    NameTakenError: "taken",
    NoSuchJobError: "no_such_job",
    PlanError: "bad_index",
    ImageError: "bad_image",
    MeshError: "bad_mesh",
    FilterError: "bad_filter",
    FeedbackError: "bad_feedback",
    QueryError: "bad_query",
    OrderError: "bad_query",
    ItemError: "bad_item",
    ClusterError: "index_away",
    **dict.fromkeys(STORAGE, "storage"),
}
STATUSES: dict[type[Exception], int] = {
    NoSuchCollectionError: 404,
    NoSuchJobError: 404,
    NameTakenError: 409,
    ClusterError: 503,
    **dict.fromkeys(STORAGE, 503),
}


class ApiError(MultifoldError):
    """A request that is answered with a status, a code for programs and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after


def code_of(error: Exception) -> str:
    """The code for programs."""
    if isinstance(error, ApiError):
        return error.code
    return next((code for kind, code in REFUSALS.items() if isinstance(error, kind)), "refused")


def answer(request_id: str, status: int, code: str, message: str) -> JSONResponse:
    """The one shape."""
    error = {"code": code, "message": message, "request_id": request_id}
    return JSONResponse({"error": error}, status)


def in_words(errors: list[Any]) -> str:
    """Pydantic's findings as one sentence."""
    found = []
    for error in errors:
        place = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path"))
        found.append(f"{place}: {error['msg']}" if place else str(error["msg"]))
    return "; ".join(found)


def install(app: FastAPI) -> None:
    """Answer every kind of error in the one shape."""
    app.add_exception_handler(MultifoldError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    status = error.status if isinstance(error, ApiError) else _status(error)
    response = answer(request.state.request_id, status, code_of(error), str(error))
    later = error.retry_after if isinstance(error, ApiError) else AWAY if status == 503 else None
    if later is not None:
        response.headers["retry-after"] = str(later)
    return response


def _status(error: Exception) -> int:
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 422)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return answer(request.state.request_id, 422, "bad_request", in_words(list(error.errors())))


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, "refused")
    response = answer(request.state.request_id, error.status_code, code, _sentence(request, error))
    response.headers.update(error.headers or {})
    return response


def _sentence(request: Request, error: HTTPException) -> str:
    if error.status_code == 404 and error.detail == "Not Found":
        return f"there is nothing at {request.url.path}"
    if error.status_code == 405:
        return f"{request.method} is not possible at {request.url.path}"
    return str(error.detail)
