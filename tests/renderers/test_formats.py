"""3MF, COLLADA, STEP, point clouds and up axes: known colours at known places."""

from pathlib import Path

import numpy as np
import pytest
import trimesh

from renderers.contracts import MeshError, MeshLimits, MeshModel
from renderers.mesh.formats.xml import XmlElement
from renderers.mesh.load import load_model
from tests.renderers import made
from tests.renderers.glb import Glb, unlit
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


def bluish(color: tuple[int, int, int]) -> bool:
    return color[2] > 100 > 60 > max(color[:2])


class Test3mf:
    def test_base_materials_and_color_groups(self, tmp_path: Path) -> None:
        colors = '<basematerials id="5"><base name="r" displaycolor="#FF0000"/></basematerials>'
        colors += '<m:colorgroup id="6"><m:color color="#0000FFFF"/></m:colorgroup>'
        square = made.square_3mf('pid="5" p1="0"', 'pid="6" p1="0"')
        views = front(saved(tmp_path, "m.3mf", made.package_3mf(colors + square)))
        assert reddish(seen_at(views, 0.3, -0.3))
        assert bluish(seen_at(views, -0.3, 0.3))

    def test_an_object_may_say_what_its_triangles_do_not(self, tmp_path: Path) -> None:
        shades = '<base displaycolor="#00FF00"/><base displaycolor="#FF0000"/>'
        colors = f'<basematerials id="5">{shades}</basematerials>'
        square = made.square_3mf(named='id="1" pid="5" pindex="1"')
        assert reddish(seen_at(front(saved(tmp_path, "m.3mf", made.package_3mf(colors + square))), 0, 0))

    def test_textures_stand_upright(self, tmp_path: Path) -> None:
        corners = "".join(f'<m:tex2coord u="{u}" v="{v}"/>' for u, v in ((0, 0), (1, 0), (1, 1), (0, 1)))
        looks = '<m:texture2d id="7" path="/3D/t.png" contenttype="image/png"/>'
        looks += f'<m:texture2dgroup id="8" texid="7">{corners}</m:texture2dgroup>'
        square = made.square_3mf('pid="8" p1="0" p2="1" p3="2"', 'pid="8" p1="0" p2="2" p3="3"')
        data = made.package_3mf(looks + square, others={"3D/t.png": made.png(RED, BLUE)})
        views = front(saved(tmp_path, "m.3mf", data))
        assert reddish(seen_at(views, 0.0, 0.4))
        assert bluish(seen_at(views, 0.0, -0.4))

    def test_components_and_build_items_are_placed(self, tmp_path: Path) -> None:
        pair = '<object id="2"><components><component objectid="1"/>'
        pair += '<component objectid="1" transform="1 0 0 0 1 0 0 0 1 2 0 0"/></components></object>'
        build = '<item objectid="2" transform="1 0 0 0 1 0 0 0 2 5 5 5"/>'
        path = saved(tmp_path, "m.3mf", made.package_3mf(made.square_3mf() + pair, build))
        model = load_model(path)
        assert extent(model) == [1, 1, 0]
        assert len(model.faces) == 4
        assert (model.up, model.up_reason) == ("z", "3MF is Z up")

    def test_objects_of_another_model_file(self, tmp_path: Path) -> None:
        part = made.model_3mf(made.square_3mf(), "")
        pair = (
            '<object id="2"><components><component p:path="/3D/o.model" objectid="1"/></components></object>'
        )
        data = made.package_3mf(pair, '<item objectid="2"/>', others={"3D/o.model": part})
        assert len(load_model(saved(tmp_path, "m.3mf", data)).faces) == 2


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


class TestStep:
    def test_a_colored_box(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "m.step", made.step_box(1, 2, 4, (1, 0, 0)))
        model = load_model(path)
        assert extent(model) == [0.25, 1, 0.5]
        assert (model.up, len(model.faces)) == ("z", 12)
        assert reddish(seen_at(front(path), 0, 0))

    def test_the_caller_knows_better(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "m.stp", made.step_box(1, 2, 4, (1, 0, 0)))
        assert extent(load_model(path, up="y")) == [0.25, 0.5, 1]

    def test_what_is_no_step_file(self, tmp_path: Path) -> None:
        with pytest.raises(MeshError, match="not a STEP file"):
            load_model(saved(tmp_path, "m.step", b"a poem about boxes"))
        with pytest.raises(MeshError, match="no surfaces"):
            load_model(saved(tmp_path, "m.step", made.step_box(1, 2, 4, (1, 0, 0))[:400]))


def ball_of_points(count: int) -> np.ndarray:
    """Points spread over the unit sphere."""
    height = np.linspace(-1, 1, count)
    angle, radius = np.arange(count) * np.pi * (3 - np.sqrt(5)), np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angle), height, radius * np.sin(angle)], axis=1)


