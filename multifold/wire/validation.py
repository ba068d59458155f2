"""Checks values of JSON or of a form against a body, as a service does it."""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar, cast

from multifold.errors import needs_extra
from multifold.wire.messages import Body, BodyError

with needs_extra("serve"):
    from pydantic import TypeAdapter, ValidationError

B = TypeVar("B", bound=Body)
SENTENCES = {  # instead of those of pydantic that speak of Python
    "dataclass_type": "Input should be an object",
    "is_instance_of": "Input should be a valid list",
    "sequence_str": "Input should be a valid list",
    "unexpected_keyword_argument": "Extra inputs are not permitted",
}
adapter_of = cache(TypeAdapter)


def validate(kind: type[B], values: object) -> B:
    """Values as a body; what does not fit is a BodyError."""
    try:
        body: B = adapter_of(cast(Any, kind)).validate_python(values)
        return body
    except ValidationError as error:
        raise BodyError("bad_request", describe_errors(error.errors())) from None


def describe_errors(errors: Sequence[Any]) -> str:
    """Pydantic's errors as one sentence."""
    sentences = []
    for error in errors:
        place = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path"))
        sentence = SENTENCES.get(error["type"], str(error["msg"]))
        sentences.append(f"{place}: {sentence}" if place else sentence)
    return "; ".join(sentences)
