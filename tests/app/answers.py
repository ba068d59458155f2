"""What answers of a service are checked for, and files as requests have them."""

import base64
from typing import Any

import httpx

from tests.app.house import House


def refused(response: httpx.Response, status: int, code: str, reason: str = "") -> None:
    """An error in the one shape of errors."""
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"code", "message", "request_id"}
    assert error["code"] == code
    assert reason in error["message"]
    assert error["request_id"] == response.headers["x-request-id"]


def uri(data: bytes, kind: str = "application/octet-stream") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def write(shop: House, *items: dict[str, Any]) -> dict[str, Any]:
    """Write items, as one request of JSON."""
    response = shop.client.post("/v1/items", json={"items": items})
    assert response.status_code in (200, 207), response.text
    answer: dict[str, Any] = response.json()
    return answer
