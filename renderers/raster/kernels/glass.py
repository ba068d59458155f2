"""See-through faces: the twin of `renderers.raster.glass`.

The see-through fragments that nothing solid hides lie in one list, sample after sample, in a sample the
nearest first. The list is counted, made, filled and used view by view.
"""

from renderers.raster.glass import MOST_LAYERS
from renderers.raster.kernels.compiling import inline_kernel, kernel
from renderers.raster.kernels.pixels import list_quad
from renderers.raster.kernels.scene import CLEAR, FragmentPointers, Pointer, ScenePointers
from renderers.raster.kernels.spans import set_edges, span


@kernel
def count_layers(scene: ScenePointers, starts: Pointer) -> tuple[int, int]:
    """Fill in `starts`; gives how many fragments there are, in all and in the fullest row of pixels."""
    samples, total, most, side = scene.side * scene.side, 0, 0, scene.side
    for sample in range(samples + 1):
        starts[sample] = 0
    _scatter(scene, starts, starts, False)
    for sample in range(samples + 1):
        starts[sample], total = total, total + starts[sample]
    for row in range(0, side, 2):
        most = max(most, starts[(row + 2) * side] - starts[row * side])
    return total, most


@kernel
def fill_layers(scene: ScenePointers, listed: FragmentPointers) -> None:
    """Put every fragment in its place."""
    starts, samples = listed.starts, scene.side * scene.side
    _scatter(scene, starts, listed.layers, True)
    for sample in range(samples, 0, -1):  # filling moved each start to its end
        starts[sample] = starts[sample - 1]
    starts[0] = 0
    for sample in range(samples):
        _sort_falling(listed.layers, starts[sample], starts[sample + 1])


@kernel
def _scatter(scene: ScenePointers, counts: Pointer, keys: Pointer, fill: bool) -> None:
    """Count the fragments of each sample, or put them where its count stands."""
    for face in range(scene.face_count):
        if scene.opacity_of[scene.material_of[face]] != CLEAR:
            continue
        first, last = set_edges(scene, face)
        for row in range(first, last):
            begin, count, key, step = span(scene, row, face)
            for sample in range(row * scene.side + begin, row * scene.side + begin + count):
                if key > scene.keys[sample]:
                    if fill:
                        keys[counts[sample]] = key
                    counts[sample] += 1
                key += step


@kernel
def _sort_falling(values: Pointer, first: int, last: int) -> None:
    """Shell's sort: quick for the few that a sample has, and never slow."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for end in range(first + gap, last):
            value, place = values[end], end
            while place >= first + gap and values[place - gap] < value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@inline_kernel
def layer_count(scene: ScenePointers, starts: Pointer, row: int, column: int) -> int:
    """How many layers of glass the pixel with this first sample has."""
    upper, most = row * scene.side + column, 0
    for sample in (upper, upper + 1, upper + scene.side, upper + scene.side + 1):
        most = max(most, starts[sample + 1] - starts[sample])
    return min(most, MOST_LAYERS)


@inline_kernel
def list_layer(
    scene: ScenePointers, listed: FragmentPointers, layer: int, quad: int, count: int, row: int, column: int
) -> int:
    """List the fragments of one layer of glass in a pixel; gives how many are listed now."""
    for corner in range(4):
        sample = (row + corner // 2) * scene.side + column + corner % 2
        place = listed.starts[sample] + layer
        scene.four[corner] = listed.layers[place] if place < listed.starts[sample + 1] else 0
    return list_quad(scene, listed, quad, count, row, column)
