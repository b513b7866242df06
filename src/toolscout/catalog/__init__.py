"""Tools, catalogs, and the sources they come from."""
