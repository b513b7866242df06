"""Which tools fit a query, and how sure that is."""
