"""Large results kept aside, and read back by range, search and jq."""
