"""A typed client for TypeScript, in one file without dependencies: python -m app.typescript > multifold.ts

Its types are those of the OpenAPI description; its code is `RUNTIME` below.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from app.openapi import openapi_document

Json: TypeAlias = Mapping[str, Any]
BY_NAME = "/v1/collections/{collection}"
PLAIN_TYPES = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
RUNTIME = """\
export interface Options {
  key?: string; // of the service, where it has keys
  collection?: string; // the default one without
  fetch?: typeof fetch;
}

export class ServiceError extends Error {
  constructor(message: string, readonly code: string, readonly status: number, readonly requestId?: string) {
    super(message);
  }
}

type Asked<R extends Route> = Omit<Routes[R], "answer">;
type Arguments<R extends Route> = {} extends Asked<R> ? [asked?: Asked<R>] : [asked: Asked<R>];

/** Asks one service about one collection. */
export class Multifold {
  constructor(readonly url: string = "http://127.0.0.1:8000", readonly options: Options = {}) {}

  async call<R extends Route>(route: R, ...[asked]: Arguments<R>): Promise<Routes[R]["answer"]> {
    const { path = {}, query = {}, body } = (asked ?? {}) as { path?: {}; query?: {}; body?: unknown };
    const { key, collection } = this.options;
    const [method, pattern] = route.split(" ") as [string, string];
    const named = collection !== undefined && ofCollections.has(route);
    const home = named ? `/v1/collections/${encodeURIComponent(collection)}/` : "/v1/";
    const given = path as Record<string, unknown>;
    const fill = (_: string, name: string) => encodeURIComponent(String(given[name]));
    const filled = pattern.replace(/\\{(\\w+)\\}/g, fill).replace("/v1/", home);
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value != null) search.set(name, String(value));
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const form = body instanceof FormData;
    if (body !== undefined && !form) headers["content-type"] = "application/json";
    const content = body === undefined ? undefined : form ? body : JSON.stringify(body);
    const asks = search.toString();
    const address = this.url.replace(/\\/$/, "") + filled + (asks && `?${asks}`);
    const answer = await (this.options.fetch ?? fetch)(address, { method, headers, body: content });
    if (!answer.ok) throw await errorOf(answer);
    const kind = answer.headers.get("content-type") ?? "";
    if (kind.startsWith("application/json")) return (await answer.json()) as Routes[R]["answer"];
    return (kind.startsWith("text/") ? await answer.text() : await answer.blob()) as Routes[R]["answer"];
  }
}

async function errorOf(answer: Response): Promise<ServiceError> {
  const said = await answer.json().catch(() => ({}));
  const error = said?.error ?? {};
  const { message = `the service answered ${answer.status}`, code = `http_${answer.status}` } = error;
  return new ServiceError(message, code, answer.status, error.request_id);
}
"""


def typescript_client(document: Json) -> str:
    """The client of the service that a description is of."""
    schemas = document["components"]["schemas"]
    types = [f"export {declared(name, schema)}" for name, schema in sorted(schemas.items())]
    routes = dict(route_types(document["paths"]))
    ours = [f'  "{route}",' for route in routes if route_by_name(route) in all_routes(document["paths"])]
    return "\n".join(
        [
            f"// The client of Multifold {document['info']['version']}. Generated: python -m app.typescript",
            "",
            *types,
            "",
            "export interface Routes {",
            *(f'  "{route}": {kind};' for route, kind in routes.items()),
            "}",
            "export type Route = keyof Routes & string;",
            "",
            "const ofCollections: ReadonlySet<string> = new Set([",
            *ours,
            "]);",
            "",
            RUNTIME,
        ]
    )


def all_routes(paths: Json) -> set[str]:
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def route_by_name(route: str) -> str:
    """The form of a route that names its collection."""
    return route.replace("/v1", BY_NAME, 1)


def route_types(paths: Json) -> Iterator[tuple[str, str]]:
    """Each route in its short form, with the type of what it takes and answers."""
    for path, methods in paths.items():
        for method, operation in methods.items():
            if not path.startswith(BY_NAME):
                yield f"{method.upper()} {path}", route_type(operation)


def route_type(operation: Json) -> str:
    fields = []
    for place in ("path", "query"):
        given = [one for one in operation.get("parameters", []) if one["in"] == place]
        needed = any(one.get("required") for one in given)
        inner = [f"{field(one['name'], one.get('required', False))}: {typed(one['schema'])}" for one in given]
        if given:
            fields.append(f"{field(place, needed)}: {{ {'; '.join(inner)} }}")
    if content := operation.get("requestBody", {}).get("content"):
        kinds = ["FormData" if "form" in kind else typed(one["schema"]) for kind, one in content.items()]
        fields.append(f"body: {' | '.join(kinds)}")
    answers = [one for status, one in operation["responses"].items() if status.startswith("2")]
    return f"{{ {'; '.join([*fields, f'answer: {answer_type(answers[0])}'])} }}"


def answer_type(response: Json) -> str:
    ((kind, content),) = response["content"].items()
    if kind == "application/json":
        return typed(content["schema"])
    return "string" if kind.startswith("text/") else "Blob"


def declared(name: str, schema: Json) -> str:
    """An interface, or another name of a type; what a field is for stands before it."""
    if "properties" not in schema:
        return f"type {name} = {typed(schema)};"
    required = schema.get("required", [])
    lines = []
    for key, one in schema["properties"].items():
        if "description" in one:
            lines.append(f"  /** {one['description'].replace('*/', '* /')} */")
        lines.append(f"  {field(key, key in required)}: {typed(one)};")
    return "\n".join([f"interface {name} {{", *lines, "}"])


def field(name: str, required: bool) -> str:
    quoted = name if name.isidentifier() else json.dumps(name)
    return quoted if required else f"{quoted}?"


def typed(schema: Json) -> str:
    """The type of TypeScript for a schema; what cannot be said is `unknown`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for several in ("anyOf", "oneOf"):
        if several in schema and "properties" not in schema:
            return " | ".join(dict.fromkeys(typed(one) for one in schema[several]))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"Array<{typed(schema.get('items', {}))}>"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        return f"Record<string, {typed(values) if isinstance(values, dict) else 'unknown'}>"
    return PLAIN_TYPES.get(schema.get("type", ""), "unknown")


if __name__ == "__main__":
    print(typescript_client(json.loads(openapi_document())), end="")
