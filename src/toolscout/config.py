"""Settings as one frozen value: arguments over environment over file over defaults."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from inspect import getsource
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .errors import ConfigError
from .folders import FILE_VARIABLE, PREFIX, find_settings_file, user_folder

TABLE = "settings"


def split_paths(value: object) -> object:
    """Paths as a list, with `~` expanded; text may have several, as `PATH` has."""
    if isinstance(value, str):
        value = [part for part in value.split(os.pathsep) if part.strip()]
    if not isinstance(value, list | tuple):
        return value
    items = cast("list[object] | tuple[object, ...]", value)
    return [Path(item).expanduser() if isinstance(item, str | Path) else item for item in items]


def _expand_paths(value: object) -> object:
    try:
        return split_paths(value)
    except RuntimeError as error:
        raise ValueError(f"{value!r} begins with the home folder of an unknown user") from error


PathList = Annotated[tuple[Path, ...], BeforeValidator(_expand_paths)]
"""Paths of files and folders."""


def expand_path(path: str | Path) -> Path:
    """The path with `~` expanded."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{str(path)!r} begins with the home folder of an unknown user.",
            hint="Write the path in full.",
        ) from error


FilePath = Annotated[Path, AfterValidator(expand_path)]
"""The path of one file or folder."""

POSTGRES_SCHEME = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)
"""How the URL of a PostgreSQL database begins."""

# Two characters at least: `C:/` is a drive of Windows.
_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]+):/", re.IGNORECASE)


def check_store_name(store: str) -> str:
    """The name of a store; ConfigError for the URL of another database, which is not a path."""
    found = _SCHEME.match(store)
    if found is None or POSTGRES_SCHEME.match(store):
        return store
    # Not the URL itself, which may have a password.
    raise ConfigError(
        f"The store begins with {found[1]}:/, which is not the URL of a store.",
        hint="Write sqlite, memory, the path of an SQLite file, or postgresql://USER@HOST/DATABASE.",
    )


StoreName = Annotated[str, AfterValidator(check_store_name)]
"""What names a store: a word, the path of a file, or a URL of PostgreSQL."""

# Relative paths in a settings file are relative to that file: a program that starts Toolscout may
# do so in any folder.
_PATH_SETTINGS = ("rules", "skills")


