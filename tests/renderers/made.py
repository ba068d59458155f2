"""Small 3MF, COLLADA, USD, STEP and KTX2 files made by hand, so that a test says each byte that matters."""

import io
import struct
import zipfile
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Shaped
from PIL import Image

from tests.files import picture_file

SQUARE_3MF = (
    '<vertices><vertex x="-1" y="0" z="-1"/><vertex x="1" y="0" z="-1"/>'
    '<vertex x="1" y="0" z="1"/><vertex x="-1" y="0" z="1"/></vertices>'
)
CORE = "http://schemas.microsoft.com/3dmanufacturing/core/2015/02"
MATERIAL = "http://schemas.microsoft.com/3dmanufacturing/material/2015/02"
PRODUCTION = "http://schemas.microsoft.com/3dmanufacturing/production/2015/06"


def png(*colors: tuple[int, int, int]) -> bytes:
    """A picture of rows of these colours, each 8 pixels high, from top to bottom."""
    rows = np.array(colors, np.uint8).repeat(8, axis=0)
    return picture_file(Image.fromarray(np.tile(rows[:, None], (1, 8, 1))))


def zipped(entries: Mapping[str, bytes | str], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", packing) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return data.getvalue()


def usdz(entries: Mapping[str, bytes | str]) -> bytes:
    """A USD package, whose entries are never packed."""
    return zipped(entries, zipfile.ZIP_STORED)


def model_3mf(resources: str, build: str = '<item objectid="1"/>') -> str:
    """The XML of a 3MF model file."""
    names = f'xmlns="{CORE}" xmlns:m="{MATERIAL}" xmlns:p="{PRODUCTION}" unit="millimeter"'
    return f"<model {names}><resources>{resources}</resources><build>{build}</build></model>"


def package_3mf(
    resources: str, build: str = '<item objectid="1"/>', others: Mapping[str, bytes | str] | None = None
) -> bytes:
    """A 3MF file; `others` are entries beside the model."""
    relations = (
        '<Relationships><Relationship Target="/3D/m.model" Id="r" Type="http://x/3dmodel"/></Relationships>'
    )
    entries: dict[str, bytes | str] = {"_rels/.rels": relations, "3D/m.model": model_3mf(resources, build)}
    return zipped({**entries, **(others or {})})


def ply_points(points: Shaped[np.ndarray, "n 3"], colors: Shaped[np.ndarray, "n 3"] | None = None) -> bytes:
    """A PLY file, as text, of points and perhaps their sRGB colours."""
    names = [f"float {name}" for name in "xyz"]
    columns = [points]
    if colors is not None:
        names += ["uchar red", "uchar green", "uchar blue"]
        columns.append(colors)
    head = "".join(f"property {name}\n" for name in names)
    rows = "".join(" ".join(map(str, row)) + "\n" for row in zip(*np.hstack(columns).T.tolist(), strict=True))
    return f"ply\nformat ascii 1.0\nelement vertex {len(points)}\n{head}end_header\n{rows}".encode()


def square_3mf(first: str = "", second: str = "", named: str = 'id="1"') -> str:
    """An upright square of two triangles, facing -Y, with attributes for each of them."""
    triangles = f'<triangle v1="0" v2="1" v3="2" {first}/><triangle v1="0" v2="2" v3="3" {second}/>'
    return f"<object {named}><mesh>{SQUARE_3MF}<triangles>{triangles}</triangles></mesh></object>"


def source_dae(name: str, values: Iterable[float], stride: int) -> str:
    numbers = list(values)
    return (
        f'<source id="{name}"><float_array id="{name}-a" count="{len(numbers)}">'
        f"{' '.join(map(str, numbers))}</float_array><technique_common>"
        f'<accessor source="#{name}-a" count="{len(numbers) // stride}" stride="{stride}"/>'
        "</technique_common></source>"
    )


POLYGON_DAE = '<polylist material="m" count="1">{inputs}<vcount>4</vcount><p>0 0 1 1 2 2 3 3</p></polylist>'
INPUTS_DAE = (
    '<input semantic="VERTEX" source="#v" offset="0"/><input semantic="TEXCOORD" source="#t" offset="1"/>'
)


def dae(
    diffuse: str = "<color>1 0 0 1</color>",
    up: str = "Y_UP",
    node: str = "",
    polygons: str = POLYGON_DAE,
    more: str = "",
    shader: str = "constant",
) -> str:
    """A square that faces +Z; the shader `constant` shows its colour as it is."""
    corners = source_dae("p", (-1, -1, 0, 1, -1, 0, 1, 1, 0, -1, 1, 0), 3)
    places = source_dae("t", (0, 0, 1, 0, 1, 1, 0, 1), 2)
    slot = "emission" if shader == "constant" else "diffuse"
    picture = (
        '<newparam sid="s"><surface type="2D"><init_from>i</init_from></surface></newparam>'
        '<newparam sid="k"><sampler2D><source>s</source></sampler2D></newparam>'
    )
    return (
        '<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">'
        f"<asset><up_axis>{up}</up_axis></asset>{more}"
        '<library_images><image id="i"><init_from>t.png</init_from></image></library_images>'
        f'<library_effects><effect id="e"><profile_COMMON>{picture}<technique><{shader}><{slot}>{diffuse}'
        f"</{slot}></{shader}></technique></profile_COMMON></effect></library_effects>"
        '<library_materials><material id="mm"><instance_effect url="#e"/></material></library_materials>'
        f'<library_geometries><geometry id="g"><mesh>{corners}{places}'
        f'<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>'
        f"{polygons.format(inputs=INPUTS_DAE)}</mesh></geometry></library_geometries>"
        f'<library_visual_scenes><visual_scene id="w"><node>{node}<instance_geometry url="#g"><bind_material>'
        '<technique_common><instance_material symbol="m" target="#mm"/></technique_common></bind_material>'
        "</instance_geometry></node></visual_scene></library_visual_scenes>"
        '<scene><instance_visual_scene url="#w"/></scene></COLLADA>'
    )


class _Step:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, text: str) -> str:
        self.lines.append(f"#{len(self.lines) + 1}={text};")
        return f"#{len(self.lines)}"


