"""Where tools come from: Python functions, files, MCP servers, OpenAPI documents."""
