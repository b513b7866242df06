"""Run a tool search: match the queries, select what to load, and collect the reply's parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from ..catalog.tool import CHANGED_WIRE_NAME, Tool
from ..errors import QueryError
from ..search.engine import Engine
from ..search.merging import MIN_MERGED_HITS, fuse_names, keep_best
from ..search.query import name_query
from . import roster
from .matcher import HybridMatcher, SearchDomain, ToolMatches
from .profile import Profile
from .reply import NoMatchHint, ToolSearchResult
from .scope import Scope
from .search_arguments import SearchArguments
from .session_state import SessionState
from .snapshot import ViewSnapshot, read_snapshot, write_snapshot
from .surface import Surface


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of a search, and the session after it."""

    found: ToolSearchResult
    session: SessionState


def find_tools(
    profile: Profile,
    arguments: SearchArguments,
    scope: Scope,
    engine: Engine,
    *,
    shown: frozenset[str] = frozenset(),
) -> SearchOutcome:
    """Match every query, load what the profile selects, and collect the parts of the reply.

    `shown` are the names of tools that are in view and in no catalog.
    """
    scope = _scope_for_surface(profile, scope)
    domain = SearchDomain(scope, engine, profile.searches_deferred_only, shown)
    matches = _match_queries(profile, arguments, domain)
    answers, tools = _merge_matches(profile, matches, limit=arguments.limit)
    snapshot = read_snapshot(scope.session) or ViewSnapshot()
    # In view by the rules, but not yet delivered: this search must deliver it.
    undelivered = snapshot.names_awaiting_search(scope.session)
    already = tuple(t.name for t in tools if scope.visibility(t) and t.name not in undelivered)
    surface = surface_of(profile, scope.session)
    loaded = tuple(n for n in _names_to_load(profile, answers, surface) if n not in already)
    session = scope.session.record_searches(*(q for q in arguments.queries if q.strip()))
    session = session.load(*loaded, at_most=profile.limits.loaded)
    # A matcher over deferred tools does not find a tool that is in view, so it reports a missing
    # name. The model gets "already available" for it.
    missing = _deduplicate(n for a in answers for n in a.missing)
    in_view = tuple(n for n in missing if _is_in_view(n, domain))
    found = ToolSearchResult(
        queries=arguments.queries,
        tools=tools,
        loaded=loaded,
        already=(*already, *in_view),
        missing=tuple(n for n in missing if n not in in_view),
        unmatched=_select_queries(arguments, answers, lambda a: not a.tools),
        doubtful=_select_queries(arguments, answers, lambda a: bool(a.tools) and a.is_unsure),
        near=_near_names(matches, tools),
        notes=_deduplicate(n for a in answers for n in a.notes),
        # The weakest query decides: the answer is complete only if every query has its tool.
        confidence=min((a.confidence for a in answers), default=0.0) if tools else 0.0,
        is_unsure=all(a.is_unsure for a in answers),
        is_fuzzy=any(a.is_fuzzy for a in answers),
        surface=surface,
        overflow=overflow_names(profile, replace(scope, session=session)),
        after=replace(scope, session=session),
        hint=NoMatchHint() if tools else _build_hint(profile, arguments, scope),
        scores=_best_scores(tools, matches),
        vectors=tuple(vector for a in answers for vector in a.vectors),
    )
    return _add_catalog_news(profile, found, scope, session)


def _is_in_view(name: str, domain: SearchDomain) -> bool:
    tool = domain.scope.get(name)
    return name in domain.shown if tool is None else bool(domain.scope.visibility(tool))


def _scope_for_surface(profile: Profile, scope: Scope) -> Scope:
    """The scope as a view would have it."""
    # On dispatch no catalog is shown whole, however small. A view records that; this covers
    # sessions without a view yet, and stateless clients that never have one.
    is_dispatch = surface_of(profile, scope.session) == "dispatch"
    return replace(scope, was_small=False) if is_dispatch else scope


