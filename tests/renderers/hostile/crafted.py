"""Files made with ill will, each with what its refusal must say, or "" where it may also be drawn."""

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tests.renderers import made
from tests.renderers.glb import Glb, pack
from tests.renderers.hostile.originals import MTL, OBJ, colored_3mf, gltf, made_by, originals

OUTSIDE, MISSING = "outside its folder", "does not lie beside"
CORNERS = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"
CANARY = "canary"  # the name without suffix of the files that lie outside
FORBIDDEN = ("../canary.bin", "..%2fcanary.bin", "..\\canary.bin", "%2e%2e/canary.bin", "x/../../canary.bin")
ELSEWHERE = ("/etc/passwd", "file:///etc/passwd", "http://localhost/x.bin", "C:\\x.bin")
ODD_NAMES = ("a" * 5000, "x\0y", ".", "")


@dataclass(frozen=True)
class Case:
    """A mesh file, called mesh.SUFFIX, and those beside it."""

    name: str
    files: dict[str, bytes]
    reason: str = ""
    links: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> str:
        return next(name for name in self.files if name.startswith("mesh"))


def crafted() -> list[Case]:
    return [*paths(), *scenes(), *counts(), *texts(), *archives(), *trees(), *wrong_names(), *empty()]


def changed(change: Callable[[Glb], object]) -> bytes:
    """A square, then changed."""

    def make(glb: Glb) -> None:
        glb.square(glb.material())
        change(glb)

    return made_by(make)


def paths() -> list[Case]:
    """Files that ask for files elsewhere."""
    cases = [_buffer(uri, OUTSIDE) for uri in FORBIDDEN] + [
        _buffer(uri, MISSING) for uri in (*ELSEWHERE, *ODD_NAMES)
    ]
    linked = gltf()
    del linked["m.bin"]
    cases.append(Case("link outside", linked, OUTSIDE, {"m.bin": "../canary.bin"}))
    cases.append(Case("link to itself", linked, MISSING, {"m.bin": "m.bin"}))
    for uri in ("../canary.png", "/etc/passwd", "mesh.gltf"):
        tree = json.loads(gltf()["mesh.gltf"])
        tree["images"] = [{"uri": uri}]
        reason = OUTSIDE if uri.startswith("..") else ""
        cases.append(Case(f"image {uri}", {**gltf(), "mesh.gltf": json.dumps(tree).encode()}, reason))
    obj = OBJ.replace("m.mtl", "../canary.mtl").encode()
    picture = MTL.replace("t.png", "../canary.png").encode()
    ply = b"ply\nformat ascii 1.0\ncomment TextureFile ../canary.png\nelement vertex 3\nproperty float x\n"
    ply += b"property float y\nproperty float z\nproperty float s\nproperty float t\nelement face 1\n"
    ply += b"property list uchar int vertex_indices\nend_header\n0 0 0 0 0\n1 0 0 1 0\n0 1 0 0 1\n3 0 1 2\n"
    dae = made.dae('<texture texture="k"/>')
    step = made.step_box(1, 1, 1, (1, 0, 0)).replace(
        b"ENDSEC;\nEND", b"#900=DOCUMENT_FILE('../canary.step');\nENDSEC;\nEND"
    )
    return [
        *cases,
        Case("library outside", {"mesh.obj": obj}, OUTSIDE),
        Case("picture of a library outside", {"mesh.obj": OBJ.encode(), "m.mtl": picture}, OUTSIDE),
        Case("ply picture outside", {"mesh.ply": ply}, OUTSIDE),
        Case("dae picture outside", {"mesh.dae": dae.replace("t.png", "../canary.png").encode()}, OUTSIDE),
        Case("dae picture elsewhere", {"mesh.dae": dae.replace("t.png", "file:///etc/passwd").encode()}),
        Case("step of other files", {"mesh.step": step}, "put together from others"),
        Case("library is the mesh", {"mesh.obj": OBJ.replace("m.mtl", "mesh.obj").encode()}),
    ]


