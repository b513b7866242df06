"""Match URIs with the RFC 6570 templates of servers.

The matcher keeps the set of positions that are reachable after each part of a template. Its time
grows with the length of the URI times the number of parts, both of them limited. With a regular
expression, a server could choose a template that takes minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial

# Matching takes time on the event loop. Beyond these limits, a URI and a template do not match.
_MAX_URI_CHARS = 65_536
_MAX_VARIABLES = 64

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_PREFIX_MODIFIER = re.compile(r":\d+$")

_Positions = AbstractSet[int]
_Part = Callable[[str, _Positions], _Positions]
"""From positions in a URI where a part may begin to those where it may end."""


def matches_template(template: str, uri: str) -> bool:
    """Whether a template can be expanded to a URI, or is that text itself."""
    if template == uri:
        return True
    if len(uri) > _MAX_URI_CHARS:
        return False
    positions: _Positions = {0}
    for part in _parse(template):
        positions = part(uri, positions)
    return len(uri) in positions


@lru_cache(maxsize=1_024)
def _parse(template: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    end = 0
    if sum(found[2].count(",") + 1 for found in _EXPRESSION.finditer(template)) > _MAX_VARIABLES:
        return (_match_nothing,)
    for found in _EXPRESSION.finditer(template):
        parts += _literal(template[end : found.start()])
        parts.append(_expression(found[1], found[2]))
        end = found.end()
    return (*parts, *_literal(template[end:]))


def _literal(text: str) -> list[_Part]:
    return [partial(_match_literal, text)] if text else []


def _expression(operator: str, variables: str) -> _Part:
    names = [_PREFIX_MODIFIER.sub("", name.strip()) for name in variables.split(",")]
    # FastMCP writes `{path*}` for what RFC 6570 calls `{+path}`.
    is_exploded = any(name.endswith("*") for name in names)
    match operator:
        case "" | "+":
            return partial(_match_some, "" if operator or is_exploded else "/")
        case "?" | "&":
            known = None if is_exploded else frozenset(names)
            return partial(_match_query, operator, known)
        case "#":
            return partial(_match_optional, "#", "")
        case "/":
            # `{/a,b}` has one segment for each variable, `{/a*}` any number of them.
            return partial(_match_segments, None if is_exploded else len(names))
        case _:
            return partial(_match_optional, operator, "/")


def _match_literal(text: str, uri: str, starts: _Positions) -> _Positions:
    return {start + len(text) for start in starts if uri.startswith(text, start)}


def _match_some(excluded: str, uri: str, starts: _Positions) -> _Positions:
    """One or more characters, but none of the excluded ones."""
    ends: set[int] = set()
    is_inside = False
    for index in range(min(starts, default=len(uri)), len(uri)):
        is_inside = (is_inside or index in starts) and uri[index] not in excluded
        if is_inside:
            ends.add(index + 1)
    return ends


def _match_optional(lead: str, excluded: str, uri: str, starts: _Positions) -> _Positions:
    """Nothing, or a lead character and what follows it."""
    after = _match_literal(lead, uri, starts)
    return {*starts, *_match_some(excluded, uri, after)}


def _match_segments(most: int | None, uri: str, starts: _Positions) -> _Positions:
    """Up to so many segments of a path, each with the slash before it; None for any number."""
    if most is None:
        return _match_optional("/", "", uri, starts)
    ends = starts
    for _ in range(most):
        more = {*ends, *_match_optional("/", "/", uri, ends)}
        if more == ends:
            break
        ends = more
    return ends


def _match_query(
    lead: str, names: frozenset[str] | None, uri: str, starts: _Positions
) -> _Positions:
    """Nothing, or a query up to its end with some of the parameters; None for any."""
    address, _, _ = uri.partition("#")
    if names is None:
        is_found = any(address.startswith(lead, start) for start in starts)
    else:
        leads = starts & _query_leads(lead, address, most=len(names))
        is_found = any(_parameters(address[start + 1 :]) <= names for start in leads)
    return {*starts, len(address)} if is_found else starts


def _parameters(query: str) -> set[str]:
    return {pair.partition("=")[0] for pair in query.split("&")}


def _query_leads(lead: str, address: str, *, most: int) -> _Positions:
    """Where a query may begin or continue: at the first `?`, or at one of the last `&`."""
    if lead == "?":
        return {address.find(lead)}
    found: set[int] = set()
    index = len(address)
    while len(found) < most and (index := address.rfind(lead, 0, index)) >= 0:
        found.add(index)
    return found


def _match_nothing(_: str, __: _Positions) -> _Positions:
    return frozenset()
