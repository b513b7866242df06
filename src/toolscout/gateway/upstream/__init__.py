"""The side of the gateway that faces MCP servers: starting, pinning, trusting them."""
