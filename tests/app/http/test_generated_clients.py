"""Clients that generators make of the description: all of them can be imported, and they search."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.openapi import openapi_document
from tests.app.house import House, png

pytestmark = pytest.mark.slow
PYTHON = """
import importlib, io, pkgutil, sys
import shopping
from shopping import Client
from shopping.api.items import write_item
from shopping.api.search import search, search_by_form, search_many
from shopping.models import BatchSearchBody, ItemBody, Search, SearchForm, SearchFormTarget
from shopping.types import File

for module in pkgutil.walk_packages(shopping.__path__, "shopping."):
    importlib.import_module(module.name)
url, picture = sys.argv[1:]
with Client(base_url=url, raise_on_unexpected_status=True) as client:
    default = {"client": client, "collection": "default"}
    print(search.sync(body=Search(text="a red box", limit=1), **default).hits[0].id)
    batch = BatchSearchBody([Search(text="a blue box")])
    print(search_many.sync(body=batch, **default).answers[0].answer.hits[0].id)
    with open(picture, "rb") as opened:
        photo = File(opened, "photo.png", "image/png")
        form = SearchForm(image=photo, target=SearchFormTarget.IMAGE)
        print(search_by_form.sync(body=form, **default).hits[0].id)
    print(search.sync(body=Search(), **default).error.code)
    print(write_item.sync(item_id="red-box", body=ItemBody(), **default).error.code)
"""
TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { paths } from "./multifold";

const service = createClient<paths>({ baseUrl: process.argv[2] });
const params = { path: { collection: "default" } };
const search = "/v1/collections/{collection}/search";
const { data } = await service.POST(search, { params, body: { text: "a red box", limit: 1 } });
console.log(data!.hits[0].id);
const { error } = await service.POST(search, { params, body: { text: "a", id: "b" } });
console.log(error!.error.code);
"""
PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.15.0", "typescript@5.9.3", "@types/node@20")
TSC = (
    "--strict",
    "--target",
    "esnext",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
    "--skipLibCheck",
)


def run(*command: str, at: Path) -> str:
    """What a command prints; it must not fail."""
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(openapi_document())
    return path


def test_a_client_in_python(shop: House, described: Path, tmp_path: Path) -> None:
    made = tmp_path / "shopping"
    generate = ("generate", "--path", str(described), "--output-path", str(made), "--meta", "none")
    run(sys.executable, "-m", "openapi_python_client", *generate, at=tmp_path)
    names = {path.stem for path in (made / "models").iterdir()}
    assert {"search", "search_form", "new_item", "item_body", "item_form", "bulk_body"} <= names
    assert not [name for name in names if "body_type" in name]
    (tmp_path / "photo.png").write_bytes(png("green"))
    (tmp_path / "shop.py").write_text(PYTHON)
    printed = run(sys.executable, "shop.py", shop.url, "photo.png", at=tmp_path)
    assert printed.split() == ["red-box", "blue-box", "green-box", "no_query", "bad_item"]


def test_a_client_in_typescript(shop: House, described: Path, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    (tmp_path / "package.json").write_text(json.dumps({"type": "module"}))
    installed = subprocess.run(["npm", "install", *PACKAGES], cwd=tmp_path, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"npm installs nothing here: {installed.stderr[-200:]}")
    made = ("--default-non-nullable", "false", "--output", "multifold.d.ts")
    run("npx", "openapi-typescript", str(described), *made, at=tmp_path)
    (tmp_path / "shop.ts").write_text(TYPESCRIPT)
    run("npx", "tsc", *TSC, "shop.ts", at=tmp_path)
    assert run("node", "shop.js", shop.url, at=tmp_path).split() == ["red-box", "several_queries"]
