"""What all bodies of requests have in common."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class RequestBody(BaseModel):
    """A body in JSON, which has no other fields than these."""

    model_config = ConfigDict(extra="forbid")


def optional(description: str, **limits: Any) -> Any:  # noqa: ANN401 (a field of any type)
    """A field that may be left out."""
    return Field(None, description=description, **limits)


MeshFormat = Annotated[
    str | None, Field(description="format of the mesh, such as glb, if nothing else tells")
]


def example(**fields: Any) -> ConfigDict:  # noqa: ANN401 (any JSON)
    """For a body: a request as somebody would send it."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


def given(*names: str, exactly_one: bool = True, like: dict[str, Any]) -> ConfigDict:
    """For a body in which one of these fields must be given; else at least one. `like` is an example."""
    ways: list[Any] = [
        {"required": [name], "properties": {name: {"not": {"enum": [None, {}]}}}} for name in names
    ]
    return ConfigDict(json_schema_extra={"oneOf" if exactly_one else "anyOf": ways, "examples": [like]})
