"""Import of servers that other MCP clients have configured."""
