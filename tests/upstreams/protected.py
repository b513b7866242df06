"""A server that requires a login at another host: `python protected.py PORT AUTHORITY`."""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.server.auth import JWTVerifier, RemoteAuthProvider
from pydantic import AnyHttpUrl

PORT, AUTHORITY = int(sys.argv[1]), sys.argv[2]
BASE = f"http://127.0.0.1:{PORT}"

server = FastMCP(
    "protected",
    auth=RemoteAuthProvider(
        token_verifier=JWTVerifier(
            jwks_uri=f"{AUTHORITY}/keys", issuer=f"{AUTHORITY}/", audience=f"{BASE}/mcp"
        ),
        authorization_servers=[AnyHttpUrl(AUTHORITY)],
        base_url=BASE,
    ),
)


@server.tool
def echo(text: str) -> str:
    """Say it again."""
    return text


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=PORT)
