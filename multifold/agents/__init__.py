"""The tools that agents use over the Model Context Protocol (MCP), and the servers that offer them."""
