"""JSON Web Tokens: their signature, and every claim that says for whom and when they are valid."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from fastmcp.server.auth import AccessToken, TokenVerifier
from joserfc import jws
from joserfc.errors import JoseError

from ...catalog.sanitization import reveal_line
from .challenges import TokenRefusedError, note_refusal
from .signing_keys import KeyFinder

_MAX_CHARS = 16_384
_MAX_KEY_ID = 512
# The OpenID standard allows 255 characters.
_MAX_SUBJECT = 256
# No time of this size is meant. Larger ones, or infinity, would overflow further on.
_MAX_TIME = 1e12
_DOTS = 2


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say of itself. Without `is_exact`, a slash after the issuer is ignored."""

    issuer: str
    audience: str
    algorithm: str
    required_scopes: tuple[str, ...] = ()
    clock_skew_seconds: float = 0.0
    is_exact: bool = True


class ClaimsVerifier(TokenVerifier):
    """Accepts a token if its signature is right and it has every claim that the rules need.

    `taken` has the principals that are not the issuer's. None of its tokens may be for one of them:
    principals of one name share conversations, results and logins.
    """

    def __init__(
        self,
        keys: KeyFinder,
        rules: TokenRules,
        *,
        taken: Callable[[], Container[str]] = tuple,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(required_scopes=list(rules.required_scopes) or None)
        self._keys = keys
        self._rules = rules
        self._taken = taken
        self._clock = clock

    async def verify_token(self, token: str) -> AccessToken | None:
        """The token with its claims; None if it is not accepted."""
        # Other verifiers may know it: only something that looks like a JWT is explained.
        if token.count(".") != _DOTS:
            return None
        try:
            claims = await self.read_claims(token)
        except TokenRefusedError as refusal:
            note_refusal(refusal)
            return None
        client = claims.get("client_id") or claims.get("azp") or claims["sub"]
        return AccessToken(
            token=token,
            client_id=str(client),
            scopes=sorted(_read_scopes(claims)),
            # The SDK compares it once more, without a tolerance for clocks.
            expires_at=int(claims["exp"] + self._rules.clock_skew_seconds) + 1,
            subject=claims["sub"],
            claims=dict(claims),
        )

    async def read_claims(self, token: str) -> Mapping[str, Any]:
        """The claims of a token, all checked; raises with the reason if it is not accepted."""
        payload = await self._check_signature(token)
        claims = _parse_claims(payload)
        self._check_times(claims)
        self._check_parties(claims)
        if not set(self._rules.required_scopes) <= _read_scopes(claims):
            raise TokenRefusedError("The token lacks a scope that is needed here.")
        return claims

    async def _check_signature(self, token: str) -> bytes:
        algorithm = self._rules.algorithm
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        if len(token) > _MAX_CHARS:
            raise TokenRefusedError("The token is too long.")
        try:
            parsed = jws.extract_compact(token.encode(), registry=registry)
            key = await self._keys.find(_read_key_id(parsed.headers(), algorithm))
            is_right = jws.validate_compact(parsed, key, algorithms=[algorithm], registry=registry)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise TokenRefusedError("The token is not a signed JSON Web Token.") from error
        if not is_right:
            raise TokenRefusedError("The signature of the token is wrong.")
        return parsed.payload

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now, skew = self._clock(), self._rules.clock_skew_seconds
        if (expires := _read_time(claims, "exp")) is None:
            raise TokenRefusedError("The token has no expiry time (exp).")
        if expires + skew <= now:
            raise TokenRefusedError("The token has expired.")
        for claim in ("nbf", "iat"):
            starts = _read_time(claims, claim)
            if starts is not None and starts - skew > now:
                raise TokenRefusedError(f"The token is not valid yet ({claim}).")

    def _check_parties(self, claims: Mapping[str, Any]) -> None:
        rules, issuer = self._rules, claims.get("iss")
        slash = "" if rules.is_exact else "/"
        if not isinstance(issuer, str) or issuer.rstrip(slash) != rules.issuer.rstrip(slash):
            raise TokenRefusedError("The token is from another issuer (iss).")
        audience = claims.get("aud")
        audiences = cast("list[object]", audience) if isinstance(audience, list) else [audience]
        if rules.audience not in audiences:
            raise TokenRefusedError("The token is for another service (aud).")
        self._check_subject(claims.get("sub"))

    def _check_subject(self, subject: object) -> None:
        if not isinstance(subject, str) or not subject.strip():
            raise TokenRefusedError("The token does not say whose it is (sub).")
        # It becomes part of logs, pages and keys of the store.
        if len(subject) > _MAX_SUBJECT or reveal_line(subject) != subject:
            raise TokenRefusedError(
                "The token says whose it is (sub) in more than 256 characters, or with characters"
                " that nobody can see."
            )
        if subject in self._taken():
            raise TokenRefusedError("The token is for a principal of the gateway itself (sub).")


def _read_key_id(header: Mapping[str, Any], algorithm: str) -> str | None:
    # Before any key is looked for: "none", or the public key as a shared secret.
    if header.get("alg") != algorithm:
        raise TokenRefusedError("The token is signed with another algorithm.")
    if "crit" in header:
        raise TokenRefusedError("The token has a header that is not understood.")
    kid = header.get("kid")
    if kid is not None and (not isinstance(kid, str) or len(kid) > _MAX_KEY_ID):
        raise TokenRefusedError("The key that signed the token is not known.")
    return kid


def _parse_claims(payload: bytes) -> Mapping[str, Any]:
    try:
        claims: object = json.loads(payload, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise TokenRefusedError("The claims of the token cannot be read.") from error
    if not isinstance(claims, dict):
        raise TokenRefusedError("The claims of the token cannot be read.")
    return cast("dict[str, Any]", claims)


def _refuse_constant(name: str) -> NoReturn:
    # An expiry of NaN would never be over.
    raise ValueError(name)


def _read_time(claims: Mapping[str, Any], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN is not within any limit.
    if not is_number or not abs(value) <= _MAX_TIME:
        raise TokenRefusedError(f"A time in the token is not a number ({claim}).")
    return float(value)


def _read_scopes(claims: Mapping[str, Any]) -> set[str]:
    """The scopes of a token: a text in `scope`, or a list in `scp`, as issuers do either."""
    value = claims.get("scope", claims.get("scp"))
    if isinstance(value, str):
        return set(value.split())
    items = cast("list[object]", value) if isinstance(value, list) else []
    return {item for item in items if isinstance(item, str)}
