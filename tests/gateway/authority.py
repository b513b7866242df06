"""A small authorisation server in a process of its own: `python authority.py PORT`.

FastMCP's in-memory provider does the protocol; the tokens are signed JSON Web Tokens for whatever
resource the client asked for. Nobody is asked for a password: whoever comes is Ann.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.provider import AuthorizationCode, AuthorizationParams, RefreshToken
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

PORT = int(sys.argv[1])
BASE = f"http://127.0.0.1:{PORT}"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
RESOURCES: dict[str, str] = {}
"""What each refresh token is for."""
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def signed(*, key: rsa.RSAPrivateKey = KEY, **claims: Any) -> str:
    now = int(time.time())
    right = {"iss": f"{BASE}/", "sub": "ann", "iat": now, "exp": now + 600, "scope": "tools"}
    return jwt.encode({**right, **claims}, key, algorithm="RS256", headers={"kid": "1"})


class Authority(InMemoryOAuthProvider):
    """Gives out tokens that anybody can check with its public key."""

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        place = await super().authorize(client, params)
        (code,) = parse_qs(urlsplit(place).query)["code"]
        made = self.auth_codes[code]
        self.auth_codes[code] = made.model_copy(update={"resource": params.resource})
        return place

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        token = await super().exchange_authorization_code(client, authorization_code)
        resource = authorization_code.resource or "nobody"
        mine = signed(aud=resource, client_id=client.client_id)
        RESOURCES[token.refresh_token or ""] = resource
        return token.model_copy(update={"access_token": mine})

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        token = await super().exchange_refresh_token(client, refresh_token, scopes)
        mine = signed(aud=RESOURCES[refresh_token.token], client_id=client.client_id)
        RESOURCES[token.refresh_token or ""] = RESOURCES[refresh_token.token]
        return token.model_copy(update={"access_token": mine})


authority = Authority(
    base_url=BASE,
    client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["tools"]),
)


async def keys(_: Request) -> JSONResponse:
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    return JSONResponse({"keys": [{**public, "kid": "1", "use": "sig", "alg": "RS256"}]})


async def mint(request: Request) -> PlainTextResponse:
    """A token with any claims, right or wrong."""
    wanted = await request.json()
    key = OTHER_KEY if wanted.pop("is_forged", False) else KEY
    return PlainTextResponse(signed(key=key, **wanted))


async def discovery(_: Request) -> JSONResponse:
    return JSONResponse(
        {
            "issuer": f"{BASE}/",
            "authorization_endpoint": f"{BASE}/authorize",
            "token_endpoint": f"{BASE}/token",
            "jwks_uri": f"{BASE}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
    )


async def enrol(request: Request) -> PlainTextResponse:
    """Make a confidential client known beforehand, as an administrator would."""
    wanted = await request.json()
    await authority.register_client(
        OAuthClientInformationFull(
            client_id=wanted["client_id"],
            client_secret=wanted["client_secret"],
            redirect_uris=[AnyUrl(wanted["redirect_uri"])],
            scope="tools",
            token_endpoint_auth_method="client_secret_post",
        )
    )
    return PlainTextResponse("known")


app = Starlette(
    routes=[
        *authority.get_routes(),
        Route("/keys", keys),
        Route("/.well-known/openid-configuration", discovery),
        Route("/mint", mint, methods=["POST"]),
        Route("/enrol", enrol, methods=["POST"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT)
