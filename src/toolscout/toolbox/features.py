"""The features of a toolbox; a failure in one never fails a call.

A feature that raises is left out of that step; the error is returned with the results of the
others, for the caller to report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

from ..catalog.catalog import Catalog
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.feature import CallerSession, Feature
from ..disclosure.profile import Profile
from ..disclosure.session_state import SessionState
from ..errors import ConfigError

# Names of the sections in a stored session. They are on users' disks, so they never change.
RULES = "rules"
MEMORY = "memory"
OFFLOAD = "offload"
INTRODUCTIONS = "introductions"
_OTHER_SECTIONS = "feature:"

T = TypeVar("T")


class FeatureFailure(NamedTuple):
    """A feature, by its name in reports, and the error that one of its methods raised."""

    feature: str
    error: Exception


class _NamedFeature(NamedTuple):
    name: str
    section: str
    feature: Feature


@dataclass(frozen=True, slots=True)
class _FeatureTools:
    """The tools of all features by name, each with its feature."""

    visible: Mapping[str, tuple[Feature, Tool]]
    callable: Mapping[str, tuple[Feature, Tool]]
    failures: tuple[FeatureFailure, ...]


@dataclass(frozen=True)
class Features:
    """The features of a toolbox: three with a role, each of which may be missing, and others."""

    rules: Feature | None = None
    memory: Feature | None = None
    offload: Feature | None = None
    others: tuple[Feature, ...] = ()

    def __post_init__(self) -> None:
        for feature in (self.rules, self.memory, self.offload, *self.others):
            _check_feature(feature)

    @cached_property
    def _named(self) -> tuple[_NamedFeature, ...]:
        roles = ((RULES, self.rules), (MEMORY, self.memory), (OFFLOAD, self.offload))
        named = [_NamedFeature(role, role, f) for role, f in roles if f is not None]
        for feature in self.others:
            # The same object may have a role and be named again for its tools: it counts once.
            if any(feature is known.feature for known in named):
                continue
            key = feature.health_key or type(feature).__name__.lower()
            same = sum(known.name.split(" ")[0] == key for known in named)
            name = f"{key} {same + 1}" if same else key
            named.append(_NamedFeature(name, f"{_OTHER_SECTIONS}{name}", feature))
        return tuple(named)

    @property
    def by_name(self) -> Mapping[str, Feature]:
        """Every feature by its name in reports: its role, else its `health_key`."""
        return {name: feature for name, _, feature in self._named}

    def section_of(self, feature: Feature) -> str:
        """The section of a feature in a stored session."""
        return next(named.section for named in self._named if named.feature is feature)

    def find_waiting(self, state: SessionState, need: str, *, principal: str) -> Feature | None:
        """The feature with a call that waits for this approval or answer."""
        for named in self._named:
            section = state.sections.get(named.section)
            if section and named.feature.waits_for(section, need, principal=principal):
                return named.feature
        return None

    # Tools and text

    @cached_property
    def _tools(self) -> _FeatureTools:
        visible: dict[str, tuple[Feature, Tool]] = {}
        aliases: dict[str, tuple[Feature, Tool]] = {}
        failures: list[FeatureFailure] = []
        for name, _, feature in self._named:
            try:
                visible |= {tool.name: (feature, tool) for tool in feature.tools()}
                aliases |= {tool.name: (feature, tool) for tool in feature.alias_tools()}
            except Exception as error:  # noqa: BLE001 - the other features still work
                failures.append(FeatureFailure(name, error))
        # Visible tools last, so that no alias of one feature hides a tool of another.
        return _FeatureTools(visible, {**aliases, **visible}, tuple(failures))

    @property
    def visible_tools(self) -> Mapping[str, tuple[Feature, Tool]]:
        """The tools that features add to the view, each with its feature."""
        return self._tools.visible

    @property
    def callable_tools(self) -> Mapping[str, tuple[Feature, Tool]]:
        """The visible tools and the aliases, each with its feature."""
        return self._tools.callable

    @property
    def tool_failures(self) -> tuple[FeatureFailure, ...]:
        """The features whose tools are missing because they could not be asked for."""
        return self._tools.failures

    def introduction(self) -> tuple[str, tuple[FeatureFailure, ...]]:
        """The texts that features add to the instructions."""
        return self._join_texts(lambda named: named.feature.introduction())

    def render(
        self, state: SessionState, *, discovered: Sequence[str]
    ) -> tuple[str, tuple[FeatureFailure, ...]]:
        """What the features remember of a conversation."""
        return self._join_texts(
            lambda named: named.feature.render(
                state.sections.get(named.section), discovered=discovered
            )
        )

    def _join_texts(
        self, get_text: Callable[[_NamedFeature], str]
    ) -> tuple[str, tuple[FeatureFailure, ...]]:
        texts: list[str] = []
        failures: list[FeatureFailure] = []
        for named in self._named:
            try:
                texts.append(_check_type(get_text(named), str))
            except Exception as error:  # noqa: BLE001 - the other features still work
                failures.append(FeatureFailure(named.name, error))
        return "\n\n".join(text for text in texts if text), tuple(failures)

    # Results

    async def keep(
        self, session: CallerSession, tool: Tool, result: Result
    ) -> tuple[Result, tuple[FeatureFailure, ...]]:
        """The result as the model gets it."""
        failures: list[FeatureFailure] = []
        for name, feature in self._keepers:
            try:
                result = _check_type(await feature.keep(session, tool, result), Result)
            except Exception as error:  # noqa: BLE001 - a failing feature must not lose the result
                failures.append(FeatureFailure(name, error))
        return result, tuple(failures)

    async def keep_turn(
        self, session: CallerSession, results: Sequence[tuple[Tool, Result]]
    ) -> tuple[tuple[Result, ...], tuple[FeatureFailure, ...]]:
        """The results of one turn, so that together they are not too large."""
        tools = [tool for tool, _ in results]
        fitted = tuple(result for _, result in results)
        failures: list[FeatureFailure] = []
        for name, feature in self._keepers:
            try:
                pairs = list(zip(tools, fitted, strict=True))
                fitted = _check_results(await feature.keep_turn(session, pairs), len(tools))
            except Exception as error:  # noqa: BLE001 - a failing feature must not lose the results
                failures.append(FeatureFailure(name, error))
        return fitted, tuple(failures)

    @property
    def _keepers(self) -> Sequence[tuple[str, Feature]]:
        # The role `offload` comes last: the others see results before they are replaced by
        # previews.
        ordered = sorted(self._named, key=lambda named: named.feature is self.offload)
        return [(name, feature) for name, _, feature in ordered]

    # Sections of the session

    def deliver(
        self, state: SessionState, tools: Sequence[Tool]
    ) -> tuple[SessionState, str, tuple[FeatureFailure, ...]]:
        """The text that goes with tools, such as rules of use, and the state that records it."""
        texts: list[str] = []

        def deliver(feature: Feature, section: str | None) -> str | None:
            text, after = feature.deliver(section, tools)
            texts.append(_check_type(text, str))
            return after

        state, failures = self._update_sections(state, deliver)
        return state, "\n\n".join(text for text in texts if text), failures

    def observe(
        self, state: SessionState, tool: Tool, result: Result, *, now: float
    ) -> tuple[SessionState, tuple[FeatureFailure, ...]]:
        """The state after one more result."""
        return self._update_sections(
            state, lambda feature, section: feature.observe(section, tool, result, now=now)
        )

    def finish(self, state: SessionState) -> tuple[SessionState, tuple[FeatureFailure, ...]]:
        """The state after a turn."""
        return self._update_sections(state, lambda feature, section: feature.finish(section))

    def mark_compacted(
        self, state: SessionState
    ) -> tuple[SessionState, tuple[FeatureFailure, ...]]:
        """The state after the messages were shortened."""
        return self._update_sections(
            state, lambda feature, section: feature.mark_compacted(section)
        )

    def _update_sections(
        self, state: SessionState, change: Callable[[Feature, str | None], str | None]
    ) -> tuple[SessionState, tuple[FeatureFailure, ...]]:
        failures: list[FeatureFailure] = []
        for name, section, feature in self._named:
            before = state.sections.get(section)
            try:
                after = change(feature, before)
                if after is not None:
                    _check_type(after, str)
            except Exception as error:  # noqa: BLE001 - a failing feature must not lose the result
                failures.append(FeatureFailure(name, error))
                continue
            if after == before:
                continue
            state = (
                state.without_section(section)
                if after is None
                else state.with_section(section, after)
            )
        return state, tuple(failures)

    # Start and end

    async def start(self) -> tuple[FeatureFailure, ...]:
        """Start all features."""
        return await self._run_each(lambda feature: feature.start())

    async def close(self) -> tuple[FeatureFailure, ...]:
        """Close all features."""
        return await self._run_each(lambda feature: feature.close())

    async def forget(self, session_id: str) -> tuple[FeatureFailure, ...]:
        """Delete what the features store for a conversation."""
        return await self._run_each(lambda feature: feature.forget(session_id))

    async def _run_each(
        self, work: Callable[[Feature], Awaitable[object]]
    ) -> tuple[FeatureFailure, ...]:
        failures: list[FeatureFailure] = []
        for name, _, feature in self._named:
            try:
                await work(feature)
            except Exception as error:  # noqa: BLE001 - the other features still work
                failures.append(FeatureFailure(name, error))
        return tuple(failures)


def _check_feature(feature: object) -> None:
    if feature is None or isinstance(feature, Feature):
        return
    kind = feature.__name__ if isinstance(feature, type) else type(feature).__name__
    raise ConfigError(
        f"{kind} is not a feature.",
        hint="Derive its class from toolscout.Feature, and pass an instance.",
    )


def _check_type(value: object, kind: type[T]) -> T:
    """The value; raises where a feature returned something else, such as a forgotten `return`."""
    if not isinstance(value, kind):
        raise TypeError(f"returned a {type(value).__name__} instead of a {kind.__name__}")
    return value


def _check_results(results: Sequence[Result], count: int) -> tuple[Result, ...]:
    checked = tuple(_check_type(result, Result) for result in results)
    if len(checked) != count:
        raise ValueError(f"returned {len(checked)} results for {count}")
    return checked


def find_shadowed_tools(
    catalog: Catalog, *, profile: Profile, features: Features
) -> Mapping[str, str]:
    """Sources with tools that cannot be called, because a feature or the profile has the name."""
    own = dict.fromkeys(features.callable_tools, "a feature of this toolbox")
    own |= dict.fromkeys((m.name for m in profile.metatools), f"the profile {profile.name}")
    found: dict[str, list[str]] = defaultdict(list)
    for name, owner in own.items():
        if (source := catalog.source_of(name)) is not None:
            found[source].append(f"{name} cannot be called, since {owner} has a tool of that name")
    return {source: f"{'; '.join(why)}. Give it another name." for source, why in found.items()}
