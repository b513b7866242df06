"""Surfaces: the ways in which a found tool becomes callable."""

from __future__ import annotations

from typing import Literal

SurfaceChoice = Literal["auto", "load", "dispatch", "native"]
"""The surface a profile asks for; `auto` takes the cheapest one that the model supports."""

Surface = Literal["direct", "load", "dispatch", "native"]
"""The surface a view has.

`direct`: everything is in view, there is nothing to find. `load`: found tools join the tool
list. `dispatch`: the list never changes, found tools run through `call_tool`. `native`: the
provider defers and loads tools, found by its own search or by ours.
"""

Mechanism = Literal[
    "", "anthropic_bm25", "anthropic_regex", "anthropic_client", "openai_hosted", "openai_client"
]
"""The provider feature that finds or loads tools; empty means our discovery tools alone."""

# Anthropic loads `tool_reference` blocks from the result of our search, OpenAI the definitions in
# a `tool_search_output`.
CLIENT_MECHANISMS = frozenset({"anthropic_client", "openai_client"})
"""Mechanisms where we answer the search and the provider loads the tools in our answer."""

REFERENCE_MECHANISMS = frozenset({"anthropic_client"})
"""Client mechanisms whose answers refer to definitions that are deferred in the tool list."""
