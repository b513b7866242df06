"""Numbers in options, with an error that says what they are."""

from __future__ import annotations

import click


class WholeNumber(click.IntRange):
    """A whole number within limits."""

    name = "whole number"
