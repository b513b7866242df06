"""Stores for versioned JSON texts by key, and for the rows of the journal: memory or SQLite."""
