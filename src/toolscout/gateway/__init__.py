"""The MCP gateway: one entry before many servers."""

from ..errors import require

require("fastmcp", extra="mcp")