def scenes() -> list[Case]:
    """Loops and floods."""

    def flood(glb: Glb) -> None:
        glb.tree["nodes"] += [{"mesh": 0}] * 25_000
        glb.tree["scenes"][0]["nodes"] = list(range(25_001))

    def instances(glb: Glb) -> None:
        huge = glb.add("accessors", count=10**9, type="VEC3", componentType=5126)
        extension = {"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": huge}}}
        glb.tree["nodes"][0]["extensions"] = extension

    def chain(glb: Glb) -> None:
        glb.tree["nodes"] += [{"children": [one + 2]} for one in range(20_000)] + [{}]

    components = "".join(
        f'<object id="{one + 1}"><components>'
        + f'<component objectid="{one}"/>' * 2
        + "</components></object>"
        for one in range(1, 41)
    )
    loop = '<object id="1"><components><component objectid="1"/></components></object>'
    nested = "".join(
        f'<node id="n{one}">{f"<instance_node url={chr(34)}#n{one + 1}{chr(34)}/>" * 2}</node>'
        for one in range(40)
    )
    nodes = f"<library_nodes>{nested}<node id='n40'/></library_nodes>"
    doubling = made.dae(node='<instance_node url="#n0"/>', more=nodes)
    own = made.dae(
        node='<instance_node url="#n0"/>',
        more='<library_nodes><node id="n0"><instance_node url="#n0"/></node></library_nodes>',
    )
    glb: dict[str, tuple[Callable[[Glb], object], str]] = {
        "a loop": (lambda glb: glb.tree["nodes"][0].update(children=[0]), "loop"),
        "a loop of two": (
            lambda glb: (glb.add("nodes", children=[0]), glb.tree["nodes"][0].update(children=[1])),
            "loop",
        ),
        "a flood of nodes": (flood, "instances"),
        "a flood of instances": (instances, "instances"),
        "a chain of nodes": (chain, ""),
        "a child of a wrong kind": (lambda glb: glb.tree["nodes"][0].update(children=["0"]), "damaged"),
        "a matrix of 3 numbers": (lambda glb: glb.tree["nodes"][0].update(matrix=[1, 2, 3]), "damaged"),
        "a place at infinity": (
            lambda glb: glb.tree["nodes"][0].update(translation=[1e308, 1e308, 0], scale=[1e308] * 3),
            "infinity|extent",
        ),
        "no scale at all": (lambda glb: glb.tree["nodes"][0].update(scale=[0, 0, 0]), "extent"),
        "nodes that are none": (lambda glb: glb.tree.update(nodes=7), "damaged"),
        "meshes that are none": (lambda glb: glb.tree.update(meshes={"0": {}}), "damaged"),
        "a skin without joints": (
            lambda glb: (glb.add("skins", joints=[]), glb.tree["nodes"][0].update(skin=0)),
            "joint",
        ),
    }
    return [
        *(Case(name, {"mesh.glb": changed(change)}, reason) for name, (change, reason) in glb.items()),
        Case(
            "doubled components",
            {"mesh.3mf": made.package_3mf(made.square_3mf() + components, '<item objectid="41"/>')},
            "instances",
        ),
        Case("a component of itself", {"mesh.3mf": made.package_3mf(loop)}, "itself"),
        Case("doubled nodes", {"mesh.dae": doubling.encode()}, "instances"),
        Case("a node of itself", {"mesh.dae": own.encode()}, "loop"),
    ]


def counts() -> list[Case]:
    """Sizes that are not so."""
    values: list[Any] = [-1, 1 << 50, 1.5, "4", None, True, [], 10**400]
    cases = []
    for key in ("count", "byteOffset", "componentType", "type", "bufferView"):
        for value in values[:-1] if key == "count" else values[:4]:
            data = changed(partial(_restate, {key: value}))
            cases.append(Case(f"{key} {value!r}", {"mesh.glb": data}, "" if value is True else "file"))
    binary = b"ply\nformat binary_little_endian 1.0\n"
    boasts = {
        "mesh.ply": binary + b"element vertex 4000000000\nproperty float x\nend_header\n",
        "mesh.off": b"OFF\n4000000000 1 0\n0 0 0\n",
        "mesh.stl": bytes(80) + struct.pack("<I", 4_000_000_000) + bytes(50),
    }
    listed = binary + b"element vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    listed += b"element face 1\nproperty list uint int vertex_indices\nend_header\n" + bytes(36)
    listed += struct.pack("<I", 0xFFFFFFFF)
    names = ["NaN", "Infinity", "-Infinity", "1e999"]
    cases += [Case(f"boasting {name}", {name: data}, "file") for name, data in boasts.items()]
    for name in names:
        place = f"v {name} 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n".encode()
        text = gltf()["mesh.gltf"].replace(b"0.5", name.encode())
        cases.append(Case(f"place {name}", {"mesh.obj": place}, "damaged"))
        cases.append(Case(f"json {name}", {**gltf(), "mesh.gltf": text}))
    return [*cases, Case("a list of 4 billion", {"mesh.ply": listed}, "damaged")]


