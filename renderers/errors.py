"""What can be wrong with a mesh file, said so that its owner understands."""

from multifold.errors import MultifoldError


class MeshError(MultifoldError):
    """A mesh file that cannot or will not be drawn."""
