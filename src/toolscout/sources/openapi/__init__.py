"""Operations of HTTP APIs as tools, read from OpenAPI 3.0 and 3.1 documents."""

from ...errors import require

require("httpx2", extra="mcp")