def step_box(width: float, depth: float, height: float, color: tuple[float, float, float]) -> bytes:
    """A STEP file (AP214) of a box with flat faces, in one colour."""
    step = _Step()
    corners = [(x, y, z) for z in (0, height) for y in (0, depth) for x in (0, width)]
    points = [step.add(f"CARTESIAN_POINT('',({x:.1f},{y:.1f},{z:.1f}))") for x, y, z in corners]
    quads = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (1, 3, 7, 5), (3, 2, 6, 7), (2, 0, 4, 6))
    faces = []
    for quad in quads:
        loop = step.add(f"POLY_LOOP('',({','.join(points[one] for one in quad)}))")
        bound = step.add(f"FACE_OUTER_BOUND('',{loop},.T.)")
        a, b, c = (np.array(corners[one], float) for one in quad[:3])
        normal = np.cross(b - a, c - a)
        axis, side = (
            step.add(f"DIRECTION('',({x:.6f},{y:.6f},{z:.6f}))")
            for x, y, z in (normal / np.linalg.norm(normal), (b - a) / np.linalg.norm(b - a))
        )
        place = step.add(f"AXIS2_PLACEMENT_3D('',{points[quad[0]]},{axis},{side})")
        faces.append(step.add(f"FACE_SURFACE('',({bound}),{step.add(f'PLANE({chr(39) * 2},{place})')},.T.)"))
    brep = step.add(f"FACETED_BREP('',{step.add(f'CLOSED_SHELL({chr(39) * 2},({chr(44).join(faces)}))')})")
    context = step.add(
        "(GEOMETRIC_REPRESENTATION_CONTEXT(3)GLOBAL_UNIT_ASSIGNED_CONTEXT(("
        + ",".join(
            (
                step.add("(LENGTH_UNIT()NAMED_UNIT(*)SI_UNIT(.MILLI.,.METRE.))"),
                step.add("(NAMED_UNIT(*)PLANE_ANGLE_UNIT()SI_UNIT($,.RADIAN.))"),
                step.add("(NAMED_UNIT(*)SI_UNIT($,.STERADIAN.)SOLID_ANGLE_UNIT())"),
            )
        )
        + "))REPRESENTATION_CONTEXT('',''))"
    )
    shape = step.add(f"FACETED_BREP_SHAPE_REPRESENTATION('',({brep}),{context})")
    app = step.add("APPLICATION_CONTEXT('automotive design')")
    mechanical = step.add(f"PRODUCT_CONTEXT('',{app},'mechanical')")
    product = step.add(f"PRODUCT('box','box','',({mechanical}))")
    version = step.add(f"PRODUCT_DEFINITION_FORMATION('','',{product})")
    design = step.add(f"PRODUCT_DEFINITION_CONTEXT('part definition',{app},'design')")
    definition = step.add(f"PRODUCT_DEFINITION('design','',{version},{design})")
    defined = step.add(f"PRODUCT_DEFINITION_SHAPE('','',{definition})")
    step.add(f"SHAPE_DEFINITION_REPRESENTATION({defined},{shape})")
    red, green, blue = color
    paint = step.add(f"COLOUR_RGB('',{red:.3f},{green:.3f},{blue:.3f})")
    fill = step.add(f"FILL_AREA_STYLE('',({step.add(f'FILL_AREA_STYLE_COLOUR({chr(39) * 2},{paint})')}))")
    side = step.add(f"SURFACE_SIDE_STYLE('',({step.add(f'SURFACE_STYLE_FILL_AREA({fill})')}))")
    style = step.add(f"PRESENTATION_STYLE_ASSIGNMENT(({step.add(f'SURFACE_STYLE_USAGE(.BOTH.,{side})')}))")
    styled = step.add(f"STYLED_ITEM('',({style}),{brep})")
    step.add(f"MECHANICAL_DESIGN_GEOMETRIC_PRESENTATION_REPRESENTATION('',({styled}),{context})")
    head = (
        "ISO-10303-21;\nHEADER;\nFILE_DESCRIPTION((''),'2;1');\nFILE_NAME('','2026-01-01T00:00:00',(''),(''),'','','');\n"
        "FILE_SCHEMA(('AUTOMOTIVE_DESIGN { 1 0 10303 214 1 1 1 1 }'));\nENDSEC;\nDATA;\n"
    )
    return (head + "\n".join(step.lines) + "\nENDSEC;\nEND-ISO-10303-21;\n").encode()


