"""Prompts that are the same for every catalog.

Nothing is imported here: the gateway answers a client with these before it has loaded the rest.
"""

from __future__ import annotations

DISPATCH_CALL = "Run the tools it finds with `call_tool`."
"""How to use a tool that was found on the `dispatch` surface."""


def deferred_tools_text(search: str, how_to_call: str) -> str:
    """Say that more tools exist, and how to find and call them."""
    return (
        "More tools exist than are in your list. Before you say that something cannot be done, or "
        f"work around it, look for a tool with `{search}`. {how_to_call}"
    )


def discovery_text(search: str) -> str:
    """A short section in tags: describe the need, rules are included, or answer directly."""
    return (
        "<tool-discovery>\n"
        f"Use **{search}** to find the tools you need:\n"
        "- Say in natural language what you want to do.\n"
        "- You get fitting tools together with the rules for using them.\n"
        "- Search again whenever you need something more.\n\n"
        "If you can answer without tools, answer directly.\n"
        "</tool-discovery>"
    )


def stub_text(search: str) -> str:
    """One paragraph: names are visible, schemas are hidden, and how to get them."""
    return (
        "Most tools are listed with name and description only; their parameter schemas are hidden "
        f"to save context. Before you call a tool whose parameters you have not seen, call "
        f'`{search}` with a short query such as "read file" or "send email"; it returns '
        "the schemas, and then you can call the tool. Frequently used tools keep their full "
        "schemas and need no search."
    )
