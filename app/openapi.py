"""Prints the OpenAPI description of the service: python -m app.openapi > openapi.json."""

import json

from app.main import create_app
from app.settings import Settings


def openapi_document() -> str:
    return json.dumps(create_app(Settings()).openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(openapi_document(), end="")
