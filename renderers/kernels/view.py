"""A whole view: vertices -> samples -> shaded fragments -> pixels."""

from collections.abc import Callable
from typing import TypeAlias

from multifold.compiling import entry
from renderers.kernels import packed
from renderers.kernels.compiling import fingerprint, kernel, longs, octets
from renderers.kernels.faces import slot_of, weights_at
from renderers.kernels.layers import count_layers, deepest, fill_layers, list_layer
from renderers.kernels.packed import CUT, CUTOFF, MATERIAL_WIDTH, SLOTS, SOLID
from renderers.kernels.pixels import TRANSPARENT, fill_pixel, list_quad
from renderers.kernels.scene import Listed, Pointer, Scene, listed_at, scene_at
from renderers.kernels.spans import set_edges, span
from renderers.kernels.surface import color_at, shade_all
from renderers.raster import DEPTH_BITS, MOST_FRAGMENTS_PER_VIEW

Addresses: TypeAlias = tuple[int, ...]
Numbers: TypeAlias = tuple[  # vertices, faces, side, uv sets, colored, near, far
    int, int, int, int, bool, float, float
]
See: TypeAlias = Callable[[Addresses, Numbers, int], tuple[int, int]]
Paint: TypeAlias = Callable[[Addresses, Numbers, Addresses, int, bool, int], None]
TOO_MANY_LARGE = -1
_ARRAYS = len(packed.Shape._fields + packed.Looks._fields + packed.Scratch._fields)
_NUMBERS = "Tuple((int64, int64, int64, int64, boolean, float64, float64))"
_SCENE = f"UniTuple(int64, {_ARRAYS}), {_NUMBERS}"
_STEPS = float(1 << DEPTH_BITS)


def entries() -> tuple[See, Paint]:
    """Two compiled steps: `see` finds what is nearest at each sample, `paint` makes it a picture."""
    version = fingerprint()  # entries close over it, which makes it part of the key of their machine code

    @entry(f"UniTuple(int64, 2)({_SCENE}, int64)")
    def see(at: Addresses, numbers: Numbers, starts: int) -> tuple[int, int]:
        """How many see-through fragments there are, in all and in a row, counted at `starts` if not 0."""
        vertices, faces, side, uv_sets, colored, near, far = numbers
        scene = scene_at(at, vertices, faces, side, uv_sets, colored, near, far, _STEPS)
        _look_from(scene)
        if version < 0 or not (_draw_solid(scene) and _draw_cut_outs(scene)):
            return TOO_MANY_LARGE, 0
        return count_layers(scene, longs(starts)) if starts else (0, 0)

    @entry(f"void({_SCENE}, UniTuple(int64, {len(packed.Listed._fields)}), int64, boolean, int64)")
    def paint(
        at: Addresses, numbers: Numbers, room: Addresses, picture: int, glass: bool, behind: int
    ) -> None:
        """Write the bytes of the picture; `behind` is the number of its background."""
        vertices, faces, side, uv_sets, colored, near, far = numbers
        scene = scene_at(at, vertices, faces, side, uv_sets, colored, near, far, _STEPS)
        if version >= 0:
            _paint(scene, listed_at(room), octets(picture), glass, behind)

    return see, paint


@kernel
def _look_from(scene: Scene) -> None:
    """Project the vertices, and forget the faces of the last view."""
    camera, middle, zoom = scene.camera, scene.side / 2, scene.camera[12]
    for vertex in range(0, 3 * scene.vertex_count, 3):
        x = scene.vertices[vertex] - camera[0]
        y = scene.vertices[vertex + 1] - camera[1]
        z = scene.vertices[vertex + 2] - camera[2]
        inverse = -1 / (x * camera[5] + y * camera[8] + z * camera[11])
        right = x * camera[3] + y * camera[6] + z * camera[9]
        up = x * camera[4] + y * camera[7] + z * camera[10]
        scene.screen[vertex] = middle + right * zoom * inverse
        scene.screen[vertex + 1] = middle - up * zoom * inverse
        scene.screen[vertex + 2] = inverse
    for slot in range(SLOTS):
        scene.held[slot] = -1


@kernel
def _draw_solid(scene: Scene) -> bool:
    """Let the solid faces compete for the samples; False if that takes too long."""
    keys, fragments = scene.keys, 0
    for sample in range(scene.side * scene.side):
        keys[sample] = 0
    for face in range(scene.face_count):
        if scene.opacity_of[scene.material_of[face]] != SOLID:
            continue
        first, last = set_edges(scene, face)
        for row in range(first, last):
            begin, count, key, step = span(scene, row, face)
            fragments += count
            for sample in range(row * scene.side + begin, row * scene.side + begin + count):
                keys[sample] = max(keys[sample], key)
                key += step
        if fragments > MOST_FRAGMENTS_PER_VIEW:
            return False
    return True


@kernel
def _draw_cut_outs(scene: Scene) -> bool:
    """Let faces with holes compete; holes leave no trace."""
    fragments = 0
    for face in range(scene.face_count):
        if scene.opacity_of[scene.material_of[face]] != CUT:
            continue
        first, last = set_edges(scene, face)
        for row in range(first, last):
            begin, count, key, step = span(scene, row, face)
            fragments += count
            for column in range(begin, begin + count):
                if key > scene.keys[row * scene.side + column] and _is_there(scene, face, column, row):
                    scene.keys[row * scene.side + column] = key
                key += step
        if fragments > MOST_FRAGMENTS_PER_VIEW:
            return False
    return True


@kernel
def _is_there(scene: Scene, face: int, column: int, row: int) -> bool:
    """Whether the face has no hole at this sample."""
    slot = slot_of(scene, face)
    alpha = color_at(scene, slot, weights_at(scene, slot, column + 0.5, row + 0.5))[3]
    return bool(alpha >= scene.materials[scene.material_of[face] * MATERIAL_WIDTH + CUTOFF])


@kernel
def _paint(scene: Scene, listed: Listed, picture: Pointer, glass: bool, background: int) -> None:
    """Row by row: list what lies in the pixels, shade it, add it up."""
    size, channels = scene.side // 2, 4 if background == TRANSPARENT else 3
    if glass:
        fill_layers(scene, listed)
    for row in range(size):
        shade_all(scene, listed, _list_row(scene, listed, 2 * row, glass))
        for pixel in range(size):
            at = (row * size + pixel) * channels
            fill_pixel(scene, listed, pixel, picture, at, glass, background)


@kernel
def _list_row(scene: Scene, listed: Listed, row: int, glass: bool) -> int:
    """List the fragments of a row of pixels; gives how many there are."""
    quad, count, keys = 0, 0, scene.keys
    for column in range(0, scene.side, 2):
        upper = row * scene.side + column
        lower, layers = upper + scene.side, 0
        listed.quads[column // 2] = quad
        if glass:
            layers = deepest(scene, listed.starts, row, column)
        if layers or keys[upper] | keys[upper + 1] | keys[lower] | keys[lower + 1]:
            scene.four[0], scene.four[1] = keys[upper], keys[upper + 1]
            scene.four[2], scene.four[3] = keys[lower], keys[lower + 1]
            count, quad = list_quad(scene, listed, quad, count, row, column), quad + 1
        for layer in range(layers):
            count, quad = list_layer(scene, listed, layer, quad, count, row, column), quad + 1
    listed.quads[scene.side // 2] = quad
    return count
