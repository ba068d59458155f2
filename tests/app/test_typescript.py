"""The client for TypeScript: its types hold, and it searches a running service from Node."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from app.openapi import openapi_document
from app.typescript import typed, typescript_client
from tests.app.house import house
from tests.waiting import PATIENCE

STRICT = ("--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "commonjs")
COMPILER = ("tsc", *STRICT, "--lib", "es2022,dom,dom.iterable")
KEY = "read-key-of-a-browser"
needs_node = pytest.mark.skipif(
    not (shutil.which("tsc") and shutil.which("node")),
    reason="needs node and tsc (apt-get install nodejs node-typescript)",
)
PROGRAM = """
import { Multifold, ServiceError } from "./multifold";
declare const process: { argv: string[] };
async function main(): Promise<void> {
  const [url, key] = process.argv.slice(2) as [string, string];
  const service = new Multifold(`${url}/`, { key });
  const found = await service.call("POST /v1/search", { body: { text: "a red box", limit: 1 } });
  const id: string = found.hits[0]!.id;
  const item = await service.call("GET /v1/items/{item_id}", { path: { item_id: id } });
  const picture = await service.call("GET /v1/items/{item_id}/thumbnail", { path: { item_id: id } });
  const form = new FormData();
  form.set("image", picture, "query.webp");
  const seen = await service.call("POST /v1/search", { body: form });
  const named = new Multifold(url, { key, collection: "main" });
  const count = await named.call("POST /v1/items/count", { body: {} });
  const verdicts = await service.call("GET /v1/feedback", { query: { limit: 1 } }).catch((error) => error);
  const refused = verdicts instanceof ServiceError ? [verdicts.status, verdicts.code] : [];
  const ready = (await new Multifold(url).call("GET /readyz")).status;
  const [near, observations] = [seen.hits[0]!.id, item.observations.length];
  console.log(JSON.stringify({ id, observations, near, count: count.count, refused, ready }));
}
main();
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client."""
    made = tmp_path_factory.mktemp("typescript")
    (made / "multifold.ts").write_text(typescript_client(json.loads(openapi_document())), encoding="utf-8")
    return made


def compiled(folder: Path, name: str, program: str) -> subprocess.CompletedProcess[str]:
    (folder / f"{name}.ts").write_text(program, encoding="utf-8")
    command = [*COMPILER, f"{name}.ts"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_route_has_its_types(folder: Path) -> None:
    client = (folder / "multifold.ts").read_text(encoding="utf-8")
    paths = json.loads(openapi_document())["paths"]
    short = [path for path in paths if "{collection}" not in path]
    assert len(short) > 35
    for path in short:
        for method in paths[path]:
            assert f'"{method.upper()} {path}": {{' in client
    assert ": any" not in client


def test_types_of_schemas() -> None:
    number_or_none = {"anyOf": [{"type": "number"}, {"type": "null"}]}
    assert typed(number_or_none) == "number | null"
    assert typed({"type": "array", "items": number_or_none}) == "Array<number | null>"
    assert typed({"type": "object", "additionalProperties": {"$ref": "#/c/s/One"}}) == "Record<string, One>"
    assert typed({"enum": ["a", 1]}) == '"a" | 1'
    assert typed({}) == "unknown"


@needs_node
@pytest.mark.slow
def test_a_program_searches_from_node(folder: Path, tmp_path: Path, bundle: Path) -> None:
    built = compiled(folder, "program", PROGRAM)
    assert built.returncode == 0, built.stdout
    with house(tmp_path, bundle, keys=f"read:{KEY},write:write-{KEY}", render_seconds=200) as shop:
        shop.client.headers["authorization"] = f"Bearer write-{KEY}"
        for colour in ("red", "blue"):
            assert shop.put(f"{colour}%2Fbox", colour).status_code == 200
        command = ["node", "program.js", shop.url, KEY]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "id": "red/box",
        "observations": 9,
        "near": "red/box",
        "count": 2,
        "refused": [403, "forbidden"],
        "ready": "ok",
    }


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ('"POST /v1/search", { body: { texts: "red" } }', "texts"),
        ('"POST /v1/search"', "Expected 2 arguments"),
        ('"GET /v1/items/{item_id}", {}', "path"),
        ('"POST /v1/serch", {}', "serch"),
    ],
)
def test_a_wrong_call_does_not_compile(folder: Path, call: str, problem: str) -> None:
    program = f'import {{ Multifold }} from "./multifold";\nnew Multifold().call({call});\n'
    built = compiled(folder, "wrong", program)
    assert built.returncode != 0
    assert problem in built.stdout
