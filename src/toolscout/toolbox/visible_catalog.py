"""The part of a live catalog that callers under one rule may see, with a search of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import RLock
from typing import Any

from ..catalog.catalog import Catalog
from ..catalog.source import Source
from ..catalog.tool import Tool
from ..search.engine import Allow, Engine
from ..search.restricted import RestrictedEngine
from .live_catalog import LiveCatalog
from .server_content import CONTENT, CallerRule, RuleAccess

_SOURCE = "visible"
_MAX_RULES = 256
# An index takes about 10 KB for each tool with its vector, and a millisecond to make. So the rules
# that were used last keep theirs, up to this many tools in all.
MAX_INDEXED_TOOLS = 20_000


class VisibleCatalog:
    """A catalog without the tools that a rule hides, so that nothing can depend on them.

    The tools that get prompts and resources list only those that the rule admits.
    """

    def __init__(self, whole: LiveCatalog, rule: CallerRule, indexes: VisibleCatalogs) -> None:
        self._whole = whole
        self._rule = rule
        self._indexes = indexes
        self._lock = RLock()
        self._seen: Catalog | None = None
        self._part = Catalog()
        self._engine: RestrictedEngine | None = None

    @property
    def catalog(self) -> Catalog:
        """The tools that may be seen."""
        return self._select(self._whole.catalog)

    @property
    def engine(self) -> Engine:
        """The search over these tools; its index is made by the first search."""
        with self._lock:
            if self._engine is None:
                self._engine = RestrictedEngine(self._whole.engine, self._select)
            engine = self._engine
        self._indexes.touch(self)
        return engine

    def release(self) -> None:
        """Drop the index; the next search makes another."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def check_open(self) -> None:
        """Raise if the toolbox was closed."""
        self._whole.check_open()

    def source_of(self, tool: Tool) -> Source:
        """The source that runs a tool."""
        return self._whole.source_of(tool)

    def check_content(self, tool: Tool, arguments: Mapping[str, Any], _: Allow | None) -> None:
        """Raise if a tool would get a prompt or resource that the rule does not admit."""
        self._whole.check_content(tool, arguments, self._rule)

    def has_hidden_tool(self, name: str) -> bool:
        """Whether the rule hides a tool of this name."""
        return name in self._whole.catalog and name not in self.catalog

    def _select(self, whole: Catalog) -> Catalog:
        with self._lock:
            if self._seen is not whole:
                # By the names of servers: the order in which they were listed would show whether
                # there are others. The tools of a server keep the order of its own list.
                tools = sorted(self._visible_tools(whole), key=lambda tool: tool.server)
                self._part = Catalog(tools, source=_SOURCE)
                self._seen = whole
            return self._part

    def _visible_tools(self, whole: Catalog) -> list[Tool]:
        content = self._whole.content
        access = RuleAccess(self._rule)
        own = {t.name: t for t in content.build_tools(access)} if content is not None else {}
        tools: list[Tool] = []
        for tool in filter(self._rule, whole):
            if whole.source_of(tool.name) != CONTENT:
                tools.append(tool)
            elif tool.name in own:
                tools.append(own[tool.name])
        return tools


class VisibleCatalogs:
    """The visible catalogs of all rules; those used last keep their indexes."""

    def __init__(self, whole: LiveCatalog, *, max_tools: int = MAX_INDEXED_TOOLS) -> None:
        self._whole = whole
        self._max_tools = max_tools
        self._lock = RLock()
        self._by_rule: OrderedDict[CallerRule, VisibleCatalog] = OrderedDict()
        self._indexed: OrderedDict[VisibleCatalog, None] = OrderedDict()

    def get(self, rule: CallerRule) -> VisibleCatalog:
        """What callers under this rule may see."""
        with self._lock:
            if rule not in self._by_rule:
                self._by_rule[rule] = VisibleCatalog(self._whole, rule, self)
            self._by_rule.move_to_end(rule)
            if len(self._by_rule) > _MAX_RULES:
                self._by_rule.popitem(last=False)
            return self._by_rule[rule]

    def touch(self, used: VisibleCatalog) -> None:
        """Note that an index is used, and drop those that were not used for longest."""
        with self._lock:
            self._indexed[used] = None
            self._indexed.move_to_end(used)
            released = [*self._excess()]
            for each in released:
                del self._indexed[each]
        for each in released:
            each.release()

    def close(self) -> None:
        """Drop all indexes."""
        with self._lock:
            released = [*self._indexed]
            self._indexed.clear()
        for each in released:
            each.release()

    def _excess(self) -> list[VisibleCatalog]:
        """The indexes beyond the limit; the one used last always stays."""
        size, excess = 0, list[VisibleCatalog]()
        for number, each in enumerate(reversed(self._indexed)):
            size += len(each.catalog)
            if number and size > self._max_tools:
                excess.append(each)
        return excess
