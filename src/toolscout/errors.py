"""All exceptions of Toolscout, in one tree.

    ToolscoutError
    ├── ConfigError                a setting, a flag or a configuration file is wrong
    ├── MissingExtraError          an optional part is not installed
    ├── CatalogError               tools cannot be read or conflict with each other
    │   ├── SourceError            a source of tools cannot be read or reached
    │   │   └── StartingError      servers that may have the tool are still starting
    │   ├── SchemaError            a JSON schema is invalid
    │   └── InvalidCatalogError    validation found problems; all of them are listed
    ├── QueryError                 a query cannot be parsed; says where and what to write
    ├── EmbedderError              an embedder failed
    ├── StoreError                 stored data cannot be read or written
    │   └── DamagedStoreError      the file of a store is damaged
    ├── ClosedError                a toolbox is used after it was closed
    ├── CallError                  a tool call failed
    │   ├── UnknownToolError       no tool has that name, or the caller may not use it
    │   ├── InvalidArgumentsError  the arguments do not match the tool's schema
    │   ├── NotLoadedError         the tool exists but is not loaded
    │   └── CallRefusedError       policy or the user refused the call
    └── ModelError                 a model service failed

Each class has a stable `code` that scripts and models can rely on; the text may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import ClassVar


class ToolscoutError(Exception):
    """The root of all errors: what happened (`message`), and what to do next (`hint`)."""

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


class MissingExtraError(ToolscoutError):
    """An optional part is not installed; the hint is the pip command."""

    code = "missing_extra"


class CatalogError(ToolscoutError):
    """Tools cannot be read or conflict with each other."""

    code = "catalog"


class SourceError(CatalogError):
    """A source of tools cannot be read or reached."""

    code = "source"


class StartingError(SourceError):
    """Servers that may have the tool are still starting; `servers` are their names."""

    code = "starting"

    def __init__(self, message: str, *, servers: Sequence[str], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.servers = tuple(servers)


class SchemaError(CatalogError):
    """A JSON schema is invalid."""

    code = "schema"


class InvalidCatalogError(CatalogError):
    """Validation found problems; `problems` lists all of them."""

    code = "invalid_catalog"

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        bullets = "".join(f"\n- {problem}" for problem in self.problems)
        super().__init__(
            f"The catalog has {count} problem{'' if count == 1 else 's'}:{bullets}", hint=hint
        )


class QueryError(ToolscoutError):
    """A query cannot be parsed; `position` is the index of the offending character."""

    code = "query"

    def __init__(self, message: str, *, position: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.position = position

    def __str__(self) -> str:
        return f"{self.message} (at character {self.position + 1}). {self.hint}".rstrip()


class EmbedderError(ToolscoutError):
    """An embedder failed; `is_transient` means that the same texts may work later."""

    code = "embedder"

    def __init__(self, message: str, *, hint: str = "", is_transient: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_transient = is_transient


class StoreError(ToolscoutError):
    """Stored data cannot be read or written."""

    code = "store"


class DamagedStoreError(StoreError):
    """The file of a store is damaged; trying again does not help."""


class ClosedError(ToolscoutError):
    """A toolbox is used after it was closed."""

    code = "closed"


class CallError(ToolscoutError):
    """A tool call failed."""

    code = "call"


class UnknownToolError(CallError):
    """No tool has that name, or the caller may not use it."""

    # One error for both, so that a caller cannot find out the names of forbidden tools.
    code = "unknown_tool"


class InvalidArgumentsError(CallError):
    """The arguments do not match the tool's schema."""

    code = "invalid_arguments"


class NotLoadedError(CallError):
    """The tool exists but is not loaded."""

    code = "not_loaded"


class CallRefusedError(CallError):
    """Policy or the user refused the call."""

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
    """Import an optional dependency, or raise MissingExtraError with the pip command."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is not installed.", hint=f"Run: pip install 'toolscout[{extra}]'"
        ) from error
