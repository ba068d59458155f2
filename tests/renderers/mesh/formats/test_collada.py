"""COLLADA files."""

from pathlib import Path

import numpy as np
import pytest

from renderers.contracts import MeshModel
from renderers.mesh.formats.xml import XmlElement
from renderers.mesh.load import load_model
from tests.renderers import made
from tests.renderers.seeing import front, seen_at

RED, BLUE = (255, 0, 0), (0, 0, 255)


def saved(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def extent(model: MeshModel) -> list[float]:
    """Width, height and depth, the largest of them 1."""
    size = np.ptp(model.vertices, axis=0)
    return [round(float(one), 3) for one in size / size.max()]


def reddish(color: tuple[int, int, int]) -> bool:
    return color[0] > 100 > 60 > max(color[1:])


class TestCollada:
    def test_a_color(self, tmp_path: Path) -> None:
        assert seen_at(front(saved(tmp_path, "m.dae", made.dae())), 0, 0) == RED

    def test_a_lit_color(self, tmp_path: Path) -> None:
        assert reddish(seen_at(front(saved(tmp_path, "m.dae", made.dae(shader="phong"))), 0, 0))

    def test_a_texture_through_its_sampler(self, tmp_path: Path) -> None:
        saved(tmp_path, "t.png", made.png(RED, BLUE))
        views = front(saved(tmp_path, "m.dae", made.dae('<texture texture="k" texcoord="UV"/>')))
        assert seen_at(views, 0.0, 0.4) == RED
        assert seen_at(views, 0.0, -0.4) == BLUE

    def test_a_missing_texture_is_noted(self, tmp_path: Path) -> None:
        model = load_model(saved(tmp_path, "m.dae", made.dae('<texture texture="k" texcoord="UV"/>')))
        assert "t.png" in model.notes[0]

    @pytest.mark.parametrize(
        ("up", "size"), [("Y_UP", [1, 0.5, 0]), ("Z_UP", [1, 0, 0.5]), ("X_UP", [0.5, 1, 0])]
    )
    def test_it_says_which_axis_is_up(self, tmp_path: Path, up: str, size: list[float]) -> None:
        model = load_model(saved(tmp_path, "m.dae", made.dae(up=up, node="<scale>2 1 1</scale>")))
        assert extent(model) == size
        assert model.up_reason == "the file says so"

    def test_steps_of_a_node_are_done_in_order(self, tmp_path: Path) -> None:
        steps = "<rotate>0 0 1 90</rotate><scale>2 1 1</scale><translate>3 0 0</translate>"
        assert extent(load_model(saved(tmp_path, "m.dae", made.dae(node=steps)))) == [0.5, 1, 0]

    @pytest.mark.parametrize(
        "polygons",
        [
            '<triangles material="m" count="2">{inputs}<p>0 0 1 1 2 2 0 0 2 2 3 3</p></triangles>',
            '<polygons material="m" count="1">{inputs}<p>0 0 1 1 2 2 3 3</p></polygons>',
            '<trifans material="m" count="1">{inputs}<p>0 0 1 1 2 2 3 3</p></trifans>',
            '<tristrips material="m" count="1">{inputs}<p>0 0 1 1 3 3 2 2</p></tristrips>',
        ],
    )
    def test_every_kind_of_polygon_makes_the_same_square(self, tmp_path: Path, polygons: str) -> None:
        model = load_model(saved(tmp_path, "m.dae", made.dae(polygons=polygons)))
        corners = model.vertices[model.faces]
        areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        assert np.allclose(areas, [[0, 0, 2]] * 2)

    def test_many_polygons_take_as_much_time_each_as_few(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks, one_by_one = [0], XmlElement.all

        def counted(element: XmlElement, *names: str) -> list[XmlElement]:
            looks[0] += len(element.children)
            return one_by_one(element, *names)

        monkeypatch.setattr(XmlElement, "all", counted)
        many = '<polygons material="m">{inputs}' + "<p>0 0 1 1 2 2 3 3</p>" * 500 + "</polygons>"
        assert len(load_model(saved(tmp_path, "m.dae", made.dae(polygons=many))).faces) == 1000
        assert looks[0] < 20 * 500
