"""Key-value stores for versioned JSON texts: in memory or in SQLite."""