def _restate(told: dict[str, Any], glb: Glb) -> None:
    glb.tree["accessors"][0].update(told)


def texts() -> list[Case]:
    """Odd encodings and shapes of text."""
    text = gltf()["mesh.gltf"].decode()
    wide = made.dae().replace('?xml version="1.0"', '?xml version="1.0" encoding="utf-16"')
    return [
        Case("obj in utf-16", {**_obj(), "mesh.obj": OBJ.encode("utf-16")}),
        Case("obj in latin-1", {"mesh.obj": b"# caf\xe9 \xff\xfe\n" + OBJ.encode()}),
        Case("obj with zeros", {"mesh.obj": OBJ.replace("square", "\0\0").encode()}),
        Case("obj with lone returns", {"mesh.obj": OBJ.replace("\n", "\r").encode()}),
        Case("obj in one line", {"mesh.obj": b"f " + b"1 " * 200_000}),
        Case("obj of slashes", {"mesh.obj": CORNERS + b"f 1//////2 2/ 3\n"}),
        Case("obj of huge indices", {"mesh.obj": CORNERS + b"f 1 2 99999999999999999999\n"}, "damaged"),
        Case("obj of one polygon", {"mesh.obj": _polygon(5000)}),
        Case("gltf with a mark", {**gltf(), "mesh.gltf": b"\xef\xbb\xbf" + gltf()["mesh.gltf"]}),
        Case("gltf in utf-16", {**gltf(), "mesh.gltf": text.encode("utf-16")}, "not valid JSON"),
        Case("stl that begins like text", {"mesh.stl": b"solid" + originals()["stl"]["mesh.stl"][5:]}),
        Case("stl text without an end", {"mesh.stl": originals()["stl text"]["mesh.stl"][:300]}),
        Case("off with comments", {"mesh.off": b"OFF # a\n# b\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"}),
        Case("dae in utf-16", {"mesh.dae": wide.encode("utf-16")}),
        Case("step of nonsense", {"mesh.step": b"ISO-10303-21;" + b"#1=A(#1);" * 1000}, "damaged"),
    ]


def archives() -> list[Case]:
    """Bombs."""
    lying = bytearray(colored_3mf())
    at = lying.rfind(b"PK\x01\x02")
    lying[at + 24 : at + 28] = b"\xff\xff\xff\x7f"
    locked = bytearray(colored_3mf())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := locked.find(mark, start + 1)) >= 0:
            locked[start + place] |= 1
    zeros = made.zipped({"3D/3dmodel.model": bytes(30_000_000)})
    many = made.zipped({f"{one}": b"" for one in range(10_001)})
    return [
        Case("a zip that lies", {"mesh.3mf": bytes(lying)}, "unpacked"),
        Case("a locked zip", {"mesh.3mf": bytes(locked)}, "password"),
        Case("a zip of zeros", {"mesh.3mf": zeros}, "XML"),
        Case("a zip of many", {"mesh.3mf": many}, "entries"),
        Case("a zip of nothing", {"mesh.3mf": made.zipped({})}, "holds no"),
        Case(
            "a zip with paths",
            {"mesh.3mf": made.zipped({"../canary.model": b"x", "/etc/x": b"x"})},
            "holds no",
        ),
        Case("a zip called glb", {"mesh.glb": colored_3mf()}, "archive"),
        Case("a picture that boasts", {"mesh.glb": _pictured(_png_head(60_000, 60_000))}, "pixels"),
        Case("a picture of one line", {"mesh.glb": _pictured(_png_head(2_000_000_000, 1))}, "pixels"),
        Case("a picture of no kind", {"mesh.glb": _pictured(POSTSCRIPT)}),
        Case("an obj's picture that boasts", {**_obj(), "t.png": _png_head(60_000, 60_000)}),
        Case("an obj's picture of postscript", {**_obj(), "t.png": POSTSCRIPT}),
    ]


