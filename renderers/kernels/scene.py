"""The scene as kernels see it: bare pointers and a few numbers, passed from kernel to kernel."""

from typing import Any, NamedTuple, TypeAlias

from renderers.kernels.compiling import doubles, floats, ints, kernel, longs, octets

Pointer: TypeAlias = Any  # to floats, doubles, ints, longs or octets, as the scene says


class Scene(NamedTuple):
    """Pointers in the order of packed.Shape, packed.Looks and packed.Scratch; then numbers."""

    vertices: Pointer
    faces: Pointer
    normals: Pointer
    uv: Pointer
    uv1: Pointer
    colors: Pointer
    material_of: Pointer
    opacity_of: Pointer
    materials: Pointer
    textures_of: Pointer
    maps: Pointer
    moves: Pointer
    levels: Pointer
    camera: Pointer
    lights: Pointer
    bytes_of_light: Pointer
    screen: Pointer
    keys: Pointer
    edges: Pointer
    held: Pointer
    planes: Pointer
    values: Pointer
    block: Pointer
    four: Pointer
    glass: Pointer
    vertex_count: int
    face_count: int
    side: int  # in samples
    uv_sets: int
    colored: bool  # whether vertices have colours of their own
    far: float  # the least 1/distance
    depth_scale: float  # from 1/distance to whole numbers


@kernel
def scene_at(
    at: tuple[int, ...],
    vertex_count: int,
    face_count: int,
    side: int,
    uv_sets: int,
    colored: bool,
    near: float,
    far: float,
    steps: float,
) -> Scene:
    """The scene whose arrays lie at these addresses."""
    return Scene(
        floats(at[0]),
        ints(at[1]),
        floats(at[2]),
        floats(at[3]),
        floats(at[4]),
        floats(at[5]),
        ints(at[6]),
        ints(at[7]),
        floats(at[8]),
        ints(at[9]),
        longs(at[10]),
        floats(at[11]),
        longs(at[12]),
        doubles(at[13]),
        floats(at[14]),
        octets(at[15]),
        doubles(at[16]),
        longs(at[17]),
        doubles(at[18]),
        longs(at[19]),
        doubles(at[20]),
        floats(at[21]),
        floats(at[22]),
        longs(at[23]),
        floats(at[24]),
        vertex_count,
        face_count,
        side,
        uv_sets,
        colored,
        far,
        steps / (near - far),
    )


class Listed(NamedTuple):
    """Pointers in the order of packed.Listed."""

    quads: Pointer
    owners: Pointer
    faces: Pointer
    x: Pointer
    y: Pointer
    colors: Pointer
    starts: Pointer
    layers: Pointer


@kernel
def listed_at(at: tuple[int, ...]) -> Listed:
    """The lists that lie at these addresses."""
    return Listed(
        longs(at[0]),
        longs(at[1]),
        longs(at[2]),
        doubles(at[3]),
        doubles(at[4]),
        floats(at[5]),
        longs(at[6]),
        longs(at[7]),
    )
