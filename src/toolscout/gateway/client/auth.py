"""Authentication over HTTP: bearer tokens, JSON Web Tokens, or a provider of FastMCP."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from ipaddress import ip_address
from typing import TYPE_CHECKING

from fastmcp.server.auth import (
    AccessToken,
    AuthProvider,
    MultiAuth,
    RemoteAuthProvider,
    TokenVerifier,
)
from pydantic import AnyHttpUrl

from ...errors import ConfigError
from ..identity.token_identity import TableToken, own_principals
from ..settings import JWT, MIN_TOKEN_LENGTH, Auth, TokenEntry, check_tokens

if TYPE_CHECKING:
    from ..identity.openid_provider import OpenIDProvider

# A provider's name is imported and called, so only FastMCP's own classes are allowed.
_PROVIDERS = "fastmcp.server.auth."


class BearerVerifier(TokenVerifier):
    """Checks bearer tokens against those in the configuration, which may be edited meanwhile."""

    def __init__(self, tokens: Callable[[], Mapping[str, TokenEntry]]) -> None:
        super().__init__()
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """The principal of a token."""
        # No valid token is this short, so an empty one never matches, even if the file has one.
        if len(token) < MIN_TOKEN_LENGTH:
            return None
        # All tokens are compared, each in constant time, so that the response time reveals
        # nothing about them.
        found: tuple[str, TokenEntry] | None = None
        for principal, entry in self._tokens().items():
            if hmac.compare_digest(token.encode(), entry.token.encode()):
                found = principal, entry
        if found is None:
            return None
        name, entry = found
        return TableToken(
            token=token, client_id=name, scopes=[], claims={"sub": name}, role=entry.role
        )


def build_auth_provider(
    auth: Auth,
    *,
    tokens: Callable[[], Mapping[str, TokenEntry]],
    issuer: OpenIDProvider | None = None,
) -> AuthProvider | None:
    """The provider that FastMCP authenticates with; None without `[auth]`.

    `issuer` is the provider behind `issuer`, if others use it too.
    """
    check_tokens(auth)
    verifiers: dict[str, TokenVerifier] = {"tokens": BearerVerifier(tokens)} if auth.tokens else {}
    server = _build_named_provider(auth) if auth.provider else None
    if (rules := auth.jwt_rules) is not None:
        verifier = _build_jwt_verifier(auth, rules, issuer, tokens=tokens)
        if server is None and rules.base_url:
            server = _build_remote_provider(rules, verifier)
        else:
            verifiers["jwt"] = verifier
    if server is None and len(verifiers) == 1:
        return next(iter(verifiers.values()))
    if server is not None and not verifiers:
        return server
    # Named, because two of our own verifiers may be of one class.
    return MultiAuth(server=server, verifiers=verifiers) if verifiers else None


def build_issuer(auth: Auth) -> OpenIDProvider | None:
    """The OpenID provider of `issuer`; None if none is configured."""
    if not auth.issuer:
        return None
    from ..identity.openid_provider import OpenIDProvider

    return OpenIDProvider(
        auth.issuer, allows_private=auth.allow_private, retry_seconds=auth.keys_retry_seconds
    )


def _build_jwt_verifier(
    auth: Auth,
    jwt: JWT,
    issuer: OpenIDProvider | None = None,
    *,
    tokens: Callable[[], Mapping[str, TokenEntry]] = dict,
) -> TokenVerifier:
    # Imported here: the cryptography library is slow to import, and most gateways need no JWT.
    from ..identity.jwt_keys import build_key_finder, read_algorithm
    from ..identity.jwt_verifier import ClaimsVerifier, TokenRules

    # Without these checks, a token that the same issuer gave out for another service would do.
    if not jwt.audience or not jwt.issuer:
        raise ConfigError(
            "A JWT must be checked for its audience and its issuer.",
            hint="Set audience and issuer in [auth], or in [auth.jwt]: both keep out tokens for"
            " other services.",
        )
    rules = TokenRules(
        issuer=jwt.issuer,
        audience=jwt.audience,
        algorithm=read_algorithm(jwt),
        required_scopes=jwt.required_scopes,
        clock_skew_seconds=auth.clock_skew_seconds,
        is_exact=not auth.issuer,
    )
    keys = build_key_finder(auth, jwt, issuer or build_issuer(auth))
    return ClaimsVerifier(keys, rules, taken=lambda: own_principals(tokens()))


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
    if (rules := auth.jwt_rules) is not None:
        verifier = _build_jwt_verifier(auth, rules)
        if rules.base_url:
            _build_remote_provider(rules, verifier)
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
