"""Authentication over HTTP: bearer tokens, JSON Web Tokens, or a provider of FastMCP."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from ipaddress import ip_address

from fastmcp.server.auth import (
    AccessToken,
    AuthProvider,
    MultiAuth,
    RemoteAuthProvider,
    TokenVerifier,
)
from pydantic import AnyHttpUrl

from ...errors import ConfigError
from ..settings import JWT, MIN_TOKEN_LENGTH, Auth, check_tokens

# A provider's name is imported and called, so only FastMCP's own classes are allowed.
_PROVIDERS = "fastmcp.server.auth."


class BearerVerifier(TokenVerifier):
    """Checks bearer tokens against those in the configuration, which may be edited meanwhile."""

    def __init__(self, tokens: Callable[[], Mapping[str, str]]) -> None:
        super().__init__()
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """The principal of a token."""
        # No valid token is this short, so an empty one never matches, even if the file has one.
        if len(token) < MIN_TOKEN_LENGTH:
            return None
        # All tokens are compared, each in constant time, so that the response time reveals
        # nothing about them.
        found: str | None = None
        for principal, secret in self._tokens().items():
            if hmac.compare_digest(token.encode(), secret.encode()):
                found = principal
        if found is None:
            return None
        return AccessToken(token=token, client_id=found, scopes=[], claims={"sub": found})


def build_auth_provider(
    auth: Auth, *, tokens: Callable[[], Mapping[str, str]]
) -> AuthProvider | None:
    """The provider that FastMCP authenticates with; None without `[auth]`."""
    check_tokens(auth)
    verifiers: list[TokenVerifier] = [BearerVerifier(tokens)] if auth.tokens else []
    server = _build_named_provider(auth) if auth.provider else None
    if auth.jwt is not None:
        verifier = _build_jwt_verifier(auth.jwt)
        if server is None and auth.jwt.base_url:
            server = _build_remote_provider(auth.jwt, verifier)
        else:
            verifiers.append(verifier)
    if server is None and len(verifiers) == 1:
        return verifiers[0]
    if server is not None and not verifiers:
        return server
    return MultiAuth(server=server, verifiers=verifiers) if verifiers else None


def _build_jwt_verifier(jwt: JWT) -> TokenVerifier:
    # Imported here: its cryptography library is slow to import, and most gateways need no JWT.
    from fastmcp.server.auth import JWTVerifier

    # Without these checks, a token that the same issuer gave out for another service would do.
    if not jwt.audience or not jwt.issuer:
        raise ConfigError(
            "A JWT must be checked for its audience and its issuer.",
            hint="Set audience and issuer in [auth.jwt]: both keep out tokens for other services.",
        )
    options = jwt.model_dump(include={"jwks_uri", "public_key", "issuer", "audience", "algorithm"})
    try:
        return JWTVerifier(**options, required_scopes=list(jwt.required_scopes) or None)
    except ValueError as error:
        raise ConfigError(
            f"[auth.jwt] is wrong: {error}.", hint="It needs jwks_uri or public_key."
        ) from error


def _build_remote_provider(jwt: JWT, verifier: TokenVerifier) -> RemoteAuthProvider:
    """The gateway as an OAuth protected resource (RFC 9728): it says where to get a token."""
    try:
        servers = [AnyHttpUrl(url) for url in jwt.authorization_servers or (jwt.issuer or "",)]
        return RemoteAuthProvider(
            verifier, authorization_servers=servers, base_url=AnyHttpUrl(jwt.base_url)
        )
    except ValueError as error:
        raise ConfigError(
            "[auth.jwt] needs addresses in base_url and authorization_servers.",
            hint="For example: https://gateway.example and https://login.example",
        ) from error


def _build_named_provider(auth: Auth) -> AuthProvider:
    provider = _provider_class(auth)
    try:
        return provider(**auth.options)
    except (TypeError, ValueError) as error:
        raise _provider_error(auth, error) from error


def _provider_class(auth: Auth) -> type[AuthProvider]:
    path = auth.provider if "." in auth.provider else f"{_PROVIDERS}providers.{auth.provider}"
    module, _, name = path.rpartition(".")
    if not path.startswith(_PROVIDERS):
        raise ConfigError(
            f"{auth.provider!r} is not one of FastMCP's providers.",
            hint="For example: fastmcp.server.auth.providers.github.GitHubProvider",
        )
    try:
        provider: object = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _provider_error(auth, error) from error
    if not (isinstance(provider, type) and issubclass(provider, AuthProvider)):
        raise ConfigError(
            f"{auth.provider!r} is not an authentication provider.",
            hint="For example: fastmcp.server.auth.providers.github.GitHubProvider",
        )
    return provider


def _provider_error(auth: Auth, error: Exception) -> ConfigError:
    return ConfigError(
        f"The provider {auth.provider!r} cannot be used: {error}.",
        hint="Check provider and options in [auth]; FastMCP documents the options.",
    )


def check_auth(auth: Auth) -> None:
    """Raise for wrong settings, as far as they can be checked without a network."""
    check_tokens(auth)
    if auth.jwt is not None:
        verifier = _build_jwt_verifier(auth.jwt)
        if auth.jwt.base_url:
            _build_remote_provider(auth.jwt, verifier)
    if auth.provider:
        # Only the parameters are checked: some providers fetch their metadata when constructed.
        try:
            signature(_provider_class(auth)).bind(**auth.options)
        except TypeError as error:
            raise _provider_error(auth, error) from error


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, auth: Auth) -> None:
    """Raise if other machines could reach the gateway without authentication."""
    if not is_loopback(host) and not auth.is_set:
        raise ConfigError(
            f"Serving on {host} needs authentication.",
            hint="Set TOOLSCOUT_TOKEN, or [auth] in the configuration; or serve on 127.0.0.1.",
        )
