"""Where a cluster of Milvus is, and what is told when it is not there."""

import os
from dataclasses import dataclass, field

from index.base import EngineError

VARIABLE, TOKEN = "MULTIFOLD_MILVUS", "MULTIFOLD_MILVUS_TOKEN"


class ClusterError(EngineError):
    """The cluster does not answer. What it holds is derived: nothing is lost."""


class GoneError(ClusterError):
    """The cluster is there, and has no such collection any more."""


@dataclass(frozen=True)
class Cluster:
    """A Milvus server or cluster; a path that ends in .db is the embedded one."""

    uri: str
    token: str = field(default="", repr=False)
    patience: float = 10.0  # seconds for any answer


def from_environment() -> Cluster | None:
    """The cluster that the environment names, if it names one."""
    uri = os.environ.get(VARIABLE)
    return Cluster(uri, os.environ.get(TOKEN, "")) if uri else None