def _names_to_load(
    profile: Profile, answers: Sequence[ToolMatches], surface: Surface
) -> tuple[str, ...]:
    """The tools that the profile's rule loads, and more on native."""
    # On native the model sees the loaded tools and no other hit, so a few more are loaded. An
    # exact answer needs no alternatives, and where the rule loads nothing, nothing is added.
    limit = max(1, profile.native.max_loaded // len(answers)) if surface == "native" else 0
    names: list[str] = []
    for answer in answers:
        selected = profile.loading(answer)
        is_exact = answer.is_named or answer.confidence >= 1
        more = answer.tools[:limit] if selected and not is_exact else ()
        names += [t.name for t in (*selected, *more)]
    return _deduplicate(names)


def overflow_names(profile: Profile, scope: Scope) -> frozenset[str]:
    """The tools that belong in view but have no room in the provider's list."""
    snapshot = read_snapshot(scope.session)
    if snapshot is None or snapshot.capacity is None or snapshot.surface != "load":
        return frozenset()
    if profile.hiding == "omit":
        return snapshot.overflow_names(scope.session)
    # Profiles that hide schemas list the whole catalog, so the overflow is its tail.
    return frozenset(t.name for t in scope.tools[snapshot.capacity :])


def surface_of(profile: Profile, session: SessionState) -> Surface:
    """The surface of this conversation: that of its last view, else the profile's choice."""
    snapshot = read_snapshot(session)
    surface = snapshot.surface if snapshot else profile.surface
    match surface:
        case "direct" | "load" | "dispatch" | "native":
            return surface
        case _:
            return "load"


def _match_queries(
    profile: Profile, arguments: SearchArguments, domain: SearchDomain
) -> list[ToolMatches]:
    scope = domain.scope
    if arguments.is_empty:
        return [_match_empty_query(profile, domain, limit=arguments.limit)]
    queries = [*arguments.queries]
    limit = arguments.limit
    if len(queries) > 1:
        queries = [q for q in queries if q.strip()]
    if limit is not None and len(queries) > 1:
        is_fused = _fuses_queries(profile)
        limit = max(limit, MIN_MERGED_HITS) if is_fused else _share_limit(limit, len(queries))
    answers: list[ToolMatches] = []
    for number, query in enumerate(queries, start=1):
        # Models copy names from their tool list, where they are wire names.
        text = _replace_wire_names(query, scope)
        try:
            answers.append(profile.matcher.match(text, domain, limit=limit))
        except QueryError as error:
            if len(queries) == 1:
                raise
            raise name_query(error, number) from error
    return [_add_related(profile, a, scope, limit=limit) for a in answers]


def _fuses_queries(profile: Profile) -> bool:
    return isinstance(profile.matcher, HybridMatcher) and profile.matcher.fuses_queries


def _share_limit(limit: int, queries: int) -> int:
    """The hits of each of several queries: they share one limit, but each keeps a second hit."""
    return max(2, limit // queries)


def _merge_matches(
    profile: Profile, matches: Sequence[ToolMatches], *, limit: int | None
) -> tuple[Sequence[ToolMatches], tuple[Tool, ...]]:
    """The hits of each query, and those of all queries in one order.

    Scores are fused where they can be compared, so that a tool which several queries find comes
    first. Otherwise the queries take turns.
    """
    if len(matches) < 2 or limit is None or not _fuses_queries(profile):
        return matches, _interleave(matches)
    share = _share_limit(limit, len(matches))
    answers = [m if m.is_named else m.cut(share) for m in matches]
    # Answers that are likely wrong come last, whatever the order of the queries.
    likely = [m for m in matches if not m.is_unsure]
    groups = (likely, [m for m in matches if m.is_unsure])
    fused = [fuse_names([m.scores_by_name for m in group], limit=limit) for group in groups]
    selected = [name for m in matches if m.is_named for name in m.names]
    loaded = [t.name for a in answers for t in profile.loading(a)]
    kept = keep_best(
        _deduplicate((*selected, *chain(*fused))),
        selected=selected,
        firsts={*loaded, *(name for a in answers for name in a.names[:1])},
        room=max(limit, share * len(matches)),
    )
    tools = {t.name: t for m in matches for t in m.tools}
    return answers, tuple(tools[name] for name in kept)


def _replace_wire_names(text: str, scope: Scope) -> str:
    """Replace wire names in a text by the catalog names they stand for."""

    def real_name(match: re.Match[str]) -> str:
        found = scope.tools_by_wire_name(match.group())
        return found[0].name if found else match.group()

    return CHANGED_WIRE_NAME.sub(real_name, text)


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
    """Add the related tools of the hits, in the order of the hits, up to the limit."""
    if not profile.expands_related or limit is None:
        return answer
    # With vectors every tool is a hit, so the list is always full. A hit that is less than half as
    # good as the best is kept only where the good ones declare no related tool.
    hits = {t.name: score for t, score in zip(answer.tools, answer.scores, strict=True)}
    floor = max(hits.values(), default=0.0) / 2
    tools = {t.name: t for t in answer.tools if floor <= 0 or hits[t.name] >= floor}
    for name in [n for t in tools.values() for n in t.related]:
        related = scope.get(name) if len(tools) < limit + profile.related_extra else None
        if related is not None:
            tools.setdefault(name, related)
    for tool in answer.tools:
        if len(tools) < limit:
            tools.setdefault(tool.name, tool)
    scores = tuple(hits.get(name, 0.0) for name in tools)
    return replace(answer, tools=tuple(tools.values()), scores=scores)


def _interleave(answers: Sequence[ToolMatches]) -> tuple[Tool, ...]:
    """The best of each query, then the second of each, and so on, each tool once."""
    # Answers that are likely wrong come last, whatever the order of the queries. The sort is
    # stable, so the others keep their order.
    rounds = zip_longest(*(a.tools for a in sorted(answers, key=lambda a: a.is_unsure)))
    return tuple({t.name: t for row in rounds for t in row if t is not None}.values())


def _best_scores(tools: Sequence[Tool], answers: Sequence[ToolMatches]) -> tuple[float, ...]:
    """The best score of each tool in any of the answers."""
    best: dict[str, float] = {}
    for tool, score in (pair for a in answers for pair in zip(a.tools, a.scores, strict=True)):
        best[tool.name] = max(score, best.get(tool.name, score))
    return tuple(best.get(tool.name, 0.0) for tool in tools)


def _select_queries(
    arguments: SearchArguments,
    answers: Sequence[ToolMatches],
    is_wanted: Callable[[ToolMatches], bool],
) -> tuple[str, ...]:
    """The queries whose answers are wanted; none if the reply as a whole says the same."""
    queries = [q for q in arguments.queries if q.strip()]
    if len(answers) < 2 or all(map(is_wanted, answers)):
        return ()
    return tuple(q for q, a in zip(queries, answers, strict=True) if is_wanted(a))


def _near_names(matches: Sequence[ToolMatches], tools: tuple[Tool, ...]) -> tuple[str, ...]:
    hits = {t.name for t in tools}
    rounds = zip_longest(*((*m.names, *m.near) for m in matches))
    return _deduplicate(n for row in rounds for n in row if n is not None and n not in hits)


def _build_hint(profile: Profile, arguments: SearchArguments, scope: Scope) -> NoMatchHint:
    """The parts of the hint that the profile gives."""
    parts = profile.no_match_hint.parts
    tools = scope.deferrable_tools if profile.searches_deferred_only else scope.tools
    names = [t.name for t in tools] if "names" in parts else []
    max_names = profile.limits.names
    groups = _deduplicate(t.category for t in tools if t.category) if "categories" in parts else ()
    message = profile.no_match_hint.message.replace("{query}", "\n".join(arguments.queries)[:200])
    return NoMatchHint(
        categories=groups,
        names=tuple(names[:max_names]),
        unnamed=max(0, len(names) - max_names),
        message=message if "message" in parts else "",
    )


def _add_catalog_news(
    profile: Profile, found: ToolSearchResult, scope: Scope, session: SessionState
) -> SearchOutcome:
    """Report once what changed in the catalog since the roster was fixed."""
    # The roster in the instructions stays the same, for the cached prefix. A reply is at the end
    # of the conversation, where new text costs nothing else.
    snapshot = read_snapshot(session)
    if snapshot is None or session.roster is None or not profile.roster_tokens:
        return SearchOutcome(found, session)
    fingerprint = scope.catalog.fingerprint
    if fingerprint == snapshot.reported_catalog:
        return SearchOutcome(found, session)
    now = roster.group_counts(scope.tools)
    news = roster.catalog_news(session.known, now)
    snapshot = replace(snapshot, reported_catalog=fingerprint)
    session = write_snapshot(session.with_known_groups(now), snapshot)
    return SearchOutcome(replace(found, news=news), session)


def _deduplicate(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
