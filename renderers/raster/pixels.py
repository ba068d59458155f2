"""Samples -> what to shade in each pixel, and the light of its fragments -> the bytes of a pixel.

A pixel is 2 by 2 samples. A face is shaded once in a pixel, in the middle of the samples it has there, and
weighs as much as they let through: all of it behind nothing, less behind glass. Small faces of one material
that lie beside each other, on the surface and in its texture, and face the same way count as one, the first
of them: on dense meshes they would be shaded apart and look alike.

The see-through fragments that nothing solid hides lie in one list, sample after sample, in a sample the
nearest first. The list is counted, made, filled and used view by view.
"""

import numpy as np

from renderers.look import CLEAR
from renderers.raster.compiling import Single, inline_kernel, kernel
from renderers.raster.faces import DEPTH_BITS, FACE_MASK, set_edges, span
from renderers.raster.scene import FragmentPointers, Pointer, ScenePointers

SAMPLES_PER_SIDE = 2  # samples along a pixel's side
MOST_LAYERS = 64  # see-through faces at one sample; those further back are left out
MERGE_COSINE = np.float32(0.95)  # 18 degrees
MERGE_UV = np.float32(1 / 64)  # less than a field of a palette
MERGE_DEPTH = 1 << (DEPTH_BITS - 6)  # as far apart as neighbouring samples of a steep face
WHITE, BLACK, TRANSPARENT = range(3)
_ZERO, _QUARTER, _HALF, _ONE = np.float32(0), np.float32(0.25), np.float32(0.5), np.float32(1)
_BRIGHTEST, _LEAST = np.float32(65535), np.float32(1e-6)


@inline_kernel
def list_quad(
    scene: ScenePointers, listed: FragmentPointers, quad: int, count: int, row: int, column: int
) -> int:
    """List the fragments of the four samples in `scene.four`; gives how many are listed now."""
    four = scene.four
    owners = 4 * quad
    face = four[0] & FACE_MASK
    if face == four[1] & FACE_MASK and face == four[2] & FACE_MASK and face == four[3] & FACE_MASK:
        for corner in range(4):
            listed.owners[owners + corner] = count if face > 0 else -1
        return _with(listed, count, face - 1, column + 1.0, row + 1.0) if face > 0 else count
    for corner in range(4):
        four[4 + corner] = _leading(scene, corner)
    for corner in range(4):
        face, owner = four[4 + corner] >> 1, -1
        for earlier in range(corner - 1, -1, -1):
            if four[4 + earlier] >> 1 == face:
                owner = listed.owners[owners + earlier]
        if face > 0 and owner < 0:
            owner, count = count, _with_middle(scene, listed, count, corner, row, column)
        listed.owners[owners + corner] = owner
    return count


@kernel
def _leading(scene: ScenePointers, corner: int) -> int:
    """The face + 1 that counts at a sample, times two, and one more if it leads."""
    face = scene.four[corner] & FACE_MASK
    if face == 0:
        return 0
    for earlier in range(corner if scene.colored else 0, corner):
        led = scene.four[4 + earlier]
        if led & 1 and _alike(scene, scene.four[earlier], scene.four[corner]):
            return int(led - 1)
    return int(2 * face + 1)


@kernel
def _alike(scene: ScenePointers, first: int, second: int) -> bool:
    """Whether two faces, by their keys, may count as one."""
    a, b = (first & FACE_MASK) - 1, (second & FACE_MASK) - 1
    if scene.material_of[a] != scene.material_of[b] or abs((first >> 32) - (second >> 32)) >= MERGE_DEPTH:
        return False
    uv = scene.uv
    first_uv = 2 * scene.faces[3 * a]
    second_uv = 2 * scene.faces[3 * b]
    if abs(uv[first_uv] - uv[second_uv]) >= MERGE_UV or abs(uv[first_uv + 1] - uv[second_uv + 1]) >= MERGE_UV:
        return False
    normals, a, b = scene.normals, 9 * a, 9 * b
    bend = normals[a] * normals[b] + normals[a + 1] * normals[b + 1] + normals[a + 2] * normals[b + 2]
    return bool(abs(bend) > MERGE_COSINE)


@inline_kernel
def _with(listed: FragmentPointers, count: int, face: int, x: float, y: float) -> int:
    listed.faces[count], listed.x[count], listed.y[count] = face, x, y
    return count + 1


