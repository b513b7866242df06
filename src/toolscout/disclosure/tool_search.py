"""A search from question to findings: match, load, and say what is worth saying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from ..catalog.tool import Tool
from ..errors import QueryError
from ..search.engine import Engine
from . import roster
from .matcher import MIN_CONFIDENCE, SearchDomain, ToolMatches
from .name_resolution import replace_wire_names
from .profile import Profile
from .reply import NoMatchHint, ToolSearchResult
from .scope import Scope
from .search_arguments import SearchArguments
from .session_state import SessionState
from .snapshot import ViewSnapshot, read_snapshot, write_snapshot
from .surface import Surface


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What was found, and the session that remembers it."""

    found: ToolSearchResult
    session: SessionState


def find_tools(
    profile: Profile, asked: SearchArguments, scope: Scope, engine: Engine
) -> SearchOutcome:
    """Match every query, load what the profile loads, and gather the answer's parts."""
    scope = _scope_for_surface(profile, scope)
    answers = _match_queries(profile, asked, scope, engine)
    tools = _interleave(answers)
    sent = read_snapshot(scope.session) or ViewSnapshot()
    unsent = sent.names_awaiting_search(scope.session)
    already = tuple(t.name for t in tools if scope.visibility(t) and t.name not in unsent)
    surface = surface_of(profile, scope.session)
    loaded = tuple(n for n in _names_to_load(profile, answers, surface) if n not in already)
    session = scope.session.record_searches(*(q for q in asked.queries if q.strip()))
    session = session.load(*loaded, at_most=profile.limits.loaded)
    named = tuple(dict.fromkeys(n for a in answers for n in a.missing))
    there = tuple(n for n in named if (t := scope.get(n)) is not None and scope.visibility(t))
    found = ToolSearchResult(
        queries=asked.queries,
        tools=tools,
        loaded=loaded,
        already=(*already, *there),
        missing=tuple(n for n in named if n not in there),
        unmet=_queries_without_match(asked, answers),
        near=_near_names(answers, tools),
        notes=_deduplicate(n for a in answers for n in a.notes),
        confidence=max((a.confidence for a in answers), default=0.0) if tools else 0.0,
        is_fuzzy=any(a.is_fuzzy for a in answers),
        surface=surface,
        beyond=overflow_names(profile, replace(scope, session=session)),
        after=replace(scope, session=session),
        hint=NoMatchHint() if tools else _build_hint(profile, asked, scope),
    )
    return _add_catalog_news(profile, found, scope, session)


def _scope_for_surface(profile: Profile, scope: Scope) -> Scope:
    """The scope as a view has it: behind a dispatcher no catalog is so small as to be shown whole.

    It matters where nothing was viewed yet, and for callers who come once and are not known again.
    """
    is_dispatched = surface_of(profile, scope.session) == "dispatch"
    return replace(scope, was_small=False) if is_dispatched else scope


