"""The reason for a decision always agrees with the decision itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.tool import Annotations, Tool
from toolscout.gateway.access import DENY_ALL, AccessRule, applies_to
from toolscout.gateway.access_reasons import explain_access
from toolscout.gateway.identity.roles import Identity
from toolscout.gateway.settings import AccessPolicy

SERVERS = ("mail", "files")
PATTERNS = st.lists(
    st.sampled_from(["*", "mail__*", "*send*", "files__read", "none"]), max_size=2
).map(tuple)
POLICIES = st.dictionaries(
    st.sampled_from(["one", "two", "three"]),
    st.builds(
        AccessPolicy,
        principals=st.sampled_from([("*",), ("ann",), ("b*",)]),
        roles=st.sampled_from([(), ("admin",)]),
        servers=st.lists(st.sampled_from(SERVERS), max_size=1).map(tuple),
        tools=PATTERNS,
        deny=PATTERNS,
        read_only=st.booleans(),
    ),
    max_size=3,
)
TOOLS = st.builds(
    lambda server, name, read_only: Tool(
        name=f"{server}__{name}", server=server, annotations=Annotations(read_only=read_only)
    ),
    st.sampled_from(SERVERS),
    st.sampled_from(["read", "send"]),
    st.sampled_from([True, False, None]),
)
CALLERS = st.builds(
    Identity, st.sampled_from(["", "ann", "bob"]), st.sampled_from(["user", "admin"])
)


@given(policies=POLICIES, caller=CALLERS, tool=TOOLS)
def test_a_reason_agrees_with_the_rule_that_decides(policies, caller, tool) -> None:
    matching = tuple(p for p in policies.values() if applies_to(p, caller))
    rule = AccessRule(matching) if matching else DENY_ALL
    reason = explain_access(policies, caller, tool)
    assert reason.is_allowed == (rule(tool) if policies else True)
    counting = [r for r in reason.policies if r.is_for_caller]
    assert len(counting) == len(matching)
    if not reason.is_allowed and counting:
        deciding = next(r for r in counting if not r.is_admitted)
        assert reason.text.startswith(f"[policies.{deciding.policy}] refuses it: ")