@kernel
def _with_middle(
    scene: ScenePointers, listed: FragmentPointers, count: int, corner: int, row: int, column: int
) -> int:
    """List the face of a corner, in the middle of the samples that it counts at."""
    four = scene.four
    face = four[4 + corner] >> 1
    b, c, d = four[5] >> 1 == face, four[6] >> 1 == face, four[7] >> 1 == face
    samples = (four[4] >> 1 == face) + b + c + d
    x, y = 0.5 + (b + 1.0 * d) / samples, 0.5 + (c + 1.0 * d) / samples
    return _with(listed, count, face - 1, x + column, y + row)


@inline_kernel
def fill_pixel(
    scene: ScenePointers,
    listed: FragmentPointers,
    pixel: int,
    picture: Pointer,
    at: int,
    glass: bool,
    background: int,
) -> None:
    """Add up the light of a pixel and write its sRGB bytes before its background."""
    first, last = listed.quads[pixel], listed.quads[pixel + 1]
    if first == last:
        for channel in range(4 if background == TRANSPARENT else 3):
            picture[at + channel] = 255 if background == WHITE else 0
        return
    for value in range(16 if glass else 4):
        scene.glass[value] = _ONE if value < 4 else _ZERO
    for quad in range(first + 1, last):
        for corner in range(4):
            if listed.owners[4 * quad + corner] >= 0:
                _lay_over(scene, corner, listed.colors, 4 * listed.owners[4 * quad + corner])
    solid, rest = _solid(scene, listed, 4 * first)
    covered = min(max(_ONE - rest, _ZERO), _ONE)
    for channel in range(3):
        light = np.float32(solid[channel])
        if background == WHITE:
            light += rest
        if glass:
            values = scene.glass
            first = 4 + channel
            light += (values[first] + values[first + 3] + values[first + 6] + values[first + 9]) * _QUARTER
        if background == TRANSPARENT:
            light /= max(covered, _LEAST)
        step = min(max(light, _ZERO), _ONE) * _BRIGHTEST + _HALF
        picture[at + channel] = scene.bytes_of_light[int(step)]
    if background == TRANSPARENT:
        picture[at + 3] = np.uint8(np.rint(covered * np.float32(255)))


@kernel
def _lay_over(scene: ScenePointers, corner: int, colors: Pointer, color: int) -> None:
    """One more layer behind those before."""
    through = scene.glass[corner]
    opacity = min(max(colors[color + 3], _ZERO), _ONE)
    for channel in range(3):
        scene.glass[4 + 3 * corner + channel] += colors[color + channel] * through * opacity
    scene.glass[corner] = through * (_ONE - opacity)


@inline_kernel
def _solid(
    scene: ScenePointers, listed: FragmentPointers, quad: int
) -> tuple[tuple[float, float, float], Single]:
    """The light of solid faces in a pixel, and the share that they leave free."""
    red = 0.0
    green = 0.0
    blue = 0.0
    owners = listed.owners
    colors = listed.colors
    for corner in range(4):
        owner = owners[quad + corner]
        earlier = False
        for other in range(corner):
            earlier = earlier or owners[quad + other] == owner
        if owner >= 0 and not earlier:
            weight = _weight(scene, owners, quad, owner)
            red += colors[4 * owner] * weight
            green += colors[4 * owner + 1] * weight
            blue += colors[4 * owner + 2] * weight
    return (red, green, blue), _weight(scene, owners, quad, -1)


@inline_kernel
def _weight(scene: ScenePointers, owners: Pointer, quad: int, owner: int) -> Single:
    """What the samples of one owner let through, of all that a pixel could."""
    a = scene.glass[0] if owners[quad] == owner else _ZERO
    b = scene.glass[1] if owners[quad + 1] == owner else _ZERO
    c = scene.glass[2] if owners[quad + 2] == owner else _ZERO
    d = scene.glass[3] if owners[quad + 3] == owner else _ZERO
    return (a + b + c + d) * _QUARTER


@kernel
def count_layers(scene: ScenePointers, starts: Pointer) -> tuple[int, int]:
    """Fill in `starts`; gives how many fragments there are, in all and in the fullest row of pixels."""
    samples = scene.side * scene.side
    total = 0
    most = 0
    side = scene.side
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
    starts = listed.starts
    samples = scene.side * scene.side
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
            value = values[end]
            place = end
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
