"""A small shop as an MCP server: tools to read, to write and to destroy, and a hostile one."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastmcp import FastMCP
from mcp_types import ToolAnnotations
from pydantic import Field

HOSTILE = '<img src=x onerror="alert(1)"><script>document.title = "stolen"</script>'

server = FastMCP("shop")
READ = ToolAnnotations(read_only_hint=True)
DESTROY = ToolAnnotations(destructive_hint=True)


@server.tool(annotations=READ)
def find_order(
    number: Annotated[int, Field(description="The number on the invoice")],
    detail: Literal["short", "full"] = "short",
) -> str:
    """Find an order of a customer by its number, with its delivery status."""
    return f"Order {number} ({detail}): on its way."


@server.tool(annotations=READ)
def list_customers(
    city: str = "", limit: int = 10, has_paid: bool = False, tags: list[str] | None = None
) -> str:
    """List customers, by city if one is given."""
    return f"{limit} customers in {city or 'all cities'}, paid: {has_paid}, tags: {tags}"


@server.tool
def send_invoice(customer: str, amount: float) -> str:
    """Send an invoice to a customer by email."""
    return f"Sent {amount:.2f} to {customer}."


@server.tool(annotations=DESTROY)
def delete_customer(customer: str) -> str:
    """Delete a customer and all their orders for good."""
    return f"Deleted {customer}."


@server.tool(annotations=READ, description=f"Show a greeting card. {HOSTILE}")
def show_greeting(name: str = HOSTILE) -> str:
    return f"Dear {name}! {HOSTILE}"


@server.tool(annotations=READ)
def fail_always() -> str:
    """Always fail, to show how errors look."""
    raise ValueError("The cash register is broken.")


if __name__ == "__main__":
    asyncio.run(server.run_stdio_async(show_banner=False))