def _names_to_load(
    profile: Profile, answers: Sequence[ToolMatches], surface: Surface
) -> tuple[str, ...]:
    """What is loaded: as the profile says; and more where the model sees nothing else."""
    most = max(1, profile.native.most // len(answers)) if surface == "native" else 0
    names: list[str] = []
    for answer in answers:
        picked = profile.loading(answer)
        is_sure = not picked or answer.is_named or answer.confidence >= 1
        more = () if is_sure or not most else answer.tools[:most]
        names += [t.name for t in (*picked, *more)]
    return _deduplicate(names)


def overflow_names(profile: Profile, scope: Scope) -> frozenset[str]:
    """What is in view by right and has no room in the provider's list."""
    sent = read_snapshot(scope.session)
    if sent is None or sent.room is None or sent.surface != "load":
        return frozenset()
    if profile.hiding == "omit":
        return sent.overflow_names(scope.session)
    return frozenset(t.name for t in scope.tools[sent.room :])


def surface_of(profile: Profile, session: SessionState) -> Surface:
    """The surface this conversation is on: as it was last viewed, else as the profile wishes."""
    snapshot = read_snapshot(session)
    said = snapshot.surface if snapshot else profile.surface
    match said:
        case "direct" | "load" | "dispatch" | "native":
            return said
        case _:
            return "load"


def _match_queries(
    profile: Profile, asked: SearchArguments, scope: Scope, engine: Engine
) -> list[ToolMatches]:
    domain = SearchDomain(scope, engine, profile.searches_waiting_only)
    if asked.is_empty:
        return [_match_empty_query(profile, domain, limit=asked.limit)]
    queries = asked.queries if len(asked.queries) == 1 else [q for q in asked.queries if q.strip()]
    limit = asked.limit
    if limit is not None and len(queries) > 1:
        limit = max(2, limit // len(queries))
    queries = [replace_wire_names(q, scope) for q in queries]
    answers = [profile.matcher.match(q, domain, limit=limit) for q in queries]
    return [_add_related(profile, a, scope, limit=limit) for a in answers]


def _match_empty_query(profile: Profile, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
    match profile.on_empty:
        case "error":
            raise QueryError(
                "query is required: it was empty",
                hint="Say in a few words what the tool should do.",
            )
        case "none":
            return ToolMatches(confidence=0.0)
        case "all":
            tools = domain.tools
        case "browse":
            tools = domain.tools[:limit]
    return ToolMatches(tools=tools, scores=(0.0,) * len(tools))


def _add_related(
    profile: Profile, answer: ToolMatches, scope: Scope, *, limit: int | None
) -> ToolMatches:
    """Add what the hits name as related, in their order, while there is room."""
    if not profile.expands_related or limit is None:
        return answer
    room = limit + profile.related_extra
    tools = {t.name: t for t in answer.tools}
    for name in (n for t in answer.tools for n in t.related):
        related = scope.get(name) if len(tools) < room else None
        if related is not None:
            tools.setdefault(name, related)
    scores = (*answer.scores, *(0.0 for _ in range(len(tools) - len(answer.tools))))
    return replace(answer, tools=tuple(tools.values()), scores=scores)


def _interleave(answers: Sequence[ToolMatches]) -> tuple[Tool, ...]:
    """The best of each query, then the second of each, and so on, each tool once.

    What is likely wrong comes after what is likely right, whichever was asked for first.
    """
    rounds = zip_longest(
        *(a.tools for a in sorted(answers, key=lambda a: a.confidence < MIN_CONFIDENCE))
    )
    return tuple({t.name: t for row in rounds for t in row if t is not None}.values())


def _queries_without_match(
    asked: SearchArguments, answers: Sequence[ToolMatches]
) -> tuple[str, ...]:
    if len(answers) < 2:
        return ()
    queries = [q for q in asked.queries if q.strip()]
    pairs = zip(queries, answers, strict=True)
    return tuple(q for q, a in pairs if not a.tools or a.confidence < MIN_CONFIDENCE)


def _near_names(answers: Sequence[ToolMatches], tools: tuple[Tool, ...]) -> tuple[str, ...]:
    shown = {t.name for t in tools}
    rounds = zip_longest(*(a.near for a in answers))
    return _deduplicate(n for row in rounds for n in row if n is not None and n not in shown)


def _build_hint(profile: Profile, asked: SearchArguments, scope: Scope) -> NoMatchHint:
    """What may help, as far as the profile gives it."""
    parts = profile.advice.parts
    tools = scope.deferrable_tools if profile.searches_waiting_only else scope.tools
    names = [t.name for t in tools] if "names" in parts else []
    most = profile.limits.names
    groups = _deduplicate(t.category for t in tools if t.category) if "categories" in parts else ()
    said = profile.advice.message.replace("{query}", "\n".join(asked.queries)[:200])
    return NoMatchHint(
        categories=groups,
        names=tuple(names[:most]),
        unnamed=max(0, len(names) - most),
        message=said if "message" in parts else "",
    )


def _add_catalog_news(
    profile: Profile, found: ToolSearchResult, scope: Scope, session: SessionState
) -> SearchOutcome:
    """Tell once what changed in the catalog since the roster was fixed."""
    snapshot = read_snapshot(session)
    if snapshot is None or session.roster is None or not profile.roster_tokens:
        return SearchOutcome(found, session)
    seen = scope.catalog.fingerprint
    if seen == snapshot.seen:
        return SearchOutcome(found, session)
    now = roster.group_counts(scope.tools)
    told = roster.catalog_news(session.known, now)
    session = write_snapshot(session.with_known_groups(now), replace(snapshot, seen=seen))
    return SearchOutcome(replace(found, news=told), session)


def _deduplicate(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