def ktx2(*rows: tuple[int, int, int, int]) -> bytes:
    """A KTX2 picture 4 texels wide, of UASTC blocks of one colour each, from top to bottom."""
    blocks = b"".join(_uastc(color) for color in rows)
    description = struct.pack("<III8BQ", 44, 0, 2 | 40 << 16, 166, 1, 2, 0, 3, 3, 0, 0, 16)
    description += struct.pack("<IIII", 127 << 16 | 3 << 24, 0, 0, 0xFFFFFFFF)
    begin = 80 + 24 + len(description)
    header = struct.pack("<12s9I", b"\xabKTX 20\xbb\r\n\x1a\n", 0, 1, 4, 4 * len(rows), 0, 0, 1, 1, 0)
    header += struct.pack("<IIIIQQ", 104, len(description), 0, 0, 0, 0)
    padding = b"\0" * (-begin % 16)
    level = struct.pack("<QQQ", begin + len(padding), len(blocks), len(blocks))
    return header + level + description + padding + blocks


def _uastc(color: tuple[int, int, int, int]) -> bytes:
    """A block of the mode that holds a single colour: 5 bits of mode, then four bytes."""
    bits = 0x17
    for place, part in enumerate(color):
        bits |= part << (5 + 8 * place)
    return bits.to_bytes(16, "little")
