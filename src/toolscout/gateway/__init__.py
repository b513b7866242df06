"""The MCP gateway: one MCP server in front of many."""

from ..errors import require

require("fastmcp", extra="mcp")
