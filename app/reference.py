"""Prints a reference of all routes and fields, in Markdown: python -m app.reference > api-reference.md."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.openapi import openapi_document

INTRODUCTION = """# Reference of the API

Version {version}, made from the OpenAPI description. `collection` is the name of a collection or an alias.
Its routes have a short form for the default one: `/v1/search` is `/v1/collections/default/search`."""
COLUMNS = "| field | type | by default | meaning |\n|---|---|---|---|"
LIMITS = {
    "minimum": "from {:g}",
    "exclusiveMinimum": "above {:g}",
    "maximum": "to {:g}",
    "minLength": "at least {} letters",
    "maxLength": "at most {} letters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
}


def write_reference(document: Mapping[str, Any]) -> str:
    """All operations, by their tags, then all bodies and answers by name."""
    parts = [INTRODUCTION.format(version=document["info"]["version"])]
    for tag in document["tags"]:
        parts.append(f"## Routes: {tag['name']}\n\n{tag['description']}")
        for path, methods in document["paths"].items():
            parts += [
                _write_operation(method, path, operation)
                for method, operation in methods.items()
                if operation["tags"] == [tag["name"]]
            ]
    parts.append("## Bodies and answers")
    parts += [_write_schema(name, one) for name, one in sorted(document["components"]["schemas"].items())]
    return "\n\n".join(parts) + "\n"


def _write_operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    lines = [f"### {method.upper()} {path}", "", operation["description"], ""]
    lines += [f"- Name: `{operation['operationId']}`", f"- Key: {operation.get('x-scope', 'none')}"]
    lines += [f"- Body: {kind}" for kind in _contents(operation.get("requestBody", {}))]
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            lines += [f"- Answer {status}: {kind}" for kind in _contents(response)]
    refusals = [status for status in operation["responses"] if not status.startswith("2")]
    lines += [f"- Errors: {', '.join(refusals)}"] if refusals else []
    fields = [
        _write_field(
            one["name"], one["schema"] | {"description": one.get("description", "")}, one["required"]
        )
        for one in operation.get("parameters", [])
        if one["name"] != "collection"
    ]
    return "\n".join([*lines, "", COLUMNS, *fields] if fields else lines)


def _contents(described: Mapping[str, Any]) -> Iterator[str]:
    """The types of a body or an answer, or of each event."""
    for media_type, content in described.get("content", {}).items():
        kind = content.get("schema") or content["itemSchema"]["properties"]["data"]["contentSchema"]
        yield f"{_type(kind)} as `{media_type}`"


def _write_schema(name: str, schema: Mapping[str, Any]) -> str:
    lines = [f"### {name}", "", schema.get("description", ""), "", COLUMNS]
    required = schema.get("required", ())
    lines += [_write_field(key, one, key in required) for key, one in schema.get("properties", {}).items()]
    return "\n".join(lines)


def _write_field(name: str, schema: Mapping[str, Any], required: bool) -> str:
    usual = "required" if required else f"`{json.dumps(schema['default'])}`" if "default" in schema else ""
    cells = (f"`{name}`", _type(schema), usual, schema.get("description", ""))
    return f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema.get("enum", [schema.get("const")]))
    kind = schema.get("format") or schema.get("type", "any value")
    if "items" in schema:
        kind = f"list of {_type(schema['items'])}"
    elif isinstance(schema.get("additionalProperties"), Mapping):
        kind = f"object of {_type(schema['additionalProperties'])}"
    limits = [text.format(schema[key]) for key, text in LIMITS.items() if key in schema]
    return f"{kind} ({', '.join(limits)})" if limits else kind


if __name__ == "__main__":
    print(write_reference(json.loads(openapi_document())), end="")
