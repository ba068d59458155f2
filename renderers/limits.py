"""How much one mesh file may cost: checked before memory is spent."""

from dataclasses import dataclass

from renderers.errors import MeshError


@dataclass(frozen=True)
class Limits:
    """The largest file that is drawn; the defaults are generous for a machine with a few gigabytes."""

    file_bytes: int = 256 << 20  # the file, or the file and its siblings together
    unpacked_bytes: int = 1 << 30  # of what the file holds compressed, all together
    faces: int = 4_000_000  # after instancing
    vertices: int = 12_000_000  # after instancing
    instances: int = 20_000
    points: int = 50_000  # of one point cloud; of a larger one, so many are drawn
    image_pixels: int = 64_000_000  # of one picture, and of all of them together
    texture_side: int = 1024  # larger textures are shrunk to this

    def check(self, what: str, count: int, most: int) -> None:
        """Refuse more than `most`, naming what there is too much of."""
        if count > most:
            raise MeshError(f"the file has {count:,} {what}; at most {most:,} are drawn. Simplify it first.")


DEFAULT_LIMITS = Limits()