def trees() -> list[Case]:
    """XML and JSON against their parsers."""
    external = '<!DOCTYPE COLLADA [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    laughs = "<!DOCTYPE COLLADA [<!ENTITY a 'ha'>" + "".join(
        f"<!ENTITY {chr(98 + one)} '{f'&{chr(97 + one)};' * 10}'>" for one in range(9)
    )
    laughs += "]>"
    deep = "<x>" * 100_000
    return [
        Case("dae that fetches", {"mesh.dae": (external + made.dae("&x;")[21:]).encode()}, "document type"),
        Case("dae that laughs", {"mesh.dae": (laughs + made.dae("&j;")[21:]).encode()}, "document type"),
        Case(
            "3mf that fetches",
            {"mesh.3mf": made.zipped({"3D/3dmodel.model": external + "<model>&x;</model>"})},
            "document type",
        ),
        Case("dae too deep", {"mesh.dae": deep.encode()}, "too deep"),
        Case("json too deep", {"mesh.glb": pack(b'{"a":' * 100_000, b"")}, "not valid JSON"),
        Case("json lists too deep", {"mesh.gltf": b"[" * 1_000_000}, "not valid JSON"),
        Case(
            "json of a long number",
            {"mesh.gltf": b'{"asset":{"version":"2.0"},"scene":' + b"9" * 10_000 + b"}"},
            "file|JSON",
        ),
        Case(
            "json of many keys",
            {"mesh.gltf": json.dumps({f"k{one}": one for one in range(100_000)}).encode()},
        ),
    ]


def wrong_names() -> list[Case]:
    """Every file under the name of every other kind."""
    firsts = {name: files for name, files in originals().items() if " " not in name}
    return [
        Case(
            f"{kind} called {other}",
            {f"mesh.{other}": files[f"mesh.{kind}"]},
            "" if {kind, other} == {"glb", "gltf"} else "file",
        )
        for kind, files in firsts.items()
        for other in firsts
        if kind != other
    ]


def empty() -> list[Case]:
    kinds = sorted({next(iter(files)) for files in originals().values()})
    contents = {"nothing": b"", "a space": b" ", "zeros": bytes(1000), "ones": b"\xff" * 1000}
    return [
        Case(f"{what} in {kind}", {kind: data}, "file") for kind in kinds for what, data in contents.items()
    ]


def _obj() -> dict[str, bytes]:
    return {"mesh.obj": OBJ.encode(), "m.mtl": MTL.encode()}


def _buffer(uri: str, reason: str) -> Case:
    tree = json.loads(gltf()["mesh.gltf"])
    tree["buffers"][0]["uri"] = uri
    return Case(f"buffer {uri[:30]!r}", {"mesh.gltf": json.dumps(tree).encode()}, reason)


def _pictured(data: bytes) -> bytes:
    glb = Glb()
    image = glb.add("images", bufferView=glb.view(data))
    glb.square(glb.material(pbr={"baseColorTexture": {"index": glb.add("textures", source=image)}}))
    return glb.bytes()


def _png_head(width: int, height: int) -> bytes:
    """The beginning of a picture of zeros, far larger than its file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1_000_000)))
        + chunk(b"IEND", b"")
    )


def _polygon(corners: int) -> bytes:
    angles = np.arange(corners) * (2 * np.pi / corners)
    places = "".join(f"v {np.cos(angle):.6f} {np.sin(angle):.6f} 0\n" for angle in angles)
    return (places + "f " + " ".join(str(one + 1) for one in range(corners)) + "\n").encode()
