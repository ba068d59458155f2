"""Routers of one collection, whose routes have two addresses each, and of the whole service."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends
from starlette.routing import Match
from starlette.types import Scope

from app.http.dependencies import collection_name
from app.http.json_bodies import JsonRoute
from app.http.openapi import COLLECTION_PATH, error_responses, operation_name
from index.names import DEFAULT

NAME_PATTERN = "/collections/(?P<collection>[^/]+)"


class CollectionRoute(JsonRoute):
    """A route of a collection with its short form, which leaves out the name of the default collection.

    FastAPI needs milliseconds for each route, so both addresses are one.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401 (FastAPI's)
        super().__init__(path, endpoint, **options)
        self.short_path = path.replace(COLLECTION_PATH, "/v1", 1)
        self.path_regex = re.compile(self.path_regex.pattern.replace(NAME_PATTERN, f"(?:{NAME_PATTERN})?", 1))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        if match != Match.NONE and found["path_params"]["collection"] is None:
            found["path_params"]["collection"] = DEFAULT
            found["short_path"] = self.short_path
        return match, found


service_router = partial(APIRouter, generate_unique_id_function=operation_name, route_class=JsonRoute)


def collection_router(
    prefix: str = "", tags: list[str] | None = None, route_class: type[CollectionRoute] = CollectionRoute
) -> APIRouter:
    return APIRouter(
        generate_unique_id_function=operation_name,
        prefix=COLLECTION_PATH + prefix,
        tags=[*(tags or ())],
        route_class=route_class,
        dependencies=[Depends(collection_name)],  # first, so it is the first parameter in the description
        responses=error_responses(404, 422),
    )
