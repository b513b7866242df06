"""The upstream side of the gateway: MCP servers, their tools and their pins."""
