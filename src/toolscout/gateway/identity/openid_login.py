"""Login with a browser at an OpenID provider: the authorization code flow with PKCE."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import quote, urlencode

import httpx2

from ..settings import Auth
from .challenges import TokenRefusedError
from .jwt_keys import build_key_finder, read_algorithm
from .jwt_verifier import ClaimsVerifier, TokenRules
from .login_attempts import LoginAttempt
from .login_refusals import LoginRefusedError
from .openid_provider import OpenIDProvider, ProviderError
from .roles import Identity, claimed_role
from .token_identity import own_principals

_CALLBACK_PATH = "/login/callback"


class OpenIDLogin:
    """Sends browsers to the provider, and learns from it who they are."""

    callback_path = _CALLBACK_PATH

    def __init__(self, read_auth: Callable[[], Auth], provider: OpenIDProvider) -> None:
        auth = read_auth()
        jwt = auth.jwt_rules
        assert jwt is not None, "an issuer always has rules for its tokens"
        self._read_auth = read_auth
        self._auth = auth
        self._provider = provider
        rules = TokenRules(
            issuer=provider.issuer,
            audience=auth.client_id,
            algorithm=read_algorithm(jwt),
            clock_skew_seconds=auth.clock_skew_seconds,
            is_exact=False,
        )
        self._id_tokens = ClaimsVerifier(
            build_key_finder(auth, jwt, provider),
            rules,
            taken=lambda: own_principals(read_auth().tokens),
        )

    async def login_url(self, attempt: LoginAttempt, base_url: str) -> str:
        """The page of the provider where the person logs in."""
        try:
            endpoint = (await self._provider.get_metadata()).authorization_endpoint
        except ProviderError as error:
            raise LoginRefusedError("The login provider does not answer. Try again.") from error
        if not endpoint:
            raise LoginRefusedError("The login provider offers no login with a browser.")
        query = {
            "response_type": "code",
            "client_id": self._auth.client_id,
            "redirect_uri": self._redirect_uri(base_url),
            "scope": " ".join(dict.fromkeys(("openid", *self._auth.login_scopes))),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def identify(
        self, attempt: LoginAttempt, answer: Mapping[str, str], base_url: str
    ) -> Identity:
        """Who logged in, from what the provider sent back with the browser."""
        issuer = answer.get("iss")
        # Another provider that the person also uses must not answer in this one's place (RFC 9207).
        if issuer is not None and issuer.rstrip("/") != self._provider.issuer.rstrip("/"):
            raise LoginRefusedError("The answer is from another login provider.")
        if "error" in answer or not answer.get("code"):
            raise LoginRefusedError("The login provider did not log you in.")
        token = await self._redeem(attempt, answer["code"], base_url)
        try:
            claims = await self._id_tokens.read_claims(token)
        except TokenRefusedError as error:
            raise LoginRefusedError(f"The login cannot be used. {error}") from error
        self._check_binding(attempt, claims)
        now = self._read_auth()  # who is an admin may have been edited
        role = claimed_role(claims, now.role_claim, now.admin_values)
        return Identity(claims["sub"], role)

    async def _redeem(self, attempt: LoginAttempt, code: str, base_url: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri(base_url),
            "client_id": self._auth.client_id,
            "code_verifier": attempt.verifier,
        }
        try:
            metadata = await self._provider.get_metadata()
            methods = metadata.token_endpoint_auth_methods_supported
            auth = self._authenticate(form, methods)
            answer: object = await self._provider.redeem_code(form, auth)
        except ProviderError as error:
            raise LoginRefusedError("The login provider did not accept the login.") from error
        table = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        token = table.get("id_token")
        if not isinstance(token, str):
            raise LoginRefusedError("The login provider sent no ID token.")
        return token

    def _authenticate(self, form: dict[str, str], methods: tuple[str, ...]) -> httpx2.Auth | None:
        secret = self._auth.client_secret
        if not secret:
            return None
        if "client_secret_basic" in methods:
            # RFC 6749 has both parts encoded as in a form.
            del form["client_id"]
            return httpx2.BasicAuth(quote(self._auth.client_id, ""), quote(secret, ""))
        form["client_secret"] = secret
        return None

    def _check_binding(self, attempt: LoginAttempt, claims: Mapping[str, Any]) -> None:
        """Raise unless the ID token was made for this attempt and this client."""
        nonce = claims.get("nonce")
        is_ours = isinstance(nonce, str) and hmac.compare_digest(
            nonce.encode(errors="replace"), attempt.nonce.encode()
        )
        if not is_ours:
            raise LoginRefusedError("The login belongs to another attempt. Log in again.")
        audience = claims.get("aud")
        is_shared = isinstance(audience, list) and len(cast("list[object]", audience)) > 1
        if claims.get("azp", None if is_shared else self._auth.client_id) != self._auth.client_id:
            raise LoginRefusedError("The login was made for another program.")

    def _redirect_uri(self, base_url: str) -> str:
        return f"{self._auth.public_url or base_url}{self.callback_path}"
