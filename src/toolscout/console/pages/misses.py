"""Misses: searches that found nothing sure or led to no call; add a phrase to the right tool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from starlette.responses import Response

from ...catalog.overlay import OverlayEntry, tool_key
from ...catalog.tool import Tool
from ...config import expand_path
from ...errors import ConfigError, QueryError, UnknownToolError
from ...evals.phrase_preview import QueryRank, RankChange, preview_ranks
from ...evals.tool_rank import RANK_PROBLEMS
from ...journal.missed_searches import MissCluster, read_misses
from ...toolbox.overlay_file import add_to_overlay
from ..html import Child, Html, tag
from ..journal_view import record_path
from ..page import ConsolePage, act, get
from ..visit import Visit
from ..widgets import facts, field, moment, table, text_input
from .live import journal_of, shows_texts

PATH = "/console/misses"
# More would make the page wait.
_MAX_ROWS = 5_000
_MAX_CLUSTERS = 100
_MAX_TEXTS = 20
_MAX_ROWS_SHOWN = 50
_MAX_QUERIES = 5
_MAX_TEXT_CHARS = 300
_OFF = 'Nothing is recorded: record = "off" in the settings.'
_NO_TEXTS = 'Texts of requests are shown with record = "full" in the settings.'
_NO_FILE = (
    'No overlay file is configured. Set overlay = "phrases.toml" under [gateway], and start the'
    " gateway again, to add phrases here."
)


@dataclass(frozen=True, slots=True)
class _Addition:
    """What a form adds to a tool, and the request to rank it for."""

    tool: str
    phrase: str
    alias: str
    query: str

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> _Addition:
        return cls(*(fields.get(name, "").strip() for name in ("tool", "phrase", "alias", "query")))

    @property
    def phrases(self) -> tuple[str, ...]:
        """The phrases to add."""
        return (self.phrase,) if self.phrase else ()

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases to add."""
        return (self.alias,) if self.alias else ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to add."""
        return not self.tool or not (self.phrase or self.alias)


async def show_misses(visit: Visit) -> Response:
    """The searches that missed, in groups."""
    clusters = await _read(visit)
    searches = sum(len(cluster.misses) for cluster in clusters)
    note = (
        f"{searches:,} searches missed among the newest {_MAX_ROWS:,} rows of the journal: their"
        " confidence was low, or nothing was called after them. Similar ones are together."
    )
    is_off = visit.gateway.setup.config.record == "off"
    columns = ("Request", "Searches", "Sessions", "Confidence", "Why", "Last", "Found")
    return visit.show(
        "Misses",
        tag("p", {"class": "error"}, _OFF) if is_off else tag("p", {"class": "muted"}, note),
        table("Misses", columns, map(_cells, clusters[:_MAX_CLUSTERS]), empty="No search missed."),
        _texts_note(visit),
    )


async def _read(visit: Visit) -> list[MissCluster]:
    return await asyncio.to_thread(
        read_misses,
        journal_of(visit),
        now=time.time(),
        shows_texts=shows_texts(visit),
        limit=_MAX_ROWS,
    )


def _texts_note(visit: Visit) -> Child:
    return None if shows_texts(visit) else tag("p", {"class": "muted"}, _NO_TEXTS)


def _cells(cluster: MissCluster) -> tuple[Child, ...]:
    return (
        tag("a", {"href": _path(cluster.newest.id)}, _describe(cluster)),
        len(cluster.misses),
        cluster.sessions,
        f"{cluster.confidence:.2f}",
        _describe_reasons(cluster),
        moment(cluster.newest.time),
        ", ".join(cluster.tools[:3]) or "nothing",
    )


def _path(key: str) -> str:
    return f"{PATH}/{quote(key, safe='')}"


def _describe(cluster: MissCluster) -> str:
    if cluster.texts:
        return f"“{cluster.texts[0][:_MAX_TEXT_CHARS]}”"
    return f"{cluster.misses[0].query_chars} characters"


def _describe_reasons(cluster: MissCluster) -> str:
    return ", ".join(f"{reason}: {number}" for reason, number in cluster.reasons.items())


# One group


async def show_cluster(visit: Visit) -> Response:
    """One group of searches, and a form to add a phrase to the tool that they meant."""
    return await _show_cluster(visit, _Addition.read(visit.query))


async def _show_cluster(visit: Visit, asked: _Addition) -> Response:
    cluster = await _find_cluster(visit)
    path = visit.gateway.setup.toolbox_config.overlay
    preview: Child = None
    if path is not None and not asked.is_empty:
        preview = await _preview(visit, cluster, asked, expand_path(path))
    return visit.show(
        "Missed searches",
        facts(
            [
                ("searches", len(cluster.misses)),
                ("sessions", cluster.sessions),
                ("confidence", f"{cluster.confidence:.2f}"),
                ("why", _describe_reasons(cluster)),
                ("found", ", ".join(cluster.tools) or "nothing"),
            ]
        ),
        _render_texts(cluster),
        _texts_note(visit),
        tag("h2", None, "Add a phrase or an alias"),
        _render_form(visit, cluster, asked) if path else tag("p", {"class": "muted"}, _NO_FILE),
        preview,
        tag("h2", None, "Searches"),
        _render_rows(cluster),
    )


async def _find_cluster(visit: Visit) -> MissCluster:
    """The group that a search belongs to; new searches may have joined it."""
    key = visit.request.path_params["id"]
    for cluster in await _read(visit):
        if any(miss.row.id == key for miss in cluster.misses):
            return cluster
    raise QueryError(
        "This search is not among the misses now.", hint=f"Only {_MAX_ROWS:,} rows are read."
    )


def _render_texts(cluster: MissCluster) -> Child:
    texts = [tag("li", None, text) for text in cluster.texts[:_MAX_TEXTS]]
    return (tag("h2", None, "Requests"), tag("ul", None, texts)) if texts else None


def _render_form(visit: Visit, cluster: MissCluster, asked: _Addition) -> Html:
    newest = next((text for miss in cluster.misses for text in miss.texts), "")
    phrase = asked.phrase or ("" if asked.alias else newest)
    known = [tag("option", {"value": name}) for name in cluster.tools]
    tool = text_input("tool", asked.tool, size=28, list="found-tools", required=True)
    return tag(
        "form",
        {"method": "get", "action": _path(visit.request.path_params["id"])},
        field("Tool", tool),
        tag("datalist", {"id": "found-tools"}, known),
        _wide("Phrase", text_input("phrase", phrase[:_MAX_TEXT_CHARS])),
        field("or alias", text_input("alias", asked.alias, size=16)),
        _wide("Rank it for another request", text_input("query", asked.query)),
        tag("button", {"class": "main"}, "Preview"),
    )


def _wide(label: str, control: Html) -> Html:
    return tag("label", {"class": "field wide"}, tag("span", None, label), control)


async def _preview(visit: Visit, cluster: MissCluster, asked: _Addition, path: Path) -> Html:
    tool = _find_tool(visit, asked.tool)
    overlay = await asyncio.to_thread(
        add_to_overlay,
        path,
        tool_key(tool),
        phrases=asked.phrases,
        aliases=asked.aliases,
        is_saved=False,
    )
    given = [asked.query, *cluster.texts, asked.phrase or asked.alias]
    queries = [text for text in dict.fromkeys(given) if text][:_MAX_QUERIES]
    engine = visit.gateway.box.engine_for(None)
    changes = await asyncio.to_thread(preview_ranks, engine, tool.name, overlay, queries)
    entry = overlay.entries.get(tool_key(tool), OverlayEntry())
    save = tag(
        "form",
        {"method": "post", "action": _path(visit.request.path_params["id"])},
        visit.csrf_field(),
        [
            tag("input", {"type": "hidden", "name": name, "value": value})
            for name, value in (
                ("tool", tool.name),
                ("phrase", asked.phrase),
                ("alias", asked.alias),
            )
        ],
        tag("button", {"class": "main"}, "Save"),
    )
    return tag(
        "section",
        {"class": "card", "aria-label": "Preview"},
        tag("h3", None, "The rank of ", tag("code", None, tool.name)),
        _render_ranks(changes),
        tag("p", {"class": "muted"}, f"Phrases then: {len(entry.phrases)}, aliases:"
            f" {len(entry.aliases)}. Past use does not count here."),
        save if visit.may_act else visit.login_hint(),
    )  # fmt: skip


def _render_ranks(changes: Sequence[RankChange]) -> Html:
    rows = ((c.query, *_rank_cells(c.before), *_rank_cells(c.after)) for c in changes)
    columns = ("Request", "Rank now", "Confidence", "Rank with it", "Confidence then")
    return table("Ranks", columns, rows)


def _rank_cells(found: QueryRank) -> tuple[str, str]:
    rank = found.rank
    if rank.problem:
        place = RANK_PROBLEMS[rank.problem]
    else:
        place = "not ranked" if rank.rank is None else f"{rank.rank:,} of {rank.tools:,}"
    return place, f"{found.confidence:.2f}"


def _find_tool(visit: Visit, name: str) -> Tool:
    catalog = visit.gateway.box.catalog
    names = catalog.resolve(name)
    if len(names) == 1:
        return catalog[names[0]]
    if names:
        raise UnknownToolError(
            f"{name!r} is ambiguous.", hint=f"Use one of these names: {', '.join(names)}."
        )
    raise UnknownToolError(f"No tool is named {name!r}.", hint="Search for it in the playground.")


def _render_rows(cluster: MissCluster) -> Html:
    rows = (
        (
            moment(miss.row.time),
            miss.row.principal or "anonymous",
            f"{miss.confidence:.2f}",
            miss.reason,
            ", ".join(miss.names[:3]) or "nothing",
            tag("a", {"href": record_path(miss.row)}, "Record ", _hidden(miss.row.id)),
        )
        for miss in cluster.misses[:_MAX_ROWS_SHOWN]
    )
    return table("Searches", ("Time", "Principal", "Confidence", "Why", "Found", ""), rows)


def _hidden(text: str) -> Html:
    return tag("span", {"class": "hidden"}, text)


async def save(visit: Visit) -> Response:
    """Write the phrase or alias into the overlay file, and use it at once."""
    asked, path = _Addition.read(visit.form), visit.gateway.setup.toolbox_config.overlay
    if path is None:
        raise ConfigError(_NO_FILE)
    if asked.is_empty:
        raise ConfigError("There is nothing to add.", hint="Name a tool, and a phrase or an alias.")
    tool, gateway = _find_tool(visit, asked.tool), visit.gateway
    await asyncio.to_thread(
        add_to_overlay,
        expand_path(path),
        tool_key(tool),
        phrases=asked.phrases,
        aliases=asked.aliases,
    )
    # Reads the overlay at once, and lists the one source that costs nothing.
    await gateway.box.refresh(gateway.upstreams.content.name)
    added = asked.phrase or asked.alias
    return visit.go_to(PATH, notice=f"Added to {tool.name}: {added}")


PAGE = ConsolePage(
    "Misses",
    "/misses",
    (get("", show_misses), get("/{id}", show_cluster), act("/{id}", save)),
)
