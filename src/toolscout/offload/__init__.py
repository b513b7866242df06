"""Large results, stored and replaced by previews, and read back by range, search and jq."""
