"""Roles: from the token table or from a claim, for pages and for policies."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from tests.gateway.conftest import Running, Serve, small, text
from tests.gateway.key_server import new_key, public_pem, sign
from tests.gateway.test_access import as_, run

from toolscout.errors import ConfigError
from toolscout.gateway.access import AccessRule
from toolscout.gateway.identity.roles import claimed_role
from toolscout.gateway.settings import AccessPolicy
from toolscout.gateway.setup import Setup

ROOT, ANN = "root-token-0123456789", "ann-token-0123456789"
KEY = new_key()
ISSUER = "https://issuer.example"
TABLE: dict[str, Any] = {
    "tokens": {"root": {"token": "${ROOT}", "role": "admin"}, "ann": ANN},
    "jwt": {"public_key": public_pem(KEY), "issuer": ISSUER, "audience": "toolscout"},
    "role_claim": "realm.roles",
    "admin_values": ["operators"],
}
POLICIES = {
    "all": {"deny": ["two__*"], "roles": ["user"]},
    "admins": {"roles": ["admin"], "deny": ["one__*"]},
}


def token(**claims: Any) -> str:
    return sign(KEY, {"iss": ISSUER, **claims})


async def read(running: Running, path: str, token: str, accept: str = "*/*") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}", "Accept": accept}
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.get(running.url.removesuffix("/mcp") + path, headers=headers)


async def test_an_admin_sees_the_whole_status_and_a_user_what_its_policies_allow(
    serve: Serve,
) -> None:
    servers = {"one": small(), "two": small()}
    admin_claim = token(realm={"roles": ["staff", "operators"]})
    async with serve(servers, variables={"ROOT": ROOT}, auth=TABLE, policies=POLICIES) as running:
        async with as_(running, ANN) as ann:
            await run(ann, "one__echo", text="x")
        for admin in (ROOT, admin_claim):
            health = (await read(running, "/health", admin)).json()
            assert set(health["servers"]) == {"one", "two"}
            assert "parts" in health
            assert 'server="two"' in (await read(running, "/metrics", admin)).text
            facts = (await read(running, "/", admin, "application/json")).json()
            assert set(facts["servers"]) == {"one", "two"}
            assert facts["caller"]["role"] == "admin"
        for user in (ANN, token(), token(realm={"roles": ["operator", "admin"]})):
            health = (await read(running, "/health", user)).json()
            assert set(health["servers"]) == {"one"}
            assert "parts" not in health
            assert "two" not in (await read(running, "/metrics", user)).text
            for accept in ("application/json", "text/html", "text/plain"):
                assert "two" not in (await read(running, "/", user, accept)).text


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_policy_can_name_roles(serve: Serve, mode: str) -> None:
    servers = {"one": small(), "two": small()}
    async with serve(servers, variables={"ROOT": ROOT}, auth=TABLE, policies=POLICIES) as running:
        for who, mine, other in ((ROOT, "two", "one"), (ANN, "one", "two")):
            async with as_(running, who, mode) as client:
                assert text(await run(client, f"{mine}__echo", text="hi")) == "hi"
                assert (await run(client, f"{other}__echo", text="hi")).is_error


@pytest.mark.parametrize(
    ("value", "role"),
    [
        ("admin", "admin"),
        (["x", "admin"], "admin"),
        ("administrator", "user"),
        ("user admin", "user"),
        (["ADMIN", " admin"], "user"),
        ([["admin"]], "user"),
        ({"admin": True}, "user"),
        (True, "user"),
        (1, "user"),
        (None, "user"),
    ],
)
def test_only_an_exact_text_makes_an_admin(value: Any, role: str) -> None:
    assert claimed_role({"roles": value}, "roles", ("admin",)) == role
    assert claimed_role({"a": {"b": value}}, "a.b", ("admin",)) == role
    assert (
        claimed_role({"https://x.example/roles": value}, "https://x.example/roles", ("admin",))
        == role
    )
    assert claimed_role({"a.b": value}, "a.b", ("admin",)) == "user"
    assert claimed_role({"roles": value}, "", ("admin",)) == "user"
    assert claimed_role({"roles": value}, "roles", ()) == "user"


def test_a_wrong_role_or_key_of_a_token_is_an_error(tmp_path: Any) -> None:
    path = tmp_path / "mcp.json"

    def problem(**entry: Any) -> str:
        tables = {"mcpServers": {}, "auth": {"tokens": {"ann": {"token": ANN, **entry}}}}
        path.write_text(json.dumps(tables))
        with pytest.raises(ConfigError) as error:
            Setup.read(path)
        assert ANN not in str(error.value)
        return str(error.value)

    assert "auth.tokens.ann.role is wrong" in problem(role="root")
    assert "Did you mean role?" in problem(rle="admin")


def test_a_policy_without_roles_has_the_session_key_that_it_had_before() -> None:
    without, with_roles = AccessPolicy(), AccessPolicy(roles=("admin",))
    assert "roles" not in AccessRule((without,)).session_key_text
    assert "roles=('admin',)" in AccessRule((with_roles,)).session_key_text
