"""JSON Web Tokens: each claim is checked, a refusal says why, and keys follow their issuer."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from typing import Any

import httpx2
import pytest
from fastmcp.server.auth import AccessToken
from tests.gateway.conftest import Running, Serve, small
from tests.gateway.key_server import DISCOVERY, key_server, new_key, public_pem, public_set, sign
from tests.gateway.test_access import post
from tests.upstreams.processes import free_port

from toolscout.errors import ConfigError
from toolscout.gateway.client.auth import check_auth
from toolscout.gateway.identity.token_identity import TableToken, token_identity
from toolscout.gateway.settings import JWT, Auth, TokenEntry

ISSUER = "https://issuer.example"
KEY, OTHER_KEY = new_key(), new_key()
JWT_TABLE = {"public_key": public_pem(KEY), "issuer": ISSUER, "audience": "toolscout"}


def encode(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def claims(**more: Any) -> dict[str, Any]:
    return {"iss": ISSUER, **more}


def with_public_key_as_secret() -> str:
    """The classic confusion: HS256, with the public key as the shared secret."""
    payload = {**claims(sub="carol", aud="toolscout"), "exp": int(time.time()) + 600}
    text = f"{encode({'alg': 'HS256', 'kid': 'one'})}.{encode(payload)}"
    return f"{text}.{encode(hmac.digest(public_pem(KEY).encode(), text.encode(), 'sha256'))}"


def without_signature() -> str:
    payload = {**claims(sub="carol", aud="toolscout"), "exp": int(time.time()) + 600}
    return f"{encode({'alg': 'none'})}.{encode(payload)}."


def with_header(**header: Any) -> str:
    """A token whose header has more fields, signed with the right key."""
    import jwt

    payload = {**claims(sub="carol", aud="toolscout"), "exp": int(time.time()) + 600}
    return jwt.encode(payload, KEY, algorithm="RS256", headers={"kid": "one", **header})


def refused_tokens() -> dict[str, tuple[str, str]]:
    """Tokens that are wrong in one way, each with the reason; made now, as they expire."""
    now = int(time.time())
    return {
        "no exp": (sign(KEY, claims(exp=None)), "no expiry time"),
        "exp is text": (sign(KEY, claims(exp="4000000000")), "not a number (exp)"),
        "exp is true": (sign(KEY, claims(exp=True)), "not a number (exp)"),
        "exp is NaN": (sign(KEY, claims(exp=float("nan"))), "claims of the token cannot be read"),
        "exp is infinite": (sign(KEY, claims(exp=10**400)), "not a number (exp)"),
        "expired": (sign(KEY, claims(exp=now - 3_600)), "has expired"),
        "not before": (sign(KEY, claims(nbf=now + 3_600)), "not valid yet (nbf)"),
        "issued later": (sign(KEY, claims(iat=now + 3_600)), "not valid yet (iat)"),
        "no sub": (sign(KEY, claims(sub=None)), "whose it is (sub)"),
        "empty sub": (sign(KEY, claims(sub=" ")), "whose it is (sub)"),
        "long sub": (sign(KEY, claims(sub="x" * 257)), "more than 256 characters"),
        "line in sub": (sign(KEY, claims(sub="ann\nroot")), "characters that nobody can see"),
        "blank in sub": (sign(KEY, claims(sub="ann\u2800")), "characters that nobody can see"),
        "operator as sub": (sign(KEY, claims(sub="operator")), "principal of the gateway itself"),
        "no aud": (sign(KEY, claims(aud=None)), "another service (aud)"),
        "other aud": (sign(KEY, claims(aud="other")), "another service (aud)"),
        "aud only contains it": (sign(KEY, claims(aud="toolscout-2")), "another service (aud)"),
        "no iss": (sign(KEY, {}), "another issuer (iss)"),
        "other iss": (sign(KEY, {"iss": f"{ISSUER}/"}), "another issuer (iss)"),
        "other key": (sign(OTHER_KEY, claims()), "signature of the token is wrong"),
        "none": (without_signature(), "another algorithm"),
        "HS256 with the public key": (with_public_key_as_secret(), "another algorithm"),
        "RS512": (sign(KEY, claims(), algorithm="RS512"), "another algorithm"),
        "crit": (with_header(crit=["exp"]), "header that is not understood"),
        "too long": (sign(KEY, claims(more="x" * 20_000)), "too long"),
        "no JSON": (f"{encode(b'zzz')}.e30.e30", "not a signed JSON Web Token"),
    }


async def refusal(running: Running, token: str) -> tuple[int, str, str]:
    """The status, the reason in the body, and the challenge."""
    answer = await post(running.url, Authorization=f"Bearer {token}")
    reason = answer.json()["error_description"] if answer.status_code == 401 else ""
    return answer.status_code, reason, answer.headers.get("www-authenticate", "")


async def test_a_token_with_a_wrong_or_missing_claim_is_refused_with_the_reason(
    serve: Serve,
) -> None:
    async with serve({"one": small()}, auth={"jwt": JWT_TABLE}) as running:
        for name, (token, reason) in refused_tokens().items():
            status, said, challenge = await refusal(running, token)
            assert (status, reason in said) == (401, True), (name, said)
            assert f'error="invalid_token", error_description="{said}"' in challenge
            assert "carol" not in said + challenge
            assert ISSUER not in said + challenge
        for good in (
            claims(),
            claims(aud=["other", "toolscout"]),
            claims(nbf=int(time.time()) - 10),
            claims(sub="Zoë of the 猫 department", more="x"),
            claims(sub="x" * 256),
        ):
            assert (await refusal(running, sign(KEY, good)))[0] == 200


async def test_a_subject_that_has_a_token_of_the_table_is_refused(serve: Serve) -> None:
    """Else it would have the conversations, results and logins of that principal."""
    auth = {"jwt": JWT_TABLE, "tokens": {"ann": "ann-token-0123456789"}}
    async with serve({"one": small()}, auth=auth) as running:
        status, said, _ = await refusal(running, sign(KEY, claims(sub="ann")))
        assert (status, said) == (401, "The token is for a principal of the gateway itself (sub).")
        for token in (sign(KEY, claims(sub="anna")), "ann-token-0123456789"):
            assert (await refusal(running, token))[0] == 200


def test_a_named_provider_has_principals_of_its_own() -> None:
    auth = Auth(tokens={"ann": TokenEntry(token="ann-token-0123456789")})
    foreign = AccessToken(token="x", client_id="c", scopes=[], claims={"sub": "ann"})
    own = TableToken(token="x", client_id="ann", scopes=[], claims={"sub": "ann"})
    assert token_identity(own, auth).name == "ann"
    assert token_identity(foreign, auth).name == "ann (provider)"


async def test_clocks_may_differ_by_the_configured_time(serve: Serve) -> None:
    just_over, soon = claims(exp=int(time.time()) - 100), claims(nbf=int(time.time()) + 100)
    for seconds, status in ((30, 401), (300, 200)):
        auth = {"jwt": JWT_TABLE, "clock_skew_seconds": seconds}
        async with serve({"one": small()}, auth=auth) as running:
            for each in (just_over, soon):
                assert (await refusal(running, sign(KEY, each)))[0] == status


async def test_the_keys_of_an_issuer_are_found_by_discovery(serve: Serve) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        auth = {"issuer": issuer.base, "audience": "toolscout"}
        async with serve({"one": small()}, auth=auth) as running:
            for iss in (issuer.base, f"{issuer.base}/"):
                assert (await refusal(running, sign(KEY, {"iss": iss})))[0] == 200
            for kid in (None, "one"):
                assert (await refusal(running, sign(KEY, {"iss": issuer.base}, kid=kid)))[0] == 200
        assert issuer.asked == {DISCOVERY: 1, "/keys": 1}


async def test_an_issuer_with_a_path_is_found_as_rfc_8414_says(serve: Serve) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        document = issuer.documents.pop(DISCOVERY)
        name = f"{issuer.base}/tenant"
        path = "/.well-known/oauth-authorization-server/tenant"
        issuer.documents[path] = {**document, "issuer": name}
        auth = {"issuer": name, "audience": "toolscout"}
        async with serve({"one": small()}, auth=auth) as running:
            assert (await refusal(running, sign(KEY, {"iss": name})))[0] == 200


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "http://127.0.0.2:1/keys"},
        {"jwks_uri": "ftp://127.0.0.1/keys"},
        {"jwks_uri": 7},
    ],
)
async def test_a_discovery_document_that_leads_elsewhere_is_not_used(
    serve: Serve, change: dict[str, Any]
) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        issuer.documents[DISCOVERY] |= change
        auth = {"issuer": issuer.base, "audience": "toolscout"}
        async with serve({"one": small()}, auth=auth) as running:
            assert (await refusal(running, sign(KEY, {"iss": issuer.base})))[0] == 503
        assert issuer.asked["/keys"] == 0


async def test_discovery_reaches_no_other_name_of_this_machine(serve: Serve) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        elsewhere = issuer.base.replace("127.0.0.1", "localhost")
        issuer.documents[DISCOVERY]["jwks_uri"] = f"{elsewhere}/keys"
        auth = {"issuer": issuer.base, "audience": "toolscout"}
        async with serve({"one": small()}, auth=auth) as running:
            assert (await refusal(running, sign(KEY, {"iss": issuer.base})))[0] == 503
        assert issuer.asked["/keys"] == 0


async def test_invented_key_ids_cause_no_further_fetches(serve: Serve) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        auth = {"issuer": issuer.base, "audience": "toolscout"}
        async with serve({"one": small()}, auth=auth) as running:
            assert (await refusal(running, sign(KEY, {"iss": issuer.base})))[0] == 200
            for number in range(40):
                token = sign(OTHER_KEY, {"iss": issuer.base}, kid=f"random-{number}")
                status, said, _ = await refusal(running, token)
                assert (status, said) == (401, "The key that signed the token is not known.")
            assert (await refusal(running, sign(KEY, {"iss": issuer.base})))[0] == 200
        assert issuer.asked["/keys"] == 1


async def test_the_issuers_new_keys_are_used_and_its_old_ones_no_longer(serve: Serve) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        auth = {
            "issuer": issuer.base,
            "audience": "toolscout",
            "keys_max_age_seconds": 0.1,
            "keys_retry_seconds": 1,
        }
        old = sign(KEY, {"iss": issuer.base})
        new = sign(OTHER_KEY, {"iss": issuer.base}, kid="two")
        async with serve({"one": small()}, auth=auth) as running, asyncio.timeout(60):
            assert (await refusal(running, old))[0] == 200
            issuer.publish(two=OTHER_KEY)
            while (await refusal(running, new))[0] != 200:
                pass
            assert (await refusal(running, old))[:2] == (
                401,
                "The key that signed the token is not known.",
            )


async def test_a_key_that_the_issuer_withdraws_is_refused_though_nobody_names_a_new_one(
    serve: Serve,
) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        times = {"keys_max_age_seconds": 0.1, "keys_retry_seconds": 1}
        auth = {"issuer": issuer.base, "audience": "toolscout", **times}
        token = sign(KEY, {"iss": issuer.base})
        async with serve({"one": small()}, auth=auth) as running, asyncio.timeout(30):
            assert (await refusal(running, token))[0] == 200
            issuer.publish(two=OTHER_KEY)
            while (await refusal(running, token))[0] != 401:
                pass


async def test_known_keys_outlive_an_issuer_that_is_down(serve: Serve) -> None:
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    auth = {
        "issuer": base,
        "audience": "toolscout",
        "keys_max_age_seconds": 0.01,
        "keys_retry_seconds": 1,
    }
    good, unknown = sign(KEY, {"iss": base}), sign(KEY, {"iss": base}, kid="unknown")
    async with serve({"one": small()}, auth=auth) as running, asyncio.timeout(60):
        answer = await post(running.url, Authorization=f"Bearer {good}")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.json()["error_description"] == (
            "The issuer of the token does not answer. Try again."
        )
        with key_server(port) as issuer:
            issuer.publish(one=KEY)
            while (await refusal(running, good))[0] != 200:
                pass
        while (await refusal(running, unknown))[0] != 503:  # so a fetch has failed by now
            assert (await refusal(running, good))[0] == 200
        assert (await refusal(running, good))[0] == 200


async def test_a_key_set_without_end_is_not_read(serve: Serve) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        issuer.documents["/keys"] = {**public_set(one=KEY), "more": "x" * 2_000_000}
        auth = {"issuer": issuer.base, "audience": "toolscout"}
        async with serve({"one": small()}, auth=auth) as running:
            assert (await refusal(running, sign(KEY, {"iss": issuer.base})))[0] == 503


async def test_a_refused_token_on_a_page_gets_a_challenge(serve: Serve) -> None:
    async with serve({"one": small()}, auth={"jwt": JWT_TABLE}) as running:
        async with httpx2.AsyncClient() as http:
            answer = await http.get(running.url.replace("/mcp", "/metrics"))
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("auth", "says"),
    [
        ({"issuer": "http://login.example", "audience": "a"}, "not an address with https"),
        ({"issuer": "https://login.example"}, "audience and its issuer"),
        ({"jwt": {**JWT_TABLE, "jwks_uri": "https://x.example"}}, "both public_key and jwks_uri"),
        ({"jwt": {**JWT_TABLE, "algorithm": "HS256"}}, "a shared secret, not a public key"),
        ({"jwt": {**JWT_TABLE, "algorithm": "none"}}, "algorithm 'none' is not known"),
        ({"jwt": {**JWT_TABLE, "public_key": "zzz"}}, "not a key for RS256"),
        ({"jwt": {"issuer": ISSUER, "audience": "a"}}, "it has no keys"),
    ],
)
def test_a_configuration_that_would_weaken_the_checks_is_an_error(
    auth: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        check_auth(Auth.model_validate(auth))


def test_an_issuer_cannot_be_combined_with_other_keys() -> None:
    with pytest.raises(ValueError, match="cannot have issuer, jwks_uri or public_key"):
        Auth(issuer=ISSUER, jwt=JWT(public_key="k"))
    assert "s3cret" not in repr(Auth(client_secret="s3cret", issuer=ISSUER))
