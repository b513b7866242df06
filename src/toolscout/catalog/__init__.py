"""What exists: tools, catalogs, and the places they come from."""