class TestPoints:
    def test_ply_points_have_their_colors_and_leave_no_holes(self, tmp_path: Path) -> None:
        points = ball_of_points(4000)
        colors = np.where(points[:, 1:2] > 0, [RED], [BLUE])
        views = front(saved(tmp_path, "p.ply", made.ply_points(points, colors)))
        assert reddish(seen_at(views, 0.0, 0.5))
        assert bluish(seen_at(views, 0.0, -0.5))
        row, column = np.mgrid[-31:33, -31:33]
        assert (views[0][row**2 + column**2 < 24**2] < 255).any(axis=-1).mean() > 0.99

    def test_obj_of_points(self, tmp_path: Path) -> None:
        text = "".join(f"v {x} {y} {z} 1 0 0\n" for x, y, z in ball_of_points(500))
        assert reddish(seen_at(front(saved(tmp_path, "p.obj", text)), 0, 0))

    def test_gltf_points(self, tmp_path: Path) -> None:
        glb = Glb()
        places = glb.accessor(ball_of_points(500).astype(np.float32))
        colors = glb.accessor(np.full((500, 3), (0, 0, 1), np.float32))
        glb.place(glb.mesh({"POSITION": places, "COLOR_0": colors}, mode=0, material=unlit(glb)))
        assert seen_at(front(glb.save(tmp_path)), 0, 0) == BLUE

    def test_normals_of_points_shade_them(self, tmp_path: Path) -> None:
        head = "ply\nformat ascii 1.0\nelement vertex 4\n"
        head += (
            "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz")) + "end_header\n"
        )
        rows = "".join(f"{x} {y} 0 0 0 1\n" for x in (0, 1) for y in (0, 1))
        assert (load_model(saved(tmp_path, "p.ply", head + rows)).normals == (0, 0, 1)).all()

    def test_a_large_cloud_is_thinned_and_says_so(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "p.ply", made.ply_points(ball_of_points(3000)))
        model = load_model(path, MeshLimits(points=1000))
        assert len(model.faces) == 8000
        assert "1,000 of its 3,000 points" in model.notes[0]

    def test_points_in_one_place(self, tmp_path: Path) -> None:
        with pytest.raises(MeshError, match="no extent"):
            load_model(saved(tmp_path, "p.obj", "v 1 2 3\nv 1 2 3\n"))


class TestUpAxis:
    def test_a_guess_says_that_it_is_one(self, tmp_path: Path) -> None:
        trimesh.creation.box().export(tmp_path / "b.ply")
        model = load_model(tmp_path / "b.ply")
        assert (model.up, "guess" in model.up_reason) == ("y", True)

    def test_ply_of_blender_is_z_up(self, tmp_path: Path) -> None:
        trimesh.creation.box((1, 2, 4)).export(tmp_path / "b.ply")
        data = (tmp_path / "b.ply").read_bytes().replace(b"ply\n", b"ply\ncomment Created in Blender\n", 1)
        data = data.replace(b"format binary_little_endian 1.0\n", b"", 1).replace(
            b"ply\n", b"ply\nformat binary_little_endian 1.0\n", 1
        )
        model = load_model(saved(tmp_path, "b.ply", data))
        assert (model.up, extent(model)) == ("z", [0.25, 1, 0.5])

    def test_the_callers_word_counts_most(self, tmp_path: Path) -> None:
        trimesh.creation.box().export(tmp_path / "b.stl")
        assert load_model(tmp_path / "b.stl", up="y").up_reason == "as told"


class TestObj:
    MESH = "mtllib m.mtl\nv -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nusemtl a\n"

    def test_glass(self, tmp_path: Path) -> None:
        saved(tmp_path, "m.mtl", "newmtl a\nKd 1 0 0\nd 0.5\n")
        solid, glass = front(saved(tmp_path, "m.obj", self.MESH + "f 1 2 3 4\n")), front(tmp_path / "m.obj")
        saved(tmp_path, "m.mtl", "newmtl a\nKd 1 0 0\n")
        solid = front(tmp_path / "m.obj")
        assert seen_at(glass, 0, 0)[1] > seen_at(solid, 0, 0)[1] + 80

    def test_a_missing_library_and_a_missing_picture_are_noted(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "m.obj", self.MESH + "f 1 2 3 4\n")
        assert "m.mtl" in load_model(path).notes[0]
        saved(tmp_path, "m.mtl", "newmtl a\nmap_Kd /home/someone/t.png\n")
        assert "t.png" in load_model(path).notes[0]

    def test_pictures_are_found_by_their_last_word(self, tmp_path: Path) -> None:
        saved(tmp_path, "t.png", made.png(BLUE))
        saved(tmp_path, "m.mtl", "newmtl a\nmap_Kd -s 1 1 1 C:\\models\\t.png\n")
        path = saved(tmp_path, "m.obj", self.MESH + "f 1/1 2/2 3/3 4/4\n")
        assert bluish(seen_at(front(path), 0, 0))

    def test_a_wider_folder_may_be_allowed(self, tmp_path: Path) -> None:
        (tmp_path / "models").mkdir()
        saved(tmp_path, "t.png", made.png(BLUE))
        saved(tmp_path / "models", "m.mtl", "newmtl a\nmap_Kd ../t.png\n")
        path = saved(tmp_path / "models", "m.obj", self.MESH + "f 1/1 2/2 3/3 4/4\n")
        with pytest.raises(MeshError, match="outside its folder"):
            load_model(path)
        assert load_model(path, within=tmp_path).materials[0].base_texture is not None

    def test_vertex_colors(self, tmp_path: Path) -> None:
        corners = "".join(f"v {x} {y} 0 0 0 1\n" for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1)))
        assert bluish(seen_at(front(saved(tmp_path, "m.obj", corners + "f -4 -3 -2 -1\n")), 0, 0))
