"""Search: which tools fit a query, and with what confidence."""
