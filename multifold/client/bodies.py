"""Bodies as they are sent: in JSON, or as a form where there are files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from typing import Any, TypeAlias

from multifold.types import Examples
from multifold.wire.files import UNKNOWN_TYPE, file_text, open_file, suffix_format
from multifold.wire.messages import Body

FILE_FIELDS = ("image", "images", "mesh")
NUMBER_FIELDS = ("vector", "widths")
# field, (file name, content, type)
FormPart: TypeAlias = tuple[str, tuple[str | None, str | bytes, str | None]]


def to_json(body: Body) -> dict[str, Any]:
    """The fields of a body that are not as they are by default; files are data URIs, or addresses."""
    written = {name: _json_value(name, value) for name, value in changed_fields(body).items()}
    if known := suffix_format(getattr(body, "mesh", None)):  # a data URI has no name
        written.setdefault("mesh_format", known)
    return written


def to_form(body: Body, without: Sequence[str] = ()) -> list[FormPart]:
    """The same as the parts of a form; each value of a list is a part of its own."""
    return [
        _form_part(name, one)
        for name, value in changed_fields(body).items()
        if name not in without
        for one in (value if isinstance(value, (list, tuple)) else [value])
    ]


def changed_fields(body: Body) -> dict[str, Any]:
    """The fields that have another value than by default; the service decides about the others."""
    changed = {}
    for one in fields(body):  # type: ignore[arg-type]
        usual = one.default if one.default_factory is MISSING else one.default_factory()
        value = getattr(body, one.name)
        if value is not None and (usual is MISSING or value != usual):
            changed[one.name] = value
    return changed


def _json_value(name: str, value: Any) -> Any:  # noqa: ANN401 (a field of any type)
    if isinstance(value, Body):
        return to_json(value)
    if isinstance(value, Examples):
        return asdict(value)
    if name == "vectors":
        return {side: [_json_value("vector", one) for one in some] for side, some in value.items()}
    if name in NUMBER_FIELDS:
        return [float(number) for number in value]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_json_value(name, one) for one in value]
    return file_text(value) if name in FILE_FIELDS else value


def _form_part(name: str, value: Any) -> FormPart:  # noqa: ANN401
    content = open_file(value) if name in FILE_FIELDS else _json_value(name, value)
    if name in FILE_FIELDS and not isinstance(content, str):
        return name, (content.name or name, content.data, content.media_type or UNKNOWN_TYPE)
    return name, (None, json.dumps(content) if isinstance(content, (Mapping, bool)) else str(content), None)
