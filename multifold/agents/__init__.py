"""The tools that agents use over the Model Context Protocol (MCP), and the servers that offer them."""

from importlib.util import find_spec

NO_AGENTS = "MCP comes with the extra 'mcp' (pip install -e '.[mcp]')"


def agents_installed() -> bool:
    """Whether the package is here that the servers need."""
    return find_spec("mcp") is not None
