"""A search from question to findings: match, load, and say what is worth saying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from ..catalog.tool import Tool
from ..errors import QueryError
from ..search.engine import Engine
from . import roster
from .asking import Asked
from .loading import SURE
from .matching.matcher import Domain, Matches
from .profile import Profile
from .replies.reply import Found, Hint
from .scope import Scope
from .session import Session
from .snapshot import Snapshot, read, write
from .spelling import with_real_names
from .surface import Surface


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and the session that remembers it."""

    found: Found
    session: Session


def find(profile: Profile, asked: Asked, scope: Scope, engine: Engine) -> Finding:
    """Match every query, load what the profile loads, and gather the answer's parts."""
    scope = _as_viewed(profile, scope)
    answers = _answers(profile, asked, scope, engine)
    tools = _interleaved(answers)
    sent = read(scope.session) or Snapshot()
    unsent = sent.unsent(scope.session)
    already = tuple(t.name for t in tools if scope.stand(t) and t.name not in unsent)
    surface = surface_of(profile, scope.session)
    loaded = tuple(n for n in _chosen(profile, answers, surface) if n not in already)
    session = scope.session.searched(*(q for q in asked.queries if q.strip()))
    session = session.load(*loaded, at_most=profile.limits.loaded)
    named = tuple(dict.fromkeys(n for a in answers for n in a.missing))
    there = tuple(n for n in named if (t := scope.get(n)) is not None and scope.stand(t))
    found = Found(
        queries=asked.queries,
        tools=tools,
        loaded=loaded,
        already=(*already, *there),
        missing=tuple(n for n in named if n not in there),
        unmet=_unmet(asked, answers),
        near=_near(answers, tools),
        notes=_distinct(n for a in answers for n in a.notes),
        confidence=max((a.confidence for a in answers), default=0.0) if tools else 0.0,
        is_fuzzy=any(a.is_fuzzy for a in answers),
        surface=surface,
        beyond=beyond(profile, replace(scope, session=session)),
        after=replace(scope, session=session),
        hint=Hint() if tools else _hint(profile, asked, scope),
    )
    return _with_news(profile, found, scope, session)


def _as_viewed(profile: Profile, scope: Scope) -> Scope:
    """The scope as a view has it: behind a dispatcher no catalog is so small as to be shown whole.

    It matters where nothing was viewed yet, and for callers who come once and are not known again.
    """
    is_dispatched = surface_of(profile, scope.session) == "dispatch"
    return replace(scope, was_small=False) if is_dispatched else scope


def _chosen(profile: Profile, answers: Sequence[Matches], surface: Surface) -> tuple[str, ...]:
    """What is loaded: as the profile says; and more where the model sees nothing else."""
    most = max(1, profile.native.most // len(answers)) if surface == "native" else 0
    names: list[str] = []
    for answer in answers:
        picked = profile.loading(answer)
        is_sure = not picked or answer.is_named or answer.confidence >= 1
        more = () if is_sure or not most else answer.tools[:most]
        names += [t.name for t in (*picked, *more)]
    return _distinct(names)


def beyond(profile: Profile, scope: Scope) -> frozenset[str]:
    """What is in view by right and has no room in the provider's list."""
    sent = read(scope.session)
    if sent is None or sent.room is None or sent.surface != "load":
        return frozenset()
    if profile.hiding == "omit":
        return sent.beyond(scope.session)
    return frozenset(t.name for t in scope.tools[sent.room :])


def surface_of(profile: Profile, session: Session) -> Surface:
    """The surface this conversation is on: as it was last viewed, else as the profile wishes."""
    snapshot = read(session)
    said = snapshot.surface if snapshot else profile.surface
    match said:
        case "direct" | "load" | "dispatch" | "native":
            return said
        case _:
            return "load"


def _answers(profile: Profile, asked: Asked, scope: Scope, engine: Engine) -> list[Matches]:
    domain = Domain(scope, engine, profile.searches_waiting_only)
    if asked.is_empty:
        return [_for_nothing(profile, domain, limit=asked.limit)]
    queries = asked.queries if len(asked.queries) == 1 else [q for q in asked.queries if q.strip()]
    limit = asked.limit
    if limit is not None and len(queries) > 1:
        limit = max(2, limit // len(queries))
    queries = [with_real_names(q, scope) for q in queries]
    answers = [profile.matcher.match(q, domain, limit=limit) for q in queries]
    return [_related(profile, a, scope, limit=limit) for a in answers]


def _for_nothing(profile: Profile, domain: Domain, *, limit: int | None) -> Matches:
    match profile.on_empty:
        case "error":
            raise QueryError(
                "query is required: it was empty",
                hint="Say in a few words what the tool should do.",
            )
        case "none":
            return Matches(confidence=0.0)
        case "all":
            tools = domain.tools
        case "browse":
            tools = domain.tools[:limit]
    return Matches(tools=tools, scores=(0.0,) * len(tools))


def _related(profile: Profile, answer: Matches, scope: Scope, *, limit: int | None) -> Matches:
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


def _interleaved(answers: Sequence[Matches]) -> tuple[Tool, ...]:
    """The best of each query, then the second of each, and so on, each tool once.

    What is likely wrong comes after what is likely right, whichever was asked for first.
    """
    rounds = zip_longest(*(a.tools for a in sorted(answers, key=lambda a: a.confidence < SURE)))
    return tuple({t.name: t for row in rounds for t in row if t is not None}.values())


def _unmet(asked: Asked, answers: Sequence[Matches]) -> tuple[str, ...]:
    if len(answers) < 2:
        return ()
    queries = [q for q in asked.queries if q.strip()]
    pairs = zip(queries, answers, strict=True)
    return tuple(q for q, a in pairs if not a.tools or a.confidence < SURE)


def _near(answers: Sequence[Matches], tools: tuple[Tool, ...]) -> tuple[str, ...]:
    shown = {t.name for t in tools}
    rounds = zip_longest(*(a.near for a in answers))
    return _distinct(n for row in rounds for n in row if n is not None and n not in shown)


def _hint(profile: Profile, asked: Asked, scope: Scope) -> Hint:
    """What may help, as far as the profile gives it."""
    parts = profile.advice.parts
    tools = scope.pool if profile.searches_waiting_only else scope.tools
    names = [t.name for t in tools] if "names" in parts else []
    most = profile.limits.names
    groups = _distinct(t.category for t in tools if t.category) if "categories" in parts else ()
    said = profile.advice.message.replace("{query}", "\n".join(asked.queries)[:200])
    return Hint(
        categories=groups,
        names=tuple(names[:most]),
        unnamed=max(0, len(names) - most),
        message=said if "message" in parts else "",
    )


def _with_news(profile: Profile, found: Found, scope: Scope, session: Session) -> Finding:
    """Tell once what changed in the catalog since the roster was fixed."""
    snapshot = read(session)
    if snapshot is None or session.roster is None or not profile.roster_tokens:
        return Finding(found, session)
    seen = scope.catalog.fingerprint
    if seen == snapshot.seen:
        return Finding(found, session)
    now = roster.counts(scope.tools)
    told = roster.news(session.known, now)
    session = write(session.told(now), replace(snapshot, seen=seen))
    return Finding(replace(found, news=told), session)


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
