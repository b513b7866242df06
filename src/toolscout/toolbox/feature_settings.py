"""Features that the settings ask for: rules, skills, memory and large results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..config import Config
from ..disclosure.feature import Feature
from ..disclosure.profile import Profile
from ..errors import ConfigError
from ..events import Sink
from ..folders import PREFIX
from ..offload.result_factory import open_results
from ..offload.result_store import ResultStore
from .features import Features


def build_features(config: Config, given: Features, *, profile: Profile, sink: Sink) -> Features:
    """The features that a program gave; for others, those of the settings and the profile."""
    check_feature_paths(config, profile)
    paths = (*config.rules, *profile.rules)
    rules, memory = given.rules, given.memory
    others = given.others
    # Imported on demand: a toolbox without these features starts faster.
    if rules is None and paths:
        from ..guidance.rules import Rules

        rules = Rules(*paths, sink=sink, is_watched=True)
    if memory is None and (config.memory or profile.remembers):
        from ..memory.memory import Memory

        memory = Memory()
    if config.skills and not _has(others, "skills"):
        from ..guidance.skills import Skills

        skills = Skills(*config.skills, style=profile.skill_style, matching=profile.skill_matching)
        others = (*others, skills)
    if profile.runs_code and not _has(others, "code"):
        from ..code_mode.code_mode import CodeMode
        from ..code_mode.limits import MEGABYTE, CodeLimits

        limits = CodeLimits(
            cpu_seconds=config.code_cpu_seconds,
            sleep_seconds=config.code_sleep_seconds,
            memory_bytes=round(config.code_memory_mb * MEGABYTE),
            calls=config.code_calls,
            parallel=config.code_parallel_calls,
        )
        code_mode = CodeMode(limits=limits, gives_api_specs=profile.gives_api_specs)
        others = (*others, code_mode)
    return replace(
        given,
        rules=rules,
        memory=memory,
        offload=given.offload or _result_store(config, profile),
        others=others,
    )


def _has(features: tuple[Feature, ...], key: str) -> bool:
    return any(feature.health_key == key for feature in features)


def _result_store(config: Config, profile: Profile) -> ResultStore:
    is_stored = config.large_outputs
    if is_stored is None:
        is_stored = profile.output_tools != "as set"
    # Without a place for them it stores nothing, but it still caps the size of results.
    results = open_results(config) if is_stored else None
    return ResultStore(results, show_aliases=profile.output_tools == "all")


def follow_profile(features: Features, profile: Profile) -> Features:
    """The features with the tools for large results that another profile shows."""
    store = features.offload
    if isinstance(store, ResultStore):
        store.show_aliases = profile.output_tools == "all"
    return replace(features)  # without the tools that it has cached


def check_feature_paths(config: Config, profile: Profile) -> None:
    """Raise for a path of rules or skills that cannot be used."""
    for path in (*config.rules, *profile.rules):
        if path.suffix != ".md":
            _require_folder(path, "rules")
        elif not path.is_file():
            raise _path_error(path, "rules", "is not a file")
    for path in config.skills:
        _require_folder(path, "skills")


def _require_folder(path: Path, setting: str) -> None:
    if not path.is_dir():
        raise _path_error(path, setting, "is a file" if path.exists() else "does not exist")


def _path_error(path: Path, setting: str, flaw: str) -> ConfigError:
    what = "a folder or a Markdown file (.md)" if setting == "rules" else "a folder"
    return ConfigError(
        f"The setting {setting} names {path}, which {flaw}.",
        hint=f"Make it {what}, or change {setting} in the configuration"
        f" ({PREFIX}{setting.upper()} in the environment).",
    )
