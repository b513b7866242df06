"""One search as a model would make it, under a profile and an embedder to compare."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from ..disclosure.discovery import discover
from ..disclosure.doubt import judge_results
from ..disclosure.profile import Profile
from ..disclosure.profiles import BUILT_IN, get_profile
from ..disclosure.session_state import SessionState
from ..embedders import load_embedders
from ..events import ignore
from ..gateway.access import AccessRule
from ..gateway.gateway import Gateway
from ..search.engine import Engine
from ..search.hit import Results
from ..tokens import default_counter
from ..toolbox.engine_settings import configure_engine

# Choices and not free text: an embedder may be a file or an address, which an admin of the gateway
# need not be able to make it read.
EMBEDDERS: Mapping[str, str] = {
    "": "as configured",
    "none": "none (keywords only)",
    "use": "use (bundled)",
}
PROFILES = tuple(profile.name for profile in BUILT_IN if profile.tool_for("search"))
_MAX_ENGINES = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """A search under one profile and one embedder; `reply` is what the model would read."""

    profile: str
    embedder: str
    results: Results
    reply: str
    reply_tokens: int


class ComparedEngines:
    """Engines with other embedders than the gateway's own; those used last are kept."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._engines: OrderedDict[tuple[str, AccessRule | None], Engine] = OrderedDict()

    def get(self, gateway: Gateway, rule: AccessRule | None, embedder: str) -> Engine:
        """The search over what a caller may see; missing vectors are computed in the background."""
        if not embedder:
            return gateway.box.engine_for(rule)
        with self._lock:
            engine = self._engines.pop((embedder, rule), None)
            if engine is None:
                found = load_embedders(embedder)
                engine = configure_engine(gateway.setup.config, found, sink=ignore)
            self._engines[embedder, rule] = engine
            while len(self._engines) > _MAX_ENGINES:
                self._engines.popitem(last=False)[1].close()
        catalog = gateway.box.visible_catalog(rule)
        if engine.catalog is not catalog:
            engine.update(catalog)
        return engine


def choose_profile(gateway: Gateway, name: str) -> Profile:
    """A profile by its name; that of the gateway without one."""
    return get_profile(name) if name else gateway.box.profile


def run_trial(engine: Engine, profile: Profile, query: str, *, limit: int, embedder: str) -> Trial:
    """Search, and write the reply of the search tool; nothing is recorded and nothing is loaded."""
    engine.sync()
    results = judge_results(engine.search(query, limit=limit), engine)
    tool = profile.tool_for("search")
    reply = ""
    if tool is not None:
        outcome = discover(
            profile,
            tool.name,
            {"query": query},
            session=SessionState("playground"),
            engine=engine,
            catalog=engine.catalog,
        )
        reply = outcome.result.text
    tokens = default_counter().count(reply) if reply else 0
    return Trial(profile.name, EMBEDDERS[embedder], results, reply, tokens)
