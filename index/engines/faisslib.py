"""FAISS as it is at run time: its type stubs leave out much of it, so it is untyped here and nowhere else."""

from typing import Any, TypeAlias

from multifold.errors import needs_extra

with needs_extra("cpu"):
    import faiss as library

Index: TypeAlias = Any  # whatever FAISS made
faiss: Any = library
