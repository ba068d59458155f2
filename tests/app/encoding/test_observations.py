"""What a renderer notes of a mesh, such as a lost texture, reaches everyone who should know."""

import json
from pathlib import Path

import pytest

from multifold.cli import main
from tests.app.house import House, house

BARE = b"mtllib oak.mtl\nusemtl oak\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
NOTE = "drawn without 'oak.mtl', which does not lie beside it"
MESH = ("mesh", ("bare.obj", BARE, "model/obj"))


def test_an_item_keeps_what_is_lost(own: House) -> None:
    address, rest = "/v1/items/bare", {"texts": ["a triangle"]}
    assert own.client.put(address, files=[MESH], data=rest).json()["warnings"] == [NOTE]
    assert own.client.get(address).json()["notes"] == [NOTE]
    assert own.client.get(address).json()["files"]
    own.client.patch(address, json={"payload": {"a": 1}})
    assert own.client.get(address).json()["notes"] == [NOTE]
    assert own.client.put(address, files=[("texts", (None, "a triangle"))]).json()["warnings"] == []
    assert own.client.get(address).json()["notes"] == []


@pytest.mark.parametrize("served", [False, True], ids=["alone", "through a service"])
def test_an_ingest_reports_what_is_lost(
    tmp_path: Path, bundle: Path, served: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "files").mkdir()
    mesh = tmp_path / "files" / "bare.obj"
    mesh.write_bytes(BARE)
    report = tmp_path / "report.json"
    words = ["ingest", str(mesh.parent), "--data", str(tmp_path / "data"), "--bundle", str(bundle)]
    words += ["--report", str(report), "--workers", "1"]
    if served:
        with house(tmp_path / "data", bundle):
            assert main(words) == 0
    else:
        assert main(words) == 0
    found = json.loads(report.read_text())
    assert found["warnings"] == [{"name": found["added"][0], "reason": NOTE}]
    assert f"note on {found['added'][0]}: {NOTE}" in capsys.readouterr().err
