"""The `toolscout` command line, with one module per command."""

from .app import main

__all__ = ["main"]
