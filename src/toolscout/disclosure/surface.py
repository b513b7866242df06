"""How a found tool becomes callable."""

from __future__ import annotations

from typing import Literal

SurfaceChoice = Literal["auto", "load", "dispatch", "native"]
"""What a profile asks for: `auto` lets the figures for the provider decide."""

Surface = Literal["direct", "load", "dispatch", "native"]
"""What a view really is.

`direct`: everything is in view, nothing needs finding. `load`: found tools join the tool list.
`dispatch`: the list never changes, found tools are run through `call_tool`. `native`: the
provider defers and loads, by its own search or by ours.
"""

Mechanism = Literal[
    "", "anthropic_bm25", "anthropic_regex", "anthropic_client", "openai_hosted", "openai_client"
]
"""What of a provider's own finds or loads tools; empty means our discovery tools alone."""

CLIENT_MECHANISMS = frozenset({"anthropic_client", "openai_client"})
"""The mechanisms by which a provider takes tools from an answer of ours."""

REFERENCE_MECHANISMS = frozenset({"anthropic_client"})
"""Those of them whose answers refer to definitions that stand in the list and wait there."""
