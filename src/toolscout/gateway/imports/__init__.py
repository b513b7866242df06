"""Importing the servers that other MCP clients have configured."""
