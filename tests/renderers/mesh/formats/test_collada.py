"""COLLADA files."""

from pathlib import Path

import numpy as np
import pytest

from renderers.contracts import DEFAULT_LIMITS
from renderers.mesh.formats import collada
from renderers.mesh.formats.mesh_file import SiblingFiles
from renderers.mesh.formats.xml import XmlElement
from renderers.mesh.load import load_model
from tests.files import put
from tests.renderers import made
from tests.renderers.seeing import BLUE, RED, extent, front, hue_at, seen_at

TEXTURE = '<texture texture="k" texcoord="UV"/>'


def test_colors_are_shown_or_lit(tmp_path: Path) -> None:
    assert seen_at(front(put(tmp_path / "m.dae", made.dae())), 0, 0) == RED
    assert hue_at(front(put(tmp_path / "m.dae", made.dae(shader="phong"))), 0, 0) == "red"


def test_a_texture_through_its_sampler(tmp_path: Path) -> None:
    path = put(tmp_path / "m.dae", made.dae(TEXTURE))
    assert "t.png" in load_model(path).notes[0]  # that it is missing
    put(tmp_path / "t.png", made.png(RED, BLUE))
    views = front(path)
    assert (seen_at(views, 0.0, 0.4), seen_at(views, 0.0, -0.4)) == (RED, BLUE)


@pytest.mark.parametrize(
    ("up", "size"), [("Y_UP", [1, 0.5, 0]), ("Z_UP", [1, 0, 0.5]), ("X_UP", [0.5, 1, 0])]
)
def test_it_says_which_axis_is_up(tmp_path: Path, up: str, size: list[float]) -> None:
    model = load_model(put(tmp_path / "m.dae", made.dae(up=up, node="<scale>2 1 1</scale>")))
    assert (extent(model), model.up_reason) == (size, "the file says so")


def test_steps_of_a_node_are_done_in_order(tmp_path: Path) -> None:
    steps = "<rotate>0 0 1 90</rotate><scale>2 1 1</scale><translate>3 0 0</translate>"
    assert extent(load_model(put(tmp_path / "m.dae", made.dae(node=steps)))) == [0.5, 1, 0]


@pytest.mark.parametrize(
    "polygons",
    [
        '<triangles material="m" count="2">{inputs}<p>0 0 1 1 2 2 0 0 2 2 3 3</p></triangles>',
        '<polygons material="m" count="1">{inputs}<p>0 0 1 1 2 2 3 3</p></polygons>',
        '<trifans material="m" count="1">{inputs}<p>0 0 1 1 2 2 3 3</p></trifans>',
        '<tristrips material="m" count="1">{inputs}<p>0 0 1 1 3 3 2 2</p></tristrips>',
    ],
)
def test_every_kind_of_polygon_makes_the_same_square(tmp_path: Path, polygons: str) -> None:
    model = load_model(put(tmp_path / "m.dae", made.dae(polygons=polygons)))
    corners = model.vertices[model.faces]
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.allclose(areas, [[0, 0, 2]] * 2)


def test_many_polygons_take_as_much_time_each_as_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    one_by_one = XmlElement.all

    def counted(element: XmlElement, *names: str) -> list[XmlElement]:
        nonlocal looks
        looks += len(element.children)
        return one_by_one(element, *names)

    monkeypatch.setattr(XmlElement, "all", counted)
    many = '<polygons material="m">{inputs}' + "<p>0 0 1 1 2 2 3 3</p>" * 500 + "</polygons>"
    assert len(load_model(put(tmp_path / "m.dae", made.dae(polygons=many))).faces) == 1000
    assert looks < 20 * 500


@pytest.mark.parametrize(
    ("said", "metres"),
    [("", 1.0), ('<unit meter="0.01"/>', 0.01), ('<unit meter="long"/>', None), ('<unit meter="0"/>', None)],
)
def test_it_says_what_its_unit_is_and_whether_it_moves(
    tmp_path: Path, said: str, metres: float | None
) -> None:
    siblings = SiblingFiles(tmp_path, DEFAULT_LIMITS)
    still = made.dae().replace("</asset>", f"{said}</asset>")
    moving = still.replace("</asset>", "</asset><library_animations><animation/></library_animations>")
    contents = [collada.read(text.encode(), ".dae", siblings, DEFAULT_LIMITS) for text in (still, moving)]
    assert [(one.metres, one.animated) for one in contents] == [(metres, False), (metres, True)]
