"""What an agent does over MCP, without the model that decides it: agent.py "a red chair"

It starts `multifold mcp`, lists the tools, searches, looks at the best hit, and asks why it matches. An agent
of yours does the same with this entry in its settings:

    {"mcpServers": {"multifold": {"command": "multifold", "args": ["mcp", "--url", "http://127.0.0.1:8000"]}}}
"""

import asyncio
import base64
import os
import sys
import time
from pathlib import Path

from mcp import Client, StdioServerParameters

from multifold.client import Client as Service

URL = os.environ.get("MULTIFOLD_URL", "http://127.0.0.1:8000")


async def use(text: str) -> None:
    arguments = ["-m", "multifold", "mcp", "--url", URL]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(server) as agent:
        print("tools:", *(tool.name for tool in (await agent.list_tools()).tools))
        found = (await agent.call_tool("search", {"text": text, "limit": 3})).structured_content
        best = found["items"][0]["id"]
        print("found:", *(one["id"] for one in found["items"]))
        about, picture = (await agent.call_tool("look", {"id": best})).content
        Path("seen.webp").write_bytes(base64.b64decode(picture.data))
        print("saw:", about.text[:200])
        why = (await agent.call_tool("explain", {"item": best, "text": text})).structured_content
        print("why:", why["words_of_the_query"] or why["sides"])


if __name__ == "__main__":
    with Service(URL) as service:
        while not service.ready():
            time.sleep(0.5)
    asyncio.run(use(sys.argv[1]))