class Config(BaseModel):
    """All settings, read once and never changed; `docs/settings.md` has the same table."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    home: FilePath | None = None
    """Folder for all state and caches; unset means the XDG state and cache folders."""

    profile: str = Field(default="default", min_length=1)
    """Which disclosure profile a toolbox uses: `default`, one of the five designs, or your own."""

    context_window_tokens: int = Field(default=200_000, gt=0)
    """The model's context window; a catalog that fits in a tenth of it is shown in full."""

    embedder: str = "use"
    """The embedder: `use` (bundled), `none`, `onnx:…`, `openai:…`; several as `a+b`."""

    ranker_times: bool = False
    """Whether every ranker of a search is timed: `search_arm` events, and `/metrics`."""

    counter: str = "auto"
    """How tokens are counted: `auto`, `o200k_base`, `cl100k_base` or `estimate`."""

    # Left out of repr(), since a URL may have a password.
    store: StoreName = Field(default="sqlite", min_length=1, repr=False)
    """Where state is kept: `sqlite`, `memory`, the path of an SQLite file, or `postgresql://…`."""

    key_store: Literal["file", "keyring"] = "file"
    """Where the key is that encrypts login tokens: a `file` in the state folder, or `keyring`."""

    busy_timeout_seconds: float = Field(default=5.0, ge=0)
    """How long to wait for another process that is writing to the store."""

    max_sessions: int = Field(default=4_096, gt=0)
    """How many sessions are kept; the least recently used is dropped first."""

    session_ttl_days: float = Field(default=30.0, ge=0)
    """After how many days without use a session expires; 0 means never."""

    max_loaded: int = Field(default=0, ge=0)
    """How many tools one session keeps loaded, newest first; 0 means no limit."""

    clear_on_compaction: bool = False
    """Whether compacting a conversation unloads its tools."""

    record: Literal["off", "shape", "full"] = "shape"
    """How the journal records requests: `shape` (keys, types, lengths), `full` text, or `off`."""

    journal_days: float = Field(default=30.0, ge=0)
    """After how many days a row is deleted from the journal; 0 means never."""

    journal_max_mb: float = Field(default=200.0, gt=0)
    """How large the journal may grow, in megabytes; the oldest rows are dropped first."""

    journal_chain: bool | None = None
    """Whether the journal has a hash chain; unset means as its file is, `false` ends the chain."""

    journal_key: str = ""
    """Where the key of that chain is: `env:NAME` or `file:PATH`; unset means without a key."""

    learning: Literal["on", "off", "shadow"] = "on"
    """Whether search learns from calls: `on`, `off`, or `shadow`, which only measures the gain."""

    start_timeout_seconds: float = Field(default=10.0, ge=0)
    """How long to wait at start for sources to list their tools; slower ones are added later."""

    call_timeout_seconds: float = Field(default=60.0, gt=0)
    """How long a tool may run before its call ends with an error."""

    approval_ttl_hours: float = Field(default=24.0, gt=0)
    """How long a call that is held for approval can still be approved."""

    question_ttl_minutes: float = Field(default=10.0, gt=0)
    """How long a call waits for the user's answer to a question of its tool."""

    rules: PathList = ()
    """Rules for using tools: folders, or Markdown files; several as `a:b` in the environment."""

    skills: PathList = ()
    """Folders of skills; several as `a:b` in the environment."""

    overlay: FilePath | None = None
    """A TOML or JSONL file with phrases and aliases of tools, read again when it changes."""

    code: bool = False
    """Whether the model may also call tools from a program, with `run_code`; the extra `code`."""

    code_cpu_seconds: float = Field(default=5.0, gt=0)
    """How long a program may compute; waiting for tools does not count."""

    code_sleep_seconds: float = Field(default=30.0, gt=0)
    """How long a program may sleep in all."""

    code_memory_mb: float = Field(default=64.0, gt=0)
    """How much memory a program may use, in megabytes."""

    code_calls: int = Field(default=200, gt=0)
    """How many calls a program may make."""

    code_parallel_calls: int = Field(default=50, gt=0)
    """How many calls of a program may run at the same time."""

    memory: bool = False
    """Whether conversations remember the entities in results, and the tools they used."""

    large_outputs: bool | None = None
    """Whether large results are stored and read in parts; unset means the profile decides."""

    @classmethod
    def read(
        cls,
        file: str | Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> Self:
        """Merge all layers; an argument that is None counts as not given."""
        environment = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        # Later layers override earlier ones. The origin of each value goes into error messages.
        for name, value, origin in (
            *_from_file(Path(file) if file else find_settings_file(environment)),
            *_from_environment(environment, cls),
            *((n, v, f"the argument {n}") for n, v in arguments.items() if v is not None),
        ):
            values[name], origins[name] = value, origin
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise _setting_error(error, origins, cls) from error

    @property
    def state_folder(self) -> Path:
        """The folder for sessions, pins and the journal."""
        return (
            self.home / "state" if self.home else user_folder("XDG_STATE_HOME", ".local", "state")
        )

    @property
    def cache_folder(self) -> Path:
        """The folder for vectors and tool lists; everything in it can be rebuilt."""
        return self.home / "cache" if self.home else user_folder("XDG_CACHE_HOME", ".cache")

    @property
    def session_ttl_seconds(self) -> float | None:
        """`session_ttl_days` in seconds; None if sessions never expire."""
        return self.session_ttl_days * 86_400 or None


def settings_table() -> str:
    """All settings as a Markdown table, for the documentation and for `--help`."""
    lines = ["| setting | environment | default | meaning |", "|---|---|---|---|"]
    for name, info in Config.model_fields.items():
        default = (
            "unset" if info.default in (None, (), "") else f"`{_format_default(info.default)}`"
        )
        description = _setting_descriptions().get(name, "")
        lines.append(f"| `{name}` | `{PREFIX}{name.upper()}` | {default} | {description} |")
    return "\n".join(lines)


@cache
def _setting_descriptions() -> dict[str, str]:
    """The docstring under each setting of Config."""
    # Python does not keep docstrings of attributes, so they are parsed from the source, and only
    # on demand: most starts do not need them.
    try:
        source = getsource(Config)
    except OSError:  # installed without its source
        return {}
    [settings] = ast.parse(source).body
    assert isinstance(settings, ast.ClassDef)
    return {
        setting.target.id: str(below.value.value)
        for setting, below in pairwise(settings.body)
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def _format_default(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from_file(path: Path | None) -> Iterator[tuple[str, Any, str]]:
    if path is None:
        return
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8")).get(TABLE, {})
    except OSError as error:
        raise ConfigError(
            f"The settings file {path} cannot be read: {error.strerror}.",
            hint=f"Name another file with {FILE_VARIABLE}, or unset it.",
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"The settings file {path} is not TOML: {error}.", hint="Fix that line."
        ) from error
    if not isinstance(table, dict):
        raise ConfigError(
            f"In {path}, {TABLE!r} is not a table.", hint=f"Write settings under [{TABLE}]."
        )
    for name, value in cast("dict[str, Any]", table).items():
        known = resolve_paths(value, path.parent) if name in _PATH_SETTINGS else value
        if name == "overlay" and isinstance(value, str):
            known = resolve_path(value, path.parent)
        yield name, known, f"{path}, [{TABLE}] {name}"


def resolve_path(value: str | Path, folder: Path) -> Path:
    """A path; a relative one is relative to a folder, unless it begins with `~`."""
    return Path(value) if str(value).startswith("~") else folder / value


def resolve_paths(value: Any, folder: Path) -> Any:
    """Paths, of which relative ones are relative to a folder."""
    try:
        paths = split_paths(value)
    except RuntimeError:  # validation reports the error
        return value
    if not isinstance(paths, list):
        return value
    items = cast("list[object]", paths)
    return [folder / item if isinstance(item, Path) else item for item in items]


def _from_environment(
    environment: Mapping[str, str], config: type[Config]
) -> Iterator[tuple[str, Any, str]]:
    known = {f"{PREFIX}{name.upper()}": name for name in config.model_fields}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or not text:
            continue
        if variable in known:
            yield known[variable], text, f"the environment variable {variable}"
        elif variable != FILE_VARIABLE and (near := get_close_matches(variable, known, 1, 0.9)):
            # Other parts of Toolscout have variables of their own (TOOLSCOUT_TOKEN), so only a name
            # that is close to a setting counts as a typo.
            raise ConfigError(f"There is no setting {variable}.", hint=f"Did you mean {near[0]}?")


def _require_known(name: str, where: str, config: type[Config]) -> None:
    if name in config.model_fields:
        return
    near = get_close_matches(name, config.model_fields, 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(config.model_fields)}."
    raise ConfigError(f"There is no setting {name!r} ({where}).", hint=hint)


def _setting_error(
    error: ValidationError, origins: Mapping[str, str], config: type[Config]
) -> ConfigError:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    origin = origins.get(name, "the defaults")
    _require_known(name, origin, config)
    meaning = _setting_descriptions().get(name, "")
    return ConfigError(
        f"The setting {name} is {repr(first['input'])[:80]}, from {origin}: {first['msg']}.",
        hint=f"Meaning: {meaning}",
    )
