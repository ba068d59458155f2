"""The address of a Milvus cluster, and the errors of one that does not answer."""

import os
from dataclasses import dataclass, field

from index.contracts import IndexEngineError, RowsLostError

MILVUS_VARIABLE, TOKEN_VARIABLE = "MULTIFOLD_MILVUS", "MULTIFOLD_MILVUS_TOKEN"


class ClusterError(IndexEngineError):
    """The cluster does not answer. What it holds is derived: nothing is lost."""


class ClusterLostError(ClusterError, RowsLostError):
    """The cluster is there, and has no such collection any more."""


class BehindError(ClusterError):
    """The cluster does not have the last changes yet, and who asked needs them."""


@dataclass(frozen=True)
class MilvusAddress:
    """A Milvus server or cluster; a path that ends in .db is the embedded one."""

    uri: str
    token: str = field(default="", repr=False)
    patience: float = 10.0  # seconds for any answer
    staleness: float = 1.0  # seconds by which searches may be behind what was written


def cluster_from_environment() -> MilvusAddress | None:
    """The cluster that the environment names, if it names one."""
    uri = os.environ.get(MILVUS_VARIABLE)
    return MilvusAddress(uri, os.environ.get(TOKEN_VARIABLE, "")) if uri else None
