"""The side of the gateway that MCP clients see: sessions, views, calls, notifications."""
