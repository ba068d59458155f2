"""Checks values of JSON or of a form against a body, as a service does it."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from multifold.errors import needs_extra
from multifold.wire.messages import Body, BodyError

with needs_extra("serve"):
    from pydantic import TypeAdapter, ValidationError

B = TypeVar("B", bound=Body)
WHERE = ("body", "query", "path")  # the first part of the place of an error
FIELD = re.compile(r"[a-z_]\w*")  # a part of a place that is no type of a union
TYPES = ("str", "int", "float", "bool")
WANTED = {  # what a value is, by the kind of pydantic's error; numbers are from the error's context
    **dict.fromkeys(("string_type", "string_sub_type"), "a text"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "a finite number"),
    **dict.fromkeys(("list_type", "is_instance_of", "sequence_str", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "dataclass_type", "model_attributes_type"), "an object"),
    "literal_error": "{expected}",
    "string_pattern_mismatch": "a text with the pattern {pattern}",
    "greater_than_equal": "{ge:,} or more",
    "greater_than": "more than {gt:,}",
    "less_than_equal": "{le:,} at most",
    "less_than": "less than {lt:,}",
}
LENGTHS = {
    "too_short": "{min_length:,} or more entries",
    "too_long": "{max_length:,} entries at most",
    "string_too_short": "{min_length:,} or more characters",
    "string_too_long": "{max_length:,} characters at most",
}
SHOWN_CHARACTERS = 40  # characters of a value
MOST_ERRORS = 8  # of one body that are told
adapter_of = cache(TypeAdapter)


def validate(kind: type[B], values: object) -> B:
    """Values as a body; what does not fit is a BodyError."""
    try:
        body: B = adapter_of(cast(Any, kind)).validate_python(values)
        return body
    except ValidationError as error:
        raise BodyError("bad_request", describe_errors(error.errors())) from None


def describe_errors(errors: Sequence[Any]) -> str:
    """Pydantic's errors as one sentence; of many, the first ones."""
    told = list(dict.fromkeys(map(_describe, errors)))
    more = [f"and {len(told) - MOST_ERRORS} more"] if len(told) > MOST_ERRORS else []
    return "; ".join([*told[:MOST_ERRORS], *more])


def _describe(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return f"the body is no JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    parts = [str(part) for part in error["loc"] if part not in WHERE]
    place = ".".join(one for one in parts if one.isdecimal() or (FIELD.fullmatch(one) and one not in TYPES))
    subject = repr(place) if place else "the body"
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "missing" or kind.startswith("missing_"):
        return f"{subject} is missing"
    if kind == "unexpected_keyword_argument":
        return f"{subject} is an unknown field"
    if kind == "value_error":
        return f"{place}: {context['error']}" if place else str(context["error"])
    if kind in WANTED:
        return f"{subject} is {WANTED[kind].format(**context)}, not {_shown(error['input'])}"
    if kind in LENGTHS:
        return f"{subject} has {LENGTHS[kind].format(**context)}"
    return f"{subject}: {error['msg']}"


def _shown(value: object) -> str:
    """A value of JSON, as a sentence names it."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
