"""The error responses of routes, for OpenAPI."""

from typing import Any

from app.http.schemas.errors import ErrorAnswer

STATUS_DESCRIPTIONS = {
    400: "the body cannot be read",
    401: "a key is needed; the message says of which scope",
    403: "the key may not do this",
    404: "there is no such thing",
    409: "the name, or the thing, is in use",
    413: "the body is too large",
    415: "the body is of a kind that is not understood",
    422: "the request cannot be answered; the message says why",
    429: "too much is asked at once; the header Retry-After says when to try again",
    503: "not ready; the message says why",
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Responses of a route, all in the one shape of errors."""
    return {status: {"model": ErrorAnswer, "description": STATUS_DESCRIPTIONS[status]} for status in statuses}
