"""The content management system: opens the site, checks its tools, builds a toolbox."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolscout import Toolbox
from toolscout.catalog.tool import Tool
from toolscout.catalog.validation import Expectations, ValidationReport, validate
from toolscout.guidance.rules import Rules
from toolscout.memory.memory import Memory
from toolscout.sources.functions import tool_of

from .database import Database
from .entries import Entries
from .extractors import EXTRACTORS, PROBES
from .fake_services import serve_fakes
from .http_tools import HttpTools
from .images import Images
from .navigation import Navigation
from .pages import Pages
from .pexels import Pexels
from .planning import Planning
from .posts import Posts
from .research import Research
from .search import Search
from .sections import Sections
from .seed import seed
from .similarity import TextSimilarity

_log = logging.getLogger(__name__)
RULES = Path(__file__).with_name("rules")
WORKFLOWS = Path(__file__).with_name("workflows")
"""The six long prompts that the rules are condensed from; an agent with everything has them."""
CATEGORIES = (
    *("pages", "sections", "images", "posts", "navigation", "entries"),
    *("search", "research", "pexels", "http", "planning"),
)


@dataclass(frozen=True, slots=True)
class Cms:
    """An open site: its database, its uploads, and its tools as functions."""

    database: Database
    uploads: Path
    functions: tuple[Callable[..., Any], ...]

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools with their metadata, as the catalog knows them."""
        return tuple(tool_of(function) for function in self.functions)

    def toolbox(self, **options: Any) -> Toolbox:
        """A toolbox with the site's tools, rules and memory, in the profile `cms`."""
        settings: dict[str, Any] = {
            "profile": "cms",
            "rules": Rules(RULES),
            "memory": Memory(extractors=EXTRACTORS, probes=PROBES),
            **options,
        }
        return Toolbox(self.functions, **settings)


def check(tools: tuple[Tool, ...]) -> ValidationReport:
    """Check that every tool is described in full and that references are valid."""
    return validate(
        {tool.name: tool for tool in tools},
        Expectations(
            callable_names=[tool.name for tool in tools],
            extractors=[*EXTRACTORS],
            categories=CATEGORIES,
            fields=("description", "category", "phrases", "risk"),
        ),
    )


@asynccontextmanager
async def open_cms(folder: Path | str) -> AsyncGenerator[Cms, None]:
    """Open the site in a folder, or create it; raises if its tools are invalid."""
    root = Path(folder)
    uploads = root / "uploads" / "images"
    uploads.mkdir(parents=True, exist_ok=True)
    database = Database(root / "site.db")
    try:
        seed(database, uploads)
        with serve_fakes() as (photos, web):
            cms = Cms(database, uploads, _functions(database, uploads, photos, web))
            report = check(cms.tools).raise_if_invalid()
            _log.info(
                "The site has %d tools and %d custom extractors.",
                report.tool_count,
                report.custom_extractor_count,
            )
            yield cms
    finally:
        database.close()


def _functions(
    database: Database, uploads: Path, photos: str, web: str
) -> tuple[Callable[..., Any], ...]:
    similarity = TextSimilarity()
    http = HttpTools({url.removeprefix("http://") for url in (photos, web)})
    sections = Sections(database)
    images = Images(database, sections, similarity, uploads)
    parts = (
        Pages(database, sections),
        sections,
        images,
        Posts(database),
        Navigation(database),
        Entries(database),
        Search(database, similarity),
        http,
        Research(http, web),
        Pexels(http, images, photos),
        Planning(),
    )
    return tuple(function for part in parts for function in part.tools)
