"""The keys for JSON Web Tokens, as the configuration names them."""

from __future__ import annotations

from functools import partial

from joserfc import jwk
from joserfc.errors import JoseError

from ...errors import ConfigError
from ..settings import JWT, Auth
from .openid_provider import OpenIDProvider, request_json
from .signing_keys import FetchedKeys, FixedKey, KeyFinder, KeyTimes, key_type

_DEFAULT = "RS256"
_SYMMETRIC = "oct"
ALGORITHMS = frozenset(
    {f"{family}{bits}" for family in ("HS", "RS", "PS", "ES") for bits in (256, 384, 512)}
    | {"EdDSA", "Ed25519", "Ed448"}
)


def read_algorithm(jwt: JWT) -> str:
    """The only algorithm that tokens may be signed with."""
    algorithm = jwt.algorithm or _DEFAULT
    if algorithm not in ALGORITHMS:
        raise ConfigError(
            f"[auth.jwt] is wrong: the algorithm {algorithm!r} is not known.",
            hint=f"Known: {', '.join(sorted(ALGORITHMS))}.",
        )
    return algorithm


def build_key_finder(auth: Auth, jwt: JWT, issuer: OpenIDProvider | None) -> KeyFinder:
    """Where the keys come from: the configuration, `jwks_uri`, or the discovery of the issuer."""
    algorithm = read_algorithm(jwt)
    if jwt.public_key and jwt.jwks_uri:
        raise _key_error("it has both public_key and jwks_uri")
    if jwt.public_key:
        return FixedKey(_import_key(jwt.public_key, algorithm))
    if key_type(algorithm) == _SYMMETRIC:
        raise _key_error(f"{algorithm} needs a shared secret in public_key")
    times = KeyTimes(auth.keys_max_age_seconds, auth.keys_retry_seconds)
    if issuer is not None:
        return FetchedKeys(issuer.fetch_keys, algorithm=algorithm, times=times)
    if not jwt.jwks_uri:
        raise _key_error("it has no keys")
    # The configuration itself names this address, so it may be a private one.
    uri = jwt.jwks_uri
    fetch = partial(request_json, "GET", uri, host_of=uri, allows_private=True)
    return FetchedKeys(fetch, algorithm=algorithm, times=times)


def _import_key(text: str, algorithm: str) -> jwk.Key:
    kind = key_type(algorithm)
    # With a public key as the secret, everybody could sign.
    if kind == _SYMMETRIC and "-----BEGIN" in text:
        raise _key_error(f"{algorithm} needs a shared secret, not a public key")
    try:
        return jwk.import_key(text, kind)
    except (JoseError, ValueError, TypeError) as error:
        raise _key_error(f"public_key is not a key for {algorithm}") from error


def _key_error(problem: str) -> ConfigError:
    return ConfigError(
        f"[auth.jwt] is wrong: {problem}.",
        hint="It needs jwks_uri or public_key; or set issuer in [auth] instead.",
    )
