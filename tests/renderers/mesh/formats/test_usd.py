"""USD files, as text, as crates and as packages."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pxr import Sdf

from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.formats.mesh_file import content_hash
from renderers.mesh.load import load_model
from renderers.orders import MeshSource
from renderers.sandbox import Sandbox
from tests.files import put
from tests.renderers import made
from tests.renderers.seeing import BLUE, RED, extent, front, hue_at
from tests.waiting import PATIENCE

HEAD = '#usda 1.0\n(upAxis = "{up}"\n{more})\n'
SQUARE = """
    point3f[] points = [(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]
    int[] faceVertexCounts = [4]
    int[] faceVertexIndices = [0, 1, 2, 3]
    texCoord2f[] primvars:st = [(0, 0), (1, 0), (1, 1), (0, 1)] (interpolation = "vertex")
"""
PAINTED = 'def Mesh "square" (prepend apiSchemas = ["MaterialBindingAPI"])\n{{{square}\n{bound}\n}}\n'
BOUND = "    rel material:binding = </paint>"
COLOUR = "color3f inputs:diffuseColor = ({})"
TEXTURED = "color3f inputs:diffuseColor.connect = </paint/picture.outputs:rgb>"
PICTURE = """
    def Shader "picture"
    {{
        uniform token info:id = "UsdUVTexture"
        asset inputs:file = @{file}@
        float2 inputs:st.connect = </paint/moved.outputs:result>
        float3 outputs:rgb
        float outputs:r
        float outputs:g
        float outputs:b
        float outputs:a
    }}
    def Shader "moved"
    {{
        uniform token info:id = "UsdTransform2d"
        float2 inputs:in.connect = </paint/where.outputs:result>
        float2 inputs:translation = (0, {by})
        float2 outputs:result
    }}
    def Shader "where"
    {{
        uniform token info:id = "UsdPrimvarReader_float2"
        string inputs:varname = "st"
        float2 outputs:result
    }}
"""


def scene(*prims: str, up: str = "Y", more: str = "") -> str:
    return HEAD.format(up=up, more=more) + "".join(prims)


def painted(square: str = SQUARE, bound: str = BOUND) -> str:
    return PAINTED.format(square=square, bound=bound)


def paint(inputs: str, inside: str = "", name: str = "paint") -> str:
    """A material with these inputs of its surface."""
    return f"""def Material "{name}"
{{
    token outputs:surface.connect = </{name}/surface.outputs:surface>
    def Shader "surface"
    {{
        uniform token info:id = "UsdPreviewSurface"
        {inputs}
        token outputs:surface
    }}
{inside}
}}
"""


def picture(file: str, by: float = 0) -> str:
    return PICTURE.format(file=file, by=by)


def crate(folder: Path, text: str, name: str = "m.usdc") -> Path:
    """The same scene in the binary format."""
    layer = Sdf.Layer.CreateAnonymous(".usda")
    assert layer.ImportFromString(text)
    assert layer.Export(str(folder / name))
    return folder / name


def package(folder: Path, entries: Mapping[str, bytes | str]) -> Path:
    """A package of files, the first one its root."""
    return put(folder / "m.usdz", made.usdz(entries))


RED_SQUARE = scene(painted(), paint(COLOUR.format("1, 0, 0")))


@pytest.mark.parametrize("kind", [".usda", ".usd", ".usdc", ".usdz"])
def test_a_painted_square_in_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"m{kind}"
    if kind == ".usdc":
        crate(tmp_path, RED_SQUARE)
    elif kind == ".usdz":
        package(tmp_path, {"root.usda": RED_SQUARE})
    else:
        path.write_text(RED_SQUARE)
    model = load_model(path)
    assert (extent(model), len(model.faces), model.up, model.notes) == ([1, 1, 0], 2, "y", ())
    assert hue_at(front(path), 0, 0) == "red"
    material = model.materials[0]
    assert (material.metallic, material.roughness, material.alpha_mode) == (0.0, 0.5, "OPAQUE")


def test_size_axis_and_animation_are_what_the_file_says(tmp_path: Path) -> None:
    more = "metersPerUnit = 0.01\nstartTimeCode = 1\nendTimeCode = 24\n"
    moved = painted(
        SQUARE + 'double3 xformOp:scale = (50, 50, 50)\nuniform token[] xformOpOrder = ["xformOp:scale"]\n',
        "",
    )
    model = load_model(put(tmp_path / "m.usda", scene(moved, up="Z", more=more)))
    assert (model.up, model.up_reason) == ("z", "the file says so")
    assert {name: model.facts[name] for name in ("width", "height", "depth", "animated")} == {
        "width": 1.0,
        "height": 0.0,
        "depth": 1.0,
        "animated": True,
    }
    plain = load_model(put(tmp_path / "n.usda", scene(painted(bound=""))))
    assert "width" not in plain.facts


@pytest.mark.parametrize("kind", [".usda", ".usdz"])
@pytest.mark.parametrize(("by", "top"), [(0, "red"), (0.5, "blue")])
def test_a_texture_is_upright_and_moved_as_told(tmp_path: Path, kind: str, by: float, top: str) -> None:
    text = scene(painted(), paint(TEXTURED, picture("tex/t.png", by)))
    png = made.png(RED, BLUE)
    if kind == ".usdz":
        path = package(tmp_path, {"root.usda": text, "tex/t.png": png})
    else:
        put(tmp_path / "tex/t.png", png)
        path = put(tmp_path / "m.usda", text)
    seen = front(path)
    assert [hue_at(seen, 0, 0.5), hue_at(seen, 0, -0.5)] == sorted(
        ("red", "blue"), key=lambda one: one != top
    )


def test_textures_beside_a_text_file_count_as_its_content(tmp_path: Path) -> None:
    path = put(tmp_path / "m.usda", scene(painted(), paint(TEXTURED, picture("t.png"))))
    before = content_hash(path)
    assert any("t.png" in note for note in load_model(path).notes)
    put(tmp_path / "t.png", made.png(RED))
    assert content_hash(path) != before


def test_subsets_display_colours_and_instances(tmp_path: Path) -> None:
    two = """
    point3f[] points = [(-1, 0, 0), (0, 0, 0), (0, 1, 0), (-1, 1, 0), (1, 0, 0), (1, 1, 0)]
    int[] faceVertexCounts = [4, 4]
    int[] faceVertexIndices = [0, 1, 2, 3, 1, 4, 5, 2]
    def GeomSubset "right" (prepend apiSchemas = ["MaterialBindingAPI"])
    {
        uniform token elementType = "face"
        uniform token familyName = "materialBind"
        int[] indices = [1]
        rel material:binding = </paint>
    }
"""
    green = "color3f[] primvars:displayColor = [(0, 1, 0)]"
    below = 'double3 xformOp:translate = (0, -2, 0)\nuniform token[] xformOpOrder = ["xformOp:translate"]'
    thing = f'def Xform "thing"\n{{\n{painted(two, green)}\n}}\n'
    again = f'def Xform "again" (instanceable = true\nreferences = </thing>)\n{{\n{below}\n}}\n'
    path = put(tmp_path / "m.usda", scene(thing, again, paint(COLOUR.format("1, 0, 0"))))
    model = load_model(path)
    assert (len(model.faces), len(model.materials)) == (8, 2)
    seen = front(path)
    for height in (0.7, -0.7):
        assert [hue_at(seen, x, height) for x in (-0.3, 0.3)] == ["green", "red"]


def test_what_is_hidden_is_not_drawn_and_what_is_no_mesh_is_named(tmp_path: Path) -> None:
    hidden = painted(SQUARE + 'token visibility = "invisible"', "").replace('"square"', '"hidden"')
    guide = painted(SQUARE + 'uniform token purpose = "guide"', "").replace('"square"', '"guide"')
    ball = 'def Sphere "ball"\n{\n}\n'
    model = load_model(put(tmp_path / "m.usda", scene(painted(bound=""), hidden, guide, ball)))
    assert (len(model.faces), model.notes) == (2, ("left out: 1 × Sphere, which is no mesh",))


def test_metal_rough_and_opacity_are_read_of_channels(tmp_path: Path) -> None:
    inputs = "\n".join(
        f"{kind} inputs:{name}.connect = </paint/picture.outputs:{channel}>"
        for kind, name, channel in (
            ("color3f", "diffuseColor", "rgb"),
            ("float", "roughness", "g"),
            ("float", "metallic", "b"),
            ("float", "opacity", "a"),
            ("float", "occlusion", "r"),
        )
    )
    text = scene(painted(), paint(f"{inputs}\nfloat inputs:opacityThreshold = 0.5", picture("t.png")))
    package_path = package(tmp_path, {"root.usda": text, "t.png": made.png((255, 51, 102))})
    (material,) = load_model(package_path).materials
    assert (material.alpha_mode, material.alpha_cutoff) == ("MASK", 0.5)
    assert material.metal_rough_texture is not None
    assert material.metal_rough_texture.texels[0].tolist() == pytest.approx([1.0, 0.2, 0.4], abs=1e-6)
    assert material.occlusion_texture is not None
    assert material.occlusion_texture.texels[0, 0] == 1
    assert material.base_texture is not None
    assert material.base_texture.texels[0, 3] == 1


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("m.usda", "a poem about boxes", "not a USD file"),
        ("m.usdc", b"PXR-USDC" + bytes(80), "not a USD file"),
        ("m.usdz", b"PK\x03\x04 and no more", "cut short or damaged"),
        ("m.usdz", made.zipped({"poem.txt": "no layer"}), "does not begin with a layer"),
        ("m.usda", scene(), "neither triangles nor points"),
        ("m.usda", scene(painted(SQUARE.replace("[0, 1, 2, 3]", "[0, 1, 2, 9]"))), "does not exist"),
        ("m.usda", scene(painted(SQUARE.replace("[4]", "[5]"))), "other corners than it says"),
        ("m.usda", scene(painted(SQUARE.replace("(1, 1, 0)", "(1, inf, 0)"))), "infinity or nowhere"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, name: str, data: bytes | str, sentence: str) -> None:
    with pytest.raises(MeshError, match=sentence):
        load_model(put(tmp_path / name, data))


@pytest.mark.parametrize(
    "composed",
    [
        'def "other" (references = @{}@)\n{{\n}}\n',
        'def "other" (payload = @{}@</square>)\n{{\n}}\n',
        'def "other" (variants = {{string v = "b"}}\nprepend variantSets = "v")\n'
        '{{\nvariantSet "v" = {{\n"a" (references = @{}@) {{\n}}\n"b" {{\n}}\n}}\n}}\n',
    ],
)
@pytest.mark.parametrize("outside", ["../secret.usda", "secret.usda", "{folder}/secret.usda"])
def test_no_other_layer_is_opened(tmp_path: Path, composed: str, outside: str) -> None:
    inner = tmp_path / "inner"
    for folder in (tmp_path, inner):
        put(folder / "secret.usda", RED_SQUARE)
    text = scene(composed.format(outside.format(folder=tmp_path)))
    with pytest.raises(MeshError, match="put together from others"):
        load_model(put(inner / "m.usda", text))
    with pytest.raises(MeshError, match="put together from others"):
        load_model(package(inner, {"root.usda": text}))


def test_sublayers_and_value_clips_are_other_files(tmp_path: Path) -> None:
    put(tmp_path / "secret.usda", RED_SQUARE)
    with pytest.raises(MeshError, match="put together from others"):
        load_model(put(tmp_path / "m.usda", scene(more="subLayers = [@secret.usda@]\n")))
    clips = (
        "clips = { dictionary default = { asset[] assetPaths = [@./secret.usda@]\n"
        ' string primPath = "/square"\n'
        " double2[] active = [(0, 0)]\n double2[] times = [(0, 0)] } }"
    )
    with pytest.raises(MeshError, match="value clips"):
        load_model(put(tmp_path / "n.usda", scene(f'def Mesh "square" ({clips})\n{{\n}}\n')))


def test_layers_of_a_package_are_put_together(tmp_path: Path) -> None:
    root = scene('def "all" (references = @parts/square.usdc@</square>)\n{\n}\n')
    part = crate(tmp_path, scene(painted(bound="")), "square.usdc")
    assert (
        len(load_model(package(tmp_path, {"root.usda": root, "parts/square.usdc": part.read_bytes()})).faces)
        == 2
    )


def test_more_than_the_limits_is_refused_before_it_is_made(tmp_path: Path) -> None:
    path = put(tmp_path / "m.usda", RED_SQUARE)
    for limits in (MeshLimits(faces=1), MeshLimits(vertices=3), MeshLimits(instances=0)):
        with pytest.raises(MeshError):
            load_model(path, limits)
    with pytest.raises(MeshError, match="bytes"):
        load_model(package(tmp_path, {"root.usda": RED_SQUARE}), MeshLimits(unpacked_bytes=100))


def test_a_worker_reads_packages_too(tmp_path: Path) -> None:
    path = package(tmp_path, {"root.usda": RED_SQUARE})
    with Sandbox(workers=1, seconds=PATIENCE) as sandbox:
        assert sandbox.glb(MeshSource(path.read_bytes(), ".usdz"))[:4] == b"glTF"
