"""The command line: `toolscout`, with one module a command."""

from .app import main

__all__ = ["main"]
