"""3MF files."""

from pathlib import Path

import pytest

from renderers.contracts import DEFAULT_LIMITS
from renderers.mesh.formats import threemf
from renderers.mesh.formats.mesh_file import SiblingFiles
from renderers.mesh.load import load_model
from tests.files import put
from tests.renderers import made
from tests.renderers.seeing import BLUE, RED, extent, front, hue_at


def test_base_materials_and_color_groups(tmp_path: Path) -> None:
    colors = '<basematerials id="5"><base name="r" displaycolor="#FF0000"/></basematerials>'
    colors += '<m:colorgroup id="6"><m:color color="#0000FFFF"/></m:colorgroup>'
    square = made.square_3mf('pid="5" p1="0"', 'pid="6" p1="0"')
    views = front(put(tmp_path / "m.3mf", made.package_3mf(colors + square)))
    assert (hue_at(views, 0.3, -0.3), hue_at(views, -0.3, 0.3)) == ("red", "blue")


def test_an_object_may_say_what_its_triangles_do_not(tmp_path: Path) -> None:
    shades = '<base displaycolor="#00FF00"/><base displaycolor="#FF0000"/>'
    square = made.square_3mf(named='id="1" pid="5" pindex="1"')
    data = made.package_3mf(f'<basematerials id="5">{shades}</basematerials>{square}')
    assert hue_at(front(put(tmp_path / "m.3mf", data)), 0, 0) == "red"


def test_textures_stand_upright(tmp_path: Path) -> None:
    corners = "".join(f'<m:tex2coord u="{u}" v="{v}"/>' for u, v in ((0, 0), (1, 0), (1, 1), (0, 1)))
    looks = '<m:texture2d id="7" path="/3D/t.png" contenttype="image/png"/>'
    looks += f'<m:texture2dgroup id="8" texid="7">{corners}</m:texture2dgroup>'
    square = made.square_3mf('pid="8" p1="0" p2="1" p3="2"', 'pid="8" p1="0" p2="2" p3="3"')
    data = made.package_3mf(looks + square, others={"3D/t.png": made.png(RED, BLUE)})
    views = front(put(tmp_path / "m.3mf", data))
    assert (hue_at(views, 0.0, 0.4), hue_at(views, 0.0, -0.4)) == ("red", "blue")


def test_components_and_build_items_are_placed(tmp_path: Path) -> None:
    pair = '<object id="2"><components><component objectid="1"/>'
    pair += '<component objectid="1" transform="1 0 0 0 1 0 0 0 1 2 0 0"/></components></object>'
    build = '<item objectid="2" transform="1 0 0 0 1 0 0 0 2 5 5 5"/>'
    model = load_model(put(tmp_path / "m.3mf", made.package_3mf(made.square_3mf() + pair, build)))
    assert (extent(model), len(model.faces)) == ([1, 1, 0], 4)
    assert (model.up, model.up_reason) == ("z", "3MF is Z up")


def test_objects_of_another_model_file(tmp_path: Path) -> None:
    part = made.model_3mf(made.square_3mf(), "")
    pair = '<object id="2"><components><component p:path="/3D/o.model" objectid="1"/></components></object>'
    data = made.package_3mf(pair, '<item objectid="2"/>', others={"3D/o.model": part})
    assert len(load_model(put(tmp_path / "m.3mf", data)).faces) == 2


@pytest.mark.parametrize(
    ("unit", "metres"), [("", 1e-3), ('unit="inch"', 0.0254), ('unit="meter"', 1.0), ('unit="ell"', None)]
)
def test_it_says_what_its_unit_is(tmp_path: Path, unit: str, metres: float | None) -> None:
    model = made.model_3mf(made.square_3mf()).replace('unit="millimeter"', unit)
    data = made.package_3mf("", others={"3D/m.model": model})
    contents = threemf.read(data, ".3mf", SiblingFiles(tmp_path, DEFAULT_LIMITS), DEFAULT_LIMITS)
    assert (contents.metres, contents.animated) == (metres, False)
