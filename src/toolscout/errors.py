"""Every failure Toolscout names, in one tree.

    ToolscoutError
    ├── ConfigError            a setting, a flag or a configuration file is wrong
    ├── MissingExtra           an optional part is not installed
    ├── CatalogError           tools could not be read or do not fit together
    │   ├── SourceError        a place that tools come from cannot be read
    │   ├── SchemaError        a JSON schema is not one
    │   └── InvalidCatalog     validation found problems; all of them are listed
    ├── QueryError             a query cannot be read; says where and what to write
    ├── EmbedderError          vectors cannot be had
    ├── StoreError             what is kept cannot be read or written
    ├── CallError              a tool call that did not succeed
    │   ├── UnknownTool        no tool of that name, or none this caller may use
    │   ├── InvalidArguments   the arguments do not fit the tool's schema
    │   ├── NotLoaded          the tool exists but is not in view
    │   └── CallRefused        policy or the user said no
    └── ModelError             a model service failed

Each class has a stable `code`, which scripts and models may rely on; the text may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import ClassVar


class ToolscoutError(Exception):
    """The root: what happened, and what to do next."""

    code: ClassVar[str] = "toolscout"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class ConfigError(ToolscoutError):
    """A setting, a flag or a configuration file is wrong."""

    code = "config"


class MissingExtra(ToolscoutError):
    """An optional part is not installed; the message carries the pip command."""

    code = "missing_extra"


class CatalogError(ToolscoutError):
    """Tools could not be read or do not fit together."""

    code = "catalog"


class SourceError(CatalogError):
    """A place that tools come from cannot be read."""

    code = "source"


class SchemaError(CatalogError):
    """A JSON schema is not one."""

    code = "schema"


class InvalidCatalog(CatalogError):
    """Validation found problems; `problems` has every one of them, in words."""

    code = "invalid_catalog"

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        listed = "".join(f"\n- {problem}" for problem in self.problems)
        super().__init__(
            f"The catalog has {count} problem{'' if count == 1 else 's'}:{listed}", hint=hint
        )


class QueryError(ToolscoutError):
    """A query cannot be read; `position` is the offending character's index."""

    code = "query"

    def __init__(self, message: str, *, position: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.position = position

    def __str__(self) -> str:
        return f"{self.message} (at character {self.position + 1}). {self.hint}".rstrip()


class EmbedderError(ToolscoutError):
    """Vectors cannot be had; `is_transient` means that the same texts may work later."""

    code = "embedder"

    def __init__(self, message: str, *, hint: str = "", is_transient: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_transient = is_transient


class StoreError(ToolscoutError):
    """What is kept cannot be read or written."""

    code = "store"


class CallError(ToolscoutError):
    """A tool call that did not succeed."""

    code = "call"


class UnknownTool(CallError):
    """No tool of that name, or none this caller may use."""

    code = "unknown_tool"


class InvalidArguments(CallError):
    """The arguments do not fit the tool's schema."""

    code = "invalid_arguments"


class NotLoaded(CallError):
    """The tool exists but is not in view."""

    code = "not_loaded"


class CallRefused(CallError):
    """Policy or the user said no."""

    code = "refused"


class ModelError(ToolscoutError):
    """A model service failed; `is_transient` means that the same request may work later."""

    code = "model"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        is_transient: bool = False,
        wait_seconds: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.is_transient = is_transient
        self.wait_seconds = wait_seconds


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which pip command brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{module} is not installed.", hint=f"Run: pip install 'toolscout[{extra}]'"
        ) from error
