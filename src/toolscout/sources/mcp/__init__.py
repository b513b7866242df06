"""Tools of MCP servers: over stdio, Streamable HTTP or SSE, in both protocol generations."""

from ...errors import require

require("mcp", extra="mcp")
