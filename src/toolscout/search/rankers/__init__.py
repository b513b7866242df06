"""The rankers of search: each scores tools on its own and says how far to trust it."""
