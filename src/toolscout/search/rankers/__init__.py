"""The arms of search; each ranks on its own and says how far it can be trusted."""
